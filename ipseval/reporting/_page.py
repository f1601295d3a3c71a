"""One self-contained HTML page: verdict first, tables that sort and filter, themes, print and phone."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ipseval.reporting._html import Raw, build_element, build_list, format_code_spans, render_part
from ipseval.reporting.drawing import read_picture_style
from ipseval.reporting.tables import LEADING, Heading, Part, Remark, Tables

_THEMES = (("", "as the system"), ("light", "light"), ("dark", "dark"))


def to_html(tables: Tables) -> str:
    """Return one page that loads nothing from elsewhere and runs its own script alone; all text is escaped.

    The policy in its head names the hashes of its style and its script. What else a text might smuggle in,
    the browser neither runs nor fetches.
    """
    parts = (*tables.parts, *tables.appendix)
    body = [
        build_element(
            "header",
            build_element("h1", tables.title),
            *(build_element("p", line, kind="summary") for line in tables.summary),
            _verdict(tables),
            *(build_element("p", line, kind="warning") for line in tables.warnings),
            _contents(parts),
        ),
        build_element(
            "main",
            _tools(parts),
            *_folded(tables.parts),
            build_list(tables.legend),
            *_folded(tables.appendix),
        ),
        Raw(f"<script>{_code()}</script>"),
    ]
    head = build_element("head", *_head(tables.title))
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>{"".join(body)}</body></html>\n'


def _folded(parts: tuple[Part, ...]) -> list[Raw]:
    """Return the parts; what stands below a heading that is folded, up to the next one, is closed."""
    made, closing = [], ""
    for part in parts:
        drawn = render_part(part, page=True)
        if isinstance(part, Heading) and part.level == 2:
            opening = f"<details><summary>{drawn}</summary>" if part.folded else drawn
            drawn, closing = Raw(closing + opening), "</details>" * part.folded
        made.append(drawn)
    return [*made, Raw(closing)]


def _head(title: str) -> list[Raw]:
    policy = (
        f"default-src 'none'; style-src {_hash(_style())}; script-src {_hash(_code())}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return [
        Raw('<meta charset="utf-8">'),
        build_element("title", title),
        Raw(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Raw('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Raw(f'<link rel="icon" href="data:,"><style>{_style()}</style>'),
    ]


def _verdict(tables: Tables) -> Raw:
    """Return the verdict, its assumption and the next step; other remarks follow as terms."""
    if not tables.verdict:
        return Raw("")
    leading = [remark for remark in tables.verdict if remark.name in LEADING] or [tables.verdict[0]]
    others = [remark for remark in tables.verdict if remark not in leading]
    first = leading[0]
    return build_element(
        "section",
        build_element("h2", first.name, id="verdict"),
        *(build_element("p", format_code_spans(line)) for line in first.lines),
        *_terms([*leading[1:], *others]),
        kind="verdict",
        aria_labelledby="verdict",
    )


def _terms(remarks: Sequence[Remark]) -> list[Raw]:
    """Return remarks as a list of terms and descriptions; nothing where there is none."""
    items = []
    for remark in remarks:
        items += [
            build_element("dt", remark.name),
            build_element("dd", format_code_spans(" ".join(remark.lines))),
        ]
    return [build_element("dl", *items)] if items else []


def _contents(parts: tuple[Part, ...]) -> Raw:
    """Return links to the sections, where there are several."""
    heads = [part for part in parts if isinstance(part, Heading) and part.level == 2]
    if len(heads) < 2:
        return Raw("")
    items = [build_element("li", build_element("a", one.text, href=f"#{one.anchor}")) for one in heads]
    return build_element("nav", build_element("ul", *items), aria_label="Sections")


def _tools(parts: tuple[Part, ...]) -> Raw:
    """Return what the script brings to life; it stays hidden without one."""
    metrics = list(dict.fromkeys(filter(None, (getattr(part, "metric", "") for part in parts))))
    tools = []
    if metrics:
        tools.append(build_element("label", "Filter by name ", Raw('<input id="filter" type="search">')))
    if len(metrics) > 1:
        options = [Raw('<option value="">all</option>'), *(build_element("option", one) for one in metrics)]
        tools.append(build_element("label", "Metric ", build_element("select", *options, id="metric")))
    themes = [Raw(f'<option value="{value}">{words}</option>') for value, words in _THEMES]
    tools.append(build_element("label", "Theme ", build_element("select", *themes, id="theme")))
    shown = Raw('<output id="count" aria-live="polite"></output>')
    return Raw(f'<div class="tools" id="tools" hidden>{"".join(tools)}{shown}</div>')


@cache
def _style() -> str:
    return f"{_read('_page.css')}\n{read_picture_style()}"


@cache
def _code() -> str:
    return _read("_page.js")


def _read(name: str) -> str:
    """Return a file beside this one without comments, indentation and empty lines."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not re.match("//", line))


def _hash(text: str) -> str:
    """Return the hash of a text as a policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
