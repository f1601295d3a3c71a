"""Reward models: what one is, and closed forms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from ipseval.data import Interactions
from ipseval.errors import InputError
from ipseval.utils.checks import check_positive_int, check_real
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze

PAIRS = 4096  # whose factors are gathered at once


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
            self._factors[n_factors] = _compute_truncated_svd(self.train, n_factors)
        return self._factors[n_factors]


class Reward(Protocol):
    """A fitted reward model: m̂(u, i) for any pair."""

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair, (n,): the chance that the item is taken once it is examined."""

    def total(self, user: IntArray) -> FloatArray:
        """Return Σ_i m̂(u, i) over the whole catalogue for each user, (n,)."""


class RewardModel(Protocol):
    """An unfitted reward model: anything with `fit(data) -> Reward`."""

    def fit(self, data: ShownData) -> Reward:
        """Return the reward, fitted to shown pairs."""


def _compute_truncated_svd(train: Interactions, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """Return p (n_users, d) and q (n_items, d) of the truncated SVD of the training matrix."""
    d = min(n_factors, train.n_users - 1, train.n_items - 1)
    if d < 1 or not len(train):
        return np.zeros((train.n_users, 0)), np.zeros((train.n_items, 0))
    matrix = csr_array((np.ones(len(train)), (train.user, train.item)), shape=(train.n_users, train.n_items))
    left, values, right = svds(matrix, k=d, v0=np.ones(min(matrix.shape)))
    root = np.sqrt(values)
    return left * root, right.T * root


@dataclass(frozen=True)
class ItemReward:
    """The click rate of the item where it was examined, shrunk to that of all items.

    m̂_i = (Σ y + K m̄)/(Σ θ + K) over the shown pairs of the item, m̄ = Σ y/Σ θ over all.

    Parameters
    ----------
    shrinkage : float >= 0
        K, in examinations.
    """

    shrinkage: float = 10.0

    def __post_init__(self) -> None:
        check_real("shrinkage", self.shrinkage, low=0.0, low_open=False)

    def fit(self, data: ShownData) -> LinearReward:
        """Return the reward of each item."""
        mean = item_means(data, self.shrinkage)
        return LinearReward(mean, np.zeros((data.train.n_users, 0)), np.zeros((mean.size, 0)))


@dataclass(frozen=True)
class FactorReward:
    """A linear model of the item's click rate and of user factors × item factors.

    m̂_ui = β₀ + β₁ m̂_i + Σ_k β_k p_uk q_ik + β_{d+1} Σ_k p_uk q_ik m̂_i, with m̂_i as in `ItemReward` and p, q
    the truncated SVD of the training interactions. β solves the ridge regression of y/θ on these terms with
    weights θ. Values may lie a little outside [0, 1], so that sums over all items have a closed form.

    Parameters
    ----------
    n_factors : int
        d, at most one below the number of users and of items.
    ridge : float >= 0
        Penalty on the standardised terms, in observations.
    shrinkage : float >= 0
        Of m̂_i.
    """

    n_factors: int = 8
    ridge: float = 10.0
    shrinkage: float = 10.0

    def __post_init__(self) -> None:
        check_positive_int("n_factors", self.n_factors)
        check_real("ridge", self.ridge, low=0.0, low_open=False)
        check_real("shrinkage", self.shrinkage, low=0.0, low_open=False)

    def fit(self, data: ShownData) -> LinearReward:
        """Return the reward."""
        mean = item_means(data, self.shrinkage)
        user, item = data.factors(self.n_factors)
        d, own = user.shape[1], mean[data.item]
        products = user.take(data.user, axis=0) * item.take(data.item, axis=0)
        terms = np.column_stack([own, products, products.sum(axis=1) * own])
        weight = data.examined
        centre = weight @ terms / weight.sum()
        root = np.sqrt(weight)
        terms -= centre
        terms *= root[:, None]
        gram = terms.T @ terms
        spread = np.sqrt(np.diag(gram) / weight.sum())
        spread = np.where(spread > 0, spread, 1)
        target = data.clicked / weight
        level = weight @ target / weight.sum()
        gram = gram / (spread[:, None] * spread) + self.ridge * np.eye(spread.size)
        beta = np.linalg.lstsq(gram, terms.T @ (root * (target - level)) / spread, rcond=None)[0] / spread
        by_item = level - centre @ beta + beta[0] * mean
        slopes = beta[1 : d + 1] + beta[d + 1] * mean[:, None]
        return LinearReward(by_item, user, item * slopes)


@dataclass(frozen=True, eq=False)
class LinearReward:
    """m̂_ui = b_i + Σ_k p_uk v_ik: predictions and their sums over all items in closed form."""

    item: FloatArray  # (n_items,) b
    user_factors: FloatArray  # (n_users, d) p
    item_factors: FloatArray  # (n_items, d) v

    def __post_init__(self) -> None:
        freeze(self, "item", "user_factors", "item_factors")

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair, (n,)."""
        value = self.item.take(item)
        for first in range(0, user.size, PAIRS):  # rows of factors lie side by side, pieces stay in the cache
            part = slice(first, first + PAIRS)
            p, v = self.user_factors.take(user[part], axis=0), self.item_factors.take(item[part], axis=0)
            value[part] += np.einsum("nk,nk->n", p, v)
        return value

    def total(self, user: IntArray) -> FloatArray:
        """Return Σ_i m̂(u, i) of each user, (n,)."""
        within = np.einsum("nk,k->n", self.user_factors[user], self.item_factors.sum(axis=0))
        return np.asarray(self.item.sum() + within)


def item_means(data: ShownData, shrinkage: float) -> FloatArray:
    """Return the shrunk click rate of each item, (n_items,)."""
    n_items = data.train.n_items
    clicks = np.bincount(data.item, data.clicked, minlength=n_items)
    examined = np.bincount(data.item, data.examined, minlength=n_items)
    if not examined.sum():
        raise InputError("a reward model needs shown pairs; there are none.")
    overall = clicks.sum() / examined.sum()
    weight = examined + shrinkage
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(weight > 0, (clicks + shrinkage * overall) / weight, overall))
