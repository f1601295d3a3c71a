"""Lists that do not fit in memory, from Parquet: time and memory against DuckDB's own join and aggregation.

    python benchmarks/out_of_core.py                              # 10⁶ positives
    python benchmarks/out_of_core.py --size 1e8 --folder /scratch # 10⁸: 2.5 GB of files, and as much again

Data are made once: users with ten positives and ten training items each, and a model with lists of twenty,
one row for each entry, in no order. DuckDB joins the positives with the lists, counts the training items of
the weights, and averages recall@20 and dcg@20 over users, plain and weighted. The evaluation gives the same
recall, ndcg, standard errors, diagnostics, and checks of the data. Each runs in a process of its own, with
the same threads and limit of memory, in alternation; prints processor time and peak resident memory of each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_ITEMS, LIST_LENGTH, PER_USER, GAMMA = 20_000, 20, 10, 0.5
USERS_PER_FILE = 500_000
NAMES = ("train", "test", "lists")
AGGREGATION = """
WITH popularity AS (SELECT item, count(*) AS n FROM '{folder}/train/*.parquet' GROUP BY item),
weighted AS (
  SELECT t.user, l.rank, pow(coalesce(p.n, 0) + 1, -(1 + {gamma}) / 2) AS weight
  FROM '{folder}/test/*.parquet' t
  LEFT JOIN '{folder}/lists/*.parquet' l ON t.user = l.user AND t.item = l.item
  LEFT JOIN popularity p ON p.item = t.item
),
by_user AS (
  SELECT user, count(rank) / count(*) AS recall, sum(1 / log2(rank + 1)) AS dcg, count(*) AS n,
    sum(CASE WHEN rank IS NULL THEN 0 ELSE weight END) / sum(weight) AS weighted_recall,
    sum(weight / log2(rank + 1)) / sum(weight) AS weighted_dcg
  FROM weighted GROUP BY user
)
SELECT count(*), avg(recall), avg(dcg), avg(weighted_recall), avg(weighted_dcg) FROM by_user
"""


def make_data(folder: Path, n_positives: int) -> None:
    """Write the files; a folder that is complete holds the file `done`."""
    if (folder / "done").exists():
        return
    n_users = n_positives // PER_USER
    for name in NAMES:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, n_users, USERS_PER_FILE)):
        rng = np.random.default_rng(number)
        n = min(USERS_PER_FILE, n_users - first)
        # Neighbours in the files are no neighbours by number.
        user = ((first + np.arange(n)) * 7_368_787 % 2**31).astype(np.int32)
        # Item j of a user's order is start + 7j modulo all items, none twice; squares make some popular.
        start = (N_ITEMS * rng.random(n) ** 2).astype(np.int64)
        spread = np.arange(PER_USER) * rng.choice([1, 7, 11, 13], n)[:, None]
        positives = item_at(start, (rng.integers(120, size=n)[:, None] + spread) % 120)
        trained = item_at(start, 10_000 + (rng.integers(120, size=n)[:, None] + spread) % 120)
        listed = item_at(start, rng.integers(100, size=n)[:, None] + np.arange(LIST_LENGTH))
        for name, items in (("train", trained), ("test", positives), ("lists", listed)):
            order = rng.permutation(items.size)
            columns = {
                "user": np.repeat(user, items.shape[1])[order],
                "item": items.astype(np.int32).reshape(-1)[order],
            }
            if name == "lists":
                columns["rank"] = np.tile(np.arange(1, LIST_LENGTH + 1, dtype=np.int32), n)[order]
            pq.write_table(pa.table(columns), folder / name / f"{number:03d}.parquet", compression="zstd")
    (folder / "done").touch()


def item_at(start: np.ndarray, position: np.ndarray) -> np.ndarray:
    return (start[:, None] + 7 * position) % N_ITEMS


def aggregate(folder: Path, options: argparse.Namespace) -> list[float]:
    """Let DuckDB join and aggregate."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {options.threads}")
        connection.execute(f"SET memory_limit = '{options.memory}'")
        connection.execute(f"SET temp_directory = '{folder / 'spill'}'")
        connection.execute("SET preserve_insertion_order = false")
        found = connection.execute(AGGREGATION.format(folder=folder, gamma=GAMMA)).fetchone()
    return [float(one) for one in found]


def evaluate(folder: Path, options: argparse.Namespace) -> list[float]:
    """Let ipseval evaluate."""
    import ipseval
    from ipseval.distributed import evaluate_duckdb

    result = evaluate_duckdb(
        {"model": folder / "lists"},
        folder / "train",
        folder / "test",
        metrics=("recall@20", "ndcg@20"),
        estimators=("aoa", "snips"),
        propensity=ipseval.PowerLawPropensity(gamma=GAMMA, unseen="smooth"),
        low_ess="ignore",
        compute=ipseval.ComputeOptions(n_threads=options.threads),
        memory_limit=options.memory,
        temporary=folder,
    )
    print(
        result.frame[["metric", "estimator", "estimate", "std_error", "n_users", "n_positives"]],
        file=sys.stderr,
    )
    return [float(one) for one in result.frame["estimate"]]


RUNS = {"DuckDB": aggregate, "ipseval": evaluate}


def measured(name: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Run one of them in a process of its own."""
    command = [sys.executable, __file__, "--run", name, "--folder", str(folder)]
    command += ["--threads", str(options.threads), "--memory", options.memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=1e6, help="positives")
    parser.add_argument("--folder", default=str(Path(tempfile.gettempdir()) / "ipseval-out-of-core"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="4GB", help="limit of DuckDB's memory")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--run", choices=list(RUNS), help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    options = parser.parse_args()
    if options.run:
        folder = Path(options.folder)
        start = time.perf_counter()
        values = RUNS[options.run](folder, options)
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = {"cpu": used.ru_utime + used.ru_stime, "wall": time.perf_counter() - start}
        print(json.dumps({**spent, "peak": used.ru_maxrss / 1e6, "values": values}))
        return
    # The measured processes must not load what only the table needs.
    from page import deliver

    from reproductions.tables import markdown

    folder = Path(options.folder) / f"{options.size:.0e}"
    make_data(folder, int(options.size))
    size = sum(one.stat().st_size for name in NAMES for one in (folder / name).iterdir()) / 1e9
    print(f"{options.size:,.0f} positives, {size:.2f} GB of files, {os.cpu_count()} cores")
    found = [{name: measured(name, folder, options) for name in RUNS} for _ in range(options.repeats)]
    rows = []
    for name in RUNS:
        cpu, wall, peak = (np.median([one[name][key] for one in found]) for key in ("cpu", "wall", "peak"))
        ratio = np.median([run[name]["cpu"] / run["DuckDB"]["cpu"] for run in found])
        rows.append((name, f"{cpu:.1f}", f"{ratio:.2f}", f"{wall:.1f}", f"{peak:.2f}"))
        print(name, found[0][name]["values"])
    header = ("program", "processor time, s", "× DuckDB", "wall time, s", "peak memory, GB")
    deliver("out-of-core", markdown(header, rows), options.write, ("duckdb", "pyarrow"))


if __name__ == "__main__":
    main()
