"""One partition of users, from frames to moments: what every worker does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ipseval._checks import examples
from ipseval._types import AnyArray, FloatArray, TieChoice
from ipseval.distributed._moments import Block, Moments
from ipseval.errors import InputError
from ipseval.estimators import Estimator, Sample, UserSums, weighted_sample
from ipseval.inference._weights import WeightSums
from ipseval.interactions import Interactions
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking._targets import Targets
from ipseval.splits import Split

NRelevant: TypeAlias = int | str | None


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of a model for all users, sent to every worker.

    Attributes
    ----------
    users : (n_users,) array of ids
    user_factors, item_factors, item_bias : arrays
        Rows in the order of `users` and of the plan's items.
    """

    users: AnyArray
    user_factors: FloatArray
    item_factors: FloatArray
    item_bias: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What to compute, the same for every partition."""

    items: AnyArray
    metrics: tuple[Metric, ...]
    estimators: tuple[Estimator, ...]
    propensity: Propensity | None = None
    ties: TieChoice = "default"
    n_relevant: NRelevant = None
    per_user: bool = False

    @property
    def depth(self) -> int:
        """Return the largest cutoff, at least 1."""
        return max(one.cutoff or 1 for one in self.metrics)


def reduce_partition(train: pd.DataFrame, test: pd.DataFrame, models: dict[str, Any], plan: Plan) -> Moments:
    """Return the moments of the users of one partition.

    Parameters
    ----------
    train, test : frames with columns user, item
        All rows of the partition's users.
    models : dict
        Name -> frame of lists (user, item, rank or score; or user, items with an array of items, best first)
        or `Factors`.
    """
    users = pd.unique(np.concatenate([train["user"].to_numpy(), test["user"].to_numpy()]))
    if not len(test):
        return _without_positives(len(users), models, plan)
    users = np.sort(users)
    split = Split(_log(train, users, plan), _log(test, users, plan))
    ranks = {name: _rank(model, split, name, plan).padded(plan.depth) for name, model in models.items()}
    first = next(iter(ranks.values()))
    if plan.propensity is not None and np.isnan(plan.propensity.at(first.user, first.item)).all():
        empty = _without_positives(len(users), models, plan)
        return replace(empty, n_without_propensity=len(first))
    samples = [
        weighted_sample(ranked, plan.propensity, plan.n_relevant, plan.ties) for ranked in ranks.values()
    ]
    return _moments(samples, list(ranks), plan)


def _moments(samples: list[Sample], names: list[str], plan: Plan) -> Moments:
    blocks, frames = {}, []
    for metric in plan.metrics:
        for estimator in plan.estimators:
            sums = [estimator.sums(sample, metric) for sample in samples]
            _check_same_users(sums, metric.label, names)
            blocks[metric.label, estimator.label] = Block.of(sums)
            if plan.per_user:
                frames += [
                    _per_user(one, sample, name, metric.label, estimator.label)
                    for one, sample, name in zip(sums, samples, names, strict=True)
                ]
    first = samples[0]
    return Moments(
        blocks,
        np.bincount(first.ranked.counts),
        np.bincount(first.ranked.item, minlength=plan.items.size),
        first.n_without_propensity,
        {name: one.ranked.list_counts(plan.depth) for name, one in zip(names, samples, strict=True)},
        tuple(frames),
        _weight_sums(first, plan),
    )


def _weight_sums(sample: Sample, plan: Plan) -> dict[tuple[str, ...], WeightSums]:
    """Return (estimator,) -> sums over positives, and (metric, estimator) -> those of products over users."""
    equal = sample.with_equal_propensities()
    found: dict[tuple[str, ...], WeightSums] = {}
    for one in plan.estimators:
        if not one.weighted:
            continue
        found[one.label,] = WeightSums.of(one, sample, equal)
        for metric in plan.metrics:
            products = WeightSums.of_products(one, metric, sample, equal)
            if products is not None:
                found[metric.label, one.label] = products
    return found


def _per_user(sums: UserSums, sample: Sample, name: str, metric: str, estimator: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "user": sample.ranked.user_ids[sums.users],
            "model": name,
            "metric": metric,
            "estimator": estimator,
            "value": sums.user_estimates(),
        }
    )


def _check_same_users(sums: list[UserSums], metric: str, names: list[str]) -> None:
    for one, name in zip(sums[1:], names[1:], strict=True):
        if not np.array_equal(one.users, sums[0].users):
            raise InputError(
                f"{metric} is defined for other users under {name!r} than under {names[0]!r}; recommenders "
                "can be compared on the same users only."
            )


def _without_positives(n_users: int, models: dict[str, Any], plan: Plan) -> Moments:
    """Return the moments of users without positives, whom few estimators count."""
    blocks = {}
    for metric in plan.metrics:
        for estimator in plan.estimators:
            n_counted = n_users if estimator.counts_all_users else 0
            if n_counted and metric.counts_unobserved:
                raise InputError(
                    f"{estimator.label} of {metric.label} cannot be computed on a partition without "
                    "positives; use fewer partitions."
                )
            zeros = UserSums.of(np.arange(n_counted), np.zeros(n_counted))
            blocks[metric.label, estimator.label] = Block.of([zeros] * len(models))
    return Moments(blocks, np.zeros(1, dtype=np.int64), np.zeros(plan.items.size, dtype=np.int64))


def _log(frame: pd.DataFrame, users: AnyArray, plan: Plan) -> Interactions:
    if len(frame):
        return Interactions.from_frame(frame, users=users, items=plan.items)
    none = np.zeros(0, dtype=np.int64)
    return Interactions(none, none, users, plan.items)


def _rank(model: Any, split: Split, name: str, plan: Plan) -> RankedPositives:
    if isinstance(model, Factors):
        rows = pd.Index(model.users).get_indexer(pd.Index(split.user_ids))
        if (rows < 0).any():
            raise InputError(
                f"{name}: {int((rows < 0).sum())} users of the data have no factors "
                f"({examples(split.user_ids[rows < 0])}; the factors are of {examples(model.users)})."
            )
        factors = (model.user_factors[rows], model.item_factors, model.item_bias)
        return rank_positives(factors, split, name=name)
    if not len(model):
        targets = Targets.from_split(split)
        none = np.zeros(targets.user.size, dtype=np.int64)
        return targets.ranked(none, none, max_rank=0, list_length=np.zeros(split.n_users, np.int64))
    return rank_positives(_long(model), split, name=name)


def _long(lists: pd.DataFrame) -> pd.DataFrame:
    """Return one row per entry; a column `items` holds each user's items, best first."""
    if "items" not in lists.columns:
        return lists
    lengths = lists["items"].map(len).to_numpy(dtype=np.int64)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return pd.DataFrame(
        {
            "user": np.repeat(lists["user"].to_numpy(), lengths),
            "item": np.concatenate([np.asarray(one) for one in lists["items"]]),
            "rank": np.arange(starts.size) - starts + 1,
        }
    )
