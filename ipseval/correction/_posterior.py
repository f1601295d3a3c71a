"""The posterior of the correction strength α and of the values of the recommenders, on a grid of α.

The model is the one of the method's section on the correction strength: the mean of the random sample is
d = θ(α) + δ + e, with deviations δ that no α can express, and sampling error e.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from ipseval.correction._path import CorrectionPath, compute_contributions, sum_by_user
from ipseval.correction._prior import (
    ALPHAS,
    INTERACTIONS,
    ITEMS,
    PAIRS,
    REFERENCE,
    SCALES,
    CorrectionPrior,
)
from ipseval.correction._reference_values import ReferenceValues
from ipseval.ranking import RankedPositives
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray

# Number of positives with which the covariance of the sample and the covariance of the path count half each.
POOLING_SIZE = 1600

# Number of users, or hits, with which the sample's variance counts half in the level of the variance.
VARIANCE_POOLING_SIZE = 20

# The covariance of the sample depends on the posterior of α, which a second pass uses.
N_PASSES = 2

# Number of hits with which the sample's value counts half in the variance of a designed exposure.
VALUE_POOLING_SIZE = 5

# Points of the grid below this probability are omitted.
NEGLIGIBLE = 1e-6

# Share of the mean variance that is added to the diagonal, so that equal recommenders can be inverted.
RIDGE = 1e-9

# Variances below this number are rounding.
SMALLEST_VARIANCE = 1e-24

N_DRAWS = 4000

# Means and variances that are equal up to these decimals are equal up to rounding.
ORDER_DIGITS = 12

# Newton steps for quantiles, their relative precision, and the smallest slope that is divided by.
MAX_STEPS = 60
PRECISION = 1e-12
SMALLEST_SLOPE = 1e-300

# Scale of a deviation from which the path counts as not explaining exposure.
MISFIT_SCALE = 6


@dataclass(frozen=True, eq=False)
class RandomSample:
    """The mean over random-exposure positives, pooled over users.

    Attributes
    ----------
    value : (n_cells,) array
        Mean of each recommender and metric.
    sample_covariance : (n_cells, n_cells) array
        Covariance of the mean, from the influence of users in the sample.
    n_positives, n_users : int
        Positives, and users that have at least one.
    user_size : float
        Mean number of positives of the user of a positive, Σ s²/Σ s; with weights Σ_u (Σ w)²/Σ w².
    ess : float or None
        Effective number of positives, (Σ w)²/Σ w², where they have weights.
    hit_weight : (n_cells,) array or None
        For weights of an exposure design, relative to their mean over all positives: mean weight of a hit,
        equal for all cells of a metric. Listed items are shown more often, so that hits have small weights.
        Metrics that are linear in the rank have the mean weight of all relevant pairs.
    """

    value: FloatArray
    sample_covariance: FloatArray
    n_positives: int
    n_users: int
    user_size: float
    ess: float | None = None
    hit_weight: FloatArray | None = None

    @classmethod
    def from_ranks(
        cls,
        ranks: Mapping[str, RankedPositives],
        path: CorrectionPath,
        weight: FloatArray | None = None,
        *,
        is_designed: bool = False,
    ) -> RandomSample:
        """Return the mean over ranked random-exposure positives, with equal or passed weights.

        `is_designed` says that the weights are those of an exposure design.
        """
        ranked = next(iter(ranks.values()))
        values = compute_contributions(ranks, path.metrics, path.ties)
        ess: float | None = None
        if weight is None:
            total = float(len(ranked))
            mean = values.mean(axis=0)
            influence = sum_by_user(ranked, values - mean) / total
            user_size = float((ranked.counts.astype(np.float64) ** 2).sum() / total)
        else:
            total = float(weight.sum())
            square = float(weight @ weight)
            ess = total**2 / square
            mean = weight @ values / total
            influence = sum_by_user(ranked, weight[:, None] * (values - mean)) / total
            user_size = float((sum_by_user(ranked, weight[:, None]) ** 2).sum() / square)
        n_users = int(ranked.users.size)
        covariance = influence.T @ influence * (n_users / max(n_users - 1, 1))
        hit_weight: FloatArray | None = None
        if weight is not None and is_designed:
            hit_weight = _compute_hit_weight(weight / total * len(ranked), values, path)
        return cls(
            value=np.asarray(mean),
            sample_covariance=covariance,
            n_positives=len(ranked),
            n_users=n_users,
            user_size=user_size,
            ess=ess,
            hit_weight=hit_weight,
        )

    @property
    def size(self) -> float:
        """The effective number of positives."""
        return self.n_positives if self.ess is None else self.ess

    def cell_sizes(self, path: CorrectionPath) -> FloatArray:
        """Return the effective number of positives of each cell, (n_cells,).

        For metrics cut at a rank, only the weights of hits count: Σ w over the mean weight of a hit is the size
        of the uniform sample that would have as many of them.
        """
        if self.hit_weight is not None:
            return np.asarray(self.n_positives / self.hit_weight)
        return np.full(path.whole.size, float(self.size))

    def half_hit(self, path: CorrectionPath) -> FloatArray:
        """Return the covariance that half a hit more would add, (n_cells, n_cells)."""
        if self.hit_weight is None:
            return path.half_hit(self.size)
        sizes = self.cell_sizes(path)
        return np.asarray(path.half_hit(0) / np.outer(sizes + 1, sizes + 1))

    def interval_covariance(self, path: CorrectionPath) -> FloatArray:
        """Return the covariance from which the interval of the sample alone is computed.

        The weights of a designed exposure leave few effective users, so that the covariance is scaled as in
        `covariance`.
        """
        covariance = self.sample_covariance
        if self.hit_weight is not None:
            covariance = covariance * self._t_factor
        return np.asarray(covariance + self.half_hit(path))

    @property
    def _n_effective_users(self) -> float:
        """Number of users; with unequal weights the effective number is below it."""
        return self.n_users * self.size / self.n_positives

    @property
    def _t_factor(self) -> float:
        """Factor of the variance of a t distribution with n − 1 degrees of freedom."""
        return max(self._n_effective_users - 1, 3) / max(self._n_effective_users - 3, 1)

    def covariance(self, path: CorrectionPath, grid_mass: FloatArray) -> FloatArray:
        """Return the covariance of the mean, pooled from the path and from the sample.

        The larger the sample, the more its covariance counts. A small sample with few hits by chance has a
        small variance, too, so that its covariance alone would make it look precise.
        """
        path_covariance = self._path_covariance(path, grid_mass)
        sample_covariance = self.sample_covariance * self._t_factor
        level = np.sqrt(self._variance_level(path, path_covariance, sample_covariance))
        path_share = POOLING_SIZE / (POOLING_SIZE + self.size)
        pooled = path_share * path_covariance * np.outer(level, level)
        pooled = pooled + (1 - path_share) * sample_covariance
        return np.asarray(pooled + self.half_hit(path))

    def _path_covariance(self, path: CorrectionPath, grid_mass: FloatArray) -> FloatArray:
        """Return the covariance of the mean that follows from the contributions of the path."""
        spread: FloatArray = np.tensordot(grid_mass, path.spread, 1)
        if self.hit_weight is not None:
            return self._designed_covariance(path, spread, self._pool_value(path, grid_mass))
        # Positives of one user are correlated: the design effect of clusters of `user_size` positives.
        root = np.sqrt(1 + path.within * (self.user_size - 1))
        root = root / np.sqrt(self.size)
        return np.asarray(spread * np.outer(root, root))

    def _designed_covariance(self, path: CorrectionPath, spread: FloatArray, value: FloatArray) -> FloatArray:
        """Return the covariance of a mean with weights w = 1/π, from the spread and the value of a positive.

        The variance of Σ w (c − θ) / Σ w has two parts. Each positive adds w² (c − θ)² / (Σ w)². With the
        effective number m of positives by the weights of hits, Σ w (Σ w c²) / Σ w² c², and with that of all
        positives, ess = (Σ w)² / Σ w², their sum is spread/m + (1/ess − 1/m) θ². Each ordered pair of
        positives of one user adds w w' / (Σ w)² times the covariance of their contributions, the intraclass
        correlation times the spread.
        """
        sizes = self.cell_sizes(path)
        # Not below 0, so that the covariance is one; hits weigh more than misses in no design for lists.
        excess = np.maximum(1 / self.size - 1 / sizes, 0)
        root_excess = np.sqrt(excess) * value
        from_positives = spread / np.sqrt(np.outer(sizes, sizes)) + np.outer(root_excess, root_excess)
        pair_share = (self.user_size - 1) / self.size
        from_pairs = spread * np.sqrt(np.outer(path.within, path.within)) * pair_share
        return np.asarray(from_positives + from_pairs)

    def _pool_value(self, path: CorrectionPath, grid_mass: FloatArray) -> FloatArray:
        """Return the value of each cell, shrunk from the sample to the path by the number of hits."""
        path_value = np.tensordot(grid_mass, path.value, 1)
        n_hits = self.cell_sizes(path) * self.value
        share = n_hits / (n_hits + VALUE_POOLING_SIZE)
        return np.asarray(share * self.value + (1 - share) * path_value)

    def _variance_level(
        self,
        path: CorrectionPath,
        path_covariance: FloatArray,
        sample_covariance: FloatArray,
    ) -> FloatArray:
        """Return the factor of the variances of the path, shrunk from the ratio of sample and path.

        The variances of a sample become reliable before its correlations do: by users where all ranks count,
        and by hits where only the top ranks count.
        """
        cell_metric = path.metric_of
        cell_size = np.where(path.whole, self._n_effective_users, self.cell_sizes(path) * self.value)
        size: FloatArray = np.bincount(cell_metric, cell_size) / np.bincount(cell_metric)
        sample_variance = np.bincount(cell_metric, np.diag(sample_covariance))
        path_variance = np.bincount(cell_metric, np.diag(path_covariance))
        ratio = np.divide(sample_variance, path_variance, out=np.ones(size.size), where=path_variance > 0)
        level = (size * ratio + VARIANCE_POOLING_SIZE) / (size + VARIANCE_POOLING_SIZE)
        return np.asarray(level[cell_metric])


def _compute_hit_weight(weight: FloatArray, values: FloatArray, path: CorrectionPath) -> FloatArray:
    """Return Σ w² c² / Σ w c² over the cells of each metric, (n_cells,); the mean of the weights is 1.

    The squares let tied items count little that reach into a list with a small part only: they are in no
    list, so that their weights are large. Metrics that are linear in the rank have no hits, and Σ w² / Σ w.
    Without a hit, its weight is that of the pairs that are shown most often.
    """
    metric = path.metric_of
    squares = np.bincount(metric, weight @ values**2)
    weighted_squares = np.bincount(metric, weight**2 @ values**2)
    hit_weight = np.full(squares.size, float(weight.min()))
    np.divide(weighted_squares, squares, out=hit_weight, where=squares > 0)
    mean_weight = float(weight @ weight / weight.sum())
    return np.where(path.whole, mean_weight, hit_weight[metric])


@dataclass(frozen=True, eq=False)
class Posterior:
    """A mixture of normal distributions of all cells, with a part for each basis and α of the grid.

    A cell is a recommender and metric. Parts of negligible probability are omitted.

    Attributes
    ----------
    grid_mass : (n_grid,) array
        Probability of each basis and α, in the order of the path.
    weight : (n_parts,) array
        Probability of each part.
    mean : (n_parts, n_cells) array
    covariance : (n_parts, n_cells, n_cells) array
    misfit_probability : float
        Probability that the path does not explain exposure: an axis of the deviations is several times as
        long as expected, or α is above 1 for odds of positives.
    """

    grid_mass: FloatArray
    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray
    misfit_probability: float = 0.0

    @property
    def alpha_mass(self) -> FloatArray:
        """Probability of each α, (25,)."""
        return np.asarray(self.grid_mass.reshape(-1, ALPHAS.size).sum(axis=0))

    @property
    def total_mean(self) -> FloatArray:
        """Posterior mean of each cell, (n_cells,)."""
        return np.asarray(self.weight @ self.mean)

    @property
    def total_covariance(self) -> FloatArray:
        """Posterior covariance of the cells, (n_cells, n_cells)."""
        deviation = self.mean - self.total_mean
        mean_covariance = np.tensordot(self.weight, self.covariance, 1)
        covariance_of_means = (self.weight[:, None] * deviation).T @ deviation
        return np.asarray(mean_covariance + covariance_of_means)

    def compute_moments(self, contrast: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of contrasts in each part, (n_parts, n_contrasts)."""
        variance = np.einsum("ik,pkl,il->pi", contrast, self.covariance, contrast, optimize=True)
        return self.mean @ contrast.T, np.sqrt(np.maximum(variance, SMALLEST_VARIANCE))

    def quantile(self, contrast: FloatArray, level: float) -> FloatArray:
        """Return the quantile of each contrast (n_contrasts, n_cells), by Newton steps in a bracket."""
        mean, sd = self.compute_moments(contrast)
        # The quantile of the mixture lies between the quantiles of its parts.
        part_quantiles = mean + sd * ndtri(level)
        low = part_quantiles.min(axis=0)
        high = part_quantiles.max(axis=0)
        quantile = self.weight @ part_quantiles
        step_size = high - low
        for _ in range(MAX_STEPS):
            z = (quantile - mean) / sd
            excess = self.weight @ ndtr(z) - level
            is_below = excess < 0
            low = np.where(is_below, quantile, low)
            high = np.where(is_below, high, quantile)
            density = self.weight @ (np.exp(-(z**2) / 2) / sd) / np.sqrt(2 * np.pi)
            newton = quantile - excess / np.maximum(density, SMALLEST_SLOPE)
            # A Newton step that leaves the bracket, or does not halve the step before, becomes a bisection.
            is_inside = (low <= newton) & (newton <= high)
            is_shorter = np.abs(newton - quantile) <= step_size / 2
            proposal = np.where(is_inside & is_shorter, newton, (low + high) / 2)
            is_moving = step_size > PRECISION * np.abs(quantile)
            step_size = np.where(is_moving, np.abs(proposal - quantile), 0)
            if not step_size.any():
                return np.asarray(quantile)
            quantile = np.where(step_size > 0, proposal, quantile)
        return np.asarray(quantile)

    def probability_positive(self, contrast: FloatArray) -> FloatArray:
        """Return the probability that each contrast is above 0."""
        mean, sd = self.compute_moments(contrast)
        return np.asarray(self.weight @ ndtr(mean / sd))

    def probability_better(self, cells: slice) -> FloatArray:
        """Return P(θ_row > θ_column) for all pairs of cells, (n, n); 0.5 for equal cells."""
        mean = self.mean[:, cells]
        covariance = self.covariance[:, cells, cells]
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        gap_variance = variance[:, :, None] + variance[:, None, :] - 2 * covariance
        gap = mean[:, :, None] - mean[:, None, :]
        probability = ndtr(gap / np.sqrt(np.maximum(gap_variance, SMALLEST_VARIANCE)))
        return np.asarray(np.tensordot(self.weight, probability, 1))

    def expected_regret(self, cells: slice) -> FloatArray:
        """Return E[max θ] − E[θ] of cells, θ limited to [0, 1], by draws with a fixed seed, (n,).

        The cells are drawn in the order of their means, so that the result does not depend on the order in
        which recommenders were passed.
        """
        rng = np.random.default_rng(0)
        part = rng.choice(self.weight.size, N_DRAWS, p=self.weight)
        order = self._canonical_order(cells)
        means = self.mean[:, cells][:, order]
        covariance = self.covariance[:, cells, cells][:, order][:, :, order]
        eigenvalues, eigenvectors = np.linalg.eigh(covariance)
        # For equal recommenders rounding can make an eigenvalue negative. The symmetric root, unlike the
        # eigenvectors, is unique.
        scaled = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))[:, None, :]
        root = scaled @ eigenvectors.swapaxes(1, 2)
        normal_draws = rng.standard_normal((N_DRAWS, order.size))
        values = means[part] + np.einsum("dij,dj->di", root[part], normal_draws)
        values = np.clip(values, 0, 1)  # the range of these metrics, to which intervals are limited, too
        regret = np.empty(order.size)
        regret[order] = (values.max(axis=1, keepdims=True) - values).mean(axis=0)
        return regret

    def _canonical_order(self, cells: slice) -> IntArray:
        """Return positions of the cells by their mean, then by their variance, up to rounding."""
        mean = np.round(self.total_mean[cells], ORDER_DIGITS)
        variance = np.round(np.diagonal(self.total_covariance)[cells], ORDER_DIGITS)
        return np.asarray(np.lexsort((variance, mean)))


@one_blas_thread()  # many small products: two threads wait for each other
def compute_posterior(
    path: CorrectionPath,
    prior: CorrectionPrior,
    sample: RandomSample | None = None,
    observations: ReferenceValues | None = None,
) -> Posterior:
    """Compute the posterior of the cells given the mean of the random sample, d = θ(α) + δ + error.

    Without a sample it is the prior: θ(α) with the deviations δ and the sampling error of the log. With a
    sample, the covariance of its error is computed for the strengths that a first pass finds probable. Each
    axis of the deviations has an unknown scale; the mixture over scales is replaced, for each α, by a normal
    distribution with its mean and covariance. Reference values are added after the sample.
    """
    mass = prior.grid_mass(path.bases)
    grid = np.flatnonzero(mass > NEGLIGIBLE)
    axes = _compute_axes(path, prior)[path.basis[grid]]
    part_grid: AnyArray = grid
    if sample is None:
        posterior = _use_prior(path, prior, grid, axes, mass)
    else:
        posterior, part_grid = _condition_on_sample(
            path=path, prior=prior, sample=sample, grid=grid, axes=axes, mass=mass
        )
    if observations is None:
        return posterior
    return _condition_on_observations(posterior, part_grid, observations)


def _use_prior(
    path: CorrectionPath, prior: CorrectionPrior, grid: IntArray, axes: FloatArray, mass: FloatArray
) -> Posterior:
    """Return the posterior without a random sample."""
    weight = mass[grid]
    mean_square_scale = prior.scale_mass @ SCALES**2
    deviations = mean_square_scale * (axes @ axes.swapaxes(1, 2))
    return Posterior(
        grid_mass=mass,
        weight=weight / weight.sum(),
        mean=path.value[grid],
        covariance=path.covariance[grid] + deviations,
    )


def _condition_on_sample(
    path: CorrectionPath,
    prior: CorrectionPrior,
    sample: RandomSample,
    grid: IntArray,
    axes: FloatArray,
    mass: FloatArray,
) -> tuple[Posterior, AnyArray]:
    """Return the posterior given a random sample, and the points of the grid that its parts stand for."""
    residual = sample.value - path.value[grid]
    weight = mass[grid]
    for _ in range(N_PASSES):
        noise = sample.covariance(path, _spread_over_grid(weight, grid, mass.size))
        # Equal recommenders make the covariance singular. The ridge is too small to separate them.
        noise = noise + np.eye(len(noise)) * (RIDGE * np.trace(noise) / len(noise))
        whitened = WhitenedResiduals.from_residuals(residual, path.covariance[grid] + noise, axes, prior)
        log_weight = np.log(mass[grid]) + whitened.log_likelihood
        weight = np.exp(log_weight - logsumexp(log_weight))

    is_part = weight > NEGLIGIBLE
    part_grid = grid[is_part]
    part_weight = weight[is_part] / weight[is_part].sum()
    deviation, covariance, axis_misfit = whitened.compute_moments(
        is_part, residual[is_part], path.covariance[part_grid], noise
    )
    is_interactions = np.array([basis == INTERACTIONS for basis in path.bases])[path.basis]
    # Odds of positives with α > 1 would mean that exposure alone exceeds the concentration of the log.
    exceeds_one = (path.alpha > 1) & ~is_interactions
    misfit = np.where(exceeds_one[part_grid], 1.0, axis_misfit)
    posterior = Posterior(
        grid_mass=_spread_over_grid(weight, grid, mass.size),
        weight=part_weight,
        mean=path.value[part_grid] + deviation,
        covariance=covariance,
        misfit_probability=float(part_weight @ misfit),
    )
    return posterior, part_grid


def _condition_on_observations(
    posterior: Posterior, grid: AnyArray, observations: ReferenceValues
) -> Posterior:
    """Return the posterior given reference values: a Kalman step in each part, with new part weights."""
    contrast = observations.contrast
    cross_covariance = posterior.covariance @ contrast.T
    spread = contrast @ cross_covariance + np.diag(observations.error**2)
    residual = (observations.observed - posterior.mean @ contrast.T)[..., None]
    scaled_residual = np.linalg.solve(spread, residual)
    log_determinant = np.linalg.slogdet(spread)[1]
    log_weight = np.log(posterior.weight) - log_determinant / 2
    log_weight -= (residual * scaled_residual).sum(axis=(1, 2)) / 2
    weight = np.exp(log_weight - logsumexp(log_weight))
    gain = np.linalg.solve(spread, cross_covariance.swapaxes(1, 2))
    return replace(
        posterior,
        grid_mass=_spread_over_grid(weight, grid, posterior.grid_mass.size),
        weight=weight,
        mean=posterior.mean + (cross_covariance @ scaled_residual)[..., 0],
        covariance=posterior.covariance - cross_covariance @ gain,
    )


@dataclass(frozen=True, eq=False)
class WhitenedResiduals:
    """Residuals d − θ(α) in coordinates in which errors are white and the axes of deviations are orthogonal.

    Attributes
    ----------
    to_cells : (n_grid, n_cells, n_axes) array
        Transformation from these coordinates to cells.
    residual : (n_grid, n_axes) array
    variance, log_density : (n_grid, n_axes, n_scales) arrays
        Variance of the deviations, and joint log density of the residual and the scale.
    log_likelihood : (n_grid,) array
        Log density of all residuals.
    """

    to_cells: FloatArray
    residual: FloatArray
    variance: FloatArray
    log_density: FloatArray
    log_likelihood: FloatArray

    @classmethod
    def from_residuals(
        cls, residual: FloatArray, error: FloatArray, axes: FloatArray, prior: CorrectionPrior
    ) -> WhitenedResiduals:
        """Transform residuals with covariance `error` for each point of the grid.

        The longest axis comes first, so that it is transformed without an approximation.
        """
        root = np.linalg.cholesky(error)
        columns = np.concatenate([axes, residual[..., None]], axis=2)
        white_columns = np.linalg.solve(root, columns)
        rotation, axis_lengths = np.linalg.qr(white_columns[..., :-1])
        white_residual = (rotation.swapaxes(1, 2) @ white_columns[..., -1:])[..., 0]
        variance = (axis_lengths**2).sum(axis=2)[..., None] * SCALES**2
        square = white_residual[..., None] ** 2 / (1 + variance)
        log_density = np.log(prior.scale_mass) - (square + np.log1p(variance)) / 2
        log_determinant = np.log(np.einsum("gii->gi", root)).sum(axis=1)
        log_likelihood = logsumexp(log_density, axis=2).sum(axis=1) - log_determinant
        return cls(
            to_cells=root @ rotation,
            residual=white_residual,
            variance=variance,
            log_density=log_density,
            log_likelihood=log_likelihood,
        )

    def compute_moments(
        self,
        is_part: BoolArray,
        residual: FloatArray,
        path_covariance: FloatArray,
        noise: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean and covariance of truth − θ(α), and the probability that an axis is too long."""
        to_cells = self.to_cells[is_part]
        white_residual = self.residual[is_part]
        variance = self.variance[is_part]
        log_density = self.log_density[is_part]

        # Deviation along each axis: a mixture over scales, replaced by its mean and variance.
        scale_probability = np.exp(log_density - logsumexp(log_density, axis=2, keepdims=True))
        gain = variance / (1 + variance)
        mean_gain = (scale_probability * gain).sum(axis=2)
        gain_variance = (scale_probability * gain**2).sum(axis=2) - mean_gain**2
        axis_variance = mean_gain + white_residual**2 * gain_variance
        deviation = (to_cells @ (mean_gain * white_residual)[..., None])[..., 0]
        deviation_covariance = (to_cells * axis_variance[:, None, :]) @ to_cells.swapaxes(1, 2)

        # The remaining residual is partly the error of θ(α): the share (N + P)⁻¹ P.
        share = np.linalg.solve(path_covariance + noise, path_covariance)
        complement = np.eye(noise.shape[0]) - share
        mean = deviation + np.einsum("gji,gj->gi", share, residual - deviation)
        covariance = (
            complement.swapaxes(1, 2) @ deviation_covariance @ complement + path_covariance @ complement
        )
        long_axis_probability = scale_probability[:, :, SCALES >= MISFIT_SCALE].sum(axis=2)
        return mean, covariance, long_axis_probability.max(axis=1)


def _compute_axes(path: CorrectionPath, prior: CorrectionPrior) -> FloatArray:
    """Return principal axes of the deviations of each basis, longest first, (n_bases, n_cells, n_cells)."""
    is_same_kind = path.whole[:, None] == path.whole
    covariance = _compute_deviations(path, prior) * is_same_kind
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    axes = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))[:, None, :]
    return np.asarray(axes)[..., ::-1]


def _compute_deviations(path: CorrectionPath, prior: CorrectionPrior) -> FloatArray:
    """Return the covariance of the deviations at scale 1 for each basis, (n_bases, n_cells, n_cells)."""
    profile_covariance = _compute_profile_covariance(path, prior)
    covariances = []
    for number, basis in enumerate(path.bases):
        position = _reference_position(number)
        covariance = prior.deviations(
            correction=path.value[0] - path.value[position],
            spread=path.spread[position],
            above=path.above_chance,
            metric=path.metric_of,
            whole=path.whole,
        )
        factor = prior.interactions_deviation if basis == INTERACTIONS else 1.0
        covariances.append((covariance + profile_covariance) * factor**2)
    return np.array(covariances)


def _compute_profile_covariance(path: CorrectionPath, prior: CorrectionPrior) -> FloatArray:
    """Return the covariance from the unknown share of profiles in selection, one share for each kind.

    The share moves each kind of metrics along the difference of the paths by pairs and by items.
    """
    values = {}
    for number, basis in enumerate(path.bases):
        values[basis] = path.value[_reference_position(number)]

    difference = values[PAIRS] - values.get(ITEMS, values[PAIRS])
    shift = prior.own_personal * difference
    whole_shift = path.whole * shift
    top_shift = ~path.whole * shift
    return np.asarray(np.outer(whole_shift, whole_shift) + np.outer(top_shift, top_shift))


def _reference_position(basis_number: int) -> int:
    """Return the position of α = 0.45 of a basis on the grid."""
    return REFERENCE + ALPHAS.size * basis_number


def _spread_over_grid(weight: FloatArray, grid: AnyArray, size: int) -> FloatArray:
    """Return the probability of each point of the grid, 0 for points without a part."""
    mass = np.bincount(grid, weight, size)
    return np.asarray(mass / mass.sum())
