"""Baselines in closed form: popularity, random, item-kNN, EASE, pure SVD, to have something to evaluate.

Each takes training interactions and returns a scorer for `rank_positives` and `evaluate`. Every training pair
counts 1, however often it occurs, but for popularity; values are not read. None holds users × items.

Another processor, or another number of threads, rounds products of matrices in another way. This must not
decide which item is first. So what is learned is rounded to binary places, and sums over a user's items are
then exact in double precision. Scores that are equal in theory are equal, in any order of users and items.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import get_lapack_funcs
from scipy.sparse.linalg import svds

from ipseval.data.interactions import Interactions, check_interactions
from ipseval.errors import InputError
from ipseval.utils.border import guard
from ipseval.utils.checks import as_generator, check_positive_int, check_real, counted
from ipseval.utils.types import AnyArray, FloatArray, IntArray, RngLike

__all__ = ["BASELINES", "ease", "item_knn", "popularity", "pure_svd", "random"]

ScoreFunction: TypeAlias = Callable[[IntArray], AnyArray]

ROWS_PER_BLOCK = 1024
PLACES = 30  # far below what tells models apart, far above the rounding of an inverse or of singular vectors


def popularity(train: Interactions) -> FloatArray:
    """Return the number of training interactions of each item as every user's scores, (n_users, n_items).

    The array is a read-only view of one row, so it needs no memory of its size.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0, 1, 1], "item": [7, 7, 9]}))
    >>> popularity(log)
    array([[2., 1.],
           [2., 1.]])
    """
    check_interactions(train, "train")
    return np.broadcast_to(train.popularity.astype(np.float64), (train.n_users, train.n_items))


def random(train: Interactions, *, rng: RngLike = None) -> ScoreFunction:
    """Return a function users -> scores, independent and uniform in [0, 1), (len(users), n_items).

    The scores of a user come from a counter-based generator (Philox) that is set to the user's code, so they
    do not depend on which users are asked for together, or in which order.

    Parameters
    ----------
    rng : int, Generator or None
        Gives the key of the generator; it is read once, when this function is called. A seed, where the
        scores must be the same again.
    """
    check_interactions(train, "train")
    key = int(as_generator(rng).integers(2**63))
    n_items = train.n_items

    def scores(users: IntArray) -> FloatArray:
        block = np.empty((len(users), n_items))
        for row, user in enumerate(users):
            raw = np.random.Philox(key=key, counter=[0, int(user), 0, 0]).random_raw(n_items)
            block[row] = (raw >> np.uint64(11)) * 2.0**-53
        return block

    scores.draws_at_random = True  # type: ignore[attr-defined]  # recall at chance is right for it
    return scores


def item_knn(train: Interactions, *, n_neighbors: int | None = 100) -> ScoreFunction:
    """Return a function users -> scores of item-based nearest neighbours, (len(users), n_items).

    score_ui = Σ_{j ∈ N(i), j in u's training items} cos(i, j), with cos(i, j) = n_ij / √(n*_i n*_j), n_ij the
    number of users that interacted with both. N(i) are the `n_neighbors` items most similar to i, without i
    itself; items tied with the last one are all kept, so that the order of the items has no influence. The
    cosines, of exact counts, are rounded to as many binary places as keep every score an exact sum.

    Parameters
    ----------
    n_neighbors : int or None
        Size of N(i); None: all items.

    References
    ----------
    Sarwar et al., Item-Based Collaborative Filtering Recommendation Algorithms, WWW 2001,
    doi 10.1145/371920.372071.
    """
    if n_neighbors is not None:
        check_positive_int("n_neighbors", n_neighbors)
    train, matrix = _matrix(train)
    by_item = matrix.T.tocsr()
    places = 52 - int(train.activity.max(initial=1)).bit_length()
    blocks = []
    for first in range(0, train.n_items, ROWS_PER_BLOCK):
        similar = (by_item[first : first + ROWS_PER_BLOCK] @ matrix).tocsr()  # n_ij, whole numbers
        own = np.repeat(train.popularity[first : first + ROWS_PER_BLOCK], np.diff(similar.indptr))
        # Of equal fractions of whole numbers the quotients, and their roots, are equal to the bit.
        cosine = np.sqrt(similar.data**2 / (own * train.popularity[similar.indices]))
        similar.data = _rounded(cosine, places)
        blocks.append(_nearest(similar, first, n_neighbors))
    to_item = sp.vstack(blocks, format="csc").T.tocsr()  # entry (j, i): cos(i, j) where j ∈ N(i)

    def scores(users: IntArray) -> FloatArray:
        return np.asarray((matrix[users] @ to_item).toarray())

    return scores


def _nearest(similar: Any, first: int, n_neighbors: int | None) -> Any:
    """Return rows of similarities without the item itself, cut to the nearest neighbours of each row."""
    rows = np.repeat(np.arange(similar.shape[0]), np.diff(similar.indptr))
    keep = similar.indices != rows + first
    if n_neighbors is not None:
        similar.data[~keep] = 0.0
        for row in range(similar.shape[0]):
            part = slice(similar.indptr[row], similar.indptr[row + 1])
            values = similar.data[part]
            if values.size > n_neighbors:
                keep[part] &= values >= np.partition(values, -n_neighbors)[-n_neighbors]
    similar.data[~keep] = 0.0
    similar.eliminate_zeros()
    return similar


def ease(
    train: Interactions, *, regularization: float = 500.0, dtype: npt.DTypeLike = np.float64
) -> ScoreFunction:
    """Return a function users -> scores of EASE, a linear model from items to items, (len(users), n_items).

    B minimises ‖X − XB‖² + λ‖B‖² under diag(B) = 0, X the users × items matrix of 0 and 1. With
    P = (XᵀX + λI)^{-1}: B_ij = −P_ij / P_jj off the diagonal, rounded to 30 binary places. Scores are XB.

    Parameters
    ----------
    regularization : float
        λ > 0, in squared interactions; of the size of a popular item's count.
    dtype : float32 or float64
        The inverse needs n_items² numbers of this type, once, and time in n_items³: 17,000 items take 1.2 GB
        and under a minute on two cores in float32, and twice that in float64. The rounding of float32 is
        larger than 30 places: near ties of its scores may be broken otherwise by another processor.

    Raises
    ------
    InputError
        When `regularization` is not positive and finite, or `dtype` is another.

    References
    ----------
    Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019, doi 10.1145/3308558.3313710.
    """
    regularization = check_real("regularization", regularization, low=0)
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        kind = np.dtype(object)
    if dtype is None or kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"dtype must be float32 or float64; got {dtype!r:.80}.")
    matrix = _matrix(train)[1].astype(kind)
    weights = _inverse((matrix.T @ matrix).toarray(order="F"), regularization)
    weights /= -np.diagonal(weights)
    for first in range(0, len(weights), ROWS_PER_BLOCK):
        block = weights[first : first + ROWS_PER_BLOCK]
        block[...] = _rounded(block, PLACES)
    np.fill_diagonal(weights, 0.0)

    def scores(users: IntArray) -> AnyArray:
        return np.asarray(matrix[users] @ weights)

    return scores


def _inverse(gram: AnyArray, regularization: float) -> AnyArray:
    """Return (gram + regularization I)^{-1} in C order, in the memory of `gram` (Fortran order)."""
    gram[np.diag_indices_from(gram)] += regularization
    both: Any = get_lapack_funcs(("potrf", "potri"), (gram,))
    factor, invert = both
    cholesky, failed = factor(gram, lower=1, overwrite_a=1)
    if not failed:
        inverse, failed = invert(cholesky, lower=1, overwrite_c=1)
    if failed:
        raise InputError(
            f"XᵀX + {regularization:g} I is not positive definite in {gram.dtype}; "
            "use a larger regularization, or dtype='float64'."
        )
    upper: AnyArray = inverse.T  # LAPACK filled the lower triangle in Fortran order: the upper one in C order
    for first in range(0, len(upper), ROWS_PER_BLOCK):
        rows = slice(first, first + ROWS_PER_BLOCK)
        corner = np.triu(upper[rows, rows])
        upper[rows, rows] = corner + np.triu(corner, 1).T
        upper[rows.stop :, rows] = upper[rows, rows.stop :].T
    return upper


def pure_svd(train: Interactions, *, n_factors: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Return user and item factors of PureSVD, (n_users, n_factors) and (n_items, n_factors).

    X ≈ U Σ Qᵀ, the truncated singular value decomposition of the users × items matrix of 0 and 1; user
    factors are XQ = UΣ, item factors Q, rounded to 30 binary places. Columns are in descending order of
    singular values; in each column of Q the entry of largest magnitude is positive. The iteration has a fixed
    start: the result repeats. An item or user without interactions has factors of exactly 0.

    Parameters
    ----------
    n_factors : int, optional
        At least 1 and less than min(n_users, n_items). Default: 50, or the most that a smaller log allows.

    Raises
    ------
    InputError
        When `n_factors` is out of range, or the log has fewer than two users or items.

    References
    ----------
    Cremonesi, Koren & Turrin, Performance of Recommender Algorithms on Top-N Recommendation Tasks,
    RecSys 2010, doi 10.1145/1864708.1864721.
    """
    train, matrix = _matrix(train)
    smaller = min(matrix.shape)
    if smaller < 2:
        raise InputError(
            "pure SVD needs at least two users and two items; the log has "
            f"{counted(matrix.shape[0], 'user')} and {counted(matrix.shape[1], 'item')}. Leave it out."
        )
    if n_factors is None:
        n_factors = min(50, smaller - 1)
    check_positive_int("n_factors", n_factors)
    if n_factors >= smaller:
        raise InputError(
            f"n_factors must be less than min(n_users, n_items) = {smaller}; got {n_factors}. "
            "Ask for fewer factors."
        )
    start = np.random.default_rng(0).standard_normal(smaller)
    _, values, right = svds(matrix, k=n_factors, v0=start)
    item_factors = right[np.argsort(-values, kind="stable")].T
    largest = np.argmax(np.abs(item_factors), axis=0)
    item_factors = item_factors * np.where(item_factors[largest, np.arange(n_factors)] < 0, -1.0, 1.0)
    item_factors = _rounded(item_factors, PLACES)
    item_factors[train.popularity == 0] = 0.0
    return np.asarray(matrix @ item_factors), item_factors


def _rounded(values: AnyArray, places: int) -> AnyArray:
    """Return the values rounded to multiples of 2^-places."""
    rounded: AnyArray = np.rint(values * values.dtype.type(2**places)) * values.dtype.type(2.0**-places)
    rounded += values.dtype.type(0)  # no -0.0
    return rounded


def _matrix(train: Interactions) -> tuple[Interactions, Any]:
    """Return the distinct pairs, and their users × items matrix of 0 and 1, sparse by rows."""
    check_interactions(train, "train")
    train = train.distinct
    shape = (train.n_users, train.n_items)
    return train, sp.csr_array((np.ones(len(train)), (train.user, train.item)), shape=shape)


BASELINES: dict[str, Callable[..., Any]] = {
    "popularity": popularity,
    "random": partial(random, rng=0),
    "item_knn": item_knn,
    "ease": ease,
    "pure_svd": pure_svd,
}
"""Name -> function of the training log; "random" draws with `rng=0` unless another is given."""

guard(__name__)
