"""The plan of an experiment on small paths by hand: widths, the smallest difference, sizes and batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import ipseval
from ipseval import InputError, Interactions, RandomExposure, plan_exposure
from ipseval.correction import Correction, CorrectionPrior, correct_path
from ipseval.errors import DataWarning
from tests.correction.test_posterior import tiny_path, tiny_sample
from tests.correction.test_random_sample import make_sample, path_of_two_metrics
from tests.correction.test_result import correct_sample
from tests.inside.correction import ALPHAS, Posterior, RandomSample, _plan


def plan_covariance(covariance: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return covariance - covariance @ np.linalg.inv(covariance + noise) @ covariance


def test_widths_and_the_smallest_difference_follow_from_the_planned_covariance():
    path = path_of_two_metrics()
    correction = correct_path(path, confidence_level=0.9)
    plan = plan_exposure(correction, n_users=80, n_items=[5], positive_share=0.25, power=0.7)
    assert plan["metric"].tolist() == ["atop", "recall@5"]
    assert plan[["n_users", "n_items", "n_positives"]].drop_duplicates().to_numpy().tolist() == [[80, 5, 100]]
    # 1.25 positives of each user, with correlations of 0.1, 0.2, 0 and 0.3 within users.
    root = np.sqrt(1 + 1.25 * path.within)
    half_hit = path.similarity * np.outer(path.hit, path.hit) / 2 / 101**2
    noise = path.spread[0] * np.outer(root, root) / 100 + half_hit
    planned = plan_covariance(correction.posterior.total_covariance, noise)
    z = norm.ppf(0.95)
    for row, cells in enumerate((slice(0, 2), slice(2, 4))):
        part = planned[cells, cells]
        assert plan["half_width"][row] == pytest.approx(z * np.sqrt(np.diag(part)).mean(), rel=1e-9)
        random_width = z * np.sqrt(np.diag(noise)[cells]).mean()
        assert plan["half_width_random"][row] == pytest.approx(random_width, rel=1e-9)
        error = np.sqrt(part[0, 0] + part[1, 1] - 2 * part[0, 1])
        expected = (z + norm.ppf(0.7)) * error
        assert plan["smallest_difference"][row] == pytest.approx(expected, rel=1e-9)


def test_a_share_of_positives_whose_variance_overflows_is_refused():
    correction = correct_path(path_of_two_metrics())
    for share in (1e-12, 1e-300):
        plan = plan_exposure(correction, n_users=80, n_items=[5], positive_share=share)
        assert np.isfinite(plan["half_width"]).all()
    with pytest.raises(
        InputError, match=r"positive_share .* is too small: the variance of .* is not a finite"
    ):
        plan_exposure(correction, n_users=80, n_items=[5], positive_share=5e-324)


def test_the_error_of_differences_is_the_median_over_pairs():
    covariance = np.array([[4.0, 1, 0], [1, 3, 0], [0, 0, 1]])
    # Variances of the differences: 4 + 3 − 2 = 5, 4 + 1 = 5 and 3 + 1 = 4.
    assert _plan._median_error_of_differences(covariance) == pytest.approx(np.sqrt(5))
    assert _plan._median_error_of_differences(covariance[1:, 1:]) == 2
    assert np.isnan(_plan._median_error_of_differences(np.ones((1, 1))))
    assert _plan._median_error_of_differences(np.ones((2, 2)) - 1e-18 * np.eye(2)) == 0


def test_the_regret_is_a_high_percentile_of_the_loss_of_the_best_estimate():
    # The planned experiment says nothing: the first is always chosen, and loses max(X, 0) of N(-0.1, 0.5²).
    draws = np.random.default_rng(1).standard_normal((2, 200_000, 2))
    covariance = np.diag([0.09, 0.16])
    regret = _plan._regret_percentile(np.array([0.5, 0.4]), covariance, covariance, draws)
    assert regret == pytest.approx(-0.1 + 0.5 * norm.ppf(0.9), rel=0.02)
    # An experiment without error loses nothing.
    assert _plan._regret_percentile(np.array([0.5, 0.4]), covariance, 0 * covariance, draws) == 0


def test_a_pilot_counts_by_its_size_unless_it_was_designed():
    path = path_of_two_metrics()
    sample = replace(make_sample(), n_positives=70)
    exposure = RandomExposure(np.array([0]), np.array([0]), np.array([True]), 10, 3)
    equal_pilot = correct_sample(path, sample, random_exposure=exposure)
    path_noise = _plan._expected_noise(correct_path(path), 200, 2.0)
    half_hit = path.half_hit(200)
    # 70 positives count 70/1670, and their covariance is of the mean of 70.
    expected = (path_noise - half_hit) * 1600 / 1670 + sample.sample_covariance * 70 / 200 * 70 / 1670
    # Half a hit more is added once, and the pilot has it.
    np.testing.assert_allclose(_plan._expected_noise(equal_pilot, 200, 2.0), expected, rtol=1e-9)
    without_exposure = correct_sample(path, sample)
    np.testing.assert_allclose(_plan._expected_noise(without_exposure, 200, 2.0), expected, rtol=1e-9)
    designed_pilot = correct_sample(path, sample, random_exposure=replace(exposure, is_designed=True))
    np.testing.assert_allclose(
        _plan._expected_noise(designed_pilot, 200, 2.0), path_noise - half_hit, rtol=1e-9
    )


def correct_by_hand() -> Correction:
    """Return a correction after a pilot of 40 positives, one of each user, in which all is normal.

    A positive has the variance 0.1, so the mean of the pilot has 1/400. With a prior of variance 1/100, the
    posterior has 1/500. Both recommenders have the same mean, and are independent.
    """
    path = replace(
        tiny_path(),
        spread=np.repeat(0.1 * np.eye(2)[None], ALPHAS.size, axis=0),
        hit=np.zeros(2),
    )
    sample = RandomSample(np.array([0.3, 0.3]), 0.1 * np.eye(2) / 40, 40, 40, 1.0)
    posterior = Posterior(
        grid_mass=np.eye(ALPHAS.size)[0],
        weight=np.ones(1),
        mean=np.array([[0.3, 0.3]]),
        covariance=np.eye(2)[None] / 500,
    )
    return Correction(path=path, prior=CorrectionPrior(), sample=sample, posterior=posterior)


def test_the_plan_conditions_the_present_posterior_on_the_further_users():
    plan = plan_exposure(correct_by_hand(), n_users=[40, 100], n_items=[10], positive_share=0.1)
    assert plan["n_positives"].tolist() == [40, 100]
    # 60 further positives have the variance 1/600. Precisions add up: 100 + 400 + 600 = 1100.
    z = norm.ppf(0.975)
    np.testing.assert_allclose(plan["half_width"], z / np.sqrt([500, 1100]), rtol=1e-12)
    np.testing.assert_allclose(plan["half_width_random"], z / np.sqrt([400, 1000]), rtol=1e-12)
    smallest = (z + norm.ppf(0.8)) * np.sqrt([2 / 500, 2 / 1100])
    np.testing.assert_allclose(plan["smallest_difference"], smallest, rtol=1e-12)
    # At present one of the two is chosen, and loses max(D, 0) with the difference D ~ N(0, 2/500).
    assert plan["regret_90"][0] == pytest.approx(norm.ppf(0.9) * np.sqrt(2 / 500), rel=0.02)
    # After the experiment: the estimated difference e has the variance 2/500 − 2/1100, and its error 2/1100.
    regret = plan["regret_90"][1]
    assert 0 < regret < plan["regret_90"][0]
    sd = np.sqrt(2 / 500 - 2 / 1100)
    exceeds, _ = quad(
        lambda e: 2 * norm.pdf(e, scale=sd) * norm.sf(e + regret, scale=np.sqrt(2 / 1100)), 0, 8 * sd
    )
    assert exceeds == pytest.approx(0.1, abs=0.005)


def test_the_row_of_the_size_of_the_pilot_is_the_present_precision():
    correction = correct_sample(tiny_path(), tiny_sample())
    plan = plan_exposure(correction, n_users=[40, 41, 60], n_items=[10], positive_share=0.1)
    z = norm.ppf(0.975)
    assert plan["n_positives"].tolist() == [40, 41, 60]
    present = np.sqrt(np.diag(correction.posterior.total_covariance)).mean()
    assert plan["half_width"][0] == pytest.approx(z * present, rel=1e-12)
    random_sample = correction.sample.interval_covariance(correction.path)
    assert plan["half_width_random"][0] == pytest.approx(
        z * np.sqrt(np.diag(random_sample)).mean(), rel=1e-12
    )
    for column in ("half_width", "half_width_random", "smallest_difference"):
        assert plan[column].is_monotonic_decreasing
    # 60 positives of variance 0.06, and half a hit more of all of them.
    assert plan["half_width_random"][2] == pytest.approx(z * np.sqrt(0.06 / 60 + 0.5 / 61**2), rel=1e-9)
    # One further user changes little.
    assert plan["half_width"][1] == pytest.approx(plan["half_width"][0], rel=0.02)
    with pytest.raises(InputError, match=r"n_users must be at least 40, .* got 30\. .* pass 70"):
        plan_exposure(correction, n_users=[50, 30], n_items=[10], positive_share=0.1)


def test_further_users_are_added_to_a_pilot_by_default():
    correction = correct_sample(tiny_path(), tiny_sample())
    plan = plan_exposure(correction, positive_share=0.1, n_items=[10])
    assert plan["n_users"].tolist() == [65, 140, 440]
    assert plan["n_positives"].tolist() == [65, 140, 440]
    assert plan_exposure(correct_path(tiny_path()), positive_share=0.1, n_items=[10])["n_users"].tolist() == [
        25,
        100,
        400,
    ]


def test_a_matrix_with_a_negative_variance_is_no_covariance():
    # Rounding is set to 0, and more is an error of the computation, which is never hidden.
    root = _plan._symmetric_root(np.diag([4.0, -1e-12]), 1e-9)
    np.testing.assert_allclose(root, np.diag([2.0, 0.0]), atol=1e-12)
    with pytest.raises(AssertionError, match=r"not a covariance: it has the eigenvalue -0\.01"):
        _plan._symmetric_root(np.diag([4.0, -0.01]), 1e-9)


def test_rounding_of_equal_recommenders_is_not_amplified():
    # Both are equal, except for rounding: nothing is learnt about their difference.
    covariance = np.array([[1.0, 1 + 1e-9], [1.0, 1.0]])
    noise = 0.1 * np.ones((2, 2)) + np.diag([1e-14, 0])
    planned = _plan._condition_covariance(covariance, noise)
    np.testing.assert_allclose(planned, np.full((2, 2), 0.1 / 1.1), atol=1e-8)


def test_the_share_of_positives_is_that_of_the_pilot_or_a_twentieth():
    exposure = RandomExposure(np.arange(8), np.zeros(8, int), np.arange(8) < 2, 10, 3)
    correction = correct_path(tiny_path(), random_exposure=exposure)
    # No positive of the pilot is ranked, so that its eight users count without one.
    assert plan_exposure(correction, n_users=18, n_items=10)["n_positives"].tolist() == [25.0]
    weight = np.array([1.0, 1, 3, 3, 3, 3, 3, 3])
    weighted = correct_path(tiny_path(), random_exposure=replace(exposure, weight=weight))
    assert plan_exposure(weighted, n_users=18, n_items=10)["n_positives"].tolist() == [10.0]
    unliked = correct_path(tiny_path(), random_exposure=exposure.select(np.arange(8) > 1))
    with pytest.warns(DataWarning, match="5% of the randomly shown pairs"):
        plan = plan_exposure(unliked, n_users=[6, 16], n_items=10)
    assert plan["n_positives"].tolist() == [0.0, 5.0]
    assert np.isnan(plan["half_width_random"][0])
    assert np.isfinite(plan.drop(columns="metric").drop(columns="half_width_random")).all(axis=None)


@pytest.mark.parametrize(
    "options",
    [
        {"positive_share": 0.0},
        {"positive_share": 1.01},
        {"power": 0.0},
        {"power": 1.0},
        {"n_users": 0},
        {"n_items": [10, 0]},
        {"n_items": 2.5},
    ],
)
def test_numbers_out_of_range_are_refused(options):
    correction = correct_path(tiny_path())
    with pytest.raises(InputError, match=next(iter(options))):
        plan_exposure(correction, **{"positive_share": 0.1, **options})
    assert len(plan_exposure(correction, n_users=1, n_items=1, positive_share=1.0)) == 1


@pytest.fixture(scope="module", name="split")
def a_split_with_a_user_without_candidates():
    ids = np.arange(7), np.arange(6)
    train = Interactions(np.array([0, 1] + [6] * 6), np.array([0, 3, *range(6)]), *ids)
    return ipseval.Split(train, Interactions(np.array([0, 1]), np.array([1, 1]), *ids))


def test_uniform_slots_are_drawn_from_the_candidates_of_users_who_have_some(split):
    allocation = plan_exposure(design="uniform", split=split, n_users=6, n_items=4, rng=0)
    assert sorted(allocation["user"].unique()) == [0, 1, 2, 3, 4, 5]
    assert not allocation["is_listed"].any()
    assert allocation["n_listed"].eq(0).all()
    assert allocation.groupby("user").size().eq(4).all()
    # User 0 has items 1 to 5, user 1 all but 3, and the remaining users all six.
    expected = allocation["user"].map({0: 4 / 5, 1: 4 / 5}).fillna(4 / 6)
    np.testing.assert_allclose(allocation["inclusion_probability"], expected, rtol=1e-12)
    with pytest.raises(InputError, match=r"at most 6, .* got 7"):
        plan_exposure(design="uniform", split=split, n_users=7, n_items=4)


def test_more_slots_than_candidates_show_every_candidate(split):
    allocation = plan_exposure(design="uniform", split=split, n_users=6, rng=0)  # 20 slots
    assert allocation["n_slots"].eq(20).all()
    assert allocation["inclusion_probability"].eq(1).all()
    assert allocation.groupby("user").size().tolist() == [5, 5, 6, 6, 6, 6]


def test_a_hundred_users_are_exposed_by_default():
    ids = {"user_ids": np.arange(101), "item_ids": np.arange(3)}
    no_codes = np.zeros(0, dtype=int)
    test = Interactions(np.array([0]), np.array([1]), **ids)
    large_split = ipseval.Split(Interactions(no_codes, no_codes, **ids), test)
    allocation = plan_exposure(design="uniform", split=large_split, n_items=1, rng=0)
    assert allocation["user"].nunique() == len(allocation) == 100


def test_a_number_may_be_given_as_a_sequence_of_one(split):
    options = {"design": "uniform", "split": split, "rng": 0}
    pd.testing.assert_frame_equal(
        plan_exposure(n_users=[3], n_items=(2,), **options), plan_exposure(n_users=3, n_items=2, **options)
    )
    with pytest.raises(InputError, match="n_items must be one number"):
        plan_exposure(n_users=3, n_items=[2, 3], **options)


def test_batches_of_one_seed_have_different_draws(split):
    options = {"design": "uniform", "split": split, "n_items": 2}
    first = plan_exposure(n_users=5, rng=1, **options)
    again = plan_exposure(previous=first, same_users=True, rng=1, **options)
    third = plan_exposure(previous=again, same_users=True, rng=1, **options)
    items = [
        set(zip(batch["user"], batch["item"], strict=True))
        for batch in (first, again[again["batch"] == 2], third[third["batch"] == 3])
    ]
    # The same draw once more would show nothing new.
    assert len(items[0]) == 10
    assert 0 < len(items[1]) <= 10
    assert 0 < len(items[2]) <= 10
    assert third["n_draws"].eq(3).all()
    assert third["batch"].max() == 3
    new_users = plan_exposure(previous=first, n_users=1, rng=1, **options)
    assert new_users["batch"].tolist() == [1] * 10 + [2] * 2


def test_users_outside_the_split_and_lost_columns_are_refused(split):
    allocation = plan_exposure(design="uniform", split=split, n_users=3, n_items=2, rng=0)
    options = {"design": "uniform", "split": split, "n_items": 2, "n_users": 1}
    with pytest.raises(InputError, match="users of the split; got 99, which it does not have"):
        plan_exposure(previous=allocation.replace({"user": {allocation["user"].iloc[-1]: 99}}), **options)
    with pytest.raises(InputError, match="empty allocation"):
        plan_exposure(previous=allocation.iloc[:0], **options)
    with pytest.raises(InputError, match="'n_draws' is missing"):
        plan_exposure(previous=allocation.drop(columns="n_draws"), **options)
    with pytest.raises(InputError, match="n_users must be left out with same_users; got 1"):
        plan_exposure(previous=allocation, same_users=True, **options)
    for column, value in (("n_candidates", 3), ("n_listed", 1), ("is_listed", True)):
        changed = allocation.copy()
        changed.loc[changed.index[-1], column] = value
        with pytest.raises(InputError, match="lists must be fixed before any answer is seen"):
            plan_exposure(
                previous=changed,
                same_users=True,
                **{key: options[key] for key in ("design", "split", "n_items")},
            )
