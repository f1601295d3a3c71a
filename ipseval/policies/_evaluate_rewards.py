"""evaluate_rewards: evaluate recommenders with a reward model and impressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator
from ipseval.evaluation import Evaluation, evaluate
from ipseval.evaluation.request import resolve_estimators, resolve_propensity
from ipseval.metrics import Metric
from ipseval.metrics.labels import resolve_metrics
from ipseval.policies._estimators import DM, DR, MetricRewards, RewardData
from ipseval.policies.rewards import FittedRewards, Rewards
from ipseval.propensity import Propensity, PropensityModel
from ipseval.ranking import RankedPositives, rank_positives, top_items
from ipseval.utils.checks import as_list, check_type
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray, IntArray, IntervalMethod, LowEss, RngLike, TieChoice


@public_function
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
    """Evaluate recommenders with `dm`, `dr` and `snips-impressions`, from impressions and a reward model.

    The best items of all users are ranked, so that models need scores of all items.

    Parameters
    ----------
    models : mapping
        Name -> scorer or trained model, as in `evaluate`; no lists and no ranks.
    split : Split
        Training log and test positives.
    rewards : Rewards
        Impressions of the test period and a reward model.
    propensity : Propensity, PropensityModel or str, optional
        Probability of being shown and examined, calibrated; `dm` needs none.
    metrics : labels or objects, default ("recall@10", "dcg@10")
        Metrics that add up over items: those of kind "mean" or "sum", such as recall and dcg, and precision
        and rbp.
    estimators : labels or objects, optional
        The estimators of the notes, and any others. Default: `dr`; `dm` without a propensity.
    ties : {"default", "mean", "min", "max", "expected"}, default "default"
        Treatment of tied scores, as in `evaluate`.
    confidence_level : float, default 0.95
        Level of the intervals, in (0, 1).
    low_ess : {"warn", "raise", "nan", "ignore"}, default "warn"
        Treatment of weighted estimates of a small effective sample size, as in `evaluate`.
    interval : {"normal", "percentile", "bca"}, default "normal"
        Method of the intervals, as in `evaluate`.
    rng : int, Generator or None, default None
        Random seed of the bootstrap.
    compute : ComputeOptions, optional
        Threads, memory, engine, and whether a progress bar is shown.

    Returns
    -------
    Evaluation
        As `evaluate` returns it.

    Raises
    ------
    InputError
        For other metrics, for models without scores of all items, and impressions of other ids.
    PropensityError
        For a propensity that is known up to a constant factor, or lacks shown pairs.

    See Also
    --------
    evaluate_policies : Estimate the clicks of policies from a log with propensities.
    ipseval.evaluate : Evaluate recommenders on test positives.

    Notes
    -----
    Σ_C runs over all candidates of a user, Σ_shown over the shown pairs, w = 1/P, θ is the probability that a
    pair was examined, m̂ the reward model, c the contribution of an item at its rank [1]_:

    * `dm`: Σ_C m̂ c / Σ_C m̂;
    * `dr`: [Σ_C m̂ c + Σ_shown w (y − θ m̂) c] / the same with c = 1;
    * `snips-impressions`: Σ_shown w y c / Σ_shown w y.

    For metrics of kind "sum", such as dcg@k, the estimate is the mean of the numerator over users.

    References
    ----------
    .. [1] Dudík, Langford & Li, Doubly robust policy evaluation and learning, ICML 2011, arXiv:1103.4601

    Examples
    --------
    Sixteen of 80 items were shown to each user at random, so each pair was shown with probability 0.2:

    >>> from ipseval import ImpressionLog, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> shown = world.expose(16, rng=2)
    >>> log = ImpressionLog(
    ...     shown.user, shown.item, shown.user_ids, shown.item_ids, clicked=shown.value >= 4
    ... )
    >>> from ipseval.propensity import Propensity
    >>> from ipseval.policies.rewards import Rewards
    >>> examples = world.example_models(split, rng=3)
    >>> evaluation = evaluate_rewards(
    ...     {name: examples[name] for name in ("taste", "popular")},
    ...     split,
    ...     Rewards(log, rng=4),
    ...     propensity=Propensity([0.2] * 80, True, "shown at random", 80),
    ...     metrics=["recall@10"],
    ...     estimators=["dm", "dr"],
    ... )
    >>> evaluation.frame[["model", "metric", "estimator", "estimate", "std_error"]].round(3)
         model     metric estimator  estimate  std_error
    0    taste  recall@10        dm     0.277      0.002
    1    taste  recall@10        dr     0.392      0.019
    2  popular  recall@10        dm     0.329      0.001
    3  popular  recall@10        dr     0.319      0.018
    """
    check_type("rewards", rewards, Rewards, " Pass ipseval.policies.rewards.Rewards(log).")
    exposure_propensity = resolve_propensity(propensity, lambda model: model.fit(split.train))
    if estimators is None:
        estimators = [DM if exposure_propensity is None else DR]
    labels = as_list(metrics, "metrics")
    metric_objects = resolve_metrics(labels)
    estimator_objects = resolve_estimators(estimators, exposure_propensity)
    is_probability = exposure_propensity is not None and exposure_propensity.is_probability
    for estimator in estimator_objects:
        for metric in metric_objects:
            estimator.check(metric, is_probability=is_probability, n_relevant="absent")

    reward_fit = rewards.fit(split)
    weight = compute_pair_weights(reward_fit, exposure_propensity)
    ranks = {}
    for name, model in models.items():
        candidate_sums = sum_candidates(
            model, split, reward_fit, weight, metric_objects, ties=ties, name=name, compute=compute
        )
        ranked = rank_positives(model, split, name=name, compute=compute)
        ranks[name] = replace(ranked, candidate_sums=candidate_sums)
    return evaluate(
        ranks,
        split,
        propensity=exposure_propensity,
        metrics=labels,  # so that a note can tell how ap@k was requested
        estimators=estimator_objects,
        ties=ties,
        confidence_level=confidence_level,
        low_ess=low_ess,
        interval=interval,
        rng=rng,
        compute=compute,
    )


def compute_pair_weights(reward_fit: FittedRewards, propensity: Propensity | None) -> FloatArray:
    """Return 1/P of the shown pairs, (n_shown,); NaN without a propensity."""
    shown = reward_fit.impressions
    if propensity is None:
        return np.full(len(shown), np.nan)
    weight = np.asarray(1 / propensity.for_pairs(shown.user, shown.item))
    n_missing = int(np.isnan(weight).sum())
    if n_missing:
        raise PropensityError(
            f"{n_missing} of {weight.size} shown pairs have no propensity, though they were shown. "
            "Use ImpressionPropensity(log=…), or leave these impressions out of the log."
        )
    return weight


def sum_candidates(
    model: object,
    split: Split,
    reward_fit: FittedRewards,
    weight: FloatArray,
    metrics: Sequence[Metric],
    *,
    ties: TieChoice,
    name: str,
    compute: ComputeOptions,
) -> RewardData:
    """Return Σ m̂ c over all candidates of each user, and c of the shown pairs, for each metric.

    Only items with a contribution are ranked: with cutoffs the k best of each user. A metric without a
    cutoff sorts the whole catalogue for each user, a block of users at a time.
    """
    shown = reward_fit.impressions
    n_items = split.n_items
    shown_keys = shown.user * np.int64(n_items) + shown.item
    n_users = reward_fit.total.size
    candidate_sums = {}
    pair_contributions = {}
    for metric in metrics:
        candidate_sums[metric.label] = np.zeros(n_users)
        pair_contributions[metric.label] = np.zeros(shown_keys.size)

    def add_users(top: RankedPositives) -> None:
        """Add the best items of a few users, sorted by user and item."""
        top_rows, shown_rows = _match_shown_pairs(top, shown_keys, n_items)
        model_reward = reward_fit.predict(top.user, top.item)
        for metric in metrics:
            contributions = metric.rank_contributions(top, ties=ties)
            if contributions is None or not np.isfinite(contributions).all():
                raise InputError(f"{metric.label} is undefined for users with so few candidates.")
            candidate_sums[metric.label][top.users] = top.sum_by_user(model_reward * contributions)
            pair_contributions[metric.label][shown_rows] = contributions[top_rows]

    cutoffs = [metric.cutoff or n_items for metric in metrics]
    top_items(model, split, k=min(max(cutoffs), n_items), handle=add_users, name=name, compute=compute)
    metric_rewards = {}
    for metric in metrics:
        metric_rewards[metric.label] = MetricRewards(
            candidate_sums=candidate_sums[metric.label],
            pair_contributions=pair_contributions[metric.label],
        )
    return RewardData(
        user=shown.user,
        clicked=shown.clicked,
        examination=shown.examination,
        model_reward=reward_fit.predictions,
        weight=weight,
        candidate_reward=reward_fit.total,
        n_candidates=n_items - np.bincount(split.excluded_pairs.user, minlength=split.n_users),
        metrics=metric_rewards,
    )


def _match_shown_pairs(top: RankedPositives, shown_keys: IntArray, n_items: int) -> tuple[IntArray, IntArray]:
    """Return the rows of the shown pairs among the best items of a few users, in both arrays."""
    top_keys = top.user * np.int64(n_items) + top.item
    first_key = top.user[0] * n_items
    end_key = (top.user[-1] + 1) * n_items
    start, end = np.searchsorted(shown_keys, [first_key, end_key])
    block_keys = shown_keys[start:end]
    top_rows = np.minimum(np.searchsorted(top_keys, block_keys), top_keys.size - 1)
    block_rows = np.flatnonzero(top_keys[top_rows] == block_keys)
    return top_rows[block_rows], block_rows + start
