"""Simultaneous levels and tests of two groups against values from elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.inside.evaluation import (
    SegmentCell,
    _describe_differences,
    _describe_gaps,
    compute_gap,
    family_level,
    gap_error,
    interval_half_width,
    power_sums,
    satterthwaite,
    skewness_terms,
    t_test,
)


def test_independent_groups_have_the_level_of_sidak():
    assert family_level(np.eye(4), 0.05) == pytest.approx(1 - 0.95**0.25)
    assert family_level(np.eye(1), 0.05) == 0.05
    assert family_level(np.diag([4.0, 1e-9]), 0.05) == pytest.approx(1 - 0.95**0.5)
    for n in range(2, 7):  # drawn, and still no less than Bonferroni's
        assert 0.05 / n <= family_level(np.eye(n) + 1e-6, 0.05) <= 0.05


def test_groups_that_are_one_need_no_correction_and_pairs_have_the_level_of_the_bivariate_normal():
    assert family_level(np.ones((3, 3)), 0.05) == pytest.approx(0.05, abs=0.004)
    rho = 0.6
    covariance = np.array([[1.0, rho], [rho, 1.0]])
    level = family_level(covariance, 0.05, n_draws=200_000)
    scaled = covariance * np.outer([2.0, 0.1], [2.0, 0.1])
    assert family_level(scaled, 0.05, n_draws=200_000) == pytest.approx(level, rel=1e-9)
    c = -stats.norm.ppf(level / 2)
    inside = stats.multivariate_normal(cov=covariance)
    joint = inside.cdf([c, c]) - 2 * inside.cdf([c, -c]) + inside.cdf([-c, -c])
    assert joint == pytest.approx(0.95, abs=0.002)


def test_groups_without_variance_do_not_count():
    covariance = np.diag([1.0, 0.0, 1.0])
    assert family_level(covariance, 0.05) == pytest.approx(1 - 0.95**0.5)


def test_two_independent_groups_are_tested_as_by_welch():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, 12), rng.normal(0.5, 2, 30)
    variance = [x.var(ddof=1) / x.size for x in (first, second)]
    expected = stats.ttest_ind(first, second, equal_var=False)
    freedom = satterthwaite(*map(np.array, variance), np.array(11.0), np.array(29.0))
    assert freedom == pytest.approx(expected.df)
    actual = t_test(first.mean() - second.mean(), np.sqrt(sum(variance)), freedom)
    assert actual == pytest.approx(expected.pvalue)


def test_a_difference_to_a_group_whose_users_are_alike_has_no_error():
    first, second, joint = np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0]), np.array([0.0, 0.5, 1.0])
    for pair in ((first, second), (second, first)):
        assert gap_error(*pair, joint).tolist() == [0.0, np.sqrt(2), 0.0]
    assert gap_error(np.array([0.1]), np.array([0.1]), np.array([0.1 - 1e-16])).tolist() == [0.0]
    assert gap_error(1e-14 * first, 1e-14 * second, 1e-14 * joint) == pytest.approx(
        [0.0, 1e-7 * np.sqrt(2), 0.0]
    )


def test_an_interval_of_a_group_is_as_much_wider_as_halls_expansion_says():
    # z = 1.96, (z⁴ + 2z² − 3)/18 = (14.757 + 7.683 − 3)/18 = 1.0800 and (z² − 3)/12 = .8415/12 = .07012.
    tails = np.array([[0.5], [0.1], [1.2]])
    wide = stats.t.ppf(0.975, 19) + 1.95996 * (0.5 * 1.0800 - 0.1 * 0.07012)
    assert interval_half_width(np.array([2.0]), np.array([20.0]), 0.05, tails) == pytest.approx(
        [2 * 1.2 * wide], rel=1e-4
    )


def test_without_skewness_an_interval_is_that_of_student_and_never_narrower():
    error, users = np.array([2.0, 0.0, np.nan]), np.array([20.0, 20.0, 20.0])
    student = 2 * stats.t.ppf(0.975, 19)
    assert interval_half_width(error, users, 0.05) == pytest.approx([student, np.nan, np.nan], nan_ok=True)
    for tails in ([[0.0], [0.5], [0.5]], [[np.nan], [np.nan], [np.nan]]):
        assert interval_half_width(error[:1], users[:1], 0.05, np.array(tails)) == pytest.approx([student])
    few = interval_half_width(np.ones(3), np.array([1.0, 2.0, 3.0]), 0.05)
    assert few == pytest.approx(stats.t.ppf(0.975, [1, 1, 2]))


def test_shape_and_unevenness_are_those_of_the_residuals_of_users():
    """γ²/n, κ/n and the factor from e = N − R·D itself; the second group has users who are all alike."""
    rng = np.random.default_rng(0)
    top, low = rng.exponential(size=(2, 3, 12))
    top[1] = 0.23 * low[1]
    low[2, 1:] *= 1e-3  # one user has nearly all of the weight
    total, n = low.sum(axis=1), np.full(3, 12.0)
    ratio = top.sum(axis=1) / total
    actual = skewness_terms(power_sums(top, low), total, ratio, n)
    for row in (0, 2):
        e, d = top[row] - ratio[row] * low[row], low[row]
        even = (d**2).sum() / d.sum() ** 2
        lost = 1 - 2 * (d**3).sum() / (d.sum() * (d**2).sum()) + even
        expected = [
            (e**3).sum() ** 2 / (e**2).sum() ** 3,
            (e**4).sum() / (e**2).sum() ** 2 - 3 * even,
            np.sqrt(11 / 12 / max(lost, 0.1)),
        ]
        assert (lost < 0.1) == (row == 2)
        assert actual[:, row] == pytest.approx(expected, rel=1e-9)
    assert np.isnan(actual[:2, 1]).all()
    for scale in (1e-6, 1e6):  # whatever the unit of weights
        computed = skewness_terms(power_sums(scale * top, scale * low), scale * total, ratio, n)
        assert computed == pytest.approx(actual, rel=1e-9, nan_ok=True)


def test_equal_recommenders_have_no_error_of_their_lead_however_small_variances_are():
    value, none = np.array([[0.5, 0.5], [0.25, 0.5]]), np.zeros((2, 2))
    joint = 1e-14 * np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1.0]])
    cell = SegmentCell(
        *(value, none, none, none, np.zeros((3, 2, 2)), joint, none[0], none[0], none[0]),
        *(((), ()), ((), ()), none > 0, True),
    )
    gap, covariance = cell.lead(0, 1)
    assert gap.tolist() == [0.25, 0.0]
    assert covariance == pytest.approx(np.diag([2e-14, 0]), rel=1e-9, abs=0)
    # What rounding leaves of a variance is none either.
    rounded = joint + np.diag([0, 0, 0, 1e-29])
    assert replace(cell, covariance=rounded).lead(0, 1)[1][1].tolist() == [0, 0]
    for is_hidden in ([[True, False], [False, False]], [[False, False], [True, False]]):
        gap, covariance = replace(cell, suppressed=np.array(is_hidden)).lead(0, 1)
        assert gap.tolist() == pytest.approx([np.nan, 0.0], nan_ok=True)
        assert not covariance.any()


def test_a_difference_is_tested_in_either_direction_with_one_degree_of_freedom_at_least():
    actual = t_test(
        np.array([0.4, -0.4, 0.0, 0.0, 0.4]), np.array([0.2, 0.2, 0.2, 0.0, 0.0]), np.full(5, 9.0)
    )
    p_value = 2 * stats.t.sf(2, 9)
    assert actual == pytest.approx([p_value, p_value, 1.0, 1.0, np.nan], nan_ok=True)
    assert t_test(np.array([0.4]), np.array([0.2]), np.array([0.5])) == pytest.approx(2 * stats.t.sf(2, 1))
    variance = np.array([1.0])
    # Degrees of freedom below 1 count as 1: (1 + 1)²/(1/1 + 1/4) = 3.2.
    assert satterthwaite(variance, variance, np.array([0.5]), np.array([4.0])) == pytest.approx([3.2])
    assert satterthwaite(variance, variance, np.array([4.0]), np.array([0.5])) == pytest.approx([3.2])


def test_differences_of_rounding_are_none():
    first, second = np.array([0.1 + 0.2, 0.3, 0.5, -0.5]), np.array([0.3, 0.1 + 0.2, 0.25, 0.5])
    assert compute_gap(first, second).tolist() == [0.0, 0.0, 0.25, -1.0]
    assert compute_gap(np.array([1e-20]), np.array([0.0])).tolist() == [1e-20]
    assert compute_gap(1e-9 * first, 1e-9 * second)[:2].tolist() == [0.0, 0.0]


def test_groups_and_leads_are_told_below_5_percent():
    gaps = pd.DataFrame({"model": list("abcd"), "p_adjusted": [0.05, 0.049, 0.3, np.nan]})
    assert _describe_gaps(gaps, list("abcd")) == [
        "At least one difference between groups is statistically significant (p < 0.05, Holm) for b.",
        "No difference between groups is statistically significant (p ≥ 0.05, Holm) for a and c.",
    ]
    columns = ["model", "reference", "group", "difference", "p_adjusted"]
    rows = [
        *(("a", "b", "x", 0.2, 0.01), ("a", "b", "y", -0.2, 0.01), ("a", "b", "z", 0.1, 0.05)),
        *(("c", "a", "x", -0.2, 0.01), ("c", "a", "y", -0.2, 0.01), ("c", "a", "z", -0.2, 0.01)),
        *(("a", "d", "x", 0.2, 0.3), ("a", "d", "y", 0.0, 0.01), ("a", "d", "z", np.nan, np.nan)),
        *(("b", "c", "x", 0.9, 0.01), ("b", "c", "y", 0.9, 0.01), ("b", "c", "z", 0.9, 0.01)),
    ]
    assert _describe_differences(pd.DataFrame(rows, columns=columns), list("abcd")) == [
        "a has higher values than b in x and lower values in y: statistically significant (p < 0.05, Holm).",
        "a has higher values than c in every group: statistically significant (p < 0.05, Holm).",
        "In no group is the difference of a from d statistically significant (p ≥ 0.05, Holm).",
    ]
