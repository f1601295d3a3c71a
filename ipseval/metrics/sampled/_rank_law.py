"""The law of a sampled rank: P(r̃ | r) for the rank r among n candidates and r̃ among m sampled ones.

The positive with exact rank r is ranked among m competitors that are drawn from the n − 1 other candidates.
Its sampled rank r̃ is in 1 … m + 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from ipseval.metrics._order_statistics import compute_gauss_rule
from ipseval.utils.types import FloatArray

# Sums over up to this many entries of the n × (m + 1) law are exact. Beyond, quadrature is faster and agrees
# to 1e-11 (tests).
MAX_EXACT_ENTRIES = 200_000
BLOCK_ENTRIES = 2_000_000
N_NODES = 16


@dataclass(frozen=True)
class RankGrid:
    """Ranks and weights with Σ_r p(r) f(r) ≈ Σ_j weight_j f(rank_j); exact where every rank is a node."""

    rank: FloatArray  # (n_nodes,)
    weight: FloatArray  # (n_nodes,)
    n_candidates: int  # n
    n_sampled: int  # m
    replacement: bool  # the law of the sampled rank

    def law(self, rows: slice = slice(None)) -> FloatArray:
        """Return P(r̃ | r) at the nodes, (n_nodes, m + 1)."""
        rank = self.rank[rows]
        return compute_rank_law(
            rank, np.full(rank.size, float(self.n_candidates)), self.n_sampled, self.replacement
        )

    def blocks(self) -> Iterator[slice]:
        """Return slices of nodes with at most `BLOCK_ENTRIES` entries of the law."""
        return split_ranks(self.rank.size, self.n_sampled)


def split_ranks(n_ranks: int, n_sampled: int) -> Iterator[slice]:
    """Return slices of ranks with at most `BLOCK_ENTRIES` entries of the law, or one rank."""
    step = max(1, BLOCK_ENTRIES // (n_sampled + 1))
    for first in range(0, n_ranks, step):
        yield slice(first, first + step)


def build_rank_grid(
    n: int, m: int, replacement: bool, *, cutoff: int | None = None, prior: FloatArray | None = None
) -> RankGrid:
    """Return the grid for sums over the ranks 1 … n, with weights p(r) of `prior` (n,) or 1/n."""
    if prior is not None or n * (m + 1) <= MAX_EXACT_ENTRIES:
        weight = prior
        if weight is None:
            weight = np.full(n, 1 / n)
        rank = np.arange(1.0, n + 1)
    else:
        rank, weight = _compute_quadrature(n, m, replacement, cutoff)
    return RankGrid(rank=rank, weight=weight, n_candidates=n, n_sampled=m, replacement=replacement)


def _compute_quadrature(
    n: int, m: int, replacement: bool, cutoff: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for means over the ranks 1 … n."""
    # A panel of more than 16 ranks has the 16 nodes of a Gauss rule for sums over integers, which is exact up
    # to degree 31.
    nodes = []
    weights = []
    for first, size in _split_panels(n, m, replacement, cutoff):
        node, weight = compute_gauss_rule(size, N_NODES)
        nodes.append(first + node)
        weights.append(weight / n)
    return np.concatenate(nodes), np.concatenate(weights)


def _split_panels(n: int, m: int, replacement: bool, cutoff: int | None) -> Iterator[tuple[int, int]]:
    """Return (first rank, number of ranks) of the panels that cover 1 … n."""
    # Panels at most double in size, are no wider than a few standard deviations of the law, and end at the
    # cutoff. Between integers the hypergeometric law is defined only where r − 1 >= m and n − r >= m.
    head = 0
    tail = n
    if not replacement:
        head = m
        tail = n - m
    stops = [head, tail]
    if cutoff is not None:
        stops.append(cutoff)
    first = 1
    while first <= n:
        p = (first - 1) / (n - 1)
        # The integrands are products of two laws, which are bumps of standard deviation √(p(1 − p)/2m).
        width = 2.5 * (p * (1 - p) / m) ** 0.5 * (n - 1)
        size = max(N_NODES, int(min(first, width)))
        if first <= head or first > tail:
            size = N_NODES
        last = min(first + size - 1, n)
        for stop in stops:
            if first <= stop < last:
                last = stop
        yield first, last - first + 1
        first = last + 1


def compute_rank_law(
    ranks: FloatArray, n_candidates: FloatArray, n_sampled: int, replacement: bool
) -> FloatArray:
    """Return A[r, i] = P(r̃ = i | r), (n_ranks, m + 1), column i − 1 for the sampled rank i = 1 … m + 1."""
    # With replacement r̃ − 1 ~ Binomial(m, (r − 1)/(n − 1)). Without, it is hypergeometric, which is defined
    # for ranks between integers only where r − 1 >= m and n − r >= m.
    if replacement:
        return _binomial_law((ranks - 1) / (n_candidates - 1), n_sampled)
    return _hypergeometric_law(ranks - 1, n_candidates - ranks, n_sampled)


def _binomial_law(p: FloatArray, m: int) -> FloatArray:
    """Return C(m, j) p^j (1 − p)^(m − j) for j = 0 … m, (p.size, m + 1)."""
    j = np.arange(m + 1.0)
    log_choose = gammaln(m + 1.0) - gammaln(j + 1) - gammaln(m - j + 1)
    # xlogy and xlog1py give 0·log 0 = 0, so p = 0 and p = 1 need no special case.
    log_pmf = xlogy(j, p[:, None])
    log_pmf += xlog1py(m - j, -p[:, None])
    log_pmf += log_choose
    return np.asarray(np.exp(log_pmf, out=log_pmf), dtype=np.float64)


def _hypergeometric_law(n_above: FloatArray, n_below: FloatArray, m: int) -> FloatArray:
    """Return C(above, j) C(below, m − j) / C(above + below, m) for j = 0 … m."""
    # Sums of logarithms: at 10⁷ candidates a difference of log-gammas would lose eight digits.
    j = np.arange(m + 1.0)
    log_choose = gammaln(m + 1.0) - gammaln(j + 1) - gammaln(m - j + 1)
    log_pmf = _log_falling_factorials(n_above, m)
    log_pmf += _log_falling_factorials(n_below, m)[:, ::-1]
    log_pmf += log_choose
    log_pmf -= _log_falling_factorials(n_above + n_below, m)[:, -1:]
    return np.asarray(np.exp(log_pmf, out=log_pmf), dtype=np.float64)


def _log_falling_factorials(a: FloatArray, m: int) -> FloatArray:
    """Return log a(a − 1)…(a − j + 1) for j = 0 … m, (n, m + 1); −inf where the product reaches 0."""
    logarithms = np.zeros((a.size, m + 1))
    with np.errstate(divide="ignore"):
        np.log(np.maximum(a[:, None] - np.arange(m), 0.0), out=logarithms[:, 1:])
    return np.cumsum(logarithms, axis=1, out=logarithms)
