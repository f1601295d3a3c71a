"""Plot of offline against online differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.errors import InputError
from ipseval.report.plots._base import COLOURS, axes_or_new, plain, table


def plot_online(
    frame: pd.DataFrame,
    *,
    line: tuple[float, float] | None = None,
    label: str = "offline",
    ax: Axes | None = None,
) -> Axes:
    """Return axes with online against offline differences, one mark per experiment, errors both ways.

    Parameters
    ----------
    frame : DataFrame
        offline, offline_error, online, online_error.
    line : (slope, intercept), optional
        Of the true differences: drawn dashed.
    label : str
        What the offline difference is of.
    """
    if line is not None and np.shape(line) != (2,):
        raise InputError(f"line must be a slope and an intercept; got {line!r:.80}.")
    rows = table(frame, "data", "offline", "offline_error", "online", "online_error")
    ax = axes_or_new(ax, width=5.0, height=4.4)
    ax.axhline(0, color="0.7", linewidth=0.9)
    ax.axvline(0, color="0.7", linewidth=0.9)
    agree = np.sign(rows["offline"]) * np.sign(rows["online"]) > 0
    for known, colour, marker, text in (
        (agree, COLOURS[0], "o", "same sign"),
        (~agree, COLOURS[1], "s", "other sign"),
    ):
        part = rows[known]
        if len(part):
            ax.errorbar(
                part["offline"], part["online"], xerr=part["offline_error"], yerr=part["online_error"],
                linestyle="none", marker=marker, markersize=4, linewidth=0.8, color=colour, label=text,
            )  # fmt: skip
    if line is not None and np.isfinite(line).all():
        ax.axline(
            (0.0, line[1]),
            slope=line[0],
            linestyle="--",
            color="0.2",
            linewidth=1.1,
            label="true differences",
        )
    ax.set_xlabel(f"offline difference ± standard error ({plain(label)})", parse_math=False)
    ax.set_ylabel("online difference ± standard error")
    ax.legend(frameon=False, fontsize="small")
    return ax
