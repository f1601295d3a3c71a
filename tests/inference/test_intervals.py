"""The bootstrap recomputes the ratio in every resample of the users; intervals from its replicates."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import Claim, Estimate, UserSums
from tests.inside.inference import (
    Bootstrap,
    bca_interval,
    blocks,
    bootstrap,
    compute_normal_interval,
    compute_normal_intervals,
    compute_quantiles,
    constrain_to_unit_interval,
    draw_counts,
    jackknife_acceleration,
    leave_one_out,
)

A = ("a", "m", "e")
B = ("b", "m", "e")
C = ("c", "m", "e")


def make_sums(n: int = 60, seed: int = 0) -> dict[tuple[str, str, str], UserSums]:
    rng = np.random.default_rng(seed)
    users = np.arange(n)
    d = rng.uniform(1, 3, n)
    users_with_sums = np.flatnonzero(rng.random(n) < 0.7)
    return {
        A: UserSums(users, d * rng.random(n), d),
        B: UserSums(users_with_sums, rng.random(users_with_sums.size), np.ones(users_with_sums.size)),
        C: UserSums(users, rng.random(n), d, rng.integers(1, 9, n).astype(float)),
    }


def estimate_by_loops(sums: UserSums, drawn_users: np.ndarray) -> float:
    """Repeat each user as often as it was drawn, and compute the estimate from the repeated sums."""
    row_of_user = {int(u): k for k, u in enumerate(sums.users)}
    rows = [row_of_user[u] for u in drawn_users if u in row_of_user]
    ratio = sum(sums.numerator[r] for r in rows) / sum(sums.denominator[r] for r in rows)
    if sums.volume is None:
        return ratio
    return ratio * sum(sums.volume[r] for r in rows) / len(rows)


def count_draws(n_users: int, n_resamples: int, rng: int) -> np.ndarray:
    """Return the number of times that each user occurs in each resample."""
    seed = np.random.default_rng(rng).integers(2**63, size=2).tolist()
    return np.concatenate(
        [draw_counts(n_users, size, seed, number) for number, size in blocks(n_resamples, n_users)]
    )


@pytest.mark.parametrize("n_moved", [0, 70])  # users whom fitted weights move; ten of them no estimate reads
def test_replicates_equal_a_loop_over_repeated_users(n_moved):
    sums = make_sums()
    n = max(n_moved, 60)
    influence = np.random.default_rng(1).normal(size=n) * (n_moved > 0)
    if n_moved:
        sums[A] = replace(sums[A], propensity_influence=influence)
    result = bootstrap(sums, n_resamples=300, rng=7)
    counts = count_draws(n, 300, 7)
    assert list(blocks(300, n)) == [(0, 256), (1, 44)]
    assert (counts.sum(axis=1) == n).all()
    resamples = np.r_[:9, 250:262, 299]  # of both blocks
    for column, (key, user_sums) in enumerate(sums.items()):
        values = [
            estimate_by_loops(user_sums, np.repeat(np.arange(n), row.astype(int)))
            for row in counts[resamples]
        ]
        values += (counts[resamples] - 1) @ influence * (key == A)
        np.testing.assert_allclose(result.replicates[resamples, column], values, rtol=1e-9)
    shifted_values = leave_one_out(make_sums()[A]) - influence[:60]
    np.testing.assert_allclose(leave_one_out(sums[A]), shifted_values, rtol=1e-12)


@pytest.mark.parametrize(
    ("n_users", "size"),
    [
        (1, 256),
        (8192, 256),  # 2^21 counts
        (8193, 255),
        (16257, 128),  # 129 of them would be one count too many
        (131072, 16),
        (10**6, 16),  # at least 16, however many users there are
    ],
)
def test_a_block_has_at_most_256_resamples_and_two_to_the_21_counts(n_users, size):
    sizes = [n_resamples for _, n_resamples in blocks(3 * size + 1, n_users)]
    assert sizes == [size, size, size, 1]
    assert [number for number, _ in blocks(3 * size, n_users)] == [0, 1, 2]


def test_replicates_do_not_depend_on_the_number_of_threads():
    sums = make_sums(n=500)
    single_thread, two_threads = (
        bootstrap(sums, n_resamples=1000, rng=3, n_threads=n).replicates for n in (1, 2)
    )
    assert np.array_equal(single_thread, two_threads)


def test_more_resamples_begin_with_the_same_resamples():
    sums = make_sums()
    short_run, long_run = (bootstrap(sums, n_resamples=n, rng=1).replicates for n in (40, 400))
    # Whole and partial blocks are different matrix products, equal up to the order of sums.
    np.testing.assert_allclose(long_run[:40], short_run, rtol=1e-13)


def test_a_ratio_is_resampled_and_not_its_frozen_denominator():
    # Half of the users have D = 1, half D = 3, and N = D/2 ± 0.1: the ratio is ½ up to the noise.
    # Ratio: e = N − D/2 = ±0.1 and D̄ = 2, so SE = 0.1/(2√n). With D̄ frozen at 2, as when values N/D̄ that
    # are already normalised are resampled: Var N = ¼·1 + 0.01 = 0.26, so SE = √0.26/(2√n), 5.099 times wider.
    n = 200
    d = np.tile([1.0, 1.0, 3.0, 3.0], n // 4)
    noise = np.tile([0.1, -0.1], n // 2)
    ratio = UserSums(np.arange(n), d / 2 + noise, d)
    frozen = UserSums(np.arange(n), (d / 2 + noise) / 2, np.ones(n))
    assert ratio.value() == pytest.approx(0.5)
    assert frozen.value() == pytest.approx(0.5)
    result = bootstrap({A: ratio, B: frozen}, n_resamples=10_000, rng=0)
    z = norm.ppf(0.975)
    for method in ("normal", "percentile", "bca"):
        widths = []
        for key in (A, B):
            low, high = result.interval(key, method=method)
            widths.append(high - low)
        # Relative error of an interval's width from 10,000 replicates: about 1.2 %; 4 sigma are 5 %.
        assert widths[0] == pytest.approx(2 * z * 0.1 / (2 * np.sqrt(n)), rel=0.05)
        assert widths[1] == pytest.approx(2 * z * np.sqrt(0.26) / (2 * np.sqrt(n)), rel=0.05)
        assert widths[1] / widths[0] == pytest.approx(np.sqrt(26), rel=0.07)


def test_leaving_one_out_equals_recomputing_without_the_user():
    for user_sums in make_sums(n=12).values():
        keep = ~np.eye(user_sums.n_users, dtype=bool)
        values = [
            UserSums(
                user_sums.users[k],
                user_sums.numerator[k],
                user_sums.denominator[k],
                None if user_sums.volume is None else user_sums.volume[k],
            ).value()
            for k in keep
        ]
        np.testing.assert_allclose(leave_one_out(user_sums), values, rtol=1e-12)


def test_a_resample_without_weight_is_undefined_and_counted():
    # One of two users carries all the weight: it is missing from a quarter of the resamples.
    sums = {A: UserSums(np.arange(2), np.array([1.0, 0.0]), np.array([1.0, 0.0]))}
    result = bootstrap(sums, n_resamples=4000, rng=0)
    assert result.n_undefined(A) == pytest.approx(1000, abs=4 * np.sqrt(4000 * 3 / 16))
    assert set(np.unique(result.replicates[~np.isnan(result.replicates)])) == {1.0}
    assert result.interval(A, method="percentile") == (1.0, 1.0)


def test_invalid_input_of_the_bootstrap_is_refused():
    with pytest.raises(InputError, match="n_resamples must be an integer >= 1"):
        bootstrap(make_sums(), n_resamples=0)
    with pytest.raises(UnknownNameError, match="percentile"):
        bootstrap(make_sums(), n_resamples=5).interval(A, method="percentil")


def test_normal_interval_of_a_hand_worked_case():
    # z of 90 % is 1.644854.
    low, high = compute_normal_interval(2.0, 0.5, confidence_level=0.9)
    assert (low, high) == pytest.approx((2 - 0.8224268, 2 + 0.8224268), abs=1e-7)
    assert all(
        math.isnan(bound) for bound in compute_normal_interval(0.5, float("nan"), confidence_level=0.95)
    )


def test_quantiles_exclude_undefined_replicates():
    replicates = np.concatenate([np.arange(101.0), [np.nan] * 50])
    assert compute_quantiles(replicates, 0.25, 0.75) == (25.0, 75.0)
    assert all(math.isnan(b) for b in compute_quantiles(np.full(3, np.nan), 0.25, 0.75))


@pytest.mark.parametrize("seed", range(3))
def test_bca_equals_scipy_on_the_same_resamples_of_a_skewed_mean(seed):
    values = np.random.default_rng(seed).exponential(size=40)
    name = "rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state"  # until 1.14
    options = {"n_resamples": 999, "confidence_level": 0.9, "method": "BCa", name: np.random.default_rng(1)}
    reference = stats.bootstrap((values,), np.mean, **options)
    leave_one_out = (values.sum() - values) / (values.size - 1)
    ours = bca_interval(
        float(values.mean()),
        reference.bootstrap_distribution,
        jackknife_acceleration(leave_one_out),
        confidence_level=0.9,
    )
    assert ours == pytest.approx(tuple(reference.confidence_interval), rel=1e-12)


def test_bca_of_constant_replicates_is_the_value_itself():
    assert bca_interval(0.3, np.full(9, 0.3), 0.0, confidence_level=0.95) == (0.3, 0.3)


def test_bca_is_nan_when_all_replicates_lie_on_one_side():
    assert all(math.isnan(b) for b in bca_interval(0.0, np.arange(1.0, 9.0), 0.0, confidence_level=0.95))


def test_acceleration_of_a_hand_worked_case():
    # d = mean − value = 1, 1, −2: Σd³ = −6, Σd² = 6, so a = −6/(6·6^1.5) = −1/14.697.
    for unit in (1.0, 1e-16):
        assert jackknife_acceleration(unit * np.array([0.0, 0.0, 3.0])) == pytest.approx(-1 / 6**1.5)


def test_acceleration_of_values_equal_up_to_rounding_is_zero():
    assert jackknife_acceleration(np.array([0.1 + 0.2, 0.3, 0.3])) == 0.0


@pytest.mark.parametrize("level", [0, 1, 95, -0.1])
def test_a_confidence_level_outside_0_1_is_refused(level):
    with pytest.raises(InputError, match="confidence_level must be in"):
        compute_normal_interval(0.0, 1.0, confidence_level=level)


def test_leaving_one_out_of_a_root_and_of_sizes_equals_recomputing_without_the_user():
    numerator = np.array([1.0, 4.0, 2.0])
    denominator = np.array([2.0, 3.0, 1.0])
    volume = np.array([5.0, 1.0, 2.0])
    size = np.array([1.0, 2.0, 4.0])
    users = np.arange(3)
    root = UserSums(users, numerator, denominator, root=True)
    np.testing.assert_allclose(leave_one_out(root), np.sqrt([6 / 4, 3 / 3, 5 / 5]))
    with_sizes = UserSums(users, numerator, denominator, volume, size=size)
    expected = [6 / 4 * 3 / 6, 3 / 3 * 7 / 5, 5 / 5 * 6 / 3]
    np.testing.assert_allclose(leave_one_out(with_sizes), expected)
    replicates = bootstrap({A: root, B: with_sizes}, n_resamples=40, rng=0).replicates
    counts = count_draws(3, 40, 0)
    with np.errstate(invalid="ignore"):
        ratio = counts @ numerator / (counts @ denominator)
    np.testing.assert_allclose(replicates[:, 0], np.sqrt(ratio))
    np.testing.assert_allclose(replicates[:, 1], ratio * (counts @ volume) / (counts @ size))


@pytest.mark.parametrize(("n_users", "n_values"), [(0, 0), (1, 1)])
def test_nothing_is_left_without_the_only_user(n_users, n_values):
    values = leave_one_out(UserSums(np.arange(n_users), np.ones(n_users), np.ones(n_users)))
    assert (values.size, np.isnan(values).all()) == (n_values, True)


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (0.5, 0.0, 1.0, (0.0, 1.0)),
        (0.5, 0.1, 0.9, (0.1, 0.9)),
        (0.0, -0.1, 0.1, (-0.1, 0.1)),  # no logit
        (1.0, 0.9, 1.1, (0.9, 1.1)),
        (1.2, 1.1, 1.3, (1.1, 1.3)),
        # h = 1 and h/(p(1 − p)) = 4; then of 0.2: logit −ln 4, and 0.32/0.16 = 2.
        (0.5, -0.5, 1.5, (1 / (1 + math.exp(4)), 1 / (1 + math.exp(-4)))),
        (0.2, -0.12, 0.52, (1 / (1 + 4 * math.exp(2)), 1 / (1 + 4 * math.exp(-2)))),
        (0.8, 0.48, 1.12, (1 / (1 + math.exp(2) / 4), 1 / (1 + math.exp(-2) / 4))),
    ],
)
def test_intervals_beyond_0_or_1_are_computed_on_the_logit_scale(value, low, high, expected):
    assert constrain_to_unit_interval(value, low, high) == pytest.approx(expected, rel=1e-12)


def test_each_interval_of_the_bootstrap_worked_by_hand():
    # 0, 1, …, 100 and two undefined replicates; the value is 50, so z0 is 0.
    replicates = np.append(np.arange(101.0), [np.nan, np.nan])[:, None]
    result = Bootstrap((A,), np.array([50.0]), replicates, np.array([0.0]))
    assert result.interval(A, confidence_level=0.9, method="percentile") == pytest.approx((5.0, 95.0))
    assert result.interval(A, confidence_level=0.9, method="bca") == pytest.approx((5.0, 95.0))
    deviation = np.sqrt(np.sum((np.arange(101) - 50.0) ** 2) / 100)
    assert result.standard_error(A) == pytest.approx(deviation)
    half_width = 1.6448536 * deviation
    interval = result.interval(A, confidence_level=0.9, method="normal")
    assert interval == pytest.approx((50 - half_width, 50 + half_width))
    assert result.interval(A) == pytest.approx((2.5, 97.5))
    assert result.n_undefined(A) == 2
    # a = 0.1 and z = ∓1.6448536: Φ(z/(1 − 0.1 z)) is 0.0788785 and 0.9755738.
    skewed_result = replace(result, acceleration=np.array([0.1]))
    expected = (100 * norm.cdf(-1.6448536 / 1.16448536), 100 * norm.cdf(1.6448536 / 0.83551464))
    assert skewed_result.interval(A, confidence_level=0.9) == pytest.approx(expected)
    # Of 101 replicates 30 are below 30 and one equals it: the share is 30.5/101.
    shifted_result = replace(result, values=np.array([30.0]))
    bias = norm.ppf(30.5 / 101)
    expected = tuple(100 * norm.cdf(2 * bias + sign * 1.6448536) for sign in (-1, 1))
    assert shifted_result.interval(A, confidence_level=0.9) == pytest.approx(expected)


@pytest.mark.parametrize(("n_defined", "is_defined"), [(0, False), (1, False), (2, True)])
def test_a_standard_deviation_needs_two_defined_replicates(n_defined, is_defined):
    replicates = np.array([3.0, 5.0, 9.0])
    replicates[n_defined:] = np.nan
    result = Bootstrap((A,), np.array([4.0]), replicates[:, None], np.array([0.0]))
    error = result.standard_error(A)
    assert error == pytest.approx(np.sqrt(2)) if is_defined else math.isnan(error)


def test_bca_is_undefined_without_a_value_replicates_or_acceleration():
    nan = float("nan")
    for value, replicates, acceleration in (
        (nan, np.arange(3.0), 0.0),
        (1.0, np.full(3, nan), 0.0),
        (1.0, np.arange(3.0), np.inf),
        (9.0, np.arange(3.0), 0.0),  # all below
    ):
        interval = bca_interval(value, replicates, acceleration, confidence_level=0.9)
        assert np.isnan(interval).all()
    undefined_result = Bootstrap((A,), np.array([nan]), np.full((3, 1), nan), np.array([nan]))
    # A missing acceleration is an error after a refit, but not where the value itself is undefined.
    assert np.isnan(undefined_result.interval(A, method="bca")).all()


@pytest.mark.parametrize(
    ("value_range", "can_exceed_range", "is_constrained"),
    [
        ((0.0, 1.0), False, True),
        ((0.0, 1.0), True, False),  # of ips and dr
        ((0.0, math.inf), False, False),
        ((-1.0, 1.0), False, False),
        ((0.0, 0.5), False, False),
        ((0.5, 1.0), False, False),
    ],
)
def test_intervals_stay_in_the_range_of_metrics_between_0_and_1_alone(
    value_range, can_exceed_range, is_constrained
):
    # Values 0, 0, 0, 1: their mean is 1/4, and their error 1/4.
    sums = UserSums.from_values(np.arange(4), np.array([0.0, 0.0, 0.0, 1.0]))
    estimate = Estimate("m", "e", sums, 4, Claim("biased"), can_exceed_range=can_exceed_range)
    metrics = [SimpleNamespace(label="m", value_range=value_range)]
    interval = compute_normal_intervals({A: estimate}, confidence_level=0.9, metrics=metrics)[A]
    half_width = 1.6448536 / 4
    expected = (0.25 - half_width, 0.25 + half_width)
    if is_constrained:
        odds = math.exp(half_width / (0.25 * 0.75))
        expected = (1 / (1 + 3 * odds), 1 / (1 + 3 / odds))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert (interval.std_error, interval.note) == (pytest.approx(0.25), "")
    interval_without_metrics = compute_normal_intervals({A: estimate}, confidence_level=0.9)[A]
    assert (interval_without_metrics.low, interval_without_metrics.high) == pytest.approx(
        (0.25 - half_width, 0.25 + half_width)
    )
