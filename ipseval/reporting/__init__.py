"""Reports: what a `Tables` value looks like as text, Markdown, LaTeX, HTML and CSV.

Whoever has results builds a `Tables` and hands it down; nothing here knows an evaluation.
"""

from __future__ import annotations

from ipseval.reporting.results import Explanation, Report, load
from ipseval.reporting.tables import Tables
from ipseval.utils import lazy

__all__ = ["Explanation", "Report", "Tables", "load"]
__getattr__ = lazy(__name__, dict.fromkeys(("plots",), ""))
