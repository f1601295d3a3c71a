"""Text, Markdown, LaTeX, page, picture, CSV and JSON agree in order, numbers, estimand and flags.

What each of them must show is worked out here from `frame` alone.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import ipseval
from tests.golden.outputs import ReadTable, Shown, draw_pictures, read_output, write_outputs
from tests.golden.situations import SITUATIONS

# Situation -> the assumption in parentheses behind weighted estimators.
ASSUMPTIONS = {
    "plain_only": "",
    "commonest": "γ = 0 assumed",
    "exposure": "γ = −0.17 from random exposure",
    "thin": "γ = 2.5 assumed",
    "design": "propensities known by design",
    "design_undecided": "propensities known by design",
    "impressions": "propensities from impressions",
    "one_model": "γ = 0 assumed",
    "all_equal": "",
    "a_hundred_models": "",
    "without_a_claim": "γ = 0 assumed",
    "two_metrics_flagged": "γ = 6 assumed",
    "two_estimands": "γ = 0 assumed",
    "suppressed": "γ = 6 assumed",
}
NAMES = {"aoa": "AOA", "snips-global": "SNIPS", "aoa-pooled": "AOA pooled", "snips-pooled": "SNIPS pooled"}
KINDS = ("text", "markdown", "html", "latex", "latex side by side", "csv", "json", "plot")
IN_FULL = ("csv", "json", "plot")  # numbers with all their digits
N_PRINTED = 12  # rows of a text, where there are more


@cache
def outputs_of_situation(situation: str) -> tuple[ipseval.Evaluation, dict[str, Any]]:
    evaluation = SITUATIONS[situation]()
    return evaluation, write_outputs(evaluation)


def column_names(situation: str) -> dict[str, str]:
    """Return label -> the head of its column."""
    labels = outputs_of_situation(situation)[0].estimators
    names = {label: NAMES[label] for label in labels}
    if "snips-pooled" in labels:
        names["snips-global"] = "SNIPS global"
    assumption = ASSUMPTIONS[situation]
    heads = {}
    for label, name in names.items():
        detail = assumption if "snips" in label else "unweighted"
        heads[label] = f"{name} ({detail})"
    return heads


@cache
def expected_tables(situation: str) -> tuple[ReadTable, ...]:
    """Work out every table from the frame: rows by the first column, the highest first, undefined last."""
    frame = outputs_of_situation(situation)[0].frame
    names = column_names(situation)
    tables = []
    for metric in dict.fromkeys(frame["metric"]):
        for estimand in dict.fromkeys(frame["estimand"]):
            part = frame[(frame["metric"] == metric) & (frame["estimand"] == estimand)]
            labels = list(dict.fromkeys(part["estimator"]))
            cells = part.set_index(["model", "estimator"])
            flags = [cells.xs(label, level=1)["flag"].iloc[0] != "" for label in labels]
            first = part[part["estimator"] == labels[0]]
            first = first.sort_values("estimate", ascending=False, kind="stable", na_position="last")
            table = ReadTable(metric, estimand, [names[label] for label in labels], flags)
            for model in first["model"]:
                row = []
                for label, flag in zip(labels, flags, strict=True):
                    cell = cells.loc[(model, label)]
                    bounds = (math.nan, math.nan) if flag else (cell["ci_low"], cell["ci_high"])
                    row.append(Shown(cell["estimate"], *bounds))
                table.rows[model] = row
            tables.append(table)
    return tuple(tables)


def check(situation: str, kind: str, output: Any) -> None:
    """Assert that an output shows what it must."""
    expected = expected_tables(situation)
    tables = read_output(kind, output, column_names(situation), len(expected))
    if kind == "latex side by side":
        # The rows of all metrics are in the order of the first one.
        firsts = {table.estimand: list(table.rows) for table in reversed(expected)}
        expected = tuple(
            replace(table, rows={model: table.rows[model] for model in firsts[table.estimand]})
            for table in expected
        )
    assert len(tables) == len(expected)
    for table, right in zip(tables, expected, strict=True):
        assert (table.metric, table.estimand) == (right.metric, right.estimand)
        assert table.columns == right.columns
        is_hidden = [
            all(math.isnan(row[place].value) for row in right.rows.values())
            for place in range(len(right.columns))
        ]
        marked = [
            flag and not (hidden and kind.startswith("latex"))
            for flag, hidden in zip(right.unreliable, is_hidden, strict=True)
        ]
        assert table.unreliable == marked
        models = list(right.rows)
        n_shown = min(len(models), N_PRINTED) if kind == "text" else len(models)
        assert list(table.rows) == models[:n_shown]
        for model, cells in table.rows.items():
            for printed, number in zip(cells, right.rows[model], strict=True):
                with_interval = kind != "latex side by side"
                check_cell(printed, number, in_full=kind in IN_FULL, with_interval=with_interval)


def check_cell(printed: Shown, number: Shown, *, in_full: bool, with_interval: bool) -> None:
    """Assert that what is shown is the number, as far as its digits go."""
    pairs = [(printed.value, number.value)]
    if with_interval:
        pairs += [(printed.low, number.low), (printed.high, number.high)]
    else:
        assert printed.low is None
    for text, value in pairs:
        if in_full:
            assert text == pytest.approx(value, rel=1e-12, abs=1e-15, nan_ok=True)
        elif math.isnan(value):
            assert text in (None, "undefined", "suppressed", "--")
        else:
            places = len(text.partition(".")[2])
            assert abs(float(text.replace("−", "-").replace(",", "")) - value) <= 0.5001 * 10.0**-places


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("situation", ASSUMPTIONS)
def test_every_output_shows_the_same_rows_numbers_estimand_and_flags(situation, kind):
    check(situation, kind, outputs_of_situation(situation)[1][kind])


@pytest.mark.parametrize("situation", ASSUMPTIONS)
def test_texts_have_the_same_digits(situation):
    outputs = outputs_of_situation(situation)[1]
    n_tables = len(expected_tables(situation))
    readings = {
        kind: read_output(kind, outputs[kind], column_names(situation), n_tables)
        for kind in ("text", "markdown", "html", "latex")
    }
    for table, *other_tables in zip(*readings.values(), strict=True):
        for model, cells in table.rows.items():
            for other_table in other_tables:
                printed = [
                    Shown(*("undefined" if text == "--" else text for text in (c.value, c.low, c.high)))
                    for c in other_table.rows[model]
                ]
                assert [c.value.replace("suppressed", "undefined") for c in cells] == [
                    c.value.replace("suppressed", "undefined") for c in printed
                ]
                assert [(c.low, c.high) for c in cells] == [(c.low, c.high) for c in printed]


FLAGGED = "two_metrics_flagged"  # ease is first by recall@10, als second


def swap(text: str, first: str, second: str) -> str:
    return text.replace(first, "\0").replace(second, first).replace("\0", second)


def alter(kind: str, output: Any, fault: str) -> Any:
    """Return an output with one fault."""
    if kind.startswith("latex"):
        return [(alter_text(kind, text, fault), n_labels) for text, n_labels in output]
    if kind == "json":
        return alter_json(output, fault)
    return alter_text(kind, output, fault)


def alter_text(kind: str, text: str, fault: str) -> str:
    frame = outputs_of_situation(FLAGGED)[0].frame
    highest = frame.iloc[frame[frame["metric"] == "recall@10"]["estimate"].idxmax()]
    if fault == "order":
        return swap(text, "ease", "als")
    if fault == "number":
        return text.replace(str(highest["estimate"]) if kind == "csv" else "0.772", "0.912")
    if fault == "estimand":
        return text.replace("over users", "over interactions").replace("over Users", "over interactions")
    if fault == "interval" and kind == "csv":
        return text.replace(str(highest["ci_low"]), "0.1")
    if fault == "interval":
        return text.replace("0.794", "0.894")
    marks = {"csv": frame.iloc[1]["flag"], "latex": "$^{u}$", "latex side by side": r"\rlap{$^{u}$}"}
    return text.replace(marks.get(kind, ", unreliable"), "")


def alter_json(text: str, fault: str) -> str:
    document = json.loads(text)
    table, row = document["tables"][0], document["estimates"][0]
    if fault == "order":
        table["models"].reverse()
    elif fault == "number":
        row["estimate"] = 0.912
    elif fault == "estimand":
        table["estimand"] = "mean over interactions"
    elif fault == "interval":
        row["ci_low"] = 0.1
    else:
        table["columns"][1]["unreliable"] = False
    return json.dumps(document)


def alter_plot(axes: Any, fault: str) -> None:
    points, _, bars = axes.containers[0]
    if fault == "order":
        names = [label.get_text() for label in axes.get_yticklabels()]
        axes.set_yticklabels(names[::-1])
    elif fault == "number":
        points.set_xdata(points.get_xdata() + 0.01)
    elif fault == "estimand":
        axes.set_xlabel(axes.get_xlabel().replace("users", "interactions"))
    elif fault == "interval":
        bars[0].set_segments([segment + 0.01 for segment in bars[0].get_segments()])
    else:
        axes.get_legend().get_texts()[1].set_text("SNIPS (γ = 6 assumed)")


FAULTS = ("order", "number", "estimand", "interval", "flag")


NO_SUCH_FAULT = ("latex side by side", "interval")  # this layout has no intervals
PLANTED = [(kind, fault) for kind in KINDS if kind != "plot" for fault in FAULTS]
PLANTED.remove(NO_SUCH_FAULT)


@pytest.mark.parametrize(("kind", "fault"), PLANTED)
def test_a_fault_in_an_output_is_found(kind, fault):
    output = outputs_of_situation(FLAGGED)[1][kind]
    altered = alter(kind, output, fault)
    assert altered != output
    with pytest.raises(AssertionError):
        check(FLAGGED, kind, altered)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_picture_is_found(fault):
    pictures = draw_pictures(SITUATIONS[FLAGGED]())
    check(FLAGGED, "plot", pictures)
    alter_plot(pictures[0], fault)
    with pytest.raises(AssertionError):
        check(FLAGGED, "plot", pictures)
