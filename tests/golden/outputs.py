"""Read the tables of an evaluation back from each of its outputs, as values that can be compared."""

from __future__ import annotations

import html
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import ipseval
from tests.pages import without_pictures

mpl.use("Agg")
NUMBER = r"−?[\d,]+(?:\.\d+)?"
CELL = re.compile(rf"({NUMBER}|undefined|suppressed|--)(?: \[({NUMBER}), ({NUMBER})\])?")
UNRELIABLE = re.compile(r",\s*unreliable$")


@dataclass(frozen=True)
class Shown:
    """One estimate as an output shows it: texts, or numbers where the output has full precision."""

    value: Any
    low: Any = None
    high: Any = None


@dataclass
class ReadTable:
    """One table as an output shows it."""

    metric: str
    estimand: str
    columns: list[str]
    unreliable: list[bool]
    rows: dict[str, list[Shown]] = field(default_factory=dict)


def read_cell(text: str) -> Shown:
    """Return the estimate in a cell of a text."""
    match = CELL.fullmatch(text)
    assert match, text
    return Shown(*match.groups())


def make_table(title: str, summary: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> ReadTable:
    """Return the table of texts, without its column of differences."""
    estimands = re.findall(r"means over (\w+)", title) or re.findall(r"means over (\w+)", summary)
    (estimand,) = set(estimands)
    places = [place for place, name in enumerate(header) if not name.startswith("difference from first")]
    names = [header[place] for place in places]
    table = ReadTable(
        metric=title.partition(",")[0],
        estimand=f"mean over {estimand}",
        columns=[UNRELIABLE.sub("", name) for name in names],
        unreliable=[bool(UNRELIABLE.search(name)) for name in names],
    )
    for model, *cells in rows:
        table.rows[model] = [read_cell(cells[place]) for place in places]
    return table


def from_text(text: str) -> list[ReadTable]:
    """Read the printed form, of which a wide table has several pieces."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    pieces: dict[str, tuple[list[str], list[list[str]]]] = {}
    for block in blocks[2:]:
        title, *header = re.split(r" {2,}", block[0])
        if not header or not header[0].startswith(("AOA", "SNIPS", "difference from first")):
            continue
        body = [re.split(r" {2,}", line) for line in block[1:] if not line.startswith("  ")]
        if title not in pieces:
            pieces[title] = (header, body)
            continue
        names, rows = pieces[title]
        names += header
        for row, more in zip(rows, body, strict=True):
            assert row[0] == more[0]
            row += more[1:]
    return [make_table(title, blocks[0][0], header, rows) for title, (header, rows) in pieces.items()]


def from_markdown(text: str) -> list[ReadTable]:
    """Read the Markdown form."""
    tables = []
    for block in text.split("\n\n"):
        if not block.startswith("| "):
            continue
        lines = [re.sub(r"\\(.)", r"\1", line) for line in block.splitlines()]
        cells = [[plain_cell(cell) for cell in line.strip("| ").split(" | ")] for line in lines]
        (title, *header), _, *rows = cells
        tables.append(make_table(title, text.partition("\n")[0], header, rows))
    return tables


def plain_cell(text: str) -> str:
    """Return a cell of Markdown without marks."""
    return html.unescape(text.replace("**", "").removesuffix("†").strip())


class PageReader(HTMLParser):
    """Collects the captions and cells of the tables of a page, without its pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[tuple[str, list[list[str]]]] = []
        self.summary = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("class")
        name = "summary" if (tag, kind) == ("p", "summary") else tag
        if tag in ("meta", "link", "input", "path", "rect", "circle", "line"):
            return
        self.open.append(name)
        if tag == "table":
            self.tables.append(("", []))
        if tag == "tr":
            self.tables[-1][1].append([])
        if tag in ("td", "th"):
            self.tables[-1][1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() not in (tag, "summary"):
            pass

    def handle_data(self, data: str) -> None:
        if "svg" in self.open or "s" in self.open:
            return
        if "summary" in self.open:
            self.summary += data
        if "caption" in self.open:
            title, rows = self.tables[-1]
            self.tables[-1] = (title + data, rows)
        if {"td", "th"} & set(self.open):
            self.tables[-1][1][-1][-1] += data


def from_html(page: str, n_tables: int) -> list[ReadTable]:
    """Read the first tables of a page."""
    reader = PageReader()
    reader.feed(page)
    tables = []
    for title, ((_, *header), *rows) in reader.tables[:n_tables]:
        body = [[cell.strip() for cell in row] for row in rows]
        tables.append(make_table(title, reader.summary, header, body))
    return tables


def plain_latex(text: str) -> str:
    """Return what LaTeX prints for a text without marks."""
    text = re.sub(r"\\shortstack\[r\]\{(.*)\\\\(.*)\}", r"\1 \2", text.strip())
    text = re.sub(r"\\(?:textbf|emph|rlap)\{([^{}]*)\}", r"\1", text)
    for code, character in (("{[}", "["), ("{]}", "]"), (r"$\gamma$", "γ"), ("$-$", "−"), (r"\_", "_")):
        text = text.replace(code, character)
    return text.strip()


def from_latex(text: str, n_labels: int) -> list[ReadTable]:
    """Read the table of one estimand in either layout."""
    is_wide = r"\cmidrule" in text
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0].replace(r"\rlap{$^{\dagger}$}", "")
    lines = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines() if " & " in line]
    marks = [[r"$^{u}$" in cell for cell in line] for line in lines]
    cells = [
        [plain_latex(re.sub(r"\\rlap\{\$\^\{u\}\$\}|\$\^\{u\}\$", "", cell)) for cell in line]
        for line in lines
    ]
    (notes,) = re.findall(r"\\begin\{tablenotes\}(.*)\\end\{tablenotes\}", text, re.DOTALL)
    heads = [re.sub(r"\\multicolumn\{\d+\}\{\w\}\{(.*)\}", r"\1", cell) for cell in cells[0][1:]]
    if is_wide:
        metrics = heads
        names = cells[1][1 : 1 + n_labels]
        body_cells, body_marks = cells[2:], marks[2:]
        tables = []
        for number, metric in enumerate(metrics):
            places = [1 + number * n_labels + place for place in range(n_labels)]
            rows = [[row[0], *(row[place] for place in places)] for row in body_cells]
            table = make_table(metric, notes.lower(), names, rows)
            table.unreliable = [any(row[place] for row in body_marks) for place in places]
            tables.append(table)
        return tables
    tables = []
    for block in body.split(r"\midrule")[1:]:
        (metric,) = re.findall(r"\\emph\{(.*?)\}\}", block)
        lines = [line.removesuffix(r" \\").split(" & ") for line in block.splitlines() if " & " in line]
        rows, marked = [], np.zeros(n_labels, dtype=bool)
        for line in lines:
            row = [plain_latex(line[0])]
            for place in range(n_labels):
                number, interval = line[1 + 2 * place : 3 + 2 * place]
                marked[place] |= "$^{u}$" in interval
                row.append(plain_latex(f"{number} {interval.replace('$^{u}$', '')}"))
            rows.append(row)
        table = make_table(plain_latex(metric), notes.lower(), heads, rows)
        table.unreliable = marked.tolist()
        tables.append(table)
    return tables


def from_rows(rows: pd.DataFrame, names: dict[str, str]) -> list[ReadTable]:
    """Read tidy rows in their order: a table for each metric and estimand."""
    tables = []
    for (metric, estimand), part in rows.groupby(["metric", "estimand"], sort=False):
        labels = list(dict.fromkeys(part["estimator"]))
        flags = part.groupby("estimator", sort=False)["flag"].first()
        table = ReadTable(
            metric, estimand, [names[label] for label in labels], [bool(flags[label]) for label in labels]
        )
        for model, cells in part.groupby("model", sort=False):
            by_label = cells.set_index("estimator").loc[labels]
            numbers = by_label[["estimate", "ci_low", "ci_high"]].to_numpy(dtype=float)
            table.rows[model] = [Shown(*row) for row in numbers.tolist()]
        tables.append(table)
    return tables


def from_csv(text: str, names: dict[str, str]) -> list[ReadTable]:
    """Read the CSV form."""
    return from_rows(
        pd.read_csv(
            io.StringIO(text),
            keep_default_na=False,
            na_values={"estimate": [""], "ci_low": [""], "ci_high": [""]},
        ),
        names,
    )


def from_json(text: str) -> list[ReadTable]:
    """Read the JSON form: what its tables list, with the numbers of its estimates."""
    document = json.loads(text)
    estimates = {(row["model"], row["metric"], row["estimator"]): row for row in document["estimates"]}
    tables = []
    for record in document["tables"]:
        labels = [column["estimator"] for column in record["columns"]]
        table = ReadTable(
            record["metric"],
            record["estimand"],
            [column["name"] for column in record["columns"]],
            [column["unreliable"] for column in record["columns"]],
        )
        for model in record["models"]:
            cells = [estimates[model, record["metric"], label] for label in labels]
            assert {cell["estimand"] for cell in cells} == {record["estimand"]}
            assert [bool(cell["flag"]) for cell in cells] == table.unreliable
            table.rows[model] = [
                Shown(*(float("nan") if cell[name] is None else cell[name] for name in BOUNDS))
                for cell in cells
            ]
        tables.append(table)
    # The rows of "estimates" are in the order of the tables.
    listed = from_rows(
        pd.DataFrame(document["estimates"]),
        {c["estimator"]: c["name"] for t in document["tables"] for c in t["columns"]},
    )
    assert [list(table.rows) for table in listed] == [list(table.rows) for table in tables]
    return tables


BOUNDS = ("estimate", "ci_low", "ci_high")


def from_plot(axes: Any) -> ReadTable:
    """Read a picture of estimates: rows by their tick labels, marks and error bars of each series."""
    metric, estimand, _ = axes.get_xlabel().split(", ")
    models = [label.get_text() for label in axes.get_yticklabels()]
    legend = [text.get_text().replace("\n", " ") for text in axes.get_legend().get_texts()]
    table = ReadTable(
        metric,
        estimand,
        [UNRELIABLE.sub("", name) for name in legend],
        [bool(UNRELIABLE.search(name)) for name in legend],
        {model: [] for model in models},
    )
    for container, unreliable in zip(axes.containers, table.unreliable, strict=True):
        points, _, bars = container
        assert (points.get_markerfacecolor() == "none") == unreliable
        values = points.get_xydata()
        segments = bars[0].get_segments() if bars else [None] * len(values)
        for (value, height), segment in zip(values, segments, strict=True):
            low, high = (math.nan, math.nan) if segment is None else segment[:, 0]
            table.rows[models[round(height)]].append(Shown(float(value), float(low), float(high)))
    return table


@cache
def write_json(evaluation: ipseval.Evaluation) -> str:
    """Return the JSON of an evaluation, written once for all tests."""
    return evaluation.to_json()


def write_outputs(evaluation: ipseval.Evaluation) -> dict[str, Any]:
    """Return every output of an evaluation as it is written; pictures and LaTeX by estimand."""
    labels_of = group_labels(evaluation)
    with without_pictures():
        page = evaluation.to_html()
    return {
        "text": repr(evaluation),
        "markdown": evaluation.to_markdown(),
        "html": page,
        "csv": evaluation.to_csv(),
        "json": write_json(evaluation),
        "latex": [(evaluation.to_latex(columns=labels), len(labels)) for labels in labels_of.values()],
        "latex side by side": [
            (evaluation.to_latex(columns=labels, layout="models x metrics"), len(labels))
            for labels in labels_of.values()
        ],
        "plot": draw_pictures(evaluation),
    }


def group_labels(evaluation: ipseval.Evaluation) -> dict[str, list[str]]:
    """Return the labels of the estimators by estimand."""
    labels_of: dict[str, list[str]] = {}
    for estimator in evaluation.definitions[1]:
        labels_of.setdefault(estimator.estimand, []).append(estimator.label)
    return labels_of


def draw_pictures(evaluation: ipseval.Evaluation) -> list[Axes]:
    """Return a picture of each metric and estimand."""
    return [
        evaluation.plot("estimates", metric=metric, estimator=labels[0])
        for metric in evaluation.metrics
        for labels in group_labels(evaluation).values()
    ]


def read_output(kind: str, output: Any, names: dict[str, str], n_tables: int) -> list[ReadTable]:
    """Read one output back."""
    if kind == "html":
        return from_html(output, n_tables)
    if kind == "csv":
        return from_csv(output, names)
    if kind == "plot":
        return [from_plot(axes) for axes in output]
    if kind.startswith("latex"):
        tables = [table for text, n_labels in output for table in from_latex(text, n_labels)]
        metrics = list(dict.fromkeys(table.metric for table in tables))
        return sorted(tables, key=lambda table: metrics.index(table.metric))
    readers = {"text": from_text, "markdown": from_markdown, "json": from_json}
    return readers[kind](output)
