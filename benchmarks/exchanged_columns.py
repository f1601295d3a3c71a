"""What the content of a file without column names tells about exchanged columns of users and items.

`python -m benchmarks.exchanged_columns` computes statistics of both columns of public logs. An exchange changes the
sign of each difference. The table states in how many logs the users have the larger value, and how many exchanged
logs a rule would refuse that refuses no correct one: those whose difference is beyond that of every correct log.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.page import add_write_option, deliver
from reproductions.tables import data_folder, markdown

N_ROWS = 200_000  # that are read of each file
TABLES = {
    "MovieLens 100K": ("ml-100k/u.data", "\t", 0, (0, 1)),
    "MovieLens latest small": ("ml-latest-small/ratings.csv", ",", 0, (0, 1)),
    "CM100K": ("cm100k/ratings.tsv", "\t", 0, (0, 1)),
}
ADJACENCY = {
    "MovieLens 1M": "ml-1m/train.txt",
    "Gowalla": "gowalla/train.txt",
    "KuaiRand": "kuairand/train.txt",
    "Amazon Baby": "amazon14-5core/Baby.txt",
    "Amazon Video Games": "amazon14-5core/Video_Games.txt",
    "Amazon Office Products": "amazon14-5core/Office_Products.txt",
}
Pairs = tuple[np.ndarray, np.ndarray]


def read_pairs(folder: Path) -> Iterator[tuple[str, Pairs]]:
    """Yield the users and items of each log, in the order of its file."""
    for name, (path, separator, header, places) in TABLES.items():
        if (folder / path).exists():
            frame = pd.read_csv(folder / path, sep=separator, header=header, nrows=N_ROWS)
            yield name, (frame.iloc[:, places[0]].to_numpy(), frame.iloc[:, places[1]].to_numpy())
    for name, path in ADJACENCY.items():
        if (folder / path).exists():
            yield name, read_lines(folder / path)
    path = folder / "citeulike-a" / "users.dat"
    if path.exists():
        lines = [line.split()[1:] for line in path.read_text().splitlines()]
        users = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
        yield "CiteULike-a", (users, np.array([int(item) for line in lines for item in line]))


def read_lines(path: Path) -> Pairs:
    """Return the pairs of a file of lines "user item item …"."""
    users: list[int] = []
    items: list[int] = []
    with path.open() as file:
        for line in file:
            user, *rest = map(int, line.split())
            users += [user] * len(rest)
            items += rest
            if len(users) > N_ROWS:
                break
    return np.array(users), np.array(items)


def count_ids(ids: np.ndarray) -> float:
    return float(np.log(np.unique(ids).size))


def measure_largest(ids: np.ndarray) -> float:
    counts = np.unique(ids, return_counts=True)[1]
    return float(np.log(counts.max() / counts.mean()))


def measure_inequality(ids: np.ndarray) -> float:
    """Return the Gini coefficient of the counts of ids."""
    counts = np.sort(np.unique(ids, return_counts=True)[1])
    ranks = np.arange(1, counts.size + 1)
    return float(2 * (ranks * counts).sum() / (counts.size * counts.sum()) - (counts.size + 1) / counts.size)


def measure_runs(ids: np.ndarray) -> float:
    """Return the share of rows that have the id of the row before."""
    return float((ids[1:] == ids[:-1]).mean())


def measure_range(ids: np.ndarray) -> float:
    """Return the share of whole numbers up to the largest id that occur."""
    return float(np.unique(ids).size / (ids.max() + 1))


STATISTICS: dict[str, Callable[[np.ndarray], float]] = {
    "number of ids (log)": count_ids,
    "largest count over mean count (log)": measure_largest,
    "Gini coefficient of the counts": measure_inequality,
    "rows with the id of the row before": measure_runs,
    "share of the numbers up to the largest id": measure_range,
}


def main() -> None:
    """Print a row for each statistic."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_write_option(parser)
    options = parser.parse_args()
    differences: dict[str, list[float]] = {name: [] for name in STATISTICS}
    names = []
    for log_name, (users, items) in read_pairs(data_folder()):
        names.append(log_name)
        for name, measure in STATISTICS.items():
            differences[name].append(measure(users) - measure(items))
        print(log_name, *(f"{values[-1]:+.2f}" for values in differences.values()), sep="; ", flush=True)

    rows = []
    for name, values in differences.items():
        gaps = np.array(values)
        lowest = gaps.min()
        # A rule refuses files whose difference is below that of every correct log.
        n_refused = int((-gaps < lowest - 1e-12).sum())
        rows.append(
            (
                name,
                f"{(gaps > 0).sum()} of {gaps.size}",
                f"{lowest:+.2f}",
                f"{gaps.max():+.2f}",
                f"{n_refused} of {gaps.size}",
            )
        )
    header = (
        "users minus items",
        "logs in which users have more",
        "lowest",
        "highest",
        "exchanged logs refused",
    )
    deliver("exchanged-columns", markdown(header, rows), options.write)


if __name__ == "__main__":
    main()
