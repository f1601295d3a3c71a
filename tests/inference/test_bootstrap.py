"""The bootstrap recomputes the ratio in every resample of the users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import UserSums
from tests.inside.inference import blocks, bootstrap, draw_counts, leave_one_out

A, B, C = ("a", "m", "e"), ("b", "m", "e"), ("c", "m", "e")


def some_sums(n: int = 60, seed: int = 0) -> dict[tuple[str, str, str], UserSums]:
    rng = np.random.default_rng(seed)
    users = np.arange(n)
    d = rng.uniform(1, 3, n)
    some = np.flatnonzero(rng.random(n) < 0.7)
    return {
        A: UserSums(users, d * rng.random(n), d),
        B: UserSums(some, rng.random(some.size), np.ones(some.size)),
        C: UserSums(users, rng.random(n), d, rng.integers(1, 9, n).astype(float)),
    }


def by_hand(sums: UserSums, drawn: np.ndarray) -> float:
    """Repeat each user as often as it was drawn, and compute the estimate from the repeated sums."""
    place = {int(u): k for k, u in enumerate(sums.users)}
    rows = [place[u] for u in drawn if u in place]
    ratio = sum(sums.numerator[r] for r in rows) / sum(sums.denominator[r] for r in rows)
    if sums.volume is None:
        return ratio
    return ratio * sum(sums.volume[r] for r in rows) / len(rows)


def test_replicates_equal_a_loop_over_repeated_users():
    sums = some_sums()
    result = bootstrap(sums, n_resamples=300, rng=7)
    seed = np.random.default_rng(7).integers(2**63, size=2).tolist()
    counts = np.concatenate([draw_counts(60, size, seed, number) for number, size in blocks(300, 60)])
    assert (counts.sum(axis=1) == 60).all()
    for column, one in enumerate(sums.values()):
        expected = [by_hand(one, np.repeat(np.arange(60), row.astype(int))) for row in counts]
        np.testing.assert_allclose(result.replicates[:, column], expected, rtol=1e-12)


def test_replicates_do_not_depend_on_the_number_of_threads():
    sums = some_sums(n=500)
    one, two = (bootstrap(sums, n_resamples=1000, rng=3, n_threads=n).replicates for n in (1, 2))
    assert np.array_equal(one, two)


def test_replicates_depend_on_the_rng_and_accept_a_generator():
    sums = some_sums()
    first = bootstrap(sums, n_resamples=50, rng=np.random.default_rng(1)).replicates
    assert np.array_equal(first, bootstrap(sums, n_resamples=50, rng=1).replicates)
    assert not np.array_equal(first, bootstrap(sums, n_resamples=50, rng=2).replicates)


def test_more_resamples_keep_the_first_ones():
    sums = some_sums()
    few, many = (bootstrap(sums, n_resamples=n, rng=1).replicates for n in (40, 400))
    # Whole and partial blocks are different matrix products, equal up to the order of sums.
    np.testing.assert_allclose(many[:40], few, rtol=1e-13)


def test_resamples_are_shared_so_that_differences_are_paired():
    sums = some_sums()
    sums[B] = UserSums(sums[A].users, sums[A].numerator + 0.5 * sums[A].denominator, sums[A].denominator)
    result = bootstrap(sums, n_resamples=100, rng=0)
    np.testing.assert_allclose(result.replicates[:, 1] - result.replicates[:, 0], 0.5, rtol=1e-12)


def test_the_standard_deviation_of_replicates_agrees_with_the_delta_method():
    # The relative error of a standard deviation from 4,000 replicates is 1/√8000 = 1.1 %: 4 sigma are 4.5 %;
    # with 2,000 users the delta method is exact enough.
    for key, one in some_sums(n=2000, seed=4).items():
        result = bootstrap({key: one}, n_resamples=4000, rng=0)
        n = one.n_users
        delta = np.sqrt(np.sum(one.influence() ** 2) / (n * (n - 1)))
        assert result.standard_error(key) == pytest.approx(delta, rel=0.06)


def test_a_ratio_is_resampled_and_not_its_frozen_denominator():
    # Half of the users have D = 1, half D = 3, and N = D/2 ± 0.1: the ratio is ½ up to the noise.
    # Ratio: e = N − D/2 = ±0.1 and D̄ = 2, so SE = 0.1/(2√n). With D̄ frozen at 2, as when values N/D̄ that
    # are already normalised are resampled: Var N = ¼·1 + 0.01 = 0.26, so SE = √0.26/(2√n), 5.099 times wider.
    n = 4000
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
    for one in some_sums(n=12).values():
        keep = ~np.eye(one.n_users, dtype=bool)
        expected = [
            UserSums(
                one.users[k],
                one.numerator[k],
                one.denominator[k],
                None if one.volume is None else one.volume[k],
            ).value()
            for k in keep
        ]
        np.testing.assert_allclose(leave_one_out(one), expected, rtol=1e-12)


def test_a_resample_without_weight_is_undefined_and_counted():
    # One of two users carries all the weight: it is missing from a quarter of the resamples.
    sums = {A: UserSums(np.arange(2), np.array([1.0, 0.0]), np.array([1.0, 0.0]))}
    result = bootstrap(sums, n_resamples=4000, rng=0)
    assert result.n_undefined(A) == pytest.approx(1000, abs=4 * np.sqrt(4000 * 3 / 16))
    assert set(np.unique(result.replicates[~np.isnan(result.replicates)])) == {1.0}
    assert result.interval(A, method="percentile") == (1.0, 1.0)


def test_it_says_what_is_wrong_with_its_input():
    with pytest.raises(InputError, match="at least one estimate"):
        bootstrap({})
    with pytest.raises(InputError, match="at least one user"):
        bootstrap({A: UserSums(np.zeros(0, dtype=int), np.zeros(0), np.zeros(0))})
    with pytest.raises(InputError, match="n_resamples must be an integer >= 1"):
        bootstrap(some_sums(), n_resamples=0)
    with pytest.raises(UnknownNameError, match="percentile"):
        bootstrap(some_sums(), n_resamples=5).interval(A, method="percentil")


def test_replicates_hold_the_propensity_influence_of_the_users_that_were_drawn():
    sums = some_sums()
    moved = np.random.default_rng(1).normal(size=70)  # ten users more, whom no estimate reads
    result = bootstrap({A: replace(sums[A], propensity_influence=moved), B: sums[B]}, n_resamples=200, rng=7)
    seed = np.random.default_rng(7).integers(2**63, size=2).tolist()
    counts = np.concatenate([draw_counts(70, size, seed, number) for number, size in blocks(200, 70)])
    drawn = [np.repeat(np.arange(70), row.astype(int)) for row in counts]
    known = np.array([[by_hand(sums[key], one) for key in (A, B)] for one in drawn])
    np.testing.assert_allclose(result.replicates[:, 0], known[:, 0] + (counts - 1) @ moved, rtol=1e-9)
    np.testing.assert_allclose(result.replicates[:, 1], known[:, 1], rtol=1e-12)
    without = leave_one_out(replace(sums[A], propensity_influence=moved))
    np.testing.assert_allclose(without, leave_one_out(sums[A]) - moved[:60], rtol=1e-12)
