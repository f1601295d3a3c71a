"""Adaptive sampling: more candidates only for positives that no sampled candidate has beaten yet."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from ipseval._checks import as_generator, check_positive_int
from ipseval._compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval._types import FloatArray, IntArray, RngLike
from ipseval.errors import InputError
from ipseval.metrics import metric as find_metric
from ipseval.ranking import SampledCandidates, rank_positives
from ipseval.splits import Split

MOST_ENTRIES = 200_000_000


@dataclass(frozen=True, eq=False)
class AdaptiveEstimate:
    """A top-k metric from sampled candidates whose number grew where it had to.

    Attributes
    ----------
    estimate, standard_error : float
        Mean over positives of the metric of one relevant item, and its error over users and draws (refits in
        resampled users); what is left of the bias is not in it.
    metric : str
    n_sampled : (n_pos,) int array
        Candidates drawn for each positive.
    n_above : (n_pos,) int array
        Of the last stage's candidates, those scored above the positive.
    n_settled : int
        Positives that some candidate has beaten; the others reached `n_max`.
    rank_distribution : (n,) array
        Fitted π(R), the share of positives at each exact rank.
    """

    estimate: float
    standard_error: float
    metric: str
    n_sampled: IntArray
    n_above: IntArray
    n_settled: int
    rank_distribution: FloatArray

    def __repr__(self) -> str:
        return (
            f"AdaptiveEstimate({self.metric} = {self.estimate:.4f} ± {self.standard_error:.4f}; "
            f"{self.n_sampled.mean():.0f} candidates per positive, {self.n_settled:,} of "
            f"{self.n_sampled.size:,} positives settled)"
        )


def adaptive_sampled(
    model: Any,
    split: Split,
    metric: Any = "recall@10",
    *,
    n_initial: int = 50,
    n_max: int = 1600,
    n_resamples: int = 50,
    n_iterations: int = 200,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> AdaptiveEstimate:
    """Return a top-k metric of one relevant item from adaptively sampled candidates.

    Every positive meets `n_initial` candidates drawn with replacement. Where none of them is scored above it,
    as many are drawn again, so that their number doubles, until one is or `n_max` is reached. A fixed number
    of candidates says nothing about ranks below n/m (the blind spot of small k); here those positives get
    them. With p = (R − 1)/(n − 1), a positive that stopped after m candidates, of which a among the last h
    were above, has the likelihood C(h, a) p^a (1 − p)^(m − a). The distribution π(R) of exact ranks is fitted
    by EM, and the estimate is Σ π(R) M(R).

    Parameters
    ----------
    model : scorer
        As in `rank_positives`. Tied candidates count ½ at random.
    split : Split
    metric : label or Metric
        A function of the rank of one relevant item.
    n_initial, n_max : int
    n_resamples, n_iterations : int
        Of the users for the standard error (0: NaN), and of EM.
    rng : int, Generator or None
    compute : ComputeOptions

    Raises
    ------
    InputError
        For n_max < n_initial, a metric that is not a function of one rank, and more than 2·10⁸ positives ×
        ranks.

    References
    ----------
    Li, Jin, Liu, Ren, Gao and Liu, Towards Reliable Item Sampling for Recommendation Evaluation, AAAI 2023,
    doi:10.1609/aaai.v37i4.25561
    """
    target = find_metric(metric)
    check_positive_int("n_initial", n_initial)
    check_positive_int("n_resamples", n_resamples, minimum=0)
    check_positive_int("n_iterations", n_iterations)
    if check_positive_int("n_max", n_max) < n_initial:
        raise InputError(f"n_max must be at least n_initial = {n_initial}; got {n_max}.")
    generator = as_generator(rng)
    drawn, last, above, n, user = _staged(model, split, n_initial, n_max, generator, compute)
    table = _likelihood(drawn, last, above, n)
    values = target.at_rank(np.arange(1.0, table.shape[1] + 1), float(n.max()))
    share = _fitted(table, np.ones(len(table)), n_iterations)
    users, place = np.unique(user, return_inverse=True)
    again = []
    for _ in range(n_resamples):
        times = np.bincount(generator.integers(0, users.size, users.size), minlength=users.size)
        again.append(float(_fitted(table, times[place].astype(np.float64), n_iterations, share) @ values))
    error = float(np.std(again, ddof=1)) if n_resamples > 1 else np.nan
    settled = int((above > 0).sum())
    return AdaptiveEstimate(float(share @ values), error, target.label, drawn, above, settled, share)


def _staged(
    model: Any,
    split: Split,
    n_initial: int,
    n_max: int,
    generator: np.random.Generator,
    compute: ComputeOptions,
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return, per positive: candidates drawn, those of the last stage, how many above, n, and the user."""
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
            warnings.simplefilter(
                "ignore"
            )  # that metrics of sampled ranks need a correction, as they get here
            ranked = rank_positives(model, part, candidates=scheme, compute=compute)
        assert ranked.sampling is not None
        rows = order[np.searchsorted(keys, ranked.user * np.int64(split.n_items) + ranked.item)]
        tied = generator.binomial(ranked.n_tied, 0.5)
        above[rows], last[rows] = ranked.n_above + tied, size
        drawn[rows] += size
        n[rows] = ranked.sampling.n_candidates
        waiting = rows[(above[rows] == 0) & (2 * drawn[rows] <= n_max)]
        size = int(drawn[waiting[0]]) if waiting.size else size
    return drawn, last, above, n, test.user


def _likelihood(drawn: IntArray, last: IntArray, above: IntArray, n: IntArray) -> FloatArray:
    """Return the likelihood of what each positive met, for every rank R = 1 … n, scaled by rows."""
    if drawn.size * int(n.max()) > MOST_ENTRIES:
        raise InputError(
            f"{drawn.size:,} positives × {int(n.max()):,} ranks are too many; evaluate a sample of the users."
        )
    rank = np.arange(1, int(n.max()) + 1)
    chance = (rank - 1) / (n[:, None] - 1)
    inside = chance <= 1
    chance = np.minimum(chance, 1.0)
    a, m, h = above[:, None], drawn[:, None], last[:, None]
    ways = gammaln(h + 1) - gammaln(a + 1) - gammaln(h - a + 1)
    logs = np.where(inside, ways + xlogy(a, chance) + xlog1py(m - a, -chance), -np.inf)
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _fitted(
    table: FloatArray, weights: FloatArray, n_iterations: int, start: FloatArray | None = None
) -> FloatArray:
    """Return π(R) by EM: π ← Σ_i w_i π L_i / (L_i π), normalised."""
    share = np.full(table.shape[1], 1 / table.shape[1]) if start is None else 0.99 * start + 0.01 / start.size
    for _ in range(n_iterations if start is None else max(n_iterations // 5, 1)):
        # einsum, unlike a BLAS product, adds up in the same order whatever the number of threads.
        fit = np.einsum("ir,r->i", table, share)
        share = share * np.einsum("i,ir->r", weights / fit, table) / weights.sum()
    return np.asarray(share / share.sum())
