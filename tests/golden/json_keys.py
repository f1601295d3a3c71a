"""Which keys a JSON document has, with the types of their values."""

from __future__ import annotations

from typing import Any

TYPES = {str: "text", bool: "boolean", int: "integer", float: "number", list: "list", dict: "object"}


def collect_keys(value: Any, path: str = "") -> dict[str, set[str]]:
    """Return key -> types of its values, such as {"estimates[].estimate": {"number", "null"}}."""
    keys: dict[str, set[str]] = {}
    if path and not path.endswith("[]"):
        keys[path] = {"null" if value is None else TYPES[type(value)]}
    if isinstance(value, dict):
        children = [(f"{path}.{key}" if path else key, inner) for key, inner in value.items()]
    elif isinstance(value, list):
        children = [(f"{path}[]", inner) for inner in value]
    else:
        return keys
    for name, inner in children:
        for key, types in collect_keys(inner, name).items():
            keys.setdefault(key, set()).update(types)
    return keys
