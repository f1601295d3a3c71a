"""The analyses behind docs/sampled.md: orders under sampled candidates, and sampling that adapts."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.ranking import rank_positives
from ipseval.validation.simulation import World
from reproductions import adaptive, sampling
from tests.worlds import random_world


def test_simulated_chances_agree_with_enumeration():
    # Ranks 2 and 3 of 3, two draws: rank 2 is beaten unless both fall on the item below, with chance 1/4.
    chances = sampling.chances_to_be_first({"a": [2], "b": [3]}, 3, 2, np.array([1.0, 0, 0]), n_repeats=4000)
    assert chances["a"] == pytest.approx(0.25 + 0.75 / 2, abs=4 * 0.5 / 4000**0.5)
    assert sum(chances.values()) == pytest.approx(1)


def test_the_study_compares_every_setting_with_full_ranking():
    world = random_world(2, n_users=30, n_items=25)
    rng = np.random.default_rng(1)
    relevant = np.zeros((world.split.n_users, world.split.n_items))
    relevant[world.split.test.user, world.split.test.item] = 1
    models = {
        name: relevant * signal + rng.normal(size=relevant.shape)
        for name, signal in (("strong", 2), ("none", 0))
    }
    study = sampling.sampling_study(
        models,
        world.split,
        n_sampled=[5, 20],
        distributions={"uniform": "uniform", "weights": np.arange(1.0, world.split.n_items + 1)},
        metrics=["recall@5"],
        methods=["none", "cls"],
        n_repeats=1,
    )
    assert len(study) == 2 * 2 * 2 * 2  # models, m, methods, distributions
    methods = study.groupby("distribution")["method"].unique().map(list).to_dict()
    assert methods == {"uniform": ["none", "cls"], "weights": ["none", "importance"]}
    agreement = sampling.agreement(study)
    assert len(agreement) == 8
    assert (agreement["or@1"] == 1).all()  # the recommenders are far apart


def test_full_ranking_values_average_over_ties():
    world = random_world(4)
    flat = rank_positives(np.zeros_like(world.scores), world.split)
    n = flat.n_candidates.astype(float)
    recall = sampling.full_ranking_value(flat, ipseval.metric("recall@5"))
    assert recall == pytest.approx((flat.sum_by_user(5 / n) / flat.counts).mean())
    assert sampling.full_ranking_value(flat, ipseval.metric("auc")) == pytest.approx(0.5)


def test_the_likelihood_of_all_outcomes_adds_up():
    """n₀ = 2, at most 4: the outcomes are 1 or 2 of 2 above, or none and then 0, 1 or 2 of 2 more."""
    n = 6
    p = np.arange(n) / (n - 1)
    expected = np.stack(
        [2 * p * (1 - p), p**2, (1 - p) ** 4, (1 - p) ** 2 * 2 * p * (1 - p), (1 - p) ** 2 * p**2]
    )
    np.testing.assert_allclose(expected.sum(axis=0), 1)
    drawn, above = np.array([2, 2, 4, 4, 4]), np.array([1, 2, 0, 1, 2])
    table = adaptive.likelihood(drawn, np.full(5, 2), above, np.full(5, n))
    np.testing.assert_allclose(table, expected / expected.max(axis=1, keepdims=True), rtol=1e-12)


def test_em_finds_ranks_that_are_certain():
    np.testing.assert_allclose(adaptive.fitted(np.eye(4)[[0, 0, 2, 3]], 50), [0.5, 0, 0.25, 0.25])


def test_only_positives_that_nothing_has_beaten_get_more_candidates():
    world = World(n_users=40, n_items=400, mean_relevant=12, affinity=6.0, rng=0)
    split = world.split(rng=1)
    model = world.example_models(split, rng=2)["taste"]
    drawn, last, above, n = adaptive.stages(model, split, 10, 80, np.random.default_rng(0))
    assert set(drawn.tolist()) <= {10, 20, 40, 80}
    assert (above[drawn < 80] > 0).all()
    assert np.array_equal(last, np.where(drawn == 10, 10, drawn // 2))
    assert np.array_equal(n, split.n_items - split.train.activity[split.test.user])
    first, again = (adaptive.adaptive_sampled(model, split, "ap", n_initial=10, n_max=80) for _ in "ab")
    assert first[0] == again[0]
