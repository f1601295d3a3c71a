"""Scores of a few users' training and test items, read from score matrices and factors for sanity checks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from ipseval.data.sparse import is_sparse_matrix
from ipseval.data.splits import Split
from ipseval.utils.types import AnyArray, FloatArray, IntArray

MOST_USERS = 60  # further users add little to the power of the checks
SHARE_OF_USERS = 0.02
N_BACKGROUND = 200  # items that training items are compared with
MOST_ITEMS = 20  # training items of a user that are read, and test items


@dataclass(frozen=True, eq=False)
class RowReader:
    """Which entries of score matrices are read.

    Attributes
    ----------
    split : Split
    users : (m,) array
        Codes of the sampled users, ascending.
    training, test : list of m arrays
        Codes of items of each user.
    items : (n,) array
        Codes of all items that are read, ascending.
    background : (b,) array
        Positions in `items` of the items that others are compared with.
    """

    split: Split
    users: IntArray
    training: list[IntArray]
    test: list[IntArray]
    items: IntArray
    background: IntArray

    @classmethod
    def of(cls, split: Split) -> RowReader:
        """Choose users and items, the same for every model; no user where there are too few."""
        rng = np.random.default_rng(0)
        both = (split.train.activity > 0) & (split.test.activity > 0)
        eligible = np.flatnonzero(both)
        n_users = min(MOST_USERS, math.floor(SHARE_OF_USERS * split.n_users), eligible.size)
        positions = np.linspace(0, max(eligible.size - 1, 0), n_users).astype(np.int64)
        users = eligible[positions]  # spread evenly over the ids
        training = [_choose(items, rng) for items in _items_of(split.train, users)]
        test = [_choose(items, rng) for items in _items_of(split.test, users)]
        n_background = min(N_BACKGROUND, split.n_items)
        background = np.sort(rng.choice(split.n_items, n_background, replace=False))
        items = np.unique(np.concatenate([background, *training, *test]))
        return cls(split, users, training, test, items, np.searchsorted(items, background))


def _items_of(log: Any, users: IntArray) -> list[IntArray]:
    """Return the distinct items of each user."""
    position = np.full(log.n_users, -1)
    position[users] = np.arange(users.size)
    rows = np.flatnonzero(position[log.user] >= 0)
    order = np.argsort(position[log.user[rows]], kind="stable")
    rows = rows[order]
    starts = np.searchsorted(position[log.user[rows]], np.arange(users.size + 1))
    return [np.unique(log.item[rows[starts[at] : starts[at + 1]]]) for at in range(users.size)]


def _choose(items: IntArray, rng: np.random.Generator) -> IntArray:
    if items.size <= MOST_ITEMS:
        return items
    return np.sort(rng.choice(items, MOST_ITEMS, replace=False))


@dataclass(frozen=True, eq=False)
class SampledScores:
    """How a model scores training items of users whose training items are not masked.

    Attributes
    ----------
    own : (m,) array
        Mean percentile of a user's training items in the user's own row.
    percentile_error : float
        Standard error of the mean of `own`, clustered by users and by items.
    share_higher : (m,) array
        Share of the other users' rows in which a user's training items have a higher mean percentile.
    spread : float
        Standard deviation of that mean percentile between rows, averaged over users.
    advantage, test_advantage : (m,) arrays
        Mean percentile of a user's training items, and of the test items, in the user's own row minus that in
        the rows of the other users. A popular item has no advantage by itself.
    test_share_higher : (m,) array
        Share of the other users' rows in which a user's test items have a higher mean percentile.
    training_over_test : (m,) array
        Probability that a training item of the user is scored above a test item.
    n_test_items : int
        Number of test items that were read.
    """

    own: FloatArray
    percentile_error: float
    share_higher: FloatArray
    spread: float
    advantage: FloatArray
    test_advantage: FloatArray
    test_share_higher: FloatArray
    training_over_test: FloatArray
    n_test_items: int


def sample_scores(model: Any, reader: RowReader) -> SampledScores | None:
    """Return how a score matrix or factor model scores training items; None for other models."""
    if reader.users.size < 2:
        return None
    scores = read_scores(model, reader)
    if scores is None:
        return None
    kept = [row for row in range(reader.users.size) if not _is_masked(scores[row], row, reader)]
    if len(kept) < 2:
        return None
    percentiles = _rank_in_background(scores, reader.background)
    training = _indicate_items(reader.training, reader.items)[kept]
    test = _indicate_items(reader.test, reader.items)[kept]
    own, advantage, share_higher, spread = _compare_rows(percentiles, training, kept)
    _, test_advantage, test_share_higher, _ = _compare_rows(percentiles, test, kept)
    return SampledScores(
        own=own,
        percentile_error=_error_of_mean(percentiles, training, kept),
        share_higher=share_higher,
        spread=spread,
        advantage=advantage,
        test_advantage=test_advantage,
        test_share_higher=test_share_higher,
        training_over_test=np.array(_compare_with_test(scores, kept, reader)),
        n_test_items=int(test.nnz),
    )


def _compare_rows(
    percentiles: FloatArray, membership: Any, kept: list[int]
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return mean percentiles of users' items in their own rows, and how they compare with other rows.

    The result is the mean percentile, the advantage over the other rows, the share of the other rows in which
    it is higher, and its standard deviation between rows.
    """
    means = np.asarray(membership @ percentiles.T).T  # means[v, u]: the items of user u in row v
    own = means[kept, np.arange(len(kept))]
    n_others = means.shape[0] - 1
    advantage = own - (means.sum(axis=0) - own) / n_others
    share_higher = (means > own + 1e-9).sum(axis=0) / n_others
    return own, advantage, share_higher, float(means.std(axis=0).mean())


def read_scores(model: Any, reader: RowReader) -> FloatArray | None:
    """Return the scores of the sampled users and items, (m, n); None for what is not read by position."""
    split = reader.split
    shape = (split.n_users, split.n_items)
    users = reader.users
    items = reader.items
    scores: AnyArray
    if isinstance(model, np.ndarray) and model.shape == shape:
        scores = model[np.ix_(users, items)]
    elif isinstance(model, pd.DataFrame):
        if not (model.index.is_unique and model.columns.is_unique):  # a frame of recommendation lists
            return None
        rows = model.index.get_indexer(pd.Index(split.user_ids[users]))
        columns = model.columns.get_indexer(pd.Index(split.item_ids[items]))
        if (rows < 0).any() or (columns < 0).any():
            return None
        scores = model.iloc[rows, columns].to_numpy()
    elif is_sparse_matrix(model) and model.shape == shape:
        scores = model.tocsr()[users][:, items].toarray()
    elif isinstance(model, tuple) and len(model) in (2, 3):
        factors = _multiply_factors(model, users, items, shape)
        if factors is None:
            return None
        scores = factors
    else:
        return None
    try:
        return np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _multiply_factors(
    model: tuple[Any, ...], users: IntArray, items: IntArray, shape: tuple[int, int]
) -> AnyArray | None:
    """Return products of factors that are arrays; None for other tuples."""
    user_factors = model[0]
    item_factors = model[1]
    bias = model[2] if len(model) == 3 else None
    if not isinstance(user_factors, np.ndarray) or not isinstance(item_factors, np.ndarray):
        return None
    if user_factors.ndim != 2 or (user_factors.shape[0], item_factors.shape[0]) != shape:
        return None
    scores = user_factors[users].astype(np.float64) @ item_factors[items].astype(np.float64).T
    return scores if bias is None else scores + np.asarray(bias)[items]


def _is_masked(row: FloatArray, number: int, reader: RowReader) -> bool:
    """Return whether a user's training items were masked: -inf, NaN, or not above any other item."""
    position = np.searchsorted(reader.items, reader.training[number])
    training = row[position]
    if not (training > -np.inf).all():  # NaN as well
        return True
    is_other = np.ones(row.size, dtype=bool)
    is_other[position] = False
    others = row[is_other]
    return bool(training.max() <= np.nanmin(others, initial=np.inf))


def _rank_in_background(scores: FloatArray, background: IntArray) -> FloatArray:
    """Return the share of background items below each item, ties counted by half, (m, n)."""
    percentiles = np.empty(scores.shape)
    for number, row in enumerate(scores):
        sorted_background = np.sort(row[background])
        below = np.searchsorted(sorted_background, row, side="left")
        not_above = np.searchsorted(sorted_background, row, side="right")
        percentiles[number] = (below + not_above) / (2 * background.size)
    return percentiles


def _indicate_items(lists: list[IntArray], items: IntArray) -> Any:
    """Return a sparse matrix, lists × items, whose rows average over the items of a list."""
    lengths = np.array([entry.size for entry in lists])
    row = np.repeat(np.arange(lengths.size), lengths)
    column = np.searchsorted(items, np.concatenate(lists))
    value = 1 / lengths[row]
    return scipy.sparse.csr_matrix((value, (row, column)), shape=(lengths.size, items.size))


def _error_of_mean(percentiles: FloatArray, membership: Any, kept: list[int]) -> float:
    """Return the standard error of the mean percentile of training items in their users' own rows."""
    entries = membership.tocoo()
    residual = (percentiles[np.array(kept)[entries.row], entries.col] - 0.5) * entries.data
    residual -= residual.sum() / residual.size
    by_user = np.bincount(entries.row, residual)
    by_item = np.bincount(entries.col, residual)
    return math.sqrt(float(by_user @ by_user + by_item @ by_item)) / len(kept)


def _compare_with_test(scores: FloatArray, kept: list[int], reader: RowReader) -> list[float]:
    """Return the probability that a training item is scored above a test item, for each kept user."""
    probabilities = []
    for number in kept:
        row = scores[number]
        training = np.sort(row[np.searchsorted(reader.items, reader.training[number])])
        test = row[np.searchsorted(reader.items, reader.test[number])]
        not_above = np.searchsorted(training, test, side="right")
        below = np.searchsorted(training, test, side="left")
        probabilities.append(float(1 - (below + not_above).mean() / (2 * training.size)))
    return probabilities
