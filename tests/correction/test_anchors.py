"""Known values: against draws, at their limits, as a check of each other, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import ipseval
from ipseval import Evidence, InputError
from ipseval.correction import CorrectionPrior, correct_path
from ipseval.data import RandomExposure
from ipseval.validation.simulation import World
from tests.correction.test_posterior import tiny_path, tiny_sample
from tests.inside.inference import Anchors, posterior

PRIOR = CorrectionPrior()
BUCKET, ARMS = "randomised", "ab-ratio"


def known(source: str = BUCKET, **values: tuple[float, float]) -> Evidence:
    return Evidence(known={name: {"recall@5": pair} for name, pair in values.items()}, source=source)


def ratio(value: float, error: float) -> Evidence:
    return Evidence(known={("a", "b"): {"recall@5": (value, error)}}, source=ARMS)


@pytest.mark.parametrize(
    ("sample", "evidence"),
    [
        (None, known(a=(0.3, 0.03))),
        (tiny_sample(), known(a=(0.3, 0.05), b=(0.2, 0.02))),
        (None, ratio(1.2, 0.1)),
        (tiny_sample(), ratio(1.2, 0.1)),
    ],
)
def test_the_posterior_is_that_of_draws_weighted_by_the_likelihood_of_the_anchors(sample, evidence):
    path, rng = tiny_path(), np.random.default_rng(0)
    before = posterior(path, PRIOR, sample)
    anchors = Anchors.of(evidence, path, before.total_mean)
    part = rng.choice(before.weight.size, 200_000, p=before.weight)
    root = np.linalg.cholesky(before.covariance)
    drawn = before.mean[part] + np.einsum("dij,dj->di", root[part], rng.standard_normal((part.size, 2)))
    missed = (anchors.value - drawn @ anchors.contrast.T) / anchors.error
    weight = np.exp(-(missed**2).sum(axis=1) / 2)
    weight /= weight.sum()
    mean = weight @ drawn
    sd = np.sqrt(weight @ (drawn - mean) ** 2)
    after = posterior(path, PRIOR, sample, anchors)
    noise = 5 * sd * np.sqrt((weight**2).sum())
    assert (np.abs(after.total_mean - mean) < noise).all()
    assert np.sqrt(np.diag(after.total_covariance)) == pytest.approx(sd, rel=0.02)
    assert after.grid_mass.sum() == pytest.approx(1)


def test_each_strength_is_weighed_by_the_density_of_the_anchors():
    path = tiny_path()
    path = replace(path, covariance=path.covariance * (1 + path.alpha)[:, None, None])
    before = posterior(path, PRIOR)
    anchors = Anchors.of(known(a=(0.3, 0.05), b=(0.2, 0.02)), path, before.total_mean)
    after = posterior(path, PRIOR, None, anchors)
    spread = before.covariance + np.diag([0.05**2, 0.02**2])
    parts = zip(before.mean, spread, strict=True)
    weight = before.weight * [multivariate_normal(*one).pdf([0.3, 0.2]) for one in parts]
    np.testing.assert_allclose(after.weight, weight / weight.sum(), rtol=1e-9)
    np.testing.assert_allclose(after.grid_mass[after.grid_mass > 0], after.weight, rtol=1e-12)
    gain = before.covariance @ np.linalg.inv(spread)
    missed = np.array([0.3, 0.2]) - before.mean
    np.testing.assert_allclose(after.mean, before.mean + (gain @ missed[..., None])[..., 0], rtol=1e-9)
    np.testing.assert_allclose(after.covariance, before.covariance - gain @ before.covariance, atol=1e-15)


def test_a_value_without_error_is_taken_and_one_without_information_changes_nothing():
    path = tiny_path()
    sure = correct_path(path, evidence=known(a=(0.21, 1e-7)))
    assert sure.posterior.total_mean[0] == pytest.approx(0.21, abs=1e-6)
    vague, none = correct_path(path, evidence=known(a=(0.21, 1e6))), correct_path(path)
    assert vague.posterior.total_mean == pytest.approx(none.posterior.total_mean, rel=1e-9)
    assert vague.posterior.total_covariance == pytest.approx(none.posterior.total_covariance, rel=1e-9)
    both = correct_path(path, evidence=ratio(1.5, 1e-7)).posterior.total_mean
    assert both[0] / both[1] == pytest.approx(1.5, abs=1e-5)


def test_a_value_is_checked_by_what_the_others_let_expect():
    path = tiny_path()
    table = correct_path(path, evidence=known(a=(0.4, 0.02), b=(0.8, 0.02))).known
    assert table["disagrees"].tolist() == [True, True]
    of_b = correct_path(path, evidence=known(b=(0.8, 0.02))).posterior
    assert table["expected"][0] == pytest.approx(of_b.total_mean[0])
    spread = np.hypot(0.02, np.sqrt(of_b.total_covariance[0, 0]))
    assert table["expected_error"][0] == pytest.approx(spread)
    assert table["z"][0] == pytest.approx((0.4 - of_b.total_mean[0]) / spread)
    # Bonferroni's limit over two recommenders, and .84 more for a chance of .8.
    assert table["smallest_error"][0] == pytest.approx((2.2414 + 0.8416) * spread, rel=1e-4)
    alone = correct_path(path, evidence=known(a=(0.4, 0.02)))
    assert alone.known["expected"][0] == pytest.approx(correct_path(path).posterior.total_mean[0])
    text = repr(correct_path(path, evidence=known(a=(0.4, 0.02), b=(0.8, 0.02))))
    assert "disagrees with" in text
    assert "the level rests on the known values and the prior" in " ".join(text.split())
    ratios = correct_path(path, evidence=ratio(1.2, 0.1)).known.loc[0]
    assert (ratios["model"], ratios["reference"], ratios["known"]) == ("a", "b", 1.2)
    assert ratios["known"] - ratios["expected"] == pytest.approx(ratios["z"] * ratios["expected_error"])
    assert correct_path(path).known.empty


def test_every_door_takes_known_values():
    world = World(n_users=150, n_items=40, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = {name: one for name, one in world.example_models(split, rng=2).items() if name != "noisy"}
    values = {"recall@10": (0.2, 0.01), "mean_dcg@10": (0.5, 0.1)}
    evidence = Evidence(known={"popular": values}, source=BUCKET)
    found, without = (ipseval.correct(models, split, evidence=one, rng=0) for one in (evidence, None))
    # Both values are of one bucket, so that neither is expected from the other.
    corrected = without.frame[without.frame["estimator"] == "corrected"].set_index("model")
    assert found.known["expected"].tolist() == pytest.approx(corrected.loc["popular", "estimate"].tolist())
    result = ipseval.evaluate(models, split, evidence=evidence, rng=0)
    mine, other = (one[one["estimator"] == "corrected"] for one in (found.frame, result.frame))
    assert mine["estimate"].tolist() == other["estimate"].tolist()
    assert result.leader is None  # known values say of levels, not of the order
    plan, plain = (
        ipseval.plan_exposure(one, n_users=[25], n_items=[10], positive_share=0.1) for one in (found, without)
    )
    assert plan["half_width"][0] < plain["half_width"][0]


def test_a_verdict_by_known_values_alone_names_nobody_however_sure_the_posterior_is():
    labels = ["atop", "recall@10"]
    world = World(n_users=150, n_items=40, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = {name: world.example_models(split, rng=2)[name] for name in ("popular", "noisy")}
    anchors = {"popular": dict.fromkeys(labels, (0.9, 0.001)), "noisy": dict.fromkeys(labels, (0.3, 0.001))}
    evidence = Evidence(known=anchors, source=BUCKET)
    found = ipseval.correct(models, split, evidence=evidence, metrics=labels, rng=0)
    for label in labels:
        assert found.orders()[label].ahead.max() > 0.99
        assert f"By {label}, popular is first. No leader is named" in found.verdict
    shown = RandomExposure.from_ratings(world.study(6, n_per_user=20).random, threshold=4)
    informed = ipseval.correct(
        models, split, evidence=replace(evidence, exposure=shown), metrics=labels, rng=0
    )
    assert informed.verdict.count("popular leads") == len(labels)


@pytest.mark.parametrize("n_users", [1, 100, 10_000])
def test_the_loss_of_a_choice_is_that_of_two_normal_values(n_users):
    found = correct_path(tiny_path())
    plan = ipseval.plan_exposure(found, n_users=[n_users], n_items=[10], positive_share=0.05)
    unit, now = np.array([1.0, -1.0]), found.posterior.total_covariance
    width = plan["half_width"][0]
    hits = n_users * 0.5
    noise = np.tensordot(found.posterior.grid_mass, found.path.spread, 1) / hits
    noise = noise + found.path.half_hit(hits)
    after = now - now @ np.linalg.inv(now + noise) @ now
    assert width == pytest.approx(1.96 * np.sqrt(np.diag(after)).mean(), rel=1e-3)
    rng, left = np.random.default_rng(1), unit @ after @ unit
    told = unit @ found.posterior.total_mean + np.sqrt(unit @ now @ unit - left) * rng.normal(size=10**5)
    lost = np.maximum(-np.sign(told) * (told + np.sqrt(left) * rng.normal(size=10**5)), 0)
    assert plan["loss"][0] == pytest.approx(np.quantile(lost, 0.9), rel=0.1, abs=1e-3)


REFUSED = {
    "no source": ({"a": {"recall@5": (0.3, 0.1)}}, None, "need a source"),
    "a source unheard of": ({"a": {"recall@5": (0.3, 0.1)}}, "a feeling", "source"),
    "a percentage": ({"a": {"recall@5": (30, 1)}}, BUCKET, "no percentage"),
    "no error": ({"a": {"recall@5": 0.3}}, BUCKET, "standard error"),
    "an error of 0": ({"a": {"recall@5": (0.3, 0)}}, BUCKET, "above 0"),
    "an error that is no number": ({"a": {"recall@5": (0.3, float("nan"))}}, BUCKET, "standard error"),
    "no metric": ({"a": (0.3, 0.1)}, BUCKET, "known"),
    "another recommender": ({"c": {"recall@5": (0.3, 0.1)}}, BUCKET, "unknown recommender"),
    "another metric": ({"a": {"recall@10": (0.3, 0.1)}}, BUCKET, "Ask for it by metrics="),
    "a pair as a value": ({("a", "b"): {"recall@5": (0.3, 0.1)}}, BUCKET, "names of recommenders"),
    "a name as a ratio": ({"a": {"recall@5": (1.3, 0.1)}}, ARMS, "pairs of names"),
    "a number as a ratio": ({3: {"recall@5": (1.3, 0.1)}}, ARMS, "pairs of names"),
    "a ratio of 0": ({("a", "b"): {"recall@5": (0, 0.1)}}, ARMS, "above 0"),
    "a list": ([("a", 0.3)], BUCKET, "known"),
}


@pytest.mark.parametrize(("given", "source", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_known_value_is_refused_in_words(given, source, said):
    with pytest.raises(InputError, match=said):
        correct_path(tiny_path(), evidence=Evidence(known=given, source=source))


def test_the_weighted_sample_is_the_weighted_mean_of_its_parts():
    world = World(n_users=100, n_items=40, mean_relevant=10, rng=3)
    split = world.split(rng=4)
    models = {"popular": world.example_models(split, rng=5)["popular"]}
    shown = RandomExposure.from_ratings(world.study(6, n_per_user=10).random, threshold=4)
    odd = shown.user % 2 == 1
    weighted = replace(shown, weight=np.where(odd, 1.0, 3.0))
    found = [
        ipseval.correct(models, split, evidence=Evidence(exposure=one), metrics=["recall@10"], rng=0)
        for one in (weighted, shown.select(~odd), shown.select(odd))
    ]
    value = np.array([one.sample.value[0] for one in found])
    n = np.array([one.sample.n_positives for one in found])
    weight = np.repeat([3.0, 1.0], n[1:])
    assert value[0] == pytest.approx(value[1:] @ (n[1:] * [3, 1]) / weight.sum(), rel=1e-12)
    assert found[0].sample.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert found[0].difference is None
    assert found[1].sample.ess is None


def test_a_name_that_is_not_there_is_found_before_anything_is_ranked():
    world = World(n_users=100, n_items=30, mean_relevant=6, rng=0)
    split = world.split(rng=1)

    def never(users: np.ndarray) -> np.ndarray:
        raise AssertionError("ranked")

    for name, label in (("typo", "recall@10"), ("mine", "recall@7")):
        evidence = Evidence(known={name: {label: (0.1, 0.01)}}, source=BUCKET)
        for door in (ipseval.correct, ipseval.evaluate):
            with pytest.raises(InputError, match="unknown"):
                door({"mine": never}, split, evidence=evidence)


def test_nothing_has_a_ratio_to_a_recommender_without_hits():
    path = tiny_path()
    nothing = replace(path, value=path.value * [1.0, 0.0])
    with pytest.raises(InputError, match="expected to be 0"):
        correct_path(nothing, evidence=ratio(1.2, 0.1))
