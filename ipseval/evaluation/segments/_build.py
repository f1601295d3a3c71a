"""From an evaluation and the sums of groups to segments: values, covariances, shares, flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from scipy.linalg import block_diag

from ipseval._base.checks import chosen, counted
from ipseval._base.types import BoolArray, FloatArray, IntArray
from ipseval.errors import InputError
from ipseval.estimators import Estimate, Estimator, Sample, UserSums
from ipseval.estimators._labels import plain_estimator, resolve_estimator
from ipseval.estimators._sums import WIDTH, Moments
from ipseval.evaluation.segments._built_in import resolve
from ipseval.evaluation.segments._decomposition import Decomposition
from ipseval.evaluation.segments._groups import Groups, TrainingCounts
from ipseval.evaluation.segments._segments import SegmentCell, Segments, tails_of
from ipseval.evaluation.segments._sums import CellSums, SegmentSums
from ipseval.inference._frame import joined, too_wide
from ipseval.inference._weights import WeightSums, weight_flag
from ipseval.metrics import Metric

FEW_USERS, TOO_FEW_USERS = 30.0, 5.0  # effective users below which a group is flagged, and suppressed


def build_segments(
    sums: SegmentSums,
    models: Sequence[str],
    metrics: Sequence[Metric],
    whole: Mapping[tuple[str, str, str], float],
    *,
    on_low_ess: str,
    confidence_level: float,
) -> Segments:
    """Return the segments that sums make; `whole`: (model, metric, estimator) -> estimate over all users."""
    by_label = {one.label: one for one in metrics}
    by_user = sums.groups.axis == "user"
    cells = {}
    for key, cell in sums.cells.items():
        overall = np.array([whole[model, *key] for model in models])
        weights = sums.weights.get(key[1])
        cells[key] = _cell(
            cell, weights, by_label[key[0]], overall, sums.n_positives, by_user, sums.evaluated, on_low_ess
        )
    return Segments(
        sums.groups.name,
        sums.groups.axis,
        sums.groups.labels,
        sums.sizes,
        tuple(models),
        cells,
        sums.groups.note,
        confidence_level,
    )


def _cell(
    cell: CellSums,
    weights: tuple[WeightSums | None, ...] | None,
    metric: Metric,
    whole: FloatArray,
    n_positives: IntArray,
    by_user: bool,
    evaluated: str,
    on_low_ess: str,
) -> SegmentCell:
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
        share, part = np.full(value.shape, np.nan), np.full(value.shape, np.nan)
        if cell.additive:
            everyone = total.sum(axis=1, keepdims=True)
            share, part = total / everyone, worth / everyone * volume
            if metric.root:
                part[:] = np.nan
    powers = cell.powers[order].reshape(n_models, n_groups, -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        tails = tails_of(powers, total, worth / total, n_users)
    flags, suppressed = _trust(value, covariance, effective, weights, n_positives, metric, on_low_ess)
    left_out = [_left_out(int(n), evaluated) for n in cell.n_undefined]
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
    )


def _totals(blocks: Sequence[Moments], of_queries: float | None) -> list[FloatArray]:
    """Return ΣD, ΣD², ΣN of each member, the mean volume over the users of all blocks, and the users."""
    found = []
    users = sum(one.n for one in blocks)
    apart = len(blocks) > 1
    shared = sum(one.mean[2::WIDTH] * one.n for one in blocks) / max(users, 1) if apart else None
    for one in blocks:
        worth, total = one.n * one.mean[0::WIDTH], one.n * one.mean[1::WIDTH]
        square = np.diag(one.scatter)[1::WIDTH] + one.n * one.mean[1::WIDTH] ** 2
        volume = one.mean[2::WIDTH] if shared is None else np.asarray(shared)
        if of_queries is not None:
            volume = np.full(total.size, of_queries)
        found.append((total, square, worth, volume, np.full(total.size, float(one.n))))
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def _trust(
    value: FloatArray,
    covariance: FloatArray,
    effective: FloatArray,
    weights: tuple[WeightSums | None, ...] | None,
    n_positives: IntArray,
    metric: Metric,
    on_low_ess: str,
) -> tuple[tuple[str, ...], BoolArray]:
    """Return the flag of each group, and which values are not shown."""
    n_groups = value.shape[1]
    suppressed = np.zeros(value.shape, dtype=bool)
    flags = [""] * n_groups
    if on_low_ess == "ignore":
        return tuple(flags), suppressed
    error = np.sqrt(np.diag(covariance)).reshape(value.shape)
    for group in range(n_groups):
        least = float(effective[:, group].min())
        sums = None if weights is None else weights[group]
        few = f"{least:.3g} effective users, fewer than {FEW_USERS:g}" if 0 < least < FEW_USERS else ""
        wide = joined(*(too_wide(metric, float(one)) for one in error[:, group]))
        flags[group] = joined(few, weight_flag(sums, int(n_positives[group])) if sums else "", wide)
        hidden = bool(wide) or least < TOO_FEW_USERS or (on_low_ess == "nan" and bool(flags[group]))
        suppressed[:, group] = hidden and least > 0
    return tuple(flags), suppressed


def _left_out(n_undefined: int, evaluated: str) -> str:
    if not n_undefined:
        return ""
    return f"{counted(n_undefined, evaluated)} left out: the metric is undefined for them"


Key = tuple[str, str, str]


class Evaluated(Protocol):
    """What segments read of an evaluation."""

    @property
    def estimates(self) -> dict[Key, Estimate]: ...  # an attribute
    @property
    def samples(self) -> dict[str, Sample]: ...
    @property
    def confidence_level(self) -> float: ...
    @property
    def provenance(self) -> dict[str, Any]: ...
    @property
    def definitions(self) -> tuple[Sequence[Metric], Sequence[Estimator]]: ...
    @property
    def training(self) -> TrainingCounts | None: ...


def segment(evaluation: Any, by: Any, *, counts: TrainingCounts | None = None) -> dict[str, Segments]:
    """Return name -> segments of an evaluation, for one grouping or several."""
    first = next(iter(samples_of(evaluation).values())).ranked
    groups = resolve(by, first.unit_ids, first.item_ids, counts or training_of(evaluation))
    return {one.name: _segments(evaluation, one) for one in groups}


def samples_of(evaluation: Evaluated) -> dict[str, Sample]:
    """Return the ranked positives of each recommender, or raise `InputError` where they are elsewhere."""
    if not evaluation.samples:
        raise InputError(
            "groups need the ranked positives, which stayed on the cluster. Pass by= to evaluate_dask or "
            "evaluate_spark, or rank them here, with ipseval.evaluate."
        )
    return evaluation.samples


def training_of(evaluation: Evaluated) -> TrainingCounts | None:
    """Return the counts of the training log where they are known."""
    return evaluation.training


def _segments(evaluation: Evaluated, groups: Groups) -> Segments:
    metrics, estimators = evaluation.definitions
    samples, estimates = evaluation.samples, evaluation.estimates
    sums: dict[tuple[str, str], list[UserSums]] = {
        (metric.label, one.label): [estimates[model, metric.label, one.label].user_sums for model in samples]
        for metric in metrics
        for one in estimators
    }
    made = SegmentSums.of(groups, samples, sums, metrics, estimators)
    return segments_of(evaluation, made)


def segments_of(evaluation: Evaluated, sums: SegmentSums) -> Segments:
    """Return the segments of an evaluation from the sums of its groups."""
    estimates = evaluation.estimates
    return build_segments(
        sums,
        list(dict.fromkeys(model for model, *_ in estimates)),
        evaluation.definitions[0],
        {key: one.sums.value() for key, one in estimates.items()},
        on_low_ess=evaluation.provenance.get("on_low_ess", "warn"),
        confidence_level=evaluation.confidence_level,
    )


class Segmented:
    """An evaluation that can be read by segment."""

    def by(self, by: Any, *, counts: TrainingCounts | None = None) -> Segments:
        """Return the estimates in groups of users or items, with intervals that hold for all at once.

        Intervals of a recommender, metric and estimator are widened to the largest |t| over its groups.

        A group of users: the estimate over these users. A group of items: numerator and denominator of the
        positives in it, R_g = Σ_g a c / Σ_g a with a what a positive weighs in the estimate, and its share
        Σ_g a / Σ a, so that Σ share_g R_g is the whole. Metrics whose positives do not add up (hit, rr, ap)
        are computed over the positives of the group alone, and say so.

        Parameters
        ----------
        by : label, frame, Series, or what `user_groups` and `item_groups` return
            "popularity" (items in 10 groups by n*; "popularity:5"), "activity" (users in 4 groups by training
            interactions), "cold-users" or "cold-items" (fewer than 1 training interaction; "cold-users:5");
            a frame with a column `user` or `item` and one attribute; a Series by id.
        counts : TrainingCounts, optional
            For groups by count of ranks that were made without a split.

        Raises
        ------
        InputError
            For groups that do not match the ids, several groupings at once, and where the ranked positives
            stayed on a cluster.
        """
        kept: dict[str, Segments] = self.segments  # type: ignore[attr-defined]  # of an evaluation
        if isinstance(by, str) and by in kept:
            return kept[by]
        found = segment(self, by, counts=counts)
        if len(found) > 1:
            raise InputError(f"by= holds {len(found)} groupings ({', '.join(found)}); ask for one at a time.")
        return next(iter(found.values()))

    def decomposition(
        self,
        metric: str | None = None,
        *,
        by: Any = "popularity",
        weighted: str | Estimator | None = None,
        plain: str | Estimator | None = None,
        counts: TrainingCounts | None = None,
    ) -> Decomposition:
        """Return why weighted and plain values differ, group by group, and where leads lie; both exactly.

        Parameters
        ----------
        metric : label, optional
            Default: the first metric of the evaluation.
        by : as in `by`
            Default: items in 10 groups by popularity.
        weighted, plain : label or Estimator, optional
            Default: the first weighted estimator of the evaluation, and its unweighted counterpart.
        counts : TrainingCounts, optional
            As in `by`.

        Raises
        ------
        InputError
            Without a weighted estimator; for a metric whose positives do not add up, such as hit@k.
        """
        samples, definitions = samples_of(self), self.definitions  # type: ignore[arg-type, attr-defined]
        first = next(iter(samples.values())).ranked
        groups = resolve(by, first.unit_ids, first.item_ids, counts or training_of(self))  # type: ignore[arg-type]
        if len(groups) > 1:
            raise InputError(f"by= holds {len(groups)} groupings; a decomposition takes one.")
        known = {one.label: one for one in definitions[0]}
        if metric is not None:
            metric = chosen("metric", metric, known)
        found = [one for one in definitions[1] if one.weighted]
        if weighted is None and not found:
            raise InputError(
                "a decomposition compares weighted with plain values, and this evaluation has no weights; "
                "evaluate with propensity=."
            )
        heavy = found[0] if weighted is None else resolve_estimator(weighted)
        light = plain_estimator(heavy.target) if plain is None else resolve_estimator(plain)
        one = definitions[0][0] if metric is None else known[metric]
        return Decomposition.of(groups[0], samples, one, light, heavy)
