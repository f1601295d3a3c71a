"""Plots of the weights of estimators: effective sample sizes, and shares of the weight by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.reporting.formatting import format_percent
from ipseval.reporting.plots._base import (
    COLOURS,
    COUNT_LABELS,
    N_STYLES,
    add_legend,
    format_name,
    get_frame,
    list_distinct,
    prepare_axes,
)
from ipseval.utils.public import public_function


@public_function
def plot_weights(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the effective sample size of each estimator, and behind it the one with equal propensities.

    Parameters
    ----------
    frame : Evaluation or DataFrame
        An evaluation, or its `diagnostics`, with columns estimator, ess_own and share_own (effective sample
        size and largest share of the weights of the estimator), and ess_equal (its effective sample size if
        all propensities were equal).
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
    ipseval.Evaluation.diagnostics : The effective sample sizes.

    Examples
    --------
    >>> from ipseval import PowerLawPropensity, evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> propensity = PowerLawPropensity(gamma=0, unseen="smooth")
    >>> evaluation = evaluate(models, split, propensity=propensity, metrics=["recall@10"])
    >>> ax = plot_weights(evaluation)
    >>> ax.get_xlabel()
    'effective sample size, in positives'
    """
    frame = get_frame(frame, "diagnostics", ["estimator", "ess_own", "ess_equal", "share_own"])
    rows = frame.drop_duplicates("estimator")
    labels = []
    for estimator, largest_share in zip(rows["estimator"], rows["share_own"], strict=True):
        n_decimals = 0
        if largest_share < 0.01:
            n_decimals = 2
        labels.append(
            f"{format_name(estimator)}\nlargest weight: {format_percent(largest_share, n_decimals)}"
        )

    heights = np.arange(len(rows))
    ax = prepare_axes(ax, width=6.4, height=1.1 + 0.5 * len(rows))
    ax.barh(heights, rows["ess_equal"], color="0.85", label="if all propensities were equal")
    ax.barh(heights, rows["ess_own"], height=0.5, color=COLOURS[0], label="with its own weights")
    ax.set_yticks(heights, labels, parse_math=False)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel("effective sample size, in positives")
    add_legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def plot_weight_shares(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with the shares of positives and of weight by group, from rare items to popular ones."""
    labels = list_distinct(frame["estimator"])
    groups = list_distinct(frame["group"])
    ax = prepare_axes(ax, width=6.4)
    group_positions = np.arange(len(groups))
    width = 0.8 / (len(labels) + 1)

    first_rows = frame[frame["estimator"] == labels[0]]
    series = [("positives", first_rows["share"], "0.75")]
    for number, label in enumerate(labels):
        weight_share = frame.loc[frame["estimator"] == label, "weight_share"]
        series.append((label, weight_share, COLOURS[number % N_STYLES]))
    for number, (label, share, colour) in enumerate(series):
        shift = (number - len(labels) / 2) * width
        ax.bar(group_positions + shift, 100 * share, width, color=colour, label=label)

    rotation = 0
    if len(groups) >= 7:
        rotation = 45
    ax.set_xticks(group_positions, groups, rotation=rotation, parse_math=False)
    xlabels = {"n*": COUNT_LABELS["n*"], "P": "propensity"}
    ax.set_xlabel(xlabels.get(str(frame["by"].iloc[0]), "group"))
    ax.set_ylabel("share, %")
    add_legend(ax)
    return ax
