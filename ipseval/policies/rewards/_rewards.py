"""Rewards: an exposure log and a reward model, cross-fitted, as `evaluate` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval.data import ImpressionLog
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.policies.rewards._models import FactorReward, Reward, RewardModel, ShownData
from ipseval.propensity import ExaminationCurve
from ipseval.propensity.impressions import PairCounts, check_same_universe
from ipseval.utils.checks import as_generator, check_positive_int, check_type
from ipseval.utils.counts import Count, some
from ipseval.utils.ids import among
from ipseval.utils.types import FloatArray, IntArray, RngLike, freeze

DEFAULT_MODEL = FactorReward()


@dataclass(frozen=True, eq=False)
class Rewards:
    """The impressions of the test period with a reward model: what `dm` and `dr` need.

    The model is cross-fitted: users are dealt into folds, and m̂ of a user comes from the shown pairs of the
    other folds and from the training interactions.

    Parameters
    ----------
    log : ImpressionLog
        Impressions of the test period, clicked or not, over the ids of the split.
    model : RewardModel
        Anything with `fit(ShownData) -> Reward`: such as `ItemReward()` or
        `FactorReward()`.
    examination : ExaminationCurve, optional
        The chance that each position was examined; without it every impression was.
    n_folds : int
    rng : int, Generator or None
        Deals the users.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": ["a", "a", "b"], "item": [1, 2, 1], "clicked": [1, 0, 1]})
    >>> Rewards(ImpressionLog.from_frame(frame))
    Rewards(3 impressions, FactorReward(n_factors=8, ridge=10.0, shrinkage=10.0), 5 folds)
    """

    log: ImpressionLog
    model: RewardModel = DEFAULT_MODEL
    examination: ExaminationCurve | None = None
    n_folds: int = 5
    rng: RngLike = None

    def __post_init__(self) -> None:
        check_type("log", self.log, ImpressionLog, " Read one with ImpressionLog.from_frame(frame).")
        if not hasattr(self.model, "fit"):
            raise InputError(
                f"model must have fit(data); got {type(self.model).__name__}. Use FactorReward()."
            )
        if self.examination is not None:
            check_type("examination", self.examination, ExaminationCurve)
        check_positive_int("n_folds", self.n_folds, minimum=2)

    def __repr__(self) -> str:
        return f"Rewards({len(self.log):,} impressions, {self.model!r}, {self.n_folds} folds)"

    def fit(self, split: Split) -> FittedRewards:
        """Return the shown pairs of a split's candidates with m̂ of every pair.

        Raises
        ------
        InputError
            When the log has other ids than the split, fewer users than folds, or no shown candidate.
        """
        check_same_universe(self.log, split, "Rewards")
        counts = PairCounts.from_log(self.log, self.examination)
        candidate = ~among(counts.pair_key, split.excluded.pair_key)
        key = counts.pair_key[candidate]
        if not key.size:
            raise InputError("no shown pair is a candidate: all of them are training pairs of the split.")
        user, item = np.divmod(key, self.log.n_items)
        data = ShownData(
            user, item, counts.clicked[candidate].astype(float), counts.examination[candidate], split.train
        )
        present = np.unique(user)
        if present.size < self.n_folds:
            raise InputError(f"{self.n_folds} folds need as many users with impressions; got {present.size}.")
        fold = np.arange(split.n_users) % self.n_folds
        fold[present] = as_generator(self.rng).permutation(np.arange(present.size) % self.n_folds)
        models = tuple(self.model.fit(data.select(fold[user] != one)) for one in range(self.n_folds))
        left_out = Count(
            "shown pairs that are no candidates, left out", int((~candidate).sum()), candidate.size
        )
        return FittedRewards.of(data, models, fold, split, some(left_out))


@dataclass(frozen=True, eq=False)
class FittedRewards:
    """Shown pairs, and cross-fitted m̂ of every pair.

    Attributes
    ----------
    shown : ShownData
        Sorted by user, then item.
    predicted : (n_shown,) float array
        m̂ of the shown pairs.
    total : (n_users,) float array
        Σ m̂ over the candidates of each user.
    models, fold : tuple of Reward, (n_users,) int array
        The reward of user u is `models[fold[u]]`.
    counted : tuple of Count
    """

    shown: ShownData
    predicted: FloatArray
    total: FloatArray
    models: tuple[Reward, ...]
    fold: IntArray
    counted: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "predicted", "total", "fold")

    @classmethod
    def of(
        cls,
        shown: ShownData,
        models: tuple[Reward, ...],
        fold: IntArray,
        split: Split,
        counted: tuple[Count, ...] = (),
    ) -> FittedRewards:
        """Return the rewards of fitted models."""
        made = cls(shown, np.zeros(len(shown)), np.zeros(split.n_users), models, fold, counted)
        total = np.zeros(split.n_users)
        for number, model in enumerate(models):
            users = np.flatnonzero(fold == number)
            total[users] = _checked(model.total(users), users.size)
        out = split.excluded
        total -= np.bincount(out.user, made.predict(out.user, out.item), minlength=total.size)
        return cls(shown, made.predict(shown.user, shown.item), total, models, fold, counted)

    def __repr__(self) -> str:
        return f"FittedRewards({len(self.shown):,} shown pairs, {self.shown.clicked.sum():,.0f} clicked)"

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair, (n,), by the model that has not seen the user."""
        value = np.zeros(user.size)
        fold = self.fold[user]
        for number, model in enumerate(self.models):
            rows = np.flatnonzero(fold == number)
            if rows.size:
                value[rows] = _checked(model.predict(user[rows], item[rows]), rows.size)
        return value


def _checked(values: Any, size: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"a reward model must give {size} finite numbers; got shape {array.shape}.")
    return array
