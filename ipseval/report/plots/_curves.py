"""Plots over an axis: windows, positions, popularity, users with random exposure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.report.plots._base import (
    COLOURS,
    LINES,
    MARKS,
    add_legend,
    axes_or_new,
    distinct,
    marks,
    only,
    plain,
    reach,
    table,
)


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


def plot_popularity(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return log–log axes with the number of items of at least each popularity, and a fitted power law.

    Parameters
    ----------
    frame : Interactions or DataFrame
        Interactions, whose popularity is counted; or `PopularityExponent.levels`: popularity, n_at_least, and
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
