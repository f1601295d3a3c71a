"""Refresh the numbers of paper.md from the pages of the reproductions, draw its figure, and make the PDF.

    python -m paper             writes paper.md, kuairand.pdf, build/paper.pdf; needs matplotlib, pandoc, TeX
    python -m paper --numbers   writes paper.md alone

No result is typed into paper.md. Each stands between comments that name it, and comes from a marked table of
a page in docs/, which a command of `reproductions` fills in.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAPER = HERE / "paper.md"
DOCS = HERE.parent / "docs"
MOST_WORDS = 1000
NUMBER = re.compile(r"[+−-]?\d+(?:\.\d+)?")
MARK = re.compile(r"<!-- (\w+) -->.*?<!-- / -->", re.DOTALL)

Table = dict[str, list[str]]


def table(page: str, name: str) -> Table:
    """Return a table of a page: the first cell of each row -> the others; "" -> the heading.

    The page contains the table between marks, or links to the CSV file of the table.
    """
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- /{re.escape(name)} -->", text, re.DOTALL)
    file = f"tables/{Path(page).stem}/{name}.csv"
    if f"({file})" in text:
        with (DOCS / file).open(encoding="utf-8", newline="") as lines:
            csv_rows = list(csv.reader(lines))
        return {"": csv_rows[0][1:]} | {row[0]: row[1:] for row in csv_rows[1:]}
    if not found:
        raise SystemExit(f"{page} has no table {name}")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in found[1].splitlines()
        if line.startswith("|")
    ]
    return {"": rows[0][1:]} | {row[0]: row[1:] for row in rows[2:]}


def numbers(text: str) -> list[float]:
    """Return the numbers in a cell."""
    return [float(one.replace("−", "-").replace(",", "")) for one in NUMBER.findall(text)]


def truth(page: str, name: str) -> dict[tuple[str, str], list[str]]:
    """Return a table of the correction: (exposed users, estimator) -> the other cells."""
    with (DOCS / "tables" / Path(page).stem / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        csv_rows = list(csv.reader(lines))
    return {(row[0], row[1]): row[2:] for row in csv_rows[1:]}


def spread(cells: list[str], digits: int = 0, sign: int = 1) -> str:
    """Return the smallest and the largest first number of cells, in words."""
    found = [sign * numbers(cell)[0] for cell in cells]
    return f"{min(found):.{digits}f} to {max(found):.{digits}f}"


def total(rows: list[list[str]], cell: int, place: int) -> str:
    """Return the sum of one number of a cell over rows, such as of 12 in "12 of 30"."""
    return f"{sum(numbers(row[cell])[place] for row in rows):.0f}"


def values() -> dict[str, str]:
    """Return every number of the text, by its name."""
    level, order = (
        table("validation.md", "coat-snips-global"),
        table("validation.md", "coat-order-snips-global"),
    )
    toy, yang = table("reproductions.md", "kr-toy"), table("reproductions.md", "yang-summary")
    kuairand = table("validation.md", "order-kuairand")
    gamma = table("validation.md", "gamma-by-exposure")
    corrected = truth("correction-accuracy.md", "truth-kuairand")
    board = [cells for size, cells in table("reproductions.md", "leaderboard-sizes").items() if size]
    small = board[:2]  # gains below 5 %
    gap = toy[""].index("gap in SE")
    off = [abs(numbers(cells[3])[0] - numbers(cells[1])[0]) for key, cells in yang.items() if key]
    plain = {name: numbers(cells[0])[0] for name, cells in kuairand.items() if name}
    shown = {name: numbers(cells[2])[:2] for name, cells in kuairand.items() if name}
    with_25, with_none = (corrected[users, "corrected"] for users in ("25", "0"))
    return {
        "easePlain": f"{plain['EASE 500']:.2f}",
        "popularPlain": f"{plain['popularity']:.2f}",
        "easeTruth": "{:.3f} ± {:.3f}".format(*shown["EASE 500"]),
        "popularTruth": "{:.3f} ± {:.3f}".format(*shown["popularity"]),
        "gammaKuairand": gamma["KuaiRand, n\\* ≥ 1"][2],
        "gammaCoat": gamma["Coat, n\\* ≥ 1"][2],
        "coverage25": f"{min(numbers(with_25[1])):.0f}",
        "removed25": f"{min(numbers(with_25[0])):.0f}",
        "width0": f"{max(numbers(with_none[3])):.2f}",
        "boardPairs": total(board, 0, 0),
        "boardTold": total(board, 1, 0),
        "boardTurned": total(board, 3, 0),
        "boardKept": total(board, 4, 0),
        "boardSmall": f"{total(small, 4, 0)} of {total(small, 4, 1)}",
        "boardSure": total(board, 5, 0),
        "krLargest": f"{max(abs(numbers(cells[gap])[0]) for key, cells in toy.items() if key):.1f}",
        "yangLargest": f"{max(off):.1f}",
        "yangRows": str(len(off)),
        "coatOne": spread(level["gamma = 1"]),
        "coatTau": spread(order["gamma = 1"], 2, sign=-1),
    }


def refreshed(text: str, found: dict[str, str]) -> str:
    """Return the paper with its numbers."""
    return MARK.sub(lambda match: f"<!-- {match[1]} -->{found[match[1]]}<!-- / -->", text)


def words(text: str) -> int:
    """Return the number of words, without the heading of the file, comments and the list of references."""
    body = text.split("---\n", 2)[2].split("# References")[0]
    return len(re.sub(r"<!--.*?-->|\$\$.*?\$\$", "", body, flags=re.DOTALL).split())


def draw(path: Path) -> None:
    """Draw the order of recommenders on KuaiRand by the plain average, and by random exposure."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    found = {name: cells for name, cells in table("validation.md", "order-kuairand").items() if name}
    mpl.rcParams.update({"font.size": 8, "pdf.fonttype": 42})
    drawn = Figure(figsize=(6.5, 2.3), layout="constrained")
    for axes, place, title in zip(
        drawn.subplots(1, 2), (0, 2), ("the log says", "random exposure says"), strict=True
    ):
        shown = sorted(
            ((numbers(cells[place])[:2], name) for name, cells in found.items()), key=lambda one: one[0][0]
        )
        for height, ((middle, *half), name) in enumerate(shown):
            axes.errorbar(
                middle, height, xerr=half or None, fmt="o", markersize=4, color=f"C{list(found).index(name)}"
            )
        axes.set_yticks(range(len(shown)), [name for _, name in shown])
        axes.set_title(title, loc="left")
        axes.set_xlabel("share of items that a liked one beats (atop)")
        axes.spines[["top", "right"]].set_visible(False)
    drawn.savefig(path, metadata={"CreationDate": None})


def pdf() -> Path:
    """Run pandoc and LaTeX, return the PDF."""
    for program in ("pandoc", "pdflatex"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed; `python -m paper --numbers` needs neither")
    made = HERE / "build" / "paper.pdf"
    made.parent.mkdir(exist_ok=True)
    options = ["--citeproc", "--number-sections", "-V", "geometry:margin=27mm", "-V", "fontsize=10pt"]
    subprocess.run(["pandoc", "paper.md", *options, "-o", str(made)], cwd=HERE, check=True)
    return made


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--numbers", action="store_true", help="write paper.md, and stop")
    options = parser.parse_args()
    text = refreshed(PAPER.read_text("utf-8"), values())
    if words(text) > MOST_WORDS:
        raise SystemExit(f"{words(text)} words of at most {MOST_WORDS}")
    PAPER.write_text(text, "utf-8")
    if options.numbers:
        print(PAPER)
        return
    draw(HERE / "kuairand.pdf")
    print(pdf())


if __name__ == "__main__":
    main()
