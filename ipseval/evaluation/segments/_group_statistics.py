"""Statistics of groups: simultaneous levels, half-widths of intervals, gaps and their tests."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ipseval.estimators.user_sums import ROUNDING_SHARE
from ipseval.utils.types import FloatArray, as_readonly

N_DRAWS = 20_000
RELATIVE_ROUNDING = 1e-13  # share of two variances that rounding leaves of a difference that does not vary
MAX_CORRELATION_OF_INDEPENDENT = 1e-12
MAX_ZERO_EIGENVALUE = 1e-9  # eigenvalues of a correlation matrix up to here count as 0


def family_level(covariance: FloatArray, level: float, n_draws: int = N_DRAWS) -> float:
    """Return the level of a single interval at which all intervals hold with probability 1 − level.

    It is the level of |z| at the (1 − level) quantile of max_g |z_g|, z ~ N(0, correlation): the bootstrap
    over users with normal multipliers (Hothorn, Bretz & Westfall 2008, doi 10.1002/bimj.200810425;
    Chernozhukov, Chetverikov & Kato 2013, doi 10.1214/13-AOS1161). For independent groups it is
    1 − (1 − level)^(1/m), without draws.
    """
    error = np.sqrt(np.diag(covariance))
    varying = np.flatnonzero(error > 0)
    if varying.size < 2:
        return level
    correlation = covariance[np.ix_(varying, varying)] / np.outer(error[varying], error[varying])
    off_diagonal = correlation - np.diag(np.diag(correlation))
    if float(np.abs(off_diagonal).max()) < MAX_CORRELATION_OF_INDEPENDENT:
        return float(-np.expm1(np.log1p(-level) / varying.size))

    eigenvalues, eigenvectors = np.linalg.eigh(correlation)
    scales = np.sqrt(np.where(eigenvalues > MAX_ZERO_EIGENVALUE, eigenvalues, 0.0))
    # The symmetric root does not depend on signs and orders of eigenvectors, which differ between processors.
    root = eigenvectors * scales @ eigenvectors.T
    draws = _normal_draws(n_draws, varying.size) @ root
    largest = float(np.quantile(np.abs(draws).max(axis=1), 1 - level))
    return float(np.clip(2 * ndtr(-largest), level / varying.size, level))


@lru_cache(maxsize=4)
def _normal_draws(n_draws: int, size: int) -> FloatArray:
    """Return standard normal draws (n_draws, size) from a fixed seed, so that every run is the same."""
    return as_readonly(np.random.default_rng(0).standard_normal((n_draws, size)))


def interval_half_width(
    error: FloatArray, n_effective: FloatArray, level: float, tails: FloatArray | None = None
) -> FloatArray:
    """Return the half-width of intervals, wider for skewness by `tails` (3, n_groups); NaN without error.

    The quantile is that of Student's t with one degree of freedom less than effective users. Skewness γ and
    excess kurtosis κ of the users' influences add z[γ²(z⁴ + 2z² − 3)/18 − κ(z² − 3)/12]/n where it is
    positive (Hall 1992, section 2.6, doi 10.1007/978-1-4612-4384-7). Small groups need it: at the level of
    one of twenty groups, z is 3.
    """
    quantile = stdtrit(np.maximum(n_effective - 1, 1.0), 1 - level / 2)
    if tails is not None:
        z = float(ndtri(1 - level / 2))
        widening = z * (tails[0] * (z**4 + 2 * z**2 - 3) / 18 - tails[1] * (z**2 - 3) / 12)
        quantile = (quantile + np.maximum(np.nan_to_num(widening), 0.0)) * np.fmax(tails[2], 1.0)
    return np.where(error > 0, quantile * error, np.nan)


def skewness_terms(
    powers: FloatArray, total_weight: FloatArray, ratio: FloatArray, n_users: FloatArray
) -> FloatArray:
    """Return γ²/n and κ/n of e = N − R·D, and a factor of the standard error, (3, …).

    The factor is the root of 1/(1 − 2ΣD³/(ΣD ΣD²) + ΣD²/(ΣD)²) over n/(n − 1): residuals of users with a
    large D are too small, because R follows these users. `powers`: (…, 12), Σ N^a D^b of `power_sums`. Users
    without weight add 0, so it does not matter whether they are counted.
    """
    p = np.moveaxis(powers, -1, 0)
    r = ratio
    with np.errstate(invalid="ignore", divide="ignore"):
        second = p[0] - 2 * r * p[1] + r**2 * p[2]
        # Where all users are equal, only rounding of cancelling terms is left, which has no shape.
        second = np.where(second > ROUNDING_SHARE * n_users * p[0], second, np.nan)
        third = p[3] - 3 * r * p[4] + 3 * r**2 * p[5] - r**3 * p[6]
        fourth = p[7] - 4 * r * p[8] + 6 * r**2 * p[9] - 4 * r**3 * p[10] + r**4 * p[11]
        squared_shares = p[2] / total_weight**2
        leverage = 1 - 2 * p[6] / (total_weight * p[2]) + squared_shares
        error_factor = np.sqrt((n_users - 1) / n_users / np.maximum(leverage, 0.1))
        return np.array([third**2 / second**3, fourth / second**2 - 3 * squared_shares, error_factor])


def t_test(difference: FloatArray, error: FloatArray, degrees_of_freedom: FloatArray) -> FloatArray:
    """Return two-sided p-values of differences; NaN without a standard error, 1 for a difference of 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * stdtr(np.maximum(degrees_of_freedom, 1.0), -np.abs(difference) / error)
    p_value = np.where(error > 0, p_value, np.nan)
    return np.where(difference == 0, 1.0, p_value)


def satterthwaite(
    variance: FloatArray,
    reference_variance: FloatArray,
    degrees_of_freedom: FloatArray,
    reference_degrees: FloatArray,
) -> FloatArray:
    """Return the degrees of freedom of the difference of two values with these variances."""
    with np.errstate(invalid="ignore", divide="ignore"):
        denominator = variance**2 / np.maximum(degrees_of_freedom, 1)
        denominator = denominator + reference_variance**2 / np.maximum(reference_degrees, 1)
        combined = (variance + reference_variance) ** 2 / denominator
    return np.asarray(combined)


def compute_gap(value: FloatArray, reference: FloatArray) -> FloatArray:
    """Return differences of values; 0 where a difference is rounding alone."""
    gap = value - reference
    rounding = ROUNDING_SHARE * (np.abs(value) + np.abs(reference))
    return np.where(np.abs(gap) <= rounding, 0.0, gap)


def gap_error(variance: FloatArray, reference_variance: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return standard errors of differences; 0 where the variances cancel or one of them is 0."""
    total_variance = variance + reference_variance
    gap_variance = total_variance - 2 * covariance
    is_known = (variance > 0) & (reference_variance > 0)
    is_known &= gap_variance > RELATIVE_ROUNDING * total_variance
    return np.sqrt(np.where(is_known, gap_variance, 0.0))
