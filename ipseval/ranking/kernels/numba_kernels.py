"""Counting kernels compiled by Numba: the same functions and the same integers as in `numpy_kernels`.

The module is imported when a ranking starts. Functions are compiled on first use for the types at hand (a
second or two) and cached on disk: next to this file, or in the user's cache directory if that directory is
read-only.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ipseval.ranking._types import Untyped
from ipseval.ranking.kernels.blocks import Block, Shape, Tile, UndecidedItems
from ipseval.ranking.kernels.numba_compile import compile_inner_kernel, compile_kernel
from ipseval.ranking.kernels.numba_count import GROUP, count_all, count_one
from ipseval.utils.types import AnyArray, FloatArray, IntArray

NAME = "numba"
ROWS = 4  # users, and dimensions, whose products are computed together
LINE = 64  # bytes of a cache line
TILE = 1024  # items whose products with ROWS users are computed together: they fit the first-level cache
COLUMNS_BYTES = 2**19  # transposed factors of a tile of items, which stay in the second-level cache
WHOLE = 64  # items: the width of a tile is a multiple, because the remainder of a loop over vectors is slow
CHUNK = 2048  # stored scores that stay in the first-level cache while a user's positives are compared
BLOCK = 1024  # users in a block
PER_USER = 1024  # bytes: positives and training items of a user, roughly
FEW = 16  # undecided products of a user in a tile; with more, exact scores are computed for all items

# Counters are as wide as the scores: with 64 bits, only half as many fit a vector register.
_i32: Untyped = np.int32
# Numba gives a literal 0 a separate type, and would compile callees for it as well.
_i64: Untyped = np.int64


@compile_kernel
def pair_scores(
    user_factors: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    user: IntArray,
    item: IntArray,
    scores_out: FloatArray,
) -> None:
    """Write the exact scores of pairs: Σ_k u_k v_k in order, in double precision, then the bias."""
    for j in range(user.size):
        total = 0.0
        u = user_factors[user[j]]
        v = item_factors[item[j]]
        for k in range(u.size):
            total += np.float64(u[k]) * np.float64(v[k])
        if bias.size:
            total += bias[item[j]]
        scores_out[j] = total


@partial(compile_kernel, fastmath={"contract"})  # a product and its sum may be rounded once (FMA)
def _multiply_four(user: AnyArray, g: int, columns: AnyArray, k: int, scores: AnyArray, width: int) -> None:
    """Add u_k v_k + … + u_{k+3} v_{k+3} to the products of the users p, q, r, s in rows g to g + 3."""
    # There are sixteen terms for eight numbers read. The factors of the users stay in registers, and the
    # compiler makes vectors of the items.
    p0, p1, p2, p3 = user[g, k], user[g, k + 1], user[g, k + 2], user[g, k + 3]
    q0, q1, q2, q3 = user[g + 1, k], user[g + 1, k + 1], user[g + 1, k + 2], user[g + 1, k + 3]
    r0, r1, r2, r3 = user[g + 2, k], user[g + 2, k + 1], user[g + 2, k + 2], user[g + 2, k + 3]
    s0, s1, s2, s3 = user[g + 3, k], user[g + 3, k + 1], user[g + 3, k + 2], user[g + 3, k + 3]
    v0 = columns[k, :width]
    v1 = columns[k + 1, :width]
    v2 = columns[k + 2, :width]
    v3 = columns[k + 3, :width]
    p = scores[0, :width]
    q = scores[1, :width]
    r = scores[2, :width]
    s = scores[3, :width]
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


@compile_inner_kernel
def _count_users(  # noqa: C901  # one fused loop
    block: Block,
    tile: Tile,
    columns: AnyArray,
    products: AnyArray,
    tile_counts: AnyArray,
    pairs: IntArray,
    rows: IntArray,
) -> tuple[int, int, int]:
    """Multiply and count for ROWS users at a time, so that products stay in the first-level cache.

    Return the number of positives outside their own bounds, the number of undecided `pairs` (positive, item),
    and the number of users in `rows`, for whom nothing is counted because too many products are undecided.
    """
    first = tile.first
    width = tile.fast_item.shape[0]
    start = block.start
    item = block.item
    lo = block.lo
    hi = block.hi
    pointer = block.pointer
    excluded_start = block.excluded_start
    excluded_items = block.excluded_items
    n_above = block.n_above
    n_tied = block.n_tied
    above_counts = tile_counts[0]
    inner_counts = tile_counts[1]  # number of products within the bounds of each positive
    gathered_scores = products[ROWS]
    n_users = start.size - 1
    n_lost = 0
    n_pairs = _i64(0)
    n_rows = 0
    for g in range(0, n_users, ROWS):
        for k in range(0, columns.shape[0], ROWS):
            _multiply_four(block.fast_user, g, columns, k, products, width)
        for r in range(g, min(g + ROWS, n_users)):
            scores = products[r - g, :width]
            for i in range(tile.infinite.size):
                scores[tile.infinite[i]] = tile.bias[i]
            pointer[r] = _hide_excluded_items(
                scores, first, excluded_items, pointer[r], excluded_start[r + 1]
            )
            count_all(
                scores,
                lo,
                hi,
                start[r],
                start[r + 1],
                gathered_scores,
                n_above,
                first,
                above_counts,
                inner_counts,
            )

            n_undecided = 0
            for q in range(start[r], start[r + 1]):
                inner_counts[q] -= above_counts[q] + (first <= item[q] < first + width)
                n_lost += inner_counts[q] < 0
                if lo[q] < hi[q]:
                    n_undecided += inner_counts[q]
            if n_undecided > FEW:
                rows[n_rows] = r
                n_rows += 1
                continue
            for q in range(start[r], start[r + 1]):
                n_above[q] += above_counts[q]
                if not lo[q] < hi[q]:  # the products are exact
                    n_tied[q] += inner_counts[q]
                elif inner_counts[q] > 0:
                    n_pairs = _find_undecided_pairs(scores, first, lo[q], hi[q], item[q], q, pairs, n_pairs)
    return n_lost, n_pairs, n_rows


@compile_inner_kernel
def _hide_excluded_items(scores: AnyArray, first: int, excluded_items: IntArray, k: int, end: int) -> int:
    """Set the tile's scores of `excluded_items[k:end]` to NaN; return the position of the next tile."""
    while k < end and excluded_items[k] < first + scores.size:
        scores[excluded_items[k] - first] = np.nan
        k += 1
    return k


@compile_inner_kernel
def _find_undecided_pairs(
    products: AnyArray,
    first: int,
    lo: float,
    hi: float,
    positive_item: int,
    positive: int,
    pairs: IntArray,
    n: int,
) -> int:
    """Write the competitors with products from lo to hi to `pairs`, from column n on; return the new n."""
    for i in range(products.size):  # without a branch, which the processor could not predict
        pairs[0, n] = positive
        pairs[1, n] = first + i
        n += (products[i] >= lo) & (products[i] <= hi) & (first + i != positive_item)
    return n


@compile_kernel
def row_scores(user: FloatArray, columns: FloatArray, scores: FloatArray) -> None:
    """Write the exact scores of users (b, d) and items (d, width), without the bias, to `scores`."""
    for r in range(user.shape[0]):
        row = scores[r]
        row[:] = 0.0
        for k in range(columns.shape[0]):
            u = user[r, k]
            column = columns[k]
            for i in range(row.size):
                row[i] += u * column[i]


class Worker:
    """The counts of one thread, tile by tile, in memory that is allocated once."""

    def __init__(self, shape: Shape) -> None:
        depth = _round_up(shape.depth)
        self._user = np.zeros((_round_up(shape.n_users), depth), shape.dtype)
        self._columns = _allocate_rows(depth, shape)
        self._scores = _allocate_rows(ROWS + 1, shape)  # the last row is for gathered scores
        self._pairs = np.empty((2, FEW * shape.n_users + GROUP), dtype=np.int64)
        self._rows = np.empty(shape.n_users, dtype=np.int64)

    def begin(self, block: Block) -> None:
        """Start a block of users; `count` adds to its counts."""
        n_users, depth = block.fast_user.shape
        self._user[:n_users, :depth] = block.fast_user
        # The kernels read the fast factors alone. With these in both fields, Numba compiles for one type
        # only.
        self._block = block._replace(user=self._user, fast_user=self._user)
        self._tile_counts = np.empty((2, block.item.size), dtype=np.int64)

    def count(self, tile: Tile) -> UndecidedItems:
        """Add the counts of the tile's items, except for the items that are returned as undecided."""
        width, depth = tile.fast_item.shape
        self._columns[:depth, :width] = tile.fast_item.T
        n_lost, n_pairs, n_rows = _count_users(
            self._block, tile, self._columns, self._scores, self._tile_counts, self._pairs, self._rows
        )
        positive, item = self._pairs[:, :n_pairs].copy()
        return UndecidedItems(n_lost, positive, item, self._rows[:n_rows].copy())


def tile_width(shape: Shape) -> int:
    """Return the number of items in a tile."""
    row_bytes = _round_up(shape.depth) * shape.dtype.itemsize
    largest = max(min(TILE, COLUMNS_BYTES // row_bytes), ROWS)
    n_tiles = -(-shape.n_items // largest)
    width = -(-shape.n_items // n_tiles)
    return -(-width // WHOLE) * WHOLE


def block_users(shape: Shape) -> int:
    """Return the number of users in a block, for which a tile's factors are transposed once."""
    return BLOCK


def block_bytes(shape: Shape) -> tuple[int, int]:
    """Return the memory of a worker in bytes: a fixed part, and the part for each user of a block."""
    factor_bytes = _round_up(shape.depth) * shape.dtype.itemsize
    fixed = factor_bytes * (shape.n_items + ROWS) + (ROWS + 2) * shape.row_bytes
    return fixed, 2 * factor_bytes + PER_USER + 16 * FEW


def _allocate_rows(n_rows: int, shape: Shape) -> AnyArray:
    """Return zeros (n_rows, n_items and space for GROUP more), with rows that begin at cache lines."""
    row_bytes = -(-(shape.row_bytes + GROUP * shape.dtype.itemsize) // LINE) * LINE
    if row_bytes % 4096 == 0:
        row_bytes += LINE  # rows at a distance of a multiple of 4 KB evict each other from the cache
    memory = np.zeros(n_rows * row_bytes + LINE, dtype=np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + n_rows * row_bytes].view(shape.dtype).reshape(n_rows, -1)


def _round_up(size: int) -> int:
    """Return the next multiple of ROWS, at least ROWS: factors without dimensions have one of zeros."""
    return max(-(-size // ROWS), 1) * ROWS


@compile_kernel
def count_score_block(
    block: AnyArray,
    start: IntArray,
    score: AnyArray,
    excluded_start: IntArray,
    excluded_items: IntArray,
    n_above: IntArray,
    n_reach: IntArray,
) -> int:
    """Write how many candidates score above, and reach, each positive's score; return the number of NaN."""
    n_nan = 0
    for r in range(block.shape[0]):
        for c in range(0, block.shape[1], CHUNK):
            scores = block[r, c : min(c + CHUNK, block.shape[1])]
            n_nan_in_chunk = _i32(0)
            for i in range(scores.size):
                n_nan_in_chunk = _i32(n_nan_in_chunk + _i32(scores[i] != scores[i]))
            n_nan += n_nan_in_chunk
            for j in range(start[r], start[r + 1]):
                above_counts, reach_counts = count_one(scores, score[j], score[j])
                n_above[j] += above_counts
                n_reach[j] += reach_counts
        for k in range(excluded_start[r], excluded_start[r + 1]):
            excluded_score = block[r, excluded_items[k]]
            for j in range(start[r], start[r + 1]):
                n_above[j] -= excluded_score > score[j]
                n_reach[j] -= excluded_score >= score[j]
    return n_nan
