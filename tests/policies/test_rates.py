"""Intervals for weighted sums of rare events: exact cases, coverage, and the difference of two rates."""

import numpy as np
import pytest
from scipy.stats import chi2

from tests.inside.policies import count_interval, difference_interval


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


def test_intervals_cover_at_least_as_often_as_they_say_for_moderate_weights():
    rng = np.random.default_rng(0)
    weights = rng.gamma(2.0, 1.0, 400)
    rate, n_runs = 0.01, 4000
    truth = rate * weights.sum()
    covered = 0
    for _ in range(n_runs):
        low, high = interval(weights[rng.random(400) < rate], weights)
        covered += low <= truth <= high
    assert covered / n_runs > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_runs)


def test_the_difference_of_two_rates_is_wider_than_either_and_contains_the_gap():
    # √(2² + 3²) below, √(4² + 1²) above a gap of 5.
    low, high = difference_interval((10.0, 8.0, 14.0), (5.0, 4.0, 8.0))
    assert (low, high) == (pytest.approx(5 - np.sqrt(13)), pytest.approx(5 + np.sqrt(17)))
