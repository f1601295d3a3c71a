"""Format numbers, p-values and lists of names for reports, and frames for CSV files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval.reporting.markup import escape_controls, escape_formula
from ipseval.utils.artefacts import write_text

LEVEL = 0.05  # of tests
ROUNDING = 1e-4  # of the last printed decimal: values that are closer are equal up to computation
MOST_PLACES = 12
MAX_LISTED_NAMES = 4
MAX_LISTED_CHARACTERS = 80


def count_decimals(errors: Iterable[float], digits: int = 2, *, default: int = 4) -> int:
    """Return the number of decimals that show the median of standard errors with `digits` significant digits.

    Errors that are 0 or not finite are ignored; `default` is returned if no other is left.

    Examples
    --------
    >>> count_decimals([0.0123]), count_decimals([0.00042, 0.0005, 3.0]), count_decimals([0.0, float("nan")])
    (3, 5, 4)
    """
    known_errors = [error for error in errors if error > 0 and math.isfinite(error)]
    if not known_errors:
        return default
    return _count_decimals_of_value(float(np.median(known_errors)), digits)


def _count_decimals_of_value(value: float, digits: int) -> int:
    """Return the number of decimals that show a positive value with `digits` significant digits."""
    first_digit_exponent = math.floor(math.log10(value))
    return max(0, digits - 1 - first_digit_exponent)


def _replace_hyphens(text: str) -> str:
    """Return a number as text, with minus signs in place of hyphens."""
    return text.replace("-", "−")


def format_number(value: float) -> str:
    """Return a number with at most two decimals, and a minus sign.

    Examples
    --------
    >>> format_number(-0.334), format_number(3.0)
    ('−0.33', '3')
    """
    rounded_value = round(value, 2) + 0.0  # the sum turns −0.0 into 0.0
    return _replace_hyphens(f"{rounded_value:g}")


def format_inner_interval(low: float, high: float, limits: tuple[float, float]) -> str:
    """Return "[low, high]" with ends rounded inwards, so that a statement on the interval holds at the printed ends.

    Parameters
    ----------
    low, high : float
        The ends. The statement may not hold at an end itself, unless it is a limit.
    limits : tuple of float
        The lowest and the highest examined value. The statement holds at an end that is one of them, and this end
        is printed without zeros at its end.

    Returns
    -------
    str
        The interval with two decimals, or with as many as a narrow interval needs.

    Examples
    --------
    >>> format_inner_interval(-1.0, -0.695295, (-1.0, 3.0)), format_inner_interval(-0.695295, 3.0, (-1.0, 3.0))
    ('[−1, −0.70]', '[−0.69, 3]')
    >>> format_inner_interval(0.5, 0.8312, (-1.0, 3.0)), format_inner_interval(0.8312, 0.8378, (-1.0, 3.0))
    ('[0.51, 0.83]', '[0.832, 0.837]')
    """
    lowest, highest = limits
    for places in range(2, MOST_PLACES):
        inner_low = -_round_down(-low, places, is_inside=low == lowest)
        inner_high = _round_down(high, places, is_inside=high == highest)
        if inner_low <= inner_high:
            break
    low_text = format_fixed(inner_low, places)
    if low == lowest:
        low_text = format_number(inner_low)
    high_text = format_fixed(inner_high, places)
    if high == highest:
        high_text = format_number(inner_high)
    return f"[{low_text}, {high_text}]"


def _round_down(value: float, places: int, *, is_inside: bool) -> float:
    """Return the largest number with so many decimals below a value, or up to it if it `is_inside`."""
    scale = 10.0**places
    tolerance = ROUNDING if is_inside else -ROUNDING
    return math.floor(value * scale + tolerance) / scale


def rounds_to_zero(value: float, places: int) -> bool:
    """Return whether a number with `places` decimals is printed as 0."""
    return float(f"{value:.{places}f}") == 0


def format_fixed(value: float, places: int) -> str:
    """Return a number with a fixed number of decimals, a leading zero and a minus sign.

    Examples
    --------
    >>> format_fixed(0.25, 3), format_fixed(-0.5, 1), format_fixed(-0.0001, 2)
    ('0.250', '−0.5', '0.00')
    >>> format_fixed(1234.5, 1)
    '1,234.5'
    """
    text = f"{value:,.{places}f}"
    if rounds_to_zero(value, places):
        text = text.lstrip("-")
    return _replace_hyphens(text)


def format_signed_digits(value: float, digits: int) -> str:
    """Return a difference with its sign and `digits` significant digits.

    Examples
    --------
    >>> format_signed_digits(0.0204, 2), format_signed_digits(-0.00033, 1), format_signed_digits(0.0, 2)
    ('+0.020', '−0.0003', '0')
    """
    if math.isnan(value):
        return "undefined"
    if value == 0:
        return "0"
    return format_signed(value, _count_decimals_of_value(abs(value), digits))


def format_signed(value: float, places: int) -> str:
    """Return a difference with its sign and `places` decimals."""
    return _replace_hyphens(f"{value:+,.{places}f}")


def format_percent(share: float, places: int = 0) -> str:
    """Return a share in per cent.

    Examples
    --------
    >>> format_percent(0.95), format_percent(0.0123, 1)
    ('95%', '1.2%')
    """
    return f"{format_fixed(100 * share, places)}%"


def format_level(level: float) -> str:
    """Return a confidence level in per cent, with as many digits as it has.

    Examples
    --------
    >>> format_level(0.95), format_level(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * level:.4g}%"


def format_p_value(value: float, *, most: bool = False) -> str:
    """Return a p-value as papers print it; rounding never moves it across the level of the test.

    Parameters
    ----------
    value : float
        The p-value; NaN is printed as "not tested".
    most : bool, default False
        Whether the value is the largest of several: then the sign is ≤.

    Examples
    --------
    >>> [format_p_value(value) for value in (0.0001, 0.0123, 0.48, 0.0498, 1.0)]
    ['p < 0.001', 'p = 0.012', 'p = 0.48', 'p = 0.0498', 'p = 1']
    >>> format_p_value(0.0123, most=True)
    'p ≤ 0.012'
    """
    if math.isnan(value):
        return "not tested"
    if value < 0.001:
        return "p < 0.001"

    text = f"{value:.2f}"
    if value < 0.1:
        text = f"{value:.3f}"
    crosses_level = (float(text) < LEVEL) != (value < LEVEL)
    if crosses_level:
        text = f"{value:.4f}"
    if float(text) == 1:
        text = "1"

    sign = "="
    if most:
        sign = "≤"
    return f"p {sign} {text}"


def join_names(names: Sequence[str]) -> str:
    """Return names as an enumeration; of many or long names, the first ones and the number of the others.

    Examples
    --------
    >>> join_names(["als", "bpr", "pop"])
    'als, bpr and pop'
    """
    n_listed = _count_listed_names(names)
    entries = list(names[:n_listed])
    n_others = len(names) - n_listed
    if n_others > 0:
        entries.append(f"{n_others} more")
    if len(entries) == 1:
        return entries[0]
    return f"{', '.join(entries[:-1])} and {entries[-1]}"


def _count_listed_names(names: Sequence[str]) -> int:
    """Return the number of first names that an enumeration has space for, at least one."""
    n_listed = min(len(names), MAX_LISTED_NAMES)
    n_characters = sum(map(len, names[:n_listed]))
    while n_listed > 1 and n_characters > MAX_LISTED_CHARACTERS:
        n_listed -= 1
        n_characters -= len(names[n_listed])
    return n_listed


def format_csv(frame: pd.DataFrame) -> str:
    """Return a frame as CSV in which a spreadsheet reads no text as a formula."""
    safe_frame = frame.copy()
    for name in safe_frame.columns:
        if not pd.api.types.is_numeric_dtype(safe_frame[name]):
            safe_frame[name] = list(map(_make_csv_value_safe, safe_frame[name]))
    return safe_frame.to_csv(index=False)


def _make_csv_value_safe(value: Any) -> Any:
    """Return a value of a CSV file without control characters and formulas; only text is changed."""
    if isinstance(value, str):
        return escape_controls(escape_formula(value))
    return value


def write_or_return(text: str, path: str | Path | None) -> str:
    """Write a text to a path and return the path, or return the text if the path is None."""
    if path is None:
        return text
    return str(write_text(path, text))
