"""The odds that tell two samples of positives apart, cross-fitted over users, and how well they fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ipseval._checks import as_generator, check_fraction
from ipseval._types import BoolArray, FloatArray, IntArray, RngLike, readonly
from ipseval.errors import DataWarning, InputError, PositivityWarning
from ipseval.interactions import Interactions
from ipseval.propensity._base import Propensity
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
    random_key, random_propensity : (n_random,) arrays
        Pairs of the random sample, user · n_items + item, ascending, and their propensity on the scale of
        the held-out pairs', by models that have not seen the user: there one can see what the weights leave.
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
    random_key: IntArray
    random_propensity: FloatArray

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
class Sample:
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
    sample: Sample,
    in_sample: BoolArray,
    features: Features | None,
    n_folds: int,
    rng: RngLike,
    *,
    limit: float | None,
    n_dropped: int = 0,
    power: float = 1.0,
) -> Propensity:
    """Return the cross-fitted pair propensity of `split.test`: odds^(−power).

    `in_sample` (n_users,) marks the users that are split into folds; the others have no part in any fit.
    """
    fold = np.full(split.n_users, -1, dtype=np.int64)
    members = as_generator(rng).permutation(np.flatnonzero(in_sample))
    fold[members] = np.arange(members.size) % n_folds
    test = split.test
    make = features or profile_features
    x = _check_features(make(split.train, sample.user, sample.item), sample.user.size)
    x_test = _check_features(make(split.train, test.user, test.item), len(test))
    names = FEATURE_NAMES if features is None else tuple(f"x{j + 1}" for j in range(x.shape[1]))
    models: list[LogisticFit] = []
    for number in range(n_folds + 1):  # the last one reads every fold and serves the other users
        rows = fold[sample.user] != number
        part = Sample(sample.user[rows], sample.item[rows], sample.is_random[rows])
        _check_part(part, n_folds)
        models.append(fit_logistic(x[rows], part.is_random, part.weights(), part.user, names, limit))
    log_odds = _predict(models, fold[sample.user], x)
    log_odds_test = _predict(models, fold[test.user], x_test)
    n_limited = int(np.isin(log_odds_test, [model.limit for model in models]).sum())
    fit = _describe(models, sample, log_odds, names, n_dropped, n_limited, power, split.n_items)
    _warn(fit, any_item=power < 1)
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
        item_ids=split.item_ids,
        user_ids=split.user_ids,
    )


def check_limit(limit: float | None) -> None:
    """Raise `InputError` unless the limit is None or a quantile in (0, 1]."""
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


def _check_part(part: Sample, n_folds: int) -> None:
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
    sample: Sample,
    log_odds: FloatArray,
    names: tuple[str, ...],
    n_dropped: int,
    n_limited: int,
    power: float,
    n_items: int,
) -> DensityRatioFit:
    weight = sample.weights()
    probability = expit(log_odds)
    order = np.argsort(log_odds, kind="stable")
    cumulative = np.cumsum(weight[order]) / weight.sum()
    place = np.minimum((cumulative * N_BINS).astype(np.int64), N_BINS - 1)
    mass = np.bincount(place, weight[order], N_BINS)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(place, (weight * probability)[order], N_BINS) / mass
        observed = np.bincount(place, (weight * sample.is_random)[order], N_BINS) / mass
    biased = ~sample.is_random
    effective = weight[biased] * np.exp(power * log_odds[biased])
    flat = weight[biased].sum() ** 2 / (weight[biased] ** 2).sum()
    limit = np.quantile(log_odds[biased], 0.99)
    beyond = log_odds[sample.is_random] > limit
    random_key = (sample.user * np.int64(n_items) + sample.item)[sample.is_random]
    random_order = np.argsort(random_key)
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
        random_key=readonly(random_key[random_order]),
        random_propensity=readonly(np.exp(-power * log_odds[sample.is_random][random_order])),
    )


def weighted_auc(score: FloatArray, positive: BoolArray, weight: FloatArray) -> float:
    """Return the probability that a positive scores above a negative, ties counting half."""
    _, place = np.unique(score, return_inverse=True)
    up = np.bincount(place, weight * positive)
    down = np.bincount(place, weight * ~positive)
    below = np.cumsum(down) - down
    return float((up * (below + down / 2)).sum() / (up.sum() * down.sum()))


def _warn(fit: DensityRatioFit, *, any_item: bool) -> None:
    """Warn of separable samples and poor overlap; the latter is no fault where one sample is any item."""
    if fit.penalty:
        warnings.warn(
            "the features separate random from biased positives: a ridge penalty keeps the odds finite.",
            DataWarning,
            stacklevel=4,
        )
    if fit.ess_share < LOW_ESS or (fit.uncovered > UNCOVERED and not any_item):
        warnings.warn(
            f"the log covers the random positives poorly: the weights leave {fit.ess_share:.0%} of the "
            f"effective sample, and {fit.uncovered:.0%} of the random positives have odds beyond 99 % of the "
            "biased ones. Clip the propensity, or use fewer features.",
            PositivityWarning,
            stacklevel=4,
        )
