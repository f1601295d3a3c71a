"""The public border: a call that fails because an argument has another type than its signature says.

Functions check what they are given and say what to do. `guard` stands behind these checks: where a public
call ends in an error that is not ours, the arguments are compared with the annotations, and the first that
does not fit is named. An error with fitting arguments is a fault of the library and stays as it is.
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from ipseval.errors import InputError, IpsevalError

WORDS = {
    "npt.ArrayLike": "numbers or an array of numbers",
    "FloatArray": "an array of numbers",
    "IntArray": "an array of whole numbers",
    "BoolArray": "a mask",
    "AnyArray": "an array",
    "RngLike": "an integer >= 0, a numpy Generator or None",
    " | ": " or ",
}
KINDS = {np.bool_: "b", np.integer: "iu", np.floating: "biuf"}


def guard(module: str) -> None:
    """Guard the public functions of a module, and the public methods of its public classes."""
    home = sys.modules[module]
    for name in public_names(home):
        one: Any = getattr(home, name)
        if not getattr(one, "__module__", "").startswith("ipseval"):
            continue
        if inspect.isfunction(one):
            # In the module of its definition too: what is pickled is looked up there.
            guarded = _guarded(one)
            for place in (home, sys.modules[one.__module__]):
                if getattr(place, name, None) is one:
                    setattr(place, name, guarded)
        elif isinstance(one, type) and not issubclass(one, BaseException):
            for attribute, member in list(vars(one).items()):
                if attribute == "__init__" or not attribute.startswith("_"):
                    _guard_member(one, attribute, member)


def public_names(module: types.ModuleType) -> list[str]:
    """Return the names that a module offers: `__all__`, or what it defines without an underscore."""
    own = [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
    return getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]


def _guard_member(owner: type, attribute: str, member: Any) -> None:
    if inspect.isfunction(member):
        setattr(owner, attribute, _guarded(member))
    elif isinstance(member, (classmethod, staticmethod)):
        setattr(owner, attribute, type(member)(_guarded(member.__func__)))


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(function, "__guarded__"):
        return function
    signature = inspect.signature(function)
    eager: dict[str, Any] = {"bool": (bool, np.bool_)}
    eager |= {"str": str} if function.__name__ == "__init__" else {}
    strict = {
        place: (name, eager[str(one.annotation)])
        for place, (name, one) in enumerate(signature.parameters.items())
        if str(one.annotation) in eager
    }

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Checked at once, as nothing would fail: text counts as true, "False" too.
        for place, (name, kind) in strict.items():
            value = args[place] if place < len(args) else kwargs.get(name, signature.parameters[name].default)
            if not isinstance(value, kind) and value is not inspect.Parameter.empty:
                expected = "text" if kind is str else "True or False"
                raise InputError(f"{name} must be {expected}; got {value!r:.80}.")
        try:
            return function(*args, **kwargs)
        except IpsevalError:
            raise
        except OSError as error:
            raise InputError(f"a file or folder cannot be used: {error!s:.200}.") from error
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError) as error:
            text = _misfit(function, signature, args, kwargs)
            if text is None:
                raise
            raise InputError(text) from error

    call.__guarded__ = True  # type: ignore[attr-defined]  # functions take attributes
    return call


def _misfit(function: Any, signature: inspect.Signature, args: Any, kwargs: Any) -> str | None:
    """Return what is wrong with the first argument that does not fit its annotation."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # an argument that is missing, or one too many: Python says it well
        return None
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or name in ("self", "cls"):
            continue
        said = str(parameter.annotation)
        try:
            names = _Names(function.__globals__)
            hint = eval(said, function.__globals__, names) if isinstance(parameter.annotation, str) else Any
        except NameError:  # imported for type checkers only
            continue
        if not _fits(value, hint):
            for word, plain in WORDS.items():
                said = said.replace(word, plain)
            return f"{name} must be {said}; got {type(value).__name__} {value!r:.60}."
    return None


class _Names(dict[str, Any]):
    """The public names of the library, for annotations whose names are imported for type checkers only."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        try:
            return getattr(sys.modules["ipseval"], name)
        except AttributeError:
            raise KeyError(name) from None


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of an annotation; True where that cannot be told."""
    if hint is Any:
        return True
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and "_NestedSequence" in str(hint):  # npt.ArrayLike
        return _is_array(value, "biuf") or (value is None and type(None) in inside)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inside)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in inside)
    kind = origin or hint
    if kind is np.ndarray:
        scalar = typing.get_args(inside[1])[0] if len(inside) > 1 and typing.get_args(inside[1]) else Any
        return _is_array(value, KINDS.get(typing.get_origin(scalar) or scalar, ""), depth=1)
    if kind in (int, float, bool):
        numbers = {int: (int, np.integer), float: (int, float, np.number), bool: (bool, np.bool_)}[kind]
        return isinstance(value, numbers) and isinstance(value, (bool, np.bool_)) == (kind is bool)
    if kind is collections.abc.Callable:
        return callable(value)
    if isinstance(kind, type) and issubclass(kind, os.PathLike):
        return isinstance(value, kind)
    if kind is collections.abc.Mapping and isinstance(value, collections.abc.Mapping):
        return all(_fits(one, inside[1]) for one in value.values()) if inside else True
    if kind in (collections.abc.Iterable, collections.abc.Sequence, list) and not isinstance(value, str):
        if not isinstance(value, collections.abc.Iterable) or getattr(value, "ndim", 1) != 1:
            return False
        return not inside or not hasattr(value, "__len__") or all(_fits(one, inside[0]) for one in value)
    if getattr(kind, "_is_protocol", False):
        members = [name for one in kind.__mro__ for name in getattr(one, "__annotations__", {})]
        members += [name for name in vars(kind) if not name.startswith("_")]
        return all(hasattr(value, name) for name in members)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _is_array(value: Any, kinds: str, *, depth: int = 0) -> bool:
    """Return whether a value is an array of a kind of entries, with at least `depth` dimensions."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return array.ndim >= depth and (not kinds or array.dtype.kind in kinds) and not np.ma.isMaskedArray(value)
