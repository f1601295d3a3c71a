"""Evaluation on Spark: one shuffle by user, one reduction per partition, merged on the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval._reduction import Reduction
from ipseval._requests import DEFAULT_METRICS, OnLowEss
from ipseval._types import AnyArray, IntArray, Missing, TieChoice
from ipseval.distributed._groups import UserRows
from ipseval.distributed._ids import popularity_of, universe
from ipseval.distributed._partition import Plan, Seen, reduce_partition
from ipseval.distributed._plan import finish, make_plan, split_models
from ipseval.distributed._progress import spark_tasks
from ipseval.distributed._sorted import Arrays
from ipseval.errors import InputError, IpsevalError
from ipseval.estimators import Estimator
from ipseval.evaluation import Evaluation
from ipseval.metrics import Metric

TRAIN, TEST, FIRST_MODEL = 0, 1, 2
ANSWER = "number int, failed boolean, payload binary"
VALUES = {"rank", "score"}  # columns of numbers that order lists


def evaluate_spark(
    models: dict[str, Any],
    train: Any,
    test: Any,
    *,
    users: Any | None = None,
    items: Any | None = None,
    propensity: Any | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    missing: Missing = "zero",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_relevant: int | Literal["estimated"] | None = None,
    on_low_ess: OnLowEss = "warn",
    n_partitions: int | None = None,
    per_user: bool = False,
    seen: Seen = "exclude",
    by: Any | None = None,
    progress: bool | None = None,
) -> Evaluation:
    """Return the estimates of `evaluate`, computed partition by partition with Spark.

    What is not described here is as in `evaluate_dask`. ipseval must be installed on the workers.

    Parameters
    ----------
    models : dict
        Name -> Spark frame of top-K lists (user, item, rank or score; or user, items with an array of items,
        best first), or a tuple of factors as in `evaluate_dask`, which is broadcast.
    train, test : Spark frames with columns user, item
    n_partitions : int, optional
        Of the shuffle by user; default: spark.sql.shuffle.partitions. One partition must fit in the memory
        of a Python worker.
    progress : bool, optional
        A bar of Spark's tasks after two seconds. Default: only on a terminal.
    """
    from pyspark import cloudpickle

    plan = make_plan(
        *_catalogue(train, test, items),
        users=users,
        propensity=propensity,
        metrics=metrics,
        estimators=estimators,
        per_user=per_user,
        seen=seen,
        missing=missing,
        ties=ties,
        confidence_level=confidence_level,
        n_relevant=n_relevant,
        on_low_ess=on_low_ess,
        by=by,
        count=lambda: _user_rows(train, test),
    )
    lists, factors = split_models(models, plan.users, len(plan.items))
    session = train.sparkSession
    kinds = {number: _kind(frame) for number, frame in enumerate(lists.values(), FIRST_MODEL)}
    # A caller's own metric may hold functions, which plain pickle refuses.
    packed = cloudpickle.dumps((plan, factors, list(models), list(lists), kinds))
    shared = session.sparkContext.broadcast(packed)
    rows = _dealt([train, test, *lists.values()], n_partitions)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        # Spark may hand over nothing: then there is no user to count either.
        parts = [batch for batch in batches if batch.num_rows]
        if parts:
            yield _answer(parts, pickle.loads(shared.value))  # nosec B301

    try:
        with spark_tasks(session.sparkContext, progress):
            answers = rows.mapInArrow(work, ANSWER).toPandas()
    finally:
        shared.unpersist()
    return finish(_parts(answers), {**lists, **factors}, plan)


def _catalogue(train: Any, test: Any, items: Any | None) -> tuple[AnyArray, IntArray]:
    """Return the ids of all items, and the training rows of each."""
    both = train.select("item").union(test.select("item")).distinct()
    ids = universe(both.toPandas()["item"].to_numpy()) if items is None else np.asarray(items)
    return ids, popularity_of(ids, *_rows_by(train, "item"))


def _user_rows(train: Any, test: Any) -> UserRows:
    tested = test.select("user").distinct().toPandas()
    return UserRows(*_rows_by(train, "user"), tested["user"].to_numpy())


def _rows_by(frame: Any, column: str) -> tuple[AnyArray, IntArray]:
    """Return the ids in a column, and how many rows each has."""
    from pyspark.sql import functions

    counts = frame.groupBy(column).agg(functions.count("*").alias("n")).toPandas()
    return counts[column].to_numpy(), counts["n"].to_numpy()


def _kind(frame: Any) -> str:
    """Return which column of a frame of lists orders it."""
    for name in ("items", "rank", "score"):
        if name in frame.columns:
            return name
    raise InputError(f"lists need columns user, item and rank or score, or user, items; got {frame.columns}.")


def _dealt(frames: list[Any], n_partitions: int | None) -> Any:
    """Return all rows of a user in one partition."""
    size = n_partitions or int(frames[0].sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return _tagged(frames).repartition(size, "user")


def _tagged(frames: list[Any]) -> Any:
    """Return all frames as one, with the number of the frame in the column source, and items as arrays.

    Each row has an array, as Spark fills up a vector of arrays from its first null at every row it adds: with
    nulls in train and test that took more than half of all time.
    """
    from pyspark.sql import functions

    types = dict(frames[0].dtypes)
    kinds = [None if source < FIRST_MODEL else _kind(frame) for source, frame in enumerate(frames)]
    tagged = []
    for source, (frame, kind) in enumerate(zip(frames, kinds, strict=True)):
        if dict(frame.dtypes)["user"] != types["user"]:
            raise InputError(
                f"user ids are {types['user']} in train and {dict(frame.dtypes)['user']} in another frame."
            )
        items = functions.col("items") if kind == "items" else functions.array("item")
        items = functions.coalesce(items, functions.array()).cast(f"array<{types['item']}>")
        columns = [functions.lit(source).cast("byte").alias("source"), "user", items.alias("items")]
        if set(kinds) & VALUES:
            value = functions.col(kind) if kind in VALUES else functions.lit(None)
            columns.append(value.cast("double").alias("value"))
        tagged.append(frame.select(*columns))
    first, *others = tagged
    for frame in others:
        first = first.unionByName(frame)
    return first


def _answer(batches: list[Any], shared: tuple[Plan, Any, list[str], list[str], dict[int, str]]) -> Any:
    """Return the pickled moments of one partition, or its error, which Spark would bury in a traceback."""
    import pyarrow
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    try:
        payload, failed = pickle.dumps(_reduce(pyarrow.Table.from_batches(batches), *shared)), False
    except IpsevalError as error:
        payload, failed = pickle.dumps((type(error).__name__, str(error))), True
    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([number], pyarrow.int32()), pyarrow.array([failed]), pyarrow.array([payload])],
        names=["number", "failed", "payload"],
    )


def _reduce(
    rows: Any, plan: Plan, factors: Any, names: list[str], lists: list[str], kinds: dict[int, str]
) -> Any:
    from pyarrow import compute

    def part(number: int) -> Any:
        return rows.filter(compute.equal(rows["source"], number))

    models = dict(factors)
    for number, name in enumerate(lists, FIRST_MODEL):
        models[name] = _lists(part(number), kinds[number])
    train, test = (_pairs(part(number)) for number in (TRAIN, TEST))
    return reduce_partition(train, test, {name: models[name] for name in names}, plan)


def _pairs(rows: Any) -> pd.DataFrame:
    """Return user and item of rows with one item each, from Arrow: no entry becomes a Python object."""
    from pyarrow import compute

    return pd.DataFrame(
        {"user": rows["user"].to_pandas(), "item": compute.list_flatten(rows["items"]).to_pandas()}
    )


def _lists(rows: Any, kind: str) -> pd.DataFrame | Arrays:
    """Return lists as they came: as arrays, or one row for each entry."""
    from pyarrow import compute

    if kind == "items":
        size = compute.list_value_length(rows["items"]).to_numpy().astype(np.int64)
        items = compute.list_flatten(rows["items"]).to_pandas().to_numpy()
        return Arrays(rows["user"].to_pandas().to_numpy(), size, items)
    value = rows["value"].to_pandas()
    if kind == "rank" and (value == np.floor(value)).all():  # Spark has made doubles of whole numbers
        value = value.astype(np.int64)
    return _pairs(rows).assign(**{kind: value})


def _parts(answers: pd.DataFrame) -> list[Reduction | None]:
    if not len(answers):
        raise InputError("train and test have no rows.")
    answers = answers.sort_values("number", ignore_index=True)
    for payload in answers.loc[answers["failed"], "payload"]:
        name, text = pickle.loads(payload)  # nosec B301
        raise InputError(f"{text} ({name} in a partition)")
    # The payloads are what our own workers pickled in this job.
    return [pickle.loads(payload) for payload in answers["payload"]]  # nosec B301
