"""The distribution of exact ranks, by maximum likelihood from sampled ranks (EM), and its derivative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._types import FloatArray
from ipseval.sampled_metrics._grid import RankGrid


@dataclass(frozen=True, eq=False)
class RankDistribution:
    """π, the estimated distribution of exact ranks on the nodes of a grid.

    `density` has one row per EM step, the uniform start included; Σ_j weight_j density_j = 1.
    """

    grid: RankGrid
    law: FloatArray  # (n_nodes, m + 1)
    shares: FloatArray  # (m + 1,) observed shares of the sampled ranks
    density: FloatArray  # (n_steps + 1, n_nodes)

    @property
    def weights(self) -> FloatArray:
        """Probability of each node after the last step, (n_nodes,)."""
        return np.asarray(self.grid.weight * self.density[-1], dtype=np.float64)

    def mean(self, values: FloatArray) -> float:
        """Return Σ π(r) values(r)."""
        return float(self.weights @ values)

    def posterior_mean(self, values: FloatArray) -> FloatArray:
        """Return E[values(r) | r̃] (m + 1,) under the last step but one; its mean over the data is `mean`."""
        weights = self.grid.weight * self.density[-2]
        total = self.law.T @ weights
        with np.errstate(invalid="ignore"):
            # NaN: a sampled rank that this distribution says cannot occur (0/0).
            return np.asarray((self.law.T @ (weights * values)) / total, dtype=np.float64)

    def gradient(self, by_density: FloatArray) -> FloatArray:
        """Return dθ/d`shares` (m + 1,) for a θ with derivative `by_density` (n_nodes,) in the last density.

        The steps are differentiated backwards (the chain rule through φ ← φ∘A(P̂/s), s = Aᵀ(w∘φ)), so that
        the standard error includes the fit of the distribution however many steps were made.
        """
        adjoint = by_density
        out = np.zeros(self.shares.size)
        for density in self.density[-2::-1]:
            expected = self.law.T @ (self.grid.weight * density)
            ratio = _ratio(self.shares, expected)
            back = self.law.T @ (adjoint * density)
            inverse = _ratio(np.ones_like(expected), expected)
            out += back * inverse
            adjoint = adjoint * (self.law @ ratio) - self.grid.weight * (self.law @ (back * ratio * inverse))
        return out


def fit_rank_distribution(grid: RankGrid, shares: FloatArray, n_iterations: int) -> RankDistribution:
    """Return the EM estimate of the rank distribution from the shares of the sampled ranks.

    π ← Σ_r̃ P̂(r̃) π∘A[:, r̃]/(πᵀA[:, r̃]), from the uniform distribution. The likelihood rises in every step;
    stopping early keeps the estimate smooth.

    References
    ----------
    Jin, Li, Mudrak, Gao & Liu (2021), doi:10.1609/aaai.v35i5.16537
    """
    law = grid.law()
    density = np.empty((n_iterations + 1, grid.rank.size))
    density[0] = 1 / grid.weight.sum()
    for step in range(n_iterations):
        expected = law.T @ (grid.weight * density[step])
        density[step + 1] = density[step] * (law @ _ratio(shares, expected))
    return RankDistribution(grid, law, shares, density)


def _ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a/b, 0 where b underflowed to 0 (no observed rank is there: EM keeps their b positive)."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
