"""Time and memory of evaluation on Dask and Spark on one machine: many positives, top-100 lists.

    python benchmarks/distributed_lists.py --engine dask      (or spark)
    python benchmarks/distributed_lists.py --engine dask --growth 1 2 4 8 16
    python benchmarks/distributed_lists.py --engine dask --tested 0.1

Data are made once, in --folder: users with ten test positives and ten training items each, and three models
whose lists hold the positives at random places. Two workers. Prints the table, seconds and peak memory.

In the same run the engine shuffles the same rows by user and joins the lists with the positives: "own".
Both run twice, the second time counts: processor time of this process and all its descendants after imports.
--growth: more workers (local-cluster of Spark), partitions, positives. --tested: a share of users has some.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from out_of_core import N_ITEMS, PER_USER, item_at
from page import add_write_option, deliver

from ipseval.distributed import evaluate_dask, evaluate_spark
from ipseval.propensity import PowerLawPropensity
from reproductions.tables import markdown

LIST_LENGTH, ROWS = 100, 50_000  # positives of a file with --growth
GROWN = (100_000, 1_000_000, 10_000_000)
MODELS = {"near": 150, "middle": 400, "far": 1500}  # positives are among the first so many items of the order
FRAMES = ("train", "test", *MODELS)
OPTIONS = {
    "metrics": ("recall@10", "ndcg@100", "ap@100"),
    "estimators": ("aoa", "snips", "snips-global"),
    "propensity": PowerLawPropensity(gamma=0.5, unseen="smooth"),
    "items": np.arange(N_ITEMS, dtype=np.int64),
}


def make_partition(folder: Path, number: int, n_users: int) -> None:
    """Write the frames of one partition."""
    for name in FRAMES:
        (folder / name).mkdir(parents=True, exist_ok=True)
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


def made(parent: str, n_positives: int, n_partitions: int) -> Path:
    """Return the folder of the data, which are made where they are not there."""
    folder = Path(parent) / f"{n_positives}-{n_partitions}"
    for number in range(n_partitions):
        if not (folder / "far" / f"{number:03d}.parquet").exists():
            make_partition(folder, number, n_positives // PER_USER // n_partitions)
    return folder


def paths_of(folder: Path, name: str) -> list[str]:
    return sorted(map(str, (folder / name).iterdir()))


def spent(name: str, call):
    """Return a result; wall seconds, processor time with descendants, and processor time of this process."""
    clocks = (time.perf_counter, processor_time, time.process_time)
    then = [clock() for clock in clocks]
    result = call()
    took = [clock() - before for clock, before in zip(clocks, then, strict=True)]
    print(f"{name}: {took[0]:.1f} s, {took[1]:.1f} s of processor time", flush=True)
    return result, took


def processor_time() -> float:
    """Return the seconds that this process, its descendants, and children that ended have used."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def imported(*more: str) -> None:
    """Load in a worker what an evaluation needs."""
    for name in ("scipy.stats", "pyarrow.parquet", "ipseval.distributed", "ipseval.evaluation", *more):
        __import__(name)


@contextmanager
def dask_frames(folder: Path, n_workers: int):
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    dask.config.set({"dataframe.convert-string": False})
    alone = {"threads_per_worker": 1, "memory_limit": "3GB", "dashboard_address": None}
    with LocalCluster(n_workers=n_workers, **alone) as cluster, Client(cluster) as client:
        client.run(imported, "dask.dataframe", "distributed.shuffle")
        yield {name: dd.from_map(pd.read_parquet, paths_of(folder, name)) for name in FRAMES}


def dask_own(frames, n_partitions: int) -> None:
    import dask

    shuffled = {name: one.shuffle(on="user", npartitions=n_partitions) for name, one in frames.items()}
    joined = [shuffled["test"].merge(shuffled[name], on="user", how="left") for name in MODELS]
    print(dask.compute(*[one.map_partitions(len).sum() for one in (shuffled["train"], *joined)]))


@contextmanager
def spark_frames(folder: Path, n_workers: int, master: str = "local-cluster[{},1,1024]"):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.driver.memory": "3g", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    options |= {"spark.sql.execution.arrow.maxRecordsPerBatch": "20000"}
    session = SparkSession.builder.master(master.format(n_workers)).config(map=options).getOrCreate()
    with session:
        session.sparkContext.parallelize(range(64), 64).foreach(lambda number: imported())
        yield {name: session.read.parquet(str(folder / name)) for name in FRAMES}


def spark_own(frames, n_partitions: int) -> None:
    shuffled = {name: one.repartition(n_partitions, "user") for name, one in frames.items()}
    joined = shuffled["test"]
    for name in MODELS:
        lists = shuffled[name].withColumnRenamed("items", name)
        joined = joined.join(lists, "user", "left")
    # Without a look into the lists Spark would not read them.
    places = joined.selectExpr(*(f"sum(array_position({name}, item))" for name in MODELS))
    print(shuffled["train"].count(), *places.first())


def evaluated(frames, n_partitions: int):
    """Return the result, and what it took."""
    evaluate = evaluate_spark if hasattr(frames["train"], "sparkSession") else evaluate_dask
    given = {name: frames[name] for name in MODELS}, frames["train"], frames["test"]
    return spent("ipseval", lambda: evaluate(*given, n_partitions=n_partitions, **OPTIONS))


def growth(engine, folder: str, workers: list[int]) -> None:
    """Print what more workers, partitions and positives take; results of the same partitions are the same."""
    rows, tables = [], {}
    cases = [(GROWN[1], 20, one) for one in workers] + [(GROWN[1], 80, workers[-1])]
    cases += [(one, one // ROWS, 2) for one in GROWN]
    for n_positives, n_partitions, n_workers in dict.fromkeys(cases):
        with engine(made(folder, n_positives, n_positives // ROWS), n_workers) as frames:
            result, ours = evaluated(frames, n_partitions)
        same = tables.setdefault((n_positives, n_partitions), result.frame)
        pd.testing.assert_frame_equal(same, result.frame, check_exact=True)
        rows.append((n_positives, n_partitions, n_workers, *ours, 1e6 * ours[1] / n_positives))
    print("positives, partitions, workers, seconds, processor time, driver, processor time per million")
    print(*([round(one, 1) for one in row] for row in rows), sep="\n")
    for n_files in (1, 20):
        sizes(made(folder, GROWN[1], GROWN[1] // ROWS), n_files)


def sizes(folder: Path, n_files: int) -> None:
    """Print the bytes of blocks, of what a partition of so many files sends, and memory."""
    from ipseval.distributed._blocks import pack_blocks, unpack_blocks
    from ipseval.distributed.partition import reduce_partition
    from ipseval.distributed.plan import make_plan

    fixed = {"missing_lists": "zero", "ties": "default", "confidence_level": 0.95, "n_relevant": None}
    asked = {name: one for name, one in OPTIONS.items() if name != "items"} | fixed
    plan = make_plan(OPTIONS["items"], np.ones(N_ITEMS), low_ess="warn", count_users=None, **asked)
    parts = {}
    for name in FRAMES:
        found = map(pd.read_parquet, paths_of(folder, name)[:n_files])
        parts[name] = [next(pack_blocks(one, np.zeros(len(one), dtype=int), 1))[-1] for one in found]
    train, test, *lists = map(unpack_blocks, parts.values())
    sent = len(pickle.dumps(reduce_partition(train, test, dict(zip(MODELS, lists, strict=True)), plan)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{n_files * ROWS:,} positives: {sent:,} bytes sent, peak {peak:.2f} GB; blocks:", end=" ")
    print({name: sum(map(len, blocks)) for name, blocks in parts.items()})


def tested_alone(frames, n_partitions: int, share: float) -> None:
    """Print what lists of all users take, and lists of those with positives alone, with equal estimates."""
    frames = frames | {"test": frames["test"][frames["test"]["user"] % round(1 / share) == 0]}
    tested = frames["test"][["user"]].drop_duplicates()

    def alone():
        if hasattr(tested, "sparkSession"):
            return {name: frames[name].join(tested, "user", "left_semi") for name in MODELS}
        users = tested["user"].compute()
        return {name: frames[name][frames[name]["user"].isin(users)] for name in MODELS}

    result, ours = [evaluated(frames, n_partitions) for _ in range(2)][1]  # the first one warms up
    (same, _), less = spent("filter and ipseval", lambda: evaluated(frames | alone(), n_partitions))
    pd.testing.assert_frame_equal(result.frame, same.frame, check_exact=True)
    print(f"lists of users with positives alone: {less[1] / ours[1]:.2f} × the processor time")


class Memory(threading.Thread):
    """Peak memory in GB of this process, and of it with all its children; shared pages count once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = dict.fromkeys(("driver", "python", "java", "together"), 0.0)
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.25):
            now = dict.fromkeys(self.peak, 0.0)
            for number, process in enumerate([psutil.Process(), *psutil.Process().children(recursive=True)]):
                with suppress(psutil.Error):
                    size, kind = process.memory_full_info().pss / 1e9, process.name()
                    for name in ("java" if kind == "java" else "python", "together", *["driver"][number:]):
                        now[name] += size
            self.peak = {name: max(one, now[name]) for name, one in self.peak.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("dask", "spark"), default="dask")
    parser.add_argument("--positives", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--growth", type=int, nargs="+", metavar="WORKERS")
    parser.add_argument("--tested", type=float, metavar="SHARE")
    parser.add_argument("--folder", default=str(Path(tempfile.gettempdir()) / "ipseval-distributed-lists"))
    add_write_option(parser)
    options = parser.parse_args()
    engine = dask_frames if options.engine == "dask" else spark_frames
    if options.growth:
        sys.exit(growth(engine, options.folder, options.growth))
    folder = made(options.folder, options.positives, options.partitions)
    memory = Memory()
    memory.start()
    with engine(folder, 2, *(["local[{},4]"] if engine is spark_frames else [])) as frames:
        if options.tested:
            sys.exit(tested_alone(frames, options.partitions, options.tested))
        shuffle = dask_own if engine is dask_frames else spark_own
        rows = []
        for round_name in ("first", "second"):
            _, own = spent("own", lambda: shuffle(frames, options.partitions))
            result, ours = evaluated(frames, options.partitions)
            seconds = (f"{ours[1]:.1f}", f"{own[1]:.1f}", f"{ours[1] / own[1]:.2f}")
            wall_ratio = f"{ours[0] / own[0]:.2f}"
            rows.append((options.engine, f"{options.positives:,}", round_name, *seconds, wall_ratio))
    memory.done.set()
    print(result.frame[["model", "metric", "estimator", "estimate", "std_error", "n_users", "n_positives"]])
    print(result.compare()[["model", "metric", "estimator", "difference", "std_error"]])
    print(f"peak memory in GB: {memory.peak}")
    header = ("engine", "positives", "round", "ipseval, s", "engine alone, s", "ratio", "ratio of wall time")
    packages = ("dask", "distributed") if options.engine == "dask" else ("pyspark",)
    deliver(f"distributed-{options.engine}", markdown(header, rows), options.write, packages)


if __name__ == "__main__":
    main()
