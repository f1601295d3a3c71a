"""The k best items of each user of a block, kept from the products in the pass that counts; by Numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipseval._types import AnyArray, FloatArray, IntArray
from ipseval.ranking._batches import Catalogue, Shape
from ipseval.ranking._compiled import compiled, dot

GROUP = 64  # scores that are searched together for one that may count
SPARE = 192  # items beyond k that may be kept for a user before those that cannot count are left out

_i32: Any = np.int32


class Top(NamedTuple):
    """The items of each user of a block that may be among its k best, by their products."""

    k: IntArray  # (1,)
    item: IntArray  # (b, k + SPARE), or (b, 0): nothing is kept
    score: AnyArray  # (b, k + SPARE)
    size: IntArray  # (b,) how many are kept
    best: AnyArray  # (b, k) the k best products so far, ascending
    low: AnyArray  # (b,) products below cannot count
    floor: AnyArray  # (1,) -inf, in the type of the products
    slack: FloatArray  # (b,) how far below the k-th best product an item of the k best can be

    @classmethod
    def empty(cls, shape: Shape, k: int) -> Top:
        """Return room for the users of a block."""
        n, width = shape.n_users, k + SPARE if k else 0
        return cls(
            np.array([k]),
            np.empty((n, width), dtype=np.int64),
            np.zeros((n, width), dtype=shape.dtype),
            np.zeros(n, dtype=np.int64),
            np.empty((n, k), dtype=shape.dtype),
            np.empty(n, dtype=shape.dtype),
            np.full(1, -np.inf, dtype=shape.dtype),
            np.empty(n),
        )

    def begin(self, slack: FloatArray) -> None:
        """Take up other users."""
        self.size[:] = 0
        self.best[:] = self.low[:] = -np.inf
        self.slack[: slack.size] = slack

    def candidates(self, n_users: int) -> tuple[IntArray, IntArray]:
        """Return (row, item) of what may be among the k best of the first users."""
        k, score = int(self.k[0]), self.score[:n_users].astype(np.float64)
        inside = np.arange(score.shape[1]) < self.size[:n_users, None]
        score[~inside] = -np.inf
        place = score.shape[1] - k
        inside &= score >= (np.partition(score, place, axis=1)[:, place] - self.slack[:n_users])[:, None]
        row, column = np.nonzero(inside)
        return row, self.item[row, column]


@compiled
def keep_best(scores: AnyArray, first: int, top: Top, row: int, user: AnyArray, items: Catalogue) -> None:
    """Keep what may be among the k best; most groups of products hold nothing that reaches the lowest."""
    capacity, low = top.item.shape[1], top.low[row]
    if capacity == 0:
        return
    for begin in range(0, scores.size, GROUP):
        group = scores[begin : begin + GROUP]
        close = _i32(0)
        for i in range(group.size):
            close = _i32(close + _i32(group[i] >= low))
        if close == 0:
            continue
        for i in range(group.size):
            x = group[i]
            if x >= low:
                if top.size[row] == capacity:
                    _leave_out(top, row, user, items)
                    low = top.low[row]
                    if x < low:
                        continue
                n = top.size[row]
                top.item[row, n], top.score[row, n] = first + begin + i, x
                top.size[row] = n + 1
                if x > top.best[row, 0]:
                    _insert(top.best[row], x)
                    _raise_low(top, row, top.best[row, 0] - top.slack[row])
                    low = top.low[row]


@compiled
def _insert(best: AnyArray, x: float) -> None:
    """Put a product in its place among the best, ascending; the least of them leaves."""
    place = 0
    while place + 1 < best.size and best[place + 1] < x:
        best[place] = best[place + 1]
        place += 1
    best[place] = x


@compiled
def _raise_low(top: Top, row: int, value: float) -> None:
    """Let products below `value` not count, rounded down to the type of the products."""
    before = top.low[row]
    top.low[row] = value
    top.low[row] = max(before, np.nextafter(top.low[row], top.floor[0]))


@compiled
def _leave_out(top: Top, row: int, user: AnyArray, items: Catalogue) -> None:
    """Leave out what is below the lowest product that counts; where that is nothing, settle."""
    k, n, low = top.k[0], top.size[row], top.low[row]
    kept = 0
    for j in range(n):
        if top.score[row, j] >= low:
            top.item[row, kept], top.score[row, kept] = top.item[row, j], top.score[row, j]
            kept += 1
    if kept == n:  # all are too close to call: their exact scores decide, and equal ones by their place
        exact = np.empty(n)
        for j in range(n):
            exact[j] = dot(user, items.item[top.item[row, j]])
            if items.bias.size:
                exact[j] += items.bias[top.item[row, j]]
        order = np.argsort(-exact, kind="mergesort")  # stable: they were met in ascending order
        item, score = top.item[row, :n].copy(), top.score[row, :n].copy()
        chosen = np.sort(order[:k])
        for j in range(k):
            top.item[row, j], top.score[row, j] = item[chosen[j]], score[chosen[j]]
        _raise_low(top, row, exact[order[k - 1]] - 0.5 * top.slack[row])
        kept = k
    top.size[row] = kept
