"""Counting kernels compiled by Numba, the twin of `numpy_kernels`: the same functions, the same integers.

Imported only when a ranking starts. Functions are compiled on first use for the types at hand (a second or
two) and cached on disk: beside this file, or in the user's cache directory where that is read-only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ipseval.ranking.kernels.blocks import Block, Counted, Shape, Tile
from ipseval.ranking.kernels.numba_compile import borrowing, compiled
from ipseval.ranking.kernels.numba_count import GROUP, count_all, count_one
from ipseval.utils.types import AnyArray, FloatArray, IntArray

NAME = "numba"
ROWS = 4  # users, and dimensions, whose products are made together
LINE = 64  # bytes of a cache line
TILE = 1024  # items whose products with ROWS users are made at once: they fit the first-level cache
COLUMNS_BYTES = 2**19  # transposed factors of a tile of items, which stay in the second-level cache
WHOLE = 64  # items: tiles are multiples of it, as the rest of a loop over vectors takes long
CHUNK = 2048  # stored scores that stay in the first-level cache while a user's positives are compared
BLOCK = 1024  # users in a block
PER_USER = 1024  # bytes: positives and training items of a user, roughly
FEW = 16  # products of a user in a tile too close to call: of more, exact scores are made for all items

_i32: Any = np.int32  # counters as wide as the scores: with 64 bits only half as many fit a vector register
_i64: Any = np.int64  # of a fixed 0 that is passed on Numba makes a type of its own, and compiles for it, too


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
    for j in range(user.size):
        total, u, v = 0.0, user_factors[user[j]], item_factors[item[j]]
        for k in range(u.size):
            total += np.float64(u[k]) * np.float64(v[k])
        out[j] = total + bias[item[j]] if bias.size else total


@partial(compiled, fastmath={"contract"})  # a product and the sum that it enters may be rounded once (FMA)
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
    block: Block,
    tile: Tile,
    columns: AnyArray,
    products: AnyArray,
    now: AnyArray,
    pairs: IntArray,
    rows: IntArray,
) -> tuple[int, int, int]:
    """Multiply and count for ROWS users at a time, whose products stay in the first-level cache."""
    # Returns how many positives fell out of their own bounds, how many `pairs` (positive, item) are too close
    # to call, and of how many users, `rows`, there are too many of them, so that nothing is counted.
    first, width = tile.first, tile.fast_item.shape[0]
    start, item, lo, hi, pointer = block.start, block.item, block.lo, block.hi, block.pointer
    excluded_start, excluded = block.excluded_start, block.excluded
    n_above, n_tied, above, near = block.n_above, block.n_tied, now[0], now[1]
    n_users, n_lost, n_pairs, n_left, kept = start.size - 1, 0, _i64(0), 0, products[ROWS]
    for g in range(0, n_users, ROWS):
        for k in range(0, columns.shape[0], ROWS):
            _multiply_four(block.fast_user, g, columns, k, products, width)
        for r in range(g, min(g + ROWS, n_users)):
            scores = products[r - g, :width]
            for i in range(tile.infinite.size):
                scores[tile.infinite[i]] = tile.bias[i]
            pointer[r] = _hide(scores, first, excluded, pointer[r], excluded_start[r + 1])
            found = 0
            count_all(scores, lo, hi, start[r], start[r + 1], kept, n_above, first, above, near)
            for q in range(start[r], start[r + 1]):
                near[q] -= above[q] + (first <= item[q] < first + width)
                n_lost += near[q] < 0
                found += near[q] if lo[q] < hi[q] else 0
            if found > FEW:
                rows[n_left] = r
                n_left += 1
                continue
            for q in range(start[r], start[r + 1]):
                n_above[q] += above[q]
                if not lo[q] < hi[q]:  # the products are exact
                    n_tied[q] += near[q]
                elif near[q] > 0:
                    n_pairs = _find_close(scores, first, lo[q], hi[q], item[q], q, pairs, n_pairs)
    return n_lost, n_pairs, n_left


@borrowing
def _hide(scores: AnyArray, first: int, excluded: IntArray, k: int, end: int) -> int:
    """Make NaN of the tile's scores of `excluded[k:end]`; return where its items end."""
    while k < end and excluded[k] < first + scores.size:
        scores[excluded[k] - first] = np.nan
        k += 1
    return k


@borrowing
def _find_close(
    products: AnyArray, first: int, lo: float, hi: float, own: int, positive: int, pairs: IntArray, n: int
) -> int:
    """Write from `pairs[:, n]` on which items but the own have products from lo to hi; return the new n."""
    for i in range(products.size):  # without a branch, which the processor could not foresee
        pairs[0, n], pairs[1, n] = positive, first + i
        n += (products[i] >= lo) & (products[i] <= hi) & (first + i != own)
    return n


@compiled
def row_scores(user: FloatArray, columns: FloatArray, scores: FloatArray) -> None:
    """Write the exact scores of users (b, d) and items (d, width), but for the bias, to `scores`."""
    for r in range(user.shape[0]):
        row = scores[r]
        row[:] = 0.0
        for k in range(columns.shape[0]):
            u, column = user[r, k], columns[k]
            for i in range(row.size):
                row[i] += u * column[i]


class Worker:
    """Counts for the blocks of one thread, tile by tile, in the same memory."""

    def __init__(self, shape: Shape) -> None:
        depth = _whole(shape.depth)
        self._user = np.zeros((_whole(shape.n_users), depth), shape.dtype)
        self._columns = _aligned(depth, shape)
        self._scores = _aligned(ROWS + 1, shape)  # and the few of a user that are counted
        self._pairs = np.empty((2, FEW * shape.n_users + GROUP), dtype=np.int64)
        self._rows = np.empty(shape.n_users, dtype=np.int64)

    def begin(self, block: Block) -> None:
        """Take up a block of users; `count` adds to its counts."""
        n_users, depth = block.fast_user.shape
        self._user[:n_users, :depth] = block.fast_user
        # The kernels read the fast factors alone: in place of the others, their type asks for no compilation.
        self._block = block._replace(user=self._user, fast_user=self._user)
        self._now = np.empty((2, block.item.size), dtype=np.int64)

    def count(self, tile: Tile) -> Counted:
        """Add the counts of the tile's items, where their products tell them."""
        width, depth = tile.fast_item.shape
        self._columns[:depth, :width] = tile.fast_item.T
        memory = (self._columns, self._scores, self._now, self._pairs, self._rows)
        lost, close, left = _count_users(self._block, tile, *memory)
        positive, item = self._pairs[:, :close].copy()
        return Counted(lost, positive, item, self._rows[:left].copy())


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
    return fixed, 2 * row + PER_USER + 16 * FEW


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
            for j in range(start[r], start[r + 1]):
                above, reach = count_one(scores, score[j], score[j])
                n_above[j] += above
                n_reach[j] += reach
        for k in range(excluded_start[r], excluded_start[r + 1]):
            x = block[r, excluded[k]]
            for j in range(start[r], start[r + 1]):
                n_above[j] -= x > score[j]
                n_reach[j] -= x >= score[j]
    return n_nan
