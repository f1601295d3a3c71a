"""Sanity checks of an evaluation: reversed scores, shuffled rows or columns, and training on the test part.

Each check compares a figure with its value by chance and asks a question where the difference has no usual
explanation. A warning is a value, a code with its figures; `word_warning` returns its text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr

from ipseval.data.splits import Split
from ipseval.evaluation._sanity_scores import RowReader, SampledScores, sample_scores
from ipseval.ranking import RankedPositives
from ipseval.utils.types import AnyArray, FloatArray

Code = Literal["below-chance", "at-chance", "training-at-chance", "rows-exchangeable", "test-like-training"]

DEPTH = 0.1  # recall is compared with chance in this share of the candidates, or at the largest cutoff
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
# without having seen them, so only a clear advantage of training items counts.
FEWEST_TEST_ITEMS = 50
FAR_ABOVE = 0.18  # least advantage of training items over the rows of other users, in percentiles
ALIKE = 0.95  # least share of this advantage that test items have
HARDLY_HIGHER = 0.03  # largest share of other rows that rank test items higher
EXCHANGED = 0.58  # largest probability, plus its error, that a training item is scored above a test item


@dataclass(frozen=True, kw_only=True)
class SanityWarning:
    """A property of a recommender that chance does not explain, or that is typical of chance.

    Attributes
    ----------
    code : str
        "below-chance", "at-chance": recall in the first part of the ranking. "training-at-chance": a score
        matrix ranks the training items of users no higher than other items. "rows-exchangeable": it ranks
        them as high for other users. "test-like-training": it ranks test items as high as training items.
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
    for name, ranked in ranks.items():
        model = models.get(name)
        if getattr(model, "draws_at_random", False):
            continue
        recall = _compare_recall(ranked, split)
        if recall is not None:
            warnings += _check_recall(name, recall)
        sampled = sample_scores(model, reader)
        if sampled is not None:
            is_above_chance = recall is not None and recall.z > WITHIN
            warnings += _check_training_scores(name, sampled, is_above_chance=is_above_chance)
    return tuple(warnings)


def word_warning(warning: SanityWarning) -> str:
    """Return a warning as text: the figure, and its possible cause."""
    return WORDS[warning.code].format(model=warning.model, **warning.figures)


WORDS: dict[str, str] = {
    "below-chance": (
        "{model} finds {recall:.1%} of the held-out positives in the first {depth:.1%} of the candidates, "
        "fewer than by chance (p = {p_value:.1g}). Are the scores reversed? Higher scores must be better."
    ),
    "at-chance": (
        "{model} finds {recall:.1%} of the held-out positives in the first {depth:.1%} of the candidates, "
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
        "{model} scores a training item above a test item of the same user with probability "
        "{probability:.2f} ({n_users:.0f} users; 0.5 when trained on both parts). Was it trained on the test "
        "part?"
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
    """Return recall in comparison with chance, over positives of items that occur in training."""
    is_checked = np.ones(len(positives), dtype=bool)
    if len(split.train):
        is_checked = split.train.popularity[positives.item] > 0
    if positives.list_length is not None:  # users without a list have no ranks
        is_checked &= positives.list_length[positives.user] > 0
    if not is_checked.any():
        return None
    n_candidates = positives.n_candidates[is_checked].astype(np.float64)
    cutoff = np.ceil(DEPTH * n_candidates)
    if positives.max_rank is not None:
        cutoff = np.minimum(cutoff, positives.max_rank)
    n_above = positives.n_above[is_checked]
    hits = np.clip((cutoff - n_above) / (positives.n_tied[is_checked] + 1.0), 0.0, 1.0)
    chance = np.minimum(cutoff / n_candidates, 1.0)
    error = _compute_clustered_error(
        hits - chance, positives.user[is_checked], positives.item[is_checked], chance
    )
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


def _compute_clustered_error(
    residual: FloatArray, user: AnyArray, item: AnyArray, chance: FloatArray
) -> float:
    """Return the standard error of the mean residual under chance, clustered by users and by items.

    Positives of one user, and of one item, are not independent: a recommender may rank an item alike for all
    users. The error is never smaller than that of independent hits.
    """
    user_sums = np.bincount(user, residual)
    item_sums = np.bincount(item, residual)
    clustered = float(user_sums @ user_sums + item_sums @ item_sums)
    independent = float((chance * (1 - chance)).sum())
    return math.sqrt(max(clustered, independent)) / residual.size


def _check_training_scores(
    name: str, sampled: SampledScores, *, is_above_chance: bool
) -> list[SanityWarning]:
    """Warn where training items are not scored higher than other items, in other rows, or than test items.

    Training items at chance are no sign of a mistake if the recall of test items is above chance, because a
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
    probabilities = sampled.training_over_test
    probability = float(probabilities.mean())
    error = float(probabilities.std(ddof=1)) / math.sqrt(probabilities.size)
    is_learnt = advantage > FAR_ABOVE and sampled.n_test_items >= FEWEST_TEST_ITEMS
    is_alike = (
        test_advantage > ALIKE * advantage
        and float(sampled.test_share_higher.mean()) < HARDLY_HIGHER
        and probability + error < EXCHANGED
    )
    if not (is_learnt and is_alike):
        return []
    figures = {"probability": probability, "n_users": float(probabilities.size)}
    return [SanityWarning(code="test-like-training", model=name, figures=figures)]
