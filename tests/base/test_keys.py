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
    for keys in (arrays[0], np.sort(arrays[0])):
        assert among(keys, arrays[1]).tolist() == [key in other for key in keys.tolist()]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4) | st.integers(0, 2**62)), max_size=12))
def test_rows_are_ordered_by_group_then_value_then_place(rows):
    group, value = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    expected = sorted(range(len(rows)), key=lambda row: (*rows[row], row))
    assert grouped_order(group, value).tolist() == expected
