"""View models of HTML: what the templates write, with every position and every choice already computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from ipseval.reporting.bars import Axis, Bar, Tick, build_table_axis
from ipseval.reporting.pictures import render_picture
from ipseval.reporting.tables import LEADING, Cell, Code, Heading, Notes, Part, Picture, Remark, Table, Tables

# The filter of a page applies to tables whose first column has this name.
FILTERED_COLUMN = "recommender"


@dataclass(frozen=True)
class Span:
    """A piece of a sentence, which is code if it stood between backticks."""

    text: str
    is_code: bool


@dataclass(frozen=True)
class Term:
    """A name with its description."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class VerdictView:
    """The leading remark, line by line, with the other remarks as terms below it."""

    name: str
    lines: tuple[tuple[Span, ...], ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class ColumnView:
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

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The labels of the axis; empty without an axis."""
        if self.axis is None:
            return ()
        return self.axis.list_labels()


@dataclass(frozen=True)
class CellView:
    """A cell with its bar."""

    cell: Cell
    bar: Bar | None


@dataclass(frozen=True)
class RowView:
    """A row of a table: the key cells, which are its headers, and the other cells."""

    keys: tuple[Cell, ...]
    cells: tuple[CellView, ...]


@dataclass(frozen=True)
class TableView:
    """A table with its columns and rows; `kind` names what the script of a page does with it."""

    table: Table
    columns: tuple[ColumnView, ...]
    rows: tuple[RowView, ...]
    kind: str


@dataclass(frozen=True)
class PictureView:
    """A picture with its SVG; the SVG is empty in a notebook and without matplotlib."""

    picture: Picture
    svg: str


PartView = Heading | str | TableView | Notes | Code | PictureView


@dataclass(frozen=True)
class Section:
    """A heading of level 2 with the parts below it; the first parts of a report may have no heading."""

    heading: Heading | None
    parts: tuple[PartView, ...]

    @property
    def is_folded(self) -> bool:
        """Whether the section is hidden until the reader opens it."""
        return self.heading is not None and self.heading.folded


@dataclass(frozen=True)
class PageView:
    """The content of a page."""

    title: str
    summary: tuple[str, ...]
    verdict: VerdictView | None
    warnings: tuple[str, ...]
    links: tuple[Heading, ...]
    metrics: tuple[str, ...]
    sections: tuple[Section, ...]
    legend: tuple[str, ...]
    appendix: tuple[Section, ...]
    lacks_pictures: bool


def build_page(tables: Tables) -> PageView:
    """Return the content of a page."""
    parts = (*tables.parts, *tables.appendix)
    part_views = build_parts(parts, page=True)
    n_parts = len(tables.parts)
    return PageView(
        title=tables.title,
        summary=tables.summary,
        verdict=_build_verdict(tables.verdict),
        warnings=tables.warnings,
        links=tuple(part for part in parts if isinstance(part, Heading) and part.level == 2),
        metrics=_list_metrics(parts),
        sections=_build_sections(part_views[:n_parts]),
        legend=tables.legend,
        appendix=_build_sections(part_views[n_parts:]),
        lacks_pictures=_lacks_pictures(parts),
    )


def _lacks_pictures(parts: Sequence[Part]) -> bool:
    """Return whether there is a picture that cannot be drawn."""
    has_pictures = any(isinstance(part, Picture) for part in parts)
    return has_pictures and not _can_draw()


def _can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def _list_metrics(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the metrics of tables and pictures, each once, in the order of the parts."""
    metrics: list[str] = []
    for part in parts:
        if isinstance(part, (Table, Picture)) and part.metric and part.metric not in metrics:
            metrics.append(part.metric)
    return tuple(metrics)


def _build_verdict(remarks: Sequence[Remark]) -> VerdictView | None:
    """Return the first leading remark with the other remarks below it; None without remarks."""
    if not remarks:
        return None

    leading_remarks = [remark for remark in remarks if remark.name in LEADING]
    if not leading_remarks:
        leading_remarks = [remarks[0]]
    other_remarks = [remark for remark in remarks if remark not in leading_remarks]

    verdict = leading_remarks[0]
    return VerdictView(
        name=verdict.name,
        lines=tuple(map(split_code_spans, verdict.lines)),
        terms=build_terms([*leading_remarks[1:], *other_remarks]),
    )


def build_terms(remarks: Sequence[Remark]) -> tuple[Term, ...]:
    """Return remarks as names with descriptions."""
    terms = []
    for remark in remarks:
        terms.append(Term(remark.name, split_code_spans(" ".join(remark.lines))))
    return tuple(terms)


def split_code_spans(text: str) -> tuple[Span, ...]:
    """Return the pieces of a text; those between backticks are code, unless a backtick has no partner."""
    pieces = text.split("`")
    has_unpaired_backtick = len(pieces) % 2 == 0
    if has_unpaired_backtick:
        return (Span(text, is_code=False),)
    return tuple(Span(piece, is_code=number % 2 == 1) for number, piece in enumerate(pieces))


def _build_sections(parts: Sequence[PartView]) -> tuple[Section, ...]:
    """Return the parts in sections, which begin at headings of level 2."""
    sections: list[Section] = []
    heading: Heading | None = None
    section_parts: list[PartView] = []
    for part in parts:
        if isinstance(part, Heading) and part.level == 2:
            sections.append(Section(heading, tuple(section_parts)))
            heading = part
            section_parts = []
        else:
            section_parts.append(part)
    sections.append(Section(heading, tuple(section_parts)))
    return tuple(sections)


def build_parts(parts: Sequence[Part], *, page: bool) -> tuple[PartView, ...]:
    """Return the parts of a report; on a `page`, tables have bars and can be sorted, and pictures are drawn."""
    can_draw = page and _can_draw()
    views: list[PartView] = []
    for number, part in enumerate(parts):
        if isinstance(part, Table):
            views.append(_build_table(part, page=page))
        elif isinstance(part, Picture):
            svg = ""
            if can_draw:
                svg = render_picture(part, id_prefix=f"p{number}-")
            views.append(PictureView(part, svg))
        else:
            views.append(part)
    return tuple(views)


def _build_table(table: Table, *, page: bool) -> TableView:
    """Return a table: its columns and its rows."""
    axis = None
    if page:
        axis = build_table_axis(table)
    columns = [_build_column(table, number, axis) for number in range(len(table.header))]

    kinds = []
    if page and len(table.rows) > 1 and not table.folded:
        kinds.append("s")  # the script of the page sorts it
    if page and table.header[0] == FILTERED_COLUMN:
        kinds.append("f")  # the script of the page filters it
    return TableView(
        table=table,
        columns=tuple(columns),
        rows=tuple(_build_row(row, columns, n_keys=table.n_keys) for row in table.rows),
        kind=" ".join(kinds),
    )


def _build_column(table: Table, number: int, axis: Axis | None) -> ColumnView:
    """Return the properties of a column; it has an axis if one of its values is drawn."""
    cells = [row[number] for row in table.rows]
    kind = ""
    if number in table.words and number >= table.n_keys:
        kind = "w"

    column_axis = None
    if any(map(_has_finite_value, cells)):
        column_axis = axis
    return ColumnView(
        name=table.header[number],
        has_marks=any(cell.mark for cell in cells),
        axis=column_axis,
        kind=kind,
    )


def _has_finite_value(cell: Cell) -> bool:
    """Return whether a page can draw a value of a cell."""
    return any(map(math.isfinite, cell.at))


def _build_row(cells: tuple[Cell, ...], columns: Sequence[ColumnView], *, n_keys: int) -> RowView:
    """Return a row of a table."""
    views = []
    for cell, column in zip(cells[n_keys:], columns[n_keys:], strict=True):
        bar = None
        if column.axis is not None and cell.at:
            bar = Bar.from_cell(cell, column.axis)
        views.append(CellView(cell, bar))
    return RowView(keys=cells[:n_keys], cells=tuple(views))
