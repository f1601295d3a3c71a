"""The distribution π of exact ranks, fitted to sampled ranks by EM, and the corrections that use it.

Positives are grouped by their number of candidates n, and all groups share π on a grid of the largest n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics.base import Metric
from ipseval.metrics.sampled._correction_table import MAX_SAMPLED, average_tied_values, solve_on_grid
from ipseval.metrics.sampled._rank_law import RankGrid, build_rank_grid
from ipseval.metrics.sampled._sampled_ranks import SampledRanks
from ipseval.utils.types import FloatArray, IntArray

# Positives whose numbers of candidates differ by less than this share have one law, in which ranks are wrong
# by at most half of it.
GROUP_WIDTH = 0.02
MAX_GROUPS = 16
LAST_STEP = -1
LAST_BUT_ONE_STEP = -2  # the step that `_compute_posterior_means` reads


@dataclass(frozen=True, eq=False)
class RankGroup:
    """Positives with about the same number of candidates: the law of their sampled ranks, and the data."""

    grid: RankGrid
    law: FloatArray  # (n_nodes, m + 1)
    shares: FloatArray  # (m + 1,) observed shares of the sampled ranks, which sum to 1 over all groups

    def metric_values(self, target: Metric) -> FloatArray:
        """Return the metric at the nodes, (n_nodes,)."""
        return target.value_at_rank(self.grid.rank, float(self.grid.n_candidates))


@dataclass(frozen=True, eq=False)
class RankDistribution:
    """π of all groups on the nodes of a grid, after each step of EM."""

    groups: list[RankGroup]
    weight: FloatArray  # (n_nodes,)
    density: FloatArray  # (n_steps + 1, n_nodes), with Σ_j weight_j density_j = 1 in each row

    def probabilities(self, step: int = LAST_STEP) -> FloatArray:
        """Return the probability of each node after a step, (n_nodes,)."""
        return np.asarray(self.weight * self.density[step], dtype=np.float64)

    def share_gradients(self, density_gradient: FloatArray, step: int) -> list[FloatArray]:
        """Return the derivative of θ by the `shares` of each group, for its derivative by the density.

        `density_gradient` is its derivative by the density after `step`. The derivatives go through all steps
        of EM, so that the standard error includes the fit for any number of steps.
        """
        # The chain rule goes back through the steps φ ← φ∘Σ_k A_k(P_k/s_k), s_k = A_kᵀ(w∘φ).
        adjoint = density_gradient
        gradients: list[FloatArray] = [np.zeros(group.shares.size) for group in self.groups]
        for density in self.density[:step][::-1]:
            previous_adjoint = np.zeros_like(adjoint)
            for group, gradient in zip(self.groups, gradients, strict=True):
                expected = group.law.T @ (self.weight * density)
                slope = (group.law.T @ (adjoint * density)) * divide_or_zero(np.ones_like(expected), expected)
                gradient += slope
                ratio = divide_or_zero(group.shares, expected)
                previous_adjoint += adjoint * (group.law @ ratio)
                previous_adjoint -= self.weight * (group.law @ (slope * ratio))
            adjoint = previous_adjoint
        return gradients


@dataclass(frozen=True, eq=False)
class RankGroups:
    """All groups of the data, with the weights of the nodes that they share."""

    group_of: IntArray  # (n_pos,) group of each positive
    groups: list[RankGroup]
    weight: FloatArray  # (n_nodes,)


@dataclass(frozen=True, eq=False)
class FittedTables:
    """The tables M̂ of all groups for a fitted distribution.

    Attributes
    ----------
    tables : list of (m + 1,) float arrays
    density_gradient : (n_nodes,) float array
        Derivative of the estimate θ by the density of the distribution.
    condition_number : float
    """

    tables: list[FloatArray]
    density_gradient: FloatArray
    condition_number: float


def compute_fitted_correction(
    data: SampledRanks, target: Metric, method: str, variance_weight: float, n_iterations: int
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return M̂ (m + 1,) of the largest group, M̂(r̃) and drift (n_pos,), and the condition number.

    The drift of a positive is its effect on the average through the fit: its influence is M̂(r̃) + drift minus
    the mean.
    """
    if data.n_sampled > MAX_SAMPLED:
        raise InputError(
            f"the rank distribution is fitted for at most {MAX_SAMPLED:,} sampled candidates; got "
            f"{data.n_sampled:,}. Use method='rank', which is accurate for so many."
        )
    rank_groups = group_by_size(data, target)
    distribution = fit_rank_distribution(rank_groups.groups, rank_groups.weight, n_iterations)
    fitted_tables = _compute_fitted_tables(distribution, target, method, variance_weight)
    step = LAST_STEP
    if method == "mle":
        step = LAST_BUT_ONE_STEP
    gradients = distribution.share_gradients(fitted_tables.density_gradient, step)
    group_of = rank_groups.group_of
    contributions = np.empty(group_of.size)
    drift = np.empty(group_of.size)
    for index, (table, gradient) in enumerate(zip(fitted_tables.tables, gradients, strict=True)):
        rows = group_of == index
        contributions[rows] = average_tied_values(table, data.n_above[rows], data.n_tied[rows])
        drift[rows] = average_tied_values(gradient, data.n_above[rows], data.n_tied[rows])
    largest_group = int(np.argmax(np.bincount(group_of)))
    return fitted_tables.tables[largest_group], contributions, drift, fitted_tables.condition_number


def build_refit(
    data: SampledRanks, target: Metric, method: str, variance_weight: float, n_iterations: int
) -> Callable[[FloatArray], float]:
    """Return a function from other shares of the positives, (n_pos,), to the estimate fitted to them."""
    rank_groups = group_by_size(data, target)

    def refit(share: FloatArray) -> float:
        resample = replace(data, share=share)
        groups = []
        for index, group in enumerate(rank_groups.groups):
            shares = resample.rank_shares(rank_groups.group_of == index)
            groups.append(replace(group, shares=shares))
        distribution = fit_rank_distribution(groups, rank_groups.weight, n_iterations)
        fitted_tables = _compute_fitted_tables(distribution, target, method, variance_weight)
        return float(
            sum(group.shares @ table for group, table in zip(groups, fitted_tables.tables, strict=True))
        )

    return refit


def group_by_size(data: SampledRanks, target: Metric) -> RankGroups:
    """Return the positives in groups of about the same number of candidates."""
    group_of = _assign_groups(data.n_candidates)
    n_groups = int(group_of.max()) + 1
    sizes = []
    for index in range(n_groups):
        sizes.append(round(float(data.n_candidates[group_of == index].mean())))

    max_size = max(sizes)
    grid = build_rank_grid(max_size, data.n_sampled, data.replacement, cutoff=target.cutoff)
    groups = []
    for index, n in enumerate(sizes):
        rank = grid.rank
        if n < max_size:
            if not data.replacement:
                rank = np.round(rank)  # the hypergeometric law needs whole ranks at the end of the list
            rank = np.minimum(rank, n)  # a rank beyond a shorter list is its last rank
        group_grid = replace(grid, rank=rank, n_candidates=n)
        groups.append(RankGroup(group_grid, group_grid.law(), data.rank_shares(group_of == index)))
    return RankGroups(group_of, groups, grid.weight)


def _assign_groups(n_candidates: FloatArray) -> IntArray:
    """Return the number of the group of each positive, 0 … number of groups − 1, (n_pos,)."""
    low = float(n_candidates.min())
    high = float(n_candidates.max())
    n_intervals = int(np.clip(np.ceil(np.log(high / low) / GROUP_WIDTH), 1, MAX_GROUPS))
    position = np.log(n_candidates / low) / max(np.log(high / low), 1e-300) * n_intervals
    interval = np.minimum(position.astype(np.int64), n_intervals - 1)
    _, group_of = np.unique(interval, return_inverse=True)  # some intervals are empty
    return group_of


def fit_rank_distribution(groups: list[RankGroup], weight: FloatArray, n_iterations: int) -> RankDistribution:
    """Return π by EM, π ← Σ_r̃ P̂(r̃) π∘A[:, r̃]/(πᵀA[:, r̃]), from the uniform distribution (Jin et al. 2021).

    The likelihood rises in every step, and a limited number of steps keeps the estimate smooth.
    doi:10.1609/aaai.v35i5.16537
    """
    density = np.empty((n_iterations + 1, weight.size))
    density[0] = 1 / weight.sum()
    for step in range(n_iterations):
        factor = np.zeros(weight.size)
        for group in groups:
            expected = group.law.T @ (weight * density[step])
            factor += group.law @ divide_or_zero(group.shares, expected)
        density[step + 1] = density[step] * factor
    return RankDistribution(groups, weight, density)


def _compute_fitted_tables(
    distribution: RankDistribution, target: Metric, method: str, variance_weight: float
) -> FittedTables:
    """Return the tables of "mle" or "bv" for a fitted distribution."""
    if method == "mle":
        return _compute_posterior_means(distribution, target)
    return _solve_fitted_bias_variance(distribution, target, variance_weight)


def _compute_posterior_means(distribution: RankDistribution, target: Metric) -> FittedTables:
    """Return E[M(r) | r̃] under the distribution before the last step.

    Its mean over the data is then Σ π(r) M(r) for the last distribution π.
    """
    probability = distribution.probabilities(LAST_BUT_ONE_STEP)
    tables = []
    density_gradient = np.zeros(probability.size)
    for group in distribution.groups:
        value = group.metric_values(target)
        expected = group.law.T @ probability
        # 0 for a sampled rank that cannot occur under the distribution; none was observed.
        table = divide_or_zero(group.law.T @ (probability * value), expected)
        ratio = divide_or_zero(group.shares, expected)
        density_gradient += distribution.weight * ((group.law @ ratio) * value - group.law @ (ratio * table))
        tables.append(table)
    return FittedTables(tables, density_gradient, condition_number=1.0)


def _solve_fitted_bias_variance(distribution: RankDistribution, target: Metric, g: float) -> FittedTables:
    """Return the bias–variance tables with the fitted distribution as prior."""
    # θ = Σ_k P_kᵀS_k⁻¹h_k with S = (1 − g)AᵀDA + g diag(c), h = AᵀDb; with y = S⁻¹P, dθ = yᵀ(dh − dS M̂).
    probability = distribution.probabilities()
    tables = []
    probability_gradient = np.zeros(probability.size)
    condition = 1.0
    for group in distribution.groups:
        law = group.law
        value = group.metric_values(target)
        prior_grid = replace(group.grid, weight=probability)
        values, group_condition = solve_on_grid(prior_grid, target, "bv", g)
        table = np.nan_to_num(values)
        system = (1 - g) * (law.T @ (law * probability[:, None])) + g * np.diag(law.T @ probability)
        scale = 1 / np.sqrt(np.maximum(np.diag(system), np.finfo(float).tiny))
        try:
            y = scale * np.linalg.solve(scale[:, None] * system * scale, scale * group.shares)
        except np.linalg.LinAlgError:
            raise InputError("n_candidates candidates cannot give all of these sampled ranks.") from None
        probability_gradient += (law @ y) * (value - (1 - g) * (law @ table)) - g * (law @ (y * table))
        tables.append(table)
        condition = max(condition, group_condition)
    return FittedTables(tables, distribution.weight * probability_gradient, condition)


def divide_or_zero(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Return the quotient, and 0 where the denominator underflowed to 0.

    EM keeps the denominators of observed ranks positive.
    """
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
