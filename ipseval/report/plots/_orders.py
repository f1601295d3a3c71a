"""Plots of the agreement of orders, and of metrics on sampled candidates."""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ipseval.report.plots._base import (
    AGREEMENT_WORDS,
    COLOURS,
    add_legend,
    axes_or_new,
    distinct,
    marks,
    only,
    plain,
    reach,
    square,
    table,
)


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


def plot_sampled(frame: pd.DataFrame, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with a metric against the number m of sampled candidates; dashed lines: full ranking.

    Parameters
    ----------
    frame : DataFrame
        model, metric, n_sampled, estimate, ci_low, ci_high, exact.
    """
    frame = table(frame, "frame", "model", "metric", "n_sampled", "estimate", "ci_low", "ci_high", "exact")
    part = only(frame, "metric", metric)
    ax = axes_or_new(ax)
    for number, model in enumerate(distinct(part["model"])):
        rows = part[part["model"] == model].sort_values("n_sampled")
        marks(ax, number, model, rows["n_sampled"], rows["estimate"], yerr=reach(rows), linestyle="-")
        ax.axhline(float(rows["exact"].iloc[0]), color=COLOURS[number % 8], linestyle="--", linewidth=0.9)
    ax.set_xscale("log")
    ax.set_xlabel("sampled candidates m (dashed: full ranking)")
    ax.set_ylabel(str(part["metric"].iloc[0]), parse_math=False)
    add_legend(ax)
    return ax


def plot_rank_curves(frame: pd.DataFrame, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with a metric against the exact rank of one relevant item; dashed: sampled candidates.

    Parameters
    ----------
    frame : DataFrame
        metric, n_sampled (0: all candidates), rank, value: `sampled_metrics.rank_curves`.
    metric : str, optional
        Which, where the frame holds several.
    """
    part = only(table(frame, "frame", "metric", "n_sampled", "rank", "value"), "metric", metric)
    ax = axes_or_new(ax)
    for number, (m, rows) in enumerate(part.groupby("n_sampled", sort=True)):
        label = "all candidates" if m == 0 else f"{m:,} sampled, expected"
        style = "-" if m == 0 else "--"
        ax.plot(rows["rank"], rows["value"], style, color=COLOURS[number % 8], label=label, linewidth=1.3)
    ax.set_xscale("log")
    ax.set_xlabel("exact rank of the relevant item")
    ax.set_ylabel(str(part["metric"].iloc[0]), parse_math=False)
    add_legend(ax)
    return ax
