"""From a ranking pass over all candidates to what estimators with a reward model read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ipseval._requests import Request
from ipseval._types import AnyArray, FloatArray, IntArray, TieChoice, freeze
from ipseval.errors import InputError, PropensityError
from ipseval.estimators._rewarded import Rewarded, RewardedMetric
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives
from ipseval.ranking._kept import Best
from ipseval.rewards import FittedRewards
from ipseval.splits import Split


@dataclass(frozen=True, eq=False)
class Rewarding:
    """What estimators with a reward model need of the ranking of each recommender: its best items.

    Only items whose contribution may differ from 0 are asked for: with cutoffs the k best of each user. A
    metric without a cutoff sorts the whole catalogue for each user, a block of users at a time.

    Attributes
    ----------
    weight : (n_shown,) float array
        1/P of the shown pairs.
    depth : int
        k.
    n_candidates : (n_users,) int array
    """

    fitted: FittedRewards
    metrics: Sequence[Metric]
    ties: TieChoice
    weight: FloatArray
    depth: int
    n_candidates: IntArray
    user_ids: AnyArray
    item_ids: AnyArray

    def __post_init__(self) -> None:
        freeze(self, "weight", "n_candidates")

    @classmethod
    def of(cls, fitted: FittedRewards, split: Split, request: Request) -> Rewarding:
        """Return it for the metrics and the propensity of a request."""
        shown, metrics, propensity = fitted.shown, request.metrics, request.propensity
        weight = np.full(len(shown), np.nan)
        if propensity is not None:
            weight = 1 / propensity.at(shown.user, shown.item)
            n_without = int(np.isnan(weight).sum())
            if n_without:
                raise PropensityError(
                    f"{n_without} of {weight.size} shown pairs have no propensity, though they were shown. "
                    "Use ImpressionPropensity(log=…), or leave these impressions out of the log."
                )
        depth = min(max(one.cutoff or split.n_items for one in metrics), split.n_items)
        n_candidates = split.n_items - np.bincount(split.excluded.user, minlength=split.n_users)
        return cls(fitted, metrics, request.ties, weight, depth, n_candidates, split.user_ids, split.item_ids)

    def sums(self) -> RewardedSums:
        """Return the sums of one recommender, empty at first."""
        return RewardedSums(self)


class RewardedSums:
    """Sums over the candidates of users that come block by block, from any thread: each user comes once."""

    def __init__(self, asked: Rewarding) -> None:
        self._asked, shown = asked, asked.fitted.shown
        self._key = shown.user * np.int64(asked.item_ids.size) + shown.item
        self._modelled: list[FloatArray] = [np.zeros(asked.fitted.total.size) for _ in asked.metrics]
        self._shown: list[FloatArray] = [np.zeros(self._key.size) for _ in asked.metrics]

    @property
    def best(self) -> Best:
        """What the sums need of a ranking."""
        return Best(self._asked.depth, self._add, all_users=True)

    def made(self) -> Rewarded:
        """Return what the estimators read."""
        asked, shown = self._asked, self._asked.fitted.shown
        sums = zip(asked.metrics, self._modelled, self._shown, strict=True)
        return Rewarded(
            shown.user,
            shown.clicked,
            shown.examined,
            asked.fitted.predicted,
            asked.weight,
            asked.fitted.total,
            asked.n_candidates,
            {metric.label: RewardedMetric(modelled, own) for metric, modelled, own in sums},
        )

    def _add(self, user: IntArray, item: IntArray, n_above: IntArray, n_tied: IntArray) -> None:
        """Add the best items of a few users, sorted by user and item."""
        if not user.size:
            return
        asked = self._asked
        part = RankedPositives.trusted(
            user=user,
            item=item,
            n_above=n_above,
            n_tied=n_tied,
            n_candidates=asked.n_candidates[user],
            user_ids=asked.user_ids,
            item_ids=asked.item_ids,
        )
        n_items = asked.item_ids.size
        key = user * np.int64(n_items) + item
        rows = slice(*np.searchsorted(self._key, [user[0] * n_items, (user[-1] + 1) * n_items]))
        place = np.minimum(np.searchsorted(key, self._key[rows]), key.size - 1)
        found = np.flatnonzero(key[place] == self._key[rows])
        place, rows_found = place[found], found + rows.start
        predicted = asked.fitted.predict(user, item)
        for metric, modelled, shown in zip(asked.metrics, self._modelled, self._shown, strict=True):
            c = metric.rank_contributions(part, ties=asked.ties)
            if c is None or not np.isfinite(c).all():
                raise InputError(f"{metric.label} is undefined for users with so few candidates.")
            modelled[part.users] = part.sum_by_user(predicted * c)
            shown[rows_found] = c[place]
