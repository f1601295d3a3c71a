"""Plots of segments: estimates by group, and where a difference comes from."""

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
    forest,
    only,
    plain,
    reach,
    table,
)

MOST_ROWS = 8  # groups up to which a forest is drawn; more of them are drawn as a curve


def plot_segments(
    frame: Any, *, metric: str | None = None, estimator: str | None = None, ax: Axes | None = None
) -> Axes:
    """Return axes with estimates by group: ordered or more than eight ones as curves, others as a forest."""
    columns = ("by", "group", "model", "metric", "estimator", "estimate", "ci_low", "ci_high")
    frame = table(frame, "frame", *columns)
    part = only(only(frame, "metric", metric), "estimator", estimator)
    name, what = part["by"].iloc[0], f"{part['metric'].iloc[0]} by {part['estimator'].iloc[0]}"
    groups = distinct(part["group"])
    ordered = all(str(one).startswith(f"{place + 1} (") for place, one in enumerate(groups))
    if not ordered and len(groups) <= MOST_ROWS:
        return forest(part, "group", "model", f"{what}, intervals for all groups at once", ax=ax)
    ax = axes_or_new(ax, width=6.4)
    _curves(ax, part, groups)
    ax.set_xlabel(f"{name}, from {plain(groups[0])} to {plain(groups[-1])}", parse_math=False)
    ax.set_ylabel(what, parse_math=False)
    add_legend(ax)
    return ax


def _curves(ax: Axes, part: pd.DataFrame, groups: list[str]) -> None:
    models = distinct(part["model"])
    for number, model in enumerate(models):
        rows = part[part["model"] == model]
        place = np.array([groups.index(one) for one in rows["group"]]) + 1.0
        shift = 0.3 * ((number + 0.5) / len(models) - 0.5)
        ax.errorbar(
            place + shift,
            rows["estimate"],
            yerr=reach(rows),
            marker=MARKS[number % 8],
            color=COLOURS[number % 8],
            linestyle=LINES[number % 8],
            linewidth=1.2,
            markersize=4,
            capsize=2,
            label=plain(model),
        )
    ax.set_xticks(np.arange(len(groups)) + 1)
    ax.set_xlim(0.5, len(groups) + 0.5)


def plot_decomposition(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return axes with each group's shares of positives and weight as bars, and plain values as lines."""
    frame = table(frame, "frame", "by", "model", "group", "share", "share_weighted", "value")
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
    name = frame["by"].iloc[0]
    ax.set_xlabel(f"{name}, from {plain(groups[0])} to {plain(groups[-1])}", parse_math=False)
    right = ax.twinx()
    for number, model in enumerate(distinct(frame["model"])):
        rows = frame[frame["model"] == model]
        right.plot(
            place,
            rows["value"],
            marker=MARKS[number % 8],
            color=COLOURS[number % 8],
            linestyle=LINES[number % 8],
            markersize=5,
            label=plain(model),
        )
    right.set_ylabel("value in the group, plain")
    right.set_ylim(bottom=0)
    right.spines[["top"]].set_visible(False)
    handles, labels = (
        both[0] + both[1]
        for both in zip(ax.get_legend_handles_labels(), right.get_legend_handles_labels(), strict=True)
    )
    for text in ax.legend(
        handles, labels, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3
    ).get_texts():
        text.set_parse_math(False)
    return ax
