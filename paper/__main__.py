"""Build the paper: read its numbers from the pages of the reproductions, draw its figure, run LaTeX.

    python -m paper             paper/build/paper.pdf; needs matplotlib, pdflatex and bibtex
    python -m paper --values    what LaTeX reads, without running it

No result stands in paper.tex. Each comes from a marked table of docs/reproductions.md or docs/validation.md,
which `python -m reproductions` and `python -m reproductions.validation` fill in.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

import ipseval

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
BUILD = HERE / "build"
MOST_PAGES = 4
# What the figure shows: row of the table -> label; exponents first, then what knows more than popularity.
WEIGHTS = {
    "gamma = 0": "γ = 0",
    "gamma = 1": "γ = 1",
    "gamma = 1.5": "γ = 1.5",
    "gamma = 2": "γ = 2",
    "gamma = 3": "γ = 3",
    "published": "published",
    "density ratio": "density ratio",
    "random-sample": "random sample",
}
METRICS = {"atop": "o", "recall@5": "s", "mean_dcg": "D"}
NUMBER = re.compile(r"[+−-]?\d+(?:\.\d+)?")

Table = dict[str, list[str]]


def table(page: str, name: str) -> Table:
    """Return a marked table of a page: the first cell of each row -> the others; "" -> the heading."""
    text = (DOCS / page).read_text("utf-8")
    found = re.search(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- /{re.escape(name)} -->", text, re.DOTALL)
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
    return [float(one.replace("−", "-")) for one in NUMBER.findall(text)]


def spread(name: str, cells: list[str], digits: int = 0, sign: int = 1) -> dict[str, str]:
    """Return the smallest and the largest first number of cells as two values for LaTeX."""
    found = [sign * numbers(cell)[0] for cell in cells]
    return {f"{name}Min": f"{min(found):.{digits}f}", f"{name}Max": f"{max(found):.{digits}f}"}


def values() -> dict[str, str]:
    """Return every number of the text, by the name that LaTeX uses."""
    right, wrong = table("validation.md", "world-right"), table("validation.md", "world-wrong")
    level = table("validation.md", "coat-snips-global")
    order = table("validation.md", "coat-order-snips-global")
    toy, yang = table("reproductions.md", "kr-toy"), table("reproductions.md", "yang-summary")
    metrics = slice(0, 6)  # the last column of the worlds is the effective sample size
    gap = toy[""].index("gap in SE")
    exact = toy[""].index("ours")
    ours = {key: cells for key, cells in yang.items() if key}
    off = [abs(numbers(cells[3])[0] - numbers(cells[1])[0]) for cells in ours.values()]
    return {
        "version": ipseval.__version__,
        **spread("worldGlobal", right["known, snips-global"][metrics], 1),
        **spread("worldUser", right["known, snips"][metrics]),
        **spread("wrongGlobal", wrong["known, item part, snips-global"][metrics]),
        **spread("coatOne", level["gamma = 1"]),
        **spread("coatTau", order["gamma = 1"], 2, sign=-1),
        **spread("coatSample", level["random-sample"]),
        "krLargest": f"{max(abs(numbers(cells[gap])[0]) for key, cells in toy.items() if key):.1f}",
        "krApExact": f"{numbers(toy['A, AP'][exact])[0]:.3f}",
        "krApBest": f"{numbers(toy['C, AP'][exact])[0]:.3f}",
        "yangLargest": f"{max(off):.1f}",
        "yangRows": str(len(ours)),
    }


def yang_table() -> str:
    """Return the table of the paper of Yang et al. for LaTeX: metrics as rows, recommenders as columns."""
    found = table("reproductions.md", "yang-summary")
    cells = {tuple(key.split(", ")): row for key, row in found.items() if key}
    metrics = list(dict.fromkeys(metric for metric, _ in cells))
    models = list(dict.fromkeys(model for _, model in cells))
    lines = [
        rf"\begin{{tabular}}{{l{'rr' * len(models)}}}",
        r"\toprule",
        " & ".join(["", *(rf"\multicolumn{{2}}{{c}}{{{model}}}" for model in models)]) + r"\\",
        " & ".join([r"\%", *["paper", "ours"] * len(models)]) + r"\\",
        r"\midrule",
    ]
    for metric in metrics:
        row = [f"{numbers(cells[metric, model][i])[0]:.1f}" for model in models for i in (1, 3)]
        name = metric.replace("_", r"\_")
        lines.append(" & ".join([rf"\code{{{name}}}", *(rf"${one}$" for one in row)]) + r"\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def figure() -> Figure:
    """Return the picture of level and order on Coat."""
    panels = {
        "coat-snips-global": "error of the level removed, %",
        "coat-order-snips-global": "change of Kendall's τ against the plain average",
    }
    mpl.rcParams.update({"font.size": 8, "svg.hashsalt": "ipseval", "pdf.fonttype": 42})
    drawn = Figure(figsize=(6.7, 2.5), layout="constrained")
    for axes, (name, label) in zip(drawn.subplots(1, 2, sharey=True), panels.items(), strict=True):
        found = table("validation.md", name)
        for shift, (metric, marker) in enumerate(METRICS.items()):
            column = found[""].index(metric)
            for place, row in enumerate(WEIGHTS):
                middle, low, high = numbers(found[row][column])[:3]
                where = place + (shift - 1) * 0.22
                axes.plot([low, high], [where, where], color="0.6", linewidth=1, zorder=1)
                axes.plot(
                    *(middle, where),
                    marker=marker,
                    color=("C0", "C1", "C2")[shift],
                    markersize=3.5,
                    linestyle="none",
                    label=metric if place == 0 else None,
                )
        axes.axvline(0, color="0.3", linewidth=0.8, linestyle=":")
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    drawn.axes[0].set_yticks(range(len(WEIGHTS)), list(WEIGHTS.values()))
    drawn.axes[0].invert_yaxis()
    drawn.axes[0].legend(frameon=False, loc="lower left", fontsize=7)
    return drawn


def write() -> None:
    """Write what LaTeX reads into paper/build."""
    BUILD.mkdir(exist_ok=True)
    lines = [rf"\newcommand{{\{name}}}{{{value}}}" for name, value in values().items()]
    (BUILD / "values.tex").write_text("\n".join(lines) + "\n", "utf-8")
    (BUILD / "yang.tex").write_text(yang_table(), "utf-8")
    figure().savefig(BUILD / "validation.pdf", metadata={"CreationDate": None})


def latex() -> Path:
    """Run LaTeX, return the PDF. A box that sticks out or an open reference is an error."""
    for program in ("pdflatex", "bibtex"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed; `python -m paper --values` needs no LaTeX")
    run = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-output-directory=build", "paper.tex"]
    for command in (run, ["bibtex", "build/paper"], run, run):
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed\n{done.stdout[-3000:]}")
    log = (BUILD / "paper.log").read_text("utf-8", errors="replace")
    wrong = re.findall(r"^(?:LaTeX Warning: (?:Citation|Reference).*|Overfull \\hbox.*)$", log, re.MULTILINE)
    pages = int(re.search(r"Output written on .*?\((\d+) pages?", log.replace("\n", " "))[1])
    if wrong or pages > MOST_PAGES:
        raise SystemExit("\n".join([f"{pages} pages of at most {MOST_PAGES}", *wrong]))
    return BUILD / "paper.pdf"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--values", action="store_true", help="write what LaTeX reads, and stop")
    options = parser.parse_args()
    write()
    print(BUILD if options.values else latex())


if __name__ == "__main__":
    main()
