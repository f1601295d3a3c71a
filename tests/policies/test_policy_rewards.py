"""Reward models, click rates and counts of rare events against slow definitions; Open Bandit against OBP."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import chi2

import ipseval
from ipseval.policies import evaluate_policies
from ipseval.policies.rewards import FactorReward, ItemReward
from ipseval.validation.datasets import load_open_bandit
from reproductions import open_bandit
from tests.inside.policies import (
    STRENGTHS,
    ShownData,
    _compute_truncated_svd,
    count_interval,
    cross_fit_click_rates,
    difference_interval,
    estimate_click_rates,
    shrink_factors,
)


def iterate_open_bandit(folder, *campaigns):
    """Yield a log, the log of the target policy, its name and the positions."""
    for campaign in campaigns:
        study = load_open_bandit(folder, campaign=campaign)
        logs = {"random": study.random, "bts": study.bts}
        for source, target in open_bandit.DIRECTIONS:
            for places in open_bandit.PLACES.values():
                log, target_log = (
                    part_log.select(np.isin(part_log.position, places))
                    for part_log in (logs[source], logs[target])
                )
                yield log, target_log, target, places


FEW = STRENGTHS[::5]


@pytest.fixture
def few_strengths(monkeypatch):
    """Use eleven strengths: the tests run a minimizer for each of them."""
    monkeypatch.setattr("ipseval.policies._click_rates.STRENGTHS", FEW)


def maximize_posterior(
    clicks: np.ndarray, expected: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return factors, their prior means and the slope, by a minimizer for each strength."""
    seen = expected > 0

    def compute_loss(parameters, a):
        mu = (expected * np.exp(parameters[0] + parameters[1] * z))[seen]
        c = clicks[seen]
        # Of the negative binomial and the normal distribution, but for what neither reads a nor parameters.
        likely = gammaln(c + a) - gammaln(a) + a * np.log(a / (a + mu)) + c * np.log(mu / (a + mu))
        slope = c - (c + a) * mu / (a + mu)  # by log mu
        return 2 * parameters[1] ** 2 - likely.sum(), [-slope.sum(), 4 * parameters[1] - slope @ z[seen]]

    fits = []
    start = np.zeros(2)
    for a in FEW:
        fits.append((minimize(compute_loss, start, args=(a,), jac=True, tol=1e-6), a))
        start = fits[-1][0].x  # of the next strength the mode is near
    best, a = min(fits, key=lambda one: one[0].fun)
    middle = np.exp(best.x[0] + best.x[1] * z)
    return middle * (clicks + a) / (expected * middle + a), middle, best.x[1]


@pytest.mark.parametrize(
    ("clicks", "expected"),
    [  # Hardly anything is known of the last of the first; in the others the prior of β decides.
        ([50, 18, 18, 3, 4, 0], [30, 20, 15, 5, 5, 0.1]),
        ([95, 61, 51, 34, 6, 10], [39, 28, 24, 34, 22, 22]),
        ([198, 90, 22, 5, 8, 6], [33, 20, 36, 39, 20, 17]),
    ],
)
@pytest.mark.usefixtures("few_strengths")
def test_factors_are_shrunk_towards_the_shares_of_the_policy_by_likelihood(clicks, expected):
    z = np.array([1.5, 1, 0.5, -0.5, -1, -1.5])
    clicks = np.array(clicks, dtype=float)
    expected = np.array(expected, dtype=float)
    factors, middle, slope = maximize_posterior(clicks, expected, z)
    assert 0.1 < slope < 1
    estimates = shrink_factors(clicks, expected, z)
    np.testing.assert_allclose(estimates, factors, rtol=1e-4)
    if expected[-1] < 1:
        assert estimates[-1] == pytest.approx(middle[-1], rel=0.05)
    # They are the same from all that is expected in another unit, and from shares of another mean.
    scaled_factors = shrink_factors(clicks, 1e15 * expected, z + 3)
    np.testing.assert_allclose(1e15 * scaled_factors, estimates, rtol=1e-10)


@pytest.mark.usefixtures("few_strengths")
def test_factors_of_very_unequal_shares_are_at_the_mode():
    # Two clicks on an item shown twice beside one shown 3,920 times: steps of Fisher scoring go in a circle.
    impressions = np.array([3920.0, 447, 2, 0, 0, 0])
    clicks = np.array([0.0, 0, 2, 0, 0, 0])
    z = np.log(impressions + 0.5)
    np.testing.assert_allclose(
        shrink_factors(clicks, impressions, z), maximize_posterior(clicks, impressions, z)[0], rtol=1e-4
    )


def test_items_that_a_learning_policy_rarely_shows_are_expected_to_be_clicked_less():
    # Twenty items whose click rates are as the root of their shares; two more were hardly shown.
    share = np.exp(np.linspace(-3, 3, 20))
    impressions = np.append(50_000 * share / share.sum(), [1.0, 1.0])
    rate = 0.01 * np.sqrt(impressions / impressions.mean())
    clicks = np.append(np.round((impressions * rate)[:-2]), [0, 0])
    rates = estimate_click_rates(impressions[:, None], clicks[:, None])[:, 0]
    overall = clicks.sum() / impressions.sum()
    assert rates[-1] == rates[-2] < 0.2 * overall
    np.testing.assert_allclose(rates[-1], rate[-1], rtol=0.4)
    # Shares that say nothing of the rates leave them at that of the place.
    equal_rates = estimate_click_rates(impressions[:, None], impressions[:, None] * 0.01)[:, 0]
    np.testing.assert_allclose(equal_rates, 0.01, rtol=0.01)


def test_cells_that_differ_by_chance_alone_have_the_rate_of_the_position():
    impressions = np.full((30, 2), 1000.0)
    clicks = np.tile([[5.0, 20.0]], (30, 1))
    np.testing.assert_allclose(estimate_click_rates(impressions, clicks), clicks / impressions, rtol=1e-6)
    assert (estimate_click_rates(impressions, np.zeros((30, 2))) == 0).all()
    # One item alone has the rates of its places, also after one impression; nothing was shown at the last.
    rates = estimate_click_rates(np.array([[1.0, 10.0, 0.0]]), np.array([[1.0, 1.0, 0.0]]))
    np.testing.assert_allclose(rates, [[1.0, 0.1, 0.0]], rtol=1e-3)


def test_a_click_rate_is_the_rate_of_the_position_times_item_and_cell_factors():
    impressions = np.array([[900.0, 40.0], [30.0, 300.0], [8.0, 1.0], [200.0, 0.0]])
    clicks = np.array([[80.0, 2.0], [1.0, 9.0], [0.0, 1.0], [30.0, 0.0]])
    level = clicks.sum(axis=0) / impressions.sum(axis=0)
    # The log of the geometric mean of an item's shares of both places, half an impression added to each.
    log_share = [
        sum(np.log((row[p] + 0.5) / (impressions[:, p].sum() + 2)) for p in (0, 1)) / 2 for row in impressions
    ]
    item_factors = shrink_factors(clicks.sum(axis=1), impressions @ level, log_share - np.mean(log_share))
    rate = np.outer(item_factors, level)
    expected = rate * shrink_factors(clicks, impressions * rate, np.zeros((4, 2)))
    np.testing.assert_allclose(estimate_click_rates(impressions, clicks), expected, rtol=1e-12)


def test_strengths_go_from_a_tenth_of_a_click_to_ten_thousand():
    assert (STRENGTHS[[0, 10, 50]].tolist(), STRENGTHS.size) == ([0.1, 1.0, 1e4], 51)


def test_shrunk_click_rates_come_from_the_users_of_the_remaining_folds():
    # Items 0, 0, 1, 1 at places 0, 0, 0, 1; the last user is the other fold.
    log = ipseval.ImpressionLog(
        np.arange(4), np.array([0, 0, 1, 1]), np.arange(4), np.arange(3), np.array([1, 0, 0, 1], dtype=bool)
    )
    where = np.array([0, 0, 0, 1]), 2, np.array([0, 0, 0, 1]), 2
    rates = cross_fit_click_rates(log, *where, 2.0)
    # Of the first three users place 0 has 1 click of 3: (1 + 2/3)/(2 + 2), (0 + 2/3)/(1 + 2), (2/3)/2.
    np.testing.assert_allclose(rates[1], [[5 / 12, 0], [2 / 9, 0], [1 / 3, 0]])
    np.testing.assert_allclose(rates[0], [[0, 1]] * 3)
    # Without shrinkage what was shown once has its own rate, and what was not that of the place.
    np.testing.assert_allclose(cross_fit_click_rates(log, *where, 0.0)[1], [[1 / 2, 0], [0, 0], [1 / 3, 0]])


def test_open_bandit_from_loading_to_intervals(shared_data):
    study = load_open_bandit(shared_data("open-bandit"), campaign="women")
    n_items = study.random.n_items
    uniform = np.full((n_items, 3), 1 / n_items)
    evaluation = evaluate_policies(study.bts, {"random": uniform}, estimators=["snips", "dr"], rng=0)
    assert evaluation.overlap["ess"][0] < 10_000
    observed = study.random.clicked.mean()
    assert (evaluation.frame["ci_low"] < observed).all()
    assert (observed < evaluation.frame["ci_high"]).all()


def test_dr_is_that_of_obp_with_the_same_reward_model_on_open_bandit(shared_data):
    # Of one log all places and the last one, of the other the second.
    for log, target_log, target, places in list(iterate_open_bandit(shared_data("open-bandit"), "men"))[::3]:
        policy = open_bandit.policy_of(target_log, target, places)
        assert open_bandit.same_model(log, policy, places) < 1e-12


@pytest.mark.slow
def test_relative_errors_on_open_bandit_are_not_above_those_of_obp(shared_data):
    all_errors = []
    for log, target_log, target, places in iterate_open_bandit(shared_data("open-bandit"), "men", "women"):
        rate = target_log.clicked.mean()
        for whose, evaluation in zip(
            ("ours", "obp"), open_bandit.estimates(log, target_log, target, places), strict=True
        ):
            error = (evaluation[list(open_bandit.LABELS)] / rate - 1).abs().mean()
            all_errors.append({"target": target, "whose": whose, **error})
    errors = pd.DataFrame(all_errors).groupby(["whose", "target"]).mean()
    assert (errors.loc["ours"] <= errors.loc["obp"] + 1e-12).all(axis=None)


def draw_shown_pairs(n_users: int = 12, n_items: int = 9) -> ShownData:
    rng = np.random.default_rng(3)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.4)
    train = ipseval.Interactions.from_frame(
        pd.DataFrame({"user": user, "item": item}), users=range(n_users), items=range(n_items)
    )
    key = np.sort(rng.choice(n_users * n_items, 60, replace=False))
    clicked = (rng.random(60) < 0.3).astype(float)
    return ShownData(key // n_items, key % n_items, clicked, rng.uniform(0.3, 1.0, 60), train)


def test_small_matrices_keep_one_factor():
    # Every user has every item: the matrix of ones has rank one, and one factor gives it back.
    pairs = pd.DataFrame({"user": np.repeat([0, 1, 2], 3), "item": np.tile([0, 1, 2], 3)})
    user, item = _compute_truncated_svd(ipseval.Interactions.from_frame(pairs), 1)
    assert user.shape == item.shape == (3, 1)
    np.testing.assert_allclose(user @ item.T, np.ones((3, 3)), atol=1e-12)
    # One factor fewer than items at most.
    small_log = ipseval.Interactions.from_frame(pairs[pairs["item"] < 2])
    assert [factors.shape for factors in _compute_truncated_svd(small_log, 9)] == [(3, 1), (2, 1)]
    small_log = ipseval.Interactions.from_frame(pairs[pairs["user"] < 2])
    assert [factors.shape for factors in _compute_truncated_svd(small_log, 9)] == [(2, 1), (3, 1)]


@pytest.mark.parametrize("shrinkage", [3.0, 0.0])
def test_a_factor_reward_is_the_ridge_regression_of_its_terms(shrinkage):
    # Terms of a pair: the item's mean, p_k q_k, and their sum times the mean; standardised by examinations.
    data = draw_shown_pairs()
    ridge = 2.0
    model = FactorReward(n_factors=2, ridge=ridge, shrinkage=shrinkage)
    reward = model.fit(data)
    p, q = data.factors(2)
    clicks = np.bincount(data.item, data.clicked, minlength=9)
    examinations = np.bincount(data.item, data.examination, minlength=9)
    mean = (clicks + shrinkage * clicks.sum() / examinations.sum()) / (examinations + shrinkage)

    def terms(user: int, item: int) -> np.ndarray:
        product = p[user] * q[item]
        return np.array([mean[item], *product, product.sum() * mean[item]])

    rows = np.array([terms(u, i) for u, i in zip(data.user, data.item, strict=True)])
    weight = data.examination
    target = data.clicked / data.examination
    centre = np.average(rows, axis=0, weights=weight)
    scale = np.sqrt(np.average((rows - centre) ** 2, axis=0, weights=weight))
    level = np.average(target, weights=weight)

    def loss(beta: np.ndarray) -> float:
        residual = target - level - (rows - centre) / scale @ beta
        return float(weight @ residual**2 + ridge * beta @ beta)

    beta = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).x
    every = [(u, i) for u in range(12) for i in range(9)]
    expected = [level + (terms(u, i) - centre) / scale @ beta for u, i in every]
    user, item = np.array(every).T
    np.testing.assert_allclose(reward.predict(user, item), expected, atol=1e-6)


def interval(events, possible, level=0.95):
    further = float(possible.mean()), float((possible**2).mean())
    return count_interval(float(events.sum()), float((events**2).sum()), *further, confidence_level=level)


@pytest.mark.parametrize("count", [0, 1, 4, 30])
@pytest.mark.parametrize("weight", [1.0, 0.02])
def test_equal_weights_give_the_exact_poisson_interval(count, weight):
    low, high = interval(np.full(count, weight), np.full(500, weight), 0.9)
    exact_low = 0.0 if count == 0 else chi2.ppf(0.05, 2 * count) / 2
    assert low == pytest.approx(weight * exact_low, rel=1e-10)
    assert high == pytest.approx(weight * chi2.ppf(0.95, 2 * count + 2) / 2, rel=1e-10)


def test_intervals_have_at_least_nominal_coverage_for_moderate_weights():
    rng = np.random.default_rng(0)
    weights = rng.gamma(2.0, 1.0, 400)
    rate = 0.01
    n_runs = 1500
    truth = rate * weights.sum()
    n_hits = 0
    for _ in range(n_runs):
        low, high = interval(weights[rng.random(400) < rate], weights)
        n_hits += low <= truth <= high
    assert n_hits / n_runs > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_runs)


def test_the_difference_of_two_rates_is_wider_than_either_and_contains_the_gap():
    # √(2² + 3²) below, √(4² + 1²) above a gap of 5.
    low, high = difference_interval((10.0, 8.0, 14.0), (5.0, 4.0, 8.0))
    assert (low, high) == (pytest.approx(5 - np.sqrt(13)), pytest.approx(5 + np.sqrt(17)))


def test_a_sum_that_does_not_vary_is_its_own_limit():
    assert count_interval(2.0, 0.0, 0.0, 0.0, confidence_level=0.9) == (2.0, 2.0)
    assert count_interval(0.0, 0.0, 0.0, 0.0, confidence_level=0.9) == (0.0, 0.0)


def test_a_reward_model_without_training_interactions_or_factors_has_none():
    no_codes = np.zeros(0, dtype=int)
    empty_log = ipseval.Interactions(no_codes, no_codes, np.arange(3), np.arange(4))
    one_item = ipseval.Interactions.from_frame(pd.DataFrame({"user": [0, 1], "item": [0, 0]}))
    for log in (empty_log, one_item):
        assert [factors.shape for factors in _compute_truncated_svd(log, 2)] == [
            (log.n_users, 0),
            (log.n_items, 0),
        ]
    empty = ShownData(no_codes, no_codes, np.zeros(0), np.zeros(0), empty_log)
    with pytest.raises(ipseval.InputError, match="a reward model needs shown pairs; there are none"):
        ItemReward().fit(empty)


def test_factors_belong_to_the_largest_singular_values():
    data = draw_shown_pairs()
    matrix = np.zeros((12, 9))
    matrix[data.train.user, data.train.item] = 1
    left_vectors, values, right = np.linalg.svd(matrix)
    p, q = data.factors(3)
    np.testing.assert_allclose(np.sort((p**2).sum(axis=0)), values[2::-1])  # both have the root of a value
    np.testing.assert_allclose(p @ q.T, (left_vectors[:, :3] * values[:3]) @ right[:3], atol=1e-9)
    assert data.select(data.user < 6).factors(3)[0] is p  # made once


def test_sums_of_a_factor_reward_over_all_items_equal_the_sums_of_predictions():
    reward = FactorReward(n_factors=3).fit(draw_shown_pairs())
    item = np.arange(9)
    for user in (0, 11):
        assert reward.total(np.array([user])) == pytest.approx(reward.predict(np.full(9, user), item).sum())
    pairs = np.arange(9000)  # more than are gathered at once
    rewards = reward.predict(pairs % 12, pairs % 9)
    np.testing.assert_allclose(rewards[-36:], rewards[:36])
