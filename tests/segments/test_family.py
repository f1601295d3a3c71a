"""Simultaneous levels and tests of equality against values from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ipseval.segments._family import equality_test, family_level, satterthwaite


def test_independent_groups_have_the_level_of_sidak_and_bonferroni_divides():
    assert family_level(np.eye(4), 0.05, "max-t") == pytest.approx(1 - 0.95**0.25)
    assert family_level(np.eye(4), 0.05, "bonferroni") == 0.0125
    assert family_level(np.eye(4), 0.05, None) == 0.05
    assert family_level(np.eye(1), 0.05, "max-t") == 0.05


def test_groups_that_are_one_need_no_correction_and_pairs_have_the_level_of_the_bivariate_normal():
    assert family_level(np.ones((3, 3)), 0.05, "max-t") == pytest.approx(0.05, abs=0.004)
    rho = 0.6
    covariance = np.array([[1.0, rho], [rho, 1.0]])
    level = family_level(covariance, 0.05, "max-t", n_draws=200_000)
    c = -stats.norm.ppf(level / 2)
    inside = stats.multivariate_normal(cov=covariance)
    both = inside.cdf([c, c]) - 2 * inside.cdf([c, -c]) + inside.cdf([-c, -c])
    assert both == pytest.approx(0.95, abs=0.002)


def test_groups_without_variance_do_not_count():
    covariance = np.diag([1.0, 0.0, 1.0])
    assert family_level(covariance, 0.05, "bonferroni") == 0.025


def test_two_independent_groups_are_tested_as_by_welch():
    rng = np.random.default_rng(0)
    one, two = rng.normal(0, 1, 12), rng.normal(0.5, 2, 30)
    variance = [x.var(ddof=1) / x.size for x in (one, two)]
    expected = stats.ttest_ind(one, two, equal_var=False)
    value, effective = np.array([one.mean(), two.mean()]), np.array([12.0, 30.0])
    statistic, first, second, p = equality_test(value, np.diag(variance), effective)
    assert (statistic, p) == pytest.approx((expected.statistic**2, expected.pvalue))
    assert (first, second) == pytest.approx((1.0, expected.df))
    assert satterthwaite(*map(np.array, variance), np.array(11.0), np.array(29.0)) == pytest.approx(
        expected.df
    )


def test_several_independent_groups_are_tested_as_by_welch():
    # Welch 1951: statsmodels' anova_oneway with unequal variances.
    from statsmodels.stats.oneway import anova_oneway

    rng = np.random.default_rng(1)
    groups = [rng.normal(0.2 * k, 1 + k, 10 + 5 * k) for k in range(4)]
    expected = anova_oneway(groups, use_var="unequal")
    value = np.array([x.mean() for x in groups])
    covariance = np.diag([x.var(ddof=1) / x.size for x in groups])
    statistic, _, second, p = equality_test(value, covariance, np.array([float(x.size) for x in groups]))
    assert (statistic, p, second) == pytest.approx((expected.statistic, expected.pvalue, expected.df_denom))


def test_groups_of_the_same_users_are_tested_by_hotelling():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(25, 3)) + rng.normal(size=(25, 1))
    contrast = x[:, 1:] - x[:, :1]
    mean, inner = contrast.mean(axis=0), np.cov(contrast.T) / 25
    square = float(mean @ np.linalg.solve(inner, mean))
    expected = stats.f.sf(square * (25 - 2) / (24 * 2), 2, 23)
    statistic, first, second, p = equality_test(x.mean(axis=0), np.cov(x.T) / 25, np.full(3, 25.0))
    assert (first, second, p) == pytest.approx((2.0, 23.0, expected))
    assert statistic == pytest.approx(square * 23 / 48)


def test_one_group_that_varies_leaves_nothing_to_test():
    assert np.isnan(equality_test(np.array([0.1, 0.2]), np.diag([1.0, 0.0]), np.array([9.0, 9.0]))).all()
