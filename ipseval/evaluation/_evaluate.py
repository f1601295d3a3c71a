"""`evaluate`: estimate every metric of every recommender from a split and propensities.

1. `ranking/exact_ranks.py` ranks the test positives of each recommender: `RankedPositives`.
2. `estimators/sample.py` adds the propensity of each positive: `Sample`.
3. `Estimator.sums` in `estimators/aoa.py`, `ips.py` and `snips.py` turns the contributions of a metric and the
   weights 1/P into a numerator N_u and a denominator D_u of each user: `UserSums`.
4. `UserSums.value` in `estimators/user_sums.py` divides, Σ_u N_u / Σ_u D_u: `Estimate`.
5. `evaluation/reduction.py` calls steps 2 to 4 for all recommenders, metrics and estimators: `Evaluation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from ipseval.data.interactions import Interactions, TrainingCounts
from ipseval.data.reading.rating_scale import Threshold
from ipseval.data.splits import Split
from ipseval.data.splits.split import SplitSummary, resolve_split
from ipseval.errors import DataWarning
from ipseval.estimators import Estimator
from ipseval.estimators.sample import NRelevantLike
from ipseval.evaluation.array_order import warn_about_order
from ipseval.evaluation.cold_start import describe_cold_users
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.listed_weights import check_listed_weights
from ipseval.evaluation.reduction import Reduction, build_evaluation
from ipseval.evaluation.request import (
    DEFAULT_METRICS,
    Options,
    Request,
    check_candidates,
    name_models,
    pair_models,
    read_propensity_column,
    resolve_propensity,
    warn_about_early_impressions,
)
from ipseval.evaluation.sanity import check_sanity, word_warning
from ipseval.evaluation.verdict import choose_headline
from ipseval.evaluation.verdict_text import write_first_among_warm
from ipseval.metrics import Metric
from ipseval.metrics.gains import check_test_grades
from ipseval.propensity import ImpressionPropensity, LoggedPropensity, Propensity, PropensityModel
from ipseval.ranking import RankedPositives
from ipseval.ranking.exact_ranks import rank_models, resolve_models
from ipseval.ranking.ranked_positives import check_ranks_of_split, check_same_positives
from ipseval.utils.checks import check_models, warn_user
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, IntervalMethod, LowEss, Missing, RngLike, TieChoice


@public_function
def evaluate(
    models: Any,
    split: Any | None = None,
    test: Any | None = None,
    *,
    train: Any | None = None,
    threshold: Threshold | None = None,
    users: npt.ArrayLike | None = None,
    items: npt.ArrayLike | None = None,
    propensity: Propensity | PropensityModel | Mapping[Any, float] | AnyArray | str | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    candidates: Any = "all",
    missing_lists: Missing = "zero",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_relevant: NRelevantLike = None,
    low_ess: LowEss = "warn",
    interval: IntervalMethod = "normal",
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Evaluation:
    """Estimate every metric of every recommender by every estimator, with standard errors.

    Parameters
    ----------
    models : mapping, or one recommender
        Name -> scorer: see `rank_positives`, or a trained model of a library in `ipseval.adapters`;
        RankedPositives are used as they are. A recommender without a name is called "model".
    split : Split, optional
        `split.test` has the positives; `split.train` is excluded from the candidates, unless the split was
        made with `seen="include"`.
    train, test : data frames, logs, mappings, matrices or paths, optional
        Training and held-out interactions, as in `Split.from_frames`; pass these or `split`. They can be
        passed by position: `evaluate(models, train, test)`.
    threshold : float, "all" or None, default None
        Smallest value of a positive in `train` and `test`, as in `read`.
    users, items : array-like of ids, optional
        All users and items, in the order of the rows and columns of scores and factors, as in
        `Split.from_frames`. Default: the sorted ids of `train` and `test`.
    propensity : Propensity, unfitted model or its label, {item: P}, Series, frame, array, or None, default None
        A model, or that of a label such as "power-law:gamma=0", is fitted to `split.train`. If None, only
        unweighted estimators are computed. Positives without a propensity are excluded from all estimators,
        also from aoa; a note states their number. An array holds P of each item, or of each user and item,
        in the order of the ids of the split; a frame holds columns item and propensity, and perhaps user. The
        name of a column of `test` takes its values.
    metrics : labels or objects, default ("recall@10", "mean_dcg@10")
        Labels as in `ipseval.metric`, or metrics.
    estimators : labels or objects, optional
        Default: aoa and snips-global; aoa alone without a propensity.
    candidates : "all", SampledCandidates, ids or boolean mask (n_items,), or data frame, default "all"
        Items that compete, as in `rank_positives`. A sample of negatives changes the metric; see
        `expected_sampled`.
    missing_lists : {"zero", "drop", "raise"}, default "zero"
        Treatment of users with test positives and no top-K list: count them as misses, with a warning; drop
        them from every model; or raise an error. Notes count them, and lists shorter than a cutoff.
    ties : {"default", "mean", "min", "max", "expected"}, default "default"
        "default": mean rank for AUC-type metrics, exact expectation over random order for all others.
    confidence_level : float, default 0.95
        Confidence level of the intervals, in (0, 1).
    n_relevant : int, (n_users,) array or Series, "estimated" or None, default None
        s_u, the number of relevant items of each user, for `ips` of metrics that divide by it; in the order
        of `split.user_ids`, or with user ids as labels.
    low_ess : {"warn", "raise", "nan", "ignore"}, default "warn"
        Treatment of weighted estimates of a small effective sample size; "nan" suppresses them. Unless
        "ignore", an estimate with a standard error beyond its metric's range is suppressed, and a weighted
        estimate beyond this range, such as a precision of 1.3, is treated like one of a small effective sample size.
    interval : {"normal", "percentile", "bca"}, default "normal"
        From the standard error, or from a bootstrap over users with 10,000 resamples. For another number, or
        intervals that refit the propensity, use `Evaluation.with_intervals`.
    rng : int, Generator or None, default None
        Random seed of the bootstrap.
    compute : ComputeOptions, optional
        Threads, memory, engine, and whether a progress bar is shown.

    Returns
    -------
    Evaluation
        `frame` has one row per recommender, metric and estimator; printing shows the verdict and tables.

    Raises
    ------
    InputError, UnknownNameError, PropensityError
        For unusable input; the message states the value and a fix.

    See Also
    --------
    evaluate_ranks : Evaluate positives that are already ranked.
    Evaluation.compare : Test the differences of recommenders.

    Examples
    --------
    Two recommenders, of which one scores the held-out items higher:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from ipseval.data.splits import split_random
    >>> rng = np.random.default_rng(0)
    >>> user, item = np.nonzero(rng.random((60, 40)) < 0.3)
    >>> split = split_random(pd.DataFrame({"user": user, "item": item}), rng=0)
    >>> noise = rng.random((60, 40))
    >>> better = noise.copy()
    >>> better[split.test.user, split.test.item] += 0.3
    >>> evaluation = evaluate({"noise": noise, "better": better}, split, metrics=["recall@10"])
    >>> evaluation.frame[["model", "metric", "estimator", "estimate"]].round(2)
        model     metric estimator  estimate
    0   noise  recall@10       aoa      0.31
    1  better  recall@10       aoa      0.61
    """
    # Every check runs before the ranking, which may take hours.
    has_parts = not isinstance(split, Split)
    training_data = split if train is None else train
    split = resolve_split(split, train, test, threshold=threshold, users=users, items=items)
    models = name_models(models, split)
    check_models(models, "models", "scorer")
    if has_parts:
        models = pair_models(models, training_data)
        warn_about_order(models, split, has_users=users is not None, has_items=items is not None)
    for name, model in models.items():
        if isinstance(model, RankedPositives):
            check_ranks_of_split(model, split, name)
    if propensity is None and estimators is None and split.test.impressions is not None:
        propensity = ImpressionPropensity(log=split.test.impressions)
    propensity = read_propensity_column(propensity, test, split.n_items)
    warn_about_early_impressions(propensity, split)
    fitted = resolve_propensity(propensity, lambda model: model.fit(split.train))
    if fitted is not None:
        fitted.check_ids(split)
    request = Request.from_arguments(
        metrics,
        estimators,
        fitted,
        missing_lists=missing_lists,
        ties=ties,
        confidence_level=confidence_level,
        n_relevant=n_relevant,
        low_ess=low_ess,
        interval=interval,
        rng=rng,
        has_rewards=_have_sums(models),
    )
    check_candidates(candidates, request.metrics)
    if split.test.value is not None:
        check_test_grades(request.metrics, split.test.value)
    check_compute(compute)
    resolved_models = resolve_models(models, split)
    ranks = rank_models(resolved_models, split, candidates=candidates, compute=compute)
    evaluation = _estimate_from_ranks(ranks, request, compute)
    sanity = check_sanity(evaluation.ranks, models, split)
    if isinstance(propensity, (ImpressionPropensity, LoggedPropensity)):
        sanity += check_listed_weights(
            resolved_models, split, propensity, request, candidates=candidates, compute=compute
        )
    for warning in sanity:
        warn_user(word_warning(warning), DataWarning)
    evaluation = replace(
        evaluation,
        sanity=sanity,
        _training_counts=_count_training_interactions(split.train, next(iter(ranks.values()))),
        _counts=split.row_counts + evaluation._counts,
        _split_summary=SplitSummary.from_split(split),
    )
    if split.n_cold_users:
        _warn_about_cold_users(evaluation)
    return evaluation


def _count_training_interactions(train: Interactions, positives: RankedPositives) -> TrainingCounts:
    """Return the training interactions of each item and user; if users are queries, of each person."""
    counts = TrainingCounts.from_interactions(train)
    if positives.cluster is None:
        return counts
    activity = np.bincount(positives.cluster, counts.activity, minlength=positives.unit_ids.size)
    return replace(counts, activity=activity.astype(np.int64))


def _warn_about_cold_users(evaluation: Evaluation) -> None:
    """Warn where users without training interactions decide the first place, or are most users and tied."""
    cold_start = evaluation._cold_start
    if cold_start is None or not cold_start.is_reported:
        return
    headline = choose_headline(evaluation._verdicts_without_gamma)
    among_warm = headline.first_among_warm
    decides_first_place = among_warm is not None and headline.highest_model not in among_warm.models
    if not decides_first_place and not cold_start.is_majority_with_ties:
        return
    text = describe_cold_users(cold_start)
    if among_warm is not None:
        text = f"{text} {write_first_among_warm(headline)}"
    advice = "Train the recommenders on these users, too"
    shell_advice = advice
    if cold_start.has_warm_users:
        advice = "Compare the groups by .by('cold-users') on the result, or evaluate the other users only"
        shell_advice = "Compare the groups by --by cold-users"
    warn_user(text, DataWarning, advice=advice, shell_advice=shell_advice)


@public_function
def evaluate_ranks(
    ranks: Mapping[str, RankedPositives],
    *,
    propensity: Propensity | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
    **options: Unpack[Options],
) -> Evaluation:
    """Evaluate positives that are already ranked.

    Parameters
    ----------
    ranks : mapping
        Name -> RankedPositives, as `rank_positives` returns them; all of the same positives.
    propensity : Propensity, optional
        A fitted propensity. If None, only unweighted estimators are computed.
    metrics : labels or objects, default ("recall@10", "mean_dcg@10")
        As in `evaluate`.
    estimators : labels or objects, optional
        As in `evaluate`.
    compute : ComputeOptions, optional
        Threads, memory, engine, and whether a progress bar is shown.
    **options
        `missing_lists`, `ties`, `confidence_level`, `n_relevant`, `low_ess`, `interval` and `rng`, as in
        `evaluate`.

    Returns
    -------
    Evaluation
        As `evaluate` returns it.

    Raises
    ------
    InputError, UnknownNameError, PropensityError
        As `evaluate` raises them, and for ranks of different positives or candidates.

    See Also
    --------
    evaluate : Rank the positives, too.

    Examples
    --------
    The ranks of a split are computed once, and evaluated with two metrics:

    >>> from ipseval import rank_positives, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = world.example_models(split, rng=2)
    >>> ranks = {name: rank_positives(models[name], split) for name in ("taste", "popular")}
    >>> frame = evaluate_ranks(ranks, metrics=["recall@10", "ndcg@10"]).frame
    >>> frame[["model", "metric", "estimate"]].round(3)
         model     metric  estimate
    0    taste  recall@10     0.618
    1    taste    ndcg@10     0.404
    2  popular  recall@10     0.599
    3  popular    ndcg@10     0.396
    """
    check_compute(compute)
    request = Request.from_arguments(metrics, estimators, propensity, _have_sums(ranks), **options)
    return _estimate_from_ranks(ranks, request, compute)


def _estimate_from_ranks(
    ranks: Mapping[str, RankedPositives], request: Request, compute: ComputeOptions
) -> Evaluation:
    """Return the evaluation of ranks of the same positives."""
    check_same_positives(ranks)
    reduction = Reduction.from_ranks(ranks, request, compute.n_threads)
    return build_evaluation(reduction, request, compute=compute)


def _have_sums(models: object) -> bool:
    """Return whether all models are ranks with sums over all candidates."""
    if not isinstance(models, Mapping):
        return False
    for model in models.values():
        if not isinstance(model, RankedPositives) or model.candidate_sums is None:
            return False
    return True
