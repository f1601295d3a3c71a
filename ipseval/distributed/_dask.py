"""Evaluation on Dask: frames partitioned by user, one reduction per partition, merged in a tree."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from ipseval._reduction import Reduction, merge_two
from ipseval._requests import DEFAULT_METRICS, OnLowEss
from ipseval._types import Missing, TieChoice
from ipseval.distributed._groups import UserRows
from ipseval.distributed._ids import popularity_of, universe
from ipseval.distributed._partition import Seen, reduce_partition
from ipseval.distributed._plan import finish, make_plan, split_models
from ipseval.distributed._progress import bar
from ipseval.errors import InputError
from ipseval.estimators import Estimator
from ipseval.evaluation import Evaluation
from ipseval.metrics import Metric


def evaluate_dask(
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
    partitioned: bool = False,
    n_partitions: int | None = None,
    per_user: bool = False,
    seen: Seen = "exclude",
    by: Any | None = None,
    progress: bool | None = None,
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
    metrics, estimators, missing, ties, confidence_level, n_relevant, on_low_ess
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
    progress : bool, optional
        A bar of evaluated partitions after two seconds, where a `distributed` client runs them. Default: only
        on a terminal.

    Raises
    ------
    InputError
        As `evaluate`, from any partition.
    """
    from dask.delayed import delayed

    ids = universe(_distinct_items(train, test)) if items is None else np.asarray(items)
    counts = train.groupby("item").size().compute()
    plan = make_plan(
        ids,
        popularity_of(ids, counts.index.to_numpy(), counts.to_numpy()),
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
    lists, factors = split_models(models, plan.users, len(ids))
    frames = {"train": train[["user", "item"]], "test": test[["user", "item"]], **_named(lists)}
    parts = _partitions(frames, partitioned, n_partitions or test.npartitions)
    shared = delayed((plan, factors, list(models)))
    reduce = delayed(_reduce, pure=True)
    reduced = [
        reduce({name: parts[name][number] for name in frames}, shared) for number in range(len(parts["test"]))
    ]
    merge, merged = delayed(merge_two, pure=True), reduced
    while len(merged) > 1:
        merged = [merge(one, other) for one, other in zip_longest(merged[::2], merged[1::2])]
    return finish([_computed(reduced, merged[0], progress)], {**lists, **factors}, plan)


def _named(lists: dict[str, Any]) -> dict[str, Any]:
    return {f"model {name}": frame for name, frame in lists.items()}


def _distinct_items(train: Any, test: Any) -> Any:
    import dask.dataframe as dd

    both: Any = dd.concat  # untyped
    return both([train["item"], test["item"]]).unique().compute()


def _user_rows(train: Any, test: Any) -> UserRows:
    counts = train.groupby("user").size().compute()
    tested = test["user"].unique().compute()
    return UserRows(counts.index.to_numpy(), counts.to_numpy(), np.asarray(tested))


def _partitions(frames: dict[str, Any], partitioned: bool, n_partitions: int) -> dict[str, list[Any]]:
    """Return the partitions of each frame, those of one number holding the same users."""
    if not partitioned:
        kinds = {name: str(frame["user"].dtype) for name, frame in frames.items()}
        if len(set(kinds.values())) > 1:
            raise InputError(f"the user ids have different types in different frames: {kinds}; convert them.")
        frames = {name: frame.shuffle(on="user", npartitions=n_partitions) for name, frame in frames.items()}
    sizes = {name: frame.npartitions for name, frame in frames.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"partitioned=True needs the same number of partitions in every frame; got {sizes}.")
    return {name: frame.to_delayed() for name, frame in frames.items()}


def _reduce(parts: dict[str, Any], shared: tuple[Any, Any, list[str]]) -> Reduction | None:
    plan, factors, names = shared
    models = {name: factors[name] if name in factors else parts[f"model {name}"] for name in names}
    return reduce_partition(parts["train"], parts["test"], models, plan)


def _computed(parts: list[Any], merged: Any, progress: bool | None) -> Any:
    """Return what Dask makes of `merged`, with a bar over the parts where a cluster runs them.

    Schedulers in this process have bars of their own (`dask.diagnostics`).
    """
    from dask.base import get_scheduler

    client = getattr(get_scheduler(collections=[merged]), "__self__", None)
    if client is None or not hasattr(client, "compute"):
        return merged.compute()
    from distributed import as_completed

    *pending, last = client.compute([*parts, merged])
    # A future that failed is raised by the last one, which needs it.
    for _ in bar(as_completed(pending), progress, len(pending)):
        pass
    return last.result()
