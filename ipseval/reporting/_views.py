"""View models for the templates of HTML: sections, columns, bars and pictures of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from ipseval.reporting.bars import Axis, Bar, build_table_axis
from ipseval.reporting.pictures import render_picture
from ipseval.reporting.tables import LEADING, Cell, Code, Heading, Notes, Part, Picture, Remark, Table

# The filter of a page applies to tables whose first column has this name.
FILTERED_COLUMN = "recommender"


@dataclass(frozen=True)
class Column:
    """Properties that the cells of a column share.

    Attributes
    ----------
    name : str
        The header.
    has_marks : bool
        Whether a cell has a mark: then all cells reserve space for it.
    axis : Axis or None
        The axis of the bars; None where no value of the column is drawn.
    kind : str
        The class of its cells: "w" for words, else empty.
    """

    name: str
    has_marks: bool
    axis: Axis | None
    kind: str


@dataclass(frozen=True)
class TableView:
    """A table with its columns and the bars of its cells; `kind` names what the script of a page does with it."""

    table: Table
    columns: tuple[Column, ...]
    bars: tuple[tuple[Bar | None, ...], ...]
    kind: str


@dataclass(frozen=True)
class PictureView:
    """A picture with its SVG, which is empty in a notebook and without matplotlib."""

    picture: Picture
    svg: str


PartView = Heading | str | TableView | Notes | Code | PictureView


@dataclass(frozen=True)
class Section:
    """A heading of level 2 with the parts below it; the first parts of a report may have no heading."""

    heading: Heading | None
    parts: list[PartView]


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def list_metrics(parts: Sequence[Part]) -> list[str]:
    """Return the metrics of tables and pictures, each once, in the order of the parts."""
    metrics = [part.metric for part in parts if isinstance(part, (Table, Picture)) and part.metric]
    return list(dict.fromkeys(metrics))


def sort_remarks(remarks: Sequence[Remark]) -> list[Remark]:
    """Return the leading remarks first."""
    return sorted(remarks, key=lambda remark: remark.name not in LEADING)


def split_code_spans(text: str) -> list[tuple[str, bool]]:
    """Return the pieces of a text, and whether each is code: between backticks that all have a partner."""
    pieces = text.split("`")
    has_unpaired_backtick = len(pieces) % 2 == 0
    if has_unpaired_backtick:
        return [(text, False)]
    return [(piece, number % 2 == 1) for number, piece in enumerate(pieces)]


def split_sections(parts: Sequence[PartView]) -> list[Section]:
    """Return the parts in sections, which begin at headings of level 2."""
    sections = [Section(None, [])]
    for part in parts:
        if isinstance(part, Heading) and part.level == 2:
            sections.append(Section(part, []))
        else:
            sections[-1].parts.append(part)
    return sections


def build_parts(parts: Sequence[Part], *, page: bool) -> list[PartView]:
    """Return the parts of a report; on a `page`, tables have bars and can be sorted, and pictures are drawn."""
    views: list[PartView] = []
    for number, part in enumerate(parts):
        if isinstance(part, Table):
            views.append(_build_table(part, page=page))
        elif isinstance(part, Picture):
            svg = ""
            if page and can_draw():
                svg = render_picture(part, id_prefix=f"p{number}-")
            views.append(PictureView(part, svg))
        else:
            views.append(part)
    return views


def _build_table(table: Table, *, page: bool) -> TableView:
    """Return a table with its columns and bars."""
    axis = None
    if page:
        axis = build_table_axis(table)
    columns = tuple(_build_column(table, number, axis) for number in range(len(table.header)))

    kinds = []
    if page and len(table.rows) > 1 and not table.folded:
        kinds.append("s")  # the script of the page sorts it
    if page and table.header[0] == FILTERED_COLUMN:
        kinds.append("f")  # the script of the page filters it
    bars = [tuple(map(_build_bar, row, columns)) for row in table.rows]
    return TableView(table, columns, bars=tuple(bars), kind=" ".join(kinds))


def _build_column(table: Table, number: int, axis: Axis | None) -> Column:
    """Return the properties of a column; it has an axis if one of its values is drawn."""
    cells = [row[number] for row in table.rows]
    kind = ""
    if number in table.words and number >= table.n_keys:
        kind = "w"

    column_axis = None
    if any(map(_has_finite_value, cells)):
        column_axis = axis
    return Column(table.header[number], any(cell.mark for cell in cells), column_axis, kind)


def _has_finite_value(cell: Cell) -> bool:
    """Return whether a page can draw a value of a cell."""
    return any(map(math.isfinite, cell.at))


def _build_bar(cell: Cell, column: Column) -> Bar | None:
    """Return the bar of a cell; None without values or axis."""
    if column.axis is None or not cell.at:
        return None
    return Bar.from_cell(cell, column.axis)
