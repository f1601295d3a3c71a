"""A reward model of boosted trees, where scikit-learn is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval._base.checks import check_positive_int, check_real
from ipseval._base.types import FloatArray, IntArray
from ipseval.errors import InputError
from ipseval.policies.rewards._base import ShownData, Totalled
from ipseval.policies.rewards._linear import item_means


@dataclass(frozen=True)
class BoostingReward:
    """Boosted trees on the item's click rate, popularity, the user's activity and factor products.

    scikit-learn's HistGradientBoostingRegressor of y/θ with weights θ. The features are m̂_i of `ItemReward`,
    log popularity, log activity, and p_uk q_ik of the training interactions' SVD. Sums over all items predict
    every pair of users and items once, which is slow for large catalogues.

    Parameters
    ----------
    n_factors : int
    max_iter : int
        Trees.
    learning_rate : float > 0
    shrinkage : float >= 0
        Of m̂_i.
    """

    n_factors: int = 8
    max_iter: int = 100
    learning_rate: float = 0.1
    shrinkage: float = 10.0

    def __post_init__(self) -> None:
        check_positive_int("n_factors", self.n_factors)
        check_positive_int("max_iter", self.max_iter)
        check_real("learning_rate", self.learning_rate, low=0.0)
        check_real("shrinkage", self.shrinkage, low=0.0, low_open=False)

    def fit(self, data: ShownData) -> Any:
        """Return the reward.

        Raises
        ------
        InputError
            Without scikit-learn.
        """
        try:
            from sklearn.ensemble import HistGradientBoostingRegressor
        except ImportError:
            raise InputError(
                "BoostingReward needs scikit-learn, which is not installed; pip install scikit-learn, or use "
                "FactorReward."
            ) from None
        features = _Features(
            item_means(data, self.shrinkage),
            np.log1p(data.train.popularity),
            np.log1p(data.train.activity),
            *data.factors(self.n_factors),
        )
        trees = HistGradientBoostingRegressor(
            max_iter=self.max_iter, learning_rate=self.learning_rate, random_state=0, early_stopping=False
        )
        terms = features.of(data.user, data.item)
        trees.fit(terms, data.clicked / data.examined, sample_weight=data.examined)
        return _Boosted(features, trees)


@dataclass(frozen=True, eq=False)
class _Features:
    mean: FloatArray
    popularity: FloatArray
    activity: FloatArray
    user: FloatArray
    item: FloatArray

    def of(self, user: IntArray, item: IntArray) -> FloatArray:
        columns = [self.mean[item], self.popularity[item], self.activity[user]]
        return np.column_stack([*columns, self.user[user] * self.item[item]])


class _Boosted(Totalled):
    def __init__(self, features: _Features, trees: Any) -> None:
        self._features, self._trees = features, trees
        self.n_items = features.mean.size

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair, (n,)."""
        return np.asarray(self._trees.predict(self._features.of(user, item)))
