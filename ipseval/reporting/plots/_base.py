"""Shared parts of the plots: colours, markers, axes, and checks of the data."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ipseval.errors import InputError
from ipseval.utils.checks import format_examples

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
N_STYLES = len(COLOURS)
SCREEN_DPI = 96
MAX_NAME_LENGTH = 36
N_LAST_CHARACTERS = 12  # of the end of a name that is too long
UNRELIABLE = "unreliable"  # appended to the name of a series in a legend
# Variable of groups by a count -> its label.
COUNT_LABELS = {
    "n*": "training interactions of the item",
    "interactions": "training interactions of the user",
}
AGREEMENT_LABELS = {"src": "Spearman correlation", "tau_b": "Kendall τ_b", "ipc": "inverted pairs"}


class NotebookAxes(Axes):
    """Axes that a notebook shows as a picture of their figure when they are the value of a cell."""

    def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
        """Return the figure at twice the resolution of the screen, and the size at which to show it."""
        figure: Any = self.figure
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=2 * SCREEN_DPI, metadata={"Software": None})
        width, height = figure.get_size_inches() * SCREEN_DPI
        return buffer.getvalue(), {"width": float(width), "height": float(height)}

    def __getattr__(self, name: str) -> Any:
        """Raise `AttributeError`, which says for a file how to write it."""
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in ("save", "savefig", "write_image"):
            text = f"{text}. Use .figure.savefig(path)"
        raise AttributeError(text, name=name, obj=self)


def format_name(name: object) -> str:
    """Return the text that shows a name; every long line of it loses its middle to leave space for the plot."""
    lines = [_shorten_line(line) for line in str(name).split("\n")]
    text = "\n".join(lines)
    if text.startswith("_"):
        return f" {text}"  # matplotlib hides labels that begin with an underscore
    return text


def _shorten_line(line: str) -> str:
    """Return the line, or its beginning and end if it is longer than a name may be."""
    if len(line) <= MAX_NAME_LENGTH:
        return line
    beginning = line[: MAX_NAME_LENGTH - N_LAST_CHARACTERS - 1]
    end = line[-N_LAST_CHARACTERS:]
    return f"{beginning}…{end}"


def wrap_series_name(label: str) -> str:
    """Return the name of a series; a long one has its assumption, in parentheses, on a second line."""
    if len(label) <= MAX_NAME_LENGTH:
        return label
    return label.replace(" (", "\n(", 1)


def add_legend(ax: Axes, **options: Any) -> None:
    """Add a legend without a frame, with the options of `Axes.legend`."""
    legend = ax.legend(frameon=False, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a "$" in a name begins no formula


def compute_limits(values: npt.NDArray[np.float64] | Sequence[float]) -> tuple[float, float]:
    """Return limits with a margin; they start at 0 if the values are closer to 0 than they are spread."""
    lowest = float(np.nanmin(values))
    highest = float(np.nanmax(values))
    spread = highest - lowest

    margin = 0.08 * spread
    if margin == 0:
        margin = 0.1 * abs(highest)
    if margin == 0:
        margin = 1.0

    if 0 <= lowest < spread:
        return 0.0, highest + margin
    return lowest - margin, highest + margin


def read_square_matrix(frame: pd.DataFrame, value: str) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return the names and the symmetric matrix of a square frame, or of a frame with a pair in each row."""
    if len(frame) and list(frame.index) == list(frame.columns):
        return list(frame.columns), frame.to_numpy(dtype=np.float64)

    get_frame(frame, "frame", ["a", "b", value])
    names = list_distinct([*frame["a"], *frame["b"]])
    matrix = np.full((len(names), len(names)), np.nan)
    for first_name, second_name, agreement in zip(frame["a"], frame["b"], frame[value], strict=True):
        row = names.index(first_name)
        column = names.index(second_name)
        matrix[row, column] = agreement
        matrix[column, row] = agreement
    return names, matrix


def select_tipping_gammas(frame: pd.DataFrame | None, metric: str, estimator: str) -> list[float]:
    """Return the ascending γ at which two recommenders swap ranks, for a metric and an estimator."""
    if frame is None or frame.empty:
        return []
    get_frame(frame, "frame", ["metric", "estimator", "tipping_points"])
    rows = frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]
    gammas: list[float] = []
    for tipping_points in rows["tipping_points"]:
        gammas.extend(map(float, tipping_points))
    return sorted(gammas)


def prepare_axes(ax: Axes | None, *, width: float = 5.6, height: float = 3.6) -> Axes:
    """Return the given axes, or the axes of a new figure with this size in inches."""
    if ax is not None:
        if not isinstance(ax, Axes):
            raise InputError(f"ax must be matplotlib axes or None; got {type(ax).__name__}.")
        return ax
    # The figure is not made by pyplot, which would keep it in memory and change global state.
    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.add_subplot(axes_class=NotebookAxes)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def get_frame(source: object, attribute: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the frame to draw, which is `source` or its attribute; raise if it lacks columns or rows."""
    frame = source
    if not isinstance(source, pd.DataFrame):
        frame = getattr(source, attribute, None)
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"expected a DataFrame with columns {', '.join(columns)}, or a result that has it as "
            f".{attribute}; got {type(source).__name__}."
        )
    missing_columns = [column for column in columns if column not in frame.columns]
    if missing_columns:
        raise InputError(
            f"the frame lacks column {missing_columns[0]!r}; it has {format_examples(frame.columns, 15)}. "
            f"Expected {', '.join(columns)}."
        )
    if frame.empty:
        raise InputError("the frame has no rows; there is nothing to draw.")
    return frame


def select_rows(frame: pd.DataFrame, column: str, value: str | None) -> pd.DataFrame:
    """Return the rows with this value of a column; None is enough if the column has one value only."""
    distinct_values = list_distinct(frame[column])
    if value is None:
        if len(distinct_values) > 1:
            raise InputError(
                f"the frame holds several {column}s; choose one of {', '.join(distinct_values)}."
            )
        return frame
    if value not in distinct_values:
        raise InputError(f"the frame has no {column} {value!r}; it has {', '.join(distinct_values)}.")
    return frame[frame[column] == value]


def list_distinct(values: Iterable[str]) -> list[str]:
    """Return the distinct values in the order of their first occurrence."""
    return list(dict.fromkeys(values))


def compute_error_bars(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the lengths of the error bars below and above the estimates, shape (2, n_rows)."""
    below = (rows["estimate"] - rows["ci_low"]).to_numpy()
    above = (rows["ci_high"] - rows["estimate"]).to_numpy()
    # A missing interval gets no bar; rounding may move a bound past the estimate by one unit in the last place.
    lengths: npt.NDArray[np.float64] = np.maximum(np.nan_to_num([below, above]), 0.0)
    return lengths


def draw_markers(
    ax: Axes, number: int, label: object, x: npt.ArrayLike, y: npt.ArrayLike, **options: Any
) -> None:
    """Draw the markers of a series, with their intervals if `xerr` or `yerr` is among the options."""
    style: dict[str, Any] = {"linestyle": "none", "markersize": 5}
    style |= options
    style["marker"] = MARKS[number % N_STYLES]
    style["color"] = COLOURS[number % N_STYLES]
    style["label"] = format_name(label)
    if "xerr" in options or "yerr" in options:
        style.setdefault("capsize", 2)
        ax.errorbar(x, y, **style)
    else:
        ax.plot(x, y, **style)


def is_flagged(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return a mask of the rows that column `flag` marks as unreliable; without this column none is."""
    if "flag" not in rows:
        return pd.Series(False, index=rows.index)
    return rows["flag"].fillna("") != ""


def draw_curves(
    frame: pd.DataFrame, series: str, x: str, *, ax: Axes | None, xlabel: str, ylabel: str, width: float = 5.6
) -> Axes:
    """Return axes with a line over x for each value of a column, and intervals if the frame has them."""
    ax = prepare_axes(ax, width=width)
    for number, name in enumerate(list_distinct(frame[series])):
        rows = frame[frame[series] == name].sort_values(x)
        options: dict[str, Any] = {"linestyle": LINES[number % N_STYLES]}
        if "ci_low" in rows:
            options["yerr"] = compute_error_bars(rows)
        draw_markers(ax, number, name, rows[x], rows["estimate"], **options)
    ax.set_xlabel(xlabel, parse_math=False)
    ax.set_ylabel(ylabel, parse_math=False)
    add_legend(ax)
    return ax


def draw_forest(
    frame: pd.DataFrame, row: str, series: str, xlabel: str, *, ax: Axes | None, width: float = 6.4
) -> Axes:
    """Return axes with a row for each value of column `row`, and in it an interval for each of `series`."""
    row_names = list_distinct(frame[row])
    labels = list_distinct(frame[series])
    n_rows = len(row_names)
    ax = prepare_axes(ax, width=width, height=0.9 + 0.19 * n_rows * (len(labels) + 0.8))
    for number, label in enumerate(labels):
        series_rows = frame[frame[series] == label]
        shift = 0.7 * ((number + 0.5) / len(labels) - 0.5)
        heights = series_rows[row].map(row_names.index) + shift
        _draw_forest_series(ax, number, wrap_series_name(label), series_rows, heights)

    ax.set_yticks(range(n_rows), [format_name(name) for name in row_names], parse_math=False)
    ax.set_ylim(n_rows - 0.5, -0.5)
    for row_number in range(1, n_rows):
        ax.axhline(row_number - 0.5, color="0.85", linewidth=0.8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(xlabel, parse_math=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    add_legend(ax, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return ax


def _draw_forest_series(
    ax: Axes, number: int, name: str, rows: pd.DataFrame, heights: pd.Series[float]
) -> None:
    """Draw the estimates of a series at these heights; unreliable ones are hollow and have no interval."""
    flagged = is_flagged(rows)
    reliable = rows[~flagged]
    unreliable = rows[flagged]
    if len(reliable):
        error_bars = compute_error_bars(reliable)
        draw_markers(ax, number, name, reliable["estimate"], heights[~flagged], xerr=error_bars)
    if len(unreliable):
        # An error bar would make the estimate look precise.
        draw_markers(
            ax,
            number,
            f"{name},\n{UNRELIABLE}",
            x=unreliable["estimate"],
            y=heights[flagged],
            xerr=None,
            markerfacecolor="none",
        )
