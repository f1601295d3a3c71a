"""Time and memory of evaluation on Dask and Spark on one machine: many positives, top-100 lists.

    python benchmarks/distributed_lists.py --engine dask
    python benchmarks/distributed_lists.py --engine spark

Data are made once, in --folder: users with ten test positives and ten training items each, and three models
whose lists hold the positives at random places. Prints the table, the seconds, and peak memory of the driver,
of all Python processes together and of the JVM. Two workers.

In the same run the engine shuffles the same rows by user itself and joins each model's lists with the
positives: "own". Processor time is that of this process and all its descendants, once workers have imported
ipseval.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.distributed import evaluate_dask, evaluate_spark
from ipseval.propensity import PowerLawPropensity

N_ITEMS, LIST_LENGTH, PER_USER = 20_000, 100, 10
MODELS = {"near": 150, "middle": 400, "far": 1500}  # positives are among the first so many items of the order
OPTIONS = {
    "metrics": ("recall@10", "ndcg@100", "ap@100"),
    "estimators": ("aoa", "snips", "snips-global"),
    "propensity": PowerLawPropensity(gamma=0.5, unseen="smooth"),
    "items": np.arange(N_ITEMS, dtype=np.int64),
}


def make_partition(folder: Path, number: int, n_users: int) -> None:
    """Write the frames of one partition."""
    rng = np.random.default_rng(number)
    users = number * n_users + np.arange(n_users)
    # Item j of a user's order is start + 7j modulo all items: none twice. Squares make some items popular.
    start = (N_ITEMS * rng.random(n_users) ** 2).astype(np.int64)
    # Training items come late in the order, where neither positives nor lists reach.
    trained = item_at(start, 10_000 + np.argsort(rng.random((n_users, 60)), axis=1)[:, :PER_USER])
    position = np.argsort(rng.random((n_users, 120)), axis=1)[:, :PER_USER]
    frames = {"train": trained, "test": item_at(start, position)}
    for name, pairs in frames.items():
        table = pd.DataFrame({"user": np.repeat(users, PER_USER), "item": pairs.ravel()})
        table.to_parquet(folder / name / f"{number:03d}.parquet")
    for name, spread in MODELS.items():
        # The model's order is the user's, cut at a random place: positives before it are missed.
        shift = rng.integers(spread, size=n_users)
        lists = item_at(start, shift[:, None] + np.arange(LIST_LENGTH)).astype(np.int64)
        table = pd.DataFrame({"user": users, "items": list(lists)})
        table.to_parquet(folder / name / f"{number:03d}.parquet")


def item_at(start: np.ndarray, position: np.ndarray) -> np.ndarray:
    return (start[:, None] + 7 * position) % N_ITEMS


def make_data(folder: Path, n_positives: int, n_partitions: int) -> None:
    for name in ("train", "test", *MODELS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(n_partitions):
        if not (folder / "far" / f"{number:03d}.parquet").exists():
            make_partition(folder, number, n_positives // PER_USER // n_partitions)


def read_part(path: str) -> pd.DataFrame:
    return pd.read_parquet(path)


class Spent:
    """Seconds, and processor time of this process and all its descendants, of one step."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Spent:
        self._wall, self._cpu = time.perf_counter(), processor_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds, self.cpu = time.perf_counter() - self._wall, processor_time() - self._cpu
        print(f"{self.name}: {self.seconds:.0f} s, {self.cpu:.1f} s of processor time", flush=True)


def processor_time() -> float:
    """Return the seconds that this process, its descendants, and children that ended have used."""
    total = 0
    for process in members():
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            continue
        total += sum(map(int, text[text.rindex(")") + 2 :].split()[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def imported() -> None:
    """Load in a worker what an evaluation needs."""
    import scipy.stats

    import ipseval.distributed
    import ipseval.evaluation

    assert scipy.stats
    assert ipseval.distributed


def run_dask(folder: Path, n_partitions: int):
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    dask.config.set({"dataframe.convert-string": False})
    frames = {
        name: dd.from_map(read_part, sorted(map(str, (folder / name).iterdir())))
        for name in ("train", "test", *MODELS)
    }
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="3GB", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(imported)
        models = {name: frames[name] for name in MODELS}
        with Spent("own") as own:
            shuffled = {
                name: one.shuffle(on="user", npartitions=n_partitions) for name, one in frames.items()
            }
            joined = [shuffled["test"].merge(shuffled[name], on="user", how="left") for name in MODELS]
            rows = [one.map_partitions(len).sum() for one in (shuffled["train"], *joined)]
            print(dask.compute(*rows))
        with Spent("ipseval") as ours:
            result = evaluate_dask(
                models, frames["train"], frames["test"], n_partitions=n_partitions, **OPTIONS
            )
        return result, own, ours


def run_spark(folder: Path, n_partitions: int):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "3g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20000")
        .getOrCreate()
    )
    frames = {name: session.read.parquet(str(folder / name)) for name in ("train", "test", *MODELS)}
    models = {name: frames[name] for name in MODELS}
    try:
        context = session.sparkContext
        context.parallelize(range(8), 8).foreach(lambda number: imported())
        with Spent("own") as own:
            shuffled = {name: one.repartition(n_partitions, "user") for name, one in frames.items()}
            joined = shuffled["test"]
            for name in MODELS:
                lists = shuffled[name].withColumnRenamed("items", name)
                joined = joined.join(lists, "user", "left")
            # Without a look into the lists Spark would not read them.
            places = joined.selectExpr(*(f"sum(array_position({name}, item))" for name in MODELS))
            print(shuffled["train"].count(), *places.first())
        with Spent("ipseval") as ours:
            result = evaluate_spark(
                models, frames["train"], frames["test"], n_partitions=n_partitions, **OPTIONS
            )
        return result, own, ours
    finally:
        session.stop()


class Memory(threading.Thread):
    """Peak resident memory of this process, and of it with all its children, sampled from /proc."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.driver = self.python = self.jvm = self.total = 0.0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.25):
            sizes = {"python": 0.0, "java": 0.0}
            for name, size in family():
                sizes["java" if name == "java" else "python"] += size
            own = resident("self")
            self.driver, self.python = max(self.driver, own), max(self.python, sizes["python"])
            self.jvm, self.total = max(self.jvm, sizes["java"]), max(self.total, sum(sizes.values()))


def resident(process: str | int) -> float:
    """Return the proportional set size in GB, where pages shared by forked workers count once."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1e6


def family() -> list[tuple[str, float]]:
    """Return name and memory of this process and all its descendants."""
    return [(name, resident(one)) for one, name in members().items()]


def members() -> dict[int, str]:
    """Return the number and name of this process and of all its descendants."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            names[int(entry.name)] = text[text.index("(") + 1 : text.rindex(")")]
            parents[int(entry.name)] = int(text[text.rindex(")") + 2 :].split()[1])
    found = {os.getpid()}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return {one: names.get(one, "python") for one in found}
        found |= more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("dask", "spark"), default="dask")
    parser.add_argument("--positives", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--folder", default=str(Path(tempfile.gettempdir()) / "ipseval-distributed-lists"))
    options = parser.parse_args()
    folder = Path(options.folder) / f"{options.positives}-{options.partitions}"
    make_data(folder, options.positives, options.partitions)
    memory = Memory()
    memory.start()
    run = run_dask if options.engine == "dask" else run_spark
    result, own, ours = run(folder, options.partitions)
    memory.done.set()
    print(result.frame[["model", "metric", "estimator", "estimate", "std_error", "n_users", "n_positives"]])
    print(result.compare()[["model", "metric", "estimator", "difference", "std_error"]])
    print(
        f"{options.engine}: {ours.seconds:.0f} s, {ours.cpu / own.cpu:.2f} × the processor time of its own "
        f"shuffle and join ({ours.cpu:.1f} and {own.cpu:.1f} s); peak memory in GB: driver "
        f"{memory.driver:.2f}, all Python {memory.python:.2f}, JVM {memory.jvm:.2f}, together "
        f"{memory.total:.2f}"
    )


if __name__ == "__main__":
    main()
