"""Per-user sums that every estimate follows from, and their moments, which merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.checks import counted
from ipseval.utils.ids import union
from ipseval.utils.types import BoolArray, FloatArray, IntArray

# A difference between users below this share of the values themselves is rounding.
ROUNDING = 16 * float(np.finfo(np.float64).eps)


def ratio_estimate(totals: FloatArray, root: bool) -> float:
    """Return R = (N/D)·(V/M), or √(N/D), of totals or means (N, D, V, M); NaN with a zero denominator."""
    numerator, denominator, volume, size = totals.tolist()
    if denominator == 0:
        return float("nan")
    ratio = numerator / denominator
    return float(np.sqrt(ratio)) if root else ratio * (volume / size)


def ratio_gradient(means: FloatArray, root: bool) -> FloatArray:
    """Return the derivative of R by the means of N, D, V and M, (4,); NaN where there is none."""
    numerator, denominator, volume, size = means.tolist()
    ratio = numerator / denominator if denominator else float("nan")
    if np.isnan(ratio) or (root and not ratio > 0):
        return np.full(4, np.nan)
    scale = 1 / (2 * float(np.sqrt(ratio))) if root else volume / size
    by_volume = 0.0 if root else ratio / size
    return np.array(
        [scale / denominator, -ratio * scale / denominator, by_volume, -by_volume * volume / size]
    )


@dataclass(frozen=True, eq=False)
class UserSums:
    """Per-user sums from which an estimate and its uncertainty follow: R = (ΣN/ΣD) · (ΣV/ΣM), or its root.

    Users are the independent units; where several queries of a user are evaluated, `by_cluster` adds them up
    first. Sums of x_u = (N_u, D_u, V_u, M_u) and of their products over users are all
    that inference reads, and they add up over any partition of the users.

    Attributes
    ----------
    users : (n,) int array
        User codes, ascending.
    numerator, denominator : (n,) float arrays
        N_u and D_u.
    volume : (n,) float array or None
        V_u, the factor that scales sum metrics to the observed volume; None stands for 1.
    n_undefined : int
        Users left out because the metric is undefined for them.
    root : bool
        Whether R is the square root of that, as for rmse.
    size : (n,) float array or None
        M_u, the number of queries of the user; None stands for 1.
    propensity_influence : (n_population,) float array or None
        What each user moves R by through weights that were fitted to it, to first order; None: the weights
        are taken as known. Users that the estimate does not read may be among them.
    """

    users: IntArray
    numerator: FloatArray
    denominator: FloatArray
    volume: FloatArray | None = None
    n_undefined: int = 0
    root: bool = False
    size: FloatArray | None = None
    propensity_influence: FloatArray | None = None

    @classmethod
    def of(
        cls,
        users: IntArray,
        numerator: FloatArray,
        denominator: FloatArray | None = None,
        volume: FloatArray | None = None,
        *,
        root: bool = False,
    ) -> UserSums:
        """Return the sums without the users whose numerator is NaN (metric undefined), which are counted."""
        mass = np.ones(users.size) if denominator is None else denominator
        defined = ~np.isnan(numerator)
        n_undefined = int((~defined).sum())
        all_users = cls(users, numerator, mass, volume, n_undefined, root)
        if not n_undefined:
            return all_users
        return all_users._map_columns(lambda column: column[defined], users=users[defined])

    def __repr__(self) -> str:
        undefined = f", {self.n_undefined:,} left out" if self.n_undefined else ""
        return f"UserSums({counted(self.n_users, 'user')}{undefined})"

    @property
    def n_users(self) -> int:
        """Number of users that the estimate averages over."""
        return int(self.users.size)

    @property
    def _columns(self) -> FloatArray:
        """N, D, V and M of each user, (4, n)."""
        volume: FloatArray = np.ones(self.n_users)
        size: FloatArray = np.ones(self.n_users)
        if self.volume is not None:  # M enters together with V alone
            volume = self.volume
            if self.size is not None:
                size = self.size
        return np.array([self.numerator, self.denominator, volume, size])

    @cached_property
    def _gradient(self) -> FloatArray:
        return ratio_gradient(self._columns.sum(axis=1) / max(self.n_users, 1), self.root)

    def value(self) -> float:
        """Return R; NaN without users or with a zero denominator."""
        return ratio_estimate(self._columns.sum(axis=1), self.root)

    def by_cluster(self, cluster: IntArray) -> UserSums:
        """Return the sums of the users to whom queries belong, `cluster[q]` for query q.

        R is the same. The queries of one user are not independent, so its error is that of their sums.

        Examples
        --------
        >>> one_each = UserSums.of(np.array([0, 1, 2]), np.array([1.0, 0.0, 0.5]))
        >>> sums = one_each.by_cluster(np.array([7, 4, 7]))
        >>> sums.users, sums.numerator, sums.denominator, sums.value() == one_each.value()
        (array([4, 7]), array([0. , 1.5]), array([1., 2.]), True)
        """
        users, place = np.unique(cluster[self.users], return_inverse=True)

        def sum_by_cluster(values: FloatArray | None) -> FloatArray:
            return np.bincount(place, values, users.size).astype(np.float64)

        return self._map_columns(sum_by_cluster, users=users, size=sum_by_cluster(self.size))

    def _map_columns(self, change: Callable[[FloatArray], FloatArray], **fields: Any) -> UserSums:
        """Return the sums with a change of each of N, D, V and M that there is, and with other fields."""
        changes: dict[str, Any] = {}
        for name in ("numerator", "denominator", "volume", "size"):
            column = getattr(self, name)
            if column is not None:
                changes[name] = change(column)
        return replace(self, **(changes | fields))

    def influence(self) -> FloatArray:
        """Return ψ_u, (n,), with mean 0: R̂ − R ≈ mean ψ_u, so that SE² = Σψ²/(n(n − 1)) under known weights.

        For a ratio ψ_u = (N_u − R D_u)/D̄; the volume factor V̄/M̄ adds that of its own by the product rule. A
        root divides it by 2R; at R = 0 it has no derivative, and ψ is NaN.
        """
        return self._psi

    @cached_property
    def _psi(self) -> FloatArray:
        return np.asarray(self._gradient @ self._columns)

    def effects(self) -> tuple[IntArray, FloatArray]:
        """Return the users that move R, ascending, and by how much: ψ_u/n, and what fitted weights add.

        SE² = n/(n − 1) times the sum of squares, n the users that the estimate averages over.

        Examples
        --------
        >>> known = UserSums.of(np.array([0, 2]), np.array([1.0, 0.0]))
        >>> fitted = replace(known, propensity_influence=np.array([0.5, 0.25, 0.0]))
        >>> fitted.effects()
        (array([0, 1, 2]), array([ 0.75,  0.25, -0.25]))
        """
        effects = self.influence() / self.n_users
        if self.propensity_influence is None:
            return self.users, effects
        users = union(self.users, np.flatnonzero(self.propensity_influence != 0))
        total_effects = self.propensity_influence[users]
        total_effects[np.searchsorted(users, self.users)] += effects
        return users, total_effects

    def standard_error(self) -> float:
        """Return √(n/(n − 1) Σ effect²), 0 where that is rounding alone; NaN with fewer than two users."""
        n = self.n_users
        squares = zero_if_rounding((n * self.effects()[1]) ** 2, self._squared_terms)
        return _error(squares, n)

    def _n_in_either(self, other: UserSums) -> int:
        if np.array_equal(self.users, other.users):
            return self.n_users
        return int(union(self.users, other.users).size)

    def paired_effects(self, other: UserSums) -> FloatArray:
        """Return the differences of effects to another model, of every user that moves either.

        A user whom only one of them reads has 0 in the other.
        """
        users, effects = self.effects()
        other_users, other_effects = other.effects()
        if np.array_equal(users, other_users):
            return effects - other_effects
        all_users = union(users, other_users)
        differences = np.zeros(all_users.size)
        differences[np.searchsorted(all_users, users)] += effects
        differences[np.searchsorted(all_users, other_users)] -= other_effects
        return differences

    def paired_error(self, other: UserSums) -> tuple[float, int, float]:
        """Return the standard error of the difference to another model, the users, and what rounding makes.

        It is that of `paired_effects`. n is the number of users that either averages over. It is 0 where the
        differences are rounding alone.
        """
        n = self._n_in_either(other)
        differences = self.paired_effects(other)
        squared_terms = 0.0
        for sums in (self, other):
            if sums.n_users:  # effects are ψ over the number of users of each
                squared_terms += (n / sums.n_users) ** 2 * sums._squared_terms
        squares = zero_if_rounding((n * differences) ** 2, squared_terms)
        standard_error = 0.0
        if squares or not n:
            standard_error = _error(squares, n)
        return standard_error, n, rounding_of_mean(squared_terms, n)

    def concatenate(self, other: UserSums, shift: int) -> UserSums:
        """Return the sums of these users and of others, whose codes begin `shift` later."""
        joined: dict[str, Any] = {}
        for name in ("numerator", "denominator", "volume", "size", "propensity_influence"):
            column = getattr(self, name)
            other_column = getattr(other, name)
            is_absent = column is None or other_column is None
            joined[name] = None if is_absent else np.concatenate([column, other_column])
        users = np.concatenate([self.users, other.users + shift])
        return replace(self, users=users, n_undefined=self.n_undefined + other.n_undefined, **joined)

    def select_users(self, chosen: BoolArray) -> UserSums:
        """Return the sums of the chosen users, (n_users of the population,) True or False."""
        rows = chosen[self.users]
        return self._map_columns(
            lambda values: values[rows], users=self.users[rows], n_undefined=0, propensity_influence=None
        )

    def resampled(self, counts: FloatArray) -> UserSums:
        """Return the sums in which user u counts `counts[u]` times, with the weights as they are."""
        times = counts[self.users]
        size = times if self.size is None else times * self.size
        return self._map_columns(lambda values: times * values, size=size, propensity_influence=None)

    def without_size(self) -> UserSums:
        """Return sums of the same value and influence without M_u, which V_u takes in.

        V_u becomes v + (V_u − v M_u)/M̄ with v = ΣV/ΣM: its mean is v, and what a user adds to v is the same.
        """
        if self.size is None or self.volume is None or not self.n_users:
            return replace(self, size=None)
        mean = float(self.volume.sum() / self.size.sum())
        return replace(self, volume=mean + (self.volume - mean * self.size) / self.size.mean(), size=None)

    def remap_users(self, codes: IntArray) -> UserSums:
        """Return the sums with `codes[u]` for user u, in ascending order."""
        users = codes[self.users]
        order = np.argsort(users)
        propensity_influence = None
        if self.propensity_influence is not None:
            propensity_influence = np.zeros(self.propensity_influence.size)
            propensity_influence[codes] = self.propensity_influence
        return self._map_columns(
            lambda values: values[order], users=users[order], propensity_influence=propensity_influence
        )

    @cached_property
    def _squared_terms(self) -> float:
        """Return Σ_u Σ_i g_i² x_ui²: the squared terms of ψ_u, before their means are taken off."""
        gradient, squares = self._gradient[:WIDTH], (self._columns[:WIDTH] ** 2).sum(axis=1)
        return 0.0 if np.isnan(gradient).any() else float(gradient**2 @ squares)

    def user_estimates(self) -> FloatArray:
        """Return N_u/D_u, each user's own value, (n,); NaN where D_u = 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(self.denominator != 0, self.numerator / self.denominator, np.nan)
        return np.sqrt(values) if self.root else values


def zero_if_rounding(squares: FloatArray | float, squared_terms: float) -> float:
    """Return Σψ_u² of squares (or of a sum of them); 0 where that is what rounding makes of their terms."""
    total = float(np.sum(squares))
    return 0.0 if total <= ROUNDING**2 * squared_terms else total


def rounding_of_mean(squared_terms: float, n: int) -> float:
    """Return the difference of two means over n users that rounding makes of such terms."""
    return ROUNDING * float(np.sqrt(squared_terms / n)) if n else 0.0


def _error(squares: float, n: int) -> float:
    """Return √(Σψ²/(n(n − 1))); NaN with fewer than two users."""
    return float(np.sqrt(squares / (n * (n - 1.0)))) if n > 1 else float("nan")


WIDTH = 3  # N_u, D_u, V_u


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments over users of x_u = (N_u, D_u, V_u) of m models, (3m,), for one metric and estimator."""

    n: int
    mean: FloatArray  # (3m,)
    scatter: FloatArray  # (3m, 3m) Σ_u (x_u − x̄)(x_u − x̄)ᵀ: centred, so that merging loses no digits
    n_undefined: int  # users for whom the metric is undefined
    root: bool  # as in `UserSums`

    def __repr__(self) -> str:
        return f"Moments({counted(self.n, 'user')}, {counted(self.mean.size // WIDTH, 'model')})"

    @classmethod
    def of(cls, sums: Sequence[UserSums]) -> Moments:
        """Return the moments of some users; one `UserSums` for each model, over the same users."""
        first = sums[0]
        if any(user_sums.propensity_influence is not None for user_sums in sums):
            raise InputError("moments do not hold the error of fitted weights; evaluate with per_user=True.")
        if not all(np.array_equal(user_sums.users, first.users) for user_sums in sums):
            counts = ", ".join(str(user_sums.n_users) for user_sums in sums)
            raise InputError(
                f"a metric is defined for other users under one recommender than under another (of {counts} "
                "users); recommenders can be compared on the same users only."
            )
        assert first.size is None  # queries of users are evaluated in one process
        columns = np.concatenate([user_sums._columns[:WIDTH] for user_sums in sums])
        return cls.of_columns(columns, n_undefined=first.n_undefined, root=first.root)

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
        gradient = np.array([member._gradient for member in members]).reshape(len(members), -1)
        product = gradient @ self.scatter @ gradient.T
        is_rounding = np.diag(product) <= ROUNDING * (gradient**2 @ np.diag(self.scatter))
        product[is_rounding, :] = 0.0
        product[:, is_rounding] = 0.0
        return np.asarray(product / (self.n * (self.n - 1.0)))

    def same(self, other: Moments) -> bool:
        """Return whether these are the moments of the same users and models."""
        return (
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
        return ratio_estimate(self._means, self.moments.root)

    def standard_error(self) -> float:
        """Return √(Σψ²/(n(n − 1))); NaN with fewer than two users."""
        return _error(self._squares(self._gradient), self.n_users)

    def paired_error(self, other: MergedSums) -> tuple[float, int, float]:
        """Return (standard error of the paired difference, number of users, rounding error)."""
        if not self.moments.same(other.moments):
            raise InputError(
                "a paired difference needs both recommenders in one evaluation, as only moments of the users "
                "were kept. Evaluate them together, or with per_user=True."
            )
        n = self.n_users
        squared_terms = self._squared_terms(other)
        squares = zero_if_rounding(self._squares(self._gradient - other._gradient), squared_terms)
        return _error(squares, n), n, rounding_of_mean(squared_terms, n)

    def _squared_terms(self, other: MergedSums) -> float:
        """Return Σ_u Σ_i g_i² x_ui² of both models, as `UserSums` does; the means are put back."""
        squares = np.diag(self.moments.scatter) + self.moments.n * self.moments.mean**2
        return float((self._gradient**2 + other._gradient**2) @ squares)

    @property
    def _columns(self) -> slice:
        return slice(WIDTH * self.number, WIDTH * (self.number + 1))

    @property
    def _means(self) -> FloatArray:
        return np.append(self.moments.mean[self._columns], 1.0)

    @property
    def _gradient(self) -> FloatArray:
        """Return g with ψ_u = g·(x_u − x̄): the derivative of R with respect to x̄."""
        model_gradient = ratio_gradient(self._means, self.moments.root)[:WIDTH]
        gradient = np.zeros(self.moments.mean.size)
        if np.isnan(model_gradient).any():
            gradient = np.full(self.moments.mean.size, np.nan)
        gradient[self._columns] = model_gradient
        return gradient

    def _squares(self, gradient: FloatArray) -> float:
        """Return Σψ² = gᵀSg; 0 where that is what rounding leaves of terms that cancel."""
        scatter = self.moments.scatter
        squares = float(gradient @ scatter @ gradient)
        return 0.0 if squares <= ROUNDING * float(gradient**2 @ np.diag(scatter)) else squares
