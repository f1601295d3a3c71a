"""Krichene & Rendle (KDD 2020) on MovieLens: ALS, item-kNN and BPR, exact and sampled.

Run: ``python -m reproductions.sampled_movielens [--data FOLDER] [--log ml-100k|ml-1m]``; needs ``pip install
implicit``. Of MovieLens 100K the last interaction of each user is held out, as in the paper. Of MovieLens 1M,
which is at hand without times, one drawn interaction of each user is. Prints exact metrics, their expectation
under m sampled candidates, who wins, corrected values, and where the hits of each one are.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ipseval
from ipseval.data.interactions import Interactions
from ipseval.metrics.sampled import correct_sampled, expected_sampled
from ipseval.validation.datasets import load_adjacency, load_movielens
from reproductions.adaptive import adaptive_sampled
from reproductions.recommenders import sparse
from reproductions.tables import data_folder, markdown

METRICS = ("auc", "ap", "ndcg@10", "recall@10")
SIZES = (10, 50, 99, 500, 1000)


def als(train: Interactions) -> Any:
    """Weighted matrix factorisation by alternating least squares."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=64, regularization=1.0, alpha=10.0, iterations=15, num_threads=1, random_state=0
    )
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


def bpr(train: Interactions) -> Any:
    """Bayesian personalised ranking; negatives are drawn by popularity."""
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=64, learning_rate=0.05, regularization=0.01, iterations=150, num_threads=1, random_state=0
    )
    model.fit(sparse(train), show_progress=False)
    return model.user_factors, model.item_factors


MODELS = {"ALS": als, "item-kNN": lambda train: ipseval.baselines.item_knn(train, n_neighbors=50), "BPR": bpr}


def best(values: dict[str, float]) -> str:
    """Return the names in order, the best first."""
    return " > ".join(sorted(values, key=lambda name: -values[name]))


def one_out(data: Path, name: str) -> ipseval.Split:
    """Return a log with one interaction of each user held out: the last, or a drawn one where times lack."""
    if name == "ml-1m":
        files = [data / name / f"{part}.txt" for part in ("train", "test")]
        whole = pd.concat([load_adjacency(file).to_frame() for file in files], ignore_index=True)
        return ipseval.split_leave_one_out(ipseval.Interactions.from_frame(whole), n_validation=0, rng=0)
    log = replace(load_movielens(data / name), value=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.DataWarning)  # the paper's split leaks: 99.9% of rows
        return ipseval.split_leave_one_out(log, order="temporal", n_validation=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--log", choices=("ml-100k", "ml-1m"), default="ml-100k")
    options = parser.parse_args()
    split = one_out(options.data, options.log)
    scorers = {name: fit(split.train) for name, fit in MODELS.items()}
    ranked = {name: ipseval.rank_positives(one, split) for name, one in scorers.items()}
    rows, rank = [], {name: one.n_above + 1 for name, one in ranked.items()}
    n = next(iter(ranked.values())).n_candidates
    for label in METRICS:
        metric = ipseval.metric(label)
        exact = {name: float(metric.value_at_rank(r.astype(float), n).mean()) for name, r in rank.items()}
        rows.append([label, "all", *(f"{exact[name]:.4f}" for name in MODELS), best(exact)])
        for m in SIZES:
            mean = {name: float(expected_sampled(r, n, m, metric).mean()) for name, r in rank.items()}
            rows.append([label, f"{m}", *(f"{mean[name]:.4f}" for name in MODELS), best(mean)])
    print(markdown(["metric", "candidates", *MODELS, "order"], rows), end="\n\n")
    rows = []
    for k in (1, 3, 10, 50, 100, 300):
        shares = {name: float((r <= k).mean()) for name, r in rank.items()}
        rows.append([f"rank <= {k}", *(f"{shares[name]:.3f}" for name in MODELS), best(shares)])
    print(markdown(["share of test items", *MODELS, "order"], rows), end="\n\n")
    print(markdown(["metric", "candidates, correction", *MODELS, "order"], corrections(scorers, split)))


def corrections(scorers: dict[str, Any], split: ipseval.Split) -> list[list[str]]:
    """Return what sampled candidates give with each correction, and adaptive sampling, over 5 draws."""
    rows = []
    for label in ("ap", "ndcg@10", "recall@10"):
        found: dict[str, dict[str, list[float]]] = {}
        drawn = []
        for name, scorer in scorers.items():
            for seed in range(5):
                scheme = ipseval.SampledCandidates(99, replacement=True, rng=seed)
                ranked = ipseval.rank_positives(scorer, split, candidates=scheme)
                for method in ("none", "rank", "bv", "mle"):
                    value = correct_sampled(ranked, metric=label, method=method).estimate
                    found.setdefault(f"99, {method}", {}).setdefault(name, []).append(value)
                estimate, candidates = adaptive_sampled(scorer, split, label, rng=seed)
                drawn.append(candidates.mean())
                found.setdefault("adaptive", {}).setdefault(name, []).append(estimate)
        for method, values in found.items():
            means = {name: float(np.mean(one)) for name, one in values.items()}
            cells = [f"{means[name]:.4f} ({np.std(values[name], ddof=1):.4f})" for name in scorers]
            title = f"{np.mean(drawn):.0f} on average, adaptive" if method == "adaptive" else method
            rows.append([label, title, *cells, best(means)])
    return rows


if __name__ == "__main__":
    main()
