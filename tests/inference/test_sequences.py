"""Confidence sequences hold at every number of users at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.inference import confidence_sequence


def by_loop(values: list[float], alpha: float) -> list[tuple[float, float]]:
    """Predictable plug-in empirical Bernstein, one value at a time (theorem 2 of the paper)."""
    out, low, high = [], 0.0, 1.0
    mean, variance, total, total_x, penalty = 0.5, 0.25, 0.0, 0.0, 0.0
    sum_x, sum_square = 0.5, 0.25
    for t, x in enumerate(values, start=1):
        bet = min(0.5, math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(1 + t))))
        v = 4 * (x - mean) ** 2
        penalty += v * (-math.log(1 - bet) - bet) / 4
        total, total_x = total + bet, total_x + bet * x
        reach = (math.log(2 / alpha) + penalty) / total
        low, high = max(low, total_x / total - reach), min(high, total_x / total + reach)
        out.append((low, high))
        sum_x += x
        mean = sum_x / (t + 1)
        sum_square += (x - mean) ** 2
        variance = sum_square / (t + 1)
    return out


def test_it_equals_the_printed_formula_one_value_at_a_time():
    values = np.random.default_rng(0).beta(1, 3, size=300)
    expected = np.array(by_loop(values.tolist(), 0.1)).T
    np.testing.assert_allclose(confidence_sequence(values, confidence_level=0.9), expected, rtol=1e-10)


def test_bounds_scale_with_the_unit():
    values = np.random.default_rng(1).random(50)
    low, high = confidence_sequence(values)
    scaled = confidence_sequence(5 * values - 2, bounds=(-2, 3))
    np.testing.assert_allclose(scaled, (5 * low - 2, 5 * high - 2), atol=1e-12)


def test_it_narrows_to_the_mean():
    values = np.random.default_rng(2).random(20_000)
    low, high = confidence_sequence(values)
    assert low[-1] < values.mean() < high[-1]
    assert high[-1] - low[-1] < 0.03


def misses(n_runs: int, n: int, seed: int) -> tuple[float, float]:
    """Share of runs in which the truth is ever outside: the sequence's, and a normal interval's at each n."""
    rng = np.random.default_rng(seed)
    sequence = normal = 0
    for _ in range(n_runs):
        x = (rng.random(n) < 0.2).astype(float)
        low, high = confidence_sequence(x)
        sequence += bool(((low > 0.2) | (high < 0.2)).any())
        t = np.arange(1, n + 1)
        mean = np.cumsum(x) / t
        error = np.sqrt(np.maximum(mean * (1 - mean), 1e-12) / t)
        normal += bool((np.abs(mean - 0.2) > 1.96 * error)[100:].any())
    return sequence / n_runs, normal / n_runs


def test_the_truth_is_rarely_ever_outside():
    ours, normal = misses(200, 1000, seed=3)
    assert ours <= 0.05
    assert normal > 0.15


@pytest.mark.slow
def test_the_truth_is_outside_at_any_time_in_at_most_5_percent_of_2000_runs():
    # 4 sigma above 5 % would be 6.9 %; the sequence is conservative and stays below the level itself.
    ours, normal = misses(2000, 5000, seed=4)
    assert ours <= 0.05
    assert normal > 0.3


@pytest.mark.parametrize(
    ("values", "bounds", "words"),
    [
        ([0.5, 1.5, -1.0], (0, 1), "2 of 3 are not"),
        ([0.5, np.nan], (0, 1), "finite"),
        ([0.5], (1, 0), "lower below the upper"),
        ([0.5], (0, np.inf), "bounds must be finite"),
    ],
)
def test_bad_input_is_named(values, bounds, words):
    with pytest.raises(InputError, match=words):
        confidence_sequence(values, bounds=bounds)
