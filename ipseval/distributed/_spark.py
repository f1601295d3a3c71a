"""Evaluation on Spark: one shuffle by user, one reduction per partition, merged in a tree.

Spark shuffles rows one by one. So they are packed before, straight from the files, and go through the shuffle
as a few blocks of bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed._blocks import ORDERS, dealt, opened
from ipseval.distributed.partition import Plan, catalogue, reduce_partition
from ipseval.distributed.plan import PartitionOptions, finish, make_plan, split_models
from ipseval.distributed.sorted_pairs import Arrays
from ipseval.errors import InputError, IpsevalError
from ipseval.evaluation import Evaluation
from ipseval.evaluation.reduction import Reduction, merge_all
from ipseval.utils.types import AnyArray

TRAIN, TEST, FIRST_MODEL = 0, 1, 2
ANSWER = "number int, failed boolean, payload binary"
BLOCK = "number int, source int, place long, rows binary"
ROWS = 4_000_000  # entries of lists that a worker packs at a time, about
ASTRAY = "Spark does not send users where `hash` says; cast the user ids to whole numbers or plain text."
MERGED = 64  # partitions that one task merges, where there are more; a power of 2: pairs stay the same


def evaluate_spark(
    models: dict[str, Any],
    train: Any,
    test: Any,
    *,
    items: Any | None = None,
    n_partitions: int | None = None,
    **options: Unpack[PartitionOptions],
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
    **options
        Of `evaluate_dask`: users, propensity, metrics, estimators, missing_lists, ties, confidence_level,
        n_relevant, low_ess, per_user, seen, by.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions

    counts = _counted("item", train, *([test] if items is None else []))
    plan = make_plan(*catalogue(counts, items), lambda: _counted("user", train, test), **options)
    lists, factors = split_models(models, plan.users, len(plan.items))
    session = train.sparkSession
    size = n_partitions or int(session.conf.get("spark.sql.shuffle.partitions"))
    # A caller's own metric may hold functions, which plain pickle refuses.
    told = cloudpickle.dumps((plan, factors, list(models), list(lists)))
    shared = session.sparkContext.broadcast(told)
    blocks = _blocks([train, test, *lists.values()], size)
    try:
        answers = blocks.mapInArrow(partial(_work, shared=shared), ANSWER)
        while size > MERGED:
            size = -(-size // MERGED)
            together = answers.repartition(size, functions.expr(f"number div {MERGED}"))
            answers = together.mapInArrow(_merged, ANSWER)
        found = answers.toPandas()
    finally:
        shared.unpersist()
    return finish(_parts(found, size), {**lists, **factors}, plan)


def _counted(column: str, *frames: Any) -> pd.DataFrame:
    """Return the ids in a column of one or two frames, each once, and how many rows of each have it."""
    from pyspark.sql import functions

    names = ("trained", "tested")
    marked = [
        frame.select(column, *(functions.lit(int(one == number)).alias(names[one]) for one in range(2)))
        for number, frame in enumerate(frames)
    ]
    both = marked[0] if len(marked) == 1 else marked[0].unionByName(marked[1])
    sums = both.groupBy(column).agg(*(functions.sum(name).alias(name) for name in names))
    counts: pd.DataFrame = sums.toPandas().dropna().set_index(column)
    return counts


def _kind(frame: Any) -> str:
    """Return which column of a frame of lists orders it."""
    for name in ("items", "rank", "score"):
        if name in frame.columns:
            return name
    raise InputError(f"lists need columns user, item and rank or score, or user, items; got {frame.columns}.")


def _blocks(frames: list[Any], n_partitions: int) -> Any:
    """Return the rows of all frames as blocks, those of a user in one partition.

    A block goes where Spark sends one of its users: `hash` of the user says so before.
    """
    packed = [_packed(frame, source, n_partitions, frames[0]) for source, frame in enumerate(frames)]
    first, *others = packed
    for one in others:
        first = first.unionByName(one)
    return first.repartition(n_partitions, "user")


def _packed(frame: Any, source: int, n_partitions: int, train: Any) -> Any:
    """Return the rows of a frame as blocks, with one of the users of each."""
    from pyspark.sql import functions

    types, own = dict(train.dtypes), dict(frame.dtypes)
    if own["user"] != types["user"]:
        raise InputError(f"user ids are {types['user']} in train and {own['user']} in another frame.")
    kind = None if source < FIRST_MODEL else _kind(frame)
    number = functions.expr(f"pmod(hash(user), {n_partitions})").alias("number")
    item = functions.col("item" if kind != "items" else "items")
    if kind == "items":
        columns = [functions.coalesce(item, functions.array()).cast(f"array<{types['item']}>").alias("items")]
    else:
        columns = [item.cast(types["item"]).alias("item")]
    if kind in ORDERS:
        whole = own[kind] in ("tinyint", "smallint", "int", "bigint")
        columns.append(functions.col(kind) if whole else functions.col(kind).cast("double").alias(kind))

    pack = partial(_pack, source=source, n_partitions=n_partitions)
    return frame.select("user", *columns, number).mapInArrow(pack, f"user {types['user']}, {BLOCK}")


def _pack(batches: Iterator[Any], source: int, n_partitions: int) -> Iterator[Any]:
    """Yield the blocks of the rows of one task, some batches at a time."""
    from pyspark import TaskContext

    context = TaskContext.get()
    place = (context.partitionId() if context is not None else 0) << 32
    held: list[Any] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += len(batch.column("items").values) if "items" in batch.schema.names else batch.num_rows
        if size >= ROWS:
            yield _block(held, source, place, n_partitions)
            held, size, place = [], 0, place + 1
    if size:
        yield _block(held, source, place, n_partitions)


def _block(batches: list[Any], source: int, place: int, n_partitions: int) -> Any:
    import pyarrow
    from pyarrow import compute

    table = pyarrow.Table.from_batches(batches).combine_chunks()

    def column(name: str) -> AnyArray:
        return np.asarray(table[name].to_pandas().to_numpy())

    if "items" in table.column_names:
        size = compute.list_value_length(table["items"]).to_numpy().astype(np.int64)
        items = compute.list_flatten(table["items"]).to_pandas().to_numpy()
        rows: pd.DataFrame | Arrays = Arrays(column("user"), size, items)
    else:
        names = [name for name in table.column_names if name != "number"]
        rows = pd.DataFrame({name: column(name) for name in names}, copy=False)
    numbers, users, packed = zip(*dealt(rows, column("number"), n_partitions), strict=True)
    fields = {
        "user": table["user"].take(pyarrow.array(users)).combine_chunks(),
        "number": pyarrow.array(numbers, pyarrow.int32()),
        "source": pyarrow.array([source] * len(numbers), pyarrow.int32()),
        "place": pyarrow.array([place] * len(numbers), pyarrow.int64()),
        "rows": pyarrow.array(packed, pyarrow.binary()),
    }
    return pyarrow.RecordBatch.from_pydict(fields)


def _work(batches: Iterator[Any], shared: Any) -> Iterator[Any]:
    # Spark may hand over nothing: then there is no user to count either.
    parts = [batch for batch in batches if batch.num_rows]
    if parts:
        yield _answer(parts, pickle.loads(shared.value))  # nosec B301


def _answer(batches: list[Any], shared: tuple[Plan, Any, list[str], list[str]]) -> Any:
    """Return the pickled moments of one partition, or its error, which Spark would bury in a traceback."""
    import pyarrow

    blocks = pyarrow.Table.from_batches(batches).sort_by([("source", "ascending"), ("place", "ascending")])
    numbers = blocks["number"].unique().to_pylist()
    try:
        if len(numbers) > 1:
            raise InputError(ASTRAY)
        payload, failed = pickle.dumps(_reduce(blocks, *shared)), False
    except IpsevalError as error:
        payload, failed = pickle.dumps((type(error).__name__, str(error))), True
    return _record(numbers[0], failed, payload)


def _record(number: int, failed: bool, payload: bytes) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([number], pyarrow.int32()), pyarrow.array([failed]), pyarrow.array([payload])],
        names=["number", "failed", "payload"],
    )


def _reduce(blocks: Any, plan: Plan, factors: Any, names: list[str], lists: list[str]) -> Any:
    from pyarrow import compute

    def part(source: int) -> Any:
        return opened(blocks.filter(compute.equal(blocks["source"], source))["rows"].to_pylist())

    models = dict(factors)
    for source, name in enumerate(lists, FIRST_MODEL):
        models[name] = part(source)
    return reduce_partition(part(TRAIN), part(TEST), {name: models[name] for name in names}, plan)


def _merged(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the answers of `MERGED` partitions each as one, and errors as they came."""
    groups: dict[int, list[Reduction | None]] = {}
    for batch in batches:
        for answer in batch.to_pylist():
            if answer["failed"]:
                yield _record(**answer)
            else:
                group, place = divmod(answer["number"], MERGED)
                groups.setdefault(group, [None] * MERGED)[place] = pickle.loads(answer["payload"])  # nosec B301
    for group, parts in groups.items():
        yield _record(group, False, pickle.dumps(merge_all(parts)))


def _parts(answers: pd.DataFrame, size: int) -> list[Reduction | None]:
    """Return the reductions that came, in the order of their partitions; None where there is no user."""
    if not len(answers):
        raise InputError("train and test have no rows.")
    for payload in answers.loc[answers["failed"]].sort_values("number")["payload"]:
        name, text = pickle.loads(payload)  # nosec B301
        raise InputError(f"{text} ({name} in a partition)")
    if not answers["number"].is_unique:
        raise InputError(ASTRAY)
    parts: list[Reduction | None] = [None] * size
    for number, payload in zip(answers["number"], answers["payload"], strict=True):
        # The payloads are what our own workers pickled in this job.
        parts[number] = pickle.loads(payload)  # nosec B301
    return parts
