"""Processor time and size of the page of 30 recommenders × 6 metrics × 5 estimators, on 100,000 pairs.

    python benchmarks/report.py [--models 12]

Prints the time of each part of the page and of the whole, computed anew from an evaluation, and its size.
The aim is 1 second and 500 kB.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
import pandas as pd

import ipseval

N_USERS, N_ITEMS, N_PAIRS = 943, 1_682, 100_000
METRICS = ["recall@10", "ndcg@10", "auc", "ap", "rr", "precision@5"]
ESTIMATORS = ["aoa", "snips", "snips-global", "snips-pooled", "aoa-pooled"]


def evaluation(n_models: int) -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    popularity = 1 / np.arange(1, N_ITEMS + 1) ** 0.9
    drawn = [
        rng.integers(0, N_USERS, 2 * N_PAIRS),
        rng.choice(N_ITEMS, 2 * N_PAIRS, p=popularity / popularity.sum()),
    ]
    pairs = np.unique(np.stack(drawn, axis=1), axis=0)
    pairs = pairs[rng.permutation(len(pairs))[:N_PAIRS]]
    log = ipseval.Interactions.from_frame(pd.DataFrame(pairs, columns=["user", "item"]))
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    taste = rng.normal(size=(split.n_users, split.n_items))
    taste[split.test.user, split.test.item] += 0.8
    popular = np.log(split.train.popularity + 1)
    models = {
        f"model {k:02d}": (
            taste * (1 - k / 40) + 0.5 * rng.normal(size=taste.shape) + (k % 7) / 7 * popular
        ).astype(np.float32)
        for k in range(n_models)
    }
    return ipseval.evaluate(
        models,
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=METRICS,
        estimators=ESTIMATORS,
        low_ess="ignore",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=30, help="recommenders; default: 30")
    made = evaluation(parser.parse_args().models)
    made.to_html()  # what is imported on first use is not counted
    fresh = replace(made)
    start = time.process_time()
    for name in ("frame", "verdict"):
        before = time.process_time()
        getattr(fresh, name)
        print(f"{name:12} {time.process_time() - before:6.2f} s")
    before = time.process_time()
    page = fresh.to_html()
    print(f"{'page':12} {time.process_time() - before:6.2f} s")
    print(f"{'whole':12} {time.process_time() - start:6.2f} s, {len(page.encode()) / 1000:,.0f} kB")


if __name__ == "__main__":
    main()
