"""Render results as text, Markdown, LaTeX, HTML and CSV, and draw plots.

A layer above builds a `Tables` value and passes it to a renderer; this layer knows no evaluation.
"""

from __future__ import annotations

import lazy_loader

from ipseval.reporting.results import Explanation, Report, load
from ipseval.reporting.tables import Tables

__all__ = ["Explanation", "Report", "Tables", "load"]
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["plots"])
