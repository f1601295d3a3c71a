"""Values of the library as plain JSON and arrays, and back: how evaluations and ranks are stored."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from ipseval._artefacts import array_digest, read_archive, reading, write_archive
from ipseval._types import AnyArray
from ipseval.errors import InputError

Stored = TypeVar("Stored")
_PLAIN = (bool, int, float, str, type(None))
PACKAGE = __name__.partition(".")[0]
# Digest -> place and array, in the order in which they are met, each content once.
_Found = dict[str, tuple[int, AnyArray]]


def save(path: str | os.PathLike[str], kind: str, value: Any, **about: Any) -> None:
    """Write a value with what is said `about` it; nothing is pickled.

    Dataclasses of the library are stored by their fields, without caches; of an object of the caller's own,
    what a file can hold: see `NotStored`.
    """
    found: _Found = {}
    header = {"about": about, "value": _encode(value, found)}
    write_archive(path, kind, header, [array for _, array in found.values()])


def load(path: str | os.PathLike[str], kind: str, advice: str) -> tuple[Any, dict[str, Any]]:
    """Return the value that `save` has written, equal in every bit, and what was said about it."""
    header, arrays = read_archive(path, kind, advice)
    written = f"It was written by ipseval {header.get('ipseval')}. {advice}"
    with reading(path, written):
        about = {"ipseval": header["ipseval"], **header["about"]}
        return _decode(header["value"], arrays), about


def load_one(path: str | os.PathLike[str], kind: str, cls: type[Stored], what: str) -> Stored:
    """Return the value of a class that `save` has written, or raise `InputError` where there is another."""
    found = load(path, kind, "Evaluate again and save it.")[0]
    if not isinstance(found, cls):
        raise InputError(f"{path} holds no {what}.")
    return found


class NotStored:
    """What a file keeps of an object of the caller's own: its plain attributes and its printed form.

    Its code is not in the file: what needs to run it raises `InputError`.
    """

    def __init__(self, described: str, kept: Mapping[str, Any]) -> None:
        self._described = described
        self.__dict__.update(kept)

    def __repr__(self) -> str:
        return self._described

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotStoredError(
            f"{self._described} is an object of your own: the file holds what it gave, not its code, so "
            f"{name!r} is not there. Evaluate again to go on with it."
        )


class NotStoredError(InputError, AttributeError):
    """What a stored object lacks; an AttributeError too, so that `hasattr` and `getattr` see it."""


def _encode(value: Any, found: _Found) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray):
        return {"array": found.setdefault(array_digest(value), (len(found), value))[0]}
    if isinstance(value, np.generic):
        return {"scalar": _encode(np.asarray(value), found)["array"]}
    if isinstance(value, (list, tuple)):
        content = [_encode(one, found) for one in value]
        return content if type(value) is list else {"tuple": content}
    if isinstance(value, Mapping):
        return {"dict": [[_encode(key, found), _encode(one, found)] for key, one in value.items()]}
    kind = type(value)
    if is_dataclass(value) and kind.__module__.partition(".")[0] == PACKAGE:
        stored = {
            field.name: _encode(getattr(value, field.name), found)
            for field in fields(value)
            if field.init and not field.name.startswith("_")
        }
        return {"class": f"{kind.__module__}:{kind.__name__}", "fields": stored}
    return {"described": repr(value), "kept": _encode(_plain_attributes(value), found)}


def _plain_attributes(value: Any) -> dict[str, Any]:
    """Return the public attributes of an object that are text, numbers or truth values."""
    found = {}
    for name in dir(value):
        if not name.startswith("_"):
            try:
                one = getattr(value, name)
            except Exception:  # a property of the caller's own may raise anything
                continue
            parts = one if isinstance(one, tuple) else (one,)
            if is_dataclass(one) or all(isinstance(part, _PLAIN) for part in parts):
                found[name] = one
    return found


def _decode(value: Any, arrays: Sequence[AnyArray]) -> Any:
    if isinstance(value, list):
        return [_decode(one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "scalar" in value:
        return arrays[value["scalar"]][()]
    if "tuple" in value:
        return tuple(_decode(value["tuple"], arrays))
    if "dict" in value:
        return {_decode(key, arrays): _decode(one, arrays) for key, one in value["dict"]}
    if "described" in value:
        return NotStored(value["described"], _decode(value["kept"], arrays))
    given = {name: _decode(one, arrays) for name, one in value["fields"].items()}
    return _class(value["class"])(**given)


def _class(name: str) -> Any:
    """Return a dataclass of this library by name; nothing else is imported."""
    module, _, kind = name.partition(":")
    if module.partition(".")[0] != PACKAGE or module.endswith("__main__"):
        raise ValueError(f"{name} is no class of this library")
    found = getattr(importlib.import_module(module), kind)
    if not (isinstance(found, type) and is_dataclass(found) and found.__module__ == module):
        raise ValueError(f"{name} is no class of this library")
    return found
