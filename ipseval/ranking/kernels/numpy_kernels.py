"""Counting kernels in plain NumPy: the same functions and the same integers as in `numba_kernels`."""

from __future__ import annotations

import numpy as np

from ipseval.ranking.kernels.blocks import Block, Shape, Tile, UndecidedItems
from ipseval.ranking.kernels.numpy_count import ThresholdCounter
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray

NAME = "numpy"
BLOCK_BYTES = 6 * 2**20  # products of a block with a tile: few calls of NumPy, and little beyond the caches
TILE = 8192  # items of a tile: long rows, because every row costs a call of NumPy
COPIED = 16  # positives whose users' products are searched together
PAIRS = 1024  # pairs whose factors are gathered at a time
FEW = 8  # if more than w / FEW of w items are undecided, exact scores are computed for all of them


def pair_scores(
    user_factors: AnyArray,
    item_factors: AnyArray,
    bias: FloatArray,
    user: IntArray,
    item: IntArray,
    scores_out: FloatArray,
) -> None:
    """Write the exact scores of pairs: Σ_k u_k v_k in order, in double precision, then the bias."""
    for first in range(0, user.size, PAIRS):
        rows = slice(first, first + PAIRS)
        products = user_factors.take(user[rows], axis=0).astype(np.float64)
        products *= item_factors.take(item[rows], axis=0)
        total = np.zeros(products.shape[0])
        for product in np.ascontiguousarray(products.T):  # in order, because `sum` may regroup the terms
            total += product
        if bias.size:
            total += bias[item[rows]]
        scores_out[rows] = total


def row_scores(user: FloatArray, columns: FloatArray, scores: FloatArray) -> None:
    """Write the exact scores of users (b, d) and items (d, width), without the bias, to `scores`."""
    scores[:] = 0.0
    product = np.empty_like(scores)
    for k in range(columns.shape[0]):  # in order, because a product of matrices may regroup the terms
        np.multiply(user[:, k : k + 1], columns[k], out=product)
        scores += product


class Worker:
    """The counts of one thread, tile by tile, in memory that is allocated once."""

    def __init__(self, shape: Shape) -> None:
        self._scores = np.empty(shape.n_users * shape.n_items, dtype=shape.dtype)
        self._counter = ThresholdCounter()

    def begin(self, block: Block) -> None:
        """Start a block of users; `count` adds to its counts."""
        n_users = block.start.size - 1
        self._block = block
        self._row = np.repeat(np.arange(n_users), np.diff(block.start))
        self._excluded_row = np.repeat(np.arange(n_users), np.diff(block.excluded_start))
        self._counter.set_thresholds(block.start, block.lo, block.hi)

    def count(self, tile: Tile) -> UndecidedItems:
        """Add the counts of the tile's items, except for the items that are returned as undecided."""
        block = self._block
        first = tile.first
        width = tile.fast_item.shape[0]
        n_users = block.start.size - 1
        scores = self._scores[: n_users * width].reshape(n_users, width)
        np.matmul(block.fast_user, tile.fast_item.T, out=scores)
        scores[:, tile.infinite] = tile.bias

        is_excluded_here = (block.excluded_items >= first) & (block.excluded_items < first + width)
        positions = np.flatnonzero(is_excluded_here)
        excluded_row = self._excluded_row[positions]
        scores[excluded_row, block.excluded_items[positions] - first] = np.nan
        n_nan = np.bincount(excluded_row, minlength=n_users)
        above_counts, reach_counts = self._counter.count(scores, n_nan)

        # The positive itself reaches its lower bound, but is not above its upper bound.
        is_in_tile = (block.item >= first) & (block.item < first + width)
        n_within_bounds = reach_counts - above_counts - is_in_tile
        tied_counts = np.where(block.lo == block.hi, n_within_bounds, 0)  # the products are exact
        n_undecided = n_within_bounds - tied_counts

        # A user with many undecided items is not counted here.
        has_many = np.bincount(self._row, n_undecided, minlength=n_users) > width // FEW
        is_counted = ~has_many[self._row]
        block.n_above[is_counted] += above_counts[is_counted]
        block.n_tied[is_counted] += tied_counts[is_counted]
        positive, item = self._find_undecided_pairs(scores, is_counted & (n_undecided > 0), first)
        return UndecidedItems(
            n_lost=int((n_within_bounds < 0).sum()),
            positive=positive,
            item=item,
            rows=np.flatnonzero(has_many),
        )

    def _find_undecided_pairs(
        self, scores: AnyArray, has_undecided: BoolArray, first_item: int
    ) -> tuple[IntArray, IntArray]:
        """Return (positive, item) of the products within the bounds of the given positives."""
        block = self._block
        positives = np.flatnonzero(has_undecided)
        positions = [np.zeros(0, dtype=np.int64)]
        for first in range(0, positives.size, COPIED):  # copying rows takes less time than a call for each
            part = positives[first : first + COPIED]
            part_scores = scores[self._row[part]]
            is_within = part_scores >= block.lo[part, None]
            is_within &= part_scores <= block.hi[part, None]
            positions.append(np.flatnonzero(is_within) + first * scores.shape[1])
        row, column = np.divmod(np.concatenate(positions), scores.shape[1])
        positive = positives[row]
        item = column + first_item
        is_competitor = item != block.item[positive]
        return positive[is_competitor], item[is_competitor]


def tile_width(shape: Shape) -> int:
    """Return the number of items in a tile."""
    n_tiles = -(-shape.n_items // TILE)
    return -(-shape.n_items // n_tiles)


def block_users(shape: Shape) -> int:
    """Return the number of users in a block."""
    return max(1, BLOCK_BYTES // shape.row_bytes)


def block_bytes(shape: Shape) -> tuple[int, int]:
    """Return the memory of a worker in bytes: a fixed part, and the part for each user of a block."""
    return 0, 3 * shape.row_bytes  # products, sorted copies, masks


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
    counter = ThresholdCounter()
    counter.set_thresholds(start, score, score)
    no_nan = np.zeros(block.shape[0], dtype=np.int64)
    for first in range(0, block.shape[1], TILE):
        tile = block[:, first : first + TILE]
        if block.dtype.kind == "f":
            n_nan += int(np.isnan(tile).sum())
        above_counts, reach_counts = counter.count(tile, no_nan)
        n_above += above_counts
        n_reach += reach_counts
    _subtract_excluded_items(block, start, score, excluded_start, excluded_items, n_above, n_reach)
    return n_nan


def _subtract_excluded_items(
    block: AnyArray,
    start: IntArray,
    score: AnyArray,
    excluded_start: IntArray,
    excluded_items: IntArray,
    n_above: IntArray,
    n_reach: IntArray,
) -> None:
    """Subtract from the counts of each positive the excluded items of its user."""
    row = np.repeat(np.arange(start.size - 1), np.diff(start))
    excluded_row = np.repeat(np.arange(start.size - 1), np.diff(excluded_start))
    excluded_score = block[excluded_row, excluded_items[excluded_start[0] : excluded_start[-1]]]

    # All pairs of a positive and an excluded item of its user, as flat arrays.
    n_excluded = np.diff(excluded_start)[row]
    positive = np.repeat(np.arange(row.size), n_excluded)
    offset = np.arange(positive.size) - np.repeat(np.cumsum(n_excluded) - n_excluded, n_excluded)
    first_excluded = (excluded_start - excluded_start[0])[row]
    pair_score = excluded_score[offset + np.repeat(first_excluded, n_excluded)]
    positive_score = score[positive]
    n_above -= np.bincount(positive[pair_score > positive_score], minlength=row.size)
    n_reach -= np.bincount(positive[pair_score >= positive_score], minlength=row.size)
