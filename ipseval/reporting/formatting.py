"""Numbers and names as reports write them, and texts for files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.reporting.markup import escape_controls, escape_formula
from ipseval.utils.artefacts import write_text

LEVEL = 0.05  # of tests
MOST_NAMES, MOST_LETTERS = 4, 80


def count_decimals(errors: Iterable[float], digits: int = 2, *, default: int = 4) -> int:
    """Return how many decimals show the median of standard errors with so many significant digits.

    Examples
    --------
    >>> decimals([0.0123]), decimals([0.00042, 0.0005, 3.0]), decimals([0.0, float("nan")])
    (3, 5, 4)
    """
    known = [error for error in errors if error > 0 and math.isfinite(error)]
    return max(0, digits - 1 - math.floor(math.log10(np.median(known)))) if known else default


def format_number(value: float) -> str:
    """Return a number with two decimals at most, and a minus sign.

    Examples
    --------
    >>> number(-0.334), number(3.0)
    ('−0.33', '3')
    """
    return f"{round(value, 2) + 0.0:g}".replace("-", "−")


def rounds_to_zero(value: float, places: int) -> bool:
    """Whether a number with so many decimals is printed as 0."""
    return float(f"{value:.{places}f}") == 0


def format_fixed(value: float, places: int) -> str:
    """Return a number with a fixed number of decimals, a leading zero and a minus sign.

    Examples
    --------
    >>> fixed(0.25, 3), fixed(-0.5, 1), fixed(-0.0001, 2)
    ('0.250', '−0.5', '0.00')
    >>> fixed(1234.5, 1)
    '1,234.5'
    """
    text = f"{value:,.{places}f}"
    if rounds_to_zero(value, places):
        text = text.lstrip("-")
    return text.replace("-", "−")


def format_signed_digits(value: float, digits: int) -> str:
    """Return a difference with its sign and so many significant digits.

    Examples
    --------
    >>> signed(0.0204, 2), signed(-0.00033, 1), signed(0.0, 2)
    ('+0.020', '−0.0003', '0')
    """
    if value == 0 or math.isnan(value):
        return "undefined" if math.isnan(value) else "0"
    return format_signed(value, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def format_signed(value: float, places: int) -> str:
    """Return a difference with its sign and so many decimals."""
    return f"{value:+,.{places}f}".replace("-", "−")


def format_percent(share: float, places: int = 0) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> percent(0.95), percent(0.0123, 1)
    ('95%', '1.2%')
    """
    return f"{format_fixed(100 * share, places)}%"


def format_level(level: float) -> str:
    """Return a confidence level in per cent, with as many digits as it has.

    Examples
    --------
    >>> shown_level(0.95), shown_level(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * level:.4g}%"


def format_p_value(value: float, *, most: bool = False) -> str:
    """Return a p-value as papers print it; its digits never cross the level of the test.

    `most`: the value is the largest of several, so the sign is ≤.

    Examples
    --------
    >>> shown_p(0.0001), shown_p(0.0123), shown_p(0.48), shown_p(0.0498), shown_p(1.0)
    ('p < 0.001', 'p = 0.012', 'p = 0.48', 'p = 0.0498', 'p = 1')
    >>> shown_p(0.0123, most=True)
    'p ≤ 0.012'
    """
    if math.isnan(value):
        return "not tested"
    if value < 0.001:
        return "p < 0.001"
    places = 3 if value < 0.1 else 2
    text = f"{value:.{places}f}"
    if (float(text) < LEVEL) != (value < LEVEL):
        text = f"{value:.4f}"
    if float(text) == 1:
        text = "1"
    sign = "≤" if most else "="
    return f"p {sign} {text}"


def join_names(names: Sequence[str]) -> str:
    """Return names as a list in words; of many or long ones the first, and how many more."""
    n_shown = len(names)
    while n_shown > 1 and (n_shown > MOST_NAMES or sum(map(len, names[:n_shown])) > MOST_LETTERS):
        n_shown -= 1
    if n_shown < len(names):
        names = [*names[:n_shown], f"{len(names) - n_shown} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def format_csv(frame: pd.DataFrame) -> str:
    """Return a frame as CSV in which no text is taken for a formula by a spreadsheet."""
    shown = frame.copy()
    for name in shown.columns:
        if not pd.api.types.is_numeric_dtype(shown[name]):
            shown[name] = [
                escape_controls(escape_formula(value)) if isinstance(value, str) else value
                for value in shown[name]
            ]
    return shown.to_csv(index=False)


def write_or_return(text: str, path: str | Path | None) -> str:
    """Return a text, or the path that it is written to where one is given."""
    return text if path is None else str(write_text(path, text))
