"""The path and its parts by hand: correlations, the size of hits, flat metrics, and refused ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ipseval
from ipseval import ImpressionLog, InputError, Interactions, RandomExposure, RankedPositives, rank_positives
from ipseval.correction import correct, correction_path
from tests.correction.test_posterior import tiny_path
from tests.inside.correction import _path, rank_with_exposure, regress_on_aoa

IDS = {"user_ids": np.arange(3), "item_ids": np.arange(8)}


def make_split() -> ipseval.Split:
    train = Interactions(np.array([0, 1, 2]), np.array([7, 6, 7]), **IDS)
    return ipseval.Split(train, Interactions(np.array([0, 0, 1, 2]), np.array([0, 6, 1, 5]), **IDS))


def rank_by_code(split: ipseval.Split) -> dict[str, RankedPositives]:
    """Return ranks of the items by their code, ascending and descending."""
    scores = np.tile(np.arange(8.0), (3, 1))
    return {"low": rank_positives(-scores, split), "high": rank_positives(scores, split)}


def test_correlations_of_constant_cells_are_0():
    covariance = np.array([[4.0, 1, 0], [1, 1, 0], [0, 0, 1e-20]])
    expected = [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]
    assert _path._correlation(covariance).tolist() == expected


def test_the_path_of_ranks_of_a_metric_that_nobody_hits_is_0_and_finite():
    split = make_split()
    ranks = {name: ranked.select(ranked.item == 5) for name, ranked in rank_by_code(split).items()}
    # By ascending code item 5 of user 2 ranks sixth of seven, by descending code second.
    path = correction_path(ranks, split, metrics=["recall@1", "recall@2", "recall@6"], rng=0)
    np.testing.assert_allclose(path.value, np.tile([0, 0, 0, 1, 1, 1.0], (len(path.value), 1)), atol=1e-12)
    for part in (path.covariance, path.spread, path.ess, path.within, path.hit):
        assert np.isfinite(part).all()
    assert path.hit.tolist() == [0, 0, 1, 1, 1, 1]
    assert (path.n_users, path.n_positives) == (1, 1)
    np.testing.assert_array_equal(path.clipped, 0)


def test_regression_leaves_metrics_alone_whose_recommenders_have_equal_aoa():
    value = np.array([[0.3, 0.3, 0.0, 0.0], [0.2, 0.1, 0.0, 0.0]])
    covariance = np.tile(1e-4 * np.eye(4), (2, 1, 1))
    fitted_values, fitted_covariance = regress_on_aoa(
        value, covariance, covariance, np.array([0, 0, 1, 1]), np.ones(4, dtype=bool)
    )
    np.testing.assert_array_equal(fitted_values, value)
    np.testing.assert_array_equal(fitted_covariance, covariance)


def test_contributions_are_ordered_by_metric_and_then_by_recommender():
    split = make_split()
    ranks = rank_by_code(split)
    values = _path.compute_contributions(
        ranks, [ipseval.metric(label) for label in ("recall@1", "recall@2")], "default"
    )
    # Ranks among seven candidates, ascending: items 0 and 6 of user 0, 1 of user 1, 5 of user 2.
    assert values.T.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]


def test_the_reach_is_the_mean_over_metrics_of_the_relative_correction():
    path = tiny_path()
    fall = np.linspace(0, 1, 25)[:, None]
    values = np.concatenate(
        [0.9 - 0.4 * fall, 0.7 - 0.4 * fall, 0.2 - 0.08 * fall, 0.1 - 0.04 * fall], axis=1
    )
    path = replace(path, metrics=(ipseval.metric("atop"), ipseval.metric("recall@5")), value=values)
    # A quarter of the way, 0.1 of 0.4 and 0.2 above chance, and 0.02 and 0.01 of 0.2 and 0.1.
    assert path.reach == pytest.approx((0.2 / 0.6 + 0.03 / 0.3) / 2)
    np.testing.assert_allclose(path.above_chance, [0.4, 0.2, 0.2, 0.1])
    assert path.basis.tolist() == [0] * 25


def test_ranks_of_other_pairs_are_refused():
    split = make_split()
    wrong_split = ipseval.Split(split.train, Interactions(np.array([0]), np.array([3]), **IDS))
    with pytest.raises(InputError, match=r"ranks must be of positives of split\.test"):
        correction_path(rank_by_code(wrong_split), split, metrics=["recall@1"])
    with pytest.raises(InputError, match=r"ndcg@1, auc is not an average"):
        correction_path(rank_by_code(split), split, metrics=["recall@1", "ndcg@1", "auc"])


def test_impressions_without_a_click_are_interactions_of_the_log():
    rng = np.random.default_rng(0)
    is_shown = rng.random((40, 15)) < 0.5
    user, item = np.nonzero(is_shown)
    clicked = rng.random(user.size) < 0.4
    ids = {"user_ids": np.arange(40), "item_ids": np.arange(15)}
    log = ImpressionLog(user=user, item=item, clicked=clicked, **ids)
    split = ipseval.split_random(log.positives, test_fraction=0.3, rng=1)
    models = {"popular": np.tile(np.arange(15.0), (40, 1)), "other": np.tile(-np.arange(15.0), (40, 1))}
    options = {"metrics": ["recall@5"], "rng": 2}
    path = correct(models, split, **options).path
    assert path.bases[-1] == "interactions"
    interactions = Interactions(user, item, **ids)
    expected = correct(models, split, interactions=interactions, **options).path
    np.testing.assert_array_equal(path.value, expected.value)
    # A log of clicks alone has no further pairs.
    clicks = ipseval.split_random(log.select(clicked).positives, test_fraction=0.3, rng=1)
    assert "interactions" not in correct(models, clicks, **options).path.bases


def test_ranks_with_exposure_hold_test_pairs_exposed_pairs_and_candidates():
    split = make_split()
    # User 0 is shown items 1, 7 (in training) and 0 (a test pair), user 2 items 3 and 5.
    exposure = RandomExposure(
        user=np.array([0, 0, 0, 2, 2]),
        item=np.array([1, 7, 0, 3, 5]),
        positive=np.array([True, True, False, False, True]),
        n_users=3,
        n_items=8,
    )
    scores = np.tile(-np.arange(8.0), (3, 1))
    ranks = rank_with_exposure({"low": scores}, split, exposure)
    assert ranks.test_keys.tolist() == [0, 6, 9, 21]
    assert ranks.liked_keys.tolist() == [1, 21]
    # Candidates of the exposed users 0 and 2 are all items outside training.
    assert ranks.candidate_keys.tolist() == [*range(7), *range(16, 23)]
    assert (ranks.overlap.n_removed, ranks.overlap.n_expected) == (1, (3 * 1 + 2 * 1) / 8)
    assert ranks.exposure.n_dropped == 1
    selected = ranks.select(ranks.liked_keys)["low"]
    assert list(zip(selected.user.tolist(), selected.item.tolist(), strict=True)) == [(0, 1), (2, 5)]
    assert selected.n_above.tolist() == [1, 5]
    alone = rank_with_exposure({"low": scores}, split, None)
    assert (alone.liked_keys.size, alone.candidate_keys.size, alone.exposure) == (0, 0, None)
    assert alone.select(alone.test_keys)["low"] is alone.ranks["low"]


def test_stored_ranks_without_the_exposed_pairs_are_refused():
    split = make_split()
    exposure = RandomExposure(np.array([0]), np.array([1]), np.array([True]), 3, 8)
    with pytest.raises(InputError, match="models must not contain ranks that lack pairs of the random"):
        correct(rank_by_code(split), split, random_exposure=exposure, metrics=["recall@1"])


def test_an_evaluation_is_corrected_for_metrics_without_a_cutoff():
    split = make_split()
    models = {"low": np.tile(-np.arange(8.0), (3, 1)), "high": np.tile(np.arange(8.0), (3, 1))}
    evaluation = ipseval.evaluate(models, split, metrics=["atop"])
    corrections = [correct(source, split, metrics=["atop"], rng=0) for source in (evaluation, models)]
    np.testing.assert_array_equal(corrections[0].path.value, corrections[1].path.value)
