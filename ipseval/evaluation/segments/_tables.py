"""The report of segments: one table per metric and estimator, and in words who leads where."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.estimators.labels import display_name
from ipseval.reporting import Tables
from ipseval.reporting.formatting import LEVEL, decimals, listed
from ipseval.reporting.tables import Cell, Notes, Part, Table
from ipseval.utils.checks import check_positive_int, counted


def segment_tables(segments: Any, digits: int, left_out: Sequence[str] = ()) -> Tables:
    """Return the tables of segments: recommenders by their whole estimate, the first against the others."""
    check_positive_int("digits", digits)
    frame, parts = segments.frame, list[Part]()
    differences = segments.differences() if len(segments.models) > 1 else None
    gaps = segments.gaps() if len(segments.labels) > 1 else None
    for (metric, estimator), rows in frame.groupby(["metric", "estimator"], sort=False):
        values = pd.Series(segments.cells[metric, estimator].whole, segments.models)
        ordered = values.sort_values(ascending=False, kind="stable")
        whole = {str(model): float(value) for model, value in ordered.items()}
        models, below = list(whole), []
        if differences is not None:
            below += _leads(_of(differences, metric, estimator), models)
        if gaps is not None:
            below += _groups_differ(_of(gaps, metric, estimator), models)
        table = _table(segments, f"{metric}, {display_name(str(estimator))}", rows, whole, below, digits)
        parts.append(replace(table, metric=str(metric)))
    notes = [f"{segments.name}: {segments.note}."] if segments.note else []
    notes.append(
        f"± is one standard error; the {segments.confidence_level:.0%} intervals of `frame` hold for all "
        "groups at once."
    )
    notes += _said(frame)
    if left_out:
        notes.append(f"By {' and '.join(left_out)}: .frame, .differences(), .to_html().")
    size = f"{counted(len(segments.labels), 'group')} of {segments.axis}s"
    return Tables(summary=(f"By {segments.name}: {size}",), parts=(*parts, Notes(tuple(notes))))


def _of(frame: pd.DataFrame, metric: object, estimator: object) -> pd.DataFrame:
    return frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]


def _table(
    segments: Any,
    title: str,
    rows: pd.DataFrame,
    whole: Mapping[str, float],
    below: list[str],
    digits: int,
) -> Table:
    shown = decimals(rows["std_error"], digits)
    lines = []
    for label, part in rows.groupby("group", sort=False):
        of_model = {row["model"]: _cell(dict(row), shown) for row in part.to_dict("records")}
        values = [of_model[model] for model in whole]
        first = part.iloc[0]
        share = "" if np.isnan(first["share"]) else f"{first['share']:.1%}"
        lines.append((Cell(str(label)), *values, Cell(share), Cell(f"{first['n_positives']:,}")))
    end = (Cell("" if rows["share"].isna().all() else "100.0%"), Cell(""))
    everyone = [
        Cell(f"{value:.{shown}f}" if value == value else "undefined", at=(np.nan, value, np.nan))
        for value in whole.values()
    ]
    lines.append((Cell("all"), *everyone, *end))
    header = (segments.name, *whole, "share of weight", "positives")
    return Table(header, tuple(lines), title, below=tuple(below))


def _cell(row: Mapping[Any, Any], shown: int) -> Cell:
    value, error, note = float(row["estimate"]), float(row["std_error"]), str(row["note"])
    if np.isnan(value):
        return Cell("suppressed" if note.startswith("suppressed") else "undefined", hint=note)
    low, high = row["ci_low"], row["ci_high"]
    spread = f"± {error:.{shown}f}" if error > 0 else ""
    hint = note if np.isnan(low) else f"interval {low:.{shown}f} to {high:.{shown}f}"
    return Cell(f"{value:.{shown}f}", spread, hint=hint, at=(low, value, high))


def _leads(differences: pd.DataFrame, models: Sequence[str]) -> list[str]:
    """Return in which groups the first is told from each of the others (Holm over groups and pairs)."""
    first, found = models[0], dict[str, list[str]]()
    for other in models[1:]:
        pair = differences[
            differences["model"].isin((first, other)) & differences["reference"].isin((first, other))
        ]
        clear = (pair["p_adjusted"] < LEVEL).to_numpy()
        gap = np.where(pair["model"] == first, pair["difference"], -pair["difference"])
        said = [
            f"{word} {_in_groups(pair['group'][groups], len(pair))}"
            for word, groups in (("ahead of {}", clear & (gap > 0)), ("behind {}", clear & (gap < 0)))
            if groups.any()
        ]
        found.setdefault(", ".join(said) or "told from {} in no group", []).append(other)
    return [f"{first}: {text.replace('{}', listed(names))}." for text, names in found.items()]


def _in_groups(groups: pd.Series, n_groups: int) -> str:
    return "in every group" if len(groups) == n_groups else f"in {', '.join(groups)}"


def _groups_differ(gaps: pd.DataFrame, models: Sequence[str]) -> list[str]:
    """Return which recommenders have a pair of groups that differ (Holm over the pairs), and which none."""
    least = gaps.groupby("model")["p_adjusted"].min()
    differ = [model for model in models if least[model] < LEVEL]
    alike = [model for model in models if least[model] >= LEVEL]  # neither where nothing varies: NaN
    said = (("Groups differ (p < .05)", differ), ("Groups not told apart", alike))
    return [f"{text}: {listed(names)}." for text, names in said if names]


# What a note says of one group with its own figure, in the words that serve for all groups.
FIGURE = re.compile(r"^(suppressed: )?[\d.,]+ effective users, fewer than (\d+)")
SHOWN = ("undefined: no user has weight in the group", "no interval: the values of its users do not vary")


def _without_figure(found: re.Match[str]) -> str:
    return f"{found[1] or ''}fewer than {found[2]} effective users"


def _said(frame: pd.DataFrame) -> list[str]:
    """Return every note once, with the groups it is of; what cells show as such, without them."""
    found: dict[str, list[str]] = {}
    for group, note in zip(frame["group"], frame["note"], strict=True):
        for text in filter(None, note.split("; ")):
            groups = found.setdefault(FIGURE.sub(_without_figure, text), [])
            if group not in groups:
                groups.append(group)
    everyone = list(dict.fromkeys(frame["group"]))
    return [
        f"{text[0].upper()}{text[1:]}."
        if text in SHOWN or groups == everyone
        else f"{', '.join(groups)}: {text}."
        for text, groups in found.items()
    ]
