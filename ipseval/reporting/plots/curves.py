"""Plots over an axis: positions, popularity, users with random exposure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.reporting.plots._base import (
    COLOURS,
    N_STYLES,
    add_legend,
    draw_curves,
    get_frame,
    list_distinct,
    prepare_axes,
    select_rows,
)
from ipseval.utils.checks import check_real
from ipseval.utils.public import public_function

USERS_LABEL = "users with random exposure"


@public_function
def plot_examination(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the examination probability of each position with its 95% interval, a line for each method.

    Parameters
    ----------
    frame : ExaminationCurve or DataFrame
        An examination curve, its `frame`, or several such frames below each other, with columns position,
        theta, std_error, method.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column or has no rows, or `ax` is not matplotlib axes.

    See Also
    --------
    ipseval.propensity.ExaminationModel : Estimate the curve from a log of impressions.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"position": [1, 2, 3], "theta": [1.0, 0.7, 0.5], "std_error": [0.0, 0.05, 0.04]})
    >>> ax = plot_examination(frame.assign(method="swaps"))
    >>> ax.get_ylabel()
    'examined, relative to the first'
    """
    frame = get_frame(frame, "frame", ["position", "theta", "std_error", "method"])
    theta = frame["theta"]
    half_width = 1.96 * frame["std_error"]
    rows = frame.assign(estimate=theta, ci_low=theta - half_width, ci_high=theta + half_width)
    ylabel = "examined, relative to the first"
    ax = draw_curves(rows, "method", "position", ax=ax, xlabel="position", ylabel=ylabel)
    ax.set_ylim(bottom=0)
    return ax


@public_function
def plot_sampled(frame: pd.DataFrame, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot a metric against the number m of sampled candidates; dashed lines mark the full ranking.

    Parameters
    ----------
    frame : DataFrame
        A row for each model, metric and number of candidates, with columns model, metric, n_sampled,
        estimate, ci_low, ci_high, exact.
    metric : str, optional
        Metric to draw; required if the frame has several.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column, has no rows, or has several metrics and none is chosen.

    See Also
    --------
    ipseval.metrics.sampled.correct_sampled : Estimate a full-ranking metric from sampled ranks.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"model": "als", "metric": "recall@10", "n_sampled": [100, 1000]})
    >>> frame = frame.assign(estimate=[0.8, 0.5], ci_low=[0.7, 0.4], ci_high=[0.9, 0.6], exact=0.3)
    >>> ax = plot_sampled(frame)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('sampled candidates m (dashed: full ranking)', 'recall@10')
    """
    frame = get_frame(
        frame, "frame", ["model", "metric", "n_sampled", "estimate", "ci_low", "ci_high", "exact"]
    )
    rows = select_rows(frame, "metric", metric)
    xlabel = "sampled candidates m (dashed: full ranking)"
    ax = draw_curves(rows, "model", "n_sampled", ax=ax, xlabel=xlabel, ylabel=str(rows["metric"].iloc[0]))
    exact_values = rows.drop_duplicates("model")["exact"]
    for number, exact_value in enumerate(exact_values):
        ax.axhline(exact_value, color=COLOURS[number % N_STYLES], linestyle="--", linewidth=0.9)
    ax.set_xscale("log")
    return ax


@public_function
def plot_popularity(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the number of items with at least each popularity on log–log axes, and a fitted power law.

    Parameters
    ----------
    frame : Interactions or DataFrame
        Interactions, whose popularity is counted; or `PopularityExponent.levels`, with columns popularity,
        n_at_least, and optionally fitted (NaN below the fitted range).
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column or has no rows, or `ax` is not matplotlib axes.

    See Also
    --------
    ipseval.propensity.fit_popularity_exponent : Fit the power law.
    plot_frequency : Plot how often items are recommended.

    Examples
    --------
    >>> from ipseval import simulation
    >>> log = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0).observe(rng=1)
    >>> ax = plot_popularity(log)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('observed popularity n*', 'items with at least n*')
    """
    popularity = getattr(frame, "popularity", None)
    if isinstance(popularity, np.ndarray):
        frame = _count_items_by_level(popularity)
    frame = get_frame(frame, "frame", ["popularity", "n_at_least"])
    rows = frame[frame["popularity"] > 0].sort_values("popularity")

    ax = prepare_axes(ax)
    ax.loglog(rows["popularity"], rows["n_at_least"], "o", color=COLOURS[0], markersize=4, label="items")
    if "fitted" in rows:
        fitted_rows = rows.dropna(subset="fitted")
        ax.loglog(fitted_rows["popularity"], fitted_rows["fitted"], "-", color=COLOURS[1], label="power law")
        add_legend(ax, loc="lower left")
    ax.set_xlabel("observed popularity n*")
    ax.set_ylabel("items with at least n*")
    return ax


def _count_items_by_level(popularity: np.ndarray[Any, Any]) -> pd.DataFrame:
    """Return the distinct popularities and the number of items with at least each of them."""
    levels, n_items = np.unique(popularity, return_counts=True)
    n_at_least = n_items[::-1].cumsum()[::-1]
    return pd.DataFrame({"popularity": levels, "n_at_least": n_at_least})


@public_function
def plot_frequency(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Plot how often items are recommended against their popularity on log–log axes, and the γ fit.

    Parameters
    ----------
    frame : DataFrame
        Columns popularity, frequency (mean number of lists per item of that popularity; levels with 0 cannot
        be drawn on a log axis and are counted in the label), and optionally fitted.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column or has no rows, or `ax` is not matplotlib axes.

    See Also
    --------
    ipseval.propensity.GammaFit.frequency : Compute the frame from a fit of γ.
    plot_popularity : Plot the number of items with each popularity.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"popularity": [1, 2, 4, 8], "frequency": [0.0, 2.1, 4.4, 8.3]})
    >>> ax = plot_frequency(frame)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['mean per level of n*; 1 at 0 not shown']
    """
    frame = get_frame(frame, "frame", ["popularity", "frequency"])
    rows = frame[frame["popularity"] > 0].sort_values("popularity")
    drawn_rows = rows[rows["frequency"] > 0]
    n_undrawn = len(rows) - len(drawn_rows)
    label = "mean per level of n*"
    if n_undrawn:
        label += f"; {n_undrawn} at 0 not shown"

    ax = prepare_axes(ax)
    ax.loglog(
        drawn_rows["popularity"], drawn_rows["frequency"], "o", color=COLOURS[0], markersize=4, label=label
    )
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
    rows = _select_metric(frame, metric)
    if estimator is not None:
        rows = select_rows(rows, "estimator", estimator)
    n_users_levels = sorted(rows["n_users"].unique())
    rows = rows.assign(estimate=rows["error"], level=rows["n_users"].map(n_users_levels.index))

    ylabel = "mean |estimate − truth|; shaded: half-width"
    ax = draw_curves(rows, "estimator", "level", ax=ax, xlabel=USERS_LABEL, ylabel=ylabel, width=6.4)
    for number, label in enumerate(list_distinct(rows["estimator"])):
        series_rows = rows[rows["estimator"] == label].sort_values("level")
        colour = COLOURS[number % N_STYLES]
        ax.fill_between(series_rows["level"], 0, series_rows["half_width"], color=colour, alpha=0.07, lw=0)
    _label_user_counts(ax, rows, range(len(n_users_levels)))
    add_legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def _select_metric(frame: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """Return the rows of a metric, by default the first in the frame."""
    if metric is None:
        metric = frame["metric"].iloc[0]
    return select_rows(frame, "metric", metric)


def _label_user_counts(ax: Axes, rows: pd.DataFrame, positions: Sequence[int] | None = None) -> None:
    """Label the ticks by the numbers of users, at these positions or at the numbers; set the metric as title."""
    n_users_levels = sorted(rows["n_users"].unique())
    if positions is None:
        positions = n_users_levels
    ax.set_xticks(positions, [f"{n_users:,}" for n_users in n_users_levels])
    ax.set_ylim(bottom=0)
    ax.set_title(str(rows["metric"].iloc[0]), parse_math=False)


@public_function
def plot_plan(
    frame: Any,
    *,
    metric: str | None = None,
    column: str = "half_width",
    bound: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the expected precision against the number of exposed users, a line for each number of items.

    Parameters
    ----------
    frame : DataFrame
        Result of `plan_exposure`, with columns n_users, n_items, metric, and the column to draw.
    metric : str, optional
        Metric to draw; default: the first.
    column : {"half_width", "half_width_random", "smallest_difference", "regret_90"}, default "half_width"
        Column to draw.
    bound : float, optional
        Height of a dashed line, such as the largest acceptable regret of the choice.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column, has no rows or not this metric, or `bound` is not a finite number.

    See Also
    --------
    ipseval.plan_exposure : Plan the experiment.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"n_users": [50, 200], "n_items": 20, "metric": "recall@10"})
    >>> ax = plot_plan(frame.assign(half_width=[0.10, 0.05]), bound=0.08)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('users with random exposure', 'half width')
    """
    frame = get_frame(frame, "frame", ["n_users", "n_items", "metric", column])
    rows = _select_metric(frame, metric)
    labels = [f"{n_items} items shown to each" for n_items in rows["n_items"]]
    curves = pd.DataFrame({"items": labels, "n_users": rows["n_users"], "estimate": rows[column]})
    ylabel = column.replace("_", " ")
    ax = draw_curves(curves, "items", "n_users", ax=ax, xlabel=USERS_LABEL, ylabel=ylabel)
    ax.set_xscale("log")
    _label_user_counts(ax, rows)
    ax.minorticks_off()
    if bound is not None:
        height = check_real("bound", bound)
        ax.axhline(height, color="0.3", linestyle="--", linewidth=0.9, label=f"{bound:g}")
        add_legend(ax)
    return ax
