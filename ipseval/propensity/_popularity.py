"""Exponent of the distribution of observed popularity, as a description of a log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import zeta

from ipseval.errors import InputError
from ipseval.utils.checks import check_counts, check_positive_int
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray

# Range of the exponent, and the ratio of the golden-section search.
SMALLEST_EXPONENT = 1.0 + 1e-6
LARGEST_EXPONENT = 30.0
GOLDEN_RATIO = (np.sqrt(5) - 1) / 2


@public_class
@dataclass(frozen=True)
class PopularityExponent:
    """Power law P(n* = x) ∝ x^(−exponent) of the tail n* >= xmin.

    It describes how many items have each popularity. It is not γ: it says nothing about P.

    Parameters
    ----------
    exponent, standard_error : float
        Maximum likelihood, and its asymptotic error for a fixed xmin.
    xmin : int
        Smallest popularity of the tail.
    n_tail, n_items : int
        Items in the tail, and items with n* > 0.
    ks_distance : float
        Largest difference of the two distribution functions over the tail.

    See Also
    --------
    fit_popularity_exponent : Fit the exponent.

    Examples
    --------
    >>> popularity = [1] * 60 + [2] * 15 + [3] * 7 + [4] * 4 + [8, 12, 20]
    >>> exponent = fit_popularity_exponent(popularity, xmin=1)
    >>> round(exponent.exponent, 2), round(exponent.standard_error, 2), exponent.n_tail
    (2.35, 0.16, 89)
    >>> exponent.levels(popularity).head(3).round(1)
       popularity  n_items  n_at_least  fitted
    0         1.0       60          89    89.0
    1         2.0       15          29    25.8
    2         3.0        7          14    13.4
    """

    exponent: float
    standard_error: float
    xmin: int
    n_tail: int
    n_items: int
    ks_distance: float

    def levels(self, popularity: npt.ArrayLike) -> pd.DataFrame:
        """Return the number of items with at least each observed popularity, and its expected value.

        Parameters
        ----------
        popularity : (n_items,) array-like of whole numbers
            n*_i, >= 0; items with 0 are left out.

        Returns
        -------
        DataFrame
            Columns popularity (n* > 0, ascending), n_items (at that popularity), n_at_least, and `fitted`:
            N_tail ζ(α, n*)/ζ(α, xmin), the expected n_at_least of the discrete power law; NaN below xmin.
        """
        counts = check_counts("popularity", popularity, is_by_position=False)
        levels, n_items = np.unique(counts[counts > 0], return_counts=True)
        n_at_least = np.cumsum(n_items[::-1])[::-1]
        is_tail = levels >= self.xmin
        survival = zeta(self.exponent, levels) / zeta(self.exponent, self.xmin)
        expected = np.where(is_tail, n_items[is_tail].sum() * survival, np.nan)
        return pd.DataFrame(
            {"popularity": levels, "n_items": n_items, "n_at_least": n_at_least, "fitted": expected}
        )


@public_function
def fit_popularity_exponent(popularity: npt.ArrayLike, *, xmin: int | None = None) -> PopularityExponent:
    """Fit the exponent α of P(n* = x) = x^(−α)/ζ(α, xmin), x = xmin, xmin + 1, … (descriptive).

    **The exponent is not γ**: n*_i = (users who like i) × P_i, so that n* alone does not identify P. Use
    `fit_gamma` or `fit_gamma_from_exposure` for γ.

    Parameters
    ----------
    popularity : (n_items,) array-like of whole numbers
        n*_i, >= 0; items with 0 are left out.
    xmin : int, optional
        Start of the tail, >= 1. Default: the start with the smallest Kolmogorov–Smirnov distance between the
        tail and its own fit [1]_.

    Returns
    -------
    PopularityExponent
        The exponent by maximum likelihood, with its standard error and the tail.

    Raises
    ------
    InputError
        For counts that are negative, not whole or not finite, or fewer than two distinct values in the tail.

    See Also
    --------
    fit_gamma, fit_gamma_from_exposure : Estimate γ of the propensity.

    References
    ----------
    .. [1] Clauset, Shalizi & Newman, Power-law distributions in empirical data, SIAM Review 51, 2009,
       doi:10.1137/070710111

    Examples
    --------
    The exponent solves −ζ'(α)/ζ(α) = mean log n* = (log 2 + log 3)/4 = 0.448 here.

    >>> fit = fit_popularity_exponent([0, 1, 1, 2, 3], xmin=1)
    >>> fit.n_tail, round(fit.exponent, 2)
    (4, 2.16)
    """
    counts = check_counts("popularity", popularity, is_by_position=False)
    n_fractions = int((counts != np.floor(counts)).sum())
    if n_fractions:
        raise InputError(
            f"popularity must hold whole numbers; {n_fractions} of {counts.size} entries are not."
        )
    levels, frequencies = np.unique(counts[counts > 0], return_counts=True)
    if xmin is not None:
        is_tail = levels >= check_positive_int("xmin", xmin)
        levels = levels[is_tail]
        frequencies = frequencies[is_tail]
    if levels.size < 2:
        raise InputError(f"the tail has {levels.size} distinct popularity; at least 2 are needed to fit one.")

    starts = levels[:-1] if xmin is None else np.array([float(xmin)])
    n_tail = np.cumsum(frequencies[::-1])[::-1][: starts.size].astype(np.float64)
    log_sums = np.cumsum((frequencies * np.log(levels))[::-1])[::-1][: starts.size]
    exponents = _maximize_likelihood(starts, log_sums / n_tail)
    distances = [
        _compute_ks_distance(levels[row:], frequencies[row:], starts[row], exponents[row])
        for row in range(starts.size)
    ]
    best = int(np.argmin(distances))
    standard_error = _compute_exponent_error(float(exponents[best]), float(starts[best]), float(n_tail[best]))
    return PopularityExponent(
        exponent=float(exponents[best]),
        standard_error=standard_error,
        xmin=int(starts[best]),
        n_tail=int(n_tail[best]),
        n_items=int((counts > 0).sum()),
        ks_distance=float(distances[best]),
    )


def _maximize_likelihood(xmin: FloatArray, mean_log: FloatArray) -> FloatArray:
    """Return the minimisers of log ζ(α, xmin) + α·mean_log, which is convex in α, by golden section."""

    def compute_loss(alpha: FloatArray) -> FloatArray:
        return np.asarray(np.log(zeta(alpha, xmin)) + alpha * mean_log)

    low = np.full_like(xmin, SMALLEST_EXPONENT)
    high = np.full_like(xmin, LARGEST_EXPONENT)
    left = high - GOLDEN_RATIO * (high - low)
    right = low + GOLDEN_RATIO * (high - low)
    left_loss = compute_loss(left)
    right_loss = compute_loss(right)
    for _ in range(60):
        is_left_better = left_loss < right_loss
        low = np.where(is_left_better, low, left)
        high = np.where(is_left_better, right, high)
        # The better point stays inside, on the opposite side of the new point.
        new_left = high - GOLDEN_RATIO * (high - low)
        new_right = low + GOLDEN_RATIO * (high - low)
        new_point = np.where(is_left_better, new_left, new_right)
        new_loss = compute_loss(new_point)
        old_left = left
        old_left_loss = left_loss
        left = np.where(is_left_better, new_point, right)
        left_loss = np.where(is_left_better, new_loss, right_loss)
        right = np.where(is_left_better, old_left, new_point)
        right_loss = np.where(is_left_better, old_left_loss, new_loss)
    return np.asarray((low + high) / 2, dtype=np.float64)


def _compute_ks_distance(
    levels: FloatArray, frequencies: npt.NDArray[np.int64], xmin: float, alpha: float
) -> float:
    """Return the largest difference of the two distribution functions at any whole number of the tail."""
    survival = zeta(alpha, levels) / zeta(alpha, xmin)
    cdf = 1 - zeta(alpha, levels + 1) / zeta(alpha, xmin)
    empirical_cdf = np.cumsum(frequencies) / frequencies.sum()
    # Between two observed values only the fitted function rises, so that both ends of each gap count.
    cdf_before_next = 1 - survival[1:]
    largest_at_levels = np.abs(cdf - empirical_cdf).max()
    largest_in_gaps = np.abs(cdf_before_next - empirical_cdf[:-1]).max()
    cdf_before_first = 1 - survival[0]
    return float(max(largest_at_levels, largest_in_gaps, cdf_before_first))


def _compute_exponent_error(alpha: float, xmin: float, n_tail: float) -> float:
    """Return 1/sqrt(n · d² log ζ(α, xmin)/dα²)."""
    step = 1e-3
    low = np.log(zeta(alpha - step, xmin))
    middle = np.log(zeta(alpha + 0.0, xmin))
    high = np.log(zeta(alpha + step, xmin))
    return float(1 / np.sqrt(n_tail * (low - 2 * middle + high) / step**2))
