"""Time and memory of the bootstrap on 20,000 users.

    python benchmarks/inference.py

Prints: 10,000 resamples × 10 metrics × 5 recommenders (× 1 and × 3 estimators), and their peak memory
above what the inputs take.
"""

from __future__ import annotations

import resource
import time

import numpy as np

from ipseval.estimators import Sample
from ipseval.estimators.estimate import estimate
from ipseval.estimators.labels import resolve_estimator
from ipseval.inference._intervals import bootstrap
from ipseval.metrics import metric
from ipseval.propensity import PowerLawPropensity
from ipseval.ranking import RankedPositives

N_USERS, N_ITEMS, PER_USER, N_MODELS = 20_000, 5_000, 10, 5
METRICS = [
    *("auc", "recall@5", "recall@10", "recall@20", "mean_dcg@10"),
    *("dcg@10", "precision@10", "ndcg@10", "ap@10", "rr"),
]


def ranked_positives(rng: np.random.Generator) -> list[RankedPositives]:
    share = (np.arange(N_ITEMS) + 1.0) ** -0.8
    item = rng.choice(N_ITEMS, size=(N_USERS, 4 * PER_USER), p=share / share.sum())
    user = np.repeat(np.arange(N_USERS), 4 * PER_USER)
    key = np.unique(user * np.int64(N_ITEMS) + item.ravel())
    user, item = np.divmod(key, N_ITEMS)
    place = np.arange(user.size) - np.flatnonzero(np.diff(user, prepend=-1))[user]
    user, item = user[place < PER_USER], item[place < PER_USER]
    n = np.full(user.size, N_ITEMS)
    ids = (np.arange(N_USERS), np.arange(N_ITEMS))
    return [
        RankedPositives(
            user, item, np.floor(N_ITEMS * rng.random(user.size) ** 3).astype(np.int64), 0 * n, n, *ids
        )
        for _ in range(N_MODELS)
    ]


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    rng = np.random.default_rng(0)
    models = ranked_positives(rng)
    popularity = np.maximum(np.bincount(models[0].item, minlength=N_ITEMS), 1)
    propensity = PowerLawPropensity(gamma=1.0).fit(popularity=popularity)
    samples = {f"model {n}": Sample(one, propensity.at(one.user, one.item)) for n, one in enumerate(models)}
    metrics = [metric(label) for label in METRICS]
    for labels in (["snips-global"], ["aoa", "snips", "snips-global"]):
        estimators = [resolve_estimator(label) for label in labels]
        start = time.perf_counter()
        sums = {
            (name, m.label, e.label): estimate(one, m, e).sums
            for name, one in samples.items()
            for m in metrics
            for e in estimators
        }
        made = time.perf_counter() - start
        before = peak_megabytes()
        for n_threads in (1, 2):
            start, cpu = time.perf_counter(), time.process_time()
            result = bootstrap(sums, n_resamples=10_000, rng=0, n_threads=n_threads)
            took, cpu = time.perf_counter() - start, time.process_time() - cpu
            start = time.perf_counter()
            for key in sums:
                result.interval(key, method="bca")
            intervals = time.perf_counter() - start
            print(
                f"{len(sums)} estimates (made in {made:.2f} s) × 10,000 resamples, {n_threads} threads: "
                f"{took:.2f} s ({cpu:.2f} s of CPU), BCa intervals {intervals:.2f} s, "
                f"peak {peak_megabytes():.0f} MB ({peak_megabytes() - before:.0f} MB above the sums)"
            )


if __name__ == "__main__":
    main()
