"""Plot of how likely positions are to be examined."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from ipseval.report.plots._base import COLOURS, LINES, MARKS, add_legend, axes_or_new, table


def plot_examination(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return axes with the examination of each position and its 95 % interval, one line for each method.

    Parameters
    ----------
    frame : DataFrame
        `ExaminationCurve.frame`, or several below each other: position, theta, std_error, method.
    """
    rows = table(frame, "frame", "position", "theta", "std_error", "method")
    ax = axes_or_new(ax)
    for number, (method, curve) in enumerate(rows.groupby("method", sort=False)):
        ax.errorbar(
            curve["position"],
            curve["theta"],
            yerr=1.96 * curve["std_error"],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKS[number % len(MARKS)],
            linestyle=LINES[number % len(LINES)],
            capsize=3,
            label=str(method),
        )
    ax.set_xlabel("position")
    ax.set_ylabel("examined, relative to the first")
    ax.set_ylim(bottom=0)
    add_legend(ax, loc="upper right")
    return ax
