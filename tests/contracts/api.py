"""Public names and signatures, as text: `tests/contracts/api.txt` is compared with it.

After a change of a public name or signature: a line in CHANGELOG.md, then

    python -m tests.contracts.api --write
"""

from __future__ import annotations

import abc
import importlib
import inspect
import pkgutil
import sys
import types
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Generic, Protocol

import ipseval

FILE = Path(__file__).with_name("api.txt")
WIDTH = 100  # a longer signature has lines of parameters below it


@cache
def public_modules() -> list[str]:
    """Return the modules that users import: without an underscore in their path, with a list of names."""
    every = (package.name for package in pkgutil.walk_packages(ipseval.__path__, "ipseval."))
    public = [name for name in sorted(every) if "._" not in name]
    return ["ipseval", *(name for name in public if hasattr(importlib.import_module(name), "__all__"))]


def homes() -> dict[Any, str]:
    """Return the public name of every class and function: that of its own module, if it has one there."""
    found: dict[Any, str] = {}
    for module in map(importlib.import_module, public_modules()):
        for name in module.__all__:
            one = getattr(module, name)
            at_home = f"{getattr(one, '__module__', '')}.".startswith(f"{module.__name__}.")
            if (inspect.isclass(one) or inspect.isfunction(one)) and (at_home or one not in found):
                found[one] = f"{module.__name__}.{name}"
    return found


def lines() -> Iterator[str]:
    """Yield the lines of the snapshot."""
    known = homes()
    for name in public_modules():
        module = importlib.import_module(name)
        yield f"{name}"
        for member in module.__all__:
            yield from (f"    {line}" for line in described(member, getattr(module, member), name, known))
        yield ""


def described(name: str, one: Any, module: str, known: Mapping[Any, str]) -> Iterator[str]:
    """Yield the lines of one name of a module."""
    if isinstance(one, types.ModuleType):
        yield f"{name} = module {one.__name__}"
    elif hasattr(one, "__pytest_wrapped__") or hasattr(one, "_fixture_function"):
        yield f"{name}: fixture of pytest"
    elif inspect.isclass(one) or inspect.isfunction(one):
        if known[one] != f"{module}.{name}":
            yield f"{name} = {known[one]}"
        elif inspect.isclass(one):
            yield from of_class(name, one, known)
        else:
            yield from signature(f"def {name}", one)
    elif isinstance(one, Mapping):
        yield f"{name}: {type(one).__name__} of {', '.join(map(str, one))}"
    elif name == "__version__":
        yield "__version__: str"
    else:
        alias = hasattr(one, "__origin__") or isinstance(one, types.UnionType)
        kind = "type alias" if alias else type(one).__name__
        yield f"{name} = {one!r}" if plain(one) else f"{name}: {kind}"


def plain(value: Any) -> bool:
    """Return whether a value is printed alike everywhere."""
    if isinstance(value, (tuple, list)):
        return all(map(plain, value))
    return value is None or type(value) in (bool, int, float, str)


def of_class(name: str, one: type, known: Mapping[Any, str]) -> Iterator[str]:
    """Yield a class: its public bases, how it is made, attributes, properties and methods.

    What a private base defines stands here; what a public base defines stands there.
    """
    bases = [base for base in one.__mro__[1:] if base in known or not (ours(base) or base in SILENT)]
    nearest = [base for base in bases if not any(base in base_class.__mro__[1:] for base_class in bases)]
    shown = [known.get(base, base.__name__) for base in nearest]
    yield f"class {name}({', '.join(shown)})" if shown else f"class {name}"
    mine = [base for base in one.__mro__ if base is one or (ours(base) and base not in known)]
    made = any("__init__" in vars(base) for base in mine) and Protocol not in one.__bases__
    if made:
        yield from (f"    {line}" for line in signature("made by", one))
    members: dict[str, list[str]] = {}
    for base in reversed(mine):
        for attribute, annotation in inspect.get_annotations(base).items():
            if not (made and attribute in inspect.signature(one).parameters):
                members[attribute] = [f"{attribute}: {annotation}"]
        for attribute, member in vars(base).items():
            if text := list(of_member(attribute, member)):
                members[attribute] = text
    for attribute in sorted(members):
        if not attribute.startswith("_") or attribute in OPERATORS:
            yield from (f"    {line}" for line in members[attribute])


OPERATORS = ("__call__", "__contains__", "__getitem__", "__iter__", "__len__", "__sub__")
SILENT = (object, abc.ABC, Generic, Protocol)


def ours(one: type) -> bool:
    """Return whether a class is of this package."""
    return one.__module__.partition(".")[0] == "ipseval"


def of_member(name: str, member: Any) -> Iterator[str]:
    """Yield the lines of a property or method; nothing of other attributes, which have annotations."""
    if isinstance(member, (staticmethod, classmethod)):
        yield from signature(f"{type(member).__name__} {name}", member.__func__)
    elif isinstance(member, property):
        yield f"{name}: {inspect.signature(member.fget).return_annotation}  (property)"  # type: ignore[arg-type]
    elif hasattr(member, "func") and hasattr(member, "attrname"):  # cached_property
        yield f"{name}: {inspect.signature(member.func).return_annotation}  (property)"
    elif inspect.isfunction(member):
        yield from signature(f"def {name}", member)


def signature(head: str, one: Any) -> Iterator[str]:
    """Yield a signature, on one line or with its parameters in lines below it."""
    found = inspect.signature(one)
    parts: list[str] = []
    for each in found.parameters.values():
        if each.name.startswith("_"):
            continue
        if each.kind is each.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        if each.name not in ("self", "cls"):
            parts.append(parameter(each))
        if each.kind is each.POSITIONAL_ONLY:
            parts = [part for part in parts if part != "/"] + ["/"]
    silent = inspect.isclass(one) or found.return_annotation is found.empty
    returns = "" if silent else f" -> {found.return_annotation}"
    line = f"{head}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        yield line
    else:
        yield f"{head}{returns}"
        row = ""
        for part in parts:
            if row and len(f"{row}, {part}") > WIDTH:
                yield f"    {row},"
                row = part
            else:
                row = f"{row}, {part}" if row else part
        yield f"    {row}"


def parameter(one: inspect.Parameter) -> str:
    """Return a parameter with annotation and default."""
    star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    text = f"{star}{one.name}" + ("" if one.annotation is one.empty else f": {one.annotation}")
    return text if one.default is one.empty else f"{text} = {default(one.default)}"


def default(value: Any) -> str:
    """Return a default value without the address of an object."""
    if plain(value):
        return repr(value)
    if "FACTORY" in type(value).__name__:  # of a dataclass
        return "a new one"
    return getattr(value, "__name__", f"{type(value).__name__}()")


def snapshot() -> str:
    """Return the text of the snapshot."""
    return "\n".join(lines())


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    FILE.write_text(snapshot(), encoding="utf-8")
    print(f"{FILE.name}: {len(snapshot().splitlines())} lines")
