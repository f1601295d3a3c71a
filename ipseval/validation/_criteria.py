"""How well estimates meet a reference: error of the level, agreement of the order, for many resamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ipseval._base.types import FloatArray, IntArray
from ipseval.validation._estimates import Estimates

# A difference below this share of the values themselves is rounding: those recommenders are tied.
ROUNDING = 1e-12
# −1, 0, 1 or NaN; sums over pairs of up to 5,000 recommenders are exact.
Signs = npt.NDArray[np.float32]
CRITERIA = ("mae", "tau_b", "src", "ipc", "or1", "regret")


def criteria(estimate: FloatArray, reference: FloatArray) -> FloatArray:
    """Return how estimates (…, R) of recommenders meet references (…, R): the six `CRITERIA`, (…, 6)."""
    # mae: mean absolute error. Order: τ_b, Spearman's correlation (average ranks on ties; NaN where all are
    # equal), inverted pairs, whether the best recommender is the same, and regret: the reference value of the
    # best recommender minus that of the one chosen by the estimate.
    return Ordered.of(estimate).met(Ordered.of(reference))


@dataclass(frozen=True, eq=False)
class Ordered:
    """Values of recommenders (R, …) with what is known of their order, so that it is found out once."""

    values: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Ordered:
        """Return values (…, R) in their order."""
        return cls(np.ascontiguousarray(np.moveaxis(values, -1, 0)))

    @cached_property
    def best(self) -> IntArray:
        """The place of the best recommender, (…,): the first of those that are tied."""
        largest = self.values.max(0)
        return np.asarray((self.values >= largest - ROUNDING * np.abs(largest)).argmax(0))

    @cached_property
    def signs(self) -> Signs:
        """The sign of the difference of each pair of recommenders, (R(R − 1)/2, …)."""
        first, second = np.triu_indices(len(self.values), 1)
        size = self.values[first]
        difference = size - self.values[second]
        np.abs(size, out=size)
        size *= ROUNDING
        # Without a branch, which numbers without order would mislead: NaN stays NaN.
        above, below = difference > size, difference < -size
        found = np.subtract(above, below, dtype=np.float32)
        found[np.isnan(difference)] = np.nan
        return found

    @cached_property
    def ranks(self) -> FloatArray:
        """Centred average ranks, doubled, (R, …): how many are below minus how many are above."""
        pairs = np.triu_indices(len(self.values), 1)
        counted = np.zeros((len(self.values), pairs[0].size), dtype=np.float32)
        for sign, models in zip((1, -1), pairs, strict=True):
            counted[models, np.arange(pairs[0].size)] = sign
        return np.asarray(np.tensordot(counted, self.signs, 1), dtype=np.float64)

    @cached_property
    def squares(self) -> tuple[FloatArray, FloatArray]:
        """Σ over pairs of the squared signs, Σ over recommenders of the squared ranks, (…,) both."""
        return _product(self.signs, self.signs), _product(self.ranks, self.ranks)

    def met(self, true: Ordered) -> FloatArray:
        """Return how these estimates meet their references: see `criteria`."""
        along = _product(self.signs, true.signs)
        pairs, ranks = (own * other for own, other in zip(self.squares, true.squares, strict=True))
        with np.errstate(invalid="ignore", divide="ignore"):
            tau, spearman = along / np.sqrt(pairs), _product(self.ranks, true.ranks) / np.sqrt(ranks)
        found, there = (np.take_along_axis(true.values, one.best[None], 0)[0] for one in (self, true))
        return np.stack(
            [
                np.abs(self.values - true.values).mean(0),
                tau,
                spearman,
                (self.signs * true.signs < 0).sum(0).astype(np.float64),
                (self.best == true.best).astype(np.float64),
                there - found,
            ],
            axis=-1,
        )


def _product(one: Signs | FloatArray, other: Signs | FloatArray) -> FloatArray:
    """Return Σ over the first axis of products of whole numbers, (…,): exact."""
    return np.asarray(np.einsum("p...,p...->...", one, other), dtype=np.float64)


def resampled(found: Sequence[Estimates], users: IntArray, weights: FloatArray) -> list[FloatArray]:
    """Return ΣN/ΣD of estimates by rows of weights (n_weights, n_users), (n_weights, K); NaN: ΣD = 0."""
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
