"""Corrections that rest on the distribution of ranks fitted to the data: "mle", and "bv" with that prior."""

from __future__ import annotations

import numpy as np

from ipseval._types import FloatArray, IntArray
from ipseval.errors import InputError
from ipseval.sampled_metrics._corrected import MAX_SAMPLED, mean_over_ties, solve_on_grid
from ipseval.sampled_metrics._data import SampledData
from ipseval.sampled_metrics._em import Group, RankDistribution, fit_rank_distribution, ratio
from ipseval.sampled_metrics._grid import RankGrid, rank_grid
from ipseval.sampled_metrics._targets import SingleTarget

# Positives whose numbers of candidates differ by less than this share a law: ranks are off by half of it.
GROUP_WIDTH = 0.02
MAX_GROUPS = 16


def fitted_correction(
    data: SampledData, target: SingleTarget, method: str, variance_weight: float, n_iterations: int
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return M̂ (m + 1,) of the largest group, M̂(r̃) and drift (n_pos,), and the condition number.

    The drift of a positive is how the average moves with it through the fitted distribution: its influence
    is M̂(r̃) + drift, about their mean.
    """
    if data.n_sampled > MAX_SAMPLED:
        raise InputError(
            f"the rank distribution is fitted for at most {MAX_SAMPLED:,} sampled candidates; got "
            f"{data.n_sampled:,}. Use method='rank', which is accurate for so many."
        )
    group_of, fitted = _fit(data, target, n_iterations)
    if method == "mle":
        tables, gradients = _posterior_means(fitted, target)
        condition = 1.0
    else:
        tables, gradients, condition = _bias_variance(fitted, target, variance_weight)
    contributions, drift = np.empty(group_of.size), np.empty(group_of.size)
    for index, (table, gradient) in enumerate(zip(tables, gradients, strict=True)):
        rows = group_of == index
        contributions[rows] = mean_over_ties(table, data.n_above[rows], data.n_tied[rows])
        drift[rows] = mean_over_ties(gradient, data.n_above[rows], data.n_tied[rows])
    largest = int(np.argmax(np.bincount(group_of)))
    return tables[largest], contributions, drift, condition


def _fit(data: SampledData, target: SingleTarget, n_iterations: int) -> tuple[IntArray, RankDistribution]:
    low, high = float(data.n_candidates.min()), float(data.n_candidates.max())
    number = int(np.clip(np.ceil(np.log(high / low) / GROUP_WIDTH), 1, MAX_GROUPS))
    position = np.log(data.n_candidates / low) / max(np.log(high / low), 1e-300) * number
    _, group_of = np.unique(np.minimum(position.astype(np.int64), number - 1), return_inverse=True)
    sizes = [round(float(data.n_candidates[group_of == k].mean())) for k in range(int(group_of.max()) + 1)]
    grid = rank_grid(max(sizes), data.n_sampled, data.replacement, cutoff=target.cutoff)
    groups = []
    for index, n in enumerate(sizes):
        rank = grid.rank
        if n < max(sizes):
            # A rank beyond a shorter list is its last place; the hypergeometric law needs whole ranks there.
            rank = np.minimum(rank if data.replacement else np.round(rank), n)
        own = RankGrid(rank, grid.weight, n, data.n_sampled, data.replacement)
        groups.append(Group(own, own.law(), data.shares(group_of == index)))
    return group_of, fit_rank_distribution(groups, grid.weight, n_iterations)


def _values(group: Group, target: SingleTarget) -> FloatArray:
    return target.values(group.grid.rank, float(group.grid.n_candidates))


def _posterior_means(
    fitted: RankDistribution, target: SingleTarget
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return E[M(r) | r̃] under the last distribution but one, whose mean over the data is Σ π(r) M(r)."""
    weights = fitted.weights(-2)
    tables, by_density = [], np.zeros(weights.size)
    for group in fitted.groups:
        value = _values(group, target)
        expected = group.law.T @ weights
        # 0 where the distribution says that a sampled rank cannot occur: none did.
        table = ratio(group.law.T @ (weights * value), expected)
        observed = ratio(group.shares, expected)
        by_density += fitted.weight * ((group.law @ observed) * value - group.law @ (observed * table))
        tables.append(table)
    return tables, fitted.gradient(by_density, -2)


def _bias_variance(
    fitted: RankDistribution, target: SingleTarget, g: float
) -> tuple[list[FloatArray], list[FloatArray], float]:
    """Return the bias–variance tables under the fitted prior, their gradients and the condition number.

    θ = Σ_k P_kᵀS_k⁻¹h_k with S = (1 − g)AᵀDA + g diag(c), h = AᵀDb; with y = S⁻¹P, dθ = yᵀ(dh − dS M̂).
    """
    weights = fitted.weights()
    tables, by_weight, condition = [], np.zeros(weights.size), 1.0
    for group in fitted.groups:
        grid, law, value = group.grid, group.law, _values(group, target)
        own = RankGrid(grid.rank, weights, grid.n_candidates, grid.n_sampled, grid.replacement)
        corrected = solve_on_grid(own, target, "bv", g)
        table = np.nan_to_num(corrected.values)
        system = (1 - g) * (law.T @ (law * weights[:, None])) + g * np.diag(law.T @ weights)
        scale = 1 / np.sqrt(np.maximum(np.diag(system), np.finfo(float).tiny))
        y = scale * np.linalg.solve(scale[:, None] * system * scale, scale * group.shares)
        by_weight += (law @ y) * (value - (1 - g) * (law @ table)) - g * (law @ (y * table))
        tables.append(table)
        condition = max(condition, corrected.condition_number)
    return tables, fitted.gradient(fitted.weight * by_weight), condition
