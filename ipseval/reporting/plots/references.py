"""Plots against references: the true value, online experiments, other rankings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipseval.errors import InputError
from ipseval.reporting.plots._base import (
    AGREEMENT_LABELS,
    add_legend,
    compute_error_bars,
    compute_limits,
    draw_forest,
    draw_markers,
    format_name,
    get_frame,
    list_distinct,
    prepare_axes,
    read_square_matrix,
    select_rows,
)
from ipseval.utils.public import public_function


@public_function
def plot_bias(
    frame: pd.DataFrame,
    *,
    metric: str | None = None,
    estimators: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot estimates against the true values; an estimate without error lies on the diagonal.

    Parameters
    ----------
    frame : DataFrame
        Columns model, metric, estimator, truth, estimate, ci_low, ci_high.
    metric : str, optional
        Metric to draw; required if the frame has several.
    estimators : sequence of str, optional
        Estimators to draw, in this order; default: all.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot.

    Raises
    ------
    InputError
        If the frame lacks a column, has no rows or not the metric or an estimator.

    See Also
    --------
    plot_estimates : Plot estimates without true values.
    ipseval.validation.Validation.plot : Plot the reduction of the bias.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"model": ["als", "bpr"], "metric": "recall@5", "estimator": "snips-global"})
    >>> frame = frame.assign(truth=[0.3, 0.2], estimate=[0.35, 0.22], ci_low=[0.3, 0.18], ci_high=[0.4, 0.26])
    >>> ax = plot_bias(frame)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('truth', 'estimate with its interval')
    """
    frame = get_frame(frame, "frame", ["metric", "estimator", "truth", "estimate", "ci_low", "ci_high"])
    rows = select_rows(frame, "metric", metric)
    labels = _choose_estimators(rows, estimators)
    rows = rows[rows["estimator"].isin(labels)]

    ax = prepare_axes(ax, width=4.2, height=3.8)
    low, high = compute_limits(rows[["truth", "estimate", "ci_low", "ci_high"]].to_numpy())
    ax.plot([low, high], [low, high], color="0.6", linewidth=1, zorder=0, label="estimate = truth")
    for number, label in enumerate(labels):
        series_rows = rows[rows["estimator"] == label]
        error_bars = compute_error_bars(series_rows)
        draw_markers(ax, number, label, series_rows["truth"], series_rows["estimate"], yerr=error_bars)
    ax.set(xlim=compute_limits(rows["truth"].to_numpy()), ylim=(low, high))
    ax.set_title(str(rows["metric"].iloc[0]), parse_math=False)
    ax.set_xlabel("truth")
    ax.set_ylabel("estimate with its interval")
    add_legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def plot_bias_panels(frame: pd.DataFrame, estimators: Sequence[str]) -> Figure:
    """Return a figure with the estimates of each metric against the true values, and one legend below."""
    metrics = list_distinct(frame["metric"])
    figure = Figure(figsize=(3.6 * len(metrics), 3.9), layout="constrained")
    panels = figure.subplots(1, len(metrics), squeeze=False)[0]
    for ax, metric in zip(panels, metrics, strict=True):
        plot_bias(frame, metric=metric, estimators=estimators, ax=ax)
        ax.get_legend().remove()
        ax.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _choose_estimators(rows: pd.DataFrame, estimators: Sequence[str] | None) -> list[str]:
    """Return the labels of the estimators to draw, by default all; raise if one is not in the rows."""
    available = list_distinct(rows["estimator"])
    if estimators is None:
        return available
    labels = list(estimators)
    if not labels or not set(labels) <= set(available):
        raise InputError(f"estimators must be among {available}; got {labels!r:.80}.")
    return labels


@public_function
def plot_validation(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the reduction of the error by each propensity and estimator, an interval for each metric.

    Parameters
    ----------
    frame : Validation or DataFrame
        A validation, its `summary` or rows of it, with columns propensity, estimator, metric, reduction,
        reduction_low, reduction_high.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the plot. The line at 0 is the error of AOA.

    Raises
    ------
    InputError
        If the frame lacks a column or has no rows, or `ax` is not matplotlib axes.

    See Also
    --------
    ipseval.validation.Validation.plot : Plot the summary of a validation.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"propensity": ["gamma = 0"], "estimator": "snips-global", "metric": "recall@5"})
    >>> ax = plot_validation(frame.assign(reduction=0.7, reduction_low=0.6, reduction_high=0.8))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['gamma = 0, snips-global']
    """
    frame = get_frame(
        frame,
        "summary",
        ["propensity", "estimator", "metric", "reduction", "reduction_low", "reduction_high"],
    )
    labels = []
    for propensity, estimator in zip(frame["propensity"], frame["estimator"], strict=True):
        labels.append(f"{propensity}, {estimator}")
    rows = pd.DataFrame(
        {
            "row": labels,
            "metric": frame["metric"].to_numpy(),
            "estimate": 100 * frame["reduction"].to_numpy(),
            "ci_low": 100 * frame["reduction_low"].to_numpy(),
            "ci_high": 100 * frame["reduction_high"].to_numpy(),
        }
    )
    xlabel = "reduction of the error of AOA, % (right of 0: closer to random exposure)"
    ax = draw_forest(rows, "row", "metric", xlabel, ax=ax, width=8)
    ax.axvline(0, color="0.5", linewidth=0.8)
    return ax


def plot_online(rows: pd.DataFrame, *, line: tuple[float, float], label: str, ax: Axes | None = None) -> Axes:
    """Return axes with online against offline differences, a marker with two error bars per experiment.

    `line` is the slope and intercept of the true differences, drawn dashed; `label` names the offline
    estimator.
    """
    ax = prepare_axes(ax, width=5.0, height=4.4)
    ax.axhline(0, color="0.7", linewidth=0.9)
    ax.axvline(0, color="0.7", linewidth=0.9)

    has_same_sign = np.sign(rows["offline"]) * np.sign(rows["online"]) > 0
    _draw_experiments(ax, 0, "same sign", rows[has_same_sign])
    _draw_experiments(ax, 1, "other sign", rows[~has_same_sign])

    slope, intercept = line
    if np.isfinite(slope) and np.isfinite(intercept):
        ax.axline((0.0, intercept), slope=slope, ls="--", color="0.2", lw=1.1, label="true differences")
    ax.set_xlabel(f"offline difference ± standard error ({format_name(label)})", parse_math=False)
    ax.set_ylabel("online difference ± standard error")
    add_legend(ax, fontsize="small")
    return ax


def _draw_experiments(ax: Axes, number: int, label: str, rows: pd.DataFrame) -> None:
    """Draw a series of experiments with the errors of both differences; no rows draw nothing."""
    if rows.empty:
        return
    draw_markers(
        ax,
        number,
        label,
        x=rows["offline"],
        y=rows["online"],
        xerr=rows["offline_error"],
        yerr=rows["online_error"],
        linewidth=0.8,
        capsize=0,
        markersize=4,
    )


@public_function
def plot_agreement(
    frame: pd.DataFrame, *, value: str = "src", ends: Iterable[int] = (), ax: Axes | None = None
) -> Axes:
    """Plot a heat map of the agreement between the rankings of protocols or domains.

    Parameters
    ----------
    frame : DataFrame
        Square, with the same names as index and columns, such as `ProtocolStudy.matrix(…)`; or with a pair in
        each row: columns a, b and the agreement named by `value`. Pairs that are absent stay empty.
    value : str, default "src"
        Measure of agreement: the column of a frame of pairs, and the label of the colours.
    ends : iterable of int, default ()
        Numbers of the rows where a new block begins; a line is drawn before them.
    ax : matplotlib Axes, optional
        Axes to draw on; default: those of a new figure.

    Returns
    -------
    Axes
        The axes with the heat map.

    Raises
    ------
    InputError
        If the frame is neither square nor has the three columns, or `ax` is not matplotlib axes.

    See Also
    --------
    ipseval.studies.online.online_agreement : Compute what this function plots.

    Examples
    --------
    >>> import pandas as pd
    >>> from ipseval.reporting.plots import plot_agreement
    >>> pairs = pd.DataFrame({"a": ["random", "random"], "b": ["user", "global"], "src": [0.9, 0.6]})
    >>> ax = plot_agreement(pairs)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['random', 'user', 'global']
    """
    names, matrix = read_square_matrix(frame, value)
    labels = [format_name(name) for name in names]
    # Labels take space to the left and, as they are turned, below.
    map_size = 0.55 * len(labels)
    label_size = 0.08 * max(map(len, labels))
    ax = prepare_axes(ax, width=map_size + label_size + 1.8, height=map_size + 0.75 * label_size + 0.7)

    low = min(0.0, np.nanmin(matrix))
    high = max(1.0, np.nanmax(matrix))
    image = ax.imshow(matrix, cmap=mpl.colormaps["cividis"], vmin=low, vmax=high)
    for row, column in np.argwhere(~np.isnan(matrix)):
        agreement = matrix[row, column]
        colour = "black"
        if agreement < low + 0.55 * (high - low):
            colour = "white"  # the cell is dark
        text = f"{agreement:.2f}"
        ax.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
    for end in ends:
        ax.axhline(end - 0.5, color="white", linewidth=2.5)
        ax.axvline(end - 0.5, color="white", linewidth=2.5)
    ax.set_xticks(range(len(labels)), labels, rotation=45, ha="right", parse_math=False)
    ax.set_yticks(range(len(labels)), labels, parse_math=False)
    ax.figure.colorbar(image, ax=ax, label=AGREEMENT_LABELS.get(value, value), shrink=0.8)
    return ax
