"""The covariance of the mean of random exposure, with equal weights and with those of a design, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ipseval
from ipseval import Interactions, RandomExposure, RankedPositives, rank_positives
from ipseval.correction import CorrectionPath, correct_path
from tests.correction.test_posterior import tiny_path
from tests.inside.correction import ALPHAS, RandomSample, compute_hit_weight

MASS = np.full(ALPHAS.size, 1 / ALPHAS.size)
THETA = np.array([0.6, 0.5, 0.3, 0.2])


def path_of_two_metrics() -> CorrectionPath:
    """Return a path of two recommenders by atop, which uses all ranks, and by recall@5, without correction."""
    spread = np.diag([0.08, 0.06, 0.2, 0.15])
    spread[0, 1] = spread[1, 0] = 0.03
    spread[2, 3] = spread[3, 2] = 0.05
    return replace(
        tiny_path(),
        metrics=(ipseval.metric("atop"), ipseval.metric("recall@5")),
        value=np.tile(THETA, (ALPHAS.size, 1)),
        covariance=np.repeat(1e-4 * np.eye(4)[None], ALPHAS.size, axis=0),
        spread=np.repeat(spread[None], ALPHAS.size, axis=0),
        within=np.array([0.1, 0.2, 0.0, 0.3]),
        similarity=np.eye(4) + 0.25 * (spread > 0) * (1 - np.eye(4)),
        hit=np.array([0.8, 0.7, 1.0, 1.0]),
    )


def make_sample(**design: Any) -> RandomSample:
    """Return a sample of 40 users and 50 positives, two of the user of a positive on average."""
    covariance = np.diag([0.002, 0.003, 0.004, 0.001])
    covariance[2, 3] = covariance[3, 2] = 0.0005
    return RandomSample(
        value=np.array([0.55, 0.5, 0.2, 0.1]),
        sample_covariance=covariance,
        n_positives=50,
        n_users=40,
        user_size=2.0,
        **design,
    )


def compute_path_covariance(path: CorrectionPath) -> np.ndarray:
    """Return the covariance of 50 equally weighted positives by the path, cell by cell."""
    deff = [1.1, 1.2, 1.0, 1.3]  # 1 + correlation within users · (2 − 1)
    return np.array(
        [
            [path.spread[0, row, column] * np.sqrt(deff[row] * deff[column]) / 50 for column in range(4)]
            for row in range(4)
        ]
    )


def compute_pooled_covariance(
    sample: RandomSample, path: CorrectionPath, path_covariance: np.ndarray, sizes: np.ndarray, users: float
) -> np.ndarray:
    """Return the pooled covariance of cells whose numbers of positives and covariance by the path are known."""
    sample_covariance = sample.sample_covariance * (users - 1) / (users - 3)
    level = []
    for cells, n in ((slice(0, 2), users), (slice(2, 4), (sizes[2] * 0.2 + sizes[3] * 0.1) / 2)):
        ratio = np.trace(sample_covariance[cells, cells]) / np.trace(path_covariance[cells, cells])
        level += [(n * ratio + 20) / (n + 20)] * 2
    share = 1600 / (1600 + sample.size)
    half_hit = path.similarity * np.outer(path.hit, path.hit) / 2 / np.outer(sizes + 1, sizes + 1)
    scaled = path_covariance * np.sqrt(np.outer(level, level))
    return share * scaled + (1 - share) * sample_covariance + half_hit


def test_the_covariance_of_equal_weights_is_pooled_from_the_path_and_the_sample():
    path = path_of_two_metrics()
    sample = make_sample()
    expected = compute_pooled_covariance(sample, path, compute_path_covariance(path), np.full(4, 50.0), 40)
    np.testing.assert_allclose(sample.covariance(path, MASS), expected, rtol=1e-12)
    # The interval of the sample alone has its own covariance, and half a hit more.
    np.testing.assert_allclose(
        sample.interval_covariance(path), sample.sample_covariance + path.half_hit(50), rtol=1e-12
    )


def test_the_covariance_of_a_design_counts_hits_and_misses_by_their_weights():
    path = path_of_two_metrics()
    # The mean weight of all positives is 2, as 50 positives count as 25; that of a hit of recall is 0.5.
    sample = make_sample(ess=25.0, hit_weight=np.array([2.0, 2.0, 0.5, 0.5]))
    # Of recall as in 50/0.5 = 100 positives, of which 20 and 10 are hits: 4/5 and 2/3 of the sample's value.
    theta = np.array([0, 0, 0.2 * 4 / 5 + 0.3 / 5, 0.1 * 2 / 3 + 0.2 / 3])
    sizes = np.array([25.0, 25, 100, 100])
    spread = path.spread[0]
    from_positives = spread / np.sqrt(np.outer(sizes, sizes)) + (1 / 25 - 1 / 100) * np.outer(theta, theta)
    from_pairs_of_users = spread * np.sqrt(np.outer(path.within, path.within)) * (2 - 1) / 25
    path_covariance = from_positives + from_pairs_of_users
    expected = compute_pooled_covariance(sample, path, path_covariance, sizes, 40 * 25 / 50)
    np.testing.assert_allclose(sample.covariance(path, MASS), expected, rtol=1e-12)
    half_hit = path.half_hit(0) / np.outer(sizes + 1, sizes + 1)
    np.testing.assert_allclose(sample.half_hit(path), half_hit, rtol=1e-12)
    np.testing.assert_allclose(
        sample.interval_covariance(path), sample.sample_covariance * 19 / 17 + half_hit, rtol=1e-12
    )


def test_the_weight_of_a_hit_is_the_mean_of_weights_by_squared_contributions():
    path = path_of_two_metrics()
    weight = np.array([0.5, 0.5, 2.0, 1.0])
    values = np.array([[0.9, 0.8, 1.0, 0], [0.7, 0.9, 0, 0.2], [0.1, 0.3, 0, 0], [0.4, 0.2, 0, 0]])
    # Of all positives (0.25 + 0.25 + 4 + 1)/4; of hits, which both have the weight 0.5, 0.5.
    assert compute_hit_weight(weight, values, path) == pytest.approx([5.5 / 4, 5.5 / 4, 0.5, 0.5])
    # A miss by 0.1 with the weight 2 counts as 0.01 hits: (0.25 · 1.04 + 4 · 0.01)/(0.5 · 1.04 + 2 · 0.01).
    values[2, 2] = 0.1
    assert compute_hit_weight(weight, values, path)[2:] == pytest.approx([0.3 / 0.54] * 2)
    # Without a hit, hits are like the pairs that are shown most often.
    assert compute_hit_weight(weight, values * [1, 1, 0, 0], path)[2:] == pytest.approx([0.5] * 2)
    assert compute_hit_weight(weight, np.ones((4, 4)), path) == pytest.approx([5.5 / 4] * 4)


def rank_three_positives() -> dict[str, RankedPositives]:
    """Return ranks of three positives of two users: 1, 6 and 2 of 9 candidates, and 9, 4 and 8."""
    ids = {"user_ids": np.arange(2), "item_ids": np.arange(9)}
    no_codes = np.zeros(0, dtype=np.int64)
    test = Interactions(np.array([0, 0, 1]), np.array([0, 5, 1]), **ids)
    split = ipseval.Split(Interactions(no_codes, no_codes, **ids), test)
    scores = -np.tile(np.arange(9.0), (2, 1))
    return {"a": rank_positives(scores, split), "b": rank_positives(-scores, split)}


def test_the_sample_of_two_users_is_worked_by_hand():
    ranks = rank_three_positives()
    path = tiny_path()
    sample = RandomSample.from_ranks(ranks, path)
    # Recall@5 of a: 1, 0, 1; of b: 0, 1, 0. Sums of users minus their means: 1 − 4/3 and 1 − 2/3, over 3.
    assert sample.value == pytest.approx([2 / 3, 1 / 3])
    influence = np.array([[-1 / 9, 1 / 9], [1 / 9, -1 / 9]])
    np.testing.assert_allclose(sample.sample_covariance, 2 * influence.T @ influence, rtol=1e-12)
    assert sample.user_size == pytest.approx(5 / 3)
    assert (sample.n_positives, sample.n_users, sample.size, sample.ess) == (3, 2, 3, None)
    assert sample.hit_weight is None


def test_only_the_weights_of_a_design_distinguish_hits_from_misses():
    ranks = rank_three_positives()
    ranks_of_a = {"a": ranks["a"], "b": ranks["a"]}
    exposure = RandomExposure(
        user=np.array([1, 0, 0, 0]),
        item=np.array([1, 5, 8, 0]),
        positive=np.array([True, True, False, True]),
        n_users=2,
        n_items=9,
        weight=np.array([2.0, 8.0, 100.0, 4.0]),
    )
    # The weights of the positives are 4, 8 and 2, of which the largest counts as 1; their ranks 1, 6 and 2.
    sample = correct_path(tiny_path(), ranks_of_a, random_exposure=exposure).sample
    assert sample.value == pytest.approx([6 / 14] * 2)
    assert sample.ess == pytest.approx(14**2 / 84)
    assert sample.user_size == pytest.approx((12**2 + 2**2) / 84)
    assert sample.hit_weight is None
    designed = replace(exposure, is_designed=True)
    sample = correct_path(tiny_path(), ranks_of_a, random_exposure=designed).sample
    # Weights with mean 1 are 6/7, 12/7 and 3/7.
    assert sample.hit_weight == pytest.approx([(36 + 9) / 7 / 9] * 2)


def test_the_sample_of_a_single_user_has_no_variance_of_its_own():
    ranks = {name: ranked.select(ranked.user == 0) for name, ranked in rank_three_positives().items()}
    sample = RandomSample.from_ranks(ranks, tiny_path())
    assert sample.n_users == 1
    np.testing.assert_allclose(sample.sample_covariance, 0, atol=1e-30)
    variance = np.diag(sample.covariance(tiny_path(), MASS))
    assert (variance > 0.03 / 2).all()  # half of the spread of a positive, as there are two


def test_the_size_of_the_weights_does_not_matter():
    ranks = rank_three_positives()
    exposure = RandomExposure(
        user=np.array([0, 0, 1]),
        item=np.array([0, 5, 1]),
        positive=np.ones(3, dtype=bool),
        n_users=2,
        n_items=9,
        weight=np.array([4.0, 8.0, 2.0]),
        is_designed=True,
    )
    expected = correct_path(tiny_path(), ranks, random_exposure=exposure).sample
    for factor in (1e-200, 1e200):  # squares of these are beyond double precision
        scaled = replace(exposure, weight=exposure.weight * factor)
        sample = correct_path(tiny_path(), ranks, random_exposure=scaled).sample
        for name in ("value", "sample_covariance", "ess", "user_size", "hit_weight"):
            np.testing.assert_allclose(getattr(sample, name), getattr(expected, name), rtol=1e-12)


def test_a_metric_that_nobody_hits_has_the_covariance_of_half_a_hit():
    path = path_of_two_metrics()
    spread = path.spread.copy()
    spread[:, 2:, 2:] = 0
    path = replace(path, spread=spread)
    covariance = np.diag([0.002, 0.003, 0, 0])
    sample = replace(make_sample(), value=np.array([0.55, 0.5, 0, 0]), sample_covariance=covariance)
    pooled = sample.covariance(path, MASS)
    assert np.isfinite(pooled).all()
    np.testing.assert_allclose(pooled[2:, 2:], path.half_hit(50)[2:, 2:], rtol=1e-12)
