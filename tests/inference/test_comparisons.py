"""Paired differences, corrections over a family, and power."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import Claim, Estimate, UserSums
from ipseval.inference import compare
from tests.inside.estimators import Moments
from tests.inside.inference import (
    FEW,
    _compute_differences_by_products,
    _stack_common_effects,
    adjust_p_values,
    compute_detectable_difference,
    compute_pair_tests,
)


def make_estimate(numerator, denominator=None, users=None, metric="m", estimator="e") -> Estimate:
    numerator = np.asarray(numerator, dtype=float)
    denominator = np.ones(numerator.size) if denominator is None else np.asarray(denominator, dtype=float)
    users = np.arange(numerator.size) if users is None else np.asarray(users)
    return Estimate(metric, estimator, UserSums(users, numerator, denominator), 9, Claim("no guarantee", ""))


def key_estimates(**estimates: Estimate) -> dict[tuple[str, str, str], Estimate]:
    return {(name, estimate.metric, estimate.estimator): estimate for name, estimate in estimates.items()}


def test_the_test_of_a_mean_equals_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 30))
    row = compare(key_estimates(a=make_estimate(a), b=make_estimate(b))).iloc[0]
    reference = stats.ttest_rel(a, b)
    assert row["p_value"] == pytest.approx(reference.pvalue, rel=1e-10)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(reference.confidence_interval()), rel=1e-10)
    assert row["difference"] == pytest.approx(a.mean() - b.mean())
    assert row["effect_size"] == pytest.approx((a - b).mean() / (a - b).std(ddof=1))
    assert row["n_users"] == 30


def test_the_difference_of_ratios_uses_the_influence_of_both():
    # R_A = 6/4, R_B = 2/4; e = N − R D, ψ = e/D̄ with D̄ = 2.
    a = make_estimate([3, 3], [1, 3])
    b = make_estimate([1, 1], [1, 3])
    psi = (np.array([3 - 1.5, 3 - 4.5]) - np.array([1 - 0.5, 1 - 1.5])) / 2
    row = compare(key_estimates(a=a, b=b)).iloc[0]
    assert row["difference"] == pytest.approx(1.0)
    assert row["std_error"] == pytest.approx(np.sqrt(np.sum(psi**2) / 2))


def test_users_that_only_one_recommender_has_are_aligned_by_code():
    # A reads users 0, 1, B users 1, 2. ψ/n: A −.5/2, .5/2 on users 0, 1; B −1/2, 1/2 on users 1, 2.
    row = compare(
        key_estimates(a=make_estimate([0, 1], users=[0, 1]), b=make_estimate([1, 3], users=[1, 2]))
    ).iloc[0]
    z = np.array([-0.25, 0.25 + 0.5, -0.5])
    assert row["difference"] == pytest.approx(-1.5)
    assert row["n_users"] == 3
    assert row["std_error"] == pytest.approx(np.sqrt(1.5 * np.sum(z**2)))


def test_a_reference_restricts_the_pairs_and_no_reference_compares_all():
    rng = np.random.default_rng(2)
    estimates = key_estimates(**{name: make_estimate(rng.random(9)) for name in "abcd"})
    assert len(compare(estimates)) == 6
    with_reference = compare(estimates, reference="c")
    assert with_reference["model"].tolist() == ["a", "b", "d"]
    assert set(with_reference["reference"]) == {"c"}
    assert list(with_reference.columns) == [
        *("metric", "estimator", "model", "reference", "difference", "std_error", "ci_low", "ci_high"),
        *("p_value", "p_adjusted", "effect_size", "minimum_detectable_difference", "n_users"),
        *("n_users_needed", "note"),
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"), [("holm", "holm"), ("bh", "fdr_bh"), ("bonferroni", "bonferroni")]
)
@pytest.mark.parametrize("size", [1, 2, 30])
def test_corrections_equal_statsmodels(ours, theirs, size, monkeypatch):
    monkeypatch.setattr("gc.collect", lambda *_: 0)  # its Holm calls it, which takes seconds
    p = np.random.default_rng(size).random(size).round(2) ** 2
    expected = multipletests(p, method=theirs)[1]
    frame = pd.DataFrame({"p_value": p})
    assert adjust_p_values(frame, ours, []) == pytest.approx(expected, rel=1e-12)
    assert adjust_p_values(frame, None, []).tolist() == p.tolist()


def test_the_family_determines_which_tests_are_corrected_together():
    rng = np.random.default_rng(3)
    estimates = {
        (model, metric, estimator): make_estimate(rng.random(20), metric=metric, estimator=estimator)
        for model in "ab"
        for metric in ("m1", "m2")
        for estimator in ("e1", "e2", "e3")
    }
    by_cell, estimator, by_table = (
        compare(estimates, correction="bonferroni", family=family) for family in ("cell", "estimator", "all")
    )
    raw = by_cell["p_value"].to_numpy()
    assert by_cell["p_adjusted"].to_numpy() == pytest.approx(raw)
    assert estimator["p_adjusted"].to_numpy() == pytest.approx(np.minimum(1, 2 * raw))
    assert by_table["p_adjusted"].to_numpy() == pytest.approx(np.minimum(1, 6 * raw))


def test_rounding_differences_count_as_zero_among_many_recommenders():
    values = 1e3 * np.random.default_rng(5).random((FEW + 1, 9))
    values[1] = values[0] + np.tile([1e-13, -1e-13, 0], 3)
    tests = compute_pair_tests(
        key_estimates(**{f"m{number}": make_estimate(row) for number, row in enumerate(values)})
    )["m", "e"]
    assert tests.of("m0", "m1") == (0.0, 1.0)
    assert 0 < tests.of("m0", "m2")[1] <= 1
    assert tests.of("m0", "m2")[0] == pytest.approx(values[0].mean() - values[2].mean())


def test_errors_of_nearly_equal_recommenders_keep_their_digits_among_many():
    rng = np.random.default_rng(5)
    values = 1e3 * rng.random((FEW + 1, 9))
    values[1] = values[0] + 1e-4 * rng.random(9)
    estimates = [make_estimate(row) for row in values]
    _, error, _ = _compute_differences_by_products(estimates, _stack_common_effects(estimates))
    difference = values[1] - values[0]
    assert error[0, 1] == pytest.approx(difference.std(ddof=1) / 3, rel=1e-6)


def test_undefined_estimates_stay_nan_and_do_not_count_in_the_family():
    estimates = key_estimates(a=make_estimate([1, 2, 4]), b=make_estimate([0, 0, 0]), c=make_estimate([]))
    frame = compare(estimates, correction="bonferroni").set_index(["model", "reference"])
    row = frame.loc[("a", "c")]
    assert np.isnan(row["p_value"])
    assert np.isnan(row["p_adjusted"])
    assert "undefined" in row["note"]
    assert frame.loc[("a", "b"), "p_adjusted"] == frame.loc[("a", "b"), "p_value"]


def test_identical_recommenders_are_reported_as_equal():
    row = compare(key_estimates(a=make_estimate([1, 2, 4]), b=make_estimate([1, 2, 4]))).iloc[0]
    assert (row["difference"], row["p_value"], row["note"]) == (0, 1, "the same for every user")
    assert math.isinf(row["n_users_needed"])


@pytest.mark.parametrize("n", [20, 50, 200, 5000])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_minimum_detectable_difference_equals_statsmodels(n, power):
    exact = TTestPower().solve_power(nobs=n, alpha=0.05, power=power)
    assert compute_detectable_difference(1.0, n, 0.1, power=power)[0] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("effect", [0.05, 0.2, 0.5])
def test_the_number_of_users_needed_equals_statsmodels(effect):
    exact = TTestPower().solve_power(effect_size=effect, alpha=0.05, power=0.8)
    assert abs(compute_detectable_difference(1.0, 9, effect)[1] - exact) <= 1.5


def test_users_needed_for_the_minimum_detectable_difference_are_the_present_users():
    estimates = key_estimates(
        a=make_estimate(np.random.default_rng(0).random(100)), b=make_estimate(np.zeros(100))
    )
    smallest = compare(estimates)["minimum_detectable_difference"].iloc[0]
    again = compare(estimates, difference=float(smallest))["n_users_needed"].iloc[0]
    assert again == pytest.approx(100, abs=1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"reference": "bpm"}, UnknownNameError, "bpr"),
        ({"correction": "bonf"}, UnknownNameError, "bonferroni"),
        ({"family": "row"}, UnknownNameError, "estimator"),
        ({"power": 1.0}, InputError, "power must be in"),
        ({"difference": 0.0}, InputError, "must not be 0"),
        (
            {"estimates": key_estimates(als=make_estimate([1, 2]))},
            InputError,
            "at least two recommenders; got 1",
        ),
    ],
)
def test_invalid_options_raise_errors_that_name_them(options, error, words):
    with pytest.raises(error, match=words):
        compare(
            **{"estimates": key_estimates(als=make_estimate([1, 2]), bpr=make_estimate([2, 3])), **options}
        )


def test_moments_of_users_cannot_be_paired_with_sums_of_users():
    values = np.array([0.0, 0.2, 0.5, 0.9])
    users = UserSums.of(np.arange(4), values)
    moments = Moments.of([users, UserSums.of(np.arange(4), values[::-1])]).members()[0]
    estimates = {
        (name, "m", "e"): Estimate("m", "e", sums, 4, Claim("biased"))
        for name, sums in {"users": users, "moments": moments}.items()
    }
    for reference in ("users", "moments"):
        with pytest.raises(InputError, match="only moments of the users were kept"):
            compare(estimates, reference=reference)
