"""Pictures in the cells of a table: a bar, or a mark with its interval, on the axis of the column."""

from __future__ import annotations

import math

from ipseval.report._axis import Axis, shown
from ipseval.report._tables import Cell, Table


def column_axis(table: Table, place: int) -> Axis | None:
    """Return the axis of a column whose cells have something to draw; None where there is nothing."""
    values = [value for row in table.rows for value in row[place].at]
    if not any(map(math.isfinite, values)):
        return None
    single = any(len(row[place].at) == 1 for row in table.rows)
    return Axis.over([*values, 0.0] if single or table.zero else values, most=4)


def ticks(axis: Axis) -> str:
    """Return the labels of an axis at its ends, and at 0 where it is inside, as SVG."""
    low, high = axis.ticks[0], axis.ticks[-1]
    labels = [("start", 0.0, low), ("end", 100.0, high)]
    if low < 0 < high and 20 < axis.share(0) < 80:
        labels.append(("middle", axis.share(0), 0.0))
    drawn = [
        f'<text x="{x:.1f}%" y="11" text-anchor="{anchor}">{shown(value)}</text>'
        for anchor, x, value in labels
    ]
    return f'<svg class="a" aria-hidden="true">{"".join(drawn)}</svg>'


def bar(cell: Cell, axis: Axis) -> str:
    """Return what a cell draws, as SVG; its numbers stand in its text, and its style in that of the page."""
    parts = []
    if axis.ticks[0] < 0 < axis.ticks[-1]:
        parts.append(f'<rect class="z" x="{axis.place(0)}"/>')
    if len(cell.at) == 1 and math.isfinite(cell.at[0]):
        low, high = sorted((axis.share(0), axis.share(cell.at[0])))
        parts.append(f'<rect class="m" x="{low:.1f}%" width="{max(high - low, 0.2):.1f}%"/>')
    elif len(cell.at) == 3:
        low, value, high = cell.at
        if math.isfinite(low + high):
            width = axis.share(high) - axis.share(low)
            parts.append(f'<rect x="{axis.place(low)}" width="{width:.1f}%"/>')
        if math.isfinite(value):
            parts.append(f'<circle cx="{axis.place(value)}"/>')
    return f'<svg class="b">{"".join(parts)}</svg>'
