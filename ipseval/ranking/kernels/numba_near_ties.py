"""What is too close to call in a tile of items: exact scores, pair by pair or in rows; by Numba.

The exact score of a pair costs as much as dozens of products: each addition waits for the one before. For a
row of items the same sums in the same order are vectors, and cost hardly more than the products. So the exact
scores of all items of a tile are made where a user has more than a few close ones among them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipseval._base.types import AnyArray, BoolArray, FloatArray, IntArray
from ipseval.ranking.kernels.blocks import Block, Catalogue, Shape
from ipseval.ranking.kernels.numba_compile import borrowing, dot
from ipseval.ranking.kernels.numba_top import Top, keep_best

ROWS = 4  # users, dimensions and pairs whose sums are made together
GROUP = 64  # products that are searched together for one too close to call
FEW = 16  # close products of a user in a tile up to which each pair has a score of its own
WAIT = 31  # tiles, after one with more, that are counted by exact scores without a look at the products

_i32: Any = np.int32


class Close(NamedTuple):
    """Memory of one thread for what is too close to call."""

    above: IntArray  # (n_pos,) how many products of the tile are above the bounds of each positive
    near: IntArray  # (n_pos,) how many of other items are within
    equal: IntArray  # (n_pos,) of these, where there are any, how many have the positive's factors
    place: IntArray  # (width + FEW + 1,) items that are close to a user's positives, one after the other
    score: FloatArray  # (FEW,)
    wait: IntArray  # (b,) tiles in which the user is to be counted by exact scores yet
    rows: IntArray  # (b,) users of this tile to be counted so
    seen: BoolArray  # (b,) whether the products of `rows` were looked at
    excluded: IntArray  # (b,) where the items of the tile begin in what is excluded for `rows`

    @classmethod
    def of(cls, n_users: int, n_positives: int, width: int) -> Close:
        """Return memory for a block of users and tiles of at most `width` items."""
        above, near, equal = np.empty((3, n_positives), dtype=np.int64)
        place = np.empty(width + FEW + 1, dtype=np.int64)
        wait, rows, excluded = np.zeros((3, n_users), dtype=np.int64)
        seen = np.empty(n_users, dtype=np.bool_)
        return cls(above, near, equal, place, np.empty(FEW), wait, rows, seen, excluded)


class Exact(NamedTuple):
    """Memory of one thread for exact scores of whole rows."""

    user: FloatArray  # (ROWS, depth)
    scores: FloatArray  # (ROWS, width)
    products: AnyArray  # (width,) the scores as products, of which the best are kept

    @classmethod
    def empty(cls, shape: Shape, depth: int) -> Exact:
        """Return memory for tiles of a shape."""
        scores = np.zeros((ROWS, shape.n_items))
        return cls(np.zeros((ROWS, depth)), scores, np.empty(shape.n_items, dtype=shape.dtype))


@borrowing
def find_close(products: AnyArray, lo: float, hi: float, own: int, place: IntArray, n: int) -> int:
    """Write from `place[n]` on which products but the own are too close to call; return the new n."""
    whole = products.size - products.size % GROUP
    for begin in range(0, whole, GROUP):
        group, inside = products[begin : begin + GROUP], _i32(0)
        for i in range(GROUP):
            inside = _i32(inside + (_i32(group[i] >= lo) & _i32(group[i] <= hi)))
        if inside:
            for i in range(begin, begin + GROUP):  # without a branch, which the processor could not foresee
                place[n] = i
                n += (products[i] >= lo) & (products[i] <= hi) & (i != own)
    for i in range(whole, products.size):
        place[n] = i
        n += (products[i] >= lo) & (products[i] <= hi) & (i != own)
    return n


@borrowing
def exact_scores(
    user: AnyArray, item: AnyArray, bias: FloatArray, place: IntArray, score: FloatArray
) -> None:
    """Write the exact scores of the items at `place`."""
    whole = place.size - place.size % ROWS
    for j in range(0, whole, ROWS):  # ROWS sums at once: each waits for its own last addition only
        i0, i1, i2, i3 = place[j], place[j + 1], place[j + 2], place[j + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(user.size):
            u = np.float64(user[k])
            s0 += u * np.float64(item[i0, k])
            s1 += u * np.float64(item[i1, k])
            s2 += u * np.float64(item[i2, k])
            s3 += u * np.float64(item[i3, k])
        score[j], score[j + 1], score[j + 2], score[j + 3] = s0, s1, s2, s3
    for j in range(whole, place.size):
        score[j] = dot(user, item[place[j]])
    if bias.size:
        for j in range(place.size):
            score[j] += bias[place[j]]


@borrowing
def count_exactly(
    block: Block,
    items: Catalogue,
    first: int,
    columns: AnyArray,
    width: int,
    rows: IntArray,
    close: Close,
    memory: Exact,
    top: Top,
) -> int:
    """Count by exact scores of a tile; return how many positives miss their own score (none)."""
    user, scores, products = memory.user, memory.scores, memory.products[:width]
    n_lost = 0
    for g in range(0, rows.size, ROWS):
        some = rows[g : g + ROWS]
        for j in range(some.size):
            for k in range(block.user.shape[1]):
                user[j, k] = np.float64(block.user[some[j], k])
        for k in range(0, columns.shape[0], ROWS):
            _add_four(user, columns, k, scores, width)
        for j in range(some.size):
            r, score = some[j], scores[j, :width]
            if items.bias.size:
                for i in range(width):
                    score[i] += items.bias[first + i]
            k = close.excluded[g + j]
            while k < block.excluded_start[r + 1] and block.excluded[k] < first + width:
                score[block.excluded[k] - first] = np.nan
                k += 1
            block.pointer[r] = k
            if top.item.shape[1] and not close.seen[g + j]:
                for i in range(width):
                    products[i] = score[i]
                keep_best(products, first, top, r)
            for q in range(block.start[r], block.start[r + 1]):
                above, reach = _compare(score, block.exact[q])
                own = 1 if first <= block.item[q] < first + width else 0
                n_lost += reach - above < own
                block.n_above[q] += above
                block.n_tied[q] += reach - above - own
    return n_lost


@borrowing
def _add_four(user: FloatArray, columns: AnyArray, k: int, scores: FloatArray, width: int) -> None:
    """Add u_k v_k, then u_{k+1} v_{k+1}, …, u_{k+3} v_{k+3}, each rounded, to the scores of four users."""
    p0, p1, p2, p3 = user[0, k], user[0, k + 1], user[0, k + 2], user[0, k + 3]
    q0, q1, q2, q3 = user[1, k], user[1, k + 1], user[1, k + 2], user[1, k + 3]
    r0, r1, r2, r3 = user[2, k], user[2, k + 1], user[2, k + 2], user[2, k + 3]
    s0, s1, s2, s3 = user[3, k], user[3, k + 1], user[3, k + 2], user[3, k + 3]
    v0, v1 = columns[k, :width], columns[k + 1, :width]
    v2, v3 = columns[k + 2, :width], columns[k + 3, :width]
    p, q, r, s = scores[0, :width], scores[1, :width], scores[2, :width], scores[3, :width]
    if k == 0:
        for i in range(width):
            a, b, c, d = np.float64(v0[i]), np.float64(v1[i]), np.float64(v2[i]), np.float64(v3[i])
            p[i] = p0 * a + p1 * b + p2 * c + p3 * d
            q[i] = q0 * a + q1 * b + q2 * c + q3 * d
            r[i] = r0 * a + r1 * b + r2 * c + r3 * d
            s[i] = s0 * a + s1 * b + s2 * c + s3 * d
    else:
        for i in range(width):
            a, b, c, d = np.float64(v0[i]), np.float64(v1[i]), np.float64(v2[i]), np.float64(v3[i])
            p[i] = p[i] + p0 * a + p1 * b + p2 * c + p3 * d
            q[i] = q[i] + q0 * a + q1 * b + q2 * c + q3 * d
            r[i] = r[i] + r0 * a + r1 * b + r2 * c + r3 * d
            s[i] = s[i] + s0 * a + s1 * b + s2 * c + s3 * d


@borrowing
def _compare(scores: FloatArray, exact: float) -> tuple[int, int]:
    """Return how many scores are above, and reach, that of a positive."""
    above, reach = 0, 0
    for i in range(scores.size):
        above += scores[i] > exact
        reach += scores[i] >= exact
    return above, reach
