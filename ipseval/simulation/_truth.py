"""The exact value of a metric where all relevant items are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ipseval._compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval._keys import among
from ipseval._types import FloatArray
from ipseval.errors import InputError
from ipseval.interactions import Interactions
from ipseval.metrics import metric
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split


def truth(
    models: Mapping[str, Any],
    metrics: Iterable[Any],
    split: Split,
    relevant: Interactions,
    *,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Return the ideal of every model and metric, given all relevant pairs.

    With S_u all relevant items of u outside training, ranked among all items outside training:

    * `ideal` = 1/|U| Σ_u (metric of u given S_u), over users with S_u not empty: what `aoa`, `ips`,
      `snips` and `snips-global` estimate;
    * `ideal_pooled` = Σ_u Σ_{i∈S_u} c / Σ_u s_u for metrics of mean type, and over all pairs of a relevant
      and an irrelevant item for a ratio of pairs (`auc`): what the pooled estimators estimate. NaN for other
      metrics, whose pooled form has no such meaning.

    Parameters
    ----------
    models : mapping of name to scorer, or to a trained model of a library
    metrics : iterable of labels or Metric objects
    split : Split
        Its training items are neither candidates nor counted as relevant, unless `split.seen` is "include";
        its test part is not read.
    relevant : Interactions
        Every relevant pair, over the same ids.
    compute : ComputeOptions
        As in `rank_positives`.

    Returns
    -------
    DataFrame
        Columns model, metric, ideal, ideal_pooled, n_users, n_relevant.
    """
    rest = relevant.select(~among(relevant.pair_key, split.excluded.pair_key))
    everything = Split(split.train, rest, description="all relevant items", seen=split.seen)
    parsed = [metric(m) for m in metrics]
    if not (parsed and models):
        raise InputError("models and metrics must not be empty.")
    rows = []
    for name, model in models.items():
        ranked = rank_positives(model, everything, name=name, compute=compute)
        for m in parsed:
            values = m.user_values(ranked)
            rows.append(
                {
                    "model": name,
                    "metric": m.label,
                    "ideal": float(np.mean(values)),
                    "ideal_pooled": _pooled(m, values, ranked),
                    "n_users": int(ranked.users.size),
                    "n_relevant": len(ranked),
                }
            )
    return pd.DataFrame(rows)


def _pooled(m: Any, values: FloatArray, ranked: RankedPositives) -> float:
    size = ranked.counts.astype(np.float64)
    if m.kind == "mean":
        weight = size
    elif m.has_pairs:
        weight = size * (ranked.n_candidates[ranked.starts] - size)
    else:
        return float("nan")
    return float(np.sum(weight * values) / np.sum(weight))
