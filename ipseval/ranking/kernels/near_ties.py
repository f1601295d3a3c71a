"""Users with many scores too close to call: scores of whole rows in double precision, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.types import AnyArray, FloatArray, IntArray
from ipseval.ranking.kernels.blocks import Block, Catalogue, Tile
from ipseval.ranking.kernels.numpy_count import Counter

COPIED = 16  # positives whose users' scores are searched at once
COLUMNS = 4096  # items whose factors are held in double precision at a time
ROWS = 8  # users whose exact scores are added together


@dataclass(frozen=True, eq=False)
class Part:
    """Some users of a block, their positives, and the bounds outside of which a score needs no other look."""

    level: int  # 0: bounds of the block; 1: for products in double precision; 2: exact scores
    rows: IntArray  # (b,) of the block
    user: AnyArray  # (b, d) or (b, d + 1) their factors for the products of the level
    positive: IntArray  # (n_pos,) of the block
    row: IntArray  # (n_pos,) place of the positive's user in `rows`
    item: IntArray  # (n_pos,)
    lo: AnyArray  # (n_pos,)
    hi: AnyArray  # (n_pos,)
    excluded_row: IntArray  # place in `rows` of the user for whom `excluded` is left out
    excluded: IntArray
    counter: Counter

    @classmethod
    def of(cls, level: int, block: Block, rows: IntArray) -> Part:
        """Return the part of the users `rows`, ascending."""
        counter = Counter()
        size, excluded_size = np.diff(block.start), np.diff(block.excluded_start)
        chosen = np.zeros(size.size, dtype=bool)
        chosen[rows] = True
        positive = np.flatnonzero(np.repeat(chosen, size))
        row = np.repeat(np.arange(rows.size), size[rows])
        lo, hi = block.lo[positive], block.hi[positive]
        if level:
            lo = hi = block.exact[positive]
        if level == 1:
            bound = block.fine[rows][row]
            lo, hi = np.nextafter(lo - bound, -np.inf), np.nextafter(hi + bound, np.inf)
        counter.arrange(np.append(0, np.cumsum(size[rows])), lo, hi)
        user = block.user[rows].astype(np.float64) if level else block.fast_user[rows]
        excluded_row = np.repeat(np.arange(rows.size), excluded_size[rows])
        excluded = block.excluded[np.repeat(chosen, excluded_size)]
        item = block.item[positive]
        return cls(level, rows, user, positive, row, item, lo, hi, excluded_row, excluded, counter)

    def near(self, scores: AnyArray, some: IntArray) -> tuple[IntArray, IntArray]:
        """Return (positive of the block, column) of the scores within the bounds of positives `some`."""
        found, row = [], self.row[some]
        lo, hi = self.lo[some, None], self.hi[some, None]
        for begin in range(0, some.size, COPIED):  # to copy rows takes less than a call for each
            part = slice(begin, begin + COPIED)
            mine = scores[row[part]]
            near = mine >= lo[part]
            near &= mine <= hi[part]
            found.append(np.flatnonzero(near) + begin * scores.shape[1])
        place, column = np.divmod(np.concatenate(found), scores.shape[1])
        return self.positive[some[place]], column

    def equal(
        self, some: IntArray, twin: IntArray, tile: Tile, hidden_row: IntArray, hidden: IntArray
    ) -> IntArray:
        """Return how many other items of the tile have the factors of each positive `some`."""
        # `twin`: class of each item; `hidden`: items of the tile excluded for the user in `hidden_row`.
        item, n_classes = self.item[some], np.int64(tile.n_twins.size)
        own = np.where(item >= 0, twin[item], -1)
        width = tile.fast_item.shape[0]
        n_equal = np.zeros(some.size, dtype=np.int64)
        shared = np.flatnonzero(own >= 0)
        own, item = own[shared], item[shared]
        inside = (item >= tile.first) & (item < tile.first + width)
        left_out = twin[hidden] >= 0
        key = np.sort(hidden_row[left_out] * n_classes + twin[hidden[left_out]])
        mine = self.row[some[shared]] * n_classes + own
        n_hidden = np.searchsorted(key, mine, side="right") - np.searchsorted(key, mine)
        n_equal[shared] = tile.n_twins[own] - inside - n_hidden
        return n_equal


def wide_scores(
    user: FloatArray, catalogue: Catalogue, first: int, out: FloatArray, *, in_order: bool
) -> None:
    """Write scores in double precision of users and consecutive items from `first` on to `out`."""
    # `in_order`: the exact scores, Σ_k u_k v_k added in order, then the bias; otherwise in any order.
    for begin in range(0, out.shape[1], COLUMNS):
        scores = out[:, begin : begin + COLUMNS]
        items = slice(first + begin, first + begin + scores.shape[1])
        item = catalogue.item[items].astype(np.float64)
        if in_order:
            columns = np.ascontiguousarray(item.T)
            for r in range(0, user.shape[0], ROWS):
                scores[r : r + ROWS] = _in_order(user[r : r + ROWS], columns)
        else:
            np.matmul(user, item.T, out=scores)
        if catalogue.bias.size:
            scores += catalogue.bias[items]


def _in_order(user: FloatArray, columns: FloatArray) -> FloatArray:
    """Return Σ_k u_k v_k of all pairs, added in order."""
    total = np.zeros((user.shape[0], columns.shape[1]))
    product = np.empty_like(total)
    for k in range(columns.shape[0]):
        np.multiply(user[:, k : k + 1], columns[k], out=product)
        total += product
    return total
