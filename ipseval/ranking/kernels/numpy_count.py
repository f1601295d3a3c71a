"""Counts of the scores of a row beyond thresholds, in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipseval.utils.types import AnyArray, IntArray

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
