"""Reference values: compared with draws, at their limits, consistency checks, and invalid input."""

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
RANDOMISED_RATIO = "randomised-ratio"


def recall_options(**values: tuple[float, float]) -> dict[str, Any]:
    """Return reference values of recall@5 by recommender, as options of `correct_path`."""
    return {
        "reference_values": {name: {"recall@5": pair} for name, pair in values.items()},
        "source": RANDOMISED,
    }


def ratio_options(value: float, error: float) -> dict[str, Any]:
    return {"reference_values": {("a", "b"): {"recall@5": (value, error)}}, "source": RANDOMISED_RATIO}


def make_observations(options: dict[str, Any], path: CorrectionPath, mean: np.ndarray) -> ReferenceValues:
    return ReferenceValues.from_values(parse_reference_values(**options), path, mean)


@pytest.mark.parametrize(
    ("sample", "options"),
    [
        (None, recall_options(a=(0.3, 0.03))),
        (tiny_sample(), recall_options(a=(0.3, 0.05), b=(0.2, 0.02))),
        (None, ratio_options(1.2, 0.1)),
        (tiny_sample(), ratio_options(1.2, 0.1)),
    ],
)
def test_the_posterior_equals_draws_weighted_by_the_likelihood_of_the_reference_values(sample, options):
    path = tiny_path()
    rng = np.random.default_rng(0)
    prior_posterior = compute_posterior(path, PRIOR, sample)
    observations = make_observations(options, path, prior_posterior.total_mean)
    part = rng.choice(prior_posterior.weight.size, 200_000, p=prior_posterior.weight)
    root = np.linalg.cholesky(prior_posterior.covariance)
    draws = prior_posterior.mean[part] + np.einsum(
        "dij,dj->di", root[part], rng.standard_normal((part.size, 2))
    )
    z = (observations.observed - draws @ observations.contrast.T) / observations.error
    weight = np.exp(-(z**2).sum(axis=1) / 2)
    weight /= weight.sum()
    mean = weight @ draws
    sd = np.sqrt(weight @ (draws - mean) ** 2)
    posterior = compute_posterior(path, PRIOR, sample, observations)
    noise = 5 * sd * np.sqrt((weight**2).sum())
    assert (np.abs(posterior.total_mean - mean) < noise).all()
    assert np.sqrt(np.diag(posterior.total_covariance)) == pytest.approx(sd, rel=0.02)
    assert posterior.grid_mass.sum() == pytest.approx(1)


def test_each_strength_is_weighted_by_the_density_of_the_reference_values():
    path = tiny_path()
    path = replace(path, covariance=path.covariance * (1 + path.alpha)[:, None, None])
    prior_posterior = compute_posterior(path, PRIOR)
    observations = make_observations(
        recall_options(a=(0.3, 0.05), b=(0.2, 0.02)), path, prior_posterior.total_mean
    )
    posterior = compute_posterior(path, PRIOR, None, observations)
    spread = prior_posterior.covariance + np.diag([0.05**2, 0.02**2])
    parts = zip(prior_posterior.mean, spread, strict=True)
    weight = prior_posterior.weight * [multivariate_normal(*moments).pdf([0.3, 0.2]) for moments in parts]
    np.testing.assert_allclose(posterior.weight, weight / weight.sum(), rtol=1e-9)
    np.testing.assert_allclose(posterior.grid_mass[posterior.grid_mass > 0], posterior.weight, rtol=1e-12)
    gain = prior_posterior.covariance @ np.linalg.inv(spread)
    residual = np.array([0.3, 0.2]) - prior_posterior.mean
    np.testing.assert_allclose(
        posterior.mean, prior_posterior.mean + (gain @ residual[..., None])[..., 0], rtol=1e-9
    )
    np.testing.assert_allclose(
        posterior.covariance, prior_posterior.covariance - gain @ prior_posterior.covariance, atol=1e-15
    )


def test_an_exact_value_is_reproduced_and_a_value_without_information_changes_nothing():
    path = tiny_path()
    exact_correction = correct_path(path, **recall_options(a=(0.21, 1e-7)))
    assert exact_correction.posterior.total_mean[0] == pytest.approx(0.21, abs=1e-6)
    vague_correction = correct_path(path, **recall_options(a=(0.21, 1e6)))
    log_correction = correct_path(path)
    assert vague_correction.posterior.total_mean == pytest.approx(
        log_correction.posterior.total_mean, rel=1e-9
    )
    assert vague_correction.posterior.total_covariance == pytest.approx(
        log_correction.posterior.total_covariance, rel=1e-9
    )
    means = correct_path(path, **ratio_options(1.5, 1e-7)).posterior.total_mean
    assert means[0] / means[1] == pytest.approx(1.5, abs=1e-5)


def test_a_value_is_compared_with_its_expectation_from_the_other_values():
    path = tiny_path()
    table = correct_path(path, **recall_options(a=(0.4, 0.02), b=(0.8, 0.02))).reference_values
    assert table["disagrees"].tolist() == [True, True]
    posterior_given_b = correct_path(path, **recall_options(b=(0.8, 0.02))).posterior
    assert table["expected"][0] == pytest.approx(posterior_given_b.total_mean[0])
    spread = np.hypot(0.02, np.sqrt(posterior_given_b.total_covariance[0, 0]))
    assert table["expected_error"][0] == pytest.approx(spread)
    assert table["z"][0] == pytest.approx((0.4 - posterior_given_b.total_mean[0]) / spread)
    # Bonferroni's limit over two recommenders, and .84 more for a chance of .8.
    assert table["detectable_error"][0] == pytest.approx((2.2414 + 0.8416) * spread, rel=1e-4)
    correction_given_a = correct_path(path, **recall_options(a=(0.4, 0.02)))
    assert correction_given_a.reference_values["expected"][0] == pytest.approx(
        correct_path(path).posterior.total_mean[0]
    )
    text = repr(correct_path(path, **recall_options(a=(0.4, 0.02), b=(0.8, 0.02))))
    assert "differs significantly from" in " ".join(text.split())
    assert "depends on the reference values and the prior" in " ".join(text.split())
    ratio_row = correct_path(path, **ratio_options(1.2, 0.1)).reference_values.loc[0]
    assert (ratio_row["model"], ratio_row["reference"], ratio_row["value"]) == ("a", "b", 1.2)
    assert ratio_row["value"] - ratio_row["expected"] == pytest.approx(
        ratio_row["z"] * ratio_row["expected_error"]
    )
    assert correct_path(path).reference_values.empty


def test_reference_values_move_the_estimates_and_narrow_the_plan():
    world = World(n_users=150, n_items=40, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = {name: result for name, result in world.example_models(split, rng=2).items() if name != "noisy"}
    values = {"recall@10": (0.2, 0.01), "mean_dcg@10": (0.5, 0.1)}
    options = {"reference_values": {"popular": values}, "source": RANDOMISED}
    correction = ipseval.correct(models, split, **options, rng=0)
    log_correction = ipseval.correct(models, split, rng=0)
    # Both values are of one experiment, so that neither is expected from the other.
    of_popular = [model == "popular" for model, _ in log_correction.path.cells]
    log_estimates = log_correction.posterior.total_mean[of_popular].tolist()
    assert correction.has_point_estimate
    assert not log_correction.has_point_estimate
    assert correction.reference_values["expected"].tolist() == pytest.approx(log_estimates)
    assert correction.leader is None  # reference values are about levels, not about the order
    plan, log_plan = (
        ipseval.plan_exposure(result, n_users=[25], n_items=[10], positive_share=0.1)
        for result in (correction, log_correction)
    )
    assert plan["half_width"][0] < log_plan["half_width"][0]


def test_reference_values_alone_give_no_winner_even_if_the_posterior_is_concentrated():
    labels = ["atop", "recall@10"]
    world = World(n_users=150, n_items=40, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = {name: world.example_models(split, rng=2)[name] for name in ("popular", "noisy")}
    values = {"popular": dict.fromkeys(labels, (0.9, 0.001)), "noisy": dict.fromkeys(labels, (0.3, 0.001))}
    options = {"reference_values": values, "source": RANDOMISED, "metrics": labels, "rng": 0}
    correction = ipseval.correct(models, split, **options)
    assert (correction.order["p_better_than_next"].dropna() > 0.99).all()
    assert correction.leader is None
    assert "No random items were passed, so no winner is named." in correction.verdict
    exposure = RandomExposure.from_ratings(world.study(6, n_per_user=20).random, threshold=4)
    exposure_correction = ipseval.correct(models, split, random_exposure=exposure, **options)
    # These values contradict the random sample, and it does not have popular ahead itself.
    assert (exposure_correction.order["p_better_than_next"].dropna() > 0.99).all()
    assert exposure_correction.leader is None
    assert "The random sample itself does not have popular ahead" in exposure_correction.verdict


@pytest.mark.parametrize("n_users", [1, 100, 10_000])
def test_the_planned_regret_equals_the_regret_of_two_normal_values(n_users):
    correction = correct_path(tiny_path())
    plan = ipseval.plan_exposure(correction, n_users=[n_users], n_items=[10], positive_share=0.05)
    unit = np.array([1.0, -1.0])
    covariance = correction.posterior.total_covariance
    width = plan["half_width"][0]
    hits = n_users * 0.5
    noise = np.tensordot(correction.posterior.grid_mass, correction.path.spread, 1) / hits
    noise = noise + correction.path.half_hit(hits)
    planned_covariance = covariance - covariance @ np.linalg.inv(covariance + noise) @ covariance
    assert width == pytest.approx(1.96 * np.sqrt(np.diag(planned_covariance)).mean(), rel=1e-3)
    rng = np.random.default_rng(1)
    remaining_variance = unit @ planned_covariance @ unit
    estimated_difference = unit @ correction.posterior.total_mean + np.sqrt(
        unit @ covariance @ unit - remaining_variance
    ) * rng.normal(size=10**5)
    regret = np.maximum(
        -np.sign(estimated_difference)
        * (estimated_difference + np.sqrt(remaining_variance) * rng.normal(size=10**5)),
        0,
    )
    assert plan["regret_90"][0] == pytest.approx(np.quantile(regret, 0.9), rel=0.1, abs=1e-3)


REFUSED = {
    "no source": ({"a": {"recall@5": (0.3, 0.1)}}, None, "reference_values requires source"),
    "a source alone": (None, RANDOMISED, "source requires reference values"),
    "an unknown source": ({"a": {"recall@5": (0.3, 0.1)}}, "a feeling", "source"),
    "a percentage": ({"a": {"recall@5": (30, 1)}}, RANDOMISED, "Divide percentages by 100"),
    "a negative value": ({"a": {"recall@5": (-0.1, 0.1)}}, RANDOMISED, "from 0 to 1; got -0.1"),
    "a negative error": ({"a": {"recall@5": (0.5, -1)}}, RANDOMISED, "must be above 0; got -1"),
    "a value alone": ({"a": {"recall@5": (0.5,)}}, RANDOMISED, r"must be \(value, standard error\)"),
    "three numbers": ({"a": {"recall@5": (0.5, 0.1, 0.1)}}, RANDOMISED, r"must be \(value, standard error\)"),
    "a word": ({"a": {"recall@5": "ab"}}, RANDOMISED, r"must be \(value, standard error\)"),
    "three names": ({("a", "b", "c"): {"recall@5": (0.5, 0.1)}}, RANDOMISED_RATIO, "pairs of names"),
    "no error": ({"a": {"recall@5": 0.3}}, RANDOMISED, "standard error"),
    "an error of 0": ({"a": {"recall@5": (0.3, 0)}}, RANDOMISED, "above 0"),
    "an error that is not a number": ({"a": {"recall@5": (0.3, float("nan"))}}, RANDOMISED, "standard error"),
    "no metric": ({"a": (0.3, 0.1)}, RANDOMISED, "reference_values"),
    "another recommender": ({"c": {"recall@5": (0.3, 0.1)}}, RANDOMISED, "unknown recommender"),
    "another metric": ({"a": {"recall@10": (0.3, 0.1)}}, RANDOMISED, "Request it by metrics="),
    "a pair as a value": ({("a", "b"): {"recall@5": (0.3, 0.1)}}, RANDOMISED, "names of recommenders"),
    "a name as a ratio": ({"a": {"recall@5": (1.3, 0.1)}}, RANDOMISED_RATIO, "pairs of names"),
    "a number as a ratio": ({3: {"recall@5": (1.3, 0.1)}}, RANDOMISED_RATIO, "pairs of names"),
    "an empty reference": ({("a", ""): {"recall@5": (0.5, 0.1)}}, RANDOMISED_RATIO, "pairs of names"),
    "a reference that is a number": (
        {("a", 1): {"recall@5": (0.5, 0.1)}},
        RANDOMISED_RATIO,
        "pairs of names",
    ),
    "a ratio of 0": ({("a", "b"): {"recall@5": (0, 0.1)}}, RANDOMISED_RATIO, "must be above 0; got 0"),
    "a list": ([("a", 0.3)], RANDOMISED, "reference_values must be Mapping; got list"),
}


@pytest.mark.parametrize(("values", "source", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_reference_values_are_refused(values, source, message):
    with pytest.raises(InputError, match=message):
        correct_path(tiny_path(), reference_values=values, source=source)


def test_reference_values_may_be_at_their_bounds_and_ratios_above_one():
    for value in (0, 1):
        values = parse_reference_values({"a": {"recall@5": (value, 1e-9)}}, RANDOMISED)
        assert values == (
            ReferenceValue(model="a", reference="", metric="recall@5", value=value, std_error=1e-9),
        )
        assert not values[0].is_ratio
    values = parse_reference_values({("a", "b"): {"recall@5": [2, 0.1]}}, RANDOMISED_RATIO)
    assert values == (ReferenceValue(model="a", reference="b", metric="recall@5", value=2, std_error=0.1),)
    assert values[0].is_ratio
    assert parse_reference_values(None, None) == ()


def test_the_weighted_sample_is_the_weighted_mean_of_its_parts():
    world = World(n_users=100, n_items=40, mean_relevant=10, rng=3)
    split = world.split(rng=4)
    models = {"popular": world.example_models(split, rng=5)["popular"]}
    exposure = RandomExposure.from_ratings(world.study(6, n_per_user=10).random, threshold=4)
    is_odd = exposure.user % 2 == 1
    weighted_exposure = replace(exposure, weight=np.where(is_odd, 1.0, 3.0))
    corrections = [
        ipseval.correct(models, split, random_exposure=part, metrics=["recall@10"], rng=0)
        for part in (weighted_exposure, exposure.select(~is_odd), exposure.select(is_odd))
    ]
    value = np.array([part.sample.value[0] for part in corrections])
    n = np.array([part.sample.n_positives for part in corrections])
    weight = np.repeat([3.0, 1.0], n[1:])
    assert value[0] == pytest.approx(value[1:] @ (n[1:] * [3, 1]) / weight.sum(), rel=1e-12)
    assert corrections[0].sample.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert corrections[0].ppi is None
    assert corrections[1].sample.ess is None


def test_an_unknown_name_raises_an_error_before_ranking():
    world = World(n_users=100, n_items=30, mean_relevant=6, rng=0)
    split = world.split(rng=1)

    def never(users: np.ndarray) -> np.ndarray:
        raise AssertionError("ranked")

    for name, label in (("typo", "recall@10"), ("mine", "recall@7")):
        values = {name: {label: (0.1, 0.01)}}
        with pytest.raises(InputError, match="unknown"):
            ipseval.correct({"mine": never}, split, reference_values=values, source=RANDOMISED)


def test_a_ratio_to_a_recommender_without_hits_is_refused():
    path = tiny_path()
    path_without_hits = replace(path, value=path.value * [1.0, 0.0])
    with pytest.raises(InputError, match="expected to be 0"):
        correct_path(path_without_hits, **ratio_options(1.2, 0.1))


def test_the_error_of_a_ratio_is_that_of_the_value_of_its_numerator():
    # A ratio of 1.2 ± 0.1 to a recommender that is expected at 0.25 is an observation with error 0.025.
    path = tiny_path()
    parsed = parse_reference_values({("a", "b"): {"recall@5": (1.2, 0.1)}}, RANDOMISED_RATIO)
    observations = ReferenceValues.from_values(parsed, path, np.array([0.4, 0.25]))
    assert observations.error == pytest.approx([0.025])
    assert observations.contrast.tolist() == [[1.0, -1.2]]
    level = ReferenceValues.from_values(
        parse_reference_values({"a": {"recall@5": (0.3, 0.02)}}, RANDOMISED), path, np.array([0.4, 0.25])
    )
    assert level.error == pytest.approx([0.02])
