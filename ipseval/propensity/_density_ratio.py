"""User × item weights: how much likelier a positive is under random exposure than in the log."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ipseval._checks import check_choice, check_fraction, check_positive_int
from ipseval._types import BoolArray, FloatArray, IntArray, RngLike, readonly
from ipseval.errors import DataWarning, InputError, PositivityWarning
from ipseval.interactions import Interactions
from ipseval.propensity._base import Propensity
from ipseval.propensity._exposure import Exposure
from ipseval.propensity._logistic import LogisticFit, fit_logistic
from ipseval.propensity._pair_features import FEATURE_NAMES, profile_features
from ipseval.splits import Split

Features = Callable[[Interactions, IntArray, IntArray], FloatArray]
N_BINS = 10
LOW_ESS = 0.1
UNCOVERED = 0.1


@dataclass(frozen=True, eq=False)
class DensityRatioFit:
    """What a density ratio was fitted to, and how well it fits users it has not seen.

    Attributes
    ----------
    results : tuple of statsmodels results
        One logistic regression per fold, on standardised features, and last the one on all folds.
    feature_names : tuple of str
        Names of the slopes.
    n_random, n_biased, n_users : int
        Positives of the two samples, and users they come from.
    n_dropped : int
        Random-exposure pairs left out because they are training or held-out pairs of the log.
    n_limited : int
        Pairs of `split.test` whose odds were held at the limit.
    predicted, observed, share : (n_bins,) float arrays
        Calibration: in bins of the predicted probability that a positive is of the random sample, its mean,
        the observed share, and the weight of the bin; predictions by models that have not seen the user.
    auc : float
        How well the two samples can be told apart, 0.5 … 1; near 1 there is little overlap.
    ess_share : float
        Kish effective sample size of the weights over the biased positives, as a share of it without weights.
    uncovered : float
        Share of the random positives whose odds exceed those of 99 % of the biased positives.
    penalty : float
        Ridge penalty; above 0 only where the two samples are separable.
    """

    results: tuple[Any, ...]
    feature_names: tuple[str, ...]
    n_random: int
    n_biased: int
    n_users: int
    n_dropped: int
    n_limited: int
    predicted: FloatArray
    observed: FloatArray
    share: FloatArray
    auc: float
    ess_share: float
    uncovered: float
    penalty: float

    def __repr__(self) -> str:
        gap = float(np.nansum(self.share * np.abs(self.predicted - self.observed)))
        return (
            f"DensityRatioFit: {self.n_random:,} random against {self.n_biased:,} biased positives of "
            f"{self.n_users:,} users\n"
            f"  out of fold: AUC {self.auc:.3f}, calibration gap {gap:.3f}, effective share of the weights "
            f"{self.ess_share:.0%}, not covered {self.uncovered:.1%}"
            + (
                f"\n  {self.n_limited:,} held-out pairs held at the limit of the odds"
                if self.n_limited
                else ""
            )
            + (f"\n  {self.n_dropped:,} exposures left out: also in the log" if self.n_dropped else "")
            + (f"\n  ridge penalty {self.penalty:g}: the samples are separable" if self.penalty else "")
        )


@dataclass(frozen=True, eq=False)
class DensityRatioPropensity:
    """P_ui ∝ 1/odds that a positive comes from random exposure rather than from the log.

    A logistic regression tells random-exposure positives (1) from held-out positives of the log (0), every
    user having the same weight on either side. Its odds estimate p_random(i | u)/p_log(i | u): the weight
    that turns the log's positives into a random sample of the relevant ones, popularity and personal
    selection together. It is known up to a factor, and covers the pairs of `split.test`.

    Users whose data fit a model are not weighted by it: users with exposure are split into `cross_fit`
    folds, each weighted by the model of the other folds; users without exposure by the model of all of them.

    Parameters
    ----------
    features : callable, optional
        (train, user codes (n,), item codes (n,)) -> (n, n_features), from training data only. Default:
        `profile_features`: popularity, its square, similarity to the user's profile, and so on.
    cross_fit : int
        Number of folds of users, >= 2.
    biased_users : {"exposed", "all"}
        Whose held-out positives stand for the log: those of users with exposure, or of all users; then
        all users are in folds. "all" helps where the users with exposure are few and drawn at random.
    limit : float or None
        Odds are not extrapolated beyond this quantile, in (0, 1], of the odds of the random positives that
        the model was fitted to; how many pairs that concerns is in the fit. None: no limit.
    rng : int, Generator or None
        Assigns users to folds.
    """

    features: Features | None = None
    cross_fit: int = 2
    biased_users: Literal["exposed", "all"] = "exposed"
    limit: float | None = 0.99
    rng: RngLike = 0

    def __post_init__(self) -> None:
        check_positive_int("cross_fit", self.cross_fit, minimum=2)
        check_choice("biased_users", self.biased_users, ("exposed", "all"))
        _check_limit(self.limit)
        if self.features is not None and not callable(self.features):
            raise InputError("features must be a callable (train, user, item) -> (n, n_features) array.")

    def fit(self, split: Split, exposure: Exposure) -> Propensity:
        """Return the propensity of every pair of `split.test`, up to a factor.

        Raises
        ------
        InputError
            When the id spaces differ, or a fold has no random or no biased positive to learn from.

        Warns
        -----
        PositivityWarning
            Weights carried by few positives, or random positives that the log does not cover.
        DataWarning
            The samples are separable, so that a ridge penalty was needed.
        """
        if (exposure.n_users, exposure.n_items) != (split.n_users, split.n_items):
            raise InputError(
                f"the exposure has {exposure.n_users} users and {exposure.n_items} items, the split "
                f"{split.n_users} and {split.n_items}; build it with Exposure.from_frame(frame, split)."
            )
        clean = exposure.without(split.train)
        if split.validation is not None:
            clean = clean.without(split.validation)
        random = clean.select(clean.positive)
        in_sample = np.ones(split.n_users, dtype=bool)
        if self.biased_users == "exposed":
            in_sample = np.zeros(split.n_users, dtype=bool)
            in_sample[exposure.user] = True
        chosen = in_sample[split.test.user]
        sample = _Sample(
            user=np.concatenate([random.user, split.test.user[chosen]]),
            item=np.concatenate([random.item, split.test.item[chosen]]),
            is_random=np.arange(len(random) + int(chosen.sum())) < len(random),
        )
        return fit_ratio(
            split,
            sample,
            in_sample,
            self.features,
            self.cross_fit,
            self.rng,
            limit=self.limit,
            n_dropped=clean.n_dropped,
        )


@dataclass(frozen=True, eq=False)
class TemperedDensityRatioPropensity:
    """EXPERIMENTAL: P_ui ∝ odds^(−power) of uniformly drawn items against held-out positives.

    Without random exposure the odds tell what people are shown *and like* from all items. The power, between
    0 (AOA) and 1, stands for the share of that difference that is selection. Nothing in a log identifies it:
    .5 to .6 came out best on two data sets where the truth is known. Use it to see how far results depend on
    personal selection, not to report a number.

    Parameters
    ----------
    power : float
        In (0, 1].
    n_uniform : int
        Items drawn per user, at random from those it has no training interaction with.
    features, cross_fit, limit, rng
        As in `DensityRatioPropensity`.
    """

    power: float = 0.55
    n_uniform: int = 20
    features: Features | None = None
    cross_fit: int = 2
    limit: float | None = 0.99
    rng: RngLike = 0

    def __post_init__(self) -> None:
        check_fraction("power", self.power, high_open=False)
        _check_limit(self.limit)
        check_positive_int("n_uniform", self.n_uniform)
        check_positive_int("cross_fit", self.cross_fit, minimum=2)

    def fit(self, split: Split) -> Propensity:
        """Return the propensity of every pair of `split.test`, up to a factor."""
        generator = np.random.default_rng(self.rng)
        users = np.unique(split.test.user)
        user = np.repeat(users, self.n_uniform)
        item = generator.integers(split.n_items, size=user.size)
        keep = ~np.isin(user * np.int64(split.n_items) + item, split.train.pair_key)
        user, item = user[keep], item[keep]
        sample = _Sample(
            user=np.concatenate([user, split.test.user]),
            item=np.concatenate([item, split.test.item]),
            is_random=np.arange(user.size + len(split.test)) < user.size,
        )
        everyone = np.ones(split.n_users, dtype=bool)
        return fit_ratio(
            split,
            sample,
            everyone,
            self.features,
            self.cross_fit,
            generator,
            limit=self.limit,
            power=self.power,
        )


@dataclass(frozen=True, eq=False)
class _Sample:
    """Positives of both kinds: user and item codes, and whether they are of the random sample."""

    user: IntArray
    item: IntArray
    is_random: BoolArray

    def weights(self) -> FloatArray:
        """Return weights that give every user one share per kind, and both kinds the same total."""
        weight = np.empty(self.user.size)
        for kind in (self.is_random, ~self.is_random):
            per_user = np.bincount(self.user[kind])
            weight[kind] = 1 / per_user[self.user[kind]]
            weight[kind] *= self.user.size / 2 / weight[kind].sum()
        return weight


def fit_ratio(
    split: Split,
    sample: _Sample,
    in_sample: BoolArray,
    features: Features | None,
    n_folds: int,
    rng: RngLike,
    *,
    limit: float | None,
    n_dropped: int = 0,
    power: float = 1.0,
) -> Propensity:
    """Return the cross-fitted pair propensity of `split.test`."""
    fold = np.full(split.n_users, -1, dtype=np.int64)
    members = np.random.default_rng(rng).permutation(np.flatnonzero(in_sample))
    fold[members] = np.arange(members.size) % n_folds
    test = split.test
    make = features or profile_features
    x = _check_features(make(split.train, sample.user, sample.item), sample.user.size)
    x_test = _check_features(make(split.train, test.user, test.item), len(test))
    names = FEATURE_NAMES if features is None else tuple(f"x{j + 1}" for j in range(x.shape[1]))
    models: list[LogisticFit] = []
    for number in range(n_folds + 1):  # the last one reads every fold and serves the other users
        rows = fold[sample.user] != number
        part = _Sample(sample.user[rows], sample.item[rows], sample.is_random[rows])
        _check_part(part, n_folds)
        models.append(fit_logistic(x[rows], part.is_random, part.weights(), part.user, names, limit))
    log_odds = _predict(models, fold[sample.user], x)
    log_odds_test = _predict(models, fold[test.user], x_test)
    n_limited = int(np.isin(log_odds_test, [model.limit for model in models]).sum())
    fit = _describe(models, sample, log_odds, names, n_dropped, n_limited)
    _warn(fit)
    order = np.argsort(test.pair_key)
    label = (
        "density ratio, cross-fitted"
        if power == 1
        else f"tempered density ratio (power {power:g}), experimental"
    )
    return Propensity(
        None,
        False,
        label,
        split.n_items,
        pair=np.exp(-power * log_odds_test[order]),
        pair_key=test.pair_key[order],
        fit=fit,
    )


def _check_limit(limit: float | None) -> None:
    if limit is not None:
        check_fraction("limit", limit, high_open=False)


def _check_features(x: Any, n_rows: int) -> FloatArray:
    array = np.asarray(x, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != n_rows:
        raise InputError(
            f"features gave shape {array.shape} for {n_rows} pairs; expected ({n_rows}, n_features)."
        )
    n_bad = int((~np.isfinite(array)).sum())
    if n_bad:
        raise InputError(f"features must be finite; {n_bad} of {array.size} values are NaN or infinite.")
    return array


def _check_part(part: _Sample, n_folds: int) -> None:
    n_random = int(part.is_random.sum())
    n_biased = part.is_random.size - n_random
    if min(n_random, n_biased) == 0:
        raise InputError(
            f"a fold leaves {n_random} random-exposure positives and {n_biased} held-out positives to learn "
            f"from; both are needed. Use fewer folds than {n_folds}, or more users with exposure."
        )


def _predict(models: list[LogisticFit], fold: IntArray, x: FloatArray) -> FloatArray:
    """Return log odds, each row by the model that has not seen its user; fold −1 uses the last model."""
    out = np.empty(x.shape[0])
    for number in np.unique(fold):
        rows = fold == number
        out[rows] = models[number].log_odds(x[rows])
    return out


def _describe(
    models: list[LogisticFit],
    sample: _Sample,
    log_odds: FloatArray,
    names: tuple[str, ...],
    n_dropped: int,
    n_limited: int,
) -> DensityRatioFit:
    weight = sample.weights()
    probability = 1 / (1 + np.exp(-log_odds))
    order = np.argsort(log_odds, kind="stable")
    cumulative = np.cumsum(weight[order]) / weight.sum()
    place = np.minimum((cumulative * N_BINS).astype(np.int64), N_BINS - 1)
    mass = np.bincount(place, weight[order], N_BINS)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(place, (weight * probability)[order], N_BINS) / mass
        observed = np.bincount(place, (weight * sample.is_random)[order], N_BINS) / mass
    biased = ~sample.is_random
    effective = weight[biased] * np.exp(log_odds[biased])
    flat = weight[biased].sum() ** 2 / (weight[biased] ** 2).sum()
    limit = np.quantile(log_odds[biased], 0.99)
    beyond = log_odds[sample.is_random] > limit
    return DensityRatioFit(
        results=tuple(model.result for model in models),
        feature_names=names,
        n_random=int(sample.is_random.sum()),
        n_biased=int(biased.sum()),
        n_users=int(np.unique(sample.user).size),
        n_dropped=n_dropped,
        n_limited=n_limited,
        predicted=readonly(predicted),
        observed=readonly(observed),
        share=readonly(mass / mass.sum()),
        auc=weighted_auc(log_odds, sample.is_random, weight),
        ess_share=float(effective.sum() ** 2 / (effective**2).sum() / flat),
        uncovered=float((weight[sample.is_random] * beyond).sum() / weight[sample.is_random].sum()),
        penalty=max(model.penalty for model in models),
    )


def weighted_auc(score: FloatArray, positive: BoolArray, weight: FloatArray) -> float:
    """Return the probability that a positive scores above a negative, ties counting half."""
    _, place = np.unique(score, return_inverse=True)
    up = np.bincount(place, weight * positive)
    down = np.bincount(place, weight * ~positive)
    below = np.cumsum(down) - down
    return float((up * (below + down / 2)).sum() / (up.sum() * down.sum()))


def _warn(fit: DensityRatioFit) -> None:
    if fit.penalty:
        warnings.warn(
            "the features separate random from biased positives: a ridge penalty keeps the odds finite.",
            DataWarning,
            stacklevel=4,
        )
    if fit.ess_share < LOW_ESS or fit.uncovered > UNCOVERED:
        warnings.warn(
            f"the log covers the random positives poorly: the weights leave {fit.ess_share:.0%} of the "
            f"effective sample, and {fit.uncovered:.0%} of the random positives have odds beyond 99 % of the "
            "biased ones. Clip the propensity, or use fewer features.",
            PositivityWarning,
            stacklevel=4,
        )
