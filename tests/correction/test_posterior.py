"""The posterior of the correction strength, by brute force and at its limits, and the regression on AOA."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import norm

import ipseval
from ipseval.correction import Correction, CorrectionPath, CorrectionPrior, correct_path
from ipseval.errors import InputError
from tests.inside.correction import ALPHAS, SCALES, Posterior, RandomSample, compute_posterior, regress_on_aoa

PRIOR = CorrectionPrior()


def tiny_path() -> CorrectionPath:
    """Return a path of two recommenders and one metric, with the same spread at every α.

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
    """Return the tiny path with a second basis of the odds, for which values decrease faster."""
    path = tiny_path()
    doubled = {
        name: np.concatenate([getattr(path, name)] * 2) for name in ("covariance", "spread", "ess", "clipped")
    }
    value = np.concatenate([path.value, np.exp(-2 * ALPHAS)[:, None] * [0.6, 0.5] + [0.0, 0.05]])
    return replace(path, bases=("pairs", "interactions"), alpha=np.tile(ALPHAS, 2), value=value, **doubled)


def tiny_sample(scale: float = 1.0) -> RandomSample:
    covariance = np.array([[1.5e-3, 5e-4], [5e-4, 1.5e-3]])
    return RandomSample(np.array([0.3, 0.35]), covariance / scale, int(40 * scale), int(40 * scale), 1.0)


def draw_from_prior(path: CorrectionPath, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return values of both recommenders: basis, strength, scales, deviations and error, one by one."""
    strength = rng.choice(path.alpha.size, n, p=PRIOR.grid_mass(path.bases))
    basis_start = 25 * (strength // 25)
    step = np.abs(path.value[basis_start] - path.value[basis_start + 6])  # size of the correction, α = .45
    height = path.value[0].mean()  # AOA above chance
    size = height * (height / (2 * step.mean(axis=1))) ** PRIOR.flatness
    unit = PRIOR.deviation * size / np.sqrt(np.diag(path.spread[0]).mean())
    # The shift that both share, and their difference: each has a scale of its own.
    (variance, covariance), _ = path.spread[0]
    sd = np.sqrt([PRIOR.shared**2 * (variance + covariance), variance - covariance])
    axis_deviations = rng.choice(SCALES, (n, 2), p=PRIOR.scale_mass) * sd * rng.standard_normal((n, 2))
    basis_factor = np.where(
        np.array(path.bases)[strength // 25] == "interactions", PRIOR.interactions_deviation, 1
    )
    deviation = (basis_factor * unit)[:, None] * axis_deviations @ np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    error = rng.standard_normal((n, 2)) @ np.linalg.cholesky(path.covariance[0]).T
    return path.value[strength] + deviation + error


@pytest.mark.parametrize("path", [tiny_path(), tiny_path_of_two()], ids=["one basis", "two bases"])
def test_the_posterior_equals_importance_sampling(path):
    sample = tiny_sample()
    rng = np.random.default_rng(0)
    values = draw_from_prior(path, 80_000, rng)
    residual = sample.value - values
    noise = sample.covariance(path, PRIOR.grid_mass(path.bases))
    weight = np.exp(-(residual * np.linalg.solve(noise, residual.T).T).sum(axis=1) / 2)
    weight /= weight.sum()
    posterior = compute_posterior(path, CorrectionPrior(), sample)
    error = np.sqrt((weight**2) @ (values - weight @ values) ** 2)
    assert np.all(np.abs(posterior.total_mean - weight @ values) < 4 * error)
    deviations = values - weight @ values
    np.testing.assert_allclose(
        posterior.total_covariance, (weight[:, None] * deviations).T @ deviations, rtol=0.03
    )
    difference = np.array([[1.0, -1.0]])
    higher = weight @ (values[:, 0] > values[:, 1])
    # Of the mixture over scales it keeps mean and variance.
    assert posterior.probability_positive(difference)[0] == pytest.approx(higher, abs=0.01)
    below = weight @ (values[:, 0] - values[:, 1] <= posterior.quantile(difference, 0.025)[0])
    assert below == pytest.approx(0.025, abs=0.01)


def test_without_random_exposure_the_posterior_is_the_prior():
    path = tiny_path()
    posterior = compute_posterior(path, PRIOR)
    np.testing.assert_allclose(posterior.alpha_mass, PRIOR.mass, atol=1e-5)
    strength = correct_path(path).alpha
    below = np.cumsum(posterior.alpha_mass)
    assert (strength.low, strength.high) == (ALPHAS[(below < 0.025).sum()], ALPHAS[(below < 0.975).sum()])
    np.testing.assert_allclose(posterior.total_mean, PRIOR.mass @ path.value, atol=1e-6)
    values = draw_from_prior(path, 80_000, np.random.default_rng(1))
    np.testing.assert_allclose(posterior.total_covariance, np.cov(values.T), rtol=0.03)


def test_strengths_and_scales_have_the_probabilities_of_their_distributions():
    np.testing.assert_allclose(ALPHAS, np.arange(25) * 0.075, rtol=1e-12)
    np.testing.assert_allclose(SCALES, [0.4, 1, 2.5, 6.25, 15.625], rtol=1e-12)
    spike = norm.pdf(ALPHAS, 0, 0.03)
    wide = norm.pdf(ALPHAS, 0.5, 0.6)
    scale = norm.pdf(np.log(SCALES), 0, 0.7)
    mass = 0.08 * spike / spike.sum() + 0.92 * wide / wide.sum()
    np.testing.assert_allclose(PRIOR.mass, mass, rtol=1e-12)
    np.testing.assert_allclose(PRIOR.scale_mass, scale / scale.sum(), rtol=1e-12)
    sizes = ("sd", "deviation", "whole_deviation", "log_scale_sd", "shared", "interactions_sd", "flatness")
    for name in (*sizes, "own_personal", "interactions_deviation"):
        with pytest.raises(InputError, match=f"{name} must be"):
            CorrectionPrior(**{name: 0.0})


def test_the_grids_of_strengths_and_scales_cannot_be_changed():
    for grid in (PRIOR.alpha, SCALES):
        with pytest.raises(ValueError, match="read-only"):
            grid[0] = 1.0


def test_deviations_have_the_size_of_the_prior_and_a_shift_in_common():
    # Means: .4 above chance and .1 corrected in the first metric, .2 and .8 in the second: sizes
    # .4 (.5 · .4/.1)^.8 and .2 (.5 · .2/.8)^.8, of which the second power is of a fifth at least.
    spread = np.diag([0.04, 0.16, 0.09, 0.09])
    spread[0, 1] = spread[1, 0] = 0.02
    deviations = PRIOR.deviations(
        *(np.array([0.05, -0.15, 0.8, 0.8]), spread, np.array([0.5, 0.3, -0.2, 0.2])),
        *(np.array([0, 0, 1, 1]), np.array([False, False, True, True])),
    )
    unit = np.repeat([0.06 * 0.4 * 2**0.8 / 0.1**0.5, 0.11 * 0.2 * 0.2**0.8 / 0.3], 2)
    expected_covariance = spread * np.outer(unit, unit)
    # In standard deviations both recommenders move alike along (1, 1): there 1.6² times as much.
    sd = np.sqrt(np.diag(expected_covariance))[:2]
    shift = expected_covariance[:2, :2] @ (1 / sd)
    expected_covariance[:2, :2] += (1.6**2 - 1) * np.outer(shift, shift) / (shift @ (1 / sd))
    np.testing.assert_allclose(deviations, expected_covariance, rtol=1e-12)


def test_a_quantile_between_two_sharp_values_is_found():
    sharp = Posterior(np.ones(1), np.array([0.4, 0.6]), np.array([[0.0], [1.0]]), np.full((2, 1, 1), 1e-8))
    low, high = (sharp.quantile(np.ones((1, 1)), level)[0] for level in (0.2, 0.7))
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(1)
    assert sharp.quantile(np.ones((1, 1)), 0.1)[0] == pytest.approx(1e-4 * ndtri(0.25))


def test_the_basis_of_interactions_has_a_separate_strength_and_weight():
    prior = CorrectionPrior(interactions_mean=0.8, interactions_sd=0.05, interactions_weight=0.6)
    mass = prior.grid_mass(("pairs", "items", "profiles", "interactions")).reshape(4, 25)
    # The bases of positives share the rest, profiles with their own weight among them.
    np.testing.assert_allclose(mass.sum(axis=1), [0.19, 0.19, 0.02, 0.6])
    np.testing.assert_allclose(mass[0], 0.19 * prior.mass)
    assert ALPHAS[mass[3].argmax()] == pytest.approx(0.825)  # the point next to .8
    assert mass[3, 0] < 1e-30  # no spike at no correction: equal odds correct nothing at any strength
    np.testing.assert_allclose(prior.grid_mass(("pairs", "items")).reshape(2, 25), [0.5 * prior.mass] * 2)


def test_a_metric_linear_in_the_rank_has_a_separate_deviation():
    path = tiny_path()
    prior = CorrectionPrior(deviation=0.1, whole_deviation=0.3, shared=1.0)
    parts = [
        prior.deviations(
            path.value[0] - path.value[6],
            path.spread[6],
            path.value[0],
            path.metric_of,
            np.full(2, is_linear),
        )
        for is_linear in (False, True)
    ]
    np.testing.assert_allclose(parts[1], 9 * parts[0])
    assert replace(path, metrics=(ipseval.metric("atop"),)).whole.all()
    assert not path.whole.any()


def test_recommenders_without_deviation_do_not_hide_the_axis_of_a_deviation():
    """Nineteen recommenders agree with the path and two do not: these follow the sample."""
    n = 21
    spread = 0.02 * np.eye(n) + 0.02 * np.outer(np.arange(n) >= 19, np.arange(n) >= 19)
    path = replace(
        tiny_path(),
        models=tuple(f"m{number}" for number in range(n)),
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
    posterior = compute_posterior(path, prior, sample)
    np.testing.assert_allclose(posterior.total_mean, value, atol=0.015)
    error = np.sqrt(np.diag(posterior.total_covariance))
    assert error[:19].max() < 0.7 * error[19:].min()  # the others keep what the path says of them
    assert posterior.misfit_probability > 0.5
    assert posterior.weight.min() > 1e-6  # what is negligible has no part


def test_the_level_of_the_variance_follows_a_small_sample():
    path = replace(tiny_path(), metrics=(ipseval.metric("atop"),), hit=np.zeros(2))
    path_covariance = path.spread[0] / 40
    quiet, loud = (
        RandomSample(np.array([0.5, 0.5]), factor * path_covariance, 40, 40, 1.0).covariance(path, PRIOR.mass)
        for factor in (0.25, 4.0)
    )
    ratio = np.diag(loud) / np.diag(quiet)
    # With 40 users and VARIANCE_POOLING_SIZE = 20, as if the rest came from the path. A t distribution has
    # 39/37 times the variance.
    levels = [(40 * factor * 39 / 37 + 20) / 60 for factor in (4.0, 0.25)]
    np.testing.assert_allclose(ratio, levels[0] / levels[1], rtol=0.05)
    # All is the sample's own where it is large; of few users a t distribution has a variance from 3 on.
    for users, factor in ((2, 3), (4, 3), (5, 2), (6, 5 / 3)):
        sample = RandomSample(np.array([0.5, 0.5]), path_covariance, 10**9, users, 1.0)
        np.testing.assert_allclose(
            sample.covariance(path, PRIOR.mass), factor * path_covariance, rtol=1e-4, atol=1e-9
        )


def test_with_much_random_exposure_the_posterior_is_the_random_sample():
    sample = tiny_sample(1e6)
    posterior = compute_posterior(tiny_path(), CorrectionPrior(), sample)
    np.testing.assert_allclose(posterior.total_mean, sample.value, atol=1e-5)
    np.testing.assert_allclose(posterior.total_covariance, sample.sample_covariance, rtol=1e-3)
    error = np.sqrt(np.diag(sample.sample_covariance))
    np.testing.assert_allclose(
        posterior.quantile(np.eye(2), 0.975), sample.value + 1.959964 * error, atol=1e-7
    )


def path_of_a_recommender() -> CorrectionPath:
    """Return the tiny path of its first recommender."""
    path = tiny_path()
    return replace(
        path,
        models=("a",),
        value=path.value[:, :1],
        covariance=path.covariance[:, :1, :1],
        spread=path.spread[:, :1, :1],
        within=np.zeros(1),
        similarity=np.eye(1),
        hit=np.ones(1),
    )


@pytest.mark.parametrize("sample_value", [0.05, 0.3, 0.62])
def test_the_posterior_of_a_single_value_is_a_sum_over_strengths_and_scales(sample_value):
    # The variance of the sample is that of the strengths which a first pass finds probable.
    path = path_of_a_recommender()
    path = replace(path, spread=path.spread * (0.2 + path.alpha)[:, None, None])
    sample = RandomSample(np.array([sample_value]), np.array([[1.5e-3]]), 40, 40, 1.0)
    error = 6e-4  # of the path
    theta = 0.6 * np.exp(-ALPHAS)[:, None]
    correction = 0.6 * (1 - np.exp(-0.45))
    size = PRIOR.deviation * 0.6 * (0.6 / 2 / correction) ** PRIOR.flatness  # of a scale of 1
    prior_variance = error + (SCALES * size) ** 2
    weight = np.outer(PRIOR.mass, PRIOR.scale_mass)
    for _ in range(2):
        noise = sample.covariance(path, weight.sum(axis=1))[0, 0]
        density = norm.pdf(sample_value, theta, np.sqrt(prior_variance + noise))
        weight = np.outer(PRIOR.mass, PRIOR.scale_mass) * density
        weight /= weight.sum()
    gain = prior_variance / (prior_variance + noise)
    mean = theta + gain * (sample_value - theta)
    variance = prior_variance * (1 - gain)
    posterior = compute_posterior(path, PRIOR, sample)
    np.testing.assert_allclose(posterior.grid_mass, weight.sum(axis=1), rtol=1e-6)
    total_mean = (weight * mean).sum()
    assert posterior.total_mean[0] == pytest.approx(total_mean, rel=1e-5)
    total_variance = (weight * (variance + (mean - total_mean) ** 2)).sum()
    assert posterior.total_covariance[0, 0] == pytest.approx(total_variance, rel=1e-4)
    # A scale of 6.25 or 15.6, or a strength above 1, of which 1.05 is the first.
    misfit = weight[14:].sum() + weight[:14, 3:].sum()
    assert posterior.misfit_probability == pytest.approx(misfit, abs=2e-5)


def test_strengths_of_negligible_probability_have_no_part():
    sample = RandomSample(np.array([0.3]), np.array([[1e-6]]), 10**6, 10**6, 1.0)
    prior = CorrectionPrior(deviation=0.01, log_scale_sd=0.1)
    posterior = compute_posterior(path_of_a_recommender(), prior, sample)
    is_part = posterior.grid_mass > 1e-6
    assert 0 < is_part.sum() < 25
    np.testing.assert_allclose(posterior.weight, posterior.grid_mass[is_part], rtol=1e-4)
    assert posterior.weight.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("name", ["no_bias", "interactions_weight", "profiles_weight"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_shares_of_the_prior_are_between_0_and_1(name, value):
    with pytest.raises(InputError, match=f"{name} must be"):
        CorrectionPrior(**{name: value})


def test_means_of_the_prior_have_probability_on_the_grid():
    for names in (("mean", "sd"), ("interactions_mean", "interactions_sd")):
        with pytest.raises(InputError, match=r"mean 9 and sd 0\.01 leave no probability"):
            CorrectionPrior(**dict(zip(names, (9.0, 0.01), strict=True)))
        with pytest.raises(InputError, match=f"{names[0]} must be"):
            CorrectionPrior(**{names[0]: float("nan")})


def test_deviations_of_flat_paths_are_limited_and_opposite_recommenders_have_no_shift():
    prior = CorrectionPrior(deviation=0.1, flatness=1.0)
    no_correction = np.zeros(2)
    metric = np.zeros(2, dtype=int)
    is_whole = np.zeros(2, dtype=bool)
    opposite = np.array([[0.25, -0.25], [-0.25, 0.25]])
    deviations = prior.deviations(no_correction, opposite, np.array([0.3, 0.3]), metric, is_whole)
    # Height 0.3, five times as large as for a usual correction, and a tenth of it; the mean spread is 0.25.
    np.testing.assert_allclose(deviations, (0.1 * 0.3 * 5) ** 2 * opposite / 0.25, rtol=1e-9)
    # With a correlation of −0.5 the shift has the direction (1, 1) and half of the variance of a recommender.
    partly_opposite = np.array([[0.25, -0.125], [-0.125, 0.25]])
    deviations = prior.deviations(no_correction, partly_opposite, np.array([0.3, 0.3]), metric, is_whole)
    unit = (0.1 * 0.3 * 5) ** 2
    np.testing.assert_allclose(
        deviations, unit * (partly_opposite / 0.25 + (1.6**2 - 1) * 0.25 * np.ones((2, 2))), rtol=1e-9
    )
    constant = np.zeros((2, 2))
    deviations = prior.deviations(no_correction, constant, np.array([0.3, 0.3]), metric, is_whole)
    np.testing.assert_array_equal(deviations, constant)


def test_quantiles_have_their_level_for_mixtures_of_all_shapes():
    rng = np.random.default_rng(0)
    for spread in (1e-6, 0.01, 1.0):
        weight = rng.dirichlet(np.ones(4))
        mean = rng.normal(0.3, 0.2, (4, 2))
        sd = spread * rng.uniform(0.2, 2, 4)
        posterior = Posterior(np.ones(4), weight, mean, np.eye(2) * (sd**2)[:, None, None])
        contrast = np.array([[1.0, 0], [1, -1]])
        for level in (1e-4, 0.025, 0.4, 0.5, 0.8, 0.999):
            quantile = posterior.quantile(contrast, level)
            for number, (row, factor) in enumerate(zip(contrast, (1, np.sqrt(2)), strict=True)):
                z = (quantile[number] - mean @ row) / (factor * sd)
                assert weight @ ndtr(z) == pytest.approx(level, abs=1e-7)


def test_probabilities_of_pairs_are_those_of_their_differences():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 4, 4)) * 0.1
    posterior = Posterior(
        np.ones(3), np.array([0.2, 0.3, 0.5]), rng.normal(0.4, 0.1, (3, 4)), root @ root.swapaxes(1, 2)
    )
    better = posterior.probability_better(slice(1, 4))
    for row in range(3):
        for column in range(3):
            contrast = np.eye(4)[row + 1] - np.eye(4)[column + 1]
            expected = posterior.probability_positive(contrast[None])[0] if row != column else 0.5
            assert better[row, column] == pytest.approx(expected, rel=1e-9)


METRIC = np.array([0, 0, 0, 1])
CUT = np.array([True, True, True, False])


def test_values_are_regressed_on_aoa():
    value = np.array([[0.1, 0.2, 0.6, 0.9], [0.2, 0.1, 0.3, 0.7], [0.5, 0.4, 0.2, 0.8]])
    no_covariance = np.zeros((3, 4, 4))
    fitted_values, _ = regress_on_aoa(value, no_covariance, no_covariance, METRIC, CUT)
    np.testing.assert_allclose(fitted_values[0], value[0])
    # x − x̄ = (−.2, −.1, .3), of squares .14: slope (−.04 − .01 + .09)/.14 about the mean .2.
    np.testing.assert_allclose(fitted_values[1], [*(0.2 + 0.04 / 0.14 * np.array([-0.2, -0.1, 0.3])), 0.7])
    # A line that would turn the order round is level.
    np.testing.assert_allclose(fitted_values[2], [*np.full(3, 1.1 / 3), 0.8])


def test_the_covariance_is_the_covariance_of_regressed_values():
    root = np.tril(np.random.default_rng(0).normal(size=(8, 8))) * 1e-4
    value = np.array([[0.1, 0.2, 0.6, 0.9], [0.2, 0.25, 0.4, 0.7]])
    joint = root @ root.T
    aoa_cells = slice(0, 4)
    theta_cells = slice(4, 8)
    covariance = np.array([joint[aoa_cells, aoa_cells], joint[theta_cells, theta_cells]])
    cross = np.array([joint[aoa_cells, aoa_cells], joint[theta_cells, aoa_cells]])
    _, fitted_covariance = regress_on_aoa(value, covariance, cross, METRIC, CUT)
    step = 1e-6 * np.eye(8)
    upper, lower = (
        [
            regress_on_aoa((value.ravel() + shift).reshape(2, 4), covariance, cross, METRIC, CUT)[0][1]
            for shift in steps
        ]
        for steps in (step, -step)
    )
    slope = (np.array(upper) - lower) / 2e-6
    numerical_covariance = slope.T @ joint @ slope
    # The slope is a ratio: its noise in x is part of what the sum leaves out.
    np.testing.assert_allclose(fitted_covariance[1, 3:, 3:], numerical_covariance[3:, 3:], rtol=1e-6)
    np.testing.assert_allclose(
        fitted_covariance[1, :3, :3].mean(), numerical_covariance[:3, :3].mean(), rtol=1e-6
    )
    np.testing.assert_allclose(fitted_covariance[0], covariance[0])


@pytest.mark.parametrize("flat", [True, False])
def test_a_flat_path_is_reported(flat):
    path = tiny_path()
    if flat:  # strengths that take away a tenth of what AOA is above chance
        path = replace(path, value=path.value[0] * (1 - 0.1 * path.alpha[:, None] / 0.45))
        assert path.reach == pytest.approx(0.1)
    correction = correct_path(path)
    assert correction.explained is not flat
    note = "the model of exposure does not fit the log"
    assert (note in correction.frame["note"].iloc[-1]) is flat
    assert ("The model of exposure does not fit this log" in " ".join(repr(correction).split())) is flat
    sample = tiny_sample()
    sample_correction = Correction(
        path=path,
        prior=CorrectionPrior(),
        sample=sample,
        posterior=compute_posterior(path, CorrectionPrior(), sample),
    )
    assert (f"{note}; report random-sample instead" in sample_correction.frame["note"].iloc[-1]) is flat


def test_the_clipped_share_is_reported_with_its_strength():
    path = tiny_path()
    correction = correct_path(replace(path, clipped=np.full_like(path.clipped, 0.14)))
    note = f"at strength {correction.alpha.mean:.2f} large weights are truncated, by 14% of all weight"
    assert correction.frame["note"].iloc[-1].endswith(note)


def test_a_sample_that_no_strength_explains_is_reported():
    path = tiny_path()
    is_explained = []
    for value in (path.value[8], path.value[20], np.array([0.01, 0.9])):
        sample = RandomSample(value, 1e-6 * np.eye(2), 10**6, 10**6, 1.0)
        posterior = compute_posterior(path, CorrectionPrior(), sample)
        is_explained.append(
            Correction(path=path, prior=CorrectionPrior(), sample=sample, posterior=posterior).explained
        )
        assert 0 <= posterior.misfit_probability <= 1 + 1e-12
    assert is_explained == [True, False, False]  # a strength of 1.5 is none that exposure has


def test_expected_regret_does_not_depend_on_the_order_of_the_recommenders():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2, 5, 5)) * 0.05
    mean = rng.uniform(0.2, 0.4, (2, 5))
    mean[:, 4] = mean[:, 3]  # two recommenders with equal means
    weight = np.array([0.3, 0.7])
    covariance = root @ root.swapaxes(1, 2)
    regret = Posterior(np.ones(2), weight, mean, covariance).expected_regret(slice(0, 5))
    for _ in range(5):
        order = rng.permutation(5)
        permuted = Posterior(np.ones(2), weight, mean[:, order], covariance[:, order][:, :, order])
        assert permuted.expected_regret(slice(0, 5)) == pytest.approx(regret[order], abs=1e-9)


def test_expected_regret_of_two_normal_values_is_that_of_the_closed_form():
    # E[max(X, Y)] of independent normals: θ Φ(d) + μ Φ(−d) + s φ(d) with s² = σ₁² + σ₂², d = (θ − μ)/s.
    mean, sd = np.array([0.5, 0.45]), np.array([0.03, 0.04])
    posterior = Posterior(np.ones(1), np.ones(1), mean[None], np.diag(sd**2)[None])
    spread = 0.05
    gap = (mean[0] - mean[1]) / spread
    highest = mean[0] * norm.cdf(gap) + mean[1] * norm.cdf(-gap) + spread * norm.pdf(gap)
    assert posterior.expected_regret(slice(0, 2)) == pytest.approx(highest - mean, abs=2e-3)


def test_expected_regret_limits_values_to_0_and_1():
    # Of two independent alike, held in [0, 1]: E max − E = ∫ F (1 − F).
    posterior = correct_path(tiny_path()).posterior
    equal_posterior = replace(
        posterior, weight=np.ones(1), mean=np.full((1, 2), 0.8), covariance=0.09 * np.eye(2)[None]
    )
    below = ndtr((np.linspace(0, 1, 10_001) - 0.8) / 0.3)
    assert equal_posterior.expected_regret(slice(0, 2)) == pytest.approx(
        np.mean(below * (1 - below)), abs=0.004
    )


def test_a_weighted_sample_counts_its_effective_number_of_users_only():
    # 40 users whose weights are worth a quarter of their positives count as 10: the factor of the variance of a
    # t distribution is 9/7, and that of 40 users 39/37. So many positives leave the path no share of the variance.
    path = tiny_path()
    covariance = np.array([[1.5e-3, 5e-4], [5e-4, 1.5e-3]])
    options = {
        "value": np.array([0.3, 0.35]),
        "sample_covariance": covariance,
        "n_users": 40,
        "user_size": 1.0,
    }
    mass = np.full(ALPHAS.size, 1 / ALPHAS.size)
    weighted = RandomSample(**options, n_positives=4 * 10**9, ess=1e9)
    assert weighted.covariance(path, mass) == pytest.approx(covariance * 9 / 7, rel=1e-4)
    equal = RandomSample(**options, n_positives=10**9)
    assert equal.covariance(path, mass) == pytest.approx(covariance * 39 / 37, rel=1e-4)


def test_intervals_of_the_frame_and_of_the_report_are_limited_to_the_range_of_the_metrics():
    path = tiny_path()
    # The interval of a value near 0 and of one near 1 leaves the range by the normal distribution.
    path = replace(path, value=np.tile([0.01, 0.99], (len(path.value), 1)), covariance=path.covariance + 0.01)
    correction = correct_path(path)
    low, high = correction._interval(np.eye(2))
    assert low[0] < 0
    assert high[1] > 1
    frame = correction.frame
    assert frame[["ci_low", "ci_high"]].stack().between(0, 1).all()
    corrected = frame[frame["estimator"] == "corrected"].set_index("model")
    order = correction.order.set_index("recommender")
    for column in ("ci_low", "ci_high"):
        assert order[column].to_dict() == corrected[column].to_dict()
    assert corrected["ci_low"].iloc[0] == 0
    assert corrected["ci_high"].iloc[1] == 1
    text = repr(correction)
    for model in correction.models:
        row = corrected.loc[model]
        assert f"[{row['ci_low']:.3f}, {row['ci_high']:.3f}]" in text


def test_expected_regret_of_independent_values_is_that_of_draws_of_each_value():
    # The variances are sorted neither upwards nor downwards, so that the matrix of eigenvectors permutes the three
    # values, and differs from its transpose. The root of a diagonal covariance is the standard deviations.
    mean = np.array([0.3, 0.32, 0.34])
    sd = np.array([0.02, 0.05, 0.01])
    posterior = Posterior(np.ones(1), np.ones(1), mean[None], np.diag(sd**2)[None])
    rng = np.random.default_rng(0)
    rng.choice(1, 4000, p=[1.0])  # the strength of each draw, of which there is one
    draws = np.clip(mean + sd * rng.standard_normal((4000, 3)), 0, 1)
    expected = (draws.max(axis=1, keepdims=True) - draws).mean(axis=0)
    assert posterior.expected_regret(slice(0, 3)) == pytest.approx(expected, abs=1e-12)
