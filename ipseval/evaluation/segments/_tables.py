"""The report of segments: one table per metric and estimator, and the significant differences as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.estimators.labels import display_name, display_names
from ipseval.reporting import Tables
from ipseval.reporting.formatting import LEVEL, count_decimals, join_names
from ipseval.reporting.tables import Cell, InterfaceText, Notes, Part, Table
from ipseval.utils.checks import check_positive_int, format_count
from ipseval.utils.notes import Note

SIGNIFICANT = f"statistically significant (p < {LEVEL}, Holm)"
NOT_SIGNIFICANT = f"statistically significant (p ≥ {LEVEL}, Holm)"  # after "no"

# Notes that the cells of the table show already, so that they need no names of groups.
SHOWN_IN_CELLS = ("no_weight", "no_variation")


def segment_tables(segments: Any, digits: int, omitted_estimators: Sequence[str] = ()) -> Tables:
    """Return the tables of `Segments`, with recommenders in the order of their estimates over all users."""
    check_positive_int("digits", digits)
    frame = segments.frame
    differences = None
    if len(segments.models) > 1:
        differences = segments.differences()
    gaps = None
    if len(segments.labels) > 1:
        gaps = segments.gaps()
    parts: list[Part] = []
    for (metric, estimator), rows in frame.groupby(["metric", "estimator"], sort=False):
        whole_values = _sort_models(segments, str(metric), str(estimator))
        models = list(whole_values)
        statements = []
        if differences is not None:
            statements += _describe_differences(_select(differences, metric, estimator), models)
        if gaps is not None:
            statements += _describe_gaps(_select(gaps, metric, estimator), models)
        title = f"{metric}, {display_name(str(estimator))}"
        suppressed = pd.DataFrame(
            segments.cells[metric, estimator].suppressed, segments.models, list(segments.labels)
        )
        table = _build_segment_table(
            grouping=segments.name,
            title=title,
            rows=rows,
            suppressed=suppressed,
            whole_values=whole_values,
            statements=statements,
            digits=digits,
        )
        parts.append(replace(table, metric=str(metric)))

    notes = []
    if segments.note:
        notes.append(f"{segments.name}: {segments.note}.")
    error = "± is one standard error"
    intervals = f"the {segments.confidence_level:.0%} intervals of `frame` hold for all groups at once"
    notes.append(InterfaceText(f"{error}; {intervals}.", shell=f"{error}."))
    notes += _describe_group_notes(segments)
    if omitted_estimators:
        names = display_names(segments.estimators + list(omitted_estimators))
        omitted_names = " and ".join(names[label] for label in omitted_estimators)
        note = InterfaceText(
            f"Results by {omitted_names}: .frame, .differences(), .to_html().",
            shell=f"Results by {omitted_names}: in the HTML report (--out FILE.html).",
        )
        notes.append(note)
    size = f"{format_count(len(segments.labels), 'group')} of {segments.axis}s"
    return Tables(summary=(f"By {segments.name}: {size}",), parts=(*parts, Notes(tuple(notes))))


def _sort_models(segments: Any, metric: str, estimator: str) -> dict[str, float]:
    """Return the estimate over all users of each recommender, the highest first."""
    values = pd.Series(segments.cells[metric, estimator].whole, segments.models)
    values = values.sort_values(ascending=False, kind="stable")
    value_by_model: dict[str, float] = {}
    for model, value in values.items():
        value_by_model[str(model)] = float(value)

    return value_by_model


def _select(frame: pd.DataFrame, metric: object, estimator: object) -> pd.DataFrame:
    """Return the rows of one metric and estimator."""
    return frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]


def _build_segment_table(
    grouping: str,
    title: str,
    rows: pd.DataFrame,
    suppressed: pd.DataFrame,
    whole_values: Mapping[str, float],
    statements: list[str],
    digits: int,
) -> Table:
    """Return the table of one metric and estimator: a row per group, a column per recommender.

    `suppressed` says which values are not shown, with the recommenders as rows and the groups as columns.
    """
    places = count_decimals(rows["std_error"], digits)
    lines = []
    for label, group_rows in rows.groupby("group", sort=False):
        cell_by_model = {}
        for row in group_rows.to_dict("records"):
            is_suppressed = bool(suppressed.loc[row["model"], label])
            cell_by_model[row["model"]] = _build_estimate_cell(row, places, is_suppressed=is_suppressed)
        first = group_rows.iloc[0]
        share = ""
        if not np.isnan(first["share"]):
            share = f"{first['share']:.1%}"
        values = [cell_by_model[model] for model in whole_values]
        lines.append((Cell(str(label)), *values, Cell(share), Cell(f"{first['n_positives']:,}")))

    total_share = "" if rows["share"].isna().all() else "100.0%"
    totals = []
    for value in whole_values.values():
        totals.append(_total_cell(value, places))

    lines.append((Cell("all"), *totals, Cell(total_share), Cell("")))
    header = (grouping, *whole_values, "share of weight", "positives")
    return Table(header, tuple(lines), title, below=tuple(statements))


def _total_cell(value: float, places: int) -> Cell:
    """Return the cell of an estimate over all users."""
    text = "undefined" if np.isnan(value) else f"{value:.{places}f}"
    return Cell(text, at=(np.nan, value, np.nan))


def _build_estimate_cell(row: Mapping[Any, Any], places: int, *, is_suppressed: bool) -> Cell:
    """Return the cell of an estimate in a group, with its error, or the reason why there is no estimate."""
    value = float(row["estimate"])
    error = float(row["std_error"])
    note = str(row["note"])
    if np.isnan(value):
        return Cell("suppressed" if is_suppressed else "undefined", hint=note)
    low = row["ci_low"]
    high = row["ci_high"]
    spread = ""
    if error > 0:
        spread = f"± {error:.{places}f}"
    hint = note
    if not np.isnan(low):
        hint = f"interval {low:.{places}f} to {high:.{places}f}"
    return Cell(f"{value:.{places}f}", spread, hint=hint, at=(low, value, high))


def _describe_differences(differences: pd.DataFrame, models: Sequence[str]) -> list[str]:
    """Return in which groups the first recommender differs significantly from each of the others.

    Recommenders with the same pattern of groups share a sentence.
    """
    first = models[0]
    rivals_by_pattern: dict[str, list[str]] = {}
    for rival in models[1:]:
        pattern = _difference_pattern(differences, first, rival)
        rivals_by_pattern.setdefault(pattern, []).append(rival)
    sentences = []
    for pattern, rivals in rivals_by_pattern.items():
        names = join_names(rivals)
        if pattern:
            sentences.append(f"{first} has {pattern.replace('{}', names, 1)}: {SIGNIFICANT}.")
        else:
            sentences.append(f"In no group is the difference of {first} from {names} {NOT_SIGNIFICANT}.")
    return sentences


def _difference_pattern(differences: pd.DataFrame, first: str, rival: str) -> str:
    """Return in which groups the first is significantly higher or lower, with {} for the rival; "" if none.

    >>> columns = ["model", "reference", "group", "difference", "p_adjusted"]
    >>> rows = [("a", "b", "x", 0.2, 0.01), ("a", "b", "y", -0.2, 0.01), ("a", "b", "z", 0.1, 0.3)]
    >>> _difference_pattern(pd.DataFrame(rows, columns=columns), "a", "b")
    'higher values than {} in x and lower values in y'
    """
    pair = (first, rival)
    rows = differences[differences["model"].isin(pair) & differences["reference"].isin(pair)]
    is_significant = (rows["p_adjusted"] < LEVEL).to_numpy()
    gap = np.where(rows["model"] == first, rows["difference"], -rows["difference"])
    phrases: list[str] = []
    for word, selected in (("higher", is_significant & (gap > 0)), ("lower", is_significant & (gap < 0))):
        if selected.any():
            rival_phrase = "" if phrases else " than {}"
            phrases.append(f"{word} values{rival_phrase} {_name_groups(rows['group'][selected], len(rows))}")
    return " and ".join(phrases)


def _name_groups(groups: pd.Series, n_groups: int) -> str:
    """Return "in every group", or the names of the groups."""
    if len(groups) == n_groups:
        return "in every group"
    return f"in {', '.join(groups)}"


def _describe_gaps(gaps: pd.DataFrame, models: Sequence[str]) -> list[str]:
    """Return for which recommenders at least one pair of groups differs significantly, and for which none.

    A recommender whose values do not vary has no test, so it is in neither sentence.
    """
    smallest = gaps.groupby("model")["p_adjusted"].min()
    varying = []
    similar = []
    for model in models:
        if smallest[model] < LEVEL:
            varying.append(model)
        elif smallest[model] >= LEVEL:
            similar.append(model)

    sentences = []
    if varying:
        sentences.append(
            f"At least one difference between groups is {SIGNIFICANT} for {join_names(varying)}."
        )
    if similar:
        sentences.append(f"No difference between groups is {NOT_SIGNIFICANT} for {join_names(similar)}.")
    return sentences


def _describe_group_notes(segments: Any) -> list[str]:
    """Return every note once, with the groups that it concerns; notes that cells show have no groups."""
    groups_by_note: dict[Note, dict[str, None]] = {}
    for group, note in segments._iterate_notes():
        groups_by_note.setdefault(note.generalize(), {})[group] = None

    sentences = []
    for note, groups in groups_by_note.items():
        text = str(note)
        if note.code in SHOWN_IN_CELLS or len(groups) == len(segments.labels):
            sentences.append(f"{text[0].upper()}{text[1:]}.")
        else:
            sentences.append(f"{', '.join(groups)}: {text}.")
    return sentences
