"""Odds of all interactions recover exposure, and are nearly equal where exposure is equal."""

import numpy as np
import pytest
from scipy.special import expit

from ipseval import Interactions, Split
from tests.inside.correction import _odds, fit_odds, logistic

N_USERS = 600
N_ITEMS = 120


def fit_simulated_odds(exposure_probability, is_relevant, share, rng):
    """Return held-out positives and their odds, given a share of the exposed pairs that are not positive."""
    is_exposed = rng.random((N_USERS, N_ITEMS)) < exposure_probability
    user, item = np.nonzero(is_exposed & is_relevant)
    test = rng.random(user.size) < 0.2
    ids = np.arange(N_USERS), np.arange(N_ITEMS)
    split = Split(*(Interactions(user[part], item[part], *ids) for part in (~test, test)))
    non_positive_keys = np.flatnonzero(is_exposed & ~is_relevant & (rng.random(is_exposed.shape) < share))
    positive = split.test.user, split.test.item
    return positive, fit_odds(split, positive, non_positive_keys, rng)[0]


def test_exposure_groups_with_few_positives_are_found_from_all_interactions():
    rng = np.random.default_rng(0)
    is_same_shelf = rng.integers(4, size=(N_USERS, 1)) == rng.integers(4, size=N_ITEMS)
    exposure_probability = np.where(is_same_shelf, 0.4, 0.05)
    positive, odds = fit_simulated_odds(exposure_probability, rng.random((N_USERS, N_ITEMS)) < 0.1, 1.0, rng)
    true_log_odds = np.log(exposure_probability[positive])
    assert np.corrcoef(odds["interactions"], true_log_odds)[0, 1] > 0.7
    assert np.corrcoef(odds["pairs"], true_log_odds)[0, 1] < 0.3


def test_equal_exposure_has_nearly_equal_odds_although_positives_are_on_popular_items():
    rng = np.random.default_rng(1)
    is_relevant = rng.random((N_USERS, N_ITEMS)) < np.geomspace(0.02, 0.7, N_ITEMS)
    _, odds = fit_simulated_odds(np.full((N_USERS, N_ITEMS), 0.3), is_relevant, 0.2, rng)
    assert odds["pairs"].std() > 0.5
    assert odds["interactions"].std() < 0.18  # .24 if the others did not count twice


def test_a_feature_that_is_constant_up_to_rounding_is_ignored():
    train = Interactions(np.array([0, 0, 1]), np.array([0, 1, 2]), np.arange(50), np.arange(8))
    split = Split(train, Interactions(np.array([0, 0]), np.array([2, 3]), np.arange(50), np.arange(8)))
    # Nobody else has the items of user 0: all pairs are equally close, and differ by popularity alone.
    odds = fit_odds(split, (split.test.user, split.test.item), None, np.random.default_rng(0))[0]
    assert abs(odds["profiles"]).max() < 0.1
    assert abs(odds["pairs"]).max() < 20


def test_one_pair_per_user_is_drawn_for_many_users(monkeypatch):
    monkeypatch.setattr(_odds, "MAX_UNIFORM", 0)  # as for more users than pairs
    ids = np.arange(6), np.arange(9)
    train = Interactions(np.array([0, 1, 2]), np.array([0, 0, 1]), *ids)
    split = Split(train, Interactions(np.arange(6), np.array([1, 1, 0, 0, 0, 1]), *ids))
    odds = fit_odds(split, (split.test.user, split.test.item), None, np.random.default_rng(0))[0]
    assert np.ptp(odds["pairs"]) > 0


def test_a_logistic_regression_has_a_ridge_of_a_thousandth():
    design = np.column_stack([np.ones(4), [0.0, 1, 2, 3]])
    y = np.array([False, True, False, True])
    weight = np.array([1.0, 2, 3, 1])
    coefficients = logistic(design, y, weight)
    # Where the penalised likelihood is largest its slope is 0.
    assert design.T @ (weight * (y - expit(design @ coefficients))) == pytest.approx(
        1e-3 * coefficients, rel=1e-6
    )
