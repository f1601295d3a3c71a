"""Splits against hand-worked cases and invariants."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipseval.data import Interactions
from ipseval.data.splits import (
    Split,
    k_core,
    repeated_splits,
    split_global_time,
    split_leave_one_out,
    split_random,
    split_temporal,
)
from ipseval.errors import DataWarning, InputError
from tests.conftest import examples

# Orders in time within a user leak by design; tests/data/test_time.py has the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*later training rows:ipseval.errors.DataWarning")

TIMED = pd.DataFrame(
    {
        "user": ["a", "b", "a", "a", "b", "a", "b", "c"],
        "item": [1, 1, 2, 3, 2, 4, 3, 5],
        "time": [40, 7, 10, 20, 9, 30, 8, 99],
    }
)


def make_timed_log() -> Interactions:
    return Interactions.from_frame(TIMED, timestamp="time")


def pairs(part: Interactions) -> set[tuple[object, object]]:
    return set(zip(part.user_ids[part.user], part.item_ids[part.item], strict=True))


@st.composite
def logs(draw: st.DrawFn) -> Interactions:
    """Logs of up to 60 pairs with many ties in time, and times that differ in their last bits alone."""
    n_users = draw(st.integers(1, 8))
    n_items = draw(st.integers(1, 12))
    keys = draw(
        st.lists(st.integers(0, n_users * n_items - 1), min_size=1, max_size=60, unique=True).map(np.array)
    )
    high, low = (draw(st.lists(st.integers(0, n), min_size=keys.size, max_size=keys.size)) for n in (1, 4))
    # Beside 2^62 there is no room for user and time in 64 bits.
    step, unit = draw(st.sampled_from([(0, 1), (2**62, 1), (-1, 0.25), (1.0, 1e-300)]))
    times = np.array(high) * step + np.array(low) * unit
    return Interactions(
        keys // n_items, keys % n_items, np.arange(n_users), np.arange(n_items), timestamp=times
    )


SPLITS = {
    "random": lambda log, **shares: split_random(log, **shares, rng=0),
    "temporal": split_temporal,
    "one, random": lambda log, **number: split_leave_one_out(log, **number, rng=0),
    "one, temporal": lambda log, **number: split_leave_one_out(log, **number, order="temporal"),
}


@pytest.mark.parametrize("method", SPLITS)
@settings(max_examples=examples(100))
@given(log=logs(), share=st.sampled_from([0.1, 0.25, 0.5]), validation=st.sampled_from([0.0, 0.2, 0.4]))
def test_each_user_is_cut_as_by_a_plain_loop(method: str, log: Interactions, share, validation) -> None:
    uses_shares = "one" not in method
    uses_time = "temporal" in method
    n_left_for_validation = round(5 * validation)
    shares = {"test_fraction": share, "validation_fraction": validation}
    expected = {"train": [], "validation": [], "test": []}
    n_tied = 0
    for user in range(log.n_users):
        rows = np.flatnonzero(log.user == user).tolist()
        rows.sort(key=lambda row: (log.timestamp[row], row), reverse=True)
        n_rows = len(rows)
        has_enough = len(rows) >= n_left_for_validation + 2
        n_test, n_validation = (
            (int(n_rows * share + 0.5), int(n_rows * validation + 0.5))
            if uses_shares
            else (1, n_left_for_validation)
        )
        n_test, n_validation = (n_test, n_validation) if uses_shares or has_enough else (0, 0)
        expected["test"] += rows[:n_test]
        expected["validation"] += rows[n_test : n_test + n_validation]
        expected["train"] += rows[n_test + n_validation :]
        cuts = {n_test, min(n_test + n_validation, n_rows)} - {0, n_rows}
        n_tied += any(log.timestamp[rows[cut - 1]] == log.timestamp[rows[cut]] for cut in cuts)
    if not expected["test"]:
        with pytest.raises(InputError, match=r"no user has enough|needs a user with"):
            SPLITS[method](log, **shares if uses_shares else {"n_validation": n_left_for_validation})
        return
    split = SPLITS[method](log, **shares if uses_shares else {"n_validation": n_left_for_validation})
    row_of = {key: row for row, key in enumerate(log.pair_key.tolist())}
    all_rows = []
    for name, rows in expected.items():
        part = getattr(split, name)
        if part is None:
            assert (name, validation) == ("validation", 0)
            continue
        part_rows = [row_of[key] for key in part.pair_key.tolist()]
        assert part_rows == sorted(rows if uses_time else part_rows)
        assert (
            np.bincount(log.user[part_rows], minlength=9).tolist()
            == np.bincount(log.user[rows], minlength=9).tolist()
        )
        assert np.array_equal(part.timestamp, log.timestamp[part_rows])
        all_rows += part_rows
    assert sorted(all_rows) == list(range(len(log)))  # nothing is lost, nothing occurs twice
    assert split.n_users_without_test == int(((log.activity > 0) & (split.test.activity == 0)).sum())
    assert split.n_tied_users == uses_time * n_tied
    assert (split.n_purged, split.n_overlap_dropped, split.n_repeats_merged) == (0, 0, 0)
    assert ("broken by row order" in split.description) == bool(split.n_tied_users)


@given(log=logs())
def test_a_global_time_keeps_every_row(log: Interactions) -> None:
    try:
        split = split_global_time(log, test_fraction=0.3)
    except InputError:
        return
    assert sorted([*split.train.pair_key, *split.test.pair_key]) == sorted(log.pair_key)
    assert split.train.timestamp.max() < split.test.timestamp.min()


@given(log=logs(), k=st.integers(1, 4))
def test_k_core_is_stable_and_the_largest_such_part(log: Interactions, k: int) -> None:
    # Oracle: remove one offending pair of ids at a time, in plain Python.
    core_pairs = set(zip(log.user.tolist(), log.item.tolist(), strict=True))
    has_changed = True
    while has_changed:
        users = pd.Series([user for user, _ in core_pairs], dtype=int).value_counts().to_dict()
        items = pd.Series([item for _, item in core_pairs], dtype=int).value_counts().to_dict()
        remaining_pairs = {(user, item) for user, item in core_pairs if users[user] >= k and items[item] >= k}
        has_changed = remaining_pairs != core_pairs
        core_pairs = remaining_pairs
    if not core_pairs:
        with pytest.raises(InputError, match="empty"):
            k_core(log, k)
        return
    core = k_core(log, k)
    assert pairs(core) == core_pairs
    assert core.activity.min() >= k
    assert core.popularity.min() >= k
    assert core.n_pairs_removed == len(log) - len(core_pairs)
    assert core.n_users_removed == log.n_users - len({user for user, _ in core_pairs})
    assert core.n_items_removed == log.n_items - len({item for _, item in core_pairs})
    assert core.timestamp.tolist() == [
        time
        for user, item, time in zip(log.user, log.item, log.timestamp, strict=True)
        if (user, item) in core_pairs
    ]


def test_global_time_keeps_the_same_time_on_one_side() -> None:
    # 8 rows: times 7 8 9 10 20 30 40 99. A quarter is 2 rows: from 40 on.
    split = split_global_time(make_timed_log(), test_fraction=0.25, validation_fraction=0.25)
    assert sorted(split.test.timestamp) == [40, 99]
    assert sorted(split.validation.timestamp) == [20, 30]
    tied_log = Interactions(
        np.arange(4), np.zeros(4, int), np.arange(4), np.arange(1), timestamp=np.array([1, 5, 5, 5])
    )
    late_split = split_global_time(tied_log, test_fraction=0.25)
    assert (
        len(late_split.test),
        late_split.n_purged,
        late_split.n_tied_users,
        late_split.n_overlap_dropped,
    ) == (3, 0, 0, 0)


def test_repeats_count_in_training_and_held_out_pairs_of_an_earlier_part_are_removed() -> None:
    item = [0, 0, 1, 0, 1, 2, 2]
    time = np.arange(1, 8)
    log = Interactions([0] * 7, item, [0], [0, 1, 2], timestamp=time, repeats=True)
    start_times = {"test_start": 5, "validation_start": 3}
    with pytest.warns(
        DataWarning, match=r"1 of 2 (validation|test) pairs are in an earlier part too"
    ) as caught_warnings:
        split = split_global_time(log, **start_times)
    assert len(caught_warnings) == 2
    assert [part.item.tolist() for part in (split.train, split.validation, split.test)] == [[0, 0], [1], [2]]
    assert (split.n_overlap_dropped, split.n_repeats_merged) == (1, 1)
    split = split_global_time(log, **start_times, seen="include")
    assert [part.item.tolist() for part in (split.validation, split.test)] == [[1, 0], [1, 2]]
    assert (split.n_overlap_dropped, split.n_repeats_merged) == (0, 1)
    with pytest.raises(InputError, match="1 of 1 test pairs are in an earlier part too"):
        split_global_time(log.select([0, 1]), test_start=2)


def test_both_zeros_are_one_time() -> None:
    log = Interactions([0, 0, 0], [0, 1, 2], [0], [0, 1, 2], timestamp=[-0.0, 0.0, -1.0])
    split = split_temporal(log, test_fraction=0.34)
    assert (split.test.item.tolist(), split.n_tied_users) == ([1], 1)
    ties = "by time per user, 0.34 test, ties in time at the cut of 1 user broken by row order"
    assert split.description == ties


def test_a_split_has_counts_of_cold_users_and_items() -> None:
    split = split_global_time(make_timed_log(), test_start=40)
    # Test: (a, 1) and (c, 5); user c and item 5 never occur before.
    assert (split.n_cold_users, split.n_cold_items, split.n_cold_positives) == (1, 1, 1)
    assert "1 cold user; 1 cold item" in repr(split)
    # Test: a known pair, a cold user, a cold item, and both.
    log = Interactions([0, 0, 1, 0, 0, 2, 1, 3], [0, 1, 0, 2, 4, 0, 3, 3], np.arange(4), np.arange(5))
    split = Split(log.select([0, 1, 2, 3]), log.select([4, 5, 6, 7]))
    assert (split.n_cold_users, split.n_cold_items, split.n_cold_positives) == (2, 2, 4)
    split = Split(log.select([0, 1, 3, 4, 6]), log.select([2, 5, 7]))
    assert (split.n_cold_users, split.n_cold_items, split.n_cold_positives) == (2, 0, 2)


@pytest.mark.parametrize(
    "start",
    [
        "2020-01-03",
        datetime.date(2020, 1, 3),
        pd.Timestamp("2020-01-03"),
        np.datetime64("2020-01-03"),
        pd.Timestamp("2020-01-03").as_unit("ns").value,
    ],
)
def test_global_time_takes_dates(start: object) -> None:
    frame = pd.DataFrame(
        {
            "user": [0, 0, 1],
            "item": [0, 1, 0],
            "time": pd.to_datetime(["2020-01-01", "2020-01-03", "2020-01-02"]),
        }
    )
    split = split_global_time(Interactions.from_frame(frame, timestamp="time"), test_start=start)
    assert pairs(split.test) == {(0, 1)}


EVEN = Interactions(np.repeat(np.arange(30), 10), np.tile(np.arange(10), 30), np.arange(30), np.arange(10))


def test_random_split_follows_its_seed_only() -> None:
    split, equal_split, other_split = (split_random(EVEN, rng=seed) for seed in (1, 1, 2))
    np.random.seed(5)  # noqa: NPY002 - global state must have no influence
    assert pairs(split.test) == pairs(equal_split.test) == pairs(split_random(EVEN, rng=1).test)
    assert pairs(split.test) != pairs(other_split.test)


@pytest.mark.parametrize(
    "split_log",
    [
        lambda frame: split_random(Interactions.from_frame(frame, timestamp="time"), rng=0),
        lambda frame: split_leave_one_out(Interactions.from_frame(frame, timestamp="time"), rng=0),
        lambda frame: split_leave_one_out(Interactions.from_frame(frame, timestamp="time"), order="temporal"),
        lambda frame: split_temporal(Interactions.from_frame(frame, timestamp="time")),
    ],
    ids=["random", "leave-one-out", "temporal leave-one-out", "temporal"],
)
def test_only_random_splits_depend_on_the_order_of_the_rows_and_sorted_rows_give_one_split(
    split_log, request
):
    n_items = 12
    frame = pd.DataFrame({"user": np.repeat(np.arange(20), n_items), "item": np.tile(np.arange(n_items), 20)})
    frame["time"] = np.random.default_rng(0).permutation(len(frame))  # without ties
    other_order = frame.sample(frac=1, random_state=1)
    is_temporal = "temporal" in request.node.callspec.id
    assert (pairs(split_log(frame).test) == pairs(split_log(other_order).test)) == is_temporal
    in_order = split_log(other_order.sort_values(["user", "item"]))
    assert pairs(in_order.test) == pairs(split_log(frame.sort_values(["user", "item"])).test)


def test_random_split_gives_every_interaction_the_same_chance() -> None:
    # 6,000 users with 5 interactions, one to test: each place has probability .2, 4 sigma = .0207.
    log = Interactions(
        np.repeat(np.arange(6_000), 5), np.tile(np.arange(5), 6_000), np.arange(6_000), np.arange(5)
    )
    for split in (split_random(log, rng=0), split_leave_one_out(log, n_validation=0, rng=0)):
        np.testing.assert_allclose(split.test.popularity / 6_000, 0.2, atol=4 * np.sqrt(0.16 / 6_000))


def test_repeated_splits_differ_and_do_not_depend_on_their_number() -> None:
    pairs_of_three = [pairs(split.test) for split in repeated_splits(EVEN, 3, rng=4)]
    pairs_of_two = [pairs(split.test) for split in repeated_splits(EVEN, 2, rng=4)]
    assert pairs_of_three[:2] == pairs_of_two
    assert pairs_of_three[0] != pairs_of_three[1] != pairs_of_three[2]


def test_the_rth_repeated_split_is_that_of_the_rth_child_of_the_generator() -> None:
    children = np.random.default_rng(4).spawn(3)
    for split, child in zip(repeated_splits(EVEN, 3, rng=4), children, strict=True):
        assert pairs(split.test) == pairs(split_random(EVEN, rng=child).test)


def test_repeated_splits_use_the_method_and_its_options() -> None:
    splits = list(repeated_splits(make_timed_log(), 2, method=split_leave_one_out, rng=0, n_validation=0))
    assert [len(split.test) for split in splits] == [2, 2]
    assert splits[1].description == "leave-one-out, random order, 0 validation, repeat 2 of 2"


def make_untimed_log() -> Interactions:
    return Interactions.from_frame(TIMED[["user", "item"]])


BAD_CALLS = {
    r"test_fraction must be in \(0, 1\)": lambda: split_random(make_timed_log(), test_fraction=0),
    "test_fraction": lambda: split_temporal(make_timed_log(), test_fraction=1),
    r"test_fraction \+ validation_fraction": lambda: split_random(
        make_timed_log(), test_fraction=0.6, validation_fraction=0.5
    ),
    "at most 4 per user": lambda: split_random(make_timed_log(), test_fraction=0.1),
    "Name the column of times by timestamp=": lambda: split_temporal(make_untimed_log()),
    "a split at a global time requires": lambda: split_global_time(make_untimed_log()),
    "timestamp=": lambda: split_leave_one_out(make_untimed_log(), order="temporal"),
    "Choices: random, temporal": lambda: split_leave_one_out(make_timed_log(), order="time"),
    "no effect": lambda: split_leave_one_out(make_timed_log(), order="temporal", rng=0),
    "needs a user with 5 interactions; the longest has 4": lambda: split_leave_one_out(
        make_timed_log(), n_validation=3
    ),
    "integer >= 0": lambda: split_leave_one_out(make_timed_log(), n_validation=-1),
    "test part is empty": lambda: split_global_time(make_timed_log(), test_start=100),
    "training part is empty": lambda: split_global_time(make_timed_log(), test_start=0),
    "validation part is empty": lambda: split_global_time(
        make_timed_log(), test_start=20, validation_start=30
    ),
    "unit of the": lambda: split_global_time(make_timed_log(), test_start="2020-01-01"),
    "number or a date; got 'soon'": lambda: split_global_time(make_timed_log(), test_start="soon"),
    "got bool": lambda: split_global_time(make_timed_log(), test_start=True),
    "5-core of .* is empty; use a smaller k": lambda: k_core(make_timed_log(), 5),
    "integer >= 1": lambda: k_core(make_timed_log(), 0),
    r"^log must be Interactions; got int\. Pass Interactions\.from_frame": lambda: split_random(3),
    r"^log\.csv does not exist": lambda: k_core("log.csv"),
    r"threshold applies to data that are read; got a log\.": lambda: split_random(
        make_timed_log(), threshold=3
    ),
    "n_repeats must be an integer >= 1": lambda: repeated_splits(make_timed_log(), 0),
}


@pytest.mark.parametrize("text", BAD_CALLS)
def test_the_error_of_a_wrong_call_names_the_requirement(text: str) -> None:
    with pytest.raises(InputError, match=text):
        BAD_CALLS[text]()


@pytest.mark.parametrize(
    ("size", "share", "n_test"),
    [(90, 0.35, 32), (100, 0.145, 15), (5, 0.1, 1), (9, 0.1666666, 1), (7, 0.4999999714, 4)],
)
def test_a_half_is_rounded_up_also_where_the_product_is_a_little_less(size, share, n_test):
    # 90 · 0.35 = 31.5, in binary floating point 31.499999999999996; 9 · 0.1666666 = 1.4999994 is no half, but
    # 7 · 0.4999999714 = 3.4999998 is one up to six decimals.
    log = Interactions.from_frame(pd.DataFrame({"user": [0] * size, "item": range(size)}))
    assert len(split_random(log, test_fraction=share, rng=0).test) == n_test
