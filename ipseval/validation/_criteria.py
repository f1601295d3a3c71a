"""How well estimates meet a reference: error of the level, agreement of the order, for many resamples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipseval._types import FloatArray, IntArray
from ipseval.estimators import UserSums

CRITERIA = ("mae", "tau_b", "src", "ipc", "or1", "regret")


def criteria(estimate: FloatArray, reference: FloatArray) -> FloatArray:
    """Return how the estimates of R recommenders meet their references, (n, 6), in the order of `CRITERIA`.

    mae: mean absolute error, in the unit of the metric. Order: Kendall's τ_b, Spearman's rank correlation
    (average ranks on ties; NaN where all values are equal), the number of inverted pairs, whether the best
    recommender is the same (1 or 0), and regret: the reference value of the best recommender minus that of
    the one chosen by the estimate.

    Parameters
    ----------
    estimate, reference : (n, R) arrays
        One row per resample; higher is better.

    Examples
    --------
    >>> criteria(np.array([[0.1, 0.4, 0.3]]), np.array([[0.1, 0.2, 0.4]])).round(3)
    array([[0.1  , 0.333, 0.5  , 1.   , 0.   , 0.2  ]])
    """
    rows = np.arange(estimate.shape[0])
    first, second = _signs(estimate), _signs(reference)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = (first * second).sum((1, 2)) / np.sqrt((first**2).sum((1, 2)) * (second**2).sum((1, 2)))
        ranks = first.sum(2), second.sum(2)  # centred average ranks, doubled
        spearman = (ranks[0] * ranks[1]).sum(1) / np.sqrt((ranks[0] ** 2).sum(1) * (ranks[1] ** 2).sum(1))
    chosen, best = estimate.argmax(1), reference.argmax(1)
    return np.column_stack(
        [
            np.abs(estimate - reference).mean(1),
            tau,
            spearman,
            (first * second < 0).sum((1, 2)) / 2,
            (chosen == best).astype(np.float64),
            reference[rows, best] - reference[rows, chosen],
        ]
    )


def _signs(values: FloatArray) -> FloatArray:
    return np.asarray(np.sign(values[:, :, None] - values[:, None, :]), dtype=np.float64)


def resampled_ratios(sums: Sequence[UserSums], users: IntArray, weights: FloatArray) -> FloatArray:
    """Return ΣN/ΣD of each estimate under each row of user weights, (n_weights, n_estimates); NaN if ΣD = 0.

    Estimates of several recommenders often share their denominators, which are then summed once.

    Parameters
    ----------
    sums : sequence of UserSums
    users : (n_users,) int array
        Ascending codes of the users that weights are drawn for; all users of the sums are among them.
    weights : (n_weights, n_users) array
        How often each user is drawn; a row of ones gives the estimate itself.
    """
    numerator = np.zeros((len(sums), users.size))
    found: list[tuple[UserSums, FloatArray]] = []  # the different denominators, over all users
    places: dict[int, IntArray] = {}  # of arrays of users, by identity, as the sums are held
    number = []
    for row, one in enumerate(sums):
        if id(one.users) not in places:
            places[id(one.users)] = np.searchsorted(users, one.users)
        place = places[id(one.users)]
        numerator[row, place] = one.numerator
        number.append(next((n for n, (other, _) in enumerate(found) if _same(one, other)), len(found)))
        if number[-1] == len(found):
            found.append((one, np.zeros(users.size)))
            found[-1][1][place] = one.denominator
    total = weights @ np.array([denominator for _, denominator in found]).T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights @ numerator.T) / total[:, number])


def _same(one: UserSums, other: UserSums) -> bool:
    same = one.users is other.users or np.array_equal(one.users, other.users)
    return same and np.array_equal(one.denominator, other.denominator)


def user_weights(n_users: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return a row of ones and then `n_resamples` rows of bootstrap multiplicities, (1 + n, n_users)."""
    weights = np.ones((1 + n_resamples, n_users))
    for row in weights[1:]:
        row[:] = np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
    return weights
