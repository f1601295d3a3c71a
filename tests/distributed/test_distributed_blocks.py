"""Rows packed for a shuffle come back as they were, whatever their ids, lists and partitions."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.distributed.test_partitions import UP_TO_A_FACTOR, example
from tests.inside.distributed import (
    ListArrays,
    add_rows,
    build_catalogue,
    count_rows,
    make_plan,
    pack_blocks,
    reduce_partition,
    unpack_blocks,
)

IDS = {
    "small": np.array([3, 0, 250, 7, 255]),
    "large": np.array([2**40, 5, 2**62, 1, 9]),
    "negative": np.array([-1, 4, -(2**33), 0, 8]),
    "minus one": np.array([-1, 4, 0, 3, 8]),
    "unsigned": np.array([1, 2, 2**63, 4, 5], dtype=np.uint64),
    "text": np.array(["a", "bb", "", "d", "é"], dtype=object),
}


def blocks_of(rows, target, n_partitions: int) -> dict[int, bytes]:
    return {number: block for number, _, block in pack_blocks(rows, np.asarray(target), n_partitions)}


@pytest.mark.parametrize(
    ("kind", "order"), [*((kind, None) for kind in IDS), ("small", "rank"), ("text", "score")]
)
def test_rows_of_a_frame_come_back_in_their_order_with_their_types(kind, order):
    frame = pd.DataFrame({"user": IDS[kind], "item": IDS[kind][::-1].copy()})
    if order == "rank":
        frame["rank"] = [1, 2, 300, 4, 5]
    if order == "score":
        frame["score"] = [0.5, -1.0, np.nan, 2.0, 0.0]
    # Rows 1 and 4 go to partition 2, the others to 0; partition 1 gets none.
    blocks = blocks_of(frame, [0, 2, 0, 0, 2], 3)
    assert list(blocks) == [0, 2]
    for number, places in ((0, [0, 2, 3]), (2, [1, 4])):
        expected = frame.iloc[places].reset_index(drop=True)
        pd.testing.assert_frame_equal(unpack_blocks([blocks[number]]), expected)


@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    n_partitions=st.integers(1, 5),
    seed=st.integers(0, 2**16),
)
def test_lists_of_any_length_come_back_from_several_blocks(sizes, n_partitions, seed):
    rng = np.random.default_rng(seed)
    lists = [rng.integers(70_000, size=size) for size in sizes]
    target = rng.integers(n_partitions, size=len(sizes))
    users = rng.permutation(len(sizes))
    halves = [slice(0, len(sizes) // 2), slice(len(sizes) // 2, None)]
    parts = [
        blocks_of(pd.DataFrame({"user": users[half], "items": lists[half]}), target[half], n_partitions)
        for half in halves
    ]
    for number in range(n_partitions):
        rows = unpack_blocks([part[number] for part in parts if number in part])
        in_partition = np.flatnonzero(target == number)
        if not in_partition.size:
            assert len(rows) == 0
            continue
        assert isinstance(rows, ListArrays)
        assert rows.user.tolist() == users[in_partition].tolist()
        assert rows.size.tolist() == [sizes[index] for index in in_partition]
        assert rows.item.tolist() == [item for index in in_partition for item in lists[index].tolist()]
        assert rows.item.dtype == np.int64 or not rows.item.size


def test_blocks_of_different_types_come_back_in_one_that_holds_both():
    whole_numbers, fractions = (
        blocks_of(pd.DataFrame({"user": [value], "item": [value]}), [0], 1)[0] for value in (1, 0.5)
    )
    assert unpack_blocks([whole_numbers, fractions])["user"].tolist() == [1.0, 0.5]
    # Without an entry, the type is that of the first: lists that are all empty are of no whole numbers.
    whole_numbers, fractions = (
        blocks_of(pd.DataFrame({"user": [0], "items": [np.zeros(0, kind)]}), [0], 1)[0]
        for kind in (int, float)
    )
    assert [
        unpack_blocks(pair).item.dtype for pair in ([whole_numbers, fractions], [fractions, whole_numbers])
    ] == [
        np.int64,
        np.float64,
    ]


def test_the_place_of_a_block_is_that_of_one_of_its_rows():
    frame = pd.DataFrame({"user": [5, 6, 7, 8], "item": [1, 1, 2, 2]})
    target = np.array([3, 1, 3, 0])
    assert {number: place for number, place, _ in pack_blocks(frame, target, 4)} == {0: 3, 1: 1, 3: 0}


def test_an_entry_of_a_list_takes_the_bytes_that_its_number_needs():
    lists = pd.DataFrame({"user": np.arange(1000), "items": list(np.full((1000, 100), 20_000))})
    (block,) = blocks_of(lists, np.zeros(1000, dtype=int), 1).values()
    # Two bytes for an item, two for a user, one for a length; and what says the types.
    assert 203_000 < len(block) < 204_000


def test_items_are_counted_in_one_pass_over_both_frames():
    train = [pd.DataFrame({"item": [7, 7, 9]}), pd.DataFrame({"item": [9, 7]})]
    test = [pd.DataFrame({"item": [8, 9, 8]})]
    counts = [count_rows(part, "item", 0) for part in train] + [count_rows(part, "item", 1) for part in test]
    ids, popularity = build_catalogue(add_rows([add_rows(counts[:2]), counts[2]]), None)
    assert ids.tolist() == [7, 8, 9]
    assert popularity.tolist() == [3, 0, 2]


def test_a_partition_sends_no_id_of_a_user_unless_it_matters_who_they_are():
    frames = example()
    items = np.sort(pd.concat([frames["train"]["item"], frames["test"]["item"]]).unique())
    options = {"missing_lists": "zero", "ties": "default", "confidence_level": 0.95, "n_relevant": None}
    options |= {"metrics": ("recall@5",), "propensity": UP_TO_A_FACTOR, "count_users": None}
    sizes = {}
    for per_user in (False, True):
        plan = make_plan(items, np.ones(items.size, dtype=np.int64), per_user=per_user, **options)
        part = reduce_partition(frames["train"], frames["test"], {"first": frames["first"]}, plan)
        sizes[per_user] = part.user_ids.size
    assert sizes == {False: 0, True: 80}


def test_what_partitions_send_does_not_grow_with_their_users():
    options = {"missing_lists": "zero", "ties": "default", "confidence_level": 0.95, "n_relevant": None}
    options |= {"metrics": ("recall@5", "ndcg@5"), "propensity": UP_TO_A_FACTOR, "count_users": None}
    plan = make_plan(np.arange(500, 525), np.ones(25, dtype=np.int64), **options)
    sent = []
    for n_users in (50, 400):
        frames = example(3, n_users=n_users)
        part = reduce_partition(frames["train"], frames["test"], {"first": frames["first"]}, plan)
        sent.append(len(pickle.dumps(part)))
    assert sent[1] < 1.02 * sent[0]
