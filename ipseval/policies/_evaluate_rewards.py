"""evaluate_rewards: recommenders judged by a reward model and impressions, beside the positives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ipseval._base.checks import check_type
from ipseval._base.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval._base.types import IntervalMethod, OnLowEss, RngLike, TieChoice
from ipseval.data.splits import Split
from ipseval.estimators import Estimator
from ipseval.estimators._labels import DM, DR
from ipseval.evaluation import Evaluation, evaluate
from ipseval.evaluation._request import fitted_propensity, requested_estimators
from ipseval.metrics import Metric
from ipseval.metrics.sampled._metric import requested_metrics
from ipseval.policies._candidate_sums import shown_weights, sum_candidates
from ipseval.policies.rewards import Rewards
from ipseval.propensity import Propensity, PropensityModel
from ipseval.ranking import rank_positives


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
    on_low_ess: OnLowEss = "warn",
    interval: IntervalMethod = "normal",
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Evaluation:
    """Return the evaluation with `dm`, `dr` and `snips-shown`, which read impressions and a reward model.

    Σ_C runs over all candidates of a user, shown over the shown pairs, w = 1/P, θ the chance that a pair was
    examined, m̂ the reward model, c the contribution of an item at its rank:

    * `dm`: Σ_C m̂ c / Σ_C m̂;
    * `dr`: [Σ_C m̂ c + Σ_shown w (y − θ m̂) c] / the same with c = 1;
    * `snips-shown`: Σ_shown w y c / Σ_shown w y.

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
        That add up over items: recall, precision, dcg, mean_dcg, rbp, atop.
    estimators : labels or objects, optional
        Those above, and others beside them. Default: `dr`; `dm` without a propensity.
    ties, confidence_level, on_low_ess, interval, rng, compute
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
        on_low_ess=on_low_ess,
        interval=interval,
        rng=rng,
        compute=compute,
    )
