"""Sanity checks of an evaluation: reversed scores, shuffled rows or columns, and training on the test part.

Each check compares a figure with its value by chance and asks a question where the difference has no usual
explanation. A warning is a value, a code with its figures; `word_warning` returns its text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ipseval.data.interactions import Interactions
from ipseval.data.sparse import is_sparse_matrix
from ipseval.data.splits import Split
from ipseval.ranking import RankedPositives
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray

Code = Literal[
    "below-chance",
    "at-chance",
    "training-at-chance",
    "rows-exchangeable",
    "test-like-training",
    "lists-of-positives",
    "order-of-numbers",
    "weights-too-large",
    "weights-too-small",
]

DEPTH = 0.1  # recall is compared with chance in this share of the candidates, or at the largest cutoff
MOST_POSITIVES = 10_000  # further positives add little to the power of the check
LEVEL = 1e-4  # significance level of "below chance"
# At chance: within two standard errors, where a recall higher by half would be detected in 98% of cases.
WITHIN = 2.0
VISIBLE_GAIN = 0.5
POWER = WITHIN + 2.33
# Scores of training items.
FEWEST_USERS = 12
# Mean percentile up to which training items count as ranked no higher than by chance.
NO_HIGHER = 0.56
SMALLEST_ERROR = 1e-9  # of equal percentiles
LARGEST_ERROR = 0.1  # largest standard error of the mean percentile that allows a statement about it
EXCHANGEABLE = 0.35  # share of other rows that rank a user's training items higher; 0.5 when shuffled
PERSONAL = 0.02  # least spread between rows, in percentiles
# Rows that are in the right order stand out only if the recommender has learnt which items occur together. This
# ratio of variances is 1 for noise, at most 1.6 for simulated recommenders that were not fitted to the log, and
# from 1.8 for fitted models on public logs.
LEARNT = 1.6
NEAR_THE_TOP = 0.9  # mean percentile from which training items are high enough in the rows of their users
# Test items that are ranked as high as training items. Item-based nearest neighbours rank them nearly as high
# without having seen them, and so does a recommender that knows the taste of users from elsewhere. So only test
# items that rank higher for hardly any other user count, and only items of similar popularity are compared.
FEWEST_TEST_ITEMS = 50
FAR_ABOVE = 0.14  # least advantage of training items over the rows of other users, in percentiles
ALIKE = 0.95  # least share of this advantage that test items have
HARDLY_HIGHER = 0.03  # largest share of other rows that rank test items higher
LONGEST_LISTS = 0.5  # share of the candidates up to which lists that hold every test item are no usual result
SIMILAR = 0.3  # largest difference of the logarithms of interactions of items of similar popularity
# An array in the order of the numbers in its ids, which is not that of sorted text.
MOST_READ_POSITIVES = 400
MOST_DIGITS = 18  # of numbers that fit into 64 bits
FAR_FROM_EQUAL = 4.0  # least difference of the two orders in standard errors
WELL_ABOVE = 0.6  # least mean percentile of positives in the order of the numbers
EXCHANGED = 0.58  # largest probability, plus its error, that a training item is scored above such a test item


@dataclass(frozen=True, kw_only=True)
class SanityWarning:
    """A property of a recommender that chance does not explain, or that is typical of chance.

    Attributes
    ----------
    code : str
        "below-chance", "at-chance": recall in the first part of the ranking. "training-at-chance": a score
        matrix ranks the training items of users no higher than other items. "rows-exchangeable": it ranks
        them as high for other users. "test-like-training": it ranks test items as high as training items.
        "lists-of-positives": short lists hold every test item. "order-of-numbers": an array ranks test items
        high if its rows or columns are in the order of the numbers in the ids, 2 before 10, and not as sorted.
        "weights-too-large", "weights-too-small": propensities from impressions do not fit its listed items
        (`check_listed_weights`).
    model : str
        Name of the recommender.
    figures : dict
        The numbers behind the warning.
    """

    code: Code
    model: str
    figures: dict[str, float]


def check_sanity(
    ranks: Mapping[str, RankedPositives], models: Mapping[str, object], split: Split
) -> tuple[SanityWarning, ...]:
    """Return signs of mistakes in the scores or in the training of the recommenders.

    Parameters
    ----------
    ranks : mapping
        Name -> ranks of the test positives.
    models : mapping
        Name -> scorer. Score matrices and factors are read for at most 60 users, and for at most 2% of the
        users; other models are checked by their ranks only.
    split : Split
        Split whose test positives were ranked.

    Returns
    -------
    tuple of SanityWarning

    Examples
    --------
    A recommender whose scores have the wrong sign:

    >>> import pandas as pd
    >>> from ipseval.data.splits import split_random
    >>> from ipseval.ranking import rank_positives
    >>> rng = np.random.default_rng(0)
    >>> user, item = np.nonzero(rng.random((200, 100)) < np.linspace(0.02, 0.5, 100))
    >>> split = split_random(pd.DataFrame({"user": user, "item": item}), rng=0)
    >>> counts = np.tile(split.train.popularity, (200, 1))
    >>> warnings = check_sanity({"reversed": rank_positives(-counts, split)}, {}, split)
    >>> [warning.code for warning in warnings]
    ['below-chance']
    """
    warnings: list[SanityWarning] = []
    reader = RowReader.from_split(split)
    orders = IdOrders.from_split(split, models)
    for name, ranked in ranks.items():
        model = models.get(name)
        if getattr(model, "draws_at_random", False):
            continue
        warnings += _check_list_content(name, ranked)
        order_warnings = _check_order_of_ids(name, model, ranked, orders)
        if order_warnings:
            warnings += order_warnings
            continue  # the other checks would ask for the same mistake
        recall = _compare_recall(ranked, split)
        if recall is not None:
            warnings += _check_recall(name, recall)
        sampled = sample_scores(model, reader)
        if sampled is not None:
            is_above_chance = recall is not None and recall.z > WITHIN
            warnings += _check_training_scores(name, sampled, is_above_chance=is_above_chance)
    return tuple(warnings)


def find_failing_models(warnings: Sequence[SanityWarning]) -> tuple[str, ...]:
    """Return the recommenders with a warning about the weights of their listed items."""
    return tuple(
        warning.model for warning in warnings if warning.code in ("weights-too-large", "weights-too-small")
    )


def word_warning(warning: SanityWarning) -> str:
    """Return a warning as text: the figure, and its possible cause."""
    return WORDS[warning.code].format(model=warning.model, **warning.figures)


WORDS: dict[str, str] = {
    "lists-of-positives": (
        "{model} lists all {n_positives:,.0f} held-out interactions among {length:.1f} of "
        "{n_candidates:,.0f} candidates on average. Were the held-out pairs alone scored? Score all items that the "
        "user has no training interaction with."
    ),
    "order-of-numbers": (
        "{model} scores held-out interactions above {by_number:.0%} of the items if its rows and columns are in the "
        "order of the numbers in the ids (2 before 10), and above {as_sorted:.0%} in the order of split.user_ids and "
        "split.item_ids, which are sorted as text (10 before 2). Is it in the order of the numbers? A data frame "
        "with ids as labels needs no order."
    ),
    "below-chance": (
        "{model} finds {recall:.1%} of the held-out interactions in the first {depth:.1%} of the candidates, "
        "fewer than by chance (p = {p_value:.1g}). Are the scores reversed? Higher scores must be better."
    ),
    "at-chance": (
        "{model} finds {recall:.1%} of the held-out interactions in the first {depth:.1%} of the candidates, "
        "as many as by chance. Are the rows and columns of its scores in the order of split.user_ids and "
        "split.item_ids?"
    ),
    "training-at-chance": (
        "{model} scores training items of a user above {percentile:.0%} of all items (mean over "
        "{n_users:.0f} users; 50% by chance). Are its rows or columns shuffled, or its scores reversed?"
    ),
    "rows-exchangeable": (
        "{model} scores training items of a user as high for other users: {share:.0%} of their rows rank "
        "these items higher ({n_users:.0f} users; 50% for shuffled rows). Are its rows in the order of "
        "split.user_ids?"
    ),
    "test-like-training": (
        "{model} scores a training item above a test item of the same user and a similar popularity with "
        "probability {probability:.2f} ({n_users:.0f} users; 0.5 when trained on both parts). Was it trained on the "
        "test part?"
    ),
    "weights-too-large": (
        "{model} lists items that users were shown more often than the propensities state: with right propensities, "
        "the weights 1/P of the listed items that were shown would sum to about the number of listed items, and they "
        "sum to {ratio:,.1f} times it (first {length:.0f} items of each list). Does the policy choose items for each "
        "user, in a way that the propensities ignore, or was {model} trained on the test part? Its weighted estimates "
        "are probably too high: do not report them."
    ),
    "weights-too-small": (
        "{model} lists items that users were shown less often than the propensities state: with right propensities, "
        "the weights 1/P of the listed items that were shown would sum to about the number of listed items, and they "
        "sum to {ratio:.2f} times it (first {length:.0f} items of each list). Does the policy choose items for each "
        "user, in a way that the propensities ignore? Its weighted estimates are probably too low: do not report them."
    ),
}


@dataclass(frozen=True, kw_only=True)
class RecallByChance:
    """Recall of the test positives, its expectation by chance, and its standard error under chance."""

    recall: float
    expected: float
    error: float

    @property
    def z(self) -> float:
        """Distance from chance in standard errors."""
        return (self.recall - self.expected) / self.error


def _compare_recall(positives: RankedPositives, split: Split) -> RecallByChance | None:
    """Return recall in comparison with chance, over positives of items that occur in training.

    Of many positives, which are sorted by user, every second one, or every third one and so on is checked.
    """
    sampled = slice(None, None, 1 + len(positives) // MOST_POSITIVES)
    user = positives.user[sampled]
    item = positives.item[sampled]
    is_checked = np.ones(item.size, dtype=bool)
    if len(split.train):
        is_checked = split.train.popularity[item] > 0
    if positives.list_length is not None:  # users without a list have no ranks
        is_checked &= positives.list_length[user] > 0
    if not is_checked.any():
        return None
    n_candidates = positives.n_candidates[sampled][is_checked].astype(np.float64)
    cutoff = np.ceil(DEPTH * n_candidates)
    if positives.max_rank is not None:
        cutoff = np.minimum(cutoff, positives.max_rank)
    n_above = positives.n_above[sampled][is_checked]
    hits = np.clip((cutoff - n_above) / (positives.n_tied[sampled][is_checked] + 1.0), 0.0, 1.0)
    chance = np.minimum(cutoff / n_candidates, 1.0)
    error = _compute_clustered_error(hits - chance, user[is_checked], item[is_checked], chance)
    if error == 0:
        return None
    return RecallByChance(recall=float(hits.mean()), expected=float(chance.mean()), error=error)


def _check_recall(name: str, recall: RecallByChance) -> list[SanityWarning]:
    """Warn of recall below chance, and of recall at chance where a higher one would be visible."""
    p_value = float(ndtr(recall.z))
    figures = {"recall": recall.recall, "depth": recall.expected, "p_value": p_value}
    if p_value < LEVEL:
        return [SanityWarning(code="below-chance", model=name, figures=figures)]
    if abs(recall.z) < WITHIN and POWER * recall.error < VISIBLE_GAIN * recall.expected:
        return [SanityWarning(code="at-chance", model=name, figures=figures)]
    return []


@dataclass(frozen=True, eq=False)
class IdOrders:
    """Positions of users and items in arrays that are ordered by the numbers in the ids.

    Attributes
    ----------
    split : Split
    user, item : arrays or None
        Position of each code by number; None if it is the code. If both are None, nothing is checked.
    """

    split: Split
    user: IntArray | None
    item: IntArray | None

    @classmethod
    def from_split(cls, split: Split, models: Mapping[str, object]) -> IdOrders:
        """Find both orders, if a model is an array without labels."""
        if not any(is_unlabelled(model) for model in models.values()):
            return cls(split, None, None)
        user = find_positions_by_number(split.user_ids)
        item = find_positions_by_number(split.item_ids)
        return cls(split, user, item)

    def list_alternatives(self) -> list[tuple[IntArray | None, IntArray | None]]:
        """Return the pairs of positions of users and items of which at least one is by number."""
        alternatives: list[tuple[IntArray | None, IntArray | None]] = []
        if self.user is not None:
            alternatives.append((self.user, None))
        if self.item is not None:
            alternatives.append((None, self.item))
        if self.user is not None and self.item is not None:
            alternatives.append((self.user, self.item))
        return alternatives


def is_unlabelled(model: object) -> bool:
    """Return whether a model is an array, a matrix, or factors, without ids of its rows."""
    if isinstance(model, tuple):
        return bool(model) and all(part is None or is_unlabelled(part) for part in model)
    return isinstance(model, np.ndarray) or is_sparse_matrix(model)


def find_positions_by_number(ids: AnyArray) -> IntArray | None:
    """Return the positions of sorted ids in the order of the numbers at their ends.

    None if an id is not text of the same prefix and a number, or if both orders are the same.

    Examples
    --------
    >>> find_positions_by_number(np.array(["i1", "i10", "i2"], dtype=object)).tolist()
    [0, 2, 1]
    """
    if ids.size < 2 or not (isinstance(ids[0], str) and isinstance(ids[-1], str)):
        return None
    prefix = ids[0].rstrip("0123456789")
    if not ids[-1].startswith(prefix):
        return None
    # All ids are between the first and the last one, and therefore begin with the prefix.
    endings = [text[len(prefix) :] for text in ids.tolist()]
    if not all(ending.isdecimal() and len(ending) <= MOST_DIGITS for ending in endings):
        return None
    numbers = np.fromiter(map(int, endings), dtype=np.int64, count=ids.size)
    positions = np.empty(ids.size, dtype=np.int64)
    positions[np.argsort(numbers, kind="stable")] = np.arange(ids.size)
    if (np.diff(positions) > 0).all():
        return None
    return positions


def _check_order_of_ids(
    name: str, model: object, positives: RankedPositives, orders: IdOrders
) -> list[SanityWarning]:
    """Warn of an array that ranks test items much higher if it is ordered by the numbers in the ids."""
    alternatives = orders.list_alternatives()
    if not alternatives or not is_unlabelled(model):
        return []
    step = 1 + len(positives) // MOST_READ_POSITIVES
    user = positives.user[::step]
    item = positives.item[::step]
    as_sorted = _read_percentiles(model, user, item, orders.split)
    if as_sorted is None:
        return []
    warnings: list[SanityWarning] = []
    highest = WELL_ABOVE
    for user_position, item_position in alternatives:
        user_row = user
        item_column = item
        if user_position is not None:
            user_row = user_position[user]
        if item_position is not None:
            item_column = item_position[item]
        by_number = _read_percentiles(model, user_row, item_column, orders.split)
        if by_number is None or by_number.mean() <= highest:
            continue
        difference = by_number - as_sorted
        residual = difference - difference.mean()
        squares = _sum_squares(np.bincount(user, residual)) + _sum_squares(np.bincount(item, residual))
        if difference.sum() > FAR_FROM_EQUAL * math.sqrt(squares):
            highest = float(by_number.mean())
            figures = {"by_number": highest, "as_sorted": float(as_sorted.mean())}
            warnings = [SanityWarning(code="order-of-numbers", model=name, figures=figures)]
    return warnings


def _read_percentiles(model: object, rows: IntArray, columns: IntArray, split: Split) -> FloatArray | None:
    """Return the share of random columns that have a lower score than each entry of an array, ties by half."""
    rng = np.random.default_rng(0)
    background = rng.choice(split.n_items, min(N_BACKGROUND, split.n_items), replace=False)
    users, row_index = np.unique(rows, return_inverse=True)
    items, column_index = np.unique(np.concatenate([columns, background]), return_inverse=True)
    scores = read_score_block(model, users, items, split)
    if scores is None:
        return None
    entries = scores[row_index, column_index[: columns.size]]
    reference = scores[row_index][:, column_index[columns.size :]]
    n_lower = (reference < entries[:, None]).sum(axis=1)
    n_equal = (reference == entries[:, None]).sum(axis=1)
    return np.asarray((n_lower + n_equal / 2) / background.size)


def _check_list_content(name: str, ranked: RankedPositives) -> list[SanityWarning]:
    """Warn of short lists that hold every test item, because only the test pairs may have been scored."""
    if ranked.max_rank is None or ranked.list_length is None or len(ranked) < FEWEST_TEST_ITEMS:
        return []
    if (ranked.n_above >= ranked.list_length[ranked.user]).any():
        return []
    length = float(ranked.list_length[ranked.user].mean())
    n_candidates = float(ranked.n_candidates.mean())
    if length > LONGEST_LISTS * n_candidates:
        return []
    figures = {"length": length, "n_candidates": n_candidates, "n_positives": float(len(ranked))}
    return [SanityWarning(code="lists-of-positives", model=name, figures=figures)]


def _compute_clustered_error(
    residual: FloatArray, user: AnyArray, item: AnyArray, chance: FloatArray
) -> float:
    """Return the standard error of the mean residual under chance, clustered by users and by items.

    Positives of one user, and of one item, are not independent: a recommender may rank an item alike for all
    users. The error is never smaller than that of independent hits.
    """
    user_sums = np.bincount(user, residual)
    item_sums = np.bincount(item, residual)
    clustered = _sum_squares(user_sums) + _sum_squares(item_sums)
    independent = float((chance * (1 - chance)).sum())
    return math.sqrt(max(clustered, independent)) / residual.size


def _sum_squares(values: FloatArray) -> float:
    """Return the sum of squares, without starting the threads of BLAS as a product would."""
    return float(np.square(values).sum())


def _check_training_scores(
    name: str, sampled: SampledScores, *, is_above_chance: bool
) -> list[SanityWarning]:
    """Warn where training items are not scored higher than other items, in other rows, or than test items.

    Training items at chance do not indicate a mistake if the recall of test items is above chance, because a
    recommender need not be fitted to the training items of a user.
    """
    n_users = float(sampled.percentile.size)
    percentile = float(sampled.percentile.mean())
    error = sampled.percentile_error
    if sampled.percentile.size < FEWEST_USERS:
        return []
    is_no_higher = error < LARGEST_ERROR and percentile < NO_HIGHER
    is_below_chance = percentile < 0.5 and bool(ndtr((percentile - 0.5) / max(error, SMALLEST_ERROR)) < LEVEL)
    if is_no_higher and (is_below_chance or not is_above_chance):
        figures = {"percentile": percentile, "n_users": n_users}
        return [SanityWarning(code="training-at-chance", model=name, figures=figures)]
    share = float(sampled.share_higher.mean())
    is_learnt = sampled.spread > PERSONAL and sampled.dependence > LEARNT
    if is_learnt and share > EXCHANGEABLE and percentile < NEAR_THE_TOP:
        figures = {"share": share, "n_users": n_users}
        return [SanityWarning(code="rows-exchangeable", model=name, figures=figures)]
    return _check_test_scores(name, sampled)


def _check_test_scores(name: str, sampled: SampledScores) -> list[SanityWarning]:
    """Warn where test items are scored as high as training items that the model has learnt."""
    advantage = float(sampled.advantage.mean())
    test_advantage = float(sampled.test_advantage.mean())
    is_learnt = advantage > FAR_ABOVE and sampled.n_test_items >= FEWEST_TEST_ITEMS
    is_alike = (
        test_advantage > ALIKE * advantage
        and float(sampled.test_share_higher.mean()) < HARDLY_HIGHER
        and sampled.training_over_test + sampled.training_over_test_error < EXCHANGED
    )
    if not (is_learnt and is_alike):
        return []
    figures = {"probability": sampled.training_over_test, "n_users": float(sampled.percentile.size)}
    return [SanityWarning(code="test-like-training", model=name, figures=figures)]


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
    log_popularity : (n,) array
        Logarithms of the interactions of the items that are read, in both parts; of 1 for items without any.
    """

    split: Split
    users: IntArray
    training: list[IntArray]
    test: list[IntArray]
    items: IntArray
    background: IntArray
    log_popularity: FloatArray

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
        popularity = split.train.popularity[items] + split.test.popularity[items]
        return cls(
            split=split,
            users=users,
            training=training,
            test=test,
            items=items,
            background=np.searchsorted(items, background),
            log_popularity=np.log(np.maximum(popularity, 1)),
        )


def _list_items(log: Interactions, users: IntArray) -> list[IntArray]:
    """Return the distinct items of each user, ascending."""
    if log.has_ascending_pairs:  # known from the ranking
        starts = np.searchsorted(log.pair_key, users * np.int64(log.n_items))
        stops = np.searchsorted(log.pair_key, (users + 1) * np.int64(log.n_items))
        items = []
        for start, stop in zip(starts, stops, strict=True):
            items.append(log.item[start:stop])
        return items
    is_sampled = np.zeros(log.n_users, dtype=bool)
    is_sampled[users] = True
    rows = np.flatnonzero(is_sampled.take(log.user))  # faster than a subscript
    keys = np.unique(log.user[rows] * np.int64(log.n_items) + log.item[rows])
    stops = np.searchsorted(keys, (users + 1) * np.int64(log.n_items))
    return np.split(keys % log.n_items, stops[:-1])


def _sample_items(items: IntArray, rng: np.random.Generator) -> IntArray:
    """Return at most `MOST_ITEMS` of the items, ascending."""
    if items.size <= MOST_ITEMS:
        return items
    return np.sort(rng.choice(items, MOST_ITEMS, replace=False))


@dataclass(frozen=True, eq=False)
class ItemPositions:
    """Positions of the items of users among the items that are read, padded to one length.

    Attributes
    ----------
    position : (m, k) array
        Positions; 0 in padding.
    is_item : (m, k) bool array
        False in padding.
    length : (m,) array
        Number of items of each user, at least 1.
    """

    position: IntArray
    is_item: BoolArray
    length: IntArray

    @classmethod
    def from_lists(cls, lists: list[IntArray], items: IntArray) -> ItemPositions:
        """Return the positions of lists of items."""
        length = np.array([entry.size for entry in lists])
        is_item = np.arange(length.max()) < length[:, None]
        position = np.zeros(is_item.shape, dtype=np.int64)
        position[is_item] = np.searchsorted(items, np.concatenate(lists))
        return cls(position, is_item, length)

    def select(self, rows: IntArray) -> ItemPositions:
        """Return the positions of some users."""
        return ItemPositions(self.position[rows], self.is_item[rows], self.length[rows])

    def average(self, values: FloatArray) -> FloatArray:
        """Return the mean value of the items of each user, by rows of `values`: (n_rows, n_items) to (n_rows, m)."""
        sums = np.where(self.is_item, values[:, self.position], 0.0).sum(axis=-1)
        return np.asarray(sums / self.length)

    def select_own(self, values: FloatArray) -> FloatArray:
        """Return the values of the items of each user in the row of the user, (m, k)."""
        return np.take_along_axis(values, self.position, axis=1)


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
    training_over_test, training_over_test_error : float
        Probability that a training item is scored above a test item of the same user and a similar popularity,
        and its standard error, clustered by users. NaN if there is no such pair.
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
    training_over_test: float
    training_over_test_error: float
    n_test_items: int


def sample_scores(model: object, reader: RowReader) -> SampledScores | None:
    """Return how a score matrix or factor model scores training items; None for other models."""
    if reader.users.size < 2:
        return None
    scores = read_scores(model, reader)
    if scores is None:
        return None
    all_training = ItemPositions.from_lists(reader.training, reader.items)
    rows = np.flatnonzero(~_find_masked_rows(scores, all_training))
    if rows.size < 2:
        return None
    percentiles = _rank_in_background(scores, reader.background)
    training = all_training.select(rows)
    test = ItemPositions.from_lists(reader.test, reader.items).select(rows)
    training_means = training.average(percentiles)
    percentile, advantage, share_higher = _compare_rows(training_means, rows)
    _, test_advantage, test_share_higher = _compare_rows(test.average(percentiles), rows)
    probability, probability_error = _compare_with_test(scores[rows], training, test, reader.log_popularity)
    return SampledScores(
        percentile=percentile,
        percentile_error=_compute_error_of_mean(percentiles[rows], training),
        share_higher=share_higher,
        spread=float(training_means.std(axis=0).mean()),
        dependence=_compute_dependence(training_means, percentiles, training),
        advantage=advantage,
        test_advantage=test_advantage,
        test_share_higher=test_share_higher,
        training_over_test=probability,
        training_over_test_error=probability_error,
        n_test_items=int(test.length.sum()),
    )


def _compare_rows(means: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean percentiles of users' items in their own rows, and their comparison with other rows.

    The result is the mean percentile, the advantage over the other rows, and the share of the other rows in
    which it is higher. `means[v, u]`: the items of user u in row v; `rows`: the row of each user.
    """
    percentile = means[rows, np.arange(rows.size)]
    n_other_rows = means.shape[0] - 1
    advantage = percentile - (means.sum(axis=0) - percentile) / n_other_rows
    share_higher = (means > percentile + 1e-9).sum(axis=0) / n_other_rows
    return percentile, advantage, share_higher


def _compute_dependence(means: FloatArray, percentiles: FloatArray, positions: ItemPositions) -> float:
    """Return the variance of users' mean percentiles between rows, relative to that of independent items."""
    variance = float(means.var(axis=0).sum())
    item_variance = percentiles.var(axis=0)[None]
    independent_variance = float((positions.average(item_variance)[0] / positions.length).sum())
    if independent_variance == 0:
        return 1.0
    return variance / independent_variance


def read_scores(model: object, reader: RowReader) -> FloatArray | None:
    """Return the scores of the sampled users and items, (m, n); None for models that are not matrices."""
    return read_score_block(model, reader.users, reader.items, reader.split)


def read_score_block(model: object, users: IntArray, items: IntArray, split: Split) -> FloatArray | None:
    """Return the scores of some users and items, (m, n); None for models that are not matrices."""
    scores = _select_scores(model, users, items, split)
    if scores is None:
        return None
    try:
        return np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _select_scores(model: object, users: IntArray, items: IntArray, split: Split) -> AnyArray | None:
    """Return the rows and columns of a score matrix, a frame or factors; None for other models."""
    shape = (split.n_users, split.n_items)
    if isinstance(model, np.ndarray) and model.shape == shape:
        return np.asarray(model[np.ix_(users, items)])
    if isinstance(model, pd.DataFrame):
        return _select_by_labels(model, users, items, split)
    if is_sparse_matrix(model) and model.shape == shape:
        return np.asarray(model.tocsr()[users][:, items].toarray())
    if isinstance(model, tuple) and len(model) in (2, 3):
        return _multiply_factors(model, users, items, shape)
    return None


def _select_by_labels(model: pd.DataFrame, users: IntArray, items: IntArray, split: Split) -> AnyArray | None:
    """Return the scores of a frame with ids as labels; None for a frame of recommendation lists."""
    if not (model.index.is_unique and model.columns.is_unique):
        return None
    rows = model.index.get_indexer(pd.Index(split.user_ids[users]))
    columns = model.columns.get_indexer(pd.Index(split.item_ids[items]))
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


def _find_masked_rows(scores: FloatArray, training: ItemPositions) -> BoolArray:
    """Return the users whose training items were masked: -inf, NaN, or not above any other item."""
    training_scores = training.select_own(scores)
    has_mask = ((~(training_scores > -np.inf)) & training.is_item).any(axis=1)  # NaN as well
    candidates = np.where(np.isnan(scores), np.inf, scores)
    user, _ = np.nonzero(training.is_item)
    candidates[user, training.position[training.is_item]] = np.inf
    best_training_score = np.where(training.is_item, training_scores, -np.inf).max(axis=1)
    return np.asarray(has_mask | (best_training_score <= candidates.min(axis=1)))


def _rank_in_background(scores: FloatArray, background: IntArray) -> FloatArray:
    """Return the share of background items below each item, ties counted by half, (m, n)."""
    percentiles = np.empty(scores.shape)
    for index, row in enumerate(scores):
        if index and np.array_equal(row, scores[index - 1]):  # popularity scores items alike for all users
            percentiles[index] = percentiles[index - 1]
            continue
        reference = np.sort(row[background])
        n_below = np.searchsorted(reference, row, side="left")
        n_not_above = np.searchsorted(reference, row, side="right")
        percentiles[index] = (n_below + n_not_above) / (2 * background.size)
    return percentiles


def _compute_error_of_mean(percentiles: FloatArray, training: ItemPositions) -> float:
    """Return the standard error of the mean percentile of training items in their users' own rows, (m, n)."""
    residual = (training.select_own(percentiles) - 0.5) / training.length[:, None]
    residual = residual[training.is_item]
    residual -= residual.sum() / residual.size
    user, _ = np.nonzero(training.is_item)
    user_sums = np.bincount(user, residual)
    item_sums = np.bincount(training.position[training.is_item], residual)
    return math.sqrt(_sum_squares(user_sums) + _sum_squares(item_sums)) / training.length.size


def _compare_with_test(
    scores: FloatArray, training: ItemPositions, test: ItemPositions, log_popularity: FloatArray
) -> tuple[float, float]:
    """Return the probability that a training item is scored above a test item of similar popularity, and its error.

    The popularity of an item is its number of interactions in both parts. A recommender that was trained on both
    parts of a random split therefore scores either item higher with the same probability.
    """
    training_scores = training.select_own(scores)[:, :, None]
    test_scores = test.select_own(scores)[:, None, :]
    difference = log_popularity[training.position][:, :, None] - log_popularity[test.position][:, None, :]
    is_pair = training.is_item[:, :, None] & test.is_item[:, None, :] & (np.abs(difference) <= SIMILAR)
    n_above = ((training_scores > test_scores) & is_pair).sum(axis=(1, 2))
    n_tied = ((training_scores == test_scores) & is_pair).sum(axis=(1, 2))
    n_pairs = is_pair.sum(axis=(1, 2))
    if not n_pairs.any():
        return math.nan, math.nan
    n_won = n_above + n_tied / 2
    probability = float(n_won.sum() / n_pairs.sum())
    error = math.sqrt(_sum_squares(n_won - probability * n_pairs)) / float(n_pairs.sum())
    return probability, error
