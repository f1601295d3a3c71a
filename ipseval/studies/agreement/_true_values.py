"""Draws of the true values behind two sets of measured means, which share their users' noise.

Measured means of recommenders are true values plus noise of known covariance. Noise makes two orders less alike
than they truly are, and a bootstrap adds the noise a second time. So intervals of an agreement come from draws
of the true values, given the means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import logsumexp

from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray

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
) -> list[tuple[FloatArray, FloatArray]]:
    """Return draws of the true values of both sides from per-user values, under two priors.

    Each pair of arrays is (n_draws, n_recommenders): the first of `TrueValueModel.draw`, the second of
    `TrueValueModel.draw_with_flat_prior`.
    """
    values = np.concatenate([a, b])
    model = TrueValueModel.of(np.nanmean(values, axis=1), compute_noise_covariance(values))
    return [model.draw(n_draws, rng), model.draw_with_flat_prior(n_draws, rng)]


@dataclass(frozen=True, eq=False)
class TrueValueModel:
    """The likelihood of the spreads of true values on both sides, and of their correlation.

    With means m and noise covariance C, the true pairs (ξ_i, η_i) of recommenders are normal with unknown
    means, spreads and correlation. Spreads and correlation are integrated over a grid with equal prior
    weights by their restricted likelihood; means have a flat prior.

    Attributes
    ----------
    means : (2n,) array
        Measured means of both sides.
    noise : (2n, 2n) array
        Covariance of the noise of the means.
    spreads : (n_spreads, 2) array
        Standard deviations of the true values of both sides, for each point of the grid.
    log_likelihood : (n_spreads, n_correlations) array
        Restricted log likelihood.
    """

    means: FloatArray
    noise: FloatArray
    spreads: FloatArray
    log_likelihood: FloatArray

    @classmethod
    def of(cls, means: FloatArray, noise: FloatArray) -> TrueValueModel:
        """Compute the likelihood on the grid."""
        n = means.size // 2
        spread_a = _measure_spread(means[:n], noise[:n, :n])
        spread_b = _measure_spread(means[n:], noise[n:, n:])
        sd_a, sd_b = np.meshgrid(spread_a * RELATIVE_SPREADS, spread_b * RELATIVE_SPREADS, indexing="ij")
        spreads = np.stack([sd_a.ravel(), sd_b.ravel()], axis=1)
        rows = []
        for pair in spreads:
            rows.append(_compute_log_likelihood(means, noise, pair))

        return cls(means=means, noise=noise, spreads=spreads, log_likelihood=np.stack(rows))

    @property
    def correlation_log_likelihood(self) -> FloatArray:
        """Log likelihood of each correlation, with the spreads integrated, (n_correlations,)."""
        return np.asarray(logsumexp(self.log_likelihood, axis=0))

    def draw(self, n_draws: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return draws of the true values of both sides, (n_draws, n) each."""
        weight = np.exp(self.log_likelihood - self.log_likelihood.max()).ravel()
        counts = rng.multinomial(n_draws, weight / weight.sum()).reshape(self.log_likelihood.shape)
        return self._split_sides(self._draw_points(counts, rng))

    def draw_with_flat_prior(self, n_draws: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return draws with a flat prior of every true value, (n_draws, n) each: the means plus noise.

        Their order agrees less than the true one. `draw` shares one correlation among all recommenders, so
        that a few far from the others make the order of the others agree more than the true one.
        """
        return self._split_sides(_draw_normal(_Fit(0.0, self.means, self.noise), n_draws, rng))

    def draw_given_correlations(
        self, correlation_counts: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Return draws with a number of draws for each correlation, in the order of the correlations."""
        draws = []
        for column, n_draws in enumerate(correlation_counts.tolist()):
            if not n_draws:
                continue
            column_likelihood = self.log_likelihood[:, column]
            weight = np.exp(column_likelihood - column_likelihood.max())
            counts = np.zeros(self.log_likelihood.shape, dtype=np.int64)
            counts[:, column] = rng.multinomial(n_draws, weight / weight.sum())
            # Draws are grouped by spreads; those of several models are paired at random.
            draws.append(rng.permutation(self._draw_points(counts, rng)))

        return self._split_sides(np.concatenate(draws))

    def _draw_points(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return `counts` draws from the posterior at each point of the grid, (n_draws, 2n)."""
        n = self.means.size // 2
        draws = []
        for row, column in np.argwhere(counts).tolist():
            prior = _build_prior(self.spreads[row], float(CORRELATIONS[column]), n)
            fit = _fit_true_values(self.means, self.noise, prior)
            draws.append(_draw_normal(fit, int(counts[row, column]), rng))

        return np.concatenate(draws)

    def _split_sides(self, draws: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the draws of each side."""
        n = self.means.size // 2
        return draws[:, :n], draws[:, n:]


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


def _build_prior(spreads: FloatArray, correlation: float, n: int) -> FloatArray:
    """Return the covariance of the true values, (2n, 2n), for both spreads and their correlation."""
    sd_a, sd_b = spreads
    covariance = correlation * sd_a * sd_b
    return np.kron(np.array([[sd_a**2, covariance], [covariance, sd_b**2]]), np.eye(n))


def _compute_log_likelihood(means: FloatArray, noise: FloatArray, spreads: FloatArray) -> FloatArray:
    """Return the restricted log likelihood of a pair of spreads with each correlation, (n_correlations,).

    It is the one of `_fit_true_values`, for all correlations at once.
    """
    n = means.size // 2
    sd_a, sd_b = spreads
    covariance = np.broadcast_to(noise, (CORRELATIONS.size, 2 * n, 2 * n)).copy()
    side_a = np.arange(n)
    side_b = np.arange(n, 2 * n)
    covariance[:, side_a, side_a] += sd_a**2
    covariance[:, side_b, side_b] += sd_b**2
    covariance[:, side_a, side_b] += (CORRELATIONS * sd_a * sd_b)[:, None]
    covariance[:, side_b, side_a] += (CORRELATIONS * sd_a * sd_b)[:, None]

    design = np.kron(np.eye(2), np.ones((n, 1)))
    root = np.linalg.cholesky(covariance)
    columns = np.column_stack([design, means])
    white = np.linalg.solve(root, np.broadcast_to(columns, (CORRELATIONS.size, *columns.shape)))
    white_design = white[..., :2]
    white_means = white[..., 2:]
    information = white_design.swapaxes(1, 2) @ white_design
    level = np.linalg.solve(information, white_design.swapaxes(1, 2) @ white_means)
    residual = white_means - white_design @ level
    log_determinant = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    square = (residual**2).sum(axis=(1, 2))
    return np.asarray(-log_determinant - 0.5 * np.linalg.slogdet(information)[1] - 0.5 * square)


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
