"""What an evaluation offers by segment: mixed into `Evaluation`, which has what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ipseval._base.checks import chosen
from ipseval.errors import InputError
from ipseval.estimators import Estimate, Estimator, Sample, UserSums
from ipseval.estimators._labels import plain_estimator, resolve_estimator
from ipseval.evaluation.segments._build import build_segments
from ipseval.evaluation.segments._built_in import resolve
from ipseval.evaluation.segments._decomposition import Decomposition
from ipseval.evaluation.segments._groups import Groups, TrainingCounts
from ipseval.evaluation.segments._segments import Segments
from ipseval.evaluation.segments._sums import SegmentSums
from ipseval.metrics import Metric

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
