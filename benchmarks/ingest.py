"""Processor time of `from_frame` and of splits by user, as ratios to pandas' `factorize` of both columns.

    python benchmarks/ingest.py                    # 6.5 million pairs of 142,857 users and 50,000 items
    python benchmarks/ingest.py --pairs 650000 --repeats 9

Ids as numbers, as Python text and as Arrow text (dtypes object and string). All are run in alternation, in
one process; ratios are of medians.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from clocks import in_turn

from ipseval import Interactions, split_random, split_temporal
from ipseval.errors import DataWarning

N_USERS, N_ITEMS, N_PAIRS = 142_857, 50_000, 6_500_000


def frames(n_pairs: int) -> dict[str, pd.DataFrame]:
    """Return one log of distinct pairs in random order, with its ids in three forms."""
    rng = np.random.default_rng(0)
    size = int(1.2 * n_pairs)
    item = (N_ITEMS * rng.random(size) ** 2.5).astype(np.int64)
    user = (N_USERS * rng.random(size) ** 1.5).astype(np.int64)
    key = rng.permutation(np.unique(user * N_ITEMS + item))[:n_pairs]
    users = np.array([f"u_{code:07d}" for code in rng.permutation(N_USERS)], dtype=object)
    items = np.array([f"sku-{code:05d}" for code in rng.permutation(N_ITEMS)], dtype=object)
    numbers = pd.DataFrame({"user": key // N_ITEMS, "item": key % N_ITEMS})
    numbers["time"] = rng.integers(0, 86_400 * 365, key.size)
    text = numbers.assign(
        user=pd.Series(users[numbers["user"]], dtype=object),
        item=pd.Series(items[numbers["item"]], dtype=object),
    )
    arrow = "string[pyarrow]"
    return {
        "numbers": numbers,
        "Python text": text,
        "Arrow text": text.astype({"user": arrow, "item": arrow}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=N_PAIRS)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)  # splits by time of each user leak, as they do
    print(f"pandas {pd.__version__}, {options.pairs:,} pairs")
    for ids, frame in frames(options.pairs).items():
        log = Interactions.from_frame(frame, timestamp="time")
        compare(ids, frame, log, options.repeats)


def compare(ids: str, frame: pd.DataFrame, log: Interactions, repeats: int) -> None:
    runs: dict[str, Callable[[], object]] = {
        "factorize": lambda: [pd.factorize(frame[name]) for name in ("user", "item")],
        "from_frame": lambda: Interactions.from_frame(frame),
        "split_random": lambda: split_random(log, rng=0),
        "split_temporal": lambda: split_temporal(log),
    }
    medians = {name: statistics.median(values) for name, values in in_turn(runs, repeats).items()}
    for name, median in medians.items():
        print(
            f"{ids:12} {name:15} {median:6.3f} s  {median / medians['factorize']:5.2f} × factorize",
            flush=True,
        )


if __name__ == "__main__":
    main()
