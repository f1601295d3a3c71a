"""Adaptive sampling (Li et al., AAAI 2023, doi:10.1609/aaai.v37i4.25561).

More candidates are drawn only for positives that no candidate has beaten yet.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlog1py, xlogy

import ipseval
from ipseval import SampledCandidates, Split, rank_positives

Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


def adaptive_sampled(
    model: Any,
    split: Split,
    metric: str,
    *,
    n_initial: int = 50,
    n_max: int = 1600,
    n_iterations: int = 200,
    rng: int = 0,
) -> tuple[float, Counts]:
    """Return a metric of one relevant item, and the candidates drawn for each positive.

    Every positive meets `n_initial` candidates. Where none is above it, as many are drawn again, up to
    `n_max`. With p = (R − 1)/(n − 1), m candidates of which a among the last h were above have the likelihood
    C(h, a) p^a (1 − p)^(m − a). The law π(R) of exact ranks is fitted by EM; the estimate is Σ π(R) M(R).
    """
    drawn, last, above, n = stages(model, split, n_initial, n_max, np.random.default_rng(rng))
    law = fitted(likelihood(drawn, last, above, n), n_iterations)
    values = ipseval.metric(metric).value_at_rank(np.arange(1.0, law.size + 1), float(n.max()))
    return float(law @ values), drawn


def stages(
    model: Any, split: Split, n_initial: int, n_max: int, generator: np.random.Generator
) -> tuple[Counts, Counts, Counts, Counts]:
    """Return, per positive: candidates drawn, those of the last stage, how many above, n."""
    test = split.test
    drawn = np.zeros(len(test), dtype=np.int64)
    last, above, n = np.zeros_like(drawn), np.zeros_like(drawn), np.zeros_like(drawn)
    order = np.argsort(test.pair_key)
    keys = test.pair_key[order]
    waiting, size = np.arange(len(test)), n_initial
    while waiting.size:
        part = Split(split.train, test.select(np.sort(waiting)), seen=split.seen)
        seed = int(generator.integers(2**31))
        scheme = SampledCandidates(size, per="positive", replacement=True, rng=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # metrics of sampled ranks need a correction: they get it here
            ranked = rank_positives(model, part, candidates=scheme)
        assert ranked.sampling is not None
        rows = order[np.searchsorted(keys, ranked.user * np.int64(split.n_items) + ranked.item)]
        above[rows], last[rows] = ranked.n_above + generator.binomial(ranked.n_tied, 0.5), size
        drawn[rows] += size
        n[rows] = ranked.sampling.n_candidates
        waiting = rows[(above[rows] == 0) & (2 * drawn[rows] <= n_max)]
        size = int(drawn[waiting[0]]) if waiting.size else size
    return drawn, last, above, n


def likelihood(drawn: Counts, last: Counts, above: Counts, n: Counts) -> Values:
    """Return the likelihood of what each positive met, for every rank R = 1 … n, scaled by rows."""
    chance = np.arange(int(n.max())) / (n[:, None] - 1)
    inside = chance <= 1
    chance = np.minimum(chance, 1.0)
    a, m, h = above[:, None], drawn[:, None], last[:, None]
    ways = gammaln(h + 1) - gammaln(a + 1) - gammaln(h - a + 1)
    logs = np.where(inside, ways + xlogy(a, chance) + xlog1py(m - a, -chance), -np.inf)
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def fitted(table: Values, n_iterations: int) -> Values:
    """Return π(R) by EM: π ← mean_i π L_i / (L_i π)."""
    law = np.full(table.shape[1], 1 / table.shape[1])
    for _ in range(n_iterations):
        # einsum, unlike a BLAS product, adds up in the same order whatever the number of threads.
        fit = np.einsum("ir,r->i", table, law)
        law = law * np.einsum("i,ir->r", 1 / fit, table) / len(table)
    return np.asarray(law / law.sum())
