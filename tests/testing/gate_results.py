"""Evaluations that gates are tried on, made of the values of their users."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

from ipseval.data import Interactions
from ipseval.estimators import Claim, Estimate, Note, UserSums
from ipseval.evaluation import Evaluation, evaluate_ranks
from ipseval.evaluation.evaluation import StoredParts
from ipseval.inference.weight_diagnostics import WeightDiagnostics
from ipseval.metrics import metric
from ipseval.propensity import KnownPropensity
from ipseval.ranking import RankedPositives

N, N_RARE = 400, 2000


PLAIN = WeightDiagnostics(
    9.0, 9.0, 0.1, 9, weighted=False, ess_own=9.0, share_own=0.1, ess_equal=9.0, share_equal=0.1
)


NAN, INF = float("nan"), float("inf")


def make_estimate(values, flag: str = "", label: str = "recall@5", estimator: str = "aoa") -> Estimate:
    values = np.asarray(values, dtype=float)
    flags = (Note.create("text", text=flag),) if flag else ()
    claim = Claim("no guarantee") if label.startswith("ndcg") else Claim("biased")
    return Estimate(
        label, estimator, UserSums.from_values(np.arange(values.size), values), N, claim, flags=flags
    )


def values(mean: float, n: int = N, seed: int = 0) -> np.ndarray:
    """Return recalls of 0 and 1 with such a mean, in a random order of the users."""
    return np.random.default_rng(seed).permutation(np.arange(n) < round(mean * n)).astype(float)


def make_evaluation(entries: dict[str, object], **parts) -> Evaluation:
    """Return an evaluation of users' values by recommender, or (recommender, metric, estimator)."""
    estimates = {}
    for name, entry_values in entries.items():
        key = name if isinstance(name, tuple) else (name, "recall@5", "aoa")
        estimates[key] = (
            entry_values
            if isinstance(entry_values, Estimate)
            else make_estimate(entry_values, label=key[1], estimator=key[2])
        )
    labels = list(dict.fromkeys(key[1] for key in estimates))
    basis = {
        "data": {"positives_sha256": "a" * 64},
        "options": {"ties": "mean"},
        "metrics": {label: {"formula": label} for label in labels},
    }
    n = next(iter(estimates.values())).sums.n_users
    parts_with_defaults = {
        "weights": {"aoa": PLAIN},
        "definitions": ([metric(entry_values) for entry_values in labels], [_AOA]),
        **parts,
    }
    all_basis = basis | parts_with_defaults.pop("basis", {})
    return Evaluation(
        estimates, {}, user_ids=np.arange(n), _stored=StoredParts(basis=all_basis), **parts_with_defaults
    )


def ranks(above: np.ndarray, n_items: int = 100) -> RankedPositives:
    n = above.size
    ids = {"user_ids": np.arange(n), "item_ids": np.arange(n_items)}
    n_candidates = np.full(n, n_items)
    return RankedPositives(np.arange(n), np.arange(n) % n_items, above, np.zeros(n, int), n_candidates, **ids)


_AOA = evaluate_ranks({"m": ranks(np.arange(5))}, metrics=["recall@5"], estimators=["aoa"]).definitions[1][0]


def pair(old: np.ndarray, new: np.ndarray) -> tuple[Evaluation, Evaluation]:
    return make_evaluation({"als": new}), make_evaluation({"als": old})


def make_nearly_equal_pair(n: int = 5000) -> tuple[Evaluation, Evaluation]:
    """Return results that differ for one user in a hundred, by as much up as down."""
    old, new = values(0.5, n), values(0.5, n)
    new[: n // 100] = values(0.5, n // 100, seed=3)
    return pair(old, new)


@cache
def evaluate_rare_items(basis: str) -> list[Evaluation]:
    """Return an old and a new result of which weights and the plain average say the opposite."""
    # Users whose item is rare, with P = 1/9, are served better by the new one, all others worse.
    rng = np.random.default_rng(5)
    rare = rng.random(N_RARE) < 0.25
    old = np.where(rng.random(N_RARE) < np.where(rare, 0.15, 0.75), 2, 50)
    new = np.where(rng.random(N_RARE) < np.where(rare, 0.38, 0.55), 2, 50)
    item = np.where(rare, 0, 1)
    ranked = [replace(ranks(ranked_positives), item=item) for ranked_positives in (old, new)]
    pairs = pd.DataFrame({"user": np.arange(N_RARE), "item": item})
    log = Interactions.from_frame(pairs, users=np.arange(N_RARE), items=np.arange(100))
    propensity = KnownPropensity(item=np.where(np.arange(100) == 0, 1 / 9, 1.0), basis=basis).fit(log)
    return [
        evaluate_ranks(
            {name: ranked_positives},
            propensity=propensity,
            metrics=["recall@5"],
            estimators=["aoa", "snips-pooled"],
        )
        for name, ranked_positives in zip(("old", "new"), ranked, strict=True)
    ]
