"""Features of a user–item pair that a density ratio is fitted on: popularity and closeness to the profile."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ipseval._types import FloatArray, IntArray
from ipseval.errors import InputError
from ipseval.interactions import Interactions, check_codes, check_interactions

FEATURE_NAMES = (
    "popularity",
    "popularity^2",
    "similarity",
    "similarity^2",
    "popularity × similarity",
    "profile popularity × popularity",
    "profile size × popularity",
    "profile size × similarity",
)
BLOCK_USERS = 256
BLOCK_GATHER = 8_000_000


def profile_features(train: Interactions, user: IntArray, item: IntArray) -> FloatArray:
    """Return the default features of pairs, (n_pairs, 8), in the order of `FEATURE_NAMES`.

    popularity p = log(n*_i + 1); similarity s = log(mean cosine of item i to the user's training items
    + 1/|U|), where 1/|U| is the chance cosine of two items with one interaction each; profile popularity is
    the mean of p over the user's training items, profile size log(their number + 1). User features enter
    only together with an item's: alone they would tell users apart, not items.
    """
    check_interactions(train, "train")
    user, item = (
        check_codes(name, np.asarray(codes), size)
        for name, codes, size in (("user", user, train.n_users), ("item", item, train.n_items))
    )
    if user.shape != item.shape:
        raise InputError(f"user and item must have one length; got {user.size} and {item.size}.")
    popularity = np.log1p(train.popularity.astype(np.float64))
    size = train.activity.astype(np.float64)
    profile = np.bincount(train.user, popularity[train.item], minlength=train.n_users) / np.maximum(size, 1)
    p = popularity[item]
    s = np.log(mean_similarity(train, user, item) + 1 / train.n_users)
    log_size = np.log1p(size)[user]
    return np.column_stack([p, p**2, s, s**2, p * s, profile[user] * p, log_size * p, log_size * s])


def mean_similarity(train: Interactions, user: IntArray, item: IntArray) -> FloatArray:
    """Return the mean cosine of each pair's item to the user's training items, (n_pairs,), in [0, 1].

    cos(i, j) = |U_i ∩ U_j| / sqrt(n*_i n*_j) over the users of the training log; 0 for an item or a user
    without training interactions.

    Examples
    --------
    Items 0 and 1 share one of their two users each: cosine 1/2.

    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0, 0, 1, 2], "item": [0, 1, 0, 1]}))
    >>> mean_similarity(log, np.array([1]), np.array([1]))
    array([0.5])
    """
    train = train.distinct  # a pair that repeats is one user in common
    shape = (train.n_users, train.n_items)
    seen = sparse.csr_array((np.ones(len(train)), (train.user, train.item)), shape=shape)
    inverse_norm = 1 / np.sqrt(np.maximum(train.popularity, 1))
    scaled = sparse.csr_array(seen * inverse_norm)
    users_of = sparse.csc_array(seen)
    users, place = np.unique(user, return_inverse=True)
    order = np.argsort(place, kind="stable")
    ends = np.cumsum(np.bincount(place, minlength=users.size))
    total = np.zeros(user.size)
    per_block = max(1, min(BLOCK_USERS, BLOCK_GATHER // train.n_users))
    for first in range(0, users.size, per_block):
        block = users[first : first + per_block]
        # overlap[u, v] = Σ_j 1{j in both profiles}/√n_j; over the v in U_i it sums to √n_i Σ_j cos(i, j).
        overlap = (scaled[block] @ seen.T).toarray()
        low = 0 if first == 0 else ends[first - 1]
        rows = order[low : ends[first + block.size - 1]]
        total[rows] = _sum_over_users(overlap, place[rows] - first, item[rows], users_of)
    size = np.maximum(train.activity, 1)[user]
    return np.asarray(total * inverse_norm[item] / size, dtype=np.float64)


def _sum_over_users(
    overlap: FloatArray, row: IntArray, item: IntArray, users_of: sparse.csc_array
) -> FloatArray:
    """Return Σ of overlap[row, v] over the users v of each item, in pieces of bounded size."""
    starts, lengths = users_of.indptr[item], np.diff(users_of.indptr)[item]
    out = np.zeros(row.size)
    piece = np.cumsum(lengths, dtype=np.int64) // BLOCK_GATHER
    for number in np.unique(piece):
        part = np.flatnonzero((piece == number) & (lengths > 0))
        if part.size == 0:
            continue
        offset = np.concatenate([[0], np.cumsum(lengths[part])])
        index = np.arange(offset[-1]) + np.repeat(starts[part] - offset[:-1], lengths[part])
        values = overlap[np.repeat(row[part], lengths[part]), users_of.indices[index]]
        out[part] = np.add.reduceat(values, offset[:-1])
    return out
