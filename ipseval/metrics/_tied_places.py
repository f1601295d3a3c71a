"""Mean reciprocal of the places that tied positives take, exactly, also in groups of 100,000."""

from __future__ import annotations

import math

import numpy as np

from ipseval._base.types import FloatArray, IntArray
from ipseval.metrics._quadrature import gauss_sum

# Groups of up to this many positives go by quadrature: the law of a place is a polynomial of degree
# count − 1 in the place, which N_NODES Gauss nodes integrate exactly together with 25 terms of 1/r.
MOST_BY_QUADRATURE = 24
N_NODES = 24
SHORTEST = 64  # shorter blocks are summed place by place
CELLS = 2_000_000
MANY, FIRST, KNOTS = 1_000, 48, 120  # from how many positives levels are interpolated, and between which
BINOMIAL = np.array([[math.comb(n, k) for k in range(MOST_BY_QUADRATURE)] for n in range(MOST_BY_QUADRATURE)])


def mean_reciprocal(
    offset: FloatArray, size: IntArray, count: IntArray, level: IntArray, deepest: IntArray
) -> FloatArray:
    """Return E[1{p ≤ deepest} / (offset + p)] of the `level`-th smallest p, shaped as `offset` (n, k)."""
    # p is of a random `count`-subset of 1 … `size`; offset + level > 0. Places are summed in blocks of 2^j,
    # 2^j at most the first denominator, where 1/(offset + p) is smooth.
    result = np.zeros(offset.shape)
    nearest = offset.min(axis=1)
    for row in np.flatnonzero((count > MOST_BY_QUADRATURE) & (deepest >= level)):
        every = np.arange(1, int(deepest[row]) + 1)
        chance = order_statistic(every, int(size[row]), int(count[row]), int(level[row]))
        possible = every >= level[row]
        result[row] = (chance[possible] / (offset[row, :, None] + every[possible])).sum(axis=1)
    place = level.astype(np.int64)
    active = np.flatnonzero((count <= MOST_BY_QUADRATURE) & (deepest >= place))
    while active.size:
        left = deepest[active] - place[active] + 1
        # frexp gives the exponent of the largest power of two without rounding.
        exponent = np.frexp(np.minimum(nearest[active] + place[active], left))[1] - 1
        smooth = np.left_shift(1, np.maximum(exponent, 0)) >= SHORTEST
        for j in np.unique(np.where(smooth, exponent, -1)):
            rows = active[smooth & (exponent == j)] if j >= 0 else active[~smooth]
            nodes, weights = gauss_sum(1 << int(j), N_NODES) if j >= 0 else gauss_sum(SHORTEST, SHORTEST)
            step = max(1, CELLS // nodes.size)
            for first in range(0, rows.size, step):
                part = rows[first : first + step]
                p: FloatArray = place[part, None] + nodes
                law = np.where((j >= 0) | (p <= deepest[part, None]), weights, 0.0)
                law *= _order_statistic(p, *(one[part, None] for one in (size, count, level)))
                for column in range(offset.shape[1]):
                    result[part, column] += (law / (offset[part, column, None] + p)).sum(axis=1)
        place[active] += np.where(smooth, np.left_shift(1, np.maximum(exponent, 0)), SHORTEST)
        active = active[place[active] <= deepest[active]]
    return result


def mean_reciprocals(offset: FloatArray, size: int, deepest: int, level: IntArray) -> FloatArray:
    """Return what `mean_reciprocal` does for every level l = 1 … g of one large group, shaped as `offset`.

    Without a cutoff, E[1/(o + p)] (o + E p) is 1 and a small part that is smooth in log l: it is computed for
    some levels and interpolated for the others, which leaves an error of 1e-9.
    """
    g = level.size
    if deepest < size:
        knots = np.arange(min(g, deepest))
    else:
        knots = np.unique(np.append(np.arange(FIRST), np.geomspace(FIRST, g, KNOTS).round().astype(int) - 1))
    many = np.full(knots.size, 1, dtype=np.int64)
    exact = mean_reciprocal(offset[knots], size * many, g * many, level[knots], deepest * many)
    result = np.zeros(offset.shape)
    result[knots] = exact
    if deepest == size:
        mean = offset + (level * ((size + 1) / (g + 1)))[:, None]
        result = _interpolated(np.log(level), np.log(level[knots]), exact * mean[knots]) / mean
        result[knots] = exact
    return result


def _interpolated(x: FloatArray, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Return the cubic through the four nearest knots at every x, (n, k)."""
    first = np.clip(np.searchsorted(knots, x) - 2, 0, knots.size - 4)
    near = first[:, None] + np.arange(4)
    at = knots[near]
    found = np.zeros((x.size, values.shape[1]))
    for one in range(4):
        others = [other for other in range(4) if other != one]
        share = np.prod((x[:, None] - at[:, others]) / (at[:, [one]] - at[:, others]), axis=1)
        found += share[:, None] * values[near[:, one]]
    return found


def _order_statistic(p: FloatArray, size: IntArray, count: IntArray, level: IntArray) -> FloatArray:
    """Return (g/t) C(g−1, l−1) Π_{j<l} (p − j) Π_{j<g−l} (t − p − j) / Π_{1≤j<g} (t − j)."""
    # The law of `order_statistic` as a polynomial in p, for few positives; j is from 1 in the first product,
    # from 0 in the second.
    law: FloatArray = count / size * BINOMIAL[count - 1, level - 1] * np.ones(p.shape)
    for j in range(1, int(count.max())):
        factor = np.where(j < level, p - j, size - p - (j - level)) / np.maximum(size - j, 1)
        law *= np.where(j < count, factor, 1.0)
    return law


def order_statistic(p: IntArray, size: int, count: int, level: int) -> FloatArray:
    """Return P(p_(level) = p) = C(p−1, level−1) C(size−p, count−level) / C(size, count), (len(p),)."""
    # By ratios of neighbouring p, which are near 1: differences of log-factorials would lose the digits that
    # log 100,000! has before the point.
    law = np.zeros(p.size)
    if p.size < level:
        return law
    # P(p_(level) = level): the first `level` places are all taken.
    taken = np.arange(level)
    first = float(np.log((count - taken) / (size - taken)).sum())
    later = p[level:].astype(np.float64)
    left = size - later + 1
    possible = left > count - level
    shrink = np.log1p(-np.where(possible, (count - level) / np.where(possible, left, 1.0), 0.0))
    logs = first + np.cumsum(np.log((later - 1) / (later - level))) + np.cumsum(shrink)
    law[level - 1] = np.exp(first)
    law[level:] = np.exp(np.where(possible, logs, -np.inf))
    return law
