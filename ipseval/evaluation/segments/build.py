"""From an evaluation and the sums of groups to segments: values, covariances, shares, flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from ipseval.estimators import UserSums
from ipseval.estimators.user_sums import WIDTH, Moments
from ipseval.evaluation.segments._groups import Groups
from ipseval.evaluation.segments._segments import SegmentCell, Segments, tails_of
from ipseval.evaluation.segments._sums import SegmentSums
from ipseval.inference.estimate_frame import joined, too_wide
from ipseval.inference.weight_diagnostics import WeightSums, weight_flag
from ipseval.metrics import Metric
from ipseval.utils.checks import counted
from ipseval.utils.types import BoolArray, FloatArray, IntArray

FEW_USERS, TOO_FEW_USERS = 30.0, 5.0  # effective users below which a group is flagged, and suppressed


def segments_of(evaluation: Any, sums: SegmentSums) -> Segments:
    """Return the segments of an evaluation from the sums of its groups."""
    estimates, groups = evaluation.estimates, sums.groups
    models = tuple(dict.fromkeys(model for model, *_ in estimates))
    by_label = {one.label: one for one in evaluation.definitions[0]}
    low_ess = evaluation.provenance.get("low_ess", "warn")
    cells = {}
    for key in sums.cells:
        whole = np.array([estimates[model, *key].sums.value() for model in models])
        cells[key] = _cell(sums, key, by_label[key[0]], whole, low_ess)
    of_groups = groups.name, groups.axis, groups.labels, sums.sizes
    return Segments(*of_groups, models, cells, groups.note, evaluation.confidence_level)


def _cell(
    sums: SegmentSums, key: tuple[str, str], metric: Metric, whole: FloatArray, low_ess: str
) -> SegmentCell:
    cell, weights, n_positives = sums.cells[key], sums.weights.get(key[1]), sums.n_positives
    by_user = sums.groups.axis == "user"
    n_models, n_groups = whole.size, n_positives.size
    order = np.arange(n_models * n_groups).reshape(n_groups, n_models).T.ravel() if by_user else slice(None)
    members = [one for block in cell.blocks for one in block.members()]
    value = np.array([one.value() for one in members])[order].reshape(n_models, n_groups)
    covariance = block_diag(*(one.covariance() for one in cell.blocks))[order][:, order]
    total, square, worth, volume, n_users = (
        one[order].reshape(n_models, n_groups) for one in _totals(cell.blocks, cell.volume)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        effective = np.where(square > 0, total**2 / square, 0.0)
        share, part = np.full((2, *value.shape), np.nan)
        if cell.additive:
            everyone = total.sum(axis=1, keepdims=True)
            share = total / everyone
            part = part if metric.root else worth / everyone * volume
        powers = cell.powers[order].reshape(n_models, n_groups, -1)
        tails = tails_of(powers, total, worth / total, n_users)
    flags, suppressed = _trust(value, covariance, effective, weights, n_positives, metric, low_ess)
    left_out = [_left_out(int(n), sums.evaluated) for n in cell.n_undefined]
    notes = tuple("; ".join(filter(None, [cell.note, one])) for one in left_out)
    return SegmentCell(
        value,
        share,
        part,
        effective,
        tails,
        covariance,
        cell.n_users,
        n_positives,
        whole,
        flags,
        notes,
        suppressed,
        metric.value_range == (0.0, 1.0),
    )


def _totals(blocks: Sequence[Moments], of_queries: float | None) -> list[FloatArray]:
    """Return ΣD, ΣD², ΣN of each member, the mean volume over the users of all blocks, and the users."""
    found = []
    users = sum(one.n for one in blocks)
    shared = np.asarray(sum(one.mean[2::WIDTH] * one.n for one in blocks) / max(users, 1))
    for one in blocks:
        worth, total = one.n * one.mean[0::WIDTH], one.n * one.mean[1::WIDTH]
        square = np.diag(one.scatter)[1::WIDTH] + one.n * one.mean[1::WIDTH] ** 2
        volume = shared if of_queries is None else np.full(total.size, of_queries)
        found.append((total, square, worth, volume, np.full(total.size, float(one.n))))
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _trust(
    value: FloatArray,
    covariance: FloatArray,
    effective: FloatArray,
    weights: tuple[WeightSums | None, ...] | None,
    n_positives: IntArray,
    metric: Metric,
    low_ess: str,
) -> tuple[tuple[str, ...], BoolArray]:
    """Return the flag of each group, and which values are not shown."""
    n_groups = value.shape[1]
    suppressed = np.zeros(value.shape, dtype=bool)
    flags = [""] * n_groups
    if low_ess == "ignore":
        return tuple(flags), suppressed
    error = np.sqrt(np.diag(covariance)).reshape(value.shape)
    for group in range(n_groups):
        least = float(effective[:, group].min())
        sums = None if weights is None else weights[group]
        few = f"{least:.3g} effective users, fewer than {FEW_USERS:g}" if 0 < least < FEW_USERS else ""
        wide = joined(*(too_wide(metric, float(one)) for one in error[:, group]))
        flags[group] = joined(few, weight_flag(sums, int(n_positives[group])) if sums else "", wide)
        hidden = bool(wide) or least < TOO_FEW_USERS or (low_ess == "nan" and bool(flags[group]))
        suppressed[:, group] = hidden and least > 0
    return tuple(flags), suppressed


def _left_out(n_undefined: int, evaluated: str) -> str:
    if not n_undefined:
        return ""
    return f"{counted(n_undefined, evaluated)} left out: the metric is undefined for them"


Key = tuple[str, str, str]


def segment(evaluation: Any, groups: Groups) -> Segments:
    """Return the segments of an evaluation whose positives are here."""
    metrics, estimators = evaluation.definitions
    samples, estimates = evaluation.samples, evaluation.estimates
    sums: dict[tuple[str, str], list[UserSums]] = {
        (metric.label, one.label): [estimates[model, metric.label, one.label].user_sums for model in samples]
        for metric in metrics
        for one in estimators
    }
    return segments_of(evaluation, SegmentSums.of(groups, samples, sums, metrics, estimators))
