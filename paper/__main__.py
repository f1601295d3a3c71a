"""Refresh the numbers of paper.md from the pages of the documentation, draw its figure, and make the PDF.

    python -m paper             writes paper.md, evaluators.pdf, build/paper.pdf; needs matplotlib, pandoc, TeX
    python -m paper --numbers   writes paper.md alone

No result is typed into paper.md. Each stands between comments that name it, and comes from a table in docs/,
which a command of `reproductions` makes.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAPER = HERE / "paper.md"
DOCS = HERE.parent / "docs"
MOST_WORDS = 1000
NUMBER = re.compile(r"[+−-]?\d+(?:\.\d+)?")
MARK = re.compile(r"<!-- (\w+) -->.*?<!-- / -->", re.DOTALL)
LOGS = {"coat": "Coat", "cm100k": "CM100K", "kuairand": "KuaiRand"}
# Evaluators of the figure: their label in the benchmark and their label in the figure.
DRAWN_EVALUATORS = {
    "AOA": "AOA",
    "SNIPS pooled, γ = 0": "SNIPS, γ = 0",
    "SNIPS pooled, γ = 1.55 (published)": "SNIPS, γ = 1.55 (published)",
    "SNIPS pooled, γ of exposure (100 users)": "SNIPS, γ from random exposure",
    "SNIPS pooled, density ratio (100 users)": "SNIPS, density ratio",
    "random sample (100 users)": "random sample",
    "ppi (100 users)": "prediction-powered",
    "correct (100 users)": "correct",
}

Table = dict[str, list[str]]
Scores = dict[tuple[str, str], dict[str, float]]


def read_table(page: str, name: str) -> Table:
    """Return a table of a page: the first cell of each row -> the others; "" -> the heading.

    The page contains the table between marks, or links to the CSV file of the table.
    """
    text = (DOCS / page).read_text("utf-8")
    match = re.search(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- /{re.escape(name)} -->", text, re.DOTALL)
    file = f"tables/{Path(page).stem}/{name}.csv"
    if f"({file})" in text:
        with (DOCS / file).open(encoding="utf-8", newline="") as lines:
            csv_rows = list(csv.reader(lines))
        return {"": csv_rows[0][1:]} | {row[0]: row[1:] for row in csv_rows[1:]}
    if not match:
        raise SystemExit(f"{page} has no table {name}")
    rows = []
    for line in match[1].splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return {"": rows[0][1:]} | {row[0]: row[1:] for row in rows[2:]}


def read_scores() -> Scores:
    """Return the scores of the evaluators: (log, evaluator) -> means over metrics of the numeric columns."""
    by_evaluator: dict[tuple[str, str], list[dict[str, str]]] = {}
    with (DOCS / "tables/evaluators/scores.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            by_evaluator.setdefault((row["log"], row["evaluator"]), []).append(row)
    scores: Scores = {}
    for key, rows in by_evaluator.items():
        scores[key] = {}
        for column in ("relative_error", "sign_errors", "coverage"):
            cells = [row[column] for row in rows]
            if all(cells):
                scores[key][column] = sum(float(cell) for cell in cells) / len(cells)
    return scores


def read_reductions(estimator: str) -> list[float]:
    """Return the reduction of the error of recall@10 by designed exposure in each source and size, in %."""
    reductions = []
    with (DOCS / "tables/designed-exposure/designed-recall.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["estimator"] == estimator:
                reductions.append(parse_numbers(row["reduction, %"])[0])
    return reductions


def parse_numbers(text: str) -> list[float]:
    """Return the numbers in a cell."""
    return [float(number.replace("−", "-").replace(",", "")) for number in NUMBER.findall(text)]


def format_range(values: Iterable[float], unit: str = "", digits: int = 0) -> str:
    """Return the smallest and the largest value, in words."""
    ordered = sorted(values)
    return f"{ordered[0]:.{digits}f}{unit} to {ordered[-1]:.{digits}f}{unit}"


def add_up(rows: list[list[str]], cell: int, place: int) -> str:
    """Return the sum of one number of a cell over rows, such as of 12 in "12 of 30"."""
    return f"{sum(parse_numbers(row[cell])[place] for row in rows):.0f}"


def collect_values() -> dict[str, str]:
    """Return every number of the text, by its name."""
    return collect_exposure_values() | collect_leaderboard_values() | collect_reproduced_values()


def collect_exposure_values() -> dict[str, str]:
    """Return the numbers of the section on random exposure."""
    gamma = read_table("validation.md", "cm100k-gamma")
    scores = read_scores()
    weighted_coverage = []
    for (_, evaluator), values in scores.items():
        if evaluator.startswith(("SNIPS", "IPS")) and "coverage" in values:
            weighted_coverage.append(100 * values["coverage"])
    errors_of_correct = [100 * scores[log, "correct (100 users)"]["relative_error"] for log in LOGS]
    errors_of_sample = [100 * scores[log, "random sample (100 users)"]["relative_error"] for log in LOGS]
    pooled = scores["kuairand", "SNIPS pooled, γ = 1.55 (published)"]
    return {
        "gammaCoat": " ".join(gamma["Coat"][1:]),
        "gammaKuairand": " ".join(gamma["KuaiRand"][1:]),
        "gammaCm100k": " ".join(gamma["CM100K"][1:]),
        "evaluatorCount": str(len({evaluator for _, evaluator in scores})),
        "correctRange": format_range(errors_of_correct, "%"),
        "sampleRange": format_range(errors_of_sample, "%"),
        "aoaSigns": f"{100 * scores['kuairand', 'AOA']['sign_errors']:.0f}%",
        "pooledSigns": f"{100 * pooled['sign_errors']:.0f}%",
        "weightedCoverage": format_range(weighted_coverage, "%"),
        "designSample": format_range(read_reductions("random-sample"), "%"),
        "designCorrect": format_range(read_reductions("corrected"), "%"),
    }


def collect_leaderboard_values() -> dict[str, str]:
    """Return the numbers of the section on leaderboards."""
    sizes = read_table("reproductions.md", "leaderboard-sizes")
    rows = [cells for size, cells in sizes.items() if size]
    small_gains = rows[:2]  # gains of up to 5%
    return {
        "boardPairs": add_up(rows, 0, 0),
        "boardTold": add_up(rows, 1, 0),
        "boardTurned": add_up(rows, 3, 0),
        "boardKept": add_up(rows, 4, 0),
        "boardSmall": f"{add_up(small_gains, 4, 0)} of {add_up(small_gains, 4, 1)}",
    }


def collect_reproduced_values() -> dict[str, str]:
    """Return the numbers of the section on quality and limits."""
    toy = read_table("reproductions.md", "kr-toy")
    yang = read_table("reproductions.md", "yang-summary")
    level = read_table("validation.md", "coat-snips-global")
    order = read_table("validation.md", "coat-order-snips-global")
    gap_column = toy[""].index("gap in SE")
    gaps = [abs(parse_numbers(cells[gap_column])[0]) for key, cells in toy.items() if key]
    deviations = [
        abs(parse_numbers(cells[3])[0] - parse_numbers(cells[1])[0]) for key, cells in yang.items() if key
    ]
    return {
        "krLargest": f"{max(gaps):.1f}",
        "yangLargest": f"{max(deviations):.1f}",
        "yangRows": str(len(deviations)),
        "coatOne": format_range(parse_numbers(cell)[0] for cell in level["gamma = 1"]),
        "coatTau": format_range((-parse_numbers(cell)[0] for cell in order["gamma = 1"]), digits=2),
    }


def refresh(text: str, values: dict[str, str]) -> str:
    """Return the paper with its numbers."""
    return MARK.sub(lambda match: f"<!-- {match[1]} -->{values[match[1]]}<!-- / -->", text)


def count_words(text: str) -> int:
    """Return the number of words, without the heading of the file, comments and the list of references."""
    body = text.split("---\n", 2)[2].split("# References")[0]
    return len(re.sub(r"<!--.*?-->|\$\$.*?\$\$", "", body, flags=re.DOTALL).split())


def draw(path: Path) -> None:
    """Draw the error of evaluators relative to AOA, on each log."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    scores = read_scores()
    mpl.rcParams.update({"font.size": 8, "pdf.fonttype": 42})
    figure = Figure(figsize=(6.5, 2.2), layout="constrained")
    panels = figure.subplots(1, len(LOGS), sharey=True)
    positions = range(len(DRAWN_EVALUATORS))
    for axes, (log, title) in zip(panels, LOGS.items(), strict=True):
        errors = [100 * scores[log, evaluator]["relative_error"] for evaluator in DRAWN_EVALUATORS]
        axes.barh(positions, errors, color="0.6")
        for position, error in zip(positions, errors, strict=True):
            axes.text(error + 2, position, f"{error:.0f}", va="center")
        axes.set_xlim(0, 118)
        axes.set_title(title, loc="left")
        axes.set_xlabel("error, % of that of AOA")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(positions, list(DRAWN_EVALUATORS.values()))
    panels[0].invert_yaxis()
    figure.savefig(path, metadata={"CreationDate": None})


def make_pdf() -> Path:
    """Run pandoc and LaTeX, and return the PDF."""
    for program in ("pandoc", "pdflatex"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed; `python -m paper --numbers` needs neither")
    path = HERE / "build" / "paper.pdf"
    path.parent.mkdir(exist_ok=True)
    options = ["--citeproc", "--number-sections", "-V", "geometry:margin=27mm", "-V", "fontsize=10pt"]
    subprocess.run(["pandoc", "paper.md", *options, "-o", str(path)], cwd=HERE, check=True)
    return path


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--numbers", action="store_true", help="write paper.md, and stop")
    options = parser.parse_args()
    text = refresh(PAPER.read_text("utf-8"), collect_values())
    n_words = count_words(text)
    if n_words > MOST_WORDS:
        raise SystemExit(f"{n_words} words of at most {MOST_WORDS}")
    PAPER.write_text(text, "utf-8")
    if options.numbers:
        print(PAPER)
        return
    draw(HERE / "evaluators.pdf")
    print(make_pdf())


if __name__ == "__main__":
    main()
