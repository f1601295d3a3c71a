"""Count models with one covariate, log n*: the equations behind every γ fit.

statsmodels fits and reports; this file groups equal rows, which is exact and keeps a million items cheap,
finds the dispersion of the negative binomial, and repeats a fit for many resamples at once. statsmodels and
scipy.optimize are imported when a fit is made: they take longer to import than the rest of the package.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import digamma

from ipseval._base.types import FloatArray, IntArray
from ipseval.errors import InputError

SMALLEST_DISPERSION = 1e-6
MAX_ITERATIONS = 100


def group_rows(*columns: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the distinct rows of some columns, in sorted order, and how often each occurs."""
    order = np.lexsort(columns[::-1])
    new = np.zeros(order.size, dtype=bool)
    new[0] = True
    for column in columns:
        new[1:] |= np.diff(column[order]) != 0
    first = np.flatnonzero(new)
    frequency = np.diff(np.append(first, order.size)).astype(np.float64)
    return [column[order[first]] for column in columns], frequency


def fit_glm(
    endog: FloatArray,
    x: FloatArray,
    frequency: FloatArray,
    family: Literal["poisson", "negative-binomial", "binomial", "cloglog"],
    *,
    dispersion: float = 0.0,
    offset: FloatArray | None = None,
    start: FloatArray | None = None,
) -> Any:
    """Return the statsmodels GLM result of grouped rows on (1, x), with a sandwich covariance (HC0)."""
    # A frequency of f counts as f equal rows, in the likelihood and in the sandwich. All links are logarithms
    # of the mean, but that of "cloglog". The caller reports what did not converge, from `result.converged`.
    from statsmodels.genmod import families
    from statsmodels.genmod.generalized_linear_model import GLM
    from statsmodels.tools import add_constant, sm_exceptions

    if family in ("cloglog", "binomial"):
        link = families.links.CLogLog() if family == "cloglog" else families.links.Log()
        chosen = families.Binomial(link=link)
    else:
        chosen = families.NegativeBinomial(alpha=dispersion) if dispersion > 0 else families.Poisson()
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", sm_exceptions.ConvergenceWarning)
        warnings.simplefilter("ignore", sm_exceptions.PerfectSeparationWarning)
        warnings.simplefilter("ignore", sm_exceptions.DomainWarning)  # log of a share: what the model says
        design = add_constant(x, has_constant="add")
        model = GLM(endog, design, family=chosen, freq_weights=frequency, offset=offset)
        try:
            return model.fit(start_params=start, maxiter=MAX_ITERATIONS, cov_type="HC0")
        except ValueError as error:
            raise InputError(f"the counts admit no fit of γ by {family} ({error!s:.80}).") from error


class NegativeBinomialFit(NamedTuple):
    """Intercept and slope of log μ, dispersion α of Var = μ + αμ², and whether the search ended."""

    params: FloatArray
    dispersion: float
    converged: bool


def fit_negative_binomial(x: FloatArray, y: FloatArray, frequency: FloatArray) -> NegativeBinomialFit:
    """Return the likeliest μ = exp(a + b x) and α, by turns; α = 0 where counts vary as Poisson ones."""
    # Counts take few values: the costly functions of y are computed once for each.
    values, place = np.unique(y, return_inverse=True)
    mean = np.average(y, weights=frequency)
    mu = (y + mean) / 2
    eta = np.log(mu)
    params = _weighted_line(x, eta + (y - mu) / mu, frequency * mu / (1 + mu))
    alpha = 1.0
    for _ in range(MAX_ITERATIONS):
        params, inner = _scoring(x, y, frequency, alpha, params)
        before, alpha = alpha, _dispersion(values, place, np.exp(params[0] + params[1] * x), frequency, alpha)
        if abs(alpha - before) <= 1e-9 * max(alpha, 1e-3):
            return NegativeBinomialFit(params, alpha, inner)
    return NegativeBinomialFit(params, alpha, False)


def _scoring(
    x: FloatArray, y: FloatArray, frequency: FloatArray, alpha: float, params: FloatArray
) -> tuple[FloatArray, bool]:
    """Return intercept and slope at a fixed dispersion by Fisher scoring."""
    for _ in range(MAX_ITERATIONS):
        eta = np.clip(params[0] + params[1] * x, -50, 50)
        mu = np.exp(eta)
        new = _weighted_line(x, eta + (y - mu) / mu, frequency * mu / (1 + alpha * mu))
        step = float(np.abs(new - params).max())
        params = new
        if step < 1e-10:
            return params, True
    return params, False


def _weighted_line(x: FloatArray, z: FloatArray, weight: FloatArray) -> FloatArray:
    total = weight.sum()
    x_mean, z_mean = (weight * x).sum() / total, (weight * z).sum() / total
    slope = (weight * (x - x_mean) * (z - z_mean)).sum() / (weight * (x - x_mean) ** 2).sum()
    return np.array([z_mean - slope * x_mean, slope])


def _dispersion(
    values: FloatArray, place: IntArray, mu: FloatArray, frequency: FloatArray, start: float
) -> float:
    """Return the maximum-likelihood α at fixed means of y = values[place]; 0 where it is highest at 0."""
    from scipy.optimize import brentq

    y = values[place]
    if (frequency * ((y - mu) ** 2 - y)).sum() <= 0:
        return 0.0
    rows = np.bincount(place, frequency)

    def score(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        shape = 1 / alpha
        jumps = (rows * (digamma(values + shape) - digamma(shape))).sum()
        odds = alpha * mu
        smooth = frequency * (np.log1p(odds) * shape**2 + (y - mu) * shape / (1 + odds))
        return float(smooth.sum() - jumps * shape**2)

    centre = np.log(min(max(start, 1e-5), 1e4))
    low, high = centre - 0.5, centre + 0.5
    while score(low) < 0:
        low -= 2.0
        if low < np.log(SMALLEST_DISPERSION):
            return 0.0
    while score(high) > 0:
        high += 2.0
        if high > 20:
            return float(np.exp(high))
    return float(np.exp(brentq(score, low, high, xtol=1e-10)))


class BoundaryFit(NamedTuple):
    """A log-binomial fit whose largest rate is 1: it has no curvature there, and so no standard error."""

    params: FloatArray
    bse: tuple[float, float] = (float("nan"), float("nan"))
    converged: bool = False
    df_resid: int = 0


def fit_log_binomial(x: FloatArray, y: FloatArray, trials: FloatArray, frequency: FloatArray) -> Any:
    """Return the fit of y ~ Binomial(trials, exp(a + b x)); `BoundaryFit` where a rate of 1 is likeliest."""
    # The likelihood is concave where a + b x < 0. Newton steps are halved until they stay there: the plain
    # iteration leaves the range when rates are near 1.
    from scipy.optimize import minimize_scalar

    basis = np.array([np.ones_like(x), x])
    misses = trials - y

    def loss(params: FloatArray) -> float:
        eta = params @ basis
        if eta.max() >= 0:
            return np.inf
        return -float((frequency * (y * eta + misses * np.log(-np.expm1(eta)))).sum())

    rate = float((frequency * y).sum() / (frequency * trials).sum())
    params = np.array([np.log(min(rate, 1 - 1e-9)), 0.0])
    value = loss(params)
    for _ in range(MAX_ITERATIONS):
        eta = params @ basis
        odds = 1 / np.expm1(-eta)
        score = basis @ (frequency * (y - misses * odds))
        curvature = (basis * (frequency * misses * odds * (1 + odds))) @ basis.T
        step = np.linalg.pinv(curvature, hermitian=True) @ score
        size = 1.0
        while size > 1e-10 and not loss(params + size * step) <= value:
            size /= 2
        if size <= 1e-10:
            break
        params, value = params + size * step, loss(params + size * step)
        if float(score @ step) < 1e-14 * (1 + abs(value)):
            break
    if (params @ basis).max() < -1e-6:
        with contextlib.suppress(np.linalg.LinAlgError, ValueError):
            result = fit_glm(np.column_stack([y, misses]), x, frequency, "binomial", start=params)
            if result.converged and np.allclose(result.params, params, atol=1e-5):
                return result
    # On the edge the rate at one end is 1, and the likelihood is concave in the slope alone.
    for end, bounds in ((x.max(), (0.0, 50.0)), (x.min(), (-50.0, 0.0))):
        edge = minimize_scalar(lambda b, end=end: loss(np.array([-1e-9 - b * end, b])), bounds=bounds)
        if edge.fun < value:
            params, value = np.array([-1e-9 - edge.x * end, edge.x]), edge.fun
    return BoundaryFit(params)


def refit_levels(
    x: FloatArray,
    totals: FloatArray,
    size: FloatArray,
    start: FloatArray,
    *,
    dispersion: float = 0.0,
    n_lists: float | None = None,
) -> FloatArray:
    """Return slopes (n_resamples,) of `totals` (n_resamples, n_levels) on x; NaN: the search does not end."""
    # Items of one level share their mean, so that a level's total is all that the slope's equation reads.
    # dispersion: α of the negative binomial, 0 for Poisson; n_lists: Binomial(n_lists) with a complementary
    # log-log link in place of counts.
    params = np.tile(start, (totals.shape[0], 1))
    active = np.arange(totals.shape[0])
    slopes = np.full(totals.shape[0], np.nan)
    for _ in range(MAX_ITERATIONS):
        eta = np.clip(params[active, :1] + params[active, 1:] * x, -50, 50)
        mu = np.exp(eta)
        if n_lists is None:
            weight = size * mu / (1 + dispersion * mu)
            score = (totals[active] - size * mu) / (1 + dispersion * mu)
        else:
            share = -np.expm1(-mu)
            score = (totals[active] - size * n_lists * share) * mu / share
            weight = size * n_lists * mu**2 * np.exp(-mu) / share
        s0, s1, s2 = weight.sum(1), weight @ x, weight @ x**2
        g0, g1 = score.sum(1), score @ x
        with np.errstate(invalid="ignore", divide="ignore"):
            determinant = s0 * s2 - s1**2
            step = np.stack([s2 * g0 - s1 * g1, s0 * g1 - s1 * g0], axis=1) / determinant[:, None]
        params[active] += step
        done = np.abs(step).max(axis=1) < 1e-8
        slopes[active[done]] = params[active[done], 1]
        active = active[~done & np.isfinite(step).all(axis=1)]
        if active.size == 0:
            break
    return slopes
