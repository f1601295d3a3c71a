"""Estimation error of a fitted propensity, which evaluations add to the error of their users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError
from ipseval.utils.checks import check_callable, check_finite, format_count, refuse_masked
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray, as_readonly


@public_class
@dataclass(frozen=True, eq=False)
class FitError:
    """First-order error of a fitted propensity due to the sample of users that it was fitted to.

    Parameters
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

    See Also
    --------
    Propensity : Its field `error` holds the error of the fit.

    Notes
    -----
    With θ̂ the fitted parameters and IF_u their derivative with respect to how often user u counts, the
    covariance of θ̂ is Σ_u IF_u IF_uᵀ (the infinitesimal jackknife [1]_). Its axes are taken one by one: an
    estimate that axis j moves by a_j has the error √Σ a_j², and user u moves it by Σ_j z_uj a_j. So the error
    of the weights and the error of the evaluated users, who may be the same people, add up user by user.

    References
    ----------
    .. [1] Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, ch. 6,
       doi:10.1137/1.9781611970319

    Examples
    --------
    Four users, two of whom were read by a fit of one parameter θ; d ln P/dθ is the code of the item:

    >>> import numpy as np
    >>> influence = np.array([[0.3], [-0.4], [0.0], [0.0]])
    >>> error = FitError.from_influence(influence, lambda user, item: item[:, None].astype(float))
    >>> error
    FitError(of a fit to 2 users, 1 axis)
    >>> change = error.change(np.array([0, 0]), np.array([1, 2]))
    >>> np.abs(change).round(3)
    array([[0.5],
           [1. ]])
    """

    users: FloatArray
    change: Callable[[IntArray, IntArray], FloatArray]

    def __post_init__(self) -> None:
        check_callable("change", self.change)
        object.__setattr__(self, "users", as_readonly(to_finite_table("users", self.users)))

    def __repr__(self) -> str:
        n_users = int(self.users.any(axis=1).sum())
        n_axes = self.users.shape[1]
        axes = f"{n_axes} axes"
        if n_axes == 1:
            axes = "1 axis"
        return f"FitError(of a fit to {format_count(n_users, 'user')}, {axes})"

    @classmethod
    def from_influence(
        cls, influence: FloatArray, derivative: Callable[[IntArray, IntArray], FloatArray]
    ) -> FitError:
        """Return the error of parameters from their influence functions.

        Parameters
        ----------
        influence : (n_users, k) float array
            IF_u of the k parameters.
        derivative : callable
            (user codes (n,), item codes (n,)) -> d ln P/dθ of each pair, (n, k).

        Returns
        -------
        FitError
            The error along the principal axes of the covariance of the parameters.
        """
        check_callable("derivative", derivative)
        table = to_finite_table("influence", influence)
        users, size, axes = np.linalg.svd(table, full_matrices=False)
        keep = size > 1e-9 * size.max(initial=0.0)
        return cls(users[:, keep], ProjectedDerivative(derivative, size[keep, None] * axes[keep]))


@dataclass(frozen=True, eq=False)
class ProjectedDerivative:
    """Derivatives of ln P along axes of parameters, (n_axes, k)."""

    derivative: Callable[[IntArray, IntArray], FloatArray]
    axes: FloatArray

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the change of ln P along each axis, (n_pairs, n_axes)."""
        return np.asarray(self.derivative(user, item) @ self.axes.T)


def to_finite_table(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return finite numbers (n, k) as a new array."""
    refuse_masked(values, name)
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a table of numbers; got {type(values).__name__}.") from None
    if array.ndim != 2:
        raise InputError(f"{name} must be (n, k); got shape {array.shape}.")
    check_finite(name, array)
    return array
