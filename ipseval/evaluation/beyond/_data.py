"""What measures beyond accuracy read: top-k lists, training counts, histories, vectors of items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ipseval._base.types import BoolArray, FloatArray, IntArray, freeze
from ipseval.data._interactions import Interactions
from ipseval.ranking._top_lists import TopLists


@dataclass(frozen=True, eq=False)
class Recommended:
    """The first k items of each user, and the training log behind them.

    Attributes
    ----------
    top : TopLists
    train : Interactions
    vectors : (n_items, d) float array or None
    """

    top: TopLists
    train: Interactions
    vectors: FloatArray | None = None

    def __post_init__(self) -> None:
        freeze(self, "vectors")

    @property
    def item(self) -> IntArray:
        """Items of each list, (n, k), −1 behind its end."""
        return self.top.item

    @cached_property
    def inside(self) -> BoolArray:
        """Which entries of `item` are items, (n, k)."""
        return self.item >= 0

    @cached_property
    def length(self) -> IntArray:
        """Items of each list, (n,)."""
        return self.top.length

    @cached_property
    def exposure(self) -> IntArray:
        """In how many lists each item stands, (n_items,)."""
        return np.bincount(self.item[self.inside], minlength=self.train.n_items)

    @cached_property
    def popularity(self) -> FloatArray:
        """n* of each item, (n_items,)."""
        return np.asarray(self.train.popularity, dtype=np.float64)

    @cached_property
    def n_users(self) -> int:
        """U, the users with training interactions."""
        return int((self.train.activity > 0).sum())

    def mean_of(self, values: FloatArray) -> FloatArray:
        """Return the mean of a value per item (n_items,) over each list, (n,); NaN for an empty list."""
        return self.sum_of(values) / np.where(self.length > 0, self.length, np.nan)

    @cached_property
    def lists(self) -> csr_array:
        """The lists as a matrix of users and items, (n, n_items): 1 where an item stands in a list."""
        item = self.item[self.inside]
        starts = np.append(0, np.cumsum(self.length))
        return csr_array((np.ones(item.size), item, starts), shape=(self.length.size, self.train.n_items))

    def sum_of(self, values: FloatArray) -> FloatArray:
        """Return Σ of a value per item (n_items,) over each list, (n,)."""
        return np.asarray(self.lists @ values)

    @cached_property
    def history(self) -> FloatArray:
        """Mean n* over the training items of each user with a list, (n,); NaN without any."""
        size = self.train.activity[self.top.users]
        total = np.bincount(self.train.user, self.popularity[self.train.item], minlength=self.train.n_users)[
            self.top.users
        ]
        return np.asarray(total / np.where(size > 0, size, np.nan))
