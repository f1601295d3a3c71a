"""Gains of graded metrics: the relevance grade of a held-out positive, or 2^grade − 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics.base import Parameter, build_choice_parser
from ipseval.utils.types import AnyArray, FloatArray

if TYPE_CHECKING:
    from ipseval.metrics.base import Metric
    from ipseval.ranking import RankedPositives

Gain = Literal["binary", "linear", "exponential"]
GAIN = Parameter(
    "binary", build_choice_parser("binary", "linear", "exponential"), "1, relevance, or 2^relevance − 1"
)

# Squares of gains times weights enter standard errors. Weights lie between 1e-100 and 1e100, so within these
# limits the squares neither overflow nor become 0.
SMALLEST_GAIN = 1e-50
LARGEST_GAIN = 1e50
LARGEST_EXPONENT = 166  # 2^166 is just below LARGEST_GAIN


def compute_gains(positives: RankedPositives, gain: str, label: str) -> FloatArray:
    """Return the gain of each positive, (n_pos,): its grade, or 2^grade − 1.

    Raises
    ------
    InputError
        When the positives have no grades, and for grades that are negative, not finite or out of range.
    """
    if positives.gain is None:
        raise InputError(
            f"{label} requires graded relevance, but the test interactions have no value.",
            advice="Name the column by {value} when the log is read or the split is made",
        )
    check_grades(positives.gain, gain, label)
    return convert_grades(positives.gain, gain)


def convert_grades(grades: AnyArray, gain: str) -> FloatArray:
    """Return the gains of checked grades, (n,)."""
    if gain == "linear":
        return np.asarray(grades, dtype=np.float64)
    # Near 0 the difference 2^grade − 1 loses its digits; expm1 keeps them.
    return np.where(grades < 0.5, np.expm1(grades * np.log(2.0)), np.exp2(grades) - 1)


def check_grades(grades: AnyArray, gain: str, label: str) -> None:
    """Raise `InputError`, with the count and the first value, unless gains can be computed."""
    unusable = ~(np.isfinite(grades) & (grades >= 0))
    if unusable.any():
        raise InputError(
            f"the gain of {label} must be finite and at least 0; got {_first_value(grades, unusable)}. "
            "Shift the grades so that the lowest is 0, or leave out the rows with a negative grade."
        )
    largest = LARGEST_GAIN
    if gain == "exponential":
        largest = LARGEST_EXPONENT
    too_large = grades > largest
    if too_large.any():
        raise InputError(
            f"the gain of {label} must be computed from grades of at most {largest:g}; got "
            f"{_first_value(grades, too_large)}. {_advise_smaller_grades(gain)}"
        )
    too_small = (grades > 0) & (grades < SMALLEST_GAIN)
    if too_small.any():
        raise InputError(
            f"the gain of {label} must be 0 or at least {SMALLEST_GAIN:g}; got "
            f"{_first_value(grades, too_small)}. Multiply all grades by the same number."
        )


def check_test_grades(metrics: Iterable[Metric], grades: AnyArray) -> None:
    """Raise `InputError` for grades of a test part that a requested metric cannot read."""
    for metric in metrics:
        gain = getattr(metric, "gain", "binary")
        if gain in ("linear", "exponential"):
            check_grades(grades, gain, metric.label)


def _first_value(grades: AnyArray, is_wrong: AnyArray) -> str:
    """Return the first wrong grade and the number of wrong ones, as text."""
    n_wrong = int(is_wrong.sum())
    return f"{grades[is_wrong][0]:g} (in {n_wrong:,} of {grades.size:,} held-out positives)"


def _advise_smaller_grades(gain: str) -> str:
    """Return the suggested fix for grades that are too large."""
    if gain == "exponential":
        return "Use gain=linear, or grades on a smaller scale such as 0 to 4."
    return "Divide all grades by the same number."
