"""The posterior of α and of the recommenders' values, on a grid of strengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from ipseval.correction._path import CorrectionPath, by_user, contributions
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
from ipseval.utils.types import BoolArray, FloatArray, IntArray

# Positives from which the random sample's own covariance counts half, and that of the path half.
BORROWED = 1600
LEVEL = 20  # users, or hits, from which the sample's own level of variance counts half
PASSES = 2
NEGLIGIBLE = 1e-6
RIDGE = 1e-9
N_DRAWS = 4000
MOST_STEPS, SAME, TINY = 60, 1e-12, 1e-300
STRAIN = 6  # scale of a deviation from which a path is said not to explain exposure


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
        Mean number of positives of the user of a positive, Σ s²/Σ s; with weights Σ_u (Σ w)²/Σ w².
    ess : float or None
        Effective number of positives, (Σ w)²/Σ w², where they have weights.
    """

    value: FloatArray
    own: FloatArray
    n_positives: int
    n_users: int
    repeated: float
    ess: float | None = None

    @classmethod
    def of(
        cls, ranks: Mapping[str, RankedPositives], path: CorrectionPath, weight: FloatArray | None = None
    ) -> RandomSample:
        """Return the sample of ranked random-exposure positives, with equal weights or given ones."""
        first = next(iter(ranks.values()))
        values = contributions(ranks, path.metrics, path.ties)
        n = first.users.size
        if weight is None:
            mean, total, ess = values.mean(axis=0), float(len(first)), None
            influence = by_user(first, values - mean) / total
            repeated = float((first.counts.astype(np.float64) ** 2).sum() / total)
        else:
            total, squared = float(weight.sum()), float(weight @ weight)
            mean, ess = weight @ values / total, total**2 / squared
            influence = by_user(first, weight[:, None] * (values - mean)) / total
            repeated = float((by_user(first, weight[:, None]) ** 2).sum() / squared)
        own = influence.T @ influence * (n / max(n - 1, 1))
        return cls(np.asarray(mean), own, len(first), int(n), repeated, ess)

    @property
    def size(self) -> float:
        """The effective number of positives."""
        return self.n_positives if self.ess is None else self.ess

    def covariance(self, path: CorrectionPath, grid_mass: FloatArray) -> FloatArray:
        """Return the covariance of the mean: from the path's contributions, and more and more its own.

        A sample with few hits by chance also has a small variance of its own, and would be trusted too much.
        """
        root = np.sqrt(1 + path.within * (self.repeated - 1))
        lent = np.tensordot(grid_mass, path.spread, 1) * np.outer(root, root) / self.size
        users = self.n_users * self.size / self.n_positives  # with weights, fewer count than there are
        own = self.own * (max(users - 1, 3) / max(users - 3, 1))  # as of a t distribution
        # The level of variance is the sample's own before its correlations are: by users where all ranks
        # count, by hits where few do.
        metric = path.metric_of
        counted = np.where(path.whole, users, self.size * self.value)
        size: FloatArray = np.bincount(metric, counted) / np.bincount(metric)
        mine, given = (np.bincount(metric, np.diag(one)) for one in (own, lent))
        ratio = np.divide(mine, given, out=np.ones(size.size), where=given > 0)
        level = np.sqrt((size * ratio + LEVEL) / (size + LEVEL))[metric]
        share = BORROWED / (BORROWED + self.size)
        found = share * lent * np.outer(level, level) + (1 - share) * own
        return np.asarray(found + path.half_hit(self.size))


@dataclass(frozen=True, eq=False)
class Posterior:
    """A mixture of normal distributions of all cells, for each basis and α that is not negligible.

    Attributes
    ----------
    grid_mass : (n_grid,) array
        Probability of each basis and α, in the order of the path.
    weight : (n_parts,) array
    mean : (n_parts, n_cells) array
    covariance : (n_parts, n_cells, n_cells) array
    strained : float
        Probability that an axis deviates several times as much as expected, or α is above 1 by positives.
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
        """Return the quantile of each contrast (n_contrasts, n_cells), by Newton steps held in a bracket."""
        mean, sd = self.of(contrast)
        ends = mean + sd * ndtri(level)  # the quantiles of the parts: that of all lies between
        low, high, found = ends.min(axis=0), ends.max(axis=0), self.weight @ ends
        moved = high - low
        for _ in range(MOST_STEPS):  # a step that does not halve the one before is a bisection
            away = (found - mean) / sd
            missed = self.weight @ ndtr(away) - level
            low, high = np.where(missed < 0, found, low), np.where(missed < 0, high, found)
            slope = self.weight @ (np.exp(-(away**2) / 2) / sd) / np.sqrt(2 * np.pi)
            new = found - missed / np.maximum(slope, TINY)
            near = (low <= new) & (new <= high) & (np.abs(new - found) <= moved / 2)
            new = np.where(near, new, (low + high) / 2)
            moved = np.where(moved > SAME * np.abs(found), np.abs(new - found), 0)
            if not moved.any():
                break
            found = np.where(moved > 0, new, found)
        return np.asarray(found)

    def above_zero(self, contrast: FloatArray) -> FloatArray:
        """Return the probability that each contrast is above 0."""
        mean, sd = self.of(contrast)
        return np.asarray(self.weight @ ndtr(mean / sd))

    def probability_better(self, cells: slice) -> FloatArray:
        """Return the probability that each cell is above each other one, (n, n); ½ for equal ones."""
        mean, covariance = self.mean[:, cells], self.covariance[:, cells, cells]
        own = np.diagonal(covariance, axis1=1, axis2=2)
        variance = own[:, :, None] + own[:, None, :] - 2 * covariance
        gap = mean[:, :, None] - mean[:, None, :]
        return np.asarray(np.tensordot(self.weight, ndtr(gap / np.sqrt(np.maximum(variance, 1e-24))), 1))

    def expected_regret(self, cells: slice) -> FloatArray:
        """Return E[max θ] − E[θ] of some cells, θ held in [0, 1], by draws that never change, (n,)."""
        rng = np.random.default_rng(0)
        part = rng.choice(self.weight.size, N_DRAWS, p=self.weight)
        size, axes = np.linalg.eigh(self.covariance[:, cells, cells])
        root = axes * np.sqrt(np.maximum(size, 0))[:, None, :]  # equal recommenders: rounding may leave less
        drawn = self.mean[part, cells] + np.einsum(
            "dij,dj->di", root[part], rng.standard_normal((N_DRAWS, size.shape[1]))
        )
        drawn = np.clip(drawn, 0, 1)  # where averages of these metrics lie, as the intervals do
        return np.asarray((drawn.max(axis=1, keepdims=True) - drawn).mean(axis=0))


@one_blas_thread()  # as for the path
def posterior(
    path: CorrectionPath,
    prior: CorrectionPrior,
    sample: RandomSample | None = None,
    observations: ReferenceValues | None = None,
) -> Posterior:
    """Return the posterior of the cells given the random sample's mean d = θ(α) + δ + error.

    Without a sample it is the prior: θ(α) with the deviations δ and the log's own sampling error. With one,
    the covariance of the error is taken at the strengths that a first pass finds likely. The deviations have
    axes, each with an unknown scale of its own; of the mixture over scales each α keeps mean and covariance.
    Reference values are observed after the sample.
    """
    mass = prior.grid_mass(path.bases)
    grid = np.flatnonzero(mass > NEGLIGIBLE)
    axes, weight = _axes(path, prior)[path.basis[grid]], mass[grid]
    if sample is None:
        spread = (prior.scale_mass @ SCALES**2) * (axes @ axes.swapaxes(1, 2))
        found = Posterior(mass, weight / weight.sum(), path.value[grid], path.covariance[grid] + spread)
        return found if observations is None else _condition_on(found, grid, observations)
    for _ in range(PASSES):
        noise = sample.covariance(path, _on_grid(weight, grid, mass.size))
        # Equal recommenders make it singular; this little does not move them apart.
        noise = noise + np.eye(len(noise)) * (RIDGE * np.trace(noise) / len(noise))
        white = _Whitened.of(sample.value - path.value[grid], path.covariance[grid] + noise, axes, prior)
        log_weight = np.log(mass[grid]) + white.fit
        weight = np.exp(log_weight - logsumexp(log_weight))
    kept = weight > NEGLIGIBLE
    chosen, at = weight[kept] / weight[kept].sum(), grid[kept]
    mean, covariance, far = white.moments(kept, sample.value - path.value[at], path.covariance[at], noise)
    beyond = (path.alpha > 1) & np.array([one != INTERACTIONS for one in path.bases])[path.basis]
    strained = float(chosen @ np.where(beyond[at], 1.0, far))
    mass = _on_grid(weight, grid, mass.size)
    found = Posterior(mass, chosen, path.value[at] + mean, covariance, strained)
    return found if observations is None else _condition_on(found, at, observations)


def _condition_on(before: Posterior, grid: IntArray, observations: ReferenceValues) -> Posterior:
    """Return the posterior given reference values: a Kalman step in each part, which it weighs anew."""
    contrast = observations.contrast
    cross = before.covariance @ contrast.T
    spread = contrast @ cross + np.diag(observations.error**2)
    residual = (observations.observed - before.mean @ contrast.T)[..., None]
    solved = np.linalg.solve(spread, residual)
    log_weight = np.log(before.weight) - np.linalg.slogdet(spread)[1] / 2
    log_weight -= (residual * solved).sum(axis=(1, 2)) / 2
    weight = np.exp(log_weight - logsumexp(log_weight))
    covariance = before.covariance - cross @ np.linalg.solve(spread, cross.swapaxes(1, 2))
    mass = _on_grid(weight, grid, before.grid_mass.size)
    mean = before.mean + (cross @ solved)[..., 0]
    return Posterior(mass, weight, mean, covariance, before.strained)


@dataclass(frozen=True, eq=False)
class _Whitened:
    """What is missed in coordinates in which all errors are white, and every axis of deviations is apart.

    Attributes
    ----------
    back : (n_grid, n_cells, n_axes) array
        From these coordinates to cells.
    away : (n_grid, n_axes) array
    variance, log_density : (n_grid, n_axes, n_scales) arrays
        Of deviations, and of what is missed with the probability of the scale.
    fit : (n_grid,) array
        Log density of all that is missed.
    """

    back: FloatArray
    away: FloatArray
    variance: FloatArray
    log_density: FloatArray
    fit: FloatArray

    @classmethod
    def of(cls, missed: FloatArray, error: FloatArray, axes: FloatArray, prior: CorrectionPrior) -> _Whitened:
        """Return it for each strength, longest axis first, so that this one is exact."""
        root = np.linalg.cholesky(error)
        white = np.linalg.solve(root, np.concatenate([axes, missed[..., None]], axis=2))
        turn, size = np.linalg.qr(white[..., :-1])
        away = (turn.swapaxes(1, 2) @ white[..., -1:])[..., 0]
        variance = (size**2).sum(axis=2)[..., None] * SCALES**2
        log_density = (
            np.log(prior.scale_mass) - (away[..., None] ** 2 / (1 + variance) + np.log1p(variance)) / 2
        )
        fit = logsumexp(log_density, axis=2).sum(axis=1) - np.log(np.einsum("gii->gi", root)).sum(axis=1)
        return cls(root @ turn, away, variance, log_density, fit)

    def moments(
        self, kept: BoolArray, missed: FloatArray, own: FloatArray, noise: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean and covariance of truth − θ(α), and the probability that an axis is strained."""
        back, away, log_density = self.back[kept], self.away[kept], self.log_density[kept]
        of_scale = np.exp(log_density - logsumexp(log_density, axis=2, keepdims=True))
        gain = self.variance[kept] / (1 + self.variance[kept])
        pull = (of_scale * gain).sum(axis=2)
        left = pull + away**2 * ((of_scale * gain**2).sum(axis=2) - pull**2)
        moved = (back @ (pull * away)[..., None])[..., 0]
        # The deviation, and of the rest that part which is θ(α)'s own error: (N + P)⁻¹ P.
        share = np.linalg.solve(own + noise, own)
        rest = np.eye(noise.shape[0]) - share
        mean = moved + np.einsum("gji,gj->gi", share, missed - moved)
        spread = (back * left[:, None, :]) @ back.swapaxes(1, 2)
        covariance = rest.swapaxes(1, 2) @ spread @ rest + own @ rest
        return mean, covariance, of_scale[:, :, SCALES >= STRAIN].sum(axis=2).max(axis=1)


def _axes(path: CorrectionPath, prior: CorrectionPrior) -> FloatArray:
    """Return principal axes of the deviations of each basis, longest first, (n_bases, n_cells, n_cells)."""
    same = path.whole[:, None] == path.whole
    length, axis = np.linalg.eigh(_deviations(path, prior) * same)
    return np.asarray(axis * np.sqrt(np.maximum(length, 0))[:, None, :])[..., ::-1]


def _deviations(path: CorrectionPath, prior: CorrectionPrior) -> FloatArray:
    """Return the covariance of the deviations at scale 1 for each basis, (n_bases, n_cells, n_cells)."""
    at = REFERENCE + ALPHAS.size * np.arange(len(path.bases))
    # How far profiles correct more than popularity does; their share of selection is an unknown number.
    of = dict(zip(path.bases, path.value[at], strict=True))
    personal = prior.own_personal * (of[PAIRS] - of.get(ITEMS, of[PAIRS]))
    more = sum(np.outer(kind * personal, kind * personal) for kind in (path.whole, ~path.whole))
    shared = path.above_chance, path.metric_of, path.whole
    each = [prior.deviations(path.value[0] - path.value[one], path.spread[one], *shared) for one in at]
    least = np.where([one == INTERACTIONS for one in path.bases], prior.interactions_deviation, 1.0)
    return np.asarray((np.array(each) + more) * least[:, None, None] ** 2)


def _on_grid(weight: FloatArray, grid: IntArray, size: int) -> FloatArray:
    """Return the probability of each point of the grid."""
    found = np.bincount(grid, weight, size)
    return np.asarray(found / found.sum())
