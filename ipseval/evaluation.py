"""evaluate(): recommenders, split and propensity in, one table of estimates out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ipseval._border import guard
from ipseval._checks import check_type
from ipseval._compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval._evaluation import Evaluation
from ipseval._frame import FRAME_COLUMNS
from ipseval._missing import settle_lists
from ipseval._reduction import Reduction
from ipseval._requests import (
    DEFAULT_METRICS,
    OnLowEss,
    Request,
    check_belongs,
    check_models,
    check_same_positives,
    fitted_propensity,
)
from ipseval._results import finished
from ipseval._rewarding import Rewarding
from ipseval._types import Missing, RngLike, TieChoice
from ipseval.beyond import Measure, beyond_accuracy
from ipseval.beyond._result import checked_measures, checked_vectors
from ipseval.correction import correct_ranks, rank_with_exposure
from ipseval.errors import InputError
from ipseval.estimators import Estimator
from ipseval.estimators._rewarded import Rewarded
from ipseval.estimators._sample import NRelevantLike
from ipseval.inference._bootstrap import IntervalMethod
from ipseval.metrics import Metric
from ipseval.propensity import Exposure, Propensity, PropensityModel
from ipseval.ranking import RankedPositives
from ipseval.ranking._exact import rank_with_best
from ipseval.ranking._lists import settled_lists
from ipseval.rewards import FittedRewards, Rewards
from ipseval.segments import Groups, TrainingCounts
from ipseval.segments._built_in import resolve
from ipseval.segments._evaluated import segment
from ipseval.splits import Split
from ipseval.splits._base import check_split

__all__ = ["FRAME_COLUMNS", "Evaluation", "evaluate", "evaluate_ranks"]


def evaluate(
    models: Mapping[str, Any],
    split: Split,
    *,
    propensity: Propensity | PropensityModel | str | None = None,
    exposure: Exposure | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    candidates: Any = "all",
    missing: Missing = "zero",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_relevant: NRelevantLike = None,
    on_low_ess: OnLowEss = "warn",
    interval: IntervalMethod = "normal",
    n_resamples: int = 10_000,
    rng: RngLike = None,
    progress: bool | None = None,
    allowed_items: Any | None = None,
    by: Any | None = None,
    beyond: Iterable[str | Measure] | None = None,
    item_vectors: Any | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
    rewards: Rewards | None = None,
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
        A model, or that of a label such as "power-law:gamma=0", is fitted to `split.train`. None: only
        unweighted estimators. A positive without a propensity leaves every estimator as a pair, aoa too, so
        that all are over the same positives; notes count them.
    exposure : Exposure, optional
        Pairs that were shown at random to users drawn at random. With it, metrics that are averages over
        relevant items (recall@k, mean_dcg@k, atop) have two estimates more: `random-sample`, the plain mean
        over its positives, and `correction-strength`, which joins it with the log; see `ipseval.correct`.
        `Evaluation.correction` compares recommenders by the latter.
    metrics : labels or objects
        What `ipseval.metric` reads, or what it returns.
    estimators : labels or objects, optional
        Default: aoa and snips-global; aoa alone without a propensity.
    candidates : "all" or a sampling scheme
        Which items compete. A sample of negatives changes the metric; see `expected_sampled`.
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
        From the standard error, or from a bootstrap over users; see `Evaluation.with_intervals`.
    n_resamples, rng
        Of the bootstrap.
    progress, allowed_items, compute
        As in `rank_positives`.
    by : label, frame, Series, groups, or several of them in a list or mapping, optional
        Groups of users or items, as in `Evaluation.by`: "popularity", "activity", …. The result has them as
        `segments`, and prints them.
    beyond : labels, optional
        Measures of the first k items of every user, kept from the same ranking: "coverage@10", "gini@10",
        "arp@10", "novelty@10", "ild@10" (with `item_vectors`), …; see `beyond_accuracy`. The result has them
        as `beyond`, and prints them.
    item_vectors : (n_items, d) array, optional
        In the order of `split.item_ids`, for the diversity of lists.
    rewards : Rewards, optional
        Impressions of the test period and a reward model, for `dm`, `dr` and `snips-shown`. The
        best items of all users are ranked for them, so that models need scores of all items.

    Raises
    ------
    InputError, UnknownNameError, PropensityError
        For input that cannot be used; the text says what came and what to do.
    """
    # All that can be checked is checked before the ranking, which may take hours.
    _check_work(models, split)
    fitted = fitted_propensity(propensity, lambda model: model.fit(split.train))
    if fitted is not None:
        fitted.check_ids(split)
    asked = _Asked.of(split, by, beyond, item_vectors, exposure)
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
        n_resamples=n_resamples,
        rng=rng,
        has_rewards=rewards is not None,
    )
    modelled = _fitted_rewards(rewards, split, request, candidates, allowed_items)
    options = {"candidates": candidates, "progress": progress, "allowed_items": allowed_items}
    options |= {"compute": compute, **asked.depth}
    evaluation = _worked(settled_lists(models, split), split, exposure, request, options, modelled)
    return replace(
        asked.answered(evaluation, split, request),
        counted=split.counted + evaluation.counted,
        provenance=evaluation.provenance | _leakage(split),
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is asked beside the estimates: groups, and measures of the lists; checked when it is made."""

    training: TrainingCounts
    groups: tuple[Groups, ...]
    measures: list[Measure]
    vectors: Any

    @classmethod
    def of(cls, split: Split, by: Any, beyond: Any, item_vectors: Any, exposure: Any) -> _Asked:
        training = TrainingCounts.of(split.train)
        measures = [] if beyond is None else checked_measures(beyond)
        vectors = checked_vectors(item_vectors, split.item_ids, measures)
        if measures and exposure is not None:
            raise InputError("beyond= is not offered with exposure=; use beyond_accuracy(ranks, split).")
        groups = () if by is None else resolve(by, split.user_ids, split.item_ids, training)
        return cls(training, groups, measures, vectors)

    @property
    def depth(self) -> dict[str, int]:
        """The length of the lists that a ranking must keep, as an option of it."""
        return {"top_k": max(one.cutoff for one in self.measures)} if self.measures else {}

    def answered(self, evaluation: Evaluation, split: Split, request: Request) -> Evaluation:
        """Return the evaluation with groups, and with the measures of the lists that the ranking has kept."""
        segments = segment(evaluation, self.groups) if self.groups else {}
        found = replace(evaluation, training=self.training, segments=segments)
        if not self.measures:
            return found
        beyond = beyond_accuracy(
            {name: one.ranked for name, one in evaluation.samples.items()},
            split,
            measures=self.measures,
            item_vectors=self.vectors,
            confidence_level=request.confidence_level,
            interval=request.interval,
            n_resamples=request.n_resamples,
            rng=request.rng,
        )
        return replace(found, beyond=beyond)


def _worked(
    models: Mapping[str, Any],
    split: Split,
    exposure: Exposure | None,
    request: Request,
    options: Mapping[str, Any],
    modelled: FittedRewards | None,
) -> Evaluation:
    """Return the evaluation, with the correction that random exposure makes, from one ranking of both."""
    n_threads = check_compute(options["compute"]).n_threads
    rewarding = None if modelled is None else Rewarding.of(modelled, split, request)
    ranks, rewarded = {}, {}
    for name, model in models.items():
        sums = None if rewarding is None else rewarding.sums()
        if exposure is None:
            best = None if sums is None else sums.best
            ranks[name] = rank_with_best(model, split, name=name, best=best, **options)
        elif sums is not None:
            alone = {"progress": options["progress"], "compute": options["compute"]}
            rank_with_best(model, split, name=name, best=sums.best, positives=False, **alone)
        if sums is not None:
            rewarded[name] = sums.made()
    if exposure is None:
        return _evaluated(ranks, request, n_threads, rewarded)
    chosen = [one for one in request.metrics if one.kind == "mean"]
    if not chosen:
        raise InputError(
            f"random exposure says nothing of {', '.join(one.label for one in request.metrics)}. Ask for an "
            "average over relevant items, too: recall@k, mean_dcg@k or atop."
        )
    if not (isinstance(options["candidates"], str) and options["candidates"] == "all"):
        raise InputError("with exposure all items must compete; pass candidates='all'.")
    both = rank_with_exposure(models, split, exposure, **options)
    evaluation = _evaluated(both.of(both.test), request, n_threads, rewarded)
    correction = correct_ranks(
        replace(both, all=settle_lists(both.all, request.missing, request.depth)),
        split,
        metrics=chosen,
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
    n_resamples: int = 10_000,
    rng: RngLike = None,
    by: Any | None = None,
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
        n_resamples=n_resamples,
        rng=rng,
    )
    evaluation = _evaluated(ranks, request, n_threads)
    return evaluation if by is None else replace(evaluation, segments=segment(evaluation, by))


def _leakage(split: Split) -> dict[str, str]:
    leakage = split.leakage
    return {"leakage": leakage.text} if leakage is not None and leakage.n_leaking else {}


def _evaluated(
    ranks: Mapping[str, RankedPositives],
    request: Request,
    n_threads: int | None,
    rewarded: Mapping[str, Rewarded] = MappingProxyType({}),
) -> Evaluation:
    check_same_positives(ranks)
    return finished(Reduction.of(ranks, request, n_threads, rewarded), request)


def _fitted_rewards(
    rewards: Rewards | None, split: Split, request: Request, candidates: Any, allowed_items: Any
) -> FittedRewards | None:
    """Return the reward model fitted for a split; None where no estimator needs it."""
    if rewards is None or not any(one.needs_rewards for one in request.estimators):
        return None
    check_type("rewards", rewards, Rewards, " Pass ipseval.Rewards(log).")
    if not (isinstance(candidates, str) and candidates == "all" and allowed_items is None):
        raise InputError("a reward model is summed over the whole catalogue; leave candidates at 'all'.")
    return rewards.fit(split)


def _check_work(models: Mapping[str, Any], split: Split) -> None:
    check_models(models, "models", "scorer")
    check_split(split)
    for name, model in models.items():
        if isinstance(model, RankedPositives):
            check_belongs(model, split, name)


guard(__name__)
