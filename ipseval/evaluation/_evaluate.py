"""evaluate(): recommenders, split and propensity in, one table of estimates out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ipseval._base.border import guard
from ipseval._base.checks import check_models
from ipseval._base.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval._base.types import IntervalMethod, Missing, OnLowEss, RngLike, TieChoice
from ipseval.correction import correct_ranks, rank_with_exposure
from ipseval.data._evidence import Evidence, check_evidence
from ipseval.data.splits import Split
from ipseval.data.splits._base import check_split
from ipseval.errors import InputError
from ipseval.estimators import Estimator
from ipseval.estimators._sample import NRelevantLike
from ipseval.evaluation._finish import finished
from ipseval.evaluation._reduction import Reduction
from ipseval.evaluation._request import DEFAULT_METRICS, Request, check_candidates, fitted_propensity
from ipseval.evaluation._result import Evaluation
from ipseval.evaluation.segments import TrainingCounts
from ipseval.inference._frame import FRAME_COLUMNS
from ipseval.metrics import Metric
from ipseval.propensity import Propensity, PropensityModel
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking._candidates import is_catalogue
from ipseval.ranking._comparable import check_belongs, check_same_positives, resolve_missing
from ipseval.ranking._lists import resolve_lists

__all__ = ["FRAME_COLUMNS", "Evaluation", "evaluate", "evaluate_ranks"]


def evaluate(
    models: Mapping[str, Any],
    split: Split,
    *,
    propensity: Propensity | PropensityModel | str | None = None,
    evidence: Evidence | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    candidates: Any = "all",
    missing: Missing = "zero",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_relevant: NRelevantLike = None,
    on_low_ess: OnLowEss = "warn",
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
    split : Split
        `split.test` holds the positives; `split.train` is excluded from the candidates, unless the split
        was made with `seen="include"`.
    propensity : Propensity, an unfitted propensity model, its label, or None
        A model, or that of a label such as "power-law:gamma=0", is fitted to `split.train`. If None, only
        unweighted estimators are computed. Positives without a propensity are dropped from all estimators,
        aoa included; the note gives their number.
    evidence : Evidence, optional
        What is known of the truth beside the log. With it, metrics that are averages over relevant items
        (recall@k, mean_dcg@k, atop) have more estimates: with random exposure `random-sample`, the plain mean
        over its positives; and `correction-strength`, which joins all of it with the log; see
        `ipseval.correct`. `Evaluation.correction` compares recommenders by the latter.
    metrics : labels or objects
        What `ipseval.metric` reads, or what it returns.
    estimators : labels or objects, optional
        Default: aoa and snips-global; aoa alone without a propensity.
    candidates : "all", SampledCandidates, ids or boolean mask (n_items,), or data frame
        Which items compete, as in `rank_positives`. A sample of negatives changes the metric; see
        `expected_sampled`.
    missing : {"zero", "drop", "raise"}
        What to do with users that have test positives and no top-K list: count them as misses, with a
        warning; leave them out of every model; or raise. Notes count them, and lists shorter than a cutoff.
    ties : {"default", "mean", "min", "max", "expected"}
        "default": mean rank for AUC-type metrics, exact expectation over random order for the others.
    confidence_level : float
        In (0, 1).
    n_relevant : int, (n_users,) array or Series, "estimated" or None
        In the order of `split.user_ids`, or with user ids as labels:
        s_u, the number of relevant items of each user, for `ips` of metrics that divide by it.
    on_low_ess : {"warn", "raise", "nan", "ignore"}
        What to do with weighted estimates of a small effective sample size; "nan" suppresses them. Unless
        "ignore", an estimate with a standard error beyond its metric's range is suppressed.
    interval : {"normal", "percentile", "bca"}
        From the standard error, or from a bootstrap over users with 10,000 resamples; another number, or
        intervals that refit the propensity, by `Evaluation.with_intervals`.
    rng : int, Generator or None
        Of the bootstrap, and of the pairs that the correction draws.
    compute : ComputeOptions
        Threads, memory, engine, and whether a bar is shown.

    Raises
    ------
    InputError, UnknownNameError, PropensityError
        For input that cannot be used; the text says what came and what to do.
    """
    # All that can be checked is checked before the ranking, which may take hours.
    _check_work(models, split)
    known = check_evidence(evidence)
    fitted = fitted_propensity(propensity, lambda model: model.fit(split.train))
    if fitted is not None:
        fitted.check_ids(split)
    request = Request.of(
        metrics,
        estimators,
        fitted,
        missing=missing,
        ties=ties,
        confidence_level=confidence_level,
        n_relevant=n_relevant,
        on_low_ess=on_low_ess,
        interval=interval,
        rng=rng,
        has_rewards=_have_sums(models),
    )
    check_candidates(candidates, request.metrics)
    evaluation = _ranked(resolve_lists(models, split), split, known, request, candidates, compute)
    return replace(
        evaluation,
        training=TrainingCounts.of(split.train),
        counted=split.counted + evaluation.counted,
        provenance=evaluation.provenance | _leakage(split),
    )


def _ranked(
    models: Mapping[str, Any],
    split: Split,
    evidence: Evidence,
    request: Request,
    candidates: Any,
    compute: ComputeOptions,
) -> Evaluation:
    """Return the evaluation, with the correction that evidence makes, from one ranking of both."""
    n_threads = check_compute(compute).n_threads
    if evidence.is_empty:
        options = {"candidates": candidates, "compute": compute}
        ranks = {name: rank_positives(one, split, name=name, **options) for name, one in models.items()}
        return _evaluated(ranks, request, n_threads)
    chosen = [one for one in request.metrics if one.kind == "mean"]
    if not chosen:
        raise InputError(
            f"evidence says nothing of {', '.join(one.label for one in request.metrics)}. Ask for an "
            "average over relevant items, too: recall@k, mean_dcg@k or atop."
        )
    if not is_catalogue(candidates):
        raise InputError("with evidence all items must compete; pass candidates='all'.")
    both = rank_with_exposure(models, split, evidence.exposure, compute=compute)
    evaluation = _evaluated(both.of(both.test), request, n_threads)
    correction = correct_ranks(
        replace(both, all=resolve_missing(both.all, request.missing, request.depth)),
        split,
        metrics=chosen,
        interactions=evidence.interactions,
        ties=request.ties,
        confidence_level=request.confidence_level,
        rng=request.rng,
    )
    return replace(evaluation, correction=correction)


def evaluate_ranks(
    ranks: Mapping[str, RankedPositives],
    *,
    propensity: Propensity | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    missing: Missing = "zero",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_relevant: NRelevantLike = None,
    on_low_ess: OnLowEss = "warn",
    interval: IntervalMethod = "normal",
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Evaluation:
    """Return the evaluation of positives that are already ranked; parameters as in `evaluate`."""
    n_threads = check_compute(compute).n_threads
    request = Request.of(
        metrics,
        estimators,
        propensity,
        missing=missing,
        ties=ties,
        confidence_level=confidence_level,
        n_relevant=n_relevant,
        on_low_ess=on_low_ess,
        interval=interval,
        rng=rng,
        has_rewards=_have_sums(ranks),
    )
    return _evaluated(ranks, request, n_threads)


def _evaluated(ranks: Mapping[str, RankedPositives], request: Request, n_threads: int | None) -> Evaluation:
    check_same_positives(ranks)
    return finished(Reduction.of(ranks, request, n_threads), request)


def _leakage(split: Split) -> dict[str, str]:
    leakage = split.leakage
    return {"leakage": leakage.text} if leakage is not None and leakage.n_leaking else {}


def _have_sums(models: Any) -> bool:
    """Return whether all models are ranks with sums over all candidates."""
    return isinstance(models, Mapping) and all(
        isinstance(one, RankedPositives) and one.candidate_sums is not None for one in models.values()
    )


def _check_work(models: Mapping[str, Any], split: Split) -> None:
    check_models(models, "models", "scorer")
    check_split(split)
    for name, model in models.items():
        if isinstance(model, RankedPositives):
            check_belongs(model, split, name)


guard(__name__)
