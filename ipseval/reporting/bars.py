"""Bars of table cells: axes with round ticks, and positions on them as numbers, which a template draws."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ipseval.reporting.tables import Cell, Table

ROUNDING = 1e-9  # tolerance for numbers of steps
MIN_SPAN = 1e-9  # of an axis: ticks are rounded to 12 decimals
MIN_BAR_WIDTH = 0.2  # in per cent of the axis


@dataclass(frozen=True)
class Tick:
    """A label of an axis with its position in per cent and its alignment (start, middle or end)."""

    position: float
    anchor: str
    label: str


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

    def compute_position(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 100."""
        return 100 * ((value - self.low) / (self.high - self.low))

    def list_labels(self) -> tuple[Tick, ...]:
        """Return the labels of the axis at its ends, and at 0 if that is well inside."""
        anchors = {self.low: "start", self.high: "end"}
        if 20 < self.compute_position(0) < 80:
            anchors[0.0] = "middle"

        labels = []
        for tick, anchor in anchors.items():
            labels.append(Tick(_round_position(self.compute_position(tick)), anchor, format_tick(tick)))
        return tuple(labels)


def _round_position(position: float) -> float:
    """Return a position with one decimal, as a template writes it."""
    return round(position, 1) + 0.0  # the sum turns −0.0 into 0.0


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


@dataclass(frozen=True)
class Bar:
    """The bar, or the mark with its interval, of a cell; positions are in per cent of the width.

    Attributes
    ----------
    zero : float or None
        The position of 0; None if 0 is not inside the axis.
    start, width : float or None, float
        The bar from 0 to a value, or that of an interval; a start of None draws none.
    centre : float or None
        The position of the mark; None draws none.
    is_interval : bool
        Whether the bar is that of an interval.
    is_reliable : bool
        Whether the value is reliable.
    """

    zero: float | None
    start: float | None = None
    width: float = 0.0
    centre: float | None = None
    is_interval: bool = False
    is_reliable: bool = True

    @classmethod
    def from_cell(cls, cell: Cell, axis: Axis) -> Bar:
        """Return the bar of a cell: from 0 to a single value, or an interval with its mark."""
        zero = None
        if axis.low < 0 < axis.high:
            zero = _round_position(axis.compute_position(0))

        if len(cell.at) == 1:
            return cls._from_value(cell.at[0], axis, zero)
        if len(cell.at) == 3:
            return cls._from_interval(cell, axis, zero)
        return cls(zero)

    @classmethod
    def _from_value(cls, value: float, axis: Axis, zero: float | None) -> Bar:
        """Return the bar from 0 to a value; nothing is drawn for a value that is not finite."""
        if not math.isfinite(value):
            return cls(zero)
        start, end = sorted((axis.compute_position(0), axis.compute_position(value)))
        width = max(end - start, MIN_BAR_WIDTH)
        return cls(zero, start=_round_position(start), width=_round_position(width))

    @classmethod
    def _from_interval(cls, cell: Cell, axis: Axis, zero: float | None) -> Bar:
        """Return an interval with its mark; an unreliable value has no interval."""
        low, value, high = cell.at
        start = None
        width = 0.0
        if math.isfinite(low + high) and not cell.flag:
            start_position = axis.compute_position(max(low, axis.low))
            start = _round_position(start_position)
            width = _round_position(axis.compute_position(high) - start_position)
        centre = None
        if math.isfinite(value):
            centre = _round_position(axis.compute_position(value))
        return cls(zero, start, width, centre, is_interval=True, is_reliable=not cell.flag)
