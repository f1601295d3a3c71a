"""Reports: what a `Tables` value looks like as text, Markdown, LaTeX, HTML and CSV.

Whoever has results builds a `Tables` and hands it down; nothing here knows an evaluation.
"""

from __future__ import annotations

from ipseval.report._curves import curves
from ipseval.report._drawing import N_STYLES, svg_file
from ipseval.report._escape import visible
from ipseval.report._forest import forest
from ipseval.report._html import to_html_tables
from ipseval.report._latex import to_latex
from ipseval.report._markdown import to_markdown
from ipseval.report._page import to_html
from ipseval.report._reported import Explanation, Reported
from ipseval.report._scatter import scatter
from ipseval.report._tables import Cell, Code, Heading, Notes, Part, Picture, Remark, Table, Tables
from ipseval.report._text import to_text
from ipseval.report._write import csv_text, deliver

__all__ = [
    "N_STYLES",
    "Cell",
    "Code",
    "Explanation",
    "Heading",
    "Notes",
    "Part",
    "Picture",
    "Remark",
    "Reported",
    "Table",
    "Tables",
    "csv_text",
    "curves",
    "deliver",
    "forest",
    "scatter",
    "svg_file",
    "to_html",
    "to_html_tables",
    "to_latex",
    "to_markdown",
    "to_text",
    "visible",
]
