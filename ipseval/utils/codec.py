"""Store results as JSON and arrays, and load them, without pickle."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.artefacts import (
    array_digest,
    check_is_file,
    check_writable,
    open_atomically,
    read_archive,
    reading,
    write_archive,
)
from ipseval.utils.stored_classes import FAMILIES, STORED_CLASSES
from ipseval.utils.types import AnyArray

CLASSES = dict(STORED_CLASSES)
NAMES = {place: name for name, place in CLASSES.items()}
AGAIN = "Compute the result again and store it with `.save(path)` or `ipseval evaluate --out`."
Value = TypeVar("Value")
PLAIN_TYPES = (bool, int, float, str, type(None))
ZIP_SIGNATURE = b"PK"
# Digest -> number and array, in the order of their first occurrence; equal arrays are stored once.
_ArraysByDigest = dict[str, tuple[int, AnyArray]]


@cache
def add_members() -> None:
    """Add the metrics and estimators of the library to the classes in files, once."""
    for family, registry_place in FAMILIES.items():
        module, _, registry_name = registry_place.partition(":")
        for cls in getattr(importlib.import_module(module), registry_name):
            place = _qualified_name(cls)
            if place not in NAMES:
                name = f"{family}-{_to_kebab_case(cls.__name__)}"
                NAMES[place] = name
                CLASSES[name] = place


def _to_kebab_case(name: str) -> str:
    """Return "MeanDcg" as "mean-dcg"."""
    return re.sub("(?<!^)(?=[A-Z])", "-", name).lower()


def save(path: str | os.PathLike[str], value: Any, **metadata: Any) -> None:
    """Write a value and plain values as its metadata to a .npz file, without pickle."""
    check_writable(path)
    if Path(path).suffix.lower() != ".npz":
        raise InputError(
            f"a file of stored results must end in .npz; got {str(path)!r}. Name it {Path(path).stem}.npz."
        )
    with open_atomically(path) as stream:
        write(stream, value, **metadata)


def load(path: str | os.PathLike[str], cls: type[Value], advice: str = AGAIN) -> tuple[Value, dict[str, Any]]:
    """Return a value written by `save`, equal in every bit, with the plain values about it."""
    with reading(path):
        check_is_file(path)
        with Path(path).open("rb") as stream:
            first_bytes = stream.read(2)
    if first_bytes != ZIP_SIGNATURE:
        raise InputError(
            f"{path} must be a file of stored results, which end in .npz; .json, .html and other reports "
            f"cannot be loaded. {advice}"
        )
    value, about = read(path, advice)
    if not isinstance(value, cls):
        raise InputError(f"{path} holds {_stored_name(type(value))!r}, not {_stored_name(cls)!r}.")
    return value, about


def write(stream: IO[bytes], value: object, **metadata: object) -> None:
    """Write a value to a stream, as `save` does to a file."""
    arrays: _ArraysByDigest = {}
    header = {"about": metadata, "value": _encode(value, arrays)}
    write_archive(stream, header, [array for _, array in arrays.values()])


def read(
    path: str | os.PathLike[str], advice: str, content: bytes | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return the value stored in a file, or in `content` inside it, with the plain values about it."""
    header, arrays = read_archive(path, advice, content)
    with reading(path, f"It was written by ipseval {header.get('ipseval')}. {advice}"):
        about = {"ipseval": header["ipseval"], **header["about"]}
        return _decode(header["value"], arrays), about


class NotStored:
    """Printed form and plain attributes of an object of a user's class, whose code a file does not hold."""

    def __init__(self, representation: str, attributes: Mapping[str, object]) -> None:
        self._representation = representation
        self.__dict__.update(attributes)

    def __repr__(self) -> str:
        return self._representation

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotStoredError(
            f"{self._representation} is an object of a class outside ipseval, and a file holds its plain attributes "
            f"but not its code, so it has no {name!r}. Evaluate again to use it."
        )


class NotStoredError(InputError, AttributeError):
    """An attribute that a stored object does not have; `hasattr` and `getattr` treat it as missing."""


def _encode(value: object, arrays: _ArraysByDigest) -> Any:
    """Return a value as JSON, with references to arrays, which are collected in `arrays`."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray):
        number, _ = arrays.setdefault(array_digest(value), (len(arrays), value))
        return {"array": number}
    if isinstance(value, np.generic):
        return {"scalar": _encode(np.asarray(value), arrays)["array"]}
    if isinstance(value, list):
        return [_encode(entry, arrays) for entry in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(entry, arrays) for entry in value]}
    if isinstance(value, Mapping):
        return {"dict": _encode_pairs(value, arrays)}
    if isinstance(value, pd.DataFrame):
        return _encode_frame(value, arrays)
    if _has_name(type(value)):
        return _encode_instance(value, arrays)
    return {"described": repr(value), "kept": _encode(_plain_attributes(value), arrays)}


def _encode_pairs(mapping: Mapping[object, object], arrays: _ArraysByDigest) -> list[list[object]]:
    """Return the keys and values of a mapping as pairs, because keys in JSON are only strings."""
    pairs = []
    for key, entry in mapping.items():
        pairs.append([_encode(key, arrays), _encode(entry, arrays)])
    return pairs


def _encode_frame(frame: pd.DataFrame, arrays: _ArraysByDigest) -> dict[str, object]:
    """Return a frame as its index and the name, type and entries of each column."""
    columns = []
    for name, column in frame.items():
        columns.append([name, str(column.dtype), _column_entries(column)])
    return {"frame": _encode(columns, arrays), "index": _encode(_column_entries(frame.index), arrays)}


def _encode_instance(value: Any, arrays: _ArraysByDigest) -> dict[str, Any]:
    """Return an instance of a class of the library as its name in files and its stored fields."""
    if hasattr(value, "_prepared"):
        value = value._prepared()
    content = {}
    for field in fields(value):
        if _is_stored(field):
            content[field.name] = _encode(getattr(value, field.name), arrays)
    return {"class": _stored_name(type(value)), "fields": content}


def _is_stored(field: Field[object]) -> bool:
    """Return whether a file holds a field; private fields with a default are computed again."""
    has_default = (field.default, field.default_factory) != (MISSING, MISSING)
    marked_as_stored = field.metadata.get("stored", False)
    is_computed = field.name.startswith("_") and has_default and not marked_as_stored
    return field.init and not is_computed


def _column_entries(column: pd.Series | pd.Index) -> AnyArray | list[object]:
    """Return the entries of a column: an array of numbers or times, and a list of other entries."""
    if column.dtype.kind in "biufmM":
        return column.to_numpy()
    return column.tolist()


def _plain_attributes(value: object) -> dict[str, object]:
    """Return the public attributes of an object that are text, numbers, truth values or stored classes."""
    attributes = {}
    for name in dir(value):
        if name.startswith("_"):
            continue
        try:
            attribute = getattr(value, name)
        except Exception:  # a property of a user's class may raise any error
            continue
        entries = attribute if isinstance(attribute, tuple) else (attribute,)
        is_plain = all(isinstance(entry, PLAIN_TYPES) for entry in entries)
        if is_plain or _has_name(type(attribute)):
            attributes[name] = attribute
    return attributes


def _decode(value: object, arrays: Sequence[AnyArray]) -> Any:
    """Return the value that `_encode` has converted to JSON and arrays."""
    if isinstance(value, list):
        return [_decode(entry, arrays) for entry in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "scalar" in value:
        return arrays[value["scalar"]][()]
    if "tuple" in value:
        return tuple(_decode(value["tuple"], arrays))
    if "dict" in value:
        mapping = {}
        for key, entry in value["dict"]:
            mapping[_decode(key, arrays)] = _decode(entry, arrays)

        return mapping
    if "frame" in value:
        return _decode_frame(value, arrays)
    if "described" in value:
        return NotStored(value["described"], _decode(value["kept"], arrays))
    return _decode_instance(value, arrays)


def _decode_frame(value: dict[str, object], arrays: Sequence[AnyArray]) -> pd.DataFrame:
    """Return a data frame from its columns and its index."""
    columns = _decode(value["frame"], arrays)
    index = _decode(value["index"], arrays)
    series = {}
    for name, dtype, entries in columns:
        series[name] = pd.Series(entries, index, dtype=None if dtype == "str" else dtype)
    return pd.DataFrame(series, index, columns=list(series))


def _decode_instance(value: dict[str, Any], arrays: Sequence[AnyArray]) -> Any:
    """Return an instance of a class of the library; no class outside `CLASSES` is imported."""
    name = value["class"]
    add_members()
    if name not in CLASSES:
        raise ValueError(f"there is no {name!r} in this version")
    module, _, class_name = CLASSES[name].partition(":")
    cls = getattr(importlib.import_module(module), class_name)

    content = value["fields"]
    unknown_fields = content.keys() - {field.name for field in fields(cls)}
    if unknown_fields:
        raise ValueError(f"{name} has no {', '.join(sorted(unknown_fields))} in this version")
    values = {}
    for field, entry in content.items():
        values[field] = _decode(entry, arrays)

    return cls(**values)


def _qualified_name(cls: type) -> str:
    """Return module and name of a class, as `CLASSES` lists them."""
    return f"{cls.__module__}:{cls.__name__}"


def _has_name(cls: type) -> bool:
    """Return whether a class has a name in files."""
    add_members()
    return _qualified_name(cls) in NAMES


def _stored_name(cls: type) -> str:
    """Return the name of a class in files, or its own name if it has none."""
    return NAMES.get(_qualified_name(cls), cls.__name__)
