"""The public border: an argument of another type than its signature says is named in an `InputError`.

Functions check what they are given and say what to do. `guard` stands behind these checks, for calls from
outside the library. Where such a call fails, the arguments are compared with the annotations, and the first
that does not fit is named. An error with fitting arguments is a fault of the library and stays as it is.
"""

from __future__ import annotations

import collections.abc
import contextlib
import difflib
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError, IpsevalError
from ipseval.utils.constructors import NamedConstructors, word_frame_error
from ipseval.utils.peer_names import suggest_replacement

WORDS = {
    "npt.ArrayLike": "numbers or an array of numbers",
    "FloatArray": "an array of numbers",
    "IntArray": "an array of whole numbers",
    "BoolArray": "a mask",
    "AnyArray": "an array",
    "RngLike": "an integer >= 0, a numpy Generator or SeedSequence, or None",
    " | ": " or ",
}
# What stands in place of items, of those that are taken for a mapping or a pair.
ITEMS = {"Evaluation": ".frame, or .estimate(model, metric, estimator)", "Split": ".train and .test"}
KINDS = {np.bool_: "b", np.integer: "iu", np.floating: "biuf"}


def guard(module: str) -> None:
    """Guard the public functions of a module, and the public methods of its public classes."""
    home = sys.modules[module]
    if not hasattr(home, "__getattr__"):
        home.__getattr__ = functools.partial(_missing, f"module {module!r}")  # type: ignore[method-assign]  # modules take functions
    rooms = [one for name, one in list(sys.modules.items()) if f"{name}.".startswith(f"{module}.")]
    for name in public_names(home):
        one: Any = getattr(home, name)
        if not getattr(one, "__module__", "").startswith("ipseval"):
            continue
        if inspect.isfunction(one):
            # Wherever it is used: what is pickled must be what stands in the module of its definition.
            guarded = _guarded(one)
            for place in (*rooms, sys.modules[one.__module__]):
                if getattr(place, name, None) is one:
                    setattr(place, name, guarded)
        elif isinstance(one, type) and not issubclass(one, BaseException):
            # Of the classes themselves: a metaclass may have one of its own.
            if not any("__getattr__" in vars(base) for base in one.__mro__):
                one.__getattr__ = _no_attribute  # type: ignore[attr-defined]  # classes take functions
            if one.__name__ in ITEMS:
                setattr(one, "__getitem__", _no_item)  # noqa: B010  # type checkers go on to see an error
            for base in one.__mro__:
                if base.__module__.startswith("ipseval."):
                    _guard_members(base)


def _missing(owner: str, name: str, members: Sequence[str] = ()) -> Any:
    """Raise the error of an attribute that is not there, with what stands in its place among the members."""
    said = f"{owner} has no attribute {name!r}"
    advice = "" if name.startswith("_") else suggest_replacement(name)
    named = re.findall(r"(?:^Use |or | and )\.(\w+)", advice)
    useful = not members or not named or any(one in members for one in named)
    raise AttributeError(f"{said}. {advice}".rstrip(". ") if useful else said, name=name)


def _no_attribute(self: Any, name: str) -> Any:
    return _missing(f"{type(self).__name__!r} object", name, () if name.startswith("_") else dir(self))


def _no_item(self: Any, key: object) -> Any:
    kind = type(self).__name__
    raise TypeError(f"{kind!r} object has no items. Use {ITEMS[kind]}.")


def public_names(module: types.ModuleType) -> list[str]:
    """Return the names that a module offers: `__all__`, or what it defines without an underscore."""
    own = [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
    return getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]


def _guard_members(owner: type) -> None:
    for attribute, member in list(vars(owner).items()):
        if attribute.startswith("_") and attribute != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(owner, attribute, _guarded(member))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(owner, attribute, type(member)(_guarded(member.__func__)))


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(function, "__guarded__"):
        return function
    code = function.__code__
    n_places = code.co_argcount
    names = code.co_varnames[: n_places + code.co_kwonlyargcount]
    truths = [
        (place, name) for place, name in enumerate(names) if function.__annotations__.get(name) == "bool"
    ]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # What the library itself calls is no border: an error there is a fault, or for the outer call to say.
        if sys._getframe(1).f_globals.get("__name__", "").startswith("ipseval."):
            return function(*args, **kwargs)
        # Checked first: text counts as true, "False" too, and would change what is done.
        for place, name in truths:
            value = args[place] if place < min(len(args), n_places) else kwargs.get(name, False)
            if not isinstance(value, (bool, np.bool_)):
                raise InputError(f"{name} must be True or False; got {value!r:.80}.")
        try:
            return function(*args, **kwargs)
        except IpsevalError:
            raise
        except OSError as error:
            # Without a name it is a pipe or a connection, or a full disk.
            if error.filename is None:
                raise
            raise InputError(f"a file or folder cannot be used: {error!s:.200}.") from error
        except Exception as error:  # what a wrong argument leads to may be raised by any library
            text = _misfit(function, args, kwargs)
            if text is None:
                raise
            raise InputError(text) from error

    call.__guarded__ = True  # type: ignore[attr-defined]  # functions take attributes
    return call


def _misfit(function: Any, args: Any, kwargs: Any) -> str | None:
    """Return what is wrong with the first argument that does not fit its annotation."""
    hints = _hints(function)
    try:
        given = _signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return _unbound(function, args, kwargs)
    for name, kind in hints.items():
        if name in given and type(given[name]) is not kind and not fits(given[name], kind):
            said = str(function.__annotations__[name])
            for word, words in WORDS.items():
                said = said.replace(word, words)
            return f"{name} must be {said}; got {type(given[name]).__name__} {given[name]!r:.60}."
    return None


def _unbound(function: Any, args: Any, kwargs: Any) -> str | None:
    """Return which option is unknown, or stands without its name; of a missing one Python says it well."""
    if function.__name__ == "__init__" and len(args) == 2 and not kwargs and hasattr(args[1], "columns"):
        owner = type(args[0])
        if isinstance(owner, NamedConstructors):
            return word_frame_error(owner, args[1])
    name = re.sub(r"^Questions\.|\.__init__$", "", function.__qualname__)
    every = list(_signature(function).parameters.values())
    known = [one for one in every if one.name not in ("self", "cls")]
    kinds = {one.kind for one in known}
    keyed = [one.name for one in known if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    unknown = [option for option in kwargs if option not in keyed]
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        near = difflib.get_close_matches(unknown[0], keyed, n=1)
        said = f"Did you mean {near[0]}=?" if near else f"It has {', '.join(keyed)}."
        said = suggest_replacement(unknown[0]) or said
        return f"{name} has no option {unknown[0]}=. {said}"
    places = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in known)
    if len(args) - len(every) + len(known) > places and inspect.Parameter.VAR_POSITIONAL not in kinds:
        n_hidden = len(every) - len(known)
        extra = args[n_hidden + places]
        keywords = [one.name for one in known if one.kind is one.KEYWORD_ONLY]
        positional = " and ".join(f"`{one}`" for one in keyed[:places]) or "nothing"
        return f"{name} accepts {positional} by position. {_advise_keyword(extra, keywords)}"
    return None


def _advise_keyword(value: Any, keywords: Sequence[str]) -> str:
    """Return by which keyword an argument that was passed by position can be passed, in a sentence."""
    if not keywords:
        return "Remove the other arguments."
    labels = [value] if isinstance(value, str) else value
    is_labels = isinstance(labels, (list, tuple)) and all(isinstance(label, str) for label in labels)
    if is_labels and "metrics" in keywords:
        return f"Pass metrics={list(labels)!r} by keyword."
    return f"Pass the others by keyword: {', '.join(f'{keyword}=' for keyword in keywords)}."


_signature = functools.cache(inspect.signature)


@functools.cache
def _hints(function: Any) -> dict[str, Any]:
    """Return the annotations of the arguments, but those whose names are imported for type checkers only."""
    hints = {}
    for name, parameter in _signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        with contextlib.suppress(NameError):
            if isinstance(parameter.annotation, str):
                names = _Names(function.__globals__)
                hints[name] = eval(parameter.annotation, function.__globals__, names)  # nosec B307
    return hints


class _Names(dict[str, Any]):
    """The public names of the library, for annotations whose names are imported for type checkers only."""

    def __missing__(self, name: str) -> Any:
        if name not in sys.modules["ipseval"].__all__:
            raise KeyError(name)  # which asks the built-in names
        return getattr(sys.modules["ipseval"], name)


def _spelt_out(hint: Any) -> Any:
    """Return what an alias stands for: from NumPy 2.5 on NDArray is one with a name."""
    if hasattr(hint, "__value__"):
        inside = typing.get_args(hint)
        return _spelt_out(hint.__value__[inside] if inside else hint.__value__)
    return hint


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of an annotation; True where that cannot be told."""
    if hint is Any:
        return True
    if hint == npt.ArrayLike:
        return _is_array(value, "biuf")
    hint = _spelt_out(hint)
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    has_array = npt.ArrayLike in inside or "_NestedSequence" in str(hint)  # spelt out before NumPy 2.5
    if origin in (typing.Union, types.UnionType) and has_array:
        return _is_array(value, "biuf") or (value is None and type(None) in inside)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in inside)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in inside)
    kind = origin or hint
    if kind is np.ndarray:
        dtypes = typing.get_args(inside[1]) if inside else ()
        scalar = dtypes[0] if dtypes else Any
        return isinstance(value, np.ndarray) and _is_array(
            value, KINDS.get(typing.get_origin(scalar) or scalar, "")
        )
    if kind in (int, float, bool):
        numbers = {int: (int, np.integer), float: (int, float, np.number), bool: (bool, np.bool_)}[kind]
        return isinstance(value, numbers) and isinstance(value, (bool, np.bool_)) == (kind is bool)
    if kind is collections.abc.Mapping and isinstance(value, collections.abc.Mapping):
        return all(fits(one, inside[1]) for one in value.values()) if inside else True
    if kind in (collections.abc.Iterable, collections.abc.Sequence, list):
        if isinstance(value, (str, bytes)) and inside != (str,):
            return False
        if not isinstance(value, collections.abc.Iterable) or getattr(value, "ndim", 1) != 1:
            return False
        if kind is not collections.abc.Iterable and not hasattr(value, "__getitem__"):
            return False
        return not inside or not hasattr(value, "__len__") or all(fits(one, inside[0]) for one in value)
    if getattr(kind, "_is_protocol", False):
        members = [name for one in kind.__mro__ for name in getattr(one, "__annotations__", {})]
        members += [name for name in vars(kind) if not name.startswith("_")]
        return all(hasattr(value, name) for name in members)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _is_array(value: Any, kinds: str) -> bool:
    """Return whether a value is an array of a kind of entries."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return False
    return (not kinds or array.dtype.kind in kinds) and not np.ma.isMaskedArray(value)
