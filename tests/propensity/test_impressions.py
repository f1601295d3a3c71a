"""Propensities from impressions, worked by hand and by simulation."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import ExposureLog, ImpressionPropensity
from ipseval.errors import IdentificationWarning
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
LOG = ExposureLog.from_frame(FRAME, position="position", query="query", propensity="p")
CURVE = ExaminationCurve.known([0.8, 0.5])
USER, ITEM = np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2])


def test_with_all_shrinkage_it_is_the_items_chance_in_the_slates_of_the_user():
    p = ImpressionPropensity(examination=CURVE, shrinkage=np.inf).fit(LOG)
    # s = 1.6/3, .5/3, .8/3 per slate; a has two slates, b one.
    expected = [1 - (1.4 / 3) ** 2, 1 - (2.5 / 3) ** 2, 1 - (2.2 / 3) ** 2, 0.8 / 3]
    np.testing.assert_allclose(p.at(USER, ITEM), expected, rtol=1e-14)


def test_one_showing_is_left_out_and_the_item_joins_the_other_slates():
    p = ImpressionPropensity(examination=CURVE, shrinkage=2.0).fit(LOG)
    # a, item 1: .8 of one other slate, with 2 · 1.6/3; item 2: shown in no other slate; item 3: not shown.
    # b, item 3: no other slate at all, which leaves the item's chance.
    each = [(0.8 + 2 * 1.6 / 3) / 3, (2 * 0.5 / 3) / 3, (2 * 0.8 / 3) / 4, 0.8 / 3]
    n = np.array([2, 2, 2, 1])
    np.testing.assert_allclose(p.at(USER, ITEM), 1 - (1 - np.array(each)) ** n, rtol=1e-14)


def test_weights_recover_shares_of_items_where_policies_know_the_user():
    rng, n_users, k = np.random.default_rng(0), 3000, 4.85
    mean = 0.3 * np.arange(1.0, 101) ** -0.7
    chance = rng.beta(k * mean, k * (1 - mean), (n_users, 100))  # of a user and an item, per slate
    slates = rng.integers(2, 8, n_users)
    parts = []
    for slate in range(7):
        user, item = np.nonzero((rng.random(chance.shape) < chance) & (slate < slates)[:, None])
        parts.append(pd.DataFrame({"user": user, "item": item, "query": user * 7 + slate}))
    log = ExposureLog.from_frame(pd.concat(parts).assign(clicked=True), query="query")
    p = ImpressionPropensity().fit(log)
    positives = log.positives
    weight = 1 / p.at(positives.user, positives.item)
    for low, high in ((0, 10), (50, 100)):  # the most shown items, and the least shown
        inside = (positives.item >= low) & (positives.item < high)
        share = (high - low) / 100  # everything shown is liked: all pairs are relevant
        assert (weight @ inside) / weight.sum() == pytest.approx(share, abs=0.012)
        assert abs(inside.mean() - share) > 0.2  # the plain share is far off


def test_users_with_one_slate_each_leave_the_frequency_of_the_item():
    frame = FRAME.drop(columns=["query"])
    p = ImpressionPropensity().fit(ExposureLog.from_frame(frame))
    assert p.item.tolist() == [0.5, 0.5, 0.5]
    assert p.is_probability


def test_the_mixing_is_learnt_from_what_users_are_shown_again():
    rng = np.random.default_rng(3)
    n_users, n_slates, a, b = 3000, 5, 0.5, 2.0  # chance of a pair ~ Beta: K = a + b
    chance = rng.beta(a, b, (n_users, 20))
    shown = rng.random((n_slates, n_users, 20)) < chance
    slate, user, item = np.nonzero(shown)
    frame = pd.DataFrame({"user": user, "item": item, "clicked": False, "query": user * n_slates + slate})
    p = ImpressionPropensity().fit(ExposureLog.from_frame(frame, query="query"))
    assert p.function.shrinkage == pytest.approx(a + b, rel=0.05)
    # Without repetition beyond chance there is nothing of the user's own.
    shown = rng.random(shown.shape) < 0.2
    slate, user, item = np.nonzero(shown)
    frame = pd.DataFrame({"user": user, "item": item, "clicked": False, "query": user * n_slates + slate})
    assert ImpressionPropensity().fit(ExposureLog.from_frame(frame, query="query")).function.shrinkage > 100


def test_a_policy_that_shows_the_same_again_is_named_and_leaves_the_items_chance_to_users_with_one_page():
    # Two pages for the first user, one for each of the others.
    pages = [(0, 0, [0, 1]), (0, 1, [0, 1]), (1, 0, [1, 2]), (2, 0, [2, 3]), (3, 0, [2, 3])]
    rows = [(user, page, item, item == 2) for user, page, items in pages for item in items]
    frame = pd.DataFrame(rows, columns=["user", "page", "item", "clicked"])
    log = ExposureLog.from_frame(frame, query="page", items=[*range(8)])
    with pytest.warns(IdentificationWarning, match="75% of pairs were never shown: a deterministic policy"):
        found = ImpressionPropensity().fit(log)
    user, item = np.array([0, 1, 1, 2]), np.array([0, 1, 2, 3])
    np.testing.assert_allclose(found.at(user, item), [1.0, 3 / 5, 3 / 5, 2 / 5], rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ImpressionPropensity(shrinkage=1.0).fit(log)
        every_item = pd.DataFrame({"user": [0, 0], "page": [0, 1], "item": [0, 0], "clicked": [1, 0]})
        ImpressionPropensity().fit(ExposureLog.from_frame(every_item, query="page"))


def test_logged_chances_are_those_of_at_least_one_of_the_users_slates():
    p = LoggedPropensity(examination=CURVE).fit(LOG)
    # item 1: mean of .5 · .8 and .3 · .8 over two slates; item 2: .4 · .5 in two; item 3: .2 · .8 in one.
    np.testing.assert_allclose(p.at(USER, ITEM), [1 - (1 - 0.32) ** 2, 1 - 0.8**2, np.nan, 0.16], rtol=1e-14)


def test_a_model_with_its_log_is_fitted_by_evaluate():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((40, 12)) < 0.5), columns=["user", "item"])
    log = ExposureLog.from_frame(frame.assign(clicked=rng.random(len(frame)) < 0.5))
    split = ipseval.split_random(log.positives, rng=0)
    scores = rng.random((log.n_users, log.n_items))
    result = ipseval.evaluate(
        {"m": scores}, split, propensity=ImpressionPropensity(log=log), metrics=["recall@3"]
    )
    assert result.propensity.model == "from impressions, by item"
    assert result.frame["estimate"].between(0, 1).all()


def uniform_log(rng, *, propensity=None):
    item = rng.integers(0, 5, 4000)
    frame = pd.DataFrame({"user": range(4000), "item": item, "clicked": False, "position": 1})
    frame["p"] = 0.2 if propensity is None else propensity[item]
    return ExposureLog.from_frame(frame, propensity="p", position="position")


def test_right_propensities_pass_their_checks_and_wrong_ones_do_not():
    right = check_logged(uniform_log(np.random.default_rng(1)))
    assert right["passes"].all()
    total = right[right["check"] == "sum"].iloc[0]
    assert (total["value"], total["expected"]) == pytest.approx((5, 5))
    assert right[right["check"] == "item"]["value"].mean() == pytest.approx(1)
    wrong = check_logged(
        uniform_log(np.random.default_rng(1), propensity=np.array([0.4, 0.3, 0.1, 0.1, 0.1]))
    )
    assert not wrong[wrong["check"] == "item"]["passes"].any()
    doubled = check_logged(uniform_log(np.random.default_rng(1), propensity=np.full(5, 0.4)))
    assert not doubled[doubled["check"] == "sum"]["passes"].any()
