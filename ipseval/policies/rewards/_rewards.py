"""Cross-fitted rewards of an impression log and a reward model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ipseval.data import ImpressionLog
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.policies.rewards._models import FactorReward, Reward, RewardModel, ShownData
from ipseval.propensity import ExaminationCurve
from ipseval.propensity.impression_propensities import PairCounts, check_same_universe
from ipseval.utils.checks import as_generator, check_positive_int, check_type
from ipseval.utils.ids import is_member
from ipseval.utils.notes import Count, drop_zero_counts
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray, RngLike, freeze

DEFAULT_MODEL = FactorReward()


@public_class
@dataclass(frozen=True, eq=False)
class Rewards:
    """Impressions of the test period with a reward model, for `evaluate_rewards`.

    The model is cross-fitted: users are assigned to folds, and m̂ of a user comes from the shown pairs of the
    remaining folds and from the training interactions.

    Parameters
    ----------
    log : ImpressionLog
        Impressions of the test period, clicked or not, over the ids of the split.
    model : RewardModel, default FactorReward()
        Anything with `fit(ShownData) -> Reward`, such as `ItemReward()` or `FactorReward()`.
    examination : ExaminationCurve, optional
        Probability that each position was examined; without it every impression was.
    n_folds : int, default 5
        Number of folds of users, >= 2.
    rng : int, Generator or None, default None
        Assigns the users to folds.

    See Also
    --------
    ipseval.policies.evaluate_rewards : Evaluate recommenders with the rewards.

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
        """Fit the reward model to the shown pairs that are candidates of a split.

        Parameters
        ----------
        split : Split
            Training log and test positives.

        Returns
        -------
        FittedRewards
            The shown pairs with m̂ of every pair.

        Raises
        ------
        InputError
            When the log has other ids than the split, fewer users than folds, or no shown candidate.
        """
        check_same_universe(self.log, split, "Rewards")
        counts = PairCounts.from_log(self.log, self.examination)
        is_candidate = ~is_member(counts.pair_key, split.excluded_pairs.pair_key)
        pair_key = counts.pair_key[is_candidate]
        if not pair_key.size:
            raise InputError("no shown pair is a candidate: all of them are training pairs of the split.")
        user, item = np.divmod(pair_key, self.log.n_items)
        shown = ShownData(
            user=user,
            item=item,
            clicked=counts.clicked[is_candidate].astype(float),
            examination=counts.examination[is_candidate],
            train=split.train,
        )
        fold = self._assign_folds(np.unique(user), split.n_users)
        fold_models = []
        for number in range(self.n_folds):
            fold_models.append(self.model.fit(shown.select(fold[user] != number)))

        models = tuple(fold_models)
        excluded_pairs = Count(
            "shown pairs that are not candidates, left out",
            int((~is_candidate).sum()),
            is_candidate.size,
            code="exclusion",
        )
        return FittedRewards.from_models(shown, models, fold, split, drop_zero_counts(excluded_pairs))

    def _assign_folds(self, users_with_impressions: IntArray, n_users: int) -> IntArray:
        """Return the fold of each user, (n_users,), at random and balanced over users with impressions."""
        if users_with_impressions.size < self.n_folds:
            raise InputError(
                f"{self.n_folds} folds need as many users with impressions; got {users_with_impressions.size}."
            )
        fold = np.arange(n_users) % self.n_folds
        balanced_folds = np.arange(users_with_impressions.size) % self.n_folds
        fold[users_with_impressions] = as_generator(self.rng).permutation(balanced_folds)
        return fold


@public_class
@dataclass(frozen=True, eq=False)
class FittedRewards:
    """Shown pairs with cross-fitted rewards m̂ of every pair.

    Parameters
    ----------
    impressions : ShownData
        Sorted by user, then item.
    predictions : (n_shown,) float array
        m̂ of the shown pairs.
    total : (n_users,) float array
        Σ m̂ over the candidates of each user.
    models, fold : tuple of Reward, (n_users,) int array
        The reward of user u is `models[fold[u]]`.
    row_counts : tuple of Count
        Numbers of pairs that were left out.

    See Also
    --------
    Rewards : Fit them.

    Examples
    --------
    >>> import numpy as np
    >>> from ipseval import ImpressionLog, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> shown = world.expose(16, rng=2)
    >>> log = ImpressionLog(
    ...     shown.user, shown.item, shown.user_ids, shown.item_ids, clicked=shown.value >= 4
    ... )
    >>> from ipseval.policies.rewards import Rewards
    >>> rewards = Rewards(log, rng=3).fit(split)
    >>> rewards
    FittedRewards(4,686 shown pairs, 532 clicked)
    >>> rewards.predict(np.array([0, 0]), np.array([0, 1])).round(3)
    array([0.085, 0.205])
    >>> rewards.total[:3].round(1)
    array([8.3, 8.3, 8.4])
    """

    impressions: ShownData
    predictions: FloatArray
    total: FloatArray
    models: tuple[Reward, ...]
    fold: IntArray
    row_counts: tuple[Count, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "predictions", "total", "fold")

    @classmethod
    def from_models(
        cls,
        impressions: ShownData,
        models: tuple[Reward, ...],
        fold: IntArray,
        split: Split,
        row_counts: tuple[Count, ...] = (),
    ) -> FittedRewards:
        """Return the rewards of fitted models.

        Parameters
        ----------
        impressions : ShownData
            Shown pairs, sorted by user, then item.
        models : tuple of Reward
            One fitted model per fold.
        fold : (n_users,) int array
            Fold of each user.
        split : Split
            Its excluded pairs are not candidates.
        row_counts : tuple of Count, default ()
            Numbers of pairs that were left out.

        Returns
        -------
        FittedRewards
            The rewards with their sums over the candidates of each user.
        """
        total = np.zeros(split.n_users)
        for number, model in enumerate(models):
            users = np.flatnonzero(fold == number)
            total[users] = _check_rewards(model.total(users), users.size)
        excluded = split.excluded_pairs
        excluded_rewards = _predict_by_fold(models, fold, excluded.user, excluded.item)
        total -= np.bincount(excluded.user, excluded_rewards, minlength=total.size)
        return cls(
            impressions=impressions,
            predictions=_predict_by_fold(models, fold, impressions.user, impressions.item),
            total=total,
            models=models,
            fold=fold,
            row_counts=row_counts,
        )

    def __repr__(self) -> str:
        return f"FittedRewards({len(self.impressions):,} shown pairs, {self.impressions.clicked.sum():,.0f} clicked)"

    def predict(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return m̂ of each pair, by the model that was fitted without the user.

        Parameters
        ----------
        user, item : (n,) int arrays
            Codes of the users and of the items.

        Returns
        -------
        (n,) float array
            Predicted click probabilities, in the order of the pairs.
        """
        return _predict_by_fold(self.models, self.fold, user, item)


def _predict_by_fold(
    models: tuple[Reward, ...], fold: IntArray, user: IntArray, item: IntArray
) -> FloatArray:
    """Return m̂ of each pair, (n,), by the model of the user's fold."""
    rewards = np.zeros(user.size)
    pair_fold = fold[user]
    for number, model in enumerate(models):
        rows = np.flatnonzero(pair_fold == number)
        if rows.size:
            rewards[rows] = _check_rewards(model.predict(user[rows], item[rows]), rows.size)
    return rewards


def _check_rewards(values: npt.ArrayLike, size: int) -> FloatArray:
    """Return the output of a reward model as floats, after a check that it is finite and of this size."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"a reward model must give {size} finite numbers; got shape {array.shape}.")
    return array
