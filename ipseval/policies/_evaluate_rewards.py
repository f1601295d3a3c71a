"""evaluate_rewards: recommenders judged by a reward model and impressions, beside the positives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator
from ipseval.evaluation import Evaluation, evaluate
from ipseval.evaluation.request import fitted_propensity, requested_estimators
from ipseval.metrics import Metric
from ipseval.metrics.sampled.sampled_metric import requested_metrics
from ipseval.policies._estimators import DM, DR, Rewarded, RewardedMetric
from ipseval.policies.rewards import FittedRewards, Rewards
from ipseval.propensity import Propensity, PropensityModel
from ipseval.ranking import RankedPositives, rank_positives, top_items
from ipseval.utils.checks import check_type
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.types import FloatArray, IntervalMethod, LowEss, RngLike, TieChoice


def evaluate_rewards(
    models: Mapping[str, Any],
    split: Split,
    rewards: Rewards,
    *,
    propensity: Propensity | PropensityModel | str | None = None,
    metrics: Iterable[str | Metric] = ("recall@10", "dcg@10"),
    estimators: Iterable[str | Estimator] | None = None,
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    low_ess: LowEss = "warn",
    interval: IntervalMethod = "normal",
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Evaluation:
    """Return the evaluation with `dm`, `dr` and `snips-impressions`; they read impressions, a reward model.

    Σ_C runs over all candidates of a user, shown over the shown pairs, w = 1/P, θ the chance that a pair was
    examined, m̂ the reward model, c the contribution of an item at its rank:

    * `dm`: Σ_C m̂ c / Σ_C m̂;
    * `dr`: [Σ_C m̂ c + Σ_shown w (y − θ m̂) c] / the same with c = 1;
    * `snips-impressions`: Σ_shown w y c / Σ_shown w y.

    For metrics of kind "sum", such as dcg@k, it is the mean of the numerator over users. The best items of
    all users are ranked, so that models need scores of all items.

    Parameters
    ----------
    models : mapping
        Name -> scorer or trained model, as in `evaluate`; no lists and no ranks.
    split : Split
    rewards : Rewards
        Impressions of the test period and a reward model.
    propensity : as in `evaluate`
        The chance of being shown and examined, on the scale of probabilities; `dm` alone needs none.
    metrics : labels or objects
        That add up over items: recall, precision, cg, dcg, mean_dcg, rbp, atop.
    estimators : labels or objects, optional
        Those above, and others beside them. Default: `dr`; `dm` without a propensity.
    ties, confidence_level, low_ess, interval, rng, compute
        As in `evaluate`.

    Raises
    ------
    InputError
        For other metrics, for models without scores of all items, and impressions of other ids.
    PropensityError
        For a propensity that is known up to a factor, or lacks shown pairs.

    References
    ----------
    Dudík, Langford & Li, Doubly robust policy evaluation and learning, ICML 2011, arXiv 1103.4601.
    """
    check_type("rewards", rewards, Rewards, " Pass ipseval.policies.rewards.Rewards(log).")
    known = fitted_propensity(propensity, lambda model: model.fit(split.train))
    if estimators is None:
        estimators = [DM if known is None else DR]
    asked, chosen = requested_metrics(metrics), requested_estimators(estimators, known)
    for one in chosen:
        for each in asked:
            one.check(each, is_probability=known is not None and known.is_probability, n_relevant="absent")
    fitted = rewards.fit(split)
    weight = shown_weights(fitted, known)
    ranks = {}
    for name, model in models.items():
        sums = sum_candidates(model, split, fitted, weight, asked, ties=ties, name=name, compute=compute)
        ranked = rank_positives(model, split, name=name, compute=compute)
        ranks[name] = replace(ranked, candidate_sums=sums)
    return evaluate(
        ranks,
        split,
        propensity=known,
        metrics=asked,
        estimators=chosen,
        ties=ties,
        confidence_level=confidence_level,
        low_ess=low_ess,
        interval=interval,
        rng=rng,
        compute=compute,
    )


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
