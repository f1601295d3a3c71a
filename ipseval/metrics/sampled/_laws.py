"""The law of a sampled rank given the exact rank, and sums over all exact ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from ipseval._base.types import FloatArray
from ipseval.metrics._quadrature import gauss_sum

# Up to this many entries of the n × (m + 1) law are summed term by term; above, quadrature is faster and
# agrees to 1e-11 (tests).
EXACT_ENTRIES = 200_000
BLOCK_ENTRIES = 2_000_000
NODES = 16


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
        return rank_law(rank, np.full(rank.size, float(self.n_candidates)), self.n_sampled, self.replacement)

    def blocks(self) -> Iterator[slice]:
        """Return slices of nodes whose law has at most `BLOCK_ENTRIES` entries."""
        step = max(1, BLOCK_ENTRIES // (self.n_sampled + 1))
        for first in range(0, self.rank.size, step):
            yield slice(first, min(first + step, self.rank.size))


def rank_grid(
    n: int, m: int, replacement: bool, *, cutoff: int | None = None, prior: FloatArray | None = None
) -> RankGrid:
    """Return the grid for sums over the ranks 1 … n, under `prior` (n,), p(r), or the uniform 1/n."""
    # Panels at most double, are no wider than a few standard deviations of the law, and end at the cutoff. A
    # panel of more than 16 ranks has the 16 nodes of a Gauss rule for sums over integers, exact up to degree
    # 31.
    if prior is not None or n * (m + 1) <= EXACT_ENTRIES:
        rank = np.arange(1.0, n + 1)
        weight = np.full(n, 1 / n) if prior is None else prior
        return RankGrid(rank, weight, n, m, replacement)
    nodes, weights = [], []
    for first, size in _panels(n, m, replacement, cutoff):
        node, weight = gauss_sum(size, NODES)
        nodes.append(first + node)
        weights.append(weight / n)
    return RankGrid(np.concatenate(nodes), np.concatenate(weights), n, m, replacement)


def _panels(n: int, m: int, replacement: bool, cutoff: int | None) -> Iterator[tuple[int, int]]:
    """Return (first rank, number of ranks) of the panels that tile 1 … n."""
    # Between integers the hypergeometric law is a law only where r − 1 >= m and n − r >= m.
    head, tail = (0, n) if replacement else (m, n - m)
    stops = [stop for stop in (head, tail, cutoff) if stop is not None]
    first = 1
    while first <= n:
        p = (first - 1) / (n - 1)
        # The integrands are products of two laws: bumps of standard deviation √(p(1 − p)/2m).
        width = max(2 / m, 2.5 * (p * (1 - p) / m) ** 0.5) * (n - 1)
        size = max(NODES, int(min(first, width)))
        if first <= head or first > tail:
            size = NODES
        last = min(first + size - 1, n)
        last = min([last, *(stop for stop in stops if first <= stop < last)])
        yield first, last - first + 1
        first = last + 1


def rank_law(ranks: FloatArray, n_candidates: FloatArray, n_sampled: int, replacement: bool) -> FloatArray:
    """Return A[r, i] = P(r̃ = i | r), (n_ranks, m + 1), column i − 1 for the sampled rank i = 1 … m + 1."""
    # With replacement r̃ − 1 ~ Binomial(m, (r − 1)/(n − 1)); without, hypergeometric, which takes ranks
    # between integers only where r − 1 >= m and n − r >= m.
    if replacement:
        return _binomial((ranks - 1) / (n_candidates - 1), n_sampled)
    return _hypergeometric(ranks - 1, n_candidates - ranks, n_sampled)


def _binomial(p: FloatArray, m: int) -> FloatArray:
    j = np.arange(m + 1.0)
    log_choose = gammaln(m + 1.0) - gammaln(j + 1) - gammaln(m - j + 1)
    # xlogy and xlog1py give 0·log 0 = 0, so p = 0 and p = 1 need no special case.
    log_pmf = xlogy(j, p[:, None])
    log_pmf += xlog1py(m - j, -p[:, None])
    log_pmf += log_choose
    return np.asarray(np.exp(log_pmf, out=log_pmf), dtype=np.float64)


def _hypergeometric(above: FloatArray, below: FloatArray, m: int) -> FloatArray:
    """Return C(above, j) C(below, m − j) / C(above + below, m) for j = 0 … m."""
    # By sums of logarithms: at 10⁷ candidates a difference of log-gammas would lose eight digits.
    j = np.arange(m + 1.0)
    log_choose = gammaln(m + 1.0) - gammaln(j + 1) - gammaln(m - j + 1)
    log_pmf = _log_falling(above, m)
    log_pmf += _log_falling(below, m)[:, ::-1]
    log_pmf += log_choose
    log_pmf -= _log_falling(above + below, m)[:, -1:]
    return np.asarray(np.exp(log_pmf, out=log_pmf), dtype=np.float64)


def _log_falling(a: FloatArray, m: int) -> FloatArray:
    """Return log a(a − 1)…(a − j + 1) for j = 0 … m, (n, m + 1); −inf where the product reaches 0."""
    out = np.zeros((a.size, m + 1))
    with np.errstate(divide="ignore"):
        np.log(np.maximum(a[:, None] - np.arange(m), 0.0), out=out[:, 1:])
    return np.cumsum(out, axis=1, out=out)
