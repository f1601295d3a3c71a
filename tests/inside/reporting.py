"""Private names of ipseval.reporting that tests reach for."""

from __future__ import annotations

from ipseval.reporting._html import to_html_tables
from ipseval.reporting._page import to_html
from ipseval.reporting.drawing import Axis, mark, series, svg_file
from ipseval.reporting.formatting import csv_text, decimals, fixed, listed, number, shown_p, signed
from ipseval.reporting.markup import csv_cell, to_latex, to_markdown, visible
from ipseval.reporting.pictures import curves, scatter
from ipseval.reporting.plots._base import (
    compute_error_bars,
    compute_limits,
    format_name,
    select_tipping_gammas,
)
from ipseval.reporting.plots.curves import plot_exposure_curve
from ipseval.reporting.plots.estimates import (
    plot_decomposition,
    plot_differences,
    plot_result,
    plot_segments,
    plot_weight_shares,
)
from ipseval.reporting.plots.references import plot_online
from ipseval.reporting.results import Report, Reported, Result
from ipseval.reporting.tables import Cell, Code, Heading, Notes, Picture, Remark, Table
from ipseval.reporting.text import WIDTH, to_text
