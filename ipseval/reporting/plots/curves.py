"""Plots over an axis: positions, popularity, users with random exposure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.reporting.plots._base import COLOURS, add_legend, axes_or_new, curves, distinct, only, table
from ipseval.utils.checks import check_real
from ipseval.utils.public import public_function

USERS = "users with random exposure"


@public_function
def plot_examination(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return axes with the examination of each position and its 95% interval, one line for each method.

    Parameters
    ----------
    frame : DataFrame
        `ExaminationCurve.frame`, or several below each other: position, theta, std_error, method.
    """
    rows = table(frame, "frame", "position", "theta", "std_error", "method")
    theta, half = rows["theta"], 1.96 * rows["std_error"]
    shown = rows.assign(estimate=theta, ci_low=theta - half, ci_high=theta + half)
    words = "examined, relative to the first"
    ax = curves(shown, "method", "position", ax=ax, xlabel="position", ylabel=words)
    ax.set_ylim(bottom=0)
    return ax


@public_function
def plot_sampled(frame: pd.DataFrame, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with a metric against the number m of sampled candidates; dashed lines: full ranking.

    Parameters
    ----------
    frame : DataFrame
        model, metric, n_sampled, estimate, ci_low, ci_high, exact.
    """
    frame = table(frame, "frame", "model", "metric", "n_sampled", "estimate", "ci_low", "ci_high", "exact")
    part = only(frame, "metric", metric)
    words = "sampled candidates m (dashed: full ranking)"
    ax = curves(part, "model", "n_sampled", ax=ax, xlabel=words, ylabel=str(part["metric"].iloc[0]))
    for number, exact in enumerate(part.drop_duplicates("model")["exact"]):
        ax.axhline(exact, color=COLOURS[number % 8], linestyle="--", linewidth=0.9)
    ax.set_xscale("log")
    return ax


@public_function
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


@public_function
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


def plot_exposure_curve(
    frame: pd.DataFrame,
    *,
    metric: str | None = None,
    estimator: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return axes with the error of every estimator against the number of users with random exposure.

    The shaded band of an estimator ends at the half-width of its interval: where its line is above the band,
    errors are larger than the interval says.
    """
    part = only(frame, "metric", distinct(frame["metric"])[0] if metric is None else metric)
    part = part if estimator is None else only(part, "estimator", estimator)
    sizes = sorted(part["n_users"].unique())
    shown = part.assign(estimate=part["error"], size=part["n_users"].map(sizes.index))
    words = "mean |estimate − truth|; shaded: half-width"
    ax = curves(shown, "estimator", "size", ax=ax, xlabel=USERS, ylabel=words, width=6.4)
    for number, name in enumerate(distinct(shown["estimator"])):
        rows = shown[shown["estimator"] == name].sort_values("size")
        ax.fill_between(rows["size"], 0, rows["half_width"], color=COLOURS[number % 8], alpha=0.07, lw=0)
    _of_sizes(ax, part, range(len(sizes)))
    add_legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def _of_sizes(ax: Axes, part: pd.DataFrame, places: Any = None) -> None:
    """Name the numbers of users below, and the metric above."""
    sizes = sorted(part["n_users"].unique())
    ax.set_xticks(sizes if places is None else places, [f"{one:,}" for one in sizes])
    ax.set_ylim(bottom=0)
    ax.set_title(str(part["metric"].iloc[0]), parse_math=False)


@public_function
def plot_plan(
    frame: Any,
    *,
    metric: str | None = None,
    column: str = "half_width",
    bound: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return axes with what random exposure would tell, against users, one line per number of items shown.

    Parameters
    ----------
    frame : DataFrame
        Of `plan_exposure`: n_users, n_items, metric, and the column.
    metric : str, optional
        Which metric; default: the first.
    column : {"half_width", "half_width_random", "smallest_difference", "regret_90"}
        What is drawn.
    bound : float, optional
        A dashed line, such as the largest acceptable regret of the choice.
    """
    frame = table(frame, "frame", "n_users", "n_items", "metric", column)
    part = only(frame, "metric", distinct(frame["metric"])[0] if metric is None else metric)
    labels = [f"{items} items shown to each" for items in part["n_items"]]
    shown = pd.DataFrame({"items": labels, "n_users": part["n_users"], "estimate": part[column]})
    ax = curves(shown, "items", "n_users", ax=ax, xlabel=USERS, ylabel=column.replace("_", " "))
    ax.set_xscale("log")
    _of_sizes(ax, part)
    ax.minorticks_off()
    if bound is not None:
        ax.axhline(check_real("bound", bound), color="0.3", linestyle="--", linewidth=0.9, label=f"{bound:g}")
        add_legend(ax)
    return ax
