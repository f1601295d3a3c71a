"""Top-K lists: ranks within the list are exact, ranks beyond K are censored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval.data.reading import Lists
from ipseval.data.splits import Split
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.ranking._list_forms import convert_lists
from ipseval.ranking.candidates import CandidateLists, Targets
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.ranking.top_lists import TopK
from ipseval.utils.checks import counted as number
from ipseval.utils.checks import examples
from ipseval.utils.columns import frame_columns
from ipseval.utils.counts import Count, some
from ipseval.utils.ids import among, ranks_within_group
from ipseval.utils.types import AnyArray, BoolArray, IntArray

TAKES = "ipseval.Lists or read_lists"


def is_list_frame(model: Any) -> bool:
    """Return whether `model` is a data frame with columns user, item and rank or score."""
    columns = frame_columns(model)
    return {"user", "item"} <= columns and bool(columns & {"rank", "score"})


@dataclass(frozen=True, eq=False)
class ListEntries:
    """The entries of lists in the id space of a split, after what their options say of the others."""

    user: IntArray
    item: IntArray  # −1: not in the split, and keeps its place
    order: AnyArray  # the better the lower
    seen: BoolArray  # training items of their user, which keep their places
    unknown: str  # what becomes of entries that are no candidates: as in `Lists`
    counted: tuple[Count, ...] = ()

    def select(self, keep: BoolArray, *counted: Count) -> ListEntries:
        """Return the chosen entries, with what was counted."""
        user, item, order = self.user[keep], self.item[keep], self.order[keep]
        return ListEntries(user, item, order, self.seen[keep], self.unknown, self.counted + some(*counted))


def resolve(lists: Lists, split: Split) -> tuple[ListEntries, list[Problem]]:
    """Return the entries that stay in the id space of a split, and what is wrong with the lists."""
    problems = list(lists.problems)
    entries, counted = lists.entries, list(lists.counted)
    other_types: set[str] = set()
    user = _codes(lists, "user", split.user_ids, problems, other_types)
    item = _codes(lists, "item", split.item_ids, problems, other_types)
    keep = np.ones(user.size, dtype=bool)
    for what, codes, ids, own, known in (
        ("users", user, entries.user_ids, entries.user, split.user_ids),
        ("items", item, entries.item_ids, entries.item, split.item_ids),
    ):
        strange = (codes < 0) & (own >= 0) & keep
        if not strange.any() or ids is None or what in other_types:
            continue
        if lists.unknown == "raise":
            others = ids[np.unique(own[strange])]
            problems.append(
                Problem(
                    f"{int(strange.sum()):,} of {user.size:,} entries have {what} unknown to the split "
                    f"({number(others.size, what[:-1])}: {examples(others)}; the split has "
                    f"{examples(known)})",
                    "Pass {unknown=drop} to leave them out"
                    + ("" if what == "users" else ", {unknown=candidate} to let them compete"),
                )
            )
            continue
        leave = what == "users" or lists.unknown == "drop"
        fate = "left out" if leave else "added as candidates"
        words = f"entries with {what} unknown to the split, {fate}"
        counted.append(Count(words, int(strange.sum()), user.size))
        keep &= ~(strange & leave)
    # The key of a user who is not in the split is negative, as none of the excluded pairs is.
    seen = (item >= 0) & among(user * np.int64(split.n_items) + item, split.excluded.pair_key)
    if seen.any() and lists.seen == "raise":
        pair = (split.user_ids[user[seen][0]], split.item_ids[item[seen][0]])
        problems.append(
            Problem(
                f"{int(seen.sum()):,} of {user.size:,} entries are training items of their user (first: "
                f"{examples(pair)}), which are no candidates",
                "Pass {seen=drop} to leave them out, {seen=keep} to let them keep their places",
            )
        )
    elif seen.any():
        leave = lists.seen == "drop"
        words = f"entries that are training items of their user, {'left out' if leave else 'kept'}"
        counted += some(Count(words, int((seen & (keep | (not leave))).sum()), user.size))
        keep &= ~(seen & leave)
    resolved = ListEntries(user, item, entries.order, seen, lists.unknown, tuple(counted))
    return resolved.select(keep & (user >= 0)), problems


def _codes(
    lists: Lists, role: str, wanted: AnyArray, problems: list[Problem], other_types: set[str]
) -> IntArray:
    """Return the codes of the split, −1 for an id that it does not have; text is no number."""
    entries = lists.entries
    codes = entries.user if role == "user" else entries.item
    ids = entries.user_ids if role == "user" else entries.item_ids
    what = f"{role}s"
    if ids is None:
        if codes.size and codes.max() >= wanted.size:
            raise InputError(
                f"the lists have {int(codes.max()) + 1:,} rows and the split {wanted.size:,} {what}; pass "
                f"{what}=, the ids of the rows."
            )
        return codes
    try:
        place = entries.find_places(role, wanted)
    except InputError as error:
        other_types.add(what)
        problems.append(Problem(str(error).rstrip(".").replace(". ", "; ")))
        return np.full(codes.size, -1, dtype=np.int64)
    return np.append(place, -1)[codes]


def rank_lists(
    model: Any,
    split: Split,
    targets: Targets,
    *,
    lists: CandidateLists | None = None,
    allowed: IntArray | None = None,
    name: str,
    top: TopK | None = None,
) -> RankedPositives:
    """Return ranks of the test positives in top-K lists: `Lists`, resolved lists, or a frame of them."""
    # The list of a user is ordered by `rank` or, without it, by `score` (descending), ties counted. K is the
    # length of the longest list; shorter lists are padded with misses, and a positive that is not in its
    # user's list gets rank K + 1, which only says "beyond K". Lists of all candidates give the whole ranking.
    if not isinstance(model, ListEntries):
        model = resolve_lists({name: model}, split)[name]
    entries = _among_candidates(model, split, lists, allowed, name)
    n_above, n_tied = ranks_within_group(entries.user, -entries.order)
    size = np.bincount(entries.user, minlength=split.n_users)
    length = int(size.max())
    rows = np.flatnonzero(entries.item >= 0)
    key = entries.user[rows] * np.int64(split.n_items) + entries.item[rows]
    by_key = np.argsort(key)
    keys, wanted = key[by_key], targets.user * np.int64(split.n_items) + targets.item
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    found = keys[place] == wanted if keys.size else np.zeros(wanted.size, dtype=bool)
    row = rows[by_key[place]] if keys.size else np.zeros(wanted.size, dtype=np.int64)
    above = np.full(wanted.size, length)
    tied = np.zeros(wanted.size, dtype=np.int64)
    above[found], tied[found] = n_above[row[found]], n_tied[row[found]]
    if top is not None:  # what is in no split has no popularity; it keeps its place
        kept = np.flatnonzero((entries.item >= 0) & (n_above < top.k))
        kept = kept[np.lexsort((entries.item[kept], entries.user[kept]))]
        top.put(entries.user[kept], entries.item[kept], -entries.order[kept])
    said = {"list_length": size, "counted": entries.counted}
    proper = np.bincount(entries.user[(entries.item >= 0) & ~entries.seen], minlength=split.n_users)
    whole = (proper >= targets.candidates_by_user) & (proper == size)  # the list holds all candidates alone
    if whole[targets.user].all():
        return targets.ranked(above, tied, **said)
    return targets.ranked(above, tied, max_rank=length, **said)


def resolve_lists(models: Mapping[str, Any], split: Split) -> dict[str, Any]:
    """Return the models with lists in the id space of the split; raise with all that is wrong with them."""
    found: dict[str, Any] = {}
    wrong: dict[str, list[Problem]] = {}
    for name, given in models.items():
        model = convert_lists(given, split, name)
        found[name] = model
        if isinstance(model, Lists) or is_list_frame(model):
            lists = model if isinstance(model, Lists) else Lists(model, gaps="raise")
            found[name], problems = resolve(lists, split)
            if problems:
                wrong[name] = problems
    if len(wrong) == 1:
        ((name, problems),) = wrong.items()
        raise ProblemsError(f"{name} (top-K lists)", problems, TAKES)
    if wrong:
        every = [Problem(f"{name}: {one.what}", one.way_out) for name, own in wrong.items() for one in own]
        raise ProblemsError("the top-K lists", every, TAKES)
    return found


def _among_candidates(
    entries: ListEntries,
    split: Split,
    lists: CandidateLists | None,
    allowed: IntArray | None,
    name: str,
) -> ListEntries:
    """Return the entries that compete, or raise `InputError` when a list holds others."""
    if (lists is None and allowed is None) or entries.unknown == "candidate":
        return entries
    inside = np.zeros(entries.user.size, dtype=bool)
    known = ~entries.seen  # items that are not in the split have left, or compete
    if lists is not None:
        inside[known] = lists.contains(entries.user[known], entries.item[known], split.n_items)
    elif allowed is not None:
        inside[known] = np.isin(entries.item[known], allowed)
    outside = known & ~inside
    if not outside.any():
        return entries
    if entries.unknown == "drop":
        count = Count("entries that are no candidates, left out", int(outside.sum()), outside.size)
        return entries.select(~outside, count)
    pair = (split.user_ids[entries.user[outside][0]], split.item_ids[entries.item[outside][0]])
    raise ProblemsError(
        name,
        [
            Problem(
                f"{int(outside.sum()):,} entries of the lists are not candidates (first: {examples(pair)})",
                "Recommend among the candidates only, or pass {unknown=drop} to leave them out",
            )
        ],
        TAKES,
    )
