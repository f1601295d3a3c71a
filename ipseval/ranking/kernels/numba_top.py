"""The items of each user of a block that may be among its k best, kept in the pass that counts; by Numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipseval._base.types import AnyArray, BoolArray, FloatArray, IntArray
from ipseval.ranking.kernels.blocks import Gathered, Shape
from ipseval.ranking.kernels.numba_compile import borrowing, compiled

LANES = 128  # at most, of a tile: NaN where there are fewer
DEEP = 8  # products of a lane: lanes are what is searched first, by the largest of each
GROUP = 32  # of these that are searched together for one that may count
FEW = 512  # scores of a user up to which comparing all pairs is faster than sorting

_i32: Any = np.int32


class Top(NamedTuple):
    """The items of each user of a block that may be among its k best, by their products."""

    item: AnyArray  # (b, width), or (b, 0): nothing is kept
    score: AnyArray  # (b, width)
    size: IntArray  # (b,) how many are kept; −1: too many to tell apart
    best: AnyArray  # (b, k) the k best products so far, ascending
    low: AnyArray  # (b,) products below cannot count
    slack: AnyArray  # (b,) how far below the k-th best product an item of the k best can be
    lane: AnyArray  # (LANES,)

    @classmethod
    def empty(cls, shape: Shape) -> Top:
        """Return room for the users of a block."""
        n, width, dtype = shape.n_users, shape.room, shape.dtype
        assert shape.n_items <= LANES * DEEP
        return cls(
            np.empty((n, width), dtype=np.int32),
            np.empty((n, width), dtype=dtype),
            np.zeros(n, dtype=np.int64),
            np.empty((n, shape.top_k), dtype=dtype),
            np.empty(n, dtype=dtype),
            np.zeros(n, dtype=dtype),
            np.empty(LANES, dtype=dtype),
        )

    def begin(self, slack: FloatArray) -> None:
        """Take up other users."""
        self.size[:] = 0
        self.best[:] = self.low[:] = -np.inf
        self.slack[: slack.size] = slack

    def gathered(self, n_users: int) -> Gathered:
        """Return what may be among the k best of the first users."""
        size = self.size[:n_users]
        row, item = np.empty((2, int(np.maximum(size, 0).sum())), dtype=np.int64)
        product = np.empty(row.size, dtype=self.score.dtype)
        found = _collect(self, n_users, row, item, product)
        crowded = np.flatnonzero(size < 0)
        return Gathered(row[:found], item[:found], product[:found], self.low[:n_users], crowded)


@borrowing
def keep_best(scores: AnyArray, first: int, top: Top, row: int) -> None:
    """Keep what may be among the k best: found by the largest product of each lane, as lanes are few."""
    # Arrays are read by row and place, as making a view of each row takes longer than what is done with it.
    item, score, best, lane = top.item, top.score, top.best, top.lane
    room, n = item.shape[1], top.size[row]
    if room == 0 or n < 0:
        return
    n_lanes, slack = _largest(scores, lane), top.slack[row]
    if n == 0 and 2 * best.shape[1] <= n_lanes:  # what is below k of these, each another item, cannot count
        for j in range(n_lanes):
            _insert(best, row, lane[j])
        top.low[row] = max(top.low[row], best[row, 0] - slack)
        best[row, :] = -np.inf
    low = top.low[row]
    for begin in range(0, LANES, GROUP):
        close = _i32(0)
        for j in range(begin, begin + GROUP):
            close = _i32(close + _i32(lane[j] >= low))
        if close == 0:
            continue
        for j in range(begin, begin + GROUP):
            if not lane[j] >= low:
                continue
            for i in range(j, scores.size, n_lanes):
                x = scores[i]
                if x >= low:
                    if n == room:
                        n = _leave_out(item, score, row, low)
                        if 4 * n > 3 * room:
                            top.size[row] = -1
                            return
                    item[row, n], score[row, n] = first + i, x
                    n += 1
                    _insert(best, row, x)
                    low = max(low, best[row, 0] - slack)
    top.size[row], top.low[row] = n, low


@borrowing
def _largest(scores: AnyArray, lane: AnyArray) -> int:
    """Return the number n of lanes, with the largest of the products j, j + n, j + 2n, … in `lane[j]`."""
    # NaN is left out: a comparison with it is false.
    size, n = scores.size, scores.size // DEEP
    lane[0] = -np.inf
    nothing = lane[0]  # in the precision of the products
    lane[min(n, LANES - GROUP) :] = np.nan
    if n < DEEP:
        for j in range(size):
            lane[j] = scores[j]
        return size
    # Eight rows that are read at once: the loop becomes vector instructions, and each lane is written once.
    a, b, c, d = scores[:n], scores[n : 2 * n], scores[2 * n : 3 * n], scores[3 * n : 4 * n]
    e, f, g, h = scores[4 * n : 5 * n], scores[5 * n : 6 * n], scores[6 * n : 7 * n], scores[7 * n : 8 * n]
    for j in range(n):
        p = a[j] if a[j] > nothing else nothing
        q = b[j] if b[j] > nothing else nothing
        p = c[j] if c[j] > p else p
        q = d[j] if d[j] > q else q
        p = e[j] if e[j] > p else p
        q = f[j] if f[j] > q else q
        p = g[j] if g[j] > p else p
        q = h[j] if h[j] > q else q
        lane[j] = p if p > q else q
    for i in range(DEEP * n, size):
        j = i - DEEP * n
        lane[j] = scores[i] if scores[i] > lane[j] else lane[j]
    return n


@borrowing
def _insert(best: AnyArray, row: int, x: float) -> None:
    """Put a product in its place among the best of a user, ascending; the least of them leaves."""
    if not x > best[row, 0]:
        return
    last = best.shape[1] - 1
    for place in range(last):
        here, after = best[row, place], best[row, place + 1]
        here = here if here > x else x
        best[row, place] = after if after < here else here
    best[row, last] = best[row, last] if best[row, last] > x else x


@borrowing
def _leave_out(item: AnyArray, score: AnyArray, row: int, low: float) -> int:
    """Leave out what is below the lowest product that counts; return how many stay, in their order."""
    kept = 0
    for j in range(item.shape[1]):
        item[row, kept], score[row, kept] = item[row, j], score[row, j]
        kept += score[row, j] >= low
    return kept


@compiled
def _collect(top: Top, n_users: int, row: IntArray, item: IntArray, product: AnyArray) -> int:
    """Write the user's row, item and product of all that may count, in order; return their number."""
    found = 0
    for r in range(n_users):
        first = found
        for j in range(top.size[r]):
            if top.score[r, j] >= top.low[r]:
                place, new = found, top.item[r, j]
                while place > first and item[place - 1] > new:  # in order but within a tile
                    item[place], product[place] = item[place - 1], product[place - 1]
                    place -= 1
                row[found], item[place], product[place] = r, new, top.score[r, j]
                found += 1
    return found


def ranks_in_rows(row: IntArray, score: FloatArray) -> tuple[IntArray, IntArray]:
    """Return how many entries of the same row score higher than, and tie with, each; rows are ascending."""
    ranks: tuple[IntArray, IntArray] = _ranks_in_rows(row, score, _orders(row, -score))
    return ranks


def close_in_rows(row: IntArray, product: AnyArray, slack: FloatArray) -> BoolArray:
    """Return which entries have another of the same row at most `slack[row]` away; rows are ascending."""
    close: BoolArray = _close_in_rows(row, product, slack, _orders(row, product))
    return close


def _orders(row: IntArray, value: AnyArray) -> IntArray:
    """Return what sorts each row of more than `FEW` entries, (n,); empty where there is none."""
    # By NumPy: it is faster, and Numba needs seconds to compile a sort.
    size = np.bincount(row)
    last = np.cumsum(size)
    large = size > FEW
    if not large.any():
        return np.zeros(0, dtype=np.int64)
    order = np.empty(row.size, dtype=np.int64)
    for begin, end in zip((last - size)[large].tolist(), last[large].tolist(), strict=True):
        order[begin:end] = np.argsort(value[begin:end])
    return order


@compiled
def _ranks_in_rows(row: IntArray, score: FloatArray, orders: IntArray) -> tuple[IntArray, IntArray]:
    n_above, n_tied = np.empty(row.size, dtype=np.int64), np.empty(row.size, dtype=np.int64)
    first = 0
    while first < row.size:
        last = first + 1
        while last < row.size and row[last] == row[first]:
            last += 1
        own = score[first:last]
        if own.size <= FEW:
            for j in range(own.size):
                above, reach = 0, 0
                for i in range(own.size):
                    above += own[i] > own[j]
                    reach += own[i] >= own[j]
                n_above[first + j], n_tied[first + j] = above, reach - above - 1
        else:
            order = orders[first:last]
            level = 0
            while level < order.size:
                after = level + 1
                while after < order.size and own[order[after]] == own[order[level]]:
                    after += 1
                for j in range(level, after):
                    n_above[first + order[j]], n_tied[first + order[j]] = level, after - level - 1
                level = after
        first = last
    return n_above, n_tied


@compiled
def _close_in_rows(row: IntArray, product: AnyArray, slack: FloatArray, orders: IntArray) -> BoolArray:
    close = np.zeros(row.size, dtype=np.bool_)
    first = 0
    while first < row.size:
        last = first + 1
        while last < row.size and row[last] == row[first]:
            last += 1
        own, margin = product[first:last], slack[row[first]]
        if own.size <= FEW:
            for j in range(own.size):
                near = 0
                for i in range(own.size):
                    near += abs(own[i] - own[j]) <= margin
                close[first + j] = near > 1
        else:
            order = orders[first:last]
            for j in range(1, order.size):
                if own[order[j]] - own[order[j - 1]] <= margin:
                    close[first + order[j]] = close[first + order[j - 1]] = True
        first = last
    return close
