"""The items of each user of a block that may be among its k best, kept in the pass that counts; in NumPy."""

from __future__ import annotations

import numpy as np

from ipseval._base.ids import ranks_within_group
from ipseval._base.types import AnyArray, BoolArray, FloatArray, IntArray
from ipseval.ranking._top_lists import reached_by, reaching
from ipseval.ranking.kernels.blocks import Gathered, Shape


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
