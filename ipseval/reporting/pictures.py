"""Pictures: curves over a common axis, and estimates against known true values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from ipseval.reporting.drawing import (
    N_STYLES,
    Axis,
    draw_mark,
    draw_series,
    draw_text,
    escape_svg,
    format_tick,
)
from ipseval.reporting.tables import Picture

# Pixels of a picture of curves.
_CURVES_HEIGHT = 240
_CURVES_FOOTER = 46

# Pixels of a picture of estimates.
_PANEL_SIZE = 250
_PANEL_GAP = 70
_LEFT_MARGIN = 56
_TOP_MARGIN = 34
_FOOTER = 80
_LEGEND_STEP = 150


def draw_curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    alt: str,
    x_name: str,
    x_label: str,
    marks: Mapping[float, str] | None = None,
    caption: str = "",
    metric: str = "",
) -> Picture:
    """Return a picture of lines over x.

    Parameters
    ----------
    x : sequence of float
        The common positions of the values, ascending.
    lines : mapping of str to sequence of float
        The values of each line by its name; the first eight lines have a colour and an entry in the legend.
    alt : str
        Description of the picture for readers who cannot see it.
    x_name, x_label : str
        The short name of x in tooltips, and its label below the axis.
    marks : mapping of float to str, optional
        Texts of the vertical lines at positions of x; positions outside x are omitted.
    caption, metric : str, default ""
        As in `Picture`.
    """
    values = [value for line in lines.values() for value in line]
    y_axis = Axis.from_values(values)
    round_ticks = Axis.from_values(x, max_steps=8).ticks
    inner_ticks = [tick for tick in round_ticks if x[0] < tick < x[-1]]
    x_axis = Axis((x[0], *inner_ticks, x[-1]))

    shapes = _draw_curve_grid(x_axis, y_axis, x_label)
    for position, words in (marks or {}).items():
        if x[0] <= position <= x[-1]:
            shapes.append(_draw_vertical_line(x_axis.format_position(position), words))
    shapes.append(_draw_lines(x, lines, x_axis, y_axis))
    shapes += _draw_tooltips(x_name, x, lines, x_axis)
    return Picture(
        alt=alt,
        drawn="".join(shapes),
        height=_CURVES_HEIGHT + _CURVES_FOOTER,
        legend=tuple(enumerate(list(lines)[:N_STYLES])),
        caption=caption,
        metric=metric,
    )


def _draw_curve_grid(x_axis: Axis, y_axis: Axis, x_label: str) -> list[str]:
    """Return the horizontal lines of the grid, the labels of both axes and the label of x."""
    shapes = []
    for tick in y_axis.ticks:
        y = _CURVES_HEIGHT * (1 - y_axis.compute_position(tick) / 100)
        shapes.append(f'<line class="g" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{format_tick(tick)}</text>')
    for tick in x_axis.ticks:
        shapes.append(_draw_centred_text(x_axis.format_position(tick), 18, format_tick(tick)))
    shapes.append(_draw_centred_text("50%", 38, escape_svg(x_label)))
    return shapes


def _draw_centred_text(position: str, distance: int, escaped_words: str) -> str:
    """Return words at a distance below the curves."""
    y = _CURVES_HEIGHT + distance
    return f'<text x="{position}" y="{y}" text-anchor="middle">{escaped_words}</text>'


def _draw_vertical_line(position: str, words: str) -> str:
    """Return a vertical line with a tooltip."""
    title = f"<title>{escape_svg(words)}</title>"
    return f'<line class="z" x1="{position}" x2="{position}" y2="{_CURVES_HEIGHT}">{title}</line>'


def _draw_lines(x: Sequence[float], lines: Mapping[str, Sequence[float]], x_axis: Axis, y_axis: Axis) -> str:
    """Return the lines, the first on top, in a box of 100 × 100 that is stretched over the picture."""
    paths = []
    for number, values in enumerate(lines.values()):
        kind = "o"
        if number < N_STYLES:
            kind = f"l c{number} d{number}"
        paths.append(f'<path class="{kind}" d="{_draw_path(x, values, x_axis, y_axis)}"/>')
    paths.reverse()
    box = f'viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="{_CURVES_HEIGHT}"'
    return f"<svg {box}>{''.join(paths)}</svg>"


def _draw_path(x: Sequence[float], values: Sequence[float], x_axis: Axis, y_axis: Axis) -> str:
    """Return the path through the points in a box of 100 × 100, interrupted at values that are NaN."""
    path = ""
    command = "M"
    for position, value in zip(x, values, strict=True):
        if not math.isfinite(value):
            command = "M"
            continue
        path_x = x_axis.compute_position(position)
        path_y = 100 - y_axis.compute_position(value)
        path += f"{command}{path_x:.1f} {path_y:.1f}"
        command = "L"
    return path


def _draw_tooltips(
    x_name: str, x: Sequence[float], lines: Mapping[str, Sequence[float]], x_axis: Axis
) -> list[str]:
    """Return an invisible band around each x, with the values of the lines in the legend as its tooltip."""
    middles = [(left + right) / 2 for left, right in pairwise(x)]
    edges = [x[0], *middles, x[-1]]
    named_lines = dict(list(lines.items())[:N_STYLES])
    bands = []
    for number, position in enumerate(x):
        values = {name: line[number] for name, line in named_lines.items()}
        words = [f"{x_name} = {format_tick(position)}"]
        for name in sorted(values, key=lambda name: _rank_descending(values[name])):
            words.append(f"{name}  {values[name]:.4g}")
        title = "\n".join(map(escape_svg, words))

        start = x_axis.compute_position(edges[number])
        width = x_axis.compute_position(edges[number + 1]) - start
        box = f'x="{start:.2f}%" width="{width:.2f}%" height="{_CURVES_HEIGHT}"'
        bands.append(f'<rect class="h" {box}><title>{title}</title></rect>')
    return bands


def _rank_descending(value: float) -> tuple[bool, float]:
    """Return a sort key by which the highest value comes first and NaN last."""
    return math.isnan(value), -value


def draw_scatter(frame: pd.DataFrame, *, estimators: Sequence[str]) -> Picture:
    """Return a picture of estimates against true values, with one panel per metric.

    Parameters
    ----------
    frame : pandas.DataFrame
        The columns metric, estimator, truth, estimate, ci_low and ci_high.
    estimators : sequence of str
        The estimators that are drawn, in the order of the legend.
    """
    metrics = list(dict.fromkeys(frame["metric"]))
    drawn_rows = frame[frame["estimator"].isin(list(estimators))]
    shapes: list[str] = []
    for number, metric in enumerate(metrics):
        left = _LEFT_MARGIN + number * (_PANEL_SIZE + _PANEL_GAP)
        panel_rows = drawn_rows[drawn_rows["metric"] == metric]
        shapes += _draw_panel(panel_rows, str(metric), estimators, left)

    label_position = f"translate(14 {_TOP_MARGIN + _PANEL_SIZE / 2}) rotate(-90)"
    shapes.append(f'<text transform="{label_position}" text-anchor="middle">estimate</text>')
    legend_y = _TOP_MARGIN + _PANEL_SIZE + 62
    for number, estimator in enumerate(estimators):
        legend_x = _LEFT_MARGIN + _LEGEND_STEP * number
        shapes.append(draw_series(number, [draw_mark(number, legend_x, legend_y)]))
        shapes.append(draw_text(legend_x + 10, legend_y + 4, estimator, "start"))

    names = ", ".join(metrics)
    return Picture(
        alt=f"Estimates of {names} against the truth; on the diagonal an estimate is right",
        drawn="".join(shapes),
        height=_TOP_MARGIN + _PANEL_SIZE + _FOOTER,
        width=_LEFT_MARGIN + len(metrics) * (_PANEL_SIZE + _PANEL_GAP),
    )


@dataclass(frozen=True)
class _Panel:
    """Position and axes of the panel of one metric."""

    left: int
    x_axis: Axis
    y_axis: Axis

    @property
    def bottom(self) -> int:
        """The y of the lower edge, in pixels."""
        return _TOP_MARGIN + _PANEL_SIZE

    def compute_x(self, truth: float) -> float:
        """Return the x of a true value, in pixels."""
        return self.left + _PANEL_SIZE * self.x_axis.compute_position(truth) / 100

    def compute_y(self, estimate: float) -> float:
        """Return the y of an estimate, in pixels."""
        return self.bottom - _PANEL_SIZE * self.y_axis.compute_position(estimate) / 100


def _draw_panel(frame: pd.DataFrame, metric: str, estimators: Sequence[str], left: int) -> list[str]:
    """Return the shapes of the panel of one metric."""
    estimates = frame[["truth", "estimate", "ci_low", "ci_high"]].to_numpy().ravel().tolist()
    panel = _Panel(
        left=left,
        x_axis=Axis.from_values(frame["truth"].tolist(), max_steps=5),
        y_axis=Axis.from_values(estimates),
    )
    shapes = _draw_panel_grid(panel, metric)
    shapes.append(_draw_diagonal(panel))
    for number, estimator in enumerate(estimators):
        rows = frame[frame["estimator"] == estimator].to_dict("records")
        marks = []
        for row in rows:
            marks += _draw_estimate(panel, number, row)
        shapes.append(draw_series(number, marks))
    return shapes


def _draw_panel_grid(panel: _Panel, metric: str) -> list[str]:
    """Return the title of a panel, its grid and the labels of its axes."""
    centre = panel.left + _PANEL_SIZE / 2
    shapes = [draw_text(centre, _TOP_MARGIN - 12, metric, "middle")]
    for tick in panel.x_axis.ticks:
        x = panel.compute_x(tick)
        shapes.append(f'<path class="g" d="M{x:.1f} {_TOP_MARGIN}V{panel.bottom}"/>')
        shapes.append(draw_text(x, panel.bottom + 18, format_tick(tick), "middle"))
    for tick in panel.y_axis.ticks:
        y = panel.compute_y(tick)
        shapes.append(f'<path class="g" d="M{panel.left} {y:.1f}h{_PANEL_SIZE}"/>')
        shapes.append(draw_text(panel.left - 6, y + 4, format_tick(tick), "end"))
    shapes.append(draw_text(centre, panel.bottom + 38, "truth", "middle"))
    return shapes


def _draw_diagonal(panel: _Panel) -> str:
    """Return the line on which an estimate equals the truth."""
    low = max(panel.x_axis.low, panel.y_axis.low)
    high = min(panel.x_axis.high, panel.y_axis.high)
    start = f"{panel.compute_x(low):.1f} {panel.compute_y(low):.1f}"
    end = f"{panel.compute_x(high):.1f} {panel.compute_y(high):.1f}"
    return f'<path class="d" d="M{start}L{end}"/>'


def _draw_estimate(panel: _Panel, number: int, row: Mapping[Hashable, float]) -> list[str]:
    """Return the mark of one estimate with its interval; nothing for an undefined estimate or truth."""
    if math.isnan(row["estimate"] + row["truth"]):
        return []
    x = panel.compute_x(row["truth"])
    shapes = []
    if not math.isnan(row["ci_low"] + row["ci_high"]):
        interval_start = panel.compute_y(row["ci_low"])
        interval_end = panel.compute_y(row["ci_high"])
        shapes.append(f'<path class="i" d="M{x:.1f} {interval_start:.1f}V{interval_end:.1f}"/>')
    shapes.append(draw_mark(number, x, panel.compute_y(row["estimate"])))
    return shapes
