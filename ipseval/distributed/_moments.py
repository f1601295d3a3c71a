"""Moments of per-user sums: all that estimates, errors and paired comparisons need; they merge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pandas as pd

from ipseval._checks import counted
from ipseval._types import FloatArray, IntArray
from ipseval.estimators import UserSums
from ipseval.inference._weights import WeightSums

BlockKey: TypeAlias = tuple[str, str]  # (metric, estimator)
WIDTH = 3  # N_u, D_u, V_u


@dataclass(frozen=True, eq=False)
class Block:
    """Moments over users of the sums of all models, for one metric and estimator.

    With x_u = (N_u, D_u, V_u) of each of m models side by side, (3m,), V_u = 1 where there is no volume:

    Attributes
    ----------
    n : int
        Users.
    mean : (3m,) float array
        x̄.
    scatter : (3m, 3m) float array
        Σ_u (x_u − x̄)(x_u − x̄)ᵀ: centred, so that merging loses no digits.
    n_undefined : int
        Users left out because the metric is undefined for them.
    """

    n: int
    mean: FloatArray
    scatter: FloatArray
    n_undefined: int = 0

    def __repr__(self) -> str:
        return f"Block({counted(self.n, 'user')}, {counted(self.mean.size // WIDTH, 'model')})"

    @classmethod
    def of(cls, sums: list[UserSums]) -> Block:
        """Return the moments of some users; one `UserSums` for each model, over the same users."""
        ones = np.ones(sums[0].n_users)
        columns = [
            column
            for one in sums
            for column in (one.numerator, one.denominator, ones if one.volume is None else one.volume)
        ]
        stacked = np.array(columns)
        if not sums[0].n_users:
            return cls(0, np.zeros(len(columns)), np.zeros((len(columns),) * 2), sums[0].n_undefined)
        mean = stacked.mean(axis=1)
        centred = stacked - mean[:, None]
        return cls(sums[0].n_users, mean, centred @ centred.T, sums[0].n_undefined)

    def merge(self, other: Block) -> Block:
        """Return the moments of the users of both.

        Chan, Golub & LeVeque, Algorithms for computing the sample variance, The American Statistician 1983,
        doi 10.1080/00031305.1983.10483115.
        """
        n_undefined = self.n_undefined + other.n_undefined
        n = self.n + other.n
        if n == 0:
            return Block(0, self.mean, self.scatter, n_undefined)
        step = other.mean - self.mean
        mean = self.mean + step * (other.n / n)
        scatter = self.scatter + other.scatter + np.outer(step, step) * (self.n * other.n / n)
        return Block(n, mean, scatter, n_undefined)

    def value(self, model: int) -> float:
        """Return R = (N̄/D̄)·V̄ of a model; NaN without users or with a zero denominator."""
        numerator, denominator, volume = self._means(model)
        if self.n == 0 or denominator == 0:
            return float("nan")
        return float(numerator / denominator * volume)

    def standard_error(self, model: int) -> float:
        """Return √(Σψ²/(n(n − 1))); NaN with fewer than two users."""
        return self._error(self._gradient(model))

    def difference_error(self, first: int, second: int) -> float:
        """Return the standard error of the difference of two models, from the users' differences."""
        return self._error(self._gradient(first) - self._gradient(second))

    def _means(self, model: int) -> tuple[float, float, float]:
        numerator, denominator, volume = self.mean[WIDTH * model : WIDTH * (model + 1)]
        return float(numerator), float(denominator), float(volume)

    def _gradient(self, model: int) -> FloatArray:
        """Return g with ψ_u = g·(x_u − x̄): the derivative of R with respect to x̄."""
        numerator, denominator, volume = self._means(model)
        gradient = np.zeros(self.mean.size)
        if denominator == 0:
            return np.full(self.mean.size, np.nan)
        ratio = numerator / denominator
        own = (volume / denominator, -ratio * volume / denominator, ratio)
        gradient[WIDTH * model : WIDTH * (model + 1)] = own
        return gradient

    def _error(self, gradient: FloatArray) -> float:
        if self.n < 2:
            return float("nan")
        squares = max(float(gradient @ self.scatter @ gradient), 0.0) if not np.isnan(gradient[0]) else np.nan
        return float(np.sqrt(squares / (self.n * (self.n - 1.0))))


@dataclass(frozen=True, eq=False)
class Moments:
    """What a set of users contributes; sets of different users merge by addition.

    Attributes
    ----------
    blocks : dict
        (metric, estimator) -> Block.
    positives_per_user : (largest |S*_u| + 1,) int array
        How many users have that many positives.
    positives_per_item : (n_items,) int array
        Positives of each item: weights vary by item only, so their diagnostics follow.
    n_without_propensity : int
    list_counts : dict
        Model -> number of users with positives by the length of their list, up to the largest cutoff.
    per_user : tuple of frames
        Each user's own values, only where they were asked for.
    own_weights : dict
        (weighted estimator,) -> sums of its own weights; (metric, estimator) -> those of products.
    """

    blocks: dict[BlockKey, Block]
    positives_per_user: IntArray
    positives_per_item: IntArray
    n_without_propensity: int = 0
    list_counts: dict[str, IntArray] = field(default_factory=dict)
    per_user: tuple[pd.DataFrame, ...] = ()
    own_weights: dict[tuple[str, ...], WeightSums] = field(default_factory=dict)

    def __repr__(self) -> str:
        n_users = int(self.positives_per_user[1:].sum())
        return f"Moments({counted(self.n_positives, 'positive')} of {counted(n_users, 'user')})"

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the users of both."""
        size = max(self.positives_per_user.size, other.positives_per_user.size)
        counts = np.zeros(size, dtype=np.int64)
        counts[: self.positives_per_user.size] += self.positives_per_user
        counts[: other.positives_per_user.size] += other.positives_per_user
        return Moments(
            {key: block.merge(other.blocks[key]) for key, block in self.blocks.items()},
            counts,
            self.positives_per_item + other.positives_per_item,
            self.n_without_propensity + other.n_without_propensity,
            _added(self.list_counts, other.list_counts),
            self.per_user + other.per_user,
            _merged(self.own_weights, other.own_weights),
        )

    @property
    def n_positives(self) -> int:
        """Positives that entered."""
        return int(np.arange(self.positives_per_user.size) @ self.positives_per_user)


def _added(one: dict[str, IntArray], other: dict[str, IntArray]) -> dict[str, IntArray]:
    if not (one and other):
        return one or other
    return {name: counts + other[name] for name, counts in one.items()}


def _merged(
    one: dict[tuple[str, ...], WeightSums], other: dict[tuple[str, ...], WeightSums]
) -> dict[tuple[str, ...], WeightSums]:
    if not (one and other):
        return one or other
    return {label: sums.merge(other[label]) for label, sums in one.items()}


def merge_all(parts: list[Moments]) -> Moments:
    """Return the moments of all parts, merged in pairs in their order: the same bits in every run."""
    while len(parts) > 1:
        pairs = [parts[start : start + 2] for start in range(0, len(parts), 2)]
        parts = [pair[0].merge(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]
