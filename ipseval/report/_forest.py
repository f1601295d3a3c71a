"""A picture of estimates with their intervals, as an SVG file: a row per recommender."""

from __future__ import annotations

import html
import math

import pandas as pd

from ipseval.report._axis import Axis, shown
from ipseval.report._escape import visible

# Okabe and Ito's colours; shapes repeat what colours say.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#B0A000")
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-5L4.5 0L0 5L-4.5 0z",
    "M0-4.5L4.5 3.5h-9z",
    "M0 4.5L4.5-3.5h-9z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
)
_LONGEST = 30
_STEP, _TOP, _WIDE, _LETTER = 15, 12, 460, 7.2


def forest(frame: pd.DataFrame) -> str:
    """Return the SVG of one metric from its tidy rows, a mark with its interval for every estimator.

    Columns model, metric, estimator, estimate, ci_low, ci_high.
    """
    models, estimators = list(dict.fromkeys(frame["model"])), list(dict.fromkeys(frame["estimator"]))
    metric = str(frame["metric"].iloc[0])
    left = 16 + _LETTER * max(len(_short(name)) for name in models)
    axis = Axis.over(frame[["estimate", "ci_low", "ci_high"]].to_numpy().ravel().tolist())

    def across(value: float) -> float:
        return left + _WIDE * axis.share(value) / 100

    height = _STEP * len(estimators) + 8
    bottom = _TOP + height * len(models)
    width = round(left + _WIDE + 40 + _LETTER * max(map(len, estimators)))
    shapes = [_text(across(tick), bottom + 16, shown(tick), "middle") for tick in axis.ticks]
    shapes += [f'<path class="g" d="M{across(tick):.1f} {_TOP}V{bottom}"/>' for tick in axis.ticks]
    shapes.append(_text(left + _WIDE / 2, bottom + 34, f"{metric}, with its interval", "middle"))
    for row, model in enumerate(models):
        top = _TOP + row * height
        shapes.append(f'<path class="g" d="M{left:.1f} {top}h{_WIDE}"/>')
        shapes.append(_text(left - 8, top + height / 2 + 4, _short(model), "end"))
    for number, estimator in enumerate(estimators):
        colour, shape = _COLOURS[number % 8], _SHAPES[number % 6]
        part = frame[frame["estimator"] == estimator]
        columns = (part[name] for name in ("model", "estimate", "ci_low", "ci_high"))
        marks = []
        for model, value, ci_low, ci_high in zip(*columns, strict=True):
            y = _TOP + models.index(model) * height + 4 + _STEP * (number + 0.5)
            if not math.isnan(value):
                marks.append(f'<path d="{shape}" transform="translate({across(value):.1f} {y:.1f})"/>')
            if not math.isnan(ci_low + ci_high):
                marks.append(f'<path class="i" d="M{across(ci_low):.1f} {y:.1f}H{across(ci_high):.1f}"/>')
        y = _TOP + 12 + 18 * number
        marks.append(f'<path d="{shape}" transform="translate({left + _WIDE + 20:.1f} {y})"/>')
        shapes.append(f'<g fill="{colour}" stroke="{colour}">{"".join(marks)}</g>')
        shapes.append(_text(left + _WIDE + 30, y + 4, estimator, "start"))
    style = "text{font:13px system-ui,sans-serif}.g{stroke:#ddd}.i{stroke-width:1.5}"
    tall = max(bottom + 44, _TOP + 18 * len(estimators) + 8)
    alt = _safe(f"{metric} of every recommender by every estimator, with intervals")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" role="img" '
        f'viewBox="0 0 {width} {tall}"><title>{alt}</title><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(shapes)}</svg>\n'
    )


def _short(name: str) -> str:
    text = visible(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 13]}…{text[-12:]}"


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_safe(words)}</text>'


def _safe(words: str) -> str:
    return html.escape(visible(words))
