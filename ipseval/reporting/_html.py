"""Renderer for tables, notes and pictures as HTML; every text is escaped when an element is built."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ipseval.reporting.drawing import Axis, build_table_axis, draw_bar, draw_ticks
from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import Cell, Code, Heading, Notes, Part, Picture, Table, Tables

# The filter of a page applies to tables whose first column has this name.
FILTERED_COLUMN = "recommender"


class Raw(str):
    """HTML that is inserted without escaping; every other text is escaped when an element is built."""

    __slots__ = ()


NOTHING = Raw("")


def to_html_tables(tables: Tables) -> str:
    """Return verdict, tables, notes and legend without a page around them, for a notebook."""
    elements = []
    for remark in tables.verdict:
        text = format_code_spans(" ".join(remark.lines))
        elements.append(build_element("p", build_element("b", remark.name), " ", text))
    elements += map(render_part, tables.parts)
    elements.append(build_list(tables.legend))
    return "\n".join(elements)


def build_element(name: str, *content: str, **attributes: str) -> Raw:
    """Return an element with its content, which is escaped unless it is `Raw`.

    Empty attributes are omitted. The attribute `kind` is written as `class`, and "_" as "-".
    """
    written_attributes = ""
    for key, value in attributes.items():
        if not value:
            continue
        attribute = key.replace("_", "-")
        if key == "kind":
            attribute = "class"
        written_attributes += f' {attribute}="{escape_html(value)}"'
    escaped_content = "".join(map(escape_html, content))
    return Raw(f"<{name}{written_attributes}>{escaped_content}</{name}>")


def escape_html(text: str) -> Raw:
    """Return a text as HTML in which no browser reads markup; `Raw` is returned unchanged."""
    if isinstance(text, Raw):
        return text
    return Raw(html.escape(escape_controls(text)))


def format_code_spans(text: str) -> Raw:
    """Return a text as HTML, with pieces between backticks as code elements."""
    pieces = text.split("`")
    has_unpaired_backtick = len(pieces) % 2 == 0
    if has_unpaired_backtick:
        return escape_html(text)

    spans = []
    for number, piece in enumerate(pieces):
        is_code = number % 2 == 1
        if is_code:
            spans.append(build_element("code", piece))
        else:
            spans.append(escape_html(piece))
    return Raw("".join(spans))


def render_part(part: Part, *, page: bool = False) -> Raw:
    """Return one part of a report as HTML; on a `page`, tables have bars and can be sorted and filtered."""
    if isinstance(part, Table):
        return _render_table(part, page=page)
    if isinstance(part, Notes):
        return build_list(part.lines)
    if isinstance(part, Heading):
        return _render_heading(part)
    if isinstance(part, Code):
        code_lines = map(escape_html, part.text.split("\n"))
        code = build_element("pre", Raw("\n".join(code_lines)))
        return build_element("details", build_element("summary", part.name), code)
    if isinstance(part, Picture):
        return _render_picture(part)
    return build_element("p", part)


def build_list(lines: Iterable[str]) -> Raw:
    """Return lines as a list element; nothing without lines."""
    items = [build_element("li", line.strip()) for line in lines]
    if not items:
        return NOTHING
    return build_element("ul", *items, kind="notes")


def _render_heading(heading: Heading) -> Raw:
    """Return a heading; the navigation of a page links to those of level 2."""
    anchor = ""
    if heading.level == 2:
        anchor = heading.anchor
    return build_element(f"h{heading.level}", heading.text, id=anchor)


def _render_picture(picture: Picture) -> Raw:
    """Return a picture as a figure with its legend and its caption."""
    if picture.width:
        size = f'viewBox="0 0 {picture.width} {picture.height}" width="{picture.width}"'
        kind = ""
    else:
        size = f'width="100%" height="{picture.height}"'
        kind = "plot"
    label = f'role="img" aria-label="{escape_html(picture.alt)}"'
    content = [Raw(f'<div class="{kind}"><svg class="p" {size} {label}>{picture.drawn}</svg></div>')]

    if picture.legend:
        items = [build_element("li", _draw_legend_line(style), name) for style, name in picture.legend]
        content.append(build_element("ul", *items, kind="legend"))
    if picture.caption:
        content.append(build_element("figcaption", picture.caption))
    return build_element("figure", *content, data_g=picture.metric)


def _draw_legend_line(style: int) -> Raw:
    """Return a short line in a style, for the legend of a picture."""
    line = f'<line class="l d{style}" x2="28" y1="5" y2="5"/>'
    return Raw(f'<svg class="p c{style}" aria-hidden="true">{line}</svg>')


@dataclass(frozen=True)
class _Column:
    """Properties that the cells of a column share.

    Attributes
    ----------
    has_marks : bool
        Whether a cell has a mark: then all cells reserve space for it.
    axis : Axis or None
        The axis of the bars; None where no value of the column is drawn.
    kind : str
        The class of its cells: "w" for words, else empty.
    """

    has_marks: bool
    axis: Axis | None
    kind: str


def _render_table(table: Table, *, page: bool) -> Raw:
    """Return a table in a box that scrolls, with the lines below it."""
    # The box can be focused, so that a wide table scrolls with the keyboard, too.
    box = build_element(
        "div",
        _build_table_element(table, page=page),
        kind="scroll",
        tabindex="0",
        role="group",
        aria_label=table.title or table.header[0],
    )
    if table.folded:
        return build_element("details", build_element("summary", table.title), box)
    if table.metric:
        return build_element("div", box, build_list(table.below), data_g=table.metric)
    return Raw(box + build_list(table.below))


def _build_table_element(table: Table, *, page: bool) -> Raw:
    """Return the table element: caption, header and rows."""
    axis = None
    if page:
        axis = build_table_axis(table)
    columns = [_describe_column(table, number, axis) for number in range(len(table.header))]

    content = []
    if table.title and not table.folded:
        content.append(build_element("caption", table.title))
    header_cells = map(_render_header_cell, table.header, columns)
    content.append(build_element("thead", build_element("tr", *header_cells)))
    rows = [_render_row(row, columns, n_keys=table.n_keys) for row in table.rows]
    content.append(build_element("tbody", *rows))

    kinds = []
    if page and len(table.rows) > 1 and not table.folded:
        kinds.append("s")  # the script of the page sorts it
    if page and table.header[0] == FILTERED_COLUMN:
        kinds.append("f")  # the script of the page filters it
    return build_element("table", *content, kind=" ".join(kinds))


def _describe_column(table: Table, number: int, axis: Axis | None) -> _Column:
    """Return the properties of a column; it has an axis if one of its values is drawn."""
    cells = [row[number] for row in table.rows]
    kind = ""
    if number in table.words and number >= table.n_keys:
        kind = "w"

    column_axis = None
    if any(map(_has_finite_value, cells)):
        column_axis = axis
    return _Column(has_marks=any(cell.mark for cell in cells), axis=column_axis, kind=kind)


def _has_finite_value(cell: Cell) -> bool:
    """Return whether a page can draw a value of a cell."""
    return any(map(math.isfinite, cell.at))


def _render_header_cell(name: str, column: _Column) -> Raw:
    """Return the header of a column, with space for marks and the ticks of its axis."""
    content: list[str] = [name]
    if column.has_marks and not column.kind:
        content.append(Raw("<s></s>"))
    drawn_name = ""
    if column.axis:
        content.append(Raw(draw_ticks(column.axis)))
        drawn_name = name
    return build_element("th", *content, scope="col", kind=column.kind, data_n=drawn_name)


def _render_row(cells: tuple[Cell, ...], columns: list[_Column], *, n_keys: int) -> Raw:
    """Return a row of a table; its key cells are headers of the row."""
    elements = [build_element("th", cell.plain, scope="row") for cell in cells[:n_keys]]
    elements += map(_render_cell, cells[n_keys:], columns[n_keys:])
    return Raw(build_element("tr", *elements) + "\n")


def _render_cell(cell: Cell, column: _Column) -> Raw:
    """Return a cell: its text, standard error and mark, and its bar below them."""
    text = escape_html(cell.text)
    if cell.strong:
        text = build_element("b", text)

    numbers: list[str] = [text]
    if cell.error:
        numbers += [" ", build_element("i", cell.error)]
    if column.has_marks:
        numbers.append(build_element("s", cell.mark))

    bars = []
    if column.axis and cell.at:
        bars.append(Raw(draw_bar(cell, column.axis)))

    content = text
    if len(numbers) > 1 or bars:
        # One element, so that a card on a phone has the words on one side and the numbers on the other.
        content = build_element("span", *numbers)

    kinds = [column.kind]
    if cell.flag:
        kinds.append("flag")
    hints = filter(None, (cell.flag, cell.hint))
    kind = " ".join(filter(None, kinds))
    return build_element("td", content, *bars, kind=kind, title="; ".join(hints))
