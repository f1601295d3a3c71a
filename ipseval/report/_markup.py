"""Markdown and LaTeX tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ipseval.inference import Correction
from ipseval.report._table import Cell, arrow, footnotes, leaderboards

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "Σ": r"$\Sigma$",
    "γ": r"$\gamma$",
    "<": r"$<$",
    ">": r"$>$",
    "–": "--",
}


def to_markdown(evaluation: Evaluation, *, correction: Correction = "holm", digits: int = 4) -> str:
    """Return one Markdown table per metric, then how to read them and what is claimed."""
    blocks = []
    for board in leaderboards(evaluation, correction=correction):
        rows = [[_markdown_escape(board.metric), *board.estimators]]
        rows.append(["---", *["---:"] * len(board.estimators)])
        for model, cells in board.cells.items():
            shown = [_cell(cells[label], digits, "**{}**") for label in board.estimators]
            rows.append([_markdown_escape(model), *shown])
        blocks.append("\n".join("| " + " | ".join(row) + " |" for row in rows))
    notes = [f"- {_markdown_escape(note)}" for note in footnotes(evaluation, correction=correction)]
    return "\n\n".join([*blocks, "\n".join(notes)]) + "\n"


def to_latex(evaluation: Evaluation, *, correction: Correction = "holm", digits: int = 4) -> str:
    """Return a LaTeX table (packages booktabs and threeparttable): metrics as blocks of rows."""
    boards = leaderboards(evaluation, correction=correction)
    labels = boards[0].estimators
    lines = [
        r"\begin{threeparttable}",
        rf"\begin{{tabular}}{{l{'r' * len(labels)}}}",
        r"\toprule",
        " & ".join(["", *(_latex_escape(label) for label in labels)]) + r" \\",
    ]
    for board in boards:
        lines.append(r"\midrule")
        lines.append(rf"\multicolumn{{{len(labels) + 1}}}{{l}}{{\emph{{{_latex_escape(board.metric)}}}}} \\")
        for model, cells in board.cells.items():
            shown = [_latex_cell(cells[label], digits) for label in labels]
            lines.append(" & ".join([_latex_escape(model), *shown]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\begin{tablenotes}\footnotesize"]
    lines += [rf"\item {_latex_escape(note)}" for note in footnotes(evaluation, correction=correction)]
    lines += [r"\end{tablenotes}", r"\end{threeparttable}"]
    return "\n".join(lines) + "\n"


def _cell(cell: Cell, digits: int, bold: str) -> str:
    if np.isnan(cell.value):
        return "undefined"
    number = f"{cell.value:.{digits}f}"
    number = bold.format(number) if cell.best else number
    error = "" if np.isnan(cell.std_error) else f" ± {cell.std_error:.{digits}f}"
    marks = ("†" if cell.below_best else "") + (f" {arrow(cell.moved)}" if cell.moved else "")
    return number + error + marks


def _latex_cell(cell: Cell, digits: int) -> str:
    text = _latex_escape(_cell(cell, digits, "{}"))
    if not cell.best:
        return text
    number = f"{cell.value:.{digits}f}"
    return text.replace(number, rf"\textbf{{{number}}}", 1)


def _latex_escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _markdown_escape(text: str) -> str:
    """Return text whose characters cannot end a table cell, or begin markup or an HTML tag."""
    for character in "\\`*_|[]<>":
        text = text.replace(character, f"\\{character}" if character not in "<>" else character)
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")
