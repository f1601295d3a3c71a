"""Positives as padded matrices with one row per user, for metrics that read several ranks of a user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, as_readonly


@dataclass(frozen=True, eq=False)
class UserBucket:
    """Users with about the same number of positives.

    Attributes
    ----------
    users : (n,) int array
        Positions of the users in `RankedPositives.users`.
    rows : (n, width) int array
        Positions of their positives, sorted from best to worst rank and padded with −1.
    """

    users: IntArray
    rows: IntArray

    def gather(self, values: FloatArray) -> FloatArray:
        """Return values of the positives, (n_pos,), in the shape of `rows`, with 0 in the padding."""
        return np.where(self.rows >= 0, values[self.rows], 0.0)


def build_user_buckets(positives: RankedPositives) -> list[UserBucket]:
    """Return the users in buckets of up to 1, 2, 4, 8, … positives."""
    # Sums along the second axis of a bucket stay within one user, so that the rounding of one user does not
    # affect another.
    if "buckets" not in positives.cache:
        positives.cache["buckets"] = _group_users(positives)
    cached_buckets: list[UserBucket] = positives.cache["buckets"]
    return cached_buckets


def _group_users(positives: RankedPositives) -> list[UserBucket]:
    buckets = []
    size_class = np.ceil(np.log2(positives.counts)).astype(np.int64)
    for bucket_class in np.unique(size_class):
        users = np.flatnonzero(size_class == bucket_class)
        count = positives.counts[users, None]
        column = np.arange(int(count.max()))
        position = np.minimum(positives.starts[users, None] + column, len(positives) - 1)
        rows = np.where(column < count, positives.by_rank[position], -1)
        buckets.append(UserBucket(as_readonly(users), as_readonly(rows)))
    return buckets


def count_preceding_rows(positives: RankedPositives) -> IntArray:
    """Return the number of rows of the same user before each row, (n_pos,)."""
    return np.arange(len(positives)) - np.repeat(positives.starts, positives.counts)
