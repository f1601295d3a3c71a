"""What the plots share: colours, marks, axes, checks of frames."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipseval.errors import InputError
from ipseval.utils.checks import format_examples

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
SCREEN_DPI = 96
LONGEST_NAME = 36
UNRELIABLE = "unreliable"  # behind the name of a series in a legend
AGREEMENT_WORDS = {"src": "Spearman correlation", "tau_b": "Kendall τ_b", "ipc": "inverted pairs"}
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


class NotebookAxes(Axes):
    """Axes that a notebook shows as a picture of their figure when they are the value of a cell."""

    def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
        """Return the figure at twice the resolution of the screen, and the size at which to show it."""
        figure: Any = self.figure
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=2 * SCREEN_DPI, metadata={"Software": None})
        width, height = figure.get_size_inches() * SCREEN_DPI
        return buffer.getvalue(), {"width": float(width), "height": float(height)}


def plain(name: Any) -> str:
    """Return a name to show: a long one without its middle, as it would leave no room for what is drawn."""
    text = "\n".join(_shorten(line) for line in str(name).split("\n"))
    # matplotlib hides labels that begin with an underscore.
    return f" {text}" if text.startswith("_") else text


def _shorten(line: str) -> str:
    if len(line) <= LONGEST_NAME:
        return line
    return f"{line[: LONGEST_NAME - 13]}…{line[-12:]}"


def series_name(label: str) -> str:
    """Return the name of a series; a long one has its assumption, in parentheses, on a second line."""
    return label if len(label) <= LONGEST_NAME else label.replace(" (", "\n(", 1)


def add_legend(ax: Axes, **options: Any) -> None:
    # Names are shown as they are: a "$" in one of them begins no formula.
    for text in ax.legend(frameon=False, **options).get_texts():
        text.set_parse_math(False)


def limits(values: Any) -> tuple[float, float]:
    """Return limits with a margin; from 0 where the values are close to it in relation to their spread."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return (0.0 if 0 <= low < high - low else low - margin), high + margin


def square(frame: pd.DataFrame, value: str) -> tuple[list[str], Any]:
    """Return the names and the symmetric matrix of a square or tidy frame."""
    if len(frame) and list(frame.index) == list(frame.columns):
        return list(frame.columns), frame.to_numpy(dtype=np.float64)
    table(frame, "frame", "a", "b", value)
    names = distinct([*frame["a"], *frame["b"]])
    matrix = np.full((len(names), len(names)), np.nan)
    for a, b, agreement in zip(frame["a"], frame["b"], frame[value], strict=True):
        matrix[names.index(a), names.index(b)] = matrix[names.index(b), names.index(a)] = agreement
    return names, matrix


def tipping_gammas(frame: pd.DataFrame | None, metric: str, estimator: str) -> list[float]:
    """Return the γ at which recommenders swap, for one metric and estimator."""
    if frame is None or frame.empty:
        return []
    table(frame, "frame", "metric", "estimator", "tipping_points")
    rows = frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]
    return sorted(float(gamma) for points in rows["tipping_points"] for gamma in points)


def axes_or_new(ax: Axes | None, *, width: float = 5.6, height: float = 3.6) -> Axes:
    # A figure of our own, not pyplot's: nothing global changes, and no figure stays behind in memory.
    if ax is not None:
        if not isinstance(ax, Axes):
            raise InputError(f"ax must be matplotlib axes or None; got {type(ax).__name__}.")
        return ax
    ax = Figure(figsize=(width, height), layout="constrained").add_subplot(axes_class=NotebookAxes)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def table(source: Any, attribute: str, *columns: str) -> pd.DataFrame:
    """Return the frame that is drawn: `source` itself, or what it has as `attribute`, with these columns."""
    frame = source if isinstance(source, pd.DataFrame) else getattr(source, attribute, None)
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"expected a DataFrame with columns {', '.join(columns)}, or a result that has it as "
            f".{attribute}; got {type(source).__name__}."
        )
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise InputError(
            f"the frame lacks column {missing[0]!r}; it has {format_examples(frame.columns, 15)}. "
            f"Expected {', '.join(columns)}."
        )
    if frame.empty:
        raise InputError("the frame has no rows; there is nothing to draw.")
    return frame


def only(frame: pd.DataFrame, column: str, value: str | None) -> pd.DataFrame:
    present = distinct(frame[column])
    if value is None and len(present) > 1:
        raise InputError(f"the frame holds several {column}s; choose one of {', '.join(present)}.")
    if value is not None and value not in present:
        raise InputError(f"the frame has no {column} {value!r}; it has {', '.join(present)}.")
    return frame if value is None else frame[frame[column] == value]


def distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(values))


def reach(rows: pd.DataFrame) -> Any:
    low, high = rows["estimate"] - rows["ci_low"], rows["ci_high"] - rows["estimate"]
    # A missing interval is drawn as none; rounding may push a bound past the centre by one ulp.
    return np.maximum(np.nan_to_num([low.to_numpy(), high.to_numpy()]), 0.0)


def marks(ax: Axes, number: int, label: Any, x: Any, y: Any, **options: Any) -> None:
    """Draw the marks of one series, with their intervals where `xerr` or `yerr` is given."""
    given: dict[str, Any] = {"linestyle": "none", "markersize": 5} | options
    draw: Any = ax.plot
    if given.keys() & {"xerr", "yerr"}:
        given, draw = {"capsize": 2} | given, ax.errorbar
    draw(x, y, marker=MARKS[number % 8], color=COLOURS[number % 8], label=plain(label), **given)


def is_flagged(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows a column `flag` calls unreliable; none where there is no such column."""
    if "flag" not in rows:
        return pd.Series(False, index=rows.index)
    return rows["flag"].fillna("") != ""


def curves(
    frame: pd.DataFrame, by: str, x: str, *, ax: Axes | None, xlabel: str, ylabel: str, width: float = 5.6
) -> Axes:
    """Return axes with a line over x for each value of a column, and intervals where the frame has them."""
    ax = axes_or_new(ax, width=width)
    for number, name in enumerate(distinct(frame[by])):
        rows = frame[frame[by] == name].sort_values(x)
        error = {"yerr": reach(rows)} if "ci_low" in rows else {}
        marks(ax, number, name, rows[x], rows["estimate"], linestyle=LINES[number % 8], **error)
    ax.set_xlabel(xlabel, parse_math=False)
    ax.set_ylabel(ylabel, parse_math=False)
    add_legend(ax)
    return ax


def forest(
    frame: pd.DataFrame, row: str, series: str, xlabel: str, *, ax: Axes | None, width: float = 6.4
) -> Axes:
    """Return axes with a row per value of one column, and in it a mark with interval per value of another."""
    rows, labels = distinct(frame[row]), distinct(frame[series])
    ax = axes_or_new(ax, width=width, height=0.9 + 0.19 * len(rows) * (len(labels) + 0.8))
    for number, label in enumerate(labels):
        shift = 0.7 * ((number + 0.5) / len(labels) - 0.5)
        part = frame[frame[series] == label]
        flagged = is_flagged(part)
        reliable = part[~flagged]
        unreliable = part[flagged]
        if len(reliable):
            heights = [rows.index(name) + shift for name in reliable[row]]
            marks(ax, number, series_name(label), reliable["estimate"], heights, xerr=reach(reliable))
        if len(unreliable):
            # Hollow and without an error bar, which would look precise.
            heights = [rows.index(name) + shift for name in unreliable[row]]
            name = f"{series_name(label)},\n{UNRELIABLE}"
            marks(ax, number, name, unreliable["estimate"], heights, xerr=None, markerfacecolor="none")
    ax.set_yticks(range(len(rows)), [plain(one) for one in rows], parse_math=False)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    for place in range(1, len(rows)):
        ax.axhline(place - 0.5, color="0.85", linewidth=0.8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(xlabel, parse_math=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    add_legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax
