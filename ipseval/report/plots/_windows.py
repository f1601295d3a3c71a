"""Plot of estimates over windows in time."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from ipseval.report.plots._base import add_legend, axes_or_new, distinct, marks, only, reach, table


def plot_windows(frame: pd.DataFrame, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with the estimates of each recommender in every window, with intervals.

    Parameters
    ----------
    frame : DataFrame
        window, model, metric, estimate, ci_low, ci_high: `WindowEvaluation.frame` of one estimator.
    metric : str, optional
        Which, where the frame holds several.
    """
    frame = table(frame, "frame", "window", "model", "metric", "estimate", "ci_low", "ci_high")
    part = only(frame, "metric", metric)
    ax = axes_or_new(ax)
    for number, model in enumerate(distinct(part["model"])):
        rows = part[part["model"] == model].sort_values("window")
        marks(ax, number, model, rows["window"] + 1, rows["estimate"], yerr=reach(rows), linestyle="-")
    ax.set_xlabel("window")
    ax.set_ylabel(str(part["metric"].iloc[0]), parse_math=False)
    add_legend(ax)
    return ax
