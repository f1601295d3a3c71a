"""Ids that are whole numbers, and lists as they should be: pairs sorted as single numbers.

Partitions of a cluster, and of files, hold millions of entries of lists, and the general road looks at each
a dozen times. Here user, item and rank are packed into one 64-bit number; sorting these tells users, repeats
and order at once. Whatever is not as it should be (text, unknown items, repeated pairs, ranks with gaps,
training items in lists) gives None, and the general road says what is wrong, or handles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.ranking import RankedPositives
from ipseval.ranking.candidates import Targets
from ipseval.utils.counts import Count
from ipseval.utils.types import AnyArray, IntArray

ROOM = 8  # a table of codes may have so many entries for each item
READ = "entries read from the lists: user, item, rank"


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The ids of all items, and the code of each."""

    ids: AnyArray

    @cached_property
    def _table(self) -> tuple[int, IntArray] | None:
        if self.ids.dtype.kind not in "iu" or not self.ids.size:
            return None
        low, high = int(self.ids.min()), int(self.ids.max())
        if high - low >= ROOM * self.ids.size + 2**16 or high >= 2**62 or low <= -(2**62):
            return None
        table = np.full(high - low + 2, -1)
        table[self.ids.astype(np.int64) - low] = np.arange(self.ids.size)
        return low, table

    def codes(self, items: AnyArray) -> IntArray | None:
        """Return the code of each item; None where one is unknown, or ids are no whole numbers."""
        if self._table is None or items.dtype.kind not in "iu":
            return None
        low, table = self._table
        if items.size and (int(items.min()) < low or int(items.max()) > low + table.size - 2):
            return None
        codes: IntArray = table[items if low == 0 else items.astype(np.int64) - low]
        return None if codes.size and codes.min() < 0 else codes


@dataclass(frozen=True, eq=False)
class Pairs:
    """Distinct pairs, sorted by user and item."""

    users: AnyArray
    size: IntArray
    item: IntArray
    rank: IntArray

    @classmethod
    def of(cls, user: AnyArray, item: AnyArray, rank: AnyArray | None, catalogue: Catalogue) -> Pairs | None:
        """Return the pairs, or None where they must go the general road."""
        depth = 0
        if rank is not None and rank.size:
            if rank.dtype.kind not in "iu" or int(rank.min()) != 1:
                return None
            depth = (int(rank.max()) - 1).bit_length()
        room = _room(user, catalogue, depth)
        code = None if room is None else catalogue.codes(item)
        if room is None or code is None:
            return None
        low, width = room
        key = (user.astype(np.int64) - low) << width
        key |= code
        if rank is not None:
            key <<= depth
            key |= rank.astype(np.int64) - 1
        key.sort()
        place = key[:0] if rank is None else key & ((1 << depth) - 1)
        key >>= depth
        owner = key >> width
        if (key[1:] == key[:-1]).any():
            return None
        starts = np.append(0, np.flatnonzero(owner[1:] != owner[:-1]) + 1)
        size = np.diff(starts, append=owner.size)
        if rank is not None and not _without_gaps(starts, size, place):
            return None
        users = (owner[starts] + low).astype(user.dtype)
        key &= (1 << width) - 1
        return cls(users, size, key, place)

    def user(self, universe: AnyArray) -> IntArray | None:
        """Return the code of each pair's user in ascending ids; None where one is unknown."""
        place = np.searchsorted(universe, self.users)
        if place.size and (place[-1] >= universe.size or (universe[place] != self.users).any()):
            return None
        return np.repeat(place, self.size)


def _room(user: AnyArray, catalogue: Catalogue, depth: int) -> tuple[int, int] | None:
    """Return the least user and the bits of an item, if user, item and a rank of `depth` bits fit into 62."""
    if user.dtype.kind not in "iu" or not user.size:
        return None
    low, width = int(user.min()), catalogue.ids.size.bit_length()
    fits = (int(user.max()) - low).bit_length() + width + depth <= 62 and abs(low) <= 2**62
    return (low, width) if fits else None


def _without_gaps(starts: IntArray, size: IntArray, rank: IntArray) -> bool:
    """Return whether the ranks of each user, from 0, are 0, 1, 2, …, in any order; users are ascending."""
    if (rank >= np.repeat(size, size)).any():
        return False
    taken = np.zeros(rank.size, dtype=bool)
    taken[np.repeat(starts, size) + rank] = True
    return bool(taken.all())


@dataclass(frozen=True, eq=False)
class Arrays:
    """Lists as arrays of items, best first, end to end."""

    user: AnyArray
    size: IntArray
    item: AnyArray

    def __len__(self) -> int:
        return int(self.item.size)

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each entry: user, item, rank."""
        first = np.cumsum(self.size) - self.size
        rank = np.arange(len(self)) - np.repeat(first, self.size) + 1
        return pd.DataFrame({"user": np.repeat(self.user, self.size), "item": self.item, "rank": rank})


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a partition: interactions (user, item), or lists (user, item, rank or score)."""

    frame: pd.DataFrame
    catalogue: Catalogue

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def pairs(self) -> Pairs | None:
        """The rows as pairs; None where they must go the general road."""
        if not len(self.frame) or "score" in self.frame.columns:
            return None
        rank = self.frame["rank"].to_numpy() if "rank" in self.frame.columns else None
        user, item = (self.frame[name].to_numpy() for name in ("user", "item"))
        return Pairs.of(user, item, rank, self.catalogue)

    @property
    def users(self) -> AnyArray:
        """The ids of the users, each once, ascending."""
        return self.pairs.users if self.pairs is not None else np.unique(self.frame["user"].to_numpy())

    def log(self, universe: AnyArray) -> Interactions | None:
        """Return the rows as interactions of these users, ascending; None for the general road."""
        user = None if self.pairs is None else self.pairs.user(universe)
        if self.pairs is None or user is None:
            return None
        return Interactions(user, self.pairs.item, universe, self.catalogue.ids)


def as_rows(given: pd.DataFrame | Arrays, catalogue: Catalogue) -> Rows:
    """Return the rows of a frame, or the entries of lists that are arrays of items, best first."""
    if isinstance(given, pd.DataFrame) and "items" in given.columns:
        given = arrays_of(given)
    return Rows(given.frame if isinstance(given, Arrays) else given, catalogue)


def arrays_of(frame: pd.DataFrame) -> Arrays:
    """Return lists that are rows of a frame: user, and items as an array, best first."""
    lists: Any = frame["items"].to_numpy()
    size = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    item = np.concatenate(lists.tolist()) if len(lists) else np.zeros(0)
    return Arrays(frame["user"].to_numpy(), size, item)


def rank_sorted(lists: Pairs, split: Split, targets: Targets) -> RankedPositives | None:
    """Return the ranks of the positives in lists, as `rank_positives` does; None for the general road."""
    user = lists.user(split.user_ids)
    if user is None:
        return None
    n_items = np.int64(split.n_items)
    key = user * n_items + lists.item

    def places(wanted: IntArray) -> tuple[IntArray, AnyArray]:
        place = np.minimum(np.searchsorted(key, wanted), key.size - 1)
        return place, key[place] == wanted

    if places(split.excluded.pair_key)[1].any():
        return None
    place, found = places(targets.user * n_items + targets.item)
    size = np.zeros(split.n_users, dtype=np.int64)
    size[user[np.cumsum(lists.size) - lists.size]] = lists.size
    length = int(size.max())
    above = np.where(found, lists.rank[place], length)
    whole = (size >= targets.candidates_by_user)[targets.user].all()
    said = {"list_length": size, "counted": (Count(READ, key.size),)}
    more = said if whole else said | {"max_rank": length}
    return targets.ranked(above, np.zeros(above.size, dtype=np.int64), **more)
