"""Render reports as HTML by the templates of this package: one self-contained page, or parts for a notebook."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from ipseval.reporting._views import (
    build_parts,
    can_draw,
    list_metrics,
    sort_remarks,
    split_code_spans,
    split_sections,
)
from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import Heading, Picture, Tables

if TYPE_CHECKING:
    from jinja2 import Environment


def to_html(tables: Tables) -> str:
    """Return one page that loads nothing from elsewhere and runs only its own script.

    All text is escaped. The content security policy in the head of the page names the hashes of its style and
    of its script, so that a browser neither runs nor fetches anything else.
    """
    template = _load_environment().get_template("page.html.jinja")
    style = _read_compact("page.css")
    script = _read_compact("page.js")
    parts = (*tables.parts, *tables.appendix)
    views = build_parts(parts, page=True)
    has_pictures = any(isinstance(part, Picture) for part in parts)
    return template.render(
        tables=tables,
        verdict=sort_remarks(tables.remarks),
        links=[part for part in parts if isinstance(part, Heading) and part.level == 2],
        metrics=list_metrics(parts),
        sections=split_sections(views[: len(tables.parts)]),
        appendix=split_sections(views[len(tables.parts) :]),
        lacks_pictures=has_pictures and not can_draw(),
        style=style,
        script=script,
        style_hash=_compute_policy_hash(style),
        script_hash=_compute_policy_hash(script),
    )


def to_html_tables(tables: Tables) -> str:
    """Return verdict, tables, notes and legend without a page around them, for a notebook."""
    macros = _load_environment().get_template("parts.html.jinja").module
    parts = build_parts(tables.parts, page=False)
    return str(macros.write_notebook(tables, parts))  # type: ignore[attr-defined]


@cache
def _load_environment() -> Environment:
    """Return the environment of the templates, which escapes every text, control characters too."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ipseval.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_text,
        keep_trailing_newline=True,
    )
    environment.tests["of_kind"] = _is_of_kind
    environment.filters["code_spans"] = split_code_spans
    return environment


def _escape_text(value: object) -> object:
    """Return a text without control characters; numbers, and markup that a macro wrote, stay unchanged."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return escape_controls(value)
    return value


def _is_of_kind(part: object, class_name: str) -> bool:
    """Return whether a part of a report is an instance of a class, for the templates."""
    return type(part).__name__ == class_name


@cache
def _read_compact(file_name: str) -> str:
    """Return a file from the folder of templates without comments, indentation and empty lines."""
    path = resources.files("ipseval.reporting") / "templates" / file_name
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        stripped_line = line.strip()
        if stripped_line and not stripped_line.startswith("//"):
            lines.append(stripped_line)
    return "\n".join(lines)


def _compute_policy_hash(text: str) -> str:
    """Return the hash of a text in the form of a content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
