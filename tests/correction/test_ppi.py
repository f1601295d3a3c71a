"""Prediction-powered inference: unbiasedness by enumeration, its share and ratio by hand, and accuracy."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import expit

import ipseval
from ipseval import Interactions, RandomExposure, rank_positives
from ipseval.correction import CORRECTED, PPI, RANDOM_SAMPLE, correct
from ipseval.validation.simulation import World
from tests.inside.correction import (
    TrainingOverlap,
    compute_difference_totals,
    compute_ratio,
    compute_totals,
    list_pairs_to_predict,
    measure_training_overlap,
    prediction_powered,
)

# Two users with three and four candidates; what they like, contributions, and a prediction that is far off.
PLACE = np.array([0, 0, 0, 1, 1, 1, 1])
LIKED = np.array([1, 0, 1, 0, 0, 1, 1], dtype=bool)
VALUE = np.array([0.9, 0.4, 0.2, 0.7, 0.1, 0.8, 0.3])
PREDICTED = np.array([0.2, 0.9, 0.4, 0.6, 0.1, 0.3, 0.8])


def list_choices(size: int) -> list[np.ndarray]:
    """Return every choice of `size` pairs of each user, as masks."""
    user_choices = [combinations(np.flatnonzero(user == PLACE), size) for user in (0, 1)]
    masks = []
    for first_user_pairs, second_user_pairs in product(*user_choices):
        mask = np.zeros(PLACE.size, dtype=bool)
        mask[[*first_user_pairs, *second_user_pairs]] = True
        masks.append(mask)
    return masks


@pytest.mark.parametrize("n_drawn", [1, 2, None])
def test_both_totals_are_unbiased_for_any_prediction_and_share(n_drawn):
    columns = VALUE[:, None]
    candidate_choices = list_choices(n_drawn) if n_drawn else [np.ones(7, dtype=bool)]
    all_totals = []
    for exposed, candidates in product(list_choices(2), candidate_choices):
        outcome, control = compute_totals(
            PLACE,
            columns,
            is_positive=LIKED & exposed,
            prediction=PREDICTED,
            is_exposed=exposed,
            is_drawn=candidates,
        )
        all_totals.append([(outcome - share * control).sum(axis=0) for share in (0.0, 0.7)])
    # Two shown pairs of each user: twice the mean over the user's candidates.
    numerator = 2 * ((0.9 + 0.2) / 3 + (0.8 + 0.3) / 4)
    denominator = 2 * (2 / 3 + 2 / 4)
    np.testing.assert_allclose(np.mean(all_totals, axis=0), [[numerator, denominator]] * 2)


def test_a_perfect_prediction_removes_all_variance():
    columns = VALUE[:, None]
    all_totals = []
    for exposed in list_choices(2):
        prediction = LIKED.astype(float)
        outcome, control = compute_totals(
            PLACE,
            columns,
            is_positive=LIKED & exposed,
            prediction=prediction,
            is_exposed=exposed,
            is_drawn=np.ones(7, dtype=bool),
        )
        all_totals.append((outcome - control).sum(axis=0))
    assert np.ptp(all_totals, axis=0) == pytest.approx([0, 0])


def test_the_share_of_the_control_variate_minimises_the_variance_within_0_and_three_halves():
    # D of each user is 1, so that what moves is N less its mean: ±1, and the control ∓1, ±2, ±.5.
    plain = np.array([[2.0, 2, 2, 1], [0, 0, 0, 1]])
    control = np.array([[-1.0, 2, 0.5, 0], [1, -2, -0.5, 0]])
    assert prediction_powered._fit_share(plain, control, np.arange(3)) == pytest.approx([0, 0.5, 1.5])
    assert prediction_powered._fit_share(plain, 0 * control, np.arange(3)).tolist() == [0, 0, 0]
    # Of a single positive the ratio is 1, so that N less its part of D is ±0.5, and the control is 0.5 and 0.
    single = np.array([[1.0, 0.5], [0.0, 0.5]])
    control_of_first = np.array([[0.5, 0.0], [0.0, 0.0]])
    assert prediction_powered._fit_share(single, control_of_first, np.arange(1)) == pytest.approx([1.0])
    assert prediction_powered._fit_share(0 * plain, control, np.arange(3)).tolist() == [
        0,
        0,
        0,
    ]  # without a positive


def test_the_ratio_and_its_covariance_by_hand():
    estimate = compute_ratio(np.array([[1.0], [3.0]]), np.array([[2.0], [2.0]]))
    assert estimate.value == pytest.approx([1.0])
    # Influences (1 − 2)/4 and (3 − 2)/4: their squares sum to 1/8, times 2/1.
    assert estimate.covariance == pytest.approx(np.array([[0.25]]))


def test_predictions_are_compared_on_candidates_of_exposed_users(monkeypatch):
    ids = np.arange(3), np.arange(4)
    split = ipseval.Split(Interactions([0, 2], [1, 2], *ids), Interactions([0], [2], *ids))
    exposure = RandomExposure(np.array([2]), np.array([0]), np.array([True]), 3, 4)
    assert list_pairs_to_predict(exposure, split).tolist() == [8, 9, 11]
    monkeypatch.setattr(prediction_powered, "N_DRAWN", 3)
    assert set(list_pairs_to_predict(exposure, split).tolist()) <= {8, 9, 11}


def test_exposure_without_a_positive_has_no_ppi_estimate():
    ids = np.arange(3), np.arange(4)
    split = ipseval.Split(Interactions([0, 2], [1, 2], *ids), Interactions([0, 1], [2, 3], *ids))
    exposure = RandomExposure(np.array([1, 2]), np.array([0, 1]), np.zeros(2, dtype=bool), 3, 4)
    models = {"a": np.arange(12.0).reshape(3, 4), "b": -np.arange(12.0).reshape(3, 4)}
    correction = correct(models, split, random_exposure=exposure, metrics=["recall@1"], rng=0)
    assert (correction.sample, correction.ppi) == (None, None)


def test_ppi_is_a_row_next_to_the_random_sample_and_is_as_accurate(monkeypatch):
    monkeypatch.setattr(prediction_powered, "fit_test_odds", None)  # those of the path are taken
    world = World(n_users=400, n_items=100, mean_relevant=12, gamma=0.3, rng=0)
    split = world.split(rng=1)
    models = {name: world.example_models(split, rng=2)[name] for name in ("popular", "noisy")}
    exposure = RandomExposure.from_ratings(world.study(rng=3, n_per_user=20).random, threshold=4)
    frame = correct(models, split, random_exposure=exposure, metrics=["recall@10"], rng=0).frame
    assert frame["estimator"].drop_duplicates().tolist()[1:] == [RANDOM_SAMPLE, PPI, CORRECTED]
    truth = world.truth(models, ["recall@10"], split).set_index("model")["ideal_pooled"]
    rows = frame[frame["estimator"] == PPI].set_index("model")
    assert ((rows["estimate"] - truth[rows.index]).abs() < 4 * rows["std_error"]).all()
    plain = frame[frame["estimator"] == RANDOM_SAMPLE].set_index("model")
    assert (rows["std_error"] < 1.02 * plain["std_error"]).all()


def predict(odds, is_positive, is_fitted, is_predicted):
    """Return probabilities by a logistic regression on the log odds, solved by its equations."""
    unit = (odds - odds[is_fitted].mean()) / odds[is_fitted].std()
    design = np.column_stack([np.ones(odds.size), unit])

    def compute_gradient(coefficients):
        residual = is_positive - expit(design @ coefficients)
        return design[is_fitted].T @ residual[is_fitted] - 1e-3 * coefficients

    return expit(design @ root(compute_gradient, np.zeros(2), tol=1e-13).x)[is_predicted]


def test_predictions_and_shares_of_users_are_fitted_to_the_other_users():
    ids = np.arange(12), np.arange(9)
    rng = np.random.default_rng(2)
    key = np.sort(rng.choice(108, 70, replace=False))
    no_codes = np.zeros(0, dtype=int)
    split = ipseval.Split(Interactions(no_codes, no_codes, *ids), Interactions(*np.divmod(key, 9), *ids))
    ranks = {name: rank_positives(rng.random((12, 9)), split) for name in ("a", "b")}
    metrics = [ipseval.metric("recall@3"), ipseval.metric("atop")]
    exposed_keys = key[rng.random(70) < 0.6]
    exposure = RandomExposure(*np.divmod(exposed_keys, 9), rng.random(exposed_keys.size) < 0.5, 12, 9)
    candidate_keys = key[rng.random(70) < 0.7]
    odds = rng.normal(size=70)
    users, numerator, denominator = compute_difference_totals(
        ranks, exposure, candidate_keys, split, metrics, "default", lambda pairs: odds
    )
    user = key // 9
    is_exposed = np.isin(key, exposed_keys)
    is_positive = np.isin(key, exposed_keys[exposure.positive])
    values = [metric.contributions(ranked, ties="default") for metric in metrics for ranked in ranks.values()]
    value = np.column_stack([*values, np.ones(70)])
    fold = np.random.default_rng(0).permutation(users.size) % 5
    pair_fold = fold[np.searchsorted(users, user)]
    prediction = np.zeros(70)
    for group in range(5):
        is_inside = pair_fold == group
        prediction[is_inside] = predict(odds, is_positive, is_exposed & ~is_inside, is_inside)
    outcome = np.zeros((users.size, 5))
    control = np.zeros((users.size, 5))
    for row, code in enumerate(users):
        pairs = user == code
        drawn = pairs & np.isin(key, candidate_keys)
        outcome[row] = value[pairs & is_positive].sum(axis=0)
        if drawn.any():
            shown = pairs & is_exposed
            control[row] = prediction[shown] @ value[shown]
            control[row] -= shown.sum() * (prediction[drawn] @ value[drawn]) / drawn.sum()
    for group in range(5):
        is_inside = fold == group
        rest = ~is_inside
        ratio = outcome[rest, :-1].sum(axis=0) / outcome[rest, -1].sum()
        outcome_influence = outcome[rest, :-1] - outcome[rest, -1:] * ratio
        control_influence = control[rest, :-1] - control[rest, -1:] * ratio
        share = []
        for cells in (slice(0, 2), slice(2, 4)):
            covariance = (outcome_influence[:, cells] * control_influence[:, cells]).sum()
            variance = (control_influence[:, cells] ** 2).sum()
            share += [min(max(covariance / variance, 0), 1.5)] * 2
        expected = outcome[is_inside, :-1] - share * control[is_inside, :-1]
        np.testing.assert_allclose(numerator[is_inside], expected, rtol=1e-6, atol=1e-8)
        expected = outcome[is_inside, -1:] - share * control[is_inside, -1:]
        np.testing.assert_allclose(denominator[is_inside], expected, rtol=1e-6, atol=1e-8)


def test_candidates_of_many_users_are_a_sample_of_all_items(monkeypatch):
    ids = np.arange(50), np.arange(1000)
    no_codes = np.zeros(0, dtype=int)
    split = ipseval.Split(Interactions(no_codes, no_codes, *ids), Interactions([0], [2], *ids))
    user = np.array([3, 40, 49])
    exposure = RandomExposure(user, np.zeros(3, dtype=int), np.ones(3, dtype=bool), 50, 1000)
    monkeypatch.setattr(prediction_powered, "N_DRAWN", 3000)
    assert list_pairs_to_predict(exposure, split).size == 3000  # as many as there are
    for limit, n_draws in ((2999, 999), (6, 20)):  # at least twenty
        monkeypatch.setattr(prediction_powered, "N_DRAWN", limit)
        keys = list_pairs_to_predict(exposure, split)
        counts = np.bincount(keys // 1000, minlength=50)
        assert counts.nonzero()[0].tolist() == user.tolist()
        # Of draws with replacement, those that repeat a pair are left out.
        expected = 1000 * (1 - 0.999**n_draws)
        assert counts[user] == pytest.approx(
            [expected] * 3, abs=4 * np.sqrt(n_draws / 4) if n_draws > 20 else 1.1
        )
        assert (keys % 1000).max() > 800


def test_large_samples_are_thinned_evenly_for_the_fit(monkeypatch):
    rng = np.random.default_rng(0)
    odds = rng.normal(size=90)
    is_positive = rng.random(90) < expit(odds)
    is_fitted = np.arange(90) % 9 != 0  # 80 pairs, of which every third is taken
    monkeypatch.setattr(prediction_powered, "N_FITTED", 30)
    prediction = prediction_powered._predict_positive(odds, is_positive, is_fitted, ~is_fitted)
    thinned = np.zeros(90, dtype=bool)
    thinned[np.flatnonzero(is_fitted)[::3]] = True
    np.testing.assert_allclose(prediction, predict(odds, is_positive, thinned, ~is_fitted), rtol=1e-6)
    monkeypatch.setattr(prediction_powered, "N_FITTED", 80)
    prediction = prediction_powered._predict_positive(odds, is_positive, is_fitted, ~is_fitted)
    np.testing.assert_allclose(prediction, predict(odds, is_positive, is_fitted, ~is_fitted), rtol=1e-6)


def test_one_user_has_a_ratio_without_variance():
    estimate = compute_ratio(np.array([[1.0, 3.0]]), np.array([[2.0, 4.0]]))
    assert estimate.value.tolist() == [0.5, 0.75]
    assert estimate.covariance.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("n_expected", "n_removed", "is_excessive"),
    [(4, 10, False), (4, 11, True), (0.1, 4, True), (0.1, 3, False)],
)
def test_an_overlap_is_excessive_above_three_standard_errors(n_expected, n_removed, is_excessive):
    assert TrainingOverlap(n_removed, n_expected).is_excessive is is_excessive


def expose(split, user, item):
    """Return random exposure of pairs, of which every second one is positive."""
    return RandomExposure(user, item, np.arange(user.size) % 2 == 0, split.n_users, split.n_items)


def test_the_overlap_with_training_is_compared_with_that_of_independent_exposure():
    ids = {"user_ids": np.arange(2), "item_ids": np.arange(10)}
    train = Interactions(np.array([0, 0, 0, 0, 1]), np.array([0, 1, 2, 3, 4]), **ids)
    split = ipseval.Split(train, Interactions(np.array([0]), np.array([9]), **ids))
    # User 0 was shown 5 of 10 items, and 4 of 10 are in training: 2 expected. User 1: 2 · 1/10.
    exposure = expose(split, np.array([0, 0, 0, 0, 0, 1, 1]), np.array([0, 1, 2, 3, 8, 4, 5]))
    overlap = measure_training_overlap(exposure, split)
    assert (overlap.n_removed, overlap.n_expected) == (5, pytest.approx(2.2))
    assert not overlap.is_excessive  # 2.8 more than expected, and √2.2 = 1.5


def test_ppi_is_left_out_with_the_count_where_the_log_is_a_part_of_the_random_exposure():
    world = World(n_users=300, n_items=60, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = {name: world.example_models(split, rng=2)[name] for name in ("popular", "noisy")}
    rng = np.random.default_rng(3)
    keys = rng.choice(split.n_users * split.n_items, 4000, replace=False)
    apart = expose(split, *np.divmod(keys, split.n_items))
    found = correct(models, split, random_exposure=apart, metrics=["atop"], rng=0)
    assert PPI in set(found.frame["estimator"])
    joined = np.union1d(keys, split.train.pair_key)
    whole = expose(split, *np.divmod(joined, split.n_items))
    count = f"{len(split.train):,} pairs of the random exposure are in training"
    with pytest.warns(ipseval.errors.DataWarning, match=f"PPI is left out: {count}"):
        refused = correct(models, split, random_exposure=whole, metrics=["atop"], rng=0)
    assert PPI not in set(refused.frame["estimator"])
    assert RANDOM_SAMPLE in set(refused.frame["estimator"])
