"""Reward models: their protocols, and models in closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from ipseval.data import Interactions
from ipseval.errors import InputError
from ipseval.utils.checks import check_positive_int, check_real
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze

PAIRS_PER_BLOCK = 4096  # pairs whose factors are gathered at once, so that they stay in the cache


@public_class
@dataclass(frozen=True, eq=False)
class ShownData:
    """Shown pairs to which a reward model is fitted.

    Parameters
    ----------
    user, item : (n,) int arrays
        Codes.
    clicked : (n,) float array
        y: 1 where the pair was clicked at any of its impressions, else 0.
    examination : (n,) float array
        θ in (0, 1]: the probability that the pair was examined at all; 1 without an examination curve.
    train : Interactions
        Training log, from which features of users and items are computed.
    _factors : dict
        Factors that were computed before, by their number.

    See Also
    --------
    RewardModel : The protocol of models that are fitted to it.

    Examples
    --------
    >>> import numpy as np
    >>> from ipseval import Interactions
    >>> train = Interactions(np.array([0, 1, 2]), np.array([0, 1, 0]), np.arange(3), np.arange(2))
    >>> user = np.array([0, 1, 2, 2])
    >>> item = np.array([1, 0, 0, 1])
    >>> data = ShownData(user, item, np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4), train)
    >>> len(data), len(data.select(data.clicked > 0))
    (4, 2)
    """

    user: IntArray
    item: IntArray
    clicked: FloatArray
    examination: FloatArray
    train: Interactions
    _factors: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "user", "item", "clicked", "examination")

    def __len__(self) -> int:
        return int(self.user.size)

    def select(self, keep: BoolArray) -> ShownData:
        """Return some of the pairs.

        Parameters
        ----------
        keep : (n,) bool array
            Mask of the pairs.

        Returns
        -------
        ShownData
            The pairs, with the same training log.
        """
        return ShownData(
            user=self.user[keep],
            item=self.item[keep],
            clicked=self.clicked[keep],
            examination=self.examination[keep],
            train=self.train,
            _factors=self._factors,
        )

    def factors(self, n_factors: int) -> tuple[FloatArray, FloatArray]:
        """Return the truncated singular value decomposition of the training matrix, computed once.

        Parameters
        ----------
        n_factors : int
            Number of factors; at most d = one below the number of users and of items are computed.

        Returns
        -------
        tuple of float arrays
            p (n_users, d) and q (n_items, d).
        """
        if n_factors not in self._factors:
            self._factors[n_factors] = _compute_truncated_svd(self.train, n_factors)
        return self._factors[n_factors]


@public_class
class Reward(Protocol):
    """Fitted reward model: m̂(u, i) for any pair.

    See Also
    --------
    RewardModel : Models that return a fitted reward.
    FactorReward : The default model.

    Examples
    --------
    A user-defined reward, which is the same for all pairs of three items:

    >>> import numpy as np
    >>> class ConstantReward:
    ...     def predict(self, user, item):
    ...         return np.full(user.size, 0.1)
    ...
    ...     def total(self, user):
    ...         return np.full(user.size, 0.1 * 3)
    >>> ConstantReward().total(np.array([0, 1])).round(1)
    array([0.3, 0.3])
    """

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair: the probability of a click if the item is examined.

        Parameters
        ----------
        user, item : (n,) int arrays
            Codes of the users and of the items.

        Returns
        -------
        (n,) float array
            Predicted click probabilities, in the order of the pairs.
        """

    def total(self, user: IntArray) -> FloatArray:
        """Return Σ_i m̂(u, i) over the whole catalogue for each user.

        Parameters
        ----------
        user : (n,) int array
            Codes of the users.

        Returns
        -------
        (n,) float array
            Sums over all items, in the order of the users.
        """


@public_class
class RewardModel(Protocol):
    """Unfitted reward model: anything with `fit(data) -> Reward`.

    See Also
    --------
    ItemReward : The click rate of the item.
    FactorReward : The click rate of the item with user and item factors.
    Rewards : Fits a model by folds of users.

    Examples
    --------
    A user-defined model, which shrinks the click rates of items twice as much when there are few shown pairs:

    >>> import numpy as np
    >>> class CautiousReward:
    ...     def fit(self, data):
    ...         return ItemReward(shrinkage=20 if len(data) < 1000 else 10).fit(data)
    >>> from ipseval import Interactions
    >>> train = Interactions(np.array([0, 1, 2]), np.array([0, 1, 0]), np.arange(3), np.arange(2))
    >>> user = np.array([0, 1, 2, 2])
    >>> item = np.array([1, 0, 0, 1])
    >>> data = ShownData(user, item, np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4), train)
    >>> reward = CautiousReward().fit(data)
    >>> reward.predict(np.array([0]), np.array([1])).round(3)
    array([0.545])
    """

    def fit(self, data: ShownData) -> Reward:
        """Fit the reward to shown pairs.

        Parameters
        ----------
        data : ShownData
            The shown pairs.

        Returns
        -------
        Reward
            The fitted model.
        """


def _compute_truncated_svd(train: Interactions, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """Return p (n_users, d) and q (n_items, d) of the truncated SVD of the training matrix."""
    d = min(n_factors, train.n_users - 1, train.n_items - 1)
    if d < 1 or not len(train):
        return np.zeros((train.n_users, 0)), np.zeros((train.n_items, 0))
    shape = (train.n_users, train.n_items)
    matrix = csr_array((np.ones(len(train)), (train.user, train.item)), shape=shape)
    left, singular_values, right = svds(matrix, k=d, v0=np.ones(min(shape)))
    root = np.sqrt(singular_values)
    return left * root, right.T * root


@public_class
@dataclass(frozen=True)
class ItemReward:
    """Estimate rewards by the click rate of the item, shrunk to the click rate of all items.

    Parameters
    ----------
    shrinkage : float >= 0, default 10.0
        K, in examinations.

    See Also
    --------
    FactorReward : Add user and item factors.

    Notes
    -----
    m̂_i = (Σ y + K m̄)/(Σ θ + K) over the shown pairs of the item, m̄ = Σ y/Σ θ over all.

    Examples
    --------
    Two items, of which each was shown twice, without and with two clicks; K = 2 adds one click in two:

    >>> import numpy as np
    >>> from ipseval import Interactions
    >>> train = Interactions(np.array([0, 1, 2]), np.array([0, 1, 0]), np.arange(3), np.arange(2))
    >>> user = np.array([0, 1, 2, 2])
    >>> item = np.array([1, 0, 0, 1])
    >>> data = ShownData(user, item, np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4), train)
    >>> reward = ItemReward(shrinkage=2).fit(data)
    >>> reward.predict(np.array([0, 0]), np.array([0, 1]))
    array([0.25, 0.75])
    """

    shrinkage: float = 10.0

    def __post_init__(self) -> None:
        check_real("shrinkage", self.shrinkage, low=0.0, low_open=False)

    def fit(self, data: ShownData) -> LinearReward:
        """Fit the reward of each item.

        Parameters
        ----------
        data : ShownData
            The shown pairs.

        Returns
        -------
        LinearReward
            The same reward for all users.
        """
        item_rate = compute_item_rates(data, self.shrinkage)
        return LinearReward(
            item=item_rate,
            user_factors=np.zeros((data.train.n_users, 0)),
            item_factors=np.zeros((item_rate.size, 0)),
        )


@public_class
@dataclass(frozen=True)
class FactorReward:
    """Estimate rewards by a linear model of the item's click rate and of user factors × item factors.

    Parameters
    ----------
    n_factors : int, default 8
        d, at most one below the number of users and of items.
    ridge : float >= 0, default 10.0
        Penalty on the standardised terms, in observations.
    shrinkage : float >= 0, default 10.0
        Shrinkage K of the click rates m̂_i, in examinations.

    See Also
    --------
    ItemReward : The click rate of the item alone.

    Notes
    -----
    m̂_ui = β₀ + β₁ m̂_i + Σ_k β_k p_uk q_ik + β_{d+1} Σ_k p_uk q_ik m̂_i, with m̂_i as in `ItemReward` and p, q
    the truncated SVD of the training interactions. β solves the ridge regression of y/θ on these terms with
    weights θ. Values may be slightly outside [0, 1], so that sums over all items have a closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from ipseval import Interactions
    >>> train = Interactions(np.array([0, 1, 2]), np.array([0, 1, 0]), np.arange(3), np.arange(2))
    >>> user = np.array([0, 1, 2, 2])
    >>> item = np.array([1, 0, 0, 1])
    >>> data = ShownData(user, item, np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4), train)
    >>> reward = FactorReward(n_factors=1).fit(data)
    >>> reward.predict(np.array([0, 0]), np.array([0, 1])).round(3)
    array([0.207, 0.682])
    """

    n_factors: int = 8
    ridge: float = 10.0
    shrinkage: float = 10.0

    def __post_init__(self) -> None:
        check_positive_int("n_factors", self.n_factors)
        check_real("ridge", self.ridge, low=0.0, low_open=False)
        check_real("shrinkage", self.shrinkage, low=0.0, low_open=False)

    def fit(self, data: ShownData) -> LinearReward:
        """Fit the reward of each pair.

        Parameters
        ----------
        data : ShownData
            The shown pairs.

        Returns
        -------
        LinearReward
            The fitted model.
        """
        item_rate = compute_item_rates(data, self.shrinkage)
        user_factors, item_factors = data.factors(self.n_factors)
        d = user_factors.shape[1]
        pair_rate = item_rate[data.item]
        products = user_factors.take(data.user, axis=0) * item_factors.take(data.item, axis=0)
        terms = np.column_stack([pair_rate, products, products.sum(axis=1) * pair_rate])
        intercept, beta = self._fit_ridge(terms, data.clicked / data.examination, data.examination)
        factor_slopes = beta[1 : d + 1] + beta[d + 1] * item_rate[:, None]
        return LinearReward(
            item=intercept + beta[0] * item_rate,
            user_factors=user_factors,
            item_factors=item_factors * factor_slopes,
        )

    def _fit_ridge(
        self, terms: FloatArray, target: FloatArray, weight: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return intercept and slopes of a ridge regression on standardised terms; `terms` is overwritten."""
        centre = weight @ terms / weight.sum()
        root = np.sqrt(weight)
        terms -= centre
        terms *= root[:, None]
        gram = terms.T @ terms
        spread = np.sqrt(np.diag(gram) / weight.sum())
        spread = np.where(spread > 0, spread, 1)
        mean_target = weight @ target / weight.sum()
        penalized_gram = gram / (spread[:, None] * spread) + self.ridge * np.eye(spread.size)
        moments = terms.T @ (root * (target - mean_target)) / spread
        beta = np.linalg.lstsq(penalized_gram, moments, rcond=None)[0] / spread
        return float(mean_target - centre @ beta), beta


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
        rewards = self.item.take(item)
        for start in range(0, user.size, PAIRS_PER_BLOCK):
            block = slice(start, start + PAIRS_PER_BLOCK)
            p = self.user_factors.take(user[block], axis=0)
            v = self.item_factors.take(item[block], axis=0)
            rewards[block] += np.einsum("nk,nk->n", p, v)
        return rewards

    def total(self, user: IntArray) -> FloatArray:
        """Return Σ_i m̂(u, i) of each user, (n,)."""
        factor_total = np.einsum("nk,k->n", self.user_factors[user], self.item_factors.sum(axis=0))
        return np.asarray(self.item.sum() + factor_total)


def compute_item_rates(data: ShownData, shrinkage: float) -> FloatArray:
    """Return the shrunk click rate of each item, (n_items,)."""
    n_items = data.train.n_items
    clicks = np.bincount(data.item, data.clicked, minlength=n_items)
    examinations = np.bincount(data.item, data.examination, minlength=n_items)
    if not examinations.sum():
        raise InputError("a reward model needs shown pairs; there are none.")
    overall_rate = clicks.sum() / examinations.sum()
    weight = examinations + shrinkage
    with np.errstate(invalid="ignore"):
        item_rate = (clicks + shrinkage * overall_rate) / weight
    return np.asarray(np.where(weight > 0, item_rate, overall_rate))
