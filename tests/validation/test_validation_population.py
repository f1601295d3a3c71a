"""Estimates and references of a validation are over the same users; the pooled reference is the truth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ipseval.correction import PPI, correct
from ipseval.data import Interactions
from ipseval.data.splits import Split, split_random
from ipseval.errors import InputError
from ipseval.metrics import metric
from ipseval.propensity import DensityRatioPropensity, KnownPropensity, PowerLawPropensity, Propensity
from ipseval.ranking import RankedPositives, baselines
from ipseval.validation import Validation, validate
from ipseval.validation.datasets import RandomExposureStudy
from ipseval.validation.simulation import World
from tests.inside.validation import PairedPositives, exposure_outside_training
from tests.inside.validation import truth as ideal

MODELS = {
    "popularity": baselines.popularity,
    "svd": partial(baselines.pure_svd, n_factors=10),
    "knn": baselines.item_knn,
}
EQUAL = {"equal": PowerLawPropensity(gamma=-1, unseen="smooth")}


def expose_users(study: RandomExposureStudy, users: np.ndarray) -> RandomExposureStudy:
    """The study with random exposure of some users only."""
    return replace(study, random=study.random.select(np.isin(study.random.user, users)))


def most_active(study: RandomExposureStudy) -> np.ndarray:
    """The third of the users with the most positives in the biased log."""
    activity = study.biased.activity
    return np.argsort(-activity, kind="stable")[: activity.size // 3]


def with_true_weights(seed: int, *, n_users: int = 1500, n_resamples: int = 200) -> Validation:
    world = World(
        n_users=n_users,
        n_items=300,
        mean_relevant=40,
        relevant_spread=1.0,
        affinity=3.0,
        max_propensity=0.9,
        gamma=-0.2,
        rng=2000 + seed,
    )
    study = world.study(seed, n_per_user=30)
    known = KnownPropensity(item=world.item_propensity).fit(study.biased)
    return validate(
        MODELS,
        expose_users(study, most_active(study)),
        propensities={"true": known.held_out(test_fraction=0.3, popularity_source="log")},
        metrics=["recall@10", "mean_dcg"],
        estimators=["snips-global", "snips-pooled"],
        test_fraction=0.3,
        n_resamples=n_resamples,
        rng=seed,
    )


@pytest.mark.slow
def test_true_weights_of_the_most_active_third_show_remaining_bias_in_at_most_five_percent_of_simulations():
    results = [with_true_weights(seed) for seed in range(60)]
    short = pd.concat([result.summary for result in results])
    short = short[short["propensity"] == "true"]
    rates = {
        f"{m} by {e}": part["falls_short"].mean() for (m, e), part in short.groupby(["metric", "estimator"])
    }
    # 5 % of 60 worlds has a standard deviation of 2.8 %.
    assert max(rates.values()) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 60), rates
    assert np.mean(list(rates.values())) <= 0.05, rates


def references(seed: int, n_shown: int) -> pd.DataFrame:
    """z of both references of two recommenders: pooled against the truth, by user against the same users'."""
    world = World(n_users=1500, n_items=400, mean_relevant=20, relevant_spread=1.2, rng=seed)
    study = world.study(seed, n_per_user=n_shown)
    split = split_random(study.positives().biased, test_fraction=0.3, rng=seed)
    models = {name: world.example_models(split, rng=0)[name] for name in ("taste", "popular")}
    metrics = ["atop", "recall@10", "mean_dcg"]
    result = validate(models, study, propensities=EQUAL, metrics=metrics, split=split, n_resamples=0)
    rows = result.frame[result.frame["propensity"] == "equal"].set_index(["estimator", "model", "metric"])
    truth = world.truth(models, metrics, split).set_index(["model", "metric"])["ideal_pooled"]
    random = study.positives().random
    exposed_users = random.user[~np.isin(random.pair_key, split.train.pair_key)]
    compared_users = np.intersect1d(exposed_users, split.test.user)
    compared_pairs = world.relevant.select(np.isin(world.relevant.user, compared_users))
    compared_truth = ideal(models, metrics, split, compared_pairs).set_index(["model", "metric"])["ideal"]
    z_scores = {}
    for name, expected in (("snips-pooled", truth), ("snips-global", compared_truth)):
        part = rows.loc[name]
        z_scores[name] = (part["reference"] - expected) / part["reference_se"]
    return pd.DataFrame(z_scores)


@pytest.mark.slow
@pytest.mark.parametrize("n_shown", [5, 10, 50])
def test_pooled_reference_is_the_truth_and_user_reference_is_that_of_the_compared_users(n_shown):
    n_worlds = 40
    z = [references(seed, n_shown) for seed in range(n_worlds)]
    mean = sum(z) / n_worlds
    # The mean of 40 standard normal numbers has a standard error of .16.
    assert np.abs(mean.to_numpy()).max() < 4 / np.sqrt(n_worlds)
    outside = sum((z_score.abs() > 1.96).to_numpy().mean() for z_score in z) / n_worlds
    # Six correlated numbers per world count as one.
    assert outside < 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_worlds)


@pytest.fixture(scope="module", name="study")
def small_study():
    return World(n_users=300, n_items=80, mean_relevant=16, max_propensity=0.9, rng=0).study(1, n_per_user=20)


def test_random_sample_of_one_half_of_the_users_is_compared_with_the_other_half(study):
    options = {"metrics": ["recall@10"], "n_resamples": 2, "rng": 0}
    result = validate(MODELS, study, propensities=EQUAL, **options)
    rows = result.frame[result.frame["propensity"] == "random-sample"]
    assert rows.groupby(["estimator", "model"])["fold"].agg(list).tolist() == [[0, 1]] * 6
    first, second = (rows[rows["fold"] == fold] for fold in (0, 1))
    for fold_rows, other_fold_rows in ((first, second), (second, first)):
        assert fold_rows["estimate"].tolist() == other_fold_rows["reference"].tolist()
        assert fold_rows["std_error"].tolist() == other_fold_rows["reference_se"].tolist()
        assert fold_rows["n_positives"].tolist() == other_fold_rows["n_reference_positives"].tolist()
    # Both halves together are the random positives of the pooled reference.
    n_all_positives = result.frame[(result.frame["estimator"] == "snips-pooled")][
        "n_reference_positives"
    ].iloc[0]
    pooled = rows[rows["estimator"] == "aoa-pooled"].groupby("model")["n_positives"].sum()
    assert (pooled == n_all_positives).all()
    # The halves share no user: the variance of the difference is the sum of theirs, but for n/(n − 1).
    difference_se = np.sqrt(rows["std_error"] ** 2 + rows["reference_se"] ** 2)
    assert rows["bias_se"].to_numpy() == pytest.approx(difference_se.to_numpy(), rel=0.02)
    summary = result.summary.set_index(["propensity", "estimator"])
    for estimator in ("aoa", "aoa-pooled"):
        mine = rows[rows["estimator"] == estimator]
        error = (mine["estimate"] - mine["reference"]).abs().groupby(mine["fold"]).mean()
        assert summary.loc[("random-sample", estimator), "mae"] == pytest.approx(error.mean(), abs=1e-12)
        assert summary.loc[("random-sample", estimator), "reduction"] > 0.5
    assert "random-sample" in repr(result)
    assert "random-sample" in result.to_html()


def test_users_without_random_exposure_enter_neither_estimate_nor_reference(study):
    split = split_random(study.positives().biased, rng=0)
    models = {name: train(split.train) for name, train in MODELS.items()}
    chosen = most_active(study)
    options = {"propensities": EQUAL, "metrics": ["recall@10", "atop"], "n_resamples": 0}
    result = validate(models, expose_users(study, chosen), split=split, **options)
    assert result.n_exposed == 100
    rows = result.frame[result.frame["propensity"] == "equal"]
    pooled, by_user = (rows[rows["target"] == target] for target in ("pooled", "user"))
    held_out = np.intersect1d(split.test.user, chosen)
    assert (pooled["n_users"] == held_out.size).all()
    assert (by_user["n_users"] == result.n_compared).all()
    assert (by_user["n_reference_users"] == result.n_compared).all()
    assert result.n_compared <= held_out.size
    # The users of the other two thirds change nothing, whatever they hold out.
    fewer = Split(split.train, split.test.select(np.isin(split.test.user, chosen)))
    again = validate(models, expose_users(study, chosen), split=fewer, **options)
    pd.testing.assert_frame_equal(again.frame[again.frame["propensity"] == "equal"], rows, check_exact=True)
    # Held-out positives of one user are in one fold, whose random sample is judged, first or last.
    liked = exposure_outside_training(study, split)
    user = np.intersect1d(held_out, liked.user[liked.positive])[0]
    alone = Split(split.train, split.test.select(split.test.user == user))
    folds = [
        validate(models, study, split=alone, rng=seed, **options).frame["fold"].dropna().unique().tolist()
        for seed in (0, 1)
    ]
    assert sorted(set(map(tuple, folds))) == [(0,), (1,)]


def test_a_study_where_no_user_has_both_kinds_of_positives_is_refused_for_averages_over_users():
    log = Interactions(
        np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), np.arange(2), np.arange(4), value=np.full(6, 5.0)
    )
    random = Interactions(np.array([1]), np.array([3]), np.arange(2), np.arange(4), value=np.array([5.0]))
    split = Split(
        log.select(np.array([1, 1, 0, 1, 1, 1], bool)), log.select(np.array([0, 0, 1, 0, 0, 0], bool))
    )
    models = {name: np.zeros((2, 4)) for name in "ab"}
    with pytest.raises(InputError, match="no user has both held-out and random-exposure positives"):
        validate(
            models, RandomExposureStudy("tiny", log, random, threshold=4), propensities=EQUAL, split=split
        )


def make_tied_positives(rng: np.random.Generator) -> dict[str, RankedPositives]:
    """Ranks of 40 positives of 8 users by two recommenders, with ties."""
    pair = np.sort(rng.permutation(8 * 50)[:40])
    n = np.full(40, 50)
    return {
        name: RankedPositives(
            pair // 50,
            pair % 50,
            rng.integers(0, 12, 40),
            rng.integers(0, 3, 40),
            n,
            user_ids=np.arange(8),
            item_ids=np.arange(50),
        )
        for name in ("a", "b")
    }


def test_contributions_of_selected_users_equal_those_computed_for_these_users_only():
    rng = np.random.default_rng(0)
    held_out, random = make_tied_positives(rng), make_tied_positives(rng)
    metrics = (metric("recall@5"), metric("mean_dcg"), metric("ndcg@5"))  # ndcg has none
    comparison = PairedPositives("pooled", metrics, held_out, random, "default")
    users = np.arange(8) % 3 > 0
    selected = comparison.select_users(users)
    alone = PairedPositives(
        "pooled",
        metrics,
        {name: ranks.select(users[ranks.user]) for name, ranks in held_out.items()},
        {name: ranks.select(users[ranks.user]) for name, ranks in random.items()},
        "default",
    )
    np.testing.assert_array_equal(selected.contributions, alone.contributions)
    assert np.isnan(selected.contributions).all(axis=0).tolist() == [False] * 4 + [True] * 2
    np.testing.assert_array_equal(selected.reference.value, alone.reference.value)
    # Without some of the held-out positives ranks are others; the random ones stay.
    item = np.full(50, 0.5)
    item[held_out["a"].item[0]] = np.nan
    remaining, samples = comparison.weighted(Propensity(item, True, "test", 50))
    assert list(samples) == ["a", "b"]
    ranked = {name: ranks.ranked for name, ranks in samples.items()}
    fewer = PairedPositives("pooled", metrics, ranked, random, "default")
    np.testing.assert_array_equal(remaining.contributions, fewer.contributions)
    np.testing.assert_array_equal(remaining.reference.value, comparison.reference.value)
    few = {name: ranks.select(ranks.user < 3) for name, ranks in held_out.items()}
    assert replace(comparison, held_out=few).n_users == np.unique(few["a"].user).size


def test_difference_estimate_equals_the_correction_for_the_users_of_the_other_fold(study):
    split, metrics = split_random(study.positives().biased, rng=3), ["recall@10", "atop"]
    models = {name: MODELS[name](split.train) for name in ("popularity", "knn")}

    def validate_with_ppi(*estimators, n_resamples=0):
        options = {"propensities": EQUAL, "metrics": metrics, "split": split, "rng": 5}
        return validate(models, study, estimators=estimators, n_resamples=n_resamples, **options)

    frame = validate_with_ppi("snips-pooled", PPI).frame
    rows = frame[frame["estimator"] == PPI]
    other_rows = frame.drop(rows.index).reset_index(drop=True)
    pd.testing.assert_frame_equal(other_rows, validate_with_ppi("snips-pooled").frame)
    sample = other_rows[other_rows["propensity"] == "random-sample"]
    for name in ("propensity", "fold", "model", "metric", "target", "reference", "n_positives"):
        assert rows[name].tolist() == sample[name].tolist()
    assert (rows["std_error"].to_numpy() < 1.02 * sample["std_error"].to_numpy()).all()
    fold_of_user = np.random.default_rng(5).permutation(np.arange(split.n_users) % 2)
    exposure = exposure_outside_training(study, split)
    for fold, part in rows.groupby("fold"):
        random_exposure = exposure.select(fold_of_user[exposure.user] != fold)
        corrected = correct(models, split, random_exposure=random_exposure, metrics=metrics, rng=0).frame
        ppi_estimates = corrected.loc[corrected["estimator"] == PPI, "estimate"]
        assert part["estimate"].to_numpy() == pytest.approx(ppi_estimates.to_numpy(), abs=1e-12)
    result = validate_with_ppi("snips-pooled", PPI, n_resamples=50)
    cell = result.summary.set_index(["metric", "estimator"]).loc[("recall@10", PPI)]
    rows = result.frame[(result.frame["estimator"] == PPI) & (result.frame["metric"] == "recall@10")]
    error = rows["bias"].abs().groupby(rows["fold"]).mean().mean()
    assert cell["mae"] == pytest.approx(error, abs=1e-12)
    assert 0.5 < cell["reduction_low"] < cell["reduction"] < cell["reduction_high"]
    assert PPI in repr(result)


def validate_in_world(selection, n_resamples=200, gammas=(-0.5, 0.5, 1), n_users=1500):
    world = World(
        n_users=n_users,
        n_items=300,
        mean_relevant=60,
        affinity=3.0,
        max_propensity=0.9,
        gamma=-0.2,
        selection=selection,
        rng=5,
    )
    study = world.study(6, n_per_user=60)
    known = KnownPropensity(item=world.item_propensity).fit(study.biased)
    rules = {"item": known.held_out(test_fraction=0.3, popularity_source="log")}
    rules |= {f"gamma {g}": PowerLawPropensity(gamma=g, unseen="smooth") for g in gammas}
    if selection:
        rules["ratio"] = DensityRatioPropensity(cross_fit=3, rng=0)
        rules["pair"] = world.propensity.held_out(test_fraction=0.3, popularity_source="log")
    return validate(
        MODELS,
        study,
        propensities=rules,
        metrics=["recall@10", "mean_dcg"],
        estimators=["snips-global", "snips-pooled"],
        test_fraction=0.3,
        n_resamples=n_resamples,
        rng=0,
    )


def frames_by_propensity(result):
    return result.summary.set_index(["propensity", "estimator", "metric"]).sort_index()


@pytest.fixture(scope="module", name="right_world")
def fixture_right_world():
    return frames_by_propensity(validate_in_world(selection=0.0))


@pytest.fixture(scope="module", name="wrong_world")
def fixture_wrong_world():
    with pytest.MonkeyPatch.context() as patch:
        for file in ("cross_fitted_odds", "_density_ratio"):  # seven of them take longer
            patch.setattr(f"ipseval.propensity.{file}.RIDGES", (3.0, 100.0))
        return frames_by_propensity(validate_in_world(selection=2.5, n_resamples=50))


@pytest.mark.slow
def test_known_item_weights_leave_only_noise_when_exposure_depends_on_the_item_only(right_world):
    assert (right_world.loc["item", "reduction"] > 0.95).all()
    assert not right_world.loc["item", "falls_short"].any()


def test_validation_shows_the_remaining_bias_of_item_weights_when_exposure_depends_on_user_and_item(
    wrong_world,
):
    known = wrong_world.loc["item"]
    assert known["falls_short"].all()
    assert (known["reduction"] < 0.65).all()
    # No exponent of popularity does it either ...
    for gamma in (-0.5, 0.5, 1):
        assert wrong_world.loc[f"gamma {gamma}", "falls_short"].all()
    # ... but the known weights per pair do, and the fitted density ratio takes out most of it.
    assert not wrong_world.loc["pair", "falls_short"].any()
    assert (wrong_world.loc["ratio", "reduction"] > known["reduction"] + 0.2).all()


def test_factor_is_where_the_weight_bounds_reach_the_reference():
    result = validate_in_world(selection=0.0, n_resamples=0, gammas=(0, 1), n_users=220)
    rows = result.frame.query("propensity != 'random-sample'")
    assert (rows["factor"] >= rows["factor_beyond_noise"]).all()
    assert (rows["factor_beyond_noise"] >= 1).all()
    # recall@10 is 0 or 1 for each positive, as in this world none is tied with others for the tenth place.
    # So Λ follows from the estimate alone: t/(1 − t) = Λ² R/(1 − R).
    recall = rows[rows["metric"] == "recall@10"]
    odds = [recall[name] / (1 - recall[name]) for name in ("reference", "estimate")]
    assert recall["factor"].to_numpy() == pytest.approx(
        np.exp(np.abs(np.log(odds[0] / odds[1])) / 2), rel=1e-9
    )
    # Beyond noise it is to the reference moved towards the estimate by as many standard errors as six need.
    reach = norm.ppf(1 - 0.05 / (2 * 6)) * recall["bias_se"]
    reference_within_noise = recall["reference"] + recall["bias"].clip(-reach, reach)
    odds[0] = reference_within_noise / (1 - reference_within_noise)
    assert recall["factor_beyond_noise"].to_numpy() == pytest.approx(
        np.exp(np.abs(np.log(odds[0] / odds[1])) / 2), rel=1e-9
    )
    assert result.summary["falls_short"].isna().all()  # without resamples nothing says how far it may be
