"""Which items each list recommends: read from top-k lists, or from the best items of a scorer."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.utils.checks import as_generator, check_positive_int, kind_of
from ipseval.utils.columns import as_frame
from ipseval.utils.ids import distinct, same_ids
from ipseval.utils.types import AnyArray, IntArray, RngLike

OF_SCORES = "pass its best items, ipseval.ranking.top_items(model, split, k=50)."


def build_list_matrix(lists: AnyArray, n_items: int) -> sparse.csr_array:
    """Return which items the rows of an (n_lists, k) array of codes hold; −1 fills lists shorter than k."""
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
    return _matrix(row, lists[row, column].astype(np.int64), lists.shape[0], n_items)


def _matrix(row: IntArray, item: IntArray, n_lists: int, n_items: int) -> sparse.csr_array:
    n_repeated = row.size - distinct(row * np.int64(n_items) + item).size
    if n_repeated:
        raise InputError(f"{n_repeated} entries repeat an item of the same list; each may occur once.")
    return sparse.csr_array((np.ones(row.size), (row, item)), shape=(n_lists, n_items))


def count_recommendations(
    lists: Any, train: Interactions, *, k: int = 50, rng: RngLike = None
) -> sparse.csr_array:
    """Return which items each user's top-k list holds, (n_lists, n_items) of 0 and 1; sums count lists.

    Parameters
    ----------
    lists : lists
        An (n_lists, ≤ k) integer array of item codes, −1 in empty places; a frame with columns user, item and
        rank (ascending) or score (descending), of which the first k per user count; or what
        `ipseval.ranking.top_items(model, split, k=k)` returns for a scorer.
    train : Interactions
        Training log: the ids.
    k : int
        Length of the lists.
    rng : int, Generator or None
        Decides which of several equally scored items take the last places.

    Raises
    ------
    InputError
        For a shape or type that does not fit, unknown ids, repeated items.
    """
    check_positive_int("k", k)
    if isinstance(lists, sparse.csr_array):
        return lists
    if hasattr(lists, "n_above") and hasattr(lists, "n_tied"):
        return _count_top(lists, train, k, as_generator(rng))
    if isinstance(lists, np.ndarray) and lists.ndim == 2 and lists.dtype.kind in "iu":
        if lists.shape[1] == train.n_items:
            raise InputError(
                "an integer array is read as lists of item codes, and this one has a column for every item; "
                f"if it holds scores, {OF_SCORES}"
            )
        return build_list_matrix(np.asarray(lists)[:, :k], train.n_items)  # not of np.matrix, which has no rows
    frame = as_frame(lists)
    if frame is not None and {"user", "item"} <= set(frame.columns):
        return _count_frame(frame, train, k)
    raise InputError(
        f"recommendations is {kind_of(lists)}; expected lists: an integer array, or a frame with user, item "
        f"and rank. Of a scorer {OF_SCORES}"
    )


def _count_top(top: Any, train: Interactions, k: int, rng: np.random.Generator) -> sparse.csr_array:
    """Return the lists of each user's best items; those that tie for the last places are drawn."""
    if not same_ids(top, train):
        raise InputError("the best items have other ids than the training log; rank them on its split.")
    order = np.lexsort((top.item, top.user))
    user, item, n_above, n_tied = (one[order] for one in (top.user, top.item, top.n_above, top.n_tied))
    chosen = n_above + n_tied < k
    last = np.flatnonzero(~chosen & (n_above < k))
    for crowd in np.split(last, np.flatnonzero(np.diff(user[last])) + 1) if last.size else []:
        chosen[rng.choice(crowd, size=k - n_above[crowd[0]], replace=False)] = True
    return _matrix(user[chosen], item[chosen], train.n_users, train.n_items)


def _count_frame(frame: Any, train: Interactions, k: int) -> sparse.csr_array:
    key = next((name for name in ("rank", "score") if name in frame.columns), None)
    log = Interactions.from_frame(frame, value=key, users=train.user_ids, items=train.item_ids)
    row, item = log.user, log.item
    if log.value is not None:
        order = np.lexsort((log.value if key == "rank" else -log.value, row))
        starts = np.concatenate([[0], np.cumsum(log.activity)])[row[order]]
        kept = order[np.arange(row.size) - starts < k]
        row, item = row[kept], item[kept]
    users, row = np.unique(row, return_inverse=True)
    return _matrix(row, item, users.size, train.n_items)
