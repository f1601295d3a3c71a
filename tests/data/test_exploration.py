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
from tests.inside.data import fit_popularity_slope

RATE = 0.5


def make_log(user, item, clicked, n_users=2, n_items=2) -> ImpressionLog:
    codes = np.asarray(user), np.asarray(item)
    return ImpressionLog(*codes, np.arange(n_users), np.arange(n_items), np.asarray(clicked, dtype=bool))


def test_weighted_totals_are_unbiased_over_everything_that_slots_may_show():
    user = np.array([0, 0, 1])
    is_liked = np.array([[1.0, 0.0], [1.0, 1.0]])
    expected = np.zeros((2, 2))
    for shown in product((None, 0, 1), repeat=3):  # each row: not explored, or one of two items at random
        probability = np.prod([1 - RATE if item_shown is None else RATE / 2 for item_shown in shown])
        where = np.array([item_shown is not None for item_shown in shown])
        if not where.any():
            continue
        item = np.array([item_shown or 0 for item_shown in shown])
        exposure = RandomExposure.from_log(
            make_log(user, item, is_liked[user, item]), make_ids(), where=where, rate=RATE
        )
        weight = np.ones(len(exposure)) if exposure.weight is None else exposure.weight
        if exposure.weight is None:  # of users with equally many rows, or one user: the factor is known
            rows = np.bincount(user)[exposure.user[0]]
            weight = weight / (1 - (1 - RATE / 2) ** rows)
        np.add.at(expected, (exposure.user, exposure.item), probability * weight * exposure.positive)
    assert expected == pytest.approx(is_liked, abs=1e-12)


def make_ids(n_users: int = 2, n_items: int = 2) -> Interactions:
    no_codes = np.zeros(0, dtype=int)
    return Interactions(no_codes, no_codes, np.arange(n_users), np.arange(n_items))


def test_users_with_equally_many_rows_have_no_weights_and_the_bits_of_random_exposure():
    rng = np.random.default_rng(0)
    world = ipseval.simulation.World(n_users=100, n_items=40, mean_relevant=8, rng=1)
    split = world.split(rng=2)
    is_liked = np.zeros((100, 40), dtype=bool)
    is_liked[world.relevant.user, world.relevant.item] = True
    user = np.repeat(np.arange(100), 20)
    item = np.concatenate([rng.permutation(40)[:20] for _ in range(100)])
    where = rng.random(user.size) < 0.3
    log = make_log(user, item, is_liked[user, item], 100, 40)
    exposure = RandomExposure.from_log(log, split, where=where, rate=0.3)
    assert exposure.weight is None
    rows = {"user": user[where], "item": item[where], "positive": is_liked[user, item][where]}
    frame_exposure = RandomExposure.from_frame(pd.DataFrame(rows), split)
    models = {"popular": world.example_models(split, rng=3)["popular"]}
    options = {"metrics": ["recall@10"], "rng": 0}
    slot_result = ipseval.correct(models, split, random_exposure=exposure, **options)
    frame_result = ipseval.correct(models, split, random_exposure=frame_exposure, **options)
    pd.testing.assert_frame_equal(slot_result.frame, frame_result.frame, check_exact=True)


def test_slots_that_follow_popularity_raise_a_warning_and_random_slots_do_not():
    rng = np.random.default_rng(0)
    chance = 1 / np.arange(1, 41)
    for power, fault in ((0.0, False), (1.0, True)):
        shown = chance**power / (chance**power).sum()
        user = np.repeat(np.arange(100), 50)
        where = rng.random(5000) < 0.2
        item = np.where(where, rng.choice(40, 5000, p=shown), rng.choice(40, 5000, p=chance / chance.sum()))
        log = make_log(user, item, rng.random(5000) < 0.5, 100, 40)
        if fault:
            with pytest.warns(DataWarning, match="randomised slots follow popularity"):
                exposure = RandomExposure.from_log(log, make_ids(100, 40), where=where, rate=0.2)
        else:
            exposure = RandomExposure.from_log(log, make_ids(100, 40), where=where, rate=0.2)
        slope, error = exposure.slope
        # Clicks are a half of what is shown, so their logarithm rises as that of the chance does.
        assert abs(slope - power) < 4 * error + 0.15 * power


def test_users_without_rows_are_counted_and_other_ids_are_found_by_name():
    frame = pd.DataFrame({"user": ["b", "b", "a"], "item": ["y", "x", "x"], "clicked": [1, 0, 1]})
    log = ImpressionLog.from_frame(frame)
    ids = Interactions.from_frame(frame, users=["c", "b", "a"], items=["x", "z", "y"])
    exposure = RandomExposure.from_log(log, ids, where=[True, False, True], rate=0.5)
    assert (exposure.user.tolist(), exposure.item.tolist(), exposure.n_uncovered) == ([1, 2], [2, 0], 1)
    assert exposure.positive.all()
    assert exposure.select([True, False]).weight.tolist() == exposure.weight[:1].tolist()
    certain_exposure = RandomExposure.from_log(
        make_log([0, 1], [0, 0], [1, 0], 2, 1), make_ids(2, 1), where=[True] * 2, rate=1.0
    )
    assert (certain_exposure.weight, certain_exposure.slope) == (None, None)  # it is shown for certain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"where": [False] * 3}, "where must be true in at least one row"),
        ({"where": [True]}, "where"),
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"log": pd.DataFrame()}, "ImpressionLog"),
        ({"ids": make_ids(1, 2)}, "users that ids do not hold"),
    ],
)
def test_wrong_masks_rates_and_ids_raise_an_error(change, message):
    arguments = {
        "log": make_log([0, 0, 1], [0, 1, 1], [1, 0, 1]),
        "ids": make_ids(),
        "where": [True, False, True],
    }
    arguments |= {"rate": 0.5} | change
    with pytest.raises(InputError, match=message):
        RandomExposure.from_log(arguments.pop("log"), arguments.pop("ids"), **arguments)


def test_a_propensity_refuses_weighted_users_and_weights_must_be_positive():
    exposure = RandomExposure([0, 1], [0, 1], np.array([True, False]), 2, 2, weight=[1.0, 2.0])
    with pytest.raises(InputError, match="exposure must have equal weights"):
        ipseval.PowerLawPropensity(gamma="fit", exposure=exposure, unseen="drop").fit(make_ids())
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
def test_the_slope_of_two_items_is_the_log_ratio_of_their_numbers_of_slots(n_shown, n_clicks, is_named):
    # Of two items whose popularity is n and 0, a power b shows (n + 1)^b times as often the first.
    item = np.repeat([0, 1, 0], [*n_shown, n_clicks])
    user = np.arange(item.size)
    log = make_log(user, item, np.ones(item.size), item.size)
    where = user < sum(n_shown)
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        exposure = RandomExposure.from_log(log, make_ids(item.size), where=where, rate=0.5)
    log_ratio = np.log(1 + n_clicks)
    n = sum(n_shown)
    slope = np.clip(np.log(n_shown[0] / n_shown[1]) / log_ratio, -10, 10)
    error = 2 / (np.sqrt(n) * log_ratio)
    assert exposure.slope == pytest.approx((slope, error), rel=1e-9)
    assert len(caught_warnings) == is_named
    assert all(
        f"as its power of {slope:.2f} ± {error:.2f}. They" in str(warning.message)
        for warning in caught_warnings
    )
    assert (exposure.n_dropped, exposure.n_uncovered) == (0, 0)


def test_the_slope_is_found_where_one_of_many_items_is_popular():
    # Shown are 100 slots of item 0, with 1000 clicks, and 4 of each other: 1001^b : 100 = 100 : 400.
    item = np.repeat(np.arange(102) % 101, [100, *[4] * 100, 1000])
    user = np.arange(item.size)
    log = make_log(user, item, user >= 500, item.size, 101)
    with pytest.warns(DataWarning, match=r"power of 0\.47 ± 0\.07\. They"):
        exposure = RandomExposure.from_log(log, make_ids(item.size, 101), where=user < 500, rate=0.5)
    assert exposure.slope[0] == pytest.approx(np.log(25) / np.log(1001), rel=1e-9)


def test_slots_of_the_most_or_the_least_popular_item_alone_have_the_steepest_slope():
    rng = np.random.default_rng(0)
    cases = [(np.array([14, 866]), 3591)]
    for _ in range(40):
        cases.append((rng.permutation(1000)[: rng.integers(2, 8)], rng.integers(1, 5000)))
    for popularity, n_slots in cases:
        for item, slope in ((popularity.argmax(), 10), (popularity.argmin(), -10)):
            n_shown = np.zeros(popularity.size, dtype=int)
            n_shown[item] = n_slots
            assert fit_popularity_slope(n_shown, popularity).slope == slope


def test_the_weight_of_a_pair_is_one_over_its_chance_to_be_shown():
    # User 0 has one row, user 1 two; each is one of two items with chance 1/2: π = 1/4 and 1 − (3/4)².
    log = make_log([0, 1, 1], [0, 1, 0], [1, 1, 0])
    for where, weight in (([1, 1, 0], [4, 16 / 7]), ([0, 1, 1], None), ([1, 0, 0], None)):
        exposure = RandomExposure.from_log(log, make_ids(), where=np.array(where, dtype=bool), rate=RATE)
        assert (exposure.weight is None) == (weight is None)
        assert weight is None or exposure.weight == pytest.approx(weight, rel=1e-12)


MIXED_POSITIVES = np.array([True, False])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": [0]}, "must have one length"),
        ({"item": [0]}, "must have one length"),
        ({"positive": MIXED_POSITIVES[:1]}, "must have one length"),
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
def test_the_constructor_checks_its_arguments(change, message):
    arguments = {"user": [0, 1], "item": [0, 1], "positive": MIXED_POSITIVES, "n_users": 2, "n_items": 2}
    with pytest.raises(InputError, match=message):
        RandomExposure(**arguments | change)


def test_exposures_of_frames_and_ratings_are_positive_by_their_rule():
    frame = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1], "positive": [2, -1, 0, 1]})
    ids = Interactions.from_frame(frame, value="positive")
    with pytest.raises(InputError, match=r"'positive' must hold 0/1 or .*; 2 of 4 rows do not \(e\.g\. 2\)"):
        RandomExposure.from_frame(frame, ids)
    exposure = RandomExposure.from_ratings(ids, threshold=1)
    assert exposure.positive.tolist() == [True, False, False, True]
    assert (exposure.n_dropped, exposure.n_uncovered) == (0, 0)
    with pytest.raises(InputError, match="needs ratings as value"):
        RandomExposure.from_ratings(Interactions.from_frame(frame), threshold=1)
    with pytest.raises(InputError, match="must be Interactions"):
        RandomExposure.from_ratings(frame, threshold=1)
    first_remainder = exposure.exclude(ids.select([0]))
    second_remainder = first_remainder.exclude(ids.select([0, 3]))
    assert (
        first_remainder.n_dropped,
        len(first_remainder),
        second_remainder.n_dropped,
        len(second_remainder),
    ) == (1, 3, 2, 2)
    exposure.check_ids(ids, "split")
    for other_ids in (make_ids(1), make_ids(3), make_ids(2, 1), make_ids(2, 3)):
        with pytest.raises(InputError, match=r"^the exposure has 2 users and 2 items, the split"):
            exposure.check_ids(other_ids, "split")
    for users, items, name in (([1, 0], [0, 1], "users"), ([0, 1], [0, 2], "items")):
        other_ids = Interactions([], [], users, items)
        with pytest.raises(
            InputError, match=f"^the exposure must have the {name} of the log in the same order"
        ):
            exposure.check_ids(other_ids, "log")


@pytest.mark.parametrize("popular", [True, False])
@pytest.mark.parametrize("n_slots", [1, 2, 400])
def test_slots_of_a_single_item_have_a_slope_and_many_such_slots_raise_a_warning(n_slots, popular):
    user = np.arange(400 + n_slots)
    item = np.where(np.arange(user.size) < 400, np.arange(user.size) % 2, 0 if popular else 2)
    log = make_log(user, item, np.arange(user.size) < 400, user.size, 40)
    where = np.arange(user.size) >= 400
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        exposure = RandomExposure.from_log(log, make_ids(user.size, 40), where=where, rate=0.5)
    assert np.isfinite(exposure.slope).all()
    assert len(caught_warnings) == (n_slots == 400)


def test_the_report_prints_users_without_rows_and_the_slope_of_the_slots():
    world = ipseval.simulation.World(n_users=100, n_items=40, mean_relevant=8, rng=1)
    split = world.split(rng=2)
    rng = np.random.default_rng(0)
    user = rng.integers(99, size=3000)
    item = rng.integers(40, size=3000)
    log = make_log(user, item, rng.random(3000) < 0.3, 100, 40)
    exposure = RandomExposure.from_log(log, split, where=rng.random(3000) < 0.3, rate=0.3)
    models = {"popular": world.example_models(split, rng=3)["popular"]}
    options = {"random_exposure": exposure, "metrics": ["recall@10"], "rng": 0}
    correction = ipseval.correct(models, split, **options)
    printed_text = " ".join(repr(correction).split())
    assert "without a row in the log" in printed_text
    assert "Items in randomised slots follow popularity" in printed_text
    notes = correction.frame.set_index("estimator")["note"]
    assert "assumes that randomised slots were random" in notes["random-sample"]


def enumerate_service_that_repeats_nothing() -> pd.DataFrame:
    """Return the rows of 16 users who like items 0 and 1, two times each, with all outcomes of their random slots.

    At both times, a slot is random with probability 1/2, with item 0 or 1, so that the four outcomes (not, not, 0, 1)
    are equally likely. At time 0, the service also shows item 0, unless the random slot shows it. Other slots have
    item 2, which nobody likes.
    """
    rows = []
    for user, outcomes in enumerate(product((2, 2, 0, 1), repeat=2)):
        for time, item in enumerate(outcomes):
            rows.append((user, item, time, item != 2))
        rows.append((user, 2 if outcomes[0] == 0 else 0, 0, False))
    frame = pd.DataFrame(rows, columns=["user", "item", "time", "is_random"])
    return frame.assign(clicked=frame["item"] != 2)


def test_random_slots_of_the_test_period_are_a_fair_sample_and_earlier_ones_are_not():
    frame = enumerate_service_that_repeats_nothing()
    is_random = frame["is_random"].to_numpy()
    in_test = (frame["time"] == 1).to_numpy()
    log = ImpressionLog.from_frame(frame.drop(columns="is_random"), timestamp="time")
    train_rows = frame[~is_random & ~in_test & frame["clicked"]]
    test_rows = frame[in_test & frame["clicked"]]
    split = ipseval.Split.from_frames(
        train_rows[["user", "item", "time"]],
        test_rows[["user", "item", "time"]],
        timestamp="time",
        users=range(16),
        items=range(3),
        overlap="drop",
    )
    # Outside training, 16 users like item 1, and the four with item 0 in the random slot of time 0 like item 0.
    true_share = 4 / 20

    def share_of_item_0(exposure: RandomExposure) -> float:
        is_outside = ~np.isin(exposure.pair_key, split.train.pair_key)
        item = exposure.item[exposure.positive & is_outside]
        assert exposure.weight is None
        return float((item == 0).mean())

    fair = RandomExposure.from_log(log.select(in_test), split, where=is_random[in_test], rate=0.5)
    assert share_of_item_0(fair) == true_share
    with pytest.warns(DataWarning, match="marks 8 rows of the training period"):
        unfair = RandomExposure.from_log(log, split, where=is_random, rate=1 / 3)
    assert share_of_item_0(unfair) == 4 / 11
