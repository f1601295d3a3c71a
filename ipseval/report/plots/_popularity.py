"""Plots of popularity and of how often popular items are recommended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.report.plots._base import COLOURS, add_legend, axes_or_new, table


def plot_popularity(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return log–log axes with the number of items of at least each popularity, and a fitted power law.

    Parameters
    ----------
    frame : Interactions or DataFrame
        Interactions, whose popularity is counted; or `popularity_levels(…)`: popularity, n_at_least, and
        optionally fitted (NaN below the fitted range).
    """
    counts = getattr(frame, "popularity", None)
    if isinstance(counts, np.ndarray):
        levels, n_items = np.unique(counts, return_counts=True)
        frame = pd.DataFrame({"popularity": levels, "n_at_least": n_items[::-1].cumsum()[::-1]})
    frame = table(frame, "frame", "popularity", "n_at_least")
    rows = frame[frame["popularity"] > 0].sort_values("popularity")
    ax = axes_or_new(ax)
    ax.loglog(rows["popularity"], rows["n_at_least"], "o", color=COLOURS[0], markersize=4, label="items")
    if "fitted" in rows:
        fitted = rows.dropna(subset="fitted")
        ax.loglog(fitted["popularity"], fitted["fitted"], "-", color=COLOURS[1], label="power law")
        add_legend(ax, loc="lower left")
    ax.set_xlabel("observed popularity n*")
    ax.set_ylabel("items with at least n*")
    return ax


def plot_frequency(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return log–log axes with how often items are recommended against their popularity, and the γ fit.

    Parameters
    ----------
    frame : DataFrame
        popularity, frequency (mean number of lists per item of that popularity; levels with 0 cannot be drawn
        on a log axis and are counted in the label), and optionally fitted.
    """
    frame = table(frame, "frame", "popularity", "frequency")
    rows = frame[frame["popularity"] > 0].sort_values("popularity")
    shown = rows[rows["frequency"] > 0]
    n_zero = len(rows) - len(shown)
    ax = axes_or_new(ax)
    label = "mean per level of n*" + (f"; {n_zero} at 0 not shown" if n_zero else "")
    ax.loglog(shown["popularity"], shown["frequency"], "o", color=COLOURS[0], markersize=4, label=label)
    if "fitted" in rows:
        ax.loglog(rows["popularity"], rows["fitted"], "-", color=COLOURS[1], label="fit, slope γ")
    ax.set_xlabel("observed popularity n*")
    ax.set_ylabel("lists with the item")
    add_legend(ax, loc="upper left")
    return ax
