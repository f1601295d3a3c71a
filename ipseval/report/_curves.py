"""Curves over a common axis, as a picture: the leading ones in colour, the others grey."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ipseval.report._axis import Axis, shown
from ipseval.report._drawing import N_STYLES, safe
from ipseval.report._tables import Picture

_HEIGHT, _BELOW = 240, 46


def curves(
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
    """Return the picture of lines over x, ascending; the first eight have a colour and a name.

    `marks` are places on the axis of x with what they are. The values stand in titles of bands around each
    x, which a browser shows where the pointer is.
    """
    across, up = Axis.over(x, most=8), Axis.over(value for line in lines.values() for value in line)
    across = Axis((x[0], *(tick for tick in across.ticks if x[0] < tick < x[-1]), x[-1]))
    parts = []
    for tick in up.ticks:
        y = _HEIGHT * (1 - up.share(tick) / 100)
        parts.append(f'<line class="g" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{shown(tick)}</text>')
    for tick in across.ticks:
        at = across.place(tick)
        parts.append(f'<text x="{at}" y="{_HEIGHT + 18}" text-anchor="middle">{shown(tick)}</text>')
    parts.append(f'<text x="50%" y="{_HEIGHT + 38}" text-anchor="middle">{safe(x_label)}</text>')
    for place, words in (marks or {}).items():
        if x[0] <= place <= x[-1]:
            at = across.place(place)
            parts.append(
                f'<line class="z" x1="{at}" x2="{at}" y2="{_HEIGHT}"><title>{safe(words)}</title></line>'
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


def _falling(pair: tuple[float, str]) -> tuple[bool, float]:
    """Return what sorts values from the highest to the lowest, and NaN last."""
    return math.isnan(pair[0]), -pair[0]


def _bands(name: str, x: Sequence[float], lines: Mapping[str, Sequence[float]], across: Axis) -> list[str]:
    """Return invisible bands around each x, with the values of the named lines there, the highest first."""
    edges = [x[0], *((a + b) / 2 for a, b in pairwise(x)), x[-1]]
    named = list(lines.items())[:N_STYLES]
    bands = []
    for place, value in enumerate(x):
        found = sorted(((line[place], model) for model, line in named), key=_falling)
        words = [f"{name} = {shown(value)}", *(f"{model}  {number:.4g}" for number, model in found)]
        start, width = across.share(edges[place]), across.share(edges[place + 1]) - across.share(edges[place])
        title = "\n".join(map(safe, words))
        box = f'x="{start:.2f}%" width="{width:.2f}%" height="{_HEIGHT}"'
        bands.append(f'<rect class="h" {box}><title>{title}</title></rect>')
    return bands
