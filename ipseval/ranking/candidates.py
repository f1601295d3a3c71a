"""The ranking work: positives and excluded items, and who competes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipseval.data.interactions import Interactions, encode
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.ranking.ranked_positives import MINUS_TRAINING, OWN_LIST, RankedPositives
from ipseval.utils.checks import examples, warn_user
from ipseval.utils.columns import frame_columns
from ipseval.utils.ids import among, by_label
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, readonly


@dataclass(frozen=True, eq=False)
class Targets:
    """What is to be ranked: the positives sorted by user and item, and each user's excluded items."""

    user: IntArray
    item: IntArray
    gain: FloatArray | None
    excluded: IntArray  # sorted; of user u: `excluded[excluded_start[u]:excluded_start[u + 1]]`
    excluded_start: IntArray
    candidates_by_user: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    minus: str = MINUS_TRAINING
    candidates: str = f"all items{MINUS_TRAINING}"
    n_not_candidates: int = 0

    @classmethod
    def from_split(cls, split: Split) -> Targets:
        """Return the test positives of a split, with what does not compete excluded."""
        test, train = split.test, split.excluded
        minus = MINUS_TRAINING if split.seen == "exclude" and len(split.train) else ""
        user, item, gain = test.user, test.item, test.value
        if not _is_sorted(test.pair_key):
            order = np.argsort(test.pair_key, kind="stable")
            user, item, gain = user[order], item[order], None if gain is None else gain[order]
        excluded = train.item
        # To sort the keys themselves is many times faster than to order by them.
        if not _is_sorted(train.pair_key):
            excluded = np.sort(train.pair_key) % split.n_items
        return cls(
            user=user,
            item=item,
            gain=None if gain is None else gain.astype(np.float64),
            excluded=excluded,
            excluded_start=np.concatenate([[0], np.cumsum(train.activity)]),
            candidates_by_user=split.n_items - train.activity,
            user_ids=split.user_ids,
            item_ids=split.item_ids,
            minus=minus,
            candidates=f"all items{minus}",
        )

    def ranked(self, n_above: IntArray, n_tied: IntArray, **more: Any) -> RankedPositives:
        """Return the result for these targets; `more`: further fields, which replace those that follow."""
        values = {
            "n_candidates": self.candidates_by_user[self.user],
            "candidates_by_user": self.candidates_by_user,
            "candidates": self.candidates,
        }
        return RankedPositives.trusted(
            user=self.user,
            item=self.item,
            n_above=n_above,
            n_tied=n_tied,
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            gain=self.gain,
            n_not_candidates=self.n_not_candidates,
            **values | more,
        )


def _is_sorted(key: IntArray) -> bool:
    return bool((key[1:] > key[:-1]).all())


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """Each user's own candidates: `item[start[u]:start[u + 1]]`, ascending, what is excluded left out."""

    start: IntArray
    item: IntArray

    @classmethod
    def of(cls, frame: Any, split: Split, name: str) -> CandidateLists:
        """Return the lists of a data frame with columns user and item."""
        try:
            log = Interactions.from_frame(frame, users=split.user_ids, items=split.item_ids)
        except InputError as error:
            raise InputError(f"{name} (candidates): {error}") from None
        log = log.select(~among(log.pair_key, split.excluded.pair_key))
        if not len(log):
            raise InputError(f"{name}: every candidate is a training item of its user.")
        order = np.argsort(log.pair_key)
        return cls(readonly(np.concatenate([[0], np.cumsum(log.activity)])), readonly(log.item[order]))

    def contains(self, user: IntArray, item: IntArray, n_items: int) -> BoolArray:
        """Return whether each pair is a candidate."""
        owner = np.repeat(np.arange(self.start.size - 1), np.diff(self.start))
        inside: BoolArray = among(user * np.int64(n_items) + item, owner * np.int64(n_items) + self.item)
        return inside


def is_catalogue(candidates: Any) -> bool:
    """Return whether the whole catalogue competes."""
    return isinstance(candidates, str) and candidates == "all"


def as_candidates(candidates: Any, split: Split, name: str) -> tuple[CandidateLists | None, IntArray | None]:
    """Return each user's own candidates, or the codes of the items that compete; twice None: all of them."""
    if is_catalogue(candidates):
        return None, None
    if {"user", "item"} <= frame_columns(candidates):
        return CandidateLists.of(candidates, split, name), None
    return None, _item_codes(candidates, split)


def _item_codes(candidates: Any, split: Split) -> IntArray:
    """Return the sorted codes of the items that compete, from ids or a mask (n_items,)."""
    if str(getattr(candidates, "dtype", "")) == "bool":
        candidates = np.asarray(by_label(candidates, split.item_ids, "candidates"))
        if candidates.dtype != bool:  # NaN where a Series has no label
            n_lacking = int((candidates != candidates).sum())
            raise InputError(f"candidates says nothing of {n_lacking} of {split.n_items} items.")
    try:
        given = np.asarray(candidates)
    except ValueError:  # a list of lists of several lengths
        given = np.empty((0, 0))
    if given.ndim != 1:
        hint = f" Pass SampledCandidates({candidates!r})." if type(candidates) is int else ""
        raise InputError(
            "candidates must be 'all', SampledCandidates, ids of items or a mask (n_items,), or a data frame "
            f"with columns user and item; got {candidates!r:.80}.{hint}"
        )
    if given.dtype == bool:
        if given.shape != (split.n_items,):
            raise InputError(f"candidates as a mask must have shape ({split.n_items},); got {given.shape}.")
        codes = np.flatnonzero(given)
    else:
        values = given.astype(object) if given.dtype.kind in "US" else given
        codes = np.unique(encode(values, split.item_ids, "candidates")[0])
    if not codes.size:
        raise InputError("candidates is empty; at least one item must compete.")
    return codes


def restrict_items(targets: Targets, allowed: IntArray) -> Targets:
    """Return the targets when only `allowed` items compete; positives outside are left out with a warning."""
    may = np.zeros(targets.item_ids.size, dtype=bool)
    may[allowed] = True
    owner = np.repeat(np.arange(targets.excluded_start.size - 1), np.diff(targets.excluded_start))
    stays = may[targets.excluded]
    size = np.bincount(owner[stays], minlength=targets.excluded_start.size - 1)
    return replace(
        without(targets, may[targets.item], "are not among the allowed items"),
        excluded=targets.excluded[stays],
        excluded_start=np.concatenate([[0], np.cumsum(size)]),
        candidates_by_user=allowed.size - size,
        candidates=f"{allowed.size:,} allowed items{targets.minus}",
    )


def restrict_lists(targets: Targets, lists: CandidateLists) -> Targets:
    """Return the targets when each user has candidates of its own."""
    inside = lists.contains(targets.user, targets.item, targets.item_ids.size)
    return replace(
        without(targets, inside, "are not among their user's candidates"),
        candidates_by_user=np.diff(lists.start),
        candidates=f"{OWN_LIST}{targets.minus}",
    )


def without(targets: Targets, keep: BoolArray, why: str) -> Targets:
    """Return the targets that are candidates; the others are counted and named in a warning."""
    n_dropped = int((~keep).sum())
    if not n_dropped:
        return targets
    if n_dropped == keep.size:
        raise InputError(f"none of the {keep.size:,} test positives can be ranked: they {why}.")
    pair = (targets.user_ids[targets.user[~keep][0]], targets.item_ids[targets.item[~keep][0]])
    warn_user(
        f"{n_dropped:,} of {keep.size:,} test positives {why} (first: {examples(pair)}) and are left out: "
        "what does not compete has no rank. A candidate set must not depend on what was observed.",
        DataWarning,
    )
    return replace(
        targets,
        user=targets.user[keep],
        item=targets.item[keep],
        gain=None if targets.gain is None else targets.gain[keep],
        n_not_candidates=targets.n_not_candidates + n_dropped,
    )
