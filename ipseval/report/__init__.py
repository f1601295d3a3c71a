"""Reports: what an evaluation looks like as text, Markdown, LaTeX, HTML and JSON."""

from __future__ import annotations

from ipseval.report._html import to_html, to_html_tables
from ipseval.report._markup import to_latex, to_markdown
from ipseval.report._provenance import provenance, to_json
from ipseval.report._text import to_text

__all__ = ["provenance", "to_html", "to_html_tables", "to_json", "to_latex", "to_markdown", "to_text"]
