"""Counting kernels compiled by Numba, the twin of `numpy_kernels`: the same functions, the same integers.

Imported only when a ranking starts. Functions are compiled on first use for the types at hand (a second or
two) and cached on disk: beside this file, or in the user's cache directory where that is read-only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipseval._base.types import AnyArray, FloatArray, IntArray
from ipseval.ranking.kernels.blocks import Block, Catalogue, Gathered, Shape, Tile
from ipseval.ranking.kernels.numba_compile import Function, borrowing, compiled, dot
from ipseval.ranking.kernels.numba_count import GROUP, count_all, count_one, count_two
from ipseval.ranking.kernels.numba_near_ties import (
    FEW,
    WAIT,
    Close,
    Exact,
    count_exactly,
    exact_scores,
    find_close,
)
from ipseval.ranking.kernels.numba_top import Top, keep_best
from ipseval.ranking.kernels.numba_top import close_in_rows as close_in_rows  # two of the kernels
from ipseval.ranking.kernels.numba_top import ranks_in_rows as ranks_in_rows

NAME = "numba"
ROWS = 4  # users, and dimensions, whose products are made together
LINE = 64  # bytes of a cache line
TILE = 1024  # items whose products with ROWS users are made at once: they fit the first-level cache
COLUMNS_BYTES = 2**19  # transposed factors of a tile of items, which stay in the second-level cache
WHOLE = 64  # items: tiles are multiples of it, as the rest of a loop over vectors takes long
TRANSPOSED = 128  # items whose factors are transposed at once, in the first-level cache
CHUNK = 2048  # stored scores that stay in the first-level cache while a user's positives are compared
BLOCK = 1024  # users in a block
PER_USER = 1024  # bytes: positives and training items of a user, roughly

_i32: Any = np.int32  # counters as wide as the scores: with 64 bits only half as many fit a vector register


def _compile_fused(function: Function) -> Function:
    """Compile so that a product and the sum that it enters may be rounded once (FMA)."""
    return compiled(function, fastmath={"contract"})


@compiled
def pair_scores(
    user_factors: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    user: IntArray,
    item: IntArray,
    out: FloatArray,
) -> None:
    """Write the exact scores of pairs to `out`: Σ_k u_k v_k in order, in double precision, then the bias."""
    whole = user.size - user.size % ROWS
    for j in range(0, whole, ROWS):  # ROWS sums at once: each waits for its own last addition only
        u0, u1, u2, u3 = user[j], user[j + 1], user[j + 2], user[j + 3]
        i0, i1, i2, i3 = item[j], item[j + 1], item[j + 2], item[j + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(user_factors.shape[1]):
            s0 += np.float64(user_factors[u0, k]) * np.float64(item_factors[i0, k])
            s1 += np.float64(user_factors[u1, k]) * np.float64(item_factors[i1, k])
            s2 += np.float64(user_factors[u2, k]) * np.float64(item_factors[i2, k])
            s3 += np.float64(user_factors[u3, k]) * np.float64(item_factors[i3, k])
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
    for j in range(whole, user.size):
        out[j] = dot(user_factors[user[j]], item_factors[item[j]])
    if bias.size:
        for j in range(user.size):
            out[j] += bias[item[j]]


@_compile_fused
def _multiply_four(user: AnyArray, g: int, columns: AnyArray, k: int, scores: AnyArray, width: int) -> None:
    """Add u_k v_k + … + u_{k+3} v_{k+3} to the products of four users."""
    # Sixteen terms for eight numbers read. The factors of the users stay in registers, and the compiler makes
    # vectors of the items.
    p0, p1, p2, p3 = user[g, k], user[g, k + 1], user[g, k + 2], user[g, k + 3]
    q0, q1, q2, q3 = user[g + 1, k], user[g + 1, k + 1], user[g + 1, k + 2], user[g + 1, k + 3]
    r0, r1, r2, r3 = user[g + 2, k], user[g + 2, k + 1], user[g + 2, k + 2], user[g + 2, k + 3]
    s0, s1, s2, s3 = user[g + 3, k], user[g + 3, k + 1], user[g + 3, k + 2], user[g + 3, k + 3]
    v0, v1, v2, v3 = (
        columns[k, :width],
        columns[k + 1, :width],
        columns[k + 2, :width],
        columns[k + 3, :width],
    )
    p, q, r, s = scores[0, :width], scores[1, :width], scores[2, :width], scores[3, :width]
    if k == 0:
        for i in range(width):
            a, b, c, d = v0[i], v1[i], v2[i], v3[i]
            p[i] = p0 * a + p1 * b + p2 * c + p3 * d
            q[i] = q0 * a + q1 * b + q2 * c + q3 * d
            r[i] = r0 * a + r1 * b + r2 * c + r3 * d
            s[i] = s0 * a + s1 * b + s2 * c + s3 * d
    else:
        for i in range(width):
            a, b, c, d = v0[i], v1[i], v2[i], v3[i]
            p[i] = p[i] + p0 * a + p1 * b + p2 * c + p3 * d
            q[i] = q[i] + q0 * a + q1 * b + q2 * c + q3 * d
            r[i] = r[i] + r0 * a + r1 * b + r2 * c + r3 * d
            s[i] = s[i] + s0 * a + s1 * b + s2 * c + s3 * d


@borrowing
def _count_users(
    block: Block, items: Catalogue, tile: Tile, columns: AnyArray, products: AnyArray, close: Close, top: Top
) -> tuple[int, int, int]:
    """Multiply and count for ROWS users at a time, whose products stay in the first-level cache."""
    # Returns how many positives fell out of their own bounds, how many products were too close to call, and
    # how many users are left to be counted by exact scores, which are `close.rows`.
    first, width = tile.first, tile.fast_item.shape[0]
    start, item, lo, hi, pointer = block.start, block.item, block.lo, block.hi, block.pointer
    excluded_start, excluded = block.excluded_start, block.excluded
    n_above, n_tied, twin, n_twins = block.n_above, block.n_tied, items.twin, tile.n_twins
    wait, rows, seen, begins = close.wait, close.rows, close.seen, close.excluded
    now_above, now_equal, now_near = close.above, close.equal, close.near
    keeps = top.item.shape[1] > 0
    n_users, n_lost, n_close, n_left, kept = start.size - 1, 0, 0, 0, products[ROWS]
    for g in range(0, n_users, ROWS):
        last, waiting = min(g + ROWS, n_users), True
        for r in range(g, last):
            waiting &= wait[r] > 0
        if not waiting:
            for k in range(0, columns.shape[0], ROWS):
                _multiply_four(block.fast_user, g, columns, k, products, width)
        for r in range(g, last):
            k = before = pointer[r]
            if wait[r]:
                wait[r] -= 1
                rows[n_left], begins[n_left], seen[n_left] = r, before, False
                n_left += 1
                continue
            scores = products[r - g, :width]
            for i in range(tile.infinite.size):
                scores[tile.infinite[i]] = tile.bias[i]
            k = _hide(scores, first, excluded, k, excluded_start[r + 1])
            pointer[r] = k
            if keeps:  # a call that does nothing takes as long as two comparisons of a row
                keep_best(scores, first, top, r)
            found = 0
            some = (start[r], start[r + 1], kept, n_above, first)
            count_all(scores, lo, hi, *some, now_above, now_near)
            for q in range(start[r], start[r + 1]):
                own = 1 if first <= item[q] < first + width else 0
                near = now_near[q] - now_above[q] - own
                now_near[q] = near
                n_above[q] += now_above[q]
                n_lost += near < 0
                if near > 0:
                    equal = near  # where the products are exact
                    if lo[q] < hi[q]:
                        equal = _equal(item[q], own, twin, n_twins, excluded, before, k)
                    n_tied[q] += equal
                    now_equal[q] = equal
                    found += near - equal
            n_close += found
            if found > FEW:
                wait[r] = WAIT
                rows[n_left], begins[n_left], seen[n_left] = r, before, True
                n_left += 1
                _take_back(block, r, close)
            elif found > 0:
                _decide(scores, first, block, r, items, close)
    return n_lost, n_close, n_left


@borrowing
def _equal(
    item: int, own: int, twin: IntArray, n_twins: IntArray, excluded: IntArray, begin: int, end: int
) -> int:
    """Return how many other items of a tile have the factors of `item`."""
    # `excluded[begin:end]` are left out. `own`: whether the item itself is in the tile; `n_twins`: how many
    # of its items are in each class.
    if twin.size == 0 or item < 0 or twin[item] < 0:
        return 0
    equal: int = n_twins[twin[item]] - own
    for k in range(begin, end):
        equal -= twin[excluded[k]] == twin[item]
    return equal


@borrowing
def _hide(scores: AnyArray, first: int, excluded: IntArray, k: int, end: int) -> int:
    """Make NaN of the tile's scores of `excluded[k:end]`; return where its items end."""
    while k < end and excluded[k] < first + scores.size:
        scores[excluded[k] - first] = np.nan
        k += 1
    return k


@borrowing
def _take_back(block: Block, row: int, close: Close) -> None:
    """Take the counts of a user in this tile back: exact scores are counted instead."""
    for q in range(block.start[row], block.start[row + 1]):
        block.n_above[q] -= close.above[q]
        block.n_tied[q] -= close.equal[q] if close.near[q] > 0 else 0


@borrowing
def _decide(scores: AnyArray, first: int, block: Block, row: int, items: Catalogue, close: Close) -> None:
    """Decide by exact scores about the few items whose product is too close to a positive's to call."""
    start, place, last = block.start, close.place, first + scores.size
    n = 0
    for q in range(block.start[row], start[row + 1]):
        if close.near[q] > 0 and close.near[q] > close.equal[q]:
            item = block.item[q]
            end = find_close(scores, block.lo[q], block.hi[q], item - first, place, n)
            if close.equal[q]:
                for j in range(n, end):
                    place[n] = place[j]
                    n += items.twin[first + place[j]] != items.twin[item]
            else:
                n = end
    exact_scores(block.user[row], items.item[first:last], items.bias[first:last], place[:n], close.score)
    n = 0
    for q in range(start[row], start[row + 1]):
        more = n + (close.near[q] - close.equal[q] if close.near[q] > 0 else 0)
        for j in range(n, more):
            block.n_above[q] += close.score[j] > block.exact[q]
            block.n_tied[q] += close.score[j] == block.exact[q]
        n = more


class Worker:
    """Counts for the blocks of one thread, tile by tile, in the same memory."""

    def __init__(self, shape: Shape) -> None:
        depth = _whole(shape.depth)
        self._user = np.zeros((_whole(shape.n_users), depth), shape.dtype)
        self._columns = _aligned(depth, shape)
        self._scores = _aligned(ROWS + 1, shape)  # and the few of a user that are counted
        self._shape, self._exact = shape, Exact.empty(shape, depth)
        self._wide = np.zeros((0, 0))
        self._top = Top.empty(shape)

    def begin(self, block: Block, slack: FloatArray) -> None:
        """Take up a block of users; `count` adds to its counts. `slack` is as in `numpy_kernels`."""
        n_users, depth = block.fast_user.shape
        self._top.begin(slack)
        self._n_users = n_users
        self._user[:n_users, :depth] = block.fast_user
        self._block = block._replace(fast_user=self._user)
        self._close = Close.of(n_users, block.item.size, self._shape.n_items)

    def count(self, catalogue: Catalogue, tile: Tile) -> tuple[int, int]:
        """Add the counts of the tile's items; what is returned is as in `numpy_kernels`."""
        width = tile.fast_item.shape[0]
        _transpose(tile.fast_item, self._columns)
        memory = (self._columns, self._scores, self._close, self._top)
        lost, close, left = _count_users(self._block, catalogue, tile, *memory)
        if left:
            columns = self._exact_columns(catalogue.item, tile)
            rows = self._close.rows[:left]
            rest = (rows, self._close, self._exact, self._top)
            lost += count_exactly(self._block, catalogue, tile.first, columns, width, *rest)
        return int(lost), int(close)

    def _exact_columns(self, item: AnyArray, tile: Tile) -> AnyArray:
        """Return the factors of a tile that the exact scores are made of, transposed."""
        if item.dtype.itemsize <= self._columns.dtype.itemsize:
            return self._columns
        if not self._wide.size:
            self._wide = np.zeros((self._columns.shape[0], self._shape.n_items))
        _transpose(item[tile.first : tile.first + tile.fast_item.shape[0]], self._wide)
        return self._wide

    def gathered(self) -> Gathered:
        """Return all items that may be among the k best of a user."""
        return self._top.gathered(self._n_users)


def _transpose(item: AnyArray, columns: AnyArray) -> None:
    """Write the factors of items into columns."""
    for first in range(0, item.shape[0], TRANSPOSED):
        piece = item[first : first + TRANSPOSED]
        np.copyto(columns[: piece.shape[1], first : first + piece.shape[0]], piece.T)


def tile_width(shape: Shape) -> int:
    """Return the number of items whose products with a block are made and counted at once."""
    most = max(min(TILE, COLUMNS_BYTES // (_whole(shape.depth) * shape.dtype.itemsize)), ROWS)
    n_tiles = -(-shape.n_items // most)
    width = -(-shape.n_items // n_tiles)
    return -(-width // WHOLE) * WHOLE


def block_users(shape: Shape) -> int:
    """Return the number of users for whom the factors of a tile are transposed once."""
    return BLOCK


def block_bytes(shape: Shape) -> tuple[int, int]:
    """Return the memory of a worker in bytes: what it needs at all, and for each user of a block."""
    row = _whole(shape.depth) * shape.dtype.itemsize
    fixed = row * (shape.n_items + ROWS) + (ROWS + 2) * shape.row_bytes
    fixed += 8 * shape.n_items * (ROWS + _whole(shape.depth))  # exact scores
    return fixed, 2 * row + PER_USER + shape.room_bytes


def _aligned(n_rows: int, shape: Shape) -> AnyArray:
    """Return zeros (n_rows, n_items and room for GROUP more)."""
    # Rows begin where cache lines do, and never a multiple of 4 KB apart.
    row = -(-(shape.row_bytes + GROUP * shape.dtype.itemsize) // LINE) * LINE
    row += LINE * (row % 4096 == 0)
    memory = np.zeros(n_rows * row + LINE, dtype=np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + n_rows * row].view(shape.dtype).reshape(n_rows, -1)


def _whole(size: int) -> int:
    """Return the next multiple of ROWS, at least ROWS: factors without dimensions have one of zeros."""
    return max(-(-size // ROWS), 1) * ROWS


@compiled
def count_stored(
    block: AnyArray,
    start: IntArray,
    score: AnyArray,
    excluded_start: IntArray,
    excluded: IntArray,
    n_above: IntArray,
    n_reach: IntArray,
) -> int:
    """Write how many candidates score above, and reach, each positive's score; return the number of NaN."""
    n_nan = 0
    for r in range(block.shape[0]):
        for c in range(0, block.shape[1], CHUNK):
            scores = block[r, c : min(c + CHUNK, block.shape[1])]
            nan = _i32(0)
            for i in range(scores.size):
                nan = _i32(nan + _i32(scores[i] != scores[i]))
            n_nan += nan
            for j in range(start[r], start[r + 1], 2):
                if j + 1 < start[r + 1]:
                    above_0, reach_0, above_1, reach_1 = count_two(scores, score, score, j)
                    n_above[j + 1] += above_1
                    n_reach[j + 1] += reach_1
                else:
                    above_0, reach_0 = count_one(scores, score, score, j)
                n_above[j] += above_0
                n_reach[j] += reach_0
        for k in range(excluded_start[r], excluded_start[r + 1]):
            x = block[r, excluded[k]]
            for j in range(start[r], start[r + 1]):
                n_above[j] -= x > score[j]
                n_reach[j] -= x >= score[j]
    return n_nan
