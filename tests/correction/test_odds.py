"""Odds of all interactions recover exposure, and are nearly equal where exposure is equal."""

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import expit

from ipseval import InputError, Interactions, Split
from ipseval.propensity import profile_features
from tests.inside.correction import PairFeatures, _odds, fit_odds, logistic

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


def solve_slopes(seen: PairFeatures, uniform: PairFeatures) -> np.ndarray:
    """Return the log odds per unit of each feature: the regression by its equations, solved numerically.

    Each side has half of the weight, and each of its users an equal part.
    """
    n = len(seen.x) + len(uniform.x)
    weights = []
    for side in (seen, uniform):
        users = side.user.tolist()
        weights += [n / 2 / len(set(users)) / users.count(user) for user in users]
    x = np.concatenate([seen.x, uniform.x])
    sd = x.std(axis=0)
    design = np.column_stack([np.ones(n), (x - x.mean(axis=0)) / sd])
    is_seen = np.arange(n) < len(seen.x)

    def compute_gradient(coefficients: np.ndarray) -> np.ndarray:
        return design.T @ (weights * (is_seen - expit(design @ coefficients))) - 1e-3 * coefficients

    return root(compute_gradient, np.zeros(design.shape[1]), tol=1e-13).x[1:] / sd


@pytest.mark.parametrize("n_features", [2, 3])
def test_log_odds_weight_users_and_both_sides_equally(n_features):
    rng = np.random.default_rng(0)
    popularity = rng.integers(4, size=17) / 2  # many pairs have equal popularity
    x = np.column_stack([popularity, popularity**2, rng.random(17)])[:, :n_features]
    seen = PairFeatures(np.array([0, 0, 0, 1, 2]), x[:5])
    uniform = PairFeatures(np.array([0] * 3 + [1] * 4 + [2] * 5), x[5:])
    compute_odds = _odds._fit_feature_odds(seen, uniform)
    expected = solve_slopes(seen, uniform)
    np.testing.assert_allclose(compute_odds(np.eye(n_features)), expected, rtol=1e-6)


def test_odds_are_equal_where_nothing_can_be_drawn():
    pairs = PairFeatures(np.array([0, 1]), np.array([[1.0, 1.0], [2.0, 4.0]]))
    compute_odds = _odds._fit_feature_odds(pairs, PairFeatures(np.zeros(0, dtype=int), np.zeros((0, 2))))
    assert compute_odds(pairs.x).tolist() == [0, 0]


@pytest.mark.parametrize(("limit", "n_draws"), [(50_000, 20), (50, 16), (1, 1)])
def test_equally_many_pairs_are_drawn_of_each_user_outside_training(monkeypatch, limit, n_draws):
    monkeypatch.setattr(_odds, "MAX_UNIFORM", limit)
    ids = np.arange(9), np.arange(3)
    train = Interactions(np.array([5, 5, 0]), np.array([0, 2, 0]), *ids)
    split = Split(train, Interactions(np.array([5]), np.array([1]), *ids))
    user, item = _odds._draw_uniform_pairs(split, np.array([7, 2, 7, 5]), np.random.default_rng(0))
    counts = np.bincount(user, minlength=9)
    assert counts[[2, 7]].tolist() == [n_draws] * 2
    assert counts.sum() == counts[[2, 5, 7]].sum()
    assert set(item[user == 5].tolist()) <= {1}
    if limit > 1:
        assert set(item[user == 2].tolist()) == {0, 1, 2}
        assert 0 < counts[5] < n_draws


@pytest.mark.parametrize(("n_users", "n_draws"), [(2500, 20), (7143, 6), (10_000, 5), (50_001, 1)])
def test_at_most_fifty_thousand_pairs_are_drawn_of_many_users(n_users, n_draws):
    ids = np.arange(n_users), np.arange(3)
    no_codes = np.zeros(0, dtype=int)
    split = Split(Interactions(no_codes, no_codes, *ids), Interactions([0], [0], *ids))
    user, _ = _odds._draw_uniform_pairs(split, np.arange(n_users), np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(user), n_draws)


def test_pairs_of_the_log_that_are_neither_positive_nor_in_training_are_listed():
    ids = np.arange(2), np.arange(5)
    split = Split(Interactions([0, 1], [0, 3], *ids), Interactions([0], [1], *ids))
    # User 0 has items 0 (training), 1 (positive), 2 and 4; user 1 items 3 (training) and 0.
    log = Interactions([0, 0, 0, 0, 1, 1], [4, 0, 1, 2, 3, 0], *ids)
    assert _odds.list_non_positive_keys(log, split, np.array([1])).tolist() == [2, 4, 5]
    assert _odds.list_non_positive_keys(None, split, np.array([1])) is None
    with pytest.raises(InputError, match="at least one pair that is not positive; got none"):
        _odds.list_non_positive_keys(log.select(log.item == 1), split, np.array([1]))
    for position, side in enumerate(("user", "item")):
        other_ids = list(ids)
        other_ids[position] = ids[position][::-1]
        with pytest.raises(InputError, match=f"must have the same {side} ids"):
            _odds.list_non_positive_keys(Interactions([0], [4], *other_ids), split, np.array([1]))


def test_odds_of_interactions_use_profiles_of_half_of_the_other_pairs_and_fit_the_rest():
    rng = np.random.default_rng(5)
    ids = np.arange(8), np.arange(12)
    key = rng.permutation(96)
    train_keys, positive_keys, non_positive_keys, uniform_keys = np.split(key, [16, 24, 48])
    split = Split(*(Interactions(*np.divmod(keys, 12), *ids) for keys in (train_keys, positive_keys)))
    uniform_keys = np.concatenate([uniform_keys, non_positive_keys])  # uniform pairs may be in the log
    odds = _odds._fit_interaction_odds(
        split,
        np.divmod(positive_keys, 12),
        non_positive_keys,
        np.divmod(uniform_keys, 12),
        np.random.default_rng(3),
    )
    is_profile = np.random.default_rng(3).random(24) < 0.5
    assert 8 < is_profile.sum() < 16
    profile_keys = non_positive_keys[is_profile]
    log = Interactions(*np.divmod(np.concatenate([train_keys, profile_keys]), 12), *ids)
    outcome_keys = [*positive_keys, *non_positive_keys[~is_profile], *non_positive_keys[~is_profile]]
    candidate_keys = np.setdiff1d(uniform_keys, profile_keys)
    sides = []
    for keys in (np.array(outcome_keys), candidate_keys):
        user, item = np.divmod(keys, 12)
        sides.append(PairFeatures(user, profile_features(log, user, item)))
    expected = sides[0].x[:8] @ solve_slopes(*sides)
    np.testing.assert_allclose(odds - odds.mean(), expected - expected.mean(), atol=1e-5)
