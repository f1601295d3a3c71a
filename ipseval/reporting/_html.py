"""Tables and notes as HTML: every text is escaped where an element takes it."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ipseval.reporting.drawing import Axis, build_table_axis, draw_bar, draw_ticks
from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import Cell, Code, Heading, Notes, Part, Picture, Table, Tables

# Tables whose rows are named by this are filtered together.
FILTERED = "recommender"


class Raw(str):
    """HTML as it stands; every other text is escaped where an element takes it."""

    __slots__ = ()


def to_html_tables(tables: Tables) -> str:
    """Return verdict, tables and notes alone, for a notebook."""
    verdict = [
        build_element("p", build_element("b", one.name), " ", format_code_spans(" ".join(one.lines)))
        for one in tables.verdict
    ]
    return "\n".join([*verdict, *(render_part(part) for part in tables.parts), build_list(tables.legend)])


def build_element(name: str, *inside: str, **attributes: str) -> Raw:
    """Return an element; attributes that are empty are left out, `kind` is its class."""
    named = {"class" if key == "kind" else key.replace("_", "-"): text for key, text in attributes.items()}
    given = "".join(f' {key}="{escape_html(text)}"' for key, text in named.items() if text)
    return Raw(f"<{name}{given}>{''.join(map(escape_html, inside))}</{name}>")


def escape_html(text: str) -> str:
    """Return a text that no browser reads as markup."""
    return text if isinstance(text, Raw) else html.escape(escape_controls(text))


def format_code_spans(text: str) -> Raw:
    """Return a text in which what stands between backticks is an element for code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner
        return escape_to_raw(text)
    marked = [
        build_element("code", piece) if number % 2 else escape_to_raw(piece)
        for number, piece in enumerate(pieces)
    ]
    return Raw("".join(marked))


def escape_to_raw(text: str) -> Raw:
    """Return a text as HTML that no browser reads as markup."""
    return Raw(escape_html(text))


def render_part(part: Part, *, page: bool = False) -> Raw:
    """Return one part of a report; on a `page`, tables can be sorted, and those of a metric filtered."""
    if isinstance(part, Table):
        return _table(part, page)
    if isinstance(part, Notes):
        return build_list(part.lines)
    if isinstance(part, Heading):
        return build_element(f"h{part.level}", part.text, id=part.anchor if part.level == 2 else "")
    if isinstance(part, Code):
        text = Raw("\n".join(map(escape_html, part.text.split("\n"))))
        return build_element("details", build_element("summary", part.name), build_element("pre", text))
    if isinstance(part, Picture):
        return _picture(part)
    return build_element("p", part)


def build_list(lines: Iterable[str]) -> Raw:
    """Return lines as a list; nothing without lines."""
    items = [build_element("li", line.strip()) for line in lines]
    return build_element("ul", *items, kind="notes") if items else Raw("")


def _picture(picture: Picture) -> Raw:
    width, height = picture.width, picture.height
    size = f'viewBox="0 0 {width} {height}" width="{width}"' if width else f'width="100%" height="{height}"'
    size += f' role="img" aria-label="{escape_html(picture.alt)}"'
    drawn = Raw(f'<div class="{"" if width else "plot"}"><svg class="p" {size}>{picture.drawn}</svg></div>')
    line = '<svg class="p c{0}" aria-hidden="true"><line class="l d{0}" x2="28" y1="5" y2="5"/></svg>'
    keys = [build_element("li", Raw(line.format(style)), name) for style, name in picture.legend]
    legend = [build_element("ul", *keys, kind="legend")] if keys else []
    caption = [build_element("figcaption", picture.caption)] if picture.caption else []
    return build_element("figure", drawn, *legend, *caption, data_g=picture.metric)


@dataclass(frozen=True)
class _Column:
    """What the cells of a column have in common."""

    marked: bool
    axis: Axis | None
    kind: str


def _table(table: Table, page: bool) -> Raw:
    axis = build_table_axis(table) if page else None
    columns = [
        _Column(
            any(row[place].mark for row in table.rows),
            axis if any(map(math.isfinite, (one for row in table.rows for one in row[place].at))) else None,
            "w" if place in table.words and place >= table.n_keys else "",
        )
        for place in range(len(table.header))
    ]
    sorts = page and len(table.rows) > 1 and not table.folded
    kinds = ("s" * sorts, "f" * (page and table.header[0] == FILTERED))
    inside = [
        *([build_element("caption", table.title)] if table.title and not table.folded else []),
        build_element("thead", build_element("tr", *map(_head, table.header, columns))),
        build_element("tbody", *(_row(table, row, columns) for row in table.rows)),
    ]
    shown = build_element("table", *inside, kind=" ".join(filter(None, kinds)))
    # A wide table scrolls, with the keyboard, too.
    name = table.title or table.header[0]
    around = build_element("div", shown, kind="scroll", tabindex="0", role="group", aria_label=name)
    if table.folded:
        return build_element("details", build_element("summary", table.title), around)
    if table.metric:
        return build_element("div", around, build_list(table.below), data_g=table.metric)
    return Raw(f"{around}{build_list(table.below)}")


def _head(name: str, column: _Column) -> Raw:
    axis = Raw(draw_ticks(column.axis)) if column.axis else Raw("")
    sign = Raw("<s></s>" * (column.marked and not column.kind))
    return build_element(
        "th", name, sign, axis, scope="col", kind=column.kind, data_n=name if column.axis else ""
    )


def _row(table: Table, row: tuple[Cell, ...], columns: list[_Column]) -> Raw:
    cells = []
    for place, (cell, column) in enumerate(zip(row, columns, strict=True)):
        if place < table.n_keys:
            cells.append(build_element("th", cell.plain, scope="row"))
            continue
        text = build_element("b", cell.text) if cell.strong else Raw(escape_html(cell.text))
        error = [" ", build_element("i", cell.error)] if cell.error else []
        sign = [build_element("s", cell.mark)] if column.marked else []
        drawn = [Raw(draw_bar(cell, column.axis))] if column.axis and cell.at else []
        # One element, so that a card of a phone has the words on one side and the numbers on the other.
        whole = build_element("span", text, *error, *sign) if error or sign or drawn else text
        inside = [whole, *drawn]
        kind = " ".join(filter(None, (column.kind, "flag" * bool(cell.flag))))
        hint = "; ".join(filter(None, (cell.flag, cell.hint)))
        cells.append(build_element("td", *inside, kind=kind, title=hint))
    return Raw(build_element("tr", *cells) + "\n")
