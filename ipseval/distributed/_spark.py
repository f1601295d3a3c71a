"""Evaluation on Spark: one shuffle by user, one reduction per partition, merged in a tree.

Spark shuffles rows one by one. The rows are therefore joined into a few blocks of bytes before the shuffle,
straight from the files.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed._blocks import ORDER_COLUMNS, pack_blocks, unpack_blocks
from ipseval.distributed.partition import Factors, Plan, build_catalogue, reduce_partition
from ipseval.distributed.plan import PartitionOptions, finish_evaluation, make_plan, split_models
from ipseval.distributed.sorted_pairs import ListArrays
from ipseval.errors import InputError, IpsevalError
from ipseval.evaluation import Evaluation
from ipseval.evaluation.reduction import Reduction, merge_reductions
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray

if TYPE_CHECKING:
    import pyarrow

SparkFrame: TypeAlias = Any  # pyspark.sql.DataFrame, of plain Spark or of Spark Connect
Batches: TypeAlias = Iterator["pyarrow.RecordBatch"]
Broadcast: TypeAlias = Any

# Number of a frame among the frames that are shuffled; models follow from FIRST_MODEL on.
TRAIN = 0
TEST = 1
FIRST_MODEL = 2

RESULT_SCHEMA = "number int, failed boolean, payload binary"
BLOCK_SCHEMA = "number int, source int, place long, rows binary"
ROWS_PER_BLOCK = 4_000_000  # entries of lists that a worker packs at a time, about
WHOLE_NUMBER_TYPES = ("tinyint", "smallint", "int", "bigint")
MISPLACED_USERS = (
    "Spark does not send users where `hash` says; cast the user ids to whole numbers or plain text."
)
PARTITIONS_PER_MERGE = 64  # partitions that one task merges; a power of 2, so that pairs do not change


@public_function
def evaluate_spark(
    models: dict[str, Any],
    train: Any,
    test: Any,
    *,
    items: Any | None = None,
    n_partitions: int | None = None,
    **options: Unpack[PartitionOptions],
) -> Evaluation:
    """Evaluate recommenders partition by partition with Spark; the estimates equal the ones of `evaluate`.

    Arguments that are not described here are as in `evaluate_dask`. ipseval must be installed on the workers.

    Parameters
    ----------
    models : dict
        Name -> Spark frame of top-K lists (user, item, rank or score; or user, items with an array of items,
        best first), or a tuple of factors as in `evaluate_dask`, which is broadcast.
    train, test : Spark frames
        With columns user, item.
    items : array of ids, optional
        The whole catalogue. Default: every item of `train` and `test`.
    n_partitions : int, optional
        Partitions of the shuffle by user. Default: spark.sql.shuffle.partitions. One partition must fit in
        the memory of a Python worker.
    **options
        Options of `evaluate_dask`: users, propensity, metrics, estimators, missing_lists, ties,
        confidence_level, n_relevant, low_ess, per_user, seen, by.

    Returns
    -------
    Evaluation
        The same estimates and standard errors as `evaluate` returns for the whole frames.

    Raises
    ------
    InputError
        As `evaluate`, from any partition.

    See Also
    --------
    evaluate_dask : Evaluate frames of Dask.
    evaluate_duckdb : Evaluate Parquet files on one machine.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions

    counted_frames = [train]
    if items is None:
        counted_frames.append(test)
    item_ids, popularity = build_catalogue(_count_ids("item", counted_frames), items)
    plan = make_plan(item_ids, popularity, lambda: _count_ids("user", [train, test]), **options)
    lists, factors = split_models(models, plan.users, len(plan.items))
    session = train.sparkSession
    size = n_partitions or int(session.conf.get("spark.sql.shuffle.partitions"))
    # A custom metric may contain functions, which plain pickle refuses.
    shared_bytes = cloudpickle.dumps((plan, factors, list(models), list(lists)))
    shared = session.sparkContext.broadcast(shared_bytes)
    blocks = _shuffle_blocks([train, test, *lists.values()], size)
    try:
        results = blocks.mapInArrow(partial(_reduce_batches, broadcast=shared), RESULT_SCHEMA)
        while size > PARTITIONS_PER_MERGE:
            size = -(-size // PARTITIONS_PER_MERGE)
            merge_task = functions.expr(f"number div {PARTITIONS_PER_MERGE}")
            results = results.repartition(size, merge_task).mapInArrow(_merge_batches, RESULT_SCHEMA)
        result_frame = results.toPandas()
    finally:
        shared.unpersist()
    return finish_evaluation(_load_results(result_frame, size), {**lists, **factors}, plan)


def _count_ids(column: str, frames: list[SparkFrame]) -> pd.DataFrame:
    """Return the ids in a column of one or two frames, each once, with their rows in each frame."""
    from pyspark.sql import functions

    names = ("trained", "tested")
    marked_frames = []
    for number, frame in enumerate(frames):
        marks = []
        for position, name in enumerate(names):
            marks.append(functions.lit(int(position == number)).alias(name))

        marked_frames.append(frame.select(column, *marks))
    rows = marked_frames[0]
    for frame in marked_frames[1:]:
        rows = rows.unionByName(frame)
    sum_columns = []
    for name in names:
        sum_columns.append(functions.sum(name).alias(name))

    sums = rows.groupBy(column).agg(*sum_columns)
    counts: pd.DataFrame = sums.toPandas().dropna().set_index(column)
    return counts


def _find_order_column(frame: SparkFrame) -> str:
    """Return the column of a frame of lists that orders it."""
    for name in ("items", *ORDER_COLUMNS):
        if name in frame.columns:
            return name
    raise InputError(f"lists need columns user, item and rank or score, or user, items; got {frame.columns}.")


def _shuffle_blocks(frames: list[SparkFrame], n_partitions: int) -> SparkFrame:
    """Return the rows of all frames as blocks, with the rows of a user in one partition.

    Spark sends a block by one of its users; `hash` of the user tells beforehand where it goes.
    """
    blocks = _pack_frame(frames[0], 0, n_partitions, frames[0])
    for source, frame in enumerate(frames[1:], start=1):
        blocks = blocks.unionByName(_pack_frame(frame, source, n_partitions, frames[0]))
    return blocks.repartition(n_partitions, "user")


def _pack_frame(frame: SparkFrame, source: int, n_partitions: int, train: SparkFrame) -> SparkFrame:
    """Return the rows of a frame as blocks, with one of the users of each."""
    from pyspark.sql import functions

    train_types = dict(train.dtypes)
    types = dict(frame.dtypes)
    if types["user"] != train_types["user"]:
        raise InputError(f"user ids are {train_types['user']} in train and {types['user']} in another frame.")
    order_column = None
    if source >= FIRST_MODEL:
        order_column = _find_order_column(frame)

    item_type = train_types["item"]
    if order_column == "items":
        items = functions.coalesce(functions.col("items"), functions.array())
        columns = [items.cast(f"array<{item_type}>").alias("items")]
    else:
        columns = [functions.col("item").cast(item_type).alias("item")]
    if order_column in ORDER_COLUMNS:
        order = functions.col(order_column)
        if types[order_column] not in WHOLE_NUMBER_TYPES:
            order = order.cast("double").alias(order_column)
        columns.append(order)

    number = functions.expr(f"pmod(hash(user), {n_partitions})").alias("number")
    pack = partial(_pack_batches, source=source, n_partitions=n_partitions)
    schema = f"user {train_types['user']}, {BLOCK_SCHEMA}"
    return frame.select("user", *columns, number).mapInArrow(pack, schema)


def _pack_batches(batches: Batches, source: int, n_partitions: int) -> Batches:
    """Yield the blocks of the rows of one task, some batches at a time."""
    from pyspark import TaskContext

    context = TaskContext.get()
    task_number = 0
    if context is not None:
        task_number = context.partitionId()
    place = task_number << 32
    pending: list[pyarrow.RecordBatch] = []
    size = 0
    for batch in batches:
        pending.append(batch)
        if "items" in batch.schema.names:
            size += len(batch.column("items").values)
        else:
            size += batch.num_rows
        if size >= ROWS_PER_BLOCK:
            yield _make_block_batch(pending, source, place, n_partitions)
            pending = []
            size = 0
            place += 1
    if size:
        yield _make_block_batch(pending, source, place, n_partitions)


def _make_block_batch(
    batches: list[pyarrow.RecordBatch], source: int, place: int, n_partitions: int
) -> pyarrow.RecordBatch:
    """Return the rows of some batches as one block for each partition."""
    import pyarrow
    from pyarrow import compute

    table = pyarrow.Table.from_batches(batches).combine_chunks()

    def column(name: str) -> AnyArray:
        return np.asarray(table[name].to_pandas().to_numpy())

    rows: pd.DataFrame | ListArrays
    if "items" in table.column_names:
        size = compute.list_value_length(table["items"]).to_numpy().astype(np.int64)
        items = compute.list_flatten(table["items"]).to_pandas().to_numpy()
        rows = ListArrays(column("user"), size, items)
    else:
        row_columns = {}
        for name in table.column_names:
            if name != "number":
                row_columns[name] = column(name)

        rows = pd.DataFrame(row_columns, copy=False)
    blocks = list(pack_blocks(rows, column("number"), n_partitions))
    numbers, user_rows, packed = zip(*blocks, strict=True)
    fields = {
        "user": table["user"].take(pyarrow.array(user_rows)).combine_chunks(),
        "number": pyarrow.array(numbers, pyarrow.int32()),
        "source": pyarrow.array([source] * len(blocks), pyarrow.int32()),
        "place": pyarrow.array([place] * len(blocks), pyarrow.int64()),
        "rows": pyarrow.array(packed, pyarrow.binary()),
    }
    return pyarrow.RecordBatch.from_pydict(fields)


def _reduce_batches(batches: Batches, broadcast: Broadcast) -> Batches:
    """Yield the result of one partition; nothing where Spark sends no rows, so no users to count."""
    filled_batches = []
    for batch in batches:
        if batch.num_rows:
            filled_batches.append(batch)

    if filled_batches:
        yield _make_result(filled_batches, *pickle.loads(broadcast.value))  # nosec B301


def _make_result(
    batches: list[pyarrow.RecordBatch],
    plan: Plan,
    factors: dict[str, Factors],
    names: list[str],
    lists: list[str],
) -> pyarrow.RecordBatch:
    """Return the pickled moments of one partition, or its error, which a traceback of Spark would hide."""
    import pyarrow

    blocks = pyarrow.Table.from_batches(batches).sort_by([("source", "ascending"), ("place", "ascending")])
    numbers = blocks["number"].unique().to_pylist()
    try:
        if len(numbers) > 1:
            raise InputError(MISPLACED_USERS)
        payload = pickle.dumps(_reduce_blocks(blocks, plan, factors, names, lists))
    except IpsevalError as error:
        payload = pickle.dumps((type(error).__name__, str(error)))
        return _make_result_batch(numbers[0], True, payload)
    return _make_result_batch(numbers[0], False, payload)


def _make_result_batch(number: int, has_failed: bool, payload: bytes) -> pyarrow.RecordBatch:
    """Return a batch with one row of `RESULT_SCHEMA`."""
    import pyarrow

    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([number], pyarrow.int32()), pyarrow.array([has_failed]), pyarrow.array([payload])],
        names=["number", "failed", "payload"],
    )


def _reduce_blocks(
    blocks: pyarrow.Table,
    plan: Plan,
    factors: dict[str, Factors],
    names: list[str],
    lists: list[str],
) -> Reduction | None:
    """Return the sums of the users of one partition from the blocks of all frames."""
    from pyarrow import compute

    def unpack_source(source: int) -> pd.DataFrame | ListArrays:
        source_blocks = blocks.filter(compute.equal(blocks["source"], source))
        return unpack_blocks(source_blocks["rows"].to_pylist())

    unordered_models: dict[str, pd.DataFrame | ListArrays | Factors] = dict(factors)
    for source, name in enumerate(lists, FIRST_MODEL):
        unordered_models[name] = unpack_source(source)
    models = {name: unordered_models[name] for name in names}
    return reduce_partition(unpack_source(TRAIN), unpack_source(TEST), models, plan)


def _merge_batches(batches: Batches) -> Batches:
    """Yield the merged results of each group of `PARTITIONS_PER_MERGE` partitions, and all errors."""
    parts_by_group: dict[int, list[Reduction | None]] = {}
    for batch in batches:
        for result in batch.to_pylist():
            if result["failed"]:
                yield _make_result_batch(result["number"], result["failed"], result["payload"])
                continue
            group, position = divmod(result["number"], PARTITIONS_PER_MERGE)
            parts = parts_by_group.setdefault(group, [None] * PARTITIONS_PER_MERGE)
            parts[position] = pickle.loads(result["payload"])  # nosec B301
    for group, parts in parts_by_group.items():
        yield _make_result_batch(group, False, pickle.dumps(merge_reductions(parts)))


def _load_results(results: pd.DataFrame, size: int) -> list[Reduction | None]:
    """Return the sums of every partition in their order, None without users; raise the first error."""
    if not len(results):
        raise InputError("train and test have no rows.")
    for payload in results.loc[results["failed"]].sort_values("number")["payload"]:
        name, text = pickle.loads(payload)  # nosec B301
        raise InputError(f"{text} ({name} in a partition)")
    if not results["number"].is_unique:
        raise InputError(MISPLACED_USERS)
    parts: list[Reduction | None] = [None] * size
    for number, payload in zip(results["number"], results["payload"], strict=True):
        # The payloads were pickled by the workers of this job.
        parts[number] = pickle.loads(payload)  # nosec B301
    return parts
