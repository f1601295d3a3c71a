"""Baselines in closed form: popularity, random, item-kNN, EASE and pure SVD.

Each function takes training interactions and returns a scorer for `rank_positives` and `evaluate`. Every
training pair counts once, however often it occurs, except in `popularity`; values are not used. No baseline
holds the scores of all users in memory.

Matrix products are rounded differently by other processors and other numbers of threads, and these
differences must not decide which item ranks first. Therefore, the learned parameters are rounded to binary
places, so that sums over a user's items are exact in double precision. Scores that are equal in theory are
equal in the results, in any order of users and items.
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

from ipseval.data.interactions import Interactions
from ipseval.data.sparse import SparseMatrix
from ipseval.data.training_log import as_training_log
from ipseval.errors import InputError
from ipseval.utils.checks import as_generator, check_positive_int, check_real
from ipseval.utils.checks import format_count as pluralize
from ipseval.utils.public import explain_missing_names, public_function
from ipseval.utils.types import AnyArray, FloatArray, IntArray, RngLike

__all__ = ["BASELINES", "ease", "item_knn", "popularity", "pure_svd", "random"]

ScoreFunction: TypeAlias = Callable[[IntArray], AnyArray]
TrainingLog: TypeAlias = Interactions | SparseMatrix

ROWS_PER_BLOCK = 1024
PLACES = 30  # far finer than differences between models, far coarser than the rounding of matrix computations


@public_function
def popularity(train: TrainingLog) -> FloatArray:
    """Return the number of training interactions of each item as every user's scores.

    Parameters
    ----------
    train : Interactions or sparse matrix users × items
        Training interactions; repeated pairs count each time.

    Returns
    -------
    (n_users, n_items) float array
        A read-only view of one row, which does not need the memory of a full array.

    See Also
    --------
    ipseval.baselines.item_knn : Recommend items that are similar to those of the user.
    ipseval.baselines.random : Rank items at random.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0, 1, 1], "item": [7, 7, 9]}))
    >>> popularity(log)
    array([[2., 1.],
           [2., 1.]])
    """
    train = _as_interactions(train)
    return np.broadcast_to(train.popularity.astype(np.float64), (train.n_users, train.n_items))


@public_function
def random(train: TrainingLog, *, rng: RngLike = None) -> ScoreFunction:
    """Return a function users -> scores that are independent and uniform in [0, 1).

    The scores of a user come from a counter-based generator (Philox) that is set to the user's code, so they
    do not depend on the other users of a call, or on the order of calls.

    Parameters
    ----------
    train : Interactions or sparse matrix users × items
        Training interactions; only their users and items are used.
    rng : int, Generator or None, default None
        Source of the generator's key. It is read once, when this function is called. Pass a seed to get the
        same scores again.

    Returns
    -------
    callable
        Function from user codes (b,) to scores (b, n_items).

    See Also
    --------
    popularity : Score items by their number of training interactions.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 2], "item": [7, 8, 7, 9, 7]})
    >>> log = Interactions.from_frame(frame)
    >>> scores = random(log, rng=0)
    >>> scores(np.array([0, 2])).round(3)
    array([[0.057, 0.105, 0.565],
           [0.728, 0.69 , 0.452]])
    """
    train = _as_interactions(train)
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


@public_function
def item_knn(train: TrainingLog, *, n_neighbors: int | None = 100) -> ScoreFunction:
    """Return a function users -> scores of item-based nearest neighbours.

    Parameters
    ----------
    train : Interactions or sparse matrix users × items
        Training interactions.
    n_neighbors : int or None, default 100
        Number of neighbours N(i) of each item; None for all items.

    Returns
    -------
    callable
        Function from user codes (b,) to scores (b, n_items).

    See Also
    --------
    popularity : Score items by their number of training interactions.
    ease : Score items by a linear model from items to items.

    Notes
    -----
    score_ui = Σ_{j ∈ N(i), j in u's training items} cos(i, j), with cos(i, j) = n_ij / √(n*_i n*_j), where
    n_ij is the number of users that interacted with both items. N(i) are the `n_neighbors` items most similar
    to i, without i itself; all items that tie with the last neighbour are kept, so that the order of the
    items has no influence. The cosines of exact counts are rounded to so many binary places that every score
    is an exact sum.

    References
    ----------
    Sarwar et al., Item-Based Collaborative Filtering Recommendation Algorithms, WWW 2001,
    doi 10.1145/371920.372071.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 2], "item": [7, 8, 7, 9, 7]})
    >>> log = Interactions.from_frame(frame)
    >>> scores = item_knn(log)
    >>> scores(np.array([2])).round(3)
    array([[0.   , 0.577, 0.577]])
    """
    if n_neighbors is not None:
        check_positive_int("n_neighbors", n_neighbors)
    pairs, matrix = _build_interaction_matrix(train)
    item_rows = matrix.T.tocsr()
    places = 52 - int(pairs.activity.max(initial=1)).bit_length()
    blocks = []
    for first in range(0, pairs.n_items, ROWS_PER_BLOCK):
        similarity = (item_rows[first : first + ROWS_PER_BLOCK] @ matrix).tocsr()  # n_ij, integers
        row_popularity = pairs.popularity[first : first + ROWS_PER_BLOCK]
        entry_popularity = np.repeat(row_popularity, np.diff(similarity.indptr))
        # The quotients of equal fractions of integers, and their roots, are equal to the last bit.
        cosine = np.sqrt(similarity.data**2 / (entry_popularity * pairs.popularity[similarity.indices]))
        similarity.data = _round_to_places(cosine, places)
        blocks.append(_keep_nearest(similarity, first, n_neighbors))
    weights = sp.vstack(blocks, format="csc").T.tocsr()  # entry (j, i): cos(i, j) where j ∈ N(i)

    def scores(users: IntArray) -> FloatArray:
        return np.asarray((matrix[users] @ weights).toarray())

    return scores


def _keep_nearest(similarity: sp.csr_array, first: int, n_neighbors: int | None) -> sp.csr_array:
    """Return the similarities of items from `first` on to their nearest neighbours."""
    rows = np.repeat(np.arange(similarity.shape[0]), np.diff(similarity.indptr))
    is_neighbor = similarity.indices != rows + first
    if n_neighbors is not None:
        similarity.data[~is_neighbor] = 0.0
        for row in range(similarity.shape[0]):
            entries = slice(similarity.indptr[row], similarity.indptr[row + 1])
            values = similarity.data[entries]
            if values.size > n_neighbors:
                is_neighbor[entries] &= values >= np.partition(values, -n_neighbors)[-n_neighbors]
    similarity.data[~is_neighbor] = 0.0
    similarity.eliminate_zeros()
    return similarity


@public_function
def ease(
    train: TrainingLog, *, regularization: float = 500.0, dtype: npt.DTypeLike = np.float64
) -> ScoreFunction:
    """Return a function users -> scores of EASE, a linear model from items to items.

    Parameters
    ----------
    train : Interactions or sparse matrix users × items
        Training interactions.
    regularization : float, default 500.0
        λ > 0, in squared interactions. A useful size is the count of a popular item.
    dtype : float32 or float64, default float64
        The inverse needs n_items² numbers of this type, and time proportional to n_items³: 17,000 items take
        1.2 GB and under a minute on two cores in float32, and twice as much in float64. Rounding errors in
        float32 are larger than 30 binary places, so another processor may order near ties differently.

    Returns
    -------
    callable
        Function from user codes (b,) to scores (b, n_items).

    Raises
    ------
    InputError
        If `regularization` is not positive and finite, or `dtype` is not one of the two types.

    See Also
    --------
    popularity : Score items by their number of training interactions.
    item_knn : Score items by their similarity to the items of the user.

    Notes
    -----
    B minimises ‖X − XB‖² + λ‖B‖² under diag(B) = 0, where X is the users × items matrix of 0 and 1. With
    P = (XᵀX + λI)^{-1}, B_ij = −P_ij / P_jj off the diagonal, rounded to 30 binary places. Scores are XB.

    References
    ----------
    Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019, doi 10.1145/3308558.3313710.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 2], "item": [7, 8, 7, 9, 7]})
    >>> log = Interactions.from_frame(frame)
    >>> scores = ease(log, regularization=1.0)
    >>> scores(np.array([2])).round(3)
    array([[0.   , 0.286, 0.286]])
    """
    regularization = check_real("regularization", regularization, low=0)
    try:
        number_type = np.dtype(dtype)
    except (TypeError, ValueError):
        number_type = np.dtype(object)
    if dtype is None or number_type not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"dtype must be float32 or float64; got {dtype!r:.80}.")

    _, pair_matrix = _build_interaction_matrix(train)
    matrix = pair_matrix.astype(number_type)
    weights = _invert((matrix.T @ matrix).toarray(order="F"), regularization)
    weights /= -np.diagonal(weights)
    for first in range(0, len(weights), ROWS_PER_BLOCK):
        block = weights[first : first + ROWS_PER_BLOCK]
        block[...] = _round_to_places(block, PLACES)
    np.fill_diagonal(weights, 0.0)

    def scores(users: IntArray) -> AnyArray:
        return np.asarray(matrix[users] @ weights)

    return scores


def _invert(gram: AnyArray, regularization: float) -> AnyArray:
    """Return (gram + regularization I)^{-1} in C order, in the memory of `gram` (Fortran order)."""
    gram[np.diag_indices_from(gram)] += regularization
    functions: Any = get_lapack_funcs(("potrf", "potri"), (gram,))
    factorize, invert_factor = functions
    cholesky, error_code = factorize(gram, lower=1, overwrite_a=1)
    if not error_code:
        inverse, error_code = invert_factor(cholesky, lower=1, overwrite_c=1)
    if error_code:
        raise InputError(
            f"XᵀX + {regularization:g} I is not positive definite in {gram.dtype}; "
            "use a larger regularization, or dtype='float64'."
        )
    upper: AnyArray = inverse.T  # LAPACK fills the lower triangle in Fortran order: the upper one in C order
    for first in range(0, len(upper), ROWS_PER_BLOCK):
        rows = slice(first, first + ROWS_PER_BLOCK)
        triangle = np.triu(upper[rows, rows])
        upper[rows, rows] = triangle + np.triu(triangle, 1).T
        upper[rows.stop :, rows] = upper[rows, rows.stop :].T
    return upper


@public_function
def pure_svd(train: TrainingLog, *, n_factors: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Return user and item factors of PureSVD.

    Parameters
    ----------
    train : Interactions or sparse matrix users × items
        Training interactions.
    n_factors : int, optional
        At least 1 and less than min(n_users, n_items). The default is 50, or the largest number that a
        smaller log allows.

    Returns
    -------
    user_factors : (n_users, n_factors) array
        Factors of the users, whose products with the item factors are the scores.
    item_factors : (n_items, n_factors) array
        Factors of the items.

    Raises
    ------
    InputError
        If `n_factors` is out of range, or the log has fewer than two users or items.

    See Also
    --------
    popularity : Score items by their number of training interactions.
    ease : Score items by a linear model from items to items.

    Notes
    -----
    X ≈ U Σ Qᵀ is the truncated singular value decomposition of the users × items matrix of 0 and 1. User
    factors are XQ = UΣ, and item factors are Q, rounded to 30 binary places. Columns are in descending order
    of singular values; in each column of Q, the entry of largest magnitude is positive. The iteration has a
    fixed start, so the result is reproducible. Items and users without interactions have factors of exactly
    0.

    References
    ----------
    Cremonesi, Koren & Turrin, Performance of Recommender Algorithms on Top-N Recommendation Tasks,
    RecSys 2010, doi 10.1145/1864708.1864721.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 2], "item": [7, 8, 7, 9, 7]})
    >>> log = Interactions.from_frame(frame)
    >>> user_factors, item_factors = pure_svd(log, n_factors=2)
    >>> (user_factors @ item_factors.T).round(2) + 0.0
    array([[ 1.08,  0.89, -0.11],
           [ 1.08, -0.11,  0.89],
           [ 0.79,  0.29,  0.29]])
    """
    pairs, matrix = _build_interaction_matrix(train)
    n_smaller = min(matrix.shape)
    if n_smaller < 2:
        raise InputError(
            "pure SVD needs at least two users and two items; the log has "
            f"{pluralize(matrix.shape[0], 'user')} and {pluralize(matrix.shape[1], 'item')}. Leave it out."
        )
    if n_factors is None:
        n_factors = min(50, n_smaller - 1)
    check_positive_int("n_factors", n_factors)
    if n_factors >= n_smaller:
        raise InputError(
            f"n_factors must be less than min(n_users, n_items) = {n_smaller}; got {n_factors}. "
            "Ask for fewer factors."
        )
    start = np.random.default_rng(0).standard_normal(n_smaller)
    _, singular_values, right_vectors = svds(matrix, k=n_factors, v0=start)
    item_factors = right_vectors[np.argsort(-singular_values, kind="stable")].T
    largest = np.argmax(np.abs(item_factors), axis=0)
    is_negative = item_factors[largest, np.arange(n_factors)] < 0
    item_factors = item_factors * np.where(is_negative, -1.0, 1.0)
    item_factors = _round_to_places(item_factors, PLACES)
    item_factors[pairs.popularity == 0] = 0.0
    return np.asarray(matrix @ item_factors), item_factors


def _as_interactions(train: TrainingLog) -> Interactions:
    """Return the training interactions; a matrix has the users and items of the split in its shape.

    A frame is refused, because users and items that only the test part has would be missing from the scores.
    """
    if hasattr(train, "columns"):
        raise InputError(
            "train must be Interactions over all users and items; got a frame, which lacks those that only the test "
            "part has. Pass split.train, where split = ipseval.Split.from_frames(train, test)."
        )
    return as_training_log(train, "split.train, where split = Split.from_frames(train, test)")


def _round_to_places(values: AnyArray, places: int) -> AnyArray:
    """Return the values rounded to multiples of 2^-places."""
    number = values.dtype.type
    multiples: AnyArray = np.rint(values * number(2**places)) * number(2.0**-places)
    multiples += number(0)  # turns -0.0 into 0.0
    return multiples


def _build_interaction_matrix(train: TrainingLog) -> tuple[Interactions, sp.csr_array]:
    """Return the distinct pairs, and their users × items matrix of 0 and 1, sparse by rows."""
    pairs = _as_interactions(train).distinct
    shape = (pairs.n_users, pairs.n_items)
    return pairs, sp.csr_array((np.ones(len(pairs)), (pairs.user, pairs.item)), shape=shape)


BASELINES: dict[str, Callable[..., Any]] = {
    "popularity": popularity,
    "random": partial(random, rng=0),
    "item_knn": item_knn,
    "ease": ease,
    "pure_svd": pure_svd,
}
"""Functions of the training log by name; "random" draws with `rng=0` unless another source is passed."""

__getattr__ = explain_missing_names(__name__)
