"""Bounds of a paired difference: exact cases, draws, few users, and the power that is stated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit
from scipy.stats import binom

from ipseval.estimators import Claim, Estimate, UserSums
from tests.inside.estimators import Moments
from tests.inside.testing import Difference, _exceedance_probability

LEVEL = 0.05 / 26


def difference(user_differences, largest: float = 1.0) -> Difference:
    user_differences = np.asarray(user_differences, dtype=float)
    return Difference(
        user_differences.mean(),
        user_differences.std(ddof=1) / np.sqrt(user_differences.size),
        user_differences.size,
        user_differences,
        largest,
    )


def estimate(values, users=None, weight=None) -> Estimate:
    values = np.array(values, dtype=float)
    weight = np.ones(values.size) if weight is None else np.array(weight, dtype=float)
    users = np.arange(values.size) if users is None else np.array(users)
    return Estimate("m", "e", UserSums.from_values(users, values * weight, weight), 9, Claim("biased"))


@pytest.mark.parametrize(("n", "gain"), [(10, 1.0), (25, 1.0), (25, 3.0), (400, 1.0)])
def test_bound_is_that_of_an_unobserved_share_of_users_when_almost_no_user_differs(n, gain):
    # Σ E_u (0 − c) + E (g − c) > 0 has probability (1 − c/g)^n: c = g (1 − level^(1/n)). A gain of 1e-9 makes
    # the standard error positive, which a difference of 0 for everybody has not.
    rare_gain = difference([1e-9] + [0.0] * (n - 1), gain)
    assert rare_gain.bounds(LEVEL)[1] == pytest.approx(gain * (1 - LEVEL ** (1 / n)), rel=0.01)


def test_the_bounds_are_quantiles_of_randomly_weighted_means():
    rng = np.random.default_rng(0)
    user_differences = rng.choice([-1, -0.5, 0, 0.25], 25, p=[0.1, 0.2, 0.5, 0.2])
    weights = rng.exponential(size=(100_000, 26))
    means = weights @ np.append(user_differences, 1.0) / weights.sum(axis=1)
    for level in (0.05, 0.005):
        low, high = difference(user_differences).bounds(level)
        assert high == pytest.approx(np.quantile(means, 1 - level), abs=0.004)
        below = weights @ np.append(user_differences, -1.0) / weights.sum(axis=1)
        assert low == pytest.approx(np.quantile(below, level), abs=0.004)


def test_a_mean_below_or_above_all_values_has_chance_0_or_1():
    user_differences = np.array([0.1, 0.2])
    assert (
        _exceedance_probability(user_differences, 0.3, 0.5) == 0
    )  # all are below, the largest by less than 1
    assert (
        _exceedance_probability(user_differences, 0.3, 0.05)
        == _exceedance_probability(user_differences, 0.3, 0.1)
        == 1
    )
    assert 0 < _exceedance_probability(user_differences, 0.3, 0.2) < 1


@pytest.mark.parametrize("loss", [0.05, 0.2, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_chance_that_one_gain_outweighs_losses_of_one_size_is_a_power(n, loss):
    # P(g E > l (E_1 + … + E_n)) = (g/(g + l))^n; the mean is 0 with g = n l.
    for gain in (0.2, 0.3, 1.0):
        exact = (gain / (gain + loss)) ** n
        assert _exceedance_probability(np.full(n, -loss), gain, 0.0) == pytest.approx(exact, rel=0.045)
        assert _exceedance_probability(np.full(n, 0.7 - 3 * loss), 3 * gain + 0.7, 0.7) == pytest.approx(
            exact, rel=0.045
        )


@pytest.mark.parametrize("level", [0.3, 0.6, 0.9])
def test_bound_is_computed_for_error_levels_above_one_half_too(level):
    rare_gain = difference([1e-9] + [0.0] * 9)
    assert rare_gain.bounds(level)[1] == pytest.approx(1 - level ** (1 / 10), rel=0.03)


def test_with_many_users_the_bounds_are_those_of_the_normal_distribution():
    user_differences = np.random.default_rng(1).normal(0.01, 0.3, 100_000).clip(-1, 1)
    paired = difference(user_differences)
    low, high = paired.bounds(0.05)
    assert (low, high) == pytest.approx(
        (paired.value - 1.645 * paired.std_error, paired.value + 1.645 * paired.std_error), abs=2e-5
    )


# Truly equal: many users lose a little, few gain all; the shares are those of users, the means 0.
UNEVEN = {"rare": ([-1 / 19, 1.0], [0.95, 0.05]), "mixed": ([-0.2, 0.0, 1.0], [0.25, 0.7, 0.05])}


@pytest.mark.parametrize("kind", UNEVEN)
@pytest.mark.parametrize("n", [25, 200])
def test_equal_recommender_with_gains_for_few_users_is_rarely_called_worse(kind, n):
    values, shares = UNEVEN[kind]
    rng = np.random.default_rng(2)
    draws = rng.choice(values, (500, n), p=shares)
    # Samples of the same values have one chance; an upper bound below 0 is one below .05.
    different, count = np.unique(np.sort(draws[draws.std(axis=1) > 0]), axis=0, return_counts=True)
    called = np.average(
        [_exceedance_probability(sample, 1.0, 0.0) < 0.05 for sample in different], weights=count
    )
    assert called <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 500)
    # Student's t calls it worse in more than a quarter of such samples of 25.
    errors = draws.std(axis=1, ddof=1) / np.sqrt(n)
    if n == 25:
        assert np.mean(draws.mean(axis=1) + 1.711 * errors < 0) > 0.25


@pytest.mark.parametrize("n", [50, 500])
def test_smallest_visible_loss_is_detected_in_four_of_five_samples(n):
    rng = np.random.default_rng(3)
    centred = rng.normal(0, 0.2, (300, n))
    stated = np.median([difference(sample).smallest_visible(LEVEL, 0.01) for sample in centred[:50]])
    seen = np.mean([_exceedance_probability(sample, 1.0, -0.01) < LEVEL for sample in centred - stated])
    assert 0.8 - 4 * np.sqrt(0.16 / 300) <= seen <= 0.92


@pytest.mark.parametrize("n", [50, 500])
def test_equal_recommender_passes_in_four_of_five_samples_if_the_margin_is_the_smallest_visible_loss(n):
    samples = np.random.default_rng(9).choice([-1.0, 0.0, 1.0], (300, n), p=[0.2, 0.6, 0.2])
    has_passed = []
    for sample in samples:
        paired = difference(sample)
        has_passed.append(paired.bounds(LEVEL)[0] >= -paired.smallest_visible(LEVEL, 0.0))
    assert np.mean(has_passed) >= 0.8 - 4 * np.sqrt(0.16 / 300)
    assert np.mean(has_passed) < 1


@pytest.mark.parametrize(
    ("n", "loss", "values", "shares"),
    [
        (400, 0.1, [-1.0, 0.0, 1.0], [0.2, 0.6, 0.2]),
        (400, 0.03, [-1 / 19, 1.0], [0.95, 0.05]),
        (100, 0.1, [-0.2, 0.0, 1.0], [0.25, 0.7, 0.05]),
    ],
)
def test_equally_good_candidate_passes_with_the_stated_probability_and_users(n, loss, values, shares):
    rng = np.random.default_rng(6)
    observed = rng.choice(values, n, p=shares)
    paired = difference(observed + 0.2)  # the observed difference does not matter
    centred = observed - observed.mean()
    n_needed = paired.users_needed(LEVEL, loss)
    passing_shares = {}
    for size in (n, int(n_needed)):
        has_passed = []
        for _ in range(300):
            low, _ = difference(rng.choice(centred, size)).bounds(LEVEL)
            has_passed.append(low >= -loss)
        passing_shares[size] = np.mean(has_passed)
    assert paired.pass_probability(LEVEL, loss) == pytest.approx(passing_shares[n], abs=0.1)
    assert 0.75 <= passing_shares[int(n_needed)] <= 0.95
    moments = Difference(paired.value, paired.std_error, n, None)
    assert moments.users_needed(LEVEL, loss) == pytest.approx(n_needed, rel=0.5)
    assert 0 <= moments.pass_probability(LEVEL, loss) <= 1
    assert np.isnan(paired.users_needed(LEVEL, 0.0))


def test_without_any_difference_the_users_needed_are_those_whose_bound_excludes_the_loss():
    no_difference = Difference(0.0, 0.0, 100, np.zeros(100))
    n_needed = int(no_difference.users_needed(LEVEL, 0.02))
    assert Difference(0.0, 0.0, n_needed, None).bounds(LEVEL)[0] >= -0.02
    assert Difference(0.0, 0.0, n_needed - 1, None).bounds(LEVEL)[0] < -0.02
    assert no_difference.pass_probability(LEVEL, 0.02) == 0
    assert Difference(0.0, 0.0, n_needed, None).pass_probability(LEVEL, 0.02) == 1
    assert np.isnan([no_difference.users_needed(LEVEL, loss) for loss in (0.0, 1e-9)]).all()
    assert no_difference.users_needed(LEVEL, 1.0) == 1


def test_smallest_visible_loss_accounts_for_the_error_of_the_standard_error():
    user_differences = np.repeat([0.0, 0.9, -0.9], [180, 10, 10])
    paired = difference(user_differences)
    bound = brentq(lambda loss: _exceedance_probability(user_differences - loss, 1.0, -0.1) - LEVEL, 0.0, 2.0)
    # By Student's t the loss is the bound and rest more; a kurtosis of 10 leaves √(9/4n) unknown.
    z, power = ndtri(1 - LEVEL), ndtri(0.84)
    by_t = (z + power) / np.sqrt(1 - z**2 / 400) * paired.std_error
    power_term = by_t - stdtrit(199, 1 - LEVEL) * paired.std_error
    unknown = np.sqrt(9 / 800) * (bound - 0.1 + power_term) / paired.std_error
    stated = bound + power_term * np.sqrt(1 + unknown**2)
    assert paired.smallest_visible(LEVEL, 0.1) == pytest.approx(stated, rel=1e-5)


def test_users_are_paired_and_the_heaviest_one_sets_the_largest_difference():
    # Of users 0 to 3 with weights 1, 1, 1, 5 the last has 5/2 times the mean weight.
    weight = [1, 1, 1, 5]
    paired = Difference.from_estimates(
        estimate([0, 1, 0.5, 1], weight=weight), estimate([0, 1, 0, 0.5], weight=weight)
    )
    assert (paired.value, paired.n_users, paired.largest) == (pytest.approx(3 / 8), 4, 2.5)
    assert paired.user_differences is not None
    assert paired.user_differences.mean() == pytest.approx(paired.value)
    assert np.sqrt(paired.user_differences.var(ddof=1) / 4) == pytest.approx(paired.std_error)
    equal = [0.1] * 3  # their mean is a little more than each
    assert (
        Difference.from_estimates(
            estimate([0, 1, 1], weight=equal), estimate([0, 1, 0.5], weight=equal)
        ).largest
        == 1
    )


@pytest.mark.parametrize(("n", "largest"), [(1, 1.0), (5, 1.0), (25, 2.5), (400, 1.0)])
def test_bounds_without_any_difference_are_those_of_an_unobserved_share_of_users(n, largest):
    # With a share q of users that lose the largest difference, n users show none with probability (1 − q)^n.
    no_difference = Difference(0.0, 0.0, n, np.zeros(n), largest)
    low, high = no_difference.bounds(LEVEL)
    share = high / largest
    assert (1 - share) ** n == pytest.approx(LEVEL, rel=1e-9)
    assert low == -high
    assert Difference(0.0, 0.0, n, None, largest).bounds(LEVEL) == (low, high)  # where only moments were kept
    assert no_difference.is_zero


@pytest.mark.parametrize(("n", "margin", "largest"), [(60, 0.0, 1.0), (200, 0.02, 1.0), (200, 0.05, 2.5)])
def test_smallest_visible_loss_without_any_difference_is_detected_in_four_of_five_samples(n, margin, largest):
    # A share of the users loses the largest difference: all numbers of losing users with their probabilities.
    no_difference = Difference(0.0, 0.0, n, np.zeros(n), largest)
    loss = no_difference.smallest_visible(LEVEL, margin)
    n_losing = np.arange(1, n)
    probabilities = binom.pmf(n_losing, n, loss / largest)
    n_losing = n_losing[probabilities > 1e-11]  # all others together: less than n times that
    is_worse = []
    for count in n_losing:
        sample = difference(np.where(np.arange(n) < count, -largest, 0.0), largest)
        is_worse.append(sample.bounds(LEVEL)[1] < -margin)
    power = binom.pmf(n_losing, n, loss / largest)[is_worse].sum()
    assert power == pytest.approx(0.8, abs=1e-6)
    assert loss > margin + no_difference.bounds(LEVEL)[1]
    assert Difference(0.0, 0.0, n, None, largest).smallest_visible(LEVEL, margin) == loss


def test_no_loss_is_visible_without_any_difference_if_all_users_losing_would_not_show_it():
    assert np.isnan(Difference(0.0, 0.0, 3, np.zeros(3)).smallest_visible(LEVEL, 0.0))
    assert np.isnan(Difference(0.0, 0.0, 400, np.zeros(400)).smallest_visible(LEVEL, 1.0))


def test_a_loss_that_no_user_shows_is_inside_the_bounds_as_often_as_promised():
    rng = np.random.default_rng(7)
    missed = []
    for _ in range(2000):
        lost = (rng.random(10) < 0.3).astype(float)  # the true loss is 0.3
        if not lost.any():
            missed.append(difference(-lost).bounds(0.02)[0] > -0.3)
    assert len(missed) > 20  # 0.7^10 = 2.8% of samples show none
    assert not any(missed)


def test_bounds_of_an_estimate_are_those_of_its_difference_from_zero():
    values = np.random.default_rng(8).random(60)
    own_bounds = Difference.from_zero(estimate(values)).bounds(LEVEL)
    assert own_bounds == pytest.approx(difference(values).bounds(LEVEL))
    merged = Estimate(
        "m", "e", Moments.from_user_sums([estimate(values).user_sums]).members()[0], 9, Claim("biased")
    )
    reach = stdtrit(59, 1 - LEVEL) * values.std(ddof=1) / np.sqrt(60)
    expected = (values.mean() - reach, values.mean() + reach)
    assert Difference.from_zero(merged).bounds(LEVEL) == pytest.approx(expected)


def test_the_largest_difference_is_at_least_the_largest_value_of_a_user():
    assert Difference.from_estimates(estimate([4.0, 1.0]), estimate([4.0, 1.0])).largest == 4.0
    assert Difference.from_zero(estimate([4.0, 1.0])).largest == 4.0


def test_difference_within_rounding_is_zero():
    estimates = estimate([0.3, 0.9, 0.6]), estimate([0.1 + 0.2, 0.9, 0.2 + 0.4])
    merged = [
        Estimate("m", "e", moments, 9, Claim("biased"))
        for moments in Moments.from_user_sums([result.user_sums for result in estimates]).members()
    ]
    for new, old in (estimates, merged):
        assert new.value != old.value
        paired = Difference.from_estimates(new, old)
        assert (paired.value, paired.std_error) == (0.0, 0.0)


def test_difference_as_large_as_its_error_is_not_an_equality():
    low, high = Difference(0.5, 0.5, 2, np.array([1.0, 0.0])).bounds(0.05)
    assert low < 0 < 0.5 < high


def test_smallest_visible_loss_is_nan_without_a_standard_error():
    assert np.isnan(Difference(-1.0, 0.0, 3, np.full(3, -1.0)).smallest_visible(0.05, 0.0))
    assert np.isnan(difference([0.1, 0.0, -0.1]).smallest_visible(LEVEL, 0.0))  # three users: no power


def test_bounds_are_those_of_student_when_only_moments_were_kept():
    rng = np.random.default_rng(4)
    old, new = rng.random((2, 50))
    with_users = Difference.from_estimates(estimate(new), estimate(old))
    sums = [estimate(values).user_sums for values in (new, old)]
    merged = [
        Estimate("m", "e", moments, 9, Claim("biased")) for moments in Moments.from_user_sums(sums).members()
    ]
    from_moments = Difference.from_estimates(*merged)
    assert (from_moments.value, from_moments.std_error) == pytest.approx(
        (with_users.value, with_users.std_error)
    )
    reach = 1.676551 * with_users.std_error  # the .95 quantile of Student's t with 49 degrees of freedom
    assert from_moments.bounds(0.05) == pytest.approx(
        (with_users.value - reach, with_users.value + reach), rel=1e-6
    )
    # (z + .9945)/√(1 − z²/2n) standard errors with z = 1.6449, by Guenther.
    by_guenther = (1.6448536 + 0.9944579) / np.sqrt(1 - 1.6448536**2 / 100) * with_users.std_error
    assert from_moments.smallest_visible(0.05, 0.1) - 0.1 == pytest.approx(by_guenther, rel=1e-6)


@pytest.mark.parametrize("n", [2, 25])
def test_difference_that_is_equal_for_all_users_is_not_certain(n):
    # The imagined user gains 1 where the others lose 1, and has a share W of the weight: P(W > w) = (1 − w)^n
    low, high = Difference(-1.0, 0.0, n, np.full(n, -1.0)).bounds(LEVEL)
    assert Difference(-1.0, 0.0, n, None).bounds(LEVEL) == (low, high)  # where only moments were kept
    assert low == pytest.approx(-1.0)
    share = 1 - LEVEL ** (1 / n)  # that the imagined user takes with probability LEVEL
    assert high == pytest.approx(2 * share - 1, abs=0.02)
