"""Order of five baselines on citeulike-a under sampled candidates, with and without correction.

    python -m reproductions.sampled_citeulike --data PATH

PATH is the folder that holds `citeulike-a/` (see data/README.md). Prints the tables of docs/sampled.md:
agreement with full ranking (OR@1, SRC, IPC) of uncorrected and corrected metrics, drawn uniformly and by
popularity. Needs 2 GB of memory and about six minutes of one core.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.splits import Split, split_random
from ipseval.ranking.baselines import BASELINES
from reproductions.data import load_citeulike_a
from reproductions.sampling import agreement, sampling_study

SIZES = (10, 50, 100, 500, 1000)
METRICS = ("recall@10", "ndcg@10")
METHODS = ("none", "rank", "cls", "bv", "mle")


def scored(split: Split) -> dict[str, Any]:
    """Return the scores of every baseline as arrays, so that each is computed once."""
    models: dict[str, Any] = {}
    users = np.arange(split.n_users)
    for name, fit in BASELINES.items():
        model = fit(split.train)
        if callable(model):
            parts = [np.asarray(model(part), dtype=np.float32) for part in np.array_split(users, 12)]
            model = np.concatenate(parts)
        models[name] = model
    return models


def markdown(study: pd.DataFrame, metric: str) -> str:
    """Return one Markdown table: a row per distribution and method, a column per m."""
    found = agreement(study[study["metric"] == metric])
    lines = ["| draws | correction | " + " | ".join(f"m = {m}" for m in SIZES) + " |"]
    lines.append("|---" * (2 + len(SIZES)) + "|")
    for (distribution, method), group in found.groupby(["distribution", "method"], sort=False):
        cells = [
            f"{row['or@1']:.2g} / {row['src']:.2f} / {row['ipc']:.2g} ({row['error']:.3f})"
            for _, row in group.set_index("n_sampled").loc[list(SIZES)].iterrows()
        ]
        lines.append(f"| {distribution} | {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    path = parser.parse_args().data / "citeulike-a"
    start = time.perf_counter()
    split = split_random(load_citeulike_a(path), test_fraction=0.2, rng=0)
    # Plus one: an item that cannot be drawn could not be corrected for.
    popularity = split.train.popularity + 1.0
    study = sampling_study(
        scored(split),
        split,
        n_sampled=SIZES,
        distributions={"uniform": "uniform", "popularity": popularity},
        metrics=METRICS,
        methods=METHODS,
        n_repeats=3,
        rng=0,
    )
    print(f"{split}\n")
    exact = study.groupby(["metric", "model"], sort=False)["exact"].first().unstack()
    print("Full ranking:\n", exact.round(4).to_string(), "\n")
    for metric in METRICS:
        print(f"{metric}: OR@1 / SRC / IPC (mean absolute error), means of 3 draws\n")
        print(markdown(study, metric), "\n")
    shown = study[(study["n_sampled"] == 100) & (study["repeat"] == 0)]
    for metric in METRICS:
        values = shown[shown["metric"] == metric]
        for column in ("estimate", "std_error"):
            table = values.pivot_table(
                index=["distribution", "method"], columns="model", values=column, sort=False
            )
            print(f"{metric}, m = 100, first draw, {column}:\n{table.round(4).to_string()}\n")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
