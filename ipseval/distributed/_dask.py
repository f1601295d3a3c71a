"""Evaluation on Dask: frames partitioned by user, one reduction per partition, moments merged in a tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ipseval._requests import DEFAULT_METRICS
from ipseval._types import TieChoice
from ipseval.distributed._moments import Moments
from ipseval.distributed._partition import NRelevant, reduce_partition
from ipseval.distributed._plan import make_plan, popularity_of, split_models, universe
from ipseval.distributed._result import DistributedEvaluation, finish
from ipseval.errors import InputError
from ipseval.estimators import Estimator
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
    ties: TieChoice = "default",
    n_relevant: NRelevant = None,
    confidence_level: float = 0.95,
    partitioned: bool = False,
    n_partitions: int | None = None,
    per_user: bool = False,
) -> DistributedEvaluation:
    """Return the estimates of `evaluate`, computed partition by partition with Dask.

    Parameters
    ----------
    models : dict
        Name -> Dask frame of top-K lists (user, item, rank or score; or user, items with an array of items,
        best first), or a tuple (user_factors, item_factors[, item_bias]) in the order of `users`, `items`,
        which is sent to every worker.
    train, test : Dask frames with columns user, item
    users : array of ids, optional
        Rows of the factors.
    items : array of ids, optional
        The whole catalogue. Default: every item of `train` and `test`.
    propensity : Propensity per item, a model that is fitted to counts (PowerLawPropensity), or None
    metrics, estimators, ties, n_relevant, confidence_level
        As in `evaluate`; estimators whose sums separate by user.
    partitioned : bool
        True: all frames already have the same number of partitions, and the rows of a user are in the
        partition of the same number in all of them. False: they are shuffled by user.
    n_partitions : int, optional
        Of the shuffle; default: as many as `test` has.
    per_user : bool
        Keep each user's own values, and bring them to the caller.

    Raises
    ------
    InputError
        As `evaluate`, from any partition.
    """
    import dask

    ids = universe(_distinct_items(train, test)) if items is None else np.asarray(items)
    counts = train.groupby("item").size().compute()
    plan = make_plan(
        ids,
        popularity_of(ids, counts.index.to_numpy(), counts.to_numpy()),
        propensity=propensity,
        metrics=metrics,
        estimators=estimators,
        ties=ties,
        n_relevant=n_relevant,
        confidence_level=confidence_level,
        per_user=per_user,
    )
    lists, factors = split_models(models, users, len(ids))
    frames = {"train": train[["user", "item"]], "test": test[["user", "item"]], **_named(lists)}
    parts = _partitions(frames, partitioned, n_partitions or test.npartitions)
    shared = dask.delayed((plan, factors, list(models)))
    reduce = dask.delayed(_reduce, pure=True)
    moments = [
        reduce({name: parts[name][number] for name in frames}, shared) for number in range(len(parts["test"]))
    ]
    merge = dask.delayed(Moments.merge, pure=True)
    while len(moments) > 1:
        pairs = [moments[start : start + 2] for start in range(0, len(moments), 2)]
        moments = [merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return finish(list(models), moments[0].compute(), plan, confidence_level=confidence_level)


def _named(lists: dict[str, Any]) -> dict[str, Any]:
    return {f"model {name}": frame for name, frame in lists.items()}


def _distinct_items(train: Any, test: Any) -> Any:
    import dask.dataframe as dd

    return dd.concat([train["item"], test["item"]]).unique().compute()


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


def _reduce(parts: dict[str, Any], shared: tuple[Any, Any, list[str]]) -> Moments:
    plan, factors, names = shared
    models = {name: factors[name] if name in factors else parts[f"model {name}"] for name in names}
    return reduce_partition(parts["train"], parts["test"], models, plan)
