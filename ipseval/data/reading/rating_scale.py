"""Thresholds for values, and scales of ratings, which need a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ipseval.data.reading.column_names import Evidence, normalize_name
from ipseval.errors import DataWarning, InputError, Problem
from ipseval.utils.checks import check_real, warn_user
from ipseval.utils.types import AnyArray

Threshold = float | Literal["all"]

# Names of ratings, and names that may mean ratings. All values of columns with other names are positives.
RATING_NAMES = frozenset(
    {
        "rating",
        "ratings",
        "stars",
        "starrating",
        "userrating",
        "bookrating",
        "overallrating",
        "reviewrating",
    }
)
AMBIGUOUS_NAMES = frozenset({"value", "weight", "overall", "reviewoverall", "reviewscore"})
MIN_LEVELS = 3
MAX_LEVELS = 21
MAX_RATING = 10


@dataclass(frozen=True)
class RatingScale:
    """Describe the values of a column that look like ratings."""

    column: str
    lowest: float
    highest: float
    n_levels: int

    def to_problem(self) -> Problem:
        """Return the problem that all ratings would count as positives."""
        return Problem(
            f"threshold must be given for the ratings in column {self.column!r}; got none, and a scale of "
            f"{self.n_levels} values from {self.lowest:g} to {self.highest:g}",
            f"Pass {{threshold={self.suggested_threshold:g}}} to keep ratings of at least "
            f"{self.suggested_threshold:g}, or {{threshold=all}} to count all rows as positives",
        )

    def describe_rows(self) -> str:
        """Return the description of a count of rows with low ratings, which are positives as well."""
        return (
            f"rows with a rating from {self.lowest:g} to {self.highest:g} in column {self.column!r}; low "
            "ratings count as positives, because there is no threshold"
        )

    def warn(self) -> None:
        """Warn that low ratings count as positives."""
        warn_user(
            f"Column {self.column!r} looks like ratings ({self.n_levels} values from {self.lowest:g} to "
            f"{self.highest:g}). Low ratings count as positives, because there is no threshold.",
            DataWarning,
            advice=f"Pass {{threshold={self.suggested_threshold:g}}} to keep high ratings, or {{threshold=all}} "
            "to count all of them",
        )

    @property
    def suggested_threshold(self) -> float:
        """Value at four fifths of the scale, such as 4 for ratings from 1 to 5."""
        if self.highest < 2:
            return self.highest
        return float(np.floor(self.highest * 0.8))


def check_threshold(threshold: object) -> Threshold | None:
    """Return a threshold as a number, "all" or None.

    Parameters
    ----------
    threshold : object
        A finite number, "all" or None.

    Returns
    -------
    float, "all" or None
        The threshold.

    Raises
    ------
    InputError
        For any other value.

    See Also
    --------
    ipseval.read : Its argument `threshold` is the smallest value of a positive.

    Examples
    --------
    >>> check_threshold(4), check_threshold("all")
    (4.0, 'all')
    """
    if threshold is None:
        return None
    if isinstance(threshold, str):
        if threshold != "all":
            raise InputError(f"threshold must be a finite number or 'all'; got {threshold!r:.80}.")
        return "all"
    return check_real("threshold", threshold)


def find_rating_scale(values: AnyArray, column: str) -> RatingScale | None:
    """Return the scale of values that look like ratings: few levels, at most 10, in equal steps."""
    if not values.size or not (float(values.max()) <= MAX_RATING):
        return None
    levels = np.unique(values)
    if not MIN_LEVELS <= levels.size <= MAX_LEVELS:
        return None
    steps = np.diff(levels)
    multiples = steps / steps.min()
    if not np.allclose(multiples, np.round(multiples), atol=1e-6):
        return None
    return RatingScale(
        column=column, lowest=float(levels[0]), highest=float(levels[-1]), n_levels=int(levels.size)
    )


def means_ratings(column: str, evidence: Evidence | None) -> Literal["yes", "perhaps", "no"]:
    """Return whether a column of values holds ratings, by its name and by how it was found.

    Parameters
    ----------
    column : str
        Name of the column.
    evidence : {"position", "name"} or None
        How the column was found; None if the caller has named it.
    """
    name = normalize_name(column)
    if name in RATING_NAMES or evidence == "position":
        return "yes"
    if name in AMBIGUOUS_NAMES or evidence is None:
        return "perhaps"
    return "no"
