"""The law of a sampled rank, and what a metric is worth in expectation of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import gammaln, xlog1py, xlogy

from ipseval.errors import InputError
from ipseval.metrics._ties import gauss_sum
from ipseval.metrics.base import MOST, Metric
from ipseval.metrics.labels import metric as find_metric
from ipseval.utils.checks import as_float_vector, check_finite, check_positive_int, refuse_masked
from ipseval.utils.ids import by_row
from ipseval.utils.types import BoolArray, FloatArray

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
        return blocks(self.rank.size, self.n_sampled)


def blocks(n_ranks: int, n_sampled: int) -> Iterator[slice]:
    """Return slices of ranks whose law has at most `BLOCK_ENTRIES` entries, or of one rank."""
    step = max(1, BLOCK_ENTRIES // (n_sampled + 1))
    for first in range(0, n_ranks, step):
        yield slice(first, first + step)


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
        width = 2.5 * (p * (1 - p) / m) ** 0.5 * (n - 1)
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


def expected_sampled(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, metric: Any, replacement: bool = True
) -> FloatArray:
    """Return the expectation of a sampled metric for items of known exact rank, (n_ranks,).

    E[M(r̃; m + 1) | r] = Σ_i P(r̃ = i | r) M(i; m + 1), with r̃ − 1 ~ Binomial(m, (r − 1)/(n − 1)) for
    candidates drawn with replacement and hypergeometric without. Summed exactly, not simulated.

    Parameters
    ----------
    ranks : (n_ranks,) array of whole numbers
        Exact 1-based ranks, 1 … n. For a user with s relevant items of which none competes with another,
        the rank among the irrelevant items.
    n_candidates : int or (n_ranks,) array
        n, the number of candidates in the exact ranking, the positive included (n − s + 1 in that case).
    n_sampled : int
        m, the number of sampled competitors.
    metric : str, Metric, or (m + 1,) array
        Any label such as "ndcg@10"; or the values of a metric for the sampled ranks 1 … m + 1, such as those
        of a correction, `ipseval.metric("ap", sampled="cls").table(n, m)`.
    replacement : bool
        Whether candidates are drawn with replacement.

    Returns
    -------
    (n_ranks,) array
        In the unit of the metric; never NaN.

    Raises
    ------
    InputError
        For ranks that are not whole numbers in 1 … n, n < 2, m < 1, or m > n − 1 without replacement.

    References
    ----------
    Krichene & Rendle (2020), doi:10.1145/3394486.3403226

    Examples
    --------
    Rank 3 of 5, two competitors drawn: both miss the two items above with probability (1/2)².

    >>> expected_sampled([1, 3, 5], 5, 2, "recall@1")
    array([1.  , 0.25, 0.  ])
    """
    return _moments(ranks, n_candidates, n_sampled, metric, replacement)[0]


def std_sampled(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, metric: Any, replacement: bool = True
) -> FloatArray:
    """Return the standard deviation of a sampled metric over draws of the candidates, (n_ranks,).

    The mean of N items ranked against independent draws has the standard deviation √(Σ sd²)/N. Parameters and
    errors are those of `expected_sampled`.

    Examples
    --------
    >>> std_sampled([3], 5, 2, "recall@1")  # a coin with probability 1/4: √(3/16)
    array([0.4330127])
    """
    return _moments(ranks, n_candidates, n_sampled, metric, replacement)[1]


def _moments(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, metric: Any, replacement: bool
) -> tuple[FloatArray, FloatArray]:
    m = check_positive_int("n_sampled", n_sampled)
    if m > MOST:
        raise InputError(f"n_sampled must be at most {MOST:,}; got {m:,}.")
    rank, n = check_ranks(ranks, n_candidates, m, replacement)
    if isinstance(metric, (np.ndarray, list, tuple)):
        values = as_float_vector("metric (values by sampled rank)", metric, size=m + 1)
        check_finite("metric (values by sampled rank)", values)
    else:
        values = sampled_values(find_metric(metric), m)
    # Many positives share a rank: each (rank, n) is computed once.
    pairs, back = np.unique(np.stack([rank, n]), axis=1, return_inverse=True)
    mean, std = np.empty(pairs.shape[1]), np.empty(pairs.shape[1])
    for rows in blocks(pairs.shape[1], m):
        law = rank_law(pairs[0, rows], pairs[1, rows], m, replacement)
        mean[rows] = law @ values
        # Centred at the mean: E[x²] − E[x]² would lose the small variances.
        std[rows] = np.sqrt(np.einsum("ri,ri->r", law, (values - mean[rows, None]) ** 2))
    return mean[back.ravel()], std[back.ravel()]


def sampled_values(metric: Metric, n_sampled: int) -> FloatArray:
    """Return the metric on a sampled list, not corrected, for the sampled ranks 1 … m + 1, (m + 1,)."""
    return metric.at_rank(np.arange(1.0, n_sampled + 2), n_sampled + 1.0)


def check_ranks(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, replacement: bool
) -> tuple[FloatArray, FloatArray]:
    """Return ranks and n as float arrays of one shape (n_ranks,), or raise `InputError`."""
    refuse_masked(ranks, "ranks")
    rank = as_float_vector("ranks", np.atleast_1d(np.asarray(ranks)))
    n = check_sizes(by_row(n_candidates, "n_candidates", ranks), rank.size, n_sampled, replacement)
    bad = np.flatnonzero(~is_whole_rank(rank, n))
    if bad.size:
        raise InputError(
            f"ranks must be whole numbers in 1 … n_candidates; {bad.size} of {rank.size} are not "
            f"(first: rank {rank[bad[0]]:g} of {n[bad[0]]:g})."
        )
    return rank, n


def is_whole_rank(rank: FloatArray, most: FloatArray | int) -> BoolArray:
    """Return which ranks are whole numbers in 1 … `most`, (n_ranks,)."""
    return np.asarray((rank >= 1) & (rank <= most) & (rank == np.floor(rank)))


def check_sizes(n_candidates: npt.ArrayLike, size: int, n_sampled: int, replacement: bool) -> FloatArray:
    """Return n as a float array (size,), or raise `InputError` when m and n do not go together."""
    given = np.asarray(n_candidates)
    if given.ndim > 1 or (given.ndim == 1 and given.size != size):
        raise InputError(f"n_candidates must be one number or {size}, one per rank; got shape {given.shape}.")
    if given.dtype.kind not in "iu" and not (
        given.dtype.kind == "f" and (given == np.floor(given)).all() and np.isfinite(given).all()
    ):
        raise InputError(f"n_candidates must be whole numbers; got {n_candidates!r:.80}.")
    n = np.broadcast_to(given.astype(np.float64), (size,))
    low = 2 if replacement else n_sampled + 1
    if size and n.min() < low:
        reason = "" if replacement or low == 2 else f" to draw {n_sampled} others without replacement"
        raise InputError(f"n_candidates must be >= {low}{reason}; the smallest is {n.min():g}.")
    return n


MOST_RANKS = 2000


def rank_curves(
    metrics: Iterable[Any],
    n_candidates: int,
    n_sampled: Iterable[int] = (10, 100, 1000),
    *,
    replacement: bool = True,
) -> pd.DataFrame:
    """Return metrics as functions of the exact rank, and their expectation under sampled candidates.

    The figures of Krichene & Rendle: an exact top-k metric falls to nothing after the head of the list; its
    sampled counterpart hardly tells the head from the middle, and the fewer candidates, the more it is a
    straight line, which is AUC.

    Parameters
    ----------
    metrics : labels or Metric objects
        Functions of the rank of one relevant item.
    n_candidates : int
        n, the positive included.
    n_sampled : ints
        Numbers m of sampled competitors.
    replacement : bool
        Whether candidates are drawn with replacement.

    Returns
    -------
    DataFrame
        metric, n_sampled (0: all candidates), rank, value; at most 2,000 ranks, evenly spaced on a
        logarithmic scale beyond.

    Raises
    ------
    InputError
        For no metric, n < 2, m < 1, and a metric that is not a function of one rank.

    References
    ----------
    Krichene & Rendle (2020), doi:10.1145/3394486.3403226

    Examples
    --------
    Among two drawn of four others, rank 3 of 5 is first with probability (1/2)².

    >>> rank_curves(["recall@1"], 5, [2]).query("rank == 3")["value"].tolist()
    [0.0, 0.25]
    """
    n = check_positive_int("n_candidates", n_candidates, minimum=2)
    chosen = [find_metric(one) for one in ([metrics] if isinstance(metrics, str) else metrics)]
    sizes = [check_positive_int("n_sampled", m) for m in n_sampled]
    if not chosen:
        raise InputError("metrics is empty; give at least one.")
    ranks = np.arange(1, n + 1)
    if n > MOST_RANKS:
        ranks = np.unique(np.rint(np.geomspace(1, n, MOST_RANKS)).astype(np.int64))
    parts = []
    for one in chosen:
        values = {0: one.at_rank(ranks.astype(np.float64), float(n))}
        for m in sizes:
            values[m] = expected_sampled(ranks, n, m, one, replacement)
        parts += [
            pd.DataFrame({"metric": one.label, "n_sampled": m, "rank": ranks, "value": value})
            for m, value in values.items()
        ]
    return pd.concat(parts, ignore_index=True)
