"""Click rates of items at places, shrunk and cross-fitted, and intervals of counts and differences."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaincinv, gammaln

from ipseval.data import ImpressionLog
from ipseval.utils.types import FloatArray, IntArray

STRENGTHS = 10.0 ** np.linspace(-1, 4, 51)  # in expected clicks
N_STEPS, TOLERANCE = 100, 1e-12
# 1/σ²: with σ = ½ rates in proportion to the shares, β = 1, are 2σ away from rates that ignore them.
SLOPE_PRECISION = 4.0


def cross_fitted(
    log: ImpressionLog, place: IntArray, n_places: int, fold: IntArray, n_folds: int, shrinkage: float | None
) -> FloatArray:
    """Return m̂ (n_folds, n_items, n_places) from the users of the other folds."""
    shape = (n_folds, log.n_items, n_places)
    cell = np.ravel_multi_index((fold, log.item, place), shape)
    size = int(np.prod(shape))
    shown = np.bincount(cell, minlength=size).reshape(shape).astype(np.float64)
    clicks = np.bincount(cell, log.clicked, minlength=size).reshape(shape).astype(np.float64)
    shown, clicks = shown.sum(axis=0) - shown, clicks.sum(axis=0) - clicks
    if shrinkage is None:
        return np.array([click_rates(*one) for one in zip(shown, clicks, strict=True)])
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.nan_to_num(clicks.sum(axis=1, keepdims=True) / shown.sum(axis=1, keepdims=True))
        weight = shown + shrinkage
        return np.asarray(np.where(weight > 0, (clicks + shrinkage * level) / weight, level))


def click_rates(shown: FloatArray, clicks: FloatArray) -> FloatArray:
    """Return the click rate of each item at each place, (n_items, n_places), from counts of that shape.

    level_p · g_i · h_ip with the place's rate and factors of the item over all places, then of the cell:
    empirical Bayes for counts that are Poisson with gamma-distributed factors. Those of items lie around
    m s_i^β, s_i the geometric mean of the item's shares of the places: a policy that learns shows more of
    what is clicked more, so that what it rarely shows, of which there are few counts, is clicked less.
    """
    level = clicks.sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
    rate = np.broadcast_to(level, shown.shape)
    preferred = np.log(shown + 0.5).mean(axis=1)  # of shares, but for a constant
    of_items = shrunk_factors(clicks.sum(axis=1), (shown * rate).sum(axis=1), preferred - preferred.mean())
    rate = rate * of_items[:, None]
    return np.asarray(rate * shrunk_factors(clicks, shown * rate, np.zeros_like(rate)))


def shrunk_factors(clicks: FloatArray, expected: FloatArray, covariate: FloatArray) -> FloatArray:
    """Return (clicks + a)/(expected + a/μ), the posterior means of factors around μ = m exp(β covariate).

    m solves Σ v (clicks − μ expected) = 0 with v = a/(a + μ expected): one factor counts as much as another
    where counts are large, so that what a policy shows often does not set the level of what it shows rarely.
    β solves Σ v (clicks − μ expected) covariate = β/σ², the mode where β is normal around 0 with σ = ½. Of
    the values of a on a grid, the one with the largest negative binomial likelihood × density of β is taken.
    """
    counted = expected > 0
    c, e, z = clicks[counted], expected[counted], covariate[counted]
    if not c.sum():
        return np.ones_like(expected)
    a = STRENGTHS[:, None]
    log_m, slope = np.full_like(a, np.log(c.sum() / e.sum())), np.zeros_like(a)
    for _ in range(N_STEPS):
        step, turn = _step(c, e * np.exp(log_m + slope * z), z, a, slope)
        log_m, slope = log_m + step, slope + turn
        if max(np.abs(step).max(), np.abs(turn).max()) < TOLERANCE:
            break
    mu = e * np.exp(log_m + slope * z)
    likelihood = gammaln(c + a) - gammaln(a) - a * np.log1p(mu / a) + c * np.log(mu / (a + mu))
    best = int((likelihood.sum(axis=1) - slope[:, 0] ** 2 * SLOPE_PRECISION / 2).argmax())
    middle = np.exp(log_m[best] + slope[best] * covariate)
    return np.asarray(middle * (clicks + STRENGTHS[best]) / (expected * middle + STRENGTHS[best]))


def _step(
    c: FloatArray, mu: FloatArray, z: FloatArray, a: FloatArray, slope: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a step of Newton's method for log m and β, for each a; neither moves by more than 1."""

    def total(values: FloatArray) -> FloatArray:
        return np.asarray(values.sum(axis=1, keepdims=True))

    v = a / (a + mu)
    rest, weight = v * (c - mu), v * mu * (a + c) / (a + mu)  # of a concave likelihood
    first, second = total(rest), total(rest * z) - slope * SLOPE_PRECISION
    cross, square = total(weight * z), total(weight * z**2) + SLOPE_PRECISION
    det = total(weight) * square - cross**2
    step, turn = (square * first - cross * second) / det, (total(weight) * second - cross * first) / det
    length = np.maximum(1, np.maximum(np.abs(step), np.abs(turn)))
    return step / length, turn / length


def count_interval(
    total: float, variance: float, more: float, more_square: float, *, confidence_level: float
) -> tuple[float, float]:
    """Return an interval for the mean of a sum of weights of rare events: quantiles of gamma distributions.

    With y the sum and v its variance: the lower limit is the (1−c)/2 quantile of a gamma distribution with
    mean y and variance v, the upper one the (1+c)/2 quantile of one to which a further event is added. With
    equal weights this is the exact Poisson interval; without events the lower limit is 0.

    Parameters
    ----------
    total, variance : float >= 0
        The observed sum and its variance: the squares of the weights for Poisson events, less for frequent
        ones.
    more, more_square : float >= 0
        Mean and mean square of the weight of one further event, which the upper limit counts in.

    References
    ----------
    Fay & Feuer, Confidence intervals for directly standardized rates, Statistics in Medicine 16, 1997; the
    further event as in Tiwari, Clegg & Zou, Efficient interval estimation for age-adjusted cancer rates,
    Statistical Methods in Medical Research 15, 2006, doi 10.1177/0962280206070621.

    Examples
    --------
    No event, and each would weigh 1: 0 to 3.69, the exact Poisson interval of 0.

    >>> low, high = count_interval(0.0, 0.0, 1.0, 1.0, confidence_level=0.95)
    >>> low, round(high, 2)
    (0.0, 3.69)
    """
    low = _gamma_quantile(total, variance, (1 - confidence_level) / 2)
    return low, _gamma_quantile(total + more, variance + more_square, (1 + confidence_level) / 2)


def _gamma_quantile(mean: float, variance: float, probability: float) -> float:
    if variance == 0 or mean == 0:
        return mean
    return float(variance / mean * gammaincinv(mean**2 / variance, probability))


def difference_interval(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float]:
    """Return an interval for θ₁ − θ₂ from (estimate, low, high) of each, independent: the MOVER method.

    Low = d − √((θ̂₁ − l₁)² + (u₂ − θ̂₂)²), high = d + √((u₁ − θ̂₁)² + (θ̂₂ − l₂)²), at the level of the two.

    References
    ----------
    Zou & Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27, 2008,
    doi 10.1002/sim.3095.

    Examples
    --------
    >>> difference_interval((5.0, 2.0, 9.0), (3.0, 0.0, 7.0))
    (-3.0, 7.0)
    """
    (one, one_low, one_high), (two, two_low, two_high) = first, second
    gap = one - two
    return (
        gap - math.hypot(one - one_low, two_high - two),
        gap + math.hypot(one_high - one, two - two_low),
    )
