"""Counting kernels in plain NumPy, the twin of `_kernels_numba`: the same functions, the same integers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipseval._compute import one_blas_thread
from ipseval._types import AnyArray, BoolArray, FloatArray, IntArray
from ipseval.ranking._batches import Block, Catalogue, Gathered, Shape, Tile
from ipseval.ranking._kept import reached_by, reaching
from ipseval.ranking._order import ranks_within_group

NAME = "numpy"
BLOCK_BYTES = 6 * 2**20  # products of a block with a tile: few calls of NumPy, and little beyond the caches
TILE = 8191  # items of a tile: long rows, as NumPy pays for each, and one less than a power of 2 to search
LANES = 2040  # eight bytes are added at a time: 255 words can be summed before a byte lane overflows
SLOTS = 12  # positives per user up to which comparing is faster than sorting
SORT_ROWS = 256  # rows that are sorted and searched at once
SETTLED = 64  # positives whose close products are looked up at once
PAIRS = 1024  # pairs whose factors are gathered at a time
held = one_blas_thread  # around a pass


def placed(fast_item: AnyArray) -> AnyArray:
    """Return the factors of all items where the products read them."""
    return fast_item


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


class Worker:
    """Counts for the blocks of one thread, tile by tile, in the same memory."""

    def __init__(self, shape: Shape) -> None:
        self._scores = np.empty(shape.n_users * shape.n_items, shape.dtype)
        self._counter = Counter()
        self._best = Kept(shape)

    def begin(self, block: Block, slack: FloatArray) -> None:
        """Take up a block of users; `count` adds to its counts.

        `slack` (b,): how far below the k-th best product an item of the k best can be.
        """
        self._block = block
        self._best.begin(slack)
        self._counter.arrange(block.start, block.lo, block.hi)
        size = np.diff(block.start)
        self._row = np.repeat(np.arange(size.size), size)
        self._excluded_row = np.repeat(np.arange(size.size), np.diff(block.excluded_start))

    def count(self, catalogue: Catalogue, tile: Tile) -> tuple[int, int]:
        """Add the counts of the tile's items to those of the block's positives.

        Returns how many positives fell out of their own bounds (none, or the bounds are wrong), and how many
        products were too close to call.
        """
        block, first, width = self._block, tile.first, tile.fast_item.shape[0]
        n_users = block.start.size - 1
        scores = self._scores[: n_users * width].reshape(n_users, width)
        np.matmul(block.fast_user, tile.fast_item.T, out=scores)
        scores[:, tile.infinite] = tile.bias
        here = np.flatnonzero((block.excluded >= first) & (block.excluded < first + width))
        scores[self._excluded_row[here], block.excluded[here] - first] = np.nan
        hidden = np.bincount(self._excluded_row[here], minlength=n_users)
        above, reach = self._counter.count(scores, hidden)
        block.n_above[:] += above
        own = (block.item >= first) & (block.item < first + width)
        self._best.add(scores, first)
        close = np.flatnonzero(reach - above > own)
        for part in np.split(close, range(SETTLED, close.size, SETTLED)):
            self._settle(scores, part, catalogue, first)
        return int((reach - above < own).sum()), int((reach - above)[close].sum())

    def gathered(self) -> Gathered:
        """Return all items that may be among the k best of a user."""
        return self._best.gathered()

    def _settle(self, scores: AnyArray, part: IntArray, catalogue: Catalogue, first: int) -> None:
        """Decide by the exact score about the items whose product is too close to a positive's to call."""
        block = self._block
        mine = scores[self._row[part]]
        near = mine >= block.lo[part, None]
        near &= mine <= block.hi[part, None]
        place, other = np.divmod(np.flatnonzero(near), scores.shape[1])
        self._decide(part[place], other + first, catalogue)

    def _decide(self, positive: IntArray, other: IntArray, catalogue: Catalogue) -> None:
        """Add to the counts what exact scores say of items `other`, each close to its `positive`."""
        block, row, item = self._block, self._row, self._block.item
        rest = other != item[positive]
        if catalogue.twin.size:
            twins = rest & (item[positive] >= 0) & (catalogue.twin[other] == catalogue.twin[item[positive]])
            block.n_tied[:] += np.bincount(positive[twins], minlength=row.size)
            rest &= ~twins
        positive, other = positive[rest], other[rest]
        score = self._exact(catalogue, row[positive], other)
        block.n_above[:] += np.bincount(positive[score > block.exact[positive]], minlength=row.size)
        block.n_tied[:] += np.bincount(positive[score == block.exact[positive]], minlength=row.size)

    def _exact(self, catalogue: Catalogue, row: IntArray, other: IntArray) -> FloatArray:
        """Return the exact scores of pairs; what several positives of a user need is computed once."""
        if row.size < PAIRS:
            score = np.empty(row.size)
            pair_scores(self._block.user, catalogue.item, catalogue.bias, row, other, score)
            return score
        first = int(other.min())  # all items are of one tile
        width = int(other.max()) + 1 - first
        key = (row - row[0]) * np.int64(width) + (other - first)
        table = np.zeros((row[-1] - row[0] + 1) * width)
        table[key] = 1.0
        chosen = np.flatnonzero(table)
        score = np.empty(chosen.size)
        user, item = np.divmod(chosen, width)
        pair_scores(self._block.user, catalogue.item, catalogue.bias, user + row[0], item + first, score)
        table[chosen] = score
        known: FloatArray = table[key]
        return known


class Kept:
    """The items of each user of a block that may be among its k best, by their products."""

    def __init__(self, shape: Shape) -> None:
        self._k = shape.top_k
        self._item = np.empty((shape.n_users, shape.room), dtype=np.int32)
        self._score = np.empty((shape.n_users, shape.room), dtype=shape.dtype)

    def begin(self, slack: FloatArray) -> None:
        """Take up other users, and how far below the k-th best product an item of the k best can be."""
        self._score[:] = -np.inf
        self._slack = slack.astype(self._score.dtype)
        self._low = np.full(slack.size, -np.inf, dtype=self._score.dtype)
        self._size = np.zeros(slack.size, dtype=np.int64)
        self._crowded = np.zeros(slack.size, dtype=bool)

    def add(self, scores: AnyArray, first: int) -> None:
        """Take up the products of a tile, NaN left out, whose first item is `first`."""
        if not self._k:
            return
        self._low = np.maximum(self._low, reached_by(scores, self._k) - self._slack)
        row, column, score = reaching(scores, np.where(self._crowded, np.nan, self._low))
        more = np.bincount(row, minlength=self._size.size)
        if (self._size + more > self._item.shape[1]).any():
            self._leave_out()
            self._crowded |= self._size + more > self._item.shape[1]
            stays = ~self._crowded[row]
            row, column, score, more = row[stays], column[stays], score[stays], more * ~self._crowded
        place = self._size[row] + np.arange(row.size) - (np.cumsum(more) - more)[row]
        self._item[row, place], self._score[row, place] = column + first, score
        self._size += more
        best = np.partition(self._score[: self._size.size], -self._k, axis=1)[:, -self._k]
        self._low = np.maximum(self._low, best - self._slack)

    def _leave_out(self) -> None:
        """Leave out what is below the lowest product that counts."""
        row, place = self._inside()
        item, score = self._item[row, place], self._score[row, place]
        self._size = np.bincount(row, minlength=self._size.size)
        place = np.arange(row.size) - (np.cumsum(self._size) - self._size)[row]
        self._score[:] = -np.inf
        self._item[row, place], self._score[row, place] = item, score

    def _inside(self) -> tuple[IntArray, IntArray]:
        """Return (row, place) of what may count."""
        inside = np.arange(self._item.shape[1]) < self._size[:, None]
        inside &= (self._score[: self._size.size] >= self._low[:, None]) & ~self._crowded[:, None]
        row, place = np.nonzero(inside)
        return row, place

    def gathered(self) -> Gathered:
        """Return what may be among the k best."""
        row, place = self._inside()
        item, crowded = self._item[row, place].astype(np.int64), np.flatnonzero(self._crowded)
        return Gathered(row, item, self._score[row, place], self._low, crowded)


def close_in_rows(row: IntArray, product: AnyArray, slack: FloatArray) -> BoolArray:
    """Return which entries have another of the same row at most `slack[row]` away; rows are ascending."""
    order = np.lexsort((product, row))
    ordered, owner = product[order], row[order]
    with np.errstate(invalid="ignore"):  # inf - inf
        near = (ordered[1:] - ordered[:-1] <= slack[owner[1:]]) & (owner[1:] == owner[:-1])
    close = np.zeros(row.size, dtype=bool)
    close[order[1:][near]] = close[order[:-1][near]] = True
    return close


def ranks_in_rows(row: IntArray, score: FloatArray) -> tuple[IntArray, IntArray]:
    """Return how many entries of the same row score higher than, and tie with, each; rows are ascending."""
    return ranks_within_group(row, score)


def tile_width(shape: Shape) -> int:
    """Return the number of items whose products with a block are made and counted at once."""
    n_tiles = -(-shape.n_items // TILE)
    return -(-shape.n_items // n_tiles)


def block_users(shape: Shape) -> int:
    """Return the number of users whose products with a tile are made at once."""
    return max(1, BLOCK_BYTES // shape.row_bytes)


def block_bytes(shape: Shape) -> tuple[int, int]:
    """Return the memory of a worker in bytes: what it needs at all, and for each user of a block."""
    return (
        0,
        3 * shape.row_bytes + 2 * shape.room_bytes,
    )  # products, sorted copies, masks; the best and a copy


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

    def __init__(self) -> None:
        self._mask = np.zeros((0, 0), dtype=bool)

    def arrange(self, start: IntArray, lo: AnyArray, hi: AnyArray) -> None:
        """Take up thresholds: row r has those from `start[r]` to `start[r + 1]`."""
        self._start, self._lo, self._hi = start, lo, hi
        size = np.diff(start)
        row = np.repeat(np.arange(size.size), size)
        slot = np.arange(lo.size) - start[row]
        few = size <= SLOTS
        slot[~few[row]] = SLOTS
        order = np.argsort(slot, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(slot, minlength=SLOTS + 1)))[:SLOTS]
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
        flat, base = ordered.reshape(-1), row * length
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
