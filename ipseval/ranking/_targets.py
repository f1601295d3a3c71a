"""Targets: the test positives of a split, and what they must not be ranked against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipseval._base.types import AnyArray, FloatArray, IntArray
from ipseval.data.splits import Split
from ipseval.ranking._ranked import MINUS_TRAINING, RankedPositives


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
