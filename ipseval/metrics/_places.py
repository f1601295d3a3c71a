"""Mean reciprocal of the places that tied positives take: E[1/(above + p_(l))], exactly, in large groups."""

from __future__ import annotations

import numpy as np

from ipseval._types import FloatArray, IntArray
from ipseval.metrics._ties import harmonic

# Groups of up to this many positives go by quadrature: the law of a place is a polynomial of degree
# count − 1 in the place, which N_NODES Gauss nodes integrate exactly together with 25 terms of 1/r.
MOST_BY_QUADRATURE = 24
N_NODES = 24
SMALLEST_BLOCK = 64
CELLS = 2_000_000


def reciprocal_places(above: IntArray, size: IntArray, count: IntArray, deepest: IntArray) -> FloatArray:
    """Return E[1{p_(l) ≤ deepest} / (above + p_(l))] for l = 1 … count, (n, largest count), 0 beyond.

    p_(l) is the l-th smallest of a random `count`-subset of the places 1 … `size`.
    """
    result = np.zeros((above.size, int(count.max(initial=1))))
    alone = np.flatnonzero(count == 1)
    if alone.size:
        # Every place has the same chance.
        low, high = above[alone], above[alone] + deepest[alone]
        result[alone, 0] = harmonic(int(high.max())).between(low, high) / size[alone]
    for g in np.unique(count[count > 1]):
        rows = np.flatnonzero((count == g) & (deepest > 0))
        if not rows.size:
            continue
        if g <= MOST_BY_QUADRATURE:
            result[rows, :g] = _by_quadrature(above[rows], size[rows], int(g), deepest[rows])
        else:
            _place_by_place(result, rows, above, size, int(g), deepest)
    return result


def _by_quadrature(above: IntArray, size: IntArray, g: int, deepest: IntArray) -> FloatArray:
    """Sum over blocks of 2^j places, 2^j at most the rank of the first, where 1/r is smooth.

    A sum over the integers of a block is a Gauss quadrature for the uniform measure on them.
    """
    result = np.zeros((above.size, g))
    place = np.ones(above.size, dtype=np.int64)
    active = np.arange(above.size)
    integers = np.arange(float(SMALLEST_BLOCK))
    while active.size:
        left = deepest[active] - place[active] + 1
        # frexp gives the exponent of the largest power of two without rounding.
        exponent = np.frexp(np.minimum(above[active] + place[active], left).astype(np.float64))[1] - 1
        length = np.left_shift(1, exponent)
        length = np.where(length < SMALLEST_BLOCK, np.minimum(left, SMALLEST_BLOCK), length)
        short = (length < SMALLEST_BLOCK) | (exponent < np.log2(SMALLEST_BLOCK))
        for j in np.unique(np.where(short, -1, exponent)):
            chosen = active[short] if j < 0 else active[~short & (exponent == j)]
            if j < 0:
                nodes, weights = integers, (integers < length[short][:, None]).astype(np.float64)
            else:
                nodes, weights = gauss_nodes(1 << int(j))
            _add_block(result, chosen, place, above, size, nodes, weights)
        place[active] += length
        active = active[place[active] <= deepest[active]]
    return result


def _add_block(
    result: FloatArray,
    rows: IntArray,
    place: IntArray,
    above: IntArray,
    size: IntArray,
    nodes: FloatArray,
    weights: FloatArray,
) -> None:
    """Add Σ_nodes weight · P(p_(l) = p) / (above + p) to `result[rows, l]`.

    P(p_(l) = p) = g C(g−1, l−1) Π_{j=1}^{l−1} (p − j) Π_{j=0}^{g−l−1} (t − p − j) / Π_{j=0}^{g−1} (t − j).
    """
    g = result.shape[1]
    step = max(1, CELLS // (nodes.size * (g + 2)))
    for first in range(0, rows.size, step):
        part = rows[first : first + step]
        t = size[part, None].astype(np.float64)
        p = place[part, None] + nodes
        factor = (weights if weights.ndim == 1 else weights[first : first + step]) / (above[part, None] + p)
        later = np.empty((g, *p.shape))
        later[g - 1] = factor * (g / t) * np.prod([t / (t - j) for j in range(1, g)], axis=0)
        for j in range(g - 1):
            later[g - 2 - j] = later[g - 1 - j] * ((t - p - j) / t)
        earlier, binomial = np.ones(p.shape), 1.0
        for level in range(g):
            result[part, level] += binomial * (earlier * later[level]).sum(axis=1)
            earlier = earlier * ((p - level - 1) / t)
            binomial *= (g - 1 - level) / (level + 1)


def gauss_nodes(length: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights that sum polynomials of degree < 2 N_NODES over 0 … length − 1 exactly.

    From the three-term recurrence of the discrete Chebyshev (Gram) polynomials, after Golub and Welsch.
    """
    n = np.arange(1.0, N_NODES)
    off_diagonal = np.sqrt(n**2 * (float(length) ** 2 - n**2) / (4 * (4 * n**2 - 1)))
    values, vectors = np.linalg.eigh(np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1))
    return values + (length - 1) / 2, length * vectors[0] ** 2


def _place_by_place(
    result: FloatArray, rows: IntArray, above: IntArray, size: IntArray, g: int, deepest: IntArray
) -> None:
    """Fill the rows of `result` by summing over every place."""
    for row in rows:
        p = np.arange(1, int(deepest[row]) + 1)
        for level in range(1, g + 1):
            law = order_statistic(p, int(size[row]), g, level)
            result[row, level - 1] = float((law / (above[row] + p)).sum())


def order_statistic(p: IntArray, size: int, count: int, level: int) -> FloatArray:
    """Return P(p_(level) = p) = C(p−1, level−1) C(size−p, count−level) / C(size, count), (len(p),).

    p_(level) is the level-th smallest, level ≤ count, of a random `count`-subset of 1 … `size`; p = 1, 2, ….
    Built from the ratios of neighbouring p, which are near 1: differences of log-factorials would lose the
    digits that log 100,000! has before the point.
    """
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
    law[level:] = np.where(possible, np.exp(logs), 0.0)
    return law
