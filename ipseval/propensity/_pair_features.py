"""Default features of user–item pairs for a density ratio: popularity and similarity to the profile."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ipseval.data.interactions import Interactions, check_codes, check_interactions
from ipseval.errors import InputError
from ipseval.utils.public import public_function
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
# Sizes of the blocks in which similarities are computed: rows, and entries.
BLOCK_ROWS = 256
BLOCK_GATHER = 8_000_000


@public_function
def profile_features(train: Interactions, user: IntArray, item: IntArray) -> FloatArray:
    """Return the default features of user–item pairs for a density ratio.

    Parameters
    ----------
    train : Interactions
        Training log.
    user, item : (n_pairs,) int arrays
        Codes of the users and of the items.

    Returns
    -------
    (n_pairs, 8) float array
        Popularity p, p², similarity s, s², p·s, profile popularity × p, profile size × p, profile size × s.

    Raises
    ------
    InputError
        For codes that are outside the training log, or when `user` and `item` differ in length.

    See Also
    --------
    DensityRatioPropensity : The model that uses the features.

    Notes
    -----
    popularity p = log(n*_i + 1); similarity s = log(mean cosine of item i to the user's training items
    + 1/|U|), where 1/|U| is the chance cosine of two items with one interaction each; profile popularity is
    the mean of p over the user's training items, profile size log(their number + 1). User features enter
    only in products with item features: alone they would distinguish users, not items.

    Examples
    --------
    Two items for user 0, whose profile is the items 0 and 1; another user of item 1 also has item 2:

    >>> import numpy as np
    >>> from ipseval import Interactions
    >>> train = Interactions(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), np.arange(2), np.arange(4))
    >>> profile_features(train, np.array([0, 0]), np.array([2, 3])).round(2)
    array([[ 0.69,  0.48, -0.16,  0.03, -0.11,  0.62,  0.76, -0.17],
           [ 0.  ,  0.  , -0.69,  0.48, -0.  ,  0.  ,  0.  , -0.76]])
    """
    check_interactions(train, "train")
    user = check_codes("user", np.asarray(user), train.n_users)
    item = check_codes("item", np.asarray(item), train.n_items)
    if user.shape != item.shape:
        raise InputError(f"user and item must have one length; got {user.size} and {item.size}.")
    log_popularity = np.log1p(train.popularity.astype(np.float64))
    activity = train.activity.astype(np.float64)
    profile_sum = np.bincount(train.user, log_popularity[train.item], minlength=train.n_users)
    profile_popularity = (profile_sum / np.maximum(activity, 1))[user]
    profile_size = np.log1p(activity)[user]
    p = log_popularity[item]
    s = np.log(compute_mean_similarity(train, user, item) + 1 / train.n_users)
    columns = [p, p**2, s, s**2, p * s, profile_popularity * p, profile_size * p, profile_size * s]
    # In memory column by column, because fits read columns, and these are computed one at a time.
    return np.array(columns).T


def compute_mean_similarity(train: Interactions, user: IntArray, item: IntArray) -> FloatArray:
    """Return the mean of |U_i ∩ U_j|/√(n*_i n*_j) over a user's training items j, (n_pairs,); 0: none."""
    train = train.distinct  # a pair that repeats is one user in common
    shape = (train.n_users, train.n_items)
    profiles = sparse.csr_array((np.ones(len(train)), (train.user, train.item)), shape=shape)
    audiences = sparse.csr_array(profiles.T)
    inverse_norm = 1 / np.sqrt(np.maximum(train.popularity, 1))
    scaled_profiles = sparse.csr_array(profiles * inverse_norm)

    # Σ of 1/√n_j over the users v of item i and the items j that v has in common with u: by the overlap of
    # u with every v, or by the overlap of i with every j. All overlaps take Σ_j n_j² or Σ_v |profile of v|²
    # steps.
    user_overlap_cost = float((train.popularity.astype(np.float64) ** 2).sum())
    item_overlap_cost = float((train.activity.astype(np.float64) ** 2).sum())
    if user_overlap_cost < item_overlap_cost:
        total = _sum_overlaps(scaled_profiles, audiences, rows=user, columns=item, members=audiences)
    else:
        total = _sum_overlaps(audiences, scaled_profiles, rows=item, columns=user, members=profiles)
    profile_size = np.maximum(train.activity, 1)[user]
    return np.asarray(total * inverse_norm[item] / profile_size, dtype=np.float64)


def _sum_overlaps(
    left: sparse.csr_array,
    right: sparse.csr_array,
    *,
    rows: IntArray,
    columns: IntArray,
    members: sparse.csr_array,
) -> FloatArray:
    """Return Σ_v (left @ right)[row, v] over the members v of each column, (n_pairs,), in blocks of rows."""
    pair_counts = np.bincount(rows)
    distinct_rows = np.flatnonzero(pair_counts)
    pair_order = np.argsort(rows, kind="stable")
    pair_bounds = np.append(0, np.cumsum(pair_counts[distinct_rows]))
    total = np.zeros(rows.size)
    block_size = max(1, min(BLOCK_ROWS, BLOCK_GATHER // right.shape[1]))
    for start in range(0, distinct_rows.size, block_size):
        block = distinct_rows[start : start + block_size]
        overlap = (left[block] @ right).toarray()
        pairs = pair_order[pair_bounds[start] : pair_bounds[start + block.size]]
        block_rows = np.searchsorted(block, rows[pairs])
        total[pairs] = _sum_member_overlaps(overlap, block_rows, columns[pairs], members)
    return total


def _sum_member_overlaps(
    overlap: FloatArray, rows: IntArray, columns: IntArray, members: sparse.csr_array
) -> FloatArray:
    """Return Σ of overlap[row, v] over the members v of each column, in chunks of bounded size."""
    n_members = np.diff(members.indptr)[columns]
    totals = np.zeros(rows.size)
    chunk_numbers = np.cumsum(n_members, dtype=np.int64) // BLOCK_GATHER
    for chunk_number in range(int(chunk_numbers.max(initial=-1)) + 1):
        chunk = np.flatnonzero(chunk_numbers == chunk_number)
        chunk_members = members[columns[chunk]]
        chunk_members.data = overlap[np.repeat(rows[chunk], n_members[chunk]), chunk_members.indices]
        totals[chunk] = chunk_members.sum(axis=1)
    return totals
