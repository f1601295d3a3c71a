"""Agreement of orderings against hand values and scipy."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import multivariate_normal

from ipseval.errors import InputError
from ipseval.studies.agreement import mean_agreement, order_agreement
from ipseval.utils.types import FloatArray
from tests.inside.agreement import (
    CORRELATIONS,
    TrueValueModel,
    add_intervals,
    build_priors,
    compute_log_likelihood,
    compute_noise_covariance,
)

# Eight recommenders; b swaps the best two and moves the last to third place.
A = {"a": 8.0, "b": 7.0, "c": 6.0, "d": 5.0, "e": 4.0, "f": 3.0, "g": 2.0, "h": 1.0}
B = {"b": 8.0, "a": 7.0, "h": 6.0, "c": 5.0, "d": 4.0, "e": 3.0, "f": 2.0, "g": 1.0}


def test_hand_values_of_eight_recommenders() -> None:
    result = order_agreement(A, B, k=[1, 2, 3, 8])
    # Places in b: a 2, b 1, c 4, d 5, e 6, f 7, g 8, h 3; d² = 1+1+1+1+1+1+1+25 = 32.
    assert result.src == pytest.approx(1 - 6 * 32 / (8 * 63))
    # Inverted: (a, b), and h against c, d, e, f, g.
    assert result.ipc == 6
    assert result.tau_b == pytest.approx(1 - 4 * 6 / (8 * 7))
    assert result.overlap == pytest.approx({1: 0.0, 2: 1.0, 3: 2 / 3, 8: 1.0})
    assert result.n_recommenders == 8
    assert (result.unit, result.n_units, result.note, dict(result.intervals)) == ("", 0, "", {})
    assert list(result.to_dict().values()) == [0.0, 1.0, 2 / 3, 1.0, result.src, 6.0, result.tau_b]


values = st.lists(st.integers(0, 4), min_size=2, max_size=7)


@given(st.data())
def test_overlap_is_the_expectation_over_random_tie_breaking(data: st.DataObject) -> None:
    a = data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=4))
    b = data.draw(st.lists(st.integers(0, 2), min_size=len(a), max_size=len(a)))
    k = data.draw(st.integers(1, len(a)))

    def tops(x: list[int]) -> list[set[int]]:
        orders = itertools.permutations(range(len(x)))
        return [set(sorted(order, key=lambda item: -x[item])[:k]) for order in orders]

    expected = np.mean([len(s & t) / k for s in tops(a) for t in tops(b)])
    assert order_agreement(a, b, k=[k]).overlap[k] == pytest.approx(expected)


@given(st.data())
def test_src_and_tau_agree_with_scipy_on_ties(data: st.DataObject) -> None:
    a = data.draw(values)
    b = data.draw(st.lists(st.integers(0, 4), min_size=len(a), max_size=len(a)))
    result = order_agreement(a, b, k=[])
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(result.src)
        assert math.isnan(result.tau_b)
        return
    assert result.src == pytest.approx(stats.spearmanr(a, b).statistic)
    assert result.tau_b == pytest.approx(stats.kendalltau(a, b, variant="b").statistic)
    pairs = itertools.combinations(range(len(a)), 2)
    assert result.ipc == sum((a[i] - a[j]) * (b[i] - b[j]) < 0 for i, j in pairs)


def test_a_constant_vector_gives_nan_with_the_reason() -> None:
    result = order_agreement([0.5, 0.5, 0.5], [1, 2, 3], k=[1])
    assert math.isnan(result.src)
    assert math.isnan(result.tau_b)
    assert result.ipc == 0
    # The top place of a is anyone's: in one of three cases the best of b.
    assert result.overlap[1] == pytest.approx(1 / 3)
    assert "src and tau_b are NaN: all 3 values of a are equal" in result.note
    assert "ties in a: or@1 averaged over breaking them at random" in result.note


def test_ties_are_named_at_the_cutoffs_that_separate_them() -> None:
    note = order_agreement([1, 1, 2, 3], [1, 2, 3, 4], k=[1, 2, 3]).note
    assert note == "ties in a: or@3 averaged over breaking them at random"


def test_values_that_differ_by_rounding_only_are_tied_and_noted() -> None:
    result = order_agreement([1, 2, 3], [0.3, 0.1 + 0.2, 0.3], k=[1])
    assert result.note == (
        "src and tau_b are NaN: all 3 values of b are equal; "
        "ties in b: or@1 averaged over breaking them at random"
    )


def test_mappings_and_series_are_matched_by_name() -> None:
    shuffled = dict(sorted(B.items(), key=lambda pair: pair[1]))
    assert order_agreement(A, shuffled).to_dict() == order_agreement(A, B).to_dict()
    assert order_agreement(pd.Series(A), pd.Series(shuffled)).src == order_agreement(A, B).src
    rows = [B[name] for name in A]  # without names, in the same order
    assert order_agreement(A, rows).ipc == order_agreement(rows, A).ipc == 6


def test_default_k_stays_below_the_number_of_recommenders() -> None:
    assert list(order_agreement([1, 2], [1, 2]).overlap) == [1]
    assert list(order_agreement(range(5), range(5)).overlap) == [1, 3]
    assert list(order_agreement(range(6), range(6)).overlap) == [1, 3, 5]


def simulate_values(n, n_users, step, rng, common=0.0, far=0.0):
    """Return per-user values of n recommenders that are `step` apart; b swaps two of them.

    With `far`, the two lowest are farther below the others by this distance, and b shuffles the others.
    """
    true_a = step * np.arange(n)
    true_a[:2] -= far
    true_b = true_a.copy()
    if far:
        true_b[2:] = rng.permutation(true_b[2:])
    else:
        true_b[[1, 2]] = true_b[[2, 1]]
    user = 0.2 * rng.standard_normal(n_users)
    a = true_a[:, None] + user + 0.25 * rng.standard_normal((n, n_users))
    b = true_b[:, None] + common * user + 0.25 * rng.standard_normal((n, n_users))
    return a, b, order_agreement(true_a, true_b, k=1)


def test_values_are_those_of_the_measured_means_and_intervals_have_the_requested_level() -> None:
    a, b, _ = simulate_values(5, 60, 0.05, np.random.default_rng(0))
    a[0, 3] = b[2, 2] = np.nan  # users without a value
    result = order_agreement(a, b, k=2, rng=9)
    assert dict(result.values) == order_agreement(np.nanmean(a, axis=1), np.nanmean(b, axis=1), k=2).values
    assert (result.unit, result.n_units, result.confidence_level, result.note) == ("users", 60, 0.95, "")
    assert result.to_dict()["src_low"], result.to_dict()["src_high"] == result.intervals["src"]
    low, high = result.intervals["ipc"]
    assert f", ipc={result.ipc:.3g} [{low:.3g}, {high:.3g}], tau_b=" in repr(result)
    narrow = order_agreement(a, b, k=2, rng=9, confidence_level=0.5)
    assert narrow.intervals["src"][0] >= result.intervals["src"][0]
    assert narrow.intervals["src"][1] <= result.intervals["src"][1]


def test_an_interval_narrows_to_the_true_agreement_with_many_users_and_says_nothing_with_few() -> None:
    rng = np.random.default_rng(1)
    a, b, truth = simulate_values(5, 20_000, 0.05, rng)
    assert order_agreement(a, b, k=1, rng=0).intervals["tau_b"] == (truth.tau_b, truth.tau_b)
    few = order_agreement(*simulate_values(5, 20, 0.003, rng)[:2], k=1, rng=0)
    assert few.intervals["tau_b"][0] < -0.5
    assert few.intervals["tau_b"][1] > 0.9


def test_there_is_no_interval_for_one_user_or_a_side_without_differences() -> None:
    one = order_agreement([[1.0], [2.0]], [[1.0], [2.0]])
    assert (dict(one.intervals), one.note) == ({}, "one user: no interval")
    equal = order_agreement(np.ones((3, 4)), np.arange(12.0).reshape(3, 4))
    assert not equal.intervals
    assert equal.note.endswith("no interval: all users have the same value for all recommenders of one side")


def test_noise_is_the_covariance_of_means_over_the_users_that_have_a_value() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(3, 40))
    assert compute_noise_covariance(values) == pytest.approx(np.cov(values) / 40)
    values[0, :10] = np.nan
    deviation = values[0, 10:] - values[0, 10:].mean()
    expected = (deviation**2).sum() / 30**2 * 40 / 39
    assert compute_noise_covariance(values)[0, 0] == pytest.approx(expected)


def condition(means: FloatArray, noise: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of true values: plain conditioning of normal vectors.

    An unknown mean of a side is a mean with a very large variance.
    """
    design = np.kron(np.eye(2), np.ones((means.size // 2, 1)))
    with_side_means = prior + 1e5 * design @ design.T
    gain = with_side_means @ np.linalg.inv(with_side_means + noise)
    return gain @ means, with_side_means - gain @ with_side_means


def make_true_value_model() -> TrueValueModel:
    rng = np.random.default_rng(4)
    root = rng.normal(size=(8, 8))
    return TrueValueModel.fit(rng.normal(size=8), root @ root.T / 40)


def build_one_prior(spreads: FloatArray, correlation: float) -> FloatArray:
    """The covariance of four pairs of true values, block by block."""
    covariance = correlation * spreads[0] * spreads[1]
    unit = np.eye(4)
    return np.block(
        [[spreads[0] ** 2 * unit, covariance * unit], [covariance * unit, spreads[1] ** 2 * unit]]
    )


def test_priors_are_the_covariances_of_pairs_of_true_values() -> None:
    spreads = np.array([[1.0, 2.0], [0.3, 0.1]])
    priors = build_priors(spreads, np.array([0.6, -0.2]), 4)
    assert priors[0] == pytest.approx(build_one_prior(spreads[0], 0.6))
    assert priors[1] == pytest.approx(build_one_prior(spreads[1], -0.2))


def test_the_likelihood_of_the_grid_is_the_one_of_a_normal_vector_with_unknown_means_of_both_sides() -> None:
    # A very large variance of the means of the sides multiplies all likelihoods by nearly the same number.
    model = make_true_value_model()
    design = np.kron(np.eye(2), np.ones((4, 1)))
    differences = []
    for row in (0, 40, 80):
        for column in (0, 7, 14):
            prior = build_one_prior(model.spreads[row], float(CORRELATIONS[column]))
            covariance = prior + model.noise + 1e6 * design @ design.T
            expected = multivariate_normal.logpdf(model.means, np.zeros(8), covariance)
            differences.append(model.log_likelihood[row, column] - expected)
            alone = compute_log_likelihood(model.means, model.noise, prior[None])
            assert alone == pytest.approx(model.log_likelihood[row, column])
    assert np.ptp(differences) < 1e-3


@pytest.mark.parametrize("max_block_elements", [1, 2**21])
def test_draws_at_one_point_have_the_mean_and_covariance_of_conditioning(
    max_block_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ipseval.studies.agreement._true_values.MAX_BLOCK_ELEMENTS", max_block_elements)
    model = make_true_value_model()
    point_of_weight = np.full(model.log_likelihood.shape, -np.inf)
    point_of_weight[50, 11] = 0.0
    model = replace(model, log_likelihood=point_of_weight)
    draws = np.concatenate(model.draw(40_000, np.random.default_rng(0)), axis=1)
    prior = build_one_prior(model.spreads[50], float(CORRELATIONS[11]))
    mean, covariance = condition(model.means, model.noise, prior)
    error = np.sqrt(np.diag(covariance) / 40_000)
    assert np.abs((draws.mean(axis=0) - mean) / error).max() < 4.5
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.abs((np.cov(draws.T) - covariance) / scale).max() < 4.5 * np.sqrt(2 / 40_000)


def test_draws_with_a_flat_prior_are_the_means_plus_noise() -> None:
    model = make_true_value_model()
    draws = np.concatenate(model.draw_with_flat_prior(40_000, np.random.default_rng(0)), axis=1)
    error = np.sqrt(np.diag(model.noise) / 40_000)
    assert np.abs((draws.mean(axis=0) - model.means) / error).max() < 4.5
    scale = np.sqrt(np.outer(np.diag(model.noise), np.diag(model.noise)))
    assert np.abs((np.cov(draws.T) - model.noise) / scale).max() < 4.5 * np.sqrt(2 / 40_000)


def test_draws_given_one_correlation_are_the_mixture_over_spreads_with_that_correlation() -> None:
    model = make_true_value_model()
    counts = np.zeros(CORRELATIONS.size, dtype=np.int64)
    counts[12] = 20_000
    a, b = model.draw_given_correlations(counts, np.random.default_rng(0))
    weight = np.exp(model.log_likelihood[:, 12] - model.log_likelihood[:, 12].max())
    expected = np.zeros(8)
    for share, spreads in zip(weight / weight.sum(), model.spreads, strict=True):
        prior = build_one_prior(spreads, float(CORRELATIONS[12]))
        expected += share * condition(model.means, model.noise, prior)[0]
    draws = np.concatenate([a, b], axis=1)
    assert draws.shape == (20_000, 8)
    assert np.abs(draws.mean(axis=0) - expected).max() < 5 * draws.std(axis=0).max() / np.sqrt(20_000)
    # The draws of two models are paired at random: the first half is not made by smaller spreads.
    halves = draws[:10_000].std(axis=0) / draws[10_000:].std(axis=0)
    assert halves == pytest.approx(1, abs=0.1)


def test_an_interval_reaches_from_the_lowest_to_the_highest_quantile_over_the_priors() -> None:
    agreement = order_agreement([1.0, 2.0, 3.0], [1.0, 3.0, 2.0], k=1)
    by_prior = [
        {"tau_b": np.array([0.0, 0.1, 0.2, 0.3, 0.4])},
        {"tau_b": np.array([-0.4, -0.3, 0.0, 0.1, 0.2])},
    ]
    result = add_intervals(agreement, by_prior, unit="users", n_units=7, level=0.5)
    assert result.intervals == {"tau_b": (-0.3, 0.3)}
    assert (result.unit, result.n_units, result.confidence_level) == ("users", 7, 0.5)


def test_far_recommenders_do_not_hide_that_the_others_are_shuffled() -> None:
    # Two far below keep their places; three close ones are in opposite true orders. tau = (10 - 2 * 3) / 10.
    rng = np.random.default_rng(5)
    true_a = np.array([0.500, 0.505, 0.510, 0.1, 0.0])
    true_b = np.array([0.510, 0.505, 0.500, 0.1, 0.0])
    common = rng.normal(size=200)
    a = true_a[:, None] + 0.1 * (common + rng.normal(size=(5, 200)))
    b = true_b[:, None] + 0.1 * (common + rng.normal(size=(5, 200)))
    low, high = order_agreement(a, b, rng=0).intervals["tau_b"]
    assert low <= 0.4 <= high


@pytest.mark.slow
@pytest.mark.parametrize("n_users", [100, 1000])
@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("far", [0.0, 0.2])
def test_intervals_contain_the_true_agreement_in_90_per_cent_of_simulations(
    far: float, n: int, n_users: int
) -> None:
    covered: list[bool] = []
    measured = []
    rng = np.random.default_rng([n, n_users])
    for step in (0.003, 0.01, 0.03):
        for _ in range(40):
            a, b, truth = simulate_values(n, n_users, step, rng, common=0.5, far=far)
            result = order_agreement(a, b, k=1, n_draws=400, rng=rng)
            measured.append(result.tau_b - truth.tau_b)
            for name in ("src", "tau_b", "ipc"):
                low, high = result.intervals[name]
                covered.append(low - 1e-9 <= truth.values[name] <= high + 1e-9)
    assert far or np.mean(measured) < -0.1  # what noise takes off, which a bootstrap doubles
    assert np.mean(covered) >= 0.9


def test_mean_over_data_sets_is_the_mean_with_an_interval_over_data_sets() -> None:
    sets = [
        order_agreement([1, 2, 3], values)
        for values in ([1, 2, 3], [1, 3, 2], [3, 2, 1], [2, 1, 3], [1, 2, 3])
    ]
    result = mean_agreement(sets, n_resamples=2000, rng=0)
    assert result.src == pytest.approx((1 + 0.5 - 1 + 0.5 + 1) / 5)
    assert result.ipc == pytest.approx((0 + 1 + 3 + 1 + 0) / 5)
    low, high = result.intervals["src"]
    # Five values with variance .54: standard error .33; 95 % bounds within the range of the values.
    assert -1 <= low < 0.4 < high <= 1
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.54 / 5), rel=0.2)
    assert (result.unit, result.n_units, result.note) == ("data sets", 5, "")
    draws = np.random.default_rng(0).integers(0, 5, (40, 5))
    mean = mean_agreement(sets, n_resamples=40, rng=0, confidence_level=0.8)
    for name, values in {"src": [1, 0.5, -1, 0.5, 1], "ipc": [0, 1, 3, 1, 0]}.items():
        expected = np.quantile(np.array(values)[draws].mean(axis=1), [0.1, 0.9])
        assert mean.intervals[name] == pytest.approx(expected)
    assert mean.confidence_level == 0.8
    assert mean_agreement(sets[:4], rng=0).note == "4 data sets: the interval is hardly informative"
    assert mean_agreement([*sets, *sets], rng=0).note == ""


def test_mean_over_data_sets_counts_undefined_ones() -> None:
    sets = [order_agreement([1, 2], [1, 2]), order_agreement([1, 1, 1], [1, 2, 3], k=1)]
    result = mean_agreement(sets, rng=0)
    assert (result.src, result.overlap[1], result.n_recommenders) == (1.0, (1 + 1 / 3) / 2, 3)
    assert result.note == (
        "src: 1 of 2 data sets left out (NaN); tau_b: 1 of 2 data sets left out (NaN); "
        "2 data sets: the interval is hardly informative"
    )
    assert result.intervals["or@1"] == pytest.approx((1 / 3, 1.0))
    assert result.intervals["src"] == (1.0, 1.0)  # of draws that have a defined one
    assert np.isnan(mean_agreement([sets[1], sets[1]], rng=0).src)
    alone = mean_agreement(sets[:1], rng=0)
    assert (dict(alone.intervals), alone.note) == ({}, "one data set: no interval")


BAD_CALLS = {
    "one recommender": (lambda: order_agreement([1], [1]), "at least two recommenders"),
    "other number": (lambda: order_agreement([1, 2], [1, 2, 3]), "a has 2 recommenders and b has 3"),
    "fewer": (lambda: order_agreement([1, 2, 3], [1, 2]), "a has 3 recommenders and b has 2"),
    "a cube": (lambda: order_agreement(np.ones((2, 2, 2)), [1, 2]), r"got shape \(2, 2, 2\)"),
    "a number": (lambda: order_agreement(3, [1, 2]), r"got shape \(\)"),
    "other names": (
        lambda: order_agreement({"x": 1, "y": 2}, {"x": 1, "z": 2}),
        r"1 are only in a \('y'\), 1 only in b \('z'\)",
    ),
    "fewer names": (
        lambda: order_agreement({"x": 1, "y": 2, "z": 3, "u": 4}, {"x": 1, "y": 2}),
        r"2 are only in a \('z', 'u'\), 0 only in b \(\)",
    ),
    "more names": (
        lambda: order_agreement({"x": 1, "y": 2}, {"x": 1, "y": 2, "z": 3}),
        r"0 are only in a \(\), 1 only in b \('z'\)",
    ),
    "missing without names": (
        lambda: order_agreement([1, 2, 3], [1, float("nan"), float("nan")]),
        r"2 of 3 values of b are NaN \(1, 2\)",
    ),
    "missing value": (
        lambda: order_agreement({"x": 1.0, "y": float("nan")}, {"x": 1, "y": 2}),
        r"1 of 2 values of a are NaN \('y'\)",
    ),
    "text": (lambda: order_agreement(["x", "y"], [1, 2]), "one number per recommender"),
    "k too large": (lambda: order_agreement([1, 2], [1, 2], k=[3]), "at most the number of recommenders, 2"),
    "k of zero": (lambda: order_agreement([1, 2], [1, 2], k=[0]), "integer >= 1"),
    "means against users": (lambda: order_agreement([1, 2], [[1, 2], [2, 1]]), "both per-user values"),
    "users against means": (lambda: order_agreement([[1, 2], [2, 1]], [1, 2]), "both per-user values"),
    "other users": (
        lambda: order_agreement(np.ones((2, 3)), np.ones((2, 4))),
        "a has 3 users and b has 4; give both over the same users",
    ),
    "fewer users": (lambda: order_agreement(np.ones((2, 4)), np.ones((2, 3))), "4 users and b has 3"),
    "no data sets": (lambda: mean_agreement([], rng=0), "at least one agreement"),
    "other measures": (
        lambda: mean_agreement(
            [order_agreement([1, 2], [1, 2], k=[1]), order_agreement([1, 2], [1, 2], k=[2])], rng=0
        ),
        "different measures",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_say_what_was_expected(name: str) -> None:
    call, text = BAD_CALLS[name]
    with pytest.raises(InputError, match=text):
        call()
