"""Dask and Spark on this machine: the numbers of the local path, also when a worker is killed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ipseval.data.splits import Split
from ipseval.distributed import evaluate_dask, evaluate_spark
from ipseval.errors import InputError
from ipseval.evaluation import evaluate
from tests.distributed.test_partition_groups import groups_of
from tests.distributed.test_partitions import (
    METRICS,
    SCALED,
    UP_TO_A_FACTOR,
    as_arrays,
    assert_same,
    example,
    local,
)

OPTIONS = {"metrics": METRICS, "estimators": ("aoa", "snips", "snips-global"), "propensity": UP_TO_A_FACTOR}

pytestmark = [
    pytest.mark.filterwarnings("ignore:the median user has"),
    pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


needs_dask = pytest.mark.skipif(
    not installed("dask", "distributed"), reason="Dask is not installed: pip install dask distributed"
)
needs_spark = pytest.mark.skipif(
    not installed("pyspark") or shutil.which("java") is None,
    reason="Spark needs pip install pyspark and apt-get install openjdk-17-jre-headless",
)


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    return example(5, n_users=200)


@pytest.fixture(scope="module")
def expected(frames):
    return local(frames, lists_of(frames), **OPTIONS)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes that are restarted when they die."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local_cluster,
        Client(local_cluster) as client,
    ):
        yield client


def lists_of(given) -> dict:
    return {name: given[name] for name in ("first", "second")}


def dask_frames(frames: dict[str, pd.DataFrame], n_partitions: int = 5):
    import dask.dataframe as dd

    return {name: dd.from_pandas(frame, npartitions=n_partitions) for name, frame in frames.items()}


@needs_dask
def test_dask_gives_the_same_bits_whatever_the_number_of_workers_and_text_ids_too(frames, expected, cluster):
    import dask
    from distributed import Client, LocalCluster

    texts = {name: frame.assign(user=frame["user"].map("u{}".format)) for name, frame in frames.items()}
    actual = []
    for engine_frames in (dask_frames(frames), dask_frames(texts)):
        models = lists_of(engine_frames)
        evaluation = evaluate_dask(models, engine_frames["train"], engine_frames["test"], **OPTIONS)
        with (
            LocalCluster(n_workers=3, threads_per_worker=1, processes=False, dashboard_address=":0") as three,
            Client(three, set_as_default=True),
        ):
            assert_no_bit_changed(
                evaluation, evaluate_dask(models, engine_frames["train"], engine_frames["test"], **OPTIONS)
            )
        with dask.config.set({"scheduler": "threads", "dataframe.shuffle.method": "tasks"}):
            assert_no_bit_changed(
                evaluation, evaluate_dask(models, engine_frames["train"], engine_frames["test"], **OPTIONS)
            )
        actual.append(evaluation)
    assert_same(actual[0], expected)
    assert_same(actual[1], local(texts, lists_of(texts), **OPTIONS))


@pytest.fixture(scope="module")
def grouped(frames):
    """Options with groups of users and items, and the local result."""
    users = np.unique(np.concatenate([frames["train"]["user"], frames["test"]["user"]]))
    items = np.unique(np.concatenate([frames["train"]["item"], frames["test"]["item"]]))
    options = {**OPTIONS, "by": ["popularity", *groups_of(users, items, np.random.default_rng(0))[1:]]}
    return options, local(frames, lists_of(frames), **options)


@needs_dask
def test_dask_gives_the_groups_of_the_local_path(frames, grouped, cluster):
    options, expected = grouped
    engine_frames = dask_frames(frames)
    evaluation = evaluate_dask(
        lists_of(engine_frames), engine_frames["train"], engine_frames["test"], **options
    )
    assert list(evaluation.segments) == [
        "popularity",
        "activity",
        "cold-users",
        "cold-items",
        "device",
        "kind",
    ]
    assert_same(evaluation, expected)


@needs_dask
def test_dask_takes_frames_that_are_partitioned_already_and_factors(frames, cluster):
    import dask.dataframe as dd

    split = Split.from_frames(frames["train"], frames["test"])
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(split.n_users, 3)), rng.normal(size=(split.n_items, 3))

    def part(number: int, name: str) -> pd.DataFrame:
        return frames[name][frames[name]["user"] % 4 == number]

    train = dd.from_map(part, range(4), name="train")
    test = dd.from_map(part, range(4), name="test")
    options = {**OPTIONS, "metrics": ("auc", "recall@5")}
    evaluation = evaluate_dask(
        {"factors": factors}, train, test, users=split.user_ids, partitioned=True, per_user=True, **options
    )
    reference_evaluation = local(frames, {"factors": factors}, **options)
    assert_same(evaluation, reference_evaluation)
    key = ("factors", "auc", "snips")
    pd.testing.assert_series_equal(evaluation.per_user(*key), reference_evaluation.per_user(*key))
    with pytest.raises(InputError, match="same number of partitions"):
        evaluate_dask({"first": dask_frames(frames, 3)["first"]}, train, test, partitioned=True)


@needs_dask
def test_dask_merges_repeats_of_test_and_ranks_training_items(cluster):
    import dask.dataframe as dd

    rng = np.random.default_rng(5)
    events = pd.DataFrame({"user": rng.integers(40, size=900), "item": rng.integers(11, size=900)})
    lists = pd.DataFrame(
        [(u, i, r) for u in range(40) for r, i in enumerate(rng.permutation(11)[:6], 1)],
        columns=["user", "item", "rank"],
    )
    frames = {"train": events[:600], "test": events[600:], "lists": lists}
    engine_frames = {name: dd.from_pandas(frame, npartitions=3) for name, frame in frames.items()}
    options = {**OPTIONS, "seen": "include"}
    evaluation = evaluate_dask(
        {"lists": engine_frames["lists"]}, engine_frames["train"], engine_frames["test"], **options
    )
    split = Split.from_frames(frames["train"], frames["test"], duplicates="keep", seen="include")
    assert split.n_repeated_positives > 0
    assert split.n_repeats_merged > 0
    assert_same(evaluation, evaluate({"lists": lists}, split, **OPTIONS))
    merged = evaluation.data.set_index("what").loc["test rows that repeat a test pair, merged", "count"]
    assert merged == split.n_repeats_merged


def population(frames):
    """Return what evaluates ips over users of whom some have no row, by factors, and the local result."""
    users = np.arange(700)
    items = np.sort(pd.concat([frames["train"]["item"], frames["test"]["item"]]).unique())
    rng = np.random.default_rng(1)
    models = {name: (rng.normal(size=(700, 2)), rng.normal(size=(items.size, 2))) for name in ("one", "two")}
    options = {"users": users, "items": items, "metrics": ("auc", "recall@5"), "estimators": ("ips", "snips")}
    options |= {"propensity": SCALED, "n_relevant": 20}
    return models, options, local(frames, models, **options)


@needs_dask
def test_dask_counts_users_without_a_row_in_ips(frames, cluster):
    models, options, expected = population(frames)
    engine_frames = dask_frames(frames)
    evaluation = evaluate_dask(models, engine_frames["train"], engine_frames["test"], **options)
    ips_of_recall = evaluation.frame.query("metric == 'recall@5' and estimator == 'ips'")
    assert ips_of_recall["n_users"].tolist() == [700, 700]
    assert_same(evaluation, expected)


def slow(frame: pd.DataFrame, folder: str) -> pd.DataFrame:
    """Leave a trace of the process that works on a partition, and take a while."""
    Path(folder, f"{os.getpid()}").touch()
    time.sleep(0.4)
    return frame


def kill_first(folder: Path, killed: list[int]) -> None:
    """Kill the first process that leaves a trace, with SIGKILL."""
    for _ in range(1200):
        for trace in folder.iterdir():
            killed.append(int(trace.name))
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[0], signal.SIGKILL)
            return
        time.sleep(0.05)


@contextlib.contextmanager
def a_worker_killed(folder: Path):
    killed: list[int] = []
    thread = threading.Thread(target=kill_first, args=(folder, killed))
    thread.start()
    yield
    thread.join()
    assert killed, "no worker was killed"
    assert killed[0] != os.getpid()


def assert_no_bit_changed(ours, undisturbed):
    for frame, undisturbed_frame in (
        (ours.frame, undisturbed.frame),
        (ours.compare(), undisturbed.compare()),
    ):
        pd.testing.assert_frame_equal(frame, undisturbed_frame, check_exact=True)


@needs_dask
def test_a_dask_worker_killed_in_the_middle_changes_nothing(frames, expected, cluster, tmp_path):
    engine_frames = dask_frames(frames)
    models = {
        "first": engine_frames["first"].map_partitions(
            slow, str(tmp_path), meta=engine_frames["first"]._meta
        ),
        "second": engine_frames["second"],
    }
    with a_worker_killed(tmp_path):
        evaluation = evaluate_dask(models, engine_frames["train"], engine_frames["test"], **OPTIONS)
    assert_same(evaluation, expected)
    models["first"] = engine_frames["first"]
    assert_no_bit_changed(
        evaluation, evaluate_dask(models, engine_frames["train"], engine_frames["test"], **OPTIONS)
    )


@pytest.fixture(scope="module")
def spark():
    """Two threads of workers, and three more attempts for a task that fails."""
    from pyspark.sql import SparkSession

    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = root
    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def spark_frames(frames, session):
    return {name: session.createDataFrame(frame) for name, frame in frames.items()}


@needs_spark
def test_spark_gives_the_numbers_of_the_local_path(frames, expected, spark):
    engine_frames = spark_frames(frames, spark)
    models = {
        "first": engine_frames["first"],
        "second": spark.createDataFrame(as_arrays(frames["second"])),
    }
    evaluation = evaluate_spark(models, engine_frames["train"], engine_frames["test"], **OPTIONS)
    assert_same(evaluation, expected)


@needs_spark
def test_spark_merges_many_partitions_in_tasks_and_passes_their_errors_on(frames, expected, spark):
    engine_frames = spark_frames(frames, spark)
    models = {"first": engine_frames["first"], "second": engine_frames["second"]}
    many = 70  # more than one task merges
    assert_same(
        evaluate_spark(models, engine_frames["train"], engine_frames["test"], n_partitions=many, **OPTIONS),
        expected,
    )
    doubled = engine_frames["first"].union(engine_frames["first"])
    text = r"(?s)first \(top-K lists\) .*entries repeat an item of their list"
    for options in (OPTIONS, {**OPTIONS, "n_partitions": many}):
        with pytest.raises(InputError, match=text):
            evaluate_spark({"first": doubled}, engine_frames["train"], engine_frames["test"], **options)


@needs_spark
def test_spark_takes_text_ids_scores_and_ranks_of_any_number_type(frames, spark):
    texts = {name: frame.assign(user=frame["user"].map("u{}".format)) for name, frame in frames.items()}
    texts["second"]["rank"] = texts["second"]["rank"].astype(float)
    texts["third"] = texts["first"].assign(score=-texts["first"]["rank"]).drop(columns="rank")
    engine_frames = spark_frames(texts, spark)
    names = ("first", "second", "third")
    evaluation = evaluate_spark(
        {name: engine_frames[name] for name in names},
        engine_frames["train"],
        engine_frames["test"],
        **OPTIONS,
    )
    assert_same(evaluation, local(texts, {name: texts[name] for name in names}, **OPTIONS))


@needs_spark
def test_spark_gives_the_groups_of_the_local_path(frames, grouped, spark):
    options, expected = grouped
    engine_frames = spark_frames(frames, spark)
    assert_same(
        evaluate_spark(lists_of(engine_frames), engine_frames["train"], engine_frames["test"], **options),
        expected,
    )


@needs_spark
def test_spark_counts_users_without_a_row_in_ips(frames, spark):
    models, options, expected = population(frames)
    engine_frames = spark_frames(frames, spark)
    evaluation = evaluate_spark(
        models, engine_frames["train"], engine_frames["test"], per_user=True, **options
    )
    assert_same(evaluation, expected)
    key = ("one", "auc", "ips")
    pd.testing.assert_series_equal(evaluation.per_user(*key), expected.per_user(*key))


@needs_spark
def test_a_spark_worker_killed_in_the_middle_changes_nothing(frames, expected, spark, tmp_path):
    engine_frames = spark_frames(frames, spark)

    def work(batches):
        for batch in batches:
            yield slow(batch, str(tmp_path))

    first = engine_frames["first"].repartition(6).mapInPandas(work, engine_frames["first"].schema)
    with a_worker_killed(tmp_path):
        evaluation = evaluate_spark(
            {"first": first, "second": engine_frames["second"]},
            engine_frames["train"],
            engine_frames["test"],
            **OPTIONS,
        )
    assert_same(evaluation, expected)
    assert_no_bit_changed(
        evaluation,
        evaluate_spark(lists_of(engine_frames), engine_frames["train"], engine_frames["test"], **OPTIONS),
    )
