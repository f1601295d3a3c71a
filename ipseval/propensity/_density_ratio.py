"""User × item weights: how much likelier a positive is under random exposure than in the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ipseval.data.interactions import Interactions, check_interactions
from ipseval.data.random_exposure import RandomExposure, check_exposure
from ipseval.data.splits import split_random
from ipseval.errors import InputError, PositivityWarning
from ipseval.propensity import _pair_features
from ipseval.propensity._base import Propensity, check_same_ids
from ipseval.propensity.cross_fitted_odds import (
    BIASED,
    ODDS_RIDGE,
    PRIOR_MEAN,
    PRIOR_SD,
    RANDOM,
    RIDGES,
    UNIFORM,
    CrossFitted,
    Features,
    PairFeatures,
    RatioProblem,
    Sample,
    Slopes,
    TwoSamples,
    assign_folds,
    odds_slopes,
    ridge_weights,
    user_weights,
)
from ipseval.propensity.fit_error import FitError
from ipseval.utils.checks import as_generator, check_fraction, check_positive_int, warn_user
from ipseval.utils.ids import among, distinct
from ipseval.utils.types import BoolArray, FloatArray, IntArray, RngLike, readonly


@dataclass(frozen=True, eq=False)
class _LogPropensity:
    odds: CrossFitted

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the derivative of ln P with respect to the slopes, (n_pairs, n_features)."""
        return -self.odds.derivative(user, self.odds.features(user, item))


def slope_influence(problem: RatioProblem) -> FloatArray:
    """Return the derivative of the slopes by how often each user counts, (n_users, n_features)."""
    # The slopes o of the log odds (log : uniform) move by H₁⁻¹ s₁ᵤ, with H₁ the curvature of their penalised
    # likelihood and s₁ᵤ the user's score. With α integrated out, the slopes b under a ridge have the prior
    # N(−.4·o, Q⁻¹), Q⁻¹ = I/ridge + .3²·o oᵀ. So they move by H₂⁻¹(s₂ᵤ − ∂[Q(b + .4·o)]/∂o · H₁⁻¹ s₁ᵤ), and
    # their mean over the ridges by the mean of that. The weights of the ridges are taken as given.
    sample, x = problem.sample, problem.x
    weight = user_weights(sample.user, sample.kind)
    odds = odds_slopes(x, sample.kind, weight, None)
    first = _odds_influence(problem, weight, odds)
    two = TwoSamples.of(x, sample.kind, weight, odds[1:])
    design, user = _with_ones(x[two.rows]), sample.user[two.rows]
    found = np.zeros(first.shape)
    for share, ridge, fit in zip(problem.ridge, RIDGES, two.fits(RIDGES), strict=True):
        p = expit(two.design @ fit)
        precision, turn = _prior(ridge, two.slopes @ fit, odds[1:])
        curvature = (design.T * (two.weight * p * (1 - p))) @ design
        curvature[0, 0] += two.precision(ridge)[0]
        curvature[1:, 1:] += precision
        score = _scores(design * (two.weight * (two.random - p))[:, None], user, two.random, len(first))
        score[:, 1:] -= first @ turn.T
        found += share * np.linalg.solve(curvature, score.T).T[:, 1:]
    return found


def _odds_influence(problem: RatioProblem, weight: FloatArray, odds: FloatArray) -> FloatArray:
    """Return H₁⁻¹ s₁ᵤ of the slopes, (n_users, n_features)."""
    sample = problem.sample
    rows = sample.kind != RANDOM
    design = _with_ones(problem.x[rows])
    p = expit(design @ odds)
    curvature = (design.T * (weight[rows] * p * (1 - p))) @ design
    curvature += np.diag([1e-6, *[ODDS_RIDGE] * (odds.size - 1)])
    residual = weight[rows] * ((sample.kind[rows] == BIASED) - p)
    score = _by_user(design * residual[:, None], sample.user[rows], problem.features.train.n_users)
    return np.asarray(np.linalg.solve(curvature, score.T).T[:, 1:])


def _prior(ridge: float, slope: FloatArray, odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Q, and the derivative of Q(b + .4·o) with respect to o, both (n_features, n_features)."""
    apart = slope + PRIOR_MEAN * odds
    # Q = ridge·(I − c·o oᵀ) with 1/c = 1/(ridge·.3²) + |o|², by Sherman and Morrison.
    c = 1 / (1 / (ridge * PRIOR_SD**2) + odds @ odds)
    identity, along = np.eye(odds.size), float(odds @ apart)
    precision = ridge * (identity - c * np.outer(odds, odds))
    turn = 2 * c * along * np.outer(odds, odds) - along * identity - np.outer(odds, apart)
    return precision, PRIOR_MEAN * precision + ridge * c * turn


def _scores(each: FloatArray, user: IntArray, random: BoolArray, n_users: int) -> FloatArray:
    """Return what one more of each user adds to the score of both samples, (n_users, k)."""
    # A side of n users counts 2m/(n + m) each, m those of the other. So a user brings its own score, and with
    # it the other side counts more, the own side less.
    found = np.zeros((n_users, each.shape[1]))
    entered = [np.bincount(user[side], minlength=n_users) > 0 for side in (random, ~random)]
    totals = [each[side].sum(axis=0) for side in (random, ~random)]
    for side, mine, other in ((random, 0, 1), (~random, 1, 0)):
        n, m = int(entered[mine].sum()), int(entered[other].sum())
        shifted = totals[other] * m / (n * (n + m)) - totals[mine] / (n + m)
        found += _by_user(each[side], user[side], n_users) + np.outer(entered[mine], shifted)
    return found


def _by_user(values: FloatArray, user: IntArray, n_users: int) -> FloatArray:
    return np.column_stack([np.bincount(user, column, n_users) for column in values.T])


def _with_ones(x: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(x)), x])


# Part of the training positives that stands for the log where no held-out positives are given, and how often
# such a part is drawn.
SET_ASIDE, N_SET_ASIDE = 0.2, 5
MAX_UNIFORM = 50_000
N_BINS = 10
# Below this share of the effective sample, or above this share of random positives not covered, a fit warns.
LOW_ESS, UNCOVERED = 0.1, 0.1


@dataclass(frozen=True, eq=False)
class DensityRatioPropensity:
    """P_ui ∝ 1/odds that a positive comes from random exposure rather than from the log.

    The odds estimate p_random(i | u)/p_log(i | u): the weight that turns the log's positives into a random
    sample of the relevant ones, popularity and personal selection together. Every user has the same weight
    on either side. P is known up to a factor, for every pair.

    Two logistic regressions on standardised features of pairs give the odds. The first tells the log's
    positives from uniform pairs: slopes o. The second tells random positives from the log's: slopes −α·o + δ.
    α has a normal prior, N(.4, .3²), and δ a ridge penalty: slopes are averaged over seven penalties, by
    how well they predict users left out. So a few users with random exposure fit one number, and many fit
    every slope.

    Users are dealt into `cross_fit` folds, `n_assignments` times. A user is weighted by models of the other
    folds, whose odds have mean 1 over the log's positives; the median over the assignments is taken. Many
    folds make it steady: each model lacks few users. Only the weights of the seven penalties, which leave
    users out one by one, and that mean read all users.

    The propensity carries the error of both regressions (`Propensity.error`), so that the errors of an
    evaluation hold that of the weights, by the delta method. Features, penalties and their weights are taken
    as given, and so is the form of the odds: what the features do not express is no part of an interval.

    Parameters
    ----------
    exposure : RandomExposure
        Random-exposure sample in the id space of the training log; `validate` gives its own.
    biased : Interactions, optional
        Held-out positives of the log that are weighted: `split.test`, which fits best. Default: a random
        fifth of each user's training positives, with features from the rest, five times.
    features : callable, optional
        (train, user codes (n,), item codes (n,)) -> (n, n_features), from training data only. Default:
        `profile_features`: popularity, its square, similarity to the user's profile, and so on.
    cross_fit : int
        Number of folds of users, >= 2.
    n_assignments : int
        How often users are dealt into folds, >= 1.
    limit : float or None
        Odds are not extrapolated beyond this quantile, in (0, 1], of the odds of the log's positives; how
        many that concerns is in the fit. None: no limit.
    n_uniform : int
        Uniform pairs per user, at random from those without a training interaction.
    rng : int, Generator or None
        Assigns users to folds, and draws pairs.
    """

    exposure: RandomExposure | None = None
    biased: Interactions | None = None
    features: Features | None = None
    cross_fit: int = 20
    n_assignments: int = 1
    limit: float | None = 0.99
    n_uniform: int = 20
    rng: RngLike = None

    def __post_init__(self) -> None:
        check_positive_int("cross_fit", self.cross_fit, minimum=2)
        check_positive_int("n_assignments", self.n_assignments)
        check_positive_int("n_uniform", self.n_uniform)
        if self.limit is not None:
            check_fraction("limit", self.limit, high_open=False)
        if self.features is not None and not callable(self.features):
            raise InputError("features must be a callable (train, user, item) -> (n, n_features) array.")
        if self.biased is not None:
            check_interactions(self.biased, "biased", "split.test")
        if self.exposure is not None:
            check_exposure(self.exposure)

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every pair, up to a factor. Pairs that repeat in `train` count once.

        Raises
        ------
        InputError
            When the id spaces differ, or there is no random positive or no positive of the log.

        Warns
        -----
        PositivityWarning
            Weights carried by few positives, or random positives that the log does not cover.
        """
        if self.exposure is None:
            raise InputError(
                "DensityRatioPropensity needs random exposure: "
                "exposure=RandomExposure.from_frame(frame, split)."
            )
        check_same_ids(self.exposure, train)
        train = train.distinct
        clean, rng = self.exposure.without(train), as_generator(self.rng)
        # Looked up when used: the public border replaces the function, and a pickle finds only what is there.
        make = self.features or _pair_features.profile_features
        samples, rows = [], []
        for log, biased in self._parts(train, rng):
            samples.append(self._sample(log, biased, clean, rng))
            rows.append(PairFeatures.of(log, make, samples[-1])(samples[-1].user, samples[-1].item))
        sample, x = Sample.concat(samples), np.concatenate(rows)
        problem = RatioProblem(
            features=PairFeatures.of(train, make, samples[0]),
            sample=sample,
            x=x,
            fold=assign_folds(sample, train.n_users, self.cross_fit, self.n_assignments, rng),
            ridge=ridge_weights(x, sample),
            limit=self.limit,
        )
        own = tuple(f"x{j + 1}" for j in range(x.shape[1]))
        names = _pair_features.FEATURE_NAMES if self.features is None else own
        odds, slopes = problem.solve()
        fit = _describe(problem, odds, slopes, names, clean.n_dropped)
        if fit.ess_share < LOW_ESS or fit.uncovered > UNCOVERED:
            warn_user(
                f"the log covers the random positives poorly: the weights leave {fit.ess_share:.0%} of the "
                f"effective sample, and {fit.uncovered:.0%} of the random positives have odds beyond 99% of "
                "the log's. Clip the propensity, or use fewer features.",
                PositivityWarning,
            )
        return fit.propensity(odds, FitError.of(slope_influence(problem), _LogPropensity(odds)))

    def _parts(
        self, train: Interactions, rng: np.random.Generator
    ) -> list[tuple[Interactions, Interactions]]:
        """Return logs to take features from, each with the positives that stand for the log."""
        if self.biased is None:
            repeated = (split_random(train, test_fraction=SET_ASIDE, rng=rng) for _ in range(N_SET_ASIDE))
            return [(one.train, one.test) for one in repeated]
        ids = ((self.biased.user_ids, train.user_ids), (self.biased.item_ids, train.item_ids))
        if not all(np.array_equal(own, other) for own, other in ids):
            raise InputError("biased is in another id space than the training log; pass split.test as it is.")
        return [(train, self.biased)]

    def _sample(
        self, train: Interactions, biased: Interactions, exposure: RandomExposure, rng: np.random.Generator
    ) -> Sample:
        """Return the positives of the log, random positives, and uniform pairs of the users of the log."""
        random = exposure.select(exposure.positive)
        if len(biased) == 0 or len(random) == 0:
            raise InputError(
                f"there are {len(random)} random-exposure positives outside the training log and "
                f"{len(biased)} held-out positives to learn from; both are needed."
            )
        users = distinct(biased.user)
        n_uniform = self.n_uniform if self.biased is not None else -(-self.n_uniform // N_SET_ASIDE)
        user = np.repeat(users, max(1, min(n_uniform, MAX_UNIFORM // users.size)))
        item = rng.integers(train.n_items, size=user.size)
        keep = ~among(user * np.int64(train.n_items) + item, train.pair_key)
        parts = (
            (biased.user, biased.item, BIASED),
            (random.user, random.item, RANDOM),
            (user[keep], item[keep], UNIFORM),
        )
        return Sample.concat(Sample(one, other, np.full(one.size, kind)) for one, other, kind in parts)


@dataclass(frozen=True, eq=False)
class DensityRatioFit:
    """What a density ratio was fitted to, and how well it fits users it has not seen.

    Attributes
    ----------
    strength : float
        α: how much of the odds (log : uniform) is taken for selection; mean over the models.
    ridge : float
        Penalty of the deviation of each slope from the tempered direction; geometric mean.
    slope : (n_features,) float array
        Of the log odds, on standardised features; mean over the models.
    feature_names : tuple of str
    n_random, n_biased : int
        Positives of the two samples.
    n_users, n_random_users : int
        Users with positives of the log, and with random positives.
    n_dropped : int
        Random-exposure pairs left out because they are pairs of the training log.
    n_limited : int
        Positives of the log whose odds were held at the limit.
    calibration_gap : float
        Mean |observed − predicted| share of random positives, over tenths of the odds; predictions by models
        that have not seen the user.
    auc : float
        How well the two samples can be told apart, 0.5 … 1; near 1 there is little overlap. Over pairs of
        positives of one fold, which one model weighs: a model that lacks a positive lies on its other side.
    ess_share : float
        Kish effective sample size of the weights over the log's positives, as a share of it without weights.
    uncovered : float
        Share of the random positives whose odds exceed those of 99% of the log's positives.
    problem : RatioProblem
        What is fitted; `refit` fits it to resampled users.
    """

    strength: float
    ridge: float
    slope: FloatArray
    feature_names: tuple[str, ...]
    n_random: int
    n_biased: int
    n_users: int
    n_random_users: int
    n_dropped: int
    n_limited: int
    calibration_gap: float
    auc: float
    ess_share: float
    uncovered: float
    problem: RatioProblem

    def __repr__(self) -> str:
        lines = [
            f"DensityRatioFit: {self.n_random:,} random positives of {self.n_random_users:,} users, "
            f"{self.n_biased:,} of the log of {self.n_users:,}",
            f"  strength {self.strength:.2f}, ridge {self.ridge:.3g}; out of fold: AUC {self.auc:.3f}, "
            f"calibration gap {self.calibration_gap:.3f}, effective share of the weights "
            f"{self.ess_share:.0%}, not covered {self.uncovered:.1%}",
        ]
        if self.n_limited:
            lines.append(f"  {self.n_limited:,} positives of the log held at the limit of the odds")
        if self.n_dropped:
            lines.append(f"  {self.n_dropped:,} exposures left out: also in the log")
        return "\n".join(lines)

    def propensity(self, odds: CrossFitted, error: FitError | None = None) -> Propensity:
        """Return P ∝ 1/odds, with the error of the fit where it is given."""
        train = self.problem.features.train
        return Propensity(
            None,
            False,
            "density ratio, cross-fitted",
            train.n_items,
            function=odds,
            fit=self,
            item_ids=train.item_ids,
            user_ids=train.user_ids,
            error=error,
            basis="exposure",
        )

    def refit(self, counts: IntArray) -> Propensity:
        """Return the propensity fitted to a sample in which user u occurs `counts[u]` times, (n_users,).

        For `evaluation.with_intervals(refit=propensity.fit.refit)`: the error of the weights reaches the
        interval. Training log, features, folds and ridge stay.
        """
        odds, _ = self.problem.solve(np.asarray(counts, dtype=np.float64))
        return self.propensity(odds)


def _describe(
    problem: RatioProblem, odds: CrossFitted, slopes: list[Slopes], names: tuple[str, ...], n_dropped: int
) -> DensityRatioFit:
    """Return the fit with its calibration and overlap, judged on the weights that are handed out."""
    sample = problem.sample
    positive = sample.kind != UNIFORM
    user, item, kind = sample.user[positive], sample.item[positive], sample.kind[positive]
    log_odds, held = odds.log_odds(user, problem.x[positive])
    random, biased = kind == RANDOM, kind == BIASED
    weight = user_weights(user, kind)
    for rows in (random, biased):
        weight[rows] /= weight[rows].sum()  # both samples count alike

    def n_pairs(rows: BoolArray) -> int:  # several set-asides may hold one pair
        return int(distinct(user[rows] * np.int64(problem.features.train.n_items) + item[rows]).size)

    effective = weight[biased] * np.exp(log_odds[biased])
    beyond = log_odds[random] > np.quantile(log_odds[biased], 0.99)
    return DensityRatioFit(
        strength=float(np.mean([one.strength for one in slopes])),
        ridge=float(np.exp(problem.ridge @ np.log(RIDGES))),
        slope=readonly(np.mean([one.slope for one in slopes], axis=0)),
        feature_names=names,
        n_random=n_pairs(random),
        n_biased=n_pairs(biased),
        n_users=sample.users(BIASED).size,
        n_random_users=sample.users(RANDOM).size,
        n_dropped=n_dropped,
        n_limited=n_pairs(biased & held),
        calibration_gap=_calibration_gap(log_odds, random, weight),
        auc=weighted_auc(log_odds, random, weight, problem.fold[0, user]),
        ess_share=float(effective.sum() ** 2 / (effective**2).sum() * (weight[biased] ** 2).sum()),
        uncovered=float(weight[random] @ beyond),
        problem=problem,
    )


def _calibration_gap(log_odds: FloatArray, random: BoolArray, weight: FloatArray) -> float:
    order = np.argsort(log_odds, kind="stable")
    middle = np.cumsum(weight[order]) - weight[order] / 2  # of each pair, so that none lies beyond the last
    place = (middle / weight.sum() * N_BINS).astype(np.int64)
    excess = np.bincount(place, (weight * (random - expit(log_odds)))[order])
    return float(np.abs(excess).sum() / weight.sum())


def weighted_auc(score: FloatArray, positive: BoolArray, weight: FloatArray, fold: IntArray) -> float:
    """Return P(a positive scores above a negative of its fold), weighted, ties half; NaN without pairs."""
    won = pairs = 0.0
    for number in distinct(fold):
        own = fold == number
        _, place = np.unique(score[own], return_inverse=True)
        up = np.bincount(place, (weight * positive)[own])
        down = np.bincount(place, (weight * ~positive)[own])
        won += float((up * (np.cumsum(down) - down / 2)).sum())
        pairs += float(up.sum() * down.sum())
    return won / pairs if pairs else float("nan")
