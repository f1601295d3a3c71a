"""How many scores of a row are beyond thresholds, in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipseval.utils.types import AnyArray, IntArray

LANES = 2040  # eight bytes are added at a time: 255 words can be summed before a byte lane overflows
MASK_BYTES = 2**21  # what comparisons say of a few rows: in shorter calls threads wait for each other
SLOTS = 30  # thresholds per row up to which comparing is faster than sorting


class Even(NamedTuple):
    """Rows that have the same number k of thresholds."""

    rows: IntArray  # (n,) ascending
    chosen: IntArray  # (n, k) numbers of their thresholds among all
    lo: AnyArray  # (n, k, 1)
    hi: AnyArray

    @classmethod
    def of(cls, rows: IntArray, chosen: IntArray, lo: AnyArray, hi: AnyArray) -> Even:
        """Return the thresholds `chosen` (n, k) of `rows`."""
        return cls(rows, chosen, lo[chosen][:, :, None], hi[chosen][:, :, None])


class Counter:
    """Counts of the scores in each row of a tile that exceed thresholds, in memory that is used again."""

    # Few thresholds per row: all are compared with the whole row, and what is True is counted in byte lanes.
    # Many: what reaches the lowest of them is sorted, and they are searched in it, row by row. (NumPy
    # partitions and sorts with vector instructions.)

    def __init__(self) -> None:
        self._mask = np.zeros(0, dtype=bool)

    def arrange(self, start: IntArray, lo: AnyArray, hi: AnyArray) -> None:
        """Take up thresholds: row r has those from `start[r]` to `start[r + 1]`."""
        self._start, self._lo, self._hi = start, lo, hi
        size = np.diff(start)
        few = np.unique(size[(size > 0) & (size <= SLOTS)])
        self._few = [
            Even.of(rows, start[rows, None] + np.arange(k), lo, hi)
            for k, rows in ((k, np.flatnonzero(size == k)) for k in few.tolist())
        ]
        self._many = np.flatnonzero(size > SLOTS)
        if self._many.size:
            row = np.repeat(np.arange(size.size), size)
            lowest = np.lexsort((lo, row))[start[self._many]]  # the lowest threshold of each of these rows
            self._lowest = Even.of(self._many, lowest[:, None], lo, hi)

    def count(self, tile: AnyArray, hidden: IntArray) -> tuple[IntArray, IntArray]:
        """Return #{x > hi} and #{x >= lo} of each threshold's row; `hidden`: how many NaN each row has."""
        above, reach = np.zeros(self._lo.size, dtype=np.int64), np.zeros(self._lo.size, dtype=np.int64)
        for some in self._few:
            asked = ((np.greater, some.hi), (np.greater_equal, some.lo))
            above[some.chosen], reach[some.chosen] = self._compared(tile, some, *asked)
        if self._many.size:
            (reached,) = self._compared(tile, self._lowest, (np.greater_equal, self._lowest.lo))
            for row, n_reached in zip(self._many.tolist(), reached[:, 0].tolist(), strict=True):
                if n_reached:
                    own = slice(self._start[row], self._start[row + 1])
                    n_best = n_reached + int(hidden[row])
                    best = np.partition(tile[row], tile.shape[1] - n_best)[tile.shape[1] - n_best :]
                    best.sort()  # NaN comes last, as it does in a partition
                    best = best[:n_reached]
                    above[own] = n_reached - np.searchsorted(best, self._hi[own], side="right")
                    reach[own] = n_reached - np.searchsorted(best, self._lo[own])
        return above, reach

    def _compared(self, tile: AnyArray, some: Even, *asked: tuple[np.ufunc, AnyArray]) -> list[IntArray]:
        """Return how many scores of each row satisfy compare(score, bound), (n, k) for each of `asked`."""
        # Rows are compared a few at a time with all their thresholds: they stay in the cache meanwhile.
        (n, k), width = some.chosen.shape, tile.shape[1]
        n_pieces = -(-width // LANES)
        length = n_pieces * 8 * -(-width // (8 * n_pieces))
        step = min(max(1, min(MASK_BYTES, tile.nbytes) // (k * length)), n)
        if self._mask.size < step * k * length:
            self._mask = np.empty(step * k * length, dtype=bool)
        counts: list[IntArray] = [np.empty((n, k), dtype=np.int64) for _ in asked]
        for first in range(0, n, step):
            part, rows = slice(first, first + step), some.rows[first : first + step]
            together = rows[-1] - rows[0] == rows.size - 1  # not to be copied
            scores = tile[rows[0] : rows[-1] + 1] if together else tile[rows]
            mask = self._mask[: rows.size * k * length].reshape(rows.size, k, length)
            mask[:, :, width:] = False
            words = mask.view(np.uint64).reshape(rows.size, k, n_pieces, -1)
            for (compare, bound), count in zip(asked, counts, strict=True):
                compare(scores[:, None], bound[part], out=mask[:, :, :width])
                # The sum over an axis takes `np.add.reduce` almost twice as long.
                lanes = np.einsum("ijkl->ijk", words).view(np.uint8)
                np.add.reduce(lanes, axis=2, dtype=np.int64, out=count[part])
        return counts
