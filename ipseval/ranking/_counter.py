"""How many scores of each row of a tile exceed thresholds, in NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipseval._types import AnyArray, IntArray

LANES = 2040  # eight bytes are added at a time: 255 words can be summed before a byte lane overflows
SLOTS = 12  # thresholds per row up to which comparing is faster than sorting
SORT_ROWS = 256  # rows that are sorted and searched at once


class Slot(NamedTuple):
    """One threshold for each of many rows."""

    rows: IntArray  # rows that have it
    chosen: IntArray  # its number among all thresholds
    everywhere: bool  # bounds are those of all rows of the tile, 0 where there is none
    lo: AnyArray  # (n, 1)
    hi: AnyArray

    @classmethod
    def of(cls, n_rows: int, rows: IntArray, chosen: IntArray, lo: AnyArray, hi: AnyArray) -> Slot:
        """Return the slot of the thresholds `chosen`, which belong to `rows`."""
        # To compare the rows without a threshold too is less work than to copy more than half of a tile.
        everywhere = 2 * rows.size > n_rows
        bounds = np.zeros((2, n_rows if everywhere else rows.size, 1), dtype=lo.dtype)
        place = rows if everywhere else slice(None)
        bounds[0, place, 0], bounds[1, place, 0] = lo[chosen], hi[chosen]
        return cls(rows, chosen, everywhere, *bounds)


class Counter:
    """Counts of the scores in each row of a tile that exceed thresholds, in memory that is used again.

    Few thresholds per row: each is compared with the whole row, and what is True is counted in byte lanes.
    Many: what reaches the lowest of them is sorted, and they are placed in it by binary search. (NumPy
    partitions and sorts with vector instructions.)
    """

    def __init__(self, n_slots: int | None = None) -> None:
        self._mask = np.zeros((0, 0), dtype=bool)
        self._n_slots = SLOTS if n_slots is None else n_slots

    def arrange(self, start: IntArray, lo: AnyArray, hi: AnyArray) -> None:
        """Take up thresholds: row r has those from `start[r]` to `start[r + 1]`."""
        self._start, self._lo, self._hi = start, lo, hi
        size = np.diff(start)
        row = np.repeat(np.arange(size.size), size)
        slot = np.arange(lo.size) - start[row]
        few = size <= self._n_slots
        slot[~few[row]] = self._n_slots
        order = np.argsort(slot, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(slot, minlength=self._n_slots + 1)))[: self._n_slots]
        self._slots = [Slot.of(size.size, row[group], group, lo, hi) for group in groups if group.size]
        self._many = np.flatnonzero(~few)
        if self._many.size:
            lowest = np.lexsort((lo, row))[start[self._many]]  # the lowest threshold of each of these rows
            self._lowest = Slot.of(size.size, self._many, lowest, lo, hi)

    def count(self, tile: AnyArray, hidden: IntArray) -> tuple[IntArray, IntArray]:
        """Return #{x > hi} and #{x >= lo} in the row of each threshold.

        NaN is never counted; `hidden` is the number of NaN in each row.
        """
        above, reach = np.zeros(self._lo.size, dtype=np.int64), np.zeros(self._lo.size, dtype=np.int64)
        for slot in self._slots:
            above[slot.chosen] = self._compared(np.greater, tile, slot, slot.hi)
            reach[slot.chosen] = self._compared(np.greater_equal, tile, slot, slot.lo)
        if self._many.size:
            n_best = hidden[self._many] + self._compared(
                np.greater_equal, tile, self._lowest, self._lowest.lo
            )
            level = np.frexp(n_best)[1]  # rows with a similar number of scores to sort
            for one in np.unique(level[n_best > 0]):
                rows = np.flatnonzero(level == one)
                for part in np.split(rows, range(SORT_ROWS, rows.size, SORT_ROWS)):
                    self._place(tile, self._many[part], int(n_best[part].max()), hidden, above, reach)
        return above, reach

    def _compared(self, compare: np.ufunc, tile: AnyArray, slot: Slot, bound: AnyArray) -> IntArray:
        """Return how many scores of each row of the slot satisfy compare(score, bound)."""
        if not slot.everywhere:
            tile = tile[slot.rows]
        n_rows, width = tile.shape
        n_pieces = -(-width // LANES)
        length = n_pieces * 8 * -(-width // (8 * n_pieces))
        if self._mask.shape[1] != length or self._mask.shape[0] < n_rows:
            self._mask = np.empty((n_rows, length), dtype=bool)
        mask = self._mask[:n_rows]
        mask[:, width:] = False
        compare(tile, bound, out=mask[:, :width])
        lanes = np.add.reduce(mask.view(np.uint64).reshape(n_rows, n_pieces, -1), axis=2).view(np.uint8)
        count: IntArray = np.add.reduce(lanes, axis=1, dtype=np.int64)
        return count[slot.rows] if slot.everywhere else count

    def _place(
        self, tile: AnyArray, rows: IntArray, n_best: int, hidden: IntArray, above: IntArray, reach: IntArray
    ) -> None:
        """Write the counts for the thresholds of `rows`, by a search among their `n_best` best scores."""
        width = tile.shape[1]
        best = tile[rows]
        if 2 * n_best < width:
            best.partition(width - n_best, axis=1)  # NaN comes last, as in a sort
            best = best[:, width - n_best :]
        else:
            n_best = width
        length = (1 << n_best.bit_length()) - 1  # for the search: 2**k - 1
        ordered = np.empty((rows.size, length), dtype=tile.dtype)
        ordered[:, n_best:] = np.nan if tile.dtype.kind == "f" else np.iinfo(tile.dtype).max
        ordered[:, :n_best] = best
        ordered[:, :n_best].sort(axis=1)
        size = np.diff(self._start)[rows]
        row = np.repeat(np.arange(rows.size), size)
        chosen = self._start[rows][row] + np.arange(row.size) - np.repeat(np.cumsum(size) - size, size)
        lo, hi = self._lo[chosen], self._hi[chosen]
        flat, base = ordered.ravel(), row * length
        below_lo = _search(flat, base, length, lo)
        up_to_hi = below_lo.copy()
        rest = np.arange(row.size)
        for _ in range(4):  # between lo and hi there is usually one score, the positive's own
            x = flat[base[rest] + np.minimum(up_to_hi[rest], n_best - 1)]
            rest = rest[(up_to_hi[rest] < n_best) & (x <= hi[rest])]
            up_to_hi[rest] += 1
        up_to_hi[rest] = _search(flat, base[rest], length, hi[rest], include=True)
        n_scores = (n_best - hidden[rows])[row]
        above[chosen] = n_scores - np.minimum(up_to_hi, n_scores)
        reach[chosen] = n_scores - np.minimum(below_lo, n_scores)


def _search(
    flat: AnyArray, base: IntArray, length: int, value: AnyArray, *, include: bool = False
) -> IntArray:
    """Return how many of the `length` = 2**k - 1 sorted entries from `base` on are < value (or <=)."""
    below = np.less_equal if include else np.less
    place, probe = base - 1, np.empty_like(base)
    step = (length + 1) // 2
    while step:
        np.add(place, step, out=probe)
        np.copyto(place, probe, where=below(flat.take(probe), value))
        step //= 2
    count: IntArray = place - base + 1
    return count
