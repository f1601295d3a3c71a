"""Measure an evaluation with a million users and 100,000 items: time and memory of each step.

    python benchmarks/large_log.py                                       # several minutes, 6 GB of memory
    python benchmarks/large_log.py --users 50000 --items 20000           # a trial
    python benchmarks/large_log.py --write docs/performance.md

The log is simulated as in `workloads.py`. A user has about 25 training items and five held-out items. The
recommender has factors of 64 dimensions, and, for comparison, lists of up to ten items of each user. The
files are made first, by a process that is not in the table. Every row of the table is a process of its own
that reads the files it needs. Processor time is that of all threads, and memory is the peak of the process:

* reading: read the training part and the held-out part, and make the split;
* product: multiply the factors in blocks of 512 users with one thread, without ranking (no log is read);
* factors: read, and evaluate recall@10 and mean_dcg@10 by AOA and SNIPS from exact ranks among all items;
* lists: read, and evaluate the lists by the same metrics and estimators.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import ipseval

DIMENSIONS = 64
N_HELD_OUT = 5  # of each user
N_DRAWN = 40  # of each user; some are drawn twice
SKIPPED = 0.25  # share of the pairs that are not held out and not in training
LIST_LENGTH = 10
CHUNK = 50_000  # users
METRICS = ("recall@10", "mean_dcg@10")
PROPENSITY = "power-law:gamma=0"


def make_files(folder: Path, n_users: int, n_items: int) -> None:
    """Write the training part, the held-out part, the lists and the factors."""
    from workloads import choose_best, draw_pairs

    rng = np.random.default_rng(0)
    weight = (1.0 + np.arange(n_items)) ** -0.8
    cumulative = np.cumsum(rng.permutation(weight))
    popularity = np.diff(cumulative, prepend=0.0)
    item_factors = rng.normal(size=(n_items, DIMENSIONS)).astype(np.float32)
    item_factors[:, 0] = np.log(popularity / popularity.mean())
    user_factors = rng.normal(size=(n_users, DIMENSIONS)).astype(np.float32)
    user_factors[:, 0] = 2.0  # the factor of popularity

    parts: dict[str, list[pd.DataFrame]] = {"train": [], "test": [], "lists": []}
    for first in range(0, n_users, CHUNK):
        users = user_factors[first : first + CHUNK]
        pairs = draw_pairs(rng, cumulative, len(users), N_DRAWN, n_items)
        score = np.einsum("nd,nd->n", users[pairs[:, 0]], item_factors[pairs[:, 1]])
        is_test = choose_best(pairs, score, N_HELD_OUT)
        is_skipped = ~is_test & (rng.random(len(pairs)) < SKIPPED)

        frame = pd.DataFrame({"user": pairs[:, 0] + first, "item": pairs[:, 1]}, dtype=np.int32)
        parts["train"].append(frame[~is_test & ~is_skipped])
        parts["test"].append(frame[is_test])
        parts["lists"].append(make_lists(frame[is_test | is_skipped], score[is_test | is_skipped]))

    for name, frames in parts.items():
        pd.concat(frames).to_parquet(folder / f"{name}.parquet", index=False)
    np.save(folder / "user_factors.npy", user_factors)
    np.save(folder / "item_factors.npy", item_factors)


def make_lists(pairs: pd.DataFrame, score: np.ndarray) -> pd.DataFrame:
    """Return the pairs of each user in the order of their scores, with their rank, up to the tenth."""
    ordered = pairs.assign(score=score).sort_values(["user", "score"], ascending=[True, False])
    rank = (ordered.groupby("user").cumcount() + 1).astype(np.int32)
    return ordered[["user", "item"]].assign(rank=rank)[rank <= LIST_LENGTH]


def read_split(folder: Path) -> ipseval.Split:
    """Read both parts."""
    import ipseval

    n_users = len(np.load(folder / "user_factors.npy", mmap_mode="r"))
    n_items = len(np.load(folder / "item_factors.npy", mmap_mode="r"))
    return ipseval.Split.from_frames(
        pd.read_parquet(folder / "train.parquet"),
        pd.read_parquet(folder / "test.parquet"),
        users=np.arange(n_users),
        items=np.arange(n_items),
    )


def read_factors(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the factors of the recommender."""
    return np.load(folder / "user_factors.npy"), np.load(folder / "item_factors.npy")


def multiply(folder: Path) -> str:
    """Multiply the factors in blocks of users, and rank nothing."""
    from workloads import Product

    Product([read_factors(folder)]).multiply(1)
    return ""


def describe_split(folder: Path) -> str:
    """Read the log alone."""
    split = read_split(folder)
    return f"{len(split.train):,} training and {len(split.test):,} held-out interactions"


def evaluate_factors(folder: Path) -> str:
    """Evaluate the recommender by its factors."""
    return evaluate(read_split(folder), read_factors(folder))


def evaluate_lists(folder: Path) -> str:
    """Evaluate the recommender by its lists."""
    return evaluate(read_split(folder), pd.read_parquet(folder / "lists.parquet"))


def evaluate(split: ipseval.Split, model: object) -> str:
    """Return the estimates of one recommender."""
    import ipseval

    evaluation = ipseval.evaluate({"model": model}, split, metrics=METRICS, propensity=PROPENSITY)
    columns = ["metric", "estimator", "estimate", "std_error"]
    return evaluation.frame[columns].to_string(index=False)


FILES = "files"
STEPS: dict[str, tuple[str, Callable[[Path], str]]] = {
    "reading": ("read the log and make the split, without an evaluation", describe_split),
    "product": ("bare product of the factors, one thread, without the log", multiply),
    "factors": ("evaluate factors: exact ranks among all items", evaluate_factors),
    "lists": ("evaluate lists of ten items of each user", evaluate_lists),
}


def run_step(step: str, options: argparse.Namespace) -> None:
    """Run one step in this process, and print what it used."""
    warnings.simplefilter("ignore")
    if step == FILES:
        make_files(options.folder, options.users, options.items)
        result = f"{options.users:,} users, {options.items:,} items"
    else:
        result = STEPS[step][1](options.folder)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(result, file=sys.stderr, flush=True)
    processor = usage.ru_utime + usage.ru_stime
    print(json.dumps({"processor": processor, "kilobytes": usage.ru_maxrss}))


def measure_step(step: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Run one step in a process of its own, and return what it used."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
    command += ["--users", str(options.users), "--items", str(options.items)]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(finished.stdout.splitlines()[-1])


def tabulate(folder: Path, options: argparse.Namespace) -> str:
    """Make the files, measure all steps, and return their table."""
    from reproductions.tables import markdown

    # A process begins with the peak memory of the process that started it, so this one stays small.
    measure_step(FILES, folder, options)
    rows = []
    for step, (description, _) in STEPS.items():
        used = measure_step(step, folder, options)
        gigabytes = used["kilobytes"] * 1024 / 1e9
        row = (description, f"{used['processor']:.0f}", f"{gigabytes:.1f}")
        print(" | ".join(row), flush=True)
        rows.append(row)
    return markdown(("step", "processor time, s", "peak memory, GB"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=[FILES, *STEPS], help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    options = parser.parse_args()
    if options.step:
        run_step(options.step, options)
        return

    # The measured processes must not load what only the table needs.
    from page import deliver

    with tempfile.TemporaryDirectory() as name:
        table = tabulate(Path(name), options)
    deliver("large-log", table, options.write, ("numpy", "numba", "pandas", "pyarrow"))


if __name__ == "__main__":
    main()
