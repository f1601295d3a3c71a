"""Time of all metrics by six estimators, after ranking: 200,000 positives in one call.

    python benchmarks/metrics.py [--users 20000] [--repeat 5] [--profile]

Positives are ranked as by a real recommender; "ties" gives every user a block of equal scores at the end,
as models with many zero scores do. Times are the best of the repetitions: wall clock and processor.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

import ipseval
from ipseval.metrics import METRICS
from ipseval.ranking import RankedPositives

ESTIMATORS = ("aoa", "aoa-pooled", "ips", "snips", "snips-global", "snips-pooled")
LABELS = [name + ("@10" if family.takes_cutoff == "required" else "") for name, family in METRICS.items()]
LABELS += [f"{name}@10" for name, family in METRICS.items() if family.takes_cutoff == "optional"]
LABELS += ["precision(denominator=min)@10"]
N_ITEMS, PER_USER = 20_000, 10


def positives(n_users: int, *, tied_from: int | None = None, seed: int = 0) -> RankedPositives:
    """Return PER_USER positives in the mean per user; ranks beyond `tied_from` are one tie group."""
    rng = np.random.default_rng(seed)
    counts = np.clip(rng.poisson(PER_USER, n_users), 1, 60)
    user = np.repeat(np.arange(n_users), counts)
    item = (N_ITEMS * rng.random(user.size) ** 2).astype(np.int64)
    _, first = np.unique(user * N_ITEMS + item, return_index=True)
    user, item = user[first], item[first]
    above = np.minimum(np.exp(rng.uniform(0, np.log(N_ITEMS), user.size)).astype(np.int64), N_ITEMS - 1)
    tied = np.zeros(user.size, dtype=np.int64)
    if tied_from is not None:
        last = above >= tied_from
        above[last], tied[last] = tied_from, N_ITEMS - tied_from - 1
    return RankedPositives(
        user,
        item,
        above,
        tied,
        np.full(user.size, N_ITEMS),
        np.arange(n_users),
        np.arange(N_ITEMS),
        candidates_by_user=np.full(n_users, N_ITEMS),
    )


def fresh(ranked: RankedPositives) -> RankedPositives:
    """Return the same positives without anything that was computed from them."""
    names = ("user", "item", "n_above", "n_tied", "n_candidates", "user_ids", "item_ids")
    columns = {name: getattr(ranked, name) for name in names}
    return RankedPositives(**columns, candidates_by_user=ranked.candidates_by_user)


def evaluate(ranked: RankedPositives, labels: list[str]) -> None:
    chance = np.linspace(0.9, 0.3, N_ITEMS)
    result = ipseval.evaluate_ranks(
        {"model": fresh(ranked)},
        propensity=ipseval.KnownPropensity(item=chance).fit(ranked),
        metrics=labels,
        estimators=ESTIMATORS,
        n_relevant=100,
    )
    assert len(result.frame) == len(labels) * len(ESTIMATORS)


def best(run: Callable[[], None], repeat: int) -> tuple[float, float]:
    times = []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(times)[0], min(cpu for _, cpu in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for name, tied_from in (("no ties", None), ("ties", 5_000)):
        ranked = positives(options.users, tied_from=tied_from)
        what = f"{len(ranked):,} positives of {options.users:,} users"
        wall, cpu = best(partial(evaluate, ranked, LABELS), options.repeat)
        print(
            f"{name}: {len(LABELS)} metrics × {len(ESTIMATORS)} estimators, {what}: "
            f"{wall:.2f} s ({cpu:.2f} cpu)"
        )
        for label in LABELS:
            wall, cpu = best(partial(evaluate, ranked, [label]), 2)
            print(f"    {label:<32}{wall * 1e3:7.0f} ms ({cpu * 1e3:.0f} cpu)")
        if options.profile:
            with cProfile.Profile() as profile:
                evaluate(ranked, LABELS)
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
