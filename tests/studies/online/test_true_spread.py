"""The normal law of true differences under noise: its likelihood, its interval, its signs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import chi2, multivariate_normal

from tests.inside.studies import (
    NoisyDifferences,
    TrueSpread,
    _compute_deviance,
    _spread_bounds,
    _start_values,
    compute_reliability,
    naive_pearson,
)


def test_the_deviance_is_the_restricted_likelihood_of_the_normal_model():
    rng = np.random.default_rng(3)
    data = NoisyDifferences(rng.normal(size=7), rng.normal(size=7), rng.random(7), rng.random(7))
    sigma = np.array([[1.3**2, 0.4 * 1.3 * 0.6], [0.4 * 1.3 * 0.6, 0.6**2]])
    covariances = [sigma + np.diag([a, b]) for a, b in zip(data.var_x, data.var_y, strict=True)]
    points = np.stack([data.x, data.y], axis=1)
    information = sum(np.linalg.inv(covariance) for covariance in covariances)
    mean = np.linalg.solve(
        information, sum(np.linalg.solve(v, z) for v, z in zip(covariances, points, strict=True))
    )
    plain = sum(
        multivariate_normal(mean, v).logpdf(z) for v, z in zip(covariances, points, strict=True)
    ) + 7 * np.log(2 * np.pi)
    expected = -2 * plain + np.log(np.linalg.det(information))
    deviance, centre = _compute_deviance(data, np.log(1.3), np.log(0.6), 0.4)
    assert deviance == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(centre, mean, rtol=1e-12)


def test_without_noise_the_correlation_is_pearsons():
    x = np.array([1.0, 2, 4, 3, 6, 5, 8, 7, 9])
    y = np.array([2.0, 1, 3, 5, 4, 6, 9, 7, 8])
    data = NoisyDifferences(x, y, np.zeros(9), np.zeros(9))
    expected = np.corrcoef(x, y)[0, 1]
    assert naive_pearson(data) == pytest.approx(expected)
    assert TrueSpread.fit(data).rho == pytest.approx(expected, abs=1e-4)


def test_a_fit_begins_at_the_moments_and_stays_near_them():
    # Variances 1 and 4, noises of mean variance .25 and 3.9: 1 − .25 is left, and a tenth of 4 at least.
    x, y = np.array([1.0, 1, -1, -1, 1, 1, -1, -1]), np.array([2.0, 2, -2, -2, 2, -2, 2, -2])
    data = NoisyDifferences(x, y, np.linspace(0, 0.5, 8), np.full(8, 3.9))
    assert naive_pearson(data) == 0.5
    expected = [np.log(0.75) / 2, np.log(0.4) / 2, np.arctanh(0.6)]
    np.testing.assert_allclose(_start_values(data), expected, rtol=1e-12)
    for sign in (1, -1):  # 1.2 times a correlation of ±1 is more than .95
        assert _start_values(NoisyDifferences(x, sign * x, np.zeros(8), np.zeros(8)))[2] == pytest.approx(
            sign * np.arctanh(0.95)
        )
    ends = [(log - 7, log + 2) for log in (0.0, np.log(2))]
    np.testing.assert_allclose(_spread_bounds(data), ends, rtol=1e-12)


def test_fit_has_the_least_deviance_and_reports_its_parameters():
    rng = np.random.default_rng(11)
    x, y = rng.multivariate_normal([0.5, 1], [[1, 0.6], [0.6, 1]], 25).T
    data = NoisyDifferences(x, 3 * y, rng.random(25) / 4, rng.random(25))
    fit = TrueSpread.fit(data)
    optimum = np.array([*np.log(fit.spread), np.arctanh(fit.rho)])
    least, mean = _compute_deviance(data, *optimum[:2], fit.rho)
    assert fit.deviance == pytest.approx(least, rel=1e-12)
    np.testing.assert_allclose(fit.mean, mean, rtol=1e-12)
    for move in (*np.eye(3), *-np.eye(3)):
        moved = optimum + 0.01 * move
        assert _compute_deviance(data, *moved[:2], np.tanh(moved[2]))[0] > least
    np.testing.assert_allclose(fit.sigma, np.outer(fit.spread, fit.spread) * [[1, fit.rho], [fit.rho, 1]])
    covariances = [fit.sigma + np.diag(noises) for noises in zip(data.var_x, data.var_y, strict=True)]
    residuals = np.stack([data.x, data.y], axis=1) - mean
    squared = [r @ np.linalg.solve(v, r) for r, v in zip(residuals, covariances, strict=True)]
    assert fit.kurtosis == pytest.approx(np.mean(np.square(squared)) / 8, rel=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_correlation_is_found_at_the_limit_and_bounded_on_one_side(sign):
    x = np.array([1.0, 2, 4, 3, 6, 5, 8, 7, 9])
    data = NoisyDifferences(x, sign * x, np.full(9, 0.01), np.full(9, 0.01))
    fit = TrueSpread.fit(data)
    assert fit.rho == pytest.approx(sign * np.tanh(4.0), abs=1e-9)
    low, high = sorted(sign * end for end in fit.interval(0.95))
    assert 0.5 < low < high == 1.0


def test_equal_differences_have_zero_correlation_and_no_true_variance():
    ones, x = np.ones(4), np.arange(4.0)
    assert (
        naive_pearson(NoisyDifferences(x, ones, ones, ones))
        == naive_pearson(NoisyDifferences(ones, x, ones, ones))
        == 0.0
    )
    assert compute_reliability(2.0, np.array([1.0, 3.0])) == pytest.approx(4 / 6)
    assert np.isnan(compute_reliability(0.0, np.zeros(2)))


def test_heavy_tails_widen_the_interval_by_the_kurtosis_of_the_residuals():
    # Squared residuals d² = 8, 0, 0, 0: mean d⁴/8 = (64/4)/8 = 2.
    x = np.array([2.0, 0, 0, 0])
    mean = np.array([3.0, -5.0])
    data = NoisyDifferences(*(x + mean[:, None]), np.zeros(4), np.zeros(4))
    fit = TrueSpread(data, np.ones(2), 0.0, mean, 0.0)
    assert fit.kurtosis == pytest.approx(2.0)


@pytest.mark.parametrize(("seed", "far"), [(3, 1), (53, 1), (3, 9)])
def test_an_interval_ends_where_the_deviance_is_at_its_limit(seed, far):
    x, y = np.random.default_rng(seed).normal(size=(2, 8))
    x[0] *= far  # heavy tails
    fit = TrueSpread.fit(NoisyDifferences(x, 0.8 * x + 0.8 * y, np.full(8, 0.2), np.full(8, 0.3)))
    limit = chi2.ppf(0.95, 1) * max(1.0, fit.kurtosis)
    assert (fit.kurtosis > 1) == (far > 1)
    low, high = fit.interval(0.95)
    assert low < fit.rho <= high
    for end in (low, high):
        excess = fit._excess_deviance(np.arctanh(np.clip(end, -np.tanh(4), np.tanh(4))), limit)
        assert excess <= 0 if abs(end) == 1 else abs(excess) < 1e-3


@pytest.mark.parametrize("rho", [-0.999, 0.0, 0.3, 0.999])
@pytest.mark.parametrize("mean", [(0.3, -0.2), (-2.0, 0.7), (4.0, 4.0), (0.0, 0.0)])
def test_probability_of_equal_signs_is_an_integral_over_one_difference(rho, mean):
    # P(ξ > 0, η > 0) = ∫ φ(u) Φ((k + ρu)/√(1 − ρ²)) du over u > −h, and the same with both signs turned.
    def both_up(h: float, k: float) -> float:
        turn = float(np.clip(-k / rho, -h, 40.0)) if rho else 0.0  # there the integrand is steepest
        law = lambda u: np.exp(-u * u / 2) / np.sqrt(2 * np.pi) * ndtr((k + rho * u) / np.sqrt(1 - rho**2))  # noqa: E731
        return sum(quad(law, *ends, epsabs=1e-13, limit=200)[0] for ends in ((-h, turn), (turn, 40.0)))

    spread = np.array([2.0, 0.5])
    fit = TrueSpread(NoisyDifferences(*(np.zeros(2),) * 4), spread, rho, np.array(mean) * spread, 0.0)
    assert fit.probability_of_same_sign() == pytest.approx(
        both_up(*mean) + both_up(-mean[0], -mean[1]), abs=1e-10
    )
    without = TrueSpread(fit.data, np.array([1e-13, 1.0]), rho, np.array([1.0, mean[1]]), 0.0)
    assert without.probability_of_same_sign() == pytest.approx(
        ndtr(mean[1]), abs=1e-12
    )  # of one sign for sure
    assert (
        fit.probability_of_same_sign() == fit.probability_of_same_sign()
    )  # SciPy 1.16 draws random numbers for this chance


@pytest.mark.slow
def test_the_true_correlation_is_covered_and_the_naive_one_is_too_low():
    """600 programmes of 20–200 tests, ρ uniform in (0, .9), reliabilities .45–.75, unequal noise."""
    rng = np.random.default_rng(2024)
    covered, naive_covered, bias, naive_bias = 0, 0, [], []
    for _ in range(600):
        n = int(np.exp(rng.uniform(np.log(20), np.log(200))))
        rho, noise = rng.uniform(0, 0.9), rng.uniform(0.5, 0.9, 2)
        true = rng.multivariate_normal([0.2, 0.1], [[1, rho], [rho, 1]], n)
        errors = noise * np.exp(0.4 * rng.normal(size=(n, 2)))
        x, y = (true + errors * rng.normal(size=(n, 2))).T
        data = NoisyDifferences(x, y, errors[:, 0] ** 2, errors[:, 1] ** 2)
        fit = TrueSpread.fit(data)
        low, high = fit.interval(0.95)
        covered += low <= rho <= high
        bias.append(fit.rho - rho)
        naive = naive_pearson(data)
        naive_covered += abs(np.arctanh(naive) - np.arctanh(rho)) < 1.96 / np.sqrt(n - 3)
        naive_bias.append(naive - rho)
    assert 0.93 <= covered / 600 <= 0.97
    assert naive_covered / 600 < 0.8
    assert abs(np.mean(bias)) < 4 * np.std(bias) / np.sqrt(600)
    assert np.mean(naive_bias) < -0.1


def test_reliability_is_the_share_of_true_variance_on_each_side():
    # True differences have variances 1 offline and 9 online, noise has variance 1 on both: 1/2 and 9/10.
    n, rng = 3_000, np.random.default_rng(8)
    true = rng.multivariate_normal([0, 0], [[1, 1.5], [1.5, 9]], n)
    measured = true + rng.normal(size=(n, 2))
    fit = TrueSpread.fit(NoisyDifferences(*measured.T, np.ones(n), np.ones(n)))
    reliabilities = [compute_reliability(float(spread), np.ones(n)) for spread in fit.spread]
    assert reliabilities[0] == pytest.approx(0.5, abs=0.04)  # 4 sigma of a variance from 3,000
    assert reliabilities[1] == pytest.approx(0.9, abs=0.02)
