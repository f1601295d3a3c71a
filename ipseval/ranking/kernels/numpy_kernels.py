"""Counting kernels in plain NumPy, the twin of `numba_kernels`: the same functions, the same integers."""

from __future__ import annotations

import numpy as np

from ipseval.ranking.kernels.blocks import Block, Counted, Shape, Tile
from ipseval.ranking.kernels.numpy_count import Counter
from ipseval.utils.types import AnyArray, FloatArray, IntArray

NAME = "numpy"
BLOCK_BYTES = 6 * 2**20  # products of a block with a tile: few calls of NumPy, and little beyond the caches
TILE = 8192  # items of a tile: long rows, as NumPy pays for each
COPIED = 16  # positives whose users' products are searched at once
PAIRS = 1024  # pairs whose factors are gathered at a time
FEW = 8  # of w items more than w / FEW too close to call: exact scores are made for all


def pair_scores(
    user_factors: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    user: IntArray,
    item: IntArray,
    out: FloatArray,
) -> None:
    """Write the exact scores of pairs to `out`: Σ_k u_k v_k in order, in double precision, then the bias."""
    for first in range(0, user.size, PAIRS):
        rows = slice(first, first + PAIRS)
        products = user_factors.take(user[rows], axis=0).astype(np.float64)
        products *= item_factors.take(item[rows], axis=0)
        total = np.zeros(products.shape[0])
        for product in np.ascontiguousarray(products.T):  # in order, as a sum over an axis may be regrouped
            total += product
        out[rows] = total + bias[item[rows]] if bias.size else total


def row_scores(user: FloatArray, columns: FloatArray, scores: FloatArray) -> None:
    """Write the exact scores of users (b, d) and items (d, width), but for the bias, to `scores`."""
    scores[:] = 0.0
    product = np.empty_like(scores)
    for k in range(columns.shape[0]):  # in order, as a product of matrices may be regrouped
        np.multiply(user[:, k : k + 1], columns[k], out=product)
        scores += product


class Worker:
    """Counts for the blocks of one thread, tile by tile, in the same memory."""

    def __init__(self, shape: Shape) -> None:
        self._scores = np.empty(shape.n_users * shape.n_items, dtype=shape.dtype)
        self._counter = Counter()

    def begin(self, block: Block) -> None:
        """Take up a block of users; `count` adds to its counts."""
        self._block, n_users = block, block.start.size - 1
        self._row = np.repeat(np.arange(n_users), np.diff(block.start))
        self._excluded_row = np.repeat(np.arange(n_users), np.diff(block.excluded_start))
        self._counter.arrange(block.start, block.lo, block.hi)

    def count(self, tile: Tile) -> Counted:
        """Add the counts of the tile's items, where their products tell them."""
        block, first, width = self._block, tile.first, tile.fast_item.shape[0]
        n_users = block.start.size - 1
        scores = self._scores[: n_users * width].reshape(n_users, width)
        np.matmul(block.fast_user, tile.fast_item.T, out=scores)
        scores[:, tile.infinite] = tile.bias
        here = np.flatnonzero((block.excluded >= first) & (block.excluded < first + width))
        hidden = self._excluded_row[here]
        scores[hidden, block.excluded[here] - first] = np.nan
        above, reach = self._counter.count(scores, np.bincount(hidden, minlength=n_users))
        found = reach - above - ((block.item >= first) & (block.item < first + width))
        tied = np.where(block.lo == block.hi, found, 0)  # the products are exact
        close = found - tied
        many = np.bincount(self._row, close, minlength=n_users) > width // FEW
        stays = ~many[self._row]
        block.n_above[stays] += above[stays]
        block.n_tied[stays] += tied[stays]
        near = self._near(scores, np.flatnonzero(stays & (close > 0)), first)
        return Counted(int((found < 0).sum()), *near, np.flatnonzero(many))

    def _near(self, scores: AnyArray, some: IntArray, first: int) -> tuple[IntArray, IntArray]:
        """Return (positive, item) of the products within the bounds of positives `some`."""
        found, block = [np.zeros(0, dtype=np.int64)], self._block
        for begin in range(0, some.size, COPIED):  # to copy rows takes less than a call for each
            part = some[begin : begin + COPIED]
            mine = scores[self._row[part]]
            near = mine >= block.lo[part, None]
            near &= mine <= block.hi[part, None]
            found.append(np.flatnonzero(near) + begin * scores.shape[1])
        place, column = np.divmod(np.concatenate(found), scores.shape[1])
        positive, item = some[place], column + first
        others = item != block.item[positive]
        return positive[others], item[others]


def tile_width(shape: Shape) -> int:
    """Return the number of items whose products with a block are made and counted at once."""
    n_tiles = -(-shape.n_items // TILE)
    return -(-shape.n_items // n_tiles)


def block_users(shape: Shape) -> int:
    """Return the number of users whose products with a tile are made at once."""
    return max(1, BLOCK_BYTES // shape.row_bytes)


def block_bytes(shape: Shape) -> tuple[int, int]:
    """Return the memory of a worker in bytes: what it needs at all, and for each user of a block."""
    return 0, 3 * shape.row_bytes  # products, sorted copies, masks


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
    row = np.repeat(np.arange(start.size - 1), np.diff(start))
    excluded_row = np.repeat(np.arange(start.size - 1), np.diff(excluded_start))
    hidden = block[excluded_row, excluded[excluded_start[0] : excluded_start[-1]]]
    n_nan, counter = 0, Counter()
    counter.arrange(start, score, score)
    none_hidden = np.zeros(block.shape[0], dtype=np.int64)
    for first in range(0, block.shape[1], TILE):
        tile = block[:, first : first + TILE]
        if block.dtype.kind == "f":
            n_nan += int(np.isnan(tile).sum())
        above, reach = counter.count(tile, none_hidden)
        n_above += above
        n_reach += reach
    # Each positive against its user's excluded items, as flat pairs.
    size = np.diff(excluded_start)[row]
    positive = np.repeat(np.arange(row.size), size)
    offset = np.arange(positive.size) - np.repeat(np.cumsum(size) - size, size)
    x = hidden[offset + np.repeat((excluded_start - excluded_start[0])[row], size)]
    n_above -= np.bincount(positive[x > score[positive]], minlength=row.size)
    n_reach -= np.bincount(positive[x >= score[positive]], minlength=row.size)
    return n_nan
