"""How well estimates meet a reference: error of the level, agreement of the order, for many resamples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipseval._types import FloatArray, IntArray
from ipseval.validation._estimates import Estimates

# A difference below this share of the values themselves is rounding: those recommenders are tied.
ROUNDING = 1e-12
CRITERIA = ("mae", "tau_b", "src", "ipc", "or1", "regret")


def criteria(estimate: FloatArray, reference: FloatArray) -> FloatArray:
    """Return how the estimates of R recommenders meet their references, (…, 6), in the order of `CRITERIA`.

    mae: mean absolute error, in the unit of the metric. Order: Kendall's τ_b, Spearman's rank correlation
    (average ranks on ties; NaN where all values are equal), the number of inverted pairs, whether the best
    recommender is the same (1 or 0), and regret: the reference value of the best recommender minus that of
    the one chosen by the estimate.

    Parameters
    ----------
    estimate, reference : (…, R) arrays
        One row per resample; higher is better.

    Examples
    --------
    >>> criteria(np.array([[0.1, 0.4, 0.3]]), np.array([[0.1, 0.2, 0.4]])).round(3)
    array([[0.1  , 0.333, 0.5  , 1.   , 0.   , 0.2  ]])
    """
    # Recommenders along the first axis: sums over them are then sums of long rows.
    own, true = (np.ascontiguousarray(np.moveaxis(one, -1, 0)) for one in (estimate, reference))
    first, second = _signs(own), _signs(true)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = _product(first, second) / np.sqrt(_product(first, first) * _product(second, second))
        ranks = _ranks(first, own.shape[0]), _ranks(second, own.shape[0])
        spearman = _product(*ranks) / np.sqrt(_product(ranks[0], ranks[0]) * _product(ranks[1], ranks[1]))
    chosen, best = _best(own), _best(true)
    found, there = (np.take_along_axis(true, one[None], 0)[0] for one in (chosen, best))
    return np.stack(
        [
            np.abs(own - true).mean(0),
            tau,
            spearman,
            (first * second < 0).sum(0).astype(np.float64),
            (chosen == best).astype(np.float64),
            there - found,
        ],
        axis=-1,
    )


def _product(one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("p...,p...->...", one, other))


def _signs(values: FloatArray) -> FloatArray:
    """Return the sign of the difference of each pair of recommenders, (R(R − 1)/2, …)."""
    first, second = np.triu_indices(values.shape[0], 1)
    difference = values[first]
    limit = ROUNDING * np.abs(difference)
    difference -= values[second]
    difference[np.abs(difference) <= limit] = 0.0
    return np.asarray(np.sign(difference))


def _ranks(signs: FloatArray, n_models: int) -> FloatArray:
    """Return centred average ranks, doubled, (R, …): how many are below minus how many are above."""
    pairs = np.triu_indices(n_models, 1)
    counted = np.zeros((n_models, signs.shape[0]))
    for sign, models in zip((1, -1), pairs, strict=True):
        counted[models, np.arange(signs.shape[0])] = sign
    return np.tensordot(counted, signs, 1)


def _best(values: FloatArray) -> IntArray:
    """Return the place of the best recommender, (…,): the first of those that are tied."""
    largest = values.max(0)
    return np.asarray((values >= largest - ROUNDING * np.abs(largest)).argmax(0))


def resampled(found: Sequence[Estimates], users: IntArray, weights: FloatArray) -> list[FloatArray]:
    """Return ΣN/ΣD of estimates under each row of user weights, (n_weights, K) each; NaN if ΣD = 0.

    Parameters
    ----------
    found : sequence of Estimates
    users : (n_users,) int array
        Ascending codes of the users that weights are drawn for; all users of the estimates are among them.
    weights : (n_weights, n_users) array
        How often each user is drawn; a row of ones gives the estimate itself.
    """
    if not found:
        return []
    # One product for all of them: many small ones would spend their time on starting threads.
    parts = [part for one in found for part in (one.numerator, one.denominator)]
    edges = np.cumsum([0, *(part.shape[1] for part in parts)])
    stacked = np.zeros((users.size, int(edges[-1])))
    for number, part in enumerate(parts):
        place = np.searchsorted(users, found[number // 2].users)
        stacked[place, edges[number] : edges[number + 1]] = part
    totals = np.split(weights @ stacked, edges[1:-1], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return [np.asarray(n / d) for n, d in zip(totals[::2], totals[1::2], strict=True)]


def user_weights(n_users: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return a row of ones and then `n_resamples` rows of bootstrap multiplicities, (1 + n, n_users)."""
    weights = np.ones((1 + n_resamples, n_users))
    for row in weights[1:]:
        row[:] = np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
    return weights
