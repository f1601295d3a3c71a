"""Scorers: whatever gives a score to every item for a block of users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import isroutine
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking._factors import Factors
from ipseval.utils.checks import examples, kind_of, number_type, refuse_masked
from ipseval.utils.ids import as_ids, by_label, places
from ipseval.utils.types import AnyArray, IntArray

ADAPT = (
    "Trained models of the libraries in ipseval.adapters, and lists of theirs, are found by their type; "
    "of another library pass the factors, or a function users -> scores."
)

# Of a frame whose labels are none of the ids.
LISTS = (
    "A frame of scores has user ids as index and item ids as columns; one of top-K lists has columns user, "
    "item and rank or score, and Lists(frame, user=…, item=…, rank=…) takes other names. "
)


# Of what `recommend` of a library returns.
PLACES = "as recommend() returns them? Lists of them are ipseval.Lists({}, users=…, items=split.item_ids)."


class Scorer(Protocol):
    """Scores of all items for a block of users; `parallel = True` if several threads may ask at once."""

    def block(self, users: IntArray) -> AnyArray:
        """Return scores (len(users), n_items) for the user codes in `users`; never written to."""


AnyScorer: TypeAlias = Scorer | Factors  # factors are ranked by exact sums, not by blocks of products


@dataclass(frozen=True, eq=False)
class DenseScorer:
    """An (n_users, n_items) array or memmap."""

    scores: AnyArray
    parallel: ClassVar[bool] = True

    def block(self, users: IntArray) -> AnyArray:
        """Return the rows of `users`; a view where they are consecutive."""
        first, last = int(users[0]), int(users[-1])
        if last - first + 1 == users.size:
            return self.scores[first : last + 1]
        return self.scores[users]


@dataclass(frozen=True, eq=False)
class SparseScorer:
    """A scipy.sparse matrix (n_users, n_items) in CSR form; an entry that is not stored is a score of 0."""

    scores: Any
    parallel: ClassVar[bool] = True

    def block(self, users: IntArray) -> AnyArray:
        """Return the rows of `users`, filled up with zeros."""
        rows: AnyArray = self.scores[users].toarray()
        return rows


@dataclass(frozen=True, eq=False)
class CallableScorer:
    """A function from user codes (b,) to scores (b, n_items)."""

    function: Callable[[IntArray], Any]
    split: Split
    name: str = "the model"

    def block(self, users: IntArray) -> AnyArray:
        """Return what the function gives, after a check of its shape."""
        try:
            given = self.function(users)
        except Exception as error:  # a caller's function may raise anything; it is passed on
            if not isroutine(self.function):  # an object that can be called: a module of torch, say
                error.add_note(
                    f"{self.name} is {kind_of(self.function)} and was called with an array of user "
                    f"codes. {ADAPT}"
                )
            raise
        refuse_masked(given, self.name)
        if isinstance(given, pd.DataFrame):
            what = f"the scores that {self.name} returned"
            given = by_label(given, self.split.user_ids[users], what)
            given = by_label(given, self.split.item_ids, what, axis=1)
            given = given.to_numpy(number_type(given))
        scores, n_items = np.asarray(given), self.split.n_items
        if scores.shape != (users.size, n_items):
            raise InputError(
                f"{self.name}: the scorer function returned shape {scores.shape} for {users.size} users; "
                f"expected ({users.size}, {n_items})."
            )
        checked: AnyArray = _numeric(scores, self.name)
        return checked


def as_scorer(model: Any, split: Split, name: str = "the model") -> AnyScorer:
    """Return `model` as a scorer, or as factors, in the id space of `split`, after a check of its shape."""
    if isinstance(model, pd.DataFrame):
        return DenseScorer(_aligned(model, split, name))
    if isinstance(model, np.ndarray):
        _check_shape(model, (split.n_users, split.n_items), name)
        return DenseScorer(_numeric(model, name))
    if hasattr(model, "tocsr"):
        _check_shape(model, (split.n_users, split.n_items), name)
        return SparseScorer(_numeric(model.tocsr(), name))
    if isinstance(model, tuple) and len(model) in (2, 3):
        return _factors(model, split, name)
    if hasattr(model, "block"):
        scorer: Scorer = model
        return scorer
    if callable(model):
        return CallableScorer(model, split, name)
    if isinstance(model, str):
        raise InputError(
            f"{name} is the text {model!r:.60}. Lists in a file are read by ipseval.read_lists(path), arrays "
            "by numpy.load(path); a baseline is ipseval.baselines.ease(split.train)."
        )
    raise InputError(
        f"{name} is {kind_of(model)}; expected an (n_users, n_items) array, DataFrame or sparse "
        "matrix, a tuple (user_factors, item_factors[, item_bias]), a callable users -> scores, "
        f"a top-K frame, {{user: [item, …]}}, or RankedPositives. {ADAPT}"
    )


def _factors(model: tuple[Any, ...], split: Split, name: str) -> Factors:
    for part, what in zip(model, ("user factors", "item factors", "item bias"), strict=False):
        refuse_masked(part, f"{name}: {what}")
    ids = split.user_ids, split.item_ids, split.item_ids
    whats = f"{name}: user factors", f"{name}: item factors", f"{name}: item bias"
    model = tuple(by_label(*one) for one in zip(model, ids, whats, strict=False))
    user_factors = np.asarray(model[0])
    if user_factors.ndim == 0:  # not the item factors: a data set of a library may be slow to turn into one
        kinds = ", ".join(type(part).__name__ for part in model)
        raise InputError(
            f"{name} is a tuple of {kinds}; expected arrays (user_factors, item_factors[, item_bias]). "
            f"{ADAPT}"
        )
    item_factors = np.asarray(model[1])
    if (
        user_factors.dtype.kind in "iu"
        and user_factors.shape == item_factors.shape
        and split.n_users != split.n_items
    ):
        raise InputError(
            f"{name}: factors must be (n_users, d) and (n_items, d); got two of {user_factors.shape}. "
            f"Are these items and scores, {PLACES.format('(items, scores)')}"
        )
    if user_factors.ndim != 2 or item_factors.ndim != 2 or user_factors.shape[1] != item_factors.shape[1]:
        raise InputError(
            f"{name}: factors must be (n_users, d) and (n_items, d); got {user_factors.shape} and "
            f"{item_factors.shape}."
        )
    _check_shape(user_factors, (split.n_users, user_factors.shape[1]), f"{name}: user factors")
    _check_shape(item_factors, (split.n_items, item_factors.shape[1]), f"{name}: item factors")
    bias = None
    if len(model) == 3 and model[2] is not None:
        bias = np.asarray(model[2])
        _check_shape(bias, (split.n_items,), f"{name}: item bias")
        _numeric(bias, name)
    return Factors.of(_numeric(user_factors, name), _numeric(item_factors, name), bias, name)


def _check_shape(array: Any, expected: tuple[int, ...], name: str) -> None:
    if array.shape != expected:
        places = array.dtype.kind in "iu" and array.shape[:1] == expected[:1] and array.shape < expected
        hint = " It looks transposed." if array.shape == expected[::-1] else ""
        hint = f" Are these items, {PLACES.format('items')}" if places else hint
        raise InputError(
            f"{name} has shape {array.shape}; expected {expected}, rows in the order of split.user_ids and "
            f"columns in the order of split.item_ids.{hint}"
        )


def _numeric(array: Any, name: str) -> Any:
    refuse_masked(array, name)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must hold real numbers; got dtype {array.dtype}.")
    return array


def _aligned(frame: pd.DataFrame, split: Split, name: str) -> AnyArray:
    """Return the values of a users × items frame in the order of the split, by its labels."""
    where = []
    for axis, labels, ids in (
        ("row", frame.index, split.user_ids),
        ("column", frame.columns, split.item_ids),
    ):
        if not labels.is_unique:
            lists = f" Is it of top-K lists? It lacks a rank or score. {LISTS}" if "item" in frame else ""
            raise InputError(f"{name}: the {axis} labels repeat; each id may occur once.{lists}")
        known = as_ids(labels, f"{name}: {axis} labels")
        where.append(places(ids, known, f"{name}: {axis}s", strict=False))
        missing = where[-1] < 0
        if missing.any():
            raise InputError(
                f"{name} lacks {int(missing.sum())} of {ids.size} {axis} ids of the split "
                f"({examples(ids[missing])}; its labels start with {examples(labels)}). "
                f"{LISTS if missing.all() or 'item' in frame else ''}{ADAPT}"
            )
    chosen = frame.iloc[where[0], where[1]]
    values: AnyArray = _numeric(chosen.to_numpy(number_type(chosen)), name)
    return values
