"""Bounds of a paired difference: exact cases, draws, few users, and the power that is stated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit

from ipseval.estimators import Claim, Estimate, UserSums
from tests.inside.estimators import Moments
from tests.inside.testing import Difference, _chance

LEVEL = 0.05 / 26


def difference(each, largest: float = 1.0) -> Difference:
    each = np.asarray(each, dtype=float)
    return Difference(each.mean(), each.std(ddof=1) / np.sqrt(each.size), each.size, each, largest)


def estimate(values, users=None, weight=None) -> Estimate:
    values = np.array(values, dtype=float)
    weight = np.ones(values.size) if weight is None else np.array(weight, dtype=float)
    users = np.arange(values.size) if users is None else np.array(users)
    return Estimate("m", "e", UserSums.of(users, values * weight, weight), 9, Claim("biased"))


@pytest.mark.parametrize(("n", "gain"), [(10, 1.0), (25, 1.0), (25, 3.0), (400, 1.0)])
def test_where_nearly_no_user_differs_the_bound_is_that_of_a_share_that_was_not_seen(n, gain):
    # Σ E_u (0 − c) + E (g − c) > 0 has probability (1 − c/g)^n: c = g (1 − level^(1/n)). A gain of 1e-9 makes
    # the standard error positive, which a difference of 0 for everybody has not.
    found = difference([1e-9] + [0.0] * (n - 1), gain)
    assert found.bounds(LEVEL)[1] == pytest.approx(gain * (1 - LEVEL ** (1 / n)), rel=0.01)


def test_the_bounds_are_quantiles_of_randomly_weighted_means():
    rng = np.random.default_rng(0)
    each = rng.choice([-1, -0.5, 0, 0.25], 25, p=[0.1, 0.2, 0.5, 0.2])
    weights = rng.exponential(size=(100_000, 26))
    means = weights @ np.append(each, 1.0) / weights.sum(axis=1)
    for level in (0.05, 0.005):
        low, high = difference(each).bounds(level)
        assert high == pytest.approx(np.quantile(means, 1 - level), abs=0.004)
        below = weights @ np.append(each, -1.0) / weights.sum(axis=1)
        assert low == pytest.approx(np.quantile(below, level), abs=0.004)


def test_a_mean_below_or_above_all_values_has_chance_0_or_1():
    each = np.array([0.1, 0.2])
    assert _chance(each, 0.3, 0.5) == 0  # all are below, the largest by less than 1
    assert _chance(each, 0.3, 0.05) == _chance(each, 0.3, 0.1) == 1
    assert 0 < _chance(each, 0.3, 0.2) < 1


@pytest.mark.parametrize("loss", [0.05, 0.2, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_chance_that_one_gain_outweighs_losses_of_one_size_is_a_power(n, loss):
    # P(g E > l (E_1 + … + E_n)) = (g/(g + l))^n; the mean is 0 with g = n l.
    for gain in (0.2, 0.3, 1.0):
        exact = (gain / (gain + loss)) ** n
        assert _chance(np.full(n, -loss), gain, 0.0) == pytest.approx(exact, rel=0.045)
        assert _chance(np.full(n, 0.7 - 3 * loss), 3 * gain + 0.7, 0.7) == pytest.approx(exact, rel=0.045)


@pytest.mark.parametrize("level", [0.3, 0.6, 0.9])
def test_a_bound_that_is_more_likely_passed_than_not_is_found_as_well(level):
    found = difference([1e-9] + [0.0] * 9)
    assert found.bounds(level)[1] == pytest.approx(1 - level ** (1 / 10), rel=0.03)


def test_with_many_users_the_bounds_are_those_of_the_normal_distribution():
    each = np.random.default_rng(1).normal(0.01, 0.3, 100_000).clip(-1, 1)
    found = difference(each)
    low, high = found.bounds(0.05)
    assert (low, high) == pytest.approx(
        (found.gap - 1.645 * found.std_error, found.gap + 1.645 * found.std_error), abs=2e-5
    )


# Truly equal: many users lose a little, few gain all; the shares are those of users, the means 0.
UNEVEN = {"rare": ([-1 / 19, 1.0], [0.95, 0.05]), "mixed": ([-0.2, 0.0, 1.0], [0.25, 0.7, 0.05])}


@pytest.mark.parametrize("kind", UNEVEN)
@pytest.mark.parametrize("n", [25, 200])
def test_an_equal_recommender_that_few_users_gain_by_is_hardly_ever_called_worse(kind, n):
    values, shares = UNEVEN[kind]
    rng = np.random.default_rng(2)
    draws = rng.choice(values, (500, n), p=shares)
    # Samples of the same values have one chance; an upper bound below 0 is one below .05.
    different, count = np.unique(np.sort(draws[draws.std(axis=1) > 0]), axis=0, return_counts=True)
    called = np.average([_chance(one, 1.0, 0.0) < 0.05 for one in different], weights=count)
    assert called <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 500)
    # Student's t calls it worse in more than a quarter of such samples of 25.
    errors = draws.std(axis=1, ddof=1) / np.sqrt(n)
    if n == 25:
        assert np.mean(draws.mean(axis=1) + 1.711 * errors < 0) > 0.25


@pytest.mark.parametrize("n", [50, 500])
def test_the_stated_loss_is_seen_in_four_of_five_samples(n):
    rng = np.random.default_rng(3)
    centred = rng.normal(0, 0.2, (300, n))
    stated = np.median([difference(one).smallest_visible(LEVEL, 0.01) for one in centred[:50]])
    seen = np.mean([_chance(one, 1.0, -0.01) < LEVEL for one in centred - stated])
    assert 0.8 - 4 * np.sqrt(0.16 / 300) <= seen <= 0.92


def test_the_stated_loss_carries_the_error_of_the_standard_error_of_uneven_differences():
    each = np.repeat([0.0, 0.9, -0.9], [180, 10, 10])
    found = difference(each)
    bound = brentq(lambda loss: _chance(each - loss, 1.0, -0.1) - LEVEL, 0.0, 2.0)
    # By Student's t the loss is the bound and rest more; a kurtosis of 10 leaves √(9/4n) unknown.
    z, power = ndtri(1 - LEVEL), ndtri(0.84)
    by_t = (z + power) / np.sqrt(1 - z**2 / 400) * found.std_error
    rest = by_t - stdtrit(199, 1 - LEVEL) * found.std_error
    unknown = np.sqrt(9 / 800) * (bound - 0.1 + rest) / found.std_error
    stated = bound + rest * np.sqrt(1 + unknown**2)
    assert found.smallest_visible(LEVEL, 0.1) == pytest.approx(stated, rel=1e-5)


def test_users_are_paired_and_the_heaviest_one_sets_the_largest_difference():
    # Of users 0 to 3 with weights 1, 1, 1, 5 the last has 5/2 times the mean weight.
    weight = [1, 1, 1, 5]
    found = Difference.of(estimate([0, 1, 0.5, 1], weight=weight), estimate([0, 1, 0, 0.5], weight=weight))
    assert (found.gap, found.n_users, found.largest) == (pytest.approx(3 / 8), 4, 2.5)
    assert found.each is not None
    assert found.each.mean() == pytest.approx(found.gap)
    assert np.sqrt(found.each.var(ddof=1) / 4) == pytest.approx(found.std_error)
    assert Difference.of(estimate([0, 1]), estimate([0, 1])).bounds(0.05) == (0.0, 0.0)
    equal = [0.1] * 3  # their mean is a little more than each
    assert Difference.of(estimate([0, 1, 1], weight=equal), estimate([0, 1, 0.5], weight=equal)).largest == 1


def test_a_difference_that_is_rounding_is_none():
    given = estimate([0.3, 0.9, 0.6]), estimate([0.1 + 0.2, 0.9, 0.2 + 0.4])
    merged = [
        Estimate("m", "e", one, 9, Claim("biased"))
        for one in Moments.of([one.user_sums for one in given]).members()
    ]
    for new, old in (given, merged):
        assert new.value != old.value
        found = Difference.of(new, old)
        assert (found.gap, found.std_error) == (0.0, 0.0)


def test_a_difference_as_large_as_its_error_is_no_equality():
    low, high = Difference(0.5, 0.5, 2, np.array([1.0, 0.0])).bounds(0.05)
    assert low < 0 < 0.5 < high


def test_without_a_standard_error_no_loss_is_stated():
    assert np.isnan(difference([0.0, 0.0, 0.0]).smallest_visible(0.05, 0.0))
    assert np.isnan(difference([0.1, 0.0, -0.1]).smallest_visible(LEVEL, 0.0))  # three users: no power


def test_where_only_moments_were_kept_the_bounds_are_those_of_student():
    rng = np.random.default_rng(4)
    old, new = rng.random((2, 50))
    whole = Difference.of(estimate(new), estimate(old))
    sums = [estimate(one).user_sums for one in (new, old)]
    merged = [Estimate("m", "e", one, 9, Claim("biased")) for one in Moments.of(sums).members()]
    found = Difference.of(*merged)
    assert (found.gap, found.std_error) == pytest.approx((whole.gap, whole.std_error))
    reach = 1.676551 * whole.std_error  # the .95 quantile of Student's t with 49 degrees of freedom
    assert found.bounds(0.05) == pytest.approx((whole.gap - reach, whole.gap + reach), rel=1e-6)
    # (z + .9945)/√(1 − z²/2n) standard errors with z = 1.6449, by Guenther.
    by_guenther = (1.6448536 + 0.9944579) / np.sqrt(1 - 1.6448536**2 / 100) * whole.std_error
    assert found.smallest_visible(0.05, 0.1) - 0.1 == pytest.approx(by_guenther, rel=1e-6)


@pytest.mark.parametrize("n", [2, 25])
def test_a_difference_that_is_the_same_for_all_users_is_no_certainty(n):
    # The imagined user gains 1 where the others lose 1, and has a share W of the weight: P(W > w) = (1 − w)^n
    low, high = Difference(-1.0, 0.0, n, np.full(n, -1.0)).bounds(LEVEL)
    assert Difference(-1.0, 0.0, n, None).bounds(LEVEL) == (low, high)  # where only moments were kept
    assert low == pytest.approx(-1.0)
    share = 1 - LEVEL ** (1 / n)  # that the imagined user takes with probability LEVEL
    assert high == pytest.approx(2 * share - 1, abs=0.02)
    assert Difference(0.0, 0.0, n, np.zeros(n)).bounds(LEVEL) == (0.0, 0.0)
