"""Processor time of what grows: 1,000 recommenders in one result, and 100,000 tied positives of one user.

    python benchmarks/large.py

Prints seconds of printing, saving and the page of 1,000 recommenders × 3 metrics × 2 estimators, and of an
evaluation of each metric by each estimator where one user has 100,000 positives of one score. The aims are 3
and 2 seconds.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import ipseval

METRICS = ["recall@10", "mean_dcg@10", "ndcg@10", "ap", "ap@5000", "rr", "hit@10", "auc", "precision@10"]
ESTIMATORS = ["aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled", "ips"]


def seconds(call: Callable[[], object]) -> str:
    before = time.process_time()
    try:
        call()
    except ipseval.IpsevalError as error:
        return f"refused: {str(error)[:60]}"
    return f"{time.process_time() - before:.2f} s"


def recommenders(n: int) -> None:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((300, 60)) < 0.2)
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": user, "item": item}))
    split = ipseval.split_random(log, rng=0)
    scores = rng.random((split.n_users, split.n_items))
    found = ipseval.evaluate(
        {f"m{k}": scores + 0.3 * rng.random(scores.shape) for k in range(n)},
        split,
        metrics=["ndcg@10", "recall@10", "rr"],
        estimators=["aoa", "snips-global"],
        propensity="power-law:gamma=0",
    )
    with tempfile.TemporaryDirectory() as folder:
        print(f"{n} recommenders: print {seconds(lambda: repr(found))}", end=", ")
        print(f"save {seconds(lambda: found.save(Path(folder) / 'a.npz'))}", end=", ")
        print(f"page {seconds(lambda: found.to_html(Path(folder) / 'a.html'))}")


def tied_positives(n: int) -> None:
    train = pd.DataFrame({"user": [0], "item": [n]})
    test = pd.DataFrame({"user": np.zeros(n, dtype=int), "item": np.arange(n)})
    split = ipseval.Split.from_frames(train, test, users=[0], items=range(n + 5))
    known = ipseval.KnownPropensity(item=np.linspace(0.1, 1, n + 5))
    for metric in METRICS:
        for estimator in ESTIMATORS:
            options = {"metrics": [metric], "estimators": [estimator], "propensity": known, "n_relevant": n}
            took = seconds(lambda: ipseval.evaluate({"c": np.zeros((1, n + 5))}, split, **options))  # noqa: B023  # called at once
            print(f"{metric:12} {estimator:13} {took}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    recommenders(10)  # what is loaded on first use is not counted
    recommenders(1_000)
    tied_positives(100_000)
