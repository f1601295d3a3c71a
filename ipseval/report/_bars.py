"""Pictures in the cells of a table: a bar, or a mark with its interval, on the axis of the column."""

from __future__ import annotations

import math

from ipseval.report._axis import Axis, shown
from ipseval.report._tables import Cell, Table

_MIDDLE = 7


def column_axis(table: Table, place: int) -> Axis | None:
    """Return the axis of a column whose cells have something to draw; None where there is nothing."""
    values = [value for row in table.rows for value in row[place].at]
    if not any(map(math.isfinite, values)):
        return None
    single = any(len(row[place].at) == 1 for row in table.rows)
    return Axis.over([*values, 0.0] if single else values, most=4)


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
    """Return what a cell draws, as SVG; its numbers stand in its text."""
    y, parts = _MIDDLE, []
    if axis.ticks[0] < 0 < axis.ticks[-1]:
        zero = axis.place(0)
        parts.append(f'<line class="z" x1="{zero}" x2="{zero}" y2="14"/>')
    if len(cell.at) == 1 and math.isfinite(cell.at[0]):
        ends = sorted((axis.share(0), axis.share(cell.at[0])))
        width = max(ends[1] - ends[0], 0.2)
        parts.append(f'<rect class="m" x="{ends[0]:.1f}%" width="{width:.1f}%" y="3" height="8"/>')
    elif len(cell.at) == 3:
        low, value, high = cell.at
        if math.isfinite(low + high):
            parts.append(
                f'<line class="i" x1="{axis.place(low)}" x2="{axis.place(high)}" y1="{y}" y2="{y}"/>'
            )
        if math.isfinite(value):
            parts.append(f'<circle class="m" cx="{axis.place(value)}" cy="{y}" r="3.5"/>')
    return f'<svg class="b p c0" aria-hidden="true">{"".join(parts)}</svg>'
