"""Plots of tidy frames: they compute nothing, draw intervals always, and stay readable in grey.

Every function takes a frame and optional axes, and returns the axes. A notebook shows returned axes as a
picture; `axes.figure.savefig(path)` writes one. Colours are those of Okabe and Ito, which colour-blind
readers can tell apart; marks and line styles repeat what colours say.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipseval._checks import examples
from ipseval.errors import InputError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
SCREEN_DPI = 96
LONGEST_NAME = 36
AGREEMENT_WORDS = {"src": "Spearman correlation", "tau_b": "Kendall τ_b", "ipc": "inverted pairs"}
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


def plot_estimates(frame: pd.DataFrame, *, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Return axes with the estimate and interval of every recommender, one mark per estimator.

    Parameters
    ----------
    frame : DataFrame
        `Evaluation.frame`: model, metric, estimator, estimate, ci_low, ci_high.
    metric : str, optional
        Which metric; needed when the frame holds several.
    """
    _need(frame, "model", "metric", "estimator", "estimate", "ci_low", "ci_high")
    part = _one(frame, "metric", metric)
    models, estimators = _distinct(part["model"]), _distinct(part["estimator"])
    ax = _axes(ax, width=6.4, height=0.9 + 0.19 * len(models) * (len(estimators) + 0.8))
    for number, estimator in enumerate(estimators):
        rows = part[part["estimator"] == estimator]
        place = [models.index(model) for model in rows["model"]] + _shift(number, len(estimators))
        ax.errorbar(
            rows["estimate"],
            place,
            xerr=_reach(rows, "estimate"),
            fmt=MARKS[number % 8],
            color=COLOURS[number % 8],
            capsize=2,
            markersize=5,
            label=_plain(estimator),
        )
    ax.set_yticks(range(len(models)), [_plain(model) for model in models], parse_math=False)
    ax.set_ylim(len(models) - 0.5, -0.5)
    for place in range(1, len(models)):
        ax.axhline(place - 0.5, color="0.85", linewidth=0.8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"{part['metric'].iloc[0]}, with its interval", parse_math=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    _legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def plot_sensitivity(
    frame: pd.DataFrame,
    *,
    metric: str | None = None,
    estimator: str | None = None,
    tipping: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return axes with the estimate of every recommender over γ, from AOA (γ = −1) on.

    Parameters
    ----------
    frame : DataFrame
        `Evaluation.sensitivity(…)`: model, metric, estimator, gamma, estimate, ci_low, ci_high.
    metric, estimator : str, optional
        Which; needed when the frame holds several.
    tipping : DataFrame, optional
        `Evaluation.tipping_points()`: metric, estimator, tipping_points, the γ at which two recommenders
        change places; those of this metric and estimator are drawn as vertical lines.
    """
    _need(frame, "model", "metric", "estimator", "gamma", "estimate", "ci_low", "ci_high")
    part = _one(_one(frame, "metric", metric), "estimator", estimator)
    places = _tipping(tipping, part["metric"].iloc[0], part["estimator"].iloc[0])
    ax = _axes(ax)
    for number, model in enumerate(_distinct(part["model"])):
        rows = part[part["model"] == model].sort_values("gamma")
        colour = COLOURS[number % 8]
        ax.plot(
            rows["gamma"], rows["estimate"], color=colour, linestyle=LINES[number % 8], label=_plain(model)
        )
        ax.fill_between(rows["gamma"], rows["ci_low"], rows["ci_high"], color=colour, alpha=0.15, linewidth=0)
    for number, gamma in enumerate(places):
        label = "two swap places" if number == 0 else None
        ax.axvline(gamma, color="0.55", linewidth=0.8, linestyle=(0, (1, 3)), zorder=0, label=label)
    ax.set_xlabel(r"$\gamma$ of $P \propto (n^*)^{(\gamma + 1)/2}$   (−1: the plain average)")
    ax.set_ylabel(f"{part['metric'].iloc[0]} by {part['estimator'].iloc[0]}", parse_math=False)
    ax.margins(x=0.02)
    _legend(ax)
    return ax


def plot_popularity(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return log–log axes with the number of items of at least each popularity, and a fitted power law.

    Parameters
    ----------
    frame : DataFrame
        `popularity_levels(…)`: popularity, n_at_least, and optionally fitted (NaN below the fitted range).
    """
    _need(frame, "popularity", "n_at_least")
    rows = frame[frame["popularity"] > 0].sort_values("popularity")
    ax = _axes(ax)
    ax.loglog(rows["popularity"], rows["n_at_least"], "o", color=COLOURS[0], markersize=4, label="items")
    if "fitted" in rows:
        fitted = rows.dropna(subset="fitted")
        ax.loglog(fitted["popularity"], fitted["fitted"], "-", color=COLOURS[1], label="power law")
        _legend(ax, loc="lower left")
    ax.set_xlabel("observed popularity n*")
    ax.set_ylabel("items with at least n*")
    return ax


def plot_frequency(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return log–log axes with how often items are recommended against their popularity, and the γ fit.

    Parameters
    ----------
    frame : DataFrame
        popularity, frequency (mean number of lists per item of that popularity; levels with 0 cannot be drawn
        on a log axis and are counted in the label), and optionally fitted.
    """
    _need(frame, "popularity", "frequency")
    rows = frame[frame["popularity"] > 0].sort_values("popularity")
    shown = rows[rows["frequency"] > 0]
    n_zero = len(rows) - len(shown)
    ax = _axes(ax)
    label = "mean per level of n*" + (f"; {n_zero} at 0 not shown" if n_zero else "")
    ax.loglog(shown["popularity"], shown["frequency"], "o", color=COLOURS[0], markersize=4, label=label)
    if "fitted" in rows:
        ax.loglog(rows["popularity"], rows["fitted"], "-", color=COLOURS[1], label="fit, slope γ")
    ax.set_xlabel("observed popularity n*")
    ax.set_ylabel("lists with the item")
    _legend(ax, loc="upper left")
    return ax


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
    _need(frame, "metric", "estimator", "truth", "estimate", "ci_low", "ci_high")
    part = _one(frame, "metric", metric)
    chosen = list(estimators) if estimators is not None else _distinct(part["estimator"])
    part = part[part["estimator"].isin(chosen)]
    ax = _axes(ax, width=4.2, height=3.8)
    low, high = _range(part[["truth", "estimate", "ci_low", "ci_high"]].to_numpy())
    ax.plot([low, high], [low, high], color="0.6", linewidth=1, zorder=0, label="estimate = truth")
    for number, estimator in enumerate(chosen):
        rows = part[part["estimator"] == estimator]
        ax.errorbar(
            rows["truth"],
            rows["estimate"],
            yerr=_reach(rows, "estimate"),
            fmt=MARKS[number % 8],
            color=COLOURS[number % 8],
            capsize=2,
            label=_plain(estimator),
        )
    ax.set(xlim=_range(part["truth"].to_numpy()), ylim=(low, high))
    ax.set_title(str(part["metric"].iloc[0]), parse_math=False)
    ax.set_xlabel("truth")
    ax.set_ylabel("estimate with its interval")
    _legend(ax)
    return ax


def plot_weights(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with the effective sample size of each estimator's weights beside the positives it used.

    Parameters
    ----------
    frame : DataFrame
        estimator, ess, n_positives, max_weight_share; `Evaluation.diagnostics`.
    """
    _need(frame, "estimator", "ess", "n_positives", "max_weight_share")
    rows = frame.drop_duplicates("estimator")
    place = np.arange(len(rows))
    ax = _axes(ax, width=6.4, height=1.1 + 0.4 * len(rows))
    ax.barh(place, rows["n_positives"], color="0.88", label="positives")
    ax.barh(place, rows["ess"], height=0.5, color=COLOURS[0], label="effective sample size")
    for y, share in zip(place, rows["max_weight_share"], strict=True):
        ax.annotate(
            f"largest share {100 * share:.2g} %",
            (1.01, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize="small",
        )
    ax.set_yticks(place, [_plain(label) for label in rows["estimator"]], parse_math=False)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel("number of positives")
    _legend(ax, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return ax


def plot_agreement(frame: pd.DataFrame, *, value: str = "src", ax: Axes | None = None) -> Axes:
    """Return axes with a heat map of order agreement between protocols or domains.

    Parameters
    ----------
    frame : DataFrame
        Square, with the same names as index and columns: `ProtocolStudy.matrix(…)`. Or tidy: columns a, b and
        the agreement named by `value`. Pairs that are absent stay empty.
    value : str
        Which agreement: the column of a tidy frame, and what the colours are called.
    """
    names, matrix = _square(frame, value)
    names = [_plain(name) for name in names]
    # Names stand to the left and, at an angle, below.
    cells, words = 0.55 * len(names), 0.08 * max(map(len, names))
    ax = _axes(ax, width=cells + words + 1.8, height=cells + 0.75 * words + 0.7)
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
    _need(frame, "model", "metric", "n_sampled", "estimate", "ci_low", "ci_high", "exact")
    part = _one(frame, "metric", metric)
    ax = _axes(ax)
    for number, model in enumerate(_distinct(part["model"])):
        rows = part[part["model"] == model].sort_values("n_sampled")
        colour = COLOURS[number % 8]
        ax.errorbar(
            rows["n_sampled"],
            rows["estimate"],
            yerr=_reach(rows, "estimate"),
            marker=MARKS[number % 8],
            color=colour,
            capsize=2,
            markersize=4,
            label=_plain(model),
        )
        ax.axhline(float(rows["exact"].iloc[0]), color=colour, linestyle="--", linewidth=0.9)
    ax.set_xscale("log")
    ax.set_xlabel("sampled candidates m (dashed: full ranking)")
    ax.set_ylabel(str(part["metric"].iloc[0]), parse_math=False)
    _legend(ax)
    return ax


def plot_validation(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Return axes with the reduction of error by each propensity and estimator, one mark per metric.

    Parameters
    ----------
    frame : DataFrame
        `Validation.summary()`, or rows of it: propensity, estimator, metric, reduction, reduction_low,
        reduction_high.
    """
    _need(frame, "propensity", "estimator", "metric", "reduction", "reduction_low", "reduction_high")
    labels = [f"{one}, {other}" for one, other in zip(frame["propensity"], frame["estimator"], strict=True)]
    names, metrics = _distinct(labels), _distinct(frame["metric"])
    ax = _axes(ax, width=8, height=1.5 + 0.3 * len(names))
    for number, metric in enumerate(metrics):
        rows = frame[(frame["metric"] == metric).to_numpy()].rename(
            columns={"reduction_low": "ci_low", "reduction_high": "ci_high"}
        )
        place = [names.index(label) for label in np.array(labels)[(frame["metric"] == metric).to_numpy()]]
        ax.errorbar(
            100 * rows["reduction"],
            place + _shift(number, len(metrics)),
            xerr=100 * _reach(rows, "reduction"),
            fmt=MARKS[number % 8],
            color=COLOURS[number % 8],
            markersize=4,
            linewidth=1,
            label=_plain(metric),
        )
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.set_yticks(range(len(names)), names, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("reduction of the plain average's error, % (right of 0: closer to random exposure)")
    _legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


class _NotebookAxes(Axes):
    """Axes that a notebook shows as a picture of their figure when they are the value of a cell."""

    def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
        """Return the figure at twice the resolution of the screen, and the size at which to show it."""
        figure: Any = self.figure
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=2 * SCREEN_DPI, metadata={"Software": None})
        width, height = figure.get_size_inches() * SCREEN_DPI
        return buffer.getvalue(), {"width": float(width), "height": float(height)}


def _plain(name: Any) -> str:
    """Return a name to show: a long one without its middle, as it would leave no room for what is drawn."""
    text = str(name)
    if len(text) > LONGEST_NAME:
        text = f"{text[: LONGEST_NAME - 13]}…{text[-12:]}"
    # matplotlib hides labels that begin with an underscore.
    return f" {text}" if text.startswith("_") else text


def _legend(ax: Axes, **options: Any) -> None:
    # Names are shown as they are: a "$" in one of them begins no formula.
    for text in ax.legend(frameon=False, **options).get_texts():
        text.set_parse_math(False)


def _range(values: Any) -> tuple[float, float]:
    """Return limits with a margin; from 0 where the values are close to it in relation to their spread."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return (0.0 if 0 <= low < high - low else low - margin), high + margin


def _square(frame: pd.DataFrame, value: str) -> tuple[list[str], Any]:
    """Return the names and the symmetric matrix of a square or tidy frame."""
    if len(frame) and list(frame.index) == list(frame.columns):
        return list(frame.columns), frame.to_numpy(dtype=np.float64)
    _need(frame, "a", "b", value)
    names = _distinct([*frame["a"], *frame["b"]])
    matrix = np.full((len(names), len(names)), np.nan)
    for a, b, agreement in zip(frame["a"], frame["b"], frame[value], strict=True):
        matrix[names.index(a), names.index(b)] = matrix[names.index(b), names.index(a)] = agreement
    return names, matrix


def _tipping(frame: pd.DataFrame | None, metric: str, estimator: str) -> list[float]:
    """Return the γ at which recommenders swap, for one metric and estimator."""
    if frame is None or frame.empty:
        return []
    _need(frame, "metric", "estimator", "tipping_points")
    rows = frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]
    return sorted(float(gamma) for points in rows["tipping_points"] for gamma in points)


def _axes(ax: Axes | None, *, width: float = 5.6, height: float = 3.6) -> Axes:
    # A figure of our own, not pyplot's: nothing global changes, and no figure stays behind in memory.
    if ax is not None:
        return ax
    ax = Figure(figsize=(width, height), layout="constrained").add_subplot(axes_class=_NotebookAxes)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _need(frame: pd.DataFrame, *columns: str) -> None:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InputError(
            f"the frame lacks column {missing[0]!r}; it has {examples(frame.columns, 15)}. "
            f"Expected {', '.join(columns)}."
        )
    if frame.empty:
        raise InputError("the frame has no rows; there is nothing to draw.")


def _one(frame: pd.DataFrame, column: str, value: str | None) -> pd.DataFrame:
    present = _distinct(frame[column])
    if value is None and len(present) > 1:
        raise InputError(f"the frame holds several {column}s; choose one of {', '.join(present)}.")
    if value is not None and value not in present:
        raise InputError(f"the frame has no {column} {value!r}; it has {', '.join(present)}.")
    return frame if value is None else frame[frame[column] == value]


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(values))


def _shift(number: int, total: int) -> Any:
    return np.asarray(0.7 * ((number + 0.5) / total - 0.5))


def _reach(rows: pd.DataFrame, centre: str) -> Any:
    low, high = rows[centre] - rows["ci_low"], rows["ci_high"] - rows[centre]
    # A missing interval is drawn as none; rounding may push a bound past the centre by one ulp.
    return np.maximum(np.nan_to_num([low.to_numpy(), high.to_numpy()]), 0.0)
