"""What a worker of PyTorch's kernels holds: factors and counts of some users, and their best items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from ipseval._types import AnyArray, FloatArray, IntArray
from ipseval.ranking._batches import Block, Catalogue, Gathered, Shape
from ipseval.ranking._best import Kept
from ipseval.ranking._close import Part
from ipseval.ranking._counter import Counter

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SLOTS = 64  # positives per user up to which comparing is faster than sorting
SORT_ROWS = 64  # rows that are sorted and searched at once
ROWS = 8 if DEVICE.type == "cpu" else 4096  # users whose exact scores are added together
COLUMNS = 4096 if DEVICE.type == "cpu" else 2**16  # items whose exact scores are added together


def on_device(array: AnyArray) -> Any:
    """Return an array as a tensor: a copy on a GPU, a view of the same memory on the processor."""
    return torch.from_numpy(array).to(DEVICE)


def wide_scores(user: Any, catalogue: Catalogue, first: int, out: Any, *, in_order: bool) -> None:
    """Write scores in double precision of users and items to `out`; the twin of `_close.wide_scores`."""
    for begin in range(0, out.shape[1], COLUMNS):
        scores = out[:, begin : begin + COLUMNS]
        items = slice(first + begin, first + begin + scores.shape[1])
        item = on_device(catalogue.item[items].astype(np.float64))
        if in_order:
            columns = item.T.contiguous()
            for r in range(0, user.shape[0], ROWS):
                scores[r : r + ROWS] = _in_order(user[r : r + ROWS], columns)
        else:
            torch.mm(user, item.T, out=scores)
        if catalogue.bias.size:
            scores += on_device(catalogue.bias[items].copy())


def _in_order(user: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Return Σ_k u_k v_k of all pairs, added in order: each product is rounded before it is added."""
    total = user.new_zeros((user.shape[0], columns.shape[1]))
    product = torch.empty_like(total)
    for k in range(columns.shape[0]):
        torch.mul(user[:, k : k + 1], columns[k], out=product)
        total += product
    return total


@dataclass(frozen=True, eq=False)
class DevicePart(Part):
    """Some users of a block, whose factors lie on the device."""

    @classmethod
    def of(cls, level: int, block: Block, rows: IntArray, counter: Counter) -> Self:
        """Return the part of the users `rows`, ascending."""
        part = super().of(level, block, rows, counter)
        return replace(part, user=on_device(part.user))

    def near(self, scores: Any, some: IntArray) -> tuple[IntArray, IntArray]:
        """Return (positive of the block, column) of the scores within the bounds of positives `some`."""
        found = []
        for first in range(0, some.size, self.rows.size):  # no more memory than the scores have
            few = some[first : first + self.rows.size]
            mine = scores[on_device(self.row[few])]
            lo, hi = on_device(self.lo[few, None]), on_device(self.hi[few, None])
            place, column = ((mine >= lo) & (mine <= hi)).nonzero().T.cpu().numpy()
            found.append((self.positive[few[place]], column))
        positive, column = (np.concatenate(one) for one in zip(*found, strict=True))
        return positive, column


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


class DeviceCounter(Counter):
    """Counts of scores that lie on the device; `mask`: memory for as many numbers as there are scores."""

    def __init__(self, mask: Any) -> None:
        super().__init__(SLOTS)
        self._numbers = mask

    def arrange(self, start: IntArray, lo: AnyArray, hi: AnyArray) -> None:
        """Take up thresholds: row r has those from `start[r]` to `start[r + 1]`."""
        super().arrange(start, lo, hi)
        size = np.diff(start)
        few = np.flatnonzero(np.repeat(size <= SLOTS, size))
        row = np.repeat(np.arange(size.size), size)[few]
        slot = few - start[row]
        order = np.argsort(slot, kind="stable")
        groups = np.split(few[order], np.cumsum(np.bincount(slot))[:-1])
        all_rows = np.repeat(np.arange(size.size), size)
        self._slots = [Slot.of(size.size, all_rows[group], group, lo, hi) for group in groups if group.size]
        self._placed = [
            (on_device(slot.rows), slot.everywhere, on_device(slot.lo), on_device(slot.hi))
            for slot in self._slots
        ]

    def count(self, tile: Any, hidden: IntArray) -> tuple[IntArray, IntArray]:
        """Return #{x > hi} and #{x >= lo} in the row of each threshold; `hidden` as in `Counter`."""
        above, reach = (np.zeros(self._lo.size, dtype=np.int64) for _ in range(2))
        counts = []
        for rows, everywhere, lo, hi in self._placed:
            some = tile if everywhere else tile[rows]
            mask = self._numbers.view(tile.dtype)[: some.numel()].view(some.shape)
            for compare, bound in ((torch.gt, hi), (torch.ge, lo)):
                compare(some, bound, out=mask)
                count = mask.sum(dim=1)
                counts.append(count[rows] if everywhere else count)
        if counts:  # brought back at once
            chosen = np.concatenate([slot.chosen for slot in self._slots])
            found = (torch.cat(counts[number::2]).cpu().numpy() for number in (0, 1))
            above[chosen], reach[chosen] = (one.astype(np.int64) for one in found)
        for first in range(0, self._many.size, SORT_ROWS):
            rows = self._many[first : first + SORT_ROWS]
            n_valid = tile.shape[1] - hidden[rows, None]
            self._search(tile[on_device(rows)], rows, n_valid, above, reach)
        return above, reach

    def _search(
        self, scores: torch.Tensor, rows: IntArray, n_valid: IntArray, above: IntArray, reach: IntArray
    ) -> None:
        """Write the counts of users with many positives, by a search among their sorted scores."""
        size = np.diff(self._start)[rows]
        chosen = self._start[rows][:, None] + np.minimum(np.arange(size.max()), size[:, None] - 1)
        ordered = scores.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf).sort(dim=1).values
        up_to_hi = torch.searchsorted(ordered, on_device(self._hi[chosen]), right=True)
        below_lo = torch.searchsorted(ordered, on_device(self._lo[chosen]))
        for place, counts in ((up_to_hi, above), (below_lo, reach)):  # what was NaN stands at the end
            counts[chosen] = n_valid - np.minimum(place.cpu().numpy(), n_valid)


class DeviceKept(Kept):
    """The items of each user of a block that may be among its k best, by their products."""

    def __init__(self, shape: Shape) -> None:
        self._k, self._room, self._dtype = shape.top_k, shape.room, shape.dtype

    def begin(self, slack: FloatArray) -> None:
        """Take up other users, and how far below the k-th best product an item of the k best can be."""
        self._slack, self._low = slack, np.full(slack.size, -np.inf)  # NaN: too many are too close to call
        self._found = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)

    def add(self, scores: Any, first: int) -> None:
        """Take up the products of a tile, NaN left out, whose first item is `first`."""
        if not self._k:
            return
        low = self._low
        if self._k < scores.shape[1]:
            known = scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
            reached = known.topk(self._k, dim=1).values[:, -1].cpu().numpy()
            low = np.maximum(low, reached - self._slack)
        place, column = (scores >= on_device(self._rounded_down(low))[:, None]).nonzero().T
        found = place.cpu().numpy(), column.cpu().numpy() + first, scores[place, column].cpu().numpy()
        row, item, score = (np.concatenate(both) for both in zip(self._found, found, strict=True))
        order = np.lexsort((-score, row))
        row, item, score = row[order], item[order], score[order]
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        last = starts[np.diff(starts, append=row.size) >= self._k] + self._k - 1
        self._low[row[last]] = np.maximum(self._low[row[last]], score[last] - self._slack[row[last]])
        size = np.bincount(row[score >= self._low[row]], minlength=self._slack.size)
        self._low[size > self._room] = np.nan
        kept = score >= self._low[row]
        self._found = row[kept], item[kept], score[kept]

    def _rounded_down(self, low: FloatArray) -> AnyArray:
        """Return bounds in the type of the products."""
        fast = low.astype(self._dtype)
        return np.where(fast > low, np.nextafter(fast, fast.dtype.type(-np.inf)), fast)

    def gathered(self) -> Gathered:
        """Return what may be among the k best."""
        row, item, score = self._found
        order = np.lexsort((item, row))
        crowded = np.flatnonzero(np.isnan(self._low))
        return Gathered(row[order], item[order], score[order], self._low, crowded)
