"""Next-item evaluation at every step from factors, against the bare product of the same factors.

    python benchmarks/sequential.py [--events N] [--items N] [--dimensions D] [--repeats N]

The bare product computes the scores of all items for every event, block by block into one array, and reads nothing
from them. Both are measured in processor time, in turn, with one thread of BLAS. The ratio is the median over the
repeats, after a first evaluation that loads and compiles. Users have 50 events each, of which the last 20 are targets.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from threadpoolctl import threadpool_limits

from ipseval import Interactions
from ipseval.evaluation import evaluate_sequential
from ipseval.evaluation.sequential import BLOCK_SCORES

EVENTS_PER_USER = 50
TARGETS_PER_USER = 20


def make_log(n_targets: int, n_items: int, rng: np.random.Generator) -> tuple[Interactions, np.ndarray]:
    """Return a log in which users take distinct items, and which of its rows are targets."""
    n_users = n_targets // TARGETS_PER_USER
    start = rng.integers(n_items, size=n_users)
    stride = rng.integers(1, n_items // EVENTS_PER_USER, size=n_users)
    step = np.arange(EVENTS_PER_USER)
    item = (start[:, None] + stride[:, None] * step) % n_items
    log = Interactions(
        user=np.repeat(np.arange(n_users), EVENTS_PER_USER),
        item=item.ravel(),
        user_ids=np.arange(n_users),
        item_ids=np.arange(n_items),
        timestamp=np.tile(step, n_users),
    )
    return log, np.asarray(log.timestamp) >= EVENTS_PER_USER - TARGETS_PER_USER


def multiply(event_factors: np.ndarray, item_factors: np.ndarray) -> None:
    """Compute the scores of all items for every event, as blocks in one array."""
    step = max(1, BLOCK_SCORES // item_factors.shape[0])
    scores = np.empty((step, item_factors.shape[0]), dtype=event_factors.dtype)
    for first in range(0, event_factors.shape[0], step):
        block = event_factors[first : first + step]
        np.matmul(block, item_factors.T, out=scores[: block.shape[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    log, is_target = make_log(options.events, options.items, rng)
    n_events = int(is_target.sum())
    event_factors = rng.normal(size=(n_events, options.dimensions)).astype(np.float32)
    item_factors = rng.normal(size=(options.items, options.dimensions)).astype(np.float32)
    ratios = []
    print(f"{n_events:,} events, {options.items:,} items, {options.dimensions} dimensions, single precision")
    with threadpool_limits(1):
        evaluate_sequential({"factors": (event_factors, item_factors)}, log, is_target)  # compiles a loop
        for _ in range(options.repeats):
            begin = time.process_time()
            multiply(event_factors, item_factors)
            bare = time.process_time() - begin
            begin = time.process_time()
            evaluate_sequential({"factors": (event_factors, item_factors)}, log, is_target)
            full = time.process_time() - begin
            ratios.append(full / bare)
            print(f"bare product {bare:.1f} s, evaluation {full:.1f} s, ratio {full / bare:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
