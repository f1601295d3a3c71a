"""Influence of each user on the weights of a density ratio, against fits with slightly changed counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from ipseval.propensity import FitError
from tests.inside.propensity import (
    BIASED,
    RANDOM,
    RIDGES,
    UNIFORM,
    CrossFittedOdds,
    PairSample,
    RatioRegression,
    compute_ridge_weights,
    compute_slope_influence,
    compute_user_weights,
    compute_weighted_auc,
    fit_odds_slopes,
    fit_slopes,
)
from tests.propensity.test_density_ratio import fit_ratio, make_samples


@pytest.mark.parametrize(("n_exposed", "limit"), [(60, None), (20, 0.99)])
def test_the_influence_of_a_user_is_the_derivative_of_the_slopes_by_how_often_it_counts(n_exposed, limit):
    split, exposure = make_samples()
    problem = fit_ratio(split, exposure.select(exposure.user < n_exposed), limit=limit).fit.problem
    sample = problem.sample
    step = 1e-3

    def slopes(counts):
        weight = compute_user_weights(sample.user, sample.kind, counts)
        models = fit_slopes(problem.x, sample.kind, weight, RIDGES, None)
        return sum(share * model.slope for share, model in zip(problem.ridge_weights, models, strict=True))

    influence = compute_slope_influence(problem)
    for user in (3, 40):  # with exposure; with and without
        user_counts = step * (np.arange(60) == user)
        expected = (slopes(1 + user_counts) - slopes(1 - user_counts)) / (2 * step)
        assert influence[user] == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())


def test_a_newton_step_without_a_user_approximates_the_fit_without_that_user():
    rng = np.random.default_rng(5)
    kind = np.repeat([BIASED, RANDOM, UNIFORM], 30)
    user = np.where(kind == RANDOM, np.arange(90) % 28, -1)  # of 28 users two have two random positives
    x = rng.normal(size=(90, 2)) + 0.5 * (kind == RANDOM)[:, None]
    weight = rng.uniform(0.5, 2, 90)
    samples = RatioRegression.from_pairs(x, kind, weight, np.array([1.0, -0.5]))
    ridge = 3.0
    sums = [weight[kind == sample_kind].sum() for sample_kind in (RANDOM, BIASED)]
    for rows in (samples.is_random, ~samples.is_random):
        assert samples.weight[rows].sum() == pytest.approx(2 / (1 / sums[0] + 1 / sums[1]))
    y = np.where(kind[kind != UNIFORM] == RANDOM, 1, -1)
    precision = [1e-3, 1 / 0.3**2, ridge, ridge]  # as the documentation has it, around (0, .4, 0, 0)

    assert samples.precision(ridge) == pytest.approx(precision)

    def slopes(excluded_user):
        keep = user[kind != UNIFORM] != excluded_user

        def loss(b):
            losses = np.logaddexp(0, -y * (samples.design @ b))
            return (samples.weight * losses)[keep].sum() + precision @ (b - [0, 0.4, 0, 0]) ** 2 / 2

        best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7}).x
        return best, best[2:] - best[1] * np.array([1.0, -0.5])

    fit, slope = slopes(None)
    assert samples.fit_ridges((ridge,))[0] == pytest.approx(fit, abs=1e-5)
    changes = samples.fit_without_users(fit, ridge, user[kind != UNIFORM], 28) - slope
    expected = np.array([slopes(number)[1] for number in range(5)]) - slope
    # Of a step it lacks what is of second order, here a hundredth. Without the user's own part in the
    # curvature it would be a sixteenth.
    assert changes[:5] == pytest.approx(expected, abs=0.03 * np.abs(expected).max())


def test_ridges_are_weighted_by_their_predictions_for_users_left_out():
    rng = np.random.default_rng(2)
    kind = np.repeat([BIASED, RANDOM, UNIFORM], 60)
    user = np.append(np.arange(60) % 30, [np.arange(60) % 29, np.arange(60) % 30])
    x = rng.normal(size=(180, 2)) + np.array([[1.0, 0.0], [0.5, 0.8], [0.0, 0.0]])[kind]
    weight = compute_user_weights(user, kind)
    samples = RatioRegression.from_pairs(x, kind, weight, fit_odds_slopes(x, kind, weight, None)[1:])
    is_biased = kind == BIASED
    score = np.zeros(len(RIDGES))
    for number in range(29):
        # A fit without it, for each ridge, where the library makes a step from the fit to all users.
        is_user_positive = (user == number) & (kind == RANDOM)
        partial_samples = samples._replace(weight=np.where(is_user_positive[samples.rows], 0, samples.weight))
        for place, fit in enumerate(partial_samples.fit_ridges(RIDGES)):
            log_odds = x @ (samples.slope_map @ fit)
            level = np.log(np.average(np.exp(log_odds[is_biased]), weights=weight[is_biased]))
            score[place] += weight[is_user_positive] @ log_odds[is_user_positive] - level
    expected = np.exp(score) / np.exp(score).sum()
    shares = compute_ridge_weights(x, PairSample(user, np.arange(180), kind))
    assert shares == pytest.approx(expected, abs=0.005)
    two_users = PairSample(user, np.arange(180), np.where((kind == RANDOM) & (user > 1), UNIFORM, kind))
    shares = compute_ridge_weights(x, two_users)
    assert (shares > 0).all()
    swapped = two_users._replace(user=np.where(user < 2, 1 - user, user))  # numbers of users are names
    assert compute_ridge_weights(x, swapped) == pytest.approx(shares)
    for n_users in (0, 1):  # nobody is left to judge by: only the tempered direction
        sample = PairSample(
            user, np.arange(180), np.where((kind == RANDOM) & (user >= n_users), UNIFORM, kind)
        )
        assert compute_ridge_weights(x, sample).tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_the_change_of_the_propensity_equals_a_refit_to_slightly_reweighted_users(monkeypatch):
    for file in ("cross_fitted_odds", "_density_ratio"):
        monkeypatch.setattr(f"ipseval.propensity.{file}.RIDGES", (1.0, 30.0))
    split, exposure = make_samples()
    propensity = fit_ratio(split, exposure, limit=None, cross_fit=20)
    user = split.test.user
    item = split.test.item
    step = 1e-4 * np.random.default_rng(0).normal(size=60)
    # Σ_u z_uj step_u along each axis. The models of the folds lack a twentieth of the users each.
    expected = propensity.error.change(user, item) @ (propensity.error.users.T @ step)
    change = np.log(propensity.fit.refit(1 + step).for_pairs(user, item) / propensity.for_pairs(user, item))
    change = change - change.mean()
    expected = expected - expected.mean()  # P is known up to a factor
    assert np.corrcoef(change, expected)[0, 1] > 0.95
    assert np.sum(change * expected) / np.sum(expected**2) == pytest.approx(1, abs=0.1)


def test_axes_of_an_error_are_the_directions_in_which_the_parameters_vary():
    direction = np.array([[3.0, 4.0]])  # two users, of whom the second moves the parameters twice as far back
    for scale in (1.0, 1e-12):
        error = FitError.from_influence(
            scale * np.array([[1.0], [-2.0], [0.0]]) @ direction, lambda user, item: np.eye(2)
        )
        assert repr(error) == "FitError(of a fit to 2 users, 1 axis)"
        change = error.change(np.zeros(2, int), np.zeros(2, int))
        assert error.users @ change.T == pytest.approx(scale * np.array([[3, 4], [-6, -8], [0, 0]]))
    assert FitError.from_influence(np.zeros((3, 2)), lambda user, item: np.eye(2)).users.shape == (3, 0)


def test_the_change_of_a_clipped_propensity_is_zero_where_it_is_clipped():
    split, exposure = make_samples()
    propensity = fit_ratio(split, exposure)
    user = split.test.user
    item = split.test.item
    values = propensity.for_pairs(user, item)
    clipped_propensity = propensity.clip(floor=float(np.median(values)))
    low = values < np.median(values)
    change = clipped_propensity.error.change(user, item)
    assert not change[low].any()
    assert np.array_equal(change[~low], propensity.error.change(user, item)[~low])


def test_the_log_odds_of_a_pair_are_the_median_over_assignments_with_their_limits():
    # Three assignments of two users to two folds; one feature with slope 1, 2, …, 6 in the six models.
    slope = np.arange(1.0, 7).reshape(3, 2, 1)
    level = np.array([[0.0, 1], [0, 1], [0, 1]])
    limit = np.array([[5.0, 9], [5, 9], [5, 9]])
    fold = np.array([[0, 1], [0, 1], [1, 0]])
    limit_gradient = np.full((3, 2, 1), 10.0)
    mean = np.full((3, 2, 1), 0.5)
    odds = CrossFittedOdds(
        features=None,
        fold=fold,
        slope=slope,
        limit=limit,
        level=level,
        limit_gradient=limit_gradient,
        level_gradient=mean,
    )
    user = np.array([0, 0, 1])
    x = np.array([[1.0], [2.0], [3.0]])
    log_odds, is_limited = odds.log_odds(user, x)
    # User 0: slopes 1, 3, 6 with levels 0, 0, 1; user 1: slopes 2, 4, 5 with levels 1, 1, 0.
    # 1, 3, 5; 2, 5 (held), 8 (held); 5, 8 (held), 5 (held).
    assert log_odds.tolist() == [3, 5, 5]
    assert is_limited.tolist() == [False, True, True]
    change = [0.5, ((2 + 10 + 10) / 3 - 0.5), ((3 + 10 + 10) / 3 - 0.5)]
    assert odds.derivative(user, x)[:, 0] == pytest.approx(change)
    pair = CrossFittedOdds(
        features=None,
        fold=fold[:2],
        slope=slope[:2],
        limit=limit[:2],
        level=level[:2],
        limit_gradient=limit_gradient[:2],
        level_gradient=mean[:2],
    )
    assert pair.log_odds(user, x)[1].tolist() == [False, False, False]  # one of two is not most


def test_the_pairs_of_a_user_have_weights_that_add_up_to_one_or_to_its_count():
    user = np.array([0, 0, 1, 0, 2])
    kind = np.array([0, 0, 0, 1, 1])
    assert compute_user_weights(user, kind).tolist() == [0.5, 0.5, 1, 1, 1]
    assert compute_user_weights(user, kind, np.array([3.0, 2, 0])).tolist() == [1.5, 1.5, 2, 3, 0]


def test_auc_is_over_pairs_of_one_fold_with_their_weights():
    score = np.array([1.0, 2.0, 5.0, 4.0, 9.0])
    positive = np.array([False, True, False, True, True])
    weight = np.array([1.0, 2.0, 3.0, 1.0, 1.0])
    fold = np.array([0, 0, 1, 1, 2])
    # Fold 0: (2, 1) won, 2·1. Fold 1: (4, 5) lost, 1·3. Fold 2 has no negative.
    assert compute_weighted_auc(score, positive, weight, fold) == pytest.approx(2 / 5)
    # In one fold: 2 and 4 beat 1 and lose to 5, 9 beats both; 2 tied with 1 is half a pair less.
    assert compute_weighted_auc(score, positive, np.ones(5), fold * 0) == pytest.approx(4 / 6)
    assert compute_weighted_auc(np.maximum(score, 2), positive, np.ones(5), fold * 0) == pytest.approx(
        3.5 / 6
    )
    assert np.isnan(compute_weighted_auc(score, positive, weight, np.arange(5)))
