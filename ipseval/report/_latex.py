"""LaTeX tables, for the packages booktabs and threeparttable."""

from __future__ import annotations

from itertools import groupby

from ipseval.report._escape import latex
from ipseval.report._tables import Cell, Code, Heading, Notes, Part, Picture, Table, Tables


def to_latex(tables: Tables) -> str:
    """Return the tables, those with the same columns as blocks of one; all remarks stand below the last."""
    remarks = [*tables.summary, *tables.warnings]
    remarks += [f"{one.name}: {' '.join(one.lines)}" for one in tables.verdict]
    remarks += tables.legend
    remarks += [note for part in tables.parts if isinstance(part, Notes) for note in part.lines]
    shown = [part for part in tables.parts if not isinstance(part, (Notes, Picture))]
    lines: list[str] = []
    runs = [list(run) for _, run in groupby(shown, key=_columns)]
    last = max((place for place, run in enumerate(runs) if isinstance(run[0], Table)), default=-1)
    for place, run in enumerate(runs):
        blocks = [part for part in run if isinstance(part, Table)]
        if blocks:
            below = [line.strip() for block in blocks for line in block.below]
            lines += _tabular(blocks, [*dict.fromkeys(below), *(remarks if place == last else ())])
        else:
            lines += [_words(part) for part in run]
    if last < 0:
        lines += [latex(remark) + r"\par" for remark in remarks]
    return "\n".join(lines) + "\n"


def _columns(part: Part) -> tuple[str, ...]:
    return part.header[1:] if isinstance(part, Table) else ()


def _words(part: Part) -> str:
    if isinstance(part, Heading):
        return rf"\paragraph{{{latex(part.text)}}}"
    if isinstance(part, Code):
        return "\n".join(latex(line) + r"\par" for line in (part.name, *part.text.split("\n")))
    return latex(part) + r"\par"


def _tabular(blocks: list[Table], notes: list[str]) -> list[str]:
    header, words = blocks[0].header, blocks[0].words
    letters = "".join("l" if place in words else "r" for place in range(len(header)))
    named = any(block.title for block in blocks)
    first = "" if named and blocks[0].n_keys == 1 else latex(header[0])
    lines = [r"\begin{threeparttable}", rf"\begin{{tabular}}{{{letters}}}", r"\toprule"]
    lines.append(" & ".join([first, *map(latex, header[1:])]) + r" \\")
    for block in blocks:
        lines.append(r"\midrule")
        if block.title:
            lines.append(rf"\multicolumn{{{len(header)}}}{{l}}{{\emph{{{latex(block.title)}}}}} \\")
        lines += [" & ".join(map(_cell, row)) + r" \\" for row in block.rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if notes:
        lines += [
            r"\begin{tablenotes}\footnotesize",
            *(rf"\item {latex(note)}" for note in notes),
            r"\end{tablenotes}",
        ]
    return [*lines, r"\end{threeparttable}"]


def _cell(cell: Cell) -> str:
    text = rf"\textbf{{{latex(cell.text)}}}" if cell.strong else latex(cell.text)
    return " ".join(filter(None, (text, latex(cell.error)))) + latex(cell.mark)
