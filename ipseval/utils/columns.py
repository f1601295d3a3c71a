"""Extract columns of any data frame as complete NumPy arrays."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.checks import check_finite, format_count, format_examples
from ipseval.utils.ids import Ids, encode_ids
from ipseval.utils.types import AnyArray, BoolArray

FINER = ("ps", "fs", "as")  # units of time below a nanosecond


def frame_columns(frame: object) -> set[str]:
    """Return the column names of a data frame that narwhals reads, none for anything else."""
    try:
        table: Any = nw.from_native(frame)
        return set(table.collect_schema().names())
    except (TypeError, AttributeError, nw.exceptions.NarwhalsError):  # such as columns of one name
        return set()


def as_frame(values: Any) -> Any | None:
    """Return a narwhals frame for the data frame of any engine, and None for other values."""
    try:
        table: Any = nw.from_native(values)
        if isinstance(table, nw.LazyFrame):
            return table.collect()
        return table
    except (TypeError, nw.exceptions.NarwhalsError):  # such as columns of one name
        return None


def extract_columns(frame: object, names: list[str]) -> dict[str, AnyArray]:
    """Return the named columns as NumPy arrays without missing entries."""
    table = _to_narwhals_frame(frame, names)
    columns: dict[str, AnyArray] = {}
    for name in names:
        columns[name] = _complete(table[name], name)

    return columns


def extract_log_columns(
    frame: object, ids: list[str], numbers: list[str]
) -> tuple[dict[str, Ids], dict[str, AnyArray]]:
    """Return columns of ids as codes, and others as `extract_columns` does."""
    table = _to_narwhals_frame(frame, [*ids, *numbers])
    id_columns = {}
    for name in ids:
        id_columns[name] = encode_column(table[name], f"column {name!r}")

    for name, column in id_columns.items():
        _refuse_missing(column.missing, name)
    number_columns = {}
    for name in numbers:
        number_columns[name] = _complete(table[name], name)

    return id_columns, number_columns


def to_pandas_series(column: Any) -> pd.Series:
    """Return a column of narwhals as one of pandas that holds the same values."""
    native = column.to_native()
    if isinstance(native, pd.Series):
        return native
    if not find_spec("pyarrow"):
        return pd.Series(_convert_to_utc(column).to_numpy())

    arrow = native.to_arrow() if hasattr(native, "to_arrow") else native  # polars has to_arrow
    if hasattr(arrow.type, "index_type"):  # a dictionary
        try:
            series: pd.Series = arrow.to_pandas()
            return series
        except (TypeError, ValueError):  # unsigned codes in PyArrow 17, or a dictionary that repeats a text
            arrow = arrow.cast(arrow.type.value_type)
    return pd.Series(arrow, dtype=pd.ArrowDtype(arrow.type))


def encode_column(column: object, name: str) -> Ids:
    """Return a column of narwhals as codes of its sorted distinct ids, −1 where one is missing."""
    series = to_pandas_series(column)
    dtype = series.dtype
    if isinstance(dtype, np.dtype) or (dtype.kind in "iu" and not series.isna().any()):
        return encode_ids(series.to_numpy(), name)
    # The column has one type, so different values never have equal hashes.
    codes, distinct_values = pd.factorize(series)
    distinct_ids = encode_ids(np.asarray(distinct_values.astype(object)), name)
    return Ids(np.append(distinct_ids.codes, -1)[codes], distinct_ids.ids)


def _to_narwhals_frame(frame: Any, names: list[str]) -> Any:
    """Return a narwhals frame after a check that it has each of the named columns once."""
    if isinstance(frame, pd.DataFrame) and not frame.columns.is_unique:
        raise InputError(
            f"the frame has several columns of one name ({format_examples(frame.columns, 12)}); rename them."
        )
    table = as_frame(frame)
    if table is None:
        raise InputError(f"expected a data frame (pandas, polars, pyarrow, …); got {type(frame).__name__}.")
    missing = []
    for name in names:
        if name not in table.columns:
            missing.append(name)

    if missing:
        raise InputError(
            f"column {missing[0]!r} is not in the frame; it has {format_examples(table.columns, 12) or 'none'}. "
            "Name the columns, or pass ipseval.read(frame), which finds usual names."
        )
    return table


def _complete(column: object, name: str) -> AnyArray:
    """Return a column as an array that pandas can hash, or raise `InputError` for missing entries."""
    array: AnyArray = _convert_to_utc(column).to_numpy()
    if array.dtype.kind in "US":
        array = array.astype(object)
    if not array.dtype.isnative:  # FITS and some HDF files have another byte order, which pandas cannot hash
        array = array.astype(array.dtype.newbyteorder("="))
    _refuse_missing(np.asarray(pd.isna(array)), name)
    return array


def _refuse_missing(missing: BoolArray, name: str) -> None:
    """Raise `InputError` with the number of missing entries, if there are any."""
    n_missing = int(missing.sum())
    if n_missing:
        raise InputError(
            f"column {name!r} has {format_count(n_missing, 'missing entry')} of {missing.size}; remove them."
        )


def _convert_to_utc(column: Any) -> Any:
    """Return a column with dates that have a time zone converted to UTC dates without one."""
    native = column.to_native()
    if isinstance(getattr(native, "dtype", None), pd.DatetimeTZDtype):  # narwhals lacks some time zones
        return native.dt.tz_convert("UTC").dt.tz_localize(None)
    if getattr(column.dtype, "time_zone", None):
        return column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return column


def _beyond_nanoseconds(dates: AnyArray) -> BoolArray:
    """Return a mask of the dates that nanoseconds cannot represent.

    NumPy wraps round for these dates, and raises from 2.5 on.
    """
    if np.datetime_data(dates.dtype)[0] in FINER:
        return np.isnat(dates)
    last = int(np.datetime64(2**63 - 1, "ns").astype(dates.dtype).astype(np.int64))
    ticks = dates.view(np.int64)  # integers compare several times faster; NaT is the lowest
    return ~((ticks >= -last) & (ticks <= last))


def to_numbers(values: AnyArray, name: str) -> AnyArray:
    """Return a numeric column without loss; dates become integer nanoseconds."""
    kind = values.dtype.kind
    if kind == "M":
        return _dates_to_nanoseconds(values, name)
    if kind == "f":
        check_finite(name, values)
        numbers = values.astype(np.float64)
        _refuse_changed(values, numbers != values, name, "Convert them to float64.")
        return numbers
    if kind in "iub":
        advice = "64-bit integers end at 2^63 - 1. Pass float64, or smaller numbers."
        _refuse_changed(values, values > 2**63 - 1, name, advice)
        return values.astype(np.int64)

    first_other: object = values.dtype
    for value in values.tolist():
        if not isinstance(value, (int, float)):
            first_other = value
            break
    raise InputError(
        f"{name} must be numeric or a date; got {values.dtype} (first other: {first_other!r:.80}). Convert "
        "it first, or use ipseval.read, which reads times and numbers that are written as text."
    )


def _dates_to_nanoseconds(dates: AnyArray, name: str) -> AnyArray:
    """Return dates as integer nanoseconds since 1970, or raise `InputError` where they would change."""
    advice = "Nanoseconds since 1970 hold 1677 to 2262. Correct these dates, or pass numbers instead."
    _refuse_changed(dates, _beyond_nanoseconds(dates), name, advice)
    nanoseconds = dates.astype("datetime64[ns]")
    if np.datetime_data(dates.dtype)[0] in FINER:
        _refuse_changed(dates, nanoseconds.astype(dates.dtype) != dates, name, advice)
    return nanoseconds.view(np.int64)


def _refuse_changed(values: AnyArray, is_changed: BoolArray, name: str, advice: str) -> None:
    """Raise `InputError` if a conversion would change some values."""
    if is_changed.any():
        raise InputError(
            f"{int(is_changed.sum())} of {values.size} entries of {name} cannot be kept as they are "
            f"(first: {format_examples(values[is_changed][:1])}). {advice}"
        )
