"""The printed form: plain text of at most 100 columns, safe for a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

from ipseval.report._escape import visible
from ipseval.report._tables import Cell, Code, Heading, Notes, Part, Picture, Table, Tables

WIDTH = 100
LONGEST_NAME = 32
GAP = "  "
NAMED = 10  # columns that the name of a remark takes


def to_text(tables: Tables) -> str:
    """Return plain text: what was computed, the tables, the notes; no line is longer than 100 columns."""
    blocks = [_lines(tables.summary), _lines(tables.warnings)]
    blocks += [_part(part) for part in tables.parts]
    blocks.append(_remarks(tables))
    return "\n\n".join(filter(None, ([visible(tables.title)] if tables.title else []) + blocks))


def _remarks(tables: Tables) -> str:
    """Return the conclusions, their names in a column of their own, and the hint where there is room."""
    lines = []
    for remark in tables.verdict:
        name = f"{visible(remark.name):<{NAMED}}"
        for text in remark.lines:
            lines += textwrap.wrap(
                visible(text),
                WIDTH,
                initial_indent=name,
                subsequent_indent=" " * NAMED,
                break_on_hyphens=False,
            )
            name = " " * NAMED
    if tables.hint:
        room = lines and len(lines[-1]) + len(tables.hint) + 3 <= WIDTH
        lines[-1:] = [f"{lines[-1]}   {tables.hint}"] if room else [*lines[-1:], " " * NAMED + tables.hint]
    return "\n".join(lines)


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Notes):
        return _lines(part.lines)
    if isinstance(part, Code):
        return visible(part.name) + "\n" + "\n".join(map(visible, part.text.split("\n")))
    if isinstance(part, Picture):
        return ""
    return _lines([part.text if isinstance(part, Heading) else part])


def _lines(lines: object, indent: str = "") -> str:
    return "\n".join(wrapped for line in lines for wrapped in _wrapped(line, indent))  # type: ignore[attr-defined]


def _wrapped(line: str, indent: str) -> list[str]:
    text = visible(line.lstrip(" "))
    indent += " " * (len(line) - len(line.lstrip(" ")))
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + GAP, break_on_hyphens=False
    )


def _table(table: Table) -> str:
    """Return the table, in as many pieces side by side as the width needs."""
    keys = range(table.n_keys)
    body = table.rows[: table.n_rows]
    header = [visible(name) for name in table.header]
    if table.title and table.n_keys == 1:
        header[0] = visible(table.title)
    names, legend = _shortened([visible(row[0].plain) for row in body])
    for narrow in (False, True):
        columns = [[header[0], *names]]
        columns += [
            _column(header[place], [row[place] for row in body], narrow=narrow)
            for place in range(1, len(header))
        ]
        widths = [max(map(_width, column)) for column in columns]
        if sum(widths) + len(GAP) * (len(widths) - 1) <= WIDTH:
            break
    blocks = []
    for chosen in _pieces(widths, table.n_keys):
        lines = []
        for row in range(len(body) + 1):
            cells = [
                _padded(columns[place][row], widths[place], left=place in table.words)
                for place in (*keys, *chosen)
            ]
            lines.append(GAP.join(cells).rstrip())
        blocks.append("\n".join(lines))
    if table.title and table.n_keys > 1:
        blocks[0] = f"{visible(table.title)}\n{blocks[0]}"
    rest = [table.rest] if len(body) < len(table.rows) else []
    below = [_lines((*rest, *table.below, *legend), GAP)]
    return "\n".join(["\n\n".join(blocks), *filter(None, below)])


def _column(name: str, cells: Sequence[Cell], *, narrow: bool) -> list[str]:
    """Return a column of values with their errors, the values below each other."""
    texts = [visible(cell.text) for cell in cells]
    errors = [visible(cell.short if narrow and cell.short is not None else cell.error) for cell in cells]
    wide = max((_width(text) for text, error in zip(texts, errors, strict=True) if error), default=0)
    lines = [
        f"{_padded(text, wide, left=False)} {error}" if error else text
        for text, error in zip(texts, errors, strict=True)
    ]
    return [name, *lines]


def _pieces(widths: list[int], n_keys: int) -> Iterator[list[int]]:
    """Yield the columns of each piece: as many as fit beside the keys, at least one."""
    room = WIDTH - sum(widths[:n_keys]) - len(GAP) * (n_keys - 1)
    piece: list[int] = []
    used = 0
    for place in range(n_keys, len(widths)):
        need = widths[place] + len(GAP)
        if piece and used + need > room:
            yield piece
            piece, used = [], 0
        piece.append(place)
        used += need
    yield piece


def _shortened(names: list[str]) -> tuple[list[str], list[str]]:
    """Return names without the middle of long ones, all different, and what the short ones stand for."""
    shown: dict[str, str] = {}
    taken = {name for name in names if _width(name) <= LONGEST_NAME}
    for name in dict.fromkeys(names):
        short, number = name, 1
        if _width(name) > LONGEST_NAME:
            half = LONGEST_NAME // 4 if _width(name) > len(name) else LONGEST_NAME // 2 - 3
            short = first = f"{name[:half]}…{name[-half:]}"
            while short in taken:
                number += 1
                short = f"{first} ({number})"
            taken.add(short)
        shown[name] = short
    legend = [f"{short}: {name}" for name, short in shown.items() if short != name]
    return [shown[name] for name in names], legend


def _width(text: str) -> int:
    """Return the number of columns of a terminal that a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _padded(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - _width(text))
    return text + space if left else space + text
