"""The five tables in the text of docs/correction-accuracy.md, computed from docs/tables/correction-accuracy.

    python -m reproductions.correction_summary [--write]

`reproductions.correction_truth`, `reproductions.cm100k` and `reproductions.exploring_logs` make those tables. A
cell of theirs holds a number for each metric; the tables here have one number in a cell, for the whole ranking
(atop) and for recall at a cut-off.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

from ipseval.correction import CORRECTED, RANDOM_SAMPLE
from ipseval.estimators.labels import AOA_POOLED
from ipseval.validation._curve import WITH_INTERACTIONS
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "correction-accuracy.md"
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
ATOP, RECALL = 0, 1  # positions in a cell
MISSING = "–"

Cells = dict[tuple[str, str], dict[str, str]]


@dataclass(frozen=True)
class Log:
    """A log with a known or measured truth."""

    label: str
    table: str
    recall: str


LOGS = (
    Log("KuaiRand", "truth-kuairand", "recall@10"),
    Log("Coat", "truth-coat", "recall@5"),
    Log("CM100K", "truth-cm100k", "recall@10"),
    Log("simulator 1", "truth-first", "recall@5"),
    Log("simulator 2", "truth-second", "recall@5"),
)


def read_cells(path: Path) -> Cells:
    """Return the cells of a table by exposed users and estimator."""
    with path.open(encoding="utf-8", newline="") as lines:
        return {(row["exposed users"], row["estimator"]): row for row in csv.DictReader(lines)}


def find_value(cells: Cells, size: str, estimator: str, column: str, position: int) -> float:
    """Return the number of one metric in a cell."""
    return float(cells[size, estimator][column].split()[position])


def format_reduction(cells: Cells, size: str, estimator: str, position: int) -> str:
    """Return the share of the error of AOA that an estimator removes, in %."""
    if (size, estimator) not in cells:
        return MISSING
    if "error reduction, %" in cells[size, estimator]:
        return f"{find_value(cells, size, estimator, 'error reduction, %', position):.0f}"
    error = find_value(cells, size, estimator, "mean absolute error", position)
    aoa_error = find_value(cells, size, AOA_POOLED, "mean absolute error", position)
    return f"{100 * (1 - error / aoa_error):.0f}"


def format_values(label: str, cells: Cells, position: int) -> list[str]:
    """Return a row: the error reduction of the correction and of the random sample, with exposed users."""
    row = [label]
    for size in SIZES[1:]:
        row.append(format_reduction(cells, size, CORRECTED, position))
        row.append(format_reduction(cells, size, RANDOM_SAMPLE, position))
    return row


def format_coverage(label: str, cells: Cells, position: int) -> list[str]:
    """Return a row: the coverage of the correction."""
    row = [label]
    for size in SIZES:
        row.append(f"{find_value(cells, size, CORRECTED, 'coverage, %', position):.0f}")
    return row


def format_rankings(label: str, cells: Cells, position: int) -> list[str]:
    """Return a row: Kendall's τ of AOA and of the correction."""
    row = [label, f"{find_value(cells, '0', AOA_POOLED, 'Kendall τ', position):.2f}"]
    for size in SIZES:
        row.append(f"{find_value(cells, size, CORRECTED, 'Kendall τ', position):.2f}")
    return row


def values_table(folder: Path = FOLDER) -> str:
    """Return the table of metric values: two metrics of every log."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        rows.append(format_values(f"{log.label}, atop", cells, ATOP))
        rows.append(format_values(f"{log.label}, {log.recall}", cells, RECALL))
    header = ["log, metric"]
    for size in SIZES[1:]:
        header += [f"`correct`, {size} users, %", f"random sample, {size} users, %"]
    return markdown(header, rows)


def coverage_table(folder: Path = FOLDER) -> str:
    """Return the table of the coverage of intervals: two metrics of every log."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        rows.append(format_coverage(f"{log.label}, atop", cells, ATOP))
        rows.append(format_coverage(f"{log.label}, {log.recall}", cells, RECALL))
    return markdown(["log, metric", *(f"{size} users, %" for size in SIZES)], rows)


def rankings_table(folder: Path = FOLDER) -> str:
    """Return the table of rankings: two metrics of every log whose true ranking is known."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        if "Kendall τ" in cells["0", CORRECTED]:
            rows.append(format_rankings(f"{log.label}, atop", cells, ATOP))
            rows.append(format_rankings(f"{log.label}, {log.recall}", cells, RECALL))
    header = ["log, metric", "τ of AOA", *(f"τ of the correction, {size} users" for size in SIZES)]
    return markdown(header, rows)


def warnings_table(folder: Path = FOLDER) -> str:
    """Return the share of corrections that warn that the density ratio does not explain exposure, by log."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        rows.append([log.label, *(cells[size, CORRECTED][WARNED] for size in SIZES)])
    return markdown(["log", *(f"{size} users, %" for size in SIZES)], rows)


def interactions_table(folder: Path = FOLDER) -> str:
    """Return the table of the error reduction without exposed users, from positives and from all interactions."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        if ("0", WITH_INTERACTIONS) not in cells:
            continue
        for label, position in (("atop", ATOP), (log.recall, RECALL)):
            positives = format_reduction(cells, "0", CORRECTED, position)
            interactions = format_reduction(cells, "0", WITH_INTERACTIONS, position)
            rows.append([f"{log.label}, {label}", positives, interactions])
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
        WARNINGS: warnings_table(folder),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args()
    deliver(tables(), PAGE if options.write else None)


if __name__ == "__main__":
    main()
