"""Top-K lists: exact within the list, censored beyond it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ipseval
from ipseval import InputError, Lists, Split, metric, rank_positives
from ipseval.errors import DataWarning
from tests.inside.ranking import convert_lists

ITEMS = list("abcdefg")
TRAIN = pd.DataFrame({"user": [1, 2], "item": ["a", "b"]})
TEST = pd.DataFrame({"user": [1, 1, 2, 2, 3], "item": ["b", "g", "a", "c", "e"]})
SPLIT = Split.from_frames(TRAIN, TEST, items=ITEMS)

# User 1: c b d; user 2: a alone; user 3: f e g.
LISTS = pd.DataFrame({"user": [1, 1, 1, 2, 3, 3, 3], "item": list("cbdafeg"), "rank": [1, 2, 3, 1, 1, 2, 3]})


def test_ranks_within_the_list_are_exact_and_missing_ones_are_k_plus_one():
    ranked = rank_positives(LISTS.sample(frac=1, random_state=1), SPLIT)
    assert ranked.max_rank == 3
    # user 1: b 2nd, g not in the list; user 2: a 1st, c not in a list padded with misses; user 3: e 2nd.
    assert ranked.n_above.tolist() == [1, 3, 0, 3, 1]
    assert ranked.n_tied.tolist() == [0, 0, 0, 0, 0]
    assert ranked.n_candidates.tolist() == [6, 6, 6, 6, 7]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda columns: pl.DataFrame(columns).lazy()])
def test_lists_may_be_ordered_by_score_with_ties(make):
    columns = {
        "user": [1, 1, 1, 1, 2, 3],
        "item": ["c", "b", "d", "e", "a", "e"],
        "score": [0.5, 0.7, 0.7, 0.1, -np.inf, 2.0],
    }
    ranked = rank_positives(make(columns), SPLIT)
    assert ranked.max_rank == 4
    assert ranked.n_above.tolist() == [0, 4, 0, 4, 0]
    assert ranked.n_tied.tolist() == [1, 0, 0, 0, 0]


def test_large_integer_scores_keep_their_order():
    lists = pd.DataFrame({"user": [1, 1], "item": ["b", "g"], "score": [2**60, 2**60 + 1]})
    assert rank_positives(lists, SPLIT).n_above[:2].tolist() == [1, 0]


def test_lists_give_the_same_top_k_metrics_as_all_scores():
    rng = np.random.default_rng(0)
    scores = rng.random((3, 7))
    hidden = scores.copy()
    hidden[SPLIT.train.user, SPLIT.train.item] = -1
    order = np.argsort(-hidden, axis=1)[:, :4]
    lists = pd.DataFrame(
        {
            "user": np.repeat(SPLIT.user_ids, 4),
            "item": SPLIT.item_ids[order.ravel()],
            "rank": np.tile(np.arange(1, 5), 3),
        }
    )
    listed = rank_positives(lists, SPLIT)
    full = rank_positives(scores, SPLIT)
    for label in ("recall@1", "recall@4", "dcg@3", "rr@4"):
        assert metric(label).user_values(listed).tolist() == metric(label).user_values(full).tolist()


@pytest.mark.parametrize(
    ("label", "hint"),
    [
        (
            "recall@4",
            r"use a cutoff of at most 3, or pass the scores of all items, or pad .*: ranked\.pad_lists\(4\)",
        ),
        ("rr", "use a cutoff of at most 3, as in rr@3, or pass the scores of all items"),
        ("auc", "pass the scores of all items"),
    ],
)
def test_metrics_beyond_the_list_are_refused(label, hint):
    ranked = rank_positives(LISTS, SPLIT)
    words = rf"the lists end at rank 3; {hint}\.$"
    with pytest.raises(InputError, match=words):
        metric(label).user_values(ranked)
    assert metric("recall@4").user_values(ranked.pad_lists(4)).size  # as the hint says


def test_ranks_that_count_from_0_are_those_that_count_from_1():
    ranked = rank_positives(LISTS.assign(rank=LISTS["rank"] - 1), SPLIT)
    assert ranked.n_above.tolist() == rank_positives(LISTS, SPLIT).n_above.tolist()


def without(row: int) -> pd.DataFrame:
    return LISTS.drop(index=row)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (
            LISTS.assign(item=list("bbdafeg")),
            "als .top-K lists.: 1 of 7 entries repeat an item of their list",
        ),
        (without(0), r"the ranks of 1 user are not 1, 2, 3, … without gap .* user 1"),
        (LISTS.assign(rank=[1, 1, 2, 1, 1, 2, 3]), "the ranks of 1 user are not 1, 2, 3"),
        (LISTS.assign(rank=LISTS["rank"] + 1), "the ranks of 3 users are not 1, 2, 3"),
        (
            LISTS.drop(columns="rank").assign(score=[1, 2, np.nan, 1, 1, 1, 1]),
            "1 of 7 entries have no score",
        ),
    ],
)
def test_invalid_lists_are_refused(lists, message):
    with pytest.raises(InputError, match=message):
        rank_positives(lists, SPLIT, name="als")


def test_an_array_of_ids_that_are_no_positions_is_not_read_as_positions():
    # Ids from 1 on: read as positions, every entry would be the next item.
    frame = pd.DataFrame({"user": [0, 0, 1, 1, 2, 2], "item": [1, 2, 2, 3, 3, 4]})
    split = ipseval.Split.from_frames(frame.iloc[::2], frame.iloc[1::2])
    with pytest.raises(InputError, match=r"has shape \(3, 2\).*ipseval\.Lists\(items"):
        ipseval.evaluate({"a": np.array([[2, 3], [3, 1], [1, 2]])}, split, metrics=["recall@1"])


def test_training_items_in_lists_without_options_are_counted_in_the_printed_result():
    train = pd.DataFrame({"user": ["u", "v"], "item": ["a", "b"]})
    test = pd.DataFrame({"user": ["u", "v"], "item": ["b", "c"]})
    split = ipseval.Split.from_frames(train, test, items=list("abcdef"))
    lists = {"u": ["a", "b", "c", "d", "e"], "v": ["c", "a", "d", "e", "f"]}
    with pytest.warns(DataWarning, match="1 of 10 entries of 'a' are training items"):
        evaluation = ipseval.evaluate({"a": lists}, split, metrics=["recall@1"])
    assert "a: 1 of 10 entries that are training items of their user, kept as misses." in " ".join(
        str(evaluation).split()
    )
    assert evaluation.frame["estimate"].tolist() == [0.5]  # a keeps its position, so b is second


POSITIONS = np.array([[0, 1], [3, -1], [2, 0]])
SQUARE = Split.from_frames(None, pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 2]}))
WIDE = Split.from_frames(None, pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 3]}), items=range(4))
NAMED = Split.from_frames(None, pd.DataFrame({"user": [0, 1, 2], "item": [1, 2, 4]}), items=range(1, 5))
SCORES_OF_POSITIONS = np.ones((3, 2))


@pytest.mark.parametrize(
    ("model", "split", "is_read"),
    [
        (POSITIONS, WIDE, True),
        (POSITIONS[:, :1], WIDE, True),
        ((POSITIONS, SCORES_OF_POSITIONS), WIDE, True),
        ((POSITIONS, SCORES_OF_POSITIONS.astype(int)), WIDE, True),
        ((POSITIONS % 3, SCORES_OF_POSITIONS), SQUARE, True),
        ((POSITIONS % 3, SCORES_OF_POSITIONS.astype(int)), SQUARE, False),  # both may be factors
        ((POSITIONS, SCORES_OF_POSITIONS[:, :1]), WIDE, False),
        ((POSITIONS, SCORES_OF_POSITIONS.tolist()), WIDE, False),
        ((POSITIONS, SCORES_OF_POSITIONS, np.ones(4)), WIDE, False),
        (POSITIONS, NAMED, False),  # they may be ids
        (np.array([[0, 1, 2, 3]] * 3), WIDE, False),  # they may be scores
        (POSITIONS[:, :0], WIDE, False),
        (POSITIONS[:2], WIDE, False),
        (POSITIONS - 1, WIDE, False),
        (POSITIONS + 1, WIDE, False),
        (np.array([[0, 1], [3, 3], [2, 0]]), WIDE, False),
        (POSITIONS.astype(float), WIDE, False),
        (POSITIONS[0], WIDE, False),
        (POSITIONS[:, :, None], WIDE, False),
    ],
)
def test_arrays_of_positions_are_read_as_lists_where_they_can_be_nothing_else(model, split, is_read):
    converted = convert_lists(model, split, "m")
    assert isinstance(converted, Lists) is is_read
    assert is_read or converted is model


@pytest.mark.parametrize(
    ("rows", "is_read"),
    [
        ([[0, 1], [3, 2, 1], [2]], True),
        ([[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 1, 3]], True),  # each item of the catalogue once
        ([[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 1, 1]], False),
        ([[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 1, 7]], False),
        ([[0.0, 1.0, 2.0, 3.0]] * 3, False),
        ([(0.5, 1.0, 2.0, 3.0)] * 3, False),
        ([np.arange(4)] * 3, True),
    ],
)
def test_rows_of_one_number_for_each_item_are_scores_unless_they_are_ids(rows, is_read):
    converted = convert_lists(rows, WIDE, "m")
    assert isinstance(converted, Lists) is is_read
    if not is_read:
        np.testing.assert_array_equal(converted, rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "got an empty list"),
        ([[0], 3, [1]], "got a list with a list"),
        ([3, 4, 5], "got a list with an int"),
        ([[0], [1]], "one list for each of the 3 users, in the order of split.user_ids; got 2 lists"),
    ],
)
def test_rows_that_are_no_lists_of_all_users_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        convert_lists(rows, WIDE, "m")


@pytest.mark.parametrize(("n_columns", "is_read"), [(2, False), (3, True), (10, True), (11, False)])
def test_a_frame_of_three_to_ten_columns_with_usual_names_is_of_lists(n_columns, is_read):
    names = ["uid", "sku", "pos", *(f"note {number}" for number in range(8))][:n_columns]
    frame = pd.DataFrame([[0, 1, 1, *range(8)][:n_columns]], columns=names)
    assert isinstance(convert_lists(frame, WIDE, "m"), Lists) is is_read
    assert not isinstance(convert_lists(frame.rename(columns={"sku": "thing"}), WIDE, "m"), Lists)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({}, r"m must contain at least one recommendation list; got an empty mapping\. Pass \{user: \["),
        (
            {1: "b"},
            r"m must map users to recommendation lists; got a str for the first user\. Pass \{user: \[",
        ),
        ({1: b"b"}, "m must map users to recommendation lists; got .*bytes for the first user"),
        ({1: 2.5}, "m must map users to recommendation lists; got a float for the first user"),
    ],
)
def test_mappings_that_hold_no_lists_are_refused(model, message):
    with pytest.raises(InputError, match=message):
        rank_positives(model, SPLIT, name="m")


@pytest.mark.parametrize(
    "make_list", [list, tuple, np.array, lambda items: {item: -n for n, item in enumerate(items)}]
)
def test_a_mapping_holds_sequences_arrays_or_scores_by_item(make_list):
    lists = {1: make_list(["c", "b", "d"]), 2: make_list(["a"])}
    ranked = rank_positives(lists, SPLIT)
    assert (ranked.n_above.tolist(), ranked.max_rank) == ([1, 3, 0, 3, 3], 3)


PAIRS = [(1, "b", 0.5), (1, "c", 0.75), (2, "a", 1.0), (2, "d", 0.25)]


def test_tuples_of_user_item_and_score_are_lists_by_score():
    ranked = rank_positives(PAIRS, SPLIT)
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == ([1, 2, 0, 2, 2], [0] * 5)
    assert ranked.list_length.tolist() == [2, 2, 0]
    assert rank_positives([(u, i, np.float32(s)) for u, i, s in PAIRS], SPLIT).n_above.tolist() == [
        1,
        2,
        0,
        2,
        2,
    ]


@pytest.mark.parametrize(
    "pairs",
    [
        [(user, item, 2 * round(score)) for user, item, score in PAIRS],  # no fraction: they may be ids
        [(user, item, float(round(score))) for user, item, score in PAIRS],
        [list(pair) for pair in PAIRS],
        [pair[:2] for pair in PAIRS],
        [*PAIRS, (3, "e", "high")],
        [*PAIRS, (3, "e", 0.5, "more")],
        [*PAIRS, (3, "e")],
    ],
)
def test_other_tuples_are_no_scored_pairs(pairs):
    words = f"m must have one list for each of the 3 users, .*; got {len(pairs)} lists"
    with pytest.raises(InputError, match=words):
        rank_positives(pairs, SPLIT, name="m")


def test_tuples_of_as_many_as_users_are_their_lists():
    # Three tuples and three users: each is a list of items, and 0.5 is none of them.
    with pytest.raises(InputError, match="column 'item' mixes ids of types float, int, str"):
        rank_positives([(1, "b", 0.5), (1, "c", 0.75), (2, "a", 0.5)], SPLIT, name="m")


def test_lists_and_scores_are_read_from_files(tmp_path):
    LISTS.to_csv(tmp_path / "lists.csv", index=False)
    expected = rank_positives(LISTS, SPLIT)
    for path in (tmp_path / "lists.csv", str(tmp_path / "lists.csv")):
        ranked = rank_positives(path, SPLIT)
        assert ranked.n_above.tolist() == expected.n_above.tolist()
        assert ranked.max_rank == 3
    scores = np.arange(21.0).reshape(3, 7)
    for name in ("scores.npy", "SCORES.NPY"):
        with (tmp_path / name).open("wb") as file:
            np.save(file, scores)
        ranked = rank_positives(tmp_path / name, SPLIT)
        assert ranked.n_above.tolist() == rank_positives(scores, SPLIT).n_above.tolist()
        assert ranked.max_rank is None
    with pytest.raises(InputError, match=r"m is the text 'lists.csv'\. Lists in a file are read by"):
        rank_positives("lists.csv", SPLIT, name="m")


def test_lists_have_their_longest_length_as_the_last_known_rank():
    assert rank_positives({1: ["b"]}, SPLIT).max_rank == 1
    ranked = rank_positives({1: ["b"], 2: ["c", "a", "d"]}, SPLIT)
    assert (ranked.max_rank, ranked.n_above.tolist()) == (3, [0, 3, 1, 0, 3])
    assert ranked.list_length.tolist() == [1, 3, 0]


TEXT_IDS = Split.from_frames(None, pd.DataFrame({"user": ["u", "v"], "item": ["a", "c"]}), items=list("abc"))


@pytest.mark.parametrize(
    "rows",
    [[["b", "a", "c"], ["c", "b", "a"]], [list("ba"), list("cba")], [tuple("bac"), np.array(list("cba"))]],
)
def test_rows_of_text_are_lists_of_ids_also_where_they_are_as_long_as_the_catalogue(rows):
    assert isinstance(convert_lists(rows, TEXT_IDS, "m"), Lists)
    assert rank_positives(rows, TEXT_IDS).n_above.tolist() == [1, 0]


def test_rows_of_truth_values_are_no_scores():
    assert isinstance(convert_lists([[True, False, True]] * 2, TEXT_IDS, "m"), Lists)
