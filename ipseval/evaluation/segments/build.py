"""Segments from the sums of groups: values, covariances, shares and flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from ipseval.estimators import Estimate, UserSums
from ipseval.estimators.estimate import find_error_flags
from ipseval.estimators.user_sums import N_COLUMNS, Moments
from ipseval.evaluation.segments._group_statistics import skewness_terms
from ipseval.evaluation.segments._groups import Groups
from ipseval.evaluation.segments._segments import SegmentCell, Segments
from ipseval.evaluation.segments.segment_sums import CellSums, SegmentSums
from ipseval.inference.weight_diagnostics import WeightSums, find_weight_flags
from ipseval.metrics import Metric
from ipseval.utils.notes import Note
from ipseval.utils.types import BoolArray, FloatArray, IntArray

MIN_RELIABLE_USERS = 30.0  # effective users below which a group is flagged
MIN_VISIBLE_USERS = 5.0  # effective users below which a group is suppressed

# Relative rounding error of effective users. Five users with equal weights can be 4.999999999999999 effective ones,
# depending on the order of the sums, so on the partitions of Dask and Spark.
EFFECTIVE_ROUNDING = 1e-9

Key = tuple[str, str, str]  # (model, metric, estimator)


def build_evaluation_segments(evaluation: Any, sums: SegmentSums) -> Segments:
    """Return the segments of an `Evaluation` from the sums of its groups."""
    estimates: Mapping[Key, Estimate] = evaluation.estimates
    models = list(dict.fromkeys(model for model, *_ in estimates))
    metric_by_label = {metric.label: metric for metric in evaluation.definitions[0]}
    cells = {}
    for metric_label, estimator_label in sums.cells:
        whole = []
        for model in models:
            whole.append(estimates[model, metric_label, estimator_label])
        cells[metric_label, estimator_label] = _build_cell(
            sums,
            (metric_label, estimator_label),
            metric_by_label[metric_label],
            whole,
            evaluation.provenance.get("low_ess", "warn"),
        )
    groups = sums.groups
    return Segments(
        name=groups.name,
        axis=groups.axis,
        labels=groups.labels,
        sizes=sums.sizes,
        models=tuple(models),
        cells=cells,
        note=groups.note,
        confidence_level=evaluation.confidence_level,
    )


def _build_cell(
    sums: SegmentSums, key: tuple[str, str], metric: Metric, whole: Sequence[Estimate], low_ess: str
) -> SegmentCell:
    """Return the cell of a metric and estimator; `whole` are the estimates over all users, one per model."""
    cell_sums = sums.cells[key]
    n_models = len(whole)
    n_groups = sums.n_positives.size
    order: IntArray | slice = slice(None)
    if sums.groups.axis == "user":
        # Blocks of groups of users list the models of each group; a cell lists the groups of each model.
        order = np.arange(n_models * n_groups).reshape(n_groups, n_models).T.ravel()

    member_values: list[float] = []
    for block in cell_sums.blocks:
        for member in block.members():
            member_values.append(member.value())
    value = np.array(member_values)[order].reshape(n_models, n_groups)
    covariance = block_diag(*(block.covariance() for block in cell_sums.blocks))[order][:, order]
    totals = _member_totals(cell_sums.blocks, cell_sums.volume).reorder(order, (n_models, n_groups))
    effective, tails = _effective_users_and_tails(cell_sums, totals, order)
    share, part = _shares_and_parts(cell_sums, totals, metric)
    flags, suppressed = _assess_reliability(
        value,
        covariance,
        effective,
        weights=sums.weights.get(key[1]),
        n_positives=sums.n_positives,
        metric=metric,
        low_ess=low_ess,
    )
    cell_notes = []
    for n in cell_sums.n_undefined:
        group_notes = cell_sums.notes
        if n:
            group_notes = (*group_notes, Note.create("undefined_users", n=int(n), unit=sums.unit))
        cell_notes.append(group_notes)

    return SegmentCell(
        value=value,
        share=share,
        part=part,
        effective=effective,
        tails=tails,
        covariance=covariance,
        n_users=cell_sums.n_users,
        n_positives=sums.n_positives,
        whole=np.array([estimate.sums.value() for estimate in whole]),
        flags=flags,
        notes=tuple(cell_notes),
        suppressed=suppressed,
        in_unit=metric.value_range == (0.0, 1.0) and not whole[0].can_exceed_range,
    )


@dataclass(frozen=True, eq=False)
class _MemberTotals:
    """Totals of each model and group: ΣN, ΣD, ΣD², the mean volume, and the number of users."""

    numerator: FloatArray
    weight: FloatArray
    squared_weight: FloatArray
    volume: FloatArray
    n_users: FloatArray

    def reorder(self, order: IntArray | slice, shape: tuple[int, int]) -> _MemberTotals:
        """Return the totals in another order of members, as arrays of this shape."""
        return _MemberTotals(
            numerator=self.numerator[order].reshape(shape),
            weight=self.weight[order].reshape(shape),
            squared_weight=self.squared_weight[order].reshape(shape),
            volume=self.volume[order].reshape(shape),
            n_users=self.n_users[order].reshape(shape),
        )


def _member_totals(blocks: Sequence[Moments], query_volume: float | None) -> _MemberTotals:
    """Return the totals of each member of the blocks; None: the mean volume over the users of all blocks."""
    numerators = []
    weights = []
    squares = []
    n_users = []
    for block in blocks:
        mean_weight = block.mean[1::N_COLUMNS]
        numerators.append(block.n * block.mean[0::N_COLUMNS])
        weights.append(block.n * mean_weight)
        squares.append(np.diag(block.scatter)[1::N_COLUMNS] + block.n * mean_weight**2)
        n_users.append(np.full(mean_weight.size, float(block.n)))

    if query_volume is None:
        n_all_users = sum(block.n for block in blocks)
        volume_totals = [block.mean[2::N_COLUMNS] * block.n for block in blocks]
        mean_volume = np.asarray(sum(volume_totals) / max(n_all_users, 1))
        volume = np.concatenate([mean_volume] * len(blocks))
    else:
        volume = np.full(sum(array.size for array in weights), query_volume)
    return _MemberTotals(
        numerator=np.concatenate(numerators),
        weight=np.concatenate(weights),
        squared_weight=np.concatenate(squares),
        volume=volume,
        n_users=np.concatenate(n_users),
    )


def _effective_users_and_tails(
    cell_sums: CellSums, totals: _MemberTotals, order: IntArray | slice
) -> tuple[FloatArray, FloatArray]:
    """Return the effective number of users of each model and group, and their skewness terms."""
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = np.where(totals.squared_weight > 0, totals.weight**2 / totals.squared_weight, 0.0)
        powers = cell_sums.powers[order].reshape(*totals.weight.shape, -1)
        ratio = totals.numerator / totals.weight
        tails = skewness_terms(powers, totals.weight, ratio, totals.n_users)
    return effective, tails


def _shares_and_parts(
    cell_sums: CellSums, totals: _MemberTotals, metric: Metric
) -> tuple[FloatArray, FloatArray]:
    """Return the share of each group in the weight, and its part of the estimate over all users.

    Both are NaN where groups do not add up, and parts are NaN for a root such as rmse.
    """
    share = np.full(totals.weight.shape, np.nan)
    part = np.full(totals.weight.shape, np.nan)
    if not cell_sums.additive:
        return share, part
    with np.errstate(invalid="ignore", divide="ignore"):
        all_weight = totals.weight.sum(axis=1, keepdims=True)
        share = totals.weight / all_weight
        if not metric.root:
            part = totals.numerator / all_weight * totals.volume
    return share, part


def _assess_reliability(
    value: FloatArray,
    covariance: FloatArray,
    effective: FloatArray,
    *,
    weights: tuple[WeightSums | None, ...] | None,
    n_positives: IntArray,
    metric: Metric,
    low_ess: str,
) -> tuple[tuple[tuple[Note, ...], ...], BoolArray]:
    """Return the flags of each group, and which values are suppressed, (n_models, n_groups)."""
    n_groups = value.shape[1]
    suppressed = np.zeros(value.shape, dtype=bool)
    if low_ess == "ignore":
        return ((),) * n_groups, suppressed
    flags = []

    error = np.sqrt(np.diag(covariance)).reshape(value.shape)
    for group in range(n_groups):
        n_effective = float(effective[:, group].min())
        group_flags: list[Note] = []
        is_invisible = _is_below(n_effective, MIN_VISIBLE_USERS)
        if n_effective > 0 and _is_below(n_effective, MIN_RELIABLE_USERS):
            # The note names the limit that decides: below the smaller one, the value is suppressed.
            limit = MIN_RELIABLE_USERS
            if is_invisible:
                limit = MIN_VISIBLE_USERS
            group_flags.append(Note.create("few_effective_users", n=n_effective, limit=limit))
        weight_sums = None if weights is None else weights[group]
        if weight_sums:
            group_flags += find_weight_flags(weight_sums, int(n_positives[group]))
        error_flags: list[Note] = []
        for model_error in error[:, group]:
            error_flags += find_error_flags(metric, float(model_error))
        flags.append((*group_flags, *error_flags))

        is_hidden = bool(error_flags) or is_invisible
        if low_ess == "nan" and flags[group]:
            is_hidden = True
        suppressed[:, group] = is_hidden and n_effective > 0
    return tuple(flags), suppressed


def _is_below(n_effective: float, limit: float) -> bool:
    """Return whether effective users are below a limit by more than rounding."""
    return n_effective < limit * (1 - EFFECTIVE_ROUNDING)


def segment_evaluation(evaluation: Any, groups: Groups) -> Segments:
    """Return the segments of an `Evaluation` that has its ranked positives."""
    metrics, estimators = evaluation.definitions
    samples = evaluation.samples
    sums: dict[tuple[str, str], list[UserSums]] = {}
    for metric in metrics:
        for estimator in estimators:
            labels = metric.label, estimator.label
            model_sums = []
            for model in samples:
                model_sums.append(evaluation.estimates[model, *labels].user_sums)

            sums[labels] = model_sums
    return build_evaluation_segments(
        evaluation, SegmentSums.from_samples(groups, samples, sums, metrics, estimators)
    )
