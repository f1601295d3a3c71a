"""Tables and notes as HTML: every text is escaped where an element takes it."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ipseval.reporting.drawing import Axis, bar, table_axis, ticks
from ipseval.reporting.markup import visible
from ipseval.reporting.tables import Cell, Code, Heading, Notes, Part, Picture, Table, Tables

# Tables whose rows are named by this are filtered together.
FILTERED = "recommender"


class Raw(str):
    """HTML as it stands; every other text is escaped where an element takes it."""

    __slots__ = ()


def to_html_tables(tables: Tables) -> str:
    """Return verdict, tables and notes alone, for a notebook."""
    verdict = [
        element("p", element("b", one.name), " ", with_code(" ".join(one.lines))) for one in tables.verdict
    ]
    return "\n".join([*verdict, *(html_part(part) for part in tables.parts), html_list(tables.legend)])


def element(name: str, *inside: str, **attributes: str) -> Raw:
    """Return an element; attributes that are empty are left out, `kind` is its class."""
    named = {"class" if key == "kind" else key.replace("_", "-"): text for key, text in attributes.items()}
    given = "".join(f' {key}="{escaped(text)}"' for key, text in named.items() if text)
    return Raw(f"<{name}{given}>{''.join(map(escaped, inside))}</{name}>")


def escaped(text: str) -> str:
    """Return a text that no browser reads as markup."""
    return text if isinstance(text, Raw) else html.escape(visible(text))


def with_code(text: str) -> Raw:
    """Return a text in which what stands between backticks is an element for code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner
        return escaped_text(text)
    marked = [
        element("code", piece) if number % 2 else escaped_text(piece) for number, piece in enumerate(pieces)
    ]
    return Raw("".join(marked))


def escaped_text(text: str) -> Raw:
    """Return a text as HTML that no browser reads as markup."""
    return Raw(escaped(text))


def html_part(part: Part, *, page: bool = False) -> Raw:
    """Return one part of a report; on a `page`, tables can be sorted, and those of a metric filtered."""
    if isinstance(part, Table):
        return _table(part, page)
    if isinstance(part, Notes):
        return html_list(part.lines)
    if isinstance(part, Heading):
        return element(f"h{part.level}", part.text, id=part.anchor if part.level == 2 else "")
    if isinstance(part, Code):
        text = Raw("\n".join(map(escaped, part.text.split("\n"))))
        return element("details", element("summary", part.name), element("pre", text))
    if isinstance(part, Picture):
        return _picture(part)
    return element("p", part)


def html_list(lines: Iterable[str]) -> Raw:
    """Return lines as a list; nothing without lines."""
    items = [element("li", line.strip()) for line in lines]
    return element("ul", *items, kind="notes") if items else Raw("")


def _picture(picture: Picture) -> Raw:
    width, height = picture.width, picture.height
    size = f'viewBox="0 0 {width} {height}" width="{width}"' if width else f'width="100%" height="{height}"'
    size += f' role="img" aria-label="{escaped(picture.alt)}"'
    drawn = Raw(f'<div class="{"" if width else "plot"}"><svg class="p" {size}>{picture.drawn}</svg></div>')
    line = '<svg class="p c{0}" aria-hidden="true"><line class="l d{0}" x2="28" y1="5" y2="5"/></svg>'
    keys = [element("li", Raw(line.format(style)), name) for style, name in picture.legend]
    legend = [element("ul", *keys, kind="legend")] if keys else []
    caption = [element("figcaption", picture.caption)] if picture.caption else []
    return element("figure", drawn, *legend, *caption, data_g=picture.metric)


@dataclass(frozen=True)
class _Column:
    """What the cells of a column have in common."""

    marked: bool
    axis: Axis | None
    kind: str


def _table(table: Table, page: bool) -> Raw:
    axis = table_axis(table) if page else None
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
        *([element("caption", table.title)] if table.title and not table.folded else []),
        element("thead", element("tr", *map(_head, table.header, columns))),
        element("tbody", *(_row(table, row, columns) for row in table.rows)),
    ]
    shown = element("table", *inside, kind=" ".join(filter(None, kinds)))
    # A wide table scrolls, with the keyboard, too.
    name = table.title or table.header[0]
    around = element("div", shown, kind="scroll", tabindex="0", role="group", aria_label=name)
    if table.folded:
        return element("details", element("summary", table.title), around)
    if table.metric:
        return element("div", around, html_list(table.below), data_g=table.metric)
    return Raw(f"{around}{html_list(table.below)}")


def _head(name: str, column: _Column) -> Raw:
    axis = Raw(ticks(column.axis)) if column.axis else Raw("")
    sign = Raw("<s></s>" * (column.marked and not column.kind))
    return element("th", name, sign, axis, scope="col", kind=column.kind, data_n=name if column.axis else "")


def _row(table: Table, row: tuple[Cell, ...], columns: list[_Column]) -> Raw:
    cells = []
    for place, (cell, column) in enumerate(zip(row, columns, strict=True)):
        if place < table.n_keys:
            cells.append(element("th", cell.plain, scope="row"))
            continue
        text = element("b", cell.text) if cell.strong else Raw(escaped(cell.text))
        error = [" ", element("i", cell.error)] if cell.error else []
        sign = [element("s", cell.mark)] if column.marked else []
        drawn = [Raw(bar(cell, column.axis))] if column.axis and cell.at else []
        # One element, so that a card of a phone has the words on one side and the numbers on the other.
        whole = element("span", text, *error, *sign) if error or sign or drawn else text
        inside = [whole, *drawn]
        kind = " ".join(filter(None, (column.kind, "flag" * bool(cell.flag))))
        hint = "; ".join(filter(None, (cell.flag, cell.hint)))
        cells.append(element("td", *inside, kind=kind, title=hint))
    return Raw(element("tr", *cells) + "\n")
