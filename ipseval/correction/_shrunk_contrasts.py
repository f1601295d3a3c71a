"""Contrasts of recommenders along the path, drawn to those of AOA as far as their noise asks for."""

from __future__ import annotations

import numpy as np

from ipseval._base.types import BoolArray, FloatArray, IntArray

# Standard deviations of what a line in AOA leaves over, in sizes of the correction.
RESTS = np.concatenate([[0.0], np.geomspace(0.01, 3, 10)])
FEWEST = 3  # recommenders: a line through two leaves nothing over
TINY = 1e-8  # variance; equal recommenders make covariances singular


def steadied(
    value: FloatArray,
    covariance: FloatArray,
    cross: FloatArray,
    spread: FloatArray,
    metric: IntArray,
    chosen: BoolArray,
    reference: int,
) -> tuple[FloatArray, FloatArray]:
    """Return θ(α) and its covariance, with contrasts of recommenders drawn to those of AOA.

    Weights add noise: the order by θ(α) is often worse than that by x = θ(0), though every level is nearer to
    the truth. So for each α and metric y = θ(α) is taken as a line in x plus a rest,

        y = a + b x + e + noise,   e ~ N(0, τ² K),   noise of y − b x ~ N(0, Ω),

    with K the covariance of contributions in units of the correction's size, and Ω from the influence of
    users. With flat priors of a and b the mean is ŷ = y − ΩΠy, Π = Q(Q'(τ²K + Ω)Q)⁻¹Q', Q orthogonal to
    (1, x), and it is averaged over τ by its restricted likelihood, all metrics together: kriging. Where the
    rest is larger than its noise, ŷ is y; where it is noise, ŷ is the line.

    The covariance is that of ŷ by the influence of users, plus what the pull may have lost:
    E[τ²(I − G)K(I − G)'] + Var(Gy), G = I − ΩΠ.

    Parameters
    ----------
    value : (n_grid, n_cells) array
        θ at strengths of one basis; the first is 0.
    covariance, cross : (n_grid, n_cells, n_cells) arrays
        Sampling covariance of θ(α), and of θ(α) with θ(0).
    spread : (n_cells, n_cells) array
        Covariance of the contributions.
    metric : (n_cells,) int array
        Which metric each cell is of.
    chosen : (n_cells,) bool array
        Cells to draw; the others stay. A metric with fewer than three recommenders stays, too.
    reference : int
        Place of the strength at which the size of the correction is measured.

    References
    ----------
    Stein 1999, Interpolation of Spatial Data, ch. 1 (universal kriging).
    """
    n_grid, n = value.shape
    hat = np.broadcast_to(np.eye(n), (n_grid, RESTS.size, n, n)).copy()
    slope, unit = np.zeros((n_grid, n)), np.zeros(n)
    fit = np.zeros((n_grid, RESTS.size))
    for one in np.unique(metric[chosen]):
        cells = np.flatnonzero(metric == one)
        (row, column), x = np.ix_(cells, cells), value[0, cells]
        variance = float(np.diag(spread)[cells].mean())
        if cells.size < FEWEST or np.ptp(x) == 0 or variance == 0:
            continue
        unit[cells] = np.abs(x - value[reference, cells]).mean() / np.sqrt(variance)
        rest = spread[row, column] * unit[cells[0]] ** 2
        own = covariance[:, row, column], cross[:, row, column]
        b, more, hat[:, :, row, column] = _drawn(value[:, cells], *own, rest)
        slope[:, cells] = b[:, None]
        fit += more
    share = np.exp(fit - fit.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    # Strength 0 is AOA itself: there the line leaves nothing over.
    each = np.einsum("gtij,gj->gti", hat, value)
    mean = np.einsum("gt,gti->gi", share, each)
    lost = np.eye(n) - hat
    prior = spread * np.outer(unit, unit)
    extra = np.einsum("gt,gtij->gij", share * RESTS**2, lost @ prior @ lost.transpose(0, 1, 3, 2))
    apart = (each - mean[:, None]) * np.sqrt(share)[..., None]
    extra += apart.transpose(0, 2, 1) @ apart
    own = np.einsum("gt,gtij->gij", share, hat)
    lent = (np.eye(n) - own) * slope[:, None, :]
    both = own @ cross @ lent.transpose(0, 2, 1)
    sampled = own @ covariance @ own.transpose(0, 2, 1) + lent @ covariance[0] @ lent.transpose(0, 2, 1)
    found = sampled + both + both.transpose(0, 2, 1) + extra
    mean[0], found[0] = value[0], covariance[0]
    return mean, (found + found.transpose(0, 2, 1)) / 2


def _drawn(
    value: FloatArray, covariance: FloatArray, cross: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return b, (n_grid,), and for each τ the log likelihood and G = I − ΩΠ, (n_grid, n_rests, …)."""
    x, one = value[0], np.eye(value.shape[1])
    b = value @ (x - x.mean()) / (x.var() * x.size)
    each = b[:, None, None]
    noise = covariance + each**2 * covariance[0] - each * (cross + cross.transpose(0, 2, 1)) + TINY * one
    basis = np.linalg.qr(np.column_stack([np.ones_like(x), x]), mode="complete")[0][:, 2:]
    left = basis.T @ (noise[:, None] + RESTS[:, None, None] ** 2 * rest) @ basis
    over = (value @ basis)[:, None, :, None]
    fit = -((over * np.linalg.solve(left, over)).sum(axis=(-2, -1)) + np.linalg.slogdet(left)[1]) / 2
    pull = basis @ np.linalg.solve(left, np.broadcast_to(basis.T, (*left.shape[:2], *basis.T.shape)))
    return b, fit, one - noise[:, None] @ pull
