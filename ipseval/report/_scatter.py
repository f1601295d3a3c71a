"""A picture of estimates against a known truth: a panel per metric, a mark per recommender."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ipseval.report._axis import Axis, shown
from ipseval.report._drawing import mark, series, text
from ipseval.report._tables import Picture

_SIZE, _LEFT, _TOP, _GAP = 250, 56, 34, 70


def scatter(frame: pd.DataFrame, *, estimators: Sequence[str]) -> Picture:
    """Return the picture of rows with truth, estimate, ci_low and ci_high; on the diagonal they are equal."""
    metrics = list(dict.fromkeys(frame["metric"]))
    chosen = frame[frame["estimator"].isin(list(estimators))]
    shapes: list[str] = []
    for number, metric in enumerate(metrics):
        left = _LEFT + number * (_SIZE + _GAP)
        shapes += _panel(chosen[chosen["metric"] == metric], str(metric), estimators, left)
    turned = f"translate(14 {_TOP + _SIZE / 2}) rotate(-90)"
    shapes.append(f'<text transform="{turned}" text-anchor="middle">estimate</text>')
    for number, label in enumerate(estimators):
        x, y = _LEFT + 150 * number, _TOP + _SIZE + 62
        shapes += [series(number, [mark(number, x, y)]), text(x + 10, y + 4, label, "start")]
    width = _LEFT + len(metrics) * (_SIZE + _GAP)
    alt = f"Estimates of {', '.join(metrics)} against the truth; on the diagonal an estimate is right"
    return Picture(alt, "".join(shapes), _TOP + _SIZE + 80, width)


def _panel(frame: pd.DataFrame, metric: str, estimators: Sequence[str], left: int) -> list[str]:
    """Return the shapes of one metric, with the line on which an estimate equals the truth."""
    across = Axis.over(frame["truth"].tolist(), most=5)
    up = Axis.over(frame[["truth", "estimate", "ci_low", "ci_high"]].to_numpy().ravel().tolist())
    bottom = _TOP + _SIZE

    def at(truth: float, value: float) -> tuple[float, float]:
        return left + _SIZE * across.share(truth) / 100, bottom - _SIZE * up.share(value) / 100

    shapes = [text(left + _SIZE / 2, _TOP - 12, metric, "middle")]
    for tick in across.ticks:
        x = at(tick, 0)[0]
        shapes.append(f'<path class="g" d="M{x:.1f} {_TOP}V{bottom}"/>')
        shapes.append(text(x, bottom + 18, shown(tick), "middle"))
    for tick in up.ticks:
        y = at(0, tick)[1]
        shapes.append(f'<path class="g" d="M{left} {y:.1f}h{_SIZE}"/>')
        shapes.append(text(left - 6, y + 4, shown(tick), "end"))
    shapes.append(text(left + _SIZE / 2, bottom + 38, "truth", "middle"))
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
            marks.append(mark(number, x, y))
        shapes.append(series(number, marks))
    return shapes
