"""Private names of ipseval.report that tests reach for."""

from __future__ import annotations

from ipseval.report._drawing import Axis, svg_file
from ipseval.report._html import to_html_tables
from ipseval.report._markup import csv_cell, to_latex, to_markdown, visible
from ipseval.report._page import to_html
from ipseval.report._pictures import curves, scatter
from ipseval.report._reported import Result
from ipseval.report._tables import Cell, Code, Heading, Notes, Picture, Remark, Table
from ipseval.report._text import to_text
from ipseval.report._words import csv_text, decimals, shown_p
