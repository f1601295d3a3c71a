"""Columns as codes of ids, numbers, times and truth values; what does not fit becomes a `Problem`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.data.reading._cells import is_bracketed, is_several
from ipseval.errors import InputError, Problem
from ipseval.utils.checks import examples
from ipseval.utils.columns import ids_of, series_of
from ipseval.utils.counts import Count, some
from ipseval.utils.ids import EXACT, Ids, places
from ipseval.utils.types import AnyArray, BoolArray, IntArray

Units = Literal["auto", "s", "ms", "us", "ns", "none"]
UNITS = ("auto", "s", "ms", "us", "ns", "none")
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
FIRST, LAST = 315_532_800, 4_102_444_800  # 1980 and 2100, in seconds since 1970
DECIMAL = r"[-+]?\d*,\d+"  # as 4,5 is written in much of Europe
THOUSANDS = r"[-+]?[1-9]\d{0,2},\d{3}"  # 1,234: perhaps a number of that kind
# As a spreadsheet shortens long numbers: 1.23457E+12.
_EXCEL = re.compile(r"-?\d([.,]\d+)?E\+\d{2,}")
FOOTERS = {"total", "totals", "grandtotal", "sum", "summe", "count", "eof", "end", "endoffile", "rows"}
_CANONICAL = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.0+)?")


@dataclass(frozen=True, eq=False)
class IdColumn:
    """A column of ids, what was done to them, and what does not fit."""

    ids: Ids
    notes: tuple[Count, ...] = ()
    problems: tuple[Problem, ...] = ()


def encode(
    column: Any, name: str, *, from_text: bool = False, na_values: Sequence[str] = (), strip: bool = False
) -> IdColumn:
    """Return a column (of narwhals) as codes of its distinct ids."""
    # Of a text file, ids are whole numbers if all are written as such: beside 007 all are text.
    ids = _without(ids_of(column, name), na_values)
    values = ids.ids
    if values.dtype.kind == "f" and (values == np.floor(values)).all() and (np.abs(values) < EXACT).all():
        return IdColumn(Ids(ids.codes, values.astype(np.int64)))  # beside missing ones, as pandas has them
    is_text = values.dtype == object and all(isinstance(label, str) for label in values)
    if not is_text or not (from_text or strip):
        return IdColumn(ids)
    stripped, n_stripped = _strip(ids)
    numbers_or_text = _as_numbers(stripped) if from_text else stripped
    notes = some(
        Count(f"entries of {name} with blanks around them, which were removed", n_stripped, len(ids))
    )
    problems = _find_odd_ids(numbers_or_text, name) if from_text else []
    return IdColumn(numbers_or_text, notes, tuple(problems))


def _without(ids: Ids, na_values: Sequence[str]) -> Ids:
    """Return ids without those that name a missing entry."""
    missing: list[Any] = [*na_values, *map(_number_of, na_values)]
    is_missing = np.isin(ids.ids.astype(object), np.array(missing, dtype=object))
    if not na_values or not is_missing.any():
        return ids
    rank = np.append(np.where(is_missing, -1, np.cumsum(~is_missing) - 1), -1)
    return Ids(rank[ids.codes], ids.ids[~is_missing])


def _number_of(text: str) -> object:
    """Return the number that a text is, or the text."""
    try:
        return float(text)
    except ValueError:
        return text


def _strip(ids: Ids) -> tuple[Ids, int]:
    """Return ids without blanks around them, and how many entries had some; what is left empty is missing."""
    has_blanks = np.array([not label or label != label.strip() for label in ids.ids], dtype=bool)
    if not has_blanks.any():
        return ids, 0
    n_stripped = int(np.append(has_blanks, False)[ids.codes].sum())
    codes, labels = pd.factorize(
        np.array([label.strip() or None for label in ids.ids], dtype=object), sort=True
    )
    return Ids(np.append(codes, -1)[ids.codes], labels), n_stripped


def _find_odd_ids(ids: Ids, name: str) -> list[Problem]:
    """Return what is wrong with ids of a text file: Excel's notation, lists, quotation marks, a last line."""
    if ids.ids.dtype != object or not ids.ids.size:
        return []
    labels = ids.ids.tolist()
    together = "\n".join(labels)
    kinds = (
        (
            _EXCEL.fullmatch,
            "E+" in together,
            f"{name} must hold whole ids; got numbers that a spreadsheet has shortened",
            "Export the ids as text",
        ),
        (
            lambda label: is_bracketed(label) or is_several(label),
            re.search(r"[ ,;|\[({]", together) is not None,
            f"{name} must hold one id in each cell, or a list in each; got both",
            "Write each id into a row of its own",
        ),
        (
            lambda label: label.startswith('"'),
            '"' in together,
            f"{name} must hold ids without quotation marks; got some, because they are not balanced",
            "Correct the line with a single quotation mark",
        ),
    )
    problems = []
    for is_odd, may_occur, what, way_out in kinds:
        odd = [label for label in labels if is_odd(label)] if may_occur else []
        if odd:
            problems.append(
                Problem(f"{what} ({len(odd):,} of {len(labels):,} ids: {examples(odd)})", way_out)
            )
    last = ids.codes[-1] if len(ids) else -1
    if last >= 0 and int((ids.codes == last).sum()) == 1 and _is_footer(labels, int(last)):
        what = f"the last row must be a row of the log; got a line such as {labels[last]!r} in {name}"
        problems.append(Problem(what, "Remove that line"))
    return problems


def _is_footer(labels: list[str], last: int) -> bool:
    """Return whether the id of the last row is a word of a summary, or text below whole numbers alone."""
    label = labels[last]
    if re.sub(r"[^a-z]", "", label.lower()) in FOOTERS or label.startswith(("--", "(")):
        return True
    others = [text for place, text in enumerate(labels) if place != last]
    return len(others) > 1 and all(_CANONICAL.fullmatch(text) for text in others) and not label[-1:].isdigit()


def _with_missing(series: pd.Series) -> AnyArray:
    """Return a column as an array; missing entries stay missing."""
    return (series if isinstance(series.dtype, np.dtype) else series.astype(object)).to_numpy()


def _name_missing(values: AnyArray, na_values: Sequence[str]) -> AnyArray:
    """Return a column of text in which what names a missing entry is missing."""
    if not na_values or values.dtype != object:
        return values
    is_missing = np.array(
        [isinstance(cell, str) and cell.strip() in na_values for cell in values], dtype=bool
    )
    if not is_missing.any():
        return values
    kept: AnyArray = values.copy()
    kept[is_missing] = None
    return kept


def _as_numbers(ids: Ids) -> Ids:
    """Return ids of a text file as whole numbers where all of them are such."""
    labels = ids.ids.tolist()
    matches = [_CANONICAL.fullmatch(label) for label in labels]
    if not labels or not all(matches):
        return ids
    numbers_of_labels = np.array([int(match[1]) for match in matches if match], dtype=np.int64)
    if np.unique(numbers_of_labels).size < numbers_of_labels.size:
        return ids
    order = np.argsort(numbers_of_labels)
    rank = np.empty(order.size + 1, dtype=np.int64)
    rank[order] = np.arange(order.size)
    rank[-1] = -1
    return Ids(rank[ids.codes], numbers_of_labels[order])


def find_places(ids: AnyArray, known: AnyArray, name: str, *, from_text: bool) -> IntArray:
    """Return the position among the known ids of each id, −1 where it is none of them."""
    # One text id, such as B0X, makes text of all ids of a file. Those that are whole numbers still are.
    if not from_text or ids.dtype != object or known.dtype.kind not in "iu":
        return places(ids, known, name)
    matches = [_CANONICAL.fullmatch(label) if isinstance(label, str) else None for label in ids.tolist()]
    is_number = np.array([match is not None for match in matches], dtype=bool)
    if not is_number.any():
        return places(ids, known, name)
    numbers_of_ids = np.array([int(match[1]) for match in matches if match], dtype=np.int64)
    place = np.full(ids.size, -1, dtype=np.int64)
    place[is_number] = places(numbers_of_ids, known, name)
    return place


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


def numbers(
    column: Any, name: str, role: str, *, infinite: bool = False, na_values: Sequence[str] = ()
) -> Numbers:
    """Return a column of numbers; text that holds numbers is one, and what is none is named and counted."""
    # `infinite`: infinite ones are numbers as well.
    values = _name_missing(_with_missing(series_of(column)), na_values)
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


def times(column: Any, name: str, units: Units, na_values: Sequence[str] = ()) -> Numbers:
    """Return a column of times: dates where they are such, or are told to be; else numbers."""
    series = series_of(column)
    values = _dates(series)
    if values is None:
        raw = _name_missing(_with_missing(series), na_values)
        missing = np.asarray(pd.isna(raw))
        is_text = raw.dtype == object and any(isinstance(one, str) for one in raw[~missing][:1])
        if is_text and pd.to_numeric(pd.Series(raw[~missing][:1]), errors="coerce").isna().all():
            return _of_written(raw, missing, name)
        found = numbers(column, name, "timestamp", na_values=na_values)
        return found if found.problem else _in_units(found, name, units)
    return Numbers(values, np.isnat(values), None, " in dates")


def _dates(series: pd.Series) -> AnyArray | None:
    """Return a column of dates as datetime64, with a time zone turned into UTC; None for other columns."""
    first = next(iter(series.dropna()), None)
    if not hasattr(first, "year") and series.dtype.kind != "M":
        return None
    if isinstance(series.dtype, pd.ArrowDtype) and series.dtype.kind == "M":
        return _convert_arrow_times(series)
    dates = series if series.dtype.kind == "M" else series.astype(object)
    parsed = pd.to_datetime(dates, utc=True, errors="coerce").dt.tz_localize(None)
    return np.asarray(parsed.to_numpy(dtype=None if parsed.dtype.kind == "M" else "datetime64[ns]"))


def _convert_arrow_times(series: pd.Series) -> AnyArray:
    """Return Arrow timestamps as datetime64 of the same unit in UTC.

    `pandas.to_datetime` would make a Python object of every timestamp whose unit is not the nanosecond.
    """
    unit = series.dt.unit
    if series.dt.tz is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    missing = np.datetime64("NaT", unit)
    return np.asarray(series.to_numpy(dtype=f"datetime64[{unit}]", na_value=missing))


def _of_written(raw: AnyArray, missing: BoolArray, name: str) -> Numbers:
    """Return times that are written out as ISO 8601, with or without a time zone (then it is UTC)."""
    parsed = pd.to_datetime(pd.Series(raw), utc=True, errors="coerce", format="ISO8601")
    values = parsed.dt.tz_localize(None).to_numpy()
    what = "are no times as ISO 8601 writes them, such as '2026-03-01T12:00:00+01:00'"
    problem = odd_entries(
        np.isnat(values) & ~missing, raw, name, what, "Write them so, or turn them into dates"
    )
    return Numbers(values, missing, problem, " in dates")


def _fits(values: AnyArray, unit: str) -> BoolArray:
    """Return which numbers are times between 1980 and 2100 in a unit."""
    per_second = 10**9 // NANOSECONDS[unit]
    return np.asarray((values >= FIRST * per_second) & (values < LAST * per_second))


def _share_of(values: AnyArray, unit: str) -> float:
    """Return the share of numbers that are times between 1980 and 2100 in a unit."""
    ends = np.array([values.min(), values.max()])
    per_second = 10**9 // NANOSECONDS[unit]
    if ends[1] < FIRST * per_second or ends[0] >= LAST * per_second:
        return 0.0
    return 1.0 if _fits(ends, unit).all() else float(_fits(values, unit).mean())


def _in_units(found: Numbers, name: str, units: Units) -> Numbers:
    """Return times that are numbers in nanoseconds since 1970, where their unit is given or plain to see."""
    values = found.values
    if units == "auto":
        units = "none"
        kept = values[~found.missing]
        shares = {unit: _share_of(kept, unit) for unit in NANOSECONDS} if kept.size else {}
        best = max(shares, key=lambda unit: shares[unit], default="s")
        if shares.get(best, 0) == 1:
            units = best  # type: ignore[assignment]  # a key of NANOSECONDS
        elif shares.get(best, 0) > 0.5:
            odd = ~found.missing & ~_fits(values, best)
            what = f"lie outside of 1980 to 2100 in {WORDS[best]}, as which the others are times"
            way_out = "Correct them, or pass {units=none} to keep the numbers"
            return Numbers(values, found.missing, odd_entries(odd, values, name, what, way_out))
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
    if whole.dtype.kind in "iu":
        scaled = whole.astype(np.int64) * factor
    else:
        rest = whole - np.floor(whole)  # apart from the whole part: doubles do not hold both in nanoseconds
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
