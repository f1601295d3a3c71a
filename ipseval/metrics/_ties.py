"""Exact expectations over random tie breaking, and the places that tied positives take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics.base import buckets, place_in_user
from ipseval.ranking import RankedPositives
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import BoolArray, FloatArray, IntArray, TieRule, readonly


@cache
def gauss_sum(size: int, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights with Σ_{x=0}^{size−1} f(x) = Σ weight·f(node), (n_nodes,) each.

    Exact for polynomials of degree < 2 `n_nodes`: the Gauss rule of the uniform measure on whole numbers,
    from the recurrence of the discrete Chebyshev polynomials. Up to `n_nodes` numbers are the rule
    themselves.

    References
    ----------
    Golub & Welsch (1969), doi:10.1090/S0025-5718-69-99647-1

    Examples
    --------
    >>> node, weight = gauss_sum(1000, 16)
    >>> node.size, round(float(weight @ node**3)) == sum(x**3 for x in range(1000))
    (16, True)
    """
    if size <= n_nodes:
        return readonly(np.arange(float(size))), readonly(np.ones(size))
    k = np.arange(1.0, n_nodes)
    off_diagonal = k / 2 * np.sqrt((float(size) ** 2 - k**2) / (4 * k**2 - 1))
    values, vectors = np.linalg.eigh(np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1))
    return readonly(values + (size - 1) / 2), readonly(size * vectors[0] ** 2)


MOST_LEVELS = 4_000


@dataclass(frozen=True)
class Prefix:
    """Prefix sums as unevaluated sums of two floats, so that differences keep all their digits."""

    # A difference of plain sums at rank 100,000 carries the rounding of 6,000 into a value of .06, and
    # average precision multiplies it by the rank.

    high: FloatArray
    low: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Prefix:
        """Return the prefix sums of `values`, beginning with the empty sum."""
        high = np.concatenate([[0.0], np.cumsum(values)])
        # Knuth's two-sum: what each addition of the running sum rounded away.
        before, total = high[:-1], high[1:]
        added = total - before
        error = (before - (total - added)) + (values - added)
        return cls(high, np.concatenate([[0.0], np.cumsum(error)]))

    def between(self, start: IntArray, stop: IntArray) -> FloatArray:
        """Return Σ values[start:stop]; positions beyond the end stand for the end."""
        last = self.high.size - 1
        start, stop = np.minimum(start, last), np.minimum(stop, last)
        return np.asarray((self.high[stop] - self.high[start]) + (self.low[stop] - self.low[start]))


@dataclass(frozen=True)
class Table:
    """One bucket of users: rows are users, columns their positives from best to worst, padded.

    `above` and `size` say that the positives of one tie group take a uniformly random choice of the ranks
    above + 1 … above + size; padding has relevance 0. `first` and `last` are the columns where the positive's
    own tie group begins and ends.
    """

    above: IntArray
    size: IntArray
    first: IntArray
    last: IntArray
    is_real: BoolArray

    @property
    def group_count(self) -> IntArray:
        """Number of positives in the tie group of each entry."""
        return self.last - self.first + 1


def tie_group_sizes(ranked: RankedPositives) -> IntArray:
    """Return how many of its user's positives share the score of each positive, itself included, (n_pos,)."""
    # Positives beyond the end of top-K lists share a rank (stored as K + 1) without being tied.
    order = ranked.by_rank
    sizes = np.diff(np.flatnonzero(_opens(ranked)), append=order.size)
    result = np.empty(order.size, dtype=np.int64)
    result[order] = np.repeat(sizes, sizes)
    return np.minimum(result, ranked.n_tied + 1)


def _opens(ranked: RankedPositives) -> BoolArray:
    """Return whether a positive has another rank than the one before it of its user, by ranks, (n_pos,)."""
    below = np.diff(ranked.n_above[ranked.by_rank], prepend=-1) != 0
    opens: BoolArray = below | (place_in_user(ranked) == 0)
    return opens


def positives_above(ranked: RankedPositives) -> tuple[IntArray, IntArray]:
    """Return how many of its user's positives are above and tied with each positive, (n_pos,) both.

    Of whole rankings alone: positives beyond the end of a list are above each other in any order.
    """
    if ranked.sampling is not None and ranked.sampling.order is not None:  # draws may differ between them
        return ranks_within_group(ranked.user, -ranked.sampling.order)
    order = ranked.by_rank
    place = place_in_user(ranked)  # before and after that order the same
    if not ranked.has_ties:
        above = np.empty_like(place)
        above[order] = place
        return above, np.zeros_like(place)
    size = tie_group_sizes(ranked)
    above = np.empty_like(place)
    above[order] = place[np.maximum.accumulate(np.where(_opens(ranked), np.arange(order.size), 0))]
    return above, size - 1


def places(ranked: RankedPositives, rule: TieRule) -> tuple[IntArray, IntArray]:
    """Return (above, size): each positive takes one of the ranks above + 1 … above + size at random."""
    # Under "min" and "max" a group shrinks to its positives, whose order stays random: no two share a rank.
    size = ranked.n_tied + 1
    if rule not in ("min", "max") or not ranked.has_ties:
        return ranked.n_above, size
    together = tie_group_sizes(ranked)
    return (ranked.n_above if rule == "min" else ranked.n_above + size - together), together


def table(above: IntArray, size: IntArray, rows: IntArray) -> Table:
    """Return the tie structure of one bucket (see `buckets`) from the places of all positives."""
    is_real = rows >= 0
    beyond = np.iinfo(np.int64).max // 4
    above = np.where(is_real, above[rows], beyond)
    size = np.where(is_real, size[rows], 1)
    column = np.broadcast_to(np.arange(rows.shape[1]), rows.shape)
    if (size == 1).all():
        return Table(above, size, column, column, is_real)
    starts = np.diff(above, axis=1, prepend=-1) != 0
    ends = np.ones_like(starts)
    ends[:, :-1] = starts[:, 1:]
    first = np.maximum.accumulate(np.where(starts, column, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, column, rows.shape[1])[:, ::-1], axis=1)[:, ::-1]
    return Table(above, size, first, last, is_real)


def of_lists(
    ranked: RankedPositives,
    where: tuple[IntArray, IntArray],
    values: FloatArray,
    value_of: Callable[[Table, FloatArray], FloatArray],
) -> FloatArray:
    """Return the value of each user, which `value_of` makes of the ties and `values` (n_pos,) of a bucket."""
    # `where`: above and size, as `places` returns them.
    result = np.empty(ranked.starts.size)
    for members, rows in buckets(ranked):
        result[members] = value_of(table(*where, rows), by_bucket(values, rows))
    return result


def by_bucket(values: FloatArray, rows: IntArray) -> FloatArray:
    """Return values (n_pos,) in the shape of `rows`, 0 in the padding."""
    return np.where(rows >= 0, values[rows], 0.0)


def before(values: FloatArray, column: IntArray, *, product: bool = False) -> FloatArray:
    """Return the sum (or product) of the entries of each row before the given columns."""
    running = np.cumprod(values, axis=1) if product else np.cumsum(values, axis=1)
    start = np.full((values.shape[0], 1), 1.0 if product else 0.0)
    return np.take_along_axis(np.concatenate([start, running], axis=1), column, axis=1)


def harmonic(depth: int) -> Prefix:
    """Return H_0 … H_depth, H_j = Σ_{r≤j} 1/r, as prefix sums."""
    return Prefix.of(1.0 / np.arange(1.0, depth + 1))


def miss_probability(miss: FloatArray, is_member: BoolArray, slots: IntArray, size: IntArray) -> FloatArray:
    """Return E[Π miss over the members of a tie group in its first `slots` places], (n,); miss = 1 − y."""
    # Members (n, width) take a random choice of `size` places. With j of the first i among the first `slots`,
    # the next is too with probability (slots − j)/(size − i): no cancellation for y in [0, 1].
    n, width = miss.shape
    if not miss[is_member].any():  # plain: nobody of the members may stand there
        earlier: IntArray = np.cumsum(is_member, axis=1) - is_member
        outside = 1 - slots[:, None] / np.maximum(size[:, None] - earlier, 1)
        return np.asarray(np.where(is_member, outside, 1.0).cumprod(axis=1)[:, -1])
    most = min(width, int(slots.max()))  # more than there are slots never stand in them
    state = np.zeros((n, most + 1))
    state[:, 0] = 1.0
    j = np.arange(most + 1)
    placed = np.zeros(n, dtype=np.int64)
    for column in range(width):
        active = is_member[:, column]
        left = np.maximum(size - placed, 1)[:, None]
        inside = (slots[:, None] - j) / left
        moved = state * (1 - inside)
        moved[:, 1:] += (state * inside)[:, :-1] * miss[:, [column]]
        state = np.where(active[:, None], moved, state)
        placed += active
    return np.asarray(state.sum(axis=1), dtype=np.float64)


def mean_products(miss: FloatArray, is_member: BoolArray, most: int) -> FloatArray:
    """Return D_l, the mean of Π (1 − y) over all l-subsets of the members, (n, most + 1); D_0 = 1."""
    n, width = miss.shape
    means = np.zeros((n, most + 1))
    means[:, 0] = 1.0
    if not miss[is_member].any():
        return means
    if most > MOST_LEVELS:
        raise InputError(
            f"the unbiased value of {width:,} tied positives of a user takes time of the square of that; ask "
            f"for a cutoff of at most {MOST_LEVELS:,}, or for a self-normalised estimator."
        )
    level = np.arange(most + 1)
    count = np.zeros(n, dtype=np.int64)
    for column in range(width):
        active = is_member[:, column]
        count += active
        total = np.maximum(count, 1)[:, None]
        share = level / total
        updated = means * np.maximum(1 - share, 0)
        updated[:, 1:] += means[:, :-1] * miss[:, [column]] * share[:, 1:]
        means = np.where(active[:, None], updated, means)
    return means


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
            is_block = j >= 0
            rows = active[smooth & (exponent == j)] if is_block else active[~smooth]
            nodes, weights = gauss_sum(1 << int(j), N_NODES) if is_block else gauss_sum(SHORTEST, SHORTEST)
            step = max(1, CELLS // nodes.size)
            for first in range(0, rows.size, step):
                part = rows[first : first + step]
                p: FloatArray = place[part, None] + nodes
                law = np.where(is_block | (p <= deepest[part, None]), weights, 0.0)
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
