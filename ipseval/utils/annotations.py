"""Compare values with the annotations of a signature."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

NUMERIC_KINDS = "biuf"
KINDS_BY_SCALAR = {np.bool_: "b", np.integer: "iu", np.floating: "biuf"}
NUMBER_TYPES = {int: (int, np.integer), float: (int, float, np.number), bool: (bool, np.bool_)}
# Annotations in the words of an error message.
WORDS = {
    "npt.ArrayLike": "numbers or an array of numbers",
    "FloatArray": "an array of numbers",
    "IntArray": "an array of whole numbers",
    "BoolArray": "a mask",
    "AnyArray": "an array",
    "RngLike": "an integer >= 0, a numpy Generator or SeedSequence, or None",
    " | ": " or ",
}

read_signature = functools.cache(inspect.signature)


def describe_annotation(annotation: object) -> str:
    """Return an annotation in the words of an error message."""
    text = str(annotation)
    for code, words in WORDS.items():
        text = text.replace(code, words)
    return text


@functools.cache
def resolve_annotations(function: Callable[..., object]) -> dict[str, object]:
    """Return the annotations of the parameters, without those that cannot be resolved at run time."""
    annotations: dict[str, object] = {}
    namespace = function.__globals__
    for name, parameter in read_signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if not isinstance(parameter.annotation, str):
            continue
        with contextlib.suppress(NameError):
            annotations[name] = eval(parameter.annotation, namespace, _PublicNames())  # nosec B307
    return annotations


class _PublicNames(dict[str, Any]):
    """The public names of the library, for annotations whose names are imported for type checkers only."""

    def __missing__(self, name: str) -> object:
        library = importlib.import_module("ipseval")
        if name not in library.__all__:
            raise KeyError(name)  # so that Python looks among its built-in names
        return getattr(library, name)


def fits_annotation(value: object, annotation: object) -> bool:
    """Return whether a value has the type of an annotation; True where this cannot be decided."""
    if annotation is Any:
        return True
    if annotation == npt.ArrayLike:
        return _is_array(value, NUMERIC_KINDS)

    annotation = _expand_alias(annotation)
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _fits_union(value, annotation, arguments)
    if origin is typing.Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)

    return _fits_kind(value, origin or annotation, arguments)


def _fits_kind(value: Any, kind: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether a value has a type with parameters, such as a mapping with its types of entries."""
    if kind is np.ndarray:
        return _fits_ndarray(value, arguments)
    if kind in NUMBER_TYPES:
        is_truth_value = isinstance(value, (bool, np.bool_))
        return isinstance(value, NUMBER_TYPES[kind]) and is_truth_value == (kind is bool)
    if kind is collections.abc.Mapping and isinstance(value, collections.abc.Mapping):
        return _fits_mapping(value, arguments)
    if kind in (collections.abc.Iterable, collections.abc.Sequence, list):
        return _fits_sequence(value, kind, arguments)
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, member) for member in _protocol_members(kind))
    if isinstance(kind, type):
        return isinstance(value, kind)
    return True


def _expand_alias(annotation: object) -> Any:
    """Return the meaning of an alias with a name; from NumPy 2.5 on `NDArray` is one."""
    if not hasattr(annotation, "__value__"):
        return annotation
    arguments = typing.get_args(annotation)
    if arguments:
        return _expand_alias(annotation.__value__[arguments])
    return _expand_alias(annotation.__value__)


def _fits_union(value: object, annotation: object, members: tuple[object, ...]) -> bool:
    """Return whether a value fits one member of a union."""
    # Before NumPy 2.5 `ArrayLike` is a union itself, and its members become members of the annotation.
    has_array = npt.ArrayLike in members or "_NestedSequence" in str(annotation)
    if has_array:
        return _is_array(value, NUMERIC_KINDS) or (value is None and type(None) in members)
    return any(fits_annotation(value, member) for member in members)


def _fits_ndarray(value: object, arguments: tuple[object, ...]) -> bool:
    """Return whether a value is an array with entries of the annotated kind."""
    if not isinstance(value, np.ndarray):
        return False
    dtypes = typing.get_args(arguments[1]) if arguments else ()
    if not dtypes:
        return _is_array(value, "")
    scalar = typing.get_origin(dtypes[0]) or dtypes[0]
    return _is_array(value, KINDS_BY_SCALAR.get(scalar, ""))


def _fits_mapping(value: Mapping[object, object], arguments: tuple[object, ...]) -> bool:
    """Return whether all values of a mapping fit the annotation of its values."""
    if not arguments:
        return True
    return all(fits_annotation(entry, arguments[1]) for entry in value.values())


def _fits_sequence(value: object, kind: type, arguments: tuple[object, ...]) -> bool:
    """Return whether a value is a sequence or an iterable with fitting entries; iterators are not read."""
    if isinstance(value, (str, bytes)) and arguments != (str,):
        return False
    if not isinstance(value, collections.abc.Iterable) or getattr(value, "ndim", 1) != 1:
        return False
    if kind is not collections.abc.Iterable and not hasattr(value, "__getitem__"):
        return False
    if not arguments or not hasattr(value, "__len__"):
        return True
    return all(fits_annotation(entry, arguments[0]) for entry in value)


def _protocol_members(protocol: type) -> list[str]:
    """Return the names that a protocol asks for."""
    members = []
    for name in vars(protocol):
        if not name.startswith("_"):
            members.append(name)

    for base in protocol.__mro__:
        members.extend(getattr(base, "__annotations__", {}))
    return members


def _is_array(value: object, kinds: str) -> bool:
    """Return whether a value is an array of one of the kinds of NumPy; "" stands for all kinds."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return (not kinds or array.dtype.kind in kinds) and not np.ma.isMaskedArray(value)
