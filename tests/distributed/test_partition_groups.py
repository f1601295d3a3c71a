"""Partitions give the local numbers in groups of users and items too, and in any small population."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import example as also
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.errors import InputError
from ipseval.propensity import Propensity
from tests.conftest import examples
from tests.distributed.test_partitions import ESTIMATORS, SCALED, assert_same, example, in_partitions, local
from tests.inside.distributed import make_plan

pytestmark = [
    pytest.mark.filterwarnings("ignore:the median user has"),
    pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning"),
]


def groups_of(users, items, rng):
    """Return groups by counts, by an attribute that some users lack, and by one of items."""
    device = dict(zip(users.tolist(), rng.choice(["app", "tv", "web"], len(users)).tolist(), strict=True))
    del device[users.tolist()[-1]]
    return [
        "popularity:3",
        "activity:2",
        "cold-users",
        "cold-items:3",
        ipseval.evaluation.segments.user_groups(device, name="device"),
        ipseval.evaluation.segments.item_groups(rng.choice(["a", "b"], len(items)), name="kind"),
    ]


def test_groups_are_those_of_the_local_path():
    frames = example(7, n_users=50)
    models = {"first": frames["first"], "second": frames["second"]}
    users, items = (
        np.unique(np.concatenate([frames[f][c] for f in ("train", "test")])) for c in ("user", "item")
    )
    popularity, _, cold, _, device, kind = groups_of(users, items, np.random.default_rng(0))
    request = [popularity, cold, device, kind]
    options = {"metrics": ("recall@5",), "estimators": ("snips-global", "ips")}
    options |= {"propensity": SCALED, "n_relevant": 25, "by": request}
    evaluation = in_partitions(frames, models, 2, **options)
    assert evaluation.segments
    assert_same(evaluation, local(frames, models, **options))


def test_users_left_out_of_a_group_are_counted_over_all_partitions():
    # Users 0 to 2 hold both candidates, of which auc says nothing: 0 and 2 in one partition, 1 in the other.
    frames = {
        "train": pd.DataFrame({"user": range(5), "item": 0}),
        "test": pd.DataFrame({"user": [0, 0, 1, 1, 2, 2, 3, 4], "item": [1, 2, 1, 2, 1, 2, 1, 1]}),
    }
    model = {"m": (np.ones((5, 1)), np.array([[0.0], [2.0], [1.0]]))}
    kinds = ipseval.evaluation.segments.item_groups({0: "a", 1: "b", 2: "b"}, name="kind")
    devices = ipseval.evaluation.segments.user_groups(list("xxxyx"), name="device")
    options = {"metrics": ["auc"], "estimators": ["aoa"], "by": [devices, kinds], "users": range(5)}
    segments = in_partitions(frames, model, 2, **options, low_ess="ignore").segments
    text = "3 users left out: the metric is undefined for them"
    for name, group in (("device", "x"), ("kind", "b")):
        frame = segments[name].frame
        assert frame.loc[frame["note"].str.contains("left out"), "group"].tolist() == [group]
        assert frame["note"].str.contains(text).any()


def test_users_without_a_row_are_counted_in_their_own_group():
    frames = {
        "train": pd.DataFrame({"user": [1, 3], "item": [0, 0]}),
        "test": pd.DataFrame({"user": [1, 3], "item": [1, 2]}),
    }
    model = {"m": (np.ones((4, 1)), np.array([[0.0], [2.0], [1.0]]))}
    groups = ipseval.evaluation.segments.user_groups(list("xxyz"), name="g")  # users 0 and 2 have no row
    options = {"metrics": ["recall@1"], "estimators": ["aoa"], "by": groups, "users": range(4)}
    assert in_partitions(frames, model, 2, **options).segments["g"].sizes.tolist() == [2, 1, 1]


def test_groups_of_items_alone_go_through_no_frame_for_users():
    frames = example()
    options = {"metrics": ["recall@5"], "missing_lists": "zero", "ties": "default", "confidence_level": 0.95}
    options |= {"n_relevant": None, "count_users": lambda: pytest.fail("users were counted")}
    items = np.arange(500, 525)
    for by in (
        "popularity:3",
        [ipseval.evaluation.segments.item_groups(["a"] * 25, name="k")],
        ["cold-items"],
    ):
        plan = make_plan(items, np.ones(25, dtype=int), by=by, **options)
        assert not plan.planned_groups.has_user_groups
    with pytest.raises(InputError, match="none of the 1 ids of device is one of the 3 users"):
        in_partitions(frames, {"first": frames["first"]}, 2, users=[1, 4, 7], metrics=["recall@5"],
                      by=pd.DataFrame({"user": [-1], "device": ["app"]}))  # fmt: skip


WHOLE = ("auc", "atop", "ndcg")
LISTED = ("recall@3", "precision@2", "ndcg@4", "ap@3", "rr@4", "dcg@2")


def any_world(rng, missing, of_factors):
    """Return frames, models and options; some users have no row, some positives no propensity."""
    n_users, n_items = int(rng.integers(4, 14)), int(rng.integers(6, 12))
    kind = rng.choice(3, size=(n_users, n_items), p=[0.5, 0.2, 0.3])
    kind[rng.random(n_users) < 0.4] = 0  # users without a row in train or test
    kind[0, :2] = 1, 2
    users, items = np.arange(n_users) * 3 + 1, np.arange(n_items) + 50
    frames = {
        name: pd.DataFrame({"user": users[rows], "item": items[columns]})
        for name, (rows, columns) in (("train", np.nonzero(kind == 1)), ("test", np.nonzero(kind == 2)))
    }
    values = rng.uniform(0.1, 1, n_items)
    values[rng.random(n_items) < 0.3] = np.nan  # positives without a propensity leave as pairs
    values[np.nonzero(kind[0] == 2)[0][0]] = 0.2  # at least one stays
    known = Propensity(values, True, "known", n_items)
    options = {
        "users": users,
        "items": items,
        "propensity": known.clip(floor=0.3) if rng.random() < 0.5 else known,
        "metrics": (*LISTED, *WHOLE) if of_factors else LISTED,
        "estimators": (*ESTIMATORS, "ips"),
        "n_relevant": n_items,
        "missing_lists": missing,
        "ties": str(rng.choice(["default", "mean", "expected"])) if of_factors else "default",
        "low_ess": "ignore",
    }
    if of_factors:
        factors = (
            rng.integers(0, 3, (n_users, 2)).astype(float),
            rng.integers(0, 3, (n_items, 2)).astype(float),
        )
        models = {"one": tuple(factors), "two": (*factors, rng.normal(size=n_items))}
    else:
        models = {name: lists_of(rng, kind, users, items) for name in ("one", "two")}
    return frames, models, options


def check_partitions(rng, frames, models, options, per_user):
    expected = outcome(local, frames, models, **options)
    actual = outcome(in_partitions, frames, models, int(rng.integers(1, 5)), per_user=per_user, **options)
    if isinstance(expected, str):
        assert isinstance(actual, str), expected
        return
    assert_same(actual, expected, words=False)


ANY = given(st.integers(0, 2**32 - 1), st.sampled_from(["zero", "drop"]), st.booleans(), st.booleans())


@settings(max_examples=examples(20), deadline=None)
@ANY
@also(30095, "drop", False, False)  # two users with the same difference but for the last digit of a value
def test_any_partition_of_any_population_gives_the_local_table(seed, missing, of_factors, per_user):
    rng = np.random.default_rng(seed)
    check_partitions(rng, *any_world(rng, missing, of_factors), per_user)


@settings(max_examples=examples(10), deadline=None)
@ANY
def test_any_partition_of_any_population_gives_the_local_groups(seed, missing, of_factors, per_user):
    rng = np.random.default_rng(seed)
    frames, models, options = any_world(rng, missing, of_factors)
    by = groups_of(options["users"], options["items"], rng)
    options |= {"by": by[int(rng.integers(len(by)))]}
    options["metrics"] = rng.choice(["recall@3", "hit@1", "ndcg@4", "dcg@2"], 2, replace=False).tolist()
    options["estimators"] = rng.choice(options["estimators"], 3, replace=False).tolist()
    check_partitions(rng, frames, models, options, per_user)


def lists_of(rng, kind, users, items) -> pd.DataFrame:
    """Return lists of up to 5 items outside training; some users have none."""
    rows = []
    for place, user in enumerate(users):
        free = rng.permutation(items[kind[place] != 1])[: rng.integers(1, 6)]
        if rng.random() < 0.8 or place == 0:
            rows += [(user, item, number + 1) for number, item in enumerate(free)]
    return pd.DataFrame(rows, columns=["user", "item", "rank"])


def outcome(run, *given, **options):
    """Return an evaluation, or the text of its refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(*given, **options)
    except InputError as error:
        return str(error)
