"""Pairs of whole numbers, sorted as single 64-bit keys: a fast path for well-formed lists and interactions.

Partitions hold millions of entries of lists, and the general path passes over each a dozen times. Here user,
item and rank are the bits of one 64-bit number, so that a single sort reveals users, repeated pairs and gaps
in the ranks. Input that is not well-formed (text, unknown items, repeated pairs, ranks with gaps, training
items in lists) gives None. The general path then handles it, or raises the error.
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
from ipseval.ranking.candidates import HeldOutPositives
from ipseval.utils.notes import Count
from ipseval.utils.types import AnyArray, IntArray

ENTRIES_PER_ITEM = 8  # a table of codes may have so many entries for each item
FREE_ENTRIES = 2**16  # and so many more, whatever the number of items
KEY_BITS = 62
ENTRIES_READ = "entries read from the lists: user, item, rank"


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The ids of all items, and the code of each."""

    ids: AnyArray

    @cached_property
    def _table(self) -> tuple[int, IntArray] | None:
        """The lowest id, and the code of each id from there on; None for ids that are spread too widely."""
        if self.ids.dtype.kind not in "iu" or not self.ids.size:
            return None
        low = int(self.ids.min())
        high = int(self.ids.max())
        is_sparse = high - low >= ENTRIES_PER_ITEM * self.ids.size + FREE_ENTRIES
        if is_sparse or high >= 2**KEY_BITS or low <= -(2**KEY_BITS):
            return None
        table = np.full(high - low + 2, -1)
        table[self.ids.astype(np.int64) - low] = np.arange(self.ids.size)
        return low, table

    def codes(self, items: AnyArray) -> IntArray | None:
        """Return the code of each item; None where one is unknown, or ids are not whole numbers."""
        if self._table is None or items.dtype.kind not in "iu":
            return None
        low, table = self._table
        if items.size and (int(items.min()) < low or int(items.max()) > low + table.size - 2):
            return None
        codes: IntArray = table[items if low == 0 else items.astype(np.int64) - low]
        if codes.size and codes.min() < 0:
            return None
        return codes


@dataclass(frozen=True, eq=False)
class Pairs:
    """Distinct pairs, sorted by user and item."""

    users: AnyArray  # ids, ascending
    size: IntArray  # pairs of each user
    item: IntArray  # codes
    rank: IntArray  # from 0; empty for interactions

    @classmethod
    def from_columns(
        cls, user: AnyArray, item: AnyArray, rank: AnyArray | None, catalogue: Catalogue
    ) -> Pairs | None:
        """Return the pairs of some rows, or None where they need the general path."""
        rank_bits = _count_rank_bits(rank)
        if rank_bits is None:
            return None
        item_bits = catalogue.ids.size.bit_length()
        if not _fits_into_key(user, item_bits + rank_bits):
            return None
        codes = catalogue.codes(item)
        if codes is None:
            return None

        lowest_user = int(user.min())
        key = (user.astype(np.int64) - lowest_user) << item_bits
        key |= codes
        if rank is not None:
            key <<= rank_bits
            key |= rank.astype(np.int64) - 1
        key.sort()

        sorted_ranks = key[:0]
        if rank is not None:
            sorted_ranks = key & ((1 << rank_bits) - 1)
        key >>= rank_bits
        has_repeats = (key[1:] == key[:-1]).any()
        if has_repeats:
            return None
        user_offsets = key >> item_bits
        starts = np.append(0, np.flatnonzero(user_offsets[1:] != user_offsets[:-1]) + 1)
        sizes = np.diff(starts, append=user_offsets.size)
        if rank is not None and not _has_no_gaps(starts, sizes, sorted_ranks):
            return None
        users = (user_offsets[starts] + lowest_user).astype(user.dtype)
        key &= (1 << item_bits) - 1
        return cls(users=users, size=sizes, item=key, rank=sorted_ranks)

    def user_codes(self, user_ids: AnyArray) -> IntArray | None:
        """Return the code of each pair's user in ascending ids; None where a user is unknown."""
        codes = np.searchsorted(user_ids, self.users)
        if codes.size and (codes[-1] >= user_ids.size or (user_ids[codes] != self.users).any()):
            return None
        return np.repeat(codes, self.size)


def _count_rank_bits(rank: AnyArray | None) -> int | None:
    """Return the bits that a rank needs, 0 without ranks; None for ranks that do not begin with 1."""
    if rank is None or not rank.size:
        return 0
    if rank.dtype.kind not in "iu" or int(rank.min()) != 1:
        return None
    return (int(rank.max()) - 1).bit_length()


def _fits_into_key(user: AnyArray, other_bits: int) -> bool:
    """Return whether user ids are whole numbers that fit into a key with `other_bits` for item and rank."""
    if user.dtype.kind not in "iu" or not user.size:
        return False
    lowest_user = int(user.min())
    user_bits = (int(user.max()) - lowest_user).bit_length()
    return user_bits + other_bits <= KEY_BITS and abs(lowest_user) <= 2**KEY_BITS


def _has_no_gaps(starts: IntArray, size: IntArray, rank: IntArray) -> bool:
    """Return whether the ranks of each user, from 0, are 0, 1, 2, …, in any order; users are ascending."""
    if (rank >= np.repeat(size, size)).any():
        return False
    is_taken = np.zeros(rank.size, dtype=bool)
    is_taken[np.repeat(starts, size) + rank] = True
    return bool(is_taken.all())


@dataclass(frozen=True, eq=False)
class ListArrays:
    """Lists as concatenated arrays of items, best first."""

    user: AnyArray
    size: IntArray
    item: AnyArray

    def __len__(self) -> int:
        return int(self.item.size)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> ListArrays:
        """Return the lists of a frame with a row for each: user, and items as an array, best first."""
        lists: Any = frame["items"].to_numpy()
        size = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        item = np.concatenate(lists.tolist()) if len(lists) else np.zeros(0)
        return cls(frame["user"].to_numpy(), size, item)

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each entry: user, item, rank."""
        starts = np.cumsum(self.size) - self.size
        rank = np.arange(len(self)) - np.repeat(starts, self.size) + 1
        return pd.DataFrame({"user": np.repeat(self.user, self.size), "item": self.item, "rank": rank})


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a partition: interactions (user, item), or lists (user, item, rank or score)."""

    frame: pd.DataFrame
    catalogue: Catalogue

    def __len__(self) -> int:
        return len(self.frame)

    @classmethod
    def from_data(cls, data: pd.DataFrame | ListArrays, catalogue: Catalogue) -> Rows:
        """Return the rows of a frame, or the entries of lists that are arrays of items, best first."""
        if isinstance(data, pd.DataFrame) and "items" in data.columns:
            data = ListArrays.from_frame(data)
        if isinstance(data, ListArrays):
            data = data.frame
        return cls(data, catalogue)

    @cached_property
    def pairs(self) -> Pairs | None:
        """The rows as pairs; None where they need the general path."""
        if not len(self.frame) or "score" in self.frame.columns:
            return None
        rank = None
        if "rank" in self.frame.columns:
            rank = self.frame["rank"].to_numpy()
        return Pairs.from_columns(
            self.frame["user"].to_numpy(), self.frame["item"].to_numpy(), rank, self.catalogue
        )

    @property
    def users(self) -> AnyArray:
        """The distinct user ids, ascending."""
        if self.pairs is not None:
            return self.pairs.users
        return np.unique(self.frame["user"].to_numpy())

    def to_interactions(self, user_ids: AnyArray) -> Interactions | None:
        """Return the rows as interactions of users with these ascending ids; None for the general path."""
        if self.pairs is None:
            return None
        codes = self.pairs.user_codes(user_ids)
        if codes is None:
            return None
        return Interactions(codes, self.pairs.item, user_ids, self.catalogue.ids)


def rank_sorted(lists: Pairs, split: Split, targets: HeldOutPositives) -> RankedPositives | None:
    """Return the ranks of the positives in lists, as `rank_positives` does; None for the general path."""
    user = lists.user_codes(split.user_ids)
    if user is None:
        return None
    n_items = np.int64(split.n_items)
    list_keys = user * n_items + lists.item
    if _find_keys(list_keys, split.excluded_pairs.pair_key)[1].any():
        return None  # training items in lists

    position, is_listed = _find_keys(list_keys, targets.user * n_items + targets.item)
    list_length = np.zeros(split.n_users, dtype=np.int64)
    list_length[user[np.cumsum(lists.size) - lists.size]] = lists.size
    longest = int(list_length.max())
    n_above = np.where(is_listed, lists.rank[position], longest)
    fields: dict[str, object] = {
        "list_length": list_length,
        "row_counts": (Count(ENTRIES_READ, list_keys.size),),
    }
    has_all_candidates = (list_length >= targets.candidates_by_user)[targets.user].all()
    if not has_all_candidates:
        fields["max_rank"] = longest
    return targets.build_ranks(n_above, np.zeros(n_above.size, dtype=np.int64), **fields)


def _find_keys(sorted_keys: IntArray, wanted_keys: IntArray) -> tuple[IntArray, AnyArray]:
    """Return the position of each wanted key among the sorted keys, and whether it is there."""
    position = np.minimum(np.searchsorted(sorted_keys, wanted_keys), sorted_keys.size - 1)
    return position, sorted_keys[position] == wanted_keys
