"""Reward models and shrunk click rates against slow definitions: a ridge by loops, a mode by optimisation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln

import ipseval
from ipseval.policies.rewards import FactorReward
from tests.inside.policies import STRENGTHS, ShownData, _truncated_svd, shrunk_factors


def shown(n_users: int = 12, n_items: int = 9) -> ShownData:
    rng = np.random.default_rng(3)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.4)
    train = ipseval.Interactions.from_frame(
        pd.DataFrame({"user": user, "item": item}), users=range(n_users), items=range(n_items)
    )
    key = np.sort(rng.choice(n_users * n_items, 60, replace=False))
    clicked = (rng.random(60) < 0.3).astype(float)
    return ShownData(key // n_items, key % n_items, clicked, rng.uniform(0.3, 1.0, 60), train)


def test_one_factor_is_kept():
    # Every user has every item: the matrix of ones has rank one, and one factor gives it back.
    pairs = pd.DataFrame({"user": np.repeat([0, 1, 2], 3), "item": np.tile([0, 1, 2], 3)})
    user, item = _truncated_svd(ipseval.Interactions.from_frame(pairs), 1)
    assert user.shape == item.shape == (3, 1)
    np.testing.assert_allclose(user @ item.T, np.ones((3, 3)), atol=1e-12)


def test_a_factor_reward_is_the_ridge_regression_of_its_terms():
    # Terms of a pair: the item's mean, p_k q_k, and their sum times the mean; standardised by examinations.
    data, ridge = shown(), 2.0
    model = FactorReward(n_factors=2, ridge=ridge, shrinkage=3.0)
    reward = model.fit(data)
    p, q = data.factors(2)
    clicks = np.bincount(data.item, data.clicked, minlength=9)
    examined = np.bincount(data.item, data.examined, minlength=9)
    mean = (clicks + 3.0 * clicks.sum() / examined.sum()) / (examined + 3.0)

    def terms(user: int, item: int) -> np.ndarray:
        product = p[user] * q[item]
        return np.array([mean[item], *product, product.sum() * mean[item]])

    rows = np.array([terms(u, i) for u, i in zip(data.user, data.item, strict=True)])
    weight, target = data.examined, data.clicked / data.examined
    centre = np.average(rows, axis=0, weights=weight)
    scale = np.sqrt(np.average((rows - centre) ** 2, axis=0, weights=weight))
    level = np.average(target, weights=weight)

    def loss(beta: np.ndarray) -> float:
        rest = target - level - (rows - centre) / scale @ beta
        return float(weight @ rest**2 + ridge * beta @ beta)

    beta = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).x
    every = [(u, i) for u in range(12) for i in range(9)]
    expected = [level + (terms(u, i) - centre) / scale @ beta for u, i in every]
    user, item = np.array(every).T
    np.testing.assert_allclose(reward.predict(user, item), expected, atol=1e-6)


def test_shrunk_factors_have_the_slope_of_the_mode():
    # Of each strength a: m solves its score equation, β the mode with β ~ N(0, 1/4); the best a of the grid.
    expected = np.array([2.0, 5.0, 9.0, 20.0, 40.0, 80.0])
    clicks = np.array([0.0, 3.0, 5.0, 19.0, 55.0, 120.0])
    z = np.log(expected) - np.log(expected).mean()

    def at(log_m: float, slope: float, a: float) -> tuple[np.ndarray, np.ndarray]:
        mu = expected * np.exp(log_m + slope * z)
        return mu, a / (a + mu) * (clicks - mu)

    def of_strength(a: float) -> tuple[float, float, float]:
        def score(point: np.ndarray) -> float:
            _, rest = at(*point, a)
            return float(rest.sum() ** 2 + ((rest * z).sum() - point[1] / 0.25) ** 2)

        options = {"xatol": 1e-10, "fatol": 1e-18, "maxiter": 9_000, "maxfev": 9_000}
        found = minimize(score, np.array([0.0, 0.3]), method="Nelder-Mead", options=options)
        mu, _ = at(*found.x, a)
        likelihood = gammaln(clicks + a) - gammaln(a) - a * np.log1p(mu / a) + clicks * np.log(mu / (a + mu))
        return float(likelihood.sum() - found.x[1] ** 2 / 0.25 / 2), *found.x

    tried = [(*of_strength(a), a) for a in STRENGTHS[::10]]
    found = shrunk_factors(clicks, expected, z)
    best = max((*of_strength(a), a) for a in STRENGTHS)
    assert best[0] >= max(tried)[0]
    mu = np.exp(best[1] + best[2] * z)
    np.testing.assert_allclose(found, mu * (clicks + best[3]) / (expected * mu + best[3]), rtol=1e-4)
    assert 0.05 < best[2] < 1  # the prior holds the slope back, and it is not 0


def test_a_level_of_confidence_that_is_none_is_refused_by_a_path():
    from ipseval.inference.correction import correct_path, correction_path
    from ipseval.validation.simulation import World

    world = World(n_users=60, n_items=30, mean_relevant=6, rng=0)
    split = world.split(rng=1)
    ranks = {"m": ipseval.rank_positives(ipseval.baselines.popularity(split.train), split)}
    path = correction_path(ranks, split, metrics=["recall@5"], rng=2)
    with pytest.raises(ipseval.InputError, match="confidence_level"):
        correct_path(path, confidence_level=95)
