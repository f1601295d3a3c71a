"""Batches: the positives of a few users, and their excluded items; what the counting kernels work on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ipseval.ranking.candidates import Targets
from ipseval.utils.ids import distinct
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, freeze, readonly


@dataclass(frozen=True, eq=False)
class Batch:
    """The ranking work of consecutive users, of all or of those that have positives."""

    users: IntArray
    start: IntArray
    item: IntArray  # `item[start[r]:start[r + 1]]` are the positives of `users[r]`
    excluded_start: IntArray
    excluded: IntArray  # as `item`, with `excluded_start`; ascending
    first_positive: int  # the place of the first positive among all

    def __post_init__(self) -> None:
        # Read-only and writable arrays are different types to Numba: it compiles for one of them only.
        freeze(self, "users", "start", "item", "excluded_start", "excluded")

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
        a, b = int(self.start[first]), int(self.start[last])
        c, d = int(self.excluded_start[first]), int(self.excluded_start[last])
        return Batch(
            self.users[first:last],
            self.start[first : last + 1] - a,
            self.item[a:b],
            self.excluded_start[first : last + 1] - c,
            self.excluded[c:d],
            self.first_positive + a,
        )

    def choose(self, users: BoolArray) -> tuple[BoolArray, Batch]:
        """Return which positives belong to the users in `users` (b,), and the work of these users alone."""
        size, excluded_size = np.diff(self.start), np.diff(self.excluded_start)
        chosen = np.repeat(users, size)
        return chosen, Batch(
            self.users[users],
            np.append(0, np.cumsum(size[users])),
            self.item[chosen],
            np.append(0, np.cumsum(excluded_size[users])),
            self.excluded[np.repeat(users, excluded_size)],
            0,
        )

    def among(self, place: IntArray) -> Batch:
        """Return the same work in a catalogue where item i is number `place[i]`, left out if that is < 0."""
        excluded = place[self.excluded]
        stays = excluded >= 0
        before = np.append(0, np.cumsum(stays))
        return replace(
            self,
            item=place[self.item],
            excluded=excluded[stays],
            excluded_start=before[self.excluded_start],
        )

    @classmethod
    def of(cls, targets: Targets, *, all_users: bool = False) -> Batch:
        """Return the work of all users, or of all that have positives."""
        size = np.diff(targets.excluded_start)
        users = np.arange(size.size) if all_users else distinct(targets.user)
        first = np.searchsorted(targets.user, users)
        wanted = np.zeros(size.size, dtype=bool)
        wanted[users] = True
        excluded = targets.excluded if wanted.all() else targets.excluded[np.repeat(wanted, size)]
        start, excluded_start = np.append(first, targets.user.size), np.append(0, np.cumsum(size[users]))
        return cls(users, start, targets.item, excluded_start, excluded, 0)


def frozen(array: AnyArray) -> AnyArray:
    """Return a read-only C-contiguous array; a copy is made only where the layout must change."""
    return readonly(np.ascontiguousarray(array))


class Block(NamedTuple):
    """A few users, their positives, and the counts that the pass over the items adds up."""

    user: AnyArray  # (b, d) factors, which define the scores
    fast_user: AnyArray  # (b, d) or (b, d + 1) factors for the product, in single precision where possible
    start: IntArray  # (b + 1,)
    item: IntArray  # (n_pos,), -1 where the positive is none of the items that are passed over
    exact: FloatArray  # (n_pos,) exact score of each positive
    lo: AnyArray  # (n_pos,) products outside lo … hi are on the same side of the positive as the score itself
    hi: AnyArray  # (n_pos,)
    excluded_start: IntArray  # (b + 1,)
    excluded: IntArray
    pointer: IntArray  # (b,) place in `excluded` that the pass over the items has reached
    n_above: IntArray  # (n_pos,) counts so far
    n_tied: IntArray  # (n_pos,)


class Tile(NamedTuple):
    """Consecutive items whose products with a block are made and counted at once."""

    first: int
    fast_item: AnyArray  # (width, d) or (width, d + 1)
    infinite: IntArray  # (m,) places in the tile of the items with an infinite bias
    bias: FloatArray  # (m,) and that bias


class Counted(NamedTuple):
    """What the products of a block with a tile leave open."""

    n_lost: int  # positives that fell out of their own bounds: none, or the bounds are wrong
    positive: IntArray  # (n,) places in the block, and beside each
    item: IntArray  # (n,) an item whose product is too close to call
    rows: IntArray  # users of whom nothing is counted, as too many products are too close


class Shape(NamedTuple):
    """How large the blocks and tiles of a pass are, at most."""

    n_users: int
    n_items: int
    depth: int  # numbers per row of the fast factors
    dtype: np.dtype

    @property
    def row_bytes(self) -> int:
        """Bytes of one user's products with a tile."""
        return self.n_items * self.dtype.itemsize
