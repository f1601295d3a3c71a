"""What pictures share: marks, texts, a common axis, bars in the cells of a table, a picture as a file."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import Cell, Picture, Table

# Shapes repeat what the colours c0, c1, … say.
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-5L4.5 0L0 5L-4.5 0z",
    "M0-4.5L4.5 3.5h-9z",
    "M0 4.5L4.5-3.5h-9z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
)
N_STYLES = 8


def format_svg_file(picture: Picture) -> str:
    """Return a picture of a fixed width as the text of an SVG file, on white."""
    width, height = picture.width, picture.height
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    inside = f"<title>{escape_svg(picture.alt)}</title><style>{read_picture_style()}</style>"
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" class="p" role="img" {size}>'
    return f"{opened}{inside}{paper}{picture.drawn}</svg>\n"


@cache
def read_picture_style() -> str:
    """Return the style of the classes in pictures."""
    return Path(__file__).with_name("_picture.css").read_text(encoding="utf-8")


def draw_mark(number: int, x: float, y: float) -> str:
    """Return the mark of one series."""
    return f'<path class="m" d="{SHAPES[number % len(SHAPES)]}" transform="translate({x:.1f} {y:.1f})"/>'


def draw_series(number: int, marks: list[str]) -> str:
    """Return the marks of one series in its colour."""
    return f'<g class="c{number % N_STYLES}">{"".join(marks)}</g>'


def draw_text(x: float, y: float, words: str, anchor: str) -> str:
    """Return words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape_svg(words)}</text>'


def escape_svg(words: str) -> str:
    """Return words that are text in SVG."""
    return html.escape(escape_controls(words))


@dataclass(frozen=True)
class Axis:
    """An axis from its first tick to its last.

    Attributes
    ----------
    ticks : tuple of float
        Round numbers, ascending, at least two.
    """

    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Iterable[float], *, most: int = 6) -> Axis:
        """Return the axis of at most `most` steps; from 0 where the values are close to it.

        Examples
        --------
        >>> Axis.over([0.11, 0.37]).ticks
        (0.0, 0.1, 0.2, 0.3, 0.4)
        """
        known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(known), max(known)
        # From 0 where that is near in relation to the spread, and for a single value.
        reach = (high - low) or math.inf
        low, high = (min(low, 0.0) if low < reach else low), (max(high, 0.0) if -high < reach else high)
        span = high - low if high - low > 1e-9 else 1.0  # ticks have twelve decimals
        unit = 10.0 ** math.floor(math.log10(span / most))
        step = next(unit * factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= most + 1e-9)
        first, last = math.floor(low / step + 1e-9), math.ceil((low + span) / step - 1e-9)
        return cls(tuple(round(place * step, 12) for place in range(first, last + 1)))

    def place(self, value: float) -> str:
        """Return where a value lies, in per cent of the axis."""
        return f"{self.share(value):.1f}%"

    def share(self, value: float) -> float:
        """Return where a value lies, from 0 to 100."""
        low, high = self.ticks[0], self.ticks[-1]
        return 100 * ((value - low) / (high - low))


def format_tick(tick: float) -> str:
    """Return a tick as text, with a minus sign that is as wide as a plus."""
    return f"{tick:,g}".replace("-", "−")


def build_table_axis(table: Table) -> Axis:
    """Return the axis of all columns of a table, with 0 on it; below 0 only where that has a meaning."""
    drawn = [cell.at for row in table.rows for cell in row if cell.at]
    signed = table.signed or any(at[len(at) // 2] < 0 for at in drawn)
    return Axis.over([0.0, *(value if signed else max(value, 0.0) for at in drawn for value in at)], most=4)


def draw_ticks(axis: Axis) -> str:
    """Return the labels of an axis at its ends, and at 0 where it is inside, as SVG."""
    anchors = {axis.ticks[0]: "start", axis.ticks[-1]: "end"}
    if 20 < axis.share(0) < 80:
        anchors[0.0] = "middle"
    drawn = [
        f'<text x="{axis.place(value)}" y="11" text-anchor="{anchor}">{format_tick(value)}</text>'
        for value, anchor in anchors.items()
    ]
    return f'<svg class="a" aria-hidden="true">{"".join(drawn)}</svg>'


def draw_bar(cell: Cell, axis: Axis) -> str:
    """Return what a cell draws, as SVG; its numbers stand in its text, and its style in that of the page."""
    parts = []
    if axis.ticks[0] < 0 < axis.ticks[-1]:
        parts.append(f'<rect class="z" x="{axis.place(0)}"/>')
    if len(cell.at) == 1 and math.isfinite(cell.at[0]):
        low, high = sorted((axis.share(0), axis.share(cell.at[0])))
        parts.append(f'<rect class="m" x="{low:.1f}%" width="{max(high - low, 0.2):.1f}%"/>')
    elif len(cell.at) == 3:
        low, value, high = cell.at
        if math.isfinite(low + high) and not cell.flag:
            low = max(low, axis.ticks[0])
            width = axis.share(high) - axis.share(low)
            parts.append(f'<rect x="{axis.place(low)}" width="{width:.1f}%"/>')
        if math.isfinite(value):
            # An unreliable value is a ring.
            kind = ' class="u"' if cell.flag else ""
            parts.append(f'<circle{kind} cx="{axis.place(value)}"/>')
    return f'<svg class="b">{"".join(parts)}</svg>'
