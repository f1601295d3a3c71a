"""Pairs of users and items in the containers of Python and pandas are read as the same data in a frame."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.data.reading.held_tables import order_universe, unpack_lists, unpack_table
from ipseval.errors import InputError

USERS = ["ann", "bob", "cyd"]
ITEMS = ["v", "w", "x", "y", "z"]
TRAIN = pd.DataFrame(
    {
        "user_id": ["ann", "ann", "bob", "bob", "cyd"],
        "item_id": ["v", "w", "w", "x", "z"],
        "rating": [5, 2, 4, 1, 3],
    }
)
TEST = pd.DataFrame(
    {
        "user_id": ["ann", "bob", "bob", "cyd"],
        "item_id": ["x", "v", "z", "y"],
        "rating": [4, 5, 4, 1],
    }
)
FORMS = {
    "labels of pairs": lambda frame: frame.set_index(["user_id", "item_id"])["rating"],
    "labels of items first": lambda frame: frame.set_index(["item_id", "user_id"])["rating"],
    "labels without names": lambda frame: frame.set_index(["user_id", "item_id"])["rating"].rename_axis(
        [None, None]
    ),
    "keys of pairs": lambda frame: frame.set_index(["user_id", "item_id"])["rating"].to_dict(),
    "users as labels": lambda frame: frame.set_index("user_id"),
    "both as labels": lambda frame: frame.set_index(["user_id", "item_id"]),
    "pivot": lambda frame: frame.pivot(index="user_id", columns="item_id", values="rating"),
    "pivot with zeros": lambda frame: frame.pivot(index="user_id", columns="item_id", values="rating").fillna(
        0
    ),
    "records": lambda frame: frame.to_dict("records"),
    "arrays": lambda frame: tuple(frame[column].to_numpy() for column in frame),
    "Series": lambda frame: tuple(frame[column] for column in frame),
    "array of text": lambda frame: frame.to_numpy(),
    "generator": lambda frame: frame.itertuples(index=False, name=None),
    "set": lambda frame: set(frame.itertuples(index=False, name=None)),
}


@pytest.mark.parametrize("form", FORMS)
def test_ratings_in_any_container_give_the_split_of_the_frame(form):
    convert = FORMS[form]
    options = {"users": USERS, "items": ITEMS}
    split = ipseval.Split.from_frames(convert(TRAIN), convert(TEST), threshold=4, **options)
    train_pairs = {("ann", "v"), ("bob", "w")}
    test_pairs = {("ann", "x"), ("bob", "v"), ("bob", "z")}
    for part, pairs in ((split.train, train_pairs), (split.test, test_pairs)):
        frame = part.to_frame()
        assert set(zip(frame["user"], frame["item"], strict=True)) == pairs
    log = ipseval.read(convert(TRAIN), threshold=4).to_frame()
    assert set(zip(log["user"], log["item"], strict=True)) == train_pairs


@pytest.mark.parametrize("form", FORMS)
def test_ratings_in_any_container_need_a_threshold(form):
    many = pd.concat([TRAIN, TEST.assign(rating=[1, 2, 3, 4])], ignore_index=True)
    with pytest.raises(InputError, match="threshold=4"):
        ipseval.Split.from_frames(FORMS[form](many), {"ann": ["y"]})


PAIRS = {
    "Series of lists": lambda frame: frame.groupby("user_id")["item_id"].apply(list),
    "Series of sets": lambda frame: frame.groupby("user_id")["item_id"].apply(set),
    "sets": lambda frame: frame.groupby("user_id")["item_id"].apply(set).to_dict(),
    "items of a mapping": lambda frame: frame.groupby("user_id")["item_id"].apply(list).to_dict().items(),
    "frame of lists": lambda frame: frame.groupby("user_id")["item_id"].apply(list).reset_index(),
    "Series of items": lambda frame: frame.set_index("user_id")["item_id"],
    "crosstab": lambda frame: pd.crosstab(frame["user_id"], frame["item_id"]),
    "ones": lambda frame: dict.fromkeys(zip(frame["user_id"], frame["item_id"], strict=True), 1),
    "zip": lambda frame: zip(frame["user_id"], frame["item_id"], strict=True),
}


@pytest.mark.parametrize("form", PAIRS)
def test_pairs_in_any_container_give_the_split_of_the_frame(form):
    convert = PAIRS[form]
    split = ipseval.Split.from_frames(convert(TRAIN), convert(TEST))
    reference = ipseval.Split.from_frames(TRAIN.drop(columns="rating"), TEST.drop(columns="rating"))
    assert set(split.train.pair_key) == set(reference.train.pair_key)
    assert set(split.test.pair_key) == set(reference.test.pair_key)
    assert split.user_ids.tolist() == USERS
    assert split.item_ids.tolist() == ITEMS


def test_a_repeated_pair_stays_repeated():
    repeated = pd.concat([TRAIN, TRAIN.iloc[:1]]).set_index(["user_id", "item_id"])["rating"]
    with pytest.raises(InputError, match="repeat"):
        ipseval.read(repeated, threshold=4)


def test_scores_of_pairs_become_lists():
    scores = pd.Series({("ann", "x"): 0.2, ("ann", "y"): 0.7, ("bob", "x"): 0.1})
    expected = {"ann": [("x", 0.2), ("y", 0.7)], "bob": [("x", 0.1)]}
    assert unpack_lists(scores) == expected
    assert unpack_lists(scores.to_dict()) == expected


def test_pairs_whose_scores_are_all_1_are_lists_of_equal_scores():
    scores = {("ann", "x"): 1, ("ann", "y"): 1, ("bob", "x"): 1.0}
    expected = {"ann": [("x", 1), ("y", 1)], "bob": [("x", 1)]}
    assert unpack_lists(scores) == expected
    assert unpack_lists(pd.Series(scores)) == expected


@pytest.mark.parametrize(
    "ids",
    [
        {"cyd": 1, "ann": 2, "bob": 0},
        {1: "cyd", 2: "ann", 0: "bob"},
        pd.DataFrame({"user_id": ["bob", "cyd", "ann"], "age": [3, 1, 2]}),
        ["bob", "cyd", "ann"],
    ],
)
def test_the_universe_is_in_the_order_of_the_positions(ids):
    split = ipseval.Split.from_frames({"ann": ["x"]}, {"bob": ["x"]}, users=ids)
    assert split.user_ids.tolist() == ["bob", "cyd", "ann"]
    assert split.train.user.tolist() == [2]


def test_a_mapping_of_numbers_that_may_be_ids_or_positions_is_refused():
    with pytest.raises(InputError, match="both whole numbers"):
        order_universe({0: 1, 1: 0}, "user")
    with pytest.raises(InputError, match="neither"):
        order_universe({"a": 3, "b": 7}, "user")
    assert order_universe({0: 0, 1: 1}, "user") == [0, 1]


@pytest.mark.parametrize(
    "source",
    [
        "a text",
        {"ann": ["x"]},
        [("ann", "x")],
        pd.DataFrame({"user": ["ann"], "item": ["x"]}),
        pd.Series([1.0, 2.0]),
        np.eye(2),
        ([1, 2], [3, 4]),
    ],
    ids=lambda source: type(source).__name__,
)
def test_other_objects_are_unchanged(source):
    assert unpack_table(source) is source


def test_named_tuples_are_read_by_name_or_else_by_position():
    swapped = TRAIN[["item_id", "user_id", "rating"]]
    rows = list(swapped.itertuples(index=False))
    assert ipseval.read(rows, threshold=4).user_ids.tolist() == USERS
    unnamed = list(TRAIN.set_axis(["a", "b", "c"], axis=1).itertuples(index=False))
    assert ipseval.read(unnamed, threshold=4).user_ids.tolist() == USERS


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="one length"):
        ipseval.read((np.array(["a", "b"]), np.array(["x"])))


def test_fields_of_the_first_named_tuple_say_what_a_list_of_them_holds():
    pair = namedtuple("Pair", ["user", "item"])("a", "x")
    unnamed_pair = namedtuple("UnnamedPair", ["first", "second"])("b", "y")
    assert ipseval.read([unnamed_pair, pair]).to_frame()["user"].tolist() == ["b", "a"]  # by position
    with pytest.raises(ipseval.InputError, match=r"1 of 2 rows have no user \(first: row 1\)"):
        ipseval.read([pair, unnamed_pair])
