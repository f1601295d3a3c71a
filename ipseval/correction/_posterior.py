"""The posterior of α and of the recommenders' values, on a grid of strengths and scales of deviations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from ipseval._base.types import FloatArray
from ipseval.correction._path import CorrectionPath, by_user, contributions
from ipseval.correction._prior import ALPHAS, REFERENCE, SCALES, CorrectionPrior
from ipseval.ranking import RankedPositives

# Positives from which the random sample's own covariance counts half, and that of the path half.
BORROWED = 1600
PASSES = 2
NEGLIGIBLE = 1e-6
RIDGE = 1e-9


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
    """

    grid_mass: FloatArray
    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray

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


def posterior(path: CorrectionPath, prior: CorrectionPrior, sample: RandomSample | None = None) -> Posterior:
    """Return the posterior of the cells given the random sample's mean d = θ(α) + δ + error.

    Without a sample it is the prior: θ(α) with the deviations δ and the log's own sampling error. With one,
    the covariance of the error is taken at the strengths that a first pass finds likely.
    """
    mass = prior.grid_mass(path.bases)
    before = path.covariance + (SCALES**2)[:, None, None, None] * _deviations(path, prior)
    log_mass = np.log(prior.scale_mass)[:, None] + np.log(np.maximum(mass, 1e-300))
    mean = np.broadcast_to(path.value, before.shape[:-1])
    if sample is None:
        return _mixture(log_mass, mean, before)
    found = None
    for _ in range(PASSES):
        noise = sample.covariance(path, mass)
        # Equal recommenders make it singular; this little does not move them apart.
        noise = noise + np.eye(len(noise)) * (RIDGE * np.trace(noise) / len(noise))
        total = before + noise
        missed = (sample.value - mean)[..., None]
        solved = np.linalg.solve(total, np.concatenate([missed, before], axis=-1))
        pull, gain = solved[..., :1], solved[..., 1:]
        fit = (missed * pull).sum(axis=(-2, -1)) + np.linalg.slogdet(total)[1]
        moved = mean + (before @ pull)[..., 0]
        found = _mixture(log_mass - fit / 2, moved, before - before @ gain)
        mass = found.grid_mass
    assert found is not None
    return found


def _deviations(path: CorrectionPath, prior: CorrectionPrior) -> FloatArray:
    """Return the covariance of the deviations at scale 1 at each point of the grid."""
    parts = [np.flatnonzero(path.basis == one) for one in range(len(path.bases))]
    each = [
        prior.deviations(path.value[part], path.spread[part[REFERENCE]], path.metric_of, path.whole)
        for part in parts
    ]
    return np.array(each)[path.basis]


def _mixture(log_mass: FloatArray, mean: FloatArray, covariance: FloatArray) -> Posterior:
    mass = np.exp(log_mass - logsumexp(log_mass))
    kept = mass > NEGLIGIBLE
    weight = mass[kept] / mass[kept].sum()
    return Posterior(mass.sum(axis=0), weight, mean[kept], covariance[kept])
