"""The k best candidates of every user with their exact ranks, collected while the positives are ranked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.ids import ranks_within_group
from ipseval.utils.types import AnyArray, FloatArray, IntArray, freeze

ENTRIES = 2**18  # candidates that are held at once
SHARED = 256  # users for whom the same first items are searched together
GROUPS = 64  # smallest number of groups of items whose maxima give a bound that k items reach


@dataclass(frozen=True, eq=False)
class TopLists:
    """The first k candidates of every user with test positives, without training items."""

    # Items of equal scores are in the order of `split.item_ids`, which is the same with every engine.

    users: IntArray  # (n,) codes, ascending
    item: IntArray  # (n, k) codes, best first; −1 after the end of a shorter list

    def __post_init__(self) -> None:
        freeze(self, "users", "item")

    def __repr__(self) -> str:
        return f"TopLists(the first {self.depth} items of {self.users.size:,} users)"

    @property
    def depth(self) -> int:
        """Largest length of a list, k."""
        return int(self.item.shape[1])

    def first(self, k: int) -> TopLists:
        """Return the first k items of each list."""
        return TopLists(self.users, self.item[:, :k])

    @property
    def length(self) -> IntArray:
        """Number of items of each list, (n,)."""
        return np.asarray((self.item >= 0).sum(axis=1))


# Arguments: user, item, n_above, n_tied of some users.
Handler = Callable[[IntArray, IntArray, IntArray, IntArray], None]


class TopListBuilder:
    """Build the lists of the first k items of users from collected candidates."""

    def __init__(self, users: IntArray, n_users: int, k: int) -> None:
        self._users = users
        try:
            self._item = np.full((users.size, k), -1, dtype=np.int64)
        except (ValueError, MemoryError):
            raise InputError(f"lists of {k:,} items for {users.size:,} users need too much memory.") from None
        self._row = np.full(n_users, -1)
        self._row[users] = np.arange(users.size)

    @property
    def top(self) -> TopKCollector:
        """Collector that passes the best candidates of a ranking to these lists."""
        return TopKCollector(
            k=self._item.shape[1],
            handle=self._add_items,
            users=np.arange(self._row.size),
            exhaustive=False,
        )

    def _add_items(self, user: IntArray, item: IntArray, n_above: IntArray, n_tied: IntArray) -> None:
        """Write the items of some users to their positions."""
        row = self._row[user]
        position = np.asarray(n_above)
        if n_tied.any():  # tied items are in the order of their codes
            order = np.lexsort((n_above, user))
            row = row[order]
            item = item[order]
            starts = np.flatnonzero(np.diff(user[order], prepend=-1))
            position = np.arange(row.size) - np.repeat(starts, np.diff(starts, append=row.size))
        is_listed = (row >= 0) & (position < self._item.shape[1])
        self._item[row[is_listed], position[is_listed]] = item[is_listed]

    def build(self) -> TopLists:
        """Return the lists."""
        return TopLists(self._users, self._item)


@dataclass(frozen=True, eq=False)
class TopKCollector:
    """Find the candidates of each user with fewer than k others scored strictly above, and pass them on."""

    k: int
    handle: Handler  # called from several threads with all best items of a few users, sorted; each user once
    users: IntArray  # code of the user of each row of a part of the work
    items: IntArray | None = None  # code of each item of a part of the work; None: all items in order
    # True: all items that tie with the k-th best are passed on, for all users. False: only the first of them
    # are needed, for users with positives.
    exhaustive: bool = True

    def with_users(self, users: IntArray) -> TopKCollector:
        """Return the collector for a part of the work with these users."""
        return replace(self, users=users)

    def with_items(self, items: IntArray | None) -> TopKCollector:
        """Return the collector for work in which item j is `items[j]`, ascending."""
        if items is None:
            return self
        return replace(self, items=items)

    def add_candidates(self, row: IntArray, item: IntArray, score: AnyArray) -> None:
        """Pass on the k best of these candidates, which contain all k best items of each of their users.

        `row` is the position of the user in this part of the work. The candidates are sorted by row and item,
        and no pair occurs twice.
        """
        n_above, n_tied = ranks_within_group(row, score)
        best = np.flatnonzero(n_above < self.k)
        best_item = item[best]
        if self.items is not None:
            best_item = self.items[best_item]
        self.handle(self.users[row[best]], best_item, n_above[best], n_tied[best])

    def add_score_matrix(self, scores: AnyArray, row: IntArray, excluded_items: IntArray) -> None:
        """Pass on the k best of scores (n_users, n_items) without the pairs (row, excluded_items)."""
        if scores.dtype.kind == "f":
            scores = scores.copy()
        else:
            # Integers are replaced by their ranks as floats: the same order, and NaN for excluded pairs.
            _, level = np.unique(scores, return_inverse=True)
            scores = level.reshape(scores.shape).astype(np.float64)
        scores[row, excluded_items] = np.nan

        step = max(1, ENTRIES // max(scores.shape[1], 1))
        for first in range(0, scores.shape[0], step):
            part = scores[first : first + step]
            bound = topk_lower_bound(part, self.k)
            part_row, item, score = entries_above_bound(part, bound)
            self.with_users(self.users[first : first + step]).add_candidates(part_row, item, score)

    def add_shared_scores(self, score: AnyArray, start: IntArray, excluded_items: IntArray) -> None:
        """Pass on the k best of scores (n_items,) that all users share, without each user's excluded items.

        The excluded items of user u are `excluded_items[start[u]:start[u + 1]]`.
        """
        ascending_order = np.lexsort((-np.arange(score.size), score))
        order = ascending_order[::-1]
        for first in range(0, start.size - 1, SHARED):
            part_start = start[first : first + SHARED + 1]
            n_users = part_start.size - 1

            # No user needs more items than the k best and as many as are excluded for any user of the part.
            depth = min(self.k + int(np.diff(part_start).max()), score.size)
            if self.exhaustive and depth:
                last_score = score[order[depth - 1]]
                depth = score.size - int(np.searchsorted(score[ascending_order], last_score))
            items = np.sort(order[:depth])

            part_excluded = excluded_items[part_start[0] : part_start[-1]]
            row = np.repeat(np.arange(n_users), np.diff(part_start))
            position = np.searchsorted(items, part_excluded)
            is_present = np.append(items, -1)[position] == part_excluded
            item_codes: IntArray = items
            if self.items is not None:
                item_codes = self.items[items]
            collector = self.with_users(self.users[first : first + SHARED]).with_items(item_codes)
            collector.add_score_matrix(
                np.tile(score[items], (n_users, 1)), row[is_present], position[is_present]
            )


def topk_lower_bound(scores: AnyArray, k: int) -> FloatArray:
    """Return a bound that k entries of each row reach, NaN ignored; −inf if there may be fewer."""
    # The bound is the k-th largest of the maxima of groups of entries, which are far fewer than the entries.
    n_rows, width = scores.shape
    n_groups = max(GROUPS, 4 * k)
    if width < 2 * n_groups:
        return np.full(n_rows, -np.inf, dtype=scores.dtype)
    group_size = width // n_groups
    score_groups = scores[:, : n_groups * group_size].reshape(n_rows, group_size, n_groups)
    best = np.fmax.reduce(score_groups, axis=1)
    best = np.where(np.isnan(best), -np.inf, best).astype(scores.dtype, copy=False)
    bound: FloatArray = np.partition(best, n_groups - k, axis=1)[:, n_groups - k]
    return bound


def entries_above_bound(scores: AnyArray, bound: AnyArray) -> tuple[IntArray, IntArray, AnyArray]:
    """Return (row, column, score) of the entries that reach the bound (n,) of their row, without NaN."""
    with np.errstate(invalid="ignore"):
        position = np.flatnonzero(scores >= bound[:, None])
    row, column = np.divmod(position, scores.shape[1])
    return row, column, scores[row, column]
