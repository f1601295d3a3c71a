"""Correction tables: a value M̂(r̃) for every sampled rank, for a given or a fitted prior."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, qr, solve_triangular, svdvals

from ipseval.errors import InputError
from ipseval.metrics.base import Metric
from ipseval.metrics.sampled._data import SampledData
from ipseval.metrics.sampled._expected import RankGrid, rank_grid
from ipseval.utils.checks import as_float_vector, check_choice, check_finite, check_positive_int
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray

TABLE_METHODS = ("rank", "bv", "cls", "ls")
# Beyond this, plain least squares amplifies the noise of the sampled ranks ten-million-fold.
MAX_CONDITION = 1e7
MIN_VARIANCE_WEIGHT = 1e-10
MAX_SAMPLED = 5_000
SMALL = 500  # candidates below which more threads of BLAS only wait for each other


def mean_over_ties(values: FloatArray, n_above: IntArray, n_tied: IntArray | int) -> FloatArray:
    """Return the mean of `values[above : above + tied + 1]` for each positive."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    size = np.asarray(n_tied) + 1
    # Differences of a running sum round at 1e-16 of its size: without ties read the value itself.
    return np.where(size == 1, values[n_above], (total[n_above + size] - total[n_above]) / size)


def correction_table(
    n_candidates: int,
    n_sampled: int,
    target: Metric,
    method: str,
    *,
    replacement: bool = True,
    variance_weight: float = 0.01,
    prior: npt.ArrayLike | str | None = None,
) -> tuple[FloatArray, float]:
    """Return M̂(r̃), (m + 1,), as `SampledMetric.table` says, and the condition number of its system."""
    check_choice("method", method, TABLE_METHODS)
    n = check_positive_int("n_candidates", n_candidates, minimum=2)
    m = check_positive_int("n_sampled", n_sampled)
    if not replacement and m > n - 1:
        raise InputError(f"cannot draw {m} of {n - 1} other candidates without replacement.")
    if method == "rank":
        rank = 1 + (n - 1) * np.arange(m + 1.0) / m
        return target.at_rank(rank, float(n)), 1.0
    if m > MAX_SAMPLED:
        raise InputError(
            f"method {method!r} solves a system of size n_sampled + 1 = {m + 1:,}, more than "
            f"{MAX_SAMPLED + 1:,}; use method='rank', which is accurate for so many candidates."
        )
    if isinstance(prior, str):
        check_choice("prior", prior, ("uniform",))
        prior = None
    p = None if prior is None else check_prior(prior, n)
    grid = rank_grid(n, m, replacement, cutoff=target.cutoff, prior=p)
    return solve_on_grid(grid, target, method, variance_weight)


def solve_on_grid(
    grid: RankGrid, target: Metric, method: str, variance_weight: float
) -> tuple[FloatArray, float]:
    """Return the "bv", "cls" or "ls" correction for the prior that the grid's weights stand for."""
    with one_blas_thread() if grid.n_sampled < SMALL else nullcontext():
        if method == "bv":
            return _bias_variance(grid, target, variance_weight)
        return _least_squares(grid, target, constrained=method == "cls")


def check_prior(prior: npt.ArrayLike, n: int) -> FloatArray:
    """Return the prior (n,) normalised to sum 1, or raise `InputError`."""
    p = as_float_vector("prior", prior)
    if p.shape != (n,):
        raise InputError(f"prior must give p(r) for each of the {n} ranks; got shape {p.shape}.")
    check_finite("prior", p)
    if (p < 0).any() or p.sum() <= 0:
        raise InputError(f"prior must be >= 0 with a positive sum; {int((p < 0).sum())} entries are below 0.")
    return np.asarray(p / p.sum(), dtype=np.float64)


def _bias_variance(grid: RankGrid, target: Metric, g: float) -> tuple[FloatArray, float]:
    if not 0 <= g <= 1:
        raise InputError(f"variance_weight must be in (0, 1]; got {g!r}.")
    if g < MIN_VARIANCE_WEIGHT:
        raise InputError(
            f"variance_weight={g:g} leaves a system with condition number of about "
            f"{1 / g if g else float('inf'):.1e}, which float64 cannot solve; use variance_weight >= "
            f"{MIN_VARIANCE_WEIGHT:g} (0.01 is common), or method='cls'."
        )
    gram, marginal, moment = _sums(grid, target)
    reached = marginal > 0
    if not reached.all():
        gram, moment = gram[np.ix_(reached, reached)], moment[reached]
    # In units of √c the matrix is (1 − g)K + g·I with the eigenvalues of K in [0, 1]: condition <= 1/g.
    scale = 1 / np.sqrt(marginal[reached])
    system = (1 - g) * scale[:, None] * gram * scale + g * np.eye(scale.size)
    eigenvalues = np.linalg.eigvalsh(system)
    values = np.full(marginal.size, np.nan)  # NaN: a sampled rank that the prior says cannot occur
    values[reached] = scale * cho_solve(cho_factor(system), scale * moment)
    return values, float(eigenvalues[-1] / eigenvalues[0])


def _sums(grid: RankGrid, target: Metric) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return AᵀDA (m + 1, m + 1), c = AᵀD1 (m + 1,) and AᵀDb (m + 1,)."""
    size = grid.n_sampled + 1
    gram, marginal, moment = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    value = target.at_rank(grid.rank, float(grid.n_candidates))
    for rows in grid.blocks():
        law = grid.law(rows)
        weighted = law * grid.weight[rows, None]
        gram += law.T @ weighted
        marginal += weighted.sum(axis=0)
        moment += weighted.T @ value[rows]
    return gram, marginal, moment


def _least_squares(grid: RankGrid, target: Metric, *, constrained: bool) -> tuple[FloatArray, float]:
    """Return the least-squares M̂ and the condition number of D^½A."""
    size = grid.n_sampled + 1
    value = target.at_rank(grid.rank, float(grid.n_candidates))
    # Rows are folded into a triangle block by block: R has the singular values of D^½A, not their squares.
    triangle = np.zeros((0, size + 1))
    for rows in grid.blocks():
        root = np.sqrt(grid.weight[rows, None])
        block = np.concatenate([grid.law(rows) * root, value[rows, None] * root], axis=1)
        (triangle,) = qr(np.concatenate([triangle, block]), mode="r", overwrite_a=True)
        triangle = triangle[:size]  # the residual, below, is not read
    design, right = triangle[:, :size], triangle[:, size]
    singular = svdvals(design)
    least = singular[-1] if singular.size == design.shape[1] else 0.0  # fewer ranks than sampled ranks
    condition = float(singular[0] / max(least, np.finfo(float).tiny))
    if constrained:
        from scipy.optimize import nnls  # it takes longer to import than what most calls need

        # M̂ = Tδ with T upper-triangular ones and δ >= 0: non-increasing, never below 0.
        try:
            steps, _ = nnls(np.cumsum(design, axis=1), right, maxiter=20 * size)
        except RuntimeError:
            raise InputError(
                f"method 'cls' comes to no end with {grid.n_sampled} of {grid.n_candidates:,} candidates: "
                "tables that differ by rounding fit alike. Use method='bv' (variance_weight=0.01), or 'rank'."
            ) from None
        return np.cumsum(steps[::-1])[::-1], condition
    if condition > MAX_CONDITION:
        raise InputError(
            f"plain least squares is ill-conditioned here: D^½A has condition number {_shown(condition)} "
            f"with {grid.n_sampled} of {grid.n_candidates:,} candidates (limit {MAX_CONDITION:.0e}), so the "
            "answer would be noise. Use method='bv' (variance_weight=0.01) or method='cls'."
        )
    return solve_triangular(design[:size], right[:size]), condition


def _shown(condition: float) -> str:
    # float64 cannot resolve more: the singular values below are rounding.
    return f"{condition:.1e}" if condition < 1e14 else f"{condition:.1e} or more"


# Positives whose numbers of candidates differ by less than this share a law: ranks are off by half of it.
GROUP_WIDTH = 0.02
MAX_GROUPS = 16
LAST_BUT_ONE = -2  # the EM step whose distribution gives the tables of "mle", see `_posterior_means`


def fitted_correction(
    data: SampledData, target: Metric, method: str, variance_weight: float, n_iterations: int
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return M̂ (m + 1,) of the largest group, M̂(r̃) and drift (n_pos,), and the condition number."""
    # Drift: how the average moves with a positive through the fit; its influence is M̂(r̃) + drift less the
    # mean.
    if data.n_sampled > MAX_SAMPLED:
        raise InputError(
            f"the rank distribution is fitted for at most {MAX_SAMPLED:,} sampled candidates; got "
            f"{data.n_sampled:,}. Use method='rank', which is accurate for so many."
        )
    group_of, groups, weight = _groups(data, target)
    fitted = fit_rank_distribution(groups, weight, n_iterations)
    tables, by_density, condition = _tables(fitted, target, method, variance_weight)
    gradients = fitted.gradient(by_density, LAST_BUT_ONE if method == "mle" else -1)
    contributions, drift = np.empty(group_of.size), np.empty(group_of.size)
    for index, (table, gradient) in enumerate(zip(tables, gradients, strict=True)):
        rows = group_of == index
        contributions[rows] = mean_over_ties(table, data.n_above[rows], data.n_tied[rows])
        drift[rows] = mean_over_ties(gradient, data.n_above[rows], data.n_tied[rows])
    largest = int(np.argmax(np.bincount(group_of)))
    return tables[largest], contributions, drift, condition


def refitted(
    data: SampledData, target: Metric, method: str, variance_weight: float, n_iterations: int
) -> Callable[[FloatArray], float]:
    """Return a function from other shares of the positives, (n_pos,), to the estimate fitted to them."""
    group_of, groups, weight = _groups(data, target)

    def estimate(share: FloatArray) -> float:
        drawn = replace(data, share=share)
        now = [replace(one, shares=drawn.shares(group_of == k)) for k, one in enumerate(groups)]
        fitted = fit_rank_distribution(now, weight, n_iterations)
        tables, _, _ = _tables(fitted, target, method, variance_weight)
        return float(sum(one.shares @ table for one, table in zip(now, tables, strict=True)))

    return estimate


def _tables(
    fitted: RankDistribution, target: Metric, method: str, variance_weight: float
) -> tuple[list[FloatArray], FloatArray, float]:
    """Return M̂ of each group, dθ/d density (n_nodes,) and the condition number."""
    if method == "mle":
        return *_posterior_means(fitted, target), 1.0
    return _fitted_bias_variance(fitted, target, variance_weight)


def _groups(data: SampledData, target: Metric) -> tuple[IntArray, list[Group], FloatArray]:
    """Return the group of each positive, the groups with their laws, and the weights of the nodes."""
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
    return group_of, groups, grid.weight


def _values(group: Group, target: Metric) -> FloatArray:
    return target.at_rank(group.grid.rank, float(group.grid.n_candidates))


def _posterior_means(fitted: RankDistribution, target: Metric) -> tuple[list[FloatArray], FloatArray]:
    """Return E[M(r) | r̃] under the last distribution but one, whose mean over the data is Σ π(r) M(r)."""
    weights = fitted.weights(LAST_BUT_ONE)
    tables, by_density = [], np.zeros(weights.size)
    for group in fitted.groups:
        value = _values(group, target)
        expected = group.law.T @ weights
        # 0 where the distribution says that a sampled rank cannot occur: none did.
        table = ratio(group.law.T @ (weights * value), expected)
        observed = ratio(group.shares, expected)
        by_density += fitted.weight * ((group.law @ observed) * value - group.law @ (observed * table))
        tables.append(table)
    return tables, by_density


def _fitted_bias_variance(
    fitted: RankDistribution, target: Metric, g: float
) -> tuple[list[FloatArray], FloatArray, float]:
    """Return the bias–variance tables under the fitted prior, dθ/d density and the condition number."""
    # θ = Σ_k P_kᵀS_k⁻¹h_k with S = (1 − g)AᵀDA + g diag(c), h = AᵀDb; with y = S⁻¹P, dθ = yᵀ(dh − dS M̂).
    weights = fitted.weights()
    tables, by_weight, condition = [], np.zeros(weights.size), 1.0
    for group in fitted.groups:
        grid, law, value = group.grid, group.law, _values(group, target)
        own = RankGrid(grid.rank, weights, grid.n_candidates, grid.n_sampled, grid.replacement)
        values, own_condition = solve_on_grid(own, target, "bv", g)
        table = np.nan_to_num(values)
        system = (1 - g) * (law.T @ (law * weights[:, None])) + g * np.diag(law.T @ weights)
        scale = 1 / np.sqrt(np.maximum(np.diag(system), np.finfo(float).tiny))
        try:
            y = scale * np.linalg.solve(scale[:, None] * system * scale, scale * group.shares)
        except np.linalg.LinAlgError:
            raise InputError("n_candidates candidates cannot give all of these sampled ranks.") from None
        by_weight += (law @ y) * (value - (1 - g) * (law @ table)) - g * (law @ (y * table))
        tables.append(table)
        condition = max(condition, own_condition)
    return tables, fitted.weight * by_weight, condition


@dataclass(frozen=True, eq=False)
class Group:
    """Positives with about the same number of candidates: their law and what was observed of them."""

    grid: RankGrid
    law: FloatArray  # (n_nodes, m + 1)
    shares: FloatArray  # (m + 1,) observed shares of the sampled ranks; they sum to 1 over all groups


@dataclass(frozen=True, eq=False)
class RankDistribution:
    """π of all groups on the nodes of a grid; `density` has a row per EM step, Σ_j weight_j density_j = 1."""

    groups: list[Group]
    weight: FloatArray  # (n_nodes,)
    density: FloatArray  # (n_steps + 1, n_nodes)

    def weights(self, step: int = -1) -> FloatArray:
        """Return the probability of each node after a step, (n_nodes,)."""
        return np.asarray(self.weight * self.density[step], dtype=np.float64)

    def gradient(self, by_density: FloatArray, step: int) -> list[FloatArray]:
        """Return dθ/d`shares` of each group for a θ with derivative `by_density` in the density at `step`."""
        # The chain rule goes back through the steps φ ← φ∘Σ_k A_k(P_k/s_k), s_k = A_kᵀ(w∘φ): the error
        # includes the fit however many steps were made.
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
    """Return π by EM, π ← Σ_r̃ P̂(r̃) π∘A[:, r̃]/(πᵀA[:, r̃]), from the uniform one (Jin et al. 2021)."""
    # The likelihood rises in every step; stopping early keeps the estimate smooth.
    # doi:10.1609/aaai.v35i5.16537
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
