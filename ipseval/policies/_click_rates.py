"""Click rates of items at positions, shrunk and cross-fitted, and intervals of counts and differences."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaincinv, gammaln

from ipseval.data import ImpressionLog
from ipseval.utils.types import FloatArray, IntArray

STRENGTHS = 10.0 ** np.linspace(-1, 4, 51)  # of the shrinkage, in expected clicks
N_STEPS = 100
TOLERANCE = 1e-12
# 1/σ²: with σ = 1/2, rates in proportion to the shares, β = 1, are 2σ away from rates that ignore them.
SLOPE_PRECISION = 4.0


def cross_fit_click_rates(
    log: ImpressionLog,
    position_code: IntArray,
    n_positions: int,
    fold: IntArray,
    n_folds: int,
    shrinkage: float | None,
) -> FloatArray:
    """Return m̂ (n_folds, n_items, n_positions) of each fold from the users of the remaining folds."""
    shape = (n_folds, log.n_items, n_positions)
    n_cells = int(np.prod(shape))
    cell = np.ravel_multi_index((fold, log.item, position_code), shape)
    fold_impressions = np.bincount(cell, minlength=n_cells).reshape(shape).astype(np.float64)
    fold_clicks = np.bincount(cell, log.clicked, minlength=n_cells).reshape(shape).astype(np.float64)
    impressions = fold_impressions.sum(axis=0) - fold_impressions
    clicks = fold_clicks.sum(axis=0) - fold_clicks
    if shrinkage is None:
        fold_rates = []
        for k in range(n_folds):
            fold_rates.append(estimate_click_rates(impressions[k], clicks[k]))

        return np.array(fold_rates)
    with np.errstate(invalid="ignore", divide="ignore"):
        position_impressions = impressions.sum(axis=1, keepdims=True)
        position_rate = np.nan_to_num(clicks.sum(axis=1, keepdims=True) / position_impressions)
        weight = impressions + shrinkage
        shrunk_rate = (clicks + shrinkage * position_rate) / weight
        return np.asarray(np.where(weight > 0, shrunk_rate, position_rate))


def estimate_click_rates(impressions: FloatArray, clicks: FloatArray) -> FloatArray:
    """Return the click rate of each item at each position, (n_items, n_positions), from counts.

    The rate is rate_p · g_i · h_ip, with the rate of the position and factors of the item over all positions
    and of the cell: empirical Bayes for counts that are Poisson with gamma-distributed factors. Factors of
    items lie around m s_i^β, where s_i is the geometric mean of the item's shares of the positions. A policy
    that learns shows more of the items that are clicked more, so that the items that it rarely shows, with
    few counts, are clicked less.
    """
    position_rate = clicks.sum(axis=0) / np.maximum(impressions.sum(axis=0), 1)
    rate = np.broadcast_to(position_rate, impressions.shape)
    log_share = np.log(impressions + 0.5).mean(axis=1)  # up to a constant
    item_factors = shrink_factors(
        clicks=clicks.sum(axis=1),
        expected=(impressions * rate).sum(axis=1),
        covariate=log_share - log_share.mean(),
    )
    item_rate = rate * item_factors[:, None]
    cell_factors = shrink_factors(clicks, impressions * item_rate, np.zeros_like(item_rate))
    return np.asarray(item_rate * cell_factors)


def shrink_factors(clicks: FloatArray, expected: FloatArray, covariate: FloatArray) -> FloatArray:
    """Return (clicks + a)/(expected + a/μ), the posterior means of factors around μ = m exp(β covariate).

    m solves Σ v (clicks − μ expected) = 0 with v = a/(a + μ expected): all factors count alike where counts
    are large, so that items with many impressions do not determine the level of items with few. β solves
    Σ v (clicks − μ expected) covariate = β/σ², the mode where β is normal around 0 with σ = 1/2. Of the
    values of a on a grid, the one with the largest negative binomial likelihood × density of β is used.
    """
    has_exposure = expected > 0
    c = clicks[has_exposure]
    e = expected[has_exposure]
    z = covariate[has_exposure]
    if not c.sum():
        return np.ones_like(expected)

    # One row for each a.
    a = STRENGTHS[:, None]
    log_m = np.full_like(a, np.log(c.sum() / e.sum()))
    beta = np.zeros_like(a)
    for _ in range(N_STEPS):
        log_m_step, beta_step = _compute_newton_step(c, e * np.exp(log_m + beta * z), z, a, beta)
        log_m = log_m + log_m_step
        beta = beta + beta_step
        if max(np.abs(log_m_step).max(), np.abs(beta_step).max()) < TOLERANCE:
            break

    mean = e * np.exp(log_m + beta * z)
    likelihood = gammaln(c + a) - gammaln(a) - a * np.log1p(mean / a) + c * np.log(mean / (a + mean))
    log_density = beta[:, 0] ** 2 * SLOPE_PRECISION / 2
    best = int((likelihood.sum(axis=1) - log_density).argmax())
    mu = np.exp(log_m[best] + beta[best] * covariate)
    return np.asarray(mu * (clicks + STRENGTHS[best]) / (expected * mu + STRENGTHS[best]))


def _compute_newton_step(
    c: FloatArray, mean: FloatArray, z: FloatArray, a: FloatArray, beta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a step of Newton's method for log m and β, for each a; neither moves by more than 1."""

    def sum_rows(values: FloatArray) -> FloatArray:
        return np.asarray(values.sum(axis=1, keepdims=True))

    v = a / (a + mean)
    residual = v * (c - mean)
    information = v * mean * (a + c) / (a + mean)  # of a concave likelihood
    log_m_gradient = sum_rows(residual)
    beta_gradient = sum_rows(residual * z) - beta * SLOPE_PRECISION
    log_m_information = sum_rows(information)
    cross_information = sum_rows(information * z)
    beta_information = sum_rows(information * z**2) + SLOPE_PRECISION
    determinant = log_m_information * beta_information - cross_information**2
    log_m_step = (beta_information * log_m_gradient - cross_information * beta_gradient) / determinant
    beta_step = (log_m_information * beta_gradient - cross_information * log_m_gradient) / determinant
    length = np.maximum(1, np.maximum(np.abs(log_m_step), np.abs(beta_step)))
    return log_m_step / length, beta_step / length


def count_interval(
    total: float, variance: float, event_weight: float, event_square: float, *, confidence_level: float
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
    event_weight, event_square : float >= 0
        Mean and mean square of the weight of one further event, which enters the upper limit.

    References
    ----------
    Fay & Feuer, Confidence intervals for directly standardized rates, Statistics in Medicine 16, 1997; the
    further event as in Tiwari, Clegg & Zou, Efficient interval estimation for age-adjusted cancer rates,
    Statistical Methods in Medical Research 15, 2006, doi:10.1177/0962280206070621.

    Examples
    --------
    No event, and each would weigh 1: 0 to 3.69, the exact Poisson interval of 0.

    >>> low, high = count_interval(0.0, 0.0, 1.0, 1.0, confidence_level=0.95)
    >>> low, round(high, 2)
    (0.0, 3.69)
    """
    low = _gamma_quantile(total, variance, (1 - confidence_level) / 2)
    high = _gamma_quantile(total + event_weight, variance + event_square, (1 + confidence_level) / 2)
    return low, high


def _gamma_quantile(mean: float, variance: float, probability: float) -> float:
    """Return a quantile of the gamma distribution with this mean and variance."""
    if variance == 0 or mean == 0:
        return mean
    return float(variance / mean * gammaincinv(mean**2 / variance, probability))


def difference_interval(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float]:
    """Return an interval for θ₁ − θ₂ from two independent (estimate, low, high), by the MOVER method.

    Low = d − √((θ̂₁ − l₁)² + (u₂ − θ̂₂)²), high = d + √((u₁ − θ̂₁)² + (θ̂₂ − l₂)²), at the level of the two.

    References
    ----------
    Zou & Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27, 2008,
    doi:10.1002/sim.3095.

    Examples
    --------
    >>> difference_interval((5.0, 2.0, 9.0), (3.0, 0.0, 7.0))
    (-3.0, 7.0)
    """
    first_estimate, first_low, first_high = first
    second_estimate, second_low, second_high = second
    difference = first_estimate - second_estimate
    lower_margin = math.hypot(first_estimate - first_low, second_high - second_estimate)
    upper_margin = math.hypot(first_high - first_estimate, second_estimate - second_low)
    return difference - lower_margin, difference + upper_margin
