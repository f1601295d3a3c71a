"""Findings of numpydoc in the docstrings of public names: `tests/contracts/docstrings.txt` lists what is ignored.

The list may only shrink. After mending docstrings:

    python -m tests.contracts.docstrings --write
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ipseval
from tests.contracts.api import homes

FILE = Path(__file__).with_name("docstrings.txt")
# No docstring; summary without a period, or in the third person; parameters that are missing, unknown or not
# described; no section of returned values, or one without a description; no section See Also or Examples.
CODES = ("GL08", "SS03", "SS05", "PR01", "PR02", "PR07", "RT01", "RT03", "SA01", "EX01")
CLASS_SECTIONS = ("SA01", "EX01")  # those of a class may serve its methods


def is_exception(value: Any) -> bool:
    """Return whether a public name is an exception or a warning."""
    return inspect.isclass(value) and issubclass(value, BaseException)


def is_checked(value: Any) -> bool:
    """Return whether a public name is a function or class of the library, and no fixture of pytest."""
    is_object = inspect.isclass(value) or inspect.isfunction(value)
    return is_object and not is_exception(value) and not value.__name__.startswith("pytest_")


def top_names() -> dict[str, Any]:
    """Return the functions and classes at the top of the package."""
    values = {name: getattr(ipseval, name) for name in ipseval.__all__}
    return {f"ipseval.{name}": value for name, value in values.items() if is_checked(value)}


def other_names() -> dict[str, Any]:
    """Return the functions and classes of public modules that are not at the top."""
    at_top = set(top_names().values())
    return {name: value for value, name in homes().items() if is_checked(value) and value not in at_top}


def method_names() -> dict[str, Any]:
    """Return the public methods that public classes define themselves."""
    methods = {}
    for value, name in homes().items():
        if not inspect.isclass(value) or not is_checked(value):
            continue
        for attribute, member in vars(value).items():
            is_method = isinstance(member, (classmethod, staticmethod)) or inspect.isfunction(member)
            if is_method and not attribute.startswith("_"):
                methods[f"{name}.{attribute}"] = getattr(value, attribute)
    return methods


@functools.cache
def findings(value: Any) -> tuple[str, ...]:
    """Return the codes of the findings in one docstring, with their messages."""
    from numpydoc.validate import validate

    errors = validate(f"{value.__module__}.{value.__qualname__}")["errors"]
    return tuple(f"{code} {message}" for code, message in errors if code in CODES)


def codes_of(value: Any, ignored: tuple[str, ...] = ()) -> list[str]:
    """Return the distinct codes of a docstring, in the order of `CODES`."""
    codes = {finding.partition(" ")[0] for finding in findings(value)}
    return [code for code in CODES if code in codes and code not in ignored]


def open_findings() -> dict[str, str]:
    """Return the codes of every name below the top that has findings."""
    codes = {name: codes_of(value) for name, value in other_names().items()}
    codes |= {name: codes_of(value, CLASS_SECTIONS) for name, value in method_names().items()}
    return {name: " ".join(found) for name, found in sorted(codes.items()) if found}


def ignored_findings() -> dict[str, str]:
    """Return the ignore list: name -> codes."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    rows = [line.partition(" | ") for line in lines if line and not line.startswith("#")]
    return {name: codes for name, _, codes in rows}


def references(value: Any) -> Iterator[str]:
    """Yield the names in the section See Also of a docstring."""
    section = re.search(r"^See Also\n-+\n(.*?)(?:\n\n|\Z)", inspect.getdoc(value) or "", re.DOTALL | re.M)
    for line in section[1].splitlines() if section else ():
        if not line.startswith(" "):
            yield from re.split(r",\s*", line.partition(" :")[0])


def resolves(reference: str, value: Any) -> bool:
    """Return whether a reference names something, seen from the module of the docstring or its packages."""
    parts = value.__module__.split(".")
    scopes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    owner = value.__qualname__.rpartition(".")[0]
    names = [f"{scope}.{reference}" for scope in scopes] + [reference]
    if owner:
        names.append(f"{value.__module__}.{owner}.{reference}")
    return any(map(exists, names))


def exists(path: str) -> bool:
    """Return whether a dotted path leads to a module or its attribute."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            target = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for attribute in parts[length:]:
            fields = getattr(target, "__dataclass_fields__", {})
            if attribute not in fields and not hasattr(target, attribute):
                return False
            target = getattr(target, attribute, None)
        return True
    return False


HEADER = """# Docstrings below the top of the package with findings of numpydoc: name | codes. The list may only shrink.
# `python -m tests.contracts.docstrings --write` removes what was mended.
"""


def main() -> None:
    """Print the findings, or write the ignore list."""
    if sys.argv[1:] == ["--write"]:
        rows = [f"{name} | {codes}" for name, codes in open_findings().items()]
        FILE.write_text(HEADER + "\n".join(rows) + "\n", encoding="utf-8")
    names = {**top_names(), **other_names(), **method_names()}
    for name, value in names.items():
        for finding in findings(value):
            print(f"{name}: {finding}")


if __name__ == "__main__":
    main()
