"""Odds that a positive comes from random exposure rather than from the log, cross-fitted over users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity.fit_error import to_finite_table
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import unique_keys
from ipseval.utils.types import BoolArray, FloatArray, IntArray, as_readonly

Features = Callable[[Interactions, IntArray, IntArray], FloatArray]

MAX_STEPS = 100
MAX_HALVINGS = 40
# Prior of the strength of the correction, and the ridge of the odds against uniform pairs.
PRIOR_MEAN = 0.4
PRIOR_SD = 0.3
ODDS_RIDGE = 1.0
# Ridges of the deviation from the tempered direction; the last one leaves no deviation.
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e6)
# Distance from the limit of log odds up to which a pair is not above it. The pair at the limit itself differs from
# it by rounding, in a direction that depends on the processor.
ROUNDING = 1e-9
# Kinds of pairs in a sample.
BIASED = 0
RANDOM = 1
UNIFORM = 2


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
    coefficients = (centre if start is None else start).copy()
    log_odds: FloatArray = design @ coefficients
    losses, p = _logistic_losses(log_odds, y)
    objective = float(weight @ losses) + _ridge_penalty(coefficients, centre, precision)
    for _ in range(MAX_STEPS):
        gradient = design.T @ (weight * (p - y)) + precision * (coefficients - centre)
        root = design * np.sqrt(weight * p * (1 - p))[:, None]
        curvature = root.T @ root + np.diag(precision)  # of one matrix with itself: half the work
        step = np.linalg.solve(curvature, gradient)
        if float(gradient @ step) < 1e-12 * (1 + abs(objective)):
            return coefficients - step  # this close to the optimum, the last step is exact to rounding

        for _ in range(MAX_HALVINGS):
            candidate = coefficients - step
            log_odds = design @ candidate
            losses, p = _logistic_losses(log_odds, y)
            candidate_objective = float(weight @ losses) + _ridge_penalty(candidate, centre, precision)
            if candidate_objective <= objective:
                break
            step = step / 2
        coefficients = coefficients - step
        objective = candidate_objective
    return coefficients


def _logistic_losses(log_odds: FloatArray, y: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return −log of the probability of each outcome, and the probability of True, from one exponential."""
    magnitude = np.abs(log_odds)
    is_likely = log_odds > 0
    small = np.exp(-magnitude)
    losses = np.where(y == is_likely, 0, magnitude) + np.log(1 + small)
    return losses, np.where(is_likely, 1, small) / (1 + small)


def _ridge_penalty(coefficients: FloatArray, centre: FloatArray, precision: FloatArray) -> float:
    return float((precision * (coefficients - centre) ** 2).sum()) / 2


class PairSample(NamedTuple):
    """Pairs of three kinds: positives of the log, positives of random exposure, and uniform draws."""

    user: IntArray
    item: IntArray
    kind: IntArray

    def select_users(self, kind: int) -> IntArray:
        """Return the users with pairs of a kind, ascending."""
        return unique_keys(self.user[self.kind == kind])

    @classmethod
    def concatenate(cls, samples: Sequence[PairSample]) -> PairSample:
        """Return several samples as one."""
        return cls(
            user=np.concatenate([sample.user for sample in samples]),
            item=np.concatenate([sample.item for sample in samples]),
            kind=np.concatenate([sample.kind for sample in samples]),
        )


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Standardised features of pairs, computed from a training log; the last result is cached."""

    train: Interactions
    compute: Features
    centre: FloatArray
    scale: FloatArray
    cache: dict[str, tuple[IntArray, IntArray, FloatArray]] = field(default_factory=dict)

    @classmethod
    def from_sample(cls, train: Interactions, compute: Features, sample: PairSample) -> PairFeatures:
        """Return features with mean 0 and variance 1 over the uniform pairs of a sample."""
        is_uniform = sample.kind == UNIFORM
        raw_features = compute(train, sample.user[is_uniform], sample.item[is_uniform])
        x = check_features(raw_features, int(is_uniform.sum()))
        spread = x.std(axis=0)
        is_variable = spread > 1e-9 * np.abs(x).max(axis=0)  # or constant but for rounding
        scale = np.where(is_variable, spread, np.inf)
        return cls(train=train, compute=compute, centre=x.mean(axis=0), scale=scale)

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the features of pairs, (n_pairs, n_features)."""
        cached = self.cache.get("pairs")  # one tuple, so that threads never see halves of two results
        if cached is not None:
            cached_user, cached_item, cached_x = cached
            if np.array_equal(cached_user, user) and np.array_equal(cached_item, item):
                return cached_x
        x = check_features(self.compute(self.train, user, item), user.size)
        standardized = np.asarray((x - self.centre) / self.scale)
        self.cache["pairs"] = (user, item, standardized)
        return standardized


def check_features(x: npt.ArrayLike, n_rows: int) -> FloatArray:
    """Return features as an (n_rows, n_features) float array, or raise `InputError`."""
    array = to_finite_table("features", x)
    if len(array) != n_rows:
        raise InputError(
            f"features gave shape {array.shape} for {n_rows} pairs; expected ({n_rows}, n_features)."
        )
    return array


def compute_user_weights(user: IntArray, kind: IntArray, counts: FloatArray | None = None) -> FloatArray:
    """Return weights that add up, over the pairs of a kind, to 1 for each user (or to its count)."""
    weight = np.empty(user.size)
    for sample_kind in np.unique(kind):
        rows = kind == sample_kind
        user_sizes = np.bincount(user[rows])
        weight[rows] = 1 / user_sizes[user[rows]]
    if counts is None:
        return weight
    return weight * counts[user]


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
    """Return the slopes −α·o + δ for each ridge, where o are the slopes of the odds (log : uniform)."""
    # α has a normal prior, N(0.4, 0.3²); δ has N(0, 1/ridge) in each standardised feature. Both samples count
    # as the harmonic mean of their numbers of users, which is the precision of a difference of two means.
    odds = fit_odds_slopes(x, kind, weight, start)
    tempered_slope = odds[1:]
    if not weight[kind == RANDOM].any():
        prior_slopes = Slopes(-PRIOR_MEAN * tempered_slope, PRIOR_MEAN, odds)
        return [prior_slopes] * len(ridges)
    regression = RatioRegression.from_pairs(x, kind, weight, tempered_slope)
    fits = regression.fit_ridges(ridges)
    slopes: list[Slopes] = []
    for fit in fits:
        slopes.append(Slopes(regression.slope_map @ fit, float(fit[1]), odds))

    return slopes


def fit_odds_slopes(
    x: FloatArray, kind: IntArray, weight: FloatArray, start: FloatArray | None
) -> FloatArray:
    """Return intercept and slopes of the log odds (log : uniform)."""
    rows = kind != RANDOM
    n_features = x.shape[1]
    return fit_logistic(
        design=np.column_stack([np.ones(int(rows.sum())), x[rows]]),
        y=kind[rows] == BIASED,
        weight=weight[rows],
        centre=np.zeros(n_features + 1),
        precision=np.concatenate([[1e-6], np.full(n_features, ODDS_RIDGE)]),
        start=start,
    )


class RatioRegression(NamedTuple):
    """Logistic regression of random against biased positives on (1, tempered log odds, features)."""

    rows: BoolArray  # the pairs of the sample that enter
    design: FloatArray
    is_random: BoolArray
    weight: FloatArray
    slope_map: FloatArray  # (n_features, n_features + 2): slopes of the features from the coefficients

    @classmethod
    def from_pairs(
        cls, x: FloatArray, kind: IntArray, weight: FloatArray, tempered_slope: FloatArray
    ) -> RatioRegression:
        """Select the random and the biased rows, with equal total weights."""
        rows = kind != UNIFORM
        is_random = kind[rows] == RANDOM
        random_weight = float(weight[kind == RANDOM].sum())
        biased_weight = float(weight[kind == BIASED].sum())
        sample_weight = 2 * random_weight * biased_weight / (random_weight + biased_weight)
        factor = np.where(is_random, sample_weight / random_weight, sample_weight / biased_weight)

        n_features = tempered_slope.size
        return cls(
            rows=rows,
            design=np.column_stack([np.ones(is_random.size), -(x[rows] @ tempered_slope), x[rows]]),
            is_random=is_random,
            weight=weight[rows] * factor,
            slope_map=np.column_stack([np.zeros(n_features), -tempered_slope, np.eye(n_features)]),
        )

    def precision(self, ridge: float) -> FloatArray:
        """Return the inverse variance of the prior of each coefficient."""
        return np.concatenate([[1e-3, PRIOR_SD**-2], np.full(len(self.slope_map), ridge)])

    def fit_ridges(self, ridges: tuple[float, ...]) -> list[FloatArray]:
        """Return the coefficients for each ridge."""
        centre = np.concatenate([[0.0, PRIOR_MEAN], np.zeros(len(self.slope_map))])
        fits: list[FloatArray] = []
        for ridge in ridges:
            coefficients = fit_logistic(
                design=self.design,
                y=self.is_random,
                weight=self.weight,
                centre=centre,
                precision=self.precision(ridge),
                start=fits[-1] if fits else None,
            )
            fits.append(coefficients)
        return fits

    def fit_without_users(
        self, coefficients: FloatArray, ridge: float, user_number: IntArray, n_users: int
    ) -> FloatArray:
        """Return the slopes without each of n users, (n_users, n_features), by one Newton step.

        `user_number` is the number of the user of each row, −1 for rows that no fit leaves out.
        """
        p = expit(self.design @ coefficients)
        information = self.weight * p * (1 - p)
        curvature = (self.design.T * information) @ self.design + np.diag(self.precision(ridge))

        # Sorted by user. Rows with −1 come first and belong to no user.
        order = np.argsort(user_number, kind="stable")
        design = self.design[order]
        residual = self.weight[order] * (self.is_random[order] - p[order])
        starts = np.searchsorted(user_number[order], np.arange(n_users))
        ends = np.append(starts[1:], order.size)
        user_scores = np.add.reduceat(design * residual[:, None], starts)
        root = design * np.sqrt(information[order])[:, None]
        user_curvatures = []
        for start, end in zip(starts, ends, strict=True):
            user_curvatures.append(root[start:end].T @ root[start:end])

        step = np.linalg.solve(curvature - np.array(user_curvatures), user_scores[..., None])[..., 0]
        return np.asarray((coefficients - step) @ self.slope_map.T)


def compute_ridge_weights(x: FloatArray, sample: PairSample) -> FloatArray:
    """Return the weight of each ridge, (n_ridges,), from its predictions for users that were left out."""
    # ∝ exp of the likelihood of a density ratio over users left out one by one, Σ (log odds of random
    # positives − log of the mean odds of the log's). Weights change less by chance than the best ridge would.
    users = sample.select_users(RANDOM)
    if users.size < 2:
        return np.asarray(np.eye(len(RIDGES))[-1])
    weight = compute_user_weights(sample.user, sample.kind)
    is_biased = sample.kind == BIASED
    is_random = sample.kind == RANDOM
    biased_x = x[is_biased]
    biased_weight = weight[is_biased]
    tempered_slope = fit_odds_slopes(x, sample.kind, weight, None)[1:]
    regression = RatioRegression.from_pairs(x, sample.kind, weight, tempered_slope)

    user_number = np.full(int(sample.user.max()) + 1, -1)
    user_number[users] = np.arange(users.size)
    row_numbers = user_number[sample.user[regression.rows]]
    mean_features = np.zeros((users.size, x.shape[1]))
    np.add.at(mean_features, user_number[sample.user[is_random]], weight[is_random, None] * x[is_random])

    scores = np.zeros(len(RIDGES))
    fits = regression.fit_ridges(RIDGES)
    for number, (ridge, coefficients) in enumerate(zip(RIDGES, fits, strict=True)):
        slope = regression.slope_map @ coefficients
        user_slopes = regression.fit_without_users(coefficients, ridge, row_numbers, users.size)
        log_odds = biased_x @ slope
        level = _log_mean_exp(log_odds, biased_weight)
        share = biased_weight * np.exp(log_odds - log_odds.max())
        level_gradient = share @ biased_x / share.sum()
        level_changes = (user_slopes - slope) @ level_gradient  # to first order
        predictions = np.einsum("uk,uk->u", mean_features, user_slopes)
        scores[number] = (predictions - level - level_changes).sum()
    likelihood = np.exp(scores - scores.max())
    return np.asarray(likelihood / likelihood.sum())


class OddsScale(NamedTuple):
    """Limit and level of the log odds of one model, with their derivatives by the slopes."""

    limit: float
    level: float
    limit_gradient: FloatArray
    level_gradient: FloatArray


@dataclass(frozen=True, eq=False)
class CrossFittedOdds:
    """Odds of any pair: the median, over assignments of users to folds, of models without the user."""

    features: PairFeatures
    fold: IntArray  # (n_assignments, n_users)
    slope: FloatArray  # (n_assignments, n_folds, n_features)
    limit: FloatArray  # (n_assignments, n_folds): log odds above it are set to it
    level: FloatArray  # log of the users' mean odds over the log's positives: brings models to one scale
    limit_gradient: FloatArray  # d limit/d slope: the features of the pair at the limit
    level_gradient: FloatArray  # d level/d slope: mean features under the odds

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return P ∝ 1/odds, (n_pairs,)."""
        log_odds, _ = self.log_odds(user, self.features(user, item))
        return np.asarray(np.exp(-log_odds))

    def log_odds(self, user: IntArray, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the median log odds of pairs, and whether most models set them to their limit."""
        n_assignments = self.fold.shape[0]
        log_odds = np.empty((n_assignments, user.size))
        n_limited = np.zeros(user.size, dtype=np.int64)
        for assignment, fold in enumerate(self.fold[:, user]):
            raw_log_odds = np.einsum("nk,nk->n", x, self.slope[assignment, fold])
            limit = self.limit[assignment, fold]
            n_limited += raw_log_odds > limit + ROUNDING
            log_odds[assignment] = np.minimum(raw_log_odds, limit) - self.level[assignment, fold]
        return np.median(log_odds, axis=0), n_limited * 2 > n_assignments

    def derivative(self, user: IntArray, x: FloatArray) -> FloatArray:
        """Return d log odds/d slopes of pairs, (n_pairs, n_features), with the slopes of all models moved."""
        total = np.zeros(x.shape)
        for assignment, fold in enumerate(self.fold[:, user]):
            raw_log_odds = np.einsum("nk,nk->n", x, self.slope[assignment, fold])
            is_limited = raw_log_odds > self.limit[assignment, fold]
            gradient = np.where(is_limited[:, None], self.limit_gradient[assignment, fold], x)
            total += gradient - self.level_gradient[assignment, fold]
        return np.asarray(total / self.fold.shape[0])


@dataclass(frozen=True, eq=False)
class RatioProblem:
    """Data and options of a fit of the odds, which `solve` fits with a count for each user."""

    features: PairFeatures
    sample: PairSample
    x: FloatArray
    fold: IntArray
    ridge_weights: FloatArray
    limit: float | None

    @property
    def ridges(self) -> tuple[float, ...]:
        """Ridges to which the weights belong."""
        return RIDGES

    def solve(self, counts: FloatArray | None = None) -> tuple[CrossFittedOdds, list[Slopes]]:
        """Return the cross-fitted odds and the slopes of all models."""
        sample = self.sample
        weight = compute_user_weights(sample.user, sample.kind, counts)
        is_biased = sample.kind == BIASED
        if not weight[is_biased].any():
            raise InputError("no user with held-out positives of the log is left in a resample.")

        shape = (self.fold.shape[0], int(self.fold.max()) + 1)
        slope = np.empty((*shape, self.x.shape[1]))
        limit = np.empty(shape)
        level = np.empty(shape)
        limit_gradient = np.empty_like(slope)
        level_gradient = np.empty_like(slope)
        models: list[Slopes] = []
        for assignment, number in np.ndindex(shape):
            rows = self.fold[assignment][sample.user] != number
            if not weight[rows & is_biased].any():
                rows = np.ones(rows.size, dtype=bool)  # a single user: all pairs are needed to fit a model
            fits = fit_slopes(
                x=self.x[rows],
                kind=sample.kind[rows],
                weight=weight[rows],
                ridges=self.ridges,
                start=models[-1].odds if models else None,
            )
            model = _average_slopes(fits, self.ridge_weights)
            models.append(model)

            scale = self._compute_scale(self.x[is_biased], weight[is_biased], model.slope)
            slope[assignment, number] = model.slope
            limit[assignment, number] = scale.limit
            level[assignment, number] = scale.level
            limit_gradient[assignment, number] = scale.limit_gradient
            level_gradient[assignment, number] = scale.level_gradient
        odds = CrossFittedOdds(
            features=self.features,
            fold=self.fold,
            slope=as_readonly(slope),
            limit=as_readonly(limit),
            level=as_readonly(level),
            limit_gradient=as_readonly(limit_gradient),
            level_gradient=as_readonly(level_gradient),
        )
        return odds, models

    def _compute_scale(self, x: FloatArray, weight: FloatArray, slope: FloatArray) -> OddsScale:
        """Return limit and level of a model over the positives of the log, and their derivatives."""
        log_odds = x @ slope
        limit = np.inf
        limit_gradient = np.zeros(slope.size)
        if self.limit is not None:
            row = _find_quantile_row(log_odds, weight, self.limit)
            limit = float(log_odds[row])
            limit_gradient = x[row]
        limited_log_odds = np.minimum(log_odds, limit)
        share = weight * np.exp(limited_log_odds - limited_log_odds.max())
        gradients = np.where((log_odds > limit)[:, None], limit_gradient, x)
        return OddsScale(
            limit=limit,
            level=_log_mean_exp(limited_log_odds, weight),
            limit_gradient=limit_gradient,
            level_gradient=share @ gradients / share.sum(),
        )


def _average_slopes(models: list[Slopes], weight: FloatArray) -> Slopes:
    """Return the weighted mean of the slopes over the ridges."""
    weighted_slopes = [model_weight * model.slope for model_weight, model in zip(weight, models, strict=True)]
    weighted_strengths = []
    for model_weight, model in zip(weight, models, strict=True):
        weighted_strengths.append(float(model_weight) * model.strength)

    return Slopes(np.sum(weighted_slopes, axis=0), sum(weighted_strengths), models[0].odds)


def assign_folds(
    sample: PairSample, n_users: int, n_folds: int, n_assignments: int, rng: np.random.Generator
) -> IntArray:
    """Return the fold of each user, (n_assignments, n_users), balanced over users with random positives."""
    random_users = sample.select_users(RANDOM)
    user_groups = (random_users, np.setdiff1d(np.arange(n_users), random_users))
    folds = np.empty((n_assignments, n_users), dtype=np.int64)
    for assignment in folds:
        for users in user_groups:
            assignment[rng.permutation(users)] = np.arange(users.size) % n_folds
    return folds


def _find_quantile_row(values: FloatArray, weight: FloatArray, level: float) -> int:
    """Return the index of the smallest value that a share `level` of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    cumulative_weight = np.cumsum(weight[order])
    threshold = level * cumulative_weight[-1] * (1 - 1e-12)
    return int(order[np.searchsorted(cumulative_weight, threshold)])


def _log_mean_exp(values: FloatArray, weight: FloatArray) -> float:
    """Return the log of the weighted mean of exp(values), without overflow."""
    largest = values.max()
    return float(largest + np.log(np.average(np.exp(values - largest), weights=weight)))
