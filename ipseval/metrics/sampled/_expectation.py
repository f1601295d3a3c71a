"""Expectation and standard deviation of a metric over draws of the sampled candidates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.errors import InputError
from ipseval.metrics.base import MAX_CUTOFF
from ipseval.metrics.labels import parse_metric
from ipseval.metrics.sampled._checks import check_ranks
from ipseval.metrics.sampled._correction_table import compute_sampled_values
from ipseval.metrics.sampled._rank_law import compute_rank_law, split_ranks
from ipseval.utils.checks import as_float_vector, check_finite, check_positive_int
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray


@public_function
def expected_sampled(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, metric: Any, replacement: bool = True
) -> FloatArray:
    """Compute the expectation of a sampled metric for items of known exact rank.

    E[M(r̃; m + 1) | r] = Σ_i P(r̃ = i | r) M(i; m + 1), with r̃ − 1 ~ Binomial(m, (r − 1)/(n − 1)) for
    candidates drawn with replacement and hypergeometric without. The sum is exact, not simulated.

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
    replacement : bool, default True
        Whether candidates are drawn with replacement.

    Returns
    -------
    (n_ranks,) float array
        The expectation for each rank; never NaN.

    Raises
    ------
    InputError
        For ranks that are not whole numbers in 1 … n, n < 2, m < 1, or m > n − 1 without replacement.

    See Also
    --------
    std_sampled : Standard deviation over draws of the candidates.
    correct_sampled : Estimate the metric of the full ranking from sampled ranks.

    References
    ----------
    Krichene & Rendle (2020), doi:10.1145/3394486.3403226

    Examples
    --------
    Two competitors are drawn for rank 3 of 5: both miss the two items above with probability (1/2)².

    >>> expected_sampled([1, 3, 5], 5, 2, "recall@1")
    array([1.  , 0.25, 0.  ])
    """
    mean, _ = _compute_sampled_moments(ranks, n_candidates, n_sampled, metric, replacement)
    return mean


@public_function
def std_sampled(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, metric: Any, replacement: bool = True
) -> FloatArray:
    """Compute the standard deviation of a sampled metric over draws of the candidates.

    The mean of N items that are ranked against independent draws has the standard deviation √(Σ sd²)/N.

    Parameters
    ----------
    ranks : (n_ranks,) array of whole numbers
        Exact 1-based ranks, as in `expected_sampled`.
    n_candidates : int or (n_ranks,) array
        n, the number of candidates in the exact ranking, the positive included.
    n_sampled : int
        m, the number of sampled competitors.
    metric : str, Metric, or (m + 1,) array
        The metric, or its values for the sampled ranks 1 … m + 1.
    replacement : bool, default True
        Whether candidates are drawn with replacement.

    Returns
    -------
    (n_ranks,) float array
        The standard deviation for each rank.

    Raises
    ------
    InputError
        As `expected_sampled`.

    See Also
    --------
    expected_sampled : Expectation over draws of the candidates.

    Examples
    --------
    The sampled recall@1 of rank 3 is 1 with probability 1/4, with the standard deviation √(3/16).

    >>> std_sampled([3], 5, 2, "recall@1")
    array([0.4330127])
    """
    _, std = _compute_sampled_moments(ranks, n_candidates, n_sampled, metric, replacement)
    return std


def _compute_sampled_moments(
    ranks: npt.ArrayLike, n_candidates: npt.ArrayLike, n_sampled: int, metric: Any, replacement: bool
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of a sampled metric, (n_ranks,) each."""
    m = check_positive_int("n_sampled", n_sampled)
    if m > MAX_CUTOFF:
        raise InputError(f"n_sampled must be at most {MAX_CUTOFF:,}; got {m:,}.")
    rank, n = check_ranks(ranks, n_candidates, m, replacement)
    if isinstance(metric, (np.ndarray, list, tuple)):
        values = as_float_vector("metric (values by sampled rank)", metric, size=m + 1)
        check_finite("metric (values by sampled rank)", values)
    else:
        values = compute_sampled_values(parse_metric(metric), m)
    # Many positives share a rank, and each pair (rank, n) is computed once.
    pairs, pair_of_rank = np.unique(np.stack([rank, n]), axis=1, return_inverse=True)
    n_pairs = pairs.shape[1]
    mean = np.empty(n_pairs)
    std = np.empty(n_pairs)
    for rows in split_ranks(n_pairs, m):
        law = compute_rank_law(pairs[0, rows], pairs[1, rows], m, replacement)
        mean[rows] = law @ values
        # Centred at the mean: E[x²] − E[x]² would lose the digits of small variances.
        std[rows] = np.sqrt(np.einsum("ri,ri->r", law, (values - mean[rows, None]) ** 2))
    return mean[pair_of_rank.ravel()], std[pair_of_rank.ravel()]


MAX_RANKS = 2_000


@public_function
def rank_curves(
    metrics: Iterable[Any],
    n_candidates: int,
    n_sampled: Iterable[int] = (10, 100, 1000),
    *,
    replacement: bool = True,
) -> pd.DataFrame:
    """Compare metrics as functions of the exact rank with their expectation among sampled candidates.

    These are the figures of Krichene & Rendle. An exact top-k metric drops to 0 after the first k ranks. Its
    sampled counterpart differs little between the first ranks and the middle; the fewer candidates are drawn,
    the closer it is to a straight line, which is AUC.

    Parameters
    ----------
    metrics : labels or Metric objects
        Metrics that are functions of the rank of one relevant item.
    n_candidates : int
        n, the positive included.
    n_sampled : ints, default (10, 100, 1000)
        Numbers m of sampled competitors.
    replacement : bool, default True
        Whether candidates are drawn with replacement.

    Returns
    -------
    DataFrame
        Columns metric, n_sampled (0 for all candidates), rank and value. More than 2,000 candidates have at
        most 2,000 ranks, evenly spaced on a logarithmic scale.

    Raises
    ------
    InputError
        For no metric, n < 2, m < 1, and a metric that is not a function of one rank.

    See Also
    --------
    ipseval.expected_sampled : The expectation of a sampled metric.
    ipseval.correct_sampled : Correct sampled metrics.

    References
    ----------
    Krichene & Rendle (2020), doi:10.1145/3394486.3403226

    Examples
    --------
    Two competitors are drawn for rank 3 of 5: the positive is first with probability (1/2)².

    >>> rank_curves(["recall@1"], 5, [2]).query("rank == 3")["value"].tolist()
    [0.0, 0.25]
    """
    n = check_positive_int("n_candidates", n_candidates, minimum=2)
    if isinstance(metrics, str):
        metrics = [metrics]
    curve_metrics = [parse_metric(label) for label in metrics]
    sizes = [check_positive_int("n_sampled", m) for m in n_sampled]
    if not curve_metrics:
        raise InputError("metrics is empty; give at least one.")
    ranks = np.arange(1, n + 1)
    if n > MAX_RANKS:
        ranks = np.unique(np.rint(np.geomspace(1, n, MAX_RANKS)).astype(np.int64))
    curves = []
    for metric in curve_metrics:
        value_by_size = {0: metric.value_at_rank(ranks.astype(np.float64), float(n))}
        for m in sizes:
            value_by_size[m] = expected_sampled(ranks, n, m, metric, replacement)
        for m, value in value_by_size.items():
            curves.append(
                pd.DataFrame({"metric": metric.label, "n_sampled": m, "rank": ranks, "value": value})
            )
    return pd.concat(curves, ignore_index=True)
