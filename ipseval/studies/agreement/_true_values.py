"""Draws of the true values behind two sets of measured means, which share their users' noise.

Measured means of recommenders are true values plus noise of known covariance. Noise makes two orders less alike
than they truly are, and a bootstrap adds the noise a second time. So intervals of an agreement come from draws
of the true values, given the means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray

# Grid of the standard deviations of true values, relative to those of the measured means, and of their
# correlation, which is the sine of equally spaced angles.
RELATIVE_SPREADS = np.exp(np.linspace(np.log(0.03), np.log(3.0), 9))
CORRELATIONS = np.sin(np.linspace(-1, 1, 15) * 0.98 * np.pi / 2)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The posterior of all true values, (2n,), for one pair of spreads and one correlation."""

    log_likelihood: float
    mean: FloatArray
    covariance: FloatArray


@one_blas_thread()  # many small matrices
def draw_true_values(
    a: FloatArray, b: FloatArray, n_draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return draws of the true values of both sides, (n_draws, n_recommenders) each.

    With means m and noise covariance C from the users, the true pairs (ξ_i, η_i) of recommenders are normal
    with unknown means, spreads and correlation. Spreads and correlation are integrated over a grid with equal
    prior weights by their restricted likelihood; means have a flat prior.
    """
    means = np.nanmean(np.concatenate([a, b]), axis=1)
    noise = compute_noise_covariance(np.concatenate([a, b]))
    n = len(a)
    spread_a = _measure_spread(means[:n], noise[:n, :n])
    spread_b = _measure_spread(means[n:], noise[n:, n:])
    fits = []
    for prior in _iterate_priors(n, spread_a, spread_b):
        fits.append(_fit_true_values(means, noise, prior))

    log_likelihood = np.array([fit.log_likelihood for fit in fits])
    weight = np.exp(log_likelihood - log_likelihood.max())
    counts = rng.multinomial(n_draws, weight / weight.sum())
    draws = []
    for fit, count in zip(fits, counts, strict=True):
        if count:
            draws.append(_draw_normal(fit, int(count), rng))

    values = np.concatenate(draws)
    return values[:, :n], values[:, n:]


def compute_noise_covariance(values: FloatArray) -> FloatArray:
    """Return the covariance of means over users, (n, n), of per-user values (n, n_users) with NaN for none."""
    is_defined = ~np.isnan(values)
    counts = is_defined.sum(axis=1, keepdims=True)
    means = np.where(is_defined, values, 0.0).sum(axis=1, keepdims=True) / counts
    influence = np.where(is_defined, values - means, 0.0) / counts
    n_users = values.shape[1]
    return np.asarray(influence @ influence.T * (n_users / (n_users - 1)))


def _measure_spread(means: FloatArray, noise: FloatArray) -> float:
    """Return the larger of the standard deviations of the means and of their noise, without common parts."""
    n = means.size
    noise_variance = (np.trace(noise) - noise.mean() * n) / (n - 1)
    return float(np.sqrt(max(means.var(ddof=1), noise_variance)))


def _iterate_priors(n: int, spread_a: float, spread_b: float) -> Iterator[FloatArray]:
    """Yield the covariance of the true values, (2n, 2n), for each point of the grid."""
    unit = np.eye(n)
    for sd_a in spread_a * RELATIVE_SPREADS:
        for sd_b in spread_b * RELATIVE_SPREADS:
            for correlation in CORRELATIONS:
                covariance = correlation * sd_a * sd_b
                yield np.kron(np.array([[sd_a**2, covariance], [covariance, sd_b**2]]), unit)


def _fit_true_values(means: FloatArray, noise: FloatArray, prior: FloatArray) -> _Fit:
    """Return the restricted likelihood of a prior covariance, and the posterior of the true values."""
    n = means.size // 2
    design = np.kron(np.eye(2), np.ones((n, 1)))  # an unknown mean for each side
    root = cholesky(prior + noise, lower=True)
    white_design = solve_triangular(root, design, lower=True)
    white_means = solve_triangular(root, means, lower=True)
    information = white_design.T @ white_design
    level_covariance = np.linalg.inv(information)
    level = level_covariance @ (white_design.T @ white_means)
    residual = white_means - white_design @ level
    log_likelihood = (
        -np.log(np.diag(root)).sum() - 0.5 * np.linalg.slogdet(information)[1] - 0.5 * residual @ residual
    )

    gain = cho_solve((root, True), prior).T
    level_gain = design - gain @ design
    covariance = prior - gain @ prior + level_gain @ level_covariance @ level_gain.T
    mean = design @ level + gain @ (means - design @ level)
    return _Fit(float(log_likelihood), mean, (covariance + covariance.T) / 2)


def _draw_normal(fit: _Fit, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Return draws from the posterior of one prior, (n_draws, 2n)."""
    eigenvalues, eigenvectors = np.linalg.eigh(fit.covariance)
    root = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))
    return np.asarray(fit.mean + rng.standard_normal((n_draws, fit.mean.size)) @ root.T)
