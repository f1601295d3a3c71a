"""Smooth functions over long grids, from their values at Chebyshev nodes: exact to rounding, or not used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.chebyshev import chebder, chebvander
from scipy.fft import dct

from ipseval._types import FloatArray

# Shorter grids cost little; a pilot has so many nodes, and functions that need more have no series.
SHORTEST, MOST_NODES = 66, 97
# The last coefficients of a function that is resolved are rounding of the largest.
N_LAST, RESOLVED = 6, 2e-13
# All users may need a few nodes more than those of a pilot.
N_MORE = 2

Curves = tuple[FloatArray, ...]


def over_grid(
    curves: Callable[[FloatArray, bool], Curves],
    grid: FloatArray,
    powers: tuple[int, ...] = (1, 2),
    *,
    slopes: bool = False,
) -> Curves | None:
    """Return functions at each point of an ascending grid, (n_grid, k) arrays; None: ask for each point.

    A function that is analytic around the range of the grid is a Chebyshev series whose coefficients fall
    geometrically. Where those of all functions fall to rounding with fewer nodes than the grid has points,
    the series is summed at the grid, and differs from the functions by rounding of their largest values. A
    pilot tells how many nodes that takes: at most half as many as points. The number is checked; where it is
    too small, as many nodes come between them. Functions with kinks have no such series.

    Parameters
    ----------
    curves : function
        Points (n,), pilot -> one or more arrays (n, k) of k functions each: values, squared errors. With
        pilot=True they may be those of a few users, which have the same kind of series.
    grid : (n_grid,) float array
    powers : tuple of int
        The unit of each array as a power of that of the first, below whose rounding it is nothing.
    slopes : bool
        Whether the derivatives of the first array come behind it, from its series.

    References
    ----------
    Trefethen, Approximation theory and approximation practice, SIAM 2013, chapters 3, 8 and 19,
    doi 10.1137/1.9781611975949.

    Examples
    --------
    >>> grid = np.linspace(0, 3, 200)
    >>> sizes = []
    >>> found = over_grid(lambda at, pilot: (sizes.append(at.size) or np.exp(at)[:, None],), grid)
    >>> sizes, bool(np.abs(found[0][:, 0] / np.exp(grid) - 1).max() < 1e-13)
    ([97, 22], True)
    """
    if grid.size < SHORTEST:
        return None
    most = min(MOST_NODES, grid.size // 2)
    centre, half = (grid[0] + grid[-1]) / 2, (grid[-1] - grid[0]) / 2

    def nodes(n: int) -> FloatArray:
        return np.asarray(centre + half * np.cos(np.pi * np.arange(n) / (n - 1)))

    n = _series(curves(nodes(most), True), powers, slopes)[1] + N_MORE
    if n > most:
        return None
    found = curves(nodes(n), False)
    for size in (n, 2 * n - 1):
        if size > n:  # every other node is one of those before
            new = curves(nodes(size)[1::2], False)
            found = tuple(_between(*pair) for pair in zip(found, new, strict=True))
        series, needed = _series(found, powers, slopes)
        if needed <= size:
            sums = chebvander((grid - centre) / half, size - 1)
            values = [sums[:, : one.shape[0]] @ one for one in series]
            if slopes:
                values[1] /= half
            return tuple(values)
    return None


def _series(found: Curves, powers: tuple[int, ...], slopes: bool) -> tuple[list[FloatArray], int]:
    """Return the series of all functions, and how many terms they need together."""
    series, units = [_coefficients(one) for one in found], list(powers[: len(found)])
    rounding = RESOLVED * np.abs(found[0]).max(axis=0)
    if slopes:
        series.insert(1, np.asarray(chebder(series[0])))
        units.insert(1, 1)
    sizes = (_resolved(one, rounding**unit) for one, unit in zip(series, units, strict=True))
    return series, max(sizes) + N_LAST


def _between(old: FloatArray, new: FloatArray) -> FloatArray:
    joined = np.empty((old.shape[0] + new.shape[0], *old.shape[1:]))
    joined[::2], joined[1::2] = old, new
    return joined


def _coefficients(values: FloatArray) -> FloatArray:
    found = dct(values, type=1, axis=0) / (values.shape[0] - 1)
    found[[0, -1]] /= 2
    return np.asarray(found)


def _resolved(series: FloatArray, rounding: FloatArray) -> int:
    """Return from which term on all functions have nothing but rounding."""
    size = np.abs(series)
    counts = ~(size <= np.maximum(RESOLVED * size.max(axis=0), rounding)).all(axis=1)
    return int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 0
