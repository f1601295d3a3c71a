"""What a value says of a row: ratings need a threshold, and 0 is no positive."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ipseval.data.reading.column_names import plain
from ipseval.errors import DataWarning, InputError, Problem
from ipseval.utils.checks import check_real
from ipseval.utils.types import AnyArray

Threshold = float | Literal["all"]
# Names that mean ratings, names that may mean them, and those of counts and grades, which need all values.
RATINGS = (
    *("rating", "ratings", "stars", "starrating", "userrating"),
    *("bookrating", "overallrating", "reviewrating"),
)
PERHAPS = ("value", "weight", "overall", "reviewoverall", "reviewscore")
MIN_LEVELS, MAX_LEVELS = 3, 21
HIGHEST = 10


@dataclass(frozen=True)
class Scale:
    """Values that look like ratings."""

    column: str
    lowest: float
    highest: float
    n_levels: int

    def problem(self) -> Problem:
        """Return what is wrong with counting all of them as positives."""
        return Problem(
            f"threshold must be given for the ratings in column {self.column!r}; got none, and a scale of "
            f"{self.n_levels} values from {self.lowest:g} to {self.highest:g}",
            f"Pass {{threshold={self.suggested:g}}} to keep ratings of at least {self.suggested:g}, or "
            "{threshold=all} to count all rows as positives",
        )

    def note(self) -> str:
        """Return what is counted: rows of which low ratings are positives as well."""
        return (
            f"rows with a rating from {self.lowest:g} to {self.highest:g} in column {self.column!r}; low "
            "ratings count as positives, because there is no threshold"
        )

    def warn(self) -> None:
        """Warn that all of them count as positives."""
        warnings.warn(
            f"Column {self.column!r} looks like ratings ({self.n_levels} values from {self.lowest:g} to "
            f"{self.highest:g}). Low ratings count as positives, because there is no threshold. Pass "
            f"threshold={self.suggested:g} to keep high ratings, or threshold='all' to count all of them.",
            DataWarning,
            stacklevel=4,
        )

    @property
    def suggested(self) -> float:
        """The value at four fifths of the scale, as 4 is of ratings from 1 to 5."""
        return float(np.floor(self.highest * 0.8)) if self.highest >= 2 else self.highest


def check_threshold(threshold: object) -> Threshold | None:
    """Return a threshold as a number, "all" or None, or raise `InputError`."""
    if threshold is None:
        return None
    if isinstance(threshold, str):
        if threshold != "all":
            raise InputError(f"threshold must be a finite number or 'all'; got {threshold!r:.80}.")
        return "all"
    return check_real("threshold", threshold)


def find_scale(values: AnyArray, column: str) -> Scale | None:
    """Return the scale of values that look like ratings: few, none above ten, in equal steps."""
    if not values.size or not (float(values.max()) <= HIGHEST):
        return None
    levels = np.unique(values)
    if not MIN_LEVELS <= levels.size <= MAX_LEVELS:
        return None
    steps = np.diff(levels)
    multiples = steps / steps.min()
    if not np.allclose(multiples, np.round(multiples), atol=1e-6):
        return None
    return Scale(column, float(levels[0]), float(levels[-1]), int(levels.size))


def means_ratings(column: str, by: str) -> Literal["yes", "perhaps", "no"]:
    """Return whether a column of values holds ratings, by its name; `by` is how it was chosen."""
    name = plain(column)
    if name in RATINGS or by == "place":
        return "yes"
    return "perhaps" if name in PERHAPS or by == "caller" else "no"
