"""Means over the random positions of positives inside one tie group.

A tie group has t positions, of which its g positives take a random subset of size g. The l-th smallest of
them, p_(l), is an order statistic. Average precision and reciprocal rank need the mean of 1/(offset + p_(l)).
In this module t is `n_positions`, g is `n_positives` and l is `order`.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from ipseval.utils.types import FloatArray, IntArray, as_readonly

# Groups of up to this many positives use quadrature: the probability of a position is a polynomial of degree
# g − 1 in the position, which N_NODES Gauss nodes integrate exactly together with 25 terms of 1/r.
MAX_QUADRATURE_POSITIVES = 24
N_NODES = 24
MIN_GAUSS_BLOCK = 64  # shorter blocks are summed position by position
MAX_CELLS = 2_000_000  # entries of the arrays that are computed at once
BINOMIAL = np.array([
    [math.comb(n, k) for k in range(MAX_QUADRATURE_POSITIVES)]
    for n in range(MAX_QUADRATURE_POSITIVES)
])  # fmt: skip

# In groups of more than `MIN_INTERPOLATED` positives, orders are interpolated: the first orders are all
# knots, the others have `N_KNOTS` knots on a logarithmic scale.
MIN_INTERPOLATED = 1_000
N_FIRST_KNOTS = 48
N_KNOTS = 120


@cache
def compute_gauss_rule(size: int, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights with Σ_{x=0}^{size−1} f(x) = Σ weight·f(node), (n_nodes,) each.

    The sum is exact for polynomials of degree < 2 `n_nodes`. It is the Gauss rule of the uniform measure on
    integers, from the recurrence of the discrete Chebyshev polynomials. For sizes up to `n_nodes`, the nodes
    are the integers themselves.

    References
    ----------
    Golub & Welsch (1969), doi:10.1090/S0025-5718-69-99647-1

    Examples
    --------
    >>> node, weight = compute_gauss_rule(1000, 16)
    >>> node.size, round(float(weight @ node**3)) == sum(x**3 for x in range(1000))
    (16, True)
    """
    if size <= n_nodes:
        return as_readonly(np.arange(float(size))), as_readonly(np.ones(size))
    k = np.arange(1.0, n_nodes)
    off_diagonal = k / 2 * np.sqrt((float(size) ** 2 - k**2) / (4 * k**2 - 1))
    eigenvalues, eigenvectors = np.linalg.eigh(np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1))
    return as_readonly(eigenvalues + (size - 1) / 2), as_readonly(size * eigenvectors[0] ** 2)


def compute_mean_reciprocal(
    offset: FloatArray, n_positions: IntArray, n_positives: IntArray, order: IntArray, last_position: IntArray
) -> FloatArray:
    """Return E[1{p ≤ last_position} / (offset + p)] of p = p_(order), in the shape (n, k) of `offset`.

    The other arguments have shape (n,), and offset + order > 0.
    """
    result = np.zeros(offset.shape)
    is_reachable = last_position >= order
    is_large = n_positives > MAX_QUADRATURE_POSITIVES
    for row in np.flatnonzero(is_large & is_reachable):
        position = np.arange(1, int(last_position[row]) + 1)
        probability = compute_order_statistic(
            position, int(n_positions[row]), int(n_positives[row]), int(order[row])
        )
        possible = position >= order[row]
        terms = probability[possible] / (offset[row, :, None] + position[possible])
        result[row] = terms.sum(axis=1)
    rows = np.flatnonzero(~is_large & is_reachable)
    _add_mean_reciprocals(
        result=result,
        rows=rows,
        offset=offset,
        n_positions=n_positions,
        n_positives=n_positives,
        order=order,
        last_position=last_position,
    )
    return result


def _add_mean_reciprocals(
    result: FloatArray,
    rows: IntArray,
    offset: FloatArray,
    n_positions: IntArray,
    n_positives: IntArray,
    order: IntArray,
    last_position: IntArray,
) -> None:
    """Add the means of groups with few positives to the given rows of `result`."""
    # Positions are summed in blocks of 2^j, with 2^j at most the first denominator: there 1/(offset + p) is
    # smooth, and a Gauss rule of few nodes is exact to rounding.
    nearest = offset.min(axis=1)
    start = order.astype(np.int64)  # the first position that is not summed yet
    active = rows
    while active.size:
        remaining = last_position[active] - start[active] + 1
        # frexp gives the exponent of the largest power of two without rounding.
        exponent = np.frexp(np.minimum(nearest[active] + start[active], remaining))[1] - 1
        length = np.left_shift(1, np.maximum(exponent, 0))
        is_gauss = length >= MIN_GAUSS_BLOCK
        for block_exponent in np.unique(np.where(is_gauss, exponent, -1)):
            if block_exponent >= 0:
                block_rows = active[is_gauss & (exponent == block_exponent)]
                nodes, weights = compute_gauss_rule(1 << int(block_exponent), N_NODES)
            else:
                block_rows = active[~is_gauss]
                nodes, weights = compute_gauss_rule(MIN_GAUSS_BLOCK, MIN_GAUSS_BLOCK)
            step = max(1, MAX_CELLS // nodes.size)
            for first in range(0, block_rows.size, step):
                part = block_rows[first : first + step]
                position: FloatArray = start[part, None] + nodes
                node_weights: FloatArray = weights
                if block_exponent < 0:  # the last short block can reach beyond the last position
                    node_weights = np.where(position <= last_position[part, None], weights, 0.0)
                probability = node_weights * _evaluate_order_statistic_polynomial(
                    position, n_positions[part, None], n_positives[part, None], order[part, None]
                )
                for column in range(offset.shape[1]):
                    terms = probability / (offset[part, column, None] + position)
                    result[part, column] += terms.sum(axis=1)
        start[active] += np.where(is_gauss, length, MIN_GAUSS_BLOCK)
        active = active[start[active] <= last_position[active]]


def interpolate_mean_reciprocals(
    offset: FloatArray, n_positions: int, last_position: int, order: IntArray
) -> FloatArray:
    """Return `compute_mean_reciprocal` for every order l = 1 … g of one large group, shaped as `offset`.

    Without a cutoff, E[1/(o + p)] (o + E p) is 1 plus a small term that is smooth in log l. It is computed
    for some orders and interpolated for the others, with an error of 1e-9.
    """
    g = order.size
    if last_position < n_positions:
        knots = np.arange(min(g, last_position))
    else:
        later_knots = np.geomspace(N_FIRST_KNOTS, g, N_KNOTS).round().astype(int) - 1
        knots = np.unique(np.append(np.arange(N_FIRST_KNOTS), later_knots))
    ones = np.full(knots.size, 1, dtype=np.int64)
    exact = compute_mean_reciprocal(
        offset[knots], n_positions * ones, g * ones, order[knots], last_position * ones
    )
    result = np.zeros(offset.shape)
    if last_position == n_positions:
        mean = offset + (order * ((n_positions + 1) / (g + 1)))[:, None]
        result = _interpolate_cubic(np.log(order), np.log(order[knots]), exact * mean[knots]) / mean
    result[knots] = exact
    return result


def _interpolate_cubic(x: FloatArray, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Return the cubic polynomial through the four nearest knots at every x, (n, k)."""
    first = np.clip(np.searchsorted(knots, x) - 2, 0, knots.size - 4)
    nearest = first[:, None] + np.arange(4)
    nearest_knots = knots[nearest]
    result = np.zeros((x.size, values.shape[1]))
    for index in range(4):
        other_columns = [column for column in range(4) if column != index]
        numerator = x[:, None] - nearest_knots[:, other_columns]
        denominator = nearest_knots[:, [index]] - nearest_knots[:, other_columns]
        share = np.prod(numerator / denominator, axis=1)
        result += share[:, None] * values[nearest[:, index]]
    return result


def _evaluate_order_statistic_polynomial(
    p: FloatArray, n_positions: IntArray, n_positives: IntArray, order: IntArray
) -> FloatArray:
    """Return P(p_(order) = p) as a polynomial in p, for groups of few positives."""
    # (g/t) C(g−1, l−1) Π_{1≤j<l} (p − j) Π_{0≤j<g−l} (t − p − j) / Π_{1≤j<g} (t − j)
    choices = BINOMIAL[n_positives - 1, order - 1]
    probability: FloatArray = n_positives / n_positions * choices * np.ones(p.shape)
    for j in range(1, int(n_positives.max())):
        numerator = np.where(j < order, p - j, n_positions - p - (j - order))
        factor = numerator / np.maximum(n_positions - j, 1)
        probability *= np.where(j < n_positives, factor, 1.0)
    return probability


def compute_order_statistic(p: IntArray, n_positions: int, n_positives: int, order: int) -> FloatArray:
    """Return P(p_(l) = p) = C(p−1, l−1) C(t−p, g−l) / C(t, g) for p = 1, 2, …, in the shape of `p`."""
    # Ratios of neighbouring p are near 1. Differences of log-factorials would lose the digits that
    # log 100,000! has before the decimal point.
    probability = np.zeros(p.size)
    # P(p_(l) = l): the first l positions are all taken.
    j = np.arange(order)
    log_first = float(np.log((n_positives - j) / (n_positions - j)).sum())
    later = p[order:].astype(np.float64)
    remaining = n_positions - later + 1
    possible = remaining > n_positives - order
    safe_remaining = np.where(possible, remaining, 1.0)
    log_shrink = np.log1p(-np.where(possible, (n_positives - order) / safe_remaining, 0.0))
    log_later = log_first + np.cumsum(np.log((later - 1) / (later - order))) + np.cumsum(log_shrink)
    probability[order - 1] = np.exp(log_first)
    probability[order:] = np.exp(np.where(possible, log_later, -np.inf))
    return probability
