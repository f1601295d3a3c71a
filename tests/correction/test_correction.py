"""The correction strength: its limits, its posterior by brute force, and what must not change it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import Evidence, Exposure, rank_positives
from ipseval.correction import (
    CORRECTED,
    DIFFERENCE,
    RANDOM_SAMPLE,
    CorrectionPath,
    CorrectionPrior,
    correct,
    correct_path,
    correction_path,
    plan_exposure,
)
from ipseval.errors import DataWarning, InputError
from ipseval.validation.simulation import World
from tests.inside.correction import ALPHAS, SCALES, RandomSample, posterior
from tests.inside.estimators import AOA_POOLED

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


def tiny_path() -> CorrectionPath:
    """Two recommenders, one metric; contributions spread alike at every α, so one pass decides.

    Both vary alike, so that errors and deviations have the same axes: the sum and the difference.
    """
    fall = np.exp(-ALPHAS)[:, None]
    spread = np.array([[0.06, 0.02], [0.02, 0.06]])
    return CorrectionPath(
        models=("a", "b"),
        metrics=(ipseval.metric("recall@5"),),
        ties="default",
        bases=("pairs",),
        alpha=ALPHAS,
        value=fall * [0.6, 0.5] + [0.0, 0.05],
        covariance=np.repeat(np.array([[6e-4, 1e-4], [1e-4, 6e-4]])[None], ALPHAS.size, axis=0),
        spread=np.repeat(spread[None], ALPHAS.size, axis=0),
        ess=np.full(ALPHAS.size, 200.0),
        clipped=np.zeros(ALPHAS.size),
        within=np.zeros(2),
        similarity=np.eye(2),
        hit=np.ones(2),
        n_users=100,
        n_positives=200,
        user_ids=np.arange(100),
    )


def tiny_path_of_two() -> CorrectionPath:
    """The same, with a second basis of the odds, by which values fall faster."""
    one = tiny_path()
    twice = {
        name: np.concatenate([getattr(one, name)] * 2) for name in ("covariance", "spread", "ess", "clipped")
    }
    value = np.concatenate([one.value, np.exp(-2 * ALPHAS)[:, None] * [0.6, 0.5] + [0.0, 0.05]])
    return replace(one, bases=("pairs", "interactions"), alpha=np.tile(ALPHAS, 2), value=value, **twice)


def tiny_sample(scale: float = 1.0) -> RandomSample:
    own = np.array([[1.5e-3, 5e-4], [5e-4, 1.5e-3]])
    return RandomSample(np.array([0.3, 0.35]), own / scale, int(40 * scale), int(40 * scale), 1.0)


def drawn_from_the_prior(path: CorrectionPath, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return values of both recommenders: basis, strength, scales, deviations and error, one by one."""
    strength = rng.choice(path.alpha.size, n, p=PRIOR.grid_mass(path.bases))
    first = 25 * (strength // 25)
    step = np.abs(path.value[first] - path.value[first + 6])  # size of the correction, α = .45
    height = path.value[0].mean()  # AOA above chance
    size = height * (height / (2 * step.mean(axis=1))) ** PRIOR.flatness
    unit = PRIOR.deviation * size / np.sqrt(np.diag(path.spread[0]).mean())
    # The shift that both share, and their difference: each has a scale of its own.
    (variance, shared), _ = path.spread[0]
    sd = np.sqrt([PRIOR.shared**2 * (variance + shared), variance - shared])
    moved = rng.choice(SCALES, (n, 2), p=PRIOR.scale_mass) * sd * rng.standard_normal((n, 2))
    deviation = unit[:, None] * moved @ np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    error = rng.standard_normal((n, 2)) @ np.linalg.cholesky(path.covariance[0]).T
    return path.value[strength] + deviation + error


@pytest.mark.parametrize("path", [tiny_path(), tiny_path_of_two()], ids=["one basis", "two bases"])
def test_the_posterior_is_that_of_importance_sampling(path):
    sample, rng = tiny_sample(), np.random.default_rng(0)
    values = drawn_from_the_prior(path, 400_000, rng)
    miss = sample.value - values
    noise = sample.covariance(path, PRIOR.grid_mass(path.bases))
    weight = np.exp(-(miss * np.linalg.solve(noise, miss.T).T).sum(axis=1) / 2)
    weight /= weight.sum()
    found = posterior(path, PRIOR, sample)
    error = np.sqrt((weight**2) @ (values - weight @ values) ** 2)
    assert np.all(np.abs(found.total_mean - weight @ values) < 4 * error)
    centred = values - weight @ values
    np.testing.assert_allclose(found.total_covariance, (weight[:, None] * centred).T @ centred, rtol=0.03)
    difference = np.array([[1.0, -1.0]])
    higher = weight @ (values[:, 0] > values[:, 1])
    # Of the mixture over scales it keeps mean and variance.
    assert found.above_zero(difference)[0] == pytest.approx(higher, abs=0.01)
    below = weight @ (values[:, 0] - values[:, 1] <= found.quantile(difference, 0.025)[0])
    assert below == pytest.approx(0.025, abs=0.01)


def test_without_random_exposure_the_prior_stands_alone():
    path = tiny_path()
    found = posterior(path, PRIOR)
    np.testing.assert_allclose(found.alpha_mass, PRIOR.mass, atol=1e-5)
    np.testing.assert_allclose(found.total_mean, PRIOR.mass @ path.value, atol=1e-6)
    values = drawn_from_the_prior(path, 200_000, np.random.default_rng(1))
    np.testing.assert_allclose(found.total_covariance, np.cov(values.T), rtol=0.03)


def test_interactions_have_a_strength_and_a_weight_of_their_own():
    prior = CorrectionPrior(interactions_mean=0.8, interactions_sd=0.05, interactions_weight=0.6)
    mass = prior.grid_mass(("pairs", "items", "interactions")).reshape(3, 25)
    np.testing.assert_allclose(mass.sum(axis=1), [0.2, 0.2, 0.6])  # the bases of positives share the rest
    np.testing.assert_allclose(mass[0], 0.2 * prior.mass)
    assert ALPHAS[mass[2].argmax()] == pytest.approx(0.825)  # the point next to .8
    assert mass[2, 0] < 1e-30  # no spike at no correction: equal odds correct nothing at any strength
    np.testing.assert_allclose(prior.grid_mass(("pairs", "items")).reshape(2, 25), [0.5 * prior.mass] * 2)


def test_a_metric_linear_in_the_rank_deviates_by_a_constant_of_its_own():
    path, prior = tiny_path(), CorrectionPrior(deviation=0.1, whole_deviation=0.3, shared=1.0)
    parts = [
        prior.deviations(
            path.value[0] - path.value[6], path.spread[6], path.value[0], path.metric_of, np.full(2, whole)
        )
        for whole in (False, True)
    ]
    np.testing.assert_allclose(parts[1], 9 * parts[0])
    assert replace(path, metrics=(ipseval.metric("atop"),)).whole.all()
    assert not path.whole.any()


def test_quiet_recommenders_do_not_hide_the_axis_in_which_a_log_errs():
    """Nineteen recommenders stand where the path says, two apart from it: these follow the sample."""
    n = 21
    spread = 0.02 * np.eye(n) + 0.02 * np.outer(np.arange(n) >= 19, np.arange(n) >= 19)
    path = replace(
        tiny_path(),
        models=tuple(f"m{one}" for one in range(n)),
        value=np.full((ALPHAS.size, n), 0.5),
        covariance=np.repeat(1e-6 * np.eye(n)[None], ALPHAS.size, axis=0),
        spread=np.repeat(spread[None], ALPHAS.size, axis=0),
        within=np.zeros(n),
        similarity=np.eye(n),
        hit=np.full(n, 0.01),
    )
    value = np.full(n, 0.5)
    value[19:] = 0.3
    sample = RandomSample(value, spread / 2000, 2000, 2000, 1.0)
    prior = CorrectionPrior(deviation=0.01, flatness=1e-9, shared=1.0)
    found = posterior(path, prior, sample)
    np.testing.assert_allclose(found.total_mean, value, atol=0.015)
    error = np.sqrt(np.diag(found.total_covariance))
    assert error[:19].max() < 0.7 * error[19:].min()  # the others keep what the path says of them
    assert found.strained > 0.5


def test_the_level_of_a_small_samples_variance_is_its_own():
    path = replace(tiny_path(), metrics=(ipseval.metric("atop"),), hit=np.zeros(2))
    lent = path.spread[0] / 40
    quiet, loud = (
        RandomSample(np.array([0.5, 0.5]), factor * lent, 40, 40, 1.0).covariance(path, PRIOR.mass)
        for factor in (0.25, 4.0)
    )
    ratio = np.diag(loud) / np.diag(quiet)
    # By 40 users against LEVEL = 20, as if all else were lent; t distributions are 39/37 as wide.
    expected = [(40 * factor * 39 / 37 + 20) / 60 for factor in (4.0, 0.25)]
    np.testing.assert_allclose(ratio, expected[0] / expected[1], rtol=0.05)


def test_with_much_random_exposure_it_is_the_random_sample():
    sample = tiny_sample(1e6)
    found = posterior(tiny_path(), PRIOR, sample)
    np.testing.assert_allclose(found.total_mean, sample.value, atol=1e-5)
    np.testing.assert_allclose(found.total_covariance, sample.own, rtol=1e-3)
    error = np.sqrt(np.diag(sample.own))
    np.testing.assert_allclose(found.quantile(np.eye(2), 0.975), sample.value + 1.959964 * error, atol=1e-7)


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
