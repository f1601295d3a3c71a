"""`evaluate` takes what people hold: frames in place of a split, lists as objects, values by item id."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import ipseval
from ipseval.errors import InputError

RNG = np.random.default_rng(0)
USER, ITEM = np.nonzero(RNG.random((20, 15)) < 0.4)
FRAME = pd.DataFrame({"user_id": USER, "item_id": ITEM})
TEST = FRAME.sample(frac=0.3, random_state=0)
TRAIN = FRAME.drop(TEST.index)
SPLIT = ipseval.Split.from_frames(TRAIN, TEST)
SCORES = RNG.random((20, 15))
UNSEEN = SCORES.copy()
UNSEEN[SPLIT.train.user, SPLIT.train.item] = -np.inf
N_CANDIDATES = 15 - SPLIT.train.activity
LISTS = {user: np.argsort(-UNSEEN[user])[: min(5, N_CANDIDATES[user])].tolist() for user in range(20)}


def recall(model, **options):
    arguments = {"metrics": ["recall@5"], "low_ess": "ignore", **options}
    if "train" not in options:
        arguments["split"] = SPLIT
    return ipseval.evaluate({"m": model}, **arguments).frame["estimate"].tolist()


EXPECTED = recall(SCORES)


@pytest.mark.parametrize(
    "parts",
    [
        {"train": TRAIN, "test": TEST},
        {"train": ipseval.read(TRAIN), "test": TEST.rename(columns={"user_id": "uid", "item_id": "sku"})},
        {"train": SPLIT.train.to_csr(), "test": SPLIT.test.to_csr()},
        {"train": TRAIN.groupby("user_id")["item_id"].apply(list).to_dict(), "test": TEST},
    ],
)
def test_training_and_test_interactions_take_the_place_of_a_split(parts):
    assert recall(SCORES, **parts) == EXPECTED


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"split": SPLIT, "train": TRAIN, "test": TEST},
            "Pass either `split` or `train` and `test`; got both.",
        ),
        ({}, "evaluate needs `split`, or `train` and `test`; got neither. Pass split_random(log), or "),
        ({"train": TRAIN}, "`train` requires `test`, the held-out interactions; got None. Pass test=frame."),
        (
            {"test": TEST},
            "`test` requires `train`, the training interactions; got None. Pass train=frame, or ",
        ),
    ],
)
def test_exactly_one_of_a_split_and_its_parts_is_needed(arguments, text):
    with pytest.raises(InputError, match=f"^{re.escape(text)}"):
        ipseval.evaluate({"m": SCORES}, **arguments)


def test_the_advice_for_a_test_set_without_training_works():
    split = ipseval.Split.from_frames(None, TEST)
    assert ipseval.evaluate({"m": np.ones((split.n_users, split.n_items))}, split).models == ["m"]


MODELS = {
    "mapping of lists": LISTS,
    "mapping of arrays": {user: np.array(items) for user, items in LISTS.items()},
    "mapping of scores": {
        user: {item: SCORES[user, item] for item in items} for user, items in LISTS.items()
    },
    "mapping of pairs": {
        user: [(item, SCORES[user, item]) for item in items] for user, items in LISTS.items()
    },
    "list of lists": list(LISTS.values()),
    "list of tuples": [tuple(items) for items in LISTS.values()],
    "nested scores": SCORES.tolist(),
    "sparse scores": scipy.sparse.csr_matrix(SCORES),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_as_python_objects(name):
    assert recall(MODELS[name]) == EXPECTED
    ranked = ipseval.rank_positives(MODELS[name], SPLIT)
    assert ipseval.evaluate_ranks({"m": ranked}, metrics=["recall@5"]).frame["estimate"].tolist() == EXPECTED


def test_complete_lists_of_item_ids_are_not_accepted_as_scores():
    order = np.argsort(-UNSEEN, axis=1)
    rows = [order[user, : N_CANDIDATES[user]].tolist() for user in range(20)]
    assert recall(rows) == EXPECTED
    # Without training items each list has one place for each item: numbers that are all ids, each once.
    split = ipseval.Split.from_frames(None, TEST, users=range(20), items=range(15))
    lists = np.argsort(-SCORES, axis=1).tolist()
    values = [
        ipseval.evaluate({"m": model}, split, metrics=["recall@5"]).frame["estimate"].tolist()
        for model in (lists, SCORES)
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ({}, r"m must contain at least one recommendation list; got an empty mapping. Pass \{user: \[item"),
        ({0: 3}, "m must map users to recommendation lists; got an int for the first user"),
        ({0: "34"}, "m must map users to recommendation lists; got a str for the first user"),
        ([], "m must be scores or recommendation lists; got an empty list"),
        ([3, 4], "m must be scores or recommendation lists; got a list with an int"),
        ([[3], [4]], "m must have one list for each of the 20 users, in the order of split.user_ids; got 2"),
        ({0: [99]}, "1 of 1 entries have items unknown to the split"),
    ],
)
def test_lists_that_cannot_be_read_are_refused(model, text):
    with pytest.raises(InputError, match=text):
        recall(model)


VALUES = dict(enumerate(RNG.uniform(0.2, 1, 15).tolist()))


@pytest.mark.parametrize(
    "propensity",
    [
        VALUES,
        dict(reversed(VALUES.items())),
        pd.Series(VALUES),
        pd.Series(VALUES).sample(frac=1, random_state=1),
        ipseval.KnownPropensity(item=VALUES),
        ipseval.KnownPropensity(item=pd.Series(VALUES)[::-1]),
    ],
)
def test_propensities_by_item_id(propensity):
    model = ipseval.KnownPropensity(item=list(VALUES.values()))
    options = {"estimators": ["aoa", "snips-global"]}
    assert recall(SCORES, propensity=propensity, **options) == recall(SCORES, propensity=model, **options)


def test_factors_of_users_by_id():
    users = dict(reversed(list(enumerate(np.linspace(0.5, 1, 20)))))
    by_id = ipseval.KnownPropensity(item=VALUES, user=users).fit(SPLIT)
    in_order = ipseval.KnownPropensity(item=list(VALUES.values()), user=np.linspace(0.5, 1, 20)).fit(SPLIT)
    assert by_id.for_pairs(USER, ITEM).tolist() == in_order.for_pairs(USER, ITEM).tolist()


def test_an_item_without_a_value_leaves_its_positives_out_with_a_count():
    item = int(TEST["item_id"].iloc[0])
    values = {other_item: value for other_item, value in VALUES.items() if other_item != item}
    n_lost = int((TEST["item_id"] == item).sum())
    evaluation = ipseval.evaluate({"m": SCORES}, SPLIT, propensity=values, low_ess="ignore")
    counts = evaluation.data.set_index("what")["count"]
    assert counts["positives without a propensity, left out"] == n_lost


@pytest.mark.parametrize(
    ("propensity", "text"),
    [
        ({}, r"`item` must contain at least one propensity; got an empty mapping. Pass \{id: P\}"),
        (
            {**dict(list(VALUES.items())[1:]), 99: 0.5},
            "1 of 15 labels of item are not ids of the split .99; ",
        ),
        ({0: "a"}, "propensity must be a sequence of numbers"),
        (["power-law:gamma=0"], r"evaluation\.sensitivity\(gamma=\[-0\.5, 0, 0\.5\]\)"),
        ("popularity", 'A propensity by popularity is "power-law:gamma=0".'),
    ],
)
def test_propensities_that_cannot_be_read_lead_to_a_call(propensity, text):
    with pytest.raises(InputError, match=text):
        recall(SCORES, propensity=propensity)


def test_numbers_in_files_match_text_in_memory_after_the_conversion_that_the_error_names(tmp_path):
    (tmp_path / "train.csv").write_text("user,item\n1,10\n2,11\n")
    (tmp_path / "qrels.txt").write_text("1 0 11 1\n2 0 10 1\n")
    run = {"1": {"11": 2.0, "10": 1.0}, "2": {"11": 2.0, "10": 1.0}}
    options = {"metrics": ["recall@1"]}
    train, test = tmp_path / "train.csv", tmp_path / "qrels.txt"
    conversion = r"ipseval\.read\(path\)\.to_frame\(\)\.astype\(dict\(user=str, item=str\)\)"
    with pytest.raises(
        ipseval.InputError, match=rf"\(the lists, object: '1', '2'; the split, int64: 1, 2\).*{conversion}"
    ):
        ipseval.evaluate({"run": run}, train=train, test=test, **options)

    train = ipseval.read(train).to_frame().astype({"user": str, "item": str})
    test = ipseval.read(test).to_frame().astype({"user": str, "item": str})
    evaluation = ipseval.evaluate({"run": run}, train=train, test=test, **options)
    # User 1 has item 11 at rank 1. Item 11 of user 2 is a training item, so that item 10 is at rank 1, too.
    assert evaluation.frame["estimate"].tolist() == [1.0]
