"""The k best candidates of every user with their exact ranks, kept from the pass that ranks the positives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ipseval._base.ids import ranks_within_group
from ipseval._base.types import AnyArray, FloatArray, IntArray, freeze
from ipseval.errors import InputError

ENTRIES = 2**18  # candidates that are held at once
SHARED = 256  # users for whom the same first items are looked at
GROUPS = 64  # of items at least, whose maxima tell a score that k items reach


@dataclass(frozen=True, eq=False)
class TopLists:
    """The first k candidates of every user with test positives, training items left out."""

    # Items of equal scores stand in the order of `split.item_ids`: a rule that is the same with every engine.

    users: IntArray  # (n,) codes, ascending
    item: IntArray  # (n, k) codes, best first; −1 behind the end of a shorter list

    def __post_init__(self) -> None:
        freeze(self, "users", "item")

    def __repr__(self) -> str:
        return f"TopLists(the first {self.depth} items of {self.users.size:,} users)"

    @property
    def depth(self) -> int:
        """The length k up to which lists are kept."""
        return int(self.item.shape[1])

    def first(self, k: int) -> TopLists:
        """Return the first k items of each list."""
        return TopLists(self.users, self.item[:, :k])

    @property
    def length(self) -> IntArray:
        """Number of items of each list, (n,)."""
        return np.asarray((self.item >= 0).sum(axis=1))


Handler = Callable[
    [IntArray, IntArray, IntArray, IntArray], None
]  # user, item, n_above, n_tied of some users


@dataclass(frozen=True, eq=False)
class Best:
    """What is to be done with each user's best candidates: those with fewer than k scored strictly above."""

    k: int
    handle: Handler  # from several threads, with all the best of a few users, sorted; each user once
    all_users: bool = False  # whether users without test positives are wanted, too
    all_ties: bool = True  # all that tie with the k-th, or those that come first in the catalogue

    def beside(self, other: Best) -> Best:
        """Return what serves both."""

        def handle(user: IntArray, item: IntArray, n_above: IntArray, n_tied: IntArray) -> None:
            for one in (self, other):
                kept = slice(None) if one.k >= k else n_above < one.k
                one.handle(user[kept], item[kept], n_above[kept], n_tied[kept])

        k = max(self.k, other.k)
        return Best(k, handle, self.all_users or other.all_users, self.all_ties or other.all_ties)


class ListMaker:
    """Makes lists of the first k items of users."""

    def __init__(self, users: IntArray, n_users: int, k: int) -> None:
        self._users = users
        try:
            self._item = np.full((users.size, k), -1, dtype=np.int64)
        except (ValueError, MemoryError):
            raise InputError(f"lists of {k:,} items for {users.size:,} users need too much memory.") from None
        self._row = np.full(n_users, -1)
        self._row[users] = np.arange(users.size)

    @property
    def best(self) -> Best:
        """What the lists need of a ranking."""
        return Best(self._item.shape[1], self._add, all_ties=False)

    def _add(self, user: IntArray, item: IntArray, n_above: IntArray, n_tied: IntArray) -> None:
        row, place = self._row[user], n_above
        if n_tied.any():  # they stand in the order of their items
            order = np.lexsort((n_above, user))
            row, item = row[order], item[order]
            starts = np.flatnonzero(np.diff(user[order], prepend=-1))
            place = np.arange(row.size) - np.repeat(starts, np.diff(starts, append=row.size))
        kept = (row >= 0) & (place < self._item.shape[1])
        self._item[row[kept], place[kept]] = item[kept]

    def lists(self) -> TopLists:
        """Return the lists."""
        return TopLists(self._users, self._item)


class TopK:
    """Finds the k best among candidates of users, and hands them on; see `Best`."""

    # `users`: the user of each row of a part of the work; `items`: the code of each item of a part of them.

    def __init__(self, best: Best, users: IntArray, items: IntArray | None = None) -> None:
        self._best, self._users, self._items = best, users, items

    @property
    def k(self) -> int:
        """How many candidates there must be above an item that is not kept."""
        return self._best.k

    def of_users(self, users: IntArray) -> TopK:
        """Return the same for a part of the work whose users are these."""
        return TopK(self._best, users, self._items)

    def of_items(self, items: IntArray | None) -> TopK:
        """Return the same for work in which item j is `items[j]`, ascending."""
        return self if items is None else TopK(self._best, self._users, items)

    def put(self, row: IntArray, item: IntArray, score: AnyArray) -> None:
        """Hand on the k best of these candidates: all that may count of each of their users."""
        # `row`: the user's place in this part of the work. Sorted by row and item; no pair occurs twice.
        n_above, n_tied = ranks_in_rows(row, score)
        kept = np.flatnonzero(n_above < self.k)
        row, item = row[kept], item[kept]
        if self._items is not None:
            item = self._items[item]
        self._best.handle(self._users[row], item, n_above[kept], n_tied[kept])

    def put_stored(self, block: AnyArray, row: IntArray, excluded: IntArray) -> None:
        """Hand on the k best of scores (n_users, n_items) without the pairs (row, excluded)."""
        if block.dtype.kind != "f":  # the same order, and a value for what is left out
            block = np.unique(block, return_inverse=True)[1].reshape(block.shape).astype(np.float64)
        else:
            block = block.copy()
        block[row, excluded] = np.nan
        step = max(1, ENTRIES // max(block.shape[1], 1))
        for first in range(0, block.shape[0], step):
            part = block[first : first + step]
            low = reached_by(part, self.k)
            users, items, score = reaching(part, low)
            self.of_users(self._users[first : first + step]).put(users, items, score)

    def put_shared(self, score: AnyArray, start: IntArray, excluded: IntArray) -> None:
        """Hand on the k best of scores (n_items,) that all share, without each user's excluded items."""
        # `excluded[start[u]:start[u + 1]]` are those of user u.
        order = np.lexsort((-np.arange(score.size), score))[::-1]
        for first in range(0, start.size - 1, SHARED):
            part = start[first : first + SHARED + 1]
            depth = min(self.k + int(np.diff(part).max()), score.size)
            if self._best.all_ties and depth:
                depth = int(np.searchsorted(-score[order], -score[order[depth - 1]], side="right"))
            items, gone = np.sort(order[:depth]), excluded[part[0] : part[-1]]
            row, place = np.repeat(np.arange(part.size - 1), np.diff(part)), np.searchsorted(items, gone)
            inside = np.append(items, -1)[place] == gone
            some = self.of_users(self._users[first : first + SHARED])
            some = some.of_items(items if self._items is None else self._items[items])
            some.put_stored(np.tile(score[items], (part.size - 1, 1)), row[inside], place[inside])


def reached_by(scores: AnyArray, k: int) -> FloatArray:
    """Return a score that k entries of each row reach, NaN left out; −inf where there may be fewer."""
    # It is the k-th largest of the maxima of groups, which are many times fewer than the entries.
    n, width = scores.shape
    n_groups = max(GROUPS, 4 * k)
    if width < 2 * n_groups:
        return np.full(n, -np.inf, dtype=scores.dtype)
    length = width // n_groups
    best = np.fmax.reduce(scores[:, : n_groups * length].reshape(n, length, n_groups), axis=1)
    best = np.where(np.isnan(best), -np.inf, best).astype(scores.dtype, copy=False)
    found: FloatArray = np.partition(best, n_groups - k, axis=1)[:, n_groups - k]
    return found


def reaching(scores: AnyArray, low: AnyArray) -> tuple[IntArray, IntArray, AnyArray]:
    """Return (row, column, score) of the entries that reach the bound (n,) of their row, NaN left out."""
    with np.errstate(invalid="ignore"):
        found = np.flatnonzero(scores >= low[:, None])
    row, column = np.divmod(found, max(scores.shape[1], 1))
    return row, column, scores[row, column]


def ranks_in_rows(row: IntArray, score: AnyArray) -> tuple[IntArray, IntArray]:
    """Return how many entries of the same row score higher than, and tie with, each; rows are ascending."""
    size = np.bincount(row)
    place = np.arange(row.size) - (np.cumsum(size) - size)[row]
    width = int(size.max(initial=0))
    if size.size * width > ENTRIES + 8 * row.size:  # a few rows are many times longer than the others
        return ranks_within_group(row, score)
    if score.dtype.kind != "f":
        score = np.unique(score, return_inverse=True)[1].astype(np.float64)
    table = np.full((size.size, width), np.nan, dtype=score.dtype)
    table[row, place] = -score
    order = np.argsort(table, axis=1)
    ordered = np.take_along_axis(table, order, axis=1)
    column = np.arange(table.shape[1])
    new = np.ones(table.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(new, column, 0), axis=1)
    ends = np.ones_like(new)
    ends[:, :-1] = new[:, 1:]
    last = np.minimum.accumulate(np.where(ends, column, table.shape[1])[:, ::-1], axis=1)[:, ::-1]
    n_above, n_tied = np.empty_like(order), np.empty_like(order)
    np.put_along_axis(n_above, order, first, axis=1)
    np.put_along_axis(n_tied, order, last - first, axis=1)
    return n_above[row, place], n_tied[row, place]
