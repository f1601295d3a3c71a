"""The odds that tell random positives from those of the log, cross-fitted over users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity.fit_error import to_finite_table
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import distinct
from ipseval.utils.types import BoolArray, FloatArray, IntArray, readonly

MAX_STEPS = 100


@one_blas_thread()  # a few columns: more threads only wait for each other, and add up in another order
def fit_logistic(
    design: FloatArray,
    y: BoolArray,
    weight: FloatArray,
    centre: FloatArray,
    precision: FloatArray,
    start: FloatArray | None = None,
) -> FloatArray:
    """Return the coefficients that maximise Σ w·log-likelihood − Σ precision·(coefficient − centre)²/2."""
    # `weight` (n,): how much each row counts; `centre`, `precision` (k,): mean and inverse variance of the
    # prior of each coefficient. Unique and finite, also for separable samples, where all precisions are > 0.
    found = (centre if start is None else start).copy()
    log_odds: FloatArray = design @ found
    loss, p = _losses(log_odds, y)
    value = float(weight @ loss) + _prior(found, centre, precision)
    for _ in range(MAX_STEPS):
        gradient = design.T @ (weight * (p - y)) + precision * (found - centre)
        root = design * np.sqrt(weight * p * (1 - p))[:, None]
        curvature = root.T @ root + np.diag(precision)  # of one matrix with itself: half the work
        step = np.linalg.solve(curvature, gradient)
        if float(gradient @ step) < 1e-12 * (1 + abs(value)):
            return found - step  # this near, the last step is exact to rounding
        for _ in range(40):
            log_odds = design @ (found - step)
            loss, p = _losses(log_odds, y)
            new = float(weight @ loss) + _prior(found - step, centre, precision)
            if new <= value:
                break
            step = step / 2
        found, value = found - step, new
    return found


def _losses(log_odds: FloatArray, y: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return −log of the probability of what was seen, and the probability of True, from one exponential."""
    small = np.exp(-np.abs(log_odds))
    loss = np.where(y == (log_odds > 0), 0, np.abs(log_odds)) + np.log(1 + small)
    return loss, np.where(log_odds > 0, 1, small) / (1 + small)


def _prior(at: FloatArray, centre: FloatArray, precision: FloatArray) -> float:
    return float((precision * (at - centre) ** 2).sum()) / 2


Features = Callable[[Interactions, IntArray, IntArray], FloatArray]
# Strength of the correction before anything is known, and the ridge of the odds against uniform pairs.
PRIOR_MEAN, PRIOR_SD = 0.4, 0.3
ODDS_RIDGE = 1.0
# Ridge of the deviation from the tempered direction; the last leaves none.
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e6)


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
    def concat(cls, parts: Iterable[Sample]) -> Sample:
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
    x: FloatArray, kind: IntArray, weight: FloatArray, ridges: tuple[float, ...], start: FloatArray | None
) -> list[Slopes]:
    """Return slopes for each ridge: −α·o + δ, o those of the odds (log : uniform), searched from `start`."""
    # α has a normal prior, N(.4, .3²); δ has N(0, 1/ridge) in each standardised feature. Both sides count as
    # the harmonic mean of their numbers of users, which is what a difference of two means has.
    odds = odds_slopes(x, kind, weight, start)
    tempered = odds[1:]
    if not weight[kind == RANDOM].any():
        return [Slopes(-PRIOR_MEAN * tempered, PRIOR_MEAN, odds)] * len(ridges)
    samples = TwoSamples.of(x, kind, weight, tempered)
    fits = samples.fits(ridges)
    return [Slopes(samples.slopes @ fit, float(fit[1]), odds) for fit in fits]


def odds_slopes(x: FloatArray, kind: IntArray, weight: FloatArray, start: FloatArray | None) -> FloatArray:
    """Return intercept and slopes of the log odds (log : uniform)."""
    rows, n_features = kind != RANDOM, x.shape[1]
    return fit_logistic(
        np.column_stack([np.ones(int(rows.sum())), x[rows]]),
        kind[rows] == BIASED,
        weight[rows],
        np.zeros(n_features + 1),
        np.array([1e-6, *[ODDS_RIDGE] * n_features]),
        start,
    )


class TwoSamples(NamedTuple):
    """Random positives against the log's: logistic regression on (1, tempered odds, features)."""

    rows: BoolArray
    design: FloatArray
    random: BoolArray
    weight: FloatArray
    slopes: FloatArray  # (n_features, n_features + 2): of the coefficients, those of the features

    @classmethod
    def of(cls, x: FloatArray, kind: IntArray, weight: FloatArray, tempered: FloatArray) -> TwoSamples:
        """Select the random and the biased rows, with equal total weights."""
        rows = kind != UNIFORM
        random = kind[rows] == RANDOM
        n_random, n_biased = (float(weight[kind == one].sum()) for one in (RANDOM, BIASED))
        each = 2 * n_random * n_biased / (n_random + n_biased)
        scaled = weight[rows] * np.where(random, each / n_random, each / n_biased)
        design = np.column_stack([np.ones(random.size), -(x[rows] @ tempered), x[rows]])
        slopes = np.column_stack([np.zeros(tempered.size), -tempered, np.eye(tempered.size)])
        return cls(rows, design, random, scaled, slopes)

    def precision(self, ridge: float) -> FloatArray:
        """Return the inverse variance of the prior of each coefficient."""
        return np.array([1e-3, PRIOR_SD**-2, *[ridge] * len(self.slopes)])

    def fits(self, ridges: tuple[float, ...]) -> list[FloatArray]:
        """Return the coefficients for each ridge."""
        centre = np.array([0.0, PRIOR_MEAN, *[0.0] * len(self.slopes)])
        found: list[FloatArray] = []
        for ridge in ridges:
            start = found[-1] if found else None
            found.append(
                fit_logistic(self.design, self.random, self.weight, centre, self.precision(ridge), start)
            )
        return found

    def left_out(self, fit: FloatArray, ridge: float, place: IntArray, n: int) -> FloatArray:
        """Return the slopes without each of n users, (n, n_features), by a Newton step; place −1: none."""
        p = expit(self.design @ fit)
        sure = self.weight * p * (1 - p)
        curvature = (self.design.T * sure) @ self.design + np.diag(self.precision(ridge))
        own = np.argsort(place, kind="stable")  # rows of nobody come first, and are in no user's part
        design, residual = self.design[own], self.weight[own] * (self.random[own] - p[own])
        first = np.searchsorted(place[own], np.arange(n))
        score = np.add.reduceat(design * residual[:, None], first)
        root = design * np.sqrt(sure[own])[:, None]
        last = np.append(first[1:], own.size)
        theirs = np.array([root[a:b].T @ root[a:b] for a, b in zip(first, last, strict=True)])
        step = np.linalg.solve(curvature - theirs, score[..., None])[..., 0]
        return np.asarray((fit - step) @ self.slopes.T)


def ridge_weights(x: FloatArray, sample: Sample) -> FloatArray:
    """Return how much each ridge counts, (n_ridges,): how well it predicts random positives of others."""
    # ∝ exp of the likelihood of a density ratio over users left out one by one, Σ (log odds of random
    # positives − log of the mean odds of the log's). Weights change less by chance than the best ridge would.
    score = np.zeros(len(RIDGES))
    users = sample.users(RANDOM)
    if users.size < 2:
        return np.asarray(np.eye(score.size)[-1])
    weight = user_weights(sample.user, sample.kind)
    biased, random = sample.kind == BIASED, sample.kind == RANDOM
    samples = TwoSamples.of(x, sample.kind, weight, odds_slopes(x, sample.kind, weight, None)[1:])
    place = np.full(int(sample.user.max()) + 1, -1)
    place[users] = np.arange(users.size)
    mean = np.zeros((users.size, x.shape[1]))
    np.add.at(mean, place[sample.user[random]], weight[random, None] * x[random])
    for number, (ridge, fit) in enumerate(zip(RIDGES, samples.fits(RIDGES), strict=True)):
        whole = samples.slopes @ fit
        left_out = samples.left_out(fit, ridge, place[sample.user[samples.rows]], users.size)
        odds = x[biased] @ whole
        level = _log_mean_exp(odds, weight[biased])
        share = weight[biased] * np.exp(odds - odds.max())
        moved = (left_out - whole) @ (share @ x[biased] / share.sum())  # of the level, to first order
        score[number] = (np.einsum("uk,uk->u", mean, left_out) - level - moved).sum()
    likelihood = np.exp(score - score.max())
    return np.asarray(likelihood / likelihood.sum())


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """P of any pair: the median, over assignments of users to folds, of models without the user."""

    features: PairFeatures
    fold: IntArray  # (n_assignments, n_users)
    slope: FloatArray  # (n_assignments, n_folds, n_features)
    limit: FloatArray  # (n_assignments, n_folds): log odds are held at it
    level: FloatArray  # log of the users' mean odds over the log's positives: models on one scale
    at_limit: FloatArray  # d limit/d slope: the features of the pair at the limit
    at_level: FloatArray  # d level/d slope: mean features under the odds

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

    def derivative(self, user: IntArray, x: FloatArray) -> FloatArray:
        """Return d log odds/d slopes of pairs, (n_pairs, n_features), moved in all models together."""
        found = np.zeros(x.shape)
        for place, fold in enumerate(self.fold[:, user]):
            held = np.einsum("nk,nk->n", x, self.slope[place, fold]) > self.limit[place, fold]
            found += np.where(held[:, None], self.at_limit[place, fold], x) - self.at_level[place, fold]
        return np.asarray(found / self.fold.shape[0])


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
        found: list[tuple[FloatArray | float, ...]] = []
        for fold in self.fold:
            for number in range(shape[1]):
                seen = fold[sample.user] != number
                if not weight[seen & biased].any():
                    seen = np.ones(seen.size, dtype=bool)  # a single user: there is nobody else to learn from
                start = models[-1].odds if models else None
                part = (x[seen], sample.kind[seen], weight[seen])
                model = _mean_slopes(fit_slopes(*part, RIDGES, start), self.ridge)
                models.append(model)
                found.append((model.slope, *self._scale(x[biased], weight[biased], model.slope)))
        columns = (np.array(one) for one in zip(*found, strict=True))
        slope, *rest = (readonly(one.reshape(*shape, *one.shape[1:])) for one in columns)
        return CrossFitted(self.features, self.fold, slope, *rest), models

    def _scale(self, x: FloatArray, weight: FloatArray, slope: FloatArray) -> tuple[FloatArray | float, ...]:
        """Return limit and level of a model over the positives of the log, and their derivatives."""
        values = x @ slope
        limit, at_limit = np.inf, np.zeros(slope.size)
        if self.limit is not None:
            place = _quantile_place(values, weight, self.limit)
            limit, at_limit = float(values[place]), x[place]
        held = np.minimum(values, limit)
        share = weight * np.exp(held - held.max())
        moved = np.where((values > limit)[:, None], at_limit, x)
        return limit, _log_mean_exp(held, weight), at_limit, share @ moved / share.sum()


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
    array = to_finite_table("features", x)
    if len(array) != n_rows:
        raise InputError(
            f"features gave shape {array.shape} for {n_rows} pairs; expected ({n_rows}, n_features)."
        )
    return array


def _quantile_place(values: FloatArray, weight: FloatArray, level: float) -> int:
    """Return the place of the smallest value that a share `level` of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    return int(order[np.searchsorted(total, level * total[-1] * (1 - 1e-12))])


def _log_mean_exp(values: FloatArray, weight: FloatArray) -> float:
    top = values.max()
    return float(top + np.log(np.average(np.exp(values - top), weights=weight)))
