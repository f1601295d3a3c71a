"""A picture of estimates against a known truth, as SVG: a panel per metric, a mark per recommender."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ipseval.report._forest import _COLOURS, _SHAPES, _text, _ticks
from ipseval.report._tables import Picture

_SIZE, _LEFT, _TOP, _GAP = 250, 56, 34, 70


def scatter(frame: pd.DataFrame, *, estimators: Sequence[str]) -> Picture:
    """Return the picture of rows with truth, estimate, ci_low and ci_high; on the diagonal they are equal."""
    metrics = list(dict.fromkeys(frame["metric"]))
    shown = frame[frame["estimator"].isin(list(estimators))]
    shapes: list[str] = []
    for number, metric in enumerate(metrics):
        left = _LEFT + number * (_SIZE + _GAP)
        shapes += _panel(shown[shown["metric"] == metric], str(metric), estimators, left)
    shapes.append(_text(14, _TOP + _SIZE / 2, "estimate", "middle").replace("<text", '<text class="v"', 1))
    width = _LEFT + len(metrics) * (_SIZE + _GAP)
    for number, label in enumerate(estimators):
        x = _LEFT + 150 * number
        mark = f'<path d="{_SHAPES[number]}" transform="translate({x} {_TOP + _SIZE + 62})"/>'
        shapes.append(f'<g fill="{_COLOURS[number]}">{mark}</g>')
        shapes.append(_text(x + 10, _TOP + _SIZE + 66, label, "start"))
    height = _TOP + _SIZE + 80
    style = (
        "text{font:13px system-ui,sans-serif}.g{stroke:#ddd}.d{stroke:#999;stroke-width:1.5}"
        ".i{stroke-width:1.5}.v{transform-box:fill-box;transform-origin:center;transform:rotate(-90deg)}"
    )
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{style}</style>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(shapes)}</svg>'
    )
    alt = f"Estimates of {', '.join(metrics)} against the truth; on the diagonal an estimate is right"
    return Picture(alt, drawn.encode("utf-8"), width)


def _panel(frame: pd.DataFrame, metric: str, estimators: Sequence[str], left: int) -> list[str]:
    """Return the shapes of one metric, with the line on which an estimate equals the truth."""
    across, *ends = _ticks(frame[["truth"]])
    up, low, high = _ticks(frame[["truth", "estimate", "ci_low", "ci_high"]])
    bottom = _TOP + _SIZE

    def at(truth: float, value: float) -> tuple[float, float]:
        x = left + _SIZE * (truth - ends[0]) / (ends[1] - ends[0])
        return x, bottom - _SIZE * (value - low) / (high - low)

    shapes = [_text(left + _SIZE / 2, _TOP - 12, metric, "middle")]
    for tick in across:
        x = at(tick, low)[0]
        shapes.append(f'<path class="g" d="M{x:.1f} {_TOP}V{bottom}"/>')
        shapes.append(_text(x, bottom + 18, f"{tick:g}", "middle"))
    for tick in up:
        y = at(0, tick)[1]
        shapes.append(f'<path class="g" d="M{left} {y:.1f}h{_SIZE}"/>')
        shapes.append(_text(left - 6, y + 4, f"{tick:g}", "end"))
    shapes.append(_text(left + _SIZE / 2, bottom + 38, "truth", "middle"))
    first, last = (at(value, value) for value in (max(ends[0], low), min(ends[1], high)))
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
            marks.append(f'<path d="{_SHAPES[number]}" transform="translate({x:.1f} {y:.1f})"/>')
        colour = _COLOURS[number]
        shapes.append(f'<g fill="{colour}" stroke="{colour}">{"".join(marks)}</g>')
    return shapes
