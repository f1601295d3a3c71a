"""Columns of numbers and of truth values; entries that do not fit become a `Problem`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoSeries

from ipseval.errors import Problem
from ipseval.utils.checks import format_examples
from ipseval.utils.columns import to_pandas_series
from ipseval.utils.types import AnyArray, BoolArray

_DECIMAL_COMMA = r"[-+]?\d*,\d+"  # 4,5 as a decimal number
_THOUSANDS = r"[-+]?[1-9]\d{0,2},\d{3}"  # 1,234, which may be a decimal number too
_TRUTH_VALUES = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


@dataclass(frozen=True, eq=False)
class ValueColumn:
    """Store a column of numbers, times or truth values, and the problem of entries that do not fit.

    Attributes
    ----------
    values : (n,) array
        The values; NaN, NaT or False if missing.
    missing : (n,) bool array
        Rows without an entry.
    problem : Problem or None
        Entries that do not fit.
    note : str
        How the entries were read, to be printed after the name of the column.
    """

    values: AnyArray
    missing: BoolArray
    problem: Problem | None = None
    note: str = ""


def format_rows(mask: BoolArray) -> str:
    """Return the numbers of the first three rows of a mask as text, counted from 0."""
    rows = np.flatnonzero(mask)
    row_numbers = ", ".join(f"{row:,}" for row in rows[:3])
    if rows.size > 3:
        row_numbers += ", …"
    if rows.size == 1:
        return f"first: row {row_numbers}"
    return f"first: rows {row_numbers}"


def describe_entries(
    is_invalid: BoolArray, values: AnyArray, name: str, description: str, fix: str
) -> Problem | None:
    """Return the problem of invalid entries of a column; None if all are valid."""
    if not is_invalid.any():
        return None
    number = f"{int(is_invalid.sum()):,} of {is_invalid.size:,} entries of {name}"
    first_entry = format_examples(values[is_invalid][:1])
    return Problem(f"{number} {description} ({format_rows(is_invalid)}: {first_entry})", fix)


def to_array(series: pd.Series) -> AnyArray:
    """Return a column as an array; missing entries stay missing."""
    dtype = series.dtype
    if isinstance(dtype, pd.ArrowDtype) and dtype.kind in "iuf" and not series.isna().any():
        return series.to_numpy(dtype=dtype.numpy_dtype)  # type: ignore[attr-defined]  # missing in the stubs
    if not isinstance(dtype, np.dtype):
        series = series.astype(object)
    return series.to_numpy()


def replace_missing_names(values: AnyArray, na_values: Sequence[str]) -> AnyArray:
    """Return a column of text with None in place of the text of `na_values`."""
    if not na_values or values.dtype != object:
        return values
    is_missing = np.array([_is_missing_name(cell, na_values) for cell in values], dtype=bool)
    if not is_missing.any():
        return values
    cells: AnyArray = values.copy()
    cells[is_missing] = None
    return cells


def _is_missing_name(cell: object, na_values: Sequence[str]) -> bool:
    """Return whether a cell is text that means a missing entry."""
    return isinstance(cell, str) and cell.strip() in na_values


def read_numbers(
    column: nw.Series[IntoSeries],
    name: str,
    role: str,
    *,
    allow_infinite: bool = False,
    na_values: Sequence[str] = (),
) -> ValueColumn:
    """Return a column of numbers; text that holds numbers is parsed, and other entries are a problem."""
    values = replace_missing_names(to_array(to_pandas_series(column)), na_values)
    missing = np.asarray(pd.isna(values))
    if values.dtype.kind in "iub" and values.dtype != np.uint64:
        return ValueColumn(values.astype(np.int64), missing)
    parsed = _parse_numbers(values, missing)
    numbers = parsed.numbers
    is_valid = ~np.isnan(numbers) if allow_infinite else np.isfinite(numbers)
    if parsed.may_be_thousands:
        description = "may be thousands or fractions"
        fix = "Write them without commas"
    else:
        description = "are not finite numbers"
        fix = "Correct them"
    problem = describe_entries(
        ~missing & ~is_valid, values, name, description, f"{fix}, or choose another column by {{{role}}}"
    )
    return ValueColumn(numbers, missing, problem, parsed.note)


@dataclass(frozen=True, eq=False)
class _ParsedNumbers:
    """Store the numbers of a column of text, NaN for other text, and whether its commas are ambiguous."""

    numbers: AnyArray
    note: str = ""
    may_be_thousands: bool = False


def _parse_numbers(values: AnyArray, missing: BoolArray) -> _ParsedNumbers:
    """Return the numbers of a column; decimal commas are read if no entry has a decimal point."""
    if values.dtype.kind in "mMc":  # dates and complex numbers are not values
        return _ParsedNumbers(np.full(values.size, np.nan))
    series = pd.Series(values, dtype=values.dtype)
    parsed = pd.to_numeric(series, errors="coerce")
    unparsed_text = series[parsed.isna() & ~missing].astype(str).str.strip()
    if values.dtype != object or not unparsed_text.str.fullmatch(_DECIMAL_COMMA).any():
        return _ParsedNumbers(_to_number_array(parsed))
    may_be_thousands = bool(unparsed_text.str.fullmatch(_THOUSANDS).all())
    has_points = series[~missing].astype(str).str.contains(".", regex=False).any()
    all_have_commas = unparsed_text.str.fullmatch(_DECIMAL_COMMA).all()
    if may_be_thousands or has_points or not all_have_commas:
        return _ParsedNumbers(_to_number_array(parsed), may_be_thousands=may_be_thousands)
    with_points = series.astype(str).str.replace(",", ".")
    return _ParsedNumbers(
        _to_number_array(pd.to_numeric(with_points, errors="coerce")), note=" with decimal commas"
    )


def _to_number_array(numbers: pd.Series) -> AnyArray:
    """Return numbers as an array of integers, or of float64 with NaN for missing entries."""
    if numbers.dtype.kind in "iu":
        return numbers.to_numpy()
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def read_truth_values(column: nw.Series[IntoSeries], name: str, role: str) -> ValueColumn:
    """Return a column of True and False, 1 and 0, or their text, as a mask."""
    values = to_array(to_pandas_series(column))
    missing = np.asarray(pd.isna(values))
    if values.dtype.kind in "biuf" and np.isin(values, (0, 1)).all():
        return ValueColumn(values == 1, missing)
    text = pd.Series(values[~missing].astype(str)).str.strip().str.lower()
    truth_values = text.map(_TRUTH_VALUES)
    mask = np.zeros(values.size, dtype=bool)
    mask[~missing] = truth_values.eq(True)
    is_invalid = np.zeros(values.size, dtype=bool)
    is_invalid[~missing] = truth_values.isna()
    problem = describe_entries(
        is_invalid,
        values,
        name,
        "are neither True and False nor 1 and 0",
        f"Correct them, or choose another column by {{{role}}}",
    )
    return ValueColumn(mask, missing, problem)
