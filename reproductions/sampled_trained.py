"""Krichene & Rendle (KDD 2020, doi:10.1145/3394486.3403226) on trained recommenders: BPR, PMF, U-CML, A-CML.

    python -m reproductions.sampled_trained --data PATH [--write]

The paper's experiment on MovieLens 1M, repeated on citeulike-a: one held-out item for each user, ranked among
all items and among 99 drawn ones, uncorrected and by each correction, over many draws. Recommenders are those
of reproductions/models.py; within a draw all face the same items.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import ComputeOptions, SampledCandidates, Split, correct_sampled, evaluate_ranks, rank_positives
from reproductions.models import CACHE, MODELS, citeulike_split, load_factors
from reproductions.sampled import order
from reproductions.tables import command, markdown

M = 99
N_DRAWS = 50
METRICS = {"AUC": "auc", "AP": "ap", "NDCG": "ndcg", "Recall@10": "recall@10"}
VARIANCE_WEIGHTS = (1.0, 0.1, 0.01, 0.001)
# Uniform prior over ranks, as in the paper; the last two estimate the distribution of ranks instead.
CORRECTIONS: dict[str, dict[str, Any]] = {
    "uncorrected": {"method": "none"},
    "rank estimate": {"method": "rank"},
    "CLS": {"method": "cls"},
    **{f"BV {g:g}": {"method": "bv", "variance_weight": g, "prior": "uniform"} for g in VARIANCE_WEIGHTS},
    "BV 0.01, estimated prior": {"method": "bv", "variance_weight": 0.01},
    "MLE": {"method": "mle"},
}  # fmt: skip
LAWS = {"with": True, "without": False}


def one_each(split: Split, seed: int = 0) -> Split:
    """Return the split with one test item for each user, drawn at random: the paper's leave-one-out."""
    place = np.random.default_rng(seed).permutation(len(split.test))
    _, first = np.unique(split.test.user[place], return_index=True)
    keep = np.zeros(len(split.test), dtype=bool)
    keep[place[first]] = True
    return Split(split.train, split.test.select(keep))


def draws(models: Mapping[str, Any], split: Split, n_draws: int = N_DRAWS, m: int = M) -> pd.DataFrame:
    """Return metric, correction, law, draw, model, estimate and exact (the full-ranking value)."""
    exact = {}
    for name, model in models.items():
        full = {name: rank_positives(model, split, compute=ComputeOptions(n_threads=1))}
        frame = evaluate_ranks(full, metrics=list(METRICS.values()), estimators=["aoa"]).frame
        exact |= {(name, label): value for label, value in zip(METRICS, frame["estimate"], strict=True)}
    rows = []
    for law, replacement in LAWS.items():
        for draw in range(n_draws if replacement else n_draws // 2):
            pool = SampledCandidates(m, replacement=replacement, rng=draw)
            for name, model in models.items():
                ranked = rank_positives(model, split, candidates=pool, compute=ComputeOptions(n_threads=1))
                for label, metric in METRICS.items():
                    for correction, options in CORRECTIONS.items():
                        if not replacement and correction != "uncorrected":
                            continue
                        found = correct_sampled(ranked, metric=metric, **options)
                        rows.append((label, correction, law, draw, name, found.estimate, exact[name, label]))
    return pd.DataFrame(rows, columns=["metric", "correction", "law", "draw", "model", "estimate", "exact"])


def trained(folder: Path) -> pd.DataFrame:
    """Return the draws for the four recommenders on citeulike-a. Cached."""
    path = CACHE / "sampled_trained.csv"
    if not path.exists():
        models = {name: load_factors(name, folder)[0] for name in MODELS}
        draws(models, one_each(citeulike_split(folder))).to_csv(path, index=False)
    return pd.read_csv(path)


def value_table(runs: pd.DataFrame) -> str:
    """Return exact and sampled values of each recommender, mean ± standard deviation over draws."""
    plain = runs[runs["correction"] == "uncorrected"]
    rows = []
    for metric, part in plain.groupby("metric", sort=False):
        for model, mine in part.groupby("model", sort=False):
            cells = [f"{mine['exact'].iloc[0]:.4f}"]
            for law in LAWS:
                value = mine.loc[mine["law"] == law, "estimate"]
                cells.append(f"{value.mean():.4f} ± {value.std():.4f}")
            rows.append([f"{metric}, {model}", *cells])
    return markdown(["", "all items", f"{M} drawn with replacement", "without"], rows)


def correction_table(runs: pd.DataFrame) -> str:
    """Return, by metric and correction, bias and standard deviation by recommender, order and right pairs."""
    rows = []
    runs = runs[runs["law"] == "with"]
    for (metric, correction), part in runs.groupby(["metric", "correction"], sort=False):
        if metric == "AUC":
            continue
        exact = part.groupby("model", sort=False)["exact"].first()
        if correction == "uncorrected":
            rows.append(
                [
                    f"{metric}, *all items*",
                    *(f"*{exact[m]:.4f}*" for m in MODELS),
                    f"*{order(exact.to_dict())}*",
                    "",
                    "",
                ]
            )
        by = part.groupby("model", sort=False)["estimate"]
        mean, std = by.mean(), by.std()
        shares = right_pairs(part)
        rows.append(
            [f"{metric}, {correction}", *(f"{mean[m] - exact[m]:+.4f} ± {std[m]:.4f}" for m in MODELS),
             order(mean.to_dict()), f"{shares.mean():.0%}", f"{shares.min():.0%} ({shares.idxmin()})"]
        )  # fmt: skip
    return markdown(["bias ± sd of a draw", *MODELS, "order of means", "pairs right", "worst pair"], rows)


def right_pairs(part: pd.DataFrame) -> pd.Series:
    """Return, for each pair of recommenders, the share of draws that put it in the order of full ranking."""
    exact = part.groupby("model", sort=False)["exact"].first()
    wide = part.pivot(index="draw", columns="model", values="estimate")
    return pd.Series(
        {
            f"{a}, {b}": float(((wide[a] - wide[b]) * (exact[a] - exact[b]) > 0).mean())
            for a, b in combinations(exact.index, 2)
        }
    )


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page."""
    runs = trained(folder)
    return {"kr-trained": value_table(runs), "kr-trained-corrected": correction_table(runs)}


if __name__ == "__main__":
    command(__doc__, tables)
