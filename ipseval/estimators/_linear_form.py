"""Estimates that are linear in the contributions of positives: what AOA, SNIPS and IPS share."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ipseval.errors import InputError
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Parts:
    """An estimate as a weighted mean over positives: R = (Σ a c / Σ a) · mean V.

    Attributes
    ----------
    weight : (n_pos,) float array
        a, what each positive weighs in the estimate.
    value : (n_pos,) float array
        c, what it contributes; NaN where the metric is undefined for its user.
    users : (n,) int array or None
        Users whose V enters; None: V = 1.
    volume : (n,) float array or None
        V of these users, such as |S*_u| for a metric that sums over positives.
    """

    weight: FloatArray
    value: FloatArray
    users: IntArray | None = None
    volume: FloatArray | None = None

    def total(self) -> float:
        """Return R; NaN without weight."""
        defined = ~np.isnan(self.value)
        weight = self.weight[defined]
        if not weight.sum() > 0:
            return float("nan")
        mean = float((weight * self.value[defined]).sum() / weight.sum())
        return mean if self.volume is None else mean * float(self.volume.mean())


@dataclass(frozen=True, eq=False)
class LinearForm:
    """How an estimator combines contributions c and weights w; two forms of the same parts are equal.

    Per user: N_u = f_u Σwc/Σw, D_u = 1. Global: N_u = Σ b w c, D_u = Σ b w, times the mean of V_u.

    Attributes
    ----------
    ranked : RankedPositives
    per_user, weighted : bool
        Which of the two; whether w is the inverse propensity or 1.
    is_sum : bool
        Whether the metric sums over positives.
    users_equal : bool
        Whether b is 1/|S*_u| in a global form, so that each user counts by its mean weight.
    own : (n_pos,) float array or None
        Weights of an estimator's own, which multiply b of a global form.

    Raises
    ------
    InputError
        When a per-user form has weights of its own.
    """

    ranked: RankedPositives
    per_user: bool
    weighted: bool
    is_sum: bool = False
    users_equal: bool = False
    own: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.per_user and self.own is not None:
            raise InputError("own weights enter global forms only; got them in a per-user form.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearForm) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @cached_property
    def _parts(self) -> tuple[object, ...]:
        own = None if self.own is None else self.own.tobytes()
        return self.ranked, self.per_user, self.weighted, self.is_sum, self.users_equal, own

    @cached_property
    def factor(self) -> FloatArray:
        """f_u of per-user forms, (n_users,): |S*_u| for sum metrics, otherwise 1."""
        return self.ranked.counts.astype(np.float64) if self.is_sum else np.ones(self.ranked.counts.size)

    @cached_property
    def base(self) -> FloatArray:
        """Return b of global forms, (n_pos,)."""
        base = (1 / self.ranked.counts)[self.ranked.segment] if self.users_equal else self._ones
        return base if self.own is None else base * self.own

    @cached_property
    def volume(self) -> FloatArray | None:
        """V_u of global forms of sum metrics, (n_users,)."""
        return self.factor if self.is_sum and not self.per_user else None

    def coefficients(self, weights: FloatArray, times: FloatArray | None = None) -> FloatArray:
        """Return v (n_pos,) with R = Σ v c when user u counts `times[u]` times (of those with positives)."""
        ranked = self.ranked
        t = np.ones(ranked.users.size) if times is None else times
        w = self._weights(weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.per_user:
                by_user = t * self.factor / (ranked.sum_by_user(w) * t.sum())
                return np.asarray(w * by_user[ranked.segment])
            v = self.base * w * t[ranked.segment]
            scale = 1.0 if self.volume is None else (t @ self.volume) / t.sum()
            return np.asarray(v * (scale / v.sum()))

    def sums(self, weights: FloatArray, contributions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return N_u (n_users, k) and D_u (n_users,) of contributions (n_pos, k)."""
        ranked, w = self.ranked, self._weights(weights)
        if self.per_user:
            by_user = self.factor / ranked.sum_by_user(w)
            return self.added(w * by_user[ranked.segment], contributions), np.ones(by_user.size)
        v = self.base * w
        return self.added(v, contributions), ranked.sum_by_user(v)

    def added(self, values: FloatArray, contributions: FloatArray) -> FloatArray:
        """Return Σ v c over each user's positives of v (n_pos,) and c (n_pos, k): (n_users, k)."""
        by_user = copy(self._by_user)  # shares the places: they are checked once, not for every γ
        by_user.data = values
        return np.asarray(by_user @ contributions)

    @cached_property
    def _by_user(self) -> sparse.csr_array:
        """Which positives are whose, (n_users, n_pos)."""
        shape = (self.ranked.users.size, len(self.ranked))
        ends = np.append(self.ranked.starts, shape[1])
        return sparse.csr_array((self._ones, np.arange(shape[1]), ends), shape=shape)

    def _weights(self, weights: FloatArray) -> FloatArray:
        return weights if self.weighted else self._ones

    @cached_property
    def _ones(self) -> FloatArray:
        return np.ones(len(self.ranked))
