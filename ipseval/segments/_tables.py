"""The report of segments: one table per metric and estimator, and in words who leads where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ipseval._checks import check_positive_int, counted
from ipseval._types import IntArray
from ipseval.report import Cell, Notes, Part, Table, Tables

LEVEL = 0.05


class Grouped(Protocol):
    """What the report reads of segments beside their frames."""

    @property
    def name(self) -> str: ...  # an attribute
    @property
    def axis(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def sizes(self) -> IntArray: ...
    @property
    def models(self) -> tuple[str, ...]: ...
    @property
    def note(self) -> str: ...
    @property
    def simultaneous(self) -> str | None: ...
    @property
    def confidence_level(self) -> float: ...


def segment_tables(
    segments: Grouped,
    frame: pd.DataFrame,
    whole: Mapping[tuple[str, str, str], float],
    differences: pd.DataFrame | None,
    tests: pd.DataFrame,
    *,
    digits: int,
) -> Tables:
    """Return the tables of segments from their frames; `whole`: (metric, estimator, model) -> estimate."""
    check_positive_int("digits", digits)
    parts: list[Part] = []
    for (metric, estimator), rows in frame.groupby(["metric", "estimator"], sort=False):
        below = _groups_differ(_of(tests, metric, estimator))
        if differences is not None:
            below += _leads(_of(differences, metric, estimator))
        values = [whole[str(metric), str(estimator), model] for model in segments.models]
        table = _table(segments, f"{metric} by {estimator}", rows, values, below, digits)
        parts.append(replace(table, metric=str(metric)))
    notes = [f"{frame['by'].iloc[0]}: {segments.note}."] if segments.note else []
    if segments.simultaneous:
        notes.append(
            f"± is one standard error; the {segments.confidence_level:.0%} intervals of `frame` hold for all "
            "groups at once."
        )
    notes += _said(frame)
    size = f"{counted(len(segments.labels), 'group')} of {segments.axis}s"
    return Tables(summary=(f"By {segments.name}: {size}",), parts=(*parts, Notes(tuple(notes))))


def _of(frame: pd.DataFrame, metric: object, estimator: object) -> pd.DataFrame:
    return frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]


def _table(
    segments: Grouped, title: str, rows: pd.DataFrame, whole: list[float], below: list[str], digits: int
) -> Table:
    errors = [error for error in rows["std_error"] if error > 0]
    shown = max(0, digits - 1 - int(np.floor(np.log10(np.median(errors))))) if errors else 4
    lines = []
    for label, part in rows.groupby("group", sort=False):
        values = [_cell(dict(row), shown) for row in part.to_dict("records")]
        first = part.iloc[0]
        share = "" if np.isnan(first["share"]) else f"{first['share']:.1%}"
        lines.append((Cell(str(label)), *values, Cell(share), Cell(f"{first['n_positives']:,}")))
    end = (Cell("100.0%" if lines[0][-2].text else ""), Cell(""))
    everyone = tuple(Cell(f"{value:.{shown}f}" if value == value else "undefined") for value in whole)
    lines.append((Cell("all"), *everyone, *end))
    header = (segments.name, *segments.models, "share of weight", "positives")
    return Table(header, tuple(lines), title, below=tuple(below))


def _cell(row: Mapping[Any, Any], shown: int) -> Cell:
    value, error, note = float(row["estimate"]), float(row["std_error"]), str(row["note"])
    if np.isnan(value):
        return Cell("suppressed" if note.startswith("suppressed") else "undefined", hint=note)
    low, high = row["ci_low"], row["ci_high"]
    spread = "" if np.isnan(error) or error == 0 else f"± {error:.{shown}f}"
    hint = f"interval {low:.{shown}f} to {high:.{shown}f}"
    return Cell(f"{value:.{shown}f}", spread, hint=hint, at=(low, value, high))


def _p(value: float) -> str:
    return "p < .001" if value < 0.001 else f"p = {value:.3f}".replace("0.", ".")


def _groups_differ(tests: pd.DataFrame) -> list[str]:
    """Return for each recommender whether its groups differ, and where leads differ between groups."""
    lines = []
    for row in tests.to_dict("records"):
        if np.isnan(row["p_value"]):
            continue
        clear = row["p_value"] < LEVEL
        if row["reference"]:
            if clear:
                pair = f"{row['model']} and {row['reference']}"
                lines.append(f"the difference of {pair} varies between groups ({_p(row['p_value'])})")
        else:
            differ = "differ" if clear else "are not told apart"
            lines.append(f"{row['model']}: groups {differ} ({_p(row['p_value'])})")
    return lines


def _leads(differences: pd.DataFrame) -> list[str]:
    """Return in which groups one recommender is told from another (Holm over groups and pairs)."""
    lines = []
    for (model, other), rows in differences.groupby(["model", "reference"], sort=False):
        clear = rows[rows["p_adjusted"] < LEVEL]
        if clear.empty:
            lines.append(f"{model} and {other}: told apart in no group")
            continue
        for name, worse, sign in ((model, other, 1), (other, model, -1)):
            where = list(clear["group"][clear["difference"] * sign > 0])
            if where:
                everywhere = len(where) == len(rows)
                lines.append(f"{name} > {worse} in {'every group' if everywhere else '; '.join(where)}")
    return lines


def _said(frame: pd.DataFrame) -> list[str]:
    """Return every note once, with the groups it is of."""
    found: dict[str, list[str]] = {}
    for group, note in zip(frame["group"], frame["note"], strict=True):
        for text in filter(None, note.split("; ")):
            groups = found.setdefault(text, [])
            if group not in groups:
                groups.append(group)
    everyone = list(dict.fromkeys(frame["group"]))
    return [
        f"{text}." if groups == everyone else f"{', '.join(groups)}: {text}."
        for text, groups in found.items()
    ]
