"""How well estimates meet a reference: error of the level, agreement of the order, for many resamples."""

from __future__ import annotations

import numpy as np

from ipseval._types import FloatArray

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


def resampled_ratios(numerator: FloatArray, denominator: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ΣN/ΣD of each row of sums under each row of user weights, (n_weights, n_rows); NaN if ΣD = 0.

    Parameters
    ----------
    numerator, denominator : (n_rows, n_users) arrays
        Per-user sums, 0 for users that do not take part.
    weights : (n_weights, n_users) array
        How often each user is drawn; a row of ones gives the estimate itself.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weights @ numerator.T) / (weights @ denominator.T), dtype=np.float64)


def user_weights(n_users: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return a row of ones and then `n_resamples` rows of bootstrap multiplicities, (1 + n, n_users)."""
    drawn = rng.multinomial(n_users, np.full(n_users, 1 / n_users), size=n_resamples)
    return np.concatenate([np.ones((1, n_users)), drawn.astype(np.float64)])
