"""What a propensity carries: its steps, which are done again at another γ, and the error of its fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipseval.errors import InputError, PropensityError
from ipseval.utils.checks import check_callable, check_finite, refuse_masked
from ipseval.utils.types import FloatArray, IntArray, readonly

Pair = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Step:
    """One step: "power-law" (always first), "cap", "clip" or "held_out", and its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in self.options.items()
        )
        return f"{self.name}({inside})"

    def apply(self, p: FloatArray, slope: FloatArray | float = 0.0) -> Pair:
        """Return P after the step, and d ln P/dγ."""
        return CHANGES[self.name](p, np.broadcast_to(slope, p.shape), **self.options)


def _cap(p: FloatArray, slope: FloatArray) -> Pair:
    return np.minimum(p, 1.0), np.where(p > 1, 0.0, slope)


def _clip(p: FloatArray, slope: FloatArray, *, floor: float) -> Pair:
    return np.maximum(p, floor), np.where(p < floor, 0.0, slope)


def _held_out(p: FloatArray, slope: FloatArray, *, test_fraction: float, counted_on: str) -> Pair:
    rho = test_fraction
    in_train = p if counted_on == "train" else (1 - rho) * p
    n_above = int((in_train > (1 - rho) * (1 + 1e-12)).sum())
    if n_above:
        raise PropensityError(
            f"{n_above} of {p.size} propensities of being in train exceed 1 − ρ = {1 - rho:g}, the largest "
            "that a random split allows. Check the scale, or say counted_on='log'."
        )
    # At most 1 by the check above, but for rounding.
    return np.minimum(rho / (1 - rho) * in_train / (1 - in_train), 1.0), slope / (1 - in_train)


CHANGES: dict[str, Callable[..., Pair]] = {
    "cap": _cap,
    "clip": _clip,
    "held_out": _held_out,
}


@dataclass(frozen=True, eq=False)
class GammaChain:
    """A power law and the steps after it, for each distinct popularity, as functions of γ."""

    level: FloatArray  # (n_levels,) the distinct n* > 0, ascending
    place: IntArray  # (n_items,) level of each item; −1 for items without a propensity
    top: float | None  # P of the most popular item, held at every γ where P is a probability
    steps: tuple[Step, ...]  # what comes after the power law

    @classmethod
    def of(cls, popularity: FloatArray, steps: tuple[Step, ...]) -> GammaChain:
        """Return the chain of the n* of all items; the first step is the power law."""
        seen = popularity > 0
        level, found = np.unique(popularity[seen], return_inverse=True)
        place = np.full(popularity.size, -1, dtype=np.int64)
        place[seen] = found
        return cls(level, place, steps[0].options.get("top"), steps[1:])

    def at(self, gamma: float) -> Pair:
        """Return P of each level and d ln P/dγ, both (n_levels,)."""
        log_level = np.log(self.level)
        if self.top is not None:
            log_level = log_level - log_level[-1]
        p: FloatArray = np.exp((gamma + 1) / 2 * log_level) * (1.0 if self.top is None else self.top)
        slope: FloatArray = log_level / 2
        for step in self.steps:
            p, slope = step.apply(p, slope)
        return p, slope


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
        object.__setattr__(self, "users", readonly(as_table("users", self.users)))

    def __repr__(self) -> str:
        n_users = int(self.users.any(axis=1).sum())
        return f"FitError(of a fit to {n_users:,} users, {self.users.shape[1]} axes)"

    @classmethod
    def of(cls, influence: FloatArray, derivative: Callable[[IntArray, IntArray], FloatArray]) -> FitError:
        """Return the error of parameters with IF_u, (n_users, k), and d ln P/dθ of pairs, (n, k)."""
        check_callable("derivative", derivative)
        users, size, axes = np.linalg.svd(as_table("influence", influence), full_matrices=False)
        kept = size > 1e-9 * size.max(initial=0.0)
        return cls(users[:, kept], Along(derivative, size[kept, None] * axes[kept]))


@dataclass(frozen=True, eq=False)
class Along:
    """Derivatives of ln P along axes of parameters, (n_axes, k)."""

    derivative: Callable[[IntArray, IntArray], FloatArray]
    axes: FloatArray

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return (n_pairs, n_axes)."""
        return np.asarray(self.derivative(user, item) @ self.axes.T)


def as_table(name: str, values: FloatArray) -> FloatArray:
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
