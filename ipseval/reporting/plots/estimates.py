"""Plots of an evaluation: estimates, differences, weights, groups, and their dependence on γ."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.reporting.formatting import format_fixed, format_percent
from ipseval.reporting.plots._base import (
    COLOURS,
    LINES,
    add_legend,
    axes_or_new,
    curves,
    distinct,
    forest,
    only,
    plain,
    table,
    tipping_gammas,
)
from ipseval.utils.public import public_function


@public_function
def plot_estimates(
    frame: Any, *, metric: str | None = None, estimand: str | None = None, ax: Axes | None = None
) -> Axes:
    """Return axes with the estimate and interval of every recommender, one mark per estimator.

    An unreliable estimate has a hollow mark without an interval, and the legend calls it unreliable.

    Parameters
    ----------
    frame : Evaluation or DataFrame
        An evaluation, or its `frame`: model, metric, estimator, estimate, ci_low, ci_high; optionally
        estimand, and flag (why an estimate is unreliable, else "").
    metric : str, optional
        Which metric; needed when the frame holds several.
    estimand : {"mean over users", "mean over interactions"}, optional
        Which estimand; needed when the frame holds several, as their values are not comparable.
    """
    frame = table(frame, "frame", "model", "metric", "estimator", "estimate", "ci_low", "ci_high")
    part = only(frame, "metric", metric)
    words = [str(part["metric"].iloc[0])]
    if "estimand" in part:
        part = only(part, "estimand", estimand)
        words.append(str(part["estimand"].iloc[0]))
    return forest(part, "model", "estimator", f"{', '.join(words)}, with confidence interval", ax=ax)


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
    return forest(part, rows, series, f"{words}, with confidence interval", ax=ax)


@public_function
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
        label = "two swap ranks" if number == 0 else None
        ax.axvline(gamma, color="0.55", linewidth=0.8, linestyle=(0, (1, 3)), zorder=0, label=label)
    ax.set_xlabel(r"$\gamma$ of $P \propto (n^*)^{(\gamma + 1)/2}$   (−1: equal weights, AOA)")
    ax.set_ylabel(f"{part['metric'].iloc[0]}, {part['estimator'].iloc[0]}", parse_math=False)
    ax.margins(x=0.02)
    add_legend(ax)
    return ax


@public_function
def plot_weights(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return axes with the effective sample size of each estimator, beside that with equal weights.

    Parameters
    ----------
    frame : Evaluation or DataFrame
        An evaluation, or its `diagnostics`: estimator, ess_equal, and ess_own and share_own of the weights
        that the estimator itself gives.
    """
    frame = table(frame, "diagnostics", "estimator", "ess_own", "ess_equal", "share_own")
    rows = frame.drop_duplicates("estimator")
    place = np.arange(len(rows))
    ax = axes_or_new(ax, width=6.4, height=1.1 + 0.5 * len(rows))
    ax.barh(place, rows["ess_equal"], color="0.85", label="if all weights were equal")
    ax.barh(place, rows["ess_own"], height=0.5, color=COLOURS[0], label="with its own weights")
    shares = zip(rows["estimator"], rows["share_own"], strict=True)
    names = [
        f"{plain(label)}\nlargest weight: {format_percent(share, 2 if share < 0.01 else 0)}"
        for label, share in shares
    ]
    ax.set_yticks(place, names, parse_math=False)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel("effective sample size, in positives")
    add_legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def plot_differences(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with the paired differences of recommenders to one of them, one mark per estimator."""
    first = frame.iloc[0]
    words = f"{first['metric']} minus that of {first['reference']}, with confidence interval"
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
        bars.append((label, own, COLOURS[number % 8]))
    for number, (label, share, colour) in enumerate(bars):
        shift = (number - len(labels) / 2) * width
        ax.bar(place + shift, 100 * share, width, color=colour, label=label)
    ax.set_xticks(place, groups, rotation=0 if len(groups) < 7 else 45, parse_math=False)
    words = {"n*": "training interactions of the item", "P": "propensity"}
    ax.set_xlabel(words.get(str(part["by"].iloc[0]), "group"))
    ax.set_ylabel("share, %")
    add_legend(ax)
    return ax


COUNTED = {"n*": "training interactions of the item", "interactions": "training interactions of the user"}


def _spans(frame: pd.DataFrame) -> tuple[list[str], str] | None:
    """Return the spans of groups by count, and what is counted in words; None for other groups."""
    found = [re.fullmatch(r"\d+ \((\S+) (.+)\)", str(one)) for one in distinct(frame["group"])]
    counted = {one[1] if one else "" for one in found}
    return ([one[2] for one in found if one], COUNTED[counted.pop()]) if counted < {*COUNTED} else None


def plot_segments(frame: pd.DataFrame, *, metric: str, estimator: str, ax: Axes | None = None) -> Axes:
    """Return axes with estimates by group: groups by count as curves, others as a forest."""
    part = only(only(frame, "metric", metric), "estimator", estimator)
    what = f"{part['metric'].iloc[0]}, {part['estimator'].iloc[0]}"
    groups, spans, models = distinct(part["group"]), _spans(part), distinct(part["model"])
    if spans is None:
        return forest(part, "group", "model", f"{what}, intervals for all groups at once", ax=ax)
    names, words = spans
    place = part["group"].map(groups.index) + 0.7 * (part["model"].map(models.index) + 0.5) / len(models)
    shown = part.assign(place=place - 0.35)
    ax = curves(shown, "model", "place", ax=ax, xlabel=words, ylabel=what, width=1.6 + 0.8 * len(groups))
    for _, _, bars in ax.containers:
        bars[0].set(alpha=0.5, linewidth=1)
    ax.set_xticks(range(len(groups)), names, parse_math=False)
    ax.set_xticks(np.arange(len(groups) + 1) - 0.5, minor=True)
    ax.grid(axis="x", which="minor", color="0.9")
    ax.set_xlim(-0.5, len(groups) - 0.5)
    if not (part["estimate"] < 0).any():
        ax.set_ylim(bottom=0)
    return ax


def plot_decomposition(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with each group's shares of positives and weight as bars, next to unweighted values."""
    groups, models = distinct(frame["group"]), distinct(frame["model"])
    names, words = _spans(frame) or (list(map(plain, groups)), str(frame["by"].iloc[0]))
    ax = axes_or_new(ax, width=5.2 + 0.7 * len(models), height=1.6 + 0.36 * len(groups))
    place = np.arange(len(groups))
    first = frame[frame["model"] == models[0]]
    ax.barh(place - 0.2, 100 * first["share"], 0.38, color="0.78", label="share of positives")
    ax.barh(place + 0.2, 100 * first["share_weighted"], 0.38, color=COLOURS[0], label="share of weight")
    ax.set_yticks(place, names, parse_math=False)
    ax.invert_yaxis()
    ax.set_ylabel(words, parse_math=False)
    ax.set_xlabel("share, %")
    given: dict[str, Any] = {"textcoords": "offset points", "parse_math": False, "fontsize": "small"}
    corner = given | {"xycoords": "axes fraction"}
    for at, model in enumerate(models):
        ax.annotate(plain(model), (1, 1), (44 * at + 26, 4), rotation=40, **corner)
        for y, value in zip(place, frame.loc[frame["model"] == model, "value"], strict=True):
            text, beside = "–" if np.isnan(value) else format_fixed(value, 3), ("axes fraction", "data")
            ax.annotate(text, (1, y), (44 * at + 34, -3), xycoords=beside, ha="center", **given)
    ax.annotate("unweighted value in the group", (1, 0), (14, -30), **corner)
    add_legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax
