"""Plots against what is known otherwise: the truth, experiments, other orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.errors import InputError
from ipseval.reporting.plots._base import (
    AGREEMENT_WORDS,
    add_legend,
    axes_or_new,
    distinct,
    forest,
    limits,
    marks,
    only,
    plain,
    reach,
    square,
    table,
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


@public_function
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


def plot_online(rows: pd.DataFrame, *, line: tuple[float, float], label: str, ax: Axes | None = None) -> Axes:
    """Return axes with online against offline differences, one mark per experiment, errors both ways.

    `line`: slope and intercept of the true differences, drawn dashed; `label`: what is offline.
    """
    ax = axes_or_new(ax, width=5.0, height=4.4)
    ax.axhline(0, color="0.7", linewidth=0.9)
    ax.axvline(0, color="0.7", linewidth=0.9)
    agree = np.sign(rows["offline"]) * np.sign(rows["online"]) > 0
    for number, (known, text) in enumerate(((agree, "same sign"), (~agree, "other sign"))):
        part = rows[known]
        if len(part):
            errors = {"xerr": part["offline_error"], "yerr": part["online_error"], "linewidth": 0.8}
            marks(ax, number, text, part["offline"], part["online"], **errors, capsize=0, markersize=4)
    if np.isfinite(line).all():
        ax.axline((0.0, line[1]), slope=line[0], ls="--", color="0.2", lw=1.1, label="true differences")
    ax.set_xlabel(f"offline difference ± standard error ({plain(label)})", parse_math=False)
    ax.set_ylabel("online difference ± standard error")
    add_legend(ax, fontsize="small")
    return ax


@public_function
def plot_agreement(
    frame: pd.DataFrame, *, value: str = "src", ends: Iterable[int] = (), ax: Axes | None = None
) -> Axes:
    """Return axes with a heat map of order agreement between protocols or domains.

    Parameters
    ----------
    frame : DataFrame
        Square, with the same names as index and columns: `ProtocolStudy.matrix(…)`. Or tidy: columns a, b and
        the agreement named by `value`. Pairs that are absent stay empty.
    value : str
        Which agreement: the column of a tidy frame, and what the colours are called.
    ends : ints
        Places where a new block begins: a line is drawn before them.
    """
    names, matrix = square(frame, value)
    names = [plain(name) for name in names]
    # Names stand to the left and, at an angle, below.
    cells, words = 0.55 * len(names), 0.08 * max(map(len, names))
    ax = axes_or_new(ax, width=cells + words + 1.8, height=cells + 0.75 * words + 0.7)
    low, high = min(0.0, np.nanmin(matrix)), max(1.0, np.nanmax(matrix))
    shown = ax.imshow(matrix, cmap=mpl.colormaps["cividis"], vmin=low, vmax=high)
    for row, column in np.argwhere(~np.isnan(matrix)):
        dark = matrix[row, column] < low + 0.55 * (high - low)
        ax.text(
            column,
            row,
            f"{matrix[row, column]:.2f}",
            ha="center",
            va="center",
            color="white" if dark else "black",
            fontsize="small",
        )
    for end in ends:
        ax.axhline(end - 0.5, color="white", linewidth=2.5)
        ax.axvline(end - 0.5, color="white", linewidth=2.5)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right", parse_math=False)
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.figure.colorbar(shown, ax=ax, label=AGREEMENT_WORDS.get(value, value), shrink=0.8)
    return ax
