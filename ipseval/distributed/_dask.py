"""Evaluation on Dask: frames partitioned by user, one reduction per partition, merged in a tree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, TypeAlias, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed._blocks import pack_blocks, unpack_blocks
from ipseval.distributed.partition import (
    Factors,
    Plan,
    add_rows,
    build_catalogue,
    count_rows,
    reduce_partition,
)
from ipseval.distributed.plan import PartitionOptions, finish_evaluation, make_plan, split_models
from ipseval.distributed.sorted_pairs import ListArrays
from ipseval.errors import InputError
from ipseval.evaluation import Evaluation
from ipseval.evaluation.reduction import Reduction
from ipseval.evaluation.segments.segment_sums import merge_optional
from ipseval.utils.public import public_function

DaskFrame: TypeAlias = Any  # dask.dataframe has no types
Delayed: TypeAlias = Any
SharedInput: TypeAlias = tuple[Plan, dict[str, Factors], list[str]]  # plan, factors, names of the models

COUNTS_PER_TASK = 8  # counts that one task adds up
BLOCK_COLUMNS = {"partition": "int64", "frame": "int64", "place": "int64", "rows": "object"}


@public_function
def evaluate_dask(
    models: dict[str, Any],
    train: Any,
    test: Any,
    *,
    items: Any | None = None,
    partitioned: bool = False,
    n_partitions: int | None = None,
    **options: Unpack[PartitionOptions],
) -> Evaluation:
    """Evaluate recommenders partition by partition with Dask; the estimates equal the ones of `evaluate`.

    Parameters
    ----------
    models : dict
        Name -> Dask frame of top-K lists (user, item, rank or score; or user, items with an array of items,
        best first), or a tuple (user_factors, item_factors[, item_bias]) in the order of `users`, `items`,
        which is sent to every worker.
    train, test : Dask frames
        With columns user, item.
    items : array of ids, optional
        The whole catalogue. Default: every item of `train` and `test`.
    partitioned : bool, default False
        True: all frames already have the same number of partitions, and the rows of a user are in the
        partition of the same number in all of them. False: they are shuffled by user.
    n_partitions : int, optional
        Partitions of the shuffle. Default: as many as `test` has.
    **options
        Further options, which are optional:

        * users, an array of ids: the whole population, in the order of the rows of factors; `ips` averages
          over users without a row in any frame too. Default: the users of `train` and `test`.
        * propensity: a propensity per item, or a model that is fitted to counts (such as
          PowerLawPropensity). Default: no weights.
        * metrics, estimators, missing_lists, ties, confidence_level, n_relevant, low_ess: as in `evaluate`;
          estimators whose sums separate by user, and one n_relevant for all users.
        * per_user, default False: True brings the sums of each user to the caller, for `Evaluation.per_user`
          and bootstrap intervals. False computes only moments over users. Methods that need the ranked
          positives, such as `sensitivity`, raise an error either way.
        * seen, {"exclude", "include"}, default "exclude": with "include", training items compete, test pairs
          may be training pairs, and rows may repeat a pair. All rows of `train` then count in n*, and
          repeated rows of `test` are one positive.
        * by, a label, frame, Series, groups, or several of them: groups of users or items, as in `evaluate`;
          frames of attributes are local ones. Groups of users send a number per user to the caller and to
          every worker, groups of items do not.

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
    evaluate_spark : Evaluate frames of Spark.
    evaluate_duckdb : Evaluate Parquet files on one machine.

    Examples
    --------
    Two users, each with one training item and one test item, and lists of two items:

    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> train = dd.from_pandas(pd.DataFrame({"user": [1, 2], "item": [10, 11]}), npartitions=2)
    >>> test = dd.from_pandas(pd.DataFrame({"user": [1, 2], "item": [12, 10]}), npartitions=2)
    >>> lists = pd.DataFrame({"user": [1, 1, 2, 2], "item": [11, 12, 12, 10], "rank": [1, 2, 1, 2]})
    >>> models = {"lists": dd.from_pandas(lists, npartitions=2)}
    >>> evaluation = evaluate_dask(models, train, test, metrics=["recall@2", "ndcg@2"])
    >>> evaluation.frame[["model", "metric", "estimate"]].round(3)
       model    metric  estimate
    0  lists  recall@2     1.000
    1  lists    ndcg@2     0.631
    """
    from dask.delayed import delayed

    counted_frames = [train]
    if items is None:
        counted_frames.append(test)
    item_ids, popularity = build_catalogue(_count_ids("item", counted_frames), items)
    plan = make_plan(item_ids, popularity, lambda: _count_ids("user", [train, test]), **options)
    lists, factors = split_models(models, plan.users, len(plan.items))

    frames = {"train": train[["user", "item"]], "test": test[["user", "item"]]}
    for name, frame in lists.items():
        frames[f"model {name}"] = frame
    if partitioned:
        partitions = _align_partitions(frames)
    else:
        partitions = _shuffle_by_user(frames, n_partitions or test.npartitions)

    shared = delayed((plan, factors, list(models)))
    reduce = delayed(_reduce, pure=True)
    merge = delayed(merge_optional, pure=True)
    reductions = []
    for partition in partitions:
        reductions.append(reduce(partition, list(frames), shared))

    while len(reductions) > 1:
        pairs = zip_longest(reductions[::2], reductions[1::2])
        reductions = [merge(first, second) for first, second in pairs]
    return finish_evaluation([reductions[0].compute()], {**lists, **factors}, plan)


def _count_ids(column: str, frames: list[DaskFrame]) -> pd.DataFrame:
    """Return the ids in a column of one or two frames, each once, with their rows in each frame."""
    from dask.delayed import delayed

    count = delayed(count_rows, pure=True)
    add = delayed(add_rows, pure=True)
    tasks: list[Delayed] = []
    for number, frame in enumerate(frames):
        partitions = frame[[column]].to_delayed()
        tasks += [count(partition, column, number) for partition in partitions]
    while len(tasks) > 1:
        starts = range(0, len(tasks), COUNTS_PER_TASK)
        tasks = [add(tasks[start : start + COUNTS_PER_TASK]) for start in starts]
    counts: pd.DataFrame = tasks[0].compute()
    return counts


def _align_partitions(frames: dict[str, DaskFrame]) -> list[list[Delayed]]:
    """Return for each partition number the partitions of all frames, which hold the same users."""
    sizes = {name: frame.npartitions for name, frame in frames.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"partitioned=True needs the same number of partitions in every frame; got {sizes}.")
    columns = []
    for frame in frames.values():
        columns.append(frame.to_delayed())

    frames_by_partition: list[list[Delayed]] = []
    for parts in zip(*columns, strict=True):
        frames_by_partition.append(list(parts))

    return frames_by_partition


def _shuffle_by_user(frames: dict[str, DaskFrame], n_partitions: int) -> list[Delayed]:
    """Return the blocks of each partition of users, after one shuffle of all frames."""
    import dask.dataframe as dd
    from dask import config
    from dask.delayed import delayed

    user_types = {}
    for name, frame in frames.items():
        user_types[name] = str(frame["user"].dtype)

    if len(set(user_types.values())) > 1:
        raise InputError(
            f"the user ids have different types in different frames: {user_types}; convert them."
        )
    pack = delayed(_pack_partition, pure=True)
    blocks = []
    for number, frame in enumerate(frames.values()):
        for place, partition in enumerate(frame.to_delayed()):
            blocks.append(pack(partition, frame._meta["user"].dtype, (number, place), n_partitions))
    empty_columns = {}
    for name, dtype in BLOCK_COLUMNS.items():
        empty_columns[name] = pd.Series(dtype=dtype)

    meta = pd.DataFrame(empty_columns)
    from_delayed: Any = dd.from_delayed  # it has no types
    with config.set({"dataframe.convert-string": False}):  # blocks are bytes
        block_frame = from_delayed(blocks, meta=meta, verify_meta=False)
        # Divisions decide where each block goes, so that Dask's own hash of a user does not matter.
        block_frame = block_frame.set_index("partition", divisions=tuple(range(n_partitions + 1)))
        return list(block_frame.to_delayed())


def _pack_partition(
    rows: pd.DataFrame, user_type: Any, source: tuple[int, int], n_partitions: int
) -> pd.DataFrame:
    """Return the blocks of a partition of a frame, one row each."""
    user = rows["user"]
    if user.dtype != user_type:
        user = user.astype(user_type)
    target = (pd.util.hash_array(user.to_numpy()) % np.uint64(n_partitions)).astype(np.int64)
    frame_number, place = source
    block_rows = []
    for number, _, block in pack_blocks(rows, target, n_partitions):
        block_rows.append((number, frame_number, place, block))
    return pd.DataFrame(block_rows, columns=list(BLOCK_COLUMNS)).astype(BLOCK_COLUMNS)


def _unpack_frames(blocks: pd.DataFrame, frames: list[str]) -> dict[str, pd.DataFrame | ListArrays]:
    """Return the rows of every frame from the blocks of one partition of users."""
    ordered = blocks.sort_values(["frame", "place"])
    rows = {}
    for number, name in enumerate(frames):
        rows[name] = unpack_blocks(ordered["rows"][ordered["frame"] == number])
    return rows


def _reduce(
    partition: pd.DataFrame | Sequence[pd.DataFrame | ListArrays],
    frames: list[str],
    shared_input: SharedInput,
) -> Reduction | None:
    """Return the sums of one partition of users: blocks of all frames, or one partition of each frame."""
    plan, factors, names = shared_input
    rows: dict[str, pd.DataFrame | ListArrays]
    if isinstance(partition, pd.DataFrame):
        rows = _unpack_frames(partition, frames)
    else:
        rows = dict(zip(frames, partition, strict=True))
    models: dict[str, pd.DataFrame | ListArrays | Factors] = {}
    for name in names:
        if name in factors:
            models[name] = factors[name]
        else:
            models[name] = rows[f"model {name}"]

    return reduce_partition(rows["train"], rows["test"], models, plan)
