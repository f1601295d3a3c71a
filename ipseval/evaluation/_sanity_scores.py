"""Scores of training and test items of a few users, read from score matrices for sanity checks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from ipseval.data.interactions import Interactions
from ipseval.data.sparse import is_sparse_matrix
from ipseval.data.splits import Split
from ipseval.utils.types import AnyArray, FloatArray, IntArray

MOST_USERS = 60  # further users add little to the power of the checks
SHARE_OF_USERS = 0.02
N_BACKGROUND = 200  # reference items whose scores training and test items are compared with
MOST_ITEMS = 20  # largest number of training items, and of test items, that are read of a user


@dataclass(frozen=True, eq=False)
class RowReader:
    """The users and items of the scores that are read.

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
        Positions in `items` of the reference items.
    """

    split: Split
    users: IntArray
    training: list[IntArray]
    test: list[IntArray]
    items: IntArray
    background: IntArray

    @classmethod
    def from_split(cls, split: Split) -> RowReader:
        """Choose users and items, the same for every model; no user where there are too few."""
        rng = np.random.default_rng(0)
        eligible = np.flatnonzero((split.train.activity > 0) & (split.test.activity > 0))
        n_users = min(MOST_USERS, math.floor(SHARE_OF_USERS * split.n_users), eligible.size)
        positions = np.linspace(0, max(eligible.size - 1, 0), n_users).astype(np.int64)
        users = eligible[positions]  # spread evenly over the ids
        training = [_sample_items(items, rng) for items in _list_items(split.train, users)]
        test = [_sample_items(items, rng) for items in _list_items(split.test, users)]
        n_background = min(N_BACKGROUND, split.n_items)
        background = np.sort(rng.choice(split.n_items, n_background, replace=False))
        items = np.unique(np.concatenate([background, *training, *test]))
        return cls(
            split=split,
            users=users,
            training=training,
            test=test,
            items=items,
            background=np.searchsorted(items, background),
        )


def _list_items(log: Interactions, users: IntArray) -> list[IntArray]:
    """Return the distinct items of each user."""
    position = np.full(log.n_users, -1)
    position[users] = np.arange(users.size)
    rows = np.flatnonzero(position[log.user] >= 0)
    order = np.argsort(position[log.user[rows]], kind="stable")
    rows = rows[order]
    starts = np.searchsorted(position[log.user[rows]], np.arange(users.size + 1))
    items = []
    for start, stop in pairwise(starts):
        items.append(np.unique(log.item[rows[start:stop]]))
    return items


def _sample_items(items: IntArray, rng: np.random.Generator) -> IntArray:
    """Return at most `MOST_ITEMS` of the items, ascending."""
    if items.size <= MOST_ITEMS:
        return items
    return np.sort(rng.choice(items, MOST_ITEMS, replace=False))


@dataclass(frozen=True, eq=False)
class SampledScores:
    """Scores of training and test items in comparison with other items, users and each other.

    Users whose training items are masked are excluded.

    Attributes
    ----------
    percentile : (m,) array
        Mean percentile of a user's training items in the user's own row.
    percentile_error : float
        Standard error of the mean of `percentile`, clustered by users and by items.
    share_higher : (m,) array
        Share of the other users' rows in which a user's training items have a higher mean percentile.
    spread : float
        Standard deviation of that mean percentile between rows, averaged over users.
    dependence : float
        Variance of that mean percentile between rows, relative to the variance if the items of a user varied
        independently. Above 1 where a recommender ranks items alike that occur together in the log.
    advantage, test_advantage : (m,) arrays
        Mean percentile of a user's training items, and of the test items, in the user's own row minus the
        mean percentile in the rows of the other users. Popularity alone is not an advantage.
    test_share_higher : (m,) array
        Share of the other users' rows in which a user's test items have a higher mean percentile.
    training_over_test : (m,) array
        Probability that a training item of the user is scored above a test item.
    n_test_items : int
        Number of test items that were read.
    """

    percentile: FloatArray
    percentile_error: float
    share_higher: FloatArray
    spread: float
    dependence: float
    advantage: FloatArray
    test_advantage: FloatArray
    test_share_higher: FloatArray
    training_over_test: FloatArray
    n_test_items: int


def sample_scores(model: object, reader: RowReader) -> SampledScores | None:
    """Return how a score matrix or factor model scores training items; None for other models."""
    if reader.users.size < 2:
        return None
    scores = read_scores(model, reader)
    if scores is None:
        return None
    rows = [index for index, row in enumerate(scores) if not _is_masked(row, index, reader)]
    if len(rows) < 2:
        return None
    percentiles = _rank_in_background(scores, reader.background)
    training = _average_over_items(reader.training, reader.items)[rows]
    test = _average_over_items(reader.test, reader.items)[rows]
    percentile, advantage, share_higher, spread = _compare_rows(percentiles, training, rows)
    _, test_advantage, test_share_higher, _ = _compare_rows(percentiles, test, rows)
    return SampledScores(
        percentile=percentile,
        percentile_error=_compute_error_of_mean(percentiles, training, rows),
        share_higher=share_higher,
        spread=spread,
        dependence=_compute_dependence(percentiles, training),
        advantage=advantage,
        test_advantage=test_advantage,
        test_share_higher=test_share_higher,
        training_over_test=np.array(_compare_with_test(scores, rows, reader)),
        n_test_items=int(test.nnz),
    )


def _compare_rows(
    percentiles: FloatArray, membership: scipy.sparse.csr_matrix, rows: list[int]
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return mean percentiles of users' items in their own rows, and their comparison with other rows.

    The result is the mean percentile, the advantage over the other rows, the share of the other rows in which
    it is higher, and its standard deviation between rows. `rows`: the row of each user.
    """
    means = np.asarray(membership @ percentiles.T).T  # means[v, u]: the items of user u in row v
    percentile = means[rows, np.arange(len(rows))]
    n_other_rows = means.shape[0] - 1
    advantage = percentile - (means.sum(axis=0) - percentile) / n_other_rows
    share_higher = (means > percentile + 1e-9).sum(axis=0) / n_other_rows
    return percentile, advantage, share_higher, float(means.std(axis=0).mean())


def _compute_dependence(percentiles: FloatArray, membership: scipy.sparse.csr_matrix) -> float:
    """Return the variance of users' mean percentiles between rows, relative to that of independent items."""
    means = np.asarray(membership @ percentiles.T)
    variance = float(means.var(axis=1).sum())
    independent_variance = float((membership.power(2) @ percentiles.var(axis=0)).sum())
    if independent_variance == 0:
        return 1.0
    return variance / independent_variance


def read_scores(model: object, reader: RowReader) -> FloatArray | None:
    """Return the scores of the sampled users and items, (m, n); None for models that are not matrices."""
    scores = _select_scores(model, reader)
    if scores is None:
        return None
    try:
        return np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _select_scores(model: object, reader: RowReader) -> AnyArray | None:
    """Return the rows and columns of a score matrix, a frame or factors; None for other models."""
    shape = (reader.split.n_users, reader.split.n_items)
    users = reader.users
    items = reader.items
    if isinstance(model, np.ndarray) and model.shape == shape:
        return np.asarray(model[np.ix_(users, items)])
    if isinstance(model, pd.DataFrame):
        return _select_by_labels(model, reader)
    if is_sparse_matrix(model) and model.shape == shape:
        return np.asarray(model.tocsr()[users][:, items].toarray())
    if isinstance(model, tuple) and len(model) in (2, 3):
        return _multiply_factors(model, users, items, shape)
    return None


def _select_by_labels(model: pd.DataFrame, reader: RowReader) -> AnyArray | None:
    """Return the scores of a frame with ids as labels; None for a frame of recommendation lists."""
    if not (model.index.is_unique and model.columns.is_unique):
        return None
    rows = model.index.get_indexer(pd.Index(reader.split.user_ids[reader.users]))
    columns = model.columns.get_indexer(pd.Index(reader.split.item_ids[reader.items]))
    if (rows < 0).any() or (columns < 0).any():
        return None
    return np.asarray(model.iloc[rows, columns].to_numpy())


def _multiply_factors(
    model: tuple[Any, ...], users: IntArray, items: IntArray, shape: tuple[int, int]
) -> AnyArray | None:
    """Return products of factors that are arrays; None for other tuples."""
    user_factors = model[0]
    item_factors = model[1]
    if not isinstance(user_factors, np.ndarray) or not isinstance(item_factors, np.ndarray):
        return None
    if user_factors.ndim != 2 or (user_factors.shape[0], item_factors.shape[0]) != shape:
        return None
    scores = user_factors[users].astype(np.float64) @ item_factors[items].astype(np.float64).T
    bias = None
    if len(model) == 3:
        bias = model[2]
    if bias is None:
        return scores
    return scores + np.asarray(bias)[items]


def _is_masked(row: FloatArray, index: int, reader: RowReader) -> bool:
    """Return whether a user's training items were masked: -inf, NaN, or not above any other item."""
    positions = np.searchsorted(reader.items, reader.training[index])
    training = row[positions]
    if not (training > -np.inf).all():  # NaN as well
        return True
    is_candidate = np.ones(row.size, dtype=bool)
    is_candidate[positions] = False
    return bool(training.max() <= np.nanmin(row[is_candidate], initial=np.inf))


def _rank_in_background(scores: FloatArray, background: IntArray) -> FloatArray:
    """Return the share of background items below each item, ties counted by half, (m, n)."""
    percentiles = np.empty(scores.shape)
    for index, row in enumerate(scores):
        reference = np.sort(row[background])
        n_below = np.searchsorted(reference, row, side="left")
        n_not_above = np.searchsorted(reference, row, side="right")
        percentiles[index] = (n_below + n_not_above) / (2 * background.size)
    return percentiles


def _average_over_items(lists: list[IntArray], items: IntArray) -> scipy.sparse.csr_matrix:
    """Return the sparse matrix, lists × items, that averages values of items over each list."""
    lengths = np.array([entry.size for entry in lists])
    row = np.repeat(np.arange(lengths.size), lengths)
    column = np.searchsorted(items, np.concatenate(lists))
    value = 1 / lengths[row]
    return scipy.sparse.csr_matrix((value, (row, column)), shape=(lengths.size, items.size))


def _compute_error_of_mean(
    percentiles: FloatArray, membership: scipy.sparse.csr_matrix, rows: list[int]
) -> float:
    """Return the standard error of the mean percentile of training items in their users' own rows."""
    entries = membership.tocoo()
    residual = (percentiles[np.array(rows)[entries.row], entries.col] - 0.5) * entries.data
    residual -= residual.sum() / residual.size
    user_sums = np.bincount(entries.row, residual)
    item_sums = np.bincount(entries.col, residual)
    return math.sqrt(float(user_sums @ user_sums + item_sums @ item_sums)) / len(rows)


def _compare_with_test(scores: FloatArray, rows: list[int], reader: RowReader) -> list[float]:
    """Return the probability that a training item is scored above a test item, for the user of each row."""
    probabilities = []
    for index in rows:
        row = scores[index]
        training = np.sort(row[np.searchsorted(reader.items, reader.training[index])])
        test = row[np.searchsorted(reader.items, reader.test[index])]
        n_not_above = np.searchsorted(training, test, side="right")
        n_below = np.searchsorted(training, test, side="left")
        probabilities.append(float(1 - (n_below + n_not_above).mean() / (2 * training.size)))
    return probabilities
