"""Columns of times: dates, text in ISO 8601, and numbers in a unit of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoSeries

from ipseval.data.reading._value_columns import (
    ValueColumn,
    describe_entries,
    read_numbers,
    replace_missing_names,
    to_array,
)
from ipseval.utils.columns import to_pandas_series
from ipseval.utils.types import AnyArray, BoolArray

Units = Literal["auto", "s", "ms", "us", "ns", "none"]
Unit = Literal["s", "ms", "us", "ns"]
UNITS = ("auto", "s", "ms", "us", "ns", "none")
NANOSECONDS_PER_UNIT: dict[Unit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
UNIT_NAMES: dict[Unit, str] = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
# Numbers are times in a unit if they lie between 1980 and 2100, in seconds since 1970.
FIRST_SECOND = 315_532_800
LAST_SECOND = 4_102_444_800


def read_times(
    column: nw.Series[IntoSeries], name: str, units: Units, na_values: Sequence[str] = ()
) -> ValueColumn:
    """Return a column of times: dates, or numbers if they are not times in a known unit."""
    series = to_pandas_series(column)
    dates = convert_dates(series)
    if dates is not None:
        return ValueColumn(dates, np.isnat(dates), None, " in dates")
    values = replace_missing_names(to_array(series), na_values)
    missing = np.asarray(pd.isna(values))
    if _starts_with_text(values, missing):
        return _parse_iso_times(values, missing, name)
    numbers = read_numbers(column, name, "timestamp", na_values=na_values)
    if numbers.problem is not None:
        return numbers
    if units == "auto":
        return _convert_in_likely_unit(numbers, name)
    if units == "none":
        return _keep_numbers(numbers)
    return _convert_to_dates(numbers, name, units)


def _starts_with_text(values: AnyArray, missing: BoolArray) -> bool:
    """Return whether the first entry is text that is not a number."""
    if values.dtype != object:
        return False
    first_entry = values[~missing][:1]
    if not first_entry.size or not isinstance(first_entry[0], str):
        return False
    return bool(pd.to_numeric(pd.Series(first_entry), errors="coerce").isna().all())


def convert_dates(series: pd.Series) -> AnyArray | None:
    """Return a column of dates as datetime64 in UTC; None for a column of other entries."""
    first_entry = next(iter(series.dropna()), None)
    if not hasattr(first_entry, "year") and series.dtype.kind != "M":
        return None
    if isinstance(series.dtype, pd.ArrowDtype) and series.dtype.kind == "M":
        return _convert_arrow_times(series)
    if series.dtype.kind != "M":
        series = series.astype(object)
    parsed = pd.to_datetime(series, utc=True, errors="coerce").dt.tz_localize(None)
    dtype = None
    if parsed.dtype.kind != "M":
        dtype = "datetime64[ns]"
    return np.asarray(parsed.to_numpy(dtype=dtype))


def _convert_arrow_times(series: pd.Series) -> AnyArray:
    """Return Arrow timestamps as datetime64 of the same unit in UTC.

    `pandas.to_datetime` would make a Python object of every timestamp whose unit is not the nanosecond.
    """
    unit = series.dt.unit
    if series.dt.tz is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    missing = np.datetime64("NaT", unit)
    return np.asarray(series.to_numpy(dtype=f"datetime64[{unit}]", na_value=missing))


def _parse_iso_times(values: AnyArray, missing: BoolArray, name: str) -> ValueColumn:
    """Return times that are written in ISO 8601; times without a time zone are UTC."""
    parsed = pd.to_datetime(pd.Series(values), utc=True, errors="coerce", format="ISO8601")
    dates = parsed.dt.tz_localize(None).to_numpy()
    problem = describe_entries(
        np.isnat(dates) & ~missing,
        values,
        name,
        "are not times in ISO 8601, such as '2026-03-01T12:00:00+01:00'",
        "Write them in this format, or convert them to dates",
    )
    return ValueColumn(dates, missing, problem, " in dates")


def _keep_numbers(numbers: ValueColumn) -> ValueColumn:
    """Return times that stay numbers, because they have no known unit."""
    return ValueColumn(numbers.values, numbers.missing, None, " in numbers")


def _convert_in_likely_unit(numbers: ValueColumn, name: str) -> ValueColumn:
    """Return numbers as dates in the unit that puts all of them between 1980 and 2100."""
    values = numbers.values[~numbers.missing]
    if not values.size:
        return _keep_numbers(numbers)
    shares = {unit: _compute_share_in_range(values, unit) for unit in NANOSECONDS_PER_UNIT}
    unit = max(shares, key=lambda unit: shares[unit])
    if shares[unit] == 1:
        return _convert_to_dates(numbers, name, unit)
    if shares[unit] <= 0.5:
        return _keep_numbers(numbers)
    problem = describe_entries(
        ~numbers.missing & ~_is_in_range(numbers.values, unit),
        numbers.values,
        name,
        f"lie outside of 1980 to 2100 in {UNIT_NAMES[unit]}, the unit of the other entries",
        "Correct them, or pass {units=none} to keep the numbers",
    )
    return ValueColumn(numbers.values, numbers.missing, problem)


def _is_in_range(values: AnyArray, unit: Unit) -> BoolArray:
    """Return which numbers are times between 1980 and 2100 in a unit."""
    per_second = 10**9 // NANOSECONDS_PER_UNIT[unit]
    return np.asarray((values >= FIRST_SECOND * per_second) & (values < LAST_SECOND * per_second))


def _compute_share_in_range(values: AnyArray, unit: Unit) -> float:
    """Return the share of numbers that are times between 1980 and 2100 in a unit."""
    per_second = 10**9 // NANOSECONDS_PER_UNIT[unit]
    extremes = np.array([values.min(), values.max()])
    if extremes[1] < FIRST_SECOND * per_second or extremes[0] >= LAST_SECOND * per_second:
        return 0.0
    if _is_in_range(extremes, unit).all():
        return 1.0
    return float(_is_in_range(values, unit).mean())


def _convert_to_dates(numbers: ValueColumn, name: str, unit: Unit) -> ValueColumn:
    """Return numbers in a unit of time since 1970 as dates in nanoseconds."""
    factor = NANOSECONDS_PER_UNIT[unit]
    limit = int(np.iinfo(np.int64).max) // factor
    problem = describe_entries(
        ~numbers.missing & (np.abs(numbers.values) > limit),
        numbers.values,
        name,
        f"lie beyond the year 2262 in {UNIT_NAMES[unit]}",
        "Give their unit by {units}, or keep the numbers by {units=none}",
    )
    if problem is not None:
        return ValueColumn(numbers.values, numbers.missing, problem)
    values = np.where(numbers.missing, 0, numbers.values)
    if values.dtype.kind in "iu":
        nanoseconds = values.astype(np.int64) * factor
    else:
        # The fractional part is converted separately, because doubles do not hold nanoseconds exactly.
        integer_part = np.floor(values)
        fractional_part = values - integer_part
        nanoseconds = integer_part.astype(np.int64) * factor
        nanoseconds += np.round(fractional_part * factor).astype(np.int64)
    dates = nanoseconds.view("datetime64[ns]")
    dates[numbers.missing] = np.datetime64("NaT", "ns")
    return ValueColumn(dates, numbers.missing, None, f" in {UNIT_NAMES[unit]} since 1970")
