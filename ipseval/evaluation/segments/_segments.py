"""Segments: the estimates of an evaluation in groups of users or items, their differences and gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators.labels import default_estimators
from ipseval.evaluation.segments._group_statistics import (
    RELATIVE_ROUNDING,
    compute_gap,
    family_level,
    gap_error,
    interval_half_width,
    satterthwaite,
    t_test,
)
from ipseval.evaluation.segments._groups import Axis
from ipseval.evaluation.segments._tables import segment_tables
from ipseval.inference.comparisons import CORRECTIONS, Correction, adjust_p_values
from ipseval.inference.intervals import constrain_to_unit_interval
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.utils.checks import check_choice
from ipseval.utils.notes import Note, create_suppression, join_notes
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze

Cell = tuple[str, str]
FEW_GROUPS = 2  # whose tables are so short that every estimator is printed


@dataclass(frozen=True, eq=False)
class SegmentCell:
    """The estimates of one metric by one estimator in every group, for every recommender.

    Attributes
    ----------
    value, share, part, effective : (n_models, n_groups) float arrays
        The estimate in the group; the group's share of the weight; what it adds to the estimate over all
        users; the effective number of users, (ΣD)²/ΣD². NaN where undefined.
    tails : (3, n_models, n_groups) float array
        What skewed and uneven users add to intervals; see `skewness_terms`.
    covariance : (n_models · n_groups, n_models · n_groups) float array
        Covariance of the estimates, groups of the first model first.
    n_users, n_positives : (n_groups,) int arrays
    whole : (n_models,) float array
        The estimates over all users.
    flags, notes : tuple of tuples of Note
        For each group, why its estimates are not reliable, and other notes.
    suppressed : (n_models, n_groups) bool array
        Whether a value is not shown, for the reason in `flags`.
    in_unit : bool
        Whether the estimates are between 0 and 1.
    """

    value: FloatArray
    share: FloatArray
    part: FloatArray
    effective: FloatArray
    tails: FloatArray
    covariance: FloatArray
    n_users: IntArray
    n_positives: IntArray
    whole: FloatArray
    flags: tuple[tuple[Note, ...], ...]
    notes: tuple[tuple[Note, ...], ...]
    suppressed: BoolArray
    in_unit: bool = False

    def __post_init__(self) -> None:
        for name in ("value", "share", "part", "effective", "tails", "covariance", "whole", "suppressed"):
            freeze(self, name)

    def covariance_rows(self, model: int) -> slice:
        """Return the rows of one recommender in the covariance."""
        n_groups = self.value.shape[1]
        return slice(model * n_groups, (model + 1) * n_groups)

    def group_covariance(self, model: int) -> FloatArray:
        """Return the covariance of one recommender's groups; groups without visible or varying values have 0."""
        rows = self.covariance_rows(model)
        covariance = self.covariance[rows, rows]
        # The variance of equal values may be a little above 0 by rounding.
        is_constant = np.sqrt(np.diag(covariance)) <= RELATIVE_ROUNDING * np.abs(self.value[model])
        return _zero_hidden(covariance, self.suppressed[model] | is_constant)

    def visible_values(self, model: int) -> FloatArray:
        """Return the values of one recommender; NaN where a value is suppressed."""
        return np.where(self.suppressed[model], np.nan, self.value[model])

    def half_width(self, model: int, level: float) -> FloatArray:
        """Return the half-width of the interval of each group of a recommender at this level."""
        error = np.sqrt(np.diag(self.group_covariance(model)))
        return interval_half_width(error, self.effective[model], level, self.tails[:, model])

    def lead(self, model: int, reference: int) -> tuple[FloatArray, FloatArray]:
        """Return the paired difference of two recommenders in each group, and its covariance."""
        rows = self.covariance_rows(model)
        columns = self.covariance_rows(reference)
        joint = self.covariance
        covariance = joint[rows, rows] + joint[columns, columns] - joint[rows, columns] - joint[columns, rows]

        # For equal recommenders the variances cancel, and what is left of them is rounding.
        total_variance = np.diag(joint[rows, rows]) + np.diag(joint[columns, columns])
        is_constant = np.diag(covariance) <= RELATIVE_ROUNDING * total_variance
        is_hidden = self.suppressed[model] | self.suppressed[reference]
        gap = compute_gap(self.value[model], self.value[reference])
        return np.where(is_hidden, np.nan, gap), _zero_hidden(covariance, is_hidden | is_constant)


def _zero_hidden(covariance: FloatArray, is_hidden: BoolArray) -> FloatArray:
    """Return a covariance with 0 in place of NaN and in the rows and columns of hidden groups."""
    filled = np.where(np.isnan(covariance), 0.0, covariance)
    filled[is_hidden, :] = 0.0
    filled[:, is_hidden] = 0.0
    return filled


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Segments(Result):
    """The estimates of an evaluation in groups of users or items; `frame` is the tidy table.

    The intervals of a recommender, metric and estimator hold for all its groups at once.

    Parameters
    ----------
    name : str
        Name of the grouping.
    axis : {"user", "item"}
        Whether users or items are grouped.
    labels : tuple of str
        Names of the groups.
    sizes : (n_groups,) int array
        Users or items in each group.
    models : tuple of str
        Names of the recommenders.
    cells : dict
        (metric, estimator) -> `SegmentCell`.
    note : str, default ""
        How the groups were built.
    confidence_level : float, default 0.95
        Level of the intervals.

    See Also
    --------
    ipseval.evaluation.Evaluation.by : Compute segments.

    Examples
    --------
    Recall in groups of users by the number of their training interactions:

    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> segments = evaluation.by("activity")
    >>> segments.frame[["group", "model", "n_users", "estimate"]].round(3)
                      group    model  n_users  estimate
    0    1 (interactions 0)    taste       35     0.671
    1    2 (interactions 1)    taste       61     0.601
    2    3 (interactions 2)    taste       54     0.634
    3  4 (interactions 3–7)    taste       63     0.590
    4    1 (interactions 0)  popular       35     0.538
    5    2 (interactions 1)  popular       61     0.601
    6    3 (interactions 2)  popular       54     0.665
    7  4 (interactions 3–7)  popular       63     0.575
    """

    name: str
    axis: Axis
    labels: tuple[str, ...]
    sizes: IntArray
    models: tuple[str, ...]
    cells: dict[Cell, SegmentCell]
    note: str = ""
    confidence_level: float = 0.95

    @property
    def frame(self) -> pd.DataFrame:
        """One row per metric, estimator, recommender and group.

        by, group, model, metric, estimator; estimate, std_error, ci_low, ci_high (for all groups at once);
        n_members (users or items of the group), n_users, n_positives, ess (effective number of users);
        share (of the weight), part (what the group adds to the estimate over all users: parts sum to it);
        note.
        """
        frames = []
        for (metric, estimator), cell in self.cells.items():
            for number, model in enumerate(self.models):
                frames.append(self._estimate_frame(metric, estimator, cell, number, model))
        return pd.concat(frames, ignore_index=True)

    def _estimate_frame(
        self, metric: str, estimator: str, cell: SegmentCell, number: int, model: str
    ) -> pd.DataFrame:
        """Return the rows of one recommender in every group, for one metric and estimator."""
        covariance = cell.group_covariance(number)
        values = cell.visible_values(number)
        half_width = cell.half_width(number, self._single_level(covariance))
        columns: dict[str, object] = {
            "by": self.name,
            "group": self.labels,
            "model": model,
            "metric": metric,
            "estimator": estimator,
        }
        columns |= _interval_columns("estimate", values, np.sqrt(np.diag(covariance)), half_width)
        if cell.in_unit:
            columns["ci_low"], columns["ci_high"] = _clip_to_unit(values, half_width)
        columns |= {
            "n_members": self.sizes,
            "n_users": cell.n_users,
            "n_positives": cell.n_positives,
            "ess": cell.effective[number],
            "share": cell.share[number],
            "part": cell.part[number],
            "note": _word_notes(_collect_group_notes(cell, cell.suppressed[number], np.isnan(half_width))),
        }
        return pd.DataFrame(columns)

    def _iterate_notes(self) -> Iterator[tuple[str, Note]]:
        """Yield the group and the note of every note on an estimate, in the order of `frame`."""
        for cell in self.cells.values():
            for number in range(len(self.models)):
                half_width = cell.half_width(number, self._single_level(cell.group_covariance(number)))
                group_notes = _collect_group_notes(cell, cell.suppressed[number], np.isnan(half_width))
                for label, notes in zip(self.labels, group_notes, strict=True):
                    for note in notes:
                        yield label, note

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics."""
        return list(dict.fromkeys(key[0] for key in self.cells))

    @property
    def estimators(self) -> list[str]:
        """Labels of the estimators."""
        return list(dict.fromkeys(key[1] for key in self.cells))

    def differences(self, reference: str | None = None, *, correction: Correction = "holm") -> pd.DataFrame:
        """Compare recommenders within each group, by paired differences on the users of the group.

        Parameters
        ----------
        reference : str, optional
            Recommender that the others are compared with. Default: all pairs.
        correction : {"holm", "bonferroni", None}, default "holm"
            Adjustment of the p-values, over the groups and pairs of a metric and estimator.

        Returns
        -------
        DataFrame
            by, group, metric, estimator, model, reference; difference, std_error, ci_low, ci_high (for all
            groups at once), p_value, p_adjusted; n_users, note.

        Raises
        ------
        InputError
            With fewer than two recommenders, or a reference that is none of them.

        See Also
        --------
        gaps : Compare groups with each other.
        """
        frames = []
        for (metric, estimator), cell in self.cells.items():
            for model, reference_model in self._model_pairs(reference):
                frames.append(self._difference_frame(metric, estimator, cell, model, reference_model))
        return _insert_adjusted_p_values(
            pd.concat(frames, ignore_index=True), correction, ["metric", "estimator"]
        )

    def _difference_frame(
        self, metric: str, estimator: str, cell: SegmentCell, model: int, reference: int
    ) -> pd.DataFrame:
        """Return the paired difference of two recommenders in every group, one row for each group."""
        gap, covariance = cell.lead(model, reference)
        n_effective = np.minimum(cell.effective[model], cell.effective[reference])
        error = np.sqrt(np.diag(covariance))
        half_width = interval_half_width(error, n_effective, self._single_level(covariance))
        is_hidden = cell.suppressed[model] | cell.suppressed[reference]
        columns: dict[str, object] = {
            "by": self.name,
            "group": self.labels,
            "metric": metric,
            "estimator": estimator,
            "model": self.models[model],
            "reference": self.models[reference],
        }
        columns |= _interval_columns("difference", gap, error, half_width)
        columns |= {
            "p_value": t_test(gap, error, n_effective - 1),
            "n_users": cell.n_users,
            "note": _word_notes(_collect_group_notes(cell, is_hidden, np.isnan(half_width))),
        }
        return pd.DataFrame(columns)

    def gaps(self, reference: str | None = None, *, correction: Correction = "holm") -> pd.DataFrame:
        """Compare groups with each other, for each recommender.

        Parameters
        ----------
        reference : str, optional
            Group that the others are compared with. Default: all pairs of groups.
        correction : {"holm", "bonferroni", None}, default "holm"
            Adjustment of the p-values, over the pairs of a recommender, metric and estimator.

        Returns
        -------
        DataFrame
            by, metric, estimator, model, group, reference; difference, std_error, ci_low, ci_high (each
            alone), p_value, p_adjusted; note.

        Raises
        ------
        InputError
            With a single group, or a reference that is none of them.

        See Also
        --------
        differences : Compare recommenders within groups.

        Notes
        -----
        Degrees of freedom follow Welch and Satterthwaite. Groups of items share users, so their covariance
        enters the standard error.
        """
        pairs = np.array(self._group_pairs(reference))
        frames = []
        for (metric, estimator), cell in self.cells.items():
            for number, model in enumerate(self.models):
                frames.append(
                    self._gap_frame(
                        metric=metric, estimator=estimator, cell=cell, number=number, model=model, pairs=pairs
                    )
                )
        return _insert_adjusted_p_values(
            pd.concat(frames, ignore_index=True), correction, ["metric", "estimator", "model"]
        )

    def _gap_frame(
        self, metric: str, estimator: str, cell: SegmentCell, number: int, model: str, pairs: IntArray
    ) -> pd.DataFrame:
        """Return the differences of pairs of groups, (n_pairs, 2), for one recommender."""
        groups = pairs[:, 0]
        references = pairs[:, 1]
        labels = np.array(self.labels, dtype=object)
        values = cell.visible_values(number)
        covariance = cell.group_covariance(number)
        variance = np.diag(covariance)
        degrees = cell.effective[number] - 1

        gap = compute_gap(values[groups], values[references])
        error = gap_error(variance[groups], variance[references], covariance[groups, references])
        gap_degrees = satterthwaite(
            variance[groups], variance[references], degrees[groups], degrees[references]
        )
        half_width = interval_half_width(error, gap_degrees + 1, 1 - self.confidence_level)
        group_notes = _collect_group_notes(cell, cell.suppressed[number], np.zeros(len(labels), dtype=bool))
        columns: dict[str, object] = {
            "by": self.name,
            "metric": metric,
            "estimator": estimator,
            "model": model,
            "group": labels[groups],
            "reference": labels[references],
        }
        columns |= _interval_columns("difference", gap, error, half_width)
        columns |= {
            "p_value": t_test(gap, error, gap_degrees),
            "note": [join_notes(*group_notes[group], *group_notes[base]) for group, base in pairs],
        }
        return pd.DataFrame(columns)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: a table per metric, with the significant differences below it.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of the standard errors.
        page : bool, default False
            True: tables of every estimator. False: of every estimator for at most two groups; for more groups,
            of the weighted estimator that a verdict rests on, or of the last estimator where there is none.

        Returns
        -------
        Tables
            Parts of the report, as every format prints them.
        """
        chosen = self.estimators
        if not page and len(self.labels) > FEW_GROUPS:
            weighted_defaults = default_estimators(weighted=True)[1:]
            chosen = []
            for label in weighted_defaults:
                if label in self.estimators:
                    chosen.append(label)

            chosen = chosen or self.estimators[-1:]
        omitted = []
        for label in self.estimators:
            if label not in chosen:
                omitted.append(label)

        cells = {}
        for key, cell in self.cells.items():
            if key[1] in chosen:
                cells[key] = cell

        return segment_tables(replace(self, cells=cells), digits, omitted)

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Draw the estimates of each group with their simultaneous intervals.

        Parameters
        ----------
        metric : str, optional
            Default: the first metric.
        estimator : str, optional
            Default: the last estimator.
        ax : matplotlib axes, optional
            Default: new axes.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.
        """
        from ipseval.reporting.plots.estimates import plot_segments

        return plot_segments(
            self.frame,
            metric=metric or self.metrics[0],
            estimator=estimator or self.estimators[-1],
            ax=ax,
        )

    def _single_level(self, covariance: FloatArray) -> float:
        """Return the level of a single interval, so that all groups hold at the confidence level."""
        return family_level(covariance, 1 - self.confidence_level)

    def _model_pairs(self, reference: str | None) -> list[tuple[int, int]]:
        if len(self.models) < 2:
            raise InputError(f"differences need at least two recommenders; got {len(self.models)}.")
        return _index_pairs(self.models, reference)

    def _group_pairs(self, reference: str | None) -> list[tuple[int, int]]:
        if len(self.labels) < 2:
            raise InputError(f"{self.name} has one group; a gap needs two.")
        return _index_pairs(self.labels, reference)


def _index_pairs(names: Sequence[str], reference: str | None) -> list[tuple[int, int]]:
    """Return the indices of all pairs of names, or of the pairs with the reference second."""
    if reference is None:
        return list(combinations(range(len(names)), 2))
    check_choice("reference", reference, names)
    base = names.index(reference)
    pairs: list[tuple[int, int]] = []
    for number in range(len(names)):
        if number != base:
            pairs.append((number, base))

    return pairs


def _interval_columns(
    name: str, values: FloatArray, error: FloatArray, half_width: FloatArray
) -> dict[str, FloatArray]:
    """Return the columns of a value in every group, with its error and interval."""
    return {
        name: values,
        "std_error": np.where(np.isnan(values), np.nan, error),
        "ci_low": values - half_width,
        "ci_high": values + half_width,
    }


def _clip_to_unit(values: FloatArray, half_width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of intervals that stay in [0, 1]."""
    low = np.empty(values.size)
    high = np.empty(values.size)
    for group, value in enumerate(values):
        low[group], high[group] = constrain_to_unit_interval(
            value, value - half_width[group], value + half_width[group]
        )
    return low, high


def _collect_group_notes(
    cell: SegmentCell, is_hidden: BoolArray, has_no_interval: BoolArray
) -> list[tuple[Note, ...]]:
    """Return the notes on each group: its flags, remarks, and why it has no value or no interval."""
    group_notes = []
    for group, flags in enumerate(cell.flags):
        notes = list(flags)
        if is_hidden[group] and flags:
            notes = [create_suppression(flags)]
        notes += cell.notes[group]
        if not cell.n_users[group]:
            notes.append(Note.create("no_weight"))
        elif has_no_interval[group] and not is_hidden[group]:
            notes.append(Note.create("no_variation"))
        group_notes.append(tuple(notes))
    return group_notes


def _word_notes(group_notes: Sequence[Sequence[Note]]) -> list[str]:
    """Return the notes on each group as text."""
    texts = []
    for notes in group_notes:
        texts.append(join_notes(*notes))
    return texts


def _insert_adjusted_p_values(frame: pd.DataFrame, correction: Correction, family: list[str]) -> pd.DataFrame:
    """Return the frame with adjusted p-values next to the p-values."""
    if correction is not None:
        check_choice("correction", correction, CORRECTIONS)
    frame.insert(list(frame).index("p_value") + 1, "p_adjusted", adjust_p_values(frame, correction, family))
    return frame
