"""The k best candidates of every user with their exact ranks, kept from the pass that ranks the positives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import AnyArray, FloatArray, IntArray, freeze

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


# user, item, n_above, n_tied of some users
Handler = Callable[[IntArray, IntArray, IntArray, IntArray], None]


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
    def top(self) -> TopK:
        """What the lists need of a ranking."""
        return TopK(self._item.shape[1], self._add, np.arange(self._row.size), exhaustive=False)

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


@dataclass(frozen=True, eq=False)
class TopK:
    """Finds each user's best candidates, those with fewer than k scored strictly above, and hands them on."""

    k: int
    handle: Handler  # from several threads, with all the best of a few users, sorted; each user once
    users: IntArray  # the user of each row of a part of the work
    items: IntArray | None = None  # the code of each item of a part of them; None: all
    # Of all users, with all that tie with the k-th; or of those with positives, with what comes first.
    exhaustive: bool = True

    def of_users(self, users: IntArray) -> TopK:
        """Return the same for a part of the work whose users are these."""
        return replace(self, users=users)

    def of_items(self, items: IntArray | None) -> TopK:
        """Return the same for work in which item j is `items[j]`, ascending."""
        return self if items is None else replace(self, items=items)

    def put(self, row: IntArray, item: IntArray, score: AnyArray) -> None:
        """Hand on the k best of these candidates: all that may count of each of their users."""
        # `row`: the user's place in this part of the work. Sorted by row and item; no pair occurs twice.
        n_above, n_tied = ranks_within_group(row, score)
        kept = np.flatnonzero(n_above < self.k)
        row, item = row[kept], item[kept]
        if self.items is not None:
            item = self.items[item]
        self.handle(self.users[row], item, n_above[kept], n_tied[kept])

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
            self.of_users(self.users[first : first + step]).put(users, items, score)

    def put_shared(self, score: AnyArray, start: IntArray, excluded: IntArray) -> None:
        """Hand on the k best of scores (n_items,) that all share, without each user's excluded items."""
        # `excluded[start[u]:start[u + 1]]` are those of user u.
        rising = np.lexsort((-np.arange(score.size), score))
        order = rising[::-1]
        for first in range(0, start.size - 1, SHARED):
            part = start[first : first + SHARED + 1]
            depth = min(self.k + int(np.diff(part).max()), score.size)
            if self.exhaustive and depth:
                depth = score.size - int(np.searchsorted(score[rising], score[order[depth - 1]]))
            items, gone = np.sort(order[:depth]), excluded[part[0] : part[-1]]
            row, place = np.repeat(np.arange(part.size - 1), np.diff(part)), np.searchsorted(items, gone)
            inside = np.append(items, -1)[place] == gone
            some = self.of_users(self.users[first : first + SHARED])
            some = some.of_items(items if self.items is None else self.items[items])
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
    row, column = np.divmod(found, scores.shape[1])
    return row, column, scores[row, column]
