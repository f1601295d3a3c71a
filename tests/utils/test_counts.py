"""Counts of two parts are added where both are of one thing."""

from __future__ import annotations

import pandas as pd

from tests.inside.utils import Count, counts_frame, drop_zero_counts, merge_counts


def test_counts_of_one_thing_are_added_and_others_stand_beside_them():
    first_counts = (Count("rows left out", 3, 10, "log"), Count("users", 2))
    second_counts = (Count("users", 5, 9), Count("rows left out", 4, 30, "log"), Count("rows left out", 1))
    assert merge_counts(first_counts, second_counts) == (
        Count("rows left out", 7, 40, "log"),
        Count("users", 7),
        Count("rows left out", 1),
    )


def test_counts_are_one_row_each_without_a_whole_where_there_is_none():
    given = (Count("users", 2), Count("rows", 0, 9), Count("rows", 3, 9).with_subject("als"))
    assert drop_zero_counts(*given) == (given[0], Count("rows", 3, 9, "als"))
    frame = counts_frame(given)
    expected = {
        "subject": ["", "", "als"],
        "what": ["users", "rows", "rows"],
        "count": [2, 0, 3],
        "of": pd.array([None, 9, 9], dtype="Int64"),
    }
    pd.testing.assert_frame_equal(frame, pd.DataFrame(expected))
    assert counts_frame(()).dtypes.astype(str).tolist()[2:] == ["int64", "Int64"]
