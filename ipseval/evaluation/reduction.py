"""Reduction of users to sums of every estimate, sums of weights, and counts; and the evaluation of these sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ipseval.errors import DataWarning, InputError, PropensityError
from ipseval.estimators import Estimate, Sample, UserSums
from ipseval.estimators.estimate import apply_flags, build_estimate
from ipseval.estimators.sample import ANOTHER_PROPENSITY, NO_PROPENSITY, SampleSize
from ipseval.estimators.user_sums import MergedSums, Moments
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.request import (
    Request,
    describe_request_of_metric,
    warn_about_few_positives,
    warn_about_large_cutoffs,
    warn_about_sampling,
)
from ipseval.evaluation.segments import Groups
from ipseval.evaluation.segments.segment_sums import SegmentSums, merge_optional
from ipseval.inference.bootstrap_intervals import compute_propensity_influences
from ipseval.inference.weight_diagnostics import AllWeights
from ipseval.ranking import RankedPositives
from ipseval.ranking.list_coverage import (
    check_lists,
    collect_list_notes,
    count_short_lists,
    resolve_missing,
)
from ipseval.utils.checks import warn_user
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, available_cores, open_executor
from ipseval.utils.notes import RESULT, Count, Note, drop_zero_counts, merge_counts
from ipseval.utils.types import AnyArray, IntArray

Cell: TypeAlias = tuple[str, str]  # (metric, estimator)
Sums: TypeAlias = tuple[UserSums, ...] | Moments  # one entry per model


@dataclass(frozen=True, eq=False)
class Reduction:
    """The sums, weights and counts of some users, from which an evaluation is built; reductions merge.

    Attributes
    ----------
    models : tuple of str
    sums : mapping
        (metric, estimator) -> sums of each model.
    size : SampleSize
        Numbers of users and positives.
    weights : AllWeights
        Sums of the weights of every estimator.
    list_counts, given_counts : dict
        Model -> numbers of users by length of their list: of the positives with a propensity, and of all.
        Empty if no model consists of lists.
    user_ids : (n_users,) array
    candidates : str
        Description of the candidates.
    samples, ranks : dict
        Model -> its positives; empty where they stay on a worker.
    counted : tuple of Count
    segments : tuple of SegmentSums
    """

    models: tuple[str, ...]
    sums: Mapping[Cell, Sums]
    size: SampleSize
    weights: AllWeights
    list_counts: dict[str, IntArray]
    given_counts: dict[str, IntArray]
    user_ids: AnyArray
    candidates: str
    samples: dict[str, Sample] = field(default_factory=dict)
    ranks: dict[str, RankedPositives] = field(default_factory=dict)
    counted: tuple[Count, ...] = ()
    segments: tuple[SegmentSums, ...] = ()

    def __repr__(self) -> str:
        return f"Reduction({', '.join(self.models)}; {self.size!r})"

    @classmethod
    def from_ranks(
        cls,
        ranks: Mapping[str, RankedPositives],
        request: Request,
        n_threads: int | None = 1,
    ) -> Reduction:
        """Reduce the users of ranked positives to the sums of a request."""
        depth = request.depth
        has_lists = _have_lists(ranks)
        ranks = dict(ranks)
        if has_lists:
            ranks = resolve_missing(ranks, request.missing_lists, depth)
        samples = {}
        for model, ranked in ranks.items():
            samples[model] = replace(request.sample(ranked), rewarded=ranked.candidate_sums)
        first = next(iter(samples.values()))
        # Weights are summed in a second thread, if there may be one, while this one computes the estimates.
        if n_threads is None:
            n_threads = available_cores()
        with open_executor(min(n_threads - 1, 1)) as executor:
            weights = executor.submit(
                AllWeights.from_sample,
                first,
                request.estimators,
                request.metrics,
                propensity=request.propensity,
            )
            sums = _compute_sums(samples, request)
            list_counts = {}
            given_counts = {}
            if has_lists:
                for model, ranked in ranks.items():
                    list_counts[model] = samples[model].ranked.list_counts(depth)
                    given_counts[model] = ranked.list_counts(depth)

            return cls(
                models=tuple(ranks),
                sums=sums,
                size=SampleSize.from_sample(first),
                weights=weights.result(),
                list_counts=list_counts,
                given_counts=given_counts,
                user_ids=first.ranked.unit_ids,
                candidates=first.ranked.candidates,
                samples=samples,
                ranks=ranks,
                counted=_collect_ranking_counts(ranks),
            )

    def by(self, groupings: Sequence[Groups], request: Request) -> Reduction:
        """Add the sums in groups, while the positives are at hand."""
        user_sums = {}
        for cell, sums in self.sums.items():
            if not isinstance(sums, Moments):
                user_sums[cell] = sums

        metrics = request.metrics
        estimators = request.estimators
        segments = [
            SegmentSums.from_samples(groups, self.samples, user_sums, metrics, estimators)
            for groups in groupings
        ]
        return replace(self, segments=tuple(segments))

    def as_part(self, *, per_user: bool) -> Reduction:
        """Return the part that a worker sends: moments, or the sums of each user; never the positives."""
        sums: dict[Cell, Sums] = {}
        for cell, cell_sums in self.sums.items():
            if per_user or isinstance(cell_sums, Moments):
                sums[cell] = cell_sums
            else:
                sums[cell] = Moments.from_user_sums(cell_sums)
        segments = tuple(segment.alone() for segment in self.segments)
        return replace(self, sums=sums, samples={}, ranks={}, segments=segments)

    def merge(self, other: Reduction) -> Reduction:
        """Return the reduction of the users of two reductions, which have no user in common."""
        n_users = self.user_ids.size
        user_ids = self.user_ids
        if other.user_ids.size:
            id_arrays = []
            for ids in (self.user_ids, other.user_ids):
                if ids.size:
                    id_arrays.append(ids)

            user_ids = np.concatenate(id_arrays)
        segments = zip(self.segments, other.segments, strict=True)
        merged_sums = {}
        for cell, sums in self.sums.items():
            merged_sums[cell] = _merge_sums(sums, other.sums[cell], n_users)

        return Reduction(
            models=self.models,
            sums=merged_sums,
            size=self.size.merge(other.size),
            weights=self.weights.merge(other.weights),
            list_counts=_add_counts(self.list_counts, other.list_counts),
            given_counts=_add_counts(self.given_counts, other.given_counts),
            user_ids=user_ids,
            candidates=self.candidates,
            counted=merge_counts(self.counted, other.counted),
            segments=tuple(first.merge(second) for first, second in segments),
        )

    def ordered(self, user_ids: AnyArray) -> Reduction:
        """Return the reduction with its users in the order of `user_ids`."""
        positions = {}
        for position, user in enumerate(user_ids.tolist()):
            positions[user] = position

        codes = np.array([positions[user] for user in self.user_ids.tolist()], dtype=np.int64)
        sums: dict[Cell, Sums] = {}
        for cell, cell_sums in self.sums.items():
            if isinstance(cell_sums, Moments):
                sums[cell] = cell_sums
            else:
                sums[cell] = tuple(user_sums.remap_users(codes) for user_sums in cell_sums)
        return replace(self, sums=sums, user_ids=user_ids)

    def members(self, cell: Cell) -> list[UserSums] | list[MergedSums]:
        """Return the sums of each model for a metric and estimator."""
        sums = self.sums[cell]
        if isinstance(sums, Moments):
            return sums.members()
        return list(sums)


def _have_lists(ranks: Mapping[str, RankedPositives]) -> bool:
    """Return whether some model consists of top-K lists."""
    for ranked in ranks.values():
        if ranked.list_length is not None or ranked.max_rank is not None:
            return True
    return False


def _compute_sums(samples: Mapping[str, Sample], request: Request) -> dict[Cell, Sums]:
    """Return (metric, estimator) -> sums of each model, with the influence of estimated propensities."""
    sums: dict[Cell, Sums] = {}
    for metric in request.metrics:
        for estimator in request.estimators:
            sums_of_models = []
            for sample in samples.values():
                user_sums = estimator.sums(sample, metric)
                sums_of_models.append(user_sums.by_cluster(sample.ranked.cluster))

            sums[metric.label, estimator.label] = tuple(sums_of_models)
    propensity = request.propensity
    if propensity is None or propensity.error is None:
        return sums
    influences = compute_propensity_influences(samples, request.metrics, request.estimators, propensity.error)
    for cell, cell_sums in sums.items():
        assert not isinstance(cell_sums, Moments)
        with_influence = []
        for model, model_sums in zip(samples, cell_sums, strict=True):
            influence = influences.get((model, *cell))
            with_influence.append(replace(model_sums, propensity_influence=influence))
        sums[cell] = tuple(with_influence)
    return sums


def _merge_sums(sums: Sums, other_sums: Sums, shift: int) -> Sums:
    """Return the sums over the users of two reductions; `shift`: number of users of the first."""
    if isinstance(sums, Moments):
        assert isinstance(other_sums, Moments)
        return sums.merge(other_sums)
    assert isinstance(other_sums, tuple)
    pairs = zip(sums, other_sums, strict=True)
    return tuple(model_sums.concatenate(other_model_sums, shift) for model_sums, other_model_sums in pairs)


def _add_counts(counts: Mapping[str, IntArray], other_counts: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Return model -> sum of the counts of two reductions."""
    return {model: model_counts + other_counts[model] for model, model_counts in counts.items()}


def _collect_ranking_counts(ranks: Mapping[str, RankedPositives]) -> tuple[Count, ...]:
    """Return the counts from the ranking of each model, and the number of positives that no list can hold."""
    counts = []
    for model, ranked in ranks.items():
        counts += [count.with_subject(model) for count in ranked.row_counts]
    first = next(iter(ranks.values()))
    n_excluded = first.n_not_candidates
    n_all = len(first) + n_excluded
    exclusion = Count(
        "test positives that are not candidates, left out", n_excluded, n_all, RESULT, "exclusion"
    )
    return (*counts, *drop_zero_counts(exclusion))


def merge_reductions(parts: list[Reduction | None]) -> Reduction | None:
    """Merge all parts in pairs, in their order, so that every run gives the same bits."""
    while len(parts) > 1:
        parts = [merge_optional(first, second) for first, second in zip_longest(parts[::2], parts[1::2])]
    return next(iter(parts), None)


# The exclusion of positives is a warning where it affects at least this share, and this number, of them.
MANY_EXCLUDED_SHARE = 0.1


MANY_EXCLUDED = 10


NO_POSITIVE = "there is no positive to evaluate."


def build_evaluation(
    reduction: Reduction,
    request: Request,
    user_ids: AnyArray | None = None,
    *,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Evaluation:
    """Build the evaluation from the reduction of all users, after the checks that need all of them."""
    size = reduction.size
    if reduction.given_counts:
        check_lists(reduction.given_counts, request.missing_lists, size.n_left_out, size.unit_plural)
    if not size.n_positives and size.n_without_propensity:
        raise PropensityError(NO_PROPENSITY, advice=ANOTHER_PROPENSITY)
    if not size.n_positives:
        raise InputError(NO_POSITIVE)
    warn_about_few_positives(size, request.estimators)
    if reduction.samples:
        first_sample = next(iter(reduction.samples.values()))
        warn_about_sampling(first_sample.ranked, request.metrics)
        warn_about_large_cutoffs(request.metrics, first_sample.ranked.item_ids.size)
    _warn_about_excluded(size)
    if user_ids is None:
        user_ids = reduction.user_ids
    diagnostics = reduction.weights.diagnostics(request.estimators, size, request.propensity)
    product_flags = reduction.weights.product_flags(size.n_users)
    flags = {}
    for metric, estimator in reduction.sums:
        cell = (metric, estimator)
        flags[cell] = (*diagnostics[estimator].flags, *product_flags.get(cell, ()))
    evaluation = Evaluation(
        estimates=apply_flags(_build_estimates(reduction, request), flags, request.metrics, request.low_ess),
        samples=reduction.samples,
        weights=diagnostics,
        user_ids=user_ids,
        ranks=reduction.ranks,
        confidence_level=request.confidence_level,
        propensity=request.propensity,
        provenance={
            "ties": request.ties,
            "missing_lists": request.missing_lists,
            "low_ess": request.low_ess,
            "candidates": reduction.candidates,
            "interval": "normal",
            "refit": False,
        },
        definitions=(request.metrics, request.estimators),
        _size=size,
        _counts=_collect_counts(reduction, request.depth),
    )
    if request.interval == "normal":
        return evaluation
    return evaluation.with_intervals(request.interval, rng=request.rng, compute=compute)


def _warn_about_excluded(size: SampleSize) -> None:
    """Warn where more than a tenth of the positives, and ten of them, have no propensity."""
    n_excluded = size.n_without_propensity
    n_all = size.n_positives + n_excluded
    if n_excluded >= MANY_EXCLUDED and n_excluded > MANY_EXCLUDED_SHARE * n_all:
        warn_user(
            f"{n_excluded:,} of {n_all:,} test positives ({n_excluded / n_all:.0%}) have no propensity and "
            "are excluded from every estimator, so the estimates describe only the remaining ones.",
            DataWarning,
            advice="Pass {unseen=smooth} to the propensity model to include items that training lacks",
            shell_advice="Pass {unseen=smooth} to include items that training lacks",
        )


def _select_counts(reduction: Reduction, subject: str) -> list[Count]:
    """Return the counts of exclusions of one recommender, or of the whole result."""
    return [count for count in reduction.counted if count.subject == subject]


def _collect_counts(reduction: Reduction, depth: int) -> tuple[Count, ...]:
    """Return the counts of each recommender, then the counts of all together."""
    size = reduction.size
    counts: list[Count] = []
    for model in reduction.models:
        counts += _select_counts(reduction, model)
        if reduction.given_counts:
            lists = count_short_lists(reduction.given_counts[model], depth, size.unit_plural)
            counts += [count.with_subject(model) for count in lists]
    counts += _select_counts(reduction, RESULT)
    n_all_users = size.n_population + size.n_left_out
    n_all_positives = size.n_positives + size.n_without_propensity
    exclusions = drop_zero_counts(
        Count(
            "users without a list of some model, left out",
            size.n_left_out,
            n_all_users,
            code="stated_exclusion",
        ),
        Count(
            "positives without a propensity, left out",
            size.n_without_propensity,
            n_all_positives,
            code="stated_exclusion",
        ),
    )
    inclusions = [
        Count("positives that entered", size.n_positives),
        Count(f"{size.unit_plural} that entered", size.n_users),
        *drop_zero_counts(Count("users whose queries entered", size.n_clusters)),
    ]
    counts += [count.with_subject(RESULT) for count in (*exclusions, *inclusions)]
    return tuple(counts)


def _build_estimates(reduction: Reduction, request: Request) -> dict[tuple[str, str, str], Estimate]:
    """Return (model, metric, estimator) -> estimate, model by model."""
    size = reduction.size
    sums_by_cell = {}
    for cell in reduction.sums:
        sums_by_cell[cell] = reduction.members(cell)

    estimates = {}
    for index, model in enumerate(reduction.models):
        for metric in request.metrics:
            metric_notes = describe_request_of_metric(metric, request.map_labels)
            notes: list[Note] = []
            if reduction.list_counts:
                notes = collect_list_notes(
                    reduction.list_counts[model],
                    metric.cutoff,
                    n_left_out=size.n_left_out,
                    units=size.unit_plural,
                )
            for estimator in request.estimators:
                estimates[model, metric.label, estimator.label] = build_estimate(
                    sums_by_cell[metric.label, estimator.label][index],
                    metric,
                    estimator,
                    size,
                    is_probability=request.is_probability,
                    n_relevant=request.n_relevant_kind,
                    list_notes=notes,
                    metric_notes=metric_notes,
                )
    return estimates
