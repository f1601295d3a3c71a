"""Evaluation on Dask: frames partitioned by user, one reduction per partition, merged in a tree."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed._blocks import dealt, opened
from ipseval.distributed.partition import (
    add_rows,
    catalogue,
    count_rows,
    reduce_partition,
)
from ipseval.distributed.plan import PartitionOptions, finish, make_plan, split_models
from ipseval.errors import InputError
from ipseval.evaluation import Evaluation
from ipseval.evaluation.reduction import Reduction, merge_two

FAN = 8  # counts that are added up at a time
BLOCK = {"partition": "int64", "frame": "int64", "place": "int64", "rows": "object"}


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
    """Return the estimates of `evaluate`, computed partition by partition with Dask.

    Parameters
    ----------
    models : dict
        Name -> Dask frame of top-K lists (user, item, rank or score; or user, items with an array of items,
        best first), or a tuple (user_factors, item_factors[, item_bias]) in the order of `users`, `items`,
        which is sent to every worker.
    train, test : Dask frames with columns user, item
    users : array of ids, optional
        The whole population, in the order of the rows of factors: `ips` averages over users without a row in
        any frame too. Default: the users of `train` and `test`.
    items : array of ids, optional
        The whole catalogue. Default: every item of `train` and `test`.
    propensity : Propensity per item, a model that is fitted to counts (PowerLawPropensity), or None
    metrics, estimators, missing_lists, ties, confidence_level, n_relevant, low_ess
        As in `evaluate`; estimators whose sums separate by user, and one n_relevant for all users.
    partitioned : bool
        True: all frames already have the same number of partitions, and the rows of a user are in the
        partition of the same number in all of them. False: they are shuffled by user.
    n_partitions : int, optional
        Of the shuffle; default: as many as `test` has.
    per_user : bool
        True: bring the sums of each user to the caller, for `Evaluation.per_user` and bootstrap intervals.
        False: only moments over users. What needs the ranked positives themselves, such as `sensitivity`, is
        an error either way.
    seen : {"exclude", "include"}
        "include": training items compete, test pairs may be training pairs, and rows may repeat a pair: those
        of `train` all count in n*, those of `test` are one positive.
    by : label, frame, Series, groups, or several of them, optional
        Groups of users or items, as in `evaluate`; frames of attributes are local ones. Groups of users take
        a number per user to the caller and to every worker, groups of items alone do not.

    Raises
    ------
    InputError
        As `evaluate`, from any partition.
    """
    from dask.delayed import delayed

    counts = _counted("item", train, *([test] if items is None else []))
    plan = make_plan(*catalogue(counts, items), lambda: _counted("user", train, test), **options)
    lists, factors = split_models(models, plan.users, len(plan.items))
    frames = {"train": train[["user", "item"]], "test": test[["user", "item"]]}
    frames |= {f"model {name}": frame for name, frame in lists.items()}
    parts = _side_by_side(frames) if partitioned else _shuffled(frames, n_partitions or test.npartitions)
    shared = delayed((plan, factors, list(models)))
    reduce = delayed(_reduce, pure=True)
    merge = delayed(merge_two, pure=True)
    merged = [reduce(part, list(frames), shared) for part in parts]
    while len(merged) > 1:
        merged = [merge(one, other) for one, other in zip_longest(merged[::2], merged[1::2])]
    return finish([merged[0].compute()], {**lists, **factors}, plan)


def _counted(column: str, *frames: Any) -> pd.DataFrame:
    """Return the ids in a column of one or two frames, each once, and how many rows of each have it."""
    from dask.delayed import delayed

    count, add = delayed(count_rows, pure=True), delayed(add_rows, pure=True)
    found = [
        count(part, column, number)
        for number, frame in enumerate(frames)
        for part in frame[[column]].to_delayed()
    ]
    while len(found) > 1:
        found = [add(found[start : start + FAN]) for start in range(0, len(found), FAN)]
    counts: pd.DataFrame = found[0].compute()
    return counts


def _side_by_side(frames: dict[str, Any]) -> list[Any]:
    """Return the partitions of frames, those of one number holding the same users."""
    sizes = {name: frame.npartitions for name, frame in frames.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"partitioned=True needs the same number of partitions in every frame; got {sizes}.")
    return [list(parts) for parts in zip(*(frame.to_delayed() for frame in frames.values()), strict=True)]


def _shuffled(frames: dict[str, Any], n_partitions: int) -> list[Any]:
    """Return the blocks of each partition of users: all frames go through one shuffle, packed."""
    import dask.dataframe as dd
    from dask import config
    from dask.delayed import delayed

    kinds = {name: str(frame["user"].dtype) for name, frame in frames.items()}
    if len(set(kinds.values())) > 1:
        raise InputError(f"the user ids have different types in different frames: {kinds}; convert them.")
    pack = delayed(_packed, pure=True)
    blocks = [
        pack(part, frame._meta["user"].dtype, (number, place), n_partitions)
        for number, frame in enumerate(frames.values())
        for place, part in enumerate(frame.to_delayed())
    ]
    meta = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in BLOCK.items()})
    whole: Any = dd.from_delayed  # untyped
    with config.set({"dataframe.convert-string": False}):  # blocks are no text
        dealt_out = whole(blocks, meta=meta, verify_meta=False)
        # Divisions say where each block goes, whatever Dask's own hash of a user is.
        dealt_out = dealt_out.set_index("partition", divisions=tuple(range(n_partitions + 1)))
        return list(dealt_out.to_delayed())


def _packed(rows: pd.DataFrame, kind: Any, source: tuple[int, int], n_partitions: int) -> pd.DataFrame:
    """Return the blocks of a partition of a frame, one row each."""
    user = rows["user"] if rows["user"].dtype == kind else rows["user"].astype(kind)
    target = (pd.util.hash_array(user.to_numpy()) % np.uint64(n_partitions)).astype(np.int64)
    found = [(number, *source, block) for number, _, block in dealt(rows, target, n_partitions)]
    return pd.DataFrame(found, columns=list(BLOCK)).astype(BLOCK)


def _reduce(parts: Any, frames: list[str], shared: tuple[Any, Any, list[str]]) -> Reduction | None:
    plan, factors, names = shared
    if isinstance(parts, pd.DataFrame):
        ordered = parts.sort_values(["frame", "place"])
        parts = [opened(ordered["rows"][ordered["frame"] == number]) for number in range(len(frames))]
    rows = dict(zip(frames, parts, strict=True))
    models = {name: factors[name] if name in factors else rows[f"model {name}"] for name in names}
    return reduce_partition(rows["train"], rows["test"], models, plan)
