"""Private names of ipseval.report that tests reach for."""

from __future__ import annotations

from ipseval.report._axis import Axis
from ipseval.report._curves import curves
from ipseval.report._drawing import svg_file
from ipseval.report._escape import csv_cell, visible
from ipseval.report._forest import forest
from ipseval.report._html import to_html_tables
from ipseval.report._latex import to_latex
from ipseval.report._markdown import to_markdown
from ipseval.report._page import to_html
from ipseval.report._scatter import scatter
from ipseval.report._tables import Cell, Code, Heading, Notes, Picture, Remark, Table
from ipseval.report._text import to_text
from ipseval.report._words import decimals, shown_p
from ipseval.report._write import csv_text
from ipseval.report.plots._differences import plot_differences
