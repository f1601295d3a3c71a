"""Per-user sums, from which estimates and their standard errors follow, and moments of these sums.

Sums of several parts of the users can be concatenated, and their moments can be merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.utils.checks import format_count
from ipseval.utils.ids import union_keys
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray

# Differences between users below this share of their values are rounding errors.
ROUNDING_SHARE = 16 * float(np.finfo(np.float64).eps)


N_COLUMNS = 3  # numbers of a user and a model in `Moments`: N_u, D_u and V_u; M is shared by all models


def ratio_estimate(totals: FloatArray, root: bool) -> float:
    """Return R = (N/D)·(V/M), or √(N/D), of totals or means (N, D, V, M); NaN with a zero denominator."""
    numerator, denominator, volume, size = totals.tolist()
    if denominator == 0:
        return float("nan")
    ratio = numerator / denominator
    if root:
        return float(np.sqrt(ratio))
    return float(ratio * (volume / size))


def ratio_gradient(means: FloatArray, root: bool) -> FloatArray:
    """Return the derivative of R with respect to the means of N, D, V and M, (4,); NaN if there is none."""
    numerator, denominator, volume, size = means.tolist()
    ratio = float("nan")
    if denominator:
        ratio = numerator / denominator
    if np.isnan(ratio) or (root and not ratio > 0):
        return np.full(4, np.nan)
    if root:
        scale = 1 / (2 * float(np.sqrt(ratio)))
        by_volume = 0.0
    else:
        scale = volume / size
        by_volume = ratio / size
    return np.array(
        [scale / denominator, -ratio * scale / denominator, by_volume, -by_volume * volume / size]
    )


@public_class
@dataclass(frozen=True, eq=False)
class UserSums:
    """Per-user sums from which an estimate and its uncertainty follow: R = (ΣN/ΣD) · (ΣV/ΣM), or its root.

    Users are the independent units. Where several queries of a user are evaluated, `by_cluster` adds up their
    sums first. Inference reads only the sums of x_u = (N_u, D_u, V_u, M_u) and of their products over users,
    which add up over any partition of the users.

    Parameters
    ----------
    users : (n,) int array
        User codes, ascending.
    numerator, denominator : (n,) float arrays
        N_u and D_u.
    volume : (n,) float array or None, default None
        V_u, the factor that scales sum metrics to the observed volume; None for 1.
    n_undefined : int, default 0
        Number of users that were excluded because the metric is undefined for them.
    root : bool, default False
        Whether R is the square root of the ratio, as for rmse.
    size : (n,) float array or None, default None
        M_u, the number of queries of the user; None for 1.
    propensity_influence : (n_population,) float array or None, default None
        First-order effect of each user on R through weights that were fitted with the data of the user; None
        for weights that are taken as known. It can include users that the estimate does not read.

    See Also
    --------
    Estimator.sums : Compute the sums of an estimate.

    Examples
    --------
    >>> sums = UserSums(np.arange(2), numerator=np.array([1.0, 0.0]), denominator=np.ones(2))
    >>> sums.value(), sums.standard_error()
    (0.5, 0.5)
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
    def from_values(
        cls,
        users: IntArray,
        numerator: FloatArray,
        denominator: FloatArray | None = None,
        volume: FloatArray | None = None,
        *,
        root: bool = False,
    ) -> UserSums:
        """Create sums without users with an undefined metric, and count these users.

        Parameters
        ----------
        users : (n,) int array
            User codes, ascending.
        numerator : (n,) float array
            N_u; NaN for a user for whom the metric is undefined.
        denominator : (n,) float array or None, default None
            D_u; None for 1.
        volume : (n,) float array or None, default None
            V_u; None for 1.
        root : bool, default False
            Whether R is the square root of the ratio.
        """
        if denominator is None:
            denominator = np.ones(users.size)
        is_defined = ~np.isnan(numerator)
        n_undefined = int((~is_defined).sum())
        all_users = cls(
            users=users,
            numerator=numerator,
            denominator=denominator,
            volume=volume,
            n_undefined=n_undefined,
            root=root,
        )
        if not n_undefined:
            return all_users
        return all_users._map_columns(lambda column: column[is_defined], users=users[is_defined])

    def __repr__(self) -> str:
        undefined_note = ""
        if self.n_undefined:
            undefined_note = f", {self.n_undefined:,} left out"
        return f"UserSums({format_count(self.n_users, 'user')}{undefined_note})"

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
        """The derivative of R with respect to the means of N, D, V and M, (4,)."""
        return ratio_gradient(self._columns.sum(axis=1) / max(self.n_users, 1), self.root)

    def value(self) -> float:
        """Compute the estimate R.

        Returns
        -------
        float
            NaN without users, or with a zero denominator.
        """
        return ratio_estimate(self._columns.sum(axis=1), self.root)

    def by_cluster(self, cluster: IntArray | None) -> UserSums:
        """Add up the sums of the queries of each person.

        R does not change. The queries of one person are not independent, so that the standard error is
        computed from the sums over their queries.

        Parameters
        ----------
        cluster : int array or None
            Person of each query: `cluster[q]` for the user code q of these sums; None where the users are
            persons, whose sums are returned unchanged.

        Returns
        -------
        UserSums
            Its users are the persons.

        Examples
        --------
        >>> query_sums = UserSums.from_values(np.array([0, 1, 2]), np.array([1.0, 0.0, 0.5]))
        >>> sums = query_sums.by_cluster(np.array([7, 4, 7]))
        >>> sums.users, sums.numerator, sums.denominator, sums.value() == query_sums.value()
        (array([4, 7]), array([0. , 1.5]), array([1., 2.]), True)
        """
        if cluster is None:
            return self
        users, position = np.unique(cluster[self.users], return_inverse=True)

        def sum_by_cluster(values: FloatArray | None) -> FloatArray:
            return np.bincount(position, values, users.size).astype(np.float64)

        return self._map_columns(sum_by_cluster, users=users, size=sum_by_cluster(self.size))

    def _map_columns(self, change: Callable[[FloatArray], FloatArray], **fields: Any) -> UserSums:
        """Return the sums with `change` applied to N, D, V and M, without those that are None.

        `fields` sets other fields.
        """
        changes: dict[str, Any] = {}
        for name in ("numerator", "denominator", "volume", "size"):
            column = getattr(self, name)
            if column is not None:
                changes[name] = change(column)
        return replace(self, **(changes | fields))

    def influence(self) -> FloatArray:
        """Compute the influence ψ_u of each user under known weights.

        Returns
        -------
        (n,) float array
            It has mean 0.

        Notes
        -----
        R̂ − R ≈ mean ψ_u, so that SE² = Σψ²/(n(n − 1)). For a ratio, ψ_u = (N_u − R D_u)/D̄. The volume
        factor V̄/M̄ adds its own influence by the product rule. A root divides ψ_u by 2R; at R = 0 it has no
        derivative, and ψ is NaN.
        """
        return self._psi

    @cached_property
    def _psi(self) -> FloatArray:
        """ψ_u of each user, (n,)."""
        return np.asarray(self._gradient @ self._columns)

    def effects(self) -> tuple[IntArray, FloatArray]:
        """Compute the effect of each user on R: ψ_u/n, plus the effect through fitted weights.

        Returns
        -------
        users : int array
            User codes, ascending. Users with an effect through fitted weights only are included.
        effects : float array
            Their effects.

        Notes
        -----
        SE² is n/(n − 1) times the sum of squared effects, with n the number of users that the estimate
        averages over.

        Examples
        --------
        >>> known = UserSums.from_values(np.array([0, 2]), np.array([1.0, 0.0]))
        >>> fitted = replace(known, propensity_influence=np.array([0.5, 0.25, 0.0]))
        >>> fitted.effects()
        (array([0, 1, 2]), array([ 0.75,  0.25, -0.25]))
        """
        effects = self.influence() / self.n_users
        if self.propensity_influence is None:
            return self.users, effects
        users = union_keys(self.users, np.flatnonzero(self.propensity_influence != 0))
        total_effects = self.propensity_influence[users]
        total_effects[np.searchsorted(users, self.users)] += effects
        return users, total_effects

    def standard_error(self) -> float:
        """Compute the standard error of the estimate, √(n/(n − 1) Σ effect²).

        Returns
        -------
        float
            0 if that is a rounding error; NaN with fewer than two users.
        """
        n = self.n_users
        _, effects = self.effects()
        squares = zero_if_rounding((n * effects) ** 2, self._squared_terms)
        return _standard_error(squares, n)

    def _count_union(self, other: UserSums) -> int:
        """Return the number of users of this or the other model."""
        if np.array_equal(self.users, other.users):
            return self.n_users
        return int(union_keys(self.users, other.users).size)

    def paired_effects(self, other: UserSums) -> FloatArray:
        """Compute the effect of each user on the difference to another model.

        Parameters
        ----------
        other : UserSums
            Sums of the other model, for the same population.

        Returns
        -------
        float array
            Differences of the effects of all users with an effect on one of the models. A user that a model
            does not read has no effect on it.
        """
        users, effects = self.effects()
        other_users, other_effects = other.effects()
        if np.array_equal(users, other_users):
            return effects - other_effects
        all_users = union_keys(users, other_users)
        differences = np.zeros(all_users.size)
        differences[np.searchsorted(all_users, users)] += effects
        differences[np.searchsorted(all_users, other_users)] -= other_effects
        return differences

    def paired_error(self, other: UserSums) -> tuple[float, int, float]:
        """Compute the standard error of the difference to another model.

        Parameters
        ----------
        other : UserSums
            Sums of the other model, for the same population.

        Returns
        -------
        standard_error : float
            Standard error from `paired_effects`; 0 if the differences are rounding errors.
        n : int
            Number of users in the average of one of the models or both.
        rounding : float
            Rounding error of the difference.
        """
        n = self._count_union(other)
        differences = self.paired_effects(other)
        squared_terms = 0.0
        for sums in (self, other):
            if sums.n_users:  # the effects of a model are ψ over its own number of users
                squared_terms += (n / sums.n_users) ** 2 * sums._squared_terms
        squares = zero_if_rounding((n * differences) ** 2, squared_terms)
        standard_error = 0.0
        if squares or not n:
            standard_error = _standard_error(squares, n)
        return standard_error, n, compute_rounding_error(squared_terms, n)

    def concatenate(self, other: UserSums, shift: int) -> UserSums:
        """Return the sums of these users and of other users.

        Parameters
        ----------
        other : UserSums
            Sums of the same model and metric for other users.
        shift : int
            Number that is added to the codes of the other users.

        Returns
        -------
        UserSums
            Sums of all users; a column that is None in one of the two is None.
        """
        joined_columns: dict[str, Any] = {}
        for name in ("numerator", "denominator", "volume", "size", "propensity_influence"):
            column = getattr(self, name)
            other_column = getattr(other, name)
            joined_columns[name] = None
            if column is not None and other_column is not None:
                joined_columns[name] = np.concatenate([column, other_column])
        users = np.concatenate([self.users, other.users + shift])
        return replace(self, users=users, n_undefined=self.n_undefined + other.n_undefined, **joined_columns)

    def select_users(self, chosen: BoolArray) -> UserSums:
        """Return the sums of some users.

        Parameters
        ----------
        chosen : (n_population,) bool array
            Whether a user is selected.

        Returns
        -------
        UserSums
            Sums of the selected users, without the effect of fitted weights.
        """
        rows = chosen[self.users]
        return self._map_columns(
            lambda values: values[rows], users=self.users[rows], n_undefined=0, propensity_influence=None
        )

    def resampled(self, counts: FloatArray) -> UserSums:
        """Return the sums of a bootstrap resample of the users, under unchanged weights.

        Parameters
        ----------
        counts : (n_population,) float array
            Number of times that each user was drawn.

        Returns
        -------
        UserSums
            Sums of all users times their counts, without the effect of fitted weights.
        """
        times = counts[self.users]
        size = times
        if self.size is not None:
            size = times * self.size
        return self._map_columns(lambda values: times * values, size=size, propensity_influence=None)

    def without_size(self) -> UserSums:
        """Return sums with equal value and influence that have no M_u.

        V_u becomes v + (V_u − v M_u)/M̄ with v = ΣV/ΣM. Its mean is v, and the influence of each user on v
        does not change.

        Returns
        -------
        UserSums
            Sums whose `size` is None.
        """
        if self.size is None or self.volume is None or not self.n_users:
            return replace(self, size=None)
        mean = float(self.volume.sum() / self.size.sum())
        volume = mean + (self.volume - mean * self.size) / self.size.mean()
        return replace(self, volume=volume, size=None)

    def remap_users(self, codes: IntArray) -> UserSums:
        """Return the sums with other user codes, in ascending order.

        Parameters
        ----------
        codes : (n_population,) int array
            New code of each user.

        Returns
        -------
        UserSums
            Sums in the order of the new codes.
        """
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
        """Σ_u Σ_i g_i² x_ui²: the squared terms of ψ_u before their means are subtracted."""
        gradient = self._gradient[:N_COLUMNS]
        if np.isnan(gradient).any():
            return 0.0
        squares = (self._columns[:N_COLUMNS] ** 2).sum(axis=1)
        return float(gradient**2 @ squares)

    def user_estimates(self) -> FloatArray:
        """Compute the value of each user, N_u/D_u or its root.

        Returns
        -------
        (n,) float array
            Values in the order of `users`; NaN where D_u = 0.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(self.denominator != 0, self.numerator / self.denominator, np.nan)
        if self.root:
            return np.sqrt(values)
        return values


def zero_if_rounding(squares: FloatArray | float, squared_terms: float) -> float:
    """Return Σψ_u² of squares (or of a sum of squares); 0 if it is a rounding error of the given terms."""
    total = float(np.sum(squares))
    if total <= ROUNDING_SHARE**2 * squared_terms:
        return 0.0
    return total


def compute_rounding_error(squared_terms: float, n: int) -> float:
    """Return the rounding error of a difference of two means over n users, from their squared terms."""
    if not n:
        return 0.0
    return ROUNDING_SHARE * float(np.sqrt(squared_terms / n))


def _standard_error(squares: float, n: int) -> float:
    """Return √(Σψ²/(n(n − 1))); NaN with fewer than two users."""
    if n < 2:
        return float("nan")
    return float(np.sqrt(squares / (n * (n - 1.0))))


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments over users of x_u = (N_u, D_u, V_u) of m models, (3m,), for one metric and estimator.

    Attributes
    ----------
    n : int
        Number of users.
    mean : (3m,) float array
        x̄.
    scatter : (3m, 3m) float array
        Σ_u (x_u − x̄)(x_u − x̄)ᵀ, which is centred so that merging loses no digits.
    n_undefined : int
        Number of users for whom the metric is undefined.
    root : bool
        As in `UserSums`.
    """

    n: int
    mean: FloatArray
    scatter: FloatArray
    n_undefined: int
    root: bool

    def __repr__(self) -> str:
        return (
            f"Moments({format_count(self.n, 'user')}, {format_count(self.mean.size // N_COLUMNS, 'model')})"
        )

    @classmethod
    def from_user_sums(cls, sums: Sequence[UserSums]) -> Moments:
        """Return the moments of the sums of several models over the same users."""
        first = sums[0]
        if any(user_sums.propensity_influence is not None for user_sums in sums):
            raise InputError("moments do not hold the error of fitted weights; evaluate with per_user=True.")
        if not all(np.array_equal(user_sums.users, first.users) for user_sums in sums):
            counts = ", ".join(str(user_sums.n_users) for user_sums in sums)
            raise InputError(
                f"a metric is defined for other users under one recommender than under another (of {counts} "
                "users); recommenders can be compared on the same users only."
            )
        assert first.size is None  # queries are evaluated in one process, without moments
        columns = np.concatenate([user_sums._columns[:N_COLUMNS] for user_sums in sums])
        return cls.from_columns(columns, n_undefined=first.n_undefined, root=first.root)

    @classmethod
    def from_columns(cls, stacked: FloatArray, *, n_undefined: int = 0, root: bool = False) -> Moments:
        """Return the moments of the stacked rows N, D and V of each model, (3m, n_users)."""
        n = stacked.shape[1]
        mean: FloatArray = np.zeros(stacked.shape[0])
        if n:
            mean = stacked.mean(axis=1)
        deviations = stacked - mean[:, None]
        return cls(n=n, mean=mean, scatter=deviations @ deviations.T, n_undefined=n_undefined, root=root)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the union of two sets of users (Chan, Golub & LeVeque 1983)."""
        n = self.n + other.n
        share = 0.0
        if n:
            share = other.n / n
        step = other.mean - self.mean
        return Moments(
            n=n,
            mean=self.mean + step * share,
            scatter=self.scatter + other.scatter + np.outer(step, step) * (self.n * share),
            n_undefined=self.n_undefined + other.n_undefined,
            root=self.root,
        )

    def members(self) -> list[MergedSums]:
        """Return a substitute for the `UserSums` of each model."""
        n_models = self.mean.size // N_COLUMNS
        return [MergedSums(self, number) for number in range(n_models)]

    def covariance(self) -> FloatArray:
        """Return the covariance GSGᵀ/(n(n − 1)) of the estimates, (m, m), with G their gradients.

        It is 0 where it is a rounding error, and NaN where it is undefined.
        """
        members = self.members()
        if self.n < 2:
            return np.full((len(members), len(members)), np.nan)
        gradient = np.array([member._gradient for member in members]).reshape(len(members), -1)
        product = gradient @ self.scatter @ gradient.T
        is_rounding = np.diag(product) <= ROUNDING_SHARE * (gradient**2 @ np.diag(self.scatter))
        product[is_rounding, :] = 0.0
        product[:, is_rounding] = 0.0
        return np.asarray(product / (self.n * (self.n - 1.0)))

    def equals(self, other: Moments) -> bool:
        """Return whether the moments are equal, as for one set of users and models."""
        return (
            self.n == other.n
            and np.array_equal(self.mean, other.mean)
            and np.array_equal(self.scatter, other.scatter)
        )


@dataclass(frozen=True, eq=False)
class MergedSums:
    """A substitute for the `UserSums` of one model, computed from moments of the users.

    Attributes
    ----------
    moments : Moments
        Moments of all models.
    number : int
        Position of the model.
    """

    moments: Moments
    number: int

    def __repr__(self) -> str:
        return f"MergedSums({format_count(self.n_users, 'user')})"

    @property
    def n_users(self) -> int:
        """Number of users that the estimate averages over."""
        return self.moments.n

    @property
    def n_undefined(self) -> int:
        """Number of users that were excluded because the metric is undefined for them."""
        return self.moments.n_undefined

    def value(self) -> float:
        """Compute R = (N̄/D̄)·V̄, or its root; NaN without users or with a zero denominator."""
        return ratio_estimate(self._means, self.moments.root)

    def standard_error(self) -> float:
        """Compute √(Σψ²/(n(n − 1))); NaN with fewer than two users."""
        return _standard_error(self._sum_squares(self._gradient), self.n_users)

    def paired_error(self, other: MergedSums) -> tuple[float, int, float]:
        """Return the standard error of a paired difference, the number of users, and the rounding error."""
        if not self.moments.equals(other.moments):
            raise InputError(
                "a paired difference needs both recommenders in one evaluation, as only moments of the users "
                "were kept. Evaluate them together, or with per_user=True."
            )
        n = self.n_users
        squared_terms = self._sum_squared_terms(other)
        squares = zero_if_rounding(self._sum_squares(self._gradient - other._gradient), squared_terms)
        return _standard_error(squares, n), n, compute_rounding_error(squared_terms, n)

    def _sum_squared_terms(self, other: MergedSums) -> float:
        """Return Σ_u Σ_i g_i² x_ui² of two models, for x_u that are not centred."""
        squares = np.diag(self.moments.scatter) + self.moments.n * self.moments.mean**2
        return float((self._gradient**2 + other._gradient**2) @ squares)

    @property
    def _columns(self) -> slice:
        """The positions of the model in the moments."""
        return slice(N_COLUMNS * self.number, N_COLUMNS * (self.number + 1))

    @property
    def _means(self) -> FloatArray:
        """The means of N, D, V and M of the model, (4,)."""
        return np.append(self.moments.mean[self._columns], 1.0)

    @property
    def _gradient(self) -> FloatArray:
        """The derivative g of R with respect to x̄, (3m,), so that ψ_u = g·(x_u − x̄)."""
        model_gradient = ratio_gradient(self._means, self.moments.root)[:N_COLUMNS]
        gradient = np.zeros(self.moments.mean.size)
        if np.isnan(model_gradient).any():
            gradient = np.full(self.moments.mean.size, np.nan)
        gradient[self._columns] = model_gradient
        return gradient

    def _sum_squares(self, gradient: FloatArray) -> float:
        """Return Σψ² = gᵀSg; 0 if it is a rounding error of terms that cancel."""
        scatter = self.moments.scatter
        squares = float(gradient @ scatter @ gradient)
        if squares <= ROUNDING_SHARE * float(gradient**2 @ np.diag(scatter)):
            return 0.0
        return squares
