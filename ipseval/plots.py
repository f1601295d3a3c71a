"""Plots of tidy frames: they compute nothing, draw intervals always, and stay readable in grey.

Every function takes a frame and optional axes, and returns the axes. Colours are those of Okabe and Ito,
which colour-blind readers can tell apart; marks and line styles repeat what colours say.
"""

from __future__ import annotations

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
    ax = _axes(ax, width=6.4, height=1.2 + 0.22 * len(models) * len(estimators) + 0.25 * len(models))
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
            label=estimator,
        )
    ax.set_yticks(range(len(models)), models)
    ax.set_ylim(len(models) - 0.5, -0.5)
    ax.set_xlabel(f"{part['metric'].iloc[0]}, with its interval")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
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
        Column gamma: where two recommenders change places; drawn as vertical lines.
    """
    _need(frame, "model", "metric", "estimator", "gamma", "estimate", "ci_low", "ci_high")
    part = _one(_one(frame, "metric", metric), "estimator", estimator)
    ax = _axes(ax)
    for number, model in enumerate(_distinct(part["model"])):
        rows = part[part["model"] == model].sort_values("gamma")
        colour = COLOURS[number % 8]
        ax.plot(rows["gamma"], rows["estimate"], color=colour, linestyle=LINES[number % 8], label=model)
        ax.fill_between(rows["gamma"], rows["ci_low"], rows["ci_high"], color=colour, alpha=0.15, linewidth=0)
    for gamma in [] if tipping is None else tipping["gamma"].dropna():
        ax.axvline(gamma, color="0.55", linewidth=0.8, linestyle=":")
    ax.set_xlabel("γ  (−1: plain average, 0: √popularity, 1: inverse popularity)")
    ax.set_ylabel(f"{part['metric'].iloc[0]} by {part['estimator'].iloc[0]}")
    ax.margins(x=0.02)
    ax.legend(frameon=False)
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
        ax.legend(frameon=False)
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
    label = "mean per level" + (f" ({n_zero} levels at 0 not shown)" if n_zero else "")
    ax.loglog(shown["popularity"], shown["frequency"], "o", color=COLOURS[0], markersize=4, label=label)
    if "fitted" in rows:
        ax.loglog(rows["popularity"], rows["fitted"], "-", color=COLOURS[1], label="fit, slope γ")
    ax.set_xlabel("observed popularity n*")
    ax.set_ylabel("recommendations per item")
    ax.legend(frameon=False)
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
    high = 1.06 * float(np.nanmax(part[["truth", "ci_high"]].to_numpy()))
    ax.plot([0, high], [0, high], color="0.6", linewidth=1, zorder=0)
    for number, estimator in enumerate(chosen):
        rows = part[part["estimator"] == estimator]
        ax.errorbar(
            rows["truth"],
            rows["estimate"],
            yerr=_reach(rows, "estimate"),
            fmt=MARKS[number % 8],
            color=COLOURS[number % 8],
            capsize=2,
            label=estimator,
        )
    ax.set(xlim=(0, 1.25 * float(part["truth"].max())), ylim=(min(0, float(part["ci_low"].min())), high))
    ax.set_title(str(part["metric"].iloc[0]))
    ax.set_xlabel("truth")
    ax.set_ylabel("estimate with its interval")
    ax.legend(frameon=False)
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
            f"largest share {share:.2%}",
            (float(rows["n_positives"].max()), y),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    ax.set_yticks(place, rows["estimator"])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.32 * float(rows["n_positives"].max()))
    ax.set_xlabel("number of positives")
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.55 / (1 + 0.3 * len(rows))), ncols=2)
    return ax


def plot_agreement(frame: pd.DataFrame, *, value: str = "src", ax: Axes | None = None) -> Axes:
    """Return axes with a heat map of order agreement between protocols or domains.

    Parameters
    ----------
    frame : DataFrame
        Columns a, b and the agreement named by `value`; pairs that are absent stay empty.
    """
    _need(frame, "a", "b", value)
    names = _distinct([*frame["a"], *frame["b"]])
    matrix = np.full((len(names), len(names)), np.nan)
    for a, b, agreement in zip(frame["a"], frame["b"], frame[value], strict=True):
        matrix[names.index(a), names.index(b)] = matrix[names.index(b), names.index(a)] = agreement
    side = 1.6 + 0.55 * len(names)
    ax = _axes(ax, width=side + 1.2, height=side)
    shown = ax.imshow(matrix, cmap=mpl.colormaps["cividis"], vmin=min(0.0, np.nanmin(matrix)), vmax=1)
    for row, column in np.argwhere(~np.isnan(matrix)):
        dark = matrix[row, column] < 0.55
        ax.text(
            column,
            row,
            f"{matrix[row, column]:.2f}",
            ha="center",
            va="center",
            color="white" if dark else "black",
            fontsize="small",
        )
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.figure.colorbar(shown, ax=ax, label=value, shrink=0.8)
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
            label=model,
        )
        ax.axhline(float(rows["exact"].iloc[0]), color=colour, linestyle="--", linewidth=0.9)
    ax.set_xscale("log")
    ax.set_xlabel("sampled candidates m (dashed: full ranking)")
    ax.set_ylabel(str(part["metric"].iloc[0]))
    ax.legend(frameon=False)
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
            label=metric,
        )
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("reduction of the plain average's error, % (right of 0: closer to random exposure)")
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def _axes(ax: Axes | None, *, width: float = 5.6, height: float = 3.6) -> Axes:
    # A figure of our own, not pyplot's: nothing global changes, and a notebook still shows it.
    return Figure(figsize=(width, height), layout="constrained").add_subplot() if ax is None else ax


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
