"""Reference values: against draws, at their limits, as a check of each other, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import ipseval
from ipseval import InputError
from ipseval.correction import CorrectionPath, CorrectionPrior, correct_path
from ipseval.data import RandomExposure
from ipseval.validation.simulation import World
from tests.correction.test_posterior import tiny_path, tiny_sample
from tests.inside.correction import ReferenceValue, ReferenceValues, compute_posterior, parse_reference_values

PRIOR = CorrectionPrior()
RANDOMISED = "randomised"
AB_RATIO = "ab-ratio"


def known(**values: tuple[float, float]) -> dict[str, Any]:
    """Return reference values of recall@5 by recommender, as options of `correct_path`."""
    return {
        "reference_values": {name: {"recall@5": pair} for name, pair in values.items()},
        "source": RANDOMISED,
    }


def ratio(value: float, error: float) -> dict[str, Any]:
    return {"reference_values": {("a", "b"): {"recall@5": (value, error)}}, "source": AB_RATIO}


def observations_of(options: dict[str, Any], path: CorrectionPath, expected: np.ndarray) -> ReferenceValues:
    return ReferenceValues.from_values(parse_reference_values(**options), path, expected)


@pytest.mark.parametrize(
    ("sample", "options"),
    [
        (None, known(a=(0.3, 0.03))),
        (tiny_sample(), known(a=(0.3, 0.05), b=(0.2, 0.02))),
        (None, ratio(1.2, 0.1)),
        (tiny_sample(), ratio(1.2, 0.1)),
    ],
)
def test_the_posterior_is_that_of_draws_weighted_by_the_likelihood_of_the_reference_values(sample, options):
    path, rng = tiny_path(), np.random.default_rng(0)
    before = compute_posterior(path, PRIOR, sample)
    observations = observations_of(options, path, before.total_mean)
    part = rng.choice(before.weight.size, 200_000, p=before.weight)
    root = np.linalg.cholesky(before.covariance)
    drawn = before.mean[part] + np.einsum("dij,dj->di", root[part], rng.standard_normal((part.size, 2)))
    missed = (observations.observed - drawn @ observations.contrast.T) / observations.error
    weight = np.exp(-(missed**2).sum(axis=1) / 2)
    weight /= weight.sum()
    mean = weight @ drawn
    sd = np.sqrt(weight @ (drawn - mean) ** 2)
    after = compute_posterior(path, PRIOR, sample, observations)
    noise = 5 * sd * np.sqrt((weight**2).sum())
    assert (np.abs(after.total_mean - mean) < noise).all()
    assert np.sqrt(np.diag(after.total_covariance)) == pytest.approx(sd, rel=0.02)
    assert after.grid_mass.sum() == pytest.approx(1)


def test_each_strength_is_weighed_by_the_density_of_the_reference_values():
    path = tiny_path()
    path = replace(path, covariance=path.covariance * (1 + path.alpha)[:, None, None])
    before = compute_posterior(path, PRIOR)
    observations = observations_of(known(a=(0.3, 0.05), b=(0.2, 0.02)), path, before.total_mean)
    after = compute_posterior(path, PRIOR, None, observations)
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
    sure = correct_path(path, **known(a=(0.21, 1e-7)))
    assert sure.posterior.total_mean[0] == pytest.approx(0.21, abs=1e-6)
    vague, none = correct_path(path, **known(a=(0.21, 1e6))), correct_path(path)
    assert vague.posterior.total_mean == pytest.approx(none.posterior.total_mean, rel=1e-9)
    assert vague.posterior.total_covariance == pytest.approx(none.posterior.total_covariance, rel=1e-9)
    both = correct_path(path, **ratio(1.5, 1e-7)).posterior.total_mean
    assert both[0] / both[1] == pytest.approx(1.5, abs=1e-5)


def test_a_value_is_checked_by_what_the_others_let_expect():
    path = tiny_path()
    table = correct_path(path, **known(a=(0.4, 0.02), b=(0.8, 0.02))).reference_values
    assert table["disagrees"].tolist() == [True, True]
    of_b = correct_path(path, **known(b=(0.8, 0.02))).posterior
    assert table["expected"][0] == pytest.approx(of_b.total_mean[0])
    spread = np.hypot(0.02, np.sqrt(of_b.total_covariance[0, 0]))
    assert table["expected_error"][0] == pytest.approx(spread)
    assert table["z"][0] == pytest.approx((0.4 - of_b.total_mean[0]) / spread)
    # Bonferroni's limit over two recommenders, and .84 more for a chance of .8.
    assert table["detectable_error"][0] == pytest.approx((2.2414 + 0.8416) * spread, rel=1e-4)
    alone = correct_path(path, **known(a=(0.4, 0.02)))
    assert alone.reference_values["expected"][0] == pytest.approx(correct_path(path).posterior.total_mean[0])
    text = repr(correct_path(path, **known(a=(0.4, 0.02), b=(0.8, 0.02))))
    assert "differs significantly from" in " ".join(text.split())
    assert "depends on the reference values and the prior" in " ".join(text.split())
    ratios = correct_path(path, **ratio(1.2, 0.1)).reference_values.loc[0]
    assert (ratios["model"], ratios["reference"], ratios["value"]) == ("a", "b", 1.2)
    assert ratios["value"] - ratios["expected"] == pytest.approx(ratios["z"] * ratios["expected_error"])
    assert correct_path(path).reference_values.empty


def test_reference_values_move_the_estimates_and_narrow_the_plan():
    world = World(n_users=150, n_items=40, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = {name: one for name, one in world.example_models(split, rng=2).items() if name != "noisy"}
    values = {"recall@10": (0.2, 0.01), "mean_dcg@10": (0.5, 0.1)}
    given = {"reference_values": {"popular": values}, "source": RANDOMISED}
    found = ipseval.correct(models, split, **given, rng=0)
    without = ipseval.correct(models, split, rng=0)
    # Both values are of one experiment, so that neither is expected from the other.
    corrected = without.frame[without.frame["estimator"] == "corrected"].set_index("model")
    expected = corrected.loc["popular", "estimate"].tolist()
    assert found.reference_values["expected"].tolist() == pytest.approx(expected)
    assert found.leader is None  # reference values are about levels, not about the order
    plan, plain = (
        ipseval.plan_exposure(one, n_users=[25], n_items=[10], positive_share=0.1) for one in (found, without)
    )
    assert plan["half_width"][0] < plain["half_width"][0]


def test_reference_values_alone_name_no_winner_however_concentrated_the_posterior_is():
    labels = ["atop", "recall@10"]
    world = World(n_users=150, n_items=40, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = {name: world.example_models(split, rng=2)[name] for name in ("popular", "noisy")}
    values = {"popular": dict.fromkeys(labels, (0.9, 0.001)), "noisy": dict.fromkeys(labels, (0.3, 0.001))}
    given = {"reference_values": values, "source": RANDOMISED, "metrics": labels, "rng": 0}
    found = ipseval.correct(models, split, **given)
    assert (found.order["p_better_than_next"].dropna() > 0.99).all()
    assert found.leader is None
    assert "Exposure was not measured, so no winner is named." in found.verdict
    shown = RandomExposure.from_ratings(world.study(6, n_per_user=20).random, threshold=4)
    informed = ipseval.correct(models, split, random_exposure=shown, **given)
    assert informed.leader == "popular"
    assert "recall@10 leads to the same conclusion." in informed.verdict


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
    assert plan["regret_90"][0] == pytest.approx(np.quantile(lost, 0.9), rel=0.1, abs=1e-3)


REFUSED = {
    "no source": ({"a": {"recall@5": (0.3, 0.1)}}, None, "reference_values requires source"),
    "a source alone": (None, RANDOMISED, "source requires reference_values"),
    "an unknown source": ({"a": {"recall@5": (0.3, 0.1)}}, "a feeling", "source"),
    "a percentage": ({"a": {"recall@5": (30, 1)}}, RANDOMISED, "Divide percentages by 100"),
    "a negative value": ({"a": {"recall@5": (-0.1, 0.1)}}, RANDOMISED, "from 0 to 1; got -0.1"),
    "a negative error": ({"a": {"recall@5": (0.5, -1)}}, RANDOMISED, "must be above 0; got -1"),
    "a value alone": ({"a": {"recall@5": (0.5,)}}, RANDOMISED, r"must be \(value, standard error\)"),
    "three numbers": ({"a": {"recall@5": (0.5, 0.1, 0.1)}}, RANDOMISED, r"must be \(value, standard error\)"),
    "a word": ({"a": {"recall@5": "ab"}}, RANDOMISED, r"must be \(value, standard error\)"),
    "three names": ({("a", "b", "c"): {"recall@5": (0.5, 0.1)}}, AB_RATIO, "pairs of names"),
    "no error": ({"a": {"recall@5": 0.3}}, RANDOMISED, "standard error"),
    "an error of 0": ({"a": {"recall@5": (0.3, 0)}}, RANDOMISED, "above 0"),
    "an error that is not a number": ({"a": {"recall@5": (0.3, float("nan"))}}, RANDOMISED, "standard error"),
    "no metric": ({"a": (0.3, 0.1)}, RANDOMISED, "reference_values"),
    "another recommender": ({"c": {"recall@5": (0.3, 0.1)}}, RANDOMISED, "unknown recommender"),
    "another metric": ({"a": {"recall@10": (0.3, 0.1)}}, RANDOMISED, "Request it by metrics="),
    "a pair as a value": ({("a", "b"): {"recall@5": (0.3, 0.1)}}, RANDOMISED, "names of recommenders"),
    "a name as a ratio": ({"a": {"recall@5": (1.3, 0.1)}}, AB_RATIO, "pairs of names"),
    "a number as a ratio": ({3: {"recall@5": (1.3, 0.1)}}, AB_RATIO, "pairs of names"),
    "an empty reference": ({("a", ""): {"recall@5": (0.5, 0.1)}}, AB_RATIO, "pairs of names"),
    "a reference that is a number": ({("a", 1): {"recall@5": (0.5, 0.1)}}, AB_RATIO, "pairs of names"),
    "a ratio of 0": ({("a", "b"): {"recall@5": (0, 0.1)}}, AB_RATIO, "must be above 0; got 0"),
    "a list": ([("a", 0.3)], RANDOMISED, "reference_values must be Mapping; got list"),
}


@pytest.mark.parametrize(("given", "source", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_reference_value_is_refused(given, source, message):
    with pytest.raises(InputError, match=message):
        correct_path(tiny_path(), reference_values=given, source=source)


def test_reference_values_may_be_at_their_bounds_and_ratios_above_one():
    for value in (0, 1):
        parsed = parse_reference_values({"a": {"recall@5": (value, 1e-9)}}, RANDOMISED)
        assert parsed == (
            ReferenceValue(model="a", reference="", metric="recall@5", value=value, std_error=1e-9),
        )
        assert not parsed[0].is_ratio
    parsed = parse_reference_values({("a", "b"): {"recall@5": [2, 0.1]}}, AB_RATIO)
    assert parsed == (ReferenceValue(model="a", reference="b", metric="recall@5", value=2, std_error=0.1),)
    assert parsed[0].is_ratio
    assert parse_reference_values(None, None) == ()


def test_the_weighted_sample_is_the_weighted_mean_of_its_parts():
    world = World(n_users=100, n_items=40, mean_relevant=10, rng=3)
    split = world.split(rng=4)
    models = {"popular": world.example_models(split, rng=5)["popular"]}
    shown = RandomExposure.from_ratings(world.study(6, n_per_user=10).random, threshold=4)
    odd = shown.user % 2 == 1
    weighted = replace(shown, weight=np.where(odd, 1.0, 3.0))
    found = [
        ipseval.correct(models, split, random_exposure=one, metrics=["recall@10"], rng=0)
        for one in (weighted, shown.select(~odd), shown.select(odd))
    ]
    value = np.array([one.sample.value[0] for one in found])
    n = np.array([one.sample.n_positives for one in found])
    weight = np.repeat([3.0, 1.0], n[1:])
    assert value[0] == pytest.approx(value[1:] @ (n[1:] * [3, 1]) / weight.sum(), rel=1e-12)
    assert found[0].sample.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert found[0].ppi is None
    assert found[1].sample.ess is None


def test_a_name_that_is_not_there_is_found_before_anything_is_ranked():
    world = World(n_users=100, n_items=30, mean_relevant=6, rng=0)
    split = world.split(rng=1)

    def never(users: np.ndarray) -> np.ndarray:
        raise AssertionError("ranked")

    for name, label in (("typo", "recall@10"), ("mine", "recall@7")):
        values = {name: {label: (0.1, 0.01)}}
        with pytest.raises(InputError, match="unknown"):
            ipseval.correct({"mine": never}, split, reference_values=values, source=RANDOMISED)


def test_nothing_has_a_ratio_to_a_recommender_without_hits():
    path = tiny_path()
    nothing = replace(path, value=path.value * [1.0, 0.0])
    with pytest.raises(InputError, match="expected to be 0"):
        correct_path(nothing, **ratio(1.2, 0.1))
