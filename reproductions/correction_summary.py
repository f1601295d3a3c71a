"""The tables and the figure in the text of docs/correction-accuracy.md, from docs/tables/correction-accuracy.

    python -m reproductions.correction_summary [--write]

`reproductions.correction_truth`, `reproductions.cm100k` and `reproductions.exploring_logs` make those tables. A
cell of theirs holds a number for each metric; the tables here have one number in a cell, for the whole ranking
(atop) and for recall at a cut-off. Every number of a row and a number of exposed users has the same truth.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from ipseval.correction import CORRECTED, RANDOM_SAMPLE
from ipseval.estimators.labels import AOA_POOLED
from ipseval.validation._curve import WITH_INTERACTIONS
from reproductions.tables import ROOT, deliver, markdown, write_tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = ROOT / "docs" / "correction-accuracy.md"
FIGURE = ROOT / "docs" / "images" / "correction-accuracy.svg"
FOLDER = ROOT / "docs" / "tables" / "correction-accuracy"
VALUES = "correction-summary"
COVERAGE = "correction-coverage"
RANKINGS = "correction-rankings"
EXPLORING = "correction-exploring"
EXPLORING_FILE = "truth-exploring"
INTERACTIONS = "correction-interactions"
WARNINGS = "correction-warnings"
WARNED = "warned, %"
SIZES = ("0", "25", "100")
DRAWN_SIZE = "100"
ATOP, RECALL = 0, 1  # positions in a cell
REDUCTION, COVERED, TAU = "error reduction, %", "coverage, %", "Kendall τ"

# Marker, colour and label of each estimator in the figure.
MARKS = {
    AOA_POOLED: ("x", "0.4", "AOA"),
    RANDOM_SAMPLE: ("s", "C1", "random sample"),
    CORRECTED: ("o", "C0", "correct"),
}

Cells = dict[tuple[str, str], dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class Log:
    """A log with a known or measured truth."""

    label: str
    table: str
    recall: str
    content: str
    n_items_shown: str
    development: str
    always_warned: bool = False

    @property
    def metrics(self) -> tuple[tuple[str, int], ...]:
        """Labels of the rows of the log, and positions of their metrics in a cell."""
        label = f"{self.label} (warned)" if self.always_warned else self.label
        return ((f"{label}, atop", ATOP), (f"{label}, {self.recall}", RECALL))


LOGS = (
    Log(
        label="KuaiRand",
        table="truth-kuairand",
        recall="recall@10",
        content="clicks on short videos",
        n_items_shown="about 37",
        development="yes: the model was changed after runs on it",
        always_warned=True,
    ),
    Log(
        label="Coat",
        table="truth-coat",
        recall="recall@5",
        content="ratings of coats",
        n_items_shown="at most 16",
        development="yes: the prior was chosen on it",
    ),
    Log(
        label="CM100K",
        table="truth-cm100k",
        recall="recall@10",
        content="ratings of songs",
        n_items_shown="about 20",
        development="no",
    ),
    Log(
        label="simulator 1",
        table="truth-first",
        recall="recall@5",
        content="63 simulated logs",
        n_items_shown="20",
        development="the simulator was, but not these logs",
    ),
    Log(
        label="simulator 2",
        table="truth-second",
        recall="recall@5",
        content="63 simulated logs, some with feedback loops",
        n_items_shown="20",
        development="the simulator was, but not these logs",
    ),
)


def read_cells(path: Path) -> Cells:
    """Return the cells of a table by exposed users and estimator."""
    with path.open(encoding="utf-8", newline="") as lines:
        return {(row["exposed users"], row["estimator"]): row for row in csv.DictReader(lines)}


def find_value(cells: Cells, size: str, estimator: str, column: str, position: int) -> float:
    """Return the number of one metric in a cell."""
    return float(cells[size, estimator][column].split()[position])


def find_reduction(cells: Cells, size: str, estimator: str, position: int) -> float:
    """Return the share of the error of AOA that an estimator removes, in %."""
    if REDUCTION in cells[size, estimator]:
        return find_value(cells, size, estimator, REDUCTION, position)
    error = find_value(cells, size, estimator, "mean absolute error", position)
    aoa_error = find_value(cells, size, AOA_POOLED, "mean absolute error", position)
    return 100 * (1 - error / aoa_error)


def has_tau(cells: Cells) -> bool:
    """Return whether the table of a log has Kendall's τ."""
    return TAU in cells["0", CORRECTED]


def values_table(folder: Path = FOLDER) -> str:
    """Return the table of metric values: two metrics of every log."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        for label, position in log.metrics:
            row = [label]
            for size in SIZES[1:]:
                for estimator in (RANDOM_SAMPLE, CORRECTED):
                    row.append(f"{find_reduction(cells, size, estimator, position):.0f}")
            rows.append(row)
    header = ["log, metric"]
    for size in SIZES[1:]:
        header += [f"{size} users: random sample, %", f"{size} users: `correct`, %"]
    return markdown(header, rows)


def coverage_table(folder: Path = FOLDER) -> str:
    """Return the table of the coverage of intervals: two metrics of every log."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        for label, position in log.metrics:
            row = [label, f"{find_value(cells, SIZES[0], CORRECTED, COVERED, position):.0f}"]
            for size in SIZES[1:]:
                for estimator in (RANDOM_SAMPLE, CORRECTED):
                    row.append(f"{find_value(cells, size, estimator, COVERED, position):.0f}")
            rows.append(row)
    header = ["log, metric", f"{SIZES[0]} users: `correct`, %"]
    for size in SIZES[1:]:
        header += [f"{size} users: random sample, %", f"{size} users: `correct`, %"]
    return markdown(header, rows)


def rankings_table(folder: Path = FOLDER) -> str:
    """Return the table of rankings: τ of three estimators with the same truth, for two metrics of every log."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        if not has_tau(cells):
            continue
        for label, position in log.metrics:
            row = [label]
            for size in SIZES[1:]:
                for estimator in (AOA_POOLED, RANDOM_SAMPLE, CORRECTED):
                    row.append(format_tau(find_value(cells, size, estimator, TAU, position)))
            rows.append(row)
    header = ["log, metric"]
    for size in SIZES[1:]:
        header += [f"{size} users: AOA", f"{size} users: random sample", f"{size} users: `correct`"]
    return markdown(header, rows)


def format_tau(tau: float) -> str:
    """Return τ with a minus sign that is not a hyphen."""
    return f"{tau:.2f}".replace("-", "−")


def logs_table(folder: Path = FOLDER) -> str:
    """Return the logs, and how often `correct` warns on them that its model does not explain exposure."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        warned = [cells[size, CORRECTED][WARNED] for size in SIZES]
        rows.append([log.label, log.content, log.n_items_shown, log.development, *warned])
    header = ["log", "content", "random items per exposed user", "used to develop `correct`?"]
    table = markdown([*header, *(f"warned, {size} users, %" for size in SIZES)], rows)
    return table.replace("| --- | --: | --: | --: |", "| --- | --- | --: | --- |", 1)  # text is left-aligned


def interactions_table(folder: Path = FOLDER) -> str:
    """Return the table of the error reduction without exposed users, from positives and from all interactions."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        if ("0", WITH_INTERACTIONS) not in cells:
            continue
        for label, position in log.metrics:
            row = [label]
            for estimator in (CORRECTED, WITH_INTERACTIONS):
                row.append(f"{find_reduction(cells, '0', estimator, position):.0f}")
            rows.append(row)
    return markdown(["log, metric", "reduction, positives only, %", "reduction, all interactions, %"], rows)


def exploring_table(folder: Path = FOLDER) -> str:
    """Return the table of logs with random positions: warnings and coverage of the correction."""
    by_share: dict[str, list[str]] = {}
    with (folder / f"{EXPLORING_FILE}.csv").open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            if line["estimator"] == CORRECTED:
                row = by_share.setdefault(line["random slots, %"], [])
                row += [line["warned, %"], line["coverage, %"]]
    header = ["random positions, %"]
    for size in SIZES:
        header += [f"warned, {size} users, %", f"coverage, {size} users, %"]
    return markdown(header, [[share, *row] for share, row in by_share.items()])


def tables(folder: Path = FOLDER) -> dict[str, str]:
    """Return the tables by the names of their places on the page."""
    return {
        VALUES: values_table(folder),
        COVERAGE: coverage_table(folder),
        RANKINGS: rankings_table(folder),
        EXPLORING: exploring_table(folder),
        INTERACTIONS: interactions_table(folder),
        WARNINGS: logs_table(folder),
    }


def draw(path: Path = FIGURE, folder: Path = FOLDER) -> None:
    """Draw the error reduction and Kendall's τ with 100 exposed users, for two metrics of every log."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    labels: list[str] = []
    reductions: dict[str, list[float]] = {RANDOM_SAMPLE: [], CORRECTED: []}
    taus: dict[str, list[float]] = {AOA_POOLED: [], RANDOM_SAMPLE: [], CORRECTED: []}
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        for label, position in log.metrics:
            labels.append(label)
            for estimator, values in reductions.items():
                values.append(find_reduction(cells, DRAWN_SIZE, estimator, position))
            for estimator, values in taus.items():
                tau = float("nan")
                if has_tau(cells):
                    tau = find_value(cells, DRAWN_SIZE, estimator, TAU, position)
                values.append(tau)

    with pyplot.rc_context({"svg.hashsalt": "correction-accuracy", "font.size": 9}):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
        draw_dots(left, reductions)
        draw_dots(right, taus)
        left.set_yticks(range(len(labels)), labels)
        left.invert_yaxis()
        left.set_xlim(70, 101)
        right.set_xlim(-0.2, 1)
        left.set_xlabel("share of the error of AOA that is removed, %")
        right.set_xlabel("Kendall's τ with the true ranking")
        for row, tau in enumerate(taus[CORRECTED]):
            if isnan(tau):
                right.text(0.4, row, "not stored", color="0.5", ha="center", va="center", backgroundcolor="w")
        for axes in (left, right):
            axes.grid(axis="y", linewidth=0.4)
            axes.spines[["top", "right"]].set_visible(False)
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def draw_dots(axes: Axes, values: dict[str, list[float]]) -> None:
    """Draw the values of each estimator, one row per log and metric."""
    for estimator, row in values.items():
        marker, color, label = MARKS[estimator]
        axes.plot(row, range(len(row)), marker, color=color, label=label, markersize=5, alpha=0.8)


def write_page() -> None:
    """Put the tables into the page, and draw its figure."""
    write_tables(tables(), PAGE)
    draw()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--write", action="store_true", help=f"put the tables and the figure into {PAGE.name}"
    )
    options = parser.parse_args()
    if options.write:
        write_page()
    else:
        deliver(tables(), None)


if __name__ == "__main__":
    main()
