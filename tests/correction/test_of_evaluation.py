"""The correction of an evaluation reuses its ranks, and accepts only the evaluated split."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import InputError, RandomExposure
from ipseval.errors import DataWarning
from ipseval.validation.simulation import World

METRICS = ["recall@5", "atop"]


@pytest.fixture(scope="module", name="situation")
def a_simulated_log():
    world = World(n_users=200, n_items=60, mean_relevant=10, rng=0)
    split = world.split(rng=1)
    examples = world.example_models(split, rng=2)
    return world, split, {name: examples[name] for name in ("popular", "noisy", "random")}


@pytest.fixture(scope="module", name="evaluation")
def an_evaluation(situation):
    _, split, models = situation
    return ipseval.evaluate(models, split, metrics=METRICS)


def test_the_ranks_of_an_evaluation_give_the_correction_of_its_models(situation, evaluation):
    _, split, models = situation
    pd.testing.assert_frame_equal(
        ipseval.correct(evaluation, split, metrics=METRICS, rng=0).frame,
        ipseval.correct(models, split, metrics=METRICS, rng=0).frame,
        check_exact=True,
    )


def test_nothing_is_ranked_again(situation):
    _, split, models = situation
    calls = []

    def scorer(users: np.ndarray) -> np.ndarray:
        calls.append(len(users))
        return np.tile(np.arange(split.n_items, dtype=float), (len(users), 1))

    evaluation = ipseval.evaluate({"mine": scorer, **models}, split, metrics=METRICS)
    n_calls = len(calls)
    correction = ipseval.correct(evaluation, split, metrics=["recall@20"], rng=0)
    assert len(calls) == n_calls > 0
    assert correction.models == ("mine", *models)


def test_interactions_without_a_propensity_are_part_of_the_correction(situation):
    _, split, models = situation
    rare = split.train.popularity < np.quantile(split.train.popularity, 0.3)
    train = split.train.select(~rare[split.train.item])
    split_without_rare_items = ipseval.Split(train, split.test)
    propensity = ipseval.PowerLawPropensity(gamma=0.0, unseen="drop")
    evaluation = ipseval.evaluate(
        models, split_without_rare_items, propensity=propensity, metrics=METRICS, low_ess="ignore"
    )
    assert evaluation.frame["n_positives"].max() < len(split_without_rare_items.test)
    correction = ipseval.correct(evaluation, split_without_rare_items, metrics=METRICS, rng=0)
    assert correction.path.n_positives == len(split_without_rare_items.test)


def test_users_without_a_list_are_treated_as_in_the_evaluation(situation):
    _, split, models = situation
    rows = []
    training_keys = set(split.train.pair_key.tolist())
    for user in range(0, split.n_users, 2):
        unseen = [item for item in range(split.n_items) if user * split.n_items + item not in training_keys][
            :10
        ]
        rows += [(split.user_ids[user], split.item_ids[item], rank) for rank, item in enumerate(unseen, 1)]
    lists = pd.DataFrame(rows, columns=["user", "item", "rank"])
    for missing_lists in ("zero", "drop"):
        options = {"missing_lists": missing_lists, "metrics": ["recall@5"]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            evaluation = ipseval.evaluate({"lists": lists, "random": models["random"]}, split, **options)
            model_correction = ipseval.correct(
                {"lists": lists, "random": models["random"]}, split, **options, rng=0
            )
        correction = ipseval.correct(evaluation, split, metrics=["recall@5"], rng=0)
        pd.testing.assert_frame_equal(correction.frame, model_correction.frame, check_exact=True)


def test_random_exposure_needs_the_models(situation, evaluation):
    world, split, _ = situation
    exposure = RandomExposure.from_ratings(world.study(rng=3, n_per_user=20).random, threshold=4)
    with pytest.raises(InputError, match=r"has not ranked the exposed pairs\. Pass the models\."):
        ipseval.correct(evaluation, split, random_exposure=exposure, metrics=METRICS)


def test_missing_lists_are_an_option_of_the_evaluation(situation, evaluation):
    with pytest.raises(InputError, match="missing_lists must be left out with an Evaluation"):
        ipseval.correct(evaluation, situation[1], missing_lists="drop", metrics=METRICS)


def test_another_split_is_refused(situation, evaluation):
    world, split, models = situation
    is_kept = np.arange(len(split.test)) > 3
    wrong_splits = {
        "got 0 that were not evaluated and 4 that are not in the split": replace(
            split, test=split.test.select(is_kept)
        ),
        "the same training interactions": replace(
            split, train=split.train.select(np.arange(len(split.train)) > 0)
        ),
        "that were not evaluated": world.split(rng=5),
        "the same users and items": World(n_users=100, n_items=60, rng=0).split(rng=1),
    }
    for message, wrong_split in wrong_splits.items():
        with pytest.raises(InputError, match=message):
            ipseval.correct(evaluation, wrong_split, metrics=METRICS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of sampled candidates
        candidates = ipseval.SampledCandidates(20, rng=0)
        sampled_evaluation = ipseval.evaluate(models, split, metrics=["recall@5"], candidates=candidates)
    with pytest.raises(InputError, match="all items are candidates"):
        ipseval.correct(sampled_evaluation, split, metrics=METRICS)


def test_an_evaluation_without_its_ranks_is_refused(situation, evaluation, tmp_path):
    evaluation.save(tmp_path / "small.npz", ranks=False)
    evaluation_without_ranks = ipseval.Evaluation.load(tmp_path / "small.npz")
    with pytest.raises(InputError, match="must be an Evaluation that has its ranks"):
        ipseval.correct(evaluation_without_ranks, situation[1], metrics=METRICS)
    evaluation.save(tmp_path / "whole.npz")
    evaluation_with_ranks = ipseval.Evaluation.load(tmp_path / "whole.npz")
    pd.testing.assert_frame_equal(
        ipseval.correct(evaluation_with_ranks, situation[1], metrics=METRICS, rng=0).frame,
        ipseval.correct(evaluation, situation[1], metrics=METRICS, rng=0).frame,
        check_exact=True,
    )


def test_metrics_and_reference_values_are_checked_by_the_names_of_the_evaluation(situation, evaluation):
    with pytest.raises(InputError, match="unknown recommender in reference_values 'typo'"):
        ipseval.correct(
            evaluation,
            situation[1],
            reference_values={"typo": {"recall@5": (0.2, 0.01)}},
            source="randomised",
            metrics=METRICS,
        )
    with pytest.raises(InputError, match="not an average over relevant items"):
        ipseval.correct(evaluation, situation[1], metrics=["ndcg@5"])


def test_lists_shorter_than_a_cutoff_cause_a_warning(situation):
    _, split, models = situation
    training_keys = set(split.train.pair_key.tolist())
    rows = []
    for user in range(split.n_users):
        unseen = [item for item in range(split.n_items) if user * split.n_items + item not in training_keys][
            :10
        ]
        rows += [(split.user_ids[user], split.item_ids[item], rank) for rank, item in enumerate(unseen, 1)]
    lists = pd.DataFrame(rows, columns=["user", "item", "rank"])
    evaluation = ipseval.evaluate({"lists": lists, "random": models["random"]}, split, metrics=["recall@5"])
    with pytest.warns(DataWarning, match="every list of 'lists' is shorter than 20"):
        ipseval.correct(evaluation, split, metrics=["recall@20"], rng=0)
