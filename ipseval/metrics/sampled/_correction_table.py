"""Correction tables for a given prior: the value M̂(r̃) for every sampled rank.

With A[r, i] = P(r̃ = i | r), D = diag(p) for the prior p, b[r] = M(r) and c[i] = Σ_r p(r) A[r, i], the methods
solve for M̂ as the documentation of `SampledMetric.table` says.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, qr, solve_triangular, svdvals

from ipseval.errors import InputError
from ipseval.metrics.base import Metric
from ipseval.metrics.sampled._rank_law import RankGrid, build_rank_grid
from ipseval.utils.checks import as_float_vector, check_choice, check_finite, check_positive_int
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.types import FloatArray, IntArray

TABLE_METHODS = ("rank", "bv", "cls", "ls")
# Beyond this, ordinary least squares amplifies the noise of the sampled ranks ten-million-fold.
MAX_CONDITION = 1e7
MIN_VARIANCE_WEIGHT = 1e-10
MAX_SAMPLED = 5_000
# Number of sampled candidates below which more BLAS threads are slower than one.
MIN_PARALLEL_SAMPLED = 500
# float64 cannot resolve a larger condition number: the smallest singular values are rounding errors.
MAX_RESOLVED_CONDITION = 1e14


def average_tied_values(values: FloatArray, n_above: IntArray, n_tied: IntArray | int) -> FloatArray:
    """Return the mean of `values[n_above : n_above + n_tied + 1]` for each positive."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    size = np.asarray(n_tied) + 1
    mean = (total[n_above + size] - total[n_above]) / size
    # Differences of a running sum have its rounding error, so that untied values are read directly.
    return np.where(size == 1, values[n_above], mean)


def compute_correction_table(
    n_candidates: int,
    n_sampled: int,
    target: Metric,
    method: str,
    *,
    replacement: bool = True,
    variance_weight: float = 0.01,
    prior: npt.ArrayLike | str | None = None,
) -> tuple[FloatArray, float]:
    """Return the table M̂(r̃), (m + 1,), of `SampledMetric.table`, and the condition number of its system."""
    check_choice("method", method, TABLE_METHODS)
    n = check_positive_int("n_candidates", n_candidates, minimum=2)
    m = check_positive_int("n_sampled", n_sampled)
    if not replacement and m > n - 1:
        raise InputError(f"cannot draw {m} of {n - 1} other candidates without replacement.")
    if method == "rank":
        rank = 1 + (n - 1) * np.arange(m + 1.0) / m
        return target.value_at_rank(rank, float(n)), 1.0
    if m > MAX_SAMPLED:
        raise InputError(
            f"method {method!r} solves a system of size n_sampled + 1 = {m + 1:,}, more than "
            f"{MAX_SAMPLED + 1:,}; use method='rank', which is accurate for so many candidates."
        )
    if isinstance(prior, str):
        check_choice("prior", prior, ("uniform",))
        prior = None
    rank_probability = None
    if prior is not None:
        rank_probability = check_prior(prior, n)
    grid = build_rank_grid(n, m, replacement, cutoff=target.cutoff, prior=rank_probability)
    return solve_on_grid(grid, target, method, variance_weight)


def solve_on_grid(
    grid: RankGrid, target: Metric, method: str, variance_weight: float
) -> tuple[FloatArray, float]:
    """Return the "bv", "cls" or "ls" table for the prior in the grid's weights, and its condition number."""
    thread_limit: AbstractContextManager[None] = nullcontext()
    if grid.n_sampled < MIN_PARALLEL_SAMPLED:
        thread_limit = one_blas_thread()
    with thread_limit:
        if method == "bv":
            return _solve_bias_variance(grid, target, variance_weight)
        return _solve_least_squares(grid, target, is_constrained=method == "cls")


def check_prior(prior: npt.ArrayLike, n: int) -> FloatArray:
    """Return the prior (n,) normalised to sum 1, or raise `InputError`."""
    p = as_float_vector("prior", prior)
    if p.shape != (n,):
        raise InputError(f"prior must give p(r) for each of the {n} ranks; got shape {p.shape}.")
    check_finite("prior", p)
    if (p < 0).any() or p.sum() <= 0:
        raise InputError(f"prior must be >= 0 with a positive sum; {int((p < 0).sum())} entries are below 0.")
    return np.asarray(p / p.sum(), dtype=np.float64)


def _solve_bias_variance(grid: RankGrid, target: Metric, g: float) -> tuple[FloatArray, float]:
    """Return the solution of ((1 − g) AᵀDA + g diag(c)) M̂ = AᵀD b, and the condition number."""
    _check_variance_weight(g)
    gram, marginal, moment = _accumulate_normal_equations(grid, target)
    is_possible = marginal > 0
    if not is_possible.all():
        gram = gram[np.ix_(is_possible, is_possible)]
        moment = moment[is_possible]
    # In units of √c the matrix is (1 − g)K + g·I, and the eigenvalues of K are in [0, 1]: the condition
    # number is at most 1/g.
    scale = 1 / np.sqrt(marginal[is_possible])
    system = (1 - g) * scale[:, None] * gram * scale + g * np.eye(scale.size)
    eigenvalues = np.linalg.eigvalsh(system)
    values = np.full(marginal.size, np.nan)  # NaN for a sampled rank that cannot occur under the prior
    values[is_possible] = scale * cho_solve(cho_factor(system), scale * moment)
    return values, float(eigenvalues[-1] / eigenvalues[0])


def _check_variance_weight(g: float) -> None:
    """Raise `InputError` for a weight outside (0, 1], or one that makes the system unsolvable."""
    if not 0 <= g <= 1:
        raise InputError(f"variance_weight must be in (0, 1]; got {g!r}.")
    if g < MIN_VARIANCE_WEIGHT:
        condition = float("inf")
        if g > 0:
            condition = 1 / g
        raise InputError(
            f"variance_weight={g:g} leaves a system with condition number of about {condition:.1e}, which "
            f"float64 cannot solve; use variance_weight >= {MIN_VARIANCE_WEIGHT:g} (0.01 is common), or "
            "method='cls'."
        )


def _accumulate_normal_equations(grid: RankGrid, target: Metric) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return AᵀDA (m + 1, m + 1), c = AᵀD1 (m + 1,) and AᵀDb (m + 1,)."""
    size = grid.n_sampled + 1
    gram = np.zeros((size, size))
    marginal = np.zeros(size)
    moment = np.zeros(size)
    value = target.value_at_rank(grid.rank, float(grid.n_candidates))
    for rows in grid.blocks():
        law = grid.law(rows)
        weighted = law * grid.weight[rows, None]
        gram += law.T @ weighted
        marginal += weighted.sum(axis=0)
        moment += weighted.T @ value[rows]
    return gram, marginal, moment


def _solve_least_squares(grid: RankGrid, target: Metric, *, is_constrained: bool) -> tuple[FloatArray, float]:
    """Return the least-squares M̂ and the condition number of D^½A."""
    design, response = _reduce_to_triangle(grid, target)
    singular_values = svdvals(design)
    smallest = 0.0
    if singular_values.size == design.shape[1]:  # else there are fewer ranks than sampled ranks
        smallest = singular_values[-1]
    condition = float(singular_values[0] / max(smallest, np.finfo(float).tiny))
    if is_constrained:
        return _solve_nonincreasing(design, response, grid), condition
    if condition > MAX_CONDITION:
        raise InputError(
            "plain least squares is ill-conditioned here: D^½A has condition number "
            f"{_format_condition(condition)} with {grid.n_sampled} of {grid.n_candidates:,} candidates "
            f"(limit {MAX_CONDITION:.0e}), so the answer would be noise. Use method='bv' "
            "(variance_weight=0.01) or method='cls'."
        )
    size = grid.n_sampled + 1
    return solve_triangular(design[:size], response[:size]), condition


def _reduce_to_triangle(grid: RankGrid, target: Metric) -> tuple[FloatArray, FloatArray]:
    """Return R (k, m + 1) and Qᵀb (k,) of the QR decomposition of D^½A, with k <= m + 1."""
    size = grid.n_sampled + 1
    value = target.value_at_rank(grid.rank, float(grid.n_candidates))
    # Rows are folded into a triangle block by block. R has the singular values of D^½A, while AᵀDA would have
    # their squares.
    triangle = np.zeros((0, size + 1))
    for rows in grid.blocks():
        root = np.sqrt(grid.weight[rows, None])
        block = np.concatenate([grid.law(rows) * root, value[rows, None] * root], axis=1)
        (triangle,) = qr(np.concatenate([triangle, block]), mode="r", overwrite_a=True)
        triangle = triangle[:size]  # the row below is the residual
    return triangle[:, :size], triangle[:, size]


def _solve_nonincreasing(design: FloatArray, response: FloatArray, grid: RankGrid) -> FloatArray:
    """Return the least-squares M̂ that is non-increasing and >= 0."""
    from scipy.optimize import nnls  # its import takes longer than most calls need

    # M̂ = Tδ, with T upper-triangular ones and δ >= 0.
    try:
        steps, _ = nnls(np.cumsum(design, axis=1), response, maxiter=20 * (grid.n_sampled + 1))
    except RuntimeError:
        raise InputError(
            f"method 'cls' does not converge with {grid.n_sampled} of {grid.n_candidates:,} candidates, "
            "because tables that differ by rounding errors fit equally well. Use method='bv' "
            "(variance_weight=0.01), or 'rank'."
        ) from None
    return np.cumsum(steps[::-1])[::-1]


def _format_condition(condition: float) -> str:
    text = f"{condition:.1e}"
    if condition < MAX_RESOLVED_CONDITION:
        return text
    return f"{text} or more"


def compute_sampled_values(metric: Metric, n_sampled: int) -> FloatArray:
    """Return the uncorrected metric of a sampled list for the sampled ranks 1 … m + 1, (m + 1,)."""
    return metric.value_at_rank(np.arange(1.0, n_sampled + 2), n_sampled + 1.0)
