"""The correction strength: its limits, its posterior by brute force, and what must not change it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import Evidence, Exposure, rank_positives
from ipseval.errors import DataWarning, InputError
from ipseval.inference.correction import (
    CORRECTED,
    DIFFERENCE,
    RANDOM_SAMPLE,
    CorrectionPrior,
    correct,
    correct_path,
    correction_path,
    plan_exposure,
)
from ipseval.validation.simulation import World
from tests.inside.estimators import AOA_POOLED
from tests.inside.inference import ALPHAS, RandomSample

METRICS = ["atop", "recall@5"]
PRIOR = CorrectionPrior()


@pytest.fixture(scope="module", name="world")
def a_world():
    world = World(n_users=500, n_items=120, mean_relevant=12, gamma=0.3, selection=1.0, rng=0)
    split = world.split(rng=1, train_scale=0.8, test_scale=0.3)
    examples = world.example_models(split, rng=2)
    return world, split, {name: examples[name] for name in ("popular", "noisy", "random")}


@pytest.fixture(scope="module", name="exposure")
def an_exposure(world):
    study = world[0].study(rng=3, n_per_user=20)
    every = Exposure.from_ratings(study.random, threshold=4)
    return every.select(every.user < 200)


@pytest.fixture(scope="module", name="found")
def a_correction(world, exposure):
    _, split, models = world
    return correct(models, split, evidence=Evidence(exposure), metrics=METRICS, rng=0)


def by_name(frame: pd.DataFrame, estimator: str = CORRECTED) -> pd.DataFrame:
    part = frame[frame["estimator"] == estimator]
    return part.set_index(["model", "metric"])[["estimate", "std_error", "ci_low", "ci_high"]].sort_index()


def test_strength_zero_is_the_plain_average_and_the_sample_a_plain_mean(world, exposure, found):
    _, split, models = world
    evaluation = ipseval.evaluate(models, split, metrics=METRICS, estimators=[AOA_POOLED])
    plain = by_name(evaluation.frame, AOA_POOLED)["estimate"]
    np.testing.assert_allclose(by_name(found.frame, AOA_POOLED)["estimate"], plain, rtol=1e-12)
    shown = exposure.without(split.train).select(exposure.without(split.train).positive)
    liked = ipseval.Interactions(shown.user, shown.item, split.user_ids, split.item_ids)
    random = ipseval.evaluate(
        models, ipseval.Split(split.train, liked), metrics=METRICS, estimators=[AOA_POOLED]
    )
    mean = by_name(random.frame, AOA_POOLED)["estimate"]
    np.testing.assert_allclose(by_name(found.frame, RANDOM_SAMPLE)["estimate"], mean, rtol=1e-12)


def test_random_exposure_narrows_the_interval_and_moves_the_strength(world, found):
    _, split, models = world
    alone = correct(models, split, metrics=METRICS, rng=0)
    assert alone.sample is None
    assert "rests on the prior" in alone.frame["note"].iloc[-1]
    width = [by_name(one.frame).eval("ci_high - ci_low") for one in (alone, found)]
    assert (width[1].loc["popular"] < width[0].loc["popular"] / 2).all()
    assert alone.alpha.mean == pytest.approx(float(PRIOR.mass @ ALPHAS))
    assert found.alpha.mean > alone.alpha.mean  # the world selects by popularity and taste


def test_equal_recommenders_stay_equal(world, exposure):
    _, split, models = world
    twice = {"popular": models["popular"], "twin": models["popular"], "noisy": models["noisy"]}
    found = correct(twice, split, evidence=Evidence(exposure), metrics=METRICS, rng=0)
    frame = by_name(found.frame)
    np.testing.assert_allclose(frame.loc["popular"], frame.loc["twin"], atol=1e-6)
    rows = found.compare().query("model == 'popular' and reference == 'twin'")
    assert (rows[["difference", "std_error"]].abs() < 1e-6).all(axis=None)


def test_the_order_of_recommenders_and_metrics_does_not_matter(world, exposure, found):
    _, split, models = world
    turned = {name: models[name] for name in reversed(models)}
    other = correct(turned, split, evidence=Evidence(exposure), metrics=METRICS[::-1], rng=0)
    np.testing.assert_allclose(by_name(other.frame), by_name(found.frame), atol=1e-7)


def test_the_names_of_users_do_not_matter(world):
    _, split, models = world
    ranks = {name: rank_positives(model, split) for name, model in models.items()}
    path = correction_path(ranks, split, metrics=METRICS, rng=0)
    last = split.n_users - 1
    order = np.lexsort((ranks["popular"].item, last - ranks["popular"].user))
    turned = {
        name: replace(
            ranked,
            **{part: getattr(ranked, part)[order] for part in ("item", "n_above", "n_tied", "n_candidates")},
            user=last - ranked.user[order],
            candidates_by_user=None,
        )
        for name, ranked in ranks.items()
    }
    one, two = RandomSample.of(ranks, path), RandomSample.of(turned, path)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-12)
    np.testing.assert_allclose(one.own, two.own, atol=1e-15)


def test_comparisons_come_from_the_joint_posterior(found):
    frame = found.compare("popular")
    assert set(frame["model"]) == {"noisy", "random"}
    values = by_name(found.frame)["estimate"]
    for row in frame.itertuples():
        gap = values[row.model, row.metric] - values["popular", row.metric]
        assert row.difference == pytest.approx(gap)
        assert row.ci_low < row.difference < row.ci_high
    assert (frame.query("model == 'random'")["probability_higher"] < 0.01).all()
    assert len(found.compare()) == 6


def test_a_sample_without_a_positive_says_nothing(world):
    _, split, models = world
    ranks = {name: rank_positives(model, split) for name, model in models.items()}
    path = correction_path(ranks, split, metrics=METRICS, rng=0)
    nobody = {name: ranked.select(np.zeros(len(ranked), bool)) for name, ranked in ranks.items()}
    assert correct_path(path, nobody).frame.equals(correct_path(path).frame)


def test_the_prior_can_be_replaced(world):
    _, split, models = world
    strong = CorrectionPrior(no_bias=0.01, mean=0.9, sd=0.05)
    usual, other = (
        by_name(correct(models, split, metrics=METRICS, prior=prior, rng=0).frame)["estimate"]
        for prior in (None, strong)
    )
    assert (other.loc["popular"] < usual.loc["popular"]).all()


def test_the_report_has_every_estimator(found):
    for text in (repr(found), found.to_markdown(), found.to_html(), found.to_latex()):
        for name in (AOA_POOLED, RANDOM_SAMPLE, CORRECTED):
            assert name in text
    assert "correction strength" in repr(found)
    assert found.alpha.density[["prior", "posterior"]].sum().to_numpy() == pytest.approx(1)


def test_the_plan_foresees_the_intervals(world, exposure):
    _, split, models = world
    alone = correct(models, split, metrics=METRICS, rng=0)
    shown = exposure.without(split.train)
    plan = plan_exposure(alone, n_users=[50, 200], n_items=[20], positive_share=float(shown.positive.mean()))
    got = correct(models, split, evidence=Evidence(exposure), metrics=METRICS, rng=0)
    half = by_name(got.frame).eval("(ci_high - ci_low) / 2").groupby("metric").mean()
    foreseen = plan[plan["n_users"] == 200].set_index("metric")["half_width"]
    np.testing.assert_allclose(foreseen.loc[half.index], half, rtol=0.35)
    assert (plan["half_width"] < plan["half_width_random"]).all()
    with_pilot = plan_exposure(got, n_users=[1000], n_items=[20])
    assert with_pilot["half_width"].max() < foreseen.max()


def test_a_plan_takes_recommenders_with_equal_ranks(world):
    _, split, models = world
    twice = {**models, "noisy again": models["noisy"]}
    plans = [
        plan_exposure(
            correct(one, split, metrics=["atop"], rng=0), n_users=[50], n_items=[20], positive_share=0.1
        )
        for one in (models, twice)
    ]
    # The copy enters the mean over recommenders once more, no more than that.
    assert np.isfinite(plans[1].select_dtypes("number")).all(axis=None)
    np.testing.assert_allclose(plans[1]["half_width"], plans[0]["half_width"], rtol=0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metrics": ["ndcg@10"]}, "not an average over relevant items"),
        ({"prior": 0.5}, "prior must be CorrectionPrior"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"evidence": "random.csv"}, "evidence must be Evidence"),
    ],
)
def test_what_cannot_be_used_is_refused(world, change, said):
    _, split, models = world
    with pytest.raises(InputError, match=said):
        correct(models, split, **{"metrics": METRICS, **change})


def test_other_recommenders_for_the_random_sample_are_refused(world):
    _, split, models = world
    ranks = {name: rank_positives(model, split) for name, model in models.items()}
    path = correction_path(ranks, split, metrics=METRICS, rng=0)
    with pytest.raises(InputError, match="in this order"):
        correct_path(path, {name: ranks[name] for name in reversed(ranks)})
    with pytest.raises(InputError, match="leave no probability"):
        CorrectionPrior(mean=9.0, sd=0.01)
    with pytest.warns(DataWarning, match="5% of pairs .* no pilot"):
        plan = plan_exposure(correct_path(path), n_users=[100], n_items=[20])
    assert plan["n_positives"].unique().tolist() == [100.0]


def test_an_evaluation_with_exposure_has_the_rows_of_the_correction(world, exposure, found):
    _, split, models = world
    options = {"metrics": ["ndcg@10", *METRICS], "estimators": ["aoa"], "rng": 0}
    evaluation = ipseval.evaluate(models, split, evidence=Evidence(exposure), **options)
    plain = ipseval.evaluate(models, split, **options)
    pd.testing.assert_frame_equal(evaluation.frame.iloc[: len(plain.frame)], plain.frame)
    more = evaluation.frame.iloc[len(plain.frame) :]
    assert set(more["estimator"]) == {RANDOM_SAMPLE, DIFFERENCE, CORRECTED}
    assert set(more["metric"]) == set(METRICS)  # of ndcg random exposure says nothing
    for estimator in (RANDOM_SAMPLE, DIFFERENCE, CORRECTED):
        pd.testing.assert_frame_equal(by_name(more, estimator), by_name(found.frame, estimator))
    pd.testing.assert_frame_equal(evaluation.correction.compare(), found.compare())
    for one in evaluation.verdicts:
        own = found.compare().query("metric == @one.metric")
        ahead = {(row["model"], row["reference"]): row["probability_higher"] for _, row in own.iterrows()}
        for pair, chance in ahead.items() if one.metric in METRICS else ():
            assert one.p_ahead(*pair) == pytest.approx(chance, abs=1e-12)
    assert str(evaluation).index("Verdict  ") < str(evaluation).index("With random exposure")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["ndcg@10"]}, "says nothing of ndcg@10"),
        ({"candidates": ipseval.SampledCandidates(10, rng=0)}, "candidates='all'"),
    ],
)
def test_exposure_needs_averages_and_all_candidates(world, exposure, options, message):
    _, split, models = world
    with pytest.raises(InputError, match=message):
        ipseval.evaluate(models, split, evidence=Evidence(exposure), **options)


def test_an_evaluation_with_exposure_is_stored_whole(world, exposure, tmp_path):
    _, split, models = world
    evaluation = ipseval.evaluate(models, split, evidence=Evidence(exposure), metrics=METRICS, rng=0)
    evaluation.save(tmp_path / "one.npz")
    again = ipseval.Evaluation.load(tmp_path / "one.npz")
    pd.testing.assert_frame_equal(again.frame, evaluation.frame)
    assert str(again) == str(evaluation)


def test_all_interactions_give_a_third_basis_with_odds_of_their_own(world, exposure):
    population, split, models = world
    rng = np.random.default_rng(4)
    key = np.arange(split.n_users * split.n_items)
    user, item = np.divmod(key, split.n_items)
    met = rng.random(key.size) < population.propensity_at(user, item)
    met |= np.isin(key, split.test.pair_key)
    every = ipseval.Interactions(user[met], item[met], split.user_ids, split.item_ids)
    options = {"metrics": METRICS, "rng": 0}
    plain = correct(models, split, **options)
    found = correct(models, split, evidence=Evidence(interactions=every), **options)
    assert found.path.bases == (*plain.path.bases, "interactions")
    np.testing.assert_array_equal(found.path.value[:50], plain.path.value)
    # At α = .975 the weights are about 1/P: level and truth agree where AOA is far off.
    truth = population.truth(models, METRICS, split).set_index(["model", "metric"])["ideal_pooled"]
    gaps = {
        alpha: np.abs(found.path.value[alpha] - truth.loc[found.path.cells]).mean() for alpha in (0, 50 + 13)
    }
    assert gaps[63] < gaps[0] / 2
    with pytest.raises(InputError, match="no pair beside the positives"):
        correct(models, split, evidence=Evidence(interactions=split.test), **options)
    other = ipseval.Interactions(every.user, every.item, split.user_ids[::-1], split.item_ids)
    with pytest.raises(InputError, match="same user ids"):
        correct(models, split, evidence=Evidence(interactions=other), **options)


def test_one_recommender_has_no_verdict_and_equal_ones_are_not_told_apart(world):
    _, split, models = world
    alone = correct({"popular": models["popular"]}, split, metrics=METRICS, rng=0)
    assert alone.verdict == ""
    twins = correct({"a": models["noisy"], "b": models["noisy"]}, split, metrics=METRICS, rng=0)
    assert twins.verdict.count("not told apart") == len(METRICS)
