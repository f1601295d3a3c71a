"""Recommenders that are functions of one user id, and advice for functions and methods of several arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.utils.types import AnyArray, IntArray

METHODS = ("score", "predict", "recommend")  # of trained models, in order of preference
AnyFunction = Callable[..., Any]


class TakesUserIdError(InputError):
    """Report that a function fails for an array of user codes and works for one user id."""


def check_takes_users(function: AnyFunction, split: Split, name: str) -> None:
    """Raise `TakesUserIdError` or advice for a function that has failed for an array of user codes.

    A function that works for the array of a single code has failed for another reason, which is not replaced.
    """
    names = _find_required_parameters(function)
    if len(names) > 1:
        raise InputError(
            f"{name} must be a function of users; got one that requires {', '.join(names)}. Pass "
            f"{_word_lambda(function.__name__, names)}."
        )
    first_code = split.test.user[:1]
    if _works(function, first_code):
        return
    user = split.user_ids[first_code].tolist()[0]
    if _works(function, user):
        raise TakesUserIdError(f"{name} takes one user id.")


def call_for_each_user(function: AnyFunction, split: Split, name: str) -> Any:
    """Return a function of one user id as a function of user codes, or as recommendation lists by user.

    The function returns the scores of all items in an array, or a list of item ids, best first, {item: score},
    a Series of scores with items as labels, or the pair (items, scores).
    """
    codes = np.unique(split.test.user)
    users = split.user_ids[codes].tolist()
    first_row = function(users[0])
    if _are_scores(first_row, split):

        def compute_scores(user_codes: IntArray) -> AnyArray:
            rows = [np.asarray(function(user)) for user in split.user_ids[user_codes].tolist()]
            return np.stack(rows)

        return compute_scores
    lists: dict[Hashable, object] = {}
    for user in users:
        lists[user] = _read_row(function(user), name)
    return lists


def _are_scores(row: object, split: Split) -> bool:
    """Return whether a row of a function is an array of scores of all items."""
    if isinstance(row, (pd.Series, Mapping, list, tuple, str)) or not hasattr(row, "__array__"):
        return False
    array = np.asarray(row)
    return array.shape == (split.n_items,) and array.dtype.kind == "f"


def _read_row(row: object, name: str) -> object:
    """Return the items of a user, with or without scores, in a form that `Lists` reads."""
    if (
        isinstance(row, tuple)
        and len(row) == 2
        and np.ndim(row[0]) == 1
        and np.shape(row[0]) == np.shape(row[1])
    ):
        return list(zip(np.asarray(row[0]).tolist(), np.asarray(row[1]).tolist(), strict=True))
    if isinstance(row, (pd.Series, Mapping, list, tuple)):
        return row
    if hasattr(row, "__array__") and np.ndim(row) == 1 and np.asarray(row).dtype.kind in "iuUSO":
        return np.asarray(row).tolist()
    raise InputError(
        f"{name} must return the scores of all items, or the recommended items, for a user; got "
        f"{type(row).__name__}. Return a list of item ids, best first, or {{item: score}}."
    )


def _works(function: AnyFunction, argument: object) -> bool:
    """Return whether a function accepts an argument."""
    try:
        function(argument)
    except Exception:  # a user's function may raise anything
        return False
    return True


def _find_required_parameters(function: AnyFunction) -> list[str]:
    """Return the names of the parameters that a call must pass by position; none for unknown signatures."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function that is not written in Python
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = []
    for parameter in parameters:
        if parameter.kind in positional and parameter.default is inspect.Parameter.empty:
            names.append(parameter.name)
    return names


def _word_lambda(function_name: str, parameters: Sequence[str]) -> str:
    """Return a function of one user that calls a function of several arguments."""
    call = function_name if function_name.isidentifier() else "function"
    if parameters[1].lower().startswith("i") and not parameters[1].lower().endswith("s"):
        return f"lambda user: {{item: {call}(user, item) for item in items}}, with the ids of all items"
    return f"lambda user: {call}(user, …), with the other arguments"


def advise_method(model: object) -> str:
    """Return advice for a trained model with a usual method, and "" for other objects."""
    for name in METHODS:
        method = getattr(model, name, None)
        if not callable(method):
            continue
        names = _find_required_parameters(method)
        if len(names) == 1:
            return f"Pass its method: {{'name': model.{name}}}."
        if len(names) > 1:
            return f"Pass {_word_lambda(name, names).replace(name + '(', f'model.{name}(')}."
    return ""
