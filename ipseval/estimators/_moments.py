"""Moments of per-user sums: all that estimates, errors and paired comparisons need; they merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ipseval._base.checks import counted
from ipseval._base.types import FloatArray
from ipseval.errors import InputError
from ipseval.estimators._sums import ROUNDING, UserSums, only_rounding, rounding_of_mean

WIDTH = 3  # N_u, D_u, V_u


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments over users of x_u = (N_u, D_u, V_u) of m models, (3m,), for one metric and estimator."""

    n: int
    mean: FloatArray  # (3m,)
    scatter: FloatArray  # (3m, 3m) Σ_u (x_u − x̄)(x_u − x̄)ᵀ: centred, so that merging loses no digits
    n_undefined: int = 0  # users for whom the metric is undefined
    root: bool = False  # as in `UserSums`

    def __repr__(self) -> str:
        return f"Moments({counted(self.n, 'user')}, {counted(self.mean.size // WIDTH, 'model')})"

    @classmethod
    def of(cls, sums: Sequence[UserSums]) -> Moments:
        """Return the moments of some users; one `UserSums` for each model, over the same users."""
        first = sums[0]
        if any(one.drift is not None for one in sums):
            raise InputError("moments do not hold the error of fitted weights; evaluate with per_user=True.")
        if not all(np.array_equal(one.users, first.users) for one in sums):
            counts = ", ".join(str(one.n_users) for one in sums)
            raise InputError(
                f"a metric is defined for other users under one recommender than under another (of {counts} "
                "users); recommenders can be compared on the same users only."
            )
        assert first.size is None  # queries of users are evaluated in one process
        ones = np.ones(first.n_users)
        columns = [
            column
            for one in sums
            for column in (one.numerator, one.denominator, ones if one.volume is None else one.volume)
        ]
        return cls.of_columns(np.array(columns), n_undefined=first.n_undefined, root=first.root)

    @classmethod
    def of_columns(cls, stacked: FloatArray, *, n_undefined: int = 0, root: bool = False) -> Moments:
        """Return the moments of N, D and V of each model side by side, (3m, n_users)."""
        n = stacked.shape[1]
        mean = stacked.mean(axis=1) if n else np.zeros(stacked.shape[0])
        centred = stacked - mean[:, None]
        return cls(n, mean, centred @ centred.T, n_undefined, root)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the users of both (Chan, Golub & LeVeque 1983)."""
        n = self.n + other.n
        share = other.n / n if n else 0.0
        step = other.mean - self.mean
        scatter = self.scatter + other.scatter + np.outer(step, step) * (self.n * share)
        n_undefined = self.n_undefined + other.n_undefined
        return Moments(n, self.mean + step * share, scatter, n_undefined, self.root)

    def members(self) -> list[MergedSums]:
        """Return what stands for the sums of each model."""
        return [MergedSums(self, number) for number in range(self.mean.size // WIDTH)]

    def covariance(self) -> FloatArray:
        """Return the covariance GSGᵀ/(n(n − 1)) of estimates, (m, m), G their gradients; NaN: undefined."""
        members = self.members()
        if self.n < 2:
            return np.full((len(members), len(members)), np.nan)
        gradient = np.array([one._gradient for one in members]).reshape(len(members), -1)
        product = gradient @ self.scatter @ gradient.T
        nothing = np.diag(product) <= ROUNDING * (gradient**2 @ np.diag(self.scatter))
        product[nothing, :] = product[:, nothing] = 0.0
        return np.asarray(product / (self.n * (self.n - 1.0)))

    def same(self, other: Moments) -> bool:
        """Return whether these are the moments of the same users and models."""
        return self is other or (
            self.n == other.n
            and np.array_equal(self.mean, other.mean)
            and np.array_equal(self.scatter, other.scatter)
        )


@dataclass(frozen=True, eq=False)
class MergedSums:
    """The sums of one model where only moments of the users were kept: it answers as `UserSums` does."""

    moments: Moments
    number: int

    def __repr__(self) -> str:
        return f"MergedSums({counted(self.n_users, 'user')})"

    @property
    def n_users(self) -> int:
        """Number of users that the estimate averages over."""
        return self.moments.n

    @property
    def n_undefined(self) -> int:
        """Users left out because the metric is undefined for them."""
        return self.moments.n_undefined

    def value(self) -> float:
        """Return R = (N̄/D̄)·V̄, or its root; NaN without users or with a zero denominator."""
        numerator, denominator, volume = self._means
        if self.n_users == 0 or denominator == 0:
            return float("nan")
        ratio = numerator / denominator
        return float(np.sqrt(ratio)) if self.moments.root else ratio * volume

    def standard_error(self) -> float:
        """Return √(Σψ²/(n(n − 1))); NaN with fewer than two users."""
        return self._error(self._squares(self._gradient))

    def paired_error(self, other: MergedSums) -> tuple[float, int, float]:
        """Return (standard error of the paired difference, number of users, rounding error)."""
        if not self.moments.same(other.moments):
            raise InputError(
                "a paired difference needs both recommenders in one evaluation, as only moments of the users "
                "were kept. Evaluate them together, or with per_user=True."
            )
        squares, squared = self._squares(self._gradient - other._gradient), self._squared_terms(other)
        if only_rounding(squares, squared):
            squares = 0.0
        return self._error(squares), self.n_users, rounding_of_mean(squared, self.n_users)

    def _squared_terms(self, other: MergedSums) -> float:
        """Return Σ_u Σ_i g_i² x_ui² of both models, as `UserSums` does; the means are put back."""
        squares = np.diag(self.moments.scatter) + self.moments.n * self.moments.mean**2
        return float((self._gradient**2 + other._gradient**2) @ squares)

    @property
    def _means(self) -> tuple[float, float, float]:
        numerator, denominator, volume = self.moments.mean[WIDTH * self.number : WIDTH * (self.number + 1)]
        return float(numerator), float(denominator), float(volume)

    @property
    def _gradient(self) -> FloatArray:
        """Return g with ψ_u = g·(x_u − x̄): the derivative of R with respect to x̄."""
        numerator, denominator, volume = self._means
        gradient = np.zeros(self.moments.mean.size)
        ratio = numerator / denominator if denominator else float("nan")
        scale = volume
        if self.moments.root:
            scale = 1 / (2 * float(np.sqrt(ratio))) if ratio > 0 else float("nan")
        if np.isnan(ratio) or np.isnan(scale):
            return np.full(gradient.size, np.nan)
        own = (scale / denominator, -ratio * scale / denominator, 0.0 if self.moments.root else ratio)
        gradient[WIDTH * self.number : WIDTH * (self.number + 1)] = own
        return gradient

    def _squares(self, gradient: FloatArray) -> float:
        """Return Σψ² = gᵀSg; 0 where that is what rounding leaves of terms that cancel."""
        scatter = self.moments.scatter
        squares = float(gradient @ scatter @ gradient)
        return 0.0 if squares <= ROUNDING * float(gradient**2 @ np.diag(scatter)) else squares

    def _error(self, squares: float) -> float:
        n = self.n_users
        return float(np.sqrt(squares / (n * (n - 1.0)))) if n > 1 else float("nan")
