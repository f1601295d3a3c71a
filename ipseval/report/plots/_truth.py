"""Plots of estimates against the truth or against random exposure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from ipseval.errors import InputError
from ipseval.report.plots._base import (
    add_legend,
    axes_or_new,
    distinct,
    forest,
    limits,
    marks,
    only,
    reach,
    table,
)


def plot_bias(
    frame: pd.DataFrame,
    *,
    metric: str | None = None,
    estimators: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return axes with estimates against the truth; on the diagonal an estimate is right.

    Parameters
    ----------
    frame : DataFrame
        model, metric, estimator, truth, estimate, ci_low, ci_high.
    metric : str, optional
        Which metric; needed when the frame holds several.
    estimators : sequence of str, optional
        Which, in this order; default all.
    """
    frame = table(frame, "frame", "metric", "estimator", "truth", "estimate", "ci_low", "ci_high")
    part = only(frame, "metric", metric)
    chosen = list(estimators) if estimators is not None else distinct(part["estimator"])
    unknown = [one for one in chosen if one not in distinct(part["estimator"])]
    if unknown or not chosen:
        raise InputError(f"estimators must be of {distinct(part['estimator'])}; got {chosen!r:.80}.")
    part = part[part["estimator"].isin(chosen)]
    ax = axes_or_new(ax, width=4.2, height=3.8)
    low, high = limits(part[["truth", "estimate", "ci_low", "ci_high"]].to_numpy())
    ax.plot([low, high], [low, high], color="0.6", linewidth=1, zorder=0, label="estimate = truth")
    for number, estimator in enumerate(chosen):
        rows = part[part["estimator"] == estimator]
        marks(ax, number, estimator, rows["truth"], rows["estimate"], yerr=reach(rows))
    ax.set(xlim=limits(part["truth"].to_numpy()), ylim=(low, high))
    ax.set_title(str(part["metric"].iloc[0]), parse_math=False)
    ax.set_xlabel("truth")
    ax.set_ylabel("estimate with its interval")
    add_legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def plot_validation(frame: Any, *, ax: Axes | None = None) -> Axes:
    """Return axes with the reduction of error by each propensity and estimator, one mark per metric.

    Parameters
    ----------
    frame : Validation or DataFrame
        A validation, its `summary` or rows of it: propensity, estimator, metric, reduction, reduction_low,
        reduction_high.
    """
    frame = table(
        frame, "summary", "propensity", "estimator", "metric", "reduction", "reduction_low", "reduction_high"
    )
    labels = [f"{one}, {other}" for one, other in zip(frame["propensity"], frame["estimator"], strict=True)]
    names = {"reduction": "estimate", "reduction_low": "ci_low", "reduction_high": "ci_high"}
    shown = (100 * frame[list(names)]).rename(columns=names).assign(row=labels, metric=frame["metric"])
    words = "reduction of the plain average's error, % (right of 0: closer to random exposure)"
    ax = forest(shown, "row", "metric", words, ax=ax, width=8)
    ax.axvline(0, color="0.5", linewidth=0.8)
    return ax
