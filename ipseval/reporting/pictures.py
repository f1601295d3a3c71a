"""Pictures: curves over a common axis, estimates against a known truth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

_HEIGHT, _BELOW = 240, 46


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
    """Return the picture of lines over x, ascending; the first eight have a colour and a name."""
    across, up = Axis.over(x, most=8), Axis.over(value for line in lines.values() for value in line)
    across = Axis((x[0], *(tick for tick in across.ticks if x[0] < tick < x[-1]), x[-1]))
    parts = []
    for tick in up.ticks:
        y = _HEIGHT * (1 - up.share(tick) / 100)
        parts.append(f'<line class="g" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{format_tick(tick)}</text>')
    for tick in across.ticks:
        at = across.place(tick)
        parts.append(f'<text x="{at}" y="{_HEIGHT + 18}" text-anchor="middle">{format_tick(tick)}</text>')
    parts.append(f'<text x="50%" y="{_HEIGHT + 38}" text-anchor="middle">{escape_svg(x_label)}</text>')
    for place, words in (marks or {}).items():
        if x[0] <= place <= x[-1]:
            at = across.place(place)
            parts.append(
                f'<line class="z" x1="{at}" x2="{at}" y2="{_HEIGHT}"><title>{escape_svg(words)}</title></line>'
            )
    drawn = []
    for number, values in reversed(list(enumerate(lines.values()))):
        kind = f"l c{number} d{number}" if number < N_STYLES else "o"
        drawn.append(f'<path class="{kind}" d="{_path(x, values, across, up)}"/>')
    inner = f'viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="{_HEIGHT}"'
    parts.append(f"<svg {inner}>{''.join(drawn)}</svg>")
    parts += _bands(x_name, x, lines, across)
    legend = tuple(enumerate(list(lines)[:N_STYLES]))
    return Picture(alt, "".join(parts), _HEIGHT + _BELOW, 0, legend, caption, metric)


def _path(x: Sequence[float], values: Sequence[float], across: Axis, up: Axis) -> str:
    """Return the path through the points in a box of 100 × 100, interrupted where a value is NaN."""
    text, pen = "", "M"
    for one, value in zip(x, values, strict=True):
        if math.isfinite(value):
            text += f"{pen}{across.share(one):.1f} {100 - up.share(value):.1f}"
            pen = "L"
        else:
            pen = "M"
    return text


def _bands(name: str, x: Sequence[float], lines: Mapping[str, Sequence[float]], across: Axis) -> list[str]:
    """Return invisible bands around each x, with the values of the named lines there, the highest first."""
    edges = [x[0], *((a + b) / 2 for a, b in pairwise(x)), x[-1]]
    named = list(lines.items())[:N_STYLES]
    bands = []
    for place, value in enumerate(x):
        # From the highest to the lowest, and NaN last.
        found = sorted(
            ((line[place], model) for model, line in named), key=lambda one: (math.isnan(one[0]), -one[0])
        )
        words = [f"{name} = {format_tick(value)}", *(f"{model}  {number:.4g}" for number, model in found)]
        start, width = across.share(edges[place]), across.share(edges[place + 1]) - across.share(edges[place])
        title = "\n".join(map(escape_svg, words))
        box = f'x="{start:.2f}%" width="{width:.2f}%" height="{_HEIGHT}"'
        bands.append(f'<rect class="h" {box}><title>{title}</title></rect>')
    return bands


_SIZE, _LEFT, _ABOVE, _GAP = 250, 56, 34, 70


def draw_scatter(frame: pd.DataFrame, *, estimators: Sequence[str]) -> Picture:
    """Return the picture of rows with truth, estimate, ci_low and ci_high; on the diagonal they are equal."""
    metrics = list(dict.fromkeys(frame["metric"]))
    chosen = frame[frame["estimator"].isin(list(estimators))]
    shapes: list[str] = []
    for number, metric in enumerate(metrics):
        left = _LEFT + number * (_SIZE + _GAP)
        shapes += _panel(chosen[chosen["metric"] == metric], str(metric), estimators, left)
    turned = f"translate(14 {_ABOVE + _SIZE / 2}) rotate(-90)"
    shapes.append(f'<text transform="{turned}" text-anchor="middle">estimate</text>')
    for number, label in enumerate(estimators):
        x, y = _LEFT + 150 * number, _ABOVE + _SIZE + 62
        shapes += [draw_series(number, [draw_mark(number, x, y)]), draw_text(x + 10, y + 4, label, "start")]
    width = _LEFT + len(metrics) * (_SIZE + _GAP)
    alt = f"Estimates of {', '.join(metrics)} against the truth; on the diagonal an estimate is right"
    return Picture(alt, "".join(shapes), _ABOVE + _SIZE + 80, width)


def _panel(frame: pd.DataFrame, metric: str, estimators: Sequence[str], left: int) -> list[str]:
    """Return the shapes of one metric, with the line on which an estimate equals the truth."""
    across = Axis.over(frame["truth"].tolist(), most=5)
    up = Axis.over(frame[["truth", "estimate", "ci_low", "ci_high"]].to_numpy().ravel().tolist())
    bottom = _ABOVE + _SIZE

    def at(truth: float, value: float) -> tuple[float, float]:
        return left + _SIZE * across.share(truth) / 100, bottom - _SIZE * up.share(value) / 100

    shapes = [draw_text(left + _SIZE / 2, _ABOVE - 12, metric, "middle")]
    for tick in across.ticks:
        x = at(tick, 0)[0]
        shapes.append(f'<path class="g" d="M{x:.1f} {_ABOVE}V{bottom}"/>')
        shapes.append(draw_text(x, bottom + 18, format_tick(tick), "middle"))
    for tick in up.ticks:
        y = at(0, tick)[1]
        shapes.append(f'<path class="g" d="M{left} {y:.1f}h{_SIZE}"/>')
        shapes.append(draw_text(left - 6, y + 4, format_tick(tick), "end"))
    shapes.append(draw_text(left + _SIZE / 2, bottom + 38, "truth", "middle"))
    ends = max(across.ticks[0], up.ticks[0]), min(across.ticks[-1], up.ticks[-1])
    first, last = (at(value, value) for value in ends)
    shapes.append(f'<path class="d" d="M{first[0]:.1f} {first[1]:.1f}L{last[0]:.1f} {last[1]:.1f}"/>')
    for number, label in enumerate(estimators):
        marks = []
        for row in frame[frame["estimator"] == label].to_dict("records"):
            if math.isnan(row["estimate"] + row["truth"]):
                continue
            x, y = at(row["truth"], row["estimate"])
            if not math.isnan(row["ci_low"] + row["ci_high"]):
                reach = at(0, row["ci_low"])[1], at(0, row["ci_high"])[1]
                marks.append(f'<path class="i" d="M{x:.1f} {reach[0]:.1f}V{reach[1]:.1f}"/>')
            marks.append(draw_mark(number, x, y))
        shapes.append(draw_series(number, marks))
    return shapes
