"""Columns of numbers, truth values and times at the limits of what is read."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from tests.inside.data import read_numbers, read_times, read_truth_values


def make_column(values: list[object], dtype: object = None):
    return nw.from_native(pd.Series(values, dtype=dtype), series_only=True)


@pytest.mark.parametrize(
    ("first", "last", "unit"),
    [
        (315_532_800, 4_102_444_799, "s"),
        (315_532_800_000, 4_102_444_799_999, "ms"),
        (315_532_800_000_000, 4_102_444_799_999_999, "us"),
        (315_532_800_000_000_000, 4_102_444_799_999_999_999, "ns"),
    ],
)
def test_numbers_are_times_from_1980_to_2100(first, last, unit):
    column = read_times(make_column([first, last]), "column 't'", "auto")
    np.testing.assert_array_equal(column.values, np.array([first, last]).astype(f"datetime64[{unit}]"))
    assert column.note.endswith("since 1970")
    assert read_times(make_column([first - 1]), "column 't'", "auto").values.tolist() == [first - 1]
    assert read_times(make_column([last + 1]), "column 't'", "auto").values.tolist() == [last + 1]


def test_a_few_numbers_out_of_range_are_a_problem_and_half_of_them_are_no_times():
    half = read_times(make_column([400_000_000, 5]), "column 't'", "auto")
    assert (half.values.tolist(), half.problem, half.note) == ([400_000_000, 5], None, " in numbers")
    few = read_times(make_column([400_000_000, 5, 400_000_001]), "column 't'", "auto")
    assert "1 of 3 entries of column 't' lie outside of 1980 to 2100 in seconds" in few.problem.description
    assert "(first: row 1: 5)" in few.problem.description
    assert read_times(make_column([None], float), "column 't'", "auto").values.size == 1


@pytest.mark.parametrize(("unit", "factor"), [("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)])
def test_a_stated_unit_is_read_up_to_64_bits_of_nanoseconds(unit, factor):
    limit = (2**63 - 1) // factor
    column = read_times(make_column([limit, -limit]), "column 't'", unit)
    assert column.values.astype(np.int64).tolist() == [limit * factor, -limit * factor]
    if factor > 1:
        problem = read_times(make_column([0, limit + 1]), "column 't'", unit).problem
        assert "1 of 2 entries of column 't' lie beyond the year 2262" in problem.description


def test_fractions_of_a_unit_are_exact_and_missing_times_stay_missing():
    column = read_times(make_column([1_600_000_000.25, -0.5, None]), "column 't'", "s")
    times = column.values.astype(np.int64)[:2]
    assert times.tolist() == [1_600_000_000_250_000_000, -500_000_000]
    assert np.isnat(column.values).tolist() == [False, False, True]
    assert column.missing.tolist() == [False, False, True]
    assert read_times(make_column([7.5]), "column 't'", "none").values.tolist() == [7.5]


def test_text_is_a_time_in_iso_8601_or_a_number():
    texts = ["2026-03-01T12:00:00+01:00", None, "2026-03-01"]
    column = read_times(make_column(texts), "column 't'", "auto")
    assert column.values.astype("datetime64[s]").tolist()[0].hour == 11
    assert column.missing.tolist() == [False, True, False]
    assert column.problem is None
    wrong = read_times(make_column(["2026-03-01", "yesterday"]), "column 't'", "auto")
    assert "1 of 2 entries of column 't' are not times in ISO 8601" in wrong.problem.description
    numbers = read_times(make_column(["400000000", "400000001"]), "column 't'", "auto")
    assert numbers.note == " in seconds since 1970"


@pytest.mark.parametrize(
    ("cells", "numbers", "note"),
    [
        (["4,5", "3", None], [4.5, 3, np.nan], " with decimal commas"),
        (["1,25", ",5", "-2"], [1.25, 0.5, -2], " with decimal commas"),
        (["4.5", "3"], [4.5, 3], ""),
        ([True, False], [1, 0], ""),
        (["1,234", "12,5"], [1.234, 12.5], " with decimal commas"),
    ],
)
def test_text_is_read_as_numbers_with_points_or_with_commas(cells, numbers, note):
    column = read_numbers(make_column(cells), "column 'v'", "value")
    np.testing.assert_array_equal(column.values, numbers)
    assert column.problem is None
    assert column.note == note


@pytest.mark.parametrize(
    ("cells", "description"),
    [
        (
            ["1,234", "5"],
            "1 of 2 entries of column 'v' may be thousands or fractions (first: row 0: '1,234')",
        ),
        (["4,5", "3.5"], "1 of 2 entries of column 'v' are not finite numbers (first: row 0: '4,5')"),
        (["4,5", "a"], "2 of 2 entries of column 'v' are not finite numbers (first: rows 0, 1: '4,5')"),
        ([1.0, np.inf], "1 of 2 entries of column 'v' are not finite numbers (first: row 1: inf)"),
        (
            ["a", "b", "c", "d"],
            "4 of 4 entries of column 'v' are not finite numbers (first: rows 0, 1, 2, …: 'a')",
        ),
        ([pd.Timestamp("2026-01-01")], "1 of 1 entries of column 'v' are not finite numbers"),
        ([1 + 2j], "1 of 1 entries of column 'v' are not finite numbers"),
    ],
)
def test_other_entries_are_counted_and_the_first_is_named(cells, description):
    assert description in read_numbers(make_column(cells), "column 'v'", "value").problem.description


def test_scores_may_be_infinite_and_named_words_are_missing():
    column = read_numbers(make_column([1.0, -np.inf]), "column 'v'", "score", allow_infinite=True)
    assert column.problem is None
    cells = ["1", " n/a ", "NA"]
    column = read_numbers(make_column(cells), "column 'v'", "value", na_values=("n/a",))
    assert column.missing.tolist() == [False, True, False]
    assert "1 of 3 entries" in column.problem.description
    assert read_numbers(make_column([2, 3]), "column 'v'", "value", na_values=("2",)).values.tolist() == [
        2,
        3,
    ]


def test_large_whole_numbers_are_kept_exactly():
    column = read_numbers(make_column([2**53 + 1, -5]), "column 'v'", "value")
    assert column.values.dtype == np.int64
    assert column.values.tolist() == [2**53 + 1, -5]
    unsigned = read_numbers(make_column([2**64 - 1], np.uint64), "column 'v'", "value")
    assert unsigned.values.tolist() == [2**64 - 1]


def test_truth_values_have_these_spellings_and_no_others():
    cells = ["True", " FALSE", "1", "0", "1.0", "0.0", None, "yes", 2]
    column = read_truth_values(make_column(cells), "column 'c'", "clicked")
    assert column.values.tolist() == [True, False, True, False, True, False, False, False, False]
    assert column.missing.tolist() == [False] * 6 + [True, False, False]
    description = (
        "2 of 9 entries of column 'c' are neither True and False nor 1 and 0 (first: rows 7, 8: 'yes')"
    )
    assert description in column.problem.description
    assert read_truth_values(make_column([1, 0]), "column 'c'", "clicked").values.tolist() == [True, False]
    assert read_truth_values(make_column([1, 2]), "column 'c'", "clicked").problem is not None
