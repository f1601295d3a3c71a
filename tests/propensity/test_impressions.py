"""Propensities from impressions, worked by hand and by simulation."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import ImpressionLog, ImpressionPropensity
from ipseval.errors import DataWarning, IdentificationWarning
from ipseval.propensity import ExaminationCurve, LoggedPropensity, check_logged

# a has two slates (x, y), b one (z). Item 1 was shown in x and y, item 2 in x, item 3 in z.
FRAME = pd.DataFrame(
    {
        "user": ["a", "a", "a", "b"],
        "item": [1, 2, 1, 3],
        "clicked": [0, 0, 1, 1],
        "position": [1, 2, 1, 1],
        "query": ["x", "x", "y", "z"],
        "p": [0.5, 0.4, 0.3, 0.2],
    }
)
LOG = ImpressionLog.from_frame(FRAME, position="position", query="query", propensity="p")
K_MEANING = "(the item's rate over all users counts as K visits)"
CURVE = ExaminationCurve.from_theta([0.8, 0.5])
USER = np.array([0, 0, 0, 1])
ITEM = np.array([0, 1, 2, 2])


def test_with_infinite_shrinkage_the_propensity_is_the_item_probability_over_the_slates_of_the_user():
    p = ImpressionPropensity(examination=CURVE, shrinkage=np.inf).fit(LOG)
    # s = 1.6/3, .5/3, .8/3 per slate; a has two slates, b one.
    expected = [1 - (1.4 / 3) ** 2, 1 - (2.5 / 3) ** 2, 1 - (2.2 / 3) ** 2, 0.8 / 3]
    np.testing.assert_allclose(p.for_pairs(USER, ITEM), expected, rtol=1e-14)
    reordered = ImpressionLog.from_frame(FRAME, position="position", query="query", users=["b", "a"])
    p = ImpressionPropensity(examination=CURVE, shrinkage=np.inf).fit(reordered)
    np.testing.assert_allclose(p.for_pairs(1 - USER, ITEM), expected, rtol=1e-14)


def test_with_equal_numbers_of_slates_an_item_has_one_propensity_and_none_if_never_shown():
    # Two slates each, by their times: item 1 is in three of four, item 2 in one, and item 3 in none.
    frame = pd.DataFrame({"user": list("aabb"), "item": [1, 1, 1, 2], "clicked": 0, "time": [5, 9, 5, 7]})
    log = ImpressionLog.from_frame(frame, timestamp="time", items=[1, 2, 3])
    p = ImpressionPropensity(shrinkage=np.inf).fit(log)
    assert p.item == pytest.approx([1 - 1 / 16, 1 - 9 / 16, np.nan], nan_ok=True)
    # A user without a slate has no chance to be shown anything.
    larger_log = ImpressionLog.from_frame(frame, timestamp="time", items=[1, 2, 3], users=["a", "b", "c"])
    p = ImpressionPropensity(shrinkage=np.inf).fit(larger_log)
    assert p.for_pairs(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 0])) == pytest.approx(
        [1 - 1 / 16, 1 - 9 / 16, np.nan, np.nan], nan_ok=True
    )
    single_row = ImpressionLog.from_frame(frame[:1])
    assert ImpressionPropensity().fit(single_row).item.tolist() == [1.0]


def test_one_slate_is_left_out_and_the_remaining_slates_are_shrunk_to_the_item():
    p = ImpressionPropensity(examination=CURVE, shrinkage=2.0).fit(LOG)
    # a, item 1: .8 of one other slate, with 2 · 1.6/3; item 2: shown in no other slate; item 3: not shown.
    # b, item 3: no other slate at all, which leaves the item's chance.
    expected_rates = [(0.8 + 2 * 1.6 / 3) / 3, (2 * 0.5 / 3) / 3, (2 * 0.8 / 3) / 4, 0.8 / 3]
    n = np.array([2, 2, 2, 1])
    np.testing.assert_allclose(p.for_pairs(USER, ITEM), 1 - (1 - np.array(expected_rates)) ** n, rtol=1e-14)
    assert (p.model, p.is_probability) == (f"from impressions, K = 2 {K_MEANING}", True)
    larger_log = ImpressionLog.from_frame(FRAME, position="position", query="query", items=[1, 2, 3, 4])
    p = ImpressionPropensity(examination=CURVE, shrinkage=2.0).fit(larger_log)
    assert np.isnan(p.for_pairs(np.array([0, 1]), np.array([3, 3]))).all()  # item 4 was never shown


def test_the_repetition_of_a_small_log_has_its_hand_computed_value():
    # Pairs of slates of one user: one, with one item twice, so that E x(x − 1) is 2/2. Items are in 2, 1 and
    # 1 of 3 slates: Σ s² = 6/9, Σ s(1 − s) = 6/9, ρ = (1 − 6/9)/(6/9) = 1/2, K = 1.
    propensity = ImpressionPropensity().fit(LOG)
    assert propensity.function.shrinkage == pytest.approx(1, rel=1e-12)
    assert propensity.model == f"from impressions, K = 1 {K_MEANING}"
    # Another item on every page: less repetition than by chance, and nothing of the user's own.
    distinct_slates = ImpressionLog.from_frame(FRAME.iloc[1:3], query="query")
    assert ImpressionPropensity().fit(distinct_slates).model == "from impressions, by item"


def test_weights_recover_item_shares_under_personalised_policies():
    rng = np.random.default_rng(0)
    n_users = 3000
    k = 4.85
    mean = 0.3 * np.arange(1.0, 101) ** -0.7
    chance = rng.beta(k * mean, k * (1 - mean), (n_users, 100))  # of a user and an item, per slate
    slates = rng.integers(2, 8, n_users)
    parts = []
    for slate in range(7):
        user, item = np.nonzero((rng.random(chance.shape) < chance) & (slate < slates)[:, None])
        parts.append(pd.DataFrame({"user": user, "item": item, "query": user * 7 + slate}))
    log = ImpressionLog.from_frame(pd.concat(parts).assign(clicked=True), query="query")
    p = ImpressionPropensity().fit(log)
    positives = log.positives
    weight = 1 / p.for_pairs(positives.user, positives.item)
    for low, high in ((0, 10), (50, 100)):  # the most shown items, and the least shown
        inside = (positives.item >= low) & (positives.item < high)
        share = (high - low) / 100  # everything shown is liked: all pairs are relevant
        assert (weight @ inside) / weight.sum() == pytest.approx(share, abs=0.012)
        assert abs(inside.mean() - share) > 0.2  # the plain share is far off


def test_with_one_slate_per_user_the_propensity_is_the_frequency_of_the_item():
    frame = FRAME.drop(columns=["query"])
    p = ImpressionPropensity().fit(ImpressionLog.from_frame(frame))
    assert p.item.tolist() == [0.5, 0.5, 0.5]
    assert p.is_probability


def test_shrinkage_is_fitted_from_repeated_impressions():
    rng = np.random.default_rng(3)
    n_users = 3000
    n_slates = 5
    a = 0.5
    b = 2.0  # chance of a pair ~ Beta: K = a + b
    chance = rng.beta(a, b, (n_users, 20))
    is_shown = rng.random((n_slates, n_users, 20)) < chance
    slate, user, item = np.nonzero(is_shown)
    frame = pd.DataFrame({"user": user, "item": item, "clicked": False, "query": user * n_slates + slate})
    p = ImpressionPropensity().fit(ImpressionLog.from_frame(frame, query="query"))
    assert p.function.shrinkage == pytest.approx(a + b, rel=0.05)
    # Without repetition beyond chance there is nothing of the user's own.
    is_shown = rng.random(is_shown.shape) < 0.2
    slate, user, item = np.nonzero(is_shown)
    frame = pd.DataFrame({"user": user, "item": item, "clicked": False, "query": user * n_slates + slate})
    assert ImpressionPropensity().fit(ImpressionLog.from_frame(frame, query="query")).function.shrinkage > 100


def test_a_deterministic_policy_warns_and_users_with_one_page_get_the_item_probability():
    # Two pages for the first user, one for each of the others.
    pages = [(0, 0, [0, 1]), (0, 1, [0, 1]), (1, 0, [1, 2]), (2, 0, [2, 3]), (3, 0, [2, 3])]
    rows = [(user, page, item, item == 2) for user, page, items in pages for item in items]
    frame = pd.DataFrame(rows, columns=["user", "page", "item", "clicked"])
    log = ImpressionLog.from_frame(frame, query="page", items=[*range(8)], users=[*range(5)])  # 4: no page
    with pytest.warns(IdentificationWarning, match="75% of pairs were never shown: a deterministic policy"):
        propensity = ImpressionPropensity().fit(log)
    user = np.array([0, 1, 1, 2])
    item = np.array([0, 1, 2, 3])
    np.testing.assert_allclose(propensity.for_pairs(user, item), [1.0, 3 / 5, 3 / 5, 2 / 5], rtol=1e-6)
    assert propensity.function.shrinkage == 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ImpressionPropensity(shrinkage=0.05).fit(log)
        every_item = pd.DataFrame({"user": [0, 0], "page": [0, 1], "item": [0, 0], "clicked": [1, 0]})
        every_item = ImpressionLog.from_frame(every_item, query="page")
        propensity = ImpressionPropensity().fit(every_item)
        ImpressionPropensity(shrinkage=0.01).fit(every_item)  # every pair was shown
        assert (propensity.model, propensity.item.tolist()) == ("from impressions, by item", [1.0])
        zero = np.array([0])
        assert ImpressionPropensity(shrinkage=1.0).fit(every_item).for_pairs(zero, zero).tolist() == [1.0]
        # With a finite K it is one by pair, also where all users have as many slates.
        assert ImpressionPropensity(shrinkage=1.0).fit(every_item).item is None


def test_logged_propensities_are_the_probability_of_at_least_one_slate_of_the_user():
    p = LoggedPropensity(examination=CURVE).fit(LOG)
    # item 1: mean of .5 · .8 and .3 · .8 over two slates; item 2: .4 · .5 in two; item 3: .2 · .8 in one.
    np.testing.assert_allclose(
        p.for_pairs(USER, ITEM), [1 - (1 - 0.32) ** 2, 1 - 0.8**2, np.nan, 0.16], rtol=1e-14
    )
    assert p.is_probability


def test_a_model_with_its_log_is_fitted_by_evaluate():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((40, 12)) < 0.5), columns=["user", "item"])
    log = ImpressionLog.from_frame(frame.assign(clicked=rng.random(len(frame)) < 0.5))
    split = ipseval.split_random(log.positives, rng=0)
    scores = rng.random((log.n_users, log.n_items))
    result = ipseval.evaluate(
        {"m": scores}, split, propensity=ImpressionPropensity(log=log), metrics=["recall@3"]
    )
    assert result.propensity.model == "from impressions, by item"
    assert result.frame["estimate"].between(0, 1).all()


def draw_uniform_log(rng, *, propensity=None):
    item = rng.integers(0, 5, 4000)
    frame = pd.DataFrame({"user": range(4000), "item": item, "clicked": False, "position": 1})
    frame["p"] = 0.2 if propensity is None else propensity[item]
    return ImpressionLog.from_frame(frame, propensity="p", position="position")


def test_right_propensities_pass_their_checks_and_wrong_ones_do_not():
    right = check_logged(draw_uniform_log(np.random.default_rng(1)))
    assert right["passes"].all()
    total = right[right["check"] == "sum"].iloc[0]
    assert (total["value"], total["expected"]) == pytest.approx((5, 5))
    assert right[right["check"] == "item"]["value"].mean() == pytest.approx(1)
    wrong = check_logged(
        draw_uniform_log(np.random.default_rng(1), propensity=np.array([0.4, 0.3, 0.1, 0.1, 0.1]))
    )
    assert not wrong[wrong["check"] == "item"]["passes"].any()
    failing_checks = check_logged(draw_uniform_log(np.random.default_rng(1), propensity=np.full(5, 0.4)))
    assert not failing_checks[failing_checks["check"] == "sum"]["passes"].any()


def test_checks_of_a_small_log_have_hand_computed_values():
    # Five slates. Item 1 has the weights 2 and 4, item 2 has 5, and item 3 has a probability of 1 in two of five.
    rows = {"item": [1, 1, 2, 3, 3], "p": [0.5, 0.25, 0.2, 1.0, 1.0], "position": [1, 1, 1, 1, 2]}
    frame = pd.DataFrame({**rows, "user": range(5), "clicked": False})
    with pytest.warns(DataWarning, match="can decide for 1 of 3 items, with 40% of the impressions"):
        checks = check_logged(ImpressionLog.from_frame(frame, propensity="p", position="position"))
    assert checks.columns.tolist() == ["check", "item", "value", "expected", "std_error", "z", "passes"]
    assert checks["check"].tolist() == ["sum", "item", "item", "item"]
    assert checks["item"].tolist() == [None, 1, 2, 3]
    assert checks["value"].to_numpy() == pytest.approx([2 / 5, 6 / 5, 5 / 5, 2 / 5])
    assert checks["expected"].tolist() == [1, 1, 1, 1]
    # m is 20/6 and 25/5, so the variances are 7/3 and 4. The skewness is 0.50 and 0.67: too few showings.
    expected_error = np.sqrt(np.array([0.24, 7 / 3, 4, 0]) / 5)
    assert checks["std_error"].to_numpy() == pytest.approx(expected_error)
    assert checks["z"].to_numpy() == pytest.approx(
        [-0.6 / expected_error[0], 0.2 / expected_error[1], 0, np.inf]
    )
    assert checks["passes"].isna().tolist() == [False, True, True, False]
    assert checks["passes"].dropna().tolist() == [False, False]
    # Without an item with a decision, the sum has none.
    with pytest.warns(DataWarning, match="can decide for 0 of"):
        checks = check_logged(ImpressionLog.from_frame(frame[:3], propensity="p"))
    assert checks["passes"].isna().all()
    assert checks.loc[0, ["value", "expected", "std_error", "z"]].isna().all()


def test_items_share_the_significance_of_their_checks():
    # Of 16 slates, 12 show item 1 with p = 1/2: the value is 1.5 with a standard error of 1/4, so z = 2.
    frame = pd.DataFrame({"user": range(16), "item": [1] * 12 + [2] * 4, "clicked": False, "p": 0.5})
    log = ImpressionLog.from_frame(frame, propensity="p")
    checks = check_logged(log, significance=0.05)
    assert checks["z"].tolist() == [0, 2, -2]
    assert checks["passes"].tolist() == [True, True, True]  # the limit is 2.24
    assert check_logged(log, significance=0.1)["passes"].tolist() == [True, False, False]  # 1.96


def draw_lists_of_two(rng, n_lists):
    """Return lists of two of five items without replacement, with exact probabilities of the list and position."""
    chance = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    second = np.zeros(5)
    for first in range(5):
        others = np.arange(5) != first
        second[others] += chance[first] * chance[others] / (1 - chance[first])
    items = np.array([rng.choice(5, 2, replace=False, p=chance) for _ in range(n_lists)])
    rows = {"user": np.repeat(np.arange(n_lists), 2), "item": items.ravel(), "clicked": False}
    frame = pd.DataFrame(rows).assign(position=np.tile([1, 2], n_lists))
    frame["in_list"] = (chance + second)[frame["item"]]
    frame["at_position"] = np.where(frame["position"] == 1, chance[frame["item"]], second[frame["item"]])
    return frame


def test_probabilities_of_being_in_the_list_pass_and_those_of_positions_pass_one_position_at_a_time():
    frame = draw_lists_of_two(np.random.default_rng(0), 3000)
    in_list = check_logged(ImpressionLog.from_frame(frame, position="position", propensity="in_list"))
    assert in_list["passes"].all()
    assert in_list["value"].to_numpy() == pytest.approx([5, 1, 1, 1, 1, 1], abs=0.15)
    at_position = ImpressionLog.from_frame(frame, position="position", propensity="at_position")
    whole = check_logged(at_position)
    assert not whole["passes"].any()
    assert whole["value"][0] == pytest.approx(2 * whole["expected"][0], abs=0.3)  # two positions
    for position in (1, 2):
        assert check_logged(at_position.select(at_position.position == position))["passes"].all()


def test_right_propensities_of_rarely_shown_items_do_not_fail():
    # With the standard error of the sample, two thirds of these logs failed, nominally 2%.
    chance = 1 / (5 + np.arange(200))
    chance = chance / chance.sum()
    n_failing = 0
    for seed in range(30):
        item = np.random.default_rng(seed).choice(200, 3000, p=chance)
        log = ImpressionLog(
            user=np.arange(3000),
            item=item,
            user_ids=np.arange(3000),
            item_ids=np.arange(200),
            clicked=np.zeros(3000, dtype=bool),
            propensity=chance[item],
        )
        with pytest.warns(DataWarning, match="can decide for"):
            checks = check_logged(log)
        n_failing += not checks["passes"].all()  # missing ones count as passed
        assert checks["passes"].isna().mean() > 0.9  # most items have fewer than 200 expected showings
    assert n_failing <= 3


def test_an_item_that_is_twice_in_a_slate_counts_once_in_the_check():
    frame = pd.DataFrame({"user": [1, 1, 2], "item": [1, 1, 2], "clicked": False, "p": [0.5, 0.5, 0.5]})
    checks = check_logged(
        ImpressionLog.from_frame(
            frame.assign(query=[1, 1, 2]), query="query", propensity="p", duplicates="drop"
        )
    )
    assert checks["value"].tolist() == [2, 1, 1]


def test_slates_that_repeat_items_as_often_as_chance_have_propensities_of_items_alone():
    # Four users with two slates of one item: a sees item 1 twice, b item 2 twice, c and d see both once. Then
    # E x(x − 1) is (2 + 2)/8, which is Σ s² = 1/4 + 1/4, so that ρ = 0 and K is infinite.
    frame = pd.DataFrame({"user": list("aabbccdd"), "item": [1, 1, 2, 2, 1, 2, 1, 2], "clicked": 0})
    log = ImpressionLog.from_frame(frame.assign(query=range(8)), query="query")
    propensity = ImpressionPropensity().fit(log)
    assert propensity.model == "from impressions, by item"
    assert propensity.item.tolist() == [0.75, 0.75]  # 1 − (1 − 1/2)²
