"""Sums over all n ranks: term by term when n is small, by Gauss quadrature on the integers when it is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ipseval._quadrature import gauss_sum
from ipseval._types import FloatArray
from ipseval.sampled_metrics._laws import rank_law

# Up to this many entries of the n × (m + 1) law are summed term by term; above, quadrature is faster and
# agrees to 1e-11 (tests).
EXACT_ENTRIES = 200_000
BLOCK_ENTRIES = 2_000_000
NODES = 16


@dataclass(frozen=True)
class RankGrid:
    """Ranks and weights with Σ_r p(r) f(r) ≈ Σ_j weight_j f(rank_j); exact where every rank is a node.

    Attributes
    ----------
    rank, weight : (n_nodes,) float arrays
    n_candidates, n_sampled : int
        n and m.
    replacement : bool
        The law of the sampled rank.
    """

    rank: FloatArray
    weight: FloatArray
    n_candidates: int
    n_sampled: int
    replacement: bool

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
    n_candidates: int,
    n_sampled: int,
    replacement: bool,
    *,
    cutoff: int | None = None,
    prior: FloatArray | None = None,
) -> RankGrid:
    """Return the grid for sums over the ranks 1 … n.

    A given prior (n,) or a small problem uses every rank. Otherwise the ranks are cut into panels that at
    most double, are never wider than a few standard deviations of the law, and end at the metric's cutoff;
    a panel of at most 16 ranks keeps them all, a longer one gets the 16 nodes of the Gauss rule for the
    *sum over its integers* (exact for polynomials up to degree 31 in the rank). So the head of the ranking,
    where recall@k and AP change fast, is summed term by term.

    Parameters
    ----------
    prior : (n,) float array or None
        p(r), summing to 1. None: uniform, 1/n.
    """
    n, m = n_candidates, n_sampled
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
