"""One self-contained HTML page, or its tables for a notebook."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable

from ipseval.report._escape import visible
from ipseval.report._tables import Cell, Code, Heading, Notes, Part, Picture, Table, Tables

# The browser is told to load nothing: no script, no request, pictures only from the page itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:72rem;margin:2rem auto;
padding:0 1rem}
h1{margin-bottom:.2rem}h2{margin-top:2.5rem;border-bottom:1px solid #ddd;padding-bottom:.2rem}
.summary{color:#444;margin:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
tbody th{font-weight:400;text-align:left;white-space:normal;overflow-wrap:anywhere;max-width:24rem}
thead th{border-bottom:2px solid #444;vertical-align:bottom;white-space:normal}
.words{white-space:normal;text-align:left;min-width:8rem;overflow-wrap:anywhere}
i{font-style:normal;color:#555}s{text-decoration:none;display:inline-block;width:2.6em;padding-left:.2em;
text-align:left;color:#555}
.flag{background:#fff3cd}.warning{border-left:4px solid #b35900;padding:.3rem .8rem;background:#fff3cd}
.notes{color:#333;font-size:.9rem;padding-left:1.2rem}
pre{background:#f5f5f5;padding:.8rem;overflow-x:auto;font-size:.85rem;margin:.5rem 0 1rem}
summary{cursor:pointer}
figure{margin:0;max-width:100%}img{max-width:100%;height:auto}
"""


class Raw(str):
    """HTML as it stands; every other text is escaped where an element takes it."""

    __slots__ = ()


def to_html(tables: Tables) -> str:
    """Return one page that loads nothing from elsewhere and runs nothing; all text is escaped."""
    head = [
        Raw('<meta charset="utf-8">'),
        _element("title", tables.title),
        Raw(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Raw('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Raw(f'<link rel="icon" href="data:,"><style>{_STYLE}</style>'),
    ]
    body = [
        _element("h1", tables.title),
        *(_element("p", line, kind="summary") for line in tables.summary),
        *(_element("p", line, kind="warning") for line in tables.warnings),
        *_parts(tables),
        *map(_part, tables.appendix),
    ]
    page = _element("head", *head) + "\n" + _element("body", *body)
    return f'<!DOCTYPE html>\n<html lang="en">{page}</html>\n'


def to_html_tables(tables: Tables) -> str:
    """Return the tables and notes alone, for a notebook."""
    return "\n".join(_parts(tables))


def _parts(tables: Tables) -> list[Raw]:
    remarks = [_element("p", _element("b", one.name), " ", " ".join(one.lines)) for one in tables.verdict]
    return [*map(_part, tables.parts), *remarks, _list(tables.legend)]


def _element(name: str, *inside: str, kind: str = "", hint: str = "") -> Raw:
    attributes = (f' class="{kind}"' if kind else "") + (f' title="{_escaped(hint)}"' if hint else "")
    return Raw(f"<{name}{attributes}>{''.join(map(_escaped, inside))}</{name}>")


def _escaped(text: str) -> str:
    return text if isinstance(text, Raw) else html.escape(visible(text))


def _part(part: Part) -> Raw:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Notes):
        return _list(part.lines)
    if isinstance(part, Heading):
        return _element(f"h{part.level}", part.text)
    if isinstance(part, Code):
        text = Raw("\n".join(map(_escaped, part.text.split("\n"))))
        return _element("details", _element("summary", part.name), _element("pre", text))
    if isinstance(part, Picture):
        data = base64.b64encode(part.data).decode("ascii")
        source = f'src="data:image/{part.kind};base64,{data}"'
        return _element("figure", Raw(f'<img alt="{_escaped(part.alt)}" width="{part.width}" {source}>'))
    return _element("p", part)


def _list(lines: Iterable[str]) -> Raw:
    items = [_element("li", line.strip()) for line in lines]
    return _element("ul", *items, kind="notes") if items else Raw("")


def _table(table: Table) -> Raw:
    signs = [any(row[place].mark for row in table.rows) for place in range(len(table.header))]
    caption = [_element("caption", table.title)] if table.title else []
    header = [
        Raw(f'<th scope="col">{_escaped(name)}{"<s></s>" * sign}</th>')
        for name, sign in zip(table.header, signs, strict=True)
    ]
    rows = [_row(table, row, signs) for row in table.rows]
    shown = _element(
        "div",
        _element("table", *caption, _element("thead", _element("tr", *header)), _element("tbody", *rows)),
        kind="scroll",
    )
    if table.folded:
        return _element("details", _element("summary", table.title), shown)
    return Raw(f"{shown}{_list(table.below)}")


def _row(table: Table, row: tuple[Cell, ...], signs: list[bool]) -> Raw:
    cells = []
    for place, cell in enumerate(row):
        if place < table.n_keys:
            cells.append(Raw(f'<th scope="row">{_escaped(cell.plain)}</th>'))
            continue
        text = _element("b", cell.text) if cell.strong else Raw(_escaped(cell.text))
        error = [" ", _element("i", cell.error)] if cell.error else []
        sign = [_element("s", cell.mark)] if signs[place] else []
        kind = " ".join(filter(None, ("words" * (place in table.words), "flag" * bool(cell.flag))))
        hint = "; ".join(filter(None, (cell.flag, cell.hint)))
        cells.append(_element("td", text, *error, *sign, kind=kind, hint=hint))
    return Raw(_element("tr", *cells) + "\n")
