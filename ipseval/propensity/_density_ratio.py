"""Density-ratio propensity: how much likelier a positive is under random exposure than in the log."""

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
from ipseval.propensity._slope_influence import compute_slope_influence
from ipseval.propensity.cross_fitted_odds import (
    BIASED,
    RANDOM,
    RIDGES,
    ROUNDING,
    UNIFORM,
    CrossFittedOdds,
    Features,
    PairFeatures,
    PairSample,
    RatioProblem,
    Slopes,
    assign_folds,
    compute_ridge_weights,
    compute_user_weights,
)
from ipseval.propensity.fit_error import FitError
from ipseval.utils.checks import as_generator, check_fraction, check_positive_int, warn_user
from ipseval.utils.ids import is_member, unique_keys
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray, RngLike, as_readonly

# Without held-out positives, this share of the training positives is set aside, this number of times.
SET_ASIDE_FRACTION = 0.2
N_SET_ASIDE = 5
MAX_UNIFORM = 50_000  # pairs
N_BINS = 10  # of the odds, for the calibration gap
# A fit warns below this share of the effective sample, or above this share of random positives not covered.
LOW_ESS_SHARE = 0.1
HIGH_UNCOVERED_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class _PropensityDerivative:
    """Derivative of ln P by the slopes of the odds."""

    odds: CrossFittedOdds

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the derivative of ln P of each pair, (n_pairs, n_features)."""
        return -self.odds.derivative(user, self.odds.features(user, item))


@public_class
@dataclass(frozen=True, eq=False)
class DensityRatioPropensity:
    """Estimate P_ui ∝ 1/odds that a positive comes from random exposure rather than from the log.

    The odds estimate p_random(i | u)/p_log(i | u): the weight that turns the log's positives into a random
    sample of the relevant ones. It corrects for popularity and personal selection together. Every user has
    the same total weight in each sample. P is known up to a constant factor, for every pair.

    Parameters
    ----------
    exposure : RandomExposure
        Random-exposure sample in the id space of the training log; `validate` passes its own.
    biased : Interactions, optional
        Held-out positives of the log that are weighted: `split.test`, which fits best. Default: a random
        fifth of each user's training positives, with features from the rest, five times.
    features : callable, optional
        (train, user codes (n,), item codes (n,)) -> (n, n_features), from training data only. Default:
        `profile_features`: popularity, its square, similarity to the user's profile, and so on.
    cross_fit : int, default 20
        Number of folds of users, >= 2.
    n_assignments : int, default 1
        How often users are assigned to folds, >= 1.
    limit : float or None, default 0.99
        Odds are not extrapolated beyond this quantile, in (0, 1], of the odds of the log's positives. The fit
        counts the positives that this concerns. None: no limit.
    n_uniform : int, default 20
        Uniform pairs per user, at random from those without a training interaction.
    rng : int, Generator or None, default None
        Assigns users to folds, and draws pairs.

    See Also
    --------
    profile_features : The default features.
    DensityRatioFit : The diagnostics of the fit.

    Notes
    -----
    Two logistic regressions on standardised features of pairs give the odds. The first separates the log's
    positives from uniform pairs, with slopes o. The second separates random positives from the log's, with
    slopes −α·o + δ. α has a normal prior, N(0.4, 0.3²), and δ a ridge penalty. Slopes are averaged over seven
    penalties, weighted by how well they predict users that were left out. So a few users with random exposure
    fit one number, and many fit every slope.

    Users are assigned to `cross_fit` folds, `n_assignments` times. The weights of a user come from models of
    the other folds, whose odds have mean 1 over the log's positives; the median over the assignments is
    taken. Many folds make the weights steady, because each model lacks few users. Only the weights of the
    seven penalties, which leave users out one by one, and that mean read all users.

    The field `error` of the propensity holds the error of both regressions, so that the errors of an
    evaluation account for the error of the weights, by the delta method. Features, penalties and their
    weights are taken as fixed, and so is the form of the odds: intervals do not account for selection that
    the features do not express.

    Examples
    --------
    Weights of the held-out positives of a simulated log, from 300 users to whom items were shown at random:

    >>> from ipseval import RandomExposure, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> exposure = RandomExposure.from_ratings(world.expose(rng=2), threshold=4)
    >>> propensity = DensityRatioPropensity(exposure, biased=split.test, rng=3).fit(split.train)
    >>> propensity
    Propensity(density ratio, cross-fitted; a function; relative)
    >>> propensity.for_pairs(split.test.user[:3], split.test.item[:3]).round(2)
    array([1.62, 0.62, 0.85])
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
        """Return the relative propensity of every pair. Pairs that repeat in `train` count once.

        Parameters
        ----------
        train : Interactions
            Training log.

        Returns
        -------
        Propensity
            A function of pairs. Its field `fit` is a `DensityRatioFit`.

        Raises
        ------
        InputError
            When the id spaces differ, or there is no random positive or no positive of the log.

        Warns
        -----
        PositivityWarning
            When few positives have most of the weight, or the log does not cover random positives.
        """
        if self.exposure is None:
            raise InputError(
                "DensityRatioPropensity needs random exposure: "
                "exposure=RandomExposure.from_frame(frame, split)."
            )
        check_same_ids(self.exposure, train)
        train = train.distinct
        exposure = self.exposure.exclude(train)
        rng = as_generator(self.rng)
        problem = self._build_problem(train, exposure, rng)
        odds, slopes = problem.solve()
        fit = _describe_fit(problem, odds, slopes, self._name_features(problem.x), exposure.n_dropped)
        if fit.ess_share < LOW_ESS_SHARE or fit.uncovered_share > HIGH_UNCOVERED_SHARE:
            warn_user(
                f"the log covers the random positives poorly: the weights leave {fit.ess_share:.0%} of the "
                f"effective sample, and {fit.uncovered_share:.0%} of the random positives have odds beyond 99% of "
                "the log's. Clip the propensity, or use fewer features.",
                PositivityWarning,
            )
        error = FitError.from_influence(compute_slope_influence(problem), _PropensityDerivative(odds))
        return fit.propensity(odds, error)

    def _build_problem(
        self, train: Interactions, exposure: RandomExposure, rng: np.random.Generator
    ) -> RatioProblem:
        """Return the samples, their features and the folds of the users."""
        # Looked up here and not as a default: the public function is wrapped at import, and a pickle refers
        # to the wrapped one.
        compute_features = self.features or _pair_features.profile_features
        samples = []
        sample_features = []
        for log, biased in self._split_log(train, rng):
            sample = self._draw_sample(log, biased, exposure, rng)
            features = PairFeatures.from_sample(log, compute_features, sample)
            samples.append(sample)
            sample_features.append(features(sample.user, sample.item))

        all_pairs = PairSample.concatenate(samples)
        x = np.concatenate(sample_features)
        return RatioProblem(
            features=PairFeatures.from_sample(train, compute_features, samples[0]),
            sample=all_pairs,
            x=x,
            fold=assign_folds(all_pairs, train.n_users, self.cross_fit, self.n_assignments, rng),
            ridge_weights=compute_ridge_weights(x, all_pairs),
            limit=self.limit,
        )

    def _name_features(self, x: FloatArray) -> tuple[str, ...]:
        """Return the names of the default features, or x1, x2, … for custom ones."""
        if self.features is None:
            return _pair_features.FEATURE_NAMES
        return tuple(f"x{number}" for number in range(1, x.shape[1] + 1))

    def _split_log(
        self, train: Interactions, rng: np.random.Generator
    ) -> list[tuple[Interactions, Interactions]]:
        """Return pairs of a log for the features and the positives that represent the log."""
        if self.biased is None:
            splits = []
            for _ in range(N_SET_ASIDE):
                split = split_random(train, test_fraction=SET_ASIDE_FRACTION, rng=rng)
                splits.append((split.train, split.test))
            return splits
        has_same_users = np.array_equal(self.biased.user_ids, train.user_ids)
        has_same_items = np.array_equal(self.biased.item_ids, train.item_ids)
        if not (has_same_users and has_same_items):
            raise InputError("biased is in another id space than the training log; pass split.test as it is.")
        return [(train, self.biased)]

    def _draw_sample(
        self, train: Interactions, biased: Interactions, exposure: RandomExposure, rng: np.random.Generator
    ) -> PairSample:
        """Return the positives of the log, random positives, and uniform pairs of the users of the log."""
        random = exposure.select(exposure.positive)
        if len(biased) == 0 or len(random) == 0:
            raise InputError(
                f"there are {len(random)} random-exposure positives outside the training log and "
                f"{len(biased)} held-out positives to learn from; both are needed."
            )
        users = unique_keys(biased.user)
        n_uniform = self.n_uniform
        if self.biased is None:
            n_uniform = int(np.ceil(self.n_uniform / N_SET_ASIDE))  # the draws of all splits together
        n_uniform = max(1, min(n_uniform, MAX_UNIFORM // users.size))
        uniform_user = np.repeat(users, n_uniform)
        uniform_item = rng.integers(train.n_items, size=uniform_user.size)
        is_new = ~is_member(uniform_user * np.int64(train.n_items) + uniform_item, train.pair_key)
        sizes = (len(biased), len(random), int(is_new.sum()))
        return PairSample(
            user=np.concatenate([biased.user, random.user, uniform_user[is_new]]),
            item=np.concatenate([biased.item, random.item, uniform_item[is_new]]),
            kind=np.repeat((BIASED, RANDOM, UNIFORM), sizes),
        )


@public_class
@dataclass(frozen=True, eq=False)
class DensityRatioFit:
    """Estimates and diagnostics of a density ratio, out of fold.

    Parameters
    ----------
    strength : float
        α: the share of the odds (log : uniform) that is attributed to selection; mean over the models.
    ridge : float
        Penalty of the deviation of each slope from the tempered direction; geometric mean.
    slope : (n_features,) float array
        Slopes of the log odds, on standardised features; mean over the models.
    feature_names : tuple of str
        Names of the features, in the order of `slope`.
    n_random, n_biased : int
        Positives of the two samples.
    n_users, n_random_users : int
        Users with positives of the log, and with random positives.
    n_dropped : int
        Random-exposure pairs left out because they are pairs of the training log.
    n_limited : int
        Positives of the log whose odds were set to the limit.
    calibration_gap : float
        Mean |observed − predicted| share of random positives, over tenths of the odds; predictions by models
        that were not fitted to the user.
    auc : float
        Area under the ROC curve that separates the two samples, 0.5 … 1; near 1 there is little overlap. It
        is over pairs of positives of one fold, which one model weighs: a model that lacks a positive is
        biased against it.
    ess_share : float
        Kish effective sample size of the weights over the log's positives, as a share of it without weights.
    uncovered_share : float
        Share of the random positives whose odds exceed those of 99% of the log's positives.
    problem : RatioProblem
        The data of the fit; `refit` fits it to resampled users.

    See Also
    --------
    DensityRatioPropensity : The model.

    Examples
    --------
    The field `fit` of a fitted propensity describes the fit:

    >>> from ipseval import RandomExposure, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> exposure = RandomExposure.from_ratings(world.expose(rng=2), threshold=4)
    >>> model = DensityRatioPropensity(exposure, biased=split.test, rng=3)
    >>> fit = model.fit(split.train).fit
    >>> fit.n_random, fit.n_biased, fit.n_limited
    (532, 362, 3)
    >>> round(fit.strength, 2), round(fit.auc, 3), round(fit.ess_share, 2)
    (0.43, 0.657, 0.73)
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
    uncovered_share: float
    problem: RatioProblem

    def __repr__(self) -> str:
        lines = [
            f"DensityRatioFit: {self.n_random:,} random positives of {self.n_random_users:,} users, "
            f"{self.n_biased:,} of the log of {self.n_users:,}",
            f"  strength {self.strength:.2f}, ridge {self.ridge:.3g}; out of fold: AUC {self.auc:.3f}, "
            f"calibration gap {self.calibration_gap:.3f}, effective share of the weights "
            f"{self.ess_share:.0%}, not covered {self.uncovered_share:.1%}",
        ]
        if self.n_limited:
            lines.append(f"  {self.n_limited:,} positives of the log held at the limit of the odds")
        if self.n_dropped:
            lines.append(f"  {self.n_dropped:,} exposures left out: also in the log")
        return "\n".join(lines)

    def propensity(self, odds: CrossFittedOdds, error: FitError | None = None) -> Propensity:
        """Return P ∝ 1/odds.

        Parameters
        ----------
        odds : CrossFittedOdds
            The cross-fitted odds.
        error : FitError, optional
            Error of the fit.

        Returns
        -------
        Propensity
            A function of pairs, known up to a constant factor.
        """
        train = self.problem.features.train
        return Propensity(
            item=None,
            is_probability=False,
            model="density ratio, cross-fitted",
            n_items=train.n_items,
            function=odds,
            fit=self,
            item_ids=train.item_ids,
            user_ids=train.user_ids,
            error=error,
            basis="exposure",
        )

    def refit(self, counts: IntArray) -> Propensity:
        """Fit the propensity to a resample of the users.

        For `evaluation.with_intervals(refit=propensity.fit.refit)`, whose intervals then account for the
        error of the weights. Training log, features, folds and ridge stay.

        Parameters
        ----------
        counts : (n_users,) int array
            How often user u occurs in the resample.

        Returns
        -------
        Propensity
            The propensity of the resample, without an error.
        """
        odds, _ = self.problem.solve(np.asarray(counts, dtype=np.float64))
        return self.propensity(odds)


def _describe_fit(
    problem: RatioProblem,
    odds: CrossFittedOdds,
    slopes: list[Slopes],
    feature_names: tuple[str, ...],
    n_dropped: int,
) -> DensityRatioFit:
    """Return the fit with its calibration and overlap, from the weights that the propensity uses."""
    sample = problem.sample
    is_positive = sample.kind != UNIFORM
    user = sample.user[is_positive]
    kind = sample.kind[is_positive]
    pair_key = user * np.int64(problem.features.train.n_items) + sample.item[is_positive]
    log_odds, is_limited = odds.log_odds(user, problem.x[is_positive])

    is_random = kind == RANDOM
    is_biased = kind == BIASED
    weight = compute_user_weights(user, kind)
    for rows in (is_random, is_biased):
        weight[rows] /= weight[rows].sum()  # both samples count alike

    corrected_weight = weight[is_biased] * np.exp(log_odds[is_biased])
    corrected_ess = corrected_weight.sum() ** 2 / (corrected_weight**2).sum()
    is_uncovered = log_odds[is_random] > np.quantile(log_odds[is_biased], 0.99) + ROUNDING
    return DensityRatioFit(
        strength=float(np.mean([model.strength for model in slopes])),
        ridge=float(np.exp(problem.ridge_weights @ np.log(RIDGES))),
        slope=as_readonly(np.mean([model.slope for model in slopes], axis=0)),
        feature_names=feature_names,
        # Distinct pairs, because several splits may set the same pair aside.
        n_random=unique_keys(pair_key[is_random]).size,
        n_biased=unique_keys(pair_key[is_biased]).size,
        n_users=sample.select_users(BIASED).size,
        n_random_users=sample.select_users(RANDOM).size,
        n_dropped=n_dropped,
        n_limited=unique_keys(pair_key[is_biased & is_limited]).size,
        calibration_gap=_compute_calibration_gap(log_odds, is_random, weight),
        auc=compute_weighted_auc(log_odds, is_random, weight, problem.fold[0, user]),
        ess_share=float(corrected_ess * (weight[is_biased] ** 2).sum()),
        uncovered_share=float(weight[is_random] @ is_uncovered),
        problem=problem,
    )


def _compute_calibration_gap(log_odds: FloatArray, is_random: BoolArray, weight: FloatArray) -> float:
    """Return the mean |observed − predicted| share of random positives over bins of equal weight."""
    order = np.argsort(log_odds, kind="stable")
    midpoints = np.cumsum(weight[order]) - weight[order] / 2  # so that no pair is beyond the last bin
    bins = (midpoints / weight.sum() * N_BINS).astype(np.int64)
    residuals = weight * (is_random - expit(log_odds))
    bin_excess = np.bincount(bins, residuals[order])
    return float(np.abs(bin_excess).sum() / weight.sum())


def compute_weighted_auc(
    score: FloatArray, is_positive: BoolArray, weight: FloatArray, fold: IntArray
) -> float:
    """Return P(a positive scores above a negative of its fold), weighted, ties half; NaN without pairs."""
    pair_wins = 0.0
    n_pairs = 0.0
    for number in unique_keys(fold):
        rows = fold == number
        # Pairs with the same features are tied, whatever the rounding of their scores.
        levels = np.unique(np.round(score[rows], 9), return_inverse=True)[1]
        positive_weight = np.bincount(levels, (weight * is_positive)[rows])
        negative_weight = np.bincount(levels, (weight * ~is_positive)[rows])
        weight_below = np.cumsum(negative_weight) - negative_weight / 2
        pair_wins += float((positive_weight * weight_below).sum())
        n_pairs += float(positive_weight.sum() * negative_weight.sum())
    if n_pairs == 0:
        return float("nan")
    return pair_wins / n_pairs
