"""Simulated A/B tests: what users do with lists, and offline comparisons beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.studies.online import online_agreement
from ipseval.validation.simulation import World
from reproductions.online_world import OnlineWorld


def test_position_bias_is_in_the_value_of_a_list():
    world = World(n_users=60, n_items=30, mean_relevant=5, rng=0)
    split = world.split(rng=1)
    flat = OnlineWorld(world, split, length=3, position_exponent=0.0, other_click=0.0, relevant_click=1.0)
    perfect = np.zeros((60, 30))
    perfect[world.relevant.user, world.relevant.item] = 1.0
    perfect[split.train.user, split.train.item] = 0.0
    left = np.bincount(world.relevant.user, minlength=60) - np.bincount(split.train.user, minlength=60)
    assert flat.value(perfect) == pytest.approx(np.minimum(left, 3).mean())
    steep = OnlineWorld(world, split, length=3, position_exponent=1.0, other_click=0.0, relevant_click=1.0)
    harmonic = np.array([0.0, 1.0, 1.5, 1.5 + 1 / 3])
    assert steep.value(perfect) == pytest.approx(harmonic[np.minimum(left, 3)].mean())


def test_an_ab_test_estimates_the_true_difference_and_novelty_lifts_it():
    world = World(n_users=400, n_items=60, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = world.example_models(split, rng=2)
    plain = OnlineWorld(world, split, length=5)
    results = pd.DataFrame(
        [plain.test(models["taste"], models["popular"], n_users=100, rng=seed) for seed in range(40)]
    )
    z = (results["difference"] - results["true_difference"]) / results["std_error"]
    assert abs(z.mean()) < 4 / np.sqrt(40)
    assert 0.6 < z.std() < 1.4
    fresh = OnlineWorld(world, split, length=5, novelty=0.5)
    lifted = pd.DataFrame(
        [fresh.test(models["taste"], models["popular"], n_users=100, rng=seed) for seed in range(20)]
    )
    gap = lifted["difference"] - lifted["true_difference"] - lifted["novelty_effect"]
    assert abs((gap / lifted["std_error"]).mean()) < 4 / np.sqrt(20)
    assert lifted["novelty_effect"].iloc[0] > 0
    assert lifted["true_difference"].iloc[0] == results["true_difference"].iloc[0]


@pytest.mark.slow
def test_a_programme_of_tests_meets_offline_comparisons():
    world = World(n_users=300, n_items=40, mean_relevant=10, rng=3)
    split = world.split(rng=1)
    rng = np.random.default_rng(0)
    models = {"base": world.example_models(split, rng=2)["popular"]}
    for number in range(8):
        noise = (number + 1) / 5
        users, items = (
            factors + noise * rng.normal(size=factors.shape)
            for factors in (world.user_factors, world.item_factors)
        )
        models[f"v{number}"] = (2 * users, items, world.appeal)
    online = OnlineWorld(world, split, length=5).programme(models, reference="base", n_users=150, rng=0)
    evaluation = ipseval.evaluate(models, split, metrics=["recall@5", "auc"])
    agreement = online_agreement(evaluation.compare(reference="base"), online, n_folds=2, rng=0)
    assert agreement.n_experiments == 8
    assert agreement.frame[["metric", "estimator"]].to_numpy().tolist() == [
        ["recall@5", "aoa"],
        ["auc", "aoa"],
    ]
