"""Measure exact ranks among ten million items: time and memory, next to the bare product of the factors.

    python benchmarks/large_catalogue.py                                  # a minute, 4 GB of memory
    python benchmarks/large_catalogue.py --items 1000000                  # a trial
    python benchmarks/large_catalogue.py --write docs/performance.md

Fifty users with 20 training items and ten held-out items each, all drawn at random. The recommender has factors
of 16 dimensions. Every row of the table is a process of its own, so it includes loading and compiling. Processor
time is that of all threads, and memory is the peak of the process:

* product: multiply the factors in blocks of items with one thread, without ranking;
* evaluate: compute recall@10 and AUC by AOA from exact ranks among all items.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

N_USERS = 50
DIMENSIONS = 16
N_TRAINING = 20
N_HELD_OUT = 10
ITEMS_PER_BLOCK = 100_000


def make_factors(n_items: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the factors of users and items."""
    rng = np.random.default_rng(0)
    user_factors = rng.standard_normal((N_USERS, DIMENSIONS), dtype=np.float32)
    return user_factors, rng.standard_normal((n_items, DIMENSIONS), dtype=np.float32)


def multiply(n_items: int) -> str:
    """Multiply the factors in blocks of items, and rank nothing."""
    from threadpoolctl import threadpool_limits

    user_factors, item_factors = make_factors(n_items)
    largest = -np.inf
    with threadpool_limits(1):
        for first in range(0, n_items, ITEMS_PER_BLOCK):
            scores = user_factors @ item_factors[first : first + ITEMS_PER_BLOCK].T
            largest = max(largest, float(scores[0, 0]))
    return f"a score: {largest:.2f}"


def evaluate(n_items: int) -> str:
    """Evaluate the recommender by its factors, and return the estimates."""
    import ipseval

    rng = np.random.default_rng(1)
    n_drawn = N_USERS * (N_TRAINING + N_HELD_OUT)
    item = rng.choice(n_items, n_drawn, replace=False)  # no pair occurs twice
    user = np.repeat(np.arange(N_USERS), N_TRAINING + N_HELD_OUT)
    is_training = np.tile(np.arange(N_TRAINING + N_HELD_OUT) < N_TRAINING, N_USERS)
    pairs = pd.DataFrame({"user": user, "item": item})
    split = ipseval.Split.from_frames(
        pairs[is_training], pairs[~is_training], users=np.arange(N_USERS), items=np.arange(n_items)
    )
    models = {"model": make_factors(n_items)}
    metrics = ["recall@10", "auc"]
    frame = ipseval.evaluate(models, split, metrics=metrics, estimators=["aoa"]).frame
    return frame[["metric", "estimate"]].to_string(index=False)


STEPS: dict[str, tuple[str, Callable[[int], str]]] = {
    "product": ("bare product of the factors, one thread", multiply),
    "evaluate": ("evaluate factors: exact ranks among all items", evaluate),
}


def run_step(step: str, n_items: int) -> None:
    """Run one step in this process, and print what it used."""
    warnings.simplefilter("ignore")
    print(STEPS[step][1](n_items), file=sys.stderr, flush=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"processor": usage.ru_utime + usage.ru_stime, "kilobytes": usage.ru_maxrss}))


def measure_step(step: str, n_items: int) -> dict[str, float]:
    """Run one step in a process of its own, and return what it used."""
    command = [sys.executable, __file__, "--step", step, "--items", str(n_items)]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(finished.stdout.splitlines()[-1])


def tabulate(n_items: int) -> str:
    """Measure all steps, and return their table."""
    from reproductions.tables import markdown

    rows = []
    for step, (description, _) in STEPS.items():
        used = measure_step(step, n_items)
        gigabytes = used["kilobytes"] * 1024 / 1e9
        rows.append((description, f"{used['processor']:.0f}", f"{gigabytes:.1f}"))
    return markdown(("step", "processor time, s", "peak memory, GB"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    # The measured processes must not load what only the table needs.
    options, _ = parser.parse_known_args()
    if options.step:
        run_step(options.step, options.items)
        return

    from page import add_write_option, deliver

    add_write_option(parser)
    options = parser.parse_args()
    deliver("large-catalogue", tabulate(options.items), options.write)


if __name__ == "__main__":
    main()
