"""Renderer for plain text of at most 110 columns that is safe to print in a terminal."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import LEADING, Cell, Code, Heading, Notes, Part, Picture, Remark, Table, Tables

WIDTH = 110
LONGEST_NAME = 28
GAP = "  "  # between two columns
REMARK_NAME_WIDTH = 12
MOST_LEADING_LINES = 5  # of the verdict with its assumption and next step; beyond, long names are shortened
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
# "p = 0.012" and "γ ≤ 1.5" have to stay on one line.
SYMBOL_AND_SIGN = re.compile(r"\b([pγ]) ([<=≤]) ")


def to_text(tables: Tables) -> str:
    """Return the report as plain text: title, summary, leading remarks, warnings, parts, other remarks."""
    leading_remarks = []
    other_remarks = []
    for remark in tables.remarks:
        if remark.name in LEADING:
            leading_remarks.append(remark)
        else:
            other_remarks.append(remark)

    blocks = []
    if tables.title:
        blocks.append(escape_controls(tables.title))
    blocks.append(_wrap_lines(tables.summary))
    leading_text = _format_remarks(leading_remarks)
    if leading_text.count("\n") >= MOST_LEADING_LINES:
        leading_text = _format_remarks(_shorten_names_in_remarks(leading_remarks, tables.parts))
    blocks.append(leading_text)
    blocks.append(_wrap_lines(tables.warnings))

    # Where one table is too wide, all tables print their short standard errors.
    short_errors = any(isinstance(part, Table) and _is_too_wide(part) for part in tables.parts)
    blocks += [_format_part(part, short_errors=short_errors) for part in tables.parts]
    blocks.append(_format_remarks(other_remarks, tables.hint))
    return "\n\n".join(filter(None, blocks))


def _format_remarks(remarks: Sequence[Remark], hint: str = "") -> str:
    """Return remarks with their names in a column of their own, and the hint as the last one."""
    lines: list[str] = []
    for remark in remarks:
        lines += _wrap_remark(remark)
    if hint:
        lines += _wrap_remark(Remark("More", (hint,)))
    return "\n".join(lines)


def _shorten_names_in_remarks(remarks: Sequence[Remark], parts: Sequence[Part]) -> list[Remark]:
    """Return remarks with the short names of the first table."""
    first_table = next((part for part in parts if isinstance(part, Table)), None)
    if first_table is None:
        return list(remarks)
    names = [escape_controls(row[0].plain) for row in first_table.rows[: first_table.n_rows]]
    short_names, _ = _shorten_names(names)
    if any(short_name.startswith("…") for short_name in short_names):
        return list(remarks)  # only the differing parts of the names, which a sentence cannot use
    shortened_remarks = []
    for remark in remarks:
        text = "\n".join(remark.lines)
        for name, short_name in sorted(zip(names, short_names, strict=True), key=_compute_name_order):
            text = text.replace(name, short_name)
        shortened_remarks.append(replace(remark, lines=tuple(text.split("\n"))))
    return shortened_remarks


def _compute_name_order(pair: tuple[str, str]) -> int:
    """Return the sort key by which a name comes before the names that it contains."""
    name, _ = pair
    return -len(name)


def _wrap_remark(remark: Remark) -> list[str]:
    """Return the lines of a remark; its name begins the first line."""
    indent = " " * REMARK_NAME_WIDTH
    first_indent = escape_controls(remark.name).ljust(REMARK_NAME_WIDTH)
    lines = []
    for sentence in remark.lines:
        text = SYMBOL_AND_SIGN.sub(rf"\1{NO_BREAK_SPACE}\2{NO_BREAK_SPACE}", escape_controls(sentence))
        for line in _wrap(text, first_indent, indent):
            lines.append(line.replace(NO_BREAK_SPACE, " "))
        first_indent = indent
    return lines


def _wrap(text: str, first_indent: str, other_indent: str) -> list[str]:
    """Return a text as lines of at most `WIDTH` characters."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first_indent,
        subsequent_indent=other_indent,
        break_on_hyphens=False,
    )


def _wrap_lines(lines: Iterable[str], indent: str = "") -> str:
    """Return wrapped lines; spaces at the start of a line are added to the indent."""
    wrapped_lines: list[str] = []
    for line in lines:
        text = line.lstrip(" ")
        n_spaces = len(line) - len(text)
        line_indent = indent + " " * n_spaces
        wrapped_lines += _wrap(escape_controls(text), line_indent, line_indent + GAP)
    return "\n".join(wrapped_lines)


def _format_part(part: Part, *, short_errors: bool) -> str:
    """Return one part of a report as text; pictures are empty text."""
    if isinstance(part, Table):
        return _format_table(part, short_errors=short_errors)
    if isinstance(part, Notes):
        return _wrap_lines(part.lines)
    if isinstance(part, Code):
        code_lines = part.text.split("\n")
        return "\n".join(map(escape_controls, [part.name, *code_lines]))
    if isinstance(part, Picture):
        return ""
    if isinstance(part, Heading):
        return _wrap_lines([part.text])
    return _wrap_lines([part])


@dataclass(frozen=True)
class _Column:
    """The texts of one column, its header first."""

    texts: list[str]
    is_left_aligned: bool

    @cached_property
    def width(self) -> int:
        """The number of terminal columns of the widest text."""
        return max(map(_compute_width, self.texts))

    def pad(self, row: int) -> str:
        """Return the text of a row, padded to the width of the column."""
        return _pad(self.texts[row], self.width, left=self.is_left_aligned)


def _format_columns(table: Table, *, short_errors: bool) -> tuple[list[_Column], list[str]]:
    """Return the columns of the printed rows of a table, and the legend of shortened names."""
    rows = table.rows[: table.n_rows]
    header = list(map(escape_controls, table.header))
    if table.title and table.n_keys == 1:
        header[0] = escape_controls(table.title)

    row_names = [escape_controls(row[0].plain) for row in rows]
    short_names, legend = _shorten_names(row_names)
    columns = [_Column([header[0], *short_names], is_left_aligned=0 in table.words)]
    for number, column_name in enumerate(header[1:], start=1):
        cells = [row[number] for row in rows]
        texts = [column_name, *_format_cells(cells, short_errors=short_errors)]
        columns.append(_Column(texts, is_left_aligned=number in table.words))
    return columns, legend


def _format_cells(cells: Sequence[Cell], *, short_errors: bool) -> list[str]:
    """Return values with their standard errors; values that have an error are aligned to the right."""
    values = [escape_controls(cell.text) for cell in cells]
    errors = []
    for cell in cells:
        if short_errors and cell.short is not None:
            errors.append(escape_controls(cell.short))
        else:
            errors.append(escape_controls(cell.error))

    value_width = 0
    for value, error in zip(values, errors, strict=True):
        if error:
            value_width = max(value_width, _compute_width(value))

    texts = []
    for value, error in zip(values, errors, strict=True):
        if error:
            texts.append(f"{_pad(value, value_width, left=False)} {error}")
        else:
            texts.append(value)
    return texts


def _is_too_wide(table: Table) -> bool:
    """Return whether a table with full standard errors is wider than a line."""
    columns, _ = _format_columns(table, short_errors=False)
    width = sum(column.width for column in columns)
    gaps_width = len(GAP) * (len(columns) - 1)
    return width + gaps_width > WIDTH


def _format_table(table: Table, *, short_errors: bool) -> str:
    """Return a table with the lines below it; a table that is too wide is split into several blocks."""
    columns, legend = _format_columns(table, short_errors=short_errors)
    key_columns = columns[: table.n_keys]
    n_lines = len(columns[0].texts)
    blocks = []
    for block_columns in _split_columns(key_columns, columns[table.n_keys :]):
        lines = []
        for row in range(n_lines):
            texts = [column.pad(row) for column in block_columns]
            lines.append(GAP.join(texts).rstrip())
        blocks.append("\n".join(lines))
    if table.title and table.n_keys > 1:
        blocks[0] = f"{escape_controls(table.title)}\n{blocks[0]}"

    lines_below = [*table.below, *legend]
    n_printed_rows = n_lines - 1
    if n_printed_rows < len(table.rows):
        lines_below.insert(0, table.rest)
    text = "\n\n".join(blocks)
    text_below = _wrap_lines(lines_below, GAP)
    if text_below:
        text += f"\n{text_below}"
    return text


def _split_columns(key_columns: list[_Column], value_columns: list[_Column]) -> list[list[_Column]]:
    """Return the columns of each block: the key columns, and as many value columns as fit, at least one."""
    keys_width = sum(column.width for column in key_columns)
    available_width = WIDTH - keys_width - len(GAP) * (len(key_columns) - 1)
    blocks = [key_columns.copy()]
    used_width = 0
    for column in value_columns:
        column_width = column.width + len(GAP)
        if used_width > 0 and used_width + column_width > available_width:
            blocks.append(key_columns.copy())
            used_width = 0
        blocks[-1].append(column)
        used_width += column_width
    return blocks


def _shorten_names(names: list[str]) -> tuple[list[str], list[str]]:
    """Return names of at most `LONGEST_NAME` columns, distinct if the names are, and the legend for them.

    A start and an end that all names share are replaced by "…"; where that is not enough, the middle of each
    long name is replaced.
    """
    if all(_compute_width(name) <= LONGEST_NAME for name in names):
        return names, []

    start = _find_common_start(names)
    remainders = [name.removeprefix(start) for name in names]
    end = _find_common_end(remainders)
    distinct_parts = [f"…{remainder.removesuffix(end)}…" for remainder in remainders]
    has_common_text = bool(start + end)
    if has_common_text and all(2 < _compute_width(part) <= LONGEST_NAME for part in distinct_parts):
        return distinct_parts, [f"… stands for what all share: {start}…{end}"]

    short_names = _shorten_middles(names)
    legend = []
    for name, short_name in short_names.items():
        if short_name != name:
            legend.append(f"{short_name}: {name}")
    return [short_names[name] for name in names], legend


def _find_common_start(texts: list[str]) -> str:
    """Return the longest start that all texts share."""
    # All texts lie between the first and the last in alphabetical order, and so start as these two do.
    first_text = min(texts)
    last_text = max(texts)
    n_common = 0
    for first_character, last_character in zip(first_text, last_text, strict=False):
        if first_character != last_character:
            break
        n_common += 1
    return first_text[:n_common]


def _find_common_end(texts: list[str]) -> str:
    """Return the longest end that all texts share."""
    reversed_texts = [text[::-1] for text in texts]
    return _find_common_start(reversed_texts)[::-1]


def _shorten_middles(names: list[str]) -> dict[str, str]:
    """Return the short form of each name: long names lose their middle, and equal forms get a number."""
    short_names: dict[str, str] = {}
    used_names = {name for name in names if _compute_width(name) <= LONGEST_NAME}
    for name in dict.fromkeys(names):
        width = _compute_width(name)
        if width <= LONGEST_NAME:
            short_names[name] = name
            continue
        # The two ends, the ellipsis and a number such as " (2)" have to fit. Wide characters take two columns.
        n_characters = LONGEST_NAME // 2 - 3
        if width > len(name):
            n_characters = LONGEST_NAME // 4
        ends = f"{name[:n_characters]}…{name[-n_characters:]}"
        short_name = ends
        number = 1
        while short_name in used_names:
            number += 1
            short_name = f"{ends} ({number})"
        used_names.add(short_name)
        short_names[name] = short_name
    return short_names


def _compute_width(text: str) -> int:
    """Return the number of terminal columns of a text: wide characters take two, combining marks none."""
    n_wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    n_combining = sum(unicodedata.combining(character) != 0 for character in text)
    return len(text) + n_wide - n_combining


def _pad(text: str, width: int, *, left: bool) -> str:
    """Return a text with spaces up to a width, aligned to the left or to the right."""
    spaces = " " * (width - _compute_width(text))
    if left:
        return text + spaces
    return spaces + text
