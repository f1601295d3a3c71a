"""Draws of the true values behind two sets of measured means, which share their users' noise.

Measured means of recommenders are true values plus noise of known covariance. Noise makes two orders less alike
than they truly are, and a bootstrap adds the noise a second time. So intervals of an agreement come from draws
of the true values, given the means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray

# Grid of the standard deviations of true values, relative to those of the measured means, and of their
# correlation, which is the sine of equally spaced angles.
RELATIVE_SPREADS = np.exp(np.linspace(np.log(0.03), np.log(3.0), 9))
CORRELATIONS = np.sin(np.linspace(-1, 1, 15) * 0.98 * np.pi / 2)
MAX_BLOCK_ELEMENTS = 2**21  # numbers in the matrices of the points of the grid that are computed together


def draw_true_values(
    a: FloatArray, b: FloatArray, n_draws: int, rng: np.random.Generator
) -> list[tuple[FloatArray, FloatArray]]:
    """Return draws of the true values of both sides from per-user values, under two priors.

    Each pair of arrays is (n_draws, n_recommenders): the first of `TrueValueModel.draw`, the second of
    `TrueValueModel.draw_with_flat_prior`.
    """
    values = np.concatenate([a, b])
    model = TrueValueModel.fit(np.nanmean(values, axis=1), compute_noise_covariance(values))
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
    @one_blas_thread()  # many small matrices
    def fit(cls, means: FloatArray, noise: FloatArray) -> TrueValueModel:
        """Compute the likelihood on the grid."""
        n = means.size // 2
        spread_a = _measure_spread(means[:n], noise[:n, :n])
        spread_b = _measure_spread(means[n:], noise[n:, n:])
        sd_a, sd_b = np.meshgrid(spread_a * RELATIVE_SPREADS, spread_b * RELATIVE_SPREADS, indexing="ij")
        spreads = np.stack([sd_a.ravel(), sd_b.ravel()], axis=1)
        rows, columns = np.indices((len(spreads), CORRELATIONS.size)).reshape(2, -1)
        log_likelihood = np.empty(rows.size)
        for block in _iterate_blocks(rows.size, means.size):
            priors = build_priors(spreads[rows[block]], CORRELATIONS[columns[block]], n)
            log_likelihood[block] = compute_log_likelihood(means, noise, priors)

        shape = (len(spreads), CORRELATIONS.size)
        return cls(means=means, noise=noise, spreads=spreads, log_likelihood=log_likelihood.reshape(shape))

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
        return self._split_sides(self.means + _draw_noise(self.noise, n_draws, rng))

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

    @one_blas_thread()  # many small matrices
    def _draw_points(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return `counts` draws from the posterior at each point of the grid, (n_draws, 2n).

        True values and measured means are drawn from the prior and the noise. Each draw of the true values is
        then moved by the posterior mean of what separates its measured means from those at hand.
        """
        n = self.means.size // 2
        rows, columns = np.nonzero(counts)
        n_draws_of_points = counts[rows, columns]
        draws = _draw_prior(
            np.repeat(self.spreads[rows], n_draws_of_points, axis=0),
            np.repeat(CORRELATIONS[columns], n_draws_of_points),
            n,
            rng,
        )
        measured = draws + _draw_noise(self.noise, len(draws), rng)
        ends = np.cumsum(n_draws_of_points).tolist()
        starts = [0, *ends[:-1]]
        for block in _iterate_blocks(rows.size, self.means.size):
            priors = build_priors(self.spreads[rows[block]], CORRELATIONS[columns[block]], n)
            weights = compute_posterior_weights(self.noise, priors)
            for point_weights, start, end in zip(weights, starts[block], ends[block], strict=True):
                draws[start:end] += (self.means - measured[start:end]) @ point_weights.T

        return draws

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


def _iterate_blocks(n_points: int, n_means: int) -> Iterator[slice]:
    """Yield slices of the points of the grid, so that the matrices of a block fit into memory."""
    n_block = max(1, MAX_BLOCK_ELEMENTS // n_means**2)
    for start in range(0, n_points, n_block):
        yield slice(start, start + n_block)


def build_priors(spreads: FloatArray, correlations: FloatArray, n: int) -> FloatArray:
    """Return covariances of the true values, (n_points, 2n, 2n), from spreads (n_points, 2) and correlations."""
    sides = np.empty((len(spreads), 2, 2))
    sides[:, 0, 0] = spreads[:, 0] ** 2
    sides[:, 1, 1] = spreads[:, 1] ** 2
    sides[:, 0, 1] = correlations * spreads[:, 0] * spreads[:, 1]
    sides[:, 1, 0] = sides[:, 0, 1]
    return np.kron(sides, np.eye(n))


def compute_log_likelihood(means: FloatArray, noise: FloatArray, priors: FloatArray) -> FloatArray:
    """Return the restricted log likelihood of each prior covariance, (n_points,).

    Each side has an unknown mean, which is integrated with a flat prior.
    """
    design = _make_design(means.size)
    columns = np.column_stack([design, means])
    root = np.linalg.cholesky(priors + noise)
    white = np.linalg.solve(root, np.broadcast_to(columns, (len(priors), *columns.shape)))
    white_design = white[..., :2]
    white_means = white[..., 2:]
    information = white_design.swapaxes(1, 2) @ white_design
    side_means = np.linalg.solve(information, white_design.swapaxes(1, 2) @ white_means)
    residual = white_means - white_design @ side_means
    log_determinant = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    square = (residual**2).sum(axis=(1, 2))
    return np.asarray(-log_determinant - 0.5 * np.linalg.slogdet(information)[1] - 0.5 * square)


def compute_posterior_weights(noise: FloatArray, priors: FloatArray) -> FloatArray:
    """Return matrices A, (n_points, 2n, 2n), with which A m is the posterior mean given measured means m.

    With prior covariance P, noise C and design D of the two sides, S = P + C, the mean of each side is
    L m with L = (Dᵀ S⁻¹ D)⁻¹ Dᵀ S⁻¹, and A = D L + P S⁻¹ (I − D L).
    """
    design = _make_design(len(noise))
    precision = np.linalg.inv(priors + noise)
    weighted_design = design.T @ precision
    side_means = design @ np.linalg.solve(weighted_design @ design, weighted_design)
    return np.asarray(side_means + priors @ precision @ (np.eye(len(noise)) - side_means))


def _make_design(n_means: int) -> FloatArray:
    """Return which mean belongs to which side, (2n, 2)."""
    return np.kron(np.eye(2), np.ones((n_means // 2, 1)))


def _draw_prior(
    spreads: FloatArray, correlations: FloatArray, n: int, rng: np.random.Generator
) -> FloatArray:
    """Return a draw of the true values, without the means of the sides, for each row of spreads, (n_draws, 2n)."""
    normal = rng.standard_normal((2, len(spreads), n))
    residual = np.sqrt(1 - correlations**2)
    side_b = correlations[:, None] * normal[0] + residual[:, None] * normal[1]
    return np.concatenate([spreads[:, :1] * normal[0], spreads[:, 1:] * side_b], axis=1)


def _draw_noise(noise: FloatArray, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Return draws of the noise of the means, (n_draws, 2n)."""
    eigenvalues, eigenvectors = np.linalg.eigh(noise)
    root = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))
    return np.asarray(rng.standard_normal((n_draws, len(noise))) @ root.T)
