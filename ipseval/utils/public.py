"""Decorators of public functions and classes: wrong arguments are named in an `InputError`.

Functions check their arguments and say what to do. The decorators stand behind these checks, for calls from
outside the library: where such a call fails, its arguments are compared with the annotations, and the first
that does not fit is named. An error with fitting arguments is a fault of the library and stays as it is.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ipseval.errors import InputError, IpsevalError
from ipseval.utils.annotations import (
    describe_annotation,
    fits_annotation,
    read_signature,
    resolve_annotations,
)
from ipseval.utils.constructors import NamedConstructors, word_frame_error
from ipseval.utils.peer_names import suggest_call, suggest_option, suggest_own_option, suggest_replacement

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)

# Packages that are imported on first use by functions of the library, and their purpose.
OPTIONAL_PACKAGES = {"matplotlib": "plots"}

# True while a public function runs: the calls that the library makes itself are not checked again.
_is_inside_call: ContextVar[bool] = ContextVar("_is_inside_call", default=False)


def public_function(function: Callable[P, R]) -> Callable[P, R]:
    """Name the first argument that does not fit its annotation when a call from outside fails."""
    truth_values = _find_bool_parameters(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # of the report of pytest: it shows the function, not this wrapper
        if _is_inside_call.get():
            return function(*args, **kwargs)
        _check_truth_values(truth_values, args, kwargs)
        token = _is_inside_call.set(True)
        try:
            return function(*args, **kwargs)
        except IpsevalError:
            raise
        except OSError as error:
            if error.filename is None:  # a pipe, a connection or a full disk
                raise
            raise InputError(f"a file or folder cannot be used: {error!s:.200}.") from error
        except ModuleNotFoundError as error:
            purpose = OPTIONAL_PACKAGES.get(str(error.name).split(".")[0])
            if purpose is None:
                raise
            package = str(error.name).split(".")[0]
            raise InputError(
                f"{purpose} need {package}, which is not installed. Install it by pip install {package}."
            ) from None
        except Exception as error:  # a wrong argument may lead to an error of any library
            text = describe_misfit(function, args, kwargs)
            if text is None:
                raise
            raise InputError(text) from error
        finally:
            _is_inside_call.reset(token)

    call.__is_public__ = True  # type: ignore[attr-defined]  # functions take attributes
    return call


def public_class(cls: Class) -> Class:
    """Make every public method of a class a public function, and explain attributes that do not exist."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(cls, name, public_function(member))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(cls, name, type(member)(public_function(member.__func__)))

    has_own_lookup = any("__getattr__" in vars(base) for base in cls.__mro__)
    if not has_own_lookup:
        setattr(cls, "__getattr__", _explain_missing_attribute)  # noqa: B010  # mypy knows no such attribute
    return cls


def _find_bool_parameters(function: Callable[..., object]) -> list[tuple[int, bool, str]]:
    """Return position, whether it can be passed by position, and name of each parameter of type bool."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    truth_values: list[tuple[int, bool, str]] = []
    for position, name in enumerate(names):
        if function.__annotations__.get(name) == "bool":
            truth_values.append((position, position < code.co_argcount, name))

    return truth_values


def _check_truth_values(
    parameters: Sequence[tuple[int, bool, str]], args: Sequence[object], kwargs: dict[str, object]
) -> None:
    """Raise `InputError` for text in place of a truth value: every text counts as true, "False" too."""
    for position, is_positional, name in parameters:
        if is_positional and position < len(args):
            value = args[position]
        else:
            value = kwargs.get(name, False)
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} must be True or False; got {value!r:.80}.")


def describe_misfit(
    function: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]
) -> str | None:
    """Return the error of the first argument that does not fit its annotation, or None."""
    try:
        arguments = read_signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        text = _describe_unknown_argument(function, args, kwargs)
        return text or _describe_missing_arguments(args, kwargs, function)

    for name, annotation in resolve_annotations(function).items():
        if name not in arguments:
            continue
        value = arguments[name]
        if type(value) is not annotation and not fits_annotation(value, annotation):
            expected = describe_annotation(function.__annotations__[name])
            return f"{name} must be {expected}; got {type(value).__name__} {value!r:.60}."
    return None


def _describe_unknown_argument(
    function: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]
) -> str | None:
    """Return the error of an unknown keyword or a surplus position; None for a missing argument."""
    if function.__name__ == "__init__" and len(args) == 2 and not kwargs and hasattr(args[1], "columns"):
        owner = type(args[0])
        if isinstance(owner, NamedConstructors):
            return word_frame_error(owner, args[1])

    name = function.__qualname__.removesuffix(".__init__")
    parameters = list(read_signature(function).parameters.values())
    visible = [parameter for parameter in parameters if parameter.name not in ("self", "cls")]
    kinds = {parameter.kind for parameter in visible}
    positional_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keyword_kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

    options = _select_names(visible, keyword_kinds)
    unknown = [option for option in kwargs if option not in options]
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        advice = _advise_option(name, unknown[0], options, kwargs[unknown[0]])
        return f"{name} has no option {unknown[0]}=. {advice}"

    n_positions = sum(parameter.kind in positional_kinds for parameter in visible)
    n_hidden = len(parameters) - len(visible)
    n_given = len(args) - n_hidden
    if n_given > n_positions and inspect.Parameter.VAR_POSITIONAL not in kinds:
        keyword_only = _select_names(visible, (inspect.Parameter.KEYWORD_ONLY,))
        positional = " and ".join(f"`{option}`" for option in options[:n_positions]) or "nothing"
        advice = _advise_keyword(function, args[n_hidden + n_positions :], keyword_only)
        example = _word_example(function, args)
        if example is not None:
            advice = f"Pass {example}."
        advice = suggest_call(name, "", options) or advice
        return f"{name} accepts {positional} by position. {advice}"
    return None


def _select_names(parameters: Iterable[inspect.Parameter], kinds: Sequence[object]) -> list[str]:
    """Return the names of the parameters that are of one of the kinds."""
    names = []
    for parameter in parameters:
        if parameter.kind in kinds:
            names.append(parameter.name)
    return names


def _advise_option(function: str, option: str, options: Sequence[str], value: object) -> str:
    """Return the option to use in place of an unknown one, in a sentence."""
    advice = suggest_own_option(option, value, options) or suggest_call(function, option, options)
    advice = advice or suggest_option(option, value)
    if advice:
        return advice
    similar = difflib.get_close_matches(option, options, n=1)
    if similar:
        return f"Did you mean {similar[0]}=?"
    return f"It has {', '.join(options)}."


def _advise_keyword(
    function: Callable[..., object], values: Sequence[object], keywords: Sequence[str]
) -> str:
    """Return the keywords by which arguments that were passed by position can be passed, in a sentence."""
    if not keywords:
        return "Remove the other arguments."
    value = values[0]
    labels = [value] if isinstance(value, str) else value
    is_labels = isinstance(labels, (list, tuple)) and all(isinstance(label, str) for label in labels)
    if is_labels and "metrics" in keywords:
        return f"Pass metrics={list(labels)!r} by keyword."  # type: ignore[call-overload]  # a list or tuple
    if _fit_keywords(function, values, keywords):
        pairs = zip(keywords, values, strict=False)
        return f"Pass {', '.join(f'{keyword}={value!r}' for keyword, value in pairs)} by keyword."
    return f"Pass the others by keyword: {', '.join(f'{keyword}=' for keyword in keywords)}."


def _fit_keywords(function: Callable[..., object], values: Sequence[object], keywords: Sequence[str]) -> bool:
    """Return whether values are text or numbers that fit the first keywords, in their order."""
    annotations = resolve_annotations(function)
    if len(values) > len(keywords):
        return False
    for keyword, value in zip(keywords, values, strict=False):
        is_simple = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not is_simple or keyword not in annotations or not fits_annotation(value, annotations[keyword]):
            return False
    return True


def _word_example(function: Callable[..., object], args: Sequence[object]) -> str | None:
    """Return a call of a method that works, if the object of the method knows one."""
    word_example = getattr(type(args[0]), "_word_example", None) if args else None
    if word_example is None:
        return None
    example: str | None = word_example(args[0], function.__name__, args[1:])
    return example


def _describe_missing_arguments(
    args: Sequence[object], kwargs: dict[str, object], function: Callable[..., object]
) -> str | None:
    """Return the error of a call without required arguments, if its object knows an example of the call."""
    example = _word_example(function, args)
    if example is None:
        return None
    parameters = list(read_signature(function).parameters.values())[len(args) :]
    missing = []
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty and parameter.name not in kwargs:
            missing.append(repr(parameter.name))
    return f"{function.__qualname__} lacks {' and '.join(missing)}. Pass {example}."


def missing_attribute(owner: str, name: str, members: Sequence[str] = ()) -> AttributeError:
    """Return the error of an attribute that does not exist, with the one to use in its place.

    A hint that names members is given only where one of them is among `members`, if these are passed.
    """
    text = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(text, name=name)
    advice = suggest_replacement(name)
    named_members = re.findall(r"(?:^Use |or | and )\.(\w+)", advice)
    if members and named_members and not any(member in members for member in named_members):
        return AttributeError(text, name=name)
    return AttributeError(f"{text}. {advice}".rstrip(". "), name=name)


def _explain_missing_attribute(self: object, name: str) -> Any:
    """Raise the error of an attribute that an object does not have."""
    members = [] if name.startswith("_") else dir(self)
    raise missing_attribute(f"{type(self).__name__!r} object", name, members)


def explain_missing_names(module: str) -> Callable[[str], object]:
    """Return a `__getattr__` for a module, which explains names that the module does not have."""

    def explain(name: str) -> Any:
        raise missing_attribute(f"module {module!r}", name)

    return explain
