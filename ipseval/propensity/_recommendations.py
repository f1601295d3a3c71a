"""How often each item is recommended: counted from top-k lists, or from a scorer's top k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import as_generator, check_positive_int, kind_of
from ipseval._base.ids import distinct
from ipseval._base.types import AnyArray, FloatArray, IntArray, RngLike, freeze, readonly
from ipseval.data._interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity._base import as_frame

BLOCK_ENTRIES = 4_000_000


@dataclass(frozen=True, eq=False)
class RecommendationCounts:
    """How many of `n_lists` lists hold each item.

    Attributes
    ----------
    item : (n_items,) float array
        Number of lists that hold the item, 0 … n_lists.
    n_lists : int
        Number of lists.
    lists : (list, item) pair of (n_entries,) int arrays, or None
        The entries of the lists, for a bootstrap over lists.
    """

    item: FloatArray
    n_lists: int
    lists: tuple[IntArray, IntArray] | None = None

    def __post_init__(self) -> None:
        freeze(self, "item")
        if self.lists is not None:
            object.__setattr__(self, "lists", (readonly(self.lists[0]), readonly(self.lists[1])))

    def __repr__(self) -> str:
        shown = int((self.item > 0).sum())
        return f"RecommendationCounts({self.n_lists:,} lists, {shown:,} of {self.item.size:,} items shown)"

    @classmethod
    def from_lists(cls, lists: AnyArray, n_items: int) -> RecommendationCounts:
        """Return the counts of an (n_lists, k) array of item codes; −1 fills lists shorter than k.

        Raises
        ------
        InputError
            For codes outside −1 … n_items − 1, other than integers, or repeated within a list.

        Examples
        --------
        >>> RecommendationCounts.from_lists(np.array([[0, 2], [2, -1]]), 4).item
        array([1., 0., 2., 0.])
        """
        lists, n_items = np.asarray(lists), check_positive_int("n_items", n_items)
        if lists.ndim != 2 or lists.dtype.kind not in "iu" or lists.shape[0] == 0:
            raise InputError(
                "lists must be an (n_lists, k) integer array of item codes; got "
                f"shape {lists.shape}, dtype {lists.dtype}."
            )
        bad = (lists < -1) | (lists >= n_items)
        if bad.any():
            raise InputError(
                f"item codes must be in 0 … {n_items - 1} (or −1 for an empty place); {int(bad.sum())} of "
                f"{lists.size:,} are not (e.g. {lists[bad][0]})."
            )
        row, column = np.nonzero(lists >= 0)
        return cls._from_entries(row, lists[row, column].astype(np.int64), lists.shape[0], n_items)

    @classmethod
    def _from_entries(cls, row: IntArray, item: IntArray, n_lists: int, n_items: int) -> RecommendationCounts:
        n_repeated = row.size - distinct(row * np.int64(n_items) + item).size
        if n_repeated:
            raise InputError(f"{n_repeated} entries repeat an item of the same list; each may occur once.")
        counts = np.bincount(item, minlength=n_items).astype(np.float64)
        return cls(counts, n_lists, (row.astype(np.int64), item))


def count_recommendations(
    model: Any, train: Interactions, *, k: int = 50, rng: RngLike = None
) -> RecommendationCounts:
    """Return how many users' top-k lists hold each item.

    Parameters
    ----------
    model : lists or scorer
        Lists: an (n_lists, ≤ k) integer array of item codes, or a frame with columns user, item and rank
        (ascending) or score (descending), of which the first k per user count. Scorer: an
        (n_users, n_items) float array, a pandas frame of scores labelled by user and item ids, a
        (user_factors, item_factors[, item_bias]) tuple, a callable user codes -> (len(users), n_items), or an
        object with such a method `block`; training items are never recommended.
    train : Interactions
        Training log: the ids, and what is excluded from a scorer's lists.
    k : int
        Length of the lists.
    rng : int, Generator or None
        Decides which of several equally scored items take the last places.

    Raises
    ------
    InputError
        For a shape or type that does not fit, unknown ids, NaN scores, repeated items.
    """
    check_positive_int("k", k)
    if isinstance(model, RecommendationCounts):
        return model
    if isinstance(model, np.ndarray) and model.ndim == 2 and model.dtype.kind in "iu":
        if model.shape[1] == train.n_items:
            raise InputError(
                "an integer array is read as lists of item codes, and this one has a column for every item; "
                "if it holds scores, pass it as floats."
            )
        return RecommendationCounts.from_lists(model[:, :k], train.n_items)
    frame = as_frame(model)
    if frame is not None and {"user", "item"} <= set(frame.columns):
        return _count_frame(frame, train, k)
    return _count_scorer(_block_function(model, train), train, k, as_generator(rng))


def _count_frame(frame: Any, train: Interactions, k: int) -> RecommendationCounts:
    key = next((name for name in ("rank", "score") if name in frame.columns), None)
    log = Interactions.from_frame(frame, value=key, users=train.user_ids, items=train.item_ids)
    row, item = log.user, log.item
    if log.value is not None:
        order = np.lexsort((log.value if key == "rank" else -log.value, row))
        starts = np.concatenate([[0], np.cumsum(log.activity)])[row[order]]
        kept = order[np.arange(row.size) - starts < k]
        row, item = row[kept], item[kept]
    users, row = np.unique(row, return_inverse=True)
    return RecommendationCounts._from_entries(row, item, users.size, train.n_items)


def _block_function(model: Any, train: Interactions) -> Callable[[IntArray], AnyArray]:
    if hasattr(model, "block"):
        model = model.block
    if callable(model):
        return lambda users: np.asarray(model(users))
    if isinstance(model, pd.DataFrame):
        lacking = (
            np.setdiff1d(train.user_ids, model.index).size,
            np.setdiff1d(train.item_ids, model.columns).size,
        )
        if any(lacking) or not (model.index.is_unique and model.columns.is_unique):
            raise InputError(
                f"the frame of scores lacks {lacking[0]} of {train.n_users} user ids as rows and "
                f"{lacking[1]} of {train.n_items} item ids as columns, or repeats some."
            )
        model = model.loc[train.user_ids, train.item_ids].to_numpy()
    if isinstance(model, np.ndarray) and model.ndim == 2:
        if model.shape != (train.n_users, train.n_items):
            raise InputError(f"scores have shape {model.shape}; expected {(train.n_users, train.n_items)}.")
        return lambda users: model[users]
    if isinstance(model, tuple) and len(model) in (2, 3):
        users_f, items_f = np.asarray(model[0]), np.asarray(model[1])
        bias = np.asarray(model[2]) if len(model) == 3 and model[2] is not None else 0.0
        if (
            users_f.ndim != 2
            or users_f.shape[0] != train.n_users
            or items_f.shape != (train.n_items, users_f.shape[1])
        ):
            raise InputError(
                f"factors have shapes {users_f.shape} and {items_f.shape}; expected ({train.n_users}, d) and "
                f"({train.n_items}, d)."
            )
        return lambda users: users_f[users] @ items_f.T + bias
    raise InputError(
        f"recommendations is {kind_of(model)}; expected lists (an integer array, or a frame with "
        "user, item and rank) or a scorer (a float array, a pair of factor matrices, a callable). A trained "
        "model of another library becomes a scorer by ipseval.adapters.adapt(model, split)."
    )


def _count_scorer(
    block_of: Callable[[IntArray], AnyArray], train: Interactions, k: int, rng: np.random.Generator
) -> RecommendationCounts:
    n_users, n_items = train.n_users, train.n_items
    if k >= n_items:
        raise InputError(f"k must be below the number of items, {n_items}; got {k}.")
    order = np.argsort(train.user, kind="stable")
    starts = np.concatenate([[0], np.cumsum(train.activity)])
    found = []
    per_block = max(1, BLOCK_ENTRIES // n_items)
    for first in range(0, n_users, per_block):
        users = np.arange(first, min(first + per_block, n_users))
        scores = np.array(block_of(users), dtype=np.float64)
        if scores.shape != (users.size, n_items):
            raise InputError(f"the scorer gave shape {scores.shape}; expected ({users.size}, {n_items}).")
        if np.isnan(scores.min()):
            n_nan = int(np.isnan(scores).sum())
            raise InputError(f"{n_nan:,} scores in a block of {users.size} users are NaN; they have no rank.")
        entries = order[starts[first] : starts[users[-1] + 1]]
        scores[train.user[entries] - first, train.item[entries]] = -np.inf
        row, item = _top_k(scores, k, rng)
        found.append((row + first, item))
    rows, items = (np.concatenate(part) for part in zip(*found, strict=True))
    counts = np.bincount(items, minlength=n_items).astype(np.float64)
    return RecommendationCounts(counts, n_users, (rows, items))


def _top_k(scores: AnyArray, k: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return (row, item) of the k highest finite scores of each row; ties for the last places at random."""
    limit = np.partition(scores, -k, axis=1)[:, -k]
    chosen = scores >= limit[:, None]
    short = np.flatnonzero(limit == -np.inf)
    chosen[short] &= scores[short] > -np.inf
    for crowd in np.flatnonzero(np.count_nonzero(chosen, axis=1) > k):
        tied = np.flatnonzero(scores[crowd] == limit[crowd])
        n_places = k - np.count_nonzero(scores[crowd] > limit[crowd])
        chosen[crowd, tied] = False
        chosen[crowd, rng.choice(tied, size=n_places, replace=False)] = True
    row, item = np.nonzero(chosen)
    return row.astype(np.int64), item.astype(np.int64)
