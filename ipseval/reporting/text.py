"""The printed form: plain text of at most 110 columns, safe for a terminal."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import LEADING, Cell, Code, Heading, Notes, Part, Picture, Remark, Table, Tables

WIDTH = 110
LONGEST_NAME = 28
GAP = "  "
NAMED = 12  # columns that the name of a remark takes


def to_text(tables: Tables) -> str:
    """Return plain text: what was computed, the verdict, the tables, the notes; no line over 110 columns."""
    leading = [remark for remark in tables.verdict if remark.name in LEADING]
    others = [remark for remark in tables.verdict if remark.name not in LEADING]
    blocks = [_lines(tables.summary), _remarks(leading), _lines(tables.warnings)]
    narrow = any(_width_of(_columns(part)[0]) > WIDTH for part in tables.parts if isinstance(part, Table))
    blocks += [_part(part, narrow=narrow) for part in tables.parts]
    blocks.append(_remarks(others, tables.hint))
    return "\n\n".join(filter(None, ([escape_controls(tables.title)] if tables.title else []) + blocks))


def _remarks(remarks: Sequence[Remark], hint: str = "") -> str:
    """Return the conclusions, their names in a column of their own, and the hint where there is room."""
    lines = []
    for remark in remarks:
        name = f"{escape_controls(remark.name):<{NAMED}}"
        for text in remark.lines:
            # A p-value stays on one line, and so does a value of γ.
            space = "\N{NO-BREAK SPACE}"
            whole = re.sub(r"\b([pγ]) ([<=≤]) ", rf"\1{space}\2{space}", escape_controls(text))
            wrapped = textwrap.wrap(
                whole,
                WIDTH,
                initial_indent=name,
                subsequent_indent=" " * NAMED,
                break_on_hyphens=False,
            )
            lines += [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
            name = " " * NAMED
    # The hint stands behind the last line; it is left out where there is no room.
    if hint and lines and len(lines[-1]) + len(GAP) + len(hint) <= WIDTH:
        lines[-1] += GAP + hint
    if hint and not lines:
        lines.append(hint)
    return "\n".join(lines)


def _part(part: Part, *, narrow: bool) -> str:
    if isinstance(part, Table):
        return _table(part, narrow=narrow)
    if isinstance(part, Notes):
        return _lines(part.lines)
    if isinstance(part, Code):
        return escape_controls(part.name) + "\n" + "\n".join(map(escape_controls, part.text.split("\n")))
    if isinstance(part, Picture):
        return ""
    return _lines([part.text if isinstance(part, Heading) else part])


def _lines(lines: object, indent: str = "") -> str:
    return "\n".join(wrapped for line in lines for wrapped in _wrapped(line, indent))  # type: ignore[attr-defined]


def _wrapped(line: str, indent: str) -> list[str]:
    text = escape_controls(line.lstrip(" "))
    indent += " " * (len(line) - len(line.lstrip(" ")))
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + GAP, break_on_hyphens=False
    )


def _columns(table: Table, *, narrow: bool = False) -> tuple[list[list[str]], list[str]]:
    """Return the texts of each column under its header, and what shortened names stand for."""
    body = table.rows[: table.n_rows]
    header = [escape_controls(name) for name in table.header]
    if table.title and table.n_keys == 1:
        header[0] = escape_controls(table.title)
    names, legend = _shortened([escape_controls(row[0].plain) for row in body])
    rest = zip(header[1:], list(zip(*body, strict=True))[1:] or [()] * len(header[1:]), strict=True)
    return [[header[0], *names], *(_column(name, cells, narrow=narrow) for name, cells in rest)], legend


def _width_of(columns: list[list[str]]) -> int:
    return sum(max(map(_width, column)) + len(GAP) for column in columns) - len(GAP)


def _table(table: Table, *, narrow: bool) -> str:
    """Return the table, in as many pieces side by side as the width needs."""
    keys = range(table.n_keys)
    columns, legend = _columns(table, narrow=narrow)
    widths = [max(map(_width, column)) for column in columns]
    blocks = []
    for chosen in _pieces(widths, table.n_keys):
        lines = []
        for row in range(len(columns[0])):
            cells = [
                _padded(columns[place][row], widths[place], left=place in table.words)
                for place in (*keys, *chosen)
            ]
            lines.append(GAP.join(cells).rstrip())
        blocks.append("\n".join(lines))
    if table.title and table.n_keys > 1:
        blocks[0] = f"{escape_controls(table.title)}\n{blocks[0]}"
    rest = [table.rest] if len(columns[0]) <= len(table.rows) else []
    below = [_lines((*rest, *table.below, *legend), GAP)]
    return "\n".join(["\n\n".join(blocks), *filter(None, below)])


def _column(name: str, cells: Sequence[Cell], *, narrow: bool) -> list[str]:
    """Return a column of values with their errors, the values below each other."""
    texts = [escape_controls(cell.text) for cell in cells]
    errors = [
        escape_controls(cell.short if narrow and cell.short is not None else cell.error) for cell in cells
    ]
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
    """Return names of which none is long, all different, and what the short ones stand for."""
    if all(_width(name) <= LONGEST_NAME for name in names):
        return names, []
    first = _common_start(names)
    last = _common_start([name[len(first) :][::-1] for name in names])[::-1]
    own = [f"…{name[len(first) : len(name) - len(last)]}…" for name in names]
    if first + last and all(2 < _width(name) <= LONGEST_NAME for name in own):
        return own, [f"… stands for what all share: {first}…{last}"]
    shown: dict[str, str] = {}
    taken = {name for name in names if _width(name) <= LONGEST_NAME}
    for name in dict.fromkeys(names):
        short, number = name, 1
        if _width(name) > LONGEST_NAME:
            half = LONGEST_NAME // 4 if _width(name) > len(name) else LONGEST_NAME // 2 - 3
            short = start = f"{name[:half]}…{name[-half:]}"
            while short in taken:
                number += 1
                short = f"{start} ({number})"
            taken.add(short)
        shown[name] = short
    legend = [f"{short}: {name}" for name, short in shown.items() if short != name]
    return [shown[name] for name in names], legend


def _common_start(names: list[str]) -> str:
    first, last = min(names), max(names)
    places = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(places, min(len(first), len(last)))]


def _width(text: str) -> int:
    """Return the number of columns of a terminal that a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _padded(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - _width(text))
    return text + space if left else space + text
