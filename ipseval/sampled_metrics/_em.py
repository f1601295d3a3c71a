"""The distribution of exact ranks, by maximum likelihood from sampled ranks (EM), and its derivative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._types import FloatArray
from ipseval.sampled_metrics._grid import RankGrid


@dataclass(frozen=True, eq=False)
class Group:
    """Positives with about the same number of candidates: their law and what was observed of them."""

    grid: RankGrid
    law: FloatArray  # (n_nodes, m + 1)
    shares: FloatArray  # (m + 1,) observed shares of the sampled ranks; they sum to 1 over all groups


@dataclass(frozen=True, eq=False)
class RankDistribution:
    """π, the estimated distribution of exact ranks on the nodes of a grid, common to all groups.

    `density` has one row per EM step, the uniform start included; Σ_j weight_j density_j = 1.
    """

    groups: list[Group]
    weight: FloatArray  # (n_nodes,)
    density: FloatArray  # (n_steps + 1, n_nodes)

    def __repr__(self) -> str:
        n_steps, n_nodes = self.density.shape
        return f"RankDistribution({n_nodes:,} nodes, {n_steps - 1:,} steps)"

    def weights(self, step: int = -1) -> FloatArray:
        """Return the probability of each node after a step, (n_nodes,)."""
        return np.asarray(self.weight * self.density[step], dtype=np.float64)

    def gradient(self, by_density: FloatArray, step: int = -1) -> list[FloatArray]:
        """Return dθ/d`shares` of each group for a θ with derivative `by_density` in the density at `step`.

        The EM steps are differentiated backwards (the chain rule through φ ← φ∘Σ_k A_k(P_k/s_k), with
        s_k = A_kᵀ(w∘φ)), so that the standard error includes the fit however many steps were made.
        """
        adjoint = by_density
        out: list[FloatArray] = [np.zeros(group.shares.size) for group in self.groups]
        for density in self.density[:step][::-1]:
            following = np.zeros_like(adjoint)
            for group, total in zip(self.groups, out, strict=True):
                expected = group.law.T @ (self.weight * density)
                slope = (group.law.T @ (adjoint * density)) * ratio(np.ones_like(expected), expected)
                total += slope
                observed = ratio(group.shares, expected)
                following += adjoint * (group.law @ observed)
                following -= self.weight * (group.law @ (slope * observed))
            adjoint = following
        return out


def fit_rank_distribution(groups: list[Group], weight: FloatArray, n_iterations: int) -> RankDistribution:
    """Return the EM estimate of the rank distribution from the shares of the sampled ranks.

    π ← Σ_r̃ P̂(r̃) π∘A[:, r̃]/(πᵀA[:, r̃]), from the uniform distribution. The likelihood rises in every step;
    stopping early keeps the estimate smooth.

    References
    ----------
    Jin, Li, Mudrak, Gao & Liu (2021), doi:10.1609/aaai.v35i5.16537
    """
    density = np.empty((n_iterations + 1, weight.size))
    density[0] = 1 / weight.sum()
    for step in range(n_iterations):
        factor = np.zeros(weight.size)
        for group in groups:
            factor += group.law @ ratio(group.shares, group.law.T @ (weight * density[step]))
        density[step + 1] = density[step] * factor
    return RankDistribution(groups, weight, density)


def ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a/b, 0 where b underflowed to 0 (no observed rank is there: EM keeps their b positive)."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
