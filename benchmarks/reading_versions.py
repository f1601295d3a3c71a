"""How long `ipseval.read` takes in this tree, relative to another tree such as version 1.0.0.

    git worktree add /tmp/v100 64e6b051
    python benchmarks/reading_versions.py /tmp/v100 --rows 4000000 --repeats 5

Each file holds users, items, ratings and times, with ids as numbers or as text. The trees are run in
alternation, each read in a process of its own. The ratios are of medians of processor times (of all threads),
which other work on the machine changes less than the time on the wall. `--write docs/performance.md` puts the
table into the page.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from page import add_write_option, deliver

from reproductions.tables import markdown

ROOT = Path(__file__).resolve().parents[1]
PER_USER = 50
N_ITEMS = 50_000
NAMES = {"csv": "CSV", "tsv": "TSV", "parquet": "Parquet"}
WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "parquet": lambda frame, path: frame.to_parquet(path, index=False),
}
# Both versions keep all rows with this threshold.
CHILD = """
import sys, time, warnings
warnings.simplefilter("ignore")
import ipseval
assert ipseval.__file__.startswith(sys.argv[3]), ipseval.__file__
ipseval.read(sys.argv[2], threshold=1)
start = time.process_time()
ipseval.read(sys.argv[1], threshold=1)
print(time.process_time() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", type=Path, help="folder of the other tree")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--formats", nargs="+", choices=WRITERS, default=list(WRITERS), help="formats of the files"
    )
    add_write_option(parser)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("numbers", "text"):
            frame = make_log(options.rows, as_text=ids == "text")
            for suffix in options.formats:
                write = WRITERS[suffix]
                path = Path(folder) / f"log.{suffix}"
                small_path = Path(folder) / f"small.{suffix}"
                write(frame, path)
                write(frame.head(1_000), small_path)
                comparison = compare(path, small_path, options)
                print(suffix, ids, *comparison, flush=True)
                rows.append((NAMES[suffix], ids, *comparison))
    header = ("format", "ids", f"{find_commit(options.other)}, s", "this commit, s", "this ÷ other")
    deliver("reading-versions", markdown(header, rows), options.write, ("pandas", "numpy"))


def find_commit(tree: Path) -> str:
    """Return the commit that is checked out in a tree."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def make_log(n_rows: int, *, as_text: bool) -> pd.DataFrame:
    """Return a log of distinct pairs in random order, with ratings and times."""
    rng = np.random.default_rng(0)
    n_users = max(n_rows // PER_USER, 1)
    start = rng.integers(0, N_ITEMS, n_users)
    step = rng.integers(1, N_ITEMS // PER_USER, n_users)
    user = np.repeat(np.arange(n_users), PER_USER)
    item = (start[user] + step[user] * np.tile(np.arange(PER_USER), n_users)) % N_ITEMS
    order = rng.permutation(user.size)
    user_ids = np.arange(n_users)
    item_ids = np.arange(N_ITEMS)
    if as_text:
        user_ids = np.array([f"u_{code:07d}" for code in rng.permutation(n_users)])
        item_ids = np.array([f"sku-{code:05d}" for code in rng.permutation(N_ITEMS)])
    return pd.DataFrame(
        {
            "user_id": user_ids[user[order]],
            "item_id": item_ids[item[order]],
            "rating": rng.integers(1, 6, user.size),
            "timestamp": rng.integers(10**9, 15 * 10**8, user.size),
        }
    )


def compare(path: Path, small_path: Path, options: argparse.Namespace) -> tuple[str, str, str]:
    """Return the median processor times of the other tree and of this one for a file, and their ratio."""
    seconds: dict[Path, list[float]] = {options.other: [], ROOT: []}
    for _ in range(options.repeats):
        for tree, times in seconds.items():
            times.append(measure(tree, path, small_path))
    reference = statistics.median(seconds[options.other])
    here = statistics.median(seconds[ROOT])
    return f"{reference:.2f}", f"{here:.2f}", f"{here / reference:.2f}"


def measure(tree: Path, path: Path, small_path: Path) -> float:
    """Return the processor time of one read in a process that imports the package of a tree."""
    command = [sys.executable, "-c", CHILD, str(path), str(small_path), str(tree)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    result = subprocess.run(
        command, env=environment, cwd=path.parent, capture_output=True, text=True, check=True
    )
    return float(result.stdout)


if __name__ == "__main__":
    main()
