"""Count models with one covariate, log n*: the equations behind every γ fit.

statsmodels fits and reports; this file groups equal rows, which is exact and keeps a million items cheap,
finds the dispersion of the negative binomial, and repeats a fit for many resamples at once. statsmodels and
scipy.optimize are imported when a fit is made: they take longer to import than the rest of the package.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import digamma

from ipseval.errors import InputError
from ipseval.utils.types import FloatArray

LOWEST, HIGHEST = -13.0, 20.0  # of log α
MAX_ITERATIONS = 100


def group_rows(*columns: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the distinct rows of some columns, in sorted order, and how often each occurs."""
    names = [*range(len(columns))]
    sizes = pd.DataFrame(dict(enumerate(columns))).groupby(names).size().astype(np.float64)
    return [sizes.index.get_level_values(k).to_numpy() for k in names], sizes.to_numpy()


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


def fit_negative_binomial(x: FloatArray, y: FloatArray, frequency: FloatArray) -> tuple[Any, float]:
    """Return the GLM result of μ = exp(a + b x), and α of Var = μ + αμ²; 0 where counts vary as Poisson."""
    from scipy.optimize import brentq

    fit = fit_glm(y, x, frequency, "poisson")
    # Counts take few values: the costly functions of y are computed once for each.
    values, place = np.unique(y, return_inverse=True)
    rows = np.bincount(place, frequency)

    def score(log_alpha: float) -> float:
        """Return the derivative of the likelihood by α, at the likeliest a and b."""
        nonlocal fit
        alpha = float(np.exp(log_alpha))
        fit = fit_glm(y, x, frequency, "negative-binomial", dispersion=alpha, start=fit.params)
        shape, mu = 1 / alpha, fit.fittedvalues
        jumps = (rows * (digamma(values + shape) - digamma(shape))).sum()
        smooth = frequency * (np.log1p(alpha * mu) * shape**2 + (y - mu) * shape / (1 + alpha * mu))
        return float(smooth.sum() - jumps * shape**2)

    low, high = -1.0, 1.0
    while score(low) < 0:
        low -= 2.0
        if low < LOWEST:
            return fit_glm(y, x, frequency, "poisson"), 0.0
    while score(high) > 0 and high < HIGHEST:
        high += 2.0
    alpha = float(np.exp(brentq(score, low, high, xtol=1e-10) if high < HIGHEST else high))
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
