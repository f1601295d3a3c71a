"""Markdown and LaTeX, and what users wrote made safe for each language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from ipseval.reporting.tables import (
    LEADING,
    VERDICT,
    Cell,
    Code,
    Heading,
    Notes,
    Part,
    Picture,
    Table,
    Tables,
)

# Characters that move a cursor, recolour, end a line, turn the direction of writing, or cannot be encoded.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# An underscore within a word is none to Markdown.
_MARKDOWN = re.compile(r"([\\`*|\[\]~#$]|(?<![^\W_])_|_(?![^\W_]))")
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
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    # At the start of a row they would be an argument of the `\\` before it; in `\item` its label.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "√": r"$\surd$",
    "∝": r"$\propto$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "∞": r"$\infty$",
    "†": r"$^\dagger$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "Σ": r"$\Sigma$",
    "Λ": r"$\Lambda$",
    "γ": r"$\gamma$",
    "η": r"$\eta$",
    "τ": r"$\tau$",
    "ρ": r"$\rho$",
}


def escape_controls(text: object, *, keep: str = "") -> str:
    r"""Return text whose control characters, turns of direction and lone surrogates are shown as codes.

    `keep` holds characters that stay as they are, such as the line breaks of a whole table.

    Examples
    --------
    >>> print(visible("als\x1b[31m"))
    als\x1b[31m
    """

    def code(found: re.Match[str]) -> str:
        character = found.group()
        return character if character in keep else character.encode("unicode_escape").decode("ascii")

    return _HIDDEN.sub(code, str(text))


def escape_markdown(text: object) -> str:
    """Return text that cannot end a table cell, or begin markup, mathematics or an HTML tag."""
    escaped = _MARKDOWN.sub(r"\\\1", escape_controls(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_latex(text: object) -> str:
    """Return text in which no character is a command, in the default encoding of LaTeX."""
    # Two hyphens would be drawn as one dash.
    shown = "".join(
        _LATEX.get(character, character) for character in escape_controls(text).replace("--", "-\0-")
    )
    return shown.replace("\0", "{}")


def escape_formula(value: object) -> object:
    """Return text that a spreadsheet would run as a formula with an apostrophe before it.

    Examples
    --------
    >>> csv_cell("=cmd|x"), csv_cell("als"), csv_cell(-0.5)
    ("'=cmd|x", 'als', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def to_markdown(tables: Tables) -> str:
    """Return the tables with what was computed above, and notes below; names cannot become markup."""
    blocks = [f"# {escape_markdown(tables.title)}"] if tables.title else []
    remarks = {
        one: f"**{escape_markdown(one.name)}.** {escape_markdown(' '.join(one.lines))}"
        for one in tables.verdict
    }
    blocks += [escape_markdown(line) for line in tables.summary]
    blocks += [text for one, text in remarks.items() if one.name in LEADING]
    blocks += [f"**{escape_markdown(line)}**" for line in tables.warnings]
    blocks += [_part(part) for part in tables.parts]
    blocks += [text for one, text in remarks.items() if one.name not in LEADING]
    blocks.append(_bullets(tables.legend))
    return "\n\n".join(filter(None, blocks)) + "\n"


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return "\n\n".join(filter(None, ("\n".join(_table(part)), _bullets(part.below))))
    if isinstance(part, Notes):
        return _bullets(part.lines)
    if isinstance(part, Heading):
        return f"{'#' * part.level} {escape_markdown(part.text)}"
    if isinstance(part, Code):
        body = "\n".join(f"    {escape_controls(line)}" for line in part.text.split("\n"))
        return f"{escape_markdown(part.name)}\n\n{body}"
    return "" if isinstance(part, Picture) else escape_markdown(part)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(line.strip())}" for line in lines)


def _table(table: Table) -> list[str]:
    header = [escape_markdown(name) for name in table.header]
    header[0] = escape_markdown(table.title) or header[0]
    rules = ["---" if place in table.words else "---:" for place in range(len(header))]
    rows = [header, rules, *([_cell(cell) for cell in row] for row in table.rows)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _cell(cell: Cell) -> str:
    text = f"**{escape_markdown(cell.text)}**" if cell.strong else escape_markdown(cell.text)
    return " ".join(filter(None, (text, escape_markdown(cell.error), cell.mark)))


def to_latex(tables: Tables) -> str:
    """Return the tables, those with the same columns as blocks of one; all remarks stand below the last."""
    ordered = sorted(tables.verdict, key=lambda one: one.name != VERDICT)
    remarks = [f"{one.name}: {' '.join(one.lines)}" for one in ordered]
    remarks = [*remarks[:1], *tables.summary, *tables.warnings, *remarks[1:]]
    remarks += tables.legend
    remarks += [note for part in tables.parts if isinstance(part, Notes) for note in part.lines]
    shown = [part for part in tables.parts if not isinstance(part, (Notes, Picture))]
    lines: list[str] = []
    runs = [list(run) for _, run in groupby(shown, key=_latex_columns)]
    last = max((place for place, run in enumerate(runs) if isinstance(run[0], Table)), default=-1)
    for place, run in enumerate(runs):
        blocks = [part for part in run if isinstance(part, Table)]
        if blocks:
            below = [line.strip() for block in blocks for line in block.below]
            lines += _tabular(blocks, [*dict.fromkeys(below), *(remarks if place == last else ())])
        else:
            lines += [_latex_words(part) for part in run]
    if last < 0:
        lines += [escape_latex(remark) + r"\par" for remark in remarks]
    return "\n".join(lines) + "\n"


def _latex_columns(part: Part) -> tuple[str, ...]:
    return part.header[1:] if isinstance(part, Table) else ()


def _latex_words(part: Part) -> str:
    if isinstance(part, Heading):
        return rf"\paragraph{{{escape_latex(part.text)}}}"
    if isinstance(part, Code):
        return "\n".join(escape_latex(line) + r"\par" for line in (part.name, *part.text.split("\n")))
    return escape_latex(part) + r"\par"


def _tabular(blocks: list[Table], notes: list[str]) -> list[str]:
    header, words = blocks[0].header, blocks[0].words
    letters = "".join("l" if place in words else "r" for place in range(len(header)))
    named = any(block.title for block in blocks)
    first = "" if named and blocks[0].n_keys == 1 else escape_latex(header[0])
    lines = [r"\begin{threeparttable}", rf"\begin{{tabular}}{{{letters}}}", r"\toprule"]
    lines.append(" & ".join([first, *map(escape_latex, header[1:])]) + r" \\")
    for block in blocks:
        lines.append(r"\midrule")
        if block.title:
            lines.append(rf"\multicolumn{{{len(header)}}}{{l}}{{\emph{{{escape_latex(block.title)}}}}} \\")
        lines += [" & ".join(map(_latex_cell, row)) + r" \\" for row in block.rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if notes:
        lines += [
            r"\begin{tablenotes}\footnotesize",
            *(rf"\item {escape_latex(note)}" for note in notes),
            r"\end{tablenotes}",
        ]
    return [*lines, r"\end{threeparttable}"]


def _latex_cell(cell: Cell) -> str:
    text = rf"\textbf{{{escape_latex(cell.text)}}}" if cell.strong else escape_latex(cell.text)
    return " ".join(filter(None, (text, escape_latex(cell.error)))) + escape_latex(cell.mark)
