"""Counting kernels in plain NumPy: the same functions and the same integers as in `numba_kernels`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipseval.ranking.kernels.blocks import Block, Shape, Tile, UndecidedItems
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray

LANES = 2040  # eight bytes are added at a time: 255 words can be summed before a byte lane overflows
MASK_BYTES = 2**21  # results of the comparisons of a few rows: in shorter calls threads wait for each other
SLOTS = 30  # thresholds per row up to which comparing is faster than sorting


class ThresholdGroup(NamedTuple):
    """The thresholds of rows that have the same number k of thresholds."""

    rows: IntArray  # (n,) ascending
    positions: IntArray  # (n, k) positions of their thresholds among all thresholds
    lo: AnyArray  # (n, k, 1)
    hi: AnyArray

    @classmethod
    def from_positions(
        cls, rows: IntArray, positions: IntArray, lo: AnyArray, hi: AnyArray
    ) -> ThresholdGroup:
        """Return the thresholds at `positions` (n, k) of `rows`."""
        return cls(rows, positions, lo[positions][:, :, None], hi[positions][:, :, None])


class ThresholdCounter:
    """Count the scores in each row of a tile that exceed thresholds, in memory that is reused."""

    # For a row with few thresholds, all of them are compared with the whole row, and the results are summed
    # in byte lanes. For a row with many, the scores that reach the lowest threshold are sorted, and the
    # thresholds are searched in them. (NumPy partitions and sorts with vector instructions.)

    def __init__(self) -> None:
        self._mask = np.zeros(0, dtype=bool)

    def set_thresholds(self, start: IntArray, lo: AnyArray, hi: AnyArray) -> None:
        """Use these thresholds from now on: row r has the ones from `start[r]` to `start[r + 1]`."""
        self._start = start
        self._lo = lo
        self._hi = hi
        n_thresholds = np.diff(start)

        self._groups: list[ThresholdGroup] = []
        for k in np.unique(n_thresholds[(n_thresholds > 0) & (n_thresholds <= SLOTS)]).tolist():
            rows = np.flatnonzero(n_thresholds == k)
            positions = start[rows, None] + np.arange(k)
            self._groups.append(ThresholdGroup.from_positions(rows, positions, lo, hi))

        self._rows_to_sort = np.flatnonzero(n_thresholds > SLOTS)
        if self._rows_to_sort.size:
            row = np.repeat(np.arange(n_thresholds.size), n_thresholds)
            lowest = np.lexsort((lo, row))[
                start[self._rows_to_sort]
            ]  # lowest threshold of each of these rows
            self._lowest = ThresholdGroup.from_positions(self._rows_to_sort, lowest[:, None], lo, hi)

    def count(self, tile: AnyArray, n_nan: IntArray) -> tuple[IntArray, IntArray]:
        """Return #{x > hi} and #{x >= lo} for each threshold; `n_nan` is the number of NaN in each row."""
        above_counts = np.zeros(self._lo.size, dtype=np.int64)
        reach_counts = np.zeros(self._lo.size, dtype=np.int64)
        for group in self._groups:
            group_above_counts, group_reach_counts = self._compare(
                tile, group, [(np.greater, group.hi), (np.greater_equal, group.lo)]
            )
            above_counts[group.positions] = group_above_counts
            reach_counts[group.positions] = group_reach_counts

        if self._rows_to_sort.size:
            (n_reaching,) = self._compare(tile, self._lowest, [(np.greater_equal, self._lowest.lo)])
            for row, n_best in zip(self._rows_to_sort.tolist(), n_reaching[:, 0].tolist(), strict=True):
                if n_best:
                    thresholds = slice(self._start[row], self._start[row + 1])
                    best = _sort_largest(tile[row], n_best, int(n_nan[row]))
                    above_counts[thresholds] = n_best - np.searchsorted(
                        best, self._hi[thresholds], side="right"
                    )
                    reach_counts[thresholds] = n_best - np.searchsorted(best, self._lo[thresholds])
        return above_counts, reach_counts

    def _compare(
        self, tile: AnyArray, group: ThresholdGroup, comparisons: list[tuple[np.ufunc, AnyArray]]
    ) -> list[IntArray]:
        """Return, for each comparison (compare, bound), how many scores of each row satisfy it, (n, k)."""
        # A few rows at a time are compared with all their thresholds, so that they stay in the cache.
        n, k = group.positions.shape
        width = tile.shape[1]
        n_pieces = -(-width // LANES)
        length = n_pieces * 8 * -(-width // (8 * n_pieces))
        step = min(max(1, min(MASK_BYTES, tile.nbytes) // (k * length)), n)
        if self._mask.size < step * k * length:
            self._mask = np.empty(step * k * length, dtype=bool)

        counts: list[IntArray] = [np.empty((n, k), dtype=np.int64) for _ in comparisons]
        for first in range(0, n, step):
            part = slice(first, first + step)
            rows = group.rows[part]
            scores = _take_rows(tile, rows)
            mask = self._mask[: rows.size * k * length].reshape(rows.size, k, length)
            mask[:, :, width:] = False
            words = mask.view(np.uint64).reshape(rows.size, k, n_pieces, -1)
            for (compare, bound), count in zip(comparisons, counts, strict=True):
                compare(scores[:, None], bound[part], out=mask[:, :, :width])
                # `np.add.reduce` takes almost twice as long as `einsum` for the sum over this axis.
                lanes = np.einsum("ijkl->ijk", words).view(np.uint8)
                np.add.reduce(lanes, axis=2, dtype=np.int64, out=count[part])
        return counts


def _take_rows(tile: AnyArray, rows: IntArray) -> AnyArray:
    """Return some rows of a tile, as a view if they are consecutive."""
    if rows[-1] - rows[0] == rows.size - 1:
        return tile[rows[0] : rows[-1] + 1]
    return tile[rows]


def _sort_largest(scores: AnyArray, n_largest: int, n_nan: int) -> AnyArray:
    """Return the `n_largest` largest of the scores, ascending; `n_nan` of the scores are NaN."""
    n_last = n_largest + n_nan
    last = np.partition(scores, scores.size - n_last)[scores.size - n_last :]
    last.sort()  # NaN comes last, as it does in a partition
    return last[:n_largest]


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
