"""The exponent of the popularity distribution, against the powerlaw package and direct sums."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import zeta

from ipseval.propensity import fit_popularity_exponent


def draw_zipf(seed: int, exponent: float, size: int = 2000) -> np.ndarray:
    return np.random.default_rng(seed).zipf(exponent, size)


@pytest.mark.parametrize(("seed", "exponent"), [(0, 2.3), (1, 1.8)])
def test_agrees_with_the_powerlaw_package(seed, exponent):
    powerlaw = pytest.importorskip("powerlaw")
    counts = np.minimum(draw_zipf(seed, exponent, 300), 10**6)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs = powerlaw.Fit(counts, discrete=True, estimate_discrete=False, verbose=False).power_law
        alpha = theirs.alpha
        xmin = int(theirs.xmin)
        distance = theirs.D
    ours = fit_popularity_exponent(counts, xmin=xmin)
    assert ours.exponent == pytest.approx(alpha, abs=1e-3)
    # Both choose xmin by the same distance; theirs reads the empirical function before each step only.
    free = fit_popularity_exponent(counts)
    assert free.ks_distance <= ours.ks_distance
    assert free.ks_distance == pytest.approx(distance, abs=2e-3)


def test_exponent_solves_the_likelihood_equation_summed_term_by_term():
    counts = np.array([3, 3, 4, 5, 7, 12, 2, 1])
    tail = counts[counts >= 3]
    terms = np.arange(3, 50_000, dtype=float)

    def score(alpha: float) -> float:  # mean log n* minus its expectation under the fitted tail
        weight = terms**-alpha
        return np.log(tail).mean() - (weight * np.log(terms)).sum() / weight.sum()

    expected = brentq(score, 1.8, 6)
    exponent_fit = fit_popularity_exponent(counts, xmin=3)
    assert exponent_fit.exponent == pytest.approx(expected, abs=1e-4)
    assert (exponent_fit.n_tail, exponent_fit.n_items, exponent_fit.xmin) == (6, 8, 3)
    # The information of a count is the variance of log n* under the fitted tail.
    weight = terms**-exponent_fit.exponent / (terms**-exponent_fit.exponent).sum()
    spread = weight @ np.log(terms) ** 2 - (weight @ np.log(terms)) ** 2
    assert exponent_fit.standard_error == pytest.approx(1 / np.sqrt(6 * spread), rel=1e-3)


def test_standard_error_is_the_spread_of_repeated_fits():
    fits = [fit_popularity_exponent(draw_zipf(seed, 2.5, 300), xmin=1) for seed in range(60)]
    spread = np.std([fit.exponent for fit in fits], ddof=1)
    # The standard deviation of 60 values is known to 1/sqrt(118) = 9 %; four times that.
    assert np.mean([fit.standard_error for fit in fits]) == pytest.approx(spread, rel=0.36)


def test_distance_is_the_largest_gap_at_any_whole_number():
    counts = np.array([1] * 6 + [2] * 2 + [6])
    exponent_fit = fit_popularity_exponent(counts, xmin=1)
    levels = np.arange(1, 7, dtype=float)
    cdf = np.cumsum(levels**-exponent_fit.exponent) / np.sum(np.arange(1.0, 1e6) ** -exponent_fit.exponent)
    empirical = np.array([6, 8, 8, 8, 8, 9]) / 9
    assert exponent_fit.ks_distance == pytest.approx(np.abs(cdf - empirical).max(), abs=1e-4)
    # Nothing at 2, where the tail is said to begin: the fitted function is alone there.
    exponent_fit = fit_popularity_exponent([3, 3, 3, 4, 9], xmin=2)
    levels = np.arange(2, 10, dtype=float)
    cdf = np.cumsum(levels**-exponent_fit.exponent) / zeta(exponent_fit.exponent, 2)
    empirical = np.array([0, 3, 4, 4, 4, 4, 4, 5]) / 5
    assert exponent_fit.ks_distance == pytest.approx(np.abs(cdf - empirical).max())


def test_xmin_is_fitted_at_the_start_of_the_tail():
    # Uniform up to 9, a power law from 10 on.
    rng = np.random.default_rng(3)
    head = rng.integers(1, 10, 3000)
    tail = np.floor(9.5 * (1 - rng.random(6000)) ** (-1 / 1.5) + 0.5)
    exponent_fit = fit_popularity_exponent(np.concatenate([head, tail]))
    assert 8 <= exponent_fit.xmin <= 16
    assert exponent_fit.exponent == pytest.approx(2.5, abs=4 * exponent_fit.standard_error + 0.02)
    small_fit = fit_popularity_exponent([4, 4, 5, 7, 7, 8])  # two values are left
    distances = [fit_popularity_exponent([4, 4, 5, 7, 7, 8], xmin=start).ks_distance for start in (4, 5, 7)]
    assert (small_fit.xmin, small_fit.ks_distance) == (7, min(distances))


def test_levels_have_observed_and_expected_numbers_of_items():
    fit = fit_popularity_exponent([0, 1, 1, 2, 3], xmin=2)
    frame = fit.levels([1, 1, 2, 3, 0])
    assert frame["popularity"].tolist() == [1, 2, 3]
    assert frame["n_items"].tolist() == [2, 1, 1]
    assert (fit.n_items, fit.n_tail) == (4, 2)
    assert frame["n_at_least"].tolist() == [4, 2, 1]
    assert np.isnan(frame["fitted"][0])
    # Two items from xmin = 2 on; of those at least 3, all but the share at 2: 2^−α/ζ(α, 2).
    share = 2**-fit.exponent / zeta(fit.exponent, 2)
    assert frame["fitted"][1:].tolist() == pytest.approx([2, 2 * (1 - share)])
