"""What is weighted how: the share of the weight beside the share of the positives, by popularity."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from ipseval._base.checks import check_type
from ipseval._base.types import AnyArray, FloatArray, IntArray
from ipseval.estimators import Estimator, Sample
from ipseval.propensity import Propensity

COLUMNS = ("estimator", "by", "group", "low", "high", "n_items", "n_positives", "share", "weight_share")
N_GROUPS = 8


def popularity_weights(
    sample: Sample, estimators: Iterable[Estimator], propensity: Propensity | None
) -> pd.DataFrame:
    """Return the positives in groups by the popularity of their item, with the weight each group has."""
    # Groups of n* end at 1, 2, 5, 10, 20, …; where n* is not known there are up to eight by P, of nearly as
    # many positives each. `share` is that of the positives, `weight_share` that of an estimator's weight.
    estimators = list(estimators)
    for one in estimators:
        check_type("each of estimators", one, Estimator)
    weighted = [one for one in estimators if one.weighted]
    if sample.propensity is None or not weighted:
        return pd.DataFrame([], columns=list(COLUMNS))
    ranked = sample.ranked
    popularity = None if propensity is None else propensity.popularity
    by = "P" if popularity is None else "n*"
    value = sample.propensity if popularity is None else popularity[ranked.item]
    group = _by_quantile(value) if popularity is None else _by_popularity(value)
    counts = np.bincount(group)
    rows = []
    for one in weighted:
        weights = one.positive_weights(sample)
        share = np.bincount(group, weights) / weights.sum()
        for number in np.flatnonzero(counts):
            inside = group == number
            low, high = float(value[inside].min()), float(value[inside].max())
            n_items = np.unique(ranked.item[inside]).size
            n = int(counts[number])
            words = _words(low, high)
            rows.append((one.label, by, words, low, high, n_items, n, n / group.size, float(share[number])))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _by_popularity(value: FloatArray) -> IntArray:
    """Return the group of each n*: 0, 1, 2–4, 5–9, 10–19, 20–49, … ."""
    edges = [1.0]
    while edges[-1] <= value.max():
        edges += [2 * edges[-1], 5 * edges[-1], 10 * edges[-1]]
    return np.searchsorted(np.unique(edges), value, side="right")


def _by_quantile(value: FloatArray) -> IntArray:
    edges: AnyArray = np.unique(np.quantile(value, np.arange(1, N_GROUPS) / N_GROUPS))
    return np.searchsorted(edges, value, side="left")


def _words(low: float, high: float) -> str:
    ends = [f"{end:,.0f}" if end.is_integer() and end > 1 else f"{end:.3g}" for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)
