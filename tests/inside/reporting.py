"""Private names of ipseval.reporting that tests reach for."""

from __future__ import annotations

from ipseval.reporting import _views as views
from ipseval.reporting._html import to_html, to_html_tables
from ipseval.reporting.bars import Axis
from ipseval.reporting.formatting import (
    count_decimals,
    format_csv,
    format_fixed,
    format_number,
    format_p_value,
    format_signed_digits,
    join_names,
)
from ipseval.reporting.markup import (
    escape_controls,
    escape_formula,
    escape_latex,
    format_latex_formula,
    to_latex,
    to_markdown,
)
from ipseval.reporting.pictures import (
    build_bias_picture,
    build_sensitivity_picture,
    render_picture,
    write_bias_file,
)
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
)
from ipseval.reporting.plots.references import plot_online
from ipseval.reporting.plots.svg import _choose_class as choose_class
from ipseval.reporting.plots.weights import plot_weight_shares
from ipseval.reporting.results import Report, Reported, Result
from ipseval.reporting.tables import Cell, Code, Heading, Notes, Picture, Remark, Table
from ipseval.reporting.text import WIDTH, to_text
