"""Metrics against the rank of one relevant item, and what sampled candidates make of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import check_positive_int
from ipseval.errors import InputError
from ipseval.metrics._labels import metric as find_metric
from ipseval.metrics.sampled._expected import expected_sampled

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
