"""What a reward model is: fitted to shown pairs, it answers for every user and item."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from ipseval._base.types import BoolArray, FloatArray, IntArray, freeze
from ipseval.data import Interactions

BLOCK_ENTRIES = 2**22  # predictions made at a time


@dataclass(frozen=True, eq=False)
class ShownData:
    """The shown pairs that a reward model is fitted to.

    Attributes
    ----------
    user, item : (n,) int arrays
        Codes.
    clicked : (n,) float array
        y: 1 where the pair was clicked at any of its impressions, else 0.
    examined : (n,) float array
        θ in (0, 1]: the chance that the pair was examined at all; 1 without an examination curve.
    train : Interactions
        What was known before the log: features of users and items come from here.
    """

    user: IntArray
    item: IntArray
    clicked: FloatArray
    examined: FloatArray
    train: Interactions
    _factors: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "user", "item", "clicked", "examined")

    def __len__(self) -> int:
        return int(self.user.size)

    def select(self, keep: BoolArray) -> ShownData:
        """Return some of the pairs."""
        columns = self.user[keep], self.item[keep], self.clicked[keep], self.examined[keep]
        return ShownData(*columns, self.train, self._factors)

    def factors(self, n_factors: int) -> tuple[FloatArray, FloatArray]:
        """Return p (n_users, d) and q (n_items, d) of the truncated SVD of the training matrix, made once."""
        if n_factors not in self._factors:
            self._factors[n_factors] = _truncated_svd(self.train, n_factors)
        return self._factors[n_factors]


class Reward(Protocol):
    """A fitted reward model: m̂(u, i) for any pair.

    One that has `sums(user, item)`, Σ m̂ over the pairs of each user in closed form, is asked for that, too.
    """

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair, (n,): the chance that the item is taken once it is examined."""

    def total(self, user: IntArray) -> FloatArray:
        """Return Σ_i m̂(u, i) over the whole catalogue for each user, (n,)."""


class RewardModel(Protocol):
    """An unfitted reward model: anything with `fit(data) -> Reward`."""

    def fit(self, data: ShownData) -> Reward:
        """Return the reward, fitted to shown pairs."""


class Totalled:
    """A reward whose totals are made by predicting every pair, block by block."""

    n_items: int

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair."""
        raise NotImplementedError

    def total(self, user: IntArray) -> FloatArray:
        """Return Σ_i m̂(u, i) of each user."""
        every = np.arange(self.n_items)
        size = max(1, BLOCK_ENTRIES // self.n_items)
        found = np.zeros(user.size)
        for first in range(0, user.size, size):
            block = user[first : first + size]
            values = self.predict(np.repeat(block, every.size), np.tile(every, block.size))
            found[first : first + size] = values.reshape(block.size, every.size).sum(axis=1)
        return found


def _truncated_svd(train: Interactions, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """Return p (n_users, d) and q (n_items, d) of the truncated SVD of the training matrix."""
    d = min(n_factors, train.n_users - 1, train.n_items - 1)
    if d < 1 or not len(train):
        return np.zeros((train.n_users, 0)), np.zeros((train.n_items, 0))
    matrix = csr_array((np.ones(len(train)), (train.user, train.item)), shape=(train.n_users, train.n_items))
    left, values, right = svds(matrix, k=d, v0=np.ones(min(matrix.shape)))
    order = np.argsort(-values)
    root = np.sqrt(values[order])
    return left[:, order] * root, right[order].T * root
