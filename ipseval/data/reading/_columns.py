"""Columns as codes of ids, numbers, times and truth values; what does not fit becomes a `Problem`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval._base.checks import examples
from ipseval._base.columns import ids_of, series_of
from ipseval._base.ids import EXACT, Ids
from ipseval._base.types import AnyArray, BoolArray, IntArray
from ipseval.errors import InputError, Problem

Units = Literal["auto", "s", "ms", "us", "ns", "none"]
UNITS = ("auto", "s", "ms", "us", "ns", "none")
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
FIRST, LAST = 315_532_800, 4_102_444_800  # 1980 and 2100, in seconds since 1970
DECIMAL = r"[-+]?\d*,\d+"  # as 4,5 is written in much of Europe
THOUSANDS = r"[-+]?[1-9]\d{0,2},\d{3}"  # 1,234: perhaps a number of that kind
_CANONICAL = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.0+)?")


def encoded(column: Any, name: str, *, from_text: bool = False) -> Ids:
    """Return a column (of narwhals) as codes of its distinct ids."""
    # Of a text file, ids are whole numbers if all are written as such: beside 007 all are text.
    found = ids_of(column, name)
    ids = found.ids
    if ids.dtype.kind == "f" and (ids == np.floor(ids)).all() and (np.abs(ids) < EXACT).all():
        return Ids(found.codes, ids.astype(np.int64))  # beside missing ones, as pandas has them
    return Ids(*_as_numbers(found)) if from_text else found


def _with_missing(series: pd.Series) -> AnyArray:
    """Return a column as an array; missing entries stay missing."""
    return (series if isinstance(series.dtype, np.dtype) else series.astype(object)).to_numpy()


def _as_numbers(found: Ids) -> tuple[IntArray, AnyArray]:
    """Return ids of a text file as whole numbers where all of them are such."""
    matches = [_CANONICAL.fullmatch(one) for one in found.ids.tolist()]
    numbers = np.array([int(one[1]) for one in matches if one], dtype=np.int64)
    if not found.ids.size or not all(matches) or np.unique(numbers).size < numbers.size:
        return found.codes, found.ids
    order = np.argsort(numbers)
    rank = np.empty(order.size + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(order.size), -1
    return rank[found.codes], numbers[order]


def rows_said(mask: BoolArray) -> str:
    """Return the first three rows of a mask in words, counted from 0."""
    rows = np.flatnonzero(mask)
    shown = ", ".join(f"{row:,}" for row in rows[:3]) + (", …" if rows.size > 3 else "")
    return f"first: row{'s' if rows.size > 1 else ''} {shown}"


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers, NaN or a mask where they are missing, and what does not fit."""

    values: AnyArray
    missing: BoolArray
    problem: Problem | None = None
    said: str = ""  # what the column was read as, behind its name


def odd_entries(odd: BoolArray, values: AnyArray, name: str, what: str, way_out: str) -> Problem | None:
    """Return the problem of entries of a column that do not fit; None where there is none."""
    if not odd.any():
        return None
    counted = f"{int(odd.sum()):,} of {odd.size:,} entries of {name} {what}"
    return Problem(f"{counted} ({rows_said(odd)}: {examples(values[odd][:1])})", way_out)


def numbers(column: Any, name: str, role: str, *, infinite: bool = False) -> Numbers:
    """Return a column of numbers; text that holds numbers is one, and what is none is named and counted."""
    # `infinite`: infinite ones are numbers as well.
    values = _with_missing(series_of(column))
    missing = np.asarray(pd.isna(values))
    if values.dtype.kind in "iub" and values.dtype != np.uint64:
        return Numbers(values.astype(np.int64), missing)
    series = pd.Series(values, dtype=values.dtype)
    parsed, said, doubt = pd.to_numeric(series, errors="coerce"), "", False
    if values.dtype.kind in "mMc":  # a date is no number of something
        parsed = pd.Series(np.full(values.size, np.nan))
    text = series[parsed.isna() & ~missing].astype(str).str.strip()
    if values.dtype == object and text.str.fullmatch(DECIMAL).any():
        doubt = bool(text.str.fullmatch(THOUSANDS).all())
        points = series[~missing].astype(str).str.contains(".", regex=False).any()
        if text.str.fullmatch(DECIMAL).all() and not points and not doubt:
            parsed = pd.to_numeric(series.astype(str).str.replace(",", "."), errors="coerce")
            said = " with decimal commas"
    is_whole = parsed.dtype.kind in "iu"
    array = parsed.to_numpy() if is_whole else parsed.to_numpy(dtype=np.float64, na_value=np.nan)
    odd = ~missing & ~(~np.isnan(array) if infinite else np.isfinite(array))
    what = "may be thousands or fractions" if doubt else "are no finite numbers"
    way_out = "Write them without commas" if doubt else "Correct them"
    problem = odd_entries(odd, values, name, what, f"{way_out}, or choose another column by {{{role}}}")
    return Numbers(array, missing, problem, said)


def times(column: Any, name: str, units: Units) -> Numbers:
    """Return a column of times: dates where they are such, or are told to be; else numbers."""
    series = series_of(column)
    values = _dates(series)
    if values is None:
        raw = _with_missing(series)
        missing = np.asarray(pd.isna(raw))
        is_text = raw.dtype == object and any(isinstance(one, str) for one in raw[~missing][:1])
        if is_text and pd.to_numeric(pd.Series(raw[~missing][:1]), errors="coerce").isna().all():
            return _of_written(raw, missing, name)
        found = numbers(column, name, "timestamp")
        return found if found.problem else _in_units(found, name, units)
    return Numbers(values, np.isnat(values), None, " in dates")


def _dates(series: pd.Series) -> AnyArray | None:
    """Return a column of dates as datetime64, with a time zone turned into UTC; None for other columns."""
    first = next(iter(series.dropna()), None)
    if not hasattr(first, "year") and series.dtype.kind != "M":
        return None
    dates = series if series.dtype.kind == "M" else series.astype(object)
    parsed = pd.to_datetime(dates, utc=True, errors="coerce").dt.tz_localize(None)
    return np.asarray(parsed.to_numpy(dtype=None if parsed.dtype.kind == "M" else "datetime64[ns]"))


def _of_written(raw: AnyArray, missing: BoolArray, name: str) -> Numbers:
    """Return times that are written out as ISO 8601, with or without a time zone (then it is UTC)."""
    parsed = pd.to_datetime(pd.Series(raw), utc=True, errors="coerce", format="ISO8601")
    values = parsed.dt.tz_localize(None).to_numpy()
    what = "are no times as ISO 8601 writes them, such as '2026-03-01T12:00:00+01:00'"
    problem = odd_entries(
        np.isnat(values) & ~missing, raw, name, what, "Write them so, or turn them into dates"
    )
    return Numbers(values, missing, problem, " in dates")


def _in_units(found: Numbers, name: str, units: Units) -> Numbers:
    """Return times that are numbers in nanoseconds since 1970, where their unit is given or plain to see."""
    values = found.values
    kept = values[~found.missing]
    if units == "auto":
        units = "none"
        if kept.size:
            low, high = kept.min(), kept.max()
            for unit, factor in NANOSECONDS.items():
                per_second = 10**9 // factor
                if low >= FIRST * per_second and high < LAST * per_second:
                    units = unit  # type: ignore[assignment]  # a key of NANOSECONDS
    if units == "none":
        return Numbers(values, found.missing, None, " in numbers")
    factor = NANOSECONDS[units]
    limit = (2**63 - 1) // factor
    late = ~found.missing & (np.abs(values) > limit)
    way_out = "Give their unit by {units}, or keep the numbers by {units=none}"
    problem = odd_entries(late, values, name, f"lie beyond the year 2262 as {WORDS[units]}", way_out)
    if problem is not None:
        return Numbers(values, found.missing, problem)
    whole = np.where(found.missing, 0, values)
    rest = whole - np.floor(whole)  # apart from the whole part, as doubles do not hold both in nanoseconds
    scaled = np.floor(whole).astype(np.int64) * factor + np.round(rest * factor).astype(np.int64)
    dates = scaled.view("datetime64[ns]")
    dates[found.missing] = np.datetime64("NaT", "ns")
    return Numbers(dates, found.missing, None, f" in {WORDS[units]} since 1970")


def truths(column: Any, name: str, role: str) -> Numbers:
    """Return a column of True and False, 1 and 0, or these as text, as a mask."""
    values = _with_missing(series_of(column))
    missing = np.asarray(pd.isna(values))
    if values.dtype.kind in "biuf" and np.isin(values, (0, 1)).all():
        return Numbers(values == 1, missing)
    known = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
    meant = pd.Series(values[~missing].astype(str)).str.strip().str.lower().map(known)
    mask, odd = np.zeros((2, values.size), dtype=bool)
    mask[~missing], odd[~missing] = meant.eq(True), meant.isna()
    way_out = f"Make them so, or choose another column by {{{role}}}"
    what = "are neither True and False nor 1 and 0"
    return Numbers(mask, missing, odd_entries(odd, values, name, what, way_out))


def tried(problems: list[Problem], action: Any, *arguments: Any, **options: Any) -> Any:
    """Return what an action gives; an `InputError` of it becomes a problem, and None is returned."""
    try:
        return action(*arguments, **options)
    except InputError as error:
        text = str(error).strip()
        what, _, way_out = text.rstrip(".").partition(". ")
        problems.append(Problem(what, way_out))
        return None
