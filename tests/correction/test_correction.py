"""The correction strength: its path, limits, the plan, and invariances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import RandomExposure, rank_positives
from ipseval.correction import (
    CORRECTED,
    RANDOM_SAMPLE,
    CorrectionPrior,
    correct,
    correct_path,
    correction_path,
    plan_exposure,
)
from ipseval.errors import DataWarning, InputError
from ipseval.validation.simulation import World
from tests.inside.correction import (
    ALPHAS,
    RandomSample,
    _intraclass_correlation,
    _plan,
    _typical_hit,
    fit_odds,
)
from tests.inside.estimators import AOA_POOLED

METRICS = ["atop", "recall@5"]
PRIOR = CorrectionPrior()


def test_the_intraclass_correlation_equals_an_analysis_of_variance():
    # Users 0 and 1 have (1, 0.6) and 0. Inside: (.04 + .04)/(3 − 2). Between, with 8/15 the mean of all:
    # (2 (4/15)² + (8/15)²)/(2 − 1) = 32/75. Size (3 − 5/3)/(2 − 1) = 4/3, extra (32/75 − .08)/(4/3) = .26.
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": [0, 1], "item": [0, 0]}), pd.DataFrame({"user": [0, 0, 1], "item": [1, 2, 1]})
    )
    positives = rank_positives(np.zeros((2, 3)), split)
    values = np.array([[1.0, 1.0, 0.0], [0.6, 0.0, 0.0], [0.0, 0.5, 0.0]])
    # Σc²/Σc of a metric, over its cells; nothing is hit by the second one.
    assert _typical_hit(np.array([[0.2, 0.1, 0, 0]]), 2) == pytest.approx([0.05 / 0.3] * 2 + [0, 0])
    # In the second column users have the same mean, in the third nothing varies.
    assert _intraclass_correlation(positives, values) == pytest.approx([0.26 / 0.34, 0.0, 0.0], abs=1e-9)


@pytest.fixture(scope="module", name="world")
def a_world():
    world = World(n_users=500, n_items=120, mean_relevant=12, gamma=0.3, selection=1.0, rng=0)
    split = world.split(rng=1, train_scale=0.8, test_scale=0.3)
    examples = world.example_models(split, rng=2)
    return world, split, {name: examples[name] for name in ("popular", "noisy", "random")}


@pytest.fixture(scope="module", name="exposure")
def an_exposure(world):
    study = world[0].study(rng=3, n_per_user=20)
    every = RandomExposure.from_ratings(study.random, threshold=4)
    return every.select(every.user < 200)


@pytest.fixture(scope="module", name="correction")
def a_correction(world, exposure):
    _, split, models = world
    return correct(models, split, random_exposure=exposure, metrics=METRICS, rng=0)


@pytest.fixture(scope="module", name="log_correction")
def a_correction_by_the_log_alone(world):
    _, split, models = world
    return correct(models, split, metrics=METRICS, rng=0)


@pytest.fixture(scope="module", name="ranks")
def ranks_of_the_log(world):
    _, split, models = world
    return {name: rank_positives(model, split) for name, model in models.items()}


@pytest.fixture(scope="module", name="path")
def a_path(world, ranks):
    return correction_path(ranks, world[1], metrics=METRICS, rng=0)


def test_the_path_is_a_weighted_mean_with_the_covariance_of_users_influence(world, ranks, path):
    # By profiles, of which no line is made. Weights are odds^-α, cut at their 99 % quantile.
    split = world[1]
    positives = next(iter(ranks.values()))
    odds = fit_odds(split, (positives.user, positives.item), None, np.random.default_rng(0))[0]["profiles"]
    value = np.column_stack(
        [metric.contributions(ranked, ties="default") for metric in path.metrics for ranked in ranks.values()]
    )
    hit = [(value[:, part] ** 2).sum() / value[:, part].sum() for part in (slice(3), slice(3, 6))]
    assert path.hit == pytest.approx(np.repeat(hit, 3))
    assert path.half_hit(3) == pytest.approx(path.similarity * np.outer(path.hit, path.hit) / 2 / 4**2)
    n = len(np.unique(positives.user))
    centred_value = value - value.mean(axis=0)
    for alpha in (0, 6, 24):
        weight = np.exp(-ALPHAS[alpha] * odds)
        limited_weight = np.minimum(weight, np.quantile(weight, 0.99))
        mean = limited_weight @ value / limited_weight.sum()
        psi = (
            np.array([limited_weight[rows] @ (value[rows] - mean) for rows in list_user_rows(positives)])
            / limited_weight.sum()
        )
        position = path.bases.index("profiles") * ALPHAS.size + alpha
        assert path.value[position] == pytest.approx(mean, rel=1e-9)
        assert path.spread[position] == pytest.approx(
            np.cov(value.T, aweights=limited_weight, ddof=0), abs=1e-12
        )
        assert path.ess[position] == pytest.approx(limited_weight.sum() ** 2 / (limited_weight**2).sum())
        assert path.clipped[position] == pytest.approx(1 - limited_weight.sum() / weight.sum(), abs=1e-12)
        covariance = psi.T @ psi * n / (n - 1) + path.half_hit(path.ess[position])
        np.testing.assert_allclose(path.covariance[position], covariance, rtol=1e-8, atol=1e-12)
    # Recall by pairs at α = .45: the line in AOA's differences, and its error with the places on the line.
    odds = fit_odds(split, (positives.user, positives.item), None, np.random.default_rng(0))[0]["pairs"]
    limited_weight = np.minimum(np.exp(-ALPHAS[6] * odds), np.quantile(np.exp(-ALPHAS[6] * odds), 0.99))
    theta = limited_weight @ value[:, 3:] / limited_weight.sum()
    x = value[:, 3:].mean(axis=0) - value[:, 3:].mean()
    slope = theta @ x / (x @ x)
    assert slope > 0
    assert path.value[6, 3:] == pytest.approx(theta.mean() + slope * x, rel=1e-9)
    psi = (
        np.array([limited_weight[rows] @ (value[rows, 3:] - theta) for rows in list_user_rows(positives)])
        / limited_weight.sum()
    )
    aoa_psi = np.array([centred_value[rows, 3:].sum(axis=0) for rows in list_user_rows(positives)]) / len(
        positives
    )
    hat = 1 / 3 + np.outer(x, x) / (x @ x)
    line_psi = psi @ hat + aoa_psi @ (slope * (np.eye(3) - hat))
    covariance = line_psi.T @ line_psi * n / (n - 1) + path.half_hit(path.ess[6])[3:, 3:]
    np.testing.assert_allclose(path.covariance[6, 3:, 3:], covariance, rtol=1e-8, atol=1e-12)


def list_user_rows(positives):
    return [np.flatnonzero(positives.user == user) for user in np.unique(positives.user)]


def select_estimates(frame: pd.DataFrame, estimator: str = CORRECTED) -> pd.DataFrame:
    part = frame[frame["estimator"] == estimator]
    return part.set_index(["model", "metric"])[["estimate", "std_error", "ci_low", "ci_high"]].sort_index()


def test_strength_zero_is_aoa_and_the_random_sample_is_an_unweighted_mean(world, exposure, correction):
    _, split, models = world
    evaluation = ipseval.evaluate(models, split, metrics=METRICS, estimators=[AOA_POOLED])
    aoa = select_estimates(evaluation.frame, AOA_POOLED)["estimate"]
    np.testing.assert_allclose(select_estimates(correction.frame, AOA_POOLED)["estimate"], aoa, rtol=1e-12)
    positive_exposure = exposure.exclude(split.train).select(exposure.exclude(split.train).positive)
    exposed_test = ipseval.Interactions(
        positive_exposure.user, positive_exposure.item, split.user_ids, split.item_ids
    )
    random_evaluation = ipseval.evaluate(
        models, ipseval.Split(split.train, exposed_test), metrics=METRICS, estimators=[AOA_POOLED]
    )
    mean = select_estimates(random_evaluation.frame, AOA_POOLED)["estimate"]
    np.testing.assert_allclose(
        select_estimates(correction.frame, RANDOM_SAMPLE)["estimate"], mean, rtol=1e-12
    )


def test_random_exposure_narrows_the_interval_and_changes_the_strength(log_correction, correction):
    assert log_correction.sample is None
    assert "depends on the prior" in log_correction.frame["note"].iloc[-1]
    widths = [
        select_estimates(result.frame).eval("ci_high - ci_low") for result in (log_correction, correction)
    ]
    assert (widths[1].loc["popular"] < widths[0].loc["popular"] / 2).all()
    assert log_correction.alpha.mean == pytest.approx(float(PRIOR.mass @ ALPHAS))
    assert correction.alpha.mean > log_correction.alpha.mean  # the world selects by popularity and taste


def test_equal_recommenders_stay_equal(world, exposure):
    _, split, models = world
    models_with_twin = {"popular": models["popular"], "twin": models["popular"], "noisy": models["noisy"]}
    twin_correction = correct(models_with_twin, split, random_exposure=exposure, metrics=METRICS, rng=0)
    frame = select_estimates(twin_correction.frame)
    np.testing.assert_allclose(frame.loc["popular"], frame.loc["twin"], atol=1e-6)
    rows = twin_correction.compare().query("model == 'popular' and reference == 'twin'")
    assert (rows[["difference", "std_error"]].abs() < 1e-6).all(axis=None)


def test_the_order_of_recommenders_and_metrics_does_not_matter(world, exposure, correction):
    _, split, models = world
    reversed_models = {name: models[name] for name in reversed(models)}
    reversed_correction = correct(
        reversed_models, split, random_exposure=exposure, metrics=METRICS[::-1], rng=0
    )
    np.testing.assert_allclose(
        select_estimates(reversed_correction.frame), select_estimates(correction.frame), atol=1e-7
    )


def test_the_names_of_users_do_not_matter(world, ranks, path):
    last = world[1].n_users - 1
    order = np.lexsort((ranks["popular"].item, last - ranks["popular"].user))
    renamed_ranks = {
        name: replace(
            ranked,
            **{part: getattr(ranked, part)[order] for part in ("item", "n_above", "n_tied", "n_candidates")},
            user=last - ranked.user[order],
            candidates_by_user=None,
        )
        for name, ranked in ranks.items()
    }
    sample = RandomSample.from_ranks(ranks, path)
    renamed_sample = RandomSample.from_ranks(renamed_ranks, path)
    np.testing.assert_allclose(sample.value, renamed_sample.value, rtol=1e-12)
    np.testing.assert_allclose(sample.sample_covariance, renamed_sample.sample_covariance, atol=1e-15)


def test_a_weighted_sample_counts_each_positive_by_its_weight(ranks, path):
    positives = next(iter(ranks.values()))
    weight = np.linspace(0.1, 1, len(positives))
    sample = RandomSample.from_ranks(ranks, path, weight)
    value = np.column_stack(
        [metric.contributions(ranked, ties="default") for metric in path.metrics for ranked in ranks.values()]
    )
    mean = weight @ value / weight.sum()
    n = positives.users.size
    user_sums = [
        (weight[rows] @ (value[rows] - mean), weight[rows].sum()) for rows in list_user_rows(positives)
    ]
    psi = np.array([sums for sums, _ in user_sums]) / weight.sum()
    np.testing.assert_allclose(sample.value, mean, rtol=1e-12)
    np.testing.assert_allclose(sample.sample_covariance, psi.T @ psi * n / (n - 1), atol=1e-15)
    assert sample.ess == sample.size == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert sample.user_size == pytest.approx(sum(total**2 for _, total in user_sums) / (weight**2).sum())
    sample_of_equal_weights = RandomSample.from_ranks(ranks, path, np.ones(len(positives)))
    unweighted_sample = RandomSample.from_ranks(ranks, path)
    for name in ("value", "sample_covariance", "user_size", "size"):
        np.testing.assert_allclose(
            getattr(sample_of_equal_weights, name), getattr(unweighted_sample, name), atol=1e-14
        )


def test_comparisons_come_from_the_joint_posterior(correction):
    frame = correction.compare("popular")
    assert set(frame["model"]) == {"noisy", "random"}
    values = select_estimates(correction.frame)["estimate"]
    for row in frame.itertuples():
        gap = values[row.model, row.metric] - values["popular", row.metric]
        assert row.difference == pytest.approx(gap)
        assert row.ci_low < row.difference < row.ci_high
    assert (frame.query("model == 'random'")["probability_higher"] < 0.01).all()
    assert len(correction.compare()) == 6


def test_random_items_that_nobody_liked_are_not_reported_as_missing(world):
    _, split, models = world
    shown = pd.DataFrame({"user": split.user_ids[:3], "item": split.item_ids[:3], "positive": 0})
    exposure = RandomExposure.from_frame(shown, split)
    printed = " ".join(repr(correct(models, split, random_exposure=exposure, metrics=METRICS, rng=0)).split())
    assert "No random item outside training was liked, so no winner is named." in printed
    assert "No random item outside training was liked, and the log alone does not show" in printed
    assert "were passed" not in printed


def test_a_random_sample_without_a_positive_changes_nothing(ranks, path):
    empty_ranks = {name: ranked.select(np.zeros(len(ranked), bool)) for name, ranked in ranks.items()}
    assert correct_path(path, empty_ranks).frame.equals(correct_path(path).frame)


def test_the_prior_can_be_replaced(path, log_correction):
    strong = CorrectionPrior(no_bias=0.01, mean=0.9, sd=0.05)
    strong_correction = correct_path(path, prior=strong)
    of_popular = [model == "popular" for model, _ in path.cells]
    default_mean = log_correction.posterior.total_mean[of_popular]
    assert (strong_correction.posterior.total_mean[of_popular] < default_mean).all()


def test_positives_alone_give_an_interval_without_an_estimate(log_correction, correction):
    assert not log_correction.has_point_estimate
    rows = log_correction.frame[log_correction.frame["estimator"] == "corrected"]
    assert rows[["estimate", "std_error"]].isna().all(axis=None)
    assert (rows["ci_low"] < rows["ci_high"]).all()
    assert rows["note"].str.contains("an interval without an estimate").all()
    assert log_correction.order["corrected"].isna().all()
    assert correction.has_point_estimate
    assert select_estimates(correction.frame)["estimate"].notna().all()


def test_the_plan_predicts_the_intervals(world, exposure, log_correction, correction):
    outside_training = exposure.exclude(world[1].train)
    plan = plan_exposure(
        log_correction,
        n_users=[50, 200],
        n_items=[20],
        positive_share=float(outside_training.positive.mean()),
    )
    half_widths = select_estimates(correction.frame).eval("(ci_high - ci_low) / 2").groupby("metric").mean()
    planned_widths = plan[plan["n_users"] == 200].set_index("metric")["half_width"]
    np.testing.assert_allclose(planned_widths.loc[half_widths.index], half_widths, rtol=0.35)
    assert (plan["half_width"] < plan["half_width_random"]).all()
    # Of 200 positives, four of each user: spread and correlation within users, and half a hit more.
    path = log_correction.path
    mass = log_correction.posterior.grid_mass
    root = np.sqrt(1 + 4 * path.within)
    noise = np.tensordot(mass, path.spread, 1) * np.outer(root, root) / 200 + path.half_hit(200)
    np.testing.assert_allclose(_plan._expected_noise(log_correction, 200, 4), noise, rtol=1e-12)
    sample_share = correction.sample.size / (correction.sample.size + 1600)
    path = correction.path
    mass = correction.posterior.grid_mass
    root = np.sqrt(1 + 4 * path.within)
    path_covariance = np.tensordot(mass, path.spread, 1) * np.outer(root, root) / 200
    from_sample = correction.sample.sample_covariance * correction.sample.size / 200
    noise = (1 - sample_share) * path_covariance + sample_share * from_sample
    np.testing.assert_allclose(_plan._expected_noise(correction, 200, 4), noise, rtol=1e-12)
    with_pilot = plan_exposure(correction, n_users=[1000], n_items=[20])
    assert with_pilot["half_width"].max() < planned_widths.max()


def test_a_plan_allows_recommenders_with_equal_ranks(world):
    _, split, models = world
    models_with_copy = {**models, "noisy again": models["noisy"]}
    plans = [
        plan_exposure(
            correct(recommenders, split, metrics=["atop"], rng=0),
            n_users=[50],
            n_items=[20],
            positive_share=0.1,
        )
        for recommenders in (models, models_with_copy)
    ]
    # The copy enters the mean over recommenders once more, no more than that.
    assert np.isfinite(plans[1].select_dtypes("number")).all(axis=None)
    np.testing.assert_allclose(plans[1]["half_width"], plans[0]["half_width"], rtol=0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": ["ndcg@10"]}, "not an average over relevant items"),
        ({"prior": 0.5}, "prior must be CorrectionPrior"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"random_exposure": "random.csv"}, "random.csv does not exist"),
        ({"interactions": 5}, "interactions must be"),
        ({"missing_lists": "guess"}, "unknown value for missing_lists: 'guess'"),
    ],
)
def test_invalid_arguments_are_refused(world, change, message):
    _, split, models = world
    with pytest.raises(InputError, match=message):
        correct(models, split, **{"metrics": METRICS, **change})


def test_other_recommenders_for_the_random_sample_are_refused(ranks, path):
    with pytest.raises(InputError, match="confidence_level"):
        correct_path(path, confidence_level=95)
    for names in (reversed(ranks), ["a", *list(ranks)[1:]], ["z", *list(ranks)[1:]]):
        with pytest.raises(InputError, match="in this order"):
            correct_path(path, dict(zip(names, ranks.values(), strict=True)))
    with pytest.raises(InputError, match="leave no probability"):
        CorrectionPrior(mean=9.0, sd=0.01)
    with pytest.warns(DataWarning, match="no pilot .* 5% of the randomly shown pairs"):
        plan = plan_exposure(correct_path(path), n_users=[100], n_items=[20])
    assert plan["n_positives"].unique().tolist() == [100.0]


def test_all_interactions_add_a_basis_with_other_odds(world, log_correction):
    population, split, models = world
    rng = np.random.default_rng(4)
    key = np.arange(split.n_users * split.n_items)
    user, item = np.divmod(key, split.n_items)
    is_exposed = rng.random(key.size) < population.propensity_at(user, item)
    is_exposed |= np.isin(key, split.test.pair_key)
    interactions = ipseval.Interactions(user[is_exposed], item[is_exposed], split.user_ids, split.item_ids)
    options = {"metrics": METRICS, "rng": 0}
    correction = correct(models, split, interactions=interactions, **options)
    assert correction.path.bases == (*log_correction.path.bases, "interactions")
    np.testing.assert_allclose(correction.path.value[:75], log_correction.path.value, rtol=1e-12)
    # At α = .975 the weights are about 1/P: level and truth agree where AOA is far off.
    truth = population.truth(models, METRICS, split).set_index(["model", "metric"])["ideal_pooled"]
    gaps = {
        alpha: np.abs(correction.path.value[alpha] - truth.loc[correction.path.cells]).mean()
        for alpha in (0, 75 + 13)
    }
    assert gaps[88] < gaps[0] / 2
    with pytest.raises(InputError, match="must hold at least one pair that is not positive"):
        correct(models, split, interactions=split.test, **options)
    reordered = ipseval.Interactions(
        interactions.user, interactions.item, split.user_ids[::-1], split.item_ids
    )
    with pytest.raises(InputError, match="same user ids"):
        correct(models, split, interactions=reordered, **options)


def test_tables_of_all_pairs_are_interactions(world, tmp_path):
    _, split, models = world
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame({"user": rng.choice(split.user_ids, 3000), "item": rng.choice(split.item_ids, 3000)})
    log = pd.concat([split.train.to_frame(), split.test.to_frame(), pairs])[["user", "item"]]
    interactions = ipseval.read(log, users=split.user_ids, items=split.item_ids, duplicates="drop")
    expected = correct(models, split, interactions=interactions, metrics=METRICS, rng=0).frame
    log.to_csv(tmp_path / "log.csv", index=False)
    for table in (log, log.assign(rating=3), tmp_path / "log.csv"):
        found = correct(models, split, interactions=table, metrics=METRICS, rng=0).frame
        pd.testing.assert_frame_equal(found, expected, check_exact=True)
    with pytest.raises(InputError, match="outside the given"):
        correct(models, split, interactions=log.assign(item=10**6), rng=0)
    with pytest.raises(
        InputError, match="interactions must be pairs of users and items; got a log of impressions"
    ):
        correct(models, split, interactions=log.assign(clicked=1), rng=0)


def test_the_plan_has_a_row_per_metric_and_size_ordered_by_metric(log_correction):
    plan = plan_exposure(log_correction, positive_share=0.1)
    sizes = [(users, items) for users in (25, 100, 400) for items in (10, 20, 50)]
    assert plan["metric"].tolist() == [label for label in METRICS for _ in sizes]
    for label in METRICS:
        part = plan[plan["metric"] == label]
        assert list(zip(part["n_users"], part["n_items"], strict=True)) == sizes
        np.testing.assert_allclose(part["n_positives"], [0.1 * users * items for users, items in sizes])
    assert (plan["regret_90"] >= 0).all()


REQUESTS = (
    ["recall@10"],
    ["recall@20"],
    ["atop"],
    ["recall@10", "mean_dcg@10"],
    ["recall@5", "mean_dcg@10", "atop"],
    ["atop", "recall@5", "mean_dcg@10"],
)


def explains_exposure(models, split, metrics, exposure=None):
    correction = correct(models, split, random_exposure=exposure, metrics=metrics, rng=4)
    warned = "The model of exposure does not fit this log" in " ".join(repr(correction).split())
    assert warned is not correction.explained
    return correction.explained


def simulate_log(rng, **options):
    world = World(n_users=400, n_items=200, mean_relevant=20, rng=rng, **options)
    split = world.split(rng=1)
    return world, split, world.example_models(split, rng=2)


def list_top_items(factors, split, depth):
    candidates = factors[0] @ factors[1].T
    candidates[split.train.user, split.train.item] = -np.inf
    top_items = np.argsort(-candidates, axis=1, kind="stable")[:, :depth]
    return dict(zip(split.user_ids.tolist(), split.item_ids[top_items].tolist(), strict=True))


def test_the_warning_does_not_depend_on_the_requested_metrics():
    # By recall@20 or atop alone, the path is flat (0.23 and 0.24 of AOA above chance); by recall@10 it is not (0.34).
    _, split, models = simulate_log(0, popularity_skew=0.4)
    assert [explains_exposure(models, split, metrics) for metrics in REQUESTS] == [True] * len(REQUESTS)


def test_the_warning_by_random_exposure_does_not_depend_on_the_requested_metrics():
    # The random sample deviates too far from the path (probability 0.57), but not by recall@10 and mean_dcg@10 (0.33).
    world, split, models = simulate_log(1, popularity_skew=0.3, selection=2.0, n_factors=20)
    exposure = RandomExposure.from_ratings(world.expose(rng=3), threshold=4)
    answers = [explains_exposure(models, split, metrics, exposure) for metrics in REQUESTS]
    assert answers == [False] * len(REQUESTS)


@pytest.mark.filterwarnings("ignore:every list of")
def test_the_warning_about_lists_does_not_depend_on_the_requested_metrics():
    # Lists of seven items have no atop, and are padded with misses for mean_dcg@10.
    _, split, models = simulate_log(0, popularity_skew=0.4)
    lists = {}
    for name, model in models.items():
        lists[name] = list_top_items(model, split, 7)

    relative_corrections = []
    for label in ("recall@3", "recall@5", "recall@20"):
        path = correct(lists, split, metrics=[label], rng=4).path.diagnostic_path
        assert [metric.label for metric in path.metrics] == ["recall@5", "mean_dcg@10"]
        relative_corrections.append(path.reach)
    assert relative_corrections[1:] == relative_corrections[:1] * 2
