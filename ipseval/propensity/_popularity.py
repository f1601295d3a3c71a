"""Observed popularity described: the exponent of its distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import zeta

from ipseval.errors import InputError
from ipseval.utils.checks import check_counts, check_positive_int
from ipseval.utils.types import FloatArray

LOWEST, HIGHEST = 1.0 + 1e-6, 30.0
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class PopularityExponent:
    """Power law P(n* = x) ∝ x^(−exponent) of the tail n* >= xmin.

    It says how many items have each popularity. It is not γ: it says nothing about P.

    Attributes
    ----------
    exponent, standard_error : float
        Maximum likelihood, and its asymptotic error for a given xmin.
    xmin : int
        Where the tail begins.
    n_tail, n_items : int
        Items in the tail, and items with n* > 0.
    ks_distance : float
        Largest difference of the two distribution functions over the tail.
    """

    exponent: float
    standard_error: float
    xmin: int
    n_tail: int
    n_items: int
    ks_distance: float

    def levels(self, popularity: npt.ArrayLike) -> pd.DataFrame:
        """Return how many items have at least each observed popularity, and what the power law expects.

        Columns popularity (n* > 0, ascending), n_items (at that popularity), n_at_least, and `fitted`:
        N_tail ζ(α, n*)/ζ(α, xmin), the expected n_at_least of the discrete power law; NaN below xmin.
        """
        counts = check_counts("popularity", popularity, ordered=False)
        levels, n_items = np.unique(counts[counts > 0], return_counts=True)
        at_least = np.cumsum(n_items[::-1])[::-1]
        frame = pd.DataFrame({"popularity": levels, "n_items": n_items, "n_at_least": at_least})
        inside = levels >= self.xmin
        tail = zeta(self.exponent, levels) / zeta(self.exponent, self.xmin)
        return frame.assign(fitted=np.where(inside, n_items[inside].sum() * tail, np.nan))


def fit_popularity_exponent(popularity: npt.ArrayLike, *, xmin: int | None = None) -> PopularityExponent:
    """Return the exponent α of P(n* = x) = x^(−α)/ζ(α, xmin), x = xmin, xmin + 1, … (descriptive).

    α by maximum likelihood; xmin, unless given, is the one whose tail has the smallest Kolmogorov–Smirnov
    distance to its own fit (Clauset, Shalizi & Newman). **It is not γ**: n*_i = (users who like i) × P_i, so
    that n* alone fits every propensity. Use `fit_gamma` or `fit_gamma_from_exposure` for γ.

    Parameters
    ----------
    popularity : (n_items,) array-like of whole numbers
        n*_i, >= 0; items with 0 are left out.
    xmin : int, optional
        Start of the tail, >= 1.

    Raises
    ------
    InputError
        For counts that are negative, not whole or not finite, or fewer than two distinct values in the tail.

    References
    ----------
    Clauset, Shalizi & Newman, Power-law distributions in empirical data, SIAM Review 51, 2009,
    doi 10.1137/070710111.

    Examples
    --------
    The exponent solves −ζ'(α)/ζ(α) = mean log n* = (log 2 + log 3)/4 = .448 here.

    >>> fit = fit_popularity_exponent([0, 1, 1, 2, 3], xmin=1)
    >>> fit.n_tail, round(fit.exponent, 2)
    (4, 2.16)
    """
    counts = check_counts("popularity", popularity, ordered=False)
    n_broken = int((counts != np.floor(counts)).sum())
    if n_broken:
        raise InputError(f"popularity must hold whole numbers; {n_broken} of {counts.size} entries are not.")
    level, frequency = np.unique(counts[counts > 0], return_counts=True)
    if xmin is not None:
        inside = level >= check_positive_int("xmin", xmin)
        level, frequency = level[inside], frequency[inside]
    if level.size < 2:
        raise InputError(f"the tail has {level.size} distinct popularity; at least 2 are needed to fit one.")
    starts = np.array([float(xmin)]) if xmin is not None else level[:-1]
    n_tail = np.cumsum(frequency[::-1])[::-1][: starts.size].astype(np.float64)
    mean_log = np.cumsum((frequency * np.log(level))[::-1])[::-1][: starts.size] / n_tail
    alpha = _maximise(starts, mean_log)
    distances = [
        _distance(level[j:], frequency[j:], start, value)
        for j, (start, value) in enumerate(zip(starts, alpha, strict=True))
    ]
    best = int(np.argmin(distances))
    return PopularityExponent(
        exponent=float(alpha[best]),
        standard_error=_standard_error(float(alpha[best]), float(starts[best]), float(n_tail[best])),
        xmin=int(starts[best]),
        n_tail=int(n_tail[best]),
        n_items=int((counts > 0).sum()),
        ks_distance=float(distances[best]),
    )


def _maximise(xmin: FloatArray, mean_log: FloatArray) -> FloatArray:
    """Return the minimisers of log ζ(α, xmin) + α·mean_log, which is convex in α, by golden section."""

    def loss(alpha: FloatArray) -> FloatArray:
        return np.asarray(np.log(zeta(alpha, xmin)) + alpha * mean_log)

    low, high = np.full_like(xmin, LOWEST), np.full_like(xmin, HIGHEST)
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    loss_a, loss_b = loss(a), loss(b)
    for _ in range(60):
        left = loss_a < loss_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        new = np.where(left, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        value = loss(new)
        a, b = np.where(left, new, b), np.where(left, a, new)
        loss_a, loss_b = np.where(left, value, loss_b), np.where(left, loss_a, value)
    return np.asarray((low + high) / 2, dtype=np.float64)


def _distance(level: FloatArray, frequency: npt.NDArray[np.int64], xmin: float, alpha: float) -> float:
    """Return the largest difference of the two distribution functions at any whole number of the tail."""
    survival = zeta(alpha, level) / zeta(alpha, xmin)
    at_level, before_next = 1 - zeta(alpha, level + 1) / zeta(alpha, xmin), 1 - survival[1:]
    empirical = np.cumsum(frequency) / frequency.sum()
    # Between two observed values the fitted function rises on its own: both ends of each gap count.
    start = 1 - survival[0]
    return float(max(np.abs(at_level - empirical).max(), np.abs(before_next - empirical[:-1]).max(), start))


def _standard_error(alpha: float, xmin: float, n_tail: float) -> float:
    """Return 1/sqrt(n · d² log ζ(α, xmin)/dα²)."""
    step = 1e-3
    low, mid, high = (np.log(zeta(alpha + shift, xmin)) for shift in (-step, 0.0, step))
    return float(1 / np.sqrt(n_tail * (low - 2 * mid + high) / step**2))
