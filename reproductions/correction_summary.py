"""The table at the head of docs/correction.md, computed from the tables in docs/tables/correction.

    python -m reproductions.correction_summary [--write]

`reproductions.correction_truth` and `reproductions.cm100k` make those tables. A cell of theirs holds a number
for each metric; this table has the whole ranking (ATOP) and recall at a cut-off.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

from ipseval.correction import CORRECTED, RANDOM_SAMPLE
from ipseval.estimators.labels import AOA_POOLED
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "correction.md"
FOLDER = ROOT / "docs" / "tables" / "correction"
NAME = "correction-summary"
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


def format_row(label: str, cells: Cells, position: int) -> tuple[str, ...]:
    """Return a row: values with 0, 25 and 100 exposed users in each cell."""
    corrected = [format_reduction(cells, size, CORRECTED, position) for size in SIZES]
    sample = [format_reduction(cells, size, RANDOM_SAMPLE, position) for size in SIZES]
    covered = [f"{find_value(cells, size, CORRECTED, 'coverage, %', position):.0f}" for size in SIZES]
    if "Kendall τ" in cells["0", CORRECTED]:
        aoa_order = f"{find_value(cells, '0', AOA_POOLED, 'Kendall τ', position):.2f}"
        taus = [f"{find_value(cells, size, CORRECTED, 'Kendall τ', position):.2f}" for size in SIZES]
    else:
        aoa_order = MISSING
        taus = [MISSING]
    return (label, ", ".join(corrected), ", ".join(sample), ", ".join(covered), aoa_order, ", ".join(taus))


def table(folder: Path = FOLDER) -> str:
    """Return the table: two metrics of every log."""
    rows = []
    for log in LOGS:
        cells = read_cells(folder / f"{log.table}.csv")
        rows.append(format_row(f"{log.label}, ATOP", cells, ATOP))
        rows.append(format_row(f"{log.label}, {log.recall}", cells, RECALL))
    header = (
        "log, metric",
        "error reduction, bias-corrected, %",
        "error reduction, random sample, %",
        "coverage, bias-corrected, %",
        "τ of AOA",
        "τ, bias-corrected",
    )
    return markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    deliver({NAME: table()}, PAGE if options.write else None)


if __name__ == "__main__":
    main()
