"""Traits of logs: size, density, Gini, drift, repeats and profile, for the page of the tuned study."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError

TRAITS = ("n_users", "n_items", "n_pairs", "density", "gini", "drift", "repeat_rate", "median_profile")


def log_traits(logs: Mapping[str, Interactions]) -> pd.DataFrame:
    """Return the traits of each log, one row per log, indexed by name.

    n_users, n_items : with interactions.
    n_pairs : interactions.
    density : n_pairs / (n_users · n_items).
    gini : Gini coefficient of the interactions per item, 0 (all items alike) to 1.
    drift : 1 − Spearman's correlation of the items' interactions before and from the median time on, over
        items with any; 0: popularity stays. NaN without timestamps.
    repeat_rate : share of the rows read that repeated an earlier user–item pair.
    median_profile : median interactions of a user.

    Raises
    ------
    InputError
        For a log without interactions.
    """
    rows = {}
    for name, log in logs.items():
        users, items = log.activity[log.activity > 0], log.popularity[log.popularity > 0]
        if not users.size:
            raise InputError(f"log {name!r} has no interactions.")
        n_rows = len(log) + log.n_duplicates_dropped
        n_pairs = np.unique(log.pair_key).size
        rows[name] = {
            "n_users": float(users.size),
            "n_items": float(items.size),
            "n_pairs": float(len(log)),
            "density": n_pairs / (users.size * items.size),
            "gini": gini(items.astype(np.float64)),
            "drift": _drift(log),
            "repeat_rate": (n_rows - n_pairs) / n_rows,
            "median_profile": float(np.median(users)),
        }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(TRAITS))


def gini(counts: np.ndarray) -> float:
    """Return the Gini coefficient, Σ_i (2i − n − 1) x_(i) / (n Σ x), x ascending."""
    n = counts.size
    return float(((2 * np.arange(1, n + 1) - n - 1) * np.sort(counts)).sum() / (n * counts.sum()))


def _drift(log: Interactions) -> float:
    if log.timestamp is None:
        return np.nan
    late = log.timestamp >= np.median(log.timestamp)
    known = log.popularity > 0
    early, later = (log.select(part).popularity[known] for part in (~late, late))
    ranks = [rankdata(part) - (known.sum() + 1) / 2 for part in (early, later)]
    scale = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum())
    return float(1 - (ranks[0] * ranks[1]).sum() / scale) if scale else np.nan
