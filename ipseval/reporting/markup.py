"""Renderers for Markdown and LaTeX, and the functions that escape text for each language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    Remark,
    Table,
    Tables,
)

# Characters that move a cursor, recolour, end a line, turn the direction of writing, or
# cannot be encoded or stand in XML.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
# Markdown does not read an underscore within a word as emphasis.
_MARKDOWN_SPECIAL = re.compile(r"([\\`*|\[\]~#$]|(?<![^\W_])_|_(?![^\W_]))")
_LATEX_COMMANDS = {
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
    "∈": r"$\in$",
    "∖": r"$\setminus$",
    "∪": r"$\cup$",
    "ᵀ": r"$^\top$",
    "η": r"$\eta$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "ρ": r"$\rho$",
    "π": r"$\pi$",
}
# The pieces of a formula: the start of a subscript or exponent in brackets, a subscript, a word, any other sign.
_FORMULA_TOKENS = re.compile(r"_[{(]|\^\(|_[A-Za-z]+|log2|[A-Za-z]+|[0-9Σ∈∖≤·√γ∝−ŷ²(){}#@/|+=.,;: ]")
_COMMAND_END = re.compile(r"\\[a-z]+$")
_BRACKETS = {"(": ")", "{": "}"}
# What begins a subscript or an exponent in brackets, and what ends it.
_SCRIPT_STARTS = {"_{": ("_{", "}"), "_(": ("_{(", ")}"), "^(": ("^{", "}")}
_FORMULA_COMMANDS = {
    "Σ": r"\sum",
    "∈": r"\in",
    "∖": r"\setminus",
    "≤": r"\leq",
    "·": r"\cdot",
    "√": r"\surd",
    "γ": r"\gamma",
    "∝": r"\propto",
    "−": "-",
    "ŷ": r"\hat{y}",
    "²": "^2",
    "{": r"\{",
    "}": r"\}",
    "#": r"\#",
    "log2": r"\log_2",
    "min": r"\min",
}
# An accent that Unicode writes after its letter, LaTeX before it.
_LATEX_ACCENTS = {"\u0302": r"\^", "\u0303": r"\~", "\u0304": r"\="}


def escape_controls(text: object, *, keep: str = "") -> str:
    r"""Return a text with control characters, direction marks and lone surrogates as escape codes.

    Parameters
    ----------
    text : object
        The text; another value is converted by `str`.
    keep : str, default ""
        Characters that stay as they are, such as the line breaks of a whole table.

    Returns
    -------
    str
        The text, in which each of these characters is replaced by its Python escape code.

    Examples
    --------
    >>> print(escape_controls("als\x1b[31m"))
    als\x1b[31m
    """

    def escape_match(match: re.Match[str]) -> str:
        character = match.group()
        if character in keep:
            return character
        return character.encode("unicode_escape").decode("ascii")

    return _HIDDEN.sub(escape_match, str(text))


def escape_markdown(text: object) -> str:
    """Return a text without characters that end a table cell or start markup, mathematics or an HTML tag."""
    escaped_text = _MARKDOWN_SPECIAL.sub(r"\\\1", escape_controls(text))
    return escaped_text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_latex(text: object) -> str:
    """Return a text in which no character is a command, in the default encoding of LaTeX."""
    # LaTeX would draw two hyphens as one dash: an empty group has to separate them. The group is marked by NUL,
    # because its braces would be escaped below.
    separated_text = escape_controls(text).replace("--", "-\0-")
    pieces: list[str] = []
    for character in separated_text:
        accent = _LATEX_ACCENTS.get(character)
        if accent is not None and pieces:
            pieces[-1] = f"{accent}{{{pieces[-1]}}}"
        else:
            pieces.append(_LATEX_COMMANDS.get(character, character))
    return "".join(pieces).replace("\0", "{}")


def format_latex_formula(formula: str) -> str:
    r"""Return a formula in mathematics; one with a sign that is not known, escaped as text.

    Parameters
    ----------
    formula : str
        The formula as plain text writes it: subscripts after ``_``, as one word, ``_{...}`` or ``_(...)``, and
        exponents as ``^(...)``.

    Returns
    -------
    str
        The formula between dollars, without a command that needs a package.

    Examples
    --------
    >>> print(format_latex_formula("Σ_{i∈S} 1{r_i ≤ k} / s"))
    $\sum_{i\in S} 1\{r_{i} \leq k\} / s$
    >>> print(format_latex_formula("popularity^((γ+1)/2)"))
    $\mathrm{popularity}^{(\gamma+1)/2}$
    """
    formula_text = escape_controls(formula)
    tokens = _FORMULA_TOKENS.findall(formula_text)
    is_known = "".join(tokens) == formula_text
    if not is_known or not _has_balanced_brackets(tokens):
        return escape_latex(formula)
    return f"${_format_tokens(tokens)}$"


def _has_balanced_brackets(tokens: Sequence[str]) -> bool:
    """Return whether every bracket of a formula is closed by one of its kind."""
    open_brackets = []
    for token in tokens:
        if token[-1] in _BRACKETS:
            open_brackets.append(_BRACKETS[token[-1]])
        elif token in _BRACKETS.values() and (not open_brackets or open_brackets.pop() != token):
            return False
    return not open_brackets


def _format_tokens(tokens: Sequence[str]) -> str:
    """Return the tokens of a formula in mathematics."""
    pieces: list[str] = []
    closings = []
    for number, token in enumerate(tokens):
        if token in _SCRIPT_STARTS:
            piece, closing = _SCRIPT_STARTS[token]
            closings.append(closing)
        elif token in _BRACKETS:
            piece = _format_token(token)
            closings.append(_format_token(_BRACKETS[token]))
        elif token in _BRACKETS.values():
            piece = closings.pop()
        elif token == " " and any(map(_is_word, tokens[number - 1 : number + 2])):
            piece = r"\ "  # mathematics has no spaces, so those beside words have to be commands
        else:
            piece = _format_token(token)
        # A letter after a command would belong to its name.
        if piece[0].isalpha() and pieces and _COMMAND_END.search(pieces[-1]):
            piece = f" {piece}"
        pieces.append(piece)
    return "".join(pieces)


def _format_token(token: str) -> str:
    """Return a subscript, a word or a sign of a formula in mathematics."""
    if token.startswith("_"):
        return f"_{{{token[1:]}}}"
    if _is_word(token):
        return rf"\mathrm{{{token}}}"
    return _FORMULA_COMMANDS.get(token, token)


def _is_word(token: str) -> bool:
    """Return whether a token is a word, and not a variable of one letter or the name of a function."""
    return len(token) > 1 and token.isalpha() and token not in _FORMULA_COMMANDS


def escape_formula(value: object) -> object:
    """Return a value of a CSV file, with an apostrophe before a text that a spreadsheet reads as a formula.

    Examples
    --------
    >>> escape_formula("=cmd|x"), escape_formula("als"), escape_formula(-0.5)
    ("'=cmd|x", 'als', -0.5)
    """
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def _join_nonempty(separator: str, texts: Iterable[str]) -> str:
    """Join the texts that are not empty."""
    return separator.join(filter(None, texts))


def to_markdown(tables: Tables) -> str:
    """Return the report as Markdown: leading remarks first, then the parts, then the other remarks."""
    blocks = []
    if tables.title:
        blocks.append(f"# {escape_markdown(tables.title)}")
    blocks += map(escape_markdown, tables.summary)

    other_remarks = []
    for remark in tables.remarks:
        text = f"**{escape_markdown(remark.name)}.** {escape_markdown(' '.join(remark.lines))}"
        if remark.name in LEADING:
            blocks.append(text)
        else:
            other_remarks.append(text)

    blocks += [f"**{escape_markdown(warning)}**" for warning in tables.warnings]
    blocks += map(_format_markdown_part, tables.parts)
    blocks += other_remarks
    blocks.append(_format_markdown_list(tables.legend))
    return _join_nonempty("\n\n", blocks) + "\n"


def _format_markdown_part(part: Part) -> str:
    """Return one part of a report as Markdown; pictures are empty text."""
    if isinstance(part, Table):
        table = _format_markdown_table(part)
        return _join_nonempty("\n\n", (table, _format_markdown_list(part.below)))
    if isinstance(part, Notes):
        return _format_markdown_list(part.lines)
    if isinstance(part, Heading):
        return f"{'#' * part.level} {escape_markdown(part.text)}"
    if isinstance(part, Code):
        code_lines = part.text.split("\n")
        indented_code = "\n".join(f"    {escape_controls(line)}" for line in code_lines)
        return f"{escape_markdown(part.name)}\n\n{indented_code}"
    if isinstance(part, Picture):
        return ""
    return escape_markdown(part)


def _format_markdown_list(lines: Sequence[str]) -> str:
    """Return lines as a list of bullet points."""
    return "\n".join(f"- {escape_markdown(line.strip())}" for line in lines)


def _format_markdown_table(table: Table) -> str:
    """Return a table as Markdown; its title replaces the name of the first column."""
    header = list(map(escape_markdown, table.header))
    if table.title:
        header[0] = escape_markdown(table.title)

    rows = [header, _list_alignments(table, words="---", numbers="---:")]
    for row in table.rows:
        rows.append(list(map(_format_markdown_cell, row)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _list_alignments(table: Table, *, words: str, numbers: str) -> list[str]:
    """Return the sign for the alignment of each column: one sign for words and one for numbers."""
    return [words if column in table.words else numbers for column in range(len(table.header))]


def _format_markdown_cell(cell: Cell) -> str:
    """Return the text of a cell, its standard error and its mark."""
    text = escape_markdown(cell.text)
    if cell.strong:
        text = f"**{text}**"
    return _join_nonempty(" ", (text, escape_markdown(cell.error), cell.mark))


def to_latex(tables: Tables) -> str:
    """Return the report as LaTeX tables for booktabs and threeparttable.

    Consecutive tables with the same columns become blocks of one table. Each heading begins a section, and its
    notes are printed below the last table of the section, or as paragraphs if it has none. The remarks of the
    report are printed below the last table of the first section that has one; a report without tables begins with
    them. The formulas of the report are written in mathematics.
    """
    sections = _split_at_headings(tables.parts)
    remarks = _list_latex_remarks(tables)
    lines: list[str] = []
    if not any(_has_table(section) for section in sections):
        lines += map(_format_latex_paragraph, remarks)
        remarks = []
    for section in sections:
        notes = _list_notes(section)
        if _has_table(section):
            notes = remarks + notes
            remarks = []
        lines += _format_latex_section(section, notes)

    text = "\n".join(lines) + "\n"
    for formula in tables.formulas:
        text = text.replace(escape_latex(formula), format_latex_formula(formula))
    return text


def _has_table(section: Sequence[Part]) -> bool:
    """Return whether a section contains a table."""
    return any(isinstance(part, Table) for part in section)


def _split_at_headings(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the parts before the first heading, and those from each heading on."""
    sections: list[list[Part]] = [[]]
    for part in parts:
        if isinstance(part, Heading):
            sections.append([])
        sections[-1].append(part)
    return sections


def _get_run_key(part: Part) -> tuple[bool, object]:
    """Return what adjacent parts of one run share: tables have the same columns, and no other part is among them."""
    return isinstance(part, Table), _get_value_columns(part)


def _format_latex_section(section: Sequence[Part], notes: list[str]) -> list[str]:
    """Return the lines of one section, with its notes below the last table."""
    visible_parts = [part for part in section if not isinstance(part, (Notes, Picture))]
    runs = [list(run) for _, run in groupby(visible_parts, key=_get_run_key)]
    table_runs = [number for number, run in enumerate(runs) if isinstance(run[0], Table)]
    lines: list[str] = []
    for number, run in enumerate(runs):
        blocks = [part for part in run if isinstance(part, Table)]
        if not blocks:
            lines += map(_format_latex_part, run)
            continue
        table_notes = _list_table_notes(blocks)
        if number == table_runs[-1]:
            table_notes += notes
        lines += _format_latex_table(blocks, table_notes)

    if not table_runs:
        lines += map(_format_latex_paragraph, notes)
    return lines


def _list_latex_remarks(tables: Tables) -> list[str]:
    """Return the texts on the whole report: the verdict, the summary, warnings, other remarks and the legend."""
    verdict_first = sorted(tables.remarks, key=_is_not_verdict)
    remarks = [f"{remark.name}: {' '.join(remark.lines)}" for remark in verdict_first]
    return [*remarks[:1], *tables.summary, *tables.warnings, *remarks[1:], *tables.legend]


def _list_notes(parts: Sequence[Part]) -> list[str]:
    """Return the lines of all notes among the parts."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Notes):
            lines += part.lines
    return lines


def _is_not_verdict(remark: Remark) -> bool:
    """Return the sort key of a remark: the verdict comes first."""
    return remark.name != VERDICT


def _list_table_notes(blocks: Sequence[Table]) -> list[str]:
    """Return the notes of tables, each note once."""
    notes: list[str] = []
    for block in blocks:
        notes += map(str.strip, block.below)
    return list(dict.fromkeys(notes))


def _get_value_columns(part: Part) -> tuple[str, ...]:
    """Return the header of a table without its first column; other parts have no columns."""
    if isinstance(part, Table):
        return part.header[1:]
    return ()


def _format_latex_paragraph(text: object) -> str:
    """Return a text as a paragraph."""
    return escape_latex(text) + r"\par"


def _format_latex_part(part: Part) -> str:
    """Return a heading, code or a paragraph as LaTeX."""
    if isinstance(part, Heading):
        return rf"\paragraph{{{escape_latex(part.text)}}}"
    if isinstance(part, Code):
        code_lines = part.text.split("\n")
        return "\n".join(map(_format_latex_paragraph, [part.name, *code_lines]))
    return _format_latex_paragraph(part)


def _format_latex_table(blocks: list[Table], notes: list[str]) -> list[str]:
    """Return the lines of one LaTeX table; each block has its title as a row of its own."""
    lines = _format_latex_header(blocks)
    for block in blocks:
        lines.append(r"\midrule")
        if block.title:
            title = escape_latex(block.title)
            lines.append(rf"\multicolumn{{{len(blocks[0].header)}}}{{l}}{{\emph{{{title}}}}} \\")
        for row in block.rows:
            lines.append(_format_latex_row(map(_format_latex_cell, row)))
    lines += [r"\bottomrule", r"\end{tabular}"]

    if notes:
        lines.append(r"\begin{tablenotes}\footnotesize")
        lines += [rf"\item {escape_latex(note)}" for note in notes]
        lines.append(r"\end{tablenotes}")
    lines.append(r"\end{threeparttable}")
    return lines


def _format_latex_header(blocks: list[Table]) -> list[str]:
    """Return the lines that open a LaTeX table, with the names of its columns."""
    table = blocks[0]
    alignments = _list_alignments(table, words="l", numbers="r")
    names = list(map(escape_latex, table.header))
    # The titles of the blocks name the first column.
    if table.n_keys == 1 and any(block.title for block in blocks):
        names[0] = ""
    return [
        r"\begin{threeparttable}",
        rf"\begin{{tabular}}{{{''.join(alignments)}}}",
        r"\toprule",
        _format_latex_row(names),
    ]


def _format_latex_row(texts: Iterable[str]) -> str:
    """Return one row of a table."""
    return " & ".join(texts) + r" \\"


def _format_latex_cell(cell: Cell) -> str:
    """Return the text of a cell, its standard error and its mark."""
    text = escape_latex(cell.text)
    if cell.strong:
        text = rf"\textbf{{{text}}}"
    return _join_nonempty(" ", (text, escape_latex(cell.error))) + escape_latex(cell.mark)
