"""Values of the library as plain JSON and arrays, and back: the one way in which they are stored."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.artefacts import (
    array_digest,
    check_is_file,
    read_archive,
    reading,
    writable,
    write_archive,
    writing,
)
from ipseval.utils.types import AnyArray

# Classes that files hold, by the module in which they stand.
PLACES: dict[str, dict[str, str]] = {}
for _line in (Path(__file__).parent / "places.txt").read_text("utf-8").splitlines()[1:]:
    _module, _, _held = _line.partition(": ")
    PLACES.setdefault(f"ipseval.{_module}", {}).update(dict(one.split("=", 1) for one in _held.split()))
CLASSES = {name: f"{module}:{kind}" for module, held in PLACES.items() for name, kind in held.items()}
NAMES = {place: name for name, place in CLASSES.items()}
AGAIN = "Compute the result again and store it with `.save(path)` or `ipseval evaluate --out`."
Value = TypeVar("Value")
_PLAIN = (bool, int, float, str, type(None))
# Digest -> place and array, in the order in which they are met, each content once.
_Found = dict[str, tuple[int, AnyArray]]


def save(path: str | os.PathLike[str], value: Any, **about: Any) -> None:
    """Write a value with what is said `about` it; nothing is pickled."""
    writable(path)
    if Path(path).suffix.lower() != ".npz":
        raise InputError(f"a file of stored results must end in .npz; got {str(path)!r}.")
    with writing(path) as stream:
        write(stream, value, **about)


def load(path: str | os.PathLike[str], cls: type[Value], advice: str = AGAIN) -> tuple[Value, dict[str, Any]]:
    """Return the value of a class that `save` has written, equal in every bit, and what was said about it."""
    with reading(path):
        check_is_file(path)
        with Path(path).open("rb") as stream:
            begins = stream.read(2)
    if begins != b"PK":
        raise InputError(
            f"{path} is no file of stored results, which end in .npz: .json, .html and other reports are "
            f"not read. {advice}"
        )
    value, about = read(path, advice)
    if not isinstance(value, cls):
        wanted, found = (NAMES.get(_place(one), one.__name__) for one in (cls, type(value)))
        raise InputError(f"{path} holds {found!r}, not {wanted!r}.")
    return value, about


def write(stream: IO[bytes], value: Any, **about: Any) -> None:
    """Write a value to a stream, as `save` does to a file."""
    found: _Found = {}
    header = {"about": about, "value": _encode(value, found)}
    write_archive(stream, header, [array for _, array in found.values()])


def read(
    path: str | os.PathLike[str], advice: str, content: bytes | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return the value that is stored in a file, or as `content` inside of it, and what was said about it."""
    header, arrays = read_archive(path, advice, content)
    written = f"It was written by ipseval {header.get('ipseval')}. {advice}"
    with reading(path, written):
        about = {"ipseval": header["ipseval"], **header["about"]}
        return _decode(header["value"], arrays), about


class NotStored:
    """What a file keeps of an object of the caller's own, without its code: attributes and printed form."""

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
    if isinstance(value, pd.DataFrame):
        columns = [[name, str(one.dtype), _entries(one)] for name, one in value.items()]
        return {"frame": _encode(columns, found), "index": _encode(_entries(value.index), found)}
    if _place(type(value)) in NAMES:
        value = value._prepared() if hasattr(value, "_prepared") else value
        stored = {
            one.name: _encode(getattr(value, one.name), found) for one in fields(value) if _is_kept(one)
        }
        return {"class": NAMES[_place(type(value))], "fields": stored}
    return {"described": repr(value), "kept": _encode(_plain_attributes(value), found)}


def _is_kept(field: Field[Any]) -> bool:
    """Return whether a file holds a field: what is private and has a default is computed again."""
    has_default = (field.default, field.default_factory) != (MISSING, MISSING)
    is_stored = field.metadata.get("stored", False)
    computed = field.name.startswith("_") and has_default and not is_stored
    return field.init and not computed


def _entries(column: pd.Series | pd.Index) -> AnyArray | list[Any]:
    """Return the entries of a column: an array of numbers or times, a list of anything else."""
    return column.to_numpy() if column.dtype.kind in "biufmM" else column.tolist()


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
            if _place(type(one)) in NAMES or all(isinstance(part, _PLAIN) for part in parts):
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
    if "frame" in value:
        columns, index = _decode([value["frame"], value["index"]], arrays)
        made = {
            name: pd.Series(one, index, dtype=None if kind == "str" else kind) for name, kind, one in columns
        }
        return pd.DataFrame(made, index, [name for name, *_ in columns])
    if "described" in value:
        return NotStored(value["described"], _decode(value["kept"], arrays))
    # By its name, so that nothing but the places in `CLASSES` is imported.
    name = value["class"]
    stored_fields = value["fields"]
    if name not in CLASSES:
        raise ValueError(f"there is no {name!r} in this version")
    module, _, kind = CLASSES[name].partition(":")
    cls = getattr(importlib.import_module(module), kind)
    unknown_fields = stored_fields.keys() - {field.name for field in fields(cls)}
    if unknown_fields:
        raise ValueError(f"{name} has no {', '.join(sorted(unknown_fields))} in this version")
    return cls(**{field: _decode(content, arrays) for field, content in stored_fields.items()})


def _place(cls: type[Any]) -> str:
    return f"{cls.__module__}:{cls.__name__}"
