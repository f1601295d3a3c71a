"""Columns of any data frame as NumPy arrays, complete and numeric, or an error that says what is wrong."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.checks import check_finite, counted, examples
from ipseval.utils.ids import Ids, coded
from ipseval.utils.types import AnyArray, BoolArray

FINER = ("ps", "fs", "as")  # units of time below a nanosecond


def frame_columns(frame: Any) -> set[str]:
    """Return the column names of a data frame that narwhals reads, none for anything else."""
    try:
        table: Any = nw.from_native(frame)
        return set(table.collect_schema().names())
    except (TypeError, AttributeError, nw.exceptions.NarwhalsError):  # such as columns of one name
        return set()


def as_frame(values: Any) -> Any | None:
    """Return a data frame for any engine's, None for what is none."""
    try:
        table: Any = nw.from_native(values)
        return table.collect() if isinstance(table, nw.LazyFrame) else table
    except (TypeError, nw.exceptions.NarwhalsError):  # such as columns of one name
        return None


def columns_of(frame: Any, names: list[str]) -> dict[str, AnyArray]:
    """Return the named columns as NumPy arrays without missing entries."""
    table = _table(frame, names)
    return {name: _complete(table[name], name) for name in names}


def log_columns(frame: Any, ids: list[str], numbers: list[str]) -> tuple[dict[str, Ids], dict[str, AnyArray]]:
    """Return columns of ids as codes, and others as `columns_of` does."""
    table = _table(frame, [*ids, *numbers])
    found = {name: ids_of(table[name], f"column {name!r}") for name in ids}
    for name in ids:
        _refuse_missing(found[name].missing, name)
    return found, {name: _complete(table[name], name) for name in numbers}


def series_of(column: Any) -> pd.Series:
    """Return a column of narwhals as one of pandas that holds the same values."""
    native = column.to_native()
    if not isinstance(native, pd.Series) and find_spec("pyarrow"):
        native = native.to_arrow() if hasattr(native, "to_arrow") else native  # of polars
        if hasattr(native.type, "index_type"):  # a dictionary
            try:
                native = native.to_pandas()
            except ValueError:  # it repeats a text
                native = native.cast(native.type.value_type)
        if not isinstance(native, pd.Series):
            native = pd.Series(native, dtype=pd.ArrowDtype(native.type))
    return native if isinstance(native, pd.Series) else pd.Series(_in_utc(column).to_numpy())


def ids_of(column: Any, name: str) -> Ids:
    """Return a column of narwhals as codes of its sorted distinct ids, −1 where one is missing."""
    native = series_of(column)
    kind = native.dtype
    if isinstance(kind, np.dtype) or (kind.kind in "iu" and not native.isna().any()):
        return coded(native.to_numpy(), name)
    codes, distinct = pd.factorize(native)  # of one type: nothing is equal to a hash alone
    found = coded(np.asarray(distinct.astype(object)), name)
    return Ids(np.append(found.codes, -1)[codes], found.ids)


def _table(frame: Any, names: list[str]) -> Any:
    """Return a frame that has the named columns, each once."""
    if isinstance(frame, pd.DataFrame) and not frame.columns.is_unique:
        raise InputError(
            f"the frame has several columns of one name ({examples(frame.columns, 12)}); rename them."
        )
    table = as_frame(frame)
    if table is None:
        raise InputError(f"expected a data frame (pandas, polars, pyarrow, …); got {type(frame).__name__}.")
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError(
            f"column {missing[0]!r} is not in the frame; it has {examples(table.columns, 12) or 'none'}. "
            "Name the columns, or pass ipseval.read(frame), which finds usual names."
        )
    return table


def _complete(column: Any, name: str) -> AnyArray:
    array: AnyArray = _in_utc(column).to_numpy()
    if array.dtype.kind in "US":
        array = array.astype(object)
    if not array.dtype.isnative:  # such as FITS and some HDF files hold: pandas cannot hash it
        array = array.astype(array.dtype.newbyteorder("="))
    _refuse_missing(np.asarray(pd.isna(array)), name)
    return array


def _refuse_missing(missing: BoolArray, name: str) -> None:
    n_missing = int(missing.sum())
    if n_missing:
        raise InputError(
            f"column {name!r} has {counted(n_missing, 'missing entry')} of {missing.size}; remove them."
        )


def _in_utc(column: Any) -> Any:
    """Return a column whose dates with a time zone are the same instants in UTC, without one."""
    native = column.to_native()
    if isinstance(getattr(native, "dtype", None), pd.DatetimeTZDtype):  # narwhals does not know all of them
        return native.dt.tz_convert("UTC").dt.tz_localize(None)
    if getattr(column.dtype, "time_zone", None):
        return column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return column


def _beyond_nanoseconds(dates: AnyArray) -> BoolArray:
    """Return which dates nanoseconds cannot hold: NumPy wraps round there, or raises, from 2.5 on."""
    if np.datetime_data(dates.dtype)[0] in FINER:
        return np.isnat(dates)
    last = int(np.datetime64(2**63 - 1, "ns").astype(dates.dtype).astype(np.int64))
    ticks = dates.view(np.int64)  # several times faster to compare; NaT is the lowest
    return ~((ticks >= -last) & (ticks <= last))


def to_numbers(values: AnyArray, name: str) -> AnyArray:
    """Return a numeric column; dates become integer nanoseconds."""
    if values.dtype.kind not in "iufbM":
        odd = next((one for one in values.tolist() if not isinstance(one, (int, float))), values.dtype)
        raise InputError(
            f"{name} must be numeric or a date; got {values.dtype} (first other: {odd!r:.80}). Convert it "
            "first, or take ipseval.read, which reads times and numbers that are written as text."
        )
    if values.dtype.kind == "M":
        lost = _beyond_nanoseconds(values)
        numbers: AnyArray = values if lost.any() else values.astype("datetime64[ns]")
        if not lost.any() and np.datetime_data(values.dtype)[0] in FINER:
            lost = numbers.astype(values.dtype) != values
        advice = "Nanoseconds since 1970 hold 1677 to 2262. Correct these dates, or pass numbers instead"
    elif values.dtype.kind == "f":
        check_finite(name, values)
        numbers = values.astype(np.float64)
        lost = numbers != values
        advice = "Convert them to float64"
    else:
        numbers, lost = values.astype(np.int64), values > 2**63 - 1
        advice = "64-bit integers end at 2^63 - 1. Pass float64, or smaller numbers"
    if lost.any():
        raise InputError(
            f"{int(lost.sum())} of {values.size} entries of {name} cannot be kept as they are "
            f"(first: {examples(values[lost][:1])}). {advice}."
        )
    return numbers.view(np.int64) if values.dtype.kind == "M" else numbers
