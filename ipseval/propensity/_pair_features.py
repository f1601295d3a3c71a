"""Features of a user–item pair that a density ratio is fitted on: popularity and closeness to the profile."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ipseval.data.interactions import Interactions, check_codes, check_interactions
from ipseval.errors import InputError
from ipseval.utils.types import FloatArray, IntArray

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
BLOCK_ROWS = 256
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
    # Column after column in memory: fits go through columns, and these are made one by one.
    return np.array([p, p**2, s, s**2, p * s, profile[user] * p, log_size * p, log_size * s]).T


def mean_similarity(train: Interactions, user: IntArray, item: IntArray) -> FloatArray:
    """Return the mean of |U_i ∩ U_j|/√(n*_i n*_j) over a user's training items j, (n_pairs,); 0: none."""
    train = train.distinct  # a pair that repeats is one user in common
    shape = (train.n_users, train.n_items)
    seen = sparse.csr_array((np.ones(len(train)), (train.user, train.item)), shape=shape)
    inverse_norm = 1 / np.sqrt(np.maximum(train.popularity, 1))
    scaled = sparse.csr_array(seen * inverse_norm)
    # Σ of 1/√n_j over the users v of item i and the items j that v has in common with u: by the overlap of
    # u with every v, or by that of i with every j. To make all takes Σ_j n_j² or Σ_v |profile of v|² steps.
    by_user, by_item = (
        float((counts.astype(np.float64) ** 2).sum()) for counts in (train.popularity, train.activity)
    )
    users_of = sparse.csr_array(seen.T)
    if by_user < by_item:
        total = _summed(scaled, users_of, user, item, members=users_of)
    else:
        total = _summed(users_of, scaled, item, user, members=seen)
    size = np.maximum(train.activity, 1)[user]
    return np.asarray(total * inverse_norm[item] / size, dtype=np.float64)


def _summed(
    left: sparse.csr_array,
    right: sparse.csr_array,
    one: IntArray,
    other: IntArray,
    *,
    members: sparse.csr_array,
) -> FloatArray:
    """Return Σ_v (left @ right)[one, v] over the members v of each `other`, (n_pairs,), in blocks of rows."""
    counts = np.bincount(one)
    rows, order = np.flatnonzero(counts), np.argsort(one, kind="stable")
    ends = np.cumsum(counts[rows])
    total = np.zeros(one.size)
    per_block = max(1, min(BLOCK_ROWS, BLOCK_GATHER // right.shape[1]))
    for first in range(0, rows.size, per_block):
        block = rows[first : first + per_block]
        overlap = (left[block] @ right).toarray()
        low = 0 if first == 0 else ends[first - 1]
        pairs = order[low : ends[first + block.size - 1]]
        row = np.searchsorted(block, one[pairs])
        total[pairs] = _gathered(overlap, row, other[pairs], members)
    return total


def _gathered(overlap: FloatArray, row: IntArray, other: IntArray, members: sparse.csr_array) -> FloatArray:
    """Return Σ of overlap[row, v] over the members v of each `other`, in pieces of bounded size."""
    lengths = np.diff(members.indptr)[other]
    out = np.zeros(row.size)
    piece = np.cumsum(lengths, dtype=np.int64) // BLOCK_GATHER
    for number in range(int(piece.max(initial=-1)) + 1):
        part = np.flatnonzero(piece == number)
        of_pairs = members[other[part]]
        of_pairs.data = overlap[np.repeat(row[part], lengths[part]), of_pairs.indices]
        out[part] = of_pairs.sum(axis=1)
    return out
