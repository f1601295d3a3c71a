"""Plots of an evaluation: estimates, their dependence on γ, their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.report.plots._base import (
    COLOURS,
    LINES,
    add_legend,
    axes_or_new,
    distinct,
    forest,
    only,
    plain,
    table,
    tipping_gammas,
)


def plot_estimates(frame: Any, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with the estimate and interval of every recommender, one mark per estimator.

    Parameters
    ----------
    frame : Evaluation or DataFrame
        An evaluation, or its `frame`: model, metric, estimator, estimate, ci_low, ci_high.
    metric : str, optional
        Which metric; needed when the frame holds several.
    """
    frame = table(frame, "frame", "model", "metric", "estimator", "estimate", "ci_low", "ci_high")
    part = only(frame, "metric", metric)
    return forest(part, "model", "estimator", f"{part['metric'].iloc[0]}, with its interval", ax=ax)


def plot_sensitivity(
    frame: Any,
    *,
    metric: str | None = None,
    estimator: str | None = None,
    tipping: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return axes with the estimate of every recommender over γ, from AOA (γ = −1) on.

    Parameters
    ----------
    frame : Evaluation, Sensitivity or DataFrame
        An evaluation, whose tipping points are drawn too; `Evaluation.sensitivity(…)`, or its `frame`:
        model, metric, estimator, gamma, estimate, ci_low, ci_high.
    metric, estimator : str, optional
        Which; needed when the frame holds several.
    tipping : DataFrame, optional
        `Evaluation.tipping_points()`: metric, estimator, tipping_points, the γ at which two recommenders
        change places; those of this metric and estimator are drawn as vertical lines.
    """
    swept = getattr(frame, "sensitivity", None)
    if callable(swept) and not isinstance(frame, pd.DataFrame):
        frame = swept()
        tipping = frame.tipping_points() if tipping is None else tipping
    frame = table(frame, "frame", "model", "metric", "estimator", "gamma", "estimate", "ci_low", "ci_high")
    part = only(only(frame, "metric", metric), "estimator", estimator)
    places = tipping_gammas(tipping, part["metric"].iloc[0], part["estimator"].iloc[0])
    ax = axes_or_new(ax)
    for number, model in enumerate(distinct(part["model"])):
        rows = part[part["model"] == model].sort_values("gamma")
        colour = COLOURS[number % 8]
        ax.plot(
            rows["gamma"], rows["estimate"], color=colour, linestyle=LINES[number % 8], label=plain(model)
        )
        ax.fill_between(rows["gamma"], rows["ci_low"], rows["ci_high"], color=colour, alpha=0.15, linewidth=0)
    for number, gamma in enumerate(places):
        label = "two swap places" if number == 0 else None
        ax.axvline(gamma, color="0.55", linewidth=0.8, linestyle=(0, (1, 3)), zorder=0, label=label)
    ax.set_xlabel(r"$\gamma$ of $P \propto (n^*)^{(\gamma + 1)/2}$   (−1: the plain average)")
    ax.set_ylabel(f"{part['metric'].iloc[0]} by {part['estimator'].iloc[0]}", parse_math=False)
    ax.margins(x=0.02)
    add_legend(ax)
    return ax


def plot_weights(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return axes with the effective sample size of each estimator's weights beside the positives it used.

    Parameters
    ----------
    frame : Evaluation or DataFrame
        An evaluation, or its `diagnostics`: estimator, n_positives, and ess_own and share_own of the weights
        that the estimator itself gives.
    """
    frame = table(frame, "diagnostics", "estimator", "ess_own", "n_positives", "share_own")
    rows = frame.drop_duplicates("estimator")
    place = np.arange(len(rows))
    ax = axes_or_new(ax, width=6.4, height=1.1 + 0.4 * len(rows))
    ax.barh(place, rows["n_positives"], color="0.88", label="positives")
    ax.barh(place, rows["ess_own"], height=0.5, color=COLOURS[0], label="effective sample size")
    for y, share in zip(place, rows["share_own"], strict=True):
        ax.annotate(
            f"largest share {100 * share:.2g} %",
            (1.01, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize="small",
        )
    ax.set_yticks(place, [plain(label) for label in rows["estimator"]], parse_math=False)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel("number of positives")
    add_legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax
