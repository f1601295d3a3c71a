"""A common axis: round numbers over the range of some values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


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
        span = (high - low) or 1.0
        unit = 10.0 ** math.floor(math.log10(span / most))
        step = next(unit * factor for factor in (1, 2, 5, 10, 20) if span / (unit * factor) <= most + 1e-9)
        first, last = math.floor(low / step + 1e-9), math.ceil((low + span) / step - 1e-9)
        return cls(tuple(round(place * step, 12) + 0.0 for place in range(first, last + 1)))

    def place(self, value: float) -> str:
        """Return where a value lies, in per cent of the axis."""
        return f"{self.share(value):.1f}%"

    def share(self, value: float) -> float:
        """Return where a value lies, from 0 to 100."""
        low, high = self.ticks[0], self.ticks[-1]
        return 100 * ((value - low) / (high - low))


def shown(tick: float) -> str:
    """Return a tick as text, with a minus sign that is as wide as a plus."""
    return f"{tick:g}".replace("-", "−")
