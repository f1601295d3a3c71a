"""What the counting kernels work on: a block of users, the items, and a tile of products between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipseval._types import AnyArray, FloatArray, IntArray


class Block(NamedTuple):
    """A few users, their positives, and the counts that the pass over the items adds up.

    `item[start[r]:start[r + 1]]` are the positives of the user in row r, and
    `excluded[excluded_start[r]:excluded_start[r + 1]]` its excluded items, ascending.
    """

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


class Catalogue(NamedTuple):
    """The item side of the exact scores."""

    item: AnyArray  # (n_items, d) factors
    bias: FloatArray  # (n_items,) or empty
    twin: IntArray  # (n_items,) the same number for items of equal factors and bias, or empty


class Tile(NamedTuple):
    """Consecutive items whose products with a block are made and counted at once."""

    first: int
    fast_item: AnyArray  # (width, d) or (width, d + 1)
    infinite: IntArray  # (m,) places in the tile of the items with an infinite bias
    bias: FloatArray  # (m,) and that bias


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
