"""Time and peak memory of every split on ten million interactions.

Run: ``python benchmarks/splits.py [n_interactions]``. Each split runs in a fresh process; the peak is the
resident memory of that process, the log itself (user, item, timestamp: 24 bytes per interaction) included.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

from ipseval.data._interactions import Interactions
from ipseval.data.splits import (
    k_core,
    repeated_splits,
    split_global_time,
    split_leave_one_out,
    split_random,
    split_temporal,
)

RUNS = {
    "split_random 8:1:1": lambda log: split_random(log, test_fraction=0.1, validation_fraction=0.1, rng=0),
    "split_temporal 8:1:1": lambda log: split_temporal(log, test_fraction=0.1, validation_fraction=0.1),
    "split_leave_one_out random": lambda log: split_leave_one_out(log, rng=0),
    "split_leave_one_out temporal": lambda log: split_leave_one_out(log, order="temporal"),
    "split_global_time 8:1:1": lambda log: split_global_time(log, test_fraction=0.1, validation_fraction=0.1),
    "one of repeated_splits": lambda log: next(repeated_splits(log, 5, rng=0)),
    "k_core 5": lambda log: k_core(log, 5),
    "k_core 20": lambda log: k_core(log, 20),
}


def make_log(n: int) -> Interactions:
    """Return about n distinct pairs with power-law activity and popularity, in random row order."""
    rng = np.random.default_rng(0)
    n_users, n_items = n // 20, n // 50
    size = int(1.15 * n)
    user = (n_users * rng.random(size) ** 2.0).astype(np.int64)
    item = (n_items * rng.random(size) ** 2.5).astype(np.int64)
    key = user * n_items + item
    key.sort()
    key = key[np.concatenate([[True], key[1:] != key[:-1]])]
    key = rng.permutation(key)[:n]
    return Interactions(
        key // n_items,
        key % n_items,
        np.arange(n_users),
        np.arange(n_items),
        timestamp=rng.integers(0, 86_400 * 365, key.size),
    )


def run(name: str, n: int) -> None:
    log = make_log(n)
    # The generator needs more memory than the splits do: note where it ended.
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    start = time.perf_counter()
    result = RUNS[name](log)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:30} {len(log):>12,} {seconds:7.2f} s {peak:6.2f} GiB (log made: {before:.2f})  {result!r}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run(sys.argv[2], int(sys.argv[1]))
    else:
        n = sys.argv[1] if len(sys.argv) == 2 else "10000000"
        for name in RUNS:
            subprocess.run([sys.executable, __file__, n, name], check=True)
