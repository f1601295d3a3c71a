"""From the best items of all users to what estimators with a reward model read: sums over candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipseval._base.compute import ComputeOptions
from ipseval._base.types import FloatArray, TieChoice
from ipseval.data.splits import Split
from ipseval.errors import InputError, PropensityError
from ipseval.estimators._rewarded import Rewarded, RewardedMetric
from ipseval.metrics import Metric
from ipseval.policies.rewards import FittedRewards
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives, top_items


def shown_weights(fitted: FittedRewards, propensity: Propensity | None) -> FloatArray:
    """Return 1/P of the shown pairs, (n_shown,); NaN without a propensity."""
    shown = fitted.shown
    if propensity is None:
        return np.full(len(shown), np.nan)
    weight = np.asarray(1 / propensity.at(shown.user, shown.item))
    n_without = int(np.isnan(weight).sum())
    if n_without:
        raise PropensityError(
            f"{n_without} of {weight.size} shown pairs have no propensity, though they were shown. "
            "Use ImpressionPropensity(log=…), or leave these impressions out of the log."
        )
    return weight


def sum_candidates(
    model: Any,
    split: Split,
    fitted: FittedRewards,
    weight: FloatArray,
    metrics: Sequence[Metric],
    *,
    ties: TieChoice,
    name: str,
    compute: ComputeOptions,
) -> Rewarded:
    """Return Σ m̂ c over all candidates of each user, and c of the shown pairs, for each metric.

    Only items with a contribution are asked for: with cutoffs the k best of each user. A metric without a
    cutoff sorts the whole catalogue for each user, a block of users at a time.
    """
    shown, n_items = fitted.shown, split.n_items
    keys = shown.user * np.int64(n_items) + shown.item
    modelled = [np.zeros(fitted.total.size) for _ in metrics]
    at_shown = [np.zeros(keys.size) for _ in metrics]

    def add(part: RankedPositives) -> None:
        """Add the best items of a few users, sorted by user and item."""
        user, item = part.user, part.item
        key = user * np.int64(n_items) + item
        rows = slice(*np.searchsorted(keys, [user[0] * n_items, (user[-1] + 1) * n_items]))
        place = np.minimum(np.searchsorted(key, keys[rows]), key.size - 1)
        found = np.flatnonzero(key[place] == keys[rows])
        place, rows_found = place[found], found + rows.start
        predicted = fitted.predict(user, item)
        for metric, mine, own in zip(metrics, modelled, at_shown, strict=True):
            c = metric.rank_contributions(part, ties=ties)
            if c is None or not np.isfinite(c).all():
                raise InputError(f"{metric.label} is undefined for users with so few candidates.")
            mine[part.users] = part.sum_by_user(predicted * c)
            own[rows_found] = c[place]

    depth = min(max(one.cutoff or n_items for one in metrics), n_items)
    top_items(model, split, k=depth, each=add, name=name, compute=compute)
    return Rewarded(
        shown.user,
        shown.clicked,
        shown.examined,
        fitted.predicted,
        weight,
        fitted.total,
        n_items - np.bincount(split.excluded.user, minlength=split.n_users),
        {
            metric.label: RewardedMetric(mine, own)
            for metric, mine, own in zip(metrics, modelled, at_shown, strict=True)
        },
    )
