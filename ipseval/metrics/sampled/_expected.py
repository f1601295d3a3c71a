"""What sampling does to a metric: exact expectation and standard deviation given the exact rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ipseval._base.checks import as_float_vector, check_finite, check_positive_int, refuse_masked
from ipseval._base.ids import by_row
from ipseval._base.types import FloatArray
from ipseval.errors import InputError
from ipseval.metrics._base import MOST, Metric
from ipseval.metrics._labels import metric as find_metric
from ipseval.metrics.sampled._laws import BLOCK_ENTRIES, rank_law


def expected_sampled(
    ranks: npt.ArrayLike,
    n_candidates: npt.ArrayLike,
    n_sampled: int,
    metric: Any,
    replacement: bool = True,
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
        of a correction, `ipseval.metric("ap", sampled="cls").table(n, m).values`.
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
    ranks: npt.ArrayLike,
    n_candidates: npt.ArrayLike,
    n_sampled: int,
    metric: Any,
    replacement: bool = True,
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


def equivalent_cutoff(k: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int) -> FloatArray:
    """Return the rank among all n candidates that a rank k among m sampled ones stands for.

    1 + (k − 1)(n − 1)/m, by E[r̃] = 1 + m(r − 1)/(n − 1): recall@k on a sampled list says roughly what
    recall at this much larger cutoff says on the full one.

    Raises
    ------
    InputError
        For k outside 1 … m + 1, n < 2 or m < 1.

    References
    ----------
    Li, Jin, Gao & Liu (2020), doi:10.1145/3394486.3403262

    Examples
    --------
    >>> float(equivalent_cutoff(10, 10_000, 99))
    910.0
    """
    m = check_positive_int("n_sampled", n_sampled)
    cutoff, n = _numbers("k", k), _numbers("n_candidates", n_candidates)
    if not (n >= 2).all():
        raise InputError(f"n_candidates must be >= 2; the smallest is {n.min()}.")
    if not ((cutoff >= 1) & (cutoff <= m + 1)).all():
        raise InputError(f"k must be in 1 … n_sampled + 1 = {m + 1}; got {k!r}.")
    return 1 + (cutoff - 1) * (n - 1) / m


def _numbers(name: str, values: npt.ArrayLike) -> FloatArray:
    refuse_masked(values, name)
    given = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else object)
    try:
        number = given.astype(np.float64) if given.dtype.kind in "iufO" else np.array(np.nan)
    except (TypeError, ValueError):
        number = np.array(np.nan)
    if not np.isfinite(number).all():
        raise InputError(f"{name} must be a number or an array of numbers, all finite; got {values!r:.80}.")
    return number


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
    step = max(1, BLOCK_ENTRIES // (m + 1))
    for first in range(0, pairs.shape[1], step):
        rows = slice(first, first + step)
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
    bad = ~((rank >= 1) & (rank <= n) & (rank == np.floor(rank)))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"ranks must be whole numbers in 1 … n_candidates; {int(bad.sum())} of {rank.size} are not "
            f"(first: rank {rank[at]:g} of {n[at]:g})."
        )
    return rank, n


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
    low = 2 if replacement else max(2, n_sampled + 1)
    if size and n.min() < low:
        reason = "" if replacement or low == 2 else f" to draw {n_sampled} others without replacement"
        raise InputError(f"n_candidates must be >= {low}{reason}; the smallest is {n.min():g}.")
    return n
