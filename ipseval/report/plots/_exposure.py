"""Plots of what random exposure tells: error against exposed users, and what more of it would tell."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from ipseval.report.plots._base import (
    COLOURS,
    LINES,
    MARKS,
    add_legend,
    axes_or_new,
    distinct,
    only,
    plain,
    table,
)


def plot_exposure_curve(frame: Any, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with the error of every estimator against the number of users with random exposure.

    The shaded band of an estimator ends at the half-width of its interval: where its line is above the band,
    errors are larger than the interval says.

    Parameters
    ----------
    frame : ExposureCurve or DataFrame
        A curve, or its `frame`: n_users, metric, estimator, error, half_width.
    metric : str, optional
        Which metric; default: the first.
    """
    frame = table(frame, "frame", "n_users", "metric", "estimator", "error", "half_width")
    part = only(frame, "metric", distinct(frame["metric"])[0] if metric is None else metric)
    sizes = sorted(part["n_users"].unique())
    ax = axes_or_new(ax, width=6.4)
    for number, name in enumerate(distinct(part["estimator"])):
        rows = part[part["estimator"] == name].sort_values("n_users")
        x, colour = [sizes.index(one) for one in rows["n_users"]], COLOURS[number % 8]
        ax.plot(
            x, rows["error"], color=colour, marker=MARKS[number % 8], ls=LINES[number % 8], label=plain(name)
        )
        ax.fill_between(x, 0, rows["half_width"], color=colour, alpha=0.07, linewidth=0)
    ax.set_xticks(range(len(sizes)), [f"{one:,}" for one in sizes])
    ax.set_ylim(bottom=0)
    ax.set_xlabel("users with random exposure")
    ax.set_ylabel("mean |estimate − truth|; shaded: half-width")
    ax.set_title(str(part["metric"].iloc[0]), parse_math=False)
    add_legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def plot_plan(
    frame: Any, *, metric: str | None = None, column: str = "half_width", ax: Axes | None = None
) -> Axes:
    """Return axes with what random exposure would tell, against users, one line per number of items shown.

    Parameters
    ----------
    frame : DataFrame
        Of `plan_exposure`: n_users, n_items, metric, half_width, half_width_random, smallest_difference.
    metric : str, optional
        Which metric; default: the first.
    column : {"half_width", "half_width_random", "smallest_difference"}
        What is drawn.
    """
    frame = table(frame, "frame", "n_users", "n_items", "metric", column)
    part = only(frame, "metric", distinct(frame["metric"])[0] if metric is None else metric)
    ax = axes_or_new(ax)
    for number, items in enumerate(distinct(part["n_items"])):
        rows = part[part["n_items"] == items].sort_values("n_users")
        style: dict[str, Any] = {
            "color": COLOURS[number % 8],
            "marker": MARKS[number % 8],
            "ls": LINES[number % 8],
        }
        ax.plot(rows["n_users"], rows[column], label=f"{items} items shown to each", **style)
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set_xticks(sorted(part["n_users"].unique()), [f"{one:,}" for one in sorted(part["n_users"].unique())])
    ax.minorticks_off()
    ax.set_xlabel("users with random exposure")
    ax.set_ylabel(column.replace("_", " "))
    ax.set_title(str(part["metric"].iloc[0]), parse_math=False)
    add_legend(ax)
    return ax
