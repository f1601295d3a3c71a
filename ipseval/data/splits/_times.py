"""Times and lengths of time in the unit of timestamps: numbers, or dates as nanoseconds since 1970."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.checks import check_real
from ipseval.utils.types import AnyArray

Number: TypeAlias = int | float | np.integer[Any] | np.floating[Any]
TimeLike: TypeAlias = Number | str | date | np.datetime64
DurationLike: TypeAlias = Number | str | timedelta | np.timedelta64

# Larger whole numbers are nanoseconds: in seconds or microseconds they would lie beyond the year 5000.
MIN_NANOSECONDS = 10**17
MAX_DURATION = 2**62  # a longer duration, added to a time, could exceed 64 bits


def _is_number(value: object) -> TypeGuard[Number]:
    """Return whether a value is a number, and not a truth value or a length of time of NumPy."""
    if not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return type(value) not in (bool, np.timedelta64)


def to_time(value: TimeLike, name: str) -> Number:
    """Return a number unchanged, and a date as nanoseconds since 1970, which is how timestamps are stored."""
    # A date with a time zone is that instant. A date without one is in UTC, as in a log.
    if _is_number(value):
        # A Python number is compared exactly with 2^63.
        python_number = value.item() if isinstance(value, np.number) else value
        if not -(2**63) < python_number < 2**63:
            raise InputError(f"{name} must be within 64 bits, as timestamps are; got {value!r:.80}.")
        return value
    if not isinstance(value, (str, date, np.datetime64)):
        raise InputError(f"{name} must be a number or a date; got {type(value).__name__}.")
    try:
        time = pd.Timestamp(value)
        if not pd.isna(time):
            return int(time.as_unit("ns").value)
    except (TypeError, ValueError):
        pass
    raise InputError(f"{name} must be a number or a date; got {value!r:.80}.")


def to_duration(value: DurationLike, name: str, timestamps: AnyArray, *, allow_zero: bool = False) -> Number:
    """Return a length of time in the unit of the timestamps; text such as "7D" needs dates."""
    if _is_number(value):
        return _check_duration(name, value, allow_zero)
    if not isinstance(value, (str, timedelta, np.timedelta64)):
        raise InputError(f"{name} must be a number or a length of time; got {type(value).__name__}.")
    try:
        nanoseconds = int(pd.Timedelta(value).as_unit("ns").value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or a length such as '7D'; got {value!r:.80}.") from None
    if not are_dates(timestamps):
        raise InputError(
            f"{name}={value!r} is for timestamps that were dates; these run up to {timestamps.max()}. Give a "
            "number in their unit, for example 7 * 86400 for a week in seconds."
        )
    return _check_duration(name, nanoseconds, allow_zero)


def _check_duration(name: str, duration: Number, allow_zero: bool) -> Number:
    """Return a duration, or raise `InputError` unless it is above 0 (or 0, if allowed) and at most 2^62."""
    check_real(name, duration, low=0, low_open=not allow_zero)
    if duration > MAX_DURATION:
        raise InputError(f"{name} must be at most 2^62; got {duration!r:.80}.")
    return duration


def are_dates(timestamps: AnyArray) -> bool:
    """Return whether timestamps are nanoseconds since 1970, which is how dates are stored."""
    return bool(timestamps.dtype.kind == "i" and abs(int(timestamps.max())) >= MIN_NANOSECONDS)


def format_time(time: Number) -> str:
    """Return a time as text: nanoseconds since 1970 as a date, and other numbers unchanged."""
    is_date = isinstance(time, (int, np.integer)) and MIN_NANOSECONDS <= abs(int(time)) < 2**63
    if not is_date:
        return str(time)
    return str(pd.Timestamp(int(time), unit="ns")).removesuffix(" 00:00:00")
