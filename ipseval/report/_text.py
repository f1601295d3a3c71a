"""The printed form: plain text of at most 100 columns, safe for a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator

from ipseval.report._escape import visible
from ipseval.report._tables import Code, Heading, Notes, Part, Picture, Table, Tables

WIDTH = 100
LONGEST_NAME = 32
GAP = "  "


def to_text(tables: Tables) -> str:
    """Return plain text: what was computed, the tables, the notes; no line is longer than 100 columns."""
    blocks = [_lines(tables.summary), _lines(tables.warnings)]
    blocks += [_part(part) for part in tables.parts]
    return "\n\n".join(filter(None, ([visible(tables.title)] if tables.title else []) + blocks))


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
    header = [visible(name) for name in table.header]
    if table.title and table.n_keys == 1:
        header[0] = visible(table.title)
    columns = [
        [header[place], *(visible(row[place].plain) for row in table.rows)] for place in range(len(header))
    ]
    names, legend = _shortened(columns[0][1:])
    columns[0][1:] = names
    widths = [max(map(_width, column)) for column in columns]
    blocks = []
    for chosen in _pieces(widths, table.n_keys):
        lines = []
        for row in range(len(table.rows) + 1):
            cells = [
                _padded(columns[place][row], widths[place], left=place in table.words)
                for place in (*keys, *chosen)
            ]
            lines.append(GAP.join(cells).rstrip())
        blocks.append("\n".join(lines))
    if table.title and table.n_keys > 1:
        blocks[0] = f"{visible(table.title)}\n{blocks[0]}"
    below = [_lines((*table.below, *legend), GAP)]
    return "\n".join(["\n\n".join(blocks), *filter(None, below)])


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
