"""What sampling does to a metric, and what corrections cost.

    python benchmarks/sampled.py

prints the toy tables of docs/sampled.md (three recommenders, five positives each, 10,000 candidates), from
which m on the order is right, and time and memory of the corrections at 10 million candidates. Ten seconds.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.metrics import metric as find_metric
from ipseval.metrics.sampled import expected_sampled, std_sampled

N, M = 10_000, 99
RANKS = {"A": [100] * 5, "B": [40, 40, 8437, 9266, 4482], "C": [212, 2, 743, 5342, 1548]}
METRICS = ("auc", "ap", "ndcg", "recall@10")
CORRECTIONS = (("rank", None), ("cls", None), ("bv", 0.01), ("bv", 0.1), ("bv", 1.0))


def corrected(metric: str, method: Any, variance_weight: float = 0.01) -> np.ndarray:
    """Return the corrected values of every sampled rank, with the uniform prior."""
    chosen = find_metric(metric, sampled=method, variance_weight=variance_weight, prior="uniform")
    return chosen.table(N, M)


def toy() -> pd.DataFrame:
    """Return exact, expected sampled and corrected metrics, with the deviation of one sampled run."""
    rows = []
    for metric in METRICS:
        versions = {
            "exact": (N - 1, metric, False),
            "sampled, with replacement": (M, metric, True),
            "sampled, without": (M, metric, False),
        }
        for method, g in CORRECTIONS:
            name = method if g is None else f"{method} g={g:g}"
            versions[name] = (M, corrected(metric, method, 0.01 if g is None else g), True)
        for name, (m, table, replacement) in versions.items():
            row = {"metric": metric, "version": name}
            for model, ranks in RANKS.items():
                row[model] = expected_sampled(ranks, N, m, table, replacement).mean()
                row[f"sd {model}"] = np.sqrt((std_sampled(ranks, N, m, table, replacement) ** 2).sum()) / 5
            rows.append(row)
    return pd.DataFrame(rows).set_index(["metric", "version"])


def cost() -> None:
    """Print seconds and memory of each correction at n = 10,000,000, m = 100."""
    for method in ("rank", "cls", "bv"):
        for replacement in (True, False):
            tracemalloc.start()
            start = time.perf_counter()
            for metric in METRICS:
                find_metric(metric, sampled=method, prior="uniform").table(
                    10**7, 100, replacement=replacement
                )
            seconds = time.perf_counter() - start
            memory = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            law = "with" if replacement else "without"
            print(f"{method:5s} {law:8s} {seconds / len(METRICS):.3f} s and {memory:.0f} MB per metric")


def main() -> None:
    with pd.option_context("display.width", 160):
        print(toy().round(6).to_string(), "\n")
        print(f"rank 10 of {M + 1} stands for rank {1 + 9 * (N - 1) / M:,.0f} of {N:,}\n")
    try:
        corrected("ap", "ls")
    except InputError as error:
        print(error, "\n")
    cost()


if __name__ == "__main__":
    main()
