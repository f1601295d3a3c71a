"""Simultaneous levels and tests of two groups against values from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.inside.evaluation import family_level, gap_error, reach, satterthwaite, t_test


def test_independent_groups_have_the_level_of_sidak():
    assert family_level(np.eye(4), 0.05) == pytest.approx(1 - 0.95**0.25)
    assert family_level(np.eye(1), 0.05) == 0.05


def test_groups_that_are_one_need_no_correction_and_pairs_have_the_level_of_the_bivariate_normal():
    assert family_level(np.ones((3, 3)), 0.05) == pytest.approx(0.05, abs=0.004)
    rho = 0.6
    covariance = np.array([[1.0, rho], [rho, 1.0]])
    level = family_level(covariance, 0.05, n_draws=200_000)
    c = -stats.norm.ppf(level / 2)
    inside = stats.multivariate_normal(cov=covariance)
    both = inside.cdf([c, c]) - 2 * inside.cdf([c, -c]) + inside.cdf([-c, -c])
    assert both == pytest.approx(0.95, abs=0.002)


def test_groups_without_variance_do_not_count():
    covariance = np.diag([1.0, 0.0, 1.0])
    assert family_level(covariance, 0.05) == pytest.approx(1 - 0.95**0.5)


def test_two_independent_groups_are_tested_as_by_welch():
    rng = np.random.default_rng(0)
    one, two = rng.normal(0, 1, 12), rng.normal(0.5, 2, 30)
    variance = [x.var(ddof=1) / x.size for x in (one, two)]
    expected = stats.ttest_ind(one, two, equal_var=False)
    freedom = satterthwaite(*map(np.array, variance), np.array(11.0), np.array(29.0))
    assert freedom == pytest.approx(expected.df)
    found = t_test(one.mean() - two.mean(), np.sqrt(sum(variance)), freedom)
    assert found == pytest.approx(expected.pvalue)


def test_a_difference_to_a_group_whose_users_are_alike_has_no_error():
    one, two, both = np.array([0.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0]), np.array([0.0, 0.5, 1.0])
    assert gap_error(one, two, both).tolist() == [0.0, np.sqrt(2), 0.0]


def test_an_interval_of_a_group_is_as_much_wider_as_halls_expansion_says():
    # z = 1.96, (z⁴ + 2z² − 3)/18 = (14.757 + 7.683 − 3)/18 = 1.0800 and (z² − 3)/12 = .8415/12 = .07012.
    tails = np.array([[0.5], [0.1], [1.2]])
    wide = stats.t.ppf(0.975, 19) + 1.95996 * (0.5 * 1.0800 - 0.1 * 0.07012)
    assert reach(np.array([2.0]), np.array([20.0]), 0.05, tails) == pytest.approx([2 * 1.2 * wide], rel=1e-4)
