"""Matrices of recommendation lists, from top-k lists or from the best items of a scorer."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import sparse

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.utils.checks import as_generator, check_positive_int, describe_type
from ipseval.utils.columns import as_frame
from ipseval.utils.ids import same_ids, unique_keys
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, HasIds, IntArray, RngLike

SCORES_ADVICE = "pass its best items, ipseval.ranking.top_items(model, split, k=50)."


def build_list_matrix(lists: AnyArray, n_items: int) -> sparse.csr_array:
    """Return the items of each row of an (n_lists, k) array of codes as 0 and 1; −1 fills shorter lists."""
    if lists.ndim != 2 or lists.dtype.kind not in "iu" or lists.shape[0] == 0:
        raise InputError(
            "lists must be an (n_lists, k) integer array of item codes; got "
            f"shape {lists.shape}, dtype {lists.dtype}."
        )
    is_invalid = (lists < -1) | (lists >= n_items)
    if is_invalid.any():
        raise InputError(
            f"item codes must be in 0 … {n_items - 1} (or −1 for an empty place); {int(is_invalid.sum())} of "
            f"{lists.size:,} are not (e.g. {lists[is_invalid][0]})."
        )
    rows, positions = np.nonzero(lists >= 0)
    return _build_list_matrix(rows, lists[rows, positions].astype(np.int64), lists.shape[0], n_items)


def _build_list_matrix(rows: IntArray, items: IntArray, n_lists: int, n_items: int) -> sparse.csr_array:
    """Return an (n_lists, n_items) matrix with 1 for each entry, or raise for repeated items."""
    n_repeated = rows.size - unique_keys(rows * np.int64(n_items) + items).size
    if n_repeated:
        raise InputError(f"{n_repeated} entries repeat an item of the same list; each may occur once.")
    return sparse.csr_array((np.ones(rows.size), (rows, items)), shape=(n_lists, n_items))


@public_function
def count_recommendations(
    lists: Any, train: Interactions, *, k: int = 50, rng: RngLike = None
) -> sparse.csr_array:
    """Build the matrix of the items in each user's top-k list.

    Parameters
    ----------
    lists : lists
        An (n_lists, ≤ k) integer array of item codes, −1 in empty places; a frame with columns user, item and
        rank (ascending) or score (descending), of which the first k per user count; or the result of
        `ipseval.ranking.top_items(model, split, k=k)` for a scorer.
    train : Interactions
        Training log: the ids.
    k : int, default 50
        Length of the lists.
    rng : int, Generator or None, default None
        Decides which of several equally scored items take the last places.

    Returns
    -------
    (n_lists, n_items) sparse array
        1 for the items of each list, else 0. Its column sums are the numbers of lists with each item.

    Raises
    ------
    InputError
        For a shape or type that does not fit, unknown ids, repeated items.

    See Also
    --------
    fit_gamma : Estimate γ from the lists.

    Examples
    --------
    Two lists, of three items and of one item, in a training log with four items:

    >>> import numpy as np
    >>> from ipseval import Interactions
    >>> train = Interactions(np.array([0, 0, 1]), np.array([0, 1, 3]), np.arange(2), np.arange(4))
    >>> lists = count_recommendations(np.array([[0, 1, 3], [0, -1, -1]]), train, k=3)
    >>> lists.toarray()
    array([[1., 1., 0., 1.],
           [1., 0., 0., 0.]])
    >>> lists.sum(axis=0)
    array([2., 1., 0., 1.])
    """
    check_positive_int("k", k)
    if isinstance(lists, sparse.csr_array):
        return lists
    if hasattr(lists, "n_above") and hasattr(lists, "n_tied"):
        return _count_top_items(lists, train, k, as_generator(rng))
    if isinstance(lists, np.ndarray) and lists.ndim == 2 and lists.dtype.kind in "iu":
        if lists.shape[1] == train.n_items:
            raise InputError(
                "an integer array is read as lists of item codes, and this one has a column for every item; "
                f"if it holds scores, {SCORES_ADVICE}"
            )
        # A plain array, because a np.matrix cannot be indexed by row.
        return build_list_matrix(np.asarray(lists)[:, :k], train.n_items)
    frame = as_frame(lists)
    if frame is not None and {"user", "item"} <= set(frame.columns):
        return _count_frame(frame, train, k)
    raise InputError(
        f"recommendations is {describe_type(lists)}; expected lists: an integer array, or a frame with user, item "
        f"and rank. Of a scorer {SCORES_ADVICE}"
    )


class _TopItems(HasIds, Protocol):
    """Best items of each user with the number of items that score higher and equally high."""

    user: IntArray
    item: IntArray
    n_above: IntArray
    n_tied: IntArray


def _count_top_items(
    top: _TopItems, train: Interactions, k: int, rng: np.random.Generator
) -> sparse.csr_array:
    """Return the lists of each user's best items; items that tie for the last places are drawn."""
    if not same_ids(top, train):
        raise InputError("the best items have other ids than the training log; rank them on its split.")
    order = np.lexsort((top.item, top.user))
    user = top.user[order]
    item = top.item[order]
    n_above = top.n_above[order]
    n_tied = top.n_tied[order]

    is_listed = n_above + n_tied < k
    tie_rows = np.flatnonzero(~is_listed & (n_above < k))
    if tie_rows.size:
        user_bounds = np.flatnonzero(np.diff(user[tie_rows])) + 1
        for user_rows in np.split(tie_rows, user_bounds):
            n_places = k - n_above[user_rows[0]]
            is_listed[rng.choice(user_rows, size=n_places, replace=False)] = True
    return _build_list_matrix(user[is_listed], item[is_listed], train.n_users, train.n_items)


def _count_frame(frame: Any, train: Interactions, k: int) -> sparse.csr_array:
    """Return the first k items of each user of a frame, by rank, by score or in the order of the rows."""
    order_column = None
    if "rank" in frame.columns:
        order_column = "rank"
    elif "score" in frame.columns:
        order_column = "score"
    log = Interactions.from_frame(frame, value=order_column, users=train.user_ids, items=train.item_ids)
    rows = log.user
    items = log.item
    if log.value is not None:
        sort_values = log.value if order_column == "rank" else -log.value
        order = np.lexsort((sort_values, rows))
        user_starts = np.concatenate([[0], np.cumsum(log.activity)])[rows[order]]
        first_entries = order[np.arange(rows.size) - user_starts < k]
        rows = rows[first_entries]
        items = items[first_entries]
    users, list_rows = np.unique(rows, return_inverse=True)
    return _build_list_matrix(list_rows, items, users.size, train.n_items)
