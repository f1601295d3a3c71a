"""The odds that tell random positives from those of the log, cross-fitted over users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ipseval._keys import distinct
from ipseval._logistic import fit_logistic
from ipseval._types import BoolArray, FloatArray, IntArray, readonly
from ipseval.errors import InputError
from ipseval.interactions import Interactions

Features = Callable[[Interactions, IntArray, IntArray], FloatArray]
# Strength of the correction before anything is known, and the ridge of the odds against uniform pairs.
PRIOR_MEAN, PRIOR_SD = 0.4, 0.3
ODDS_RIDGE = 1.0
# Ridge of the deviation from the tempered direction; the last leaves none.
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e6)
CROSS_VALIDATION_FOLDS, CROSS_VALIDATIONS = 5, 3


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Standardised features of pairs, from a training log; those of the last pairs are kept."""

    train: Interactions
    make: Features
    centre: FloatArray
    scale: FloatArray
    last: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, train: Interactions, make: Features, sample: Sample) -> PairFeatures:
        """Return features with mean 0 and variance 1 over the uniform pairs of a sample."""
        rows = sample.kind == UNIFORM
        x = check_features(make(train, sample.user[rows], sample.item[rows]), int(rows.sum()))
        spread = x.std(axis=0)
        scale = np.where(spread > 1e-9 * np.abs(x).max(axis=0), spread, np.inf)  # constant but for rounding
        return cls(train, make, x.mean(axis=0), scale)

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return (n_pairs, n_features)."""
        last = self.last.get("pairs")  # one tuple, so that threads never see halves of two answers
        if last is None or not (np.array_equal(last[0], user) and np.array_equal(last[1], item)):
            x = check_features(self.make(self.train, user, item), user.size)
            last = self.last["pairs"] = (user, item, (x - self.centre) / self.scale)
        return np.asarray(last[2])


BIASED, RANDOM, UNIFORM = 0, 1, 2


class Sample(NamedTuple):
    """Pairs of three kinds: positives of the log, positives of random exposure, and uniform draws."""

    user: IntArray
    item: IntArray
    kind: IntArray

    def users(self, kind: int) -> IntArray:
        """Return the users with pairs of a kind, ascending."""
        return distinct(self.user[self.kind == kind])

    @classmethod
    def joined(cls, parts: Iterable[Sample]) -> Sample:
        """Return several samples as one."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def user_weights(user: IntArray, kind: IntArray, counts: FloatArray | None = None) -> FloatArray:
    """Return weights that add up, over the pairs of a kind, to 1 for each user (or to its count)."""
    weight = np.empty(user.size)
    for one in np.unique(kind):
        rows = kind == one
        weight[rows] = 1 / np.bincount(user[rows])[user[rows]]
    return weight if counts is None else weight * counts[user]


class Slopes(NamedTuple):
    """Slopes of the log odds (random : log), and the strength α of the tempered direction in them."""

    slope: FloatArray
    strength: float
    odds: FloatArray  # intercept and slopes of the log odds (log : uniform)


def fit_slopes(
    x: FloatArray,
    kind: IntArray,
    weight: FloatArray,
    ridges: tuple[float, ...],
    start: FloatArray | None,
) -> list[Slopes]:
    """Return slopes for each ridge: −α·o + δ, o those of the odds (log : uniform).

    α has a normal prior, N(.4, .3²); δ has N(0, 1/ridge) in each standardised feature. Both sides count as
    the harmonic mean of their numbers of users, which is what a difference of two means has. The search for
    the odds begins at `start`.
    """
    n_features = x.shape[1]
    biased, random = kind == BIASED, kind == RANDOM
    rows = ~random
    odds = fit_logistic(
        np.column_stack([np.ones(int(rows.sum())), x[rows]]),
        biased[rows],
        weight[rows],
        np.zeros(n_features + 1),
        np.array([1e-6, *[ODDS_RIDGE] * n_features]),
        start,
    )
    tempered = odds[1:]
    if not weight[random].any():
        return [Slopes(-PRIOR_MEAN * tempered, PRIOR_MEAN, odds)] * len(ridges)
    rows = biased | random
    n_random, n_biased = float(weight[random].sum()), float(weight[biased].sum())
    each = 2 * n_random * n_biased / (n_random + n_biased)
    scaled = weight[rows] * np.where(random[rows], each / n_random, each / n_biased)
    design = np.column_stack([np.ones(int(rows.sum())), -(x[rows] @ tempered), x[rows]])
    centre = np.array([0.0, PRIOR_MEAN, *[0.0] * n_features])
    fit, found = None, []
    for ridge in ridges:
        precision = np.array([1e-3, PRIOR_SD**-2, *[ridge] * n_features])
        fit = fit_logistic(design, random[rows], scaled, centre, precision, fit)
        found.append(Slopes(-fit[1] * tempered + fit[2:], float(fit[1]), odds))
    return found


def ridge_weights(x: FloatArray, sample: Sample, folds: IntArray) -> FloatArray:
    """Return how much each ridge counts, (n_ridges,): by how well it predicts the random positives of others.

    ∝ exp of the likelihood of a density ratio over users left out, Σ (log odds of random positives − log of
    the mean odds of the log's), averaged over assignments to folds. Weights change less by chance than the
    best ridge would.
    """
    score = np.zeros(len(RIDGES))
    if sample.users(RANDOM).size < 2:
        return np.asarray(np.eye(score.size)[-1])
    weight = user_weights(sample.user, sample.kind)
    start: FloatArray | None = None
    for fold in folds:
        for number in range(int(fold.max()) + 1):
            out = fold[sample.user] == number
            random, biased = out & (sample.kind == RANDOM), out & (sample.kind == BIASED)
            if not (random.any() and biased.any() and weight[~out & (sample.kind == BIASED)].any()):
                continue
            models = fit_slopes(x[~out], sample.kind[~out], weight[~out], RIDGES, start)
            start = models[0].odds
            for place, model in enumerate(models):
                level = _log_mean_exp(x[biased] @ model.slope, weight[biased])
                score[place] += weight[random] @ (x[random] @ model.slope - level) / len(folds)
    likelihood = np.exp(score - score.max())
    return np.asarray(likelihood / likelihood.sum())


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """P of any pair: the median, over assignments of users to folds, by models that have not seen the user.

    Attributes
    ----------
    features : PairFeatures
    fold : (n_assignments, n_users) int array
    slope : (n_assignments, n_folds, n_features) float array
    limit : (n_assignments, n_folds) float array
        Log odds are held at it.
    level : (n_assignments, n_folds) float array
        Log of the users' mean odds over the positives of the log: all models are on one scale.
    """

    features: PairFeatures
    fold: IntArray
    slope: FloatArray
    limit: FloatArray
    level: FloatArray

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return P ∝ 1/odds, (n_pairs,)."""
        return np.asarray(np.exp(-self.log_odds(user, self.features(user, item))[0]))

    def log_odds(self, user: IntArray, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the median log odds of pairs, and whether they were held at the limit in most models."""
        found = np.empty((self.fold.shape[0], user.size))
        n_held = np.zeros(user.size, dtype=np.int64)
        for place, fold in enumerate(self.fold[:, user]):
            free = np.einsum("nk,nk->n", x, self.slope[place, fold])
            limit = self.limit[place, fold]
            n_held += free > limit
            found[place] = np.minimum(free, limit) - self.level[place, fold]
        return np.median(found, axis=0), n_held * 2 > self.fold.shape[0]


@dataclass(frozen=True, eq=False)
class RatioProblem:
    """All that a fit of the odds reads; `solve` fits them, `counts` times each user."""

    features: PairFeatures
    sample: Sample
    x: FloatArray
    fold: IntArray
    ridge: FloatArray
    limit: float | None

    def solve(self, counts: FloatArray | None = None) -> tuple[CrossFitted, list[Slopes]]:
        """Return the cross-fitted odds and the slopes of all models."""
        sample, x = self.sample, self.x
        weight = user_weights(sample.user, sample.kind, counts)
        biased = sample.kind == BIASED
        if not weight[biased].any():
            raise InputError("no user with held-out positives of the log is left in a resample.")
        shape = (self.fold.shape[0], int(self.fold.max()) + 1)
        models: list[Slopes] = []
        limits, levels = [], []
        for fold in self.fold:
            for number in range(shape[1]):
                seen = fold[sample.user] != number
                if not weight[seen & biased].any():
                    seen = np.ones(seen.size, dtype=bool)  # a single user: there is nobody else to learn from
                start = models[-1].odds if models else None
                part = (x[seen], sample.kind[seen], weight[seen])
                model = _mean_slopes(fit_slopes(*part, RIDGES, start), self.ridge)
                values = x[biased] @ model.slope
                limit = np.inf if self.limit is None else _quantile(values, weight[biased], self.limit)
                models.append(model)
                limits.append(limit)
                levels.append(_log_mean_exp(np.minimum(values, limit), weight[biased]))
        slope = np.array([model.slope for model in models]).reshape(*shape, -1)
        per_fold = (readonly(np.array(one).reshape(shape)) for one in (limits, levels))
        return CrossFitted(self.features, self.fold, readonly(slope), *per_fold), models


def _mean_slopes(models: list[Slopes], weight: FloatArray) -> Slopes:
    slope = np.sum([w * one.slope for w, one in zip(weight, models, strict=True)], axis=0)
    strength = sum(float(w) * one.strength for w, one in zip(weight, models, strict=True))
    return Slopes(slope, strength, models[0].odds)


def assign_folds(
    sample: Sample, n_users: int, n_folds: int, n_assignments: int, rng: np.random.Generator
) -> IntArray:
    """Return the fold of each user, (n_assignments, n_users): users with random positives evenly dealt."""
    few = sample.users(RANDOM)
    groups = (few, np.setdiff1d(np.arange(n_users), few))
    fold = np.empty((n_assignments, n_users), dtype=np.int64)
    for row in fold:
        for members in groups:
            row[rng.permutation(members)] = np.arange(members.size) % n_folds
    return fold


def check_features(x: Any, n_rows: int) -> FloatArray:
    """Return features as an (n_rows, n_features) float array, or raise `InputError`."""
    array = np.asarray(x, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != n_rows:
        raise InputError(
            f"features gave shape {array.shape} for {n_rows} pairs; expected ({n_rows}, n_features)."
        )
    n_bad = int((~np.isfinite(array)).sum())
    if n_bad:
        raise InputError(f"features must be finite; {n_bad} of {array.size} values are NaN or infinite.")
    return array


def _quantile(values: FloatArray, weight: FloatArray, level: float) -> float:
    """Return the smallest value that a share `level` of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    place = np.searchsorted(total, level * total[-1] * (1 - 1e-12))
    return float(values[order[min(int(place), order.size - 1)]])


def _log_mean_exp(values: FloatArray, weight: FloatArray) -> float:
    top = values.max()
    return float(top + np.log(np.average(np.exp(values - top), weights=weight)))
