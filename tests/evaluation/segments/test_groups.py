"""Groups of users and items: what `by=` takes, how ids are matched, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ipseval
from ipseval.evaluation.segments import TrainingCounts
from ipseval.metrics import AdditiveMetric
from tests.inside.evaluation import resolve_groups
from tests.worlds import random_world

USERS, ITEMS = np.array(["ann", "bob", "cy"], dtype=object), np.array([10, 20, 30, 40])
COUNTS = TrainingCounts(popularity=np.array([0, 5, 5, 9]), activity=np.array([3, 0, 7]))


def groups(by):
    (actual,) = resolve_groups(by, USERS, ITEMS, COUNTS)
    return actual


def test_a_frame_names_the_axis_and_users_without_an_entry_form_a_group_that_is_counted():
    frame = pd.DataFrame({"user": ["cy", "ann"], "device": ["web", "app"]})
    resolved_groups = groups(frame)
    assert (resolved_groups.axis, resolved_groups.name, resolved_groups.labels) == (
        "user",
        "device",
        ("app", "web", "(no group)"),
    )
    assert resolved_groups.codes.tolist() == [0, 2, 1]
    assert resolved_groups.note == "1 user of 3 have no device"
    assert groups(pl.from_pandas(frame)).codes.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "by",
    [
        pd.Series(["a", "b", "a", "b"], index=[10, 20, 30, 40], name="kind"),
        pd.Series(list("baab"), index=pd.Index([20, 10, 30, 40], name="item"), name="kind"),
        pd.DataFrame({"item": [10, 20, 30, 40], "kind": list("abab")}),
        ipseval.evaluation.segments.item_groups({10: "a", 20: "b", 30: "a", 40: "b"}, name="kind"),
        ipseval.evaluation.segments.item_groups(["a", "b", "a", "b"], name="kind"),
        ipseval.evaluation.segments.item_groups(lambda ids: np.where(ids % 20 == 10, "a", "b"), name="kind"),
    ],
)
def test_series_dicts_arrays_and_functions_give_the_same_groups(by):
    resolved_groups = groups(by)
    assert (resolved_groups.axis, resolved_groups.name, resolved_groups.labels) == (
        "item",
        "kind",
        ("a", "b"),
    )
    assert resolved_groups.codes.tolist() == [0, 1, 0, 1]
    assert groups({10: "a", 20: "b", 30: "a", 40: "b"}).codes.tolist() == [0, 1, 0, 1]
    assert groups({10: "a", 40: "b"}).codes.tolist() == [0, 2, 2, 1]


def test_categories_of_a_frame_keep_missing_entries_apart():
    resolved_groups = groups(pd.DataFrame({"item": [10, 20, 30, 40], "price": ["low", None, "high", np.nan]}))
    assert resolved_groups.labels == ("high", "low", "(no group)")
    assert resolved_groups.sizes.tolist() == [1, 1, 2]


def test_popularity_groups_hold_equal_counts_together_whatever_the_order_of_items():
    resolved_groups = groups("popularity:2")
    assert resolved_groups.labels == ("1 (n* 0)", "2 (n* 5–9)")
    assert resolved_groups.codes.tolist() == [0, 1, 1, 1]
    counts = np.arange(1000)
    decile = resolve_groups("popularity", USERS, np.arange(1000), TrainingCounts(counts, np.zeros(3, int)))[0]
    assert decile.sizes.tolist() == [100] * 10
    assert (decile.codes == counts // 100).all()
    assert groups("popularity:" + 30 * "9").codes.tolist() == [0, 1, 1, 2]  # more than there are counts


def test_activity_and_cold_groups_read_the_training_counts():
    assert groups("activity:3").codes.tolist() == [1, 0, 2]
    none = resolve_groups("activity", USERS[:0], ITEMS, TrainingCounts(COUNTS.popularity, np.zeros(0, int)))[
        0
    ]
    assert (none.labels, none.codes.tolist()) == ((), [])
    assert groups("cold-users").labels == ("cold (none)", "warm (1 or more)")
    assert groups("cold-users").codes.tolist() == [1, 0, 1]
    assert groups("cold-items").labels == ("cold (none)", "warm (1 or more)")
    assert groups("cold-items:6").codes.tolist() == [0, 0, 0, 1]
    assert groups("cold-items:6").labels == ("cold (fewer than 6)", "warm (6 or more)")
    assert groups("cold-users").note == "cold: no training interaction"
    assert groups("cold-items:6").note == "cold: fewer than 6 training interactions"
    assert groups("cold-items:5").codes.tolist() == [0, 1, 1, 1]
    assert groups("activity:3").note == "3 groups of about equally many users by interactions"
    assert groups("activity:3").labels == tuple(
        f"{n + 1} (interactions {n_rows})" for n, n_rows in enumerate((0, 3, 7))
    )
    users = np.arange(8)
    quarters = resolve_groups("activity", users, ITEMS, TrainingCounts(COUNTS.popularity, users))[0]
    assert quarters.codes.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    # Of counts 0, 0, 0, 1 the zeros have their middle at 3/8, in the first half, and 1 at 7/8.
    assert resolve_groups("popularity:2", users, ITEMS, TrainingCounts(np.array([0, 0, 0, 1]), users))[
        0
    ].codes.tolist() == [0, 0, 0, 1]


def test_several_groupings_come_in_their_order_and_names_must_differ():
    frame = pd.DataFrame({"user": USERS, "device": list("aab"), "country": list("xyx")})
    assert [groups.name for groups in resolve_groups([frame, "popularity:2"], USERS, ITEMS, COUNTS)] == [
        "device",
        "country",
        "popularity",
    ]
    with pytest.raises(ipseval.InputError, match="names device twice"):
        resolve_groups([frame, frame[["user", "device"]]], USERS, ITEMS, COUNTS)


WRONG = {
    "no grouping of that name": ("popular", "unknown grouping 'popular'"),
    "a number that is none": ("popularity:ten", "must be a whole number >= 1"),
    "a number below 1": ("popularity:0", "popularity must be an integer >= 1"),
    "a list in a list": ([["popularity"]], "by holds a list inside a list"),
    "groups of others": (
        ipseval.evaluation.segments.user_groups(["a", "b"]).resolve(np.arange(2)),
        "user group groups 2 users; there are 3 here",
    ),
    "the name of what has no group": (
        ipseval.evaluation.segments.user_groups(["(no group)", "a", "b"], name="x"),
        "x has groups that are printed alike",
    ),
    "an object": (3, "by= must be a label"),
    "none": ([], "by= is empty"),
    "no attribute": (pd.DataFrame({"user": ["ann"]}), r"and at least one more; got 'user'\.$"),
    "many columns": (pd.DataFrame(columns=[f"c{n}" for n in range(14)]), r"; got 'c0', .*'c11', …\.$"),
    "groups printed alike": (
        ipseval.evaluation.segments.user_groups([0.1, np.float32(0.1), 0.5], name="x"),
        r"x has groups that are printed alike",
    ),
    "no column of ids": (pd.DataFrame({"device": ["a"]}), "one column of ids, 'user' or 'item'"),
    "two columns of ids": (pd.DataFrame({"user": ["ann"], "item": [10], "x": [1]}), "one column of ids"),
    "strangers": (pd.DataFrame({"user": ["zoe"], "device": ["a"]}), "none of the 1 ids of device"),
    "another length": (
        ipseval.evaluation.segments.user_groups(["a"], name="x"),
        r"one group to each of 3 users.*shape \(1,\)",
    ),
    "repeated ids": (
        pd.DataFrame({"user": ["ann", "ann"], "device": ["a", "b"]}),
        "repeats 1 ids",
    ),
    "ids of neither": (pd.Series(["a"], index=["zoe"]), "neither users nor items"),
    "groups of several types": (
        ipseval.evaluation.segments.user_groups([1, "a", 2.0], name="x"),
        "mixes groups of several types",
    ),
    "only missing groups": (
        ipseval.evaluation.segments.user_groups([None] * 3, name="x"),
        "gives no group to any of the 3 users",
    ),
}


def kind(ids):
    return ["a"] * len(ids)


def test_a_grouping_has_the_name_that_is_given_or_that_of_the_series_or_function():
    for source, value in (
        (pd.Series(["a"], index=["ann"], name="device"), "device"),
        (kind, "kind"),
        (lambda ids: ids, "user group"),
        (["a", "b", "c"], "user group"),
    ):
        assert ipseval.evaluation.segments.user_groups(source).name == value
        assert ipseval.evaluation.segments.user_groups(source, name="mine").name == "mine"
    with pytest.raises(ipseval.InputError, match=r"^groups must be a Series or dict by id, .*; got int"):
        ipseval.evaluation.segments.user_groups(3)


def test_frames_that_are_elsewhere_must_be_fetched_first():
    class OfDask(pd.DataFrame):
        compute = None

    with pytest.raises(ipseval.InputError, match=r"must be in memory here; pass frame.compute\(\)"):
        groups(OfDask({"user": ["ann"], "device": ["a"]}))


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_used_is_refused_with_what_came(case):
    by, text = WRONG[case]
    with pytest.raises(ipseval.InputError, match=text):
        resolve_groups(by, USERS, ITEMS, COUNTS)


def test_too_many_groups_and_missing_counts_name_the_way_out():
    many = ipseval.evaluation.segments.item_groups(np.arange(300), name="price")
    with pytest.raises(ipseval.InputError, match=r"price makes 300 groups of 300 items.*pandas.cut"):
        resolve_groups(many, USERS, np.arange(300), None)
    most = ipseval.evaluation.segments.item_groups(np.arange(200), name="price")
    assert resolve_groups(most, USERS, np.arange(200), None)[0].sizes.tolist() == [1] * 200
    with pytest.raises(ipseval.InputError, match="price makes 201 groups of 201 items; at most 200"):
        resolve_groups(
            ipseval.evaluation.segments.item_groups(np.arange(201), name="price"), USERS, np.arange(201), None
        )
    with pytest.raises(
        ipseval.InputError, match=r"need the training counts.*TrainingCounts.from_interactions\(train\)"
    ):
        resolve_groups("popularity", USERS, ITEMS, None)
    with pytest.raises(
        ipseval.InputError, match=r"of the 2 items that are evaluated, in their order; got 4\."
    ):
        resolve_groups("popularity", USERS, ITEMS[:2], COUNTS)


def test_a_series_is_of_users_or_items_by_its_ids():
    assert groups(pd.Series(list("aab"), index=USERS)).axis == "user"
    with pytest.raises(ipseval.InputError, match="names both users and items"):
        resolve_groups(pd.Series(["a", "b"], index=[10, 20]), ITEMS, ITEMS, COUNTS)
    more = ipseval.evaluation.segments.user_groups(list("abcd")).resolve(np.arange(4))
    with pytest.raises(ipseval.InputError, match="user group groups 4 users; there are 3 here"):
        groups(more)
    pairs = np.empty(2, dtype=object)
    pairs[:] = [(1, 2), (3, 4)]
    frame = pd.DataFrame({"user": pairs[::-1], "device": ["a", "b"]})
    assert resolve_groups(frame, pairs, ITEMS, COUNTS)[0].codes.tolist() == [1, 0]


class Beginning(AdditiveMetric):
    """A metric of a user's own that is undefined for users with a positive beyond the twentieth place."""

    name, kind, definition = "beginning", "mean", ipseval.metric("atop").definition

    def _value_at_rank(self, rank, n_candidates):
        return np.where(rank <= 20, 1 / rank, np.nan)


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
@pytest.mark.parametrize("seed", range(4))
def test_users_for_whom_one_positive_is_undefined_are_in_no_group_of_items(seed):
    world = random_world(seed, n_users=60, n_items=40)
    ranked = ipseval.rank_positives(world.scores, world.split)
    last = np.zeros(world.split.n_users)
    np.maximum.at(last, ranked.user, ranked.n_above + ranked.n_tied / 2 + 1)
    groups = ipseval.evaluation.segments.item_groups(np.arange(40) % 3)
    frame, expected = (
        ipseval.evaluate_ranks({"a": candidate}, metrics=[Beginning()], estimators=["aoa"]).by(groups).frame
        for candidate in (ranked, ranked.select(last[ranked.user] <= 20))
    )
    assert 0 < np.sum(last > 20) < np.sum(last > 0)
    np.testing.assert_allclose(frame["estimate"], expected["estimate"])
