"""The positives to rank, the items that compete with them, and batches of this work for the kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipseval.data.interactions import Interactions, encode_in_universe
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.ranking._types import AnyFrame
from ipseval.ranking.ranked_positives import LISTS_BY_USER, MINUS_TRAINING, RankedPositives
from ipseval.utils.checks import format_examples, warn_user
from ipseval.utils.columns import frame_columns
from ipseval.utils.ids import align_labels, is_member
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, as_readonly, freeze


@dataclass(frozen=True, eq=False)
class HeldOutPositives:
    """The positives to rank, sorted by user and item, and each user's excluded items."""

    user: IntArray
    item: IntArray
    gain: FloatArray | None
    excluded_items: IntArray  # sorted; of user u: `excluded_items[excluded_start[u]:excluded_start[u + 1]]`
    excluded_start: IntArray
    candidates_by_user: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    minus: str = MINUS_TRAINING
    candidates: str = f"all items{MINUS_TRAINING}"
    n_not_candidates: int = 0

    @classmethod
    def from_split(cls, split: Split) -> HeldOutPositives:
        """Return the test positives of a split, with the items that do not compete excluded."""
        test = split.test
        train = split.excluded_pairs
        minus = ""
        if split.seen == "exclude" and len(split.train):
            minus = MINUS_TRAINING

        user = test.user
        item = test.item
        gain = None
        if test.value is not None:
            gain = test.value.astype(np.float64)
        if not test.has_ascending_pairs:
            order = np.argsort(test.pair_key, kind="stable")
            user = user[order]
            item = item[order]
            if gain is not None:
                gain = gain[order]

        excluded_items = train.item
        if not train.has_ascending_pairs:
            # Sorting the keys themselves is many times faster than sorting the items by them.
            excluded_items = np.sort(train.pair_key) % split.n_items
        return cls(
            user=user,
            item=item,
            gain=gain,
            excluded_items=excluded_items,
            excluded_start=np.concatenate([[0], np.cumsum(train.activity)]),
            candidates_by_user=split.n_items - train.activity,
            user_ids=split.user_ids,
            item_ids=split.item_ids,
            minus=minus,
            candidates=f"all items{minus}",
        )

    def build_ranks(self, n_above: IntArray, n_tied: IntArray, **fields: Any) -> RankedPositives:
        """Return the ranks of these targets; `fields` holds further fields, or replaces the default ones."""
        values = {
            "n_candidates": self.candidates_by_user[self.user],
            "candidates_by_user": self.candidates_by_user,
            "candidates": self.candidates,
        }
        return RankedPositives.from_validated(
            user=self.user,
            item=self.item,
            n_above=n_above,
            n_tied=n_tied,
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            gain=self.gain,
            n_not_candidates=self.n_not_candidates,
            **values | fields,
        )


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """Each user's list of candidates: `item[start[u]:start[u + 1]]`, ascending, without excluded items."""

    start: IntArray
    item: IntArray

    @classmethod
    def from_frame(cls, frame: AnyFrame, split: Split, name: str) -> CandidateLists:
        """Return the lists of a data frame with columns user and item."""
        try:
            log = Interactions.from_frame(frame, users=split.user_ids, items=split.item_ids)
        except InputError as error:
            raise InputError(f"{name} (candidates): {error}") from None
        log = log.select(~is_member(log.pair_key, split.excluded_pairs.pair_key))
        if not len(log):
            raise InputError(f"{name}: every candidate is a training item of its user.")
        order = np.argsort(log.pair_key)
        start = np.concatenate([[0], np.cumsum(log.activity)])
        return cls(as_readonly(start), as_readonly(log.item[order]))

    def contains(self, user: IntArray, item: IntArray, n_items: int) -> BoolArray:
        """Return whether each pair is a candidate."""
        list_user = np.repeat(np.arange(self.start.size - 1), np.diff(self.start))
        list_key = list_user * np.int64(n_items) + self.item
        is_candidate: BoolArray = is_member(user * np.int64(n_items) + item, list_key)
        return is_candidate


def is_catalogue(candidates: object) -> bool:
    """Return whether the whole catalogue competes."""
    return isinstance(candidates, str) and candidates == "all"


def as_candidates(
    candidates: object, split: Split, name: str
) -> tuple[CandidateLists | None, IntArray | None]:
    """Return each user's candidates, or the codes of the items that compete; twice None for all items."""
    if is_catalogue(candidates):
        return None, None
    if {"user", "item"} <= frame_columns(candidates):
        return CandidateLists.from_frame(candidates, split, name), None
    return None, _item_codes(candidates, split)


def _item_codes(candidates: object, split: Split) -> IntArray:
    """Return the sorted codes of the items that compete, from ids or a mask (n_items,)."""
    if str(getattr(candidates, "dtype", "")) == "bool":
        candidates = _align_mask(candidates, split)
    try:
        values = np.asarray(candidates)
    except ValueError:  # a list of lists of several lengths
        values = np.empty((0, 0))
    if values.ndim != 1:
        hint = ""
        if type(candidates) is int:
            hint = f" Pass SampledCandidates({candidates!r})."
        raise InputError(
            "candidates must be 'all', SampledCandidates, ids of items or a mask (n_items,), or a data frame "
            f"with columns user and item; got {candidates!r:.80}.{hint}"
        )

    if values.dtype == bool:
        if values.shape != (split.n_items,):
            raise InputError(f"candidates as a mask must have shape ({split.n_items},); got {values.shape}.")
        codes = np.flatnonzero(values)
    else:
        if values.dtype.kind in "US":
            values = values.astype(object)
        codes = np.unique(encode_in_universe(values, split.item_ids, "candidates")[0])
    if not codes.size:
        raise InputError("candidates is empty; at least one item must compete.")
    return codes


def _align_mask(mask: object, split: Split) -> AnyArray:
    """Return a mask in the order of `split.item_ids`; a Series is aligned by its labels."""
    aligned = np.asarray(align_labels(mask, split.item_ids, "candidates"))
    if aligned.dtype != bool:  # NaN for each item that is not among the labels of a Series
        n_missing = int((aligned != aligned).sum())
        raise InputError(
            f"candidates must have a label for each of {split.n_items} items; {n_missing} are missing. "
            "Add them with False, or pass the ids of the items that compete."
        )
    return aligned


def restrict_items(targets: HeldOutPositives, allowed_items: IntArray) -> HeldOutPositives:
    """Return the targets when only the items `allowed_items` compete, with a warning about lost positives."""
    n_users = targets.excluded_start.size - 1
    is_allowed = np.zeros(targets.item_ids.size, dtype=bool)
    is_allowed[allowed_items] = True
    excluded_user = np.repeat(np.arange(n_users), np.diff(targets.excluded_start))
    stays = is_allowed[targets.excluded_items]
    n_excluded = np.bincount(excluded_user[stays], minlength=n_users)
    return replace(
        keep_candidates(targets, is_allowed[targets.item], "are not among the allowed items"),
        excluded_items=targets.excluded_items[stays],
        excluded_start=np.concatenate([[0], np.cumsum(n_excluded)]),
        candidates_by_user=allowed_items.size - n_excluded,
        candidates=f"{allowed_items.size:,} allowed items{targets.minus}",
    )


def restrict_lists(targets: HeldOutPositives, lists: CandidateLists) -> HeldOutPositives:
    """Return the targets when each user has a separate list of candidates."""
    is_candidate = lists.contains(targets.user, targets.item, targets.item_ids.size)
    return replace(
        keep_candidates(targets, is_candidate, "are not among their user's candidates"),
        candidates_by_user=np.diff(lists.start),
        candidates=f"{LISTS_BY_USER}{targets.minus}",
    )


def keep_candidates(targets: HeldOutPositives, is_candidate: BoolArray, reason: str) -> HeldOutPositives:
    """Return the targets that are candidates; the number of excluded targets is reported in a warning."""
    n_excluded = int((~is_candidate).sum())
    if not n_excluded:
        return targets
    n_targets = is_candidate.size
    if n_excluded == n_targets:
        raise InputError(f"none of the {n_targets:,} test positives can be ranked: they {reason}.")

    first = np.flatnonzero(~is_candidate)[0]
    pair = (targets.user_ids[targets.user[first]], targets.item_ids[targets.item[first]])
    warn_user(
        f"{n_excluded:,} of {n_targets:,} test positives {reason} (first: {format_examples(pair)}) and are "
        "excluded, because an item that does not compete has no rank. A candidate set must not depend on "
        "which interactions were observed.",
        DataWarning,
    )
    gain = targets.gain
    if gain is not None:
        gain = gain[is_candidate]
    return replace(
        targets,
        user=targets.user[is_candidate],
        item=targets.item[is_candidate],
        gain=gain,
        n_not_candidates=targets.n_not_candidates + n_excluded,
    )


@dataclass(frozen=True, eq=False)
class Batch:
    """The ranking work of consecutive users: of all users, or of all users with positives."""

    users: IntArray
    start: IntArray
    item: IntArray  # `item[start[r]:start[r + 1]]` are the positives of `users[r]`
    excluded_start: IntArray
    excluded_items: IntArray  # like `item`, with `excluded_start`; ascending
    first_positive: int  # position of the first positive among all positives

    def __post_init__(self) -> None:
        # Read-only and writable arrays are different types to Numba: it compiles for one of them only.
        freeze(self, "users", "start", "item")
        freeze(self, "excluded_start", "excluded_items")

    @classmethod
    def from_targets(cls, targets: HeldOutPositives, *, all_users: bool = False) -> Batch:
        """Return the work of all users with positives, or of all users."""
        n_excluded = np.diff(targets.excluded_start)
        is_chosen = np.full(n_excluded.size, all_users)
        is_chosen[targets.user] = True
        users = np.flatnonzero(is_chosen)
        excluded_items = targets.excluded_items
        if not is_chosen.all():
            excluded_items = excluded_items[np.repeat(is_chosen, n_excluded)]
        return cls(
            users=users,
            start=np.append(np.searchsorted(targets.user, users), targets.user.size),
            item=targets.item,
            excluded_start=np.append(0, np.cumsum(n_excluded[users])),
            excluded_items=excluded_items,
            first_positive=0,
        )

    @property
    def row(self) -> IntArray:
        """Row of each positive's user in the batch, (n_pos,)."""
        return np.repeat(np.arange(self.users.size), np.diff(self.start))

    @property
    def positives(self) -> slice:
        """The batch's positives among all positives."""
        return slice(self.first_positive, self.first_positive + self.item.size)

    def part(self, first: int, last: int) -> Batch:
        """Return the work of the users in rows `first` to `last`."""
        item_first = int(self.start[first])
        item_last = int(self.start[last])
        excluded_first = int(self.excluded_start[first])
        excluded_last = int(self.excluded_start[last])
        return Batch(
            users=self.users[first:last],
            start=self.start[first : last + 1] - item_first,
            item=self.item[item_first:item_last],
            excluded_start=self.excluded_start[first : last + 1] - excluded_first,
            excluded_items=self.excluded_items[excluded_first:excluded_last],
            first_positive=self.first_positive + item_first,
        )

    def choose(self, users: BoolArray) -> tuple[BoolArray, Batch]:
        """Return which positives belong to the users in `users` (b,), and the work of these users alone."""
        n_positives = np.diff(self.start)
        n_excluded = np.diff(self.excluded_start)
        is_chosen = np.repeat(users, n_positives)
        batch = Batch(
            users=self.users[users],
            start=np.append(0, np.cumsum(n_positives[users])),
            item=self.item[is_chosen],
            excluded_start=np.append(0, np.cumsum(n_excluded[users])),
            excluded_items=self.excluded_items[np.repeat(users, n_excluded)],
            first_positive=0,
        )
        return is_chosen, batch

    def restrict_items(self, new_code: IntArray) -> Batch:
        """Return the same work in a catalogue in which item i has the code `new_code[i]`, −1 if removed."""
        excluded_items = new_code[self.excluded_items]
        stays = excluded_items >= 0
        n_preceding = np.append(0, np.cumsum(stays))
        return replace(
            self,
            item=new_code[self.item],
            excluded_items=excluded_items[stays],
            excluded_start=n_preceding[self.excluded_start],
        )
