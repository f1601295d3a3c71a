"""Counting kernels in plain NumPy, the twin of `numba_kernels`: the same functions, the same integers."""

from __future__ import annotations

import numpy as np

from ipseval._base.ids import ranks_within_group
from ipseval._base.types import AnyArray, BoolArray, FloatArray, IntArray
from ipseval.ranking._top_lists import reached_by, reaching
from ipseval.ranking.kernels.blocks import Block, Catalogue, Gathered, Shape, Tile
from ipseval.ranking.kernels.numpy_count import Counter, Part, wide_scores


class TopKBuffer:
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


ranks_in_rows = ranks_within_group


NAME = "numpy"
BLOCK_BYTES = 6 * 2**20  # products of a block with a tile: few calls of NumPy, and little beyond the caches
TILE = 8191  # items of a tile: long rows, as NumPy pays for each, and one less than a power of 2 to search
DECIDED = 128  # positives whose close pairs get exact scores at once
PAIRS = 1024  # pairs whose factors are gathered at a time
FEW = (128, 8)  # a tile of w items is counted otherwise where more than w / FEW products are too close
WAIT = 15  # tiles until the products are tried again for such a user


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

    # A user with more than a few products too close to call in a tile is counted by products in double
    # precision; where these are too close as well, by the exact scores of all its items.

    def __init__(self, shape: Shape) -> None:
        self._room = max(
            -(-shape.n_users * shape.row_bytes // 8), shape.n_items
        )  # scores in double precision
        self._scores = np.empty(self._room)
        self._best, self._top_k, self._narrow = TopKBuffer(shape), shape.top_k, shape.dtype
        self._levels = (0, 1, 2) if shape.dtype == np.float32 else (0, 2)
        self._level, self._n_blocks, self._twins = np.zeros(0, dtype=np.int64), 0, False

    def begin(self, block: Block, slack: FloatArray) -> None:
        """Take up a block of users; `count` adds to its counts."""
        # `slack` (b,): how far below the k-th best product an item of the k best can be.
        self._block = block
        self._best.begin(slack)
        size = np.diff(block.start)
        self._row = np.repeat(np.arange(size.size), size)
        # Users of one model are alike: begin where most of the last block ended, but for one block in eight.
        usual = int(np.median(self._level)) if self._n_blocks % 8 and self._level.size else 0
        self._n_blocks += 1
        self._level = np.full(size.size, usual if usual in self._levels else 0)
        self._wait = np.full(size.size, WAIT)
        self._parts: dict[int, list[Part]] = {}

    def count(self, catalogue: Catalogue, tile: Tile) -> tuple[int, int]:
        """Count a tile; return how many positives left their bounds (none) and products were close."""
        n_lost, n_close = 0, 0
        if catalogue.twin.size and not self._twins:  # what was close may be equal, which needs no score
            self._level[:], self._twins = 0, True
        self._level[self._wait == 0] = 0
        if self._top_k:  # the best items are found by the products
            self._level[:] = 0
        self._wait -= 1
        for level in self._levels:
            rows = np.flatnonzero(self._level == level)
            if not rows.size:
                continue
            for part in self._parts_of(level, rows, tile.fast_item.shape[0]):
                lost, close, more = self._count_part(part, catalogue, tile)
                n_lost, n_close = n_lost + lost, n_close + close
                self._level[more] = self._levels[-1] if level else self._levels[1]
                self._wait[more] = WAIT
        return n_lost, n_close

    def gathered(self) -> Gathered:
        """Return all items that may be among the k best of a user."""
        return self._best.gathered()

    def _parts_of(self, level: int, rows: IntArray, width: int) -> list[Part]:
        """Return the users of a level, as many at a time as there is memory for."""
        before = self._parts.get(level, [])
        if sum(part.rows.size for part in before) == rows.size and all(
            np.isin(part.rows, rows).all() for part in before
        ):
            return before
        step = rows.size if level == 0 else self._room // width
        pieces = [rows[first : first + step] for first in range(0, rows.size, step)]
        self._parts[level] = [Part.of(level, self._block, some) for some in pieces]
        return self._parts[level]

    def _count_part(self, part: Part, catalogue: Catalogue, tile: Tile) -> tuple[int, int, IntArray]:
        """Add the counts of some users; return what `count` does, and the users to be counted otherwise."""
        block, first, width = self._block, tile.first, int(tile.fast_item.shape[0])
        here = np.flatnonzero((part.excluded >= first) & (part.excluded < first + width))
        hidden_row, hidden = part.excluded_row[here], part.excluded[here]
        scores = self._scores_of(part, catalogue, tile, (hidden_row, hidden - first))
        if part.level == 0:
            self._best.add(scores, first)
        above, reach = part.counter.count(scores, np.bincount(hidden_row, minlength=part.rows.size))
        found = reach - above - ((part.item >= first) & (part.item < first + width))
        equal = np.where(part.lo == part.hi, found, 0)
        if catalogue.twin.size:
            some = np.flatnonzero(found > equal)
            equal[some] = part.equal(some, catalogue.twin, tile, hidden_row, hidden)
        close = found - equal
        more = np.zeros(part.rows.size, dtype=bool)
        if part.level != self._levels[-1]:
            more = np.bincount(part.row, close, minlength=more.size) > width // FEW[part.level]
        stays = ~more[part.row]
        block.n_above[part.positive[stays]] += above[stays]
        block.n_tied[part.positive[stays]] += equal[stays]
        some = np.flatnonzero(stays & (close > 0))
        for begin in range(0, some.size, DECIDED):
            positive, other = part.near(scores, some[begin : begin + DECIDED])
            self._decide(positive, other + first, catalogue)
        return int((found < 0).sum()), int(close.sum()), part.rows[more]

    def _scores_of(
        self, part: Part, catalogue: Catalogue, tile: Tile, hidden: tuple[IntArray, IntArray]
    ) -> AnyArray:
        """Return the scores of a part and a tile as its level has them, NaN in the places `hidden`."""
        shape = part.rows.size, tile.fast_item.shape[0]
        memory = self._scores if part.level else self._scores.view(self._narrow)
        scores: AnyArray = memory[: shape[0] * shape[1]].reshape(shape)
        if part.level == 0:
            np.matmul(part.user, tile.fast_item.T, out=scores)
            scores[:, tile.infinite] = tile.bias
        else:
            wide_scores(part.user, catalogue, tile.first, scores, in_order=part.level == 2)
        scores[hidden] = np.nan
        return scores

    def _decide(self, positive: IntArray, other: IntArray, catalogue: Catalogue) -> None:
        """Add to the counts what exact scores say of items `other`, each close to its `positive`."""
        # Those whose factors are equal to the positive's are counted already.
        block, row, item = self._block, self._row, self._block.item
        rest = other != item[positive]
        if catalogue.twin.size:
            own = np.where(item[positive] >= 0, catalogue.twin[item[positive]], -1)
            rest &= (own < 0) | (catalogue.twin[other] != own)
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
