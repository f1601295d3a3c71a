"""A picture of estimates with their intervals: a row per recommender, a mark per estimator."""

from __future__ import annotations

import math

import pandas as pd

from ipseval.report._axis import Axis, shown
from ipseval.report._drawing import mark, series, short, text
from ipseval.report._tables import Picture

_STEP, _TOP, _WIDE, _LETTER = 15, 12, 460, 7.2


def forest(frame: pd.DataFrame) -> Picture:
    """Return the picture of one metric from its tidy rows, a mark with its interval for every estimator.

    Columns model, metric, estimator, estimate, ci_low, ci_high.
    """
    models, estimators = list(dict.fromkeys(frame["model"])), list(dict.fromkeys(frame["estimator"]))
    metric = str(frame["metric"].iloc[0])
    left = 16 + _LETTER * max(len(short(name)) for name in models)
    axis = Axis.over(frame[["estimate", "ci_low", "ci_high"]].to_numpy().ravel().tolist())

    def across(value: float) -> float:
        return left + _WIDE * axis.share(value) / 100

    height = _STEP * len(estimators) + 8
    bottom = _TOP + height * len(models)
    shapes = [text(across(tick), bottom + 16, shown(tick), "middle") for tick in axis.ticks]
    shapes += [f'<path class="g" d="M{across(tick):.1f} {_TOP}V{bottom}"/>' for tick in axis.ticks]
    shapes.append(text(left + _WIDE / 2, bottom + 34, f"{metric}, with its interval", "middle"))
    for row, model in enumerate(models):
        top = _TOP + row * height
        shapes.append(f'<path class="g" d="M{left:.1f} {top}h{_WIDE}"/>')
        shapes.append(text(left - 8, top + height / 2 + 4, short(model), "end"))
    for number, estimator in enumerate(estimators):
        part = frame[frame["estimator"] == estimator]
        columns = (part[name] for name in ("model", "estimate", "ci_low", "ci_high"))
        marks = []
        for model, value, ci_low, ci_high in zip(*columns, strict=True):
            y = _TOP + models.index(model) * height + 4 + _STEP * (number + 0.5)
            if not math.isnan(value):
                marks.append(mark(number, across(value), y))
            if not math.isnan(ci_low + ci_high):
                marks.append(f'<path class="i" d="M{across(ci_low):.1f} {y:.1f}H{across(ci_high):.1f}"/>')
        y = _TOP + 12 + 18 * number
        marks.append(mark(number, left + _WIDE + 20, y))
        shapes += [series(number, marks), text(left + _WIDE + 30, y + 4, estimator, "start")]
    width = round(left + _WIDE + 40 + _LETTER * max(map(len, estimators)))
    tall = max(bottom + 44, _TOP + 18 * len(estimators) + 8)
    alt = f"{metric} of every recommender by every estimator, with intervals"
    return Picture(alt, "".join(shapes), tall, width)
