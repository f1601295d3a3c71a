"""One partition of users, from frames to sums that merge: the work of a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.distributed.sorted_pairs import Catalogue, ListArrays, Rows, rank_sorted
from ipseval.errors import InputError
from ipseval.evaluation.reduction import Reduction
from ipseval.evaluation.request import Request
from ipseval.evaluation.segments import Groups, TrainingCounts
from ipseval.evaluation.segments.built_in_groups import names_only_items, resolve_groups
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking.candidates import HeldOutPositives
from ipseval.utils.checks import format_examples
from ipseval.utils.ids import to_id_array
from ipseval.utils.notes import RESULT, Count, drop_zero_counts
from ipseval.utils.types import AnyArray, FloatArray, IntArray

Seen = Literal["exclude", "include"]
MERGED_ROWS = "test rows that repeat a test pair, merged"


def _no_ids() -> IntArray:
    return np.zeros(0, dtype=np.int64)


def sort_ids(ids: AnyArray) -> AnyArray:
    """Return distinct ids, sorted, as `Split.from_frames` orders them."""
    array = np.asarray(ids)
    if array.dtype.kind in "US":
        array = array.astype(object)
    return np.sort(array)


def count_rows(frame: pd.DataFrame, column: str, frame_number: int) -> pd.DataFrame:
    """Return the ids of a column, each once, with their rows as `trained` (frame 0) or `tested` (frame 1)."""
    counts = frame[column].value_counts(sort=False).astype(np.int64)
    return pd.DataFrame({"trained": counts * (frame_number == 0), "tested": counts * (frame_number == 1)})


def add_rows(counts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the sums of such counts, id by id."""
    return pd.concat(counts).groupby(level=0, sort=False).sum()


def build_catalogue(counts: pd.DataFrame, items: object) -> tuple[AnyArray, IntArray]:
    """Return the ids of all items, and the training rows of each, from counts of rows."""
    ids = sort_ids(counts.index.to_numpy()) if items is None else to_id_array(items, "items")
    trained = counts.loc[counts["trained"] > 0, "trained"]
    codes = pd.Index(ids).get_indexer(trained.index)
    if (codes < 0).any():
        raise InputError(f"{int((codes < 0).sum())} items of the training data are not in the given items.")
    popularity = np.zeros(len(ids), dtype=np.int64)
    popularity[codes] = trained
    return ids, popularity


@dataclass(frozen=True, eq=False)
class PlannedGroups:
    """The groups of all users and items, which every worker receives."""

    groups: tuple[Groups, ...] = ()
    users: AnyArray = field(default_factory=_no_ids)

    @classmethod
    def from_request(
        cls,
        by: object,
        items: AnyArray,
        popularity: IntArray,
        users: AnyArray | None,
        count_users: Callable[[], pd.DataFrame],
    ) -> PlannedGroups:
        """Return the groups that `by` names; `count_users` reads the frames, if users are grouped."""
        if by is None:
            return cls()
        if names_only_items(by):
            return cls(resolve_groups(by, _no_ids(), items, TrainingCounts(popularity, _no_ids())))
        trained = count_users()["trained"]
        ids = users
        if ids is None:
            ids = sort_ids(trained.index.to_numpy())
        # Users of the frames that are not in users= are an error of their partition.
        activity = trained.reindex(pd.Index(ids), fill_value=0).to_numpy(dtype=np.int64)
        return cls(resolve_groups(by, ids, items, TrainingCounts(popularity, activity)), ids)

    @property
    def has_user_groups(self) -> bool:
        """Whether users are grouped, so that their ids are needed."""
        return any(groups.axis == "user" for groups in self.groups)

    def select_users(self, users: AnyArray) -> tuple[Groups, ...]:
        """Return the groups with the codes of these users in place of all users."""
        if not self.has_user_groups:
            return self.groups
        rows = pd.Index(self.users).get_indexer(pd.Index(users))
        selected = []
        for groups in self.groups:
            if groups.axis == "user":
                groups = replace(groups, codes=groups.codes[rows])
            selected.append(groups)
        return tuple(selected)


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of a model for all users, sent to every worker."""

    user_factors: FloatArray
    item_factors: FloatArray
    item_bias: FloatArray | None = None

    def select_users(self, rows: AnyArray | None) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return the factors of the users in these rows, as a model that can be ranked."""
        return self.user_factors[rows], self.item_factors, self.item_bias


Model: TypeAlias = Rows | Factors


@dataclass(frozen=True, eq=False)
class Plan:
    """The request and the universe of ids, the same for every partition."""

    request: Request
    items: AnyArray
    users: AnyArray | None = None
    per_user: bool = False
    seen: Seen = "exclude"
    planned_groups: PlannedGroups = field(default_factory=PlannedGroups)

    @property
    def needs_user_ids(self) -> bool:
        """Whether workers return the ids of their users."""
        return self.per_user or (self.users is not None and self.planned_groups.has_user_groups)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The code of each item, computed once in a worker."""
        return Catalogue(self.items)


def reduce_partition(
    train: pd.DataFrame | ListArrays,
    test: pd.DataFrame | ListArrays,
    models: Mapping[str, pd.DataFrame | ListArrays | Factors],
    plan: Plan,
) -> Reduction | None:
    """Return the sums of the users of one partition; None without users."""
    train_rows = Rows.from_data(train, plan.catalogue)
    test_rows = Rows.from_data(test, plan.catalogue)
    resolved_models: dict[str, Model] = {}
    for name, model in models.items():
        if isinstance(model, Factors):
            resolved_models[name] = model
        else:
            resolved_models[name] = Rows.from_data(model, plan.catalogue)

    frames = [train_rows, test_rows]
    if plan.users is not None:  # users with lists alone belong to the population
        for resolved_model in resolved_models.values():
            if isinstance(resolved_model, Rows):
                frames.append(resolved_model)

    users_by_frame = []
    for frame in frames:
        if len(frame):
            users_by_frame.append(frame.users)

    if not users_by_frame:
        return None
    users = np.unique(np.concatenate(users_by_frame))
    return reduce_users(users, train_rows, test_rows, resolved_models, plan)


def reduce_users(
    users: AnyArray, train: Rows, test: Rows, models: Mapping[str, Model], plan: Plan
) -> Reduction:
    """Return the sums of these users, ascending; users may be without a row in any frame."""
    rows = None
    if plan.users is not None:
        rows = _find_user_rows(users, plan.users)
    train_log = _to_interactions(train, users, plan)
    test_log = _to_interactions(test, users, plan).distinct
    ranks = _rank_models(models, train_log, test_log, rows, plan.seen)
    reduction = Reduction.from_ranks(ranks, plan.request)
    reduction = reduction.by(plan.planned_groups.select_users(users), plan.request)
    reduction = reduction.as_part(per_user=plan.per_user)

    n_merged = len(test) - len(test_log)
    merged_rows = drop_zero_counts(Count(MERGED_ROWS, n_merged, len(test), RESULT, "exclusion"))
    user_ids = reduction.user_ids
    if not plan.needs_user_ids:
        user_ids = user_ids[:0]
    return replace(reduction, counted=reduction.counted + merged_rows, user_ids=user_ids)


def _find_user_rows(users: AnyArray, all_users: AnyArray) -> AnyArray:
    """Return the row of each user among all users, or raise `InputError` for an unknown user."""
    rows = pd.Index(all_users).get_indexer(pd.Index(users))
    is_unknown = rows < 0
    if is_unknown.any():
        raise InputError(
            f"{int(is_unknown.sum()):,} of {users.size:,} users of the frames are not among users= "
            f"({format_examples(users[is_unknown])}; users= holds {format_examples(all_users)})."
        )
    return rows


def _rank_models(
    models: Mapping[str, Model],
    train: Interactions,
    test: Interactions,
    rows: AnyArray | None,
    seen: Seen,
) -> dict[str, RankedPositives]:
    """Return the ranks of the test positives by every model; `rows`: the rows of the users in factors."""
    split = None
    targets = None
    if len(test):
        split = Split(train, test, seen=seen)
        targets = HeldOutPositives.from_split(split)
    ranks = {}
    for name, model in models.items():
        has_no_lists = isinstance(model, Rows) and not len(model)
        if split is None or targets is None or has_no_lists:
            lists = model if isinstance(model, Rows) else None
            ranks[name] = _ranks_without_lists(train, test, seen, lists)
        else:
            ranks[name] = _rank_model(model, split, targets, rows, name)
    return ranks


def find_absent_users(n_present: int, present_users: AnyArray, plan: Plan) -> AnyArray:
    """Return the users without a row in any frame, or as many users where ids are not needed."""
    if plan.users is None:
        return _no_ids()
    if plan.needs_user_ids:
        return plan.users[pd.Index(present_users).get_indexer(pd.Index(plan.users)) < 0]
    return plan.users[n_present:]


def _to_interactions(rows: Rows, users: AnyArray, plan: Plan) -> Interactions:
    """Return rows as interactions of these users and the items of the plan."""
    if not len(rows):
        return Interactions(_no_ids(), _no_ids(), users, plan.items)
    interactions = rows.to_interactions(users)
    if interactions is not None:
        return interactions
    return Interactions.from_frame(
        rows.frame,
        users=users,
        items=plan.items,
        duplicates="raise" if plan.seen == "exclude" else "keep",
    )


def _rank_model(
    model: Model, split: Split, targets: HeldOutPositives, rows: AnyArray | None, name: str
) -> RankedPositives:
    """Return the ranks of the test positives by factors or by lists."""
    if isinstance(model, Factors):
        return rank_positives(model.select_users(rows), split, name=name)
    if model.pairs is not None:
        ranked = rank_sorted(model.pairs, split, targets)
        if ranked is not None:
            return ranked
    return rank_positives(model.frame, split, name=name)


def _ranks_without_lists(
    train: Interactions, test: Interactions, seen: Seen, lists: Rows | None
) -> RankedPositives:
    """Return ranks where nothing can be ranked: there is no positive, or no list."""
    n_excluded: IntArray = np.zeros(train.n_users, dtype=np.int64)
    candidate_rule = "all items"
    if seen == "exclude":
        n_excluded = train.activity
        candidate_rule = RankedPositives.candidates
    candidates = train.n_items - n_excluded
    list_length = None
    max_rank = None
    if lists is not None:
        max_rank = 0
        list_length = np.zeros(train.n_users, dtype=np.int64)
        if len(lists):
            list_length[np.isin(train.user_ids, lists.users)] = train.n_items
    order = np.argsort(test.pair_key)
    return RankedPositives(
        user=test.user[order],
        item=test.item[order],
        n_above=np.zeros(len(test), dtype=np.int64),
        n_tied=np.zeros(len(test), dtype=np.int64),
        n_candidates=candidates[test.user[order]],
        user_ids=train.user_ids,
        item_ids=train.item_ids,
        max_rank=max_rank,
        candidates_by_user=candidates,
        list_length=list_length,
        candidates=candidate_rule,
    )
