"""Sets of keys, against Python's sets."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.utils import (
    as_readonly,
    build_unchecked,
    copy_if_writable,
    freeze,
    grouped_order,
    is_member,
    mark_repeats,
    ranks_within_group,
    same_ids,
    union_keys,
    unique_keys,
)

KEYS = st.lists(st.integers(-5, 5) | st.integers(-(2**62), 2**62), max_size=12)


@given(KEYS)
def test_distinct_keys_are_those_of_a_set_in_ascending_order(keys):
    assert unique_keys(np.array(keys, dtype=np.int64)).tolist() == sorted(set(keys))


@given(KEYS, KEYS)
def test_union_and_membership_are_those_of_sets(one, other):
    arrays = np.array(one, dtype=np.int64), np.array(other, dtype=np.int64)
    assert union_keys(*arrays).tolist() == sorted({*one, *other})
    for keys in (arrays[0], np.sort(arrays[0])):
        assert is_member(keys, arrays[1]).tolist() == [key in other for key in keys.tolist()]


def test_a_key_above_all_others_is_not_among_them():
    for others in ([1], [1, 5], [5, 1]):
        assert is_member(np.array([9, 1, -3]), np.array(others)).tolist() == [False, True, False]
    assert is_member(np.array([1, 9]), np.array([9])).tolist() == [False, True]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4) | st.integers(0, 2**62)), max_size=12))
def test_rows_are_ordered_by_group_then_value_then_place(rows):
    group, value = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    expected = sorted(range(len(rows)), key=lambda row: (*rows[row], row))
    assert grouped_order(group, value).tolist() == expected


def test_the_largest_keys_of_an_order_are_not_taken_for_negative_ones():
    # In one number of 64 bits, (1, 2^60) and a place of two bits would begin with a minus sign.
    assert grouped_order(np.array([1, 0]), np.array([2**60, 0])).tolist() == [1, 0]
    assert grouped_order(np.array([0, 0]), np.array([2**62, 0])).tolist() == [1, 0]
    assert grouped_order(np.array([1, 0]), np.array([0, 1])).tolist() == [1, 0]


@given(st.lists(st.integers(-2, 2), max_size=6))
def test_a_key_is_repeated_where_it_stands_a_second_time(keys):
    expected = [key in keys[:place] for place, key in enumerate(keys)]
    assert mark_repeats(np.array(keys, dtype=np.int64)).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=8))
def test_ranks_within_a_group_count_the_higher_and_the_equal_scores(rows):
    group, score = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    n_above, n_tied = ranks_within_group(group, score / 2)
    assert n_above.tolist() == [sum(t > s for g, t in rows if g == one) for one, s in rows]
    assert n_tied.tolist() == [rows.count(row) - 1 for row in rows]


def test_two_parts_have_the_same_ids_where_users_and_items_are_equal_in_order():
    one, turned = (SimpleNamespace(user_ids=[1, 2], item_ids=items) for items in (["a", "b"], ["b", "a"]))
    assert same_ids(one, SimpleNamespace(user_ids=[1, 2], item_ids=["a", "b"]))
    assert not same_ids(one, turned)
    assert not same_ids(one, SimpleNamespace(user_ids=[2, 1], item_ids=["a", "b"]))


def test_an_array_is_copied_only_where_somebody_can_write_to_it():
    base = np.arange(4)
    fixed = as_readonly(base.copy())
    fixed.base.flags.writeable = False
    assert copy_if_writable(fixed) is fixed
    for view in (base, base[1:], as_readonly(base), as_readonly(base[1:][1:])):
        found = copy_if_writable(view)
        assert found.tolist() == view.tolist()
        assert not np.shares_memory(found, base)
    with pytest.raises(ValueError, match="read-only"):
        as_readonly(base)[0] = 1


@dataclass(frozen=True)
class Held:
    values: np.ndarray
    other: np.ndarray | None = None
    name: str = "x"


def test_arrays_of_frozen_values_cannot_be_written_to():
    made = build_unchecked(Held, values=np.arange(2))
    assert (made.values.tolist(), made.other, made.name) == ([0, 1], None, "x")
    assert not made.values.flags.writeable
    held = Held(np.arange(2), np.arange(3))
    freeze(held, "values")
    assert (held.values.flags.writeable, held.other.flags.writeable) == (False, True)
    freeze(Held(np.arange(2)), "other")
