"""The exact value of a metric where all relevant items are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval._base.ids import among
from ipseval._base.types import FloatArray
from ipseval.data._interactions import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.metrics import metric
from ipseval.ranking import RankedPositives, rank_positives


def truth(
    models: Mapping[str, Any],
    metrics: Iterable[Any],
    split: Split,
    relevant: Interactions,
    *,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Return model, metric, ideal, ideal_pooled, n_users, n_relevant, of `relevant` outside training."""
    # ideal: mean over users of the metric given S_u, which aoa, ips, snips and snips-global estimate.
    # ideal_pooled: Σ_u Σ_{i∈S_u} c / Σ_u s_u of means, the same over pairs of auc, else NaN: of pooled
    # estimators.
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
