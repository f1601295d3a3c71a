"""Private names of ipseval.report that tests reach for."""

from __future__ import annotations

from ipseval.report._drawing import Axis, mark, series, svg_file
from ipseval.report._html import to_html_tables
from ipseval.report._markup import csv_cell, to_latex, to_markdown, visible
from ipseval.report._page import to_html
from ipseval.report._pictures import curves, scatter
from ipseval.report._reported import Report, Reported, Result
from ipseval.report._tables import Cell, Code, Heading, Notes, Picture, Remark, Table
from ipseval.report._text import WIDTH, to_text
from ipseval.report._words import csv_text, decimals, fixed, listed, number, shown_p, signed
from ipseval.report.plots._base import limits, plain, reach, tipping_gammas
from ipseval.report.plots._curves import plot_exposure_curve
from ipseval.report.plots._estimates import (
    plot_decomposition,
    plot_differences,
    plot_result,
    plot_segments,
    plot_weight_shares,
)
from ipseval.report.plots._truth import plot_online
