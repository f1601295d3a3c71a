"""Plots of estimates: of recommenders, differences and groups, and over γ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.reporting.formatting import format_fixed
from ipseval.reporting.plots._base import (
    COLOURS,
    COUNT_LABELS,
    LINES,
    N_STYLES,
    add_legend,
    draw_curves,
    draw_forest,
    format_name,
    get_frame,
    list_distinct,
    prepare_axes,
    select_rows,
    select_tipping_gammas,
)
from ipseval.utils.checks import check_fraction
from ipseval.utils.public import public_function

COUNT_GROUP = re.compile(r"\d+ \((?P<unit>\S+) (?P<span>.+)\)")  # such as "1 (n* 1 to 3)"


@public_function
def plot_estimates(
    frame: Any,
    *,
    metric: str | None = None,
    estimand: str | None = None,
    confidence_level: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the estimate and interval of every recommender, a marker for each estimator.

    An unreliable estimate has a hollow marker without an interval, and the legend calls it unreliable.

    Parameters
    ----------
    frame : Evaluation or DataFrame
        An evaluation, or its `frame`, with columns model, metric, estimator, estimate, ci_low, ci_high;
        optionally estimand, and flag (why an estimate is unreliable, else "").
    metric : str, optional
        Metric to draw; required if the frame has several.
    estimand : {"mean over users", "mean over interactions"}, optional
        Estimand to draw; required if the frame has several, as their values are not comparable.
    confidence_level : float, optional
        Level of the intervals, between 0 and 1, which the label of the axis states. Default: that of the
        evaluation; a frame alone does not have it.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column, has no rows, or has several metrics or estimands and none is chosen, or
        if the confidence level is not between 0 and 1.

    See Also
    --------
    ipseval.Evaluation.plot : Plot an evaluation.

    Examples
    --------
    >>> import pandas as pd
    >>> from ipseval.reporting.plots import plot_estimates
    >>> frame = pd.DataFrame({"model": ["als", "bpr"], "metric": "recall@5", "estimator": "aoa"})
    >>> frame = frame.assign(estimate=[0.4, 0.3], ci_low=[0.35, 0.25], ci_high=[0.45, 0.35])
    >>> plot_estimates(frame, confidence_level=0.95).get_xlabel()
    'recall@5, with 95% confidence interval'
    """
    if confidence_level is None:
        confidence_level = getattr(frame, "confidence_level", None)
    else:
        confidence_level = check_fraction("confidence_level", confidence_level)
    frame = get_frame(frame, "frame", ["model", "metric", "estimator", "estimate", "ci_low", "ci_high"])
    rows = select_rows(frame, "metric", metric)
    quantity = str(rows["metric"].iloc[0])
    if "estimand" in rows:
        rows = select_rows(rows, "estimand", estimand)
        quantity += f", {rows['estimand'].iloc[0]}"
    return draw_forest(rows, "model", "estimator", f"{quantity}, {_name_interval(confidence_level)}", ax=ax)


def _name_interval(confidence_level: float | None) -> str:
    """Return how the label of an axis names the intervals, with their level where it is known."""
    if confidence_level is None:
        return "with confidence interval"
    return f"with {100 * confidence_level:g}% confidence interval"


def plot_result(
    frame: pd.DataFrame,
    metric: str | None = None,
    estimator: str | None = None,
    *,
    confidence_level: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return axes with the estimates, or differences, of one metric or measure of a result's frame."""
    row_column = _find_column(frame, ("model", "policy"))
    metric_column = _find_column(frame, ("metric", "measure"))
    series_column = _find_column(frame, ("data", "estimator", "measure"), metric_column)
    rows = frame.rename(columns={"difference": "estimate"})
    if estimator is not None:
        rows = select_rows(rows, "estimator", estimator)
    quantity = "estimate"
    if metric_column:
        if metric is None:
            metric = str(frame[metric_column].iloc[0])
        rows = select_rows(rows, metric_column, metric)
        quantity = rows[metric_column].iloc[0]
    if "difference" in frame:
        quantity = "difference"
    xlabel = f"{quantity}, {_name_interval(confidence_level)}"
    return draw_forest(rows, row_column, series_column, xlabel, ax=ax)


def _find_column(frame: pd.DataFrame, candidates: Sequence[str], default: str = "") -> str:
    """Return the first of the candidates that is a column of the frame, else the default."""
    for column in candidates:
        if column in frame:
            return column
    return default


@public_function
def plot_sensitivity(
    frame: Any,
    *,
    metric: str | None = None,
    estimator: str | None = None,
    tipping: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the estimate of every recommender over γ; at γ = −1 it is AOA.

    Parameters
    ----------
    frame : Sensitivity or DataFrame
        `Evaluation.sensitivity(…)`, or its `frame`, with columns model, metric, estimator, gamma, estimate,
        ci_low, ci_high.
    metric : str, optional
        Metric to draw; required if the frame has several.
    estimator : str, optional
        Estimator to draw; required if the frame has several.
    tipping : DataFrame, optional
        `Sensitivity.tipping_points()`, with columns metric, estimator, tipping_points: the γ at which two
        recommenders swap ranks. Those of this metric and estimator are drawn as vertical lines.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column, has no rows, or has several metrics or estimators and none is chosen.

    See Also
    --------
    ipseval.Evaluation.sensitivity : Compute the estimates over γ.

    Examples
    --------
    >>> from ipseval import PowerLawPropensity, evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> propensity = PowerLawPropensity(gamma=0, unseen="smooth")
    >>> evaluation = evaluate(models, split, propensity=propensity, metrics=["recall@10"])
    >>> ax = plot_sensitivity(evaluation.sensitivity(gamma=[-1, 0, 1]), estimator="snips-global")
    >>> ax.get_ylabel()
    'recall@10, snips-global'
    """
    frame = get_frame(
        frame, "frame", ["model", "metric", "estimator", "gamma", "estimate", "ci_low", "ci_high"]
    )
    rows = select_rows(frame, "metric", metric)
    rows = select_rows(rows, "estimator", estimator)
    metric_label = rows["metric"].iloc[0]
    estimator_label = rows["estimator"].iloc[0]
    tipping_gammas = select_tipping_gammas(tipping, metric_label, estimator_label)

    ax = prepare_axes(ax)
    for number, model in enumerate(list_distinct(rows["model"])):
        model_rows = rows[rows["model"] == model].sort_values("gamma")
        gamma = model_rows["gamma"]
        colour = COLOURS[number % N_STYLES]
        line_style = LINES[number % N_STYLES]
        label = format_name(model)
        ax.plot(gamma, model_rows["estimate"], color=colour, linestyle=line_style, label=label)
        ax.fill_between(
            gamma, model_rows["ci_low"], model_rows["ci_high"], color=colour, alpha=0.15, linewidth=0
        )
    for tipping_gamma in tipping_gammas:
        line = ax.axvline(tipping_gamma, color="0.55", linewidth=0.8, linestyle=(0, (1, 3)), zorder=0)
        if tipping_gamma == tipping_gammas[0]:
            line.set_label("two swap ranks")
    ax.set_xlabel(r"$\gamma$ of $P \propto (n^*)^{(\gamma + 1)/2}$   (−1: equal weights, AOA)")
    ax.set_ylabel(f"{metric_label}, {estimator_label}", parse_math=False)
    ax.margins(x=0.02)
    add_legend(ax)
    return ax


def plot_differences(
    frame: pd.DataFrame, *, confidence_level: float | None = None, ax: Axes | None = None
) -> Axes:
    """Return axes with the paired differences of recommenders to one of them, a marker per estimator."""
    metric = frame["metric"].iloc[0]
    reference = frame["reference"].iloc[0]
    xlabel = f"{metric} minus that of {reference}, {_name_interval(confidence_level)}"
    rows = frame.rename(columns={"difference": "estimate"})
    ax = draw_forest(rows, "model", "estimator", xlabel, ax=ax)
    ax.axvline(0, color="0.5", linewidth=0.8)
    return ax


class _CountGroups(NamedTuple):
    """Groups of items or users by a count: the range of each group, and the label of the count."""

    spans: list[str]
    count_label: str


def _match_count_groups(groups: Sequence[str]) -> _CountGroups | None:
    """Return the groups by count, or None if a group is of another kind or counts something else."""
    spans = []
    units = set()
    for group in groups:
        match = COUNT_GROUP.fullmatch(str(group))
        if match is None:
            return None
        spans.append(match["span"])
        units.add(match["unit"])
    if len(units) != 1:
        return None
    count_label = COUNT_LABELS.get(units.pop())
    if count_label is None:
        return None
    return _CountGroups(spans, count_label)


def plot_segments(frame: pd.DataFrame, *, metric: str, estimator: str, ax: Axes | None = None) -> Axes:
    """Return axes with estimates by group: groups by count as curves, others as a forest."""
    rows = select_rows(frame, "metric", metric)
    rows = select_rows(rows, "estimator", estimator)
    quantity = f"{rows['metric'].iloc[0]}, {rows['estimator'].iloc[0]}"
    groups = list_distinct(rows["group"])
    count_groups = _match_count_groups(groups)
    if count_groups is None:
        return draw_forest(rows, "group", "model", f"{quantity}, intervals for all groups at once", ax=ax)

    models = list_distinct(rows["model"])
    shift = 0.7 * (rows["model"].map(models.index) + 0.5) / len(models) - 0.35
    rows = rows.assign(position=rows["group"].map(groups.index) + shift)
    ax = draw_curves(
        rows,
        "model",
        "position",
        ax=ax,
        xlabel=count_groups.count_label,
        ylabel=quantity,
        width=1.6 + 0.8 * len(groups),
    )
    for _, _, interval_lines in ax.containers:
        interval_lines[0].set(alpha=0.5, linewidth=1)
    ax.set_xticks(range(len(groups)), count_groups.spans, parse_math=False)
    ax.set_xticks(np.arange(len(groups) + 1) - 0.5, minor=True)
    ax.grid(axis="x", which="minor", color="0.9")
    ax.set_xlim(-0.5, len(groups) - 0.5)
    if not (rows["estimate"] < 0).any():
        ax.set_ylim(bottom=0)
    return ax


def plot_decomposition(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with bars for the shares of positives and weight by group, and columns of unweighted values."""
    groups = list_distinct(frame["group"])
    models = list_distinct(frame["model"])
    group_labels = [format_name(group) for group in groups]
    ylabel = str(frame["by"].iloc[0])
    count_groups = _match_count_groups(groups)
    if count_groups is not None:
        group_labels = count_groups.spans
        ylabel = count_groups.count_label

    ax = prepare_axes(ax, width=5.2 + 0.7 * len(models), height=1.6 + 0.36 * len(groups))
    heights = np.arange(len(groups))
    first_rows = frame[frame["model"] == models[0]]
    ax.barh(heights - 0.2, 100 * first_rows["share"], 0.38, color="0.78", label="share of positives")
    ax.barh(
        heights + 0.2, 100 * first_rows["share_weighted"], 0.38, color=COLOURS[0], label="share of weight"
    )
    ax.set_yticks(heights, group_labels, parse_math=False)
    ax.invert_yaxis()
    ax.set_ylabel(ylabel, parse_math=False)
    ax.set_xlabel("share, %")
    for format_number, model in enumerate(models):
        values = frame.loc[frame["model"] == model, "value"].tolist()
        _write_value_column(ax, 44 * format_number, model, values)
    _annotate(ax, "unweighted value in the group", (1, 0), (14, -30), xycoords="axes fraction")
    add_legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def _write_value_column(ax: Axes, offset: float, model: str, values: Sequence[float]) -> None:
    """Write the name and the values of a model in a column to the right of the axes, `offset` points away."""
    _annotate(ax, format_name(model), (1, 1), (offset + 26, 4), xycoords="axes fraction", rotation=40)
    for height, value in enumerate(values):
        text = "–"
        if not np.isnan(value):
            text = format_fixed(value, 3)
        xycoords = ("axes fraction", "data")
        _annotate(ax, text, (1, height), (offset + 34, -3), xycoords=xycoords, ha="center")


def _annotate(
    ax: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **options: Any
) -> None:
    """Write small text at an offset in points from a point, with the options of `Axes.annotate`."""
    ax.annotate(
        text, point, offset, textcoords="offset points", parse_math=False, fontsize="small", **options
    )
