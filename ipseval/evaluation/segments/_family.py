"""Intervals that hold for all groups at once, and differences between groups."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ipseval._base.types import FloatArray, readonly
from ipseval.estimators._sums import ROUNDING

DRAWS = 20_000
ALIKE = 1e-13  # of two variances: what rounding leaves of a difference that does not vary
UNCORRELATED = 1e-12
SINGULAR = 1e-9  # eigenvalues of a correlation matrix up to here are 0


def family_level(covariance: FloatArray, level: float, n_draws: int = DRAWS) -> float:
    """Return the level at which each of several intervals holds, so that all do with chance 1 − level."""
    # The level of |z| at the (1 − level) quantile of max_g |z_g|, z ~ N(0, correlation): the bootstrap over
    # users with normal multipliers (Hothorn, Bretz & Westfall 2008, doi 10.1002/bimj.200810425; Chernozhukov,
    # Chetverikov & Kato 2013, doi 10.1214/13-AOS1161). Independent groups need none: 1 − (1 − level)^(1/m).
    error = np.sqrt(np.diag(covariance))
    known = np.flatnonzero(error > 0)
    if known.size < 2:
        return level
    inside = covariance[np.ix_(known, known)] / np.outer(error[known], error[known])
    if float(np.abs(inside - np.diag(np.diag(inside))).max()) < UNCORRELATED:
        return float(-np.expm1(np.log1p(-level) / known.size))
    values, vectors = np.linalg.eigh(inside)
    # The symmetric root: signs and orders of eigenvectors, which differ between processors, change nothing.
    root = vectors * np.sqrt(np.where(values > SINGULAR, values, 0.0)) @ vectors.T
    draws = _draws(n_draws, known.size) @ root
    largest = float(np.quantile(np.abs(draws).max(axis=1), 1 - level))
    return float(np.clip(2 * ndtr(-largest), level / known.size, level))


@lru_cache(maxsize=4)
def _draws(n_draws: int, size: int) -> FloatArray:
    """Return standard normal points (n_draws, size), always the same ones; kept for the next family."""
    return readonly(np.random.default_rng(0).standard_normal((n_draws, size)))


def reach(
    error: FloatArray, effective: FloatArray, level: float, tails: FloatArray | None = None
) -> FloatArray:
    """Return the half-width of intervals, wider for skewness by `tails` (3, n_groups); NaN: no error."""
    # Student's t with one degree of freedom less than effective users, plus what the skewness γ and the
    # excess kurtosis κ of the users' influences add, z[γ²(z⁴ + 2z² − 3)/18 − κ(z² − 3)/12]/n where positive
    # (Hall 1992, section 2.6, doi 10.1007/978-1-4612-4384-7). Small groups need it: at one of twenty groups'
    # level z is 3.
    wide = stdtrit(np.maximum(effective - 1, 1.0), 1 - level / 2)
    if tails is not None:
        z = float(ndtri(1 - level / 2))
        more = z * (tails[0] * (z**4 + 2 * z**2 - 3) / 18 - tails[1] * (z**2 - 3) / 12)
        wide = (wide + np.maximum(np.nan_to_num(more), 0.0)) * np.fmax(tails[2], 1.0)
    return np.where(error > 0, wide * error, np.nan)


def tails_of(powers: FloatArray, total: FloatArray, ratio: FloatArray, n: FloatArray) -> FloatArray:
    """Return what `reach` reads of e = N − R·D, (3, …): γ²/n, κ/n, and a factor of the standard error."""
    # The factor is the root of 1/(1 − 2ΣD³/(ΣD ΣD²) + ΣD²/(ΣD)²) over n/(n − 1): residuals of users with a
    # large D are too small, as R follows these users. powers: (…, 12), Σ N^a D^b of `power_sums`; users
    # without weight add 0, so that it does not matter who is counted.
    p, r = np.moveaxis(powers, -1, 0), ratio
    with np.errstate(invalid="ignore", divide="ignore"):
        second = p[0] - 2 * r * p[1] + r**2 * p[2]
        # Users who are all alike: what rounding leaves of terms that cancel has no shape.
        second = np.where(second > ROUNDING * n * (p[0] + r**2 * p[2]), second, np.nan)
        third = p[3] - 3 * r * p[4] + 3 * r**2 * p[5] - r**3 * p[6]
        fourth = p[7] - 4 * r * p[8] + 6 * r**2 * p[9] - 4 * r**3 * p[10] + r**4 * p[11]
        even = p[2] / total**2
        lost = 1 - 2 * p[6] / (total * p[2]) + even
        uneven = np.sqrt((n - 1) / n / np.maximum(lost, 0.1))
        return np.array([third**2 / second**3, fourth / second**2 - 3 * even, uneven])


def t_test(difference: FloatArray, error: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return two-sided p-values of differences; NaN without a standard error, 1 for a difference of 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        p = 2 * stdtr(np.maximum(freedom, 1.0), -np.abs(difference) / error)
    return np.where(difference == 0, 1.0, np.where(error > 0, p, np.nan))


def satterthwaite(one: FloatArray, two: FloatArray, df_one: FloatArray, df_two: FloatArray) -> FloatArray:
    """Return the degrees of freedom of a difference of two values with these variances."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (one + two) ** 2 / (one**2 / np.maximum(df_one, 1) + two**2 / np.maximum(df_two, 1))
    return np.asarray(found)


def gap_of(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return differences of values; 0 where they are those of rounding."""
    gap = one - two
    return np.where(np.abs(gap) <= ROUNDING * (np.abs(one) + np.abs(two)), 0.0, gap)


def gap_error(one: float, two: float, both: float) -> float:
    """Return the standard error of a difference from variances and covariance; 0 where they cancel."""
    variance = one + two - 2 * both
    return float(np.sqrt(variance)) if variance > ALIKE * (one + two) else 0.0
