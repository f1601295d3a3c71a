"""From a ranking pass over all candidates to what estimators with a reward model read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ipseval._compute import ComputeOptions
from ipseval._requests import Request
from ipseval._types import FloatArray, TieChoice
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Rewarded, RewardedMetric
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives
from ipseval.ranking._top import each_top
from ipseval.rewards import FittedRewards
from ipseval.splits import Split


def rewarded_models(
    models: Mapping[str, Any],
    split: Split,
    fitted: FittedRewards | None,
    request: Request,
    progress: bool | None,
    compute: ComputeOptions,
) -> dict[str, Rewarded]:
    """Return the sums over candidates and the contributions of shown pairs, of each model; none without m̂.

    Only items whose contribution may differ from 0 are ranked: with cutoffs the k best of each user. A
    metric without a cutoff sorts the whole catalogue for each user, a block of users at a time.
    """
    if fitted is None:
        return {}
    shown, metrics, propensity = fitted.shown, request.metrics, request.propensity
    weight = np.full(len(shown), np.nan)
    if propensity is not None:
        weight = 1 / propensity.at(shown.user, shown.item)
        n_without = int(np.isnan(weight).sum())
        if n_without:
            raise PropensityError(
                f"{n_without} of {weight.size} shown pairs have no propensity, though they were shown. Use "
                "ImpressionPropensity(log=…), or leave these impressions out of the log."
            )
    depth = min(max(one.cutoff or split.n_items for one in metrics), split.n_items)
    n_candidates = split.n_items - np.bincount(split.excluded.user, minlength=split.n_users)
    made = {}
    for name, model in models.items():
        sums = _Sums(fitted, metrics, request.ties)
        each_top(model, split, depth, sums.add, name=name, progress=progress, compute=compute)
        made[name] = Rewarded(
            shown.user,
            shown.clicked,
            shown.examined,
            fitted.predicted,
            weight,
            fitted.total,
            n_candidates,
            {one.label: RewardedMetric(sums.modelled[n], sums.shown[n]) for n, one in enumerate(metrics)},
        )
    return made


class _Sums:
    """Sums over the candidates of users that come block by block, from any thread: each user comes once."""

    def __init__(self, fitted: FittedRewards, metrics: Sequence[Metric], ties: TieChoice) -> None:
        self._fitted, self._metrics, self._ties = fitted, metrics, ties
        n_items = fitted.shown.train.n_items
        self._key = fitted.shown.user * np.int64(n_items) + fitted.shown.item
        self.modelled: list[FloatArray] = [np.zeros(fitted.total.size) for _ in metrics]
        self.shown: list[FloatArray] = [np.zeros(self._key.size) for _ in metrics]

    def add(self, part: RankedPositives) -> None:
        """Add the best items of a few users, sorted by user and item."""
        if not len(part):
            return
        users = slice(int(part.user[0]), int(part.user[-1]) + 1)
        n_items = part.item_ids.size
        key = part.user * np.int64(n_items) + part.item
        rows = slice(*np.searchsorted(self._key, [users.start * n_items, users.stop * n_items]))
        place = np.minimum(np.searchsorted(key, self._key[rows]), key.size - 1)
        found = key[place] == self._key[rows]
        predicted = self._fitted.predict(part.user, part.item)
        for number, metric in enumerate(self._metrics):
            c = metric.rank_contributions(part, ties=self._ties)
            if c is None or not np.isfinite(c).all():
                raise InputError(f"{metric.label} is undefined for users with so few candidates.")
            self.modelled[number][users] = np.bincount(
                part.user - users.start, predicted * c, minlength=users.stop - users.start
            )
            self.shown[number][rows] = np.where(found, c[place], 0.0)
