"""One partition of users, from frames to sums that merge: what every worker does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.distributed.sorted_pairs import Arrays, Catalogue, Rows, as_rows, rank_sorted
from ipseval.errors import InputError
from ipseval.evaluation.reduction import Reduction
from ipseval.evaluation.request import Request
from ipseval.evaluation.segments import Groups, TrainingCounts
from ipseval.evaluation.segments.built_in_groups import names_only_items, resolve
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking.candidates import Targets
from ipseval.utils.checks import examples
from ipseval.utils.counts import RESULT, Count, some
from ipseval.utils.ids import to_id_array
from ipseval.utils.types import AnyArray, FloatArray, IntArray

Seen = Literal["exclude", "include"]
MERGED = "test rows that repeat a test pair, merged"


def universe(ids: Any) -> AnyArray:
    """Return distinct ids, sorted, as `Split.from_frames` orders them."""
    array = np.asarray(ids)
    return np.sort(array.astype(object) if array.dtype.kind in "US" else array)


def count_rows(frame: pd.DataFrame, column: str, number: int) -> pd.DataFrame:
    """Return the ids in a column, each once, with their rows as `trained` (number 0) or `tested` (1)."""
    counts = frame[column].value_counts(sort=False).astype(np.int64)
    return pd.DataFrame({"trained": counts * (number == 0), "tested": counts * (number == 1)})


def add_rows(counts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the sums of such counts, id by id."""
    return pd.concat(counts).groupby(level=0, sort=False).sum()


def catalogue(counts: pd.DataFrame, items: Any | None) -> tuple[AnyArray, IntArray]:
    """Return the ids of all items, and the training rows of each, from counts of rows."""
    ids = universe(counts.index.to_numpy()) if items is None else to_id_array(items, "items")
    trained = counts.loc[counts["trained"] > 0, "trained"]
    place = pd.Index(ids).get_indexer(trained.index)
    if (place < 0).any():
        raise InputError(f"{int((place < 0).sum())} items of the training data are not in the given items.")
    popularity = np.zeros(len(ids), dtype=np.int64)
    popularity[place] = trained
    return ids, popularity


@dataclass(frozen=True, eq=False)
class Grouped:
    """The groups of all users and items, as every worker has them."""

    groups: tuple[Groups, ...] = ()
    users: AnyArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(
        cls,
        by: Any,
        items: AnyArray,
        popularity: IntArray,
        users: AnyArray | None,
        count: Callable[[], pd.DataFrame],
    ) -> Grouped:
        """Return the groups that `by` names; `count` goes through the frames, if users are grouped."""
        if by is None:
            return cls()
        none = np.zeros(0, dtype=np.int64)
        if names_only_items(by):
            return cls(resolve(by, none, items, TrainingCounts(popularity, none)))
        rows = count()["trained"]
        ids = universe(rows.index.to_numpy()) if users is None else users
        # Users of the frames that are not in users= are an error of their partition.
        activity = rows.reindex(pd.Index(ids), fill_value=0).to_numpy(dtype=np.int64)
        return cls(resolve(by, ids, items, TrainingCounts(popularity, activity)), ids)

    @property
    def reads_users(self) -> bool:
        """Whether users are grouped, so that it matters who they are."""
        return any(one.axis == "user" for one in self.groups)

    def among(self, users: AnyArray) -> tuple[Groups, ...]:
        """Return the groups with the codes of these users in place of all."""
        if not self.reads_users:
            return self.groups
        place = pd.Index(self.users).get_indexer(pd.Index(users))
        return tuple(
            replace(one, codes=one.codes[place]) if one.axis == "user" else one for one in self.groups
        )


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of a model for all users, sent to every worker."""

    user_factors: FloatArray
    item_factors: FloatArray
    item_bias: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What to compute, the same for every partition."""

    request: Request
    items: AnyArray
    users: AnyArray | None = None
    per_user: bool = False
    seen: Seen = "exclude"
    grouped: Grouped = field(default_factory=Grouped)

    @property
    def tells_users(self) -> bool:
        """Whether it matters who the users of a partition are, so that their ids go to the caller."""
        return self.per_user or (self.users is not None and self.grouped.reads_users)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The code of each item, made once in a worker."""
        return Catalogue(self.items)


def reduce_partition(
    train: pd.DataFrame, test: pd.DataFrame, models: Mapping[str, Any], plan: Plan
) -> Reduction | None:
    """Return the sums of the users of one partition; None without users."""
    trained, tested = as_rows(train, plan.catalogue), as_rows(test, plan.catalogue)
    rows = {
        name: as_rows(model, plan.catalogue) if isinstance(model, (pd.DataFrame, Arrays)) else model
        for name, model in models.items()
    }
    lists = [] if plan.users is None else [model for model in rows.values() if isinstance(model, Rows)]
    named = [one.users for one in (trained, tested, *lists) if len(one)]
    return reduce_users(np.unique(np.concatenate(named)), trained, tested, rows, plan) if named else None


def reduce_users(
    users: AnyArray, train: Rows, test: Rows, models: Mapping[str, Rows | Factors], plan: Plan
) -> Reduction:
    """Return the sums of these users, ascending, some of whom may have no row in any frame."""
    rows = None if plan.users is None else pd.Index(plan.users).get_indexer(pd.Index(users))
    if plan.users is not None and rows is not None and (rows < 0).any():
        raise InputError(
            f"{int((rows < 0).sum()):,} of {users.size:,} users of the frames are not among users= "
            f"({examples(users[rows < 0])}; users= holds {examples(plan.users)})."
        )
    logs = _log(train, users, plan), _log(test, users, plan).distinct
    split = Split(*logs, seen=plan.seen) if len(logs[1]) else None
    targets = None if split is None else Targets.from_split(split)
    ranks = {
        name: _unlisted(*logs, plan.seen, model if isinstance(model, Rows) else None)
        if split is None or targets is None or (isinstance(model, Rows) and not len(model))
        else _rank(model, split, targets, rows, name)
        for name, model in models.items()
    }
    whole = Reduction.of(ranks, plan.request).by(plan.grouped.among(users), plan.request)
    part = whole.as_part(per_user=plan.per_user)
    merged = some(Count(MERGED, len(test) - len(logs[1]), len(test), RESULT))
    ids = part.user_ids if plan.tells_users else part.user_ids[:0]
    return replace(part, counted=part.counted + merged, user_ids=ids)


def absent_users(n_seen: int, seen: AnyArray, plan: Plan) -> AnyArray:
    """Return the users without a row in any frame."""
    if plan.users is None:
        return np.zeros(0, dtype=np.int64)
    if plan.tells_users:
        return plan.users[pd.Index(seen).get_indexer(pd.Index(plan.users)) < 0]
    return plan.users[n_seen:]


def _log(rows: Rows, users: AnyArray, plan: Plan) -> Interactions:
    if not len(rows):
        none = np.zeros(0, dtype=np.int64)
        return Interactions(none, none, users, plan.items)
    log = rows.log(users)
    if log is not None:
        return log
    return Interactions.from_frame(
        rows.frame,
        users=users,
        items=plan.items,
        duplicates="raise" if plan.seen == "exclude" else "keep",
    )


def _rank(
    model: Rows | Factors, split: Split, targets: Targets, rows: AnyArray | None, name: str
) -> RankedPositives:
    if isinstance(model, Factors):
        return rank_positives(
            (model.user_factors[rows], model.item_factors, model.item_bias), split, name=name
        )
    ranked = None if model.pairs is None else rank_sorted(model.pairs, split, targets)
    return rank_positives(model.frame, split, name=name) if ranked is None else ranked


def _unlisted(train: Interactions, test: Interactions, seen: Seen, lists: Rows | None) -> RankedPositives:
    """Return the ranks where there is nothing to rank: no positive, or no list."""
    order, length = np.argsort(test.pair_key), None
    n_excluded = train.activity if seen == "exclude" else np.zeros(train.n_users, dtype=np.int64)
    candidates = train.n_items - n_excluded
    if lists is not None:
        length = np.zeros(train.n_users, dtype=np.int64)
        if len(lists):
            length[np.isin(train.user_ids, lists.users)] = train.n_items
    return RankedPositives(
        user=test.user[order],
        item=test.item[order],
        n_above=np.zeros(len(test), dtype=np.int64),
        n_tied=np.zeros(len(test), dtype=np.int64),
        n_candidates=candidates[test.user[order]],
        user_ids=train.user_ids,
        item_ids=train.item_ids,
        max_rank=None if lists is None else 0,
        candidates_by_user=candidates,
        list_length=length,
        candidates=RankedPositives.candidates if seen == "exclude" else "all items",
    )
