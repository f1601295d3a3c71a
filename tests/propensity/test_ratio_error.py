"""What each user moves the weights of a density ratio by, against fits that count it a little more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.inside.propensity import RIDGES, fit_slopes, slope_influence, user_weights
from tests.propensity.test_density_ratio import ratio, two_samples


@pytest.mark.parametrize(("n_exposed", "limit"), [(60, None), (20, 0.99)])
def test_the_influence_of_a_user_is_the_derivative_of_the_slopes_by_how_often_it_counts(n_exposed, limit):
    split, exposure = two_samples()
    problem = ratio(split, exposure.select(exposure.user < n_exposed), limit=limit).fit.problem
    sample, step = problem.sample, 1e-3

    def slopes(counts):
        weight = user_weights(sample.user, sample.kind, counts)
        models = fit_slopes(problem.x, sample.kind, weight, RIDGES, None)
        return sum(share * one.slope for share, one in zip(problem.ridge, models, strict=True))

    found = slope_influence(problem)
    for user in (3, 40):  # with exposure; with and without
        one = step * (np.arange(60) == user)
        expected = (slopes(1 + one) - slopes(1 - one)) / (2 * step)
        assert found[user] == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())


def test_the_change_of_the_propensity_is_that_of_a_refit_to_slightly_other_users():
    split, exposure = two_samples()
    found = ratio(split, exposure, limit=None, cross_fit=20)
    user, item = split.test.user, split.test.item
    step = 1e-4 * np.random.default_rng(0).normal(size=60)
    # Σ_u z_uj step_u along each axis. The models of the folds lack a twentieth of the users each.
    expected = found.error.change(user, item) @ (found.error.users.T @ step)
    change = np.log(found.fit.refit(1 + step).at(user, item) / found.at(user, item))
    change, expected = change - change.mean(), expected - expected.mean()  # P is known up to a factor
    assert np.corrcoef(change, expected)[0, 1] > 0.95
    assert np.sum(change * expected) / np.sum(expected**2) == pytest.approx(1, abs=0.1)


def test_the_change_of_a_clipped_propensity_is_zero_where_it_is_clipped():
    split, exposure = two_samples()
    found = ratio(split, exposure)
    user, item = split.test.user, split.test.item
    values = found.at(user, item)
    clipped = found.clip(floor=float(np.median(values)))
    low = values < np.median(values)
    change = clipped.error.change(user, item)
    assert not change[low].any()
    assert np.array_equal(change[~low], found.error.change(user, item)[~low])
