"""One partition of users, from frames to sums that merge: what every worker does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval._checks import examples
from ipseval._counts import RESULT, Count, some
from ipseval._reduction import Reduction
from ipseval._requests import Request
from ipseval._types import AnyArray, FloatArray
from ipseval.distributed._groups import Grouped
from ipseval.errors import InputError
from ipseval.interactions import Interactions
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split

Seen = Literal["exclude", "include"]
MERGED = "test rows that repeat a test pair, merged"


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of a model for all users, sent to every worker.

    Attributes
    ----------
    user_factors, item_factors, item_bias : arrays
        Rows in the order of the plan's users and items.
    """

    user_factors: FloatArray
    item_factors: FloatArray
    item_bias: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What to compute, the same for every partition.

    Attributes
    ----------
    request : Request
    items : array of ids
        The catalogue.
    users : array of ids or None
        The population; None: the users of the frames.
    per_user : bool
        Keep the sums of each user.
    seen : {"exclude", "include"}
        As in `Split`; "include": rows may repeat a pair.
    grouped : Grouped
        Groups of users and items in which everything is estimated too.
    """

    request: Request
    items: AnyArray
    users: AnyArray | None = None
    per_user: bool = False
    seen: Seen = "exclude"
    grouped: Grouped = field(default_factory=Grouped)


def reduce_partition(
    train: pd.DataFrame, test: pd.DataFrame, models: Mapping[str, Any], plan: Plan
) -> Reduction | None:
    """Return the sums of the users of one partition; None without users.

    Parameters
    ----------
    train, test : frames with columns user, item
        All rows of the partition's users.
    models : mapping
        Name -> frame of lists (user, item, rank or score; or user, items with an array of items, best first)
        or `Factors`.
    """
    frames = [train, test]
    if plan.users is not None:
        frames += [model for model in models.values() if isinstance(model, pd.DataFrame)]
    named = [frame["user"].to_numpy() for frame in frames if len(frame)]
    return reduce_users(np.unique(np.concatenate(named)), train, test, models, plan) if named else None


def reduce_users(
    users: AnyArray, train: pd.DataFrame, test: pd.DataFrame, models: Mapping[str, Any], plan: Plan
) -> Reduction:
    """Return the sums of these users, some of whom may have no row in any frame."""
    rows = None if plan.users is None else pd.Index(plan.users).get_indexer(pd.Index(users))
    if plan.users is not None and rows is not None and (rows < 0).any():
        raise InputError(
            f"{int((rows < 0).sum()):,} of {users.size:,} users of the frames are not among users= "
            f"({examples(users[rows < 0])}; users= holds {examples(plan.users)})."
        )
    logs = _log(train, users, plan), _log(test, users, plan).distinct
    ranks = {name: _rank(model, *logs, plan.seen, rows, name) for name, model in models.items()}
    whole = Reduction.of(ranks, plan.request).by(plan.grouped.among(users), plan.request)
    part = whole.as_part(per_user=plan.per_user)
    merged = some(Count(MERGED, len(test) - len(logs[1]), len(test), RESULT))
    return replace(part, counted=part.counted + merged)


def absent_users(n_seen: int, seen: AnyArray, plan: Plan) -> AnyArray:
    """Return the users without a row in any frame.

    Where nothing is kept or grouped by user, others of that number stand for them: they differ in nothing
    that is computed.
    """
    if plan.users is None:
        return np.zeros(0, dtype=np.int64)
    if plan.per_user or plan.grouped.reads_users:
        return plan.users[pd.Index(seen).get_indexer(pd.Index(plan.users)) < 0]
    return plan.users[n_seen:]


def _log(frame: pd.DataFrame, users: AnyArray, plan: Plan) -> Interactions:
    if len(frame):
        return Interactions.from_frame(
            frame,
            users=users,
            items=plan.items,
            duplicates="raise" if plan.seen == "exclude" else "keep",
        )
    none = np.zeros(0, dtype=np.int64)
    return Interactions(none, none, users, plan.items)


def _rank(
    model: Any, train: Interactions, test: Interactions, seen: Seen, rows: AnyArray | None, name: str
) -> RankedPositives:
    is_lists = not isinstance(model, Factors)
    if not len(test) or (is_lists and not len(model)):
        return _unlisted(train, test, seen, model if is_lists else None)
    split = Split(train, test, seen=seen)
    if is_lists:
        return rank_positives(_long(model), split, name=name)
    return rank_positives((model.user_factors[rows], model.item_factors, model.item_bias), split, name=name)


def _unlisted(
    train: Interactions, test: Interactions, seen: Seen, lists: pd.DataFrame | None
) -> RankedPositives:
    """Return the ranks where there is nothing to rank: no positive, or no list."""
    order, length = np.argsort(test.pair_key), None
    n_excluded = train.activity if seen == "exclude" else np.zeros(train.n_users, dtype=np.int64)
    candidates = train.n_items - n_excluded
    if lists is not None:
        length = np.zeros(train.n_users, dtype=np.int64)
        if len(lists):
            length[np.isin(train.user_ids, lists["user"].to_numpy())] = train.n_items
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
