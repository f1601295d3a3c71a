"""Plots of an evaluation's differences, and of which items carry its weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.errors import InputError
from ipseval.report.plots._base import COLOURS, add_legend, axes_or_new, distinct, forest, only, table


def plot_differences(
    frame: Any, *, metric: str | None = None, reference: str | None = None, ax: Axes | None = None
) -> Axes:
    """Return axes with the paired difference of every recommender to one of them, one mark per estimator."""
    compared = getattr(frame, "compare", None)
    if callable(compared) and not isinstance(frame, pd.DataFrame | pd.Series):
        frame = compared()
    columns = ("metric", "estimator", "model", "reference", "difference", "ci_low", "ci_high")
    part = only(table(frame, "frame", *columns), "metric", metric)
    names = distinct([*part["model"], *part["reference"]])
    if reference is None:
        reference = str(part["reference"].iloc[0]) if part["reference"].nunique() == 1 else ""
    if reference not in names:
        raise InputError(f"reference must be one of {', '.join(map(repr, names))}; got {reference!r:.80}.")
    ahead, behind = part[part["reference"] == reference], part[part["model"] == reference]
    renamed = {"difference": "estimate", "model": "row"}
    turned = behind.assign(
        row=behind["reference"],
        estimate=-behind["difference"],
        ci_low=-behind["ci_high"],
        ci_high=-behind["ci_low"],
    )
    shown = ["row", "estimator", "estimate", "ci_low", "ci_high"]
    rows = pd.concat([ahead.rename(columns=renamed)[shown], turned[shown]])
    order = [name for name in names if name != reference]
    rows = rows.sort_values("row", key=lambda one: one.map(order.index), kind="stable")
    words = f"{part['metric'].iloc[0]} minus that of {reference}, with its interval"
    ax = forest(rows, "row", "estimator", words, ax=ax)
    ax.axvline(0, color="0.5", linewidth=0.8)
    return ax


def plot_weight_shares(frame: Any, *, estimator: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with shares of weight beside shares of positives, from rare items to popular ones."""
    frame = table(frame, "popularity", "estimator", "by", "group", "share", "weight_share")
    part = frame if estimator is None else only(frame, "estimator", estimator)
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
