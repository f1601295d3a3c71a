"""Columns of frames as arrays: nothing is lost on the way, or the whole text says what would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ipseval.errors import InputError
from tests.inside.utils import columns

DAYS = ["1677-09-22", "2262-04-11"]  # the first and the last whole day of nanoseconds


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_a_frame_of_any_engine_has_names_and_what_is_none_has_no_names():
    frame = pd.DataFrame({"a": [1], "b": [2]})
    for table in (frame, pl.DataFrame(frame.to_dict("list")), pl.LazyFrame(frame.to_dict("list"))):
        assert columns.frame_columns(table) == {"a", "b"}
        assert columns.as_frame(table).columns == ["a", "b"]
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    for none in (3, [1], twice):
        assert columns.frame_columns(none) == set()
        assert columns.as_frame(none) is None
    assert columns.frame_columns(pd.Series([1])) == set()


def test_named_columns_are_complete_or_refused():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": np.array([1, 2], ">i4")})
    columns_read = columns.extract_columns(frame, ["a", "c"])
    assert {name: column.tolist() for name, column in columns_read.items()} == {"a": [1, 2], "c": [1, 2]}
    assert columns_read["c"].dtype.isnative
    assert columns.extract_columns(pl.DataFrame({"a": ["x"]}), ["a"])["a"].dtype == object
    assert refused(lambda: columns.extract_columns(frame, ["a", "b"])) == (
        "column 'b' has 1 missing entry of 2; remove them."
    )
    assert refused(lambda: columns.extract_log_columns(frame, ["b"], [])) == (
        "column 'b' has 1 missing entry of 2; remove them."
    )
    assert refused(lambda: columns.extract_columns(frame, ["a", "d", "e"])) == (
        "column 'd' is not in the frame; it has 'a', 'b', 'c'. Name the columns, or pass "
        "ipseval.read(frame), which finds usual names."
    )
    assert "it has none. " in refused(lambda: columns.extract_columns(pd.DataFrame(), ["a"]))
    wide = pd.DataFrame([range(13)], columns=[f"x{n}" for n in range(13)])
    assert "'x11', …. Name" in refused(lambda: columns.extract_columns(wide, ["a"]))
    assert "'x11', …); rename" in refused(
        lambda: columns.extract_columns(wide.assign(x=1).set_axis([*wide, "x0"], axis=1), ["a"])
    )
    assert refused(lambda: columns.extract_columns(3, ["a"])) == (
        "expected a data frame (pandas, polars, pyarrow, …); got int."
    )


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["b", "a", None], dtype="string[pyarrow]"),
        pd.Series(["b", "a", None], dtype="category"),
        pd.Series([5, 3, None], dtype="Int64"),
        pl.Series("x", ["b", "a", None]),
        pa.chunked_array([["b"], ["a", None]]),
        pa.chunked_array([pa.DictionaryArray.from_arrays([0, 2, None], ["b", "b", "a"])]),
    ],
)
def test_a_column_of_ids_is_coded_in_the_order_of_the_ids(column):
    columns_read = columns.encode_column(nw.from_native(column, series_only=True), "x")
    assert columns_read.codes.tolist() == [1, 0, -1]
    assert columns_read.ids.tolist() in (["a", "b"], [3, 5])


def test_whole_numbers_without_gaps_keep_their_type():
    for column, kind in ((pd.Series([5, 3], dtype="UInt8"), "u1"), (pl.Series("x", [5, 3], pl.Int16), "i2")):
        columns_read = columns.encode_column(nw.from_native(column, series_only=True), "x")
        assert (columns_read.codes.tolist(), columns_read.ids.tolist(), columns_read.ids.dtype) == (
            [1, 0],
            [3, 5],
            kind,
        )


def test_instants_of_any_zone_are_those_of_utc():
    at = pd.Series(pd.to_datetime(["2026-07-01 12:00"])).dt.tz_localize(ZoneInfo("Europe/Berlin"))
    for frame in (pd.DataFrame({"t": at}), pl.DataFrame({"t": pl.Series(at.tolist())}), pa.table({"t": at})):
        column_read = columns.extract_columns(frame, ["t"])["t"]
        assert column_read.astype("M8[m]").tolist() == [pd.Timestamp("2026-07-01 10:00")]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_become_nanoseconds_up_to_the_last_one_that_they_hold(unit):
    dates = np.array(DAYS, dtype=f"M8[{unit}]")
    expected = [-9223286400 * 10**9, 9223286400 * 10**9]
    numbers = columns.to_numbers(dates, "t")
    assert (numbers.tolist(), numbers.dtype) == (expected, np.int64)


def test_the_last_second_and_the_next_one_are_on_both_sides_of_the_bound():
    last = (2**63 - 1) // 10**9
    for seconds, n in (([last, -last], 0), ([last + 1, -last], 1), ([-last - 1, last + 1], 2)):
        dates = np.array(seconds, dtype="M8[s]")
        if n:
            assert refused(lambda dates=dates: columns.to_numbers(dates, "t")).startswith(
                f"{n} of 2 entries of t "
            )
        else:
            assert columns.to_numbers(dates, "t").tolist() == [last * 10**9, -last * 10**9]
    assert "1 of 2 entries of t" in refused(lambda: columns.to_numbers(np.array(["NaT", 0], "M8[s]"), "t"))


def test_parts_of_a_nanosecond_are_refused_and_whole_ones_kept():
    assert columns.to_numbers(np.array([3000, -2000], dtype="M8[ps]"), "t").tolist() == [3, -2]
    text = refused(lambda: columns.to_numbers(np.array([3000, 1], dtype="M8[ps]"), "t"))
    assert text.startswith("1 of 2 entries of t cannot be kept as they are (first: ")
    assert text.endswith(
        "). Nanoseconds since 1970 hold 1677 to 2262. Correct these dates, or pass numbers instead."
    )
    assert "1 of 2 entries" in refused(lambda: columns.to_numbers(np.array(["NaT", 0], dtype="M8[ps]"), "t"))


def test_numbers_stay_what_they_are_or_are_refused():
    for given, kind in (([True, False], np.int64), ([0.5, -1.0], np.float64), ([2**63 - 1, 0], np.int64)):
        numbers = columns.to_numbers(np.array(given), "v")
        assert (numbers.tolist(), numbers.dtype) == (given, kind)
    assert columns.to_numbers(np.array([0.5], np.float32), "v").dtype == np.float64
    assert columns.to_numbers(np.array([2**63 - 1], np.uint64), "v").tolist() == [2**63 - 1]
    assert refused(lambda: columns.to_numbers(np.array([1, 2**63, 2**64 - 1], np.uint64), "v")) == (
        "2 of 3 entries of v cannot be kept as they are (first: 9223372036854775808). 64-bit integers end at "
        "2^63 - 1. Pass float64, or smaller numbers."
    )
    assert refused(lambda: columns.to_numbers(np.array([1.0, np.nan]), "v")) == (
        "v must be finite; 1 of 2 entries are NaN or infinite."
    )
    assert refused(lambda: columns.to_numbers(np.array([1, 2.5, "x"], dtype=object), "v")) == (
        "v must be numeric or a date; got object (first other: 'x'). Convert it first, or use ipseval.read, "
        "which reads times and numbers that are written as text."
    )
    assert "(first other: dtype('O'))" in refused(
        lambda: columns.to_numbers(np.array([1, 2.5], dtype=object), "v")
    )


@pytest.mark.skipif(np.finfo(np.longdouble).nmant == 52, reason="a long double is a double here")
def test_numbers_finer_than_doubles_are_refused():
    fine = np.array([1, 1 + np.finfo(np.longdouble).eps], dtype=np.longdouble)
    assert "1 of 2 entries of v" in (text := refused(lambda: columns.to_numbers(fine, "v")))
    assert text.endswith("Convert them to float64.")
