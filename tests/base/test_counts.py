"""Counts of two parts are added where both are of one thing."""

from __future__ import annotations

from tests.inside.base import Count, added


def test_counts_of_one_thing_are_added_and_others_stand_beside_them():
    one = (Count("rows left out", 3, 10, "log"), Count("users", 2))
    other = (Count("users", 5, 9), Count("rows left out", 4, 30, "log"), Count("rows left out", 1))
    assert added(one, other) == (
        Count("rows left out", 7, 40, "log"),
        Count("users", 7),
        Count("rows left out", 1),
    )
