"""Contrasts drawn to AOA's: kriging by the joint normal distribution, its limits, and its honesty."""

from __future__ import annotations

import numpy as np
import pytest

from tests.inside.correction import TINY, steadied
from tests.inside.correction import _shrunk_contrasts as _steady

N = 6
X = np.array([0.1, 0.2, 0.35, 0.4, 0.5, 0.55])
METRIC = np.zeros(N, int)


def correlated(rng: np.random.Generator, size: float = 1.0) -> np.ndarray:
    root = rng.standard_normal((N, N)) + 1.5
    made = root @ root.T
    return size * made / np.diag(made).mean()


def one_step(y, noise, spread, chosen=True):
    """Return ŷ and its covariance at one α, where θ(0) = X has no noise."""
    none = np.zeros((N, N))
    value, covariance = steadied(
        np.array([X, y]),
        np.array([none, noise]),
        np.array([none, none]),
        spread,
        METRIC,
        np.full(N, chosen),
        1,
    )
    np.testing.assert_array_equal(value[0], X)
    return value[1], covariance[1]


@pytest.mark.parametrize("rest", [0.0, 0.05, 0.4])
def test_it_is_the_conditional_mean_of_a_joint_normal_distribution(monkeypatch, rest):
    monkeypatch.setattr(_steady, "RESTS", np.array([rest]))
    rng = np.random.default_rng(0)
    spread, noise = correlated(rng), correlated(rng, 1e-3)
    y = 0.05 + 0.4 * X + 0.03 * rng.standard_normal(N)
    unit = np.abs(X - y).mean() / np.sqrt(np.diag(spread).mean())
    line = np.column_stack([np.ones(N), X])
    # a and b are normal with a huge variance; what is looked for is a + b x + e, seen with noise.
    signal = 1e5 * line @ line.T + (rest * unit) ** 2 * spread
    seen = signal + noise + TINY * np.eye(N)
    found, covariance = one_step(y, noise, spread)
    np.testing.assert_allclose(found, signal @ np.linalg.solve(seen, y), atol=1e-6)
    # Mean squared error of a linear estimate G y of it: G noise G' + (I − G) rest (I − G)'.
    gain = np.linalg.solve(seen, signal).T
    lost = np.eye(N) - gain
    error = gain @ noise @ gain.T + (rest * unit) ** 2 * lost @ spread @ lost.T
    np.testing.assert_allclose(covariance, error, atol=1e-7)


def test_without_noise_nothing_moves_and_with_much_of_it_a_line_is_left():
    rng = np.random.default_rng(1)
    spread = correlated(rng)
    y = 0.4 * X + 0.05 * rng.standard_normal(N)
    np.testing.assert_allclose(one_step(y, 1e-12 * np.eye(N), spread)[0], y, atol=1e-4)
    # Noise alike for all, and far larger than what the line leaves over: the line of least squares.
    found = one_step(y, 0.2 * np.eye(N), 1e-9 * np.eye(N) + spread)[0]
    np.testing.assert_allclose(found, np.polyval(np.polyfit(X, y, 1), X), atol=0.012)
    np.testing.assert_allclose(one_step(y, np.eye(N), spread, chosen=False)[0], y, rtol=1e-12)


def test_two_recommenders_stay_as_they_are():
    value = np.array([[0.2, 0.5], [0.15, 0.3]])
    covariance, both = np.array([0.01 * np.eye(2)] * 2), np.zeros((2, 2, 2))
    found = steadied(value, covariance, both, np.eye(2), np.zeros(2, int), np.ones(2, bool), 1)
    np.testing.assert_allclose(found[0], value, rtol=1e-12)
    np.testing.assert_allclose(found[1], covariance, atol=1e-15)


def test_errors_are_as_large_as_stated_and_smaller_than_those_of_the_path():
    rng = np.random.default_rng(2)
    spread, noise = correlated(rng), 4e-4 * np.eye(N)
    root = np.linalg.cholesky(spread)
    errors, before, stated = [], [], []
    for _ in range(400):
        truth = 0.4 * X + 0.02 * root @ rng.standard_normal(N)
        y = truth + 0.02 * rng.standard_normal(N)
        found, covariance = one_step(y, noise, spread)
        errors.append(((found - truth) ** 2).mean())
        before.append(((y - truth) ** 2).mean())
        stated.append(np.diag(covariance).mean())
    assert np.mean(errors) < 0.9 * np.mean(before)
    assert np.mean(stated) == pytest.approx(np.mean(errors), rel=0.15)


def test_the_noise_of_both_ends_is_carried():
    """θ(α) and θ(0) move together: what they share is no noise of the rest, but remains in the result."""
    rng = np.random.default_rng(3)
    shared = correlated(rng, 1e-3)
    value = np.array([X, 0.5 * X + 0.02 * rng.standard_normal(N)])
    # y = x/2 exactly in noise: with b = .5 the rest has none, and nothing is drawn.
    b = value[1] @ (X - X.mean()) / ((X - X.mean()) ** 2).sum()
    covariance = np.array([shared, b**2 * shared])
    cross = np.array([shared, b * shared])
    found = steadied(value, covariance, cross, correlated(rng), METRIC, np.ones(N, bool), 1)
    np.testing.assert_allclose(found[0][1], value[1], atol=2e-3)
    np.testing.assert_allclose(found[1][1], covariance[1], atol=2e-5)
