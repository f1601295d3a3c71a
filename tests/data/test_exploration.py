"""Exploration slots of a log as random exposure: unbiased by enumeration, tested for chance."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import InputError
from ipseval.data import ImpressionLog, Interactions, RandomExposure
from ipseval.errors import DataWarning

RATE = 0.5


def log_of(user, item, clicked, n_users=2, n_items=2) -> ImpressionLog:
    codes = np.asarray(user), np.asarray(item)
    return ImpressionLog(*codes, np.arange(n_users), np.arange(n_items), np.asarray(clicked, dtype=bool))


def test_weighted_totals_are_unbiased_over_everything_that_slots_may_show():
    user, liked, expected = np.array([0, 0, 1]), np.array([[1.0, 0.0], [1.0, 1.0]]), np.zeros((2, 2))
    for shown in product((None, 0, 1), repeat=3):  # each row: not explored, or one of two items at random
        chance = np.prod([1 - RATE if one is None else RATE / 2 for one in shown])
        where = np.array([one is not None for one in shown])
        if not where.any():
            continue
        item = np.array([one or 0 for one in shown])
        found = RandomExposure.from_log(
            log_of(user, item, liked[user, item]), ids_of(), where=where, rate=RATE
        )
        weight = np.ones(len(found)) if found.weight is None else found.weight
        if found.weight is None:  # of users with equally many rows, or one user: the factor is known
            rows = np.bincount(user)[found.user[0]]
            weight = weight / (1 - (1 - RATE / 2) ** rows)
        np.add.at(expected, (found.user, found.item), chance * weight * found.positive)
    assert expected == pytest.approx(liked, abs=1e-12)


def ids_of(n_users: int = 2, n_items: int = 2) -> Interactions:
    none = np.zeros(0, dtype=int)
    return Interactions(none, none, np.arange(n_users), np.arange(n_items))


def test_users_with_equally_many_rows_have_no_weights_and_the_bits_of_random_exposure():
    rng = np.random.default_rng(0)
    world = ipseval.simulation.World(n_users=100, n_items=40, mean_relevant=8, rng=1)
    split = world.split(rng=2)
    liked = np.zeros((100, 40), dtype=bool)
    liked[world.relevant.user, world.relevant.item] = True
    user = np.repeat(np.arange(100), 20)
    item = np.concatenate([rng.permutation(40)[:20] for _ in range(100)])
    where = rng.random(user.size) < 0.3
    log = log_of(user, item, liked[user, item], 100, 40)
    found = RandomExposure.from_log(log, split, where=where, rate=0.3)
    assert found.weight is None
    rows = {"user": user[where], "item": item[where], "positive": liked[user, item][where]}
    plain = RandomExposure.from_frame(pd.DataFrame(rows), split)
    models = {"popular": world.example_models(split, rng=3)["popular"]}
    one, other = (
        ipseval.correct(models, split, random_exposure=each, metrics=["recall@10"], rng=0).frame
        for each in (found, plain)
    )
    pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_slots_that_follow_popularity_are_named_and_random_ones_are_not():
    rng = np.random.default_rng(0)
    chance = 1 / np.arange(1, 41)
    for power, fault in ((0.0, False), (1.0, True)):
        shown = chance**power / (chance**power).sum()
        user, where = np.repeat(np.arange(100), 50), rng.random(5000) < 0.2
        item = np.where(where, rng.choice(40, 5000, p=shown), rng.choice(40, 5000, p=chance / chance.sum()))
        log = log_of(user, item, rng.random(5000) < 0.5, 100, 40)
        if fault:
            with pytest.warns(DataWarning, match="exploration slots follow popularity"):
                found = RandomExposure.from_log(log, ids_of(100, 40), where=where, rate=0.2)
        else:
            found = RandomExposure.from_log(log, ids_of(100, 40), where=where, rate=0.2)
        slope, error = found.slope
        # Clicks are a half of what is shown, so their logarithm rises as that of the chance does.
        assert abs(slope - power) < 4 * error + 0.15 * power


def test_users_without_rows_are_counted_and_other_ids_are_found_by_name():
    frame = pd.DataFrame({"user": ["b", "b", "a"], "item": ["y", "x", "x"], "clicked": [1, 0, 1]})
    log = ImpressionLog.from_frame(frame)
    ids = Interactions.from_frame(frame, users=["c", "b", "a"], items=["x", "z", "y"])
    found = RandomExposure.from_log(log, ids, where=[True, False, True], rate=0.5)
    assert (found.user.tolist(), found.item.tolist(), found.n_uncovered) == ([1, 2], [2, 0], 1)
    assert found.positive.all()
    assert found.select([True, False]).weight.tolist() == found.weight[:1].tolist()
    one = RandomExposure.from_log(
        log_of([0, 1], [0, 0], [1, 0], 2, 1), ids_of(2, 1), where=[True] * 2, rate=1.0
    )
    assert (one.weight, one.slope) == (None, None)  # it is shown for certain


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"where": [False] * 3}, "where must be true in at least one row"),
        ({"where": [True]}, "where"),
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"log": pd.DataFrame()}, "ImpressionLog"),
        ({"ids": ids_of(1, 2)}, "users that ids do not hold"),
    ],
)
def test_what_is_no_exploration_is_refused(change, said):
    given = {"log": log_of([0, 0, 1], [0, 1, 1], [1, 0, 1]), "ids": ids_of(), "where": [True, False, True]}
    given |= {"rate": 0.5} | change
    with pytest.raises(InputError, match=said):
        RandomExposure.from_log(given.pop("log"), given.pop("ids"), **given)


def test_a_propensity_refuses_weighted_users_and_weights_must_be_positive():
    exposure = RandomExposure([0, 1], [0, 1], np.array([True, False]), 2, 2, weight=[1.0, 2.0])
    with pytest.raises(InputError, match="exposure must have equal weights"):
        ipseval.PowerLawPropensity(gamma="fit", exposure=exposure).fit(ids_of())
    for weight in ([1.0], [1.0, 0.0], [1.0, float("nan")]):
        with pytest.raises(InputError, match="weight"):
            RandomExposure([0, 1], [0, 1], np.array([True, False]), 2, 2, weight=weight)


@pytest.mark.parametrize(
    ("n_shown", "n_clicks", "is_named"),
    [
        ((3, 1), 1, False),  # z = (2 · 3 − 4)/√4 = 1
        ((22, 8), 1, False),  # 2.556
        ((23, 7), 1, True),  # 2.921
        ((25, 4), 1, False),  # 3.900, of 29 slots
        ((230, 170), 1, True),  # 3, by a power of 0.436
        ((230, 170), 1000, False),  # 3, by a power of 0.0438
        ((7, 23), 1, True),
        ((724, 1), 1, True),  # 9.4999
        ((1100, 1), 1, True),  # 10.1, above the steepest
        ((1, 1100), 1, True),
    ],
)
def test_the_slope_of_two_items_is_the_logarithm_of_what_they_were_shown(n_shown, n_clicks, is_named):
    # Of two items whose popularity is n and 0, a power b shows (n + 1)^b times as often the first.
    item = np.repeat([0, 1, 0], [*n_shown, n_clicks])
    user = np.arange(item.size)
    log = log_of(user, item, np.ones(item.size), item.size)
    where = user < sum(n_shown)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = RandomExposure.from_log(log, ids_of(item.size), where=where, rate=0.5)
    size, n = np.log(1 + n_clicks), sum(n_shown)
    slope, error = np.clip(np.log(n_shown[0] / n_shown[1]) / size, -10, 10), 2 / (np.sqrt(n) * size)
    assert found.slope == pytest.approx((slope, error), rel=1e-9)
    assert len(said) == is_named
    assert all(f"as its power of {slope:.2f} ± {error:.2f}. They" in str(one.message) for one in said)
    assert (found.n_dropped, found.n_uncovered) == (0, 0)


def test_the_slope_is_found_where_one_of_many_items_is_popular():
    # Shown are 100 slots of item 0, with 1000 clicks, and 4 of each other: 1001^b : 100 = 100 : 400.
    item = np.repeat(np.arange(102) % 101, [100, *[4] * 100, 1000])
    user = np.arange(item.size)
    log = log_of(user, item, user >= 500, item.size, 101)
    with pytest.warns(DataWarning, match=r"power of 0\.47 ± 0\.07\. They"):
        found = RandomExposure.from_log(log, ids_of(item.size, 101), where=user < 500, rate=0.5)
    assert found.slope[0] == pytest.approx(np.log(25) / np.log(1001), rel=1e-9)


def test_the_weight_of_a_pair_is_one_over_its_chance_to_be_shown():
    # User 0 has one row, user 1 two; each is one of two items with chance 1/2: π = 1/4 and 1 − (3/4)².
    log = log_of([0, 1, 1], [0, 1, 0], [1, 1, 0])
    for where, weight in (([1, 1, 0], [4, 16 / 7]), ([0, 1, 1], None), ([1, 0, 0], None)):
        found = RandomExposure.from_log(log, ids_of(), where=np.array(where, dtype=bool), rate=RATE)
        assert (found.weight is None) == (weight is None)
        assert weight is None or found.weight == pytest.approx(weight, rel=1e-12)


BOTH = np.array([True, False])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"user": [0]}, "must have one length"),
        ({"item": [0]}, "must have one length"),
        ({"positive": BOTH[:1]}, "must have one length"),
        ({"positive": np.array([True, False, True])}, "must have one length"),
        ({"positive": np.array([1, 0])}, "positive must be bool"),
        ({"user": [0, 2]}, "user must hold codes from 0 to 1"),
        ({"item": [-1, 1]}, "item must hold codes from 0 to 1"),
        ({"item": [0, 0], "user": [1, 1]}, "^1 of 2 exposures repeat a user–item pair"),
        ({"user_ids": ["a"]}, r"user_ids must hold 2 ids; got shape \(1,\)"),
        ({"item_ids": ["a", "b", "c"]}, r"item_ids must hold 2 ids; got shape \(3,\)"),
        ({"n_users": -1}, "n_users must be an integer >= 0"),
        ({"n_dropped": -1}, "n_dropped must be an integer >= 0"),
        ({"n_uncovered": -1}, "n_uncovered must be an integer >= 0"),
        ({"weight": [1.0, -1.0]}, "weight must hold one number above 0 for each pair"),
        ({"weight": [1.0, 1.0, 1.0]}, "weight must hold one number above 0 for each pair"),
    ],
)
def test_exposures_are_checked(change, said):
    given = {"user": [0, 1], "item": [0, 1], "positive": BOTH, "n_users": 2, "n_items": 2}
    with pytest.raises(InputError, match=said):
        RandomExposure(**given | change)


def test_exposures_of_frames_and_ratings_are_positive_by_their_rule():
    frame = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1], "positive": [2, -1, 0, 1]})
    ids = Interactions.from_frame(frame, value="positive")
    with pytest.raises(InputError, match=r"'positive' must hold 0/1 or .*; 2 of 4 rows do not \(e\.g\. 2\)"):
        RandomExposure.from_frame(frame, ids)
    found = RandomExposure.from_ratings(ids, threshold=1)
    assert found.positive.tolist() == [True, False, False, True]
    assert (found.n_dropped, found.n_uncovered) == (0, 0)
    with pytest.raises(InputError, match="needs ratings as value"):
        RandomExposure.from_ratings(Interactions.from_frame(frame), threshold=1)
    with pytest.raises(InputError, match="must be Interactions"):
        RandomExposure.from_ratings(frame, threshold=1)
    once = found.without(ids.select([0]))
    twice = once.without(ids.select([0, 3]))
    assert (once.n_dropped, len(once), twice.n_dropped, len(twice)) == (1, 3, 2, 2)
    found.check_ids(ids, "split")
    for other in (ids_of(1), ids_of(3), ids_of(2, 1), ids_of(2, 3)):
        with pytest.raises(InputError, match=r"^the exposure has 2 users and 2 items, the split"):
            found.check_ids(other, "split")
    for users, items, name in (([1, 0], [0, 1], "users"), ([0, 1], [0, 2], "items")):
        other = Interactions([], [], users, items)
        with pytest.raises(
            InputError, match=f"^the exposure must have the {name} of the log in the same order"
        ):
            found.check_ids(other, "log")


@pytest.mark.parametrize("popular", [True, False])
@pytest.mark.parametrize("n_slots", [1, 2, 400])
def test_slots_of_one_item_alone_have_a_slope_and_are_named_once_they_are_many(n_slots, popular):
    user = np.arange(400 + n_slots)
    item = np.where(np.arange(user.size) < 400, np.arange(user.size) % 2, 0 if popular else 2)
    log = log_of(user, item, np.arange(user.size) < 400, user.size, 40)
    where = np.arange(user.size) >= 400
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = RandomExposure.from_log(log, ids_of(user.size, 40), where=where, rate=0.5)
    assert np.isfinite(found.slope).all()
    assert len(said) == (n_slots == 400)


def test_who_is_left_out_and_how_random_the_slots_are_is_printed():
    world = ipseval.simulation.World(n_users=100, n_items=40, mean_relevant=8, rng=1)
    split = world.split(rng=2)
    rng = np.random.default_rng(0)
    user, item = rng.integers(99, size=3000), rng.integers(40, size=3000)
    log = log_of(user, item, rng.random(3000) < 0.3, 100, 40)
    found = RandomExposure.from_log(log, split, where=rng.random(3000) < 0.3, rate=0.3)
    models = {"popular": world.example_models(split, rng=3)["popular"]}
    given = {"random_exposure": found, "metrics": ["recall@10"], "rng": 0}
    correction = ipseval.correct(models, split, **given)
    words = " ".join(repr(correction).split())
    assert "without a row in the log" in words
    assert "Items in exploration slots follow popularity" in words
    notes = correction.frame.set_index("estimator")["note"]
    assert "assumes that exploration slots were random" in notes["random-sample"]
