"""evaluate(): recommenders, split and propensity in, one table of estimates out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError, PropensityError
from ipseval.estimators import Estimate, Estimator
from ipseval.estimators.estimate import build_estimate
from ipseval.estimators.sample import NO_PROPENSITY, Extent, NRelevantLike
from ipseval.evaluation._inputs import resolve_split
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.reduction import Reduction
from ipseval.evaluation.request import (
    DEFAULT_METRICS,
    Options,
    Request,
    check_candidates,
    fitted_propensity,
    warn_about_few_positives,
    warn_about_sampling,
)
from ipseval.evaluation.sanity import check_sanity, word_warning
from ipseval.evaluation.segments import TrainingCounts
from ipseval.evaluation.split_summary import SplitSummary
from ipseval.inference.estimate_frame import joined, judged
from ipseval.metrics import Metric
from ipseval.metrics.gains import check_test_grades
from ipseval.propensity import ImpressionPropensity, Propensity, PropensityModel
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking.candidates import is_catalogue
from ipseval.ranking.lists import resolve_lists
from ipseval.ranking.model_checks import (
    check_belongs,
    check_lists,
    check_same_positives,
    list_count,
    list_notes,
)
from ipseval.utils.border import guard
from ipseval.utils.checks import check_models, warn_user
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval.utils.counts import RESULT, Count, some
from ipseval.utils.types import AnyArray, IntervalMethod, LowEss, Missing, RngLike, TieChoice


def evaluate(
    models: Mapping[str, Any],
    split: Split | None = None,
    *,
    train: Any | None = None,
    test: Any | None = None,
    propensity: Propensity | PropensityModel | Mapping[Any, float] | str | None = None,
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
    """Return estimates of every metric by every estimator for every recommender, with standard errors.

    Parameters
    ----------
    models : mapping
        Name -> scorer: see `rank_positives`, or a trained model of a library that `ipseval.adapters` knows;
        RankedPositives are used as they are.
    split : Split, optional
        `split.test` holds the positives; `split.train` is excluded from the candidates, unless the split
        was made with `seen="include"`.
    train, test : data frames, logs, mappings or sparse matrices, optional
        Instead of `split`: the training and held-out interactions, as in `Split.from_frames`.
    propensity : Propensity, an unfitted propensity model, its label, {item: P}, Series, or None
        A model, or that of a label such as "power-law:gamma=0", is fitted to `split.train`. If None, only
        unweighted estimators are computed. Positives without a propensity are dropped from all estimators,
        aoa included; the note gives their number.
    metrics : labels or objects
        What `ipseval.metric` reads, or what it returns.
    estimators : labels or objects, optional
        Default: aoa and snips-global; aoa alone without a propensity.
    candidates : "all", SampledCandidates, ids or boolean mask (n_items,), or data frame
        Which items compete, as in `rank_positives`. A sample of negatives changes the metric; see
        `expected_sampled`.
    missing_lists : {"zero", "drop", "raise"}
        What to do with users that have test positives and no top-K list: count them as misses, with a
        warning; leave them out of every model; or raise. Notes count them, and lists shorter than a cutoff.
    ties : {"default", "mean", "min", "max", "expected"}
        "default": mean rank for AUC-type metrics, exact expectation over random order for the others.
    confidence_level : float
        In (0, 1).
    n_relevant : int, (n_users,) array or Series, "estimated" or None
        In the order of `split.user_ids`, or with user ids as labels:
        s_u, the number of relevant items of each user, for `ips` of metrics that divide by it.
    low_ess : {"warn", "raise", "nan", "ignore"}
        What to do with weighted estimates of a small effective sample size; "nan" suppresses them. Unless
        "ignore", an estimate with a standard error beyond its metric's range is suppressed.
    interval : {"normal", "percentile", "bca"}
        From the standard error, or from a bootstrap over users with 10,000 resamples; another number, or
        intervals that refit the propensity, by `Evaluation.with_intervals`.
    rng : int, Generator or None
        Of the bootstrap.
    compute : ComputeOptions
        Threads, memory, engine, and whether a bar is shown.

    Raises
    ------
    InputError, UnknownNameError, PropensityError
        For input that cannot be used; the text says what came and what to do.
    """
    # All that can be checked is checked before the ranking, which may take hours.
    check_models(models, "models", "scorer")
    split = resolve_split(split, train, test)
    for name, model in models.items():
        if isinstance(model, RankedPositives):
            check_belongs(model, split, name)
    if propensity is None and estimators is None and split.train.impressions is not None:
        propensity = ImpressionPropensity(log=split.train.impressions)
    fitted = fitted_propensity(propensity, lambda model: model.fit(split.train))
    if fitted is not None:
        fitted.check_ids(split)
    request = Request.of(
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
    check_test_grades(request.metrics, split.test.value)
    evaluation = _ranked(resolve_lists(models, split), split, request, candidates, compute)
    sanity = check_sanity(evaluation.ranks, models, split)
    for warning in sanity:
        warn_user(word_warning(warning), DataWarning)
    return replace(
        evaluation,
        sanity=sanity,
        _training_counts=TrainingCounts.of(split.train),
        _counts=split.counted + evaluation._counts,
        _split_summary=SplitSummary.from_split(split),
    )


def _ranked(
    models: Mapping[str, Any],
    split: Split,
    request: Request,
    candidates: Any,
    compute: ComputeOptions,
) -> Evaluation:
    """Rank every recommender on the split and evaluate the ranks."""
    n_threads = check_compute(compute).n_threads
    options: dict[str, Any] = {"compute": compute}
    if not is_catalogue(candidates):
        options["candidates"] = candidates
    ranks = {name: rank_positives(model, split, name=name, **options) for name, model in models.items()}
    check_same_positives(ranks)
    return _evaluated(ranks, request, n_threads)


def evaluate_ranks(
    ranks: Mapping[str, RankedPositives],
    *,
    propensity: Propensity | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
    **options: Unpack[Options],
) -> Evaluation:
    """Return the evaluation of positives that are already ranked; parameters and options as in `evaluate`."""
    n_threads = check_compute(compute).n_threads
    request = Request.of(metrics, estimators, propensity, _have_sums(ranks), **options)
    return _evaluated(ranks, request, n_threads)


def _evaluated(ranks: Mapping[str, RankedPositives], request: Request, n_threads: int | None) -> Evaluation:
    check_same_positives(ranks)
    return finished(Reduction.of(ranks, request, n_threads), request)


def _have_sums(models: Any) -> bool:
    """Return whether all models are ranks with sums over all candidates."""
    return isinstance(models, Mapping) and all(
        isinstance(one, RankedPositives) and one.candidate_sums is not None for one in models.values()
    )


MANY_LEFT_OUT = 0.1  # of the positives
NO_POSITIVE = "there is no positive to evaluate."


def finished(reduction: Reduction, request: Request, user_ids: AnyArray | None = None) -> Evaluation:
    """Return the evaluation, after the checks and warnings that need all users."""
    extent, weights = reduction.extent, reduction.weights
    check_lists(reduction.given_counts, request.missing_lists, extent.n_left_out, extent.unit_plural)
    if not extent.n_positives:
        raise PropensityError(NO_PROPENSITY) if extent.n_without_propensity else InputError(NO_POSITIVE)
    warn_about_few_positives(extent, request.estimators)
    for sample in list(reduction.samples.values())[:1]:
        warn_about_sampling(sample.ranked, request.metrics)
    _warn_about_left_out(extent)
    diagnostics = weights.diagnostics(request.estimators, extent, request.propensity)
    products = weights.product_flags(extent.n_users)
    estimates = _estimates(reduction, request)
    flags = {cell: joined(diagnostics[cell[1]].flag, products.get(cell, "")) for cell in reduction.sums}
    evaluation = Evaluation(
        estimates=judged(estimates, flags, request.metrics, request.low_ess),
        samples=reduction.samples,
        weights=diagnostics,
        user_ids=reduction.user_ids if user_ids is None else user_ids,
        ranks=reduction.ranks,
        confidence_level=request.confidence_level,
        propensity=request.propensity,
        provenance={
            "ties": request.ties,
            "missing_lists": request.missing_lists,
            "low_ess": request.low_ess,
            "candidates": reduction.candidates,
        },
        definitions=(request.metrics, request.estimators),
        _size=extent,
        _counts=_counted(reduction, request.depth),
    )
    return evaluation.with_intervals(request.interval, rng=request.rng)


def _warn_about_left_out(extent: Extent) -> None:
    """Warn where more than a tenth of the positives, and ten of them, have no propensity."""
    total = extent.n_positives + extent.n_without_propensity
    lost = extent.n_without_propensity
    if lost >= 10 and lost > MANY_LEFT_OUT * total:
        warn_user(
            f"{lost:,} of {total:,} test positives ({lost / total:.0%}) have no propensity and are left out "
            "of every estimator: what is estimated is of the others. Of items that training lacks, "
            "unseen='smooth' gives one.",
            DataWarning,
        )


def _counted(reduction: Reduction, depth: int) -> tuple[Count, ...]:
    """Return what was counted of each recommender and of all together."""
    extent, lists = reduction.extent, reduction.given_counts
    of_models = [
        count
        for name in reduction.models
        for count in (
            *(one for one in reduction.counted if one.subject == name),
            *(one.about(name) for one in list_count(lists[name], depth, extent.unit_plural)),
        )
    ]
    n_left_out, n_without = extent.n_left_out, extent.n_without_propensity
    of_all = some(
        Count("users without a list of some model, left out", n_left_out, extent.n_population + n_left_out),
        Count("positives without a propensity, left out", n_without, extent.n_positives + n_without),
    )
    entered = [
        Count("positives that entered", extent.n_positives),
        Count(f"{extent.unit_plural} that entered", extent.n_users),
        *some(Count("users whose queries entered", extent.n_clusters)),
    ]
    together = [one for one in reduction.counted if one.subject == RESULT]
    return (*of_models, *together, *(one.about(RESULT) for one in (*of_all, *entered)))


def _estimates(reduction: Reduction, request: Request) -> dict[tuple[str, str, str], Estimate]:
    """Return (model, metric, estimator) -> estimate, model by model."""
    found = {}
    members = {cell: reduction.members(cell) for cell in reduction.sums}
    for number, model in enumerate(reduction.models):
        counts = reduction.list_counts[model]
        for metric in request.metrics:
            of_lists = list_notes(
                counts,
                metric.cutoff,
                n_left_out=reduction.extent.n_left_out,
                units=reduction.extent.unit_plural,
            )
            for one in request.estimators:
                found[model, metric.label, one.label] = build_estimate(
                    members[metric.label, one.label][number],
                    metric,
                    one,
                    reduction.extent,
                    is_probability=request.is_probability,
                    n_relevant=request.n_relevant_kind,
                    of_lists=of_lists,
                )
    return found


guard(__name__)
