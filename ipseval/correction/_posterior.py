"""The posterior of α and of the recommenders' values, on a grid of strengths and scales of deviations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from ipseval._base.types import FloatArray, IntArray
from ipseval.correction._path import CorrectionPath, by_user, contributions
from ipseval.correction._prior import ALPHAS, INTERACTIONS, ITEMS, PAIRS, REFERENCE, SCALES, CorrectionPrior
from ipseval.ranking import RankedPositives

# Positives from which the random sample's own covariance counts half, and that of the path half.
BORROWED = 1600
PASSES = 2
NEGLIGIBLE = 1e-6
RIDGE = 1e-9
N_DRAWS = 4000
STRAIN = 6  # scale of deviations from which a path is said not to explain exposure


@dataclass(frozen=True, eq=False)
class RandomSample:
    """The plain mean over random-exposure positives, pooled.

    Attributes
    ----------
    value : (n_cells,) array
    own : (n_cells, n_cells) array
        Its covariance, from the influence of users.
    n_positives, n_users : int
        Positives, and users that have one.
    repeated : float
        Mean number of positives of the user of a positive, Σ s²/Σ s.
    """

    value: FloatArray
    own: FloatArray
    n_positives: int
    n_users: int
    repeated: float

    @classmethod
    def of(cls, ranks: Mapping[str, RankedPositives], path: CorrectionPath) -> RandomSample:
        """Return the sample of ranked random-exposure positives."""
        first = next(iter(ranks.values()))
        values = contributions(ranks, path.metrics, path.ties)
        mean, n = values.mean(axis=0), first.users.size
        influence = by_user(first, values - mean) / len(first)
        counts = first.counts.astype(np.float64)
        own = influence.T @ influence * (n / max(n - 1, 1))
        return cls(mean, own, len(first), int(n), float((counts**2).sum() / len(first)))

    def covariance(self, path: CorrectionPath, grid_mass: FloatArray) -> FloatArray:
        """Return the covariance of the mean: from the path's contributions, and more and more its own.

        A sample with few hits by chance also has a small variance of its own, and would be trusted too much.
        """
        root = np.sqrt(1 + path.within * (self.repeated - 1))
        lent = np.tensordot(grid_mass, path.spread, 1) * np.outer(root, root) / self.n_positives
        share = BORROWED / (BORROWED + self.n_positives)
        return np.asarray(share * lent + (1 - share) * self.own + path.half_hit(self.n_positives))


@dataclass(frozen=True, eq=False)
class Posterior:
    """A mixture of normal distributions of all cells, for each basis, α and scale that is not negligible.

    Attributes
    ----------
    grid_mass : (n_grid,) array
        Probability of each basis and α, in the order of the path.
    weight : (n_parts,) array
    mean : (n_parts, n_cells) array
    covariance : (n_parts, n_cells, n_cells) array
    strained : float
        Probability that deviations are several times as large as expected, or α is above 1 by positives.
    """

    grid_mass: FloatArray
    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray
    strained: float = 0.0

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
        centred = self.mean - self.total_mean
        return np.asarray(
            np.tensordot(self.weight, self.covariance, 1) + (self.weight[:, None] * centred).T @ centred
        )

    def of(self, contrast: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of contrasts in each part, (n_parts, n_contrasts)."""
        variance = np.einsum("ik,pkl,il->pi", contrast, self.covariance, contrast, optimize=True)
        return self.mean @ contrast.T, np.sqrt(np.maximum(variance, 1e-24))

    def quantile(self, contrast: FloatArray, level: float) -> FloatArray:
        """Return the quantile of each contrast (n_contrasts, n_cells), by bisection."""
        mean, sd = self.of(contrast)
        low, high = (mean - 9 * sd).min(axis=0), (mean + 9 * sd).max(axis=0)
        for _ in range(60):
            middle = (low + high) / 2
            below = self.weight @ ndtr((middle - mean) / sd) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def above_zero(self, contrast: FloatArray) -> FloatArray:
        """Return the probability that each contrast is above 0."""
        mean, sd = self.of(contrast)
        return np.asarray(self.weight @ ndtr(mean / sd))

    def ahead(self, cells: slice) -> FloatArray:
        """Return the probability that each of some cells is above each other one, (n, n); ½ of equal ones."""
        mean, covariance = self.mean[:, cells], self.covariance[:, cells, cells]
        own = np.diagonal(covariance, axis1=1, axis2=2)
        variance = own[:, :, None] + own[:, None, :] - 2 * covariance
        gap = mean[:, :, None] - mean[:, None, :]
        return np.asarray(np.tensordot(self.weight, ndtr(gap / np.sqrt(np.maximum(variance, 1e-24))), 1))

    def expected_loss(self, cells: slice) -> FloatArray:
        """Return E[max θ] − E[θ] of each of some cells, from draws that are the same in every run, (n,)."""
        rng = np.random.default_rng(0)
        part = rng.choice(self.weight.size, N_DRAWS, p=self.weight)
        size, axes = np.linalg.eigh(self.covariance[:, cells, cells])
        root = axes * np.sqrt(np.maximum(size, 0))[:, None, :]  # equal recommenders: rounding may leave less
        drawn = self.mean[part, cells] + np.einsum(
            "dij,dj->di", root[part], rng.standard_normal((N_DRAWS, size.shape[1]))
        )
        return np.asarray(drawn.max(axis=1).mean() - drawn.mean(axis=0))


def posterior(path: CorrectionPath, prior: CorrectionPrior, sample: RandomSample | None = None) -> Posterior:
    """Return the posterior of the cells given the random sample's mean d = θ(α) + δ + error.

    Without a sample it is the prior: θ(α) with the deviations δ and the log's own sampling error. With one,
    the covariance of the error is taken at the strengths that a first pass finds likely. Metrics that read
    the whole ranking and those cut at a rank have a scale of deviations each. What the sample says of these
    scales counts by `prior.temper` only, as cells are not as many witnesses; given the scales, α keeps all.
    """
    mass = prior.grid_mass(path.bases)
    grid = np.flatnonzero(mass > NEGLIGIBLE)
    log_scale, scale = _scales(path, prior)
    unit, value = _deviations(path, prior)[path.basis], path.value[grid]
    log_mass = log_scale[:, None] + np.log(mass[grid])
    weight = np.exp(log_mass)
    noise: FloatArray = np.zeros(unit.shape[1:])

    def before(pair: IntArray, point: IntArray) -> FloatArray:
        at = grid[point]
        factor = scale[pair]
        return np.asarray(path.covariance[at] + unit[at] * factor[:, :, None] * factor[:, None, :])

    for _ in range(PASSES if sample is not None else 0):
        assert sample is not None
        noise = sample.covariance(path, _on_grid(weight, grid, mass.size))
        # Equal recommenders make it singular; this little does not move them apart.
        noise = noise + np.eye(len(noise)) * (RIDGE * np.trace(noise) / len(noise))
        every = np.arange(grid.size)
        fit = np.array(
            [
                _misfit(before(np.full(grid.size, pair), every) + noise, sample.value - value)
                for pair in range(log_scale.size)
            ]
        )
        of_scale = logsumexp(log_mass - fit, axis=1, keepdims=True) - log_scale[:, None]
        log_weight = log_mass - fit - (1 - prior.temper) * of_scale
        weight = np.exp(log_weight - logsumexp(log_weight))
    pair, point = np.nonzero(weight > NEGLIGIBLE)
    mean, covariance = value[point], before(pair, point)
    if sample is not None:
        missed = (sample.value - mean)[..., None]
        solved = np.linalg.solve(covariance + noise, np.concatenate([missed, covariance], axis=-1))
        mean = mean + (covariance @ solved[..., :1])[..., 0]
        covariance = covariance - covariance @ solved[..., 1:]
    kept = weight[pair, point] / weight[pair, point].sum()
    beyond = (path.alpha > 1) & np.array([one != INTERACTIONS for one in path.bases])[path.basis]
    strained = float(kept @ ((scale[pair] >= STRAIN).any(axis=1) | beyond[grid[point]]))
    return Posterior(_on_grid(weight, grid, mass.size), kept, mean, covariance, strained)


def _misfit(covariance: FloatArray, missed: FloatArray) -> FloatArray:
    """Return minus the log density of what is missed, up to a constant, (n_grid,)."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, missed[..., None])[..., 0]
    return np.asarray((white**2).sum(-1) / 2 + np.log(np.einsum("gii->gi", root)).sum(-1))


def _scales(path: CorrectionPath, prior: CorrectionPrior) -> tuple[FloatArray, FloatArray]:
    """Return log probabilities of pairs of scales, and the scale of each cell, (n_pairs, n_cells)."""
    mass, whole = np.log(prior.scale_mass), path.whole
    if whole.all() or not whole.any():
        return mass, np.repeat(SCALES[:, None], whole.size, axis=1)
    first, second = np.divmod(np.arange(SCALES.size**2), SCALES.size)
    return mass[first] + mass[second], np.where(whole, SCALES[first][:, None], SCALES[second][:, None])


def _deviations(path: CorrectionPath, prior: CorrectionPrior) -> FloatArray:
    """Return the covariance of the deviations at scale 1 for each basis, (n_bases, n_cells, n_cells)."""
    at = REFERENCE + ALPHAS.size * np.arange(len(path.bases))
    # How far profiles correct more than popularity does; their share of selection is an unknown number.
    of = dict(zip(path.bases, path.value[at], strict=True))
    personal = prior.own_personal * (of[PAIRS] - of.get(ITEMS, of[PAIRS]))
    more = sum(np.outer(kind * personal, kind * personal) for kind in (path.whole, ~path.whole))
    shared = path.above_chance, path.metric_of, path.whole
    each = [prior.deviations(path.value[0] - path.value[one], path.spread[one], *shared) for one in at]
    return np.asarray(np.array(each) + more)


def _on_grid(weight: FloatArray, grid: IntArray, size: int) -> FloatArray:
    """Return the probability of each point of the grid."""
    found = np.bincount(grid, weight.sum(axis=0), size)
    return np.asarray(found / found.sum())
