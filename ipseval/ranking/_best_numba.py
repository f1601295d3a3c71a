"""The items of each user of a block that may be among its k best, kept in the pass that counts; by Numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipseval._types import AnyArray, BoolArray, FloatArray, IntArray
from ipseval.ranking._batches import Gathered, Shape
from ipseval.ranking._compiled import compiled

LANES = 128  # products of a tile whose largest are found side by side, by vector instructions
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


@compiled
def keep_best(scores: AnyArray, first: int, top: Top, row: int) -> None:
    """Keep what may be among the k best: found by the largest of every LANES-th product, which are few."""
    if top.item.shape[1] == 0 or top.size[row] < 0:
        return
    lane = top.lane
    _largest(scores, lane)
    if top.size[row] == 0 and 2 * top.best.shape[1] <= LANES:
        _begin(lane, top, row)
    low, close = top.low[row], _i32(0)
    for j in range(LANES):
        close = _i32(close + _i32(lane[j] >= low))
    if close > 0:
        _keep(scores, first, top, row)


@compiled
def _begin(lane: AnyArray, top: Top, row: int) -> None:
    """Let what is below the k-th largest of these products, each of another item, not count."""
    best = top.best[row]
    for j in range(LANES):
        if lane[j] > best[0]:
            _insert(best, lane[j])
    top.low[row] = max(top.low[row], best[0] - top.slack[row])
    best[:] = -np.inf


@compiled
def _keep(scores: AnyArray, first: int, top: Top, row: int) -> None:
    """Keep the products that may count, and raise the bound to what k of them reach."""
    item, score, best, lane = top.item[row], top.score[row], top.best[row], top.lane
    n, low, slack = top.size[row], top.low[row], top.slack[row]
    for begin in range(0, LANES, GROUP):
        group = lane[begin : begin + GROUP]
        close = _i32(0)
        for j in range(GROUP):
            close = _i32(close + _i32(group[j] >= low))
        if close == 0:
            continue
        for j in range(begin, begin + GROUP):
            if not lane[j] >= low:
                continue
            for i in range(j, scores.size, LANES):
                x = scores[i]
                if x >= low:
                    if n == item.size:
                        n = _leave_out(item, score, low)
                        if 4 * n > 3 * item.size:
                            top.size[row] = -1
                            return
                    item[n], score[n] = first + i, x
                    n += 1
                    if x > best[0]:
                        _insert(best, x)
                        low = max(low, best[0] - slack)
    top.size[row], top.low[row] = n, low


@compiled
def _largest(scores: AnyArray, lane: AnyArray) -> None:
    """Write the largest of the products j, j + LANES, j + 2 LANES, … to `lane[j]`, NaN left out."""
    whole = scores.size - scores.size % LANES
    for j in range(LANES):
        lane[j] = -np.inf
    for begin in range(0, whole, LANES):
        part = scores[begin : begin + LANES]
        for j in range(LANES):
            lane[j] = part[j] if part[j] > lane[j] else lane[j]
    rest = scores[whole:]
    for j in range(rest.size):
        lane[j] = rest[j] if rest[j] > lane[j] else lane[j]


@compiled
def _insert(best: AnyArray, x: float) -> None:
    """Put a product in its place among the best, ascending; the least of them leaves."""
    last = best.size - 1
    for place in range(last):
        here, after = best[place], best[place + 1]
        here = here if here > x else x
        best[place] = after if after < here else here
    best[last] = best[last] if best[last] > x else x


@compiled
def _leave_out(item: AnyArray, score: AnyArray, low: float) -> int:
    """Leave out what is below the lowest product that counts; return how many stay, in their order."""
    kept = 0
    for j in range(item.size):
        item[kept], score[kept] = item[j], score[j]
        kept += score[j] >= low
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


@compiled
def ranks_in_rows(row: IntArray, score: FloatArray) -> tuple[IntArray, IntArray]:
    """Return how many entries of the same row score higher than, and tie with, each; rows are ascending."""
    n_above, n_tied = np.zeros(row.size, dtype=np.int64), np.zeros(row.size, dtype=np.int64)
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
            order = np.argsort(-own)
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
def close_in_rows(row: IntArray, product: AnyArray, slack: FloatArray) -> BoolArray:
    """Return which entries have another of the same row at most `slack[row]` away; rows are ascending."""
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
            order = np.argsort(own)
            for j in range(1, order.size):
                if own[order[j]] - own[order[j - 1]] <= margin:
                    close[first + order[j]] = close[first + order[j - 1]] = True
        first = last
    return close
