"""Prediction-powered inference (PPI): the mean of random exposure, with a variance reduced by predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ipseval.correction._odds import OddsAt, fit_test_odds, logistic
from ipseval.correction._path import compute_contributions
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split
from ipseval.errors import DataWarning
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import warn_user
from ipseval.utils.ids import is_member, unique_keys
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieChoice

# Candidates for which predictions are averaged. Fewer candidates of all users together are not sampled.
N_DRAWN = 100_000
MIN_DRAWN_PER_USER = 20

N_FOLDS = 5

# Pairs to which m̂ is fitted. It has two coefficients, which more pairs hardly change.
N_FITTED = 20_000

MAX_SHARE = 1.5  # largest λ


# Standard errors by which the removed pairs may exceed their number under independent exposure.
MAX_OVERLAP_Z = 3.0


@dataclass(frozen=True, eq=False)
class PpiEstimate:
    """The ratio N/D of two totals over exposed users, each unbiased for any m̂ that was fitted on other users.

    N = Σ_u n_u (mean of y c over exposed pairs of u + λ (mean of m̂ c over candidates of u − mean of m̂ c over
    exposed pairs of u)), and D is the same total with c = 1. y is 1 for positives, c is the contribution,
    and n_u the number of exposed pairs of u.

    Attributes
    ----------
    value : (n_cells,) array
        N/D.
    covariance : (n_cells, n_cells) array
        Covariance of the value, from the influence of users.
    """

    value: FloatArray
    covariance: FloatArray


@dataclass(frozen=True)
class TrainingOverlap:
    """The pairs of a random exposure that are in training, and how many there are if both are independent.

    The totals of PPI are unbiased if the exposed pairs outside training are a uniform sample of the pairs
    outside training. They are if items were shown independently of the log: the exposed pairs that are in
    training are then as many as chance puts there, and their removal leaves a uniform sample. If training
    pairs are a part of the exposed pairs, as in a log that was collected from random exposure, their removal
    leaves fewer exposed pairs of popular items, and the totals are biased.

    Attributes
    ----------
    n_removed : int
        Exposed pairs in training.
    n_expected : float
        Their expected number under independence, Σ_u (exposed pairs of u) (training pairs of u)/(items).
    """

    n_removed: int
    n_expected: float

    @property
    def is_excessive(self) -> bool:
        """Whether significantly more pairs were removed than independent exposure explains."""
        return bool(self.n_removed - self.n_expected > MAX_OVERLAP_Z * np.sqrt(max(self.n_expected, 1.0)))


def measure_training_overlap(exposure: RandomExposure, split: Split) -> TrainingOverlap:
    """Return the overlap of a random exposure, before the removal of training pairs, with training."""
    n_exposed = np.bincount(exposure.user, minlength=split.n_users)
    training_keys = unique_keys(split.excluded_pairs.pair_key)
    n_training = np.bincount(training_keys // split.n_items, minlength=split.n_users)
    n_removed = int(is_member(exposure.pair_key, training_keys).sum())
    return TrainingOverlap(n_removed, float((n_exposed * n_training).sum() / split.n_items))


def warn_about_overlap(overlap: TrainingOverlap) -> None:
    """Warn that PPI is left out, because the exposure overlaps with training more than by chance."""
    warn_user(
        f"PPI is left out: {overlap.n_removed:,} pairs of the random exposure are in training, and "
        f"independent exposure explains {overlap.n_expected:,.0f}. Without them the shown pairs differ from a "
        "uniform sample of the pairs outside training, so PPI is biased. Read the random sample, and collect random "
        "exposure independently of the log.",
        DataWarning,
    )


def list_pairs_to_predict(exposure: RandomExposure, split: Split) -> IntArray:
    """Return the keys of candidates of the exposed users: all of them, or a uniform sample."""
    users = unique_keys(exposure.user)
    n_items = split.n_items
    first_keys = users[:, None] * np.int64(n_items)
    if users.size * n_items <= N_DRAWN:
        keys = np.asarray((first_keys + np.arange(n_items)).ravel())
    else:
        rng = np.random.default_rng(0)
        n_draws = max(N_DRAWN // users.size, MIN_DRAWN_PER_USER)
        items = rng.integers(n_items, size=(users.size, n_draws))
        keys = unique_keys((first_keys + items).ravel())
    return np.asarray(keys[~is_member(keys, split.excluded_pairs.pair_key)])


def compute_difference_totals(
    ranks: Mapping[str, RankedPositives],
    exposure: RandomExposure,
    candidate_keys: IntArray,
    split: Split,
    metrics: Sequence[Metric],
    ties: TieChoice,
    compute_odds: OddsAt | None = None,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return users with ranked pairs, and their parts of both totals, (n_users, n_cells).

    m̂ is a logistic regression of y on the log odds of the path. λ is the share with the smallest variance,
    one for each metric. For each of five groups of users, m̂ and λ are fitted to the remaining groups.
    """
    ranked = next(iter(ranks.values()))
    keys = ranked.user * np.int64(split.n_items) + ranked.item
    is_exposed = is_member(keys, exposure.pair_key)
    is_positive = is_member(keys, exposure.pair_key[exposure.positive])
    if compute_odds is None:
        compute_odds = fit_test_odds(split)
    odds = compute_odds((ranked.user, ranked.item))

    n_users = ranked.users.size
    user_fold = np.random.default_rng(0).permutation(n_users) % N_FOLDS
    pair_fold = user_fold[ranked.segment]
    prediction = np.zeros(len(ranked))
    for fold in range(N_FOLDS):
        in_fold = pair_fold == fold
        prediction[in_fold] = _predict_positive(odds, is_positive, is_exposed & ~in_fold, in_fold)

    outcome_totals, control_totals = compute_totals(
        ranked.segment,
        compute_contributions(ranks, metrics, ties),
        is_positive=is_positive,
        prediction=prediction,
        is_exposed=is_exposed,
        is_drawn=is_member(keys, candidate_keys),
    )
    cell_metric = np.repeat(np.arange(len(metrics)), len(ranks))
    share = np.empty((n_users, cell_metric.size))
    for fold in range(N_FOLDS):
        in_fold = user_fold == fold
        share[in_fold] = _fit_share(outcome_totals[~in_fold], control_totals[~in_fold], cell_metric)
    numerator = outcome_totals[:, :-1] - share * control_totals[:, :-1]
    denominator = outcome_totals[:, -1:] - share * control_totals[:, -1:]
    return ranked.users, numerator, denominator


def compute_totals(
    segment: IntArray,
    value: FloatArray,
    *,
    is_positive: BoolArray,
    prediction: FloatArray,
    is_exposed: BoolArray,
    is_drawn: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the totals of outcomes and of the control variate of each user, (n_users, n_cells + 1).

    The first are Σ y c over exposed pairs; the second are Σ m̂ c over exposed pairs, minus its expectation
    from drawn candidates. `segment` is the position of the user of each pair, ascending. The last column
    stands for c = 1.
    """
    n_users = int(segment.max()) + 1
    n_exposed = np.bincount(segment, is_exposed, n_users)[segment]
    n_drawn = np.bincount(segment, is_drawn, n_users)[segment]
    exposure_share = is_drawn * n_exposed / np.maximum(n_drawn, 1)
    control_weight = np.where(n_drawn > 0, is_exposed - exposure_share, 0.0)
    starts = np.searchsorted(segment, np.arange(n_users))
    outcome_totals = _sum_weighted_columns(is_positive, value, starts)
    control_totals = _sum_weighted_columns(prediction * control_weight, value, starts)
    return outcome_totals, control_totals


def _sum_weighted_columns(weight: BoolArray | FloatArray, value: FloatArray, starts: IntArray) -> FloatArray:
    """Return weighted sums of each column, and of ones, over the pairs of each user."""
    columns = [*value.T, np.ones(len(value))]
    return np.column_stack([np.add.reduceat(weight * column, starts) for column in columns])


def compute_ratio(numerator: FloatArray, denominator: FloatArray) -> PpiEstimate:
    """Return Σ numerator/Σ denominator of totals of users, (n_users, n_cells), with its covariance."""
    total = denominator.sum(axis=0)
    value = numerator.sum(axis=0) / total
    influence = (numerator - denominator * value) / total
    n_users = len(numerator)
    return PpiEstimate(value, influence.T @ influence * (n_users / max(n_users - 1, 1)))


def _predict_positive(
    odds: FloatArray, is_positive: BoolArray, is_fitted: BoolArray, is_predicted: BoolArray
) -> FloatArray:
    """Return the probability to be positive of pairs, by a logistic regression on the log odds."""
    rows = np.flatnonzero(is_fitted)
    step = -(-rows.size // N_FITTED) or 1
    rows = rows[::step]
    fitted_odds = odds[rows]
    mean = fitted_odds.mean()
    sd = max(float(fitted_odds.std()), 1e-9)
    design = np.column_stack([np.ones(fitted_odds.size), (fitted_odds - mean) / sd])
    intercept, slope = logistic(design, is_positive[rows], np.ones(fitted_odds.size))
    return np.asarray(expit(intercept + slope * (odds[is_predicted] - mean) / sd))


def _fit_share(outcome_totals: FloatArray, control_totals: FloatArray, cell_metric: IntArray) -> FloatArray:
    """Return λ of each cell, one for each metric, in [0, 1.5]; the last columns of the totals count pairs."""
    n_positives = max(float(outcome_totals[:, -1].sum()), 1.0)  # without a positive all totals are 0
    value = outcome_totals[:, :-1].sum(axis=0) / n_positives
    outcome = outcome_totals[:, :-1] - outcome_totals[:, -1:] * value
    control = control_totals[:, :-1] - control_totals[:, -1:] * value
    covariance = np.bincount(cell_metric, (control * outcome).sum(axis=0))
    variance = np.bincount(cell_metric, (control * control).sum(axis=0))
    share = (covariance / np.maximum(variance, 1e-300)).clip(0, MAX_SHARE)
    return np.asarray(share[cell_metric])
