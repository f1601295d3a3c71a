"""Paired differences, corrections over a family, and power."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import ndtri
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import Claim, Estimate, Note, UserSums
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
    assert tests.get_difference_and_p_value("m0", "m1") == (0.0, 1.0)
    assert 0 < tests.get_difference_and_p_value("m0", "m2")[1] <= 1
    assert tests.get_difference_and_p_value("m0", "m2")[0] == pytest.approx(
        values[0].mean() - values[2].mean()
    )


def test_errors_of_nearly_equal_recommenders_keep_their_digits_among_many():
    rng = np.random.default_rng(5)
    values = 1e3 * rng.random((FEW + 1, 9))
    values[1] = values[0] + 1e-4 * rng.random(9)
    estimates = [make_estimate(row) for row in values]
    _, error, _ = _compute_differences_by_products(estimates, _stack_common_effects(estimates))
    difference = values[1] - values[0]
    assert error[0, 1] == pytest.approx(difference.std(ddof=1) / 3, rel=1e-6)
    assert (np.diag(error) == 0).all()


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


def test_the_power_of_a_hand_worked_case():
    # z of 97.5% is 1.959964 and z of 80% 0.841621, together 2.801585; z²/2 = 1.920729 and √8.079271 = 2.842406.
    smallest, n_needed = compute_detectable_difference(2.0, 10, 0.2)
    assert smallest == pytest.approx(2 * 2.801585 / 2.842406, rel=1e-6)
    assert n_needed == 787  # (2.801585 · 2/0.2)² = 784.888, and 1.921
    # At level 0.5, z is 0.674490, so z²/2 is 0.227468.
    smallest, n_needed = compute_detectable_difference(1.0, 9, -0.5, level=0.5, power=0.9)
    assert smallest == pytest.approx((0.674490 + 1.281552) / np.sqrt(9 - 0.227468), rel=1e-6)
    assert n_needed == 16  # 3.912084² = 15.304, and 0.227


@pytest.mark.parametrize(("excess", "is_defined"), [(0.99, False), (1.0, True), (1.01, True), (1.99, True)])
def test_the_smallest_difference_needs_one_user_beyond_the_correction(excess, is_defined):
    correction = float(ndtri(0.975)) ** 2 / 2
    smallest, _ = compute_detectable_difference(1.0, excess + correction, 0.1)
    assert np.isnan(smallest) != is_defined


def test_users_needed_are_two_at_least_and_infinitely_many_for_no_difference():
    assert compute_detectable_difference(1.0, 9, 100.0, level=0.5)[1] == 2.0
    assert compute_detectable_difference(1.0, 9, 0.0)[1] == np.inf
    assert np.isnan(compute_detectable_difference(np.nan, 9, 0.0)).all()


def test_a_difference_that_is_the_same_for_every_user_has_no_effect_size():
    row = compare(key_estimates(a=make_estimate([2, 3, 5]), b=make_estimate([1, 2, 4]))).iloc[0]
    assert (row["difference"], row["std_error"], row["p_value"]) == (1.0, 0.0, 0.0)
    assert (row["ci_low"], row["ci_high"], row["minimum_detectable_difference"]) == (1.0, 1.0, 0.0)
    assert np.isnan(row["effect_size"])
    assert row["note"] == "the same difference for every user"
    swapped_row = compare(key_estimates(b=make_estimate([1, 2, 4]), a=make_estimate([2, 3, 5]))).iloc[0]
    assert (swapped_row["difference"], swapped_row["p_value"]) == (-1.0, 0.0)


@pytest.mark.parametrize(("n_users", "is_tested"), [(1, False), (2, True)])
def test_a_test_needs_two_users(n_users, is_tested):
    estimates = key_estimates(a=make_estimate([1, 4][:n_users]), b=make_estimate([0, 1][:n_users]))
    row = compare(estimates).iloc[0]
    assert row["n_users"] == n_users
    assert row["difference"] == (2.0 if is_tested else 1.0)
    columns = ["std_error", "ci_low", "ci_high", "p_value", "minimum_detectable_difference"]
    assert row[columns[:-1]].isna().all() != is_tested
    assert row["note"] == ("" if is_tested else "undefined: an estimate or its error is NaN")


@pytest.mark.parametrize("few", [2, FEW])  # by products of all at once, and pair by pair
def test_tests_of_all_pairs_worked_by_hand(few, monkeypatch):
    monkeypatch.setattr("ipseval.inference.comparisons.FEW", few)
    # Differences to b: 1 ± 1 of two users each, so the error is √(4/(4·3)); those of c are 3 for all users.
    b = np.array([1.0, 5.0, 2.0, 8.0])
    a = b + np.array([0, 2, 2, 0])
    estimates = key_estimates(a=make_estimate(a), b=make_estimate(b), c=make_estimate(b - 3))
    tests = compute_pair_tests(estimates)["m", "e"]
    p = 2 * stats.t.sf(1 / np.sqrt(1 / 3), 3)
    p_of_a_and_c = 2 * stats.t.sf(4 / np.sqrt(1 / 3), 3)
    # Holm: the smallest p-value, 0, three times, then twice, then once.
    assert tests.get_difference_and_p_value("a", "b") == (pytest.approx(1.0), pytest.approx(p))
    assert tests.get_difference_and_p_value("b", "a") == (pytest.approx(-1.0), pytest.approx(p))
    assert tests.get_difference_and_p_value("a", "c") == (pytest.approx(4.0), pytest.approx(2 * p_of_a_and_c))
    assert tests.get_difference_and_p_value("b", "c") == (pytest.approx(3.0), 0.0)
    assert np.isnan(
        [
            *tests.get_difference_and_p_value("a", "a"),
            *tests.get_difference_and_p_value("a", "no"),
            *tests.get_difference_and_p_value("no", "a"),
        ]
    ).all()
    significant = tests.is_significant(["c", "a", "b"], 2.5 * p_of_a_and_c)
    assert significant.tolist() == [[False, True, True], [True, False, False], [True, False, False]]
    assert not tests.is_significant(["a", "b"], p).any()  # below the level, not at it


@pytest.mark.parametrize(("change", "is_common"), [({}, True), ({"users": [0, 1, 3]}, False)])
def test_effects_are_stacked_where_all_estimates_have_the_same_users(change, is_common):
    estimates = [make_estimate([1, 2, 6]), make_estimate([0, 3, 3], **change)]
    effects = _stack_common_effects(estimates)
    assert (effects is not None) == is_common
    if is_common:
        np.testing.assert_allclose(effects, [[-2 / 3, -1 / 3, 1], [-2 / 3, 1 / 3, 1 / 3]])


@pytest.mark.parametrize("few", [1, FEW])
def test_recommenders_of_one_user_differ_without_a_test(few, monkeypatch):
    monkeypatch.setattr("ipseval.inference.comparisons.FEW", few)
    tests = compute_pair_tests(key_estimates(a=make_estimate([1.0]), b=make_estimate([3.0])))["m", "e"]
    assert tests.get_difference_and_p_value("a", "b") == (-2.0, pytest.approx(np.nan, nan_ok=True))


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
    users = UserSums.from_values(np.arange(4), values)
    moments = Moments.from_user_sums([users, UserSums.from_values(np.arange(4), values[::-1])]).members()[0]
    estimates = {
        (name, "m", "e"): Estimate("m", "e", sums, 4, Claim("biased"))
        for name, sums in {"users": users, "moments": moments}.items()
    }
    for reference in ("users", "moments"):
        with pytest.raises(InputError, match="only moments of the users were kept"):
            compare(estimates, reference=reference)


SHORT = Note.create("short_lists", n=2, n_all=9, cutoff=5)
MISSING = Note.create("no_list", n=3, n_all=9, units="users")


@pytest.mark.parametrize(
    ("notes", "opponent_notes", "note"),
    [
        ((), (), ""),
        ((SHORT,), (), f"a: {SHORT}"),
        ((), (SHORT,), f"b: {SHORT}"),
        ((SHORT,), (SHORT,), str(SHORT)),
        ((SHORT, MISSING), (MISSING,), f"a: {SHORT}; {MISSING}"),
    ],
)
def test_notes_on_lists_name_the_recommender_unless_both_have_them(notes, opponent_notes, note):
    a = replace(make_estimate([1, 2, 4]), list_notes=notes)
    b = replace(make_estimate([2, 3, 2]), list_notes=opponent_notes)
    assert compare(key_estimates(a=a, b=b))["note"].item() == note


def test_moments_of_users_are_paired_as_their_sums_are():
    rng = np.random.default_rng(1)
    sums = [UserSums.from_values(np.arange(8), rng.random(8)) for _ in range(3)]
    merged_sums = Moments.from_user_sums(sums).members()
    frames = [
        compare({(name, "m", "e"): Estimate("m", "e", part, 8, Claim("biased")) for name, part in parts})
        for parts in (zip("abc", sums, strict=True), zip("abc", merged_sums, strict=True))
    ]
    columns = ["difference", "std_error", "p_adjusted", "n_users", "n_users_needed"]
    np.testing.assert_allclose(frames[1][columns], frames[0][columns], rtol=1e-10)
    assert frames[0]["p_adjusted"].notna().all()


def test_the_defaults_of_compare_are_holm_within_each_cell_at_95_percent():
    rng = np.random.default_rng(7)
    estimates = {
        (model, metric, "e"): make_estimate(rng.random(12), metric=metric)
        for model in "abc"
        for metric in ("m1", "m2")
    }
    frame = compare(estimates)
    options = {"correction": "holm", "family": "cell", "confidence_level": 0.95, "power": 0.8}
    pd.testing.assert_frame_equal(frame, compare(estimates, **options))
    for _, part in frame.groupby("metric"):
        p = np.sort(part["p_value"].to_numpy())
        adjusted = np.minimum(1, [3 * p[0], max(3 * p[0], 2 * p[1]), max(3 * p[0], 2 * p[1], p[2])])
        np.testing.assert_allclose(np.sort(part["p_adjusted"]), adjusted)
    row = frame.iloc[0]
    half_width = stats.t.ppf(0.975, 11) * row["std_error"]
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * half_width)
    deviation = row["std_error"] * np.sqrt(12)
    expected = compute_detectable_difference(deviation, 12, row["difference"], level=0.05, power=0.8)
    assert (row["minimum_detectable_difference"], row["n_users_needed"]) == pytest.approx(expected)


def test_the_complement_of_the_level_and_the_power_enter_the_detectable_difference():
    rng = np.random.default_rng(8)
    estimates = key_estimates(a=make_estimate(rng.random(30)), b=make_estimate(rng.random(30)))
    row = compare(estimates, confidence_level=0.9, power=0.7, difference=-0.2).iloc[0]
    deviation = row["std_error"] * np.sqrt(30)
    expected = compute_detectable_difference(deviation, 30, -0.2, level=0.1, power=0.7)
    assert (row["minimum_detectable_difference"], row["n_users_needed"]) == pytest.approx(expected)
    assert row["effect_size"] == pytest.approx(row["difference"] / deviation)


@pytest.mark.parametrize(("difference", "p_value"), [(1e-17, 1.0), (1e-3, 0.0)])
def test_a_difference_within_rounding_is_no_difference(difference, p_value):
    values = np.array([1.0, 2.0, 4.0])
    row = compare(key_estimates(a=make_estimate(values + difference), b=make_estimate(values))).iloc[0]
    assert row["p_value"] == p_value


@pytest.mark.parametrize("few", [2, FEW])
@pytest.mark.parametrize(("noise", "is_rounding"), [(1e-11, False), (1e-14, True)])
def test_small_differences_above_rounding_are_tested(few, noise, is_rounding, monkeypatch):
    monkeypatch.setattr("ipseval.inference.comparisons.FEW", few)
    rng = np.random.default_rng(6)
    values = 1 + rng.random(40)
    rows = {"a": values + noise * rng.random(40), "b": values, "c": 2 * values}
    tests = compute_pair_tests(key_estimates(**{k: make_estimate(v) for k, v in rows.items()}))["m", "e"]
    gap, p_value = tests.get_difference_and_p_value("a", "b")
    if is_rounding:
        assert (gap, p_value) == (0.0, 1.0)
    else:
        assert gap == pytest.approx(noise / 2, rel=0.2)
        assert 0 < p_value < 1e-6
