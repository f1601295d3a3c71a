"""Plots of an evaluation: estimates, differences, weights, groups, and their dependence on γ."""

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
    curves,
    distinct,
    forest,
    marks,
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


def plot_result(
    frame: pd.DataFrame, metric: str | None = None, estimator: str | None = None, *, ax: Axes | None = None
) -> Axes:
    """Return axes with the estimates, or differences, of one metric or measure of a result's frame."""
    rows = next(name for name in ("model", "policy") if name in frame)
    of = next((name for name in ("metric", "measure") if name in frame), "")
    part = frame.rename(columns={"difference": "estimate"})
    if estimator is not None:
        part = only(part, "estimator", estimator)
    if of:
        part = only(part, of, str(frame[of].iloc[0]) if metric is None else metric)
    series = next((name for name in ("data", "estimator", "measure") if name in frame), of)
    words = "difference" if "difference" in frame else part[of].iloc[0] if of else "estimate"
    return forest(part, rows, series, f"{words}, with its interval", ax=ax)


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
    frame : Sensitivity or DataFrame
        `Evaluation.sensitivity(…)`, or its `frame`: model, metric, estimator, gamma, estimate, ci_low,
        ci_high.
    metric, estimator : str, optional
        Which; needed when the frame holds several.
    tipping : DataFrame, optional
        `Evaluation.tipping_points()`: metric, estimator, tipping_points, the γ at which two recommenders
        change places; those of this metric and estimator are drawn as vertical lines.
    """
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


def plot_differences(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with the paired differences of recommenders to one of them, one mark per estimator."""
    first = frame.iloc[0]
    words = f"{first['metric']} minus that of {first['reference']}, with its interval"
    shown = frame.rename(columns={"difference": "estimate"})
    ax = forest(shown, "model", "estimator", words, ax=ax)
    ax.axvline(0, color="0.5", linewidth=0.8)
    return ax


def plot_weight_shares(part: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with shares of weight beside shares of positives, from rare items to popular ones."""
    labels, groups = distinct(part["estimator"]), distinct(part["group"])
    first = part[part["estimator"] == labels[0]]
    ax = axes_or_new(ax, width=6.4)
    place, width = np.arange(len(groups)), 0.8 / (len(labels) + 1)
    bars = [("positives", first["share"], "0.75")]
    for number, label in enumerate(labels):
        own = part.loc[part["estimator"] == label, "weight_share"]
        bars.append((f"weight by {label}", own, COLOURS[number % 8]))
    for number, (label, share, colour) in enumerate(bars):
        shift = (number - len(labels) / 2) * width
        ax.bar(place + shift, 100 * share, width, color=colour, label=label)
    ax.set_xticks(place, groups, rotation=0 if len(groups) < 7 else 45, parse_math=False)
    words = {"n*": "training interactions of the item", "P": "propensity"}
    ax.set_xlabel(words.get(str(part["by"].iloc[0]), "group"))
    ax.set_ylabel("share, %")
    add_legend(ax)
    return ax


MOST_ROWS = 8  # groups up to which a forest is drawn; more of them are drawn as a curve


def plot_segments(frame: pd.DataFrame, *, metric: str, estimator: str, ax: Axes | None = None) -> Axes:
    """Return axes with estimates by group: ordered or more than eight ones as curves, others as a forest."""
    part = only(only(frame, "metric", metric), "estimator", estimator)
    name, what = part["by"].iloc[0], f"{part['metric'].iloc[0]} by {part['estimator'].iloc[0]}"
    groups = distinct(part["group"])
    ordered = all(str(one).startswith(f"{place + 1} (") for place, one in enumerate(groups))
    if not ordered and len(groups) <= MOST_ROWS:
        return forest(part, "group", "model", f"{what}, intervals for all groups at once", ax=ax)
    models = distinct(part["model"])
    shifts = {name: 0.3 * ((n + 0.5) / len(models) - 0.5) for n, name in enumerate(models)}
    place = part["group"].map(groups.index) + 1.0 + part["model"].map(shifts)
    words = f"{name}, from {plain(groups[0])} to {plain(groups[-1])}"
    ax = curves(part.assign(place=place), "model", "place", ax=ax, xlabel=words, ylabel=what, width=6.4)
    ax.set_xticks(np.arange(len(groups)) + 1)
    ax.set_xlim(0.5, len(groups) + 0.5)
    return ax


def plot_decomposition(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with each group's shares of positives and weight as bars, and plain values as lines."""
    groups = distinct(frame["group"])
    first = frame[frame["model"] == frame["model"].iloc[0]]
    ax = axes_or_new(ax, width=6.8, height=3.8)
    place = np.arange(len(groups)) + 1.0
    ax.bar(place - 0.2, first["share"], width=0.38, color="0.78", label="share of positives")
    ax.bar(
        place + 0.2,
        first["share_weighted"],
        width=0.38,
        color="0.45",
        label="share of weight",
        hatch="//",
        edgecolor="white",
    )
    ax.set_xticks(place)
    ax.set_ylabel("share")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel(f"{frame['by'].iloc[0]}, from {plain(groups[0])} to {plain(groups[-1])}", parse_math=False)
    right = ax.twinx()
    for number, model in enumerate(distinct(frame["model"])):
        values = frame.loc[frame["model"] == model, "value"]
        marks(right, number, model, place, values, linestyle=LINES[number % 8])
    right.set_ylabel("value in the group, plain")
    right.set_ylim(bottom=0)
    right.spines[["top"]].set_visible(False)
    both = [one.get_legend_handles_labels() for one in (ax, right)]
    handles, labels = (left + more for left, more in zip(*both, strict=True))
    add_legend(ax, handles=handles, labels=labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return ax
