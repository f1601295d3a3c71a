"""Estimates as every output prints them: the same digits, intervals and marks in text, HTML and LaTeX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.evaluation.report_content import ReportContent
from ipseval.evaluation.verdict import Verdict
from ipseval.reporting.formatting import count_decimals, format_fixed


@dataclass(frozen=True)
class PrintedEstimate:
    """One estimate as outputs print it.

    Attributes
    ----------
    value : float
        NaN where it is undefined or suppressed.
    text : str
        The value with its decimals; "undefined" or "suppressed" without one.
    interval : str
        "[low, high]"; empty where there is none, and where the estimate is unreliable.
    bounds : (float, float)
        The confidence interval; NaN where none is printed.
    flag : str
        Why the estimate is unreliable; empty where it is not.
    is_best : bool
        Whether it is the highest of its column, or is printed with the same digits as the highest.
    is_behind : bool
        Whether it differs significantly from the highest of its column.
    """

    value: float
    text: str
    interval: str = ""
    bounds: tuple[float, float] = (np.nan, np.nan)
    flag: str = ""
    is_best: bool = False
    is_behind: bool = False

    @property
    def mark(self) -> str:
        """The mark of an estimate that differs significantly from the highest of its column."""
        if self.is_behind:
            return "†"
        return ""


def print_estimates(
    content: ReportContent, verdict: Verdict, label: str, digits: int
) -> dict[str, PrintedEstimate]:
    """Return recommender -> estimate; an unreliable column has neither intervals nor a best one."""
    rows = content.rows(verdict.metric, label)
    standing = verdict.standings[label]
    flag = content.flag(verdict.metric, label)
    is_compared = not flag and len(standing.ranked) > 1
    half_widths = ((rows["ci_high"] - rows["ci_low"]) / 2).tolist()
    common_places = count_decimals(half_widths, digits)
    highest = ""
    if standing.best:
        highest = format_fixed(standing.values[standing.best], common_places)
    estimates = {}
    for row, half_width in zip(rows.to_dict("records"), half_widths, strict=True):
        model = row["model"]
        value = row["estimate"]
        if np.isnan(value):
            text = "undefined"
            if content.is_suppressed(model, verdict.metric, label):
                text = "suppressed"
            estimates[model] = PrintedEstimate(value, text, flag=flag)
            continue
        places = common_places
        if not flag:  # an error far below the other errors of its column is still visible
            places = max(common_places, count_decimals([half_width], 1, default=0))
        interval = ""
        bounds = (np.nan, np.nan)
        if not np.isnan(half_width) and not flag:
            interval = f"[{format_fixed(row['ci_low'], places)}, {format_fixed(row['ci_high'], places)}]"
            bounds = (row["ci_low"], row["ci_high"])
        estimates[model] = PrintedEstimate(
            value=value,
            text=format_fixed(value, places),
            interval=interval,
            bounds=bounds,
            flag=flag,
            is_best=is_compared and format_fixed(value, common_places) == highest,
            is_behind=is_compared and model not in standing.leaders,
        )
    return estimates
