"""Count models with one covariate, log n*: the regressions behind every fit of γ.

statsmodels fits and reports. This file groups equal rows, which is exact and keeps a million items cheap,
estimates the dispersion of the negative binomial, and repeats a fit for many resamples at once. statsmodels
and scipy.optimize are imported when a fit is made: they take longer to import than the rest of the package.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import digamma

from ipseval.errors import InputError
from ipseval.utils.types import FloatArray

# Range of the search for log α.
SMALLEST_LOG_ALPHA = -13.0
LARGEST_LOG_ALPHA = 20.0
MAX_ITERATIONS = 100
MAX_LINEAR_PREDICTOR = 50  # of a refit, against overflow


def group_rows(*columns: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the distinct rows of some columns, in sorted order, and how often each occurs."""
    frame = pd.DataFrame(dict(enumerate(columns)))
    sizes = frame.groupby(list(frame.columns)).size().astype(np.float64)
    distinct_columns = []
    for number in frame.columns:
        distinct_columns.append(sizes.index.get_level_values(number).to_numpy())

    return distinct_columns, sizes.to_numpy()


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
    # A frequency of f counts as f equal rows, in the likelihood and in the sandwich. All links except
    # "cloglog" are logarithms of the mean. The caller checks `result.converged`.
    from statsmodels.genmod import families
    from statsmodels.genmod.generalized_linear_model import GLM
    from statsmodels.tools import add_constant, sm_exceptions

    if family == "cloglog":
        statsmodels_family = families.Binomial(link=families.links.CLogLog())
    elif family == "binomial":
        statsmodels_family = families.Binomial(link=families.links.Log())
    elif dispersion > 0:
        statsmodels_family = families.NegativeBinomial(alpha=dispersion)
    else:
        statsmodels_family = families.Poisson()
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", sm_exceptions.ConvergenceWarning)
        warnings.simplefilter("ignore", sm_exceptions.PerfectSeparationWarning)
        warnings.simplefilter("ignore", sm_exceptions.DomainWarning)  # the log of a share is intended
        design = add_constant(x, has_constant="add")
        model = GLM(endog, design, family=statsmodels_family, freq_weights=frequency, offset=offset)
        try:
            return model.fit(start_params=start, maxiter=MAX_ITERATIONS, cov_type="HC0")
        except ValueError as error:
            raise InputError(f"the counts admit no fit of γ by {family} ({error!s:.80}).") from error


def fit_negative_binomial(x: FloatArray, y: FloatArray, frequency: FloatArray) -> tuple[Any, float]:
    """Return the GLM result of μ = exp(a + b x), and α of Var = μ + αμ²; 0 where counts vary as Poisson."""
    from scipy.optimize import brentq

    fit = fit_glm(y, x, frequency, "poisson")
    # Counts take few values: the costly functions of y are computed once for each.
    values, value_codes = np.unique(y, return_inverse=True)
    value_frequency = np.bincount(value_codes, frequency)

    def compute_score(log_alpha: float) -> float:
        """Return the derivative of the likelihood by α, at the likeliest a and b."""
        nonlocal fit
        alpha = float(np.exp(log_alpha))
        fit = fit_glm(y, x, frequency, "negative-binomial", dispersion=alpha, start=fit.params)
        shape = 1 / alpha
        mu = fit.fittedvalues
        count_terms = (value_frequency * (digamma(values + shape) - digamma(shape))).sum()
        mean_terms = frequency * (np.log1p(alpha * mu) * shape**2 + (y - mu) * shape / (1 + alpha * mu))
        return float(mean_terms.sum() - count_terms * shape**2)

    low = -1.0
    while compute_score(low) < 0:
        low -= 2.0
        if low < SMALLEST_LOG_ALPHA:
            return fit_glm(y, x, frequency, "poisson"), 0.0
    high = 1.0
    while compute_score(high) > 0 and high < LARGEST_LOG_ALPHA:
        high += 2.0
    log_alpha = high
    if high < LARGEST_LOG_ALPHA:
        log_alpha = brentq(compute_score, low, high, xtol=1e-10)
    alpha = float(np.exp(log_alpha))
    return fit_glm(y, x, frequency, "negative-binomial", dispersion=alpha, start=fit.params), alpha


def refit_levels(
    x: FloatArray,
    totals: FloatArray,
    size: FloatArray,
    start: FloatArray,
    *,
    dispersion: float,
    n_lists: float | None,
) -> FloatArray:
    """Return slopes (n_resamples,) of `totals` (n_resamples, n_levels) on x; NaN: did not converge."""
    # Items of one level share their mean, so that the slope's equation depends on the total of a level only.
    # dispersion: α of the negative binomial, 0 for Poisson; n_lists: Binomial(n_lists) with a complementary
    # log-log link in place of counts.
    n_resamples = totals.shape[0]
    params = np.tile(start, (n_resamples, 1))
    active = np.arange(n_resamples)
    slopes = np.full(n_resamples, np.nan)
    for _ in range(MAX_ITERATIONS):
        linear_predictor = params[active, :1] + params[active, 1:] * x
        mu = np.exp(np.clip(linear_predictor, -MAX_LINEAR_PREDICTOR, MAX_LINEAR_PREDICTOR))
        if n_lists is None:
            information = size * mu / (1 + dispersion * mu)
            score = (totals[active] - size * mu) / (1 + dispersion * mu)
        else:
            share = -np.expm1(-mu)
            information = size * n_lists * mu**2 * np.exp(-mu) / share
            score = (totals[active] - size * n_lists * share) * mu / share
        step = _compute_intercept_slope_step(x, information, score)
        params[active] += step
        has_converged = np.abs(step).max(axis=1) < 1e-8
        slopes[active[has_converged]] = params[active[has_converged], 1]
        active = active[~has_converged & np.isfinite(step).all(axis=1)]
        if active.size == 0:
            break
    return slopes


def _compute_intercept_slope_step(x: FloatArray, information: FloatArray, score: FloatArray) -> FloatArray:
    """Return the Newton step of intercept and slope of each resample, (n_resamples, 2)."""
    # The 2 × 2 systems of the resamples, with moments of x under the information, are solved in closed form.
    moment_0 = information.sum(1)
    moment_1 = information @ x
    moment_2 = information @ x**2
    gradient_0 = score.sum(1)
    gradient_1 = score @ x
    with np.errstate(invalid="ignore", divide="ignore"):
        determinant = moment_0 * moment_2 - moment_1**2
        intercept_step = moment_2 * gradient_0 - moment_1 * gradient_1
        slope_step = moment_0 * gradient_1 - moment_1 * gradient_0
        return np.asarray(np.stack([intercept_step, slope_step], axis=1) / determinant[:, None])
