"""Lists in the ids of a split: problems and excluded entries with their numbers, computed by hand."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from ipseval import InputError, Lists, Split, rank_positives
from ipseval.errors import DataWarning
from tests.inside.ranking import HeldOutPositives, TopKCollector, rank_lists, resolve_lists

TRAIN = pd.DataFrame({"user": ["a", "a", "b", "c"], "item": ["p", "q", "p", "q"]})
TEST = pd.DataFrame({"user": ["a", "b", "b", "c"], "item": ["r", "q", "s", "p"]})
SPLIT = Split.from_frames(TRAIN, TEST, items=list("pqrst"))
# Codes: users a, b, c are 0, 1, 2; items p, q, r, s, t are 0 … 4.


@cache
def make_lists(unknown: str = "raise") -> Lists:
    """Return lists of known users and items."""
    return Lists({"a": ["s", "r"], "b": ["s"], "c": ["p", "r", "t"]}, unknown=unknown)


def list_counts(ranked) -> list[tuple[str, int, int]]:
    """Return the counts after the first, which is the number of entries that were read."""
    return [(count.label, count.count, count.total) for count in ranked.row_counts[1:]]


def collect_problems(lists, **options) -> list[str]:
    """Return the lines of the error message for invalid lists."""
    with pytest.raises(InputError) as refused:
        rank_positives(lists, SPLIT, name="m", **options)
    return str(refused.value).splitlines()


def test_every_kind_of_problem_is_counted_among_all_entries():
    lists = Lists({"a": ["x", "r", "p"], "b": ["y", "s", "x"], "z": ["s"], "y": ["r", "q"], "c": ["q", "p"]})
    message = " ".join(collect_problems(lists))
    # Of eleven entries three are of two unknown users, three are two unknown items; a-p and c-q are training.
    assert "3 of 11 entries have users unknown to the split (2 users: 'y', 'z'" in message
    assert "the split has 'a', 'b', 'c')" in message
    assert "3 of 11 entries have items unknown to the split (2 items: 'x', 'y'" in message
    assert "the split has 'p', 'q', 'r', …)" in message
    assert "'c'). Pass unknown='drop' to leave them out. " in message.replace("  ", " ")
    assert "…). Pass unknown='drop' to leave them out, unknown='candidate' to let them compete." in message
    assert "2 of 11 entries are training items of their user (first: 'a', 'p')" in message


def test_a_problem_shows_the_first_pair():
    message = " ".join(collect_problems(Lists({"a": ["r"], "b": ["s", "p"], "c": ["q"]})))
    assert "2 of 4 entries are training items of their user (first: 'b', 'p')" in message


@pytest.mark.parametrize("unknown", ["drop", "candidate"])
def test_unknown_users_are_dropped_and_unknown_items_are_dropped_or_compete(unknown):
    lists = {"a": ["x", "r", "y"], "b": ["s", "x"], "z": ["s", "x"], "c": ["r", "p"]}
    ranked = rank_positives(Lists(lists, unknown=unknown), SPLIT)
    if unknown == "drop":
        # The entries of z have left when the unknown items are counted.
        assert (ranked.n_above.tolist(), ranked.list_length.tolist()) == ([0, 2, 0, 1], [1, 1, 2])
        assert list_counts(ranked) == [
            ("entries with users unknown to the split, left out", 2, 9),
            ("entries with items unknown to the split, left out", 3, 9),
        ]
    else:
        assert (ranked.n_above.tolist(), ranked.list_length.tolist()) == ([1, 3, 0, 1], [3, 2, 2])
        assert list_counts(ranked) == [
            ("entries with users unknown to the split, left out", 2, 9),
            ("entries with items unknown to the split, added as candidates", 3, 9),
        ]


@pytest.mark.parametrize("seen", ["drop", "keep"])
def test_training_items_are_dropped_or_keep_their_positions(seen):
    lists = {"a": ["q", "r"], "b": ["p", "q", "s"], "c": ["p"]}
    ranked = rank_positives(Lists(lists, seen=seen), SPLIT)
    if seen == "drop":
        assert (ranked.n_above.tolist(), ranked.list_length.tolist()) == ([0, 0, 1, 0], [1, 2, 1])
        description = "entries that are training items of their user, left out"
    else:
        assert (ranked.n_above.tolist(), ranked.list_length.tolist()) == ([1, 1, 2, 0], [2, 3, 1])
        description = "entries that are training items of their user, kept as misses"
    assert list_counts(ranked) == [(description, 2, 6)]


def test_an_entry_of_an_unknown_user_is_no_training_item_of_another():
    # z comes after the last user: its code is -1, and a key of -1 must not be that of a pair.
    split = Split.from_frames(
        pd.DataFrame({"user": ["a", "b"], "item": ["p", "q"]}),
        pd.DataFrame({"user": ["a", "b"], "item": ["q", "p"]}),
    )
    ranked = rank_positives(Lists({"a": ["q"], "b": ["p"], "z": ["p", "q"]}, unknown="drop"), split)
    assert list_counts(ranked) == [("entries with users unknown to the split, left out", 2, 4)]
    assert ranked.n_above.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("options", "n_outside", "first"),
    [
        ({"candidates": list("pqr")}, 3, "'a', 's'"),
        ({"candidates": list("rs")}, 2, "'c', 'p'"),
        ({"candidates": list("pqrs")}, 1, "'c', 't'"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*test positives are not among:ipseval.errors.DataWarning")
def test_entries_that_are_not_candidates_are_counted_and_the_first_is_named(options, n_outside, first):
    message = " ".join(collect_problems(make_lists(), **options))
    assert f"{n_outside} entries of the lists are not candidates (first: {first})" in message
    ranked_without = rank_positives(make_lists("drop"), SPLIT, **options)
    assert list_counts(ranked_without) == [("entries that are not candidates, left out", n_outside, 6)]
    ranked = rank_positives(make_lists("candidate"), SPLIT, **options)
    assert (list_counts(ranked), ranked.list_length.tolist()) == ([], [2, 1, 3])


def test_candidates_of_a_user_restrict_the_list_of_that_user_only():
    pairs = pd.DataFrame({"user": list("aabbccc"), "item": list("rsqsprt")})
    assert rank_positives(make_lists(), SPLIT, candidates=pairs).n_above.tolist() == [1, 3, 0, 0]
    fewer_pairs = pairs[pairs["item"] != "t"]
    message = " ".join(collect_problems(make_lists(), candidates=fewer_pairs))
    assert "1 entries of the lists are not candidates (first: 'c', 't')" in message


def test_kept_training_items_and_unknown_items_need_not_be_candidates():
    lists = Lists({"a": ["p", "r"], "b": ["x", "s"], "c": ["p"]}, seen="keep", unknown="candidate")
    ranked = rank_positives(lists, SPLIT, candidates=list("rspq"))
    assert ranked.n_above.tolist() == [1, 2, 1, 0]
    assert [count[0] for count in list_counts(ranked)] == [
        "entries with items unknown to the split, added as candidates",
        "entries that are training items of their user, kept as misses",
    ]


def test_lists_of_exactly_all_candidates_give_the_whole_ranking():
    all_items = {"a": ["s", "r", "t"], "b": ["t", "s", "q", "r"], "c": ["p", "r", "s", "t"]}
    ranked = rank_positives(Lists(all_items), SPLIT)
    assert (ranked.max_rank, ranked.n_above.tolist()) == (None, [1, 2, 1, 0])
    for user in "abc":
        lists = all_items | {user: all_items[user][:-1]}
        assert rank_positives(Lists(lists), SPLIT).max_rank == 4
    with_unknown = all_items | {"a": ["x", *all_items["a"]]}
    assert rank_positives(Lists(with_unknown, unknown="candidate"), SPLIT).max_rank == 4
    with_training = all_items | {"a": ["s", "r", "p"]}
    assert rank_positives(Lists(with_training, seen="keep"), SPLIT).max_rank == 4


def test_a_user_without_positives_may_lack_a_list_of_all_candidates():
    split = Split.from_frames(TRAIN, TEST[:3], users=list("abc"), items=list("pqrst"))
    lists = Lists({"a": ["s", "r", "t"], "b": ["t", "s", "q", "r"], "c": ["r"]})
    assert rank_positives(lists, split).max_rank is None


def test_the_best_entries_of_lists_are_collected_by_user_and_item():
    entries = []

    def handle(user, item, n_above, n_tied):
        rows = zip(*(column.tolist() for column in (user, item, n_above, n_tied)), strict=True)
        entries.extend(rows)

    lists = Lists({"a": ["x", "s", "r"], "b": ["t", "s"], "c": ["t", "p", "r"]}, unknown="candidate")
    top = TopKCollector(2, handle, np.arange(3))
    rank_lists(lists, SPLIT, HeldOutPositives.from_split(SPLIT), name="m", top=top)
    # The unknown item keeps the first place of a and is in no list of items: s is the one that is left.
    assert [row[:2] for row in entries] == [(0, 3), (1, 3), (1, 4), (2, 0), (2, 4)]


def test_problems_are_reported_with_the_name_of_their_list():
    bad = Lists({"a": ["x"]})
    good = make_lists()
    with pytest.raises(InputError) as refused:
        resolve_lists({"one": good, "two": bad}, SPLIT)
    assert str(refused.value).startswith("two (top-K lists): 1 of 1 entries have items unknown")
    with pytest.raises(InputError) as refused:
        resolve_lists({"one": bad, "two": bad}, SPLIT)
    message = str(refused.value)
    assert message.startswith("the top-K lists have 2 problems:")
    assert "one: 1 of 1 entries" in message
    assert "two: 1 of 1 entries" in message
    model = object()
    assert resolve_lists({"other": model}, SPLIT)["other"] is model


def test_an_entry_without_an_item_is_missing_and_neither_unknown_nor_a_training_item():
    frame = pd.DataFrame({"user": ["a", "b"], "item": [None, "s"], "rank": 1})
    (message,) = collect_problems(frame)
    assert "1 of 2 entries have no item" in message
    assert "unknown to the split" not in message
    assert "training items" not in message


def test_an_unknown_item_is_never_the_last_item_of_the_user_before():
    # An unknown item of b has the code -1, one less than the first of b: it must not be read as t of a.
    test = pd.DataFrame({"user": ["a", "b"], "item": ["t", "s"]})
    split = Split.from_frames(TRAIN, test, items=list("pqrst"))
    ranked = rank_positives(Lists({"a": ["r"], "b": ["x", "s"]}, unknown="candidate"), split)
    assert ranked.n_above.tolist() == [2, 1]


def test_ids_of_another_type_are_one_problem_and_not_many_unknown_ids():
    message = " ".join(collect_problems(pd.DataFrame({"user": [1, 2], "item": ["p", "q"], "rank": 1})))
    assert "the column of users" in message
    assert "unknown to the split" not in message
    assert "training items" not in message


@pytest.mark.parametrize(("n_rows", "refused"), [(2, False), (3, False), (4, True)])
def test_rows_of_an_array_are_users_up_to_the_last(n_rows, refused):
    rows = Lists(np.full((n_rows, 1), 2), items=list("pqrst"))
    if not refused:
        assert rank_positives(rows, SPLIT).list_length.tolist() == [1] * n_rows + [0] * (3 - n_rows)
        return
    with pytest.raises(InputError) as error:
        rank_positives(rows, SPLIT)
    assert "the lists have 4 rows and the split 3 users; pass users=, the ids of the rows." in str(
        error.value
    )


CATALOGUE = [f"i{number:02}" for number in range(40)]
LONG = Split.from_frames(
    pd.DataFrame({"user": ["a", "b"], "item": ["i00", "i01"]}),
    pd.DataFrame({"user": ["a", "b"], "item": ["i05", "i06"]}),
    items=CATALOGUE,
)


def make_long_lists(n_changed: int, replacements: list[str]) -> dict[str, list[str]]:
    """Return lists of ten items for each of two users, of which the last `n_changed` are replaced."""
    lists = {"a": CATALOGUE[2:12], "b": CATALOGUE[2:12]}
    for number in range(n_changed):
        user = "ba"[number % 2]
        lists[user] = list(lists[user])
        lists[user][-1 - number // 2] = replacements[number]
    return lists


@pytest.mark.parametrize("n_unknown", [1, 2, 3])
def test_up_to_a_tenth_of_entries_may_be_unknown_items_in_lists_without_options(n_unknown):
    lists = make_long_lists(n_unknown, ["x", "y", "z"])
    if n_unknown == 3:
        with pytest.raises(InputError, match="3 of 20 entries have items unknown to the split"):
            rank_positives(lists, LONG, name="m")
        return
    words = rf"^{n_unknown} of 20 entries of 'm' have items without interactions .* These items compete"
    with pytest.warns(DataWarning, match=words):
        ranked = rank_positives(lists, LONG, name="m")
    assert (ranked.n_above.tolist(), ranked.list_length.tolist()) == ([3, 4], [10, 10])
    description = "entries with items unknown to the split, added as candidates"
    assert list_counts(ranked) == [(description, n_unknown, 20)]
    with pytest.raises(InputError, match=f"{n_unknown} of 20 entries have items unknown to the split"):
        rank_positives(Lists(lists), LONG, name="m")  # with options, nothing is chosen for the caller


@pytest.mark.parametrize("n_seen", [1, 2])
def test_up_to_a_tenth_of_entries_may_be_training_items_in_lists_without_options(n_seen):
    lists = make_long_lists(n_seen, ["i01", "i00"])
    words = rf"^{n_seen} of 20 entries of 'm' are training items of their user, which cannot be hits"
    with pytest.warns(DataWarning, match=words):
        ranked = rank_positives(lists, LONG, name="m")
    assert (ranked.n_above.tolist(), ranked.list_length.tolist()) == ([3, 4], [10, 10])
    description = "entries that are training items of their user, kept as misses"
    assert list_counts(ranked) == [(description, n_seen, 20)]
    shorter_lists = {"a": lists["a"][:6], "b": ["i01", *lists["b"][:6]]}  # one of 13, then one of 9
    shortest_lists = {"a": lists["a"][:4], "b": ["i01", *lists["b"][:4]]}
    with pytest.warns(DataWarning, match="1 of 13 entries"):
        rank_positives(shorter_lists, LONG, name="m")
    with pytest.raises(InputError, match="1 of 9 entries are training items of their user"):
        rank_positives(shortest_lists, LONG, name="m")


def test_training_items_leave_lists_of_all_items_without_options():
    lists = {"a": list("tsrqp"), "c": list("pqrst")}
    ranked = rank_positives(lists, SPLIT)
    # Of a, q and p leave; of c, q.
    assert (ranked.n_above.tolist(), ranked.list_length.tolist()) == ([2, 4, 4, 0], [3, 0, 4])
    description = "entries that are training items of their user, left out"
    assert list_counts(ranked) == [(description, 3, 10)]
    with pytest.raises(InputError, match="3 of 9 entries are training items"):
        rank_positives({"a": list("tsrqp"), "c": list("pqrs")}, SPLIT)


def test_the_training_items_that_are_counted_have_no_other_problem():
    # Of the entries of an unknown user none is a training item; an entry of a dropped user is counted once.
    lists = Lists({"a": ["q", "r"], "z": ["p", "q"]}, seen="drop", unknown="drop")
    assert list_counts(rank_positives(lists, SPLIT)) == [
        ("entries with users unknown to the split, left out", 2, 4),
        ("entries that are training items of their user, left out", 1, 4),
    ]


def test_lists_without_an_item_of_the_split_miss_every_positive():
    lists = Lists({"a": ["x", "y"], "b": ["x"]}, unknown="candidate")
    ranked = rank_positives(lists, SPLIT)
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == ([2] * 4, [0] * 4)
    assert (ranked.max_rank, ranked.list_length.tolist()) == (2, [2, 1, 0])
