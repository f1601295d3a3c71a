"""Generated recommendation lists: several lists of each user, and their invalid entries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.utils.checks import describe_type, format_examples
from ipseval.utils.ids import as_ids, find_positions, is_member, mark_repeats
from ipseval.utils.types import AnyArray, BoolArray, IntArray

# {user: [list, …]}, or one {user: list} for each run of the program that generates them.
GeneratedLists: TypeAlias = (
    Mapping[Any, Sequence[Sequence[object]]] | Sequence[Mapping[Any, Sequence[object]]]
)

# Reasons why an entry is invalid, in the order in which they are looked for.
REASONS = ("unknown", "not in prompt", "seen", "repeated")


@dataclass(frozen=True, eq=False)
class GeneratedEntries:
    """The entries of the generated lists of one recommender, sorted by user, run and position.

    Attributes
    ----------
    users : (n_users,) int array
        Codes of the users with at least one generation, ascending; a generation may be an empty list.
    n_runs : (n_users,) int array
        Number of generations of each of these users.
    user, run, position : (n,) int arrays
        User code, number of the generation within the user, and position in its list, of each entry.
    item : (n,) int array
        Item code; −1 for an item that is not in the split.
    reason : (n,) int array
        Position in `REASONS` of the reason why the entry is invalid; −1 for a valid entry.
    """

    users: IntArray
    n_runs: IntArray
    user: IntArray
    run: IntArray
    position: IntArray
    item: IntArray
    reason: IntArray

    @property
    def is_valid(self) -> BoolArray:
        """Whether each entry is valid, (n,)."""
        return self.reason < 0

    def count_by_user(self, is_counted: BoolArray) -> IntArray:
        """Return the number of counted entries of each user of `users`."""
        places = np.searchsorted(self.users, self.user[is_counted])
        return np.bincount(places, minlength=self.users.size)


@dataclass(frozen=True, eq=False)
class PromptItems:
    """The items that the prompt of each user showed as candidates.

    Attributes
    ----------
    keys : (n,) int array
        User code times the number of items, plus item code, ascending.
    n_by_user : (n_users,) int array
        Number of these items for each user of the split.
    """

    keys: IntArray
    n_by_user: IntArray

    @classmethod
    def from_mapping(cls, prompt_items: Mapping[Any, Sequence[object]], split: Split) -> PromptItems:
        """Return the items of prompts in the id space of a split; items that are not in the split are left out."""
        users = list(prompt_items)
        rows = [list(prompt_items[user]) for user in users]
        lengths = [len(row) for row in rows]
        user = np.repeat(_find_user_codes(users, split, "prompt_items"), lengths)
        item = _find_item_codes(_join_lists(rows), split)
        is_known = item >= 0
        keys = np.unique(user[is_known] * np.int64(split.n_items) + item[is_known])
        return cls(keys, np.bincount(keys // split.n_items, minlength=split.n_users))


def encode_generations(
    name: str, generations: GeneratedLists, split: Split, prompt: PromptItems | None
) -> GeneratedEntries:
    """Return the entries of generated lists in the id space of a split, with the reason why some do not count."""
    lists_by_user = _group_by_user(name, generations)
    ids = list(lists_by_user)
    codes = _find_user_codes(ids, split, name)
    order = np.argsort(codes)

    rows: list[list[object]] = []
    n_runs = []
    for place in order.tolist():
        user_lists = lists_by_user[ids[place]]
        n_runs.append(len(user_lists))
        rows += user_lists

    n_runs_by_user = np.array(n_runs, dtype=np.int64)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    row_user = np.repeat(codes[order], n_runs_by_user)
    row_run = _count_within(n_runs_by_user)
    item = _find_item_codes(_join_lists(rows), split)
    if item.size and (item < 0).all():
        raise InputError(
            f"the lists of {name} must contain items of the split; got none among {item.size:,} entries, such as "
            f"{format_examples(_join_lists(rows))} (the split has {format_examples(split.item_ids)}). Map titles to "
            "item ids first, and keep the type of the ids."
        )
    user = np.repeat(row_user, lengths)
    run = np.repeat(row_run, lengths)
    return GeneratedEntries(
        users=codes[order],
        n_runs=n_runs_by_user,
        user=user,
        run=run,
        position=_count_within(lengths),
        item=item,
        reason=_find_reasons(user, np.repeat(np.arange(lengths.size), lengths), item, split, prompt),
    )


def _group_by_user(name: str, generations: GeneratedLists) -> dict[Hashable, list[list[object]]]:
    """Return user id -> its generated lists."""
    if not isinstance(generations, Mapping):
        return _transpose_runs(name, generations)
    lists_by_user: dict[Hashable, list[list[object]]] = {}
    for user, user_lists in generations.items():
        if not _is_list(user_lists) or not all(_is_list(row) for row in user_lists):
            raise InputError(
                f"{name} must map each user to a list of generated lists; got {user_lists!r:.60} for user "
                f"{user!r:.40}. Pass {{user: [[item, …], [item, …]]}}; ipseval.evaluate takes one list for each user."
            )
        if not len(user_lists):
            raise InputError(
                f"{name} must have at least one generation for each user; got none for user {user!r:.40}. Leave the "
                "user out, or pass [[]] for a generation without any item, which counts as a miss."
            )
        lists_by_user[user] = [list(row) for row in user_lists]
    if not lists_by_user:
        raise InputError(f"{name} must have the lists of at least one user; got an empty mapping.")
    return lists_by_user


def _transpose_runs(
    name: str, runs: Sequence[Mapping[Any, Sequence[object]]]
) -> dict[Hashable, list[list[object]]]:
    """Return user id -> its generated lists, from one mapping for each run."""
    if not _is_list(runs) or not len(runs) or not all(isinstance(run, Mapping) for run in runs):
        raise InputError(
            f"{name} must be {{user: [list, …]}} or a list of {{user: list}}, one for each run; got "
            f"{describe_type(runs)}."
        )
    lists_by_user: dict[Hashable, list[list[object]]] = {}
    for run in runs:
        for user, row in run.items():
            lists_by_user.setdefault(user, []).append(list(row))
    return _group_by_user(name, lists_by_user)


def _is_list(value: object) -> bool:
    """Return whether a value is a sequence of items, and not a text."""
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))


def _join_lists(rows: Sequence[Sequence[object]]) -> list[object]:
    """Return the entries of all lists one after another."""
    entries: list[object] = []
    for row in rows:
        entries += row
    return entries


def _count_within(sizes: IntArray) -> IntArray:
    """Return 0, 1, 2, … within groups of these sizes."""
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.arange(first.size) - first


def _find_user_codes(users: Sequence[object], split: Split, name: str) -> IntArray:
    """Return the codes of users, or raise `InputError` for users outside the split."""
    ids: AnyArray = as_ids(list(users), name)
    codes = find_positions(ids, split.user_ids, name, strict=False)
    is_unknown = codes < 0
    if is_unknown.any():
        raise InputError(
            f"the users of {name} must be in the split; {int(is_unknown.sum()):,} of {codes.size:,} are not "
            f"({format_examples(ids[is_unknown])}; the split has {format_examples(split.user_ids)}). Use the ids of "
            "the split, or leave these users out."
        )
    return codes


def _find_item_codes(entries: Sequence[object], split: Split) -> IntArray:
    """Return the codes of entries; −1 for everything that is not an item id of the split, such as an invented title."""
    code_by_id = {item: code for code, item in enumerate(split.item_ids.tolist())}
    codes = np.empty(len(entries), dtype=np.int64)
    for place, entry in enumerate(entries):
        try:
            codes[place] = code_by_id.get(entry, -1)
        except TypeError:  # a list or a mapping in place of an item
            codes[place] = -1
    return codes


def _find_reasons(
    user: IntArray, row: IntArray, item: IntArray, split: Split, prompt: PromptItems | None
) -> IntArray:
    """Return the position in `REASONS` of the first reason why each entry is invalid, or −1."""
    is_known = item >= 0
    keys = user * np.int64(split.n_items) + item
    is_not_in_prompt = np.zeros(item.size, dtype=bool)
    if prompt is not None:
        is_not_in_prompt = is_known & ~is_member(keys, prompt.keys)
    is_seen = is_known & is_member(keys, split.excluded_pairs.pair_key)
    is_repeated = is_known & mark_repeats(row * np.int64(split.n_items + 1) + item)
    reason = np.full(item.size, -1)
    for number, holds in reversed(list(enumerate((~is_known, is_not_in_prompt, is_seen, is_repeated)))):
        reason[holds] = number
    return reason
