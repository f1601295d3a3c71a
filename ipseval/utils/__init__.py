"""The ground: types, checks, ids, columns, counts, files, the codec of results, the border."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ipseval.errors import hint


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: name -> the module that has it, "" for a module of that name."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}. {hint(name)}".rstrip(". "))
        home = homes[name]
        module = importlib.import_module(f"{package}.{home or name}")
        value = getattr(module, name) if home else module
        setattr(sys.modules[package], name, value)
        return value

    return load
