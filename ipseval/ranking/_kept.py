"""Top-k lists: the k best candidates of every ranked user, kept from the pass that ranks its positives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._types import AnyArray, FloatArray, IntArray, freeze

GROUPS = 64  # of items at least, whose maxima tell a score that k items reach


@dataclass(frozen=True, eq=False)
class TopLists:
    """The first k candidates of every user with test positives, training items left out.

    Items of equal scores stand in the order of `split.item_ids`: a rule that is the same on every machine and
    with every engine.

    Attributes
    ----------
    users : (n,) int array
        Codes of the users, ascending.
    item : (n, k) int array
        Codes of the items, best first; −1 behind the end of a shorter list.
    """

    users: IntArray
    item: IntArray

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


class TopK:
    """Collects the k best candidates of users, in rows; workers write different rows.

    `place`: the row of each user of a part of the work; `items`: the code of each item of a part of them.
    """

    def __init__(self, item: IntArray, place: IntArray, items: IntArray | None = None) -> None:
        self.item, self._place, self._items = item, place, items

    @classmethod
    def empty(cls, n_users: int, k: int) -> TopK:
        """Return lists without items."""
        return cls(np.full((n_users, k), -1, dtype=np.int64), np.arange(n_users))

    @property
    def k(self) -> int:
        """Length of the lists."""
        return int(self.item.shape[1])

    def of_users(self, chosen: AnyArray | slice) -> TopK:
        """Return the same lists for some of the users, a mask or slice."""
        return TopK(self.item, self._place[chosen], self._items)

    def of_items(self, items: IntArray | None) -> TopK:
        """Return the same lists for work in which item j is `items[j]`."""
        return self if items is None else TopK(self.item, self._place, items)

    def put(self, row: IntArray, item: IntArray, score: AnyArray) -> None:
        """Keep the k best of these candidates, all that may count of each of their users.

        `row`: the user's place in this part of the work. No pair occurs twice.
        """
        if self._items is not None:
            item = self._items[item]
        # The last key counts most: user, then score, descending, then item. Scores may be of any real type.
        order = np.lexsort((-item, score, -row))[::-1]
        row, item = row[order], item[order]
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        rank = np.arange(row.size) - np.repeat(starts, np.diff(starts, append=row.size))
        keep = rank < self.k
        self.item[self._place[row[keep]], rank[keep]] = item[keep]

    def put_stored(self, block: AnyArray, row: IntArray, excluded: IntArray) -> None:
        """Keep the k best of scores (n_users, n_items) without the pairs (row, excluded)."""
        if block.dtype.kind != "f":  # the same order, and a value for what is left out
            block = np.unique(block, return_inverse=True)[1].reshape(block.shape).astype(np.float64)
        else:
            block = block.copy()
        block[row, excluded] = np.nan
        low = reached_by(block, self.k)
        place = np.flatnonzero(block >= low[:, None])
        users, items = np.divmod(place, block.shape[1])
        self.put(users, items, block.reshape(-1)[place])

    def put_shared(self, score: AnyArray, start: IntArray, excluded: IntArray) -> None:
        """Keep the k best of scores (n_items,) that all users share, without each user's excluded items.

        `excluded[start[u]:start[u + 1]]` are those of user u.
        """
        n_items, n_users = score.size, start.size - 1
        order = np.lexsort((-np.arange(n_items), score))[::-1]
        position = np.empty(n_items, dtype=np.int64)
        position[order] = np.arange(n_items)
        owner, where = np.repeat(np.arange(n_users), np.diff(start)), position[excluded]
        depth = np.full(n_users, min(self.k, n_items))
        while True:  # deep enough that k items are left
            inside = where < depth[owner]
            wanted = np.minimum(self.k + np.bincount(owner[inside], minlength=n_users), n_items)
            if (wanted == depth).all():
                break
            depth = wanted
        first = np.cumsum(depth) - depth
        row = np.repeat(np.arange(n_users), depth)
        place = np.arange(row.size) - first[row]
        left = np.ones(row.size, dtype=bool)
        left[first[owner[inside]] + where[inside]] = False
        self.put(row[left], order[place[left]], -place[left])

    def lists(self, users: IntArray) -> TopLists:
        """Return the lists of these users."""
        return TopLists(users, self.item)


def reached_by(scores: AnyArray, k: int) -> FloatArray:
    """Return a score that at least k entries of each row reach, NaN left out; −inf where there may be fewer.

    It is the k-th largest of the maxima of groups, which are many times fewer than the entries.
    """
    n, width = scores.shape
    n_groups = max(GROUPS, 4 * k)
    if width < 2 * n_groups:
        return np.full(n, -np.inf, dtype=scores.dtype)
    length = width // n_groups
    best = np.fmax.reduce(scores[:, : n_groups * length].reshape(n, length, n_groups), axis=1)
    best = np.where(np.isnan(best), -np.inf, best).astype(scores.dtype, copy=False)
    found: FloatArray = np.partition(best, n_groups - k, axis=1)[:, n_groups - k]
    return found
