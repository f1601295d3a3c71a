"""Batches, blocks and tiles: the users, positives and items that the counting kernels process together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from ipseval.ranking.candidates import HeldOutPositives
from ipseval.utils.ids import unique_keys
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, as_readonly, freeze


@dataclass(frozen=True, eq=False)
class Batch:
    """The ranking work of consecutive users: of all users, or of all users with positives."""

    users: IntArray
    start: IntArray
    item: IntArray  # `item[start[r]:start[r + 1]]` are the positives of `users[r]`
    excluded_start: IntArray
    excluded_items: IntArray  # like `item`, with `excluded_start`; ascending
    first_positive: int  # position of the first positive among all positives

    def __post_init__(self) -> None:
        # Read-only and writable arrays are different types to Numba: it compiles for one of them only.
        freeze(self, "users", "start", "item", "excluded_start", "excluded_items")

    @classmethod
    def from_targets(cls, targets: HeldOutPositives, *, all_users: bool = False) -> Batch:
        """Return the work of all users with positives, or of all users."""
        n_excluded = np.diff(targets.excluded_start)
        users: IntArray = np.arange(n_excluded.size)
        if not all_users:
            users = unique_keys(targets.user)

        is_chosen = np.zeros(n_excluded.size, dtype=bool)
        is_chosen[users] = True
        excluded_items = targets.excluded_items
        if not is_chosen.all():
            excluded_items = excluded_items[np.repeat(is_chosen, n_excluded)]
        return cls(
            users=users,
            start=np.append(np.searchsorted(targets.user, users), targets.user.size),
            item=targets.item,
            excluded_start=np.append(0, np.cumsum(n_excluded[users])),
            excluded_items=excluded_items,
            first_positive=0,
        )

    @property
    def row(self) -> IntArray:
        """Row of each positive's user in the batch, (n_pos,)."""
        return np.repeat(np.arange(self.users.size), np.diff(self.start))

    @property
    def positives(self) -> slice:
        """The batch's positives among all positives."""
        return slice(self.first_positive, self.first_positive + self.item.size)

    def part(self, first: int, last: int) -> Batch:
        """Return the work of the users in rows `first` to `last`."""
        item_first = int(self.start[first])
        item_last = int(self.start[last])
        excluded_first = int(self.excluded_start[first])
        excluded_last = int(self.excluded_start[last])
        return Batch(
            users=self.users[first:last],
            start=self.start[first : last + 1] - item_first,
            item=self.item[item_first:item_last],
            excluded_start=self.excluded_start[first : last + 1] - excluded_first,
            excluded_items=self.excluded_items[excluded_first:excluded_last],
            first_positive=self.first_positive + item_first,
        )

    def choose(self, users: BoolArray) -> tuple[BoolArray, Batch]:
        """Return which positives belong to the users in `users` (b,), and the work of these users alone."""
        n_positives = np.diff(self.start)
        n_excluded = np.diff(self.excluded_start)
        is_chosen = np.repeat(users, n_positives)
        batch = Batch(
            users=self.users[users],
            start=np.append(0, np.cumsum(n_positives[users])),
            item=self.item[is_chosen],
            excluded_start=np.append(0, np.cumsum(n_excluded[users])),
            excluded_items=self.excluded_items[np.repeat(users, n_excluded)],
            first_positive=0,
        )
        return is_chosen, batch

    def restrict_items(self, new_code: IntArray) -> Batch:
        """Return the same work in a catalogue in which item i has the code `new_code[i]`, −1 if removed."""
        excluded_items = new_code[self.excluded_items]
        stays = excluded_items >= 0
        n_preceding = np.append(0, np.cumsum(stays))
        return replace(
            self,
            item=new_code[self.item],
            excluded_items=excluded_items[stays],
            excluded_start=n_preceding[self.excluded_start],
        )


def as_frozen(array: AnyArray) -> AnyArray:
    """Return a read-only C-contiguous array; a copy is made only where the layout must change."""
    return as_readonly(np.ascontiguousarray(array))


class Block(NamedTuple):
    """A few users, their positives, and the counts to which each tile of items is added."""

    user: AnyArray  # (b, d) factors, which define the scores
    fast_user: AnyArray  # (b, d) or (b, d + 1) factors for the product, in single precision where possible
    start: IntArray  # (b + 1,)
    item: IntArray  # (n_pos,), -1 where the positive is not among the items of the tiles
    exact: FloatArray  # (n_pos,) exact score of each positive
    lo: AnyArray  # (n_pos,) products outside lo … hi are on the same side of the positive as the score itself
    hi: AnyArray  # (n_pos,)
    excluded_start: IntArray  # (b + 1,)
    excluded_items: IntArray
    pointer: (
        IntArray  # (b,) position in `excluded_items` of the first item that is not before the current tile
    )
    n_above: IntArray  # (n_pos,) counts so far
    n_tied: IntArray  # (n_pos,)


class Tile(NamedTuple):
    """Consecutive items, which are multiplied with a block and counted together."""

    first: int
    fast_item: AnyArray  # (width, d) or (width, d + 1)
    infinite: IntArray  # (m,) positions in the tile of the items with an infinite bias
    bias: FloatArray  # (m,) and that bias


class UndecidedItems(NamedTuple):
    """The items of a tile that approximate products cannot place above or below a positive."""

    n_lost: int  # positives outside their own bounds: 0, or the bounds are wrong
    positive: IntArray  # (n,) positions in the block
    item: IntArray  # (n,) for each of these positives, an item whose product is too close
    rows: IntArray  # users without any counts, because too many of their products are too close


class Shape(NamedTuple):
    """The largest sizes of the blocks and tiles of a ranking."""

    n_users: int
    n_items: int
    depth: int  # numbers per row of the fast factors
    dtype: np.dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of one user's products with a tile."""
        return self.n_items * self.dtype.itemsize


class CountingWorker(Protocol):
    """The counts of one thread: `Worker` of `numpy_kernels` and of `numba_kernels`."""

    def begin(self, block: Block) -> None:
        """Start a block of users; `count` adds to its counts."""

    def count(self, tile: Tile) -> UndecidedItems:
        """Add the counts of the tile's items, except for the items that are returned as undecided."""
