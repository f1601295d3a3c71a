"""Renderer for one self-contained HTML page that sorts and filters tables, has themes, and can be printed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ipseval.reporting._html import NOTHING, Raw, build_element, build_list, format_code_spans, render_part
from ipseval.reporting.drawing import read_picture_style
from ipseval.reporting.tables import LEADING, Heading, Part, Picture, Remark, Table, Tables

_THEMES = {"": "as the system", "light": "light", "dark": "dark"}


def to_html(tables: Tables) -> str:
    """Return one page that loads nothing from elsewhere and runs only its own script.

    All text is escaped. The content security policy in the head of the page names the hashes of its style and
    of its script, so that a browser neither runs nor fetches anything else.
    """
    head = build_element("head", *_build_head(tables.title))
    parts = (*tables.parts, *tables.appendix)
    header = _build_header(tables, parts)
    main = build_element(
        "main",
        _build_tools(parts),
        *_render_sections(tables.parts),
        build_list(tables.legend),
        *_render_sections(tables.appendix),
    )
    script = f"<script>{_read_script()}</script>"
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>{header}{main}{script}</body></html>\n'


def _build_header(tables: Tables, parts: Sequence[Part]) -> Raw:
    """Return the top of the page: title, summary, verdict, warnings and navigation."""
    return build_element(
        "header",
        build_element("h1", tables.title),
        *(build_element("p", line, kind="summary") for line in tables.summary),
        _build_verdict(tables.verdict),
        *(build_element("p", line, kind="warning") for line in tables.warnings),
        _build_navigation(parts),
    )


def _render_sections(parts: Sequence[Part]) -> list[Raw]:
    """Return the parts as HTML; a section whose heading is folded can be opened."""
    elements = []
    is_in_folded_section = False
    for part in parts:
        element = render_part(part, page=True)
        if isinstance(part, Heading) and part.level == 2:
            if is_in_folded_section:
                elements.append(Raw("</details>"))
            is_in_folded_section = part.folded
            if is_in_folded_section:
                element = Raw(f"<details><summary>{element}</summary>")
        elements.append(element)
    if is_in_folded_section:
        elements.append(Raw("</details>"))
    return elements


def _build_head(title: str) -> list[Raw]:
    """Return the elements of the head of the page."""
    style = _read_style()
    policy = (
        f"default-src 'none'; style-src {_compute_policy_hash(style)}; "
        f"script-src {_compute_policy_hash(_read_script())}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return [
        Raw('<meta charset="utf-8">'),
        build_element("title", title),
        Raw(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Raw('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Raw(f'<link rel="icon" href="data:,"><style>{style}</style>'),
    ]


def _build_verdict(remarks: Sequence[Remark]) -> Raw:
    """Return the first leading remark as a section, with the other remarks as a list of terms below it."""
    if not remarks:
        return NOTHING

    leading_remarks = [remark for remark in remarks if remark.name in LEADING]
    if not leading_remarks:
        leading_remarks = [remarks[0]]
    other_remarks = [remark for remark in remarks if remark not in leading_remarks]

    verdict = leading_remarks[0]
    content = [build_element("h2", verdict.name, id="verdict")]
    for line in verdict.lines:
        content.append(build_element("p", format_code_spans(line)))
    content.append(_build_terms([*leading_remarks[1:], *other_remarks]))
    return build_element("section", *content, kind="verdict", aria_labelledby="verdict")


def _build_terms(remarks: Sequence[Remark]) -> Raw:
    """Return remarks as a list of terms and descriptions; nothing without remarks."""
    if not remarks:
        return NOTHING
    items = []
    for remark in remarks:
        items.append(build_element("dt", remark.name))
        items.append(build_element("dd", format_code_spans(" ".join(remark.lines))))
    return build_element("dl", *items)


def _build_navigation(parts: Sequence[Part]) -> Raw:
    """Return links to the sections of the page; nothing for fewer than two sections."""
    items = []
    for part in parts:
        if isinstance(part, Heading) and part.level == 2:
            link = build_element("a", part.text, href=f"#{part.anchor}")
            items.append(build_element("li", link))
    if len(items) < 2:
        return NOTHING
    return build_element("nav", build_element("ul", *items), aria_label="Sections")


def _build_tools(parts: Sequence[Part]) -> Raw:
    """Return the controls for filter, metric and theme; they stay hidden unless the script runs."""
    metrics = _list_metrics(parts)
    controls = []
    if metrics:
        search_field = Raw('<input id="filter" type="search">')
        controls.append(build_element("label", "Filter by name ", search_field))
    if len(metrics) > 1:
        metric_options = [Raw('<option value="">all</option>')]
        metric_options += [build_element("option", metric) for metric in metrics]
        metric_choice = build_element("select", *metric_options, id="metric")
        controls.append(build_element("label", "Metric ", metric_choice))

    theme_options = [Raw(f'<option value="{theme}">{name}</option>') for theme, name in _THEMES.items()]
    theme_choice = build_element("select", *theme_options, id="theme")
    controls.append(build_element("label", "Theme ", theme_choice))
    controls.append(Raw('<output id="count" aria-live="polite"></output>'))
    return Raw(f'<div class="tools" id="tools" hidden>{"".join(controls)}</div>')


def _list_metrics(parts: Sequence[Part]) -> list[str]:
    """Return the metrics of tables and pictures, each once, in the order of the parts."""
    metrics: list[str] = []
    for part in parts:
        if isinstance(part, (Table, Picture)) and part.metric and part.metric not in metrics:
            metrics.append(part.metric)
    return metrics


@cache
def _read_style() -> str:
    """Return the style of the page and of the pictures on it."""
    return f"{_read_compact('_page.css')}\n{read_picture_style()}"


@cache
def _read_script() -> str:
    """Return the script of the page."""
    return _read_compact("_page.js")


def _read_compact(file_name: str) -> str:
    """Return a file of this directory without comments, indentation and empty lines."""
    text = Path(__file__).with_name(file_name).read_text(encoding="utf-8")
    lines = []
    for line in text.splitlines():
        stripped_line = line.strip()
        if stripped_line and not stripped_line.startswith("//"):
            lines.append(stripped_line)
    return "\n".join(lines)


def _compute_policy_hash(text: str) -> str:
    """Return the hash of a text in the form of a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
