"""The error of fitted weights: what each user that a propensity was fitted to moves it by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ipseval._base.checks import check_callable, check_finite, refuse_masked
from ipseval._base.types import FloatArray, IntArray, readonly
from ipseval.errors import InputError


@dataclass(frozen=True, eq=False)
class FitError:
    """How far a fitted propensity would be another one with other users, to first order.

    With θ̂ the fitted parameters and IF_u their derivative with respect to how often user u counts, the
    covariance of θ̂ is Σ_u IF_u IF_uᵀ (the infinitesimal jackknife). Its axes are taken one by one: an
    estimate that axis j moves by a_j has the error √Σ a_j², and user u moves it by Σ_j z_uj a_j. So the error
    of the weights and that of the evaluated users, who may be the same people, add up user by user.

    Attributes
    ----------
    users : (n_users, n_axes) float array
        z_uj: orthonormal columns; 0 for users that the fit does not read.
    change : callable
        (user codes (n,), item codes (n,)) -> change of ln P of each pair with one standard error of each
        axis, (n, n_axes).

    Raises
    ------
    InputError
        Unless `users` is a table of finite numbers and `change` can be called.

    References
    ----------
    Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, doi 10.1137/1.9781611970319, ch. 6.
    """

    users: FloatArray
    change: Callable[[IntArray, IntArray], FloatArray]

    def __post_init__(self) -> None:
        check_callable("change", self.change)
        object.__setattr__(self, "users", readonly(_table("users", self.users)))

    def __repr__(self) -> str:
        n_users = int(self.users.any(axis=1).sum())
        return f"FitError(of a fit to {n_users:,} users, {self.users.shape[1]} axes)"

    @classmethod
    def of(cls, influence: FloatArray, derivative: Callable[[IntArray, IntArray], FloatArray]) -> FitError:
        """Return the error of parameters with IF_u, (n_users, k), and d ln P/dθ of pairs, (n, k)."""
        check_callable("derivative", derivative)
        users, size, axes = np.linalg.svd(_table("influence", influence), full_matrices=False)
        kept = size > 1e-9 * max(float(size.max(initial=0.0)), 1e-300)
        return cls(users[:, kept], Along(derivative, size[kept, None] * axes[kept]))


@dataclass(frozen=True, eq=False)
class Along:
    """Derivatives of ln P along axes of parameters, (n_axes, k)."""

    derivative: Callable[[IntArray, IntArray], FloatArray]
    axes: FloatArray

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return (n_pairs, n_axes)."""
        return np.asarray(self.derivative(user, item) @ self.axes.T)


def _table(name: str, values: FloatArray) -> FloatArray:
    """Return finite numbers (n_users, k) as a new array."""
    refuse_masked(values, name)
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a table of numbers; got {type(values).__name__}.") from None
    if array.ndim != 2:
        raise InputError(f"{name} must be (n_users, k); got shape {array.shape}.")
    check_finite(name, array)
    return array
