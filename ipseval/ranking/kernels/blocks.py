"""Blocks and tiles: the users, positives and items that the counting kernels process together."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ipseval.utils.types import AnyArray, FloatArray, IntArray


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
