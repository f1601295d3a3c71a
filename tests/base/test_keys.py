"""Sets of keys, against Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.base import among, distinct, grouped_order, union

KEYS = st.lists(st.integers(-5, 5) | st.integers(-(2**62), 2**62), max_size=12)


@given(KEYS)
def test_distinct_keys_are_those_of_a_set_in_ascending_order(keys):
    assert distinct(np.array(keys, dtype=np.int64)).tolist() == sorted(set(keys))


@given(KEYS, KEYS)
def test_union_and_membership_are_those_of_sets(one, other):
    arrays = np.array(one, dtype=np.int64), np.array(other, dtype=np.int64)
    assert union(*arrays).tolist() == sorted({*one, *other})
    assert among(*arrays).tolist() == [key in other for key in one]


def test_membership_of_ascending_and_of_other_keys_is_the_same():
    keys, others = np.array([4, 1, 7, 1]), np.array([7, 2, 1])
    assert among(keys, others).tolist() == [False, True, True, True]
    assert among(np.sort(keys), others).tolist() == [True, True, False, True]
    assert not among(keys, others[:0]).any()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4) | st.integers(0, 2**62)), max_size=12))
def test_rows_are_ordered_by_group_then_value_then_place(rows):
    group, value = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    expected = sorted(range(len(rows)), key=lambda row: (*rows[row], row))
    assert grouped_order(group, value).tolist() == expected
