"""How long `ipseval.read` takes for a log in Parquet, as ratios to pandas and polars.

    python benchmarks/reading.py                      # 10⁷ rows, ids as text and as numbers
    python benchmarks/reading.py --rows 1000000 --repeats 5 --profile

pandas and polars read the same three columns and turn users and items into codes of their distinct ids: no
check, no universe in order. `read` also checks that nothing is missing and that no pair repeats, and sorts
the ids. The three are run in alternation, in one process; ratios are of medians of processor times (of the
whole process, all threads), which other work on the machine changes less than the time on the wall.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from clocks import in_turn
from page import add_write_option, deliver
from pyarrow import parquet

import ipseval
from reproductions.tables import markdown

PER_USER = 50
N_ITEMS = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where read spends its time")
    add_write_option(parser)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("text", "numbers"):
            path = Path(folder) / f"{ids}.parquet"
            write(path, options.rows, as_text=ids == "text")
            rows += compare(path, ids, options)
    header = ("ids", "reader", "s", "× pandas", "× polars")
    deliver("reading", markdown(header, rows), options.write, ("pandas", "polars", "pyarrow"))


def write(path: Path, n_rows: int, *, as_text: bool) -> None:
    """Write a log of distinct pairs: users in random order, items drawn by popularity."""
    rng = np.random.default_rng(0)
    n_users = max(n_rows // PER_USER, 1)
    # Items of a user: a random start and steps that never return within the catalogue.
    start, step = rng.integers(0, N_ITEMS, n_users), rng.integers(1, N_ITEMS // PER_USER, n_users)
    user = np.repeat(np.arange(n_users), PER_USER)
    item = (start[user] + step[user] * np.tile(np.arange(PER_USER), n_users)) % N_ITEMS
    order = rng.permutation(user.size)
    columns = {"user_id": user[order], "item_id": item[order]}
    if as_text:
        names = {"user_id": [f"u_{code:07d}" for code in rng.permutation(n_users)]}
        names["item_id"] = [f"sku-{code:05d}" for code in rng.permutation(N_ITEMS)]
        columns = {
            name: pa.DictionaryArray.from_arrays(codes, names[name]).cast(pa.string())
            for name, codes in columns.items()
        }
    times = pa.array(rng.integers(0, 10**9, user.size) * 10**6, pa.timestamp("us", tz="UTC"))
    parquet.write_table(pa.table({**columns, "ts": times}), path)


def with_pandas(path: Path) -> object:
    frame = pd.read_parquet(path, columns=["user_id", "item_id", "ts"])
    ids = [pd.factorize(frame[name]) for name in ("user_id", "item_id")]
    return ids, frame["ts"].dt.tz_localize(None).to_numpy()  # with a time zone: a Python object for each


def with_polars(path: Path) -> object:
    frame = pl.read_parquet(path, columns=["user_id", "item_id", "ts"])
    codes = []
    for name in ("user_id", "item_id"):
        column = frame[name]
        if column.dtype == pl.String:
            codes.append(column.cast(pl.Categorical).to_physical().to_numpy())
        else:
            codes.append(column.rank("dense").to_numpy())
    return codes, frame["ts"].to_numpy()


def compare(path: Path, ids: str, options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return the rows of a file."""
    runs: dict[str, Callable[..., object]] = {
        "pandas": with_pandas,
        "polars": with_polars,
        "`ipseval.read`": ipseval.read,
        '`ipseval.read(…, duplicates="keep")`': partial(ipseval.read, duplicates="keep"),
    }
    seconds = in_turn({name: partial(run, path) for name, run in runs.items()}, options.repeats)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    rows = []
    for name, median in medians.items():
        ratios = [f"{median / medians[reader]:.2f}" for reader in ("pandas", "polars")]
        rows.append((ids, name, f"{median:.2f}", *ratios))
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(ipseval.read, path)
        pstats.Stats(profile).sort_stats("tottime").print_stats(12)
    return rows


if __name__ == "__main__":
    main()
