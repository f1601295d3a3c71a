"""Recommendation lists: the forms in which users pass them, and the ranks of test positives in them."""

from __future__ import annotations

import os
from collections.abc import Hashable, ItemsView, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from ipseval.data.reading import Lists, read_lists
from ipseval.data.reading.column_names import match_columns
from ipseval.data.reading.held_tables import holds_lists, unpack_lists
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError, Problem, ProblemsError
from ipseval.ranking._types import AnyModel
from ipseval.ranking.candidates import CandidateLists, HeldOutPositives
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.ranking.top_lists import TopKCollector
from ipseval.utils.artefacts import ARRAYS, array_digest, read_model_arrays, sha256
from ipseval.utils.checks import describe_type, format_examples, has_default_index, warn_user
from ipseval.utils.checks import format_count as pluralize
from ipseval.utils.columns import as_frame, frame_columns
from ipseval.utils.ids import is_member, ranks_within_group
from ipseval.utils.notes import Count, CountCode, drop_zero_counts
from ipseval.utils.types import AnyArray, BoolArray, IntArray

# Largest share of entries with items unknown to the split that are items of the catalogue without interactions.
# A larger share is more likely a mistake in the ids. For both shares see docs/decisions/23.
MOST_UNKNOWN = 0.1
# Largest share of entries that are training items of their user in lists of a recommender that excludes some of
# them. A larger share is more likely a recommender that excludes none.
MOST_SEEN = 0.1
TAKES = "ipseval.Lists or read_lists"
Role: TypeAlias = Literal["user", "item"]


def is_list_frame(model: AnyModel) -> bool:
    """Return whether `model` is a data frame with columns user, item and rank or score."""
    columns = frame_columns(model)
    return {"user", "item"} <= columns and bool(columns & {"rank", "score"})


@dataclass(frozen=True, eq=False)
class ListEntries:
    """The entries of lists in the id space of a split, without the entries that the options exclude."""

    user: IntArray
    item: IntArray  # −1 for an item that is not in the split; it keeps its position
    order: AnyArray  # lower is better
    seen: BoolArray  # training items of their user, which keep their positions
    unknown: str  # treatment of entries that are not candidates, as in `Lists`
    counts: tuple[Count, ...] = ()

    def select(self, keep: BoolArray, *more_counts: Count) -> ListEntries:
        """Return the entries for which `keep` is True, with further counts."""
        return ListEntries(
            user=self.user[keep],
            item=self.item[keep],
            order=self.order[keep],
            seen=self.seen[keep],
            unknown=self.unknown,
            counts=self.counts + drop_zero_counts(*more_counts),
        )


class ListResolver:
    """Bring the entries of lists into the id space of a split, and collect all problems."""

    def __init__(self, lists: Lists, split: Split, *, name: str = "", has_options: bool = True) -> None:
        self.lists = lists
        self.split = split
        self.name = name
        self.unknown = lists.unknown
        self._has_options = has_options  # False for lists that the caller has not passed as `Lists`
        self.problems: list[Problem] = list(lists.problems)
        self.counts: list[Count] = list(lists.counted)
        self._roles_of_other_type: set[str] = set()

    def resolve(self) -> ListEntries:
        """Return the entries that remain; `problems` and `counts` are complete afterwards."""
        user = self._encode("user")
        item = self._encode("item")
        keep = np.ones(user.size, dtype=bool)
        self._drop_unknown("user", user, keep)
        self._drop_unknown("item", item, keep)

        # The key of a user that is not in the split is negative, unlike all keys of excluded pairs.
        key = user * np.int64(self.split.n_items) + item
        seen = (item >= 0) & is_member(key, self.split.excluded_pairs.pair_key)
        if seen.any():
            self._drop_seen(seen, user, item, keep)
        entries = ListEntries(
            user=user,
            item=item,
            order=self.lists.entries.order,
            seen=seen,
            unknown=self.unknown,
            counts=tuple(self.counts),
        )
        return entries.select(keep & (user >= 0))

    def _list_codes(self, role: Role) -> tuple[IntArray, AnyArray | None]:
        """Return the codes of users or items in the lists, and the ids of these codes."""
        entries = self.lists.entries
        if role == "user":
            return entries.user, entries.user_ids
        return entries.item, entries.item_ids

    def _split_ids(self, role: Role) -> AnyArray:
        """Return the ids of users or items of the split."""
        if role == "user":
            return self.split.user_ids
        return self.split.item_ids

    def _encode(self, role: Role) -> IntArray:
        """Return the codes of the split, −1 for an id that it does not have; text does not equal a number."""
        codes, ids = self._list_codes(role)
        split_ids = self._split_ids(role)
        if ids is None:
            if codes.size and codes.max() >= split_ids.size:
                raise InputError(
                    f"the lists have {int(codes.max()) + 1:,} rows and the split {split_ids.size:,} {role}s; "
                    f"pass {role}s=, the ids of the rows."
                )
            return codes
        try:
            positions = self.lists.entries.find_places(role, split_ids)
        except InputError as error:
            self._roles_of_other_type.add(role)
            self.problems.append(Problem(str(error).rstrip(".").replace(". ", "; ")))
            return np.full(codes.size, -1, dtype=np.int64)
        return np.append(positions, -1)[codes]

    def _drop_unknown(self, role: Role, codes: IntArray, keep: BoolArray) -> None:
        """Remove from `keep` the entries with ids that the split lacks, or record a problem."""
        list_codes, ids = self._list_codes(role)
        is_unknown = (codes < 0) & (list_codes >= 0) & keep
        if not is_unknown.any() or ids is None or role in self._roles_of_other_type:
            return

        n_unknown = int(is_unknown.sum())
        if role == "item" and not self._has_options and n_unknown <= MOST_UNKNOWN * codes.size:
            self._keep_unknown_items(n_unknown, codes.size)
        if role == "user" and not self._has_options and self._cover_test_users(codes):
            keep &= ~is_unknown
            description = "entries of users without test positives that are unknown to the split, left out"
            self.counts.append(Count(description, n_unknown, codes.size, code="exclusion"))
            return
        if self.unknown == "raise":
            unknown_ids = ids[np.unique(list_codes[is_unknown])]
            fix = "Pass {unknown=drop} to leave them out"
            if role == "item":
                fix += ", {unknown=candidate} to let them compete"
            self.problems.append(
                Problem(
                    f"{n_unknown:,} of {codes.size:,} entries have {role}s unknown to the split "
                    f"({pluralize(unknown_ids.size, role)}: {format_examples(unknown_ids)}; the split has "
                    f"{format_examples(self._split_ids(role))})",
                    fix,
                )
            )
            return

        is_dropped = role == "user" or self.unknown == "drop"
        code: CountCode = "no_hit"
        if is_dropped:
            treatment = "left out"
            code = "exclusion"
            keep &= ~is_unknown
        else:
            treatment = "added as candidates"
        description = f"entries with {role}s unknown to the split, {treatment}"
        self.counts.append(Count(description, n_unknown, codes.size, code=code))

    def _cover_test_users(self, codes: IntArray) -> bool:
        """Return whether every user with test positives has a list, which ids of another kind would not allow."""
        return bool(np.isin(np.unique(self.split.test.user), codes).all())

    def _keep_unknown_items(self, n_unknown: int, n_entries: int) -> None:
        """Let the few items that the split lacks compete, as items of the catalogue without interactions."""
        self.unknown = "candidate"
        warn_user(
            f"{n_unknown:,} of {n_entries:,} entries of {self.name!r} have items without interactions in the "
            "split. These items compete, as items that no test user chose.",
            DataWarning,
            advice="Pass ipseval.Lists(…, unknown='drop') to leave them out",
            shell_advice="Pass {unknown=drop} to leave them out",
        )

    def _warn_about_seen_items(self, n_seen: int, n_entries: int) -> None:
        """Warn that the few training items in lists keep their positions, in which no hit is possible."""
        warn_user(
            f"{n_seen:,} of {n_entries:,} entries of {self.name!r} are training items of their user, which cannot "
            "be hits. They keep their positions.",
            DataWarning,
            advice="Pass ipseval.Lists(…, seen='drop') to move the other entries up",
            shell_advice="Pass {seen=drop} to move the other entries up",
        )

    def _hold_all_items(self, user: IntArray, item: IntArray) -> bool:
        """Return whether the list of every user holds all items of the split."""
        is_known = (user >= 0) & (item >= 0)
        lengths = np.bincount(user[is_known])
        return bool((lengths[lengths > 0] == self.split.n_items).all())

    def _drop_seen(self, seen: BoolArray, user: IntArray, item: IntArray, keep: BoolArray) -> None:
        """Remove from `keep` the training items of their user, or record a problem."""
        treatment_of_seen = self.lists.seen
        may_choose = treatment_of_seen == "raise" and not self._has_options
        if may_choose and self._hold_all_items(user, item):  # scores of all pairs, as in a matrix
            treatment_of_seen = "drop"
        elif may_choose and seen.sum() <= MOST_SEEN * seen.size:
            treatment_of_seen = "keep"
            self._warn_about_seen_items(int(seen.sum()), seen.size)
        if treatment_of_seen == "raise":
            first = np.flatnonzero(seen)[0]
            pair = (self.split.user_ids[user[first]], self.split.item_ids[item[first]])
            self.problems.append(
                Problem(
                    f"{int(seen.sum()):,} of {user.size:,} entries are training items of their user (first: "
                    f"{format_examples(pair)}), which are not candidates",
                    "Pass {seen=drop} to leave them out, {seen=keep} to let them keep their places",
                )
            )
            return
        code: CountCode = "no_hit"
        if treatment_of_seen == "drop":
            treatment = "left out"
            code = "exclusion"
            n_seen = int((seen & keep).sum())
            keep &= ~seen
        else:
            treatment = "kept as misses"
            n_seen = int(seen.sum())
        description = f"entries that are training items of their user, {treatment}"
        self.counts += drop_zero_counts(Count(description, n_seen, user.size, code=code))


def rank_lists(
    model: AnyModel,
    split: Split,
    targets: HeldOutPositives,
    *,
    lists: CandidateLists | None = None,
    allowed_items: IntArray | None = None,
    name: str,
    top: TopKCollector | None = None,
) -> RankedPositives:
    """Return ranks of the test positives in top-K lists: `Lists`, resolved lists, or a frame of lists.

    The list of a user is ordered by `rank` or, without it, by `score` (descending), with ties. K is the
    length of the longest list; shorter lists are padded with misses. A positive that is not in its user's
    list gets rank K + 1, which only means "beyond K". Lists of all candidates give the whole ranking.
    """
    if not isinstance(model, ListEntries):
        model = resolve_lists({name: model}, split)[name]
    entries = _drop_non_candidates(model, split, lists, allowed_items, name)

    entry_n_above, entry_n_tied = ranks_within_group(entries.user, -entries.order)
    list_length = np.bincount(entries.user, minlength=split.n_users)
    max_length = int(list_length.max())
    entry = _find_entries(entries, targets, split.n_items)
    is_listed = entry >= 0
    n_above = np.full(entry.size, max_length)
    n_tied = np.zeros(entry.size, dtype=np.int64)
    n_above[is_listed] = entry_n_above[entry[is_listed]]
    n_tied[is_listed] = entry_n_tied[entry[is_listed]]

    if top is not None:
        # Items that are not in the split cannot be in a top list; they keep their positions.
        best = np.flatnonzero((entries.item >= 0) & (entry_n_above < top.k))
        best = best[np.lexsort((entries.item[best], entries.user[best]))]
        top.add_candidates(entries.user[best], entries.item[best], -entries.order[best])

    # A list that consists of all candidates, and of nothing else, is a whole ranking.
    is_candidate = (entries.item >= 0) & ~entries.seen
    n_candidates_listed = np.bincount(entries.user[is_candidate], minlength=split.n_users)
    is_complete = (n_candidates_listed >= targets.candidates_by_user) & (n_candidates_listed == list_length)
    max_rank: int | None = max_length
    if is_complete[targets.user].all():
        max_rank = None
    return targets.build_ranks(
        n_above,
        n_tied,
        max_rank=max_rank,
        list_length=list_length,
        row_counts=entries.counts,
        list_hash=_hash_lists(entries, entry_n_above, entry_n_tied),
    )


def _hash_lists(entries: ListEntries, n_above: IntArray, n_tied: IntArray) -> str:
    """Return a hash of users, items and ranks of the entries, in the order in which they were passed."""
    columns = []
    for values in (entries.user, entries.item, n_above, n_tied):
        columns.append(array_digest(np.asarray(values, dtype="<i8")))
    return sha256(*columns)


def _find_entries(entries: ListEntries, targets: HeldOutPositives, n_items: int) -> IntArray:
    """Return the number of the entry of each target, −1 for a target that is in no list."""
    rows = np.flatnonzero(entries.item >= 0)
    if not rows.size:
        return np.full(targets.user.size, -1, dtype=np.int64)
    key = entries.user[rows] * np.int64(n_items) + entries.item[rows]
    order = np.argsort(key)
    list_keys = key[order]
    target_key = targets.user * np.int64(n_items) + targets.item
    position = np.minimum(np.searchsorted(list_keys, target_key), list_keys.size - 1)
    is_listed = list_keys[position] == target_key
    return np.where(is_listed, rows[order[position]], -1)


def resolve_lists(models: Mapping[str, AnyModel], split: Split) -> dict[str, AnyModel]:
    """Return the models with lists in the id space of the split, or raise one error with all problems."""
    resolved_models: dict[str, AnyModel] = {}
    problems: dict[str, list[Problem]] = {}
    for name, model in models.items():
        converted_model = convert_lists(model, split, name)
        if is_list_frame(converted_model):
            converted_model = Lists(converted_model, gaps="raise")
        if not isinstance(converted_model, Lists):
            resolved_models[name] = converted_model
            continue
        resolver = ListResolver(converted_model, split, name=name, has_options=isinstance(model, Lists))
        resolved_models[name] = resolver.resolve()
        if resolver.problems:
            problems[name] = resolver.problems

    if len(problems) == 1:
        ((name, model_problems),) = problems.items()
        raise ProblemsError(f"{name} (top-K lists)", model_problems, TAKES)
    if problems:
        all_problems: list[Problem] = []
        for name, model_problems in problems.items():
            all_problems += [
                Problem(f"{name}: {problem.description}", problem.advice) for problem in model_problems
            ]
        raise ProblemsError("the top-K lists", all_problems, TAKES)
    return resolved_models


def _drop_non_candidates(
    entries: ListEntries,
    split: Split,
    lists: CandidateLists | None,
    allowed_items: IntArray | None,
    name: str,
) -> ListEntries:
    """Return the entries that compete, or raise `InputError` when a list holds other items."""
    if (lists is None and allowed_items is None) or entries.unknown == "candidate":
        return entries
    # Training items keep their positions; items outside the split have been removed, or compete.
    to_check = ~entries.seen
    is_candidate = np.zeros(entries.user.size, dtype=bool)
    if lists is not None:
        is_candidate[to_check] = lists.contains(entries.user[to_check], entries.item[to_check], split.n_items)
    elif allowed_items is not None:
        is_candidate[to_check] = np.isin(entries.item[to_check], allowed_items)
    is_outside = to_check & ~is_candidate
    if not is_outside.any():
        return entries

    n_outside = int(is_outside.sum())
    if entries.unknown == "drop":
        count = Count(
            "entries that are not candidates, left out", n_outside, is_outside.size, code="exclusion"
        )
        return entries.select(~is_outside, count)
    first = np.flatnonzero(is_outside)[0]
    pair = (split.user_ids[entries.user[first]], split.item_ids[entries.item[first]])
    problem = Problem(
        f"{n_outside:,} entries of the lists are not candidates (first: {format_examples(pair)})",
        "Recommend among the candidates only, or pass {unknown=drop} to leave them out",
    )
    raise ProblemsError(name, [problem], TAKES)


FACTOR_NAMES = {"user_factors", "item_factors"}
MOST_COLUMNS = 10  # of a frame of lists, whereas a frame of scores has a column for each item


def convert_lists(model: AnyModel, split: Split, name: str) -> AnyModel:
    """Return recommendation lists in Python objects as `Lists`, and every other model unchanged.

    Parameters
    ----------
    model : object
        * {user: [item, …]}, best first, {user: {item: score}} or {user: [(item, score), …]};
        * {(user, item): score}, a Series with these pairs or with users as labels, records, or pairs
          (user, [item, …]), as in `unpack_lists`;
        * a frame with users as labels and the ids of items, which are text, in its cells, best first;
        * a list with a list of item ids for each user, in the order of `split.user_ids`;
        * a list with a list of scores of all items for each user, which becomes an array;
        * a list of tuples (user, item, score), if its length is not the number of users;
        * an array of item positions with a row for each user, or the pair (items, scores) of such arrays;
          or an array of item ids that cannot be positions or scores;
        * a run of ranx, or the path of a file of lists or of a NumPy array.
    split : Split
    name : str
        Name of the model, for errors.

    Raises
    ------
    InputError
        For a list of another length than the number of users, and for entries that are neither item ids nor
        scores.
    """
    factors = _find_named_factors(model, split)
    if factors is not None:
        return factors
    if isinstance(model, (Mapping, list, pd.Series, pd.DataFrame, ItemsView)):
        model = unpack_lists(model)
    if isinstance(model, Mapping):
        return _convert_mapping(model, name)
    if _is_path(model):
        return _read_file(model)
    if type(model).__module__ == "torch" and type(model).__name__ == "Tensor":
        return convert_lists(_to_array(model), split, name)
    if type(model).__module__.startswith("ranx."):
        return Lists(model)
    if isinstance(model, list):
        return _convert_rows(model, split, name)
    if isinstance(model, (np.ndarray, tuple)):
        return _convert_arrays(model, split)
    if hasattr(model, "to_df"):  # item lists of LensKit
        model = unpack_lists(model)
    return _convert_frame(model)


def _find_named_factors(model: AnyModel, split: Split) -> tuple[AnyArray, ...] | None:
    """Return the factors of {"user_factors": …, "item_factors": …}, or of a list of both; None for others."""
    if isinstance(model, Mapping) and FACTOR_NAMES <= set(model) <= {*FACTOR_NAMES, "item_bias"}:
        return tuple(model[part] for part in ("user_factors", "item_factors", "item_bias") if part in model)
    if not isinstance(model, list) or len(model) != 2 or not all(np.ndim(part) == 2 for part in model):
        return None
    user_shape, item_shape = (np.shape(part) for part in model)
    n_factors = user_shape[1]
    if (user_shape, item_shape) != ((split.n_users, n_factors), (split.n_items, n_factors)):
        return None
    return tuple(model)


def _convert_arrays(model: AnyModel, split: Split) -> AnyModel:
    """Return an array of items, or the pair (items, scores) of arrays, as `Lists`; others unchanged."""
    if _are_position_arrays(model, split):
        return Lists(model)
    if isinstance(model, np.ndarray) and _are_id_rows(model, split):
        return Lists(dict(zip(split.user_ids.tolist(), model.tolist(), strict=True)))
    return model


def _convert_frame(model: AnyModel) -> AnyModel:
    """Return a frame of recommendation lists as `Lists`, and every other model unchanged."""
    if isinstance(model, pd.DataFrame):
        model = _convert_wide_lists(model)
        if isinstance(model, dict):
            return Lists(model)
    if _has_list_columns(model):
        return Lists(model, gaps="raise")
    return model


def _to_array(tensor: AnyModel) -> AnyArray:
    """Return a tensor of torch as an array; gradients and the device are left behind."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    return np.asarray(tensor)


def _is_path(model: object) -> bool:
    """Return whether a model is the path of a file; other text is explained in an error elsewhere."""
    if isinstance(model, os.PathLike):
        return True
    return isinstance(model, str) and Path(model).is_file()


def _read_file(path: str | os.PathLike[str]) -> Lists | AnyArray | tuple[AnyArray, AnyArray]:
    """Return the array, the factors or the recommendation lists of a file."""
    if str(path).lower().endswith(ARRAYS):
        return read_model_arrays(Path(path))
    try:
        return read_lists(path)
    except ProblemsError as error:
        raise ProblemsError(error.source, error.problems, TAKES) from None


def _are_position_arrays(model: object, split: Split) -> bool:
    """Return whether a model is an array of item positions with a row for each user, or (items, scores).

    An array of integers with as many columns as the split has items may hold scores; it is not read as lists.
    Neither is an array where the ids of items are not their positions, because it may hold ids.
    """
    if not np.array_equal(split.item_ids, np.arange(split.n_items)):
        return False
    items = model
    if isinstance(model, tuple) and len(model) == 2:
        items = model[0]
        if not isinstance(model[1], np.ndarray) or np.shape(model[1]) != np.shape(items):
            return False
        if split.n_users == split.n_items and model[1].dtype.kind in "iu":  # both may be factors
            return False
    if not isinstance(items, np.ndarray) or items.ndim != 2 or items.dtype.kind not in "iu":
        return False
    n_rows, n_columns = items.shape
    has_shape = n_rows == split.n_users and 0 < n_columns < split.n_items
    if not has_shape or items.min() < -1 or items.max() >= split.n_items:
        return False
    return all(np.unique(row).size == row.size for row in items)


def _has_list_columns(model: object) -> bool:
    """Return whether a frame has columns of users, items and ranks or scores under other common names.

    A column of lists needs no ranks.
    """
    columns = sorted(frame_columns(model), key=str)
    if is_list_frame(model) or not 2 <= len(columns) <= MOST_COLUMNS:
        return False
    frame = as_frame(model)
    list_columns = []
    for column in columns:
        if frame is not None and isinstance(column, str) and holds_lists(frame, column):
            list_columns.append(column)
    names = ("user", "item", "rank", "score")
    roles = match_columns(columns, {}, names, list_columns=list_columns).columns
    if not {"user", "item"} <= set(roles):
        return False
    return bool({"rank", "score"} & set(roles)) or roles["item"] in list_columns


def _convert_wide_lists(frame: pd.DataFrame) -> AnyModel:
    """Return a frame with a user in each row and items as text in its cells as a mapping; others unchanged."""
    if is_list_frame(frame) or not frame.index.is_unique or frame.shape[1] < 2:
        return frame
    columns = [str(column) for column in frame.columns]
    if match_columns(columns, {}, ("user", "item"), essential=()).columns:
        return frame
    if not all(pd.api.types.is_string_dtype(dtype) for dtype in frame.dtypes) or has_default_index(
        frame.index
    ):
        return frame
    lists = {}
    for user, cells in zip(frame.index.tolist(), frame.to_numpy(dtype=object), strict=True):
        lists[user] = [item for item in cells if not pd.isna(item)]
    return lists


def _are_id_rows(array: AnyArray, split: Split) -> bool:
    """Return whether an array has a row of item ids for each user, and cannot hold scores or positions."""
    if array.ndim != 2 or array.shape[0] != split.n_users or not array.size:
        return False
    if array.dtype.kind in "USO":
        return isinstance(array.flat[0], str)
    if array.dtype.kind not in "iu" or array.shape[1] >= split.n_items:
        return False
    may_be_positions = array.min() >= 0 and array.max() < split.n_items
    return not may_be_positions and bool(np.isin(array, split.item_ids).all())


def _convert_mapping(model: Mapping[Hashable, object], name: str) -> Lists:
    """Return a mapping from users to their items as `Lists`."""
    if not model:
        raise InputError(
            f"{name} must contain at least one recommendation list; got an empty mapping. Pass "
            "{user: [item, …]} or {user: {item: score}}."
        )
    value = next(iter(model.values()))
    if isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Sequence, np.ndarray, pd.Series)):
        raise InputError(
            f"{name} must map users to recommendation lists; got {describe_type(value)} for the first user. Pass "
            '{user: [item, …]}, best first, or {user: {item: score}}; models are {"name": {user: …}}.'
        )
    return Lists(model)


def _convert_rows(model: list[AnyModel], split: Split, name: str) -> Lists | AnyArray:
    """Return one list for each user, in the order of the split, as `Lists` or as an array of scores."""
    if not model or not all(isinstance(row, (list, tuple, np.ndarray)) for row in model):
        description = "an empty list"
        if model:
            description = f"a list with {describe_type(model[0])}"
        raise InputError(
            f"{name} must be scores or recommendation lists; got {description}. Pass {{user: [item, …]}}, or "
            "one list of item ids for each user in the order of split.user_ids."
        )
    if _are_user_lists(model):
        return Lists(dict(model))
    if len(model) != split.n_users and _are_scored_pairs(model):
        return _convert_scored_pairs(model)
    if len(model) != split.n_users:
        raise InputError(
            f"{name} must have one list for each of the {split.n_users:,} users, in the order of "
            f"split.user_ids; got {len(model):,} lists. Pass {{user: [item, …]}} to name the users, or tuples "
            "(user, item, score)."
        )
    scores = _read_scores(model, split)
    if scores is not None:
        return scores
    users = split.user_ids.tolist()
    return Lists(dict(zip(users, model, strict=True)))


def _are_user_lists(rows: list[AnyModel]) -> bool:
    """Return whether all entries are pairs (user, [item, …]) of distinct users."""
    users = set()
    for row in rows:
        if len(row) != 2 or not isinstance(row[0], (str, int, np.integer)):
            return False
        if not isinstance(row[1], (list, tuple, np.ndarray, Mapping)):
            return False
        users.add(row[0])
    return len(users) == len(rows)


def _are_scored_pairs(model: list[AnyModel]) -> bool:
    """Return whether all entries are tuples (user, item, score), whose score is a fraction somewhere."""
    has_fraction = False
    for entry in model:
        if not isinstance(entry, tuple) or len(entry) != 3 or not isinstance(entry[2], (float, np.floating)):
            return False
        has_fraction = has_fraction or entry[2] != np.floor(entry[2])
    return has_fraction


def _convert_scored_pairs(pairs: list[tuple[Hashable, Hashable, float]]) -> Lists:
    """Return tuples (user, item, score) as `Lists`."""
    lists: dict[Hashable, list[tuple[Hashable, float]]] = {}
    for user, item, score in pairs:
        lists.setdefault(user, []).append((item, score))
    return Lists(lists)


def _read_scores(model: list[AnyModel], split: Split) -> AnyArray | None:
    """Return rows of one score for each item as an array; None for lists of item ids."""
    if any(len(row) != split.n_items for row in model):
        return None
    try:
        array: AnyArray = np.asarray(model)
    except ValueError:  # rows of tuples of different lengths
        return None
    if array.shape != (split.n_users, split.n_items) or array.dtype.kind not in "fiu":
        return None
    if _are_item_ids(array, split):
        return None
    return array


def _are_item_ids(array: AnyArray, split: Split) -> bool:
    """Return whether rows of integers, as long as the catalogue, are complete lists of item ids."""
    if array.dtype.kind not in "iu" or not np.isin(array, split.item_ids).all():
        return False
    return all(np.unique(row).size == row.size for row in array)
