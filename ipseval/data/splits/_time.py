"""Points in time and durations, as timestamps are stored: numbers, dates as nanoseconds since 1970."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import check_real, real_number
from ipseval._base.types import AnyArray
from ipseval.errors import InputError

# Whole numbers from here on are nanoseconds: as seconds or microseconds they would lie beyond the year 5000.
NANOSECONDS = 10**17
LONGEST = 2**62  # a longer one, added to a time, could leave 64 bits


def as_time(value: Any, name: str) -> Any:
    """Return a number as it is and a date as nanoseconds since 1970, as timestamps are stored.

    A date with a time zone is that instant; one without is read in UTC, as are dates in a log.
    """
    if isinstance(value, (int, float, np.integer, np.floating)) and type(value) not in (bool, np.timedelta64):
        if not abs(real_number(value)) < 2**63:
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


def as_duration(value: Any, name: str, time: AnyArray, *, low_open: bool = True) -> Any:
    """Return a length of time in the unit of timestamps; text such as "7D" is for dates only."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return _in_range(name, value, low_open)
    if not isinstance(value, (str, timedelta, np.timedelta64)):
        raise InputError(f"{name} must be a number or a length of time; got {type(value).__name__}.")
    try:
        length = pd.Timedelta(value).as_unit("ns").value
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or a length such as '7D'; got {value!r:.80}.") from None
    if not are_dates(time):
        raise InputError(
            f"{name}={value!r} is for timestamps that were dates; these run up to {time.max()}. Give a "
            "number in their unit, for example 7 * 86400 for a week in seconds."
        )
    return _in_range(name, int(length), low_open)


def _in_range(name: str, length: Any, low_open: bool) -> Any:
    check_real(name, length, low=0, low_open=low_open)
    if length > LONGEST:
        raise InputError(f"{name} must be at most 2^62; got {length!r:.80}.")
    return length


def are_dates(time: AnyArray) -> bool:
    """Return whether timestamps are nanoseconds since 1970, as dates are stored."""
    return bool(time.dtype.kind == "i" and time.size and abs(int(time.max())) >= NANOSECONDS)


def said(time: Any) -> str:
    """Return a time as text; dates are stored as nanoseconds since 1970, and shown as dates."""
    if not isinstance(time, (int, np.integer)) or not NANOSECONDS <= abs(int(time)) < 2**63:
        return str(time)
    shown = pd.Timestamp(int(time), unit="ns")
    return str(shown.date() if shown == shown.normalize() else shown)
