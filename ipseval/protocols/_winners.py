"""Which recommender each setting of a study puts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from ipseval.protocols._evaluate import Result


def winners(results: Sequence[Result], models: Sequence[str]) -> pd.DataFrame:
    """Return one row per result: the winner by the mean over repeats, and how firmly it wins."""
    rows = []
    for one in results:
        row = {**asdict(one.setting), "metric": one.metric}
        if np.isnan(one.estimates).any():
            rows.append(row | {"winner": None, "n_repeats": len(one.repeats)})
            continue
        best = int(np.argmax(one.estimates))
        first = one.repeats == one.repeats.max(axis=1, keepdims=True)
        share = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
        others = np.delete(one.estimates, best)
        row |= {"winner": models[best], "share_first": float(share[best]), "n_first": int((share > 0).sum())}
        rows.append(
            row | {"margin": float(one.estimates[best] - others.max()), "n_repeats": len(one.repeats)}
        )
    return pd.DataFrame(rows)
