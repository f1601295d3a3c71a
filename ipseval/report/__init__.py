"""Reports: what a `Tables` value looks like as text, Markdown, LaTeX, HTML and CSV.

Whoever has results builds a `Tables` and hands it down; nothing here knows an evaluation.
"""

from __future__ import annotations

from ipseval._base import lazy
from ipseval.report._reported import Explanation, Report, load
from ipseval.report._tables import Tables

__all__ = ["Explanation", "Report", "Tables", "load"]
__getattr__ = lazy(__name__, dict.fromkeys(("plots",), ""))
