"""Prediction-powered inference (PPI): the mean of random exposure, with less noise by predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ipseval.correction._odds import OddsAt, logistic, odds_at
from ipseval.correction._path import contributions
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.ids import among, distinct
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieChoice

N_DRAWN = 100_000  # of all users together; all their pairs where these are fewer
N_FOLDS = 5
N_FITTED = 20_000  # pairs that m̂, a line in the log odds, is fitted to: more hardly move it


@dataclass(frozen=True, eq=False)
class PpiEstimate:
    """The ratio of two totals over exposed users, each unbiased for any m̂ that was fitted elsewhere.

    N = Σ_u n_u (mean of y c over the pairs that u was shown + λ (mean of m̂ c over drawn pairs of u − that
    over the shown ones)), and D the same with c = 1. y is 1 for positives, c the contribution, n_u how many
    pairs u was shown.

    Attributes
    ----------
    value : (n_cells,) array
        N/D.
    covariance : (n_cells, n_cells) array
        From the influence of users.
    """

    value: FloatArray
    covariance: FloatArray


def pairs_to_predict(shown: RandomExposure, split: Split) -> IntArray:
    """Return the keys of candidates of the exposed users: all of them, or a uniform sample."""
    users, n_items = distinct(shown.user), split.n_items
    if users.size * n_items <= N_DRAWN:
        key = np.asarray((users[:, None] * np.int64(n_items) + np.arange(n_items)).ravel())
    else:
        rng, each = np.random.default_rng(0), max(N_DRAWN // users.size, 20)
        drawn = rng.integers(n_items, size=(users.size, each))
        key = distinct((users[:, None] * np.int64(n_items) + drawn).ravel())
    return np.asarray(key[~among(key, split.excluded.pair_key)])


def difference_totals(
    ranks: Mapping[str, RankedPositives],
    shown: RandomExposure,
    drawn: IntArray,
    split: Split,
    metrics: Sequence[Metric],
    ties: TieChoice,
    odds_of: OddsAt | None = None,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return users with ranked pairs, and what they add to both totals, (n_users, n_cells).

    m̂ is a logistic regression of y on the log odds of the path, λ the share for which the variance is least,
    one for each metric: both are fitted to the other users of five groups.
    """
    first = next(iter(ranks.values()))
    key = first.user * np.int64(split.n_items) + first.item
    seen, free = among(key, shown.pair_key), among(key, drawn)
    liked = among(key, shown.pair_key[shown.positive])
    users, place = first.users, first.segment
    group = np.random.default_rng(0).permutation(users.size) % N_FOLDS
    odds = (odds_at(split) if odds_of is None else odds_of)((first.user, first.item))
    predicted = np.zeros(len(first))
    for one in range(N_FOLDS):
        own = group[place] == one
        predicted[own] = _predicted(odds, liked, seen & ~own, own)
    value = contributions(ranks, metrics, ties)
    plain, control = totals(place, value, liked, predicted, seen, free)
    metric_of = np.repeat(np.arange(len(metrics)), len(ranks))
    share = np.empty((users.size, metric_of.size))
    for one in range(N_FOLDS):
        others = group != one
        share[~others] = _share(plain[others], control[others], metric_of)
    above, below = (plain[:, at] - share * control[:, at] for at in (slice(None, -1), slice(-1, None)))
    return users, above, below


def totals(
    place: IntArray,
    value: FloatArray,
    liked: BoolArray,
    predicted: FloatArray,
    seen: BoolArray,
    free: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Return Σ y c over shown pairs of each user, and Σ m̂ c over them less what drawn pairs foretell.

    `place` is where each pair's user stands, ascending; the last column of both is of c = 1.
    """
    n_users = int(place.max()) + 1
    n_seen, n_free = (np.bincount(place, each, n_users)[place] for each in (seen, free))
    part = np.where(n_free > 0, seen - free * n_seen / np.maximum(n_free, 1), 0.0)
    weights, starts = (liked, predicted * part), np.searchsorted(place, np.arange(n_users))
    plain, control = (
        np.column_stack([np.add.reduceat(weight * one, starts) for one in (*value.T, np.ones(place.size))])
        for weight in weights
    )
    return plain, control


def ratio(above: FloatArray, below: FloatArray) -> PpiEstimate:
    """Return Σ above/Σ below of users' totals (n_users, n_cells)."""
    total = below.sum(axis=0)
    value = above.sum(axis=0) / total
    influence = (above - below * value) / total
    n = len(above)
    return PpiEstimate(value, influence.T @ influence * (n / max(n - 1, 1)))


def _predicted(odds: FloatArray, liked: BoolArray, fitted: BoolArray, wanted: BoolArray) -> FloatArray:
    """Return the probability to be positive of wanted pairs, by a logistic regression on the log odds."""
    chosen = np.flatnonzero(fitted)
    chosen = chosen[:: -(-chosen.size // N_FITTED) or 1]
    own = odds[chosen]
    centre, spread = own.mean(), max(float(own.std()), 1e-9)
    design = np.column_stack([np.ones(own.size), (own - centre) / spread])
    first, slope = logistic(design, liked[chosen], np.ones(own.size))
    return np.asarray(expit(first + slope * (odds[wanted] - centre) / spread))


def _share(plain: FloatArray, control: FloatArray, metric: IntArray) -> FloatArray:
    """Return λ of each cell, one for each metric, in [0, 1.5]; the last columns count pairs."""
    value = plain[:, :-1].sum(axis=0) / max(float(plain[:, -1].sum()), 1e-12)
    first, second = (one[:, :-1] - one[:, -1:] * value for one in (plain, control))
    both, square = (np.bincount(metric, (second * one).sum(axis=0)) for one in (first, second))
    return np.asarray((both / np.maximum(square, 1e-300)).clip(0, 1.5)[metric])
