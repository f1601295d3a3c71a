"""Building blocks of pictures: marks, texts, axes, bars in table cells, and pictures as SVG files."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ipseval.reporting.markup import escape_controls
from ipseval.reporting.tables import Cell, Picture, Table

# Shapes repeat the information of the colours c0, c1, … for readers who cannot distinguish these.
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.5-3.5h7v7h-7z",
    "M0-5L4.5 0L0 5L-4.5 0z",
    "M0-4.5L4.5 3.5h-9z",
    "M0 4.5L4.5-3.5h-9z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
)
N_STYLES = 8
ROUNDING = 1e-9  # tolerance for numbers of steps
MIN_SPAN = 1e-9  # of an axis: ticks are rounded to 12 decimals
MIN_BAR_WIDTH = 0.2  # in per cent of the axis


def format_svg_file(picture: Picture) -> str:
    """Return a picture of a fixed width as the text of an SVG file, on white."""
    size = f'width="{picture.width}" height="{picture.height}" viewBox="0 0 {picture.width} {picture.height}"'
    root = f'<svg xmlns="http://www.w3.org/2000/svg" class="p" role="img" {size}>'
    title = f"<title>{escape_svg(picture.alt)}</title>"
    style = f"<style>{read_picture_style()}</style>"
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return f"{root}{title}{style}{background}{picture.drawn}</svg>\n"


@cache
def read_picture_style() -> str:
    """Return the style sheet of the classes in pictures."""
    return Path(__file__).with_name("_picture.css").read_text(encoding="utf-8")


def draw_mark(number: int, x: float, y: float) -> str:
    """Return the mark of one series at a point."""
    shape = SHAPES[number % len(SHAPES)]
    return f'<path class="m" d="{shape}" transform="translate({x:.1f} {y:.1f})"/>'


def draw_series(number: int, marks: list[str]) -> str:
    """Return the marks of one series in its colour."""
    return f'<g class="c{number % N_STYLES}">{"".join(marks)}</g>'


def draw_text(x: float, y: float, words: str, anchor: str) -> str:
    """Return words at a point; `anchor` is "start", "middle" or "end"."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape_svg(words)}</text>'


def escape_svg(words: str) -> str:
    """Return words as text of SVG, without characters that start markup."""
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
    def from_values(cls, values: Iterable[float], *, max_steps: int = 6) -> Axis:
        """Return the axis that covers all finite values; it starts or ends at 0 if the values are close to it.

        Values are close to 0 if their distance to 0 is less than their range; a single value always is.

        Parameters
        ----------
        values : iterable of float
            The values; those that are not finite are ignored. Without any, the axis runs from 0 to 1.
        max_steps : int, default 6
            The largest number of steps between ticks.

        Examples
        --------
        >>> Axis.from_values([0.11, 0.37]).ticks
        (0.0, 0.1, 0.2, 0.3, 0.4)
        """
        finite_values = list(filter(math.isfinite, values))
        if not finite_values:
            finite_values = [0.0, 1.0]
        low, high = _extend_to_zero(min(finite_values), max(finite_values))

        span = high - low
        if span <= MIN_SPAN:
            span = 1.0
        step = _choose_step(span, max_steps)
        first_step = math.floor(low / step + ROUNDING)
        last_step = math.ceil((low + span) / step - ROUNDING)
        return cls(tuple(round(number * step, 12) for number in range(first_step, last_step + 1)))

    @property
    def low(self) -> float:
        """The first tick."""
        return self.ticks[0]

    @property
    def high(self) -> float:
        """The last tick."""
        return self.ticks[-1]

    def format_position(self, value: float) -> str:
        """Return the position of a value on the axis, in per cent, as an attribute of SVG."""
        return f"{self.compute_position(value):.1f}%"

    def compute_position(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 100."""
        return 100 * ((value - self.low) / (self.high - self.low))


def _extend_to_zero(low: float, high: float) -> tuple[float, float]:
    """Return a range, extended to 0 if 0 is closer to it than it is wide; a single value always is."""
    width = high - low
    if width == 0:
        width = math.inf
    extended_low = low
    if low < width:
        extended_low = min(low, 0.0)
    extended_high = high
    if -high < width:
        extended_high = max(high, 0.0)
    return extended_low, extended_high


def _choose_step(span: float, max_steps: int) -> float:
    """Return the smallest step 1, 2 or 5 times a power of ten that covers a span in `max_steps` steps."""
    unit = 10.0 ** math.floor(math.log10(span / max_steps))
    for factor in (1, 2, 5):
        step = unit * factor
        if span / step <= max_steps + ROUNDING:
            return step
    return unit * 10


def format_tick(tick: float) -> str:
    """Return a tick as text, with a minus sign that is as wide as a plus."""
    return f"{tick:,g}".replace("-", "−")


def build_table_axis(table: Table) -> Axis:
    """Return the axis that all columns of a table share.

    It includes 0. It goes below 0 only if negative values have a meaning in the table, or one is drawn.
    """
    values = [0.0]
    has_negative_values = table.signed
    for row in table.rows:
        for cell in row:
            if cell.at:
                values += cell.at
                middle_value = cell.at[len(cell.at) // 2]
                has_negative_values = has_negative_values or middle_value < 0
    if not has_negative_values:
        values = [max(value, 0.0) for value in values]
    return Axis.from_values(values, max_steps=4)


def draw_ticks(axis: Axis) -> str:
    """Return the labels of an axis at its ends, and at 0 if that is well inside, as SVG."""
    anchors = {axis.low: "start", axis.high: "end"}
    if 20 < axis.compute_position(0) < 80:
        anchors[0.0] = "middle"

    labels = []
    for tick, anchor in anchors.items():
        position = axis.format_position(tick)
        labels.append(f'<text x="{position}" y="11" text-anchor="{anchor}">{format_tick(tick)}</text>')
    return f'<svg class="a" aria-hidden="true">{"".join(labels)}</svg>'


def draw_bar(cell: Cell, axis: Axis) -> str:
    """Return the bar, or the mark with its interval, of a cell as SVG.

    The numbers are in the text of the cell, and the style is in the style sheet of the page.
    """
    shapes = []
    if axis.low < 0 < axis.high:
        shapes.append(f'<rect class="z" x="{axis.format_position(0)}"/>')

    if len(cell.at) == 1 and math.isfinite(cell.at[0]):
        shapes.append(_draw_value_bar(cell.at[0], axis))
    elif len(cell.at) == 3:
        low, value, high = cell.at
        if math.isfinite(low + high) and not cell.flag:
            shapes.append(_draw_interval(max(low, axis.low), high, axis))
        if math.isfinite(value):
            # An unreliable value is a ring.
            kind = ""
            if cell.flag:
                kind = ' class="u"'
            shapes.append(f'<circle{kind} cx="{axis.format_position(value)}"/>')
    return f'<svg class="b">{"".join(shapes)}</svg>'


def _draw_value_bar(value: float, axis: Axis) -> str:
    """Return a bar from 0 to a value."""
    start, end = sorted((axis.compute_position(0), axis.compute_position(value)))
    width = max(end - start, MIN_BAR_WIDTH)
    return f'<rect class="m" x="{start:.1f}%" width="{width:.1f}%"/>'


def _draw_interval(low: float, high: float, axis: Axis) -> str:
    """Return the bar of an interval."""
    width = axis.compute_position(high) - axis.compute_position(low)
    return f'<rect x="{axis.format_position(low)}" width="{width:.1f}%"/>'
