"""Conditional score test of a covariate of user–item pairs, given user and item effects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from ipseval.utils.types import BoolArray, FloatArray, IntArray

MAX_STEPS = 50
STEP_TOLERANCE = 1e-4
MAX_STEP = 2.0
# A weak prior on item effects (standard deviation 5 on the log scale) keeps separated ones finite.
RIDGE = 0.04
CG_TOLERANCE = 1e-8
MAX_CG = 300
# A property with less than this share of its variation left has nothing to say beyond users and items.
LITTLE_LEFT = 0.01


@dataclass(frozen=True, eq=False)
class ConditionalScore:
    """Log odds ratios of k properties, one step from 0, with the influence of every user.

    Attributes
    ----------
    value : (k,) float array
        θ per standard deviation of the property; NaN where users and items explain all of it, or are as many
        as the pairs.
    influence : (n_users, k) float array
        Share of each user in θ̂ − θ; SE² = Σ_u of its square.
    n_first, n_second : int
        Pairs of either sample that have a say.
    """

    value: FloatArray
    influence: FloatArray
    n_first: int
    n_second: int


def conditional_score(
    user: IntArray,
    item: IntArray,
    is_first: BoolArray,
    properties: FloatArray,
    *,
    n_users: int,
    offset: FloatArray | None = None,
) -> ConditionalScore:
    """Return how a property of pairs shifts the odds of being in the first sample, given user and item.

    In the pooled sample, log odds = α_u + β_i + offset_ui + θ f_ui. The user effects α are conditioned away:
    given how many of a user's pairs are in the first sample, which ones they are has a probability without α.
    The item effects β are fitted at θ = 0. Then with π the inclusion probabilities (exact, recursion of Chen,
    Dempster & Liu), v = π(1 − π) m_u/(m_u − 1), and f̃ what is left of f after regression on users and items
    with weights v,

        s_u = Σ f̃ (D − π),   θ̂ = Σ_u s_u / Σ v f̃²,   influence s_u / Σ v f̃².

    As f̃ is orthogonal to the item effects, errors of β̂ matter in second order only. Fitted effects of p items
    leave residuals too small, so the influence is scaled by √(N/(N − p + 1)), N pairs minus users, as HC1.
    Users and items with pairs of one sample alone have no say.

    Parameters
    ----------
    user, item : (n,) int arrays
    is_first : (n,) bool array
        D: in the first sample.
    properties : (n, k) float array
        f; scaled here to standard deviation 1 over the second sample.
    offset : (n,) float array, optional
        Known part of the log odds.

    References
    ----------
    Chen, Dempster & Liu, Weighted finite population sampling to maximize entropy, Biometrika 81, 1994,
    doi 10.1093/biomet/81.3.457. Andersen, Asymptotic properties of conditional maximum-likelihood
    estimators, JRSS B 32, 1970, doi 10.1111/j.2517-6161.1970.tb00842.x.

    Examples
    --------
    Two users and two items; each user has one pair in either sample, and the property is 1 in the first.

    >>> user, item = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> first = np.array([True, False, False, True])
    >>> f = np.array([[1.0], [0.0], [0.5], [1.0]])
    >>> bool(conditional_score(user, item, first, f, n_users=2).value[0] > 0)
    True
    """
    k = properties.shape[1]
    keep = _informative(user, item, is_first)
    if not keep.any():
        return ConditionalScore(np.full(k, np.nan), np.zeros((n_users, k)), 0, 0)
    names, u = np.unique(user[keep], return_inverse=True)
    i = np.unique(item[keep], return_inverse=True)[1]
    d = is_first[keep].astype(np.float64)
    known = np.zeros(d.size) if offset is None else offset[keep]
    pi = _fit_items(u, i, d, known)
    spread = properties[~is_first].std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(spread > 0, properties[keep] / spread, 0.0)
    information = _Information.at(u, i, pi, ridge=0.0)
    left = np.column_stack([information.left(f[:, column]) for column in range(k)])
    total = (information.v[:, None] * left**2).sum(axis=0)
    freedom, used = d.size - names.size, int(i.max())
    little = total <= LITTLE_LEFT * (information.v[:, None] * (f - f.mean(axis=0)) ** 2).sum(axis=0)
    by_user = [np.bincount(u, (d - pi) * left[:, column]) for column in range(k)]
    score = np.column_stack(by_user) / np.where(little, np.inf, total)
    if freedom <= used:
        little, score = np.ones(k, dtype=bool), np.zeros_like(score)
    influence = np.zeros((n_users, k))
    influence[names] = score * np.sqrt(freedom / max(freedom - used, 1))
    value = np.where(little, np.nan, score.sum(axis=0))
    return ConditionalScore(value, influence, int(d.sum()), int(d.size - d.sum()))


def inclusion_probabilities(log_odds: FloatArray, user: IntArray, n_first: IntArray) -> FloatArray:
    """Return P(pair in the first sample | the user has n_first there), (n,), for odds up to a user's factor.

    π⁽ᵏ⁾ = k λ(1 − π⁽ᵏ⁻¹⁾) / Σ λ(1 − π⁽ᵏ⁻¹⁾) over the user's pairs, k = 1 … n_first. Where more than half
    are in the first sample, the same is done for the second.

    Examples
    --------
    Odds 1, 1, 2 and one of three: 1/4, 1/4, 1/2.

    >>> inclusion_probabilities(np.log([1.0, 1.0, 2.0]), np.zeros(3, dtype=int), np.array([1])).round(6)
    array([0.25, 0.25, 0.5 ])
    """
    size = np.bincount(user)
    flipped = n_first > size / 2
    sign, draws = np.where(flipped, -1.0, 1.0)[user], np.where(flipped, size - n_first, n_first)
    x = sign * log_odds
    largest = np.full(size.size, -np.inf)
    np.maximum.at(largest, user, x)
    odds, pi = np.exp(x - largest[user]), np.zeros(user.size)
    rows = np.arange(user.size)
    for k in range(1, int(draws.max(initial=0)) + 1):
        rows = rows[draws[user[rows]] >= k]
        share = odds[rows] * (1 - pi[rows])
        total = np.bincount(user[rows], share, size.size)[user[rows]]
        pi[rows] = np.clip(k * share / total, 0, 1)
    return np.where(sign < 0, 1 - pi, pi)


def _informative(user: IntArray, item: IntArray, is_first: BoolArray) -> BoolArray:
    """Return which pairs belong to a user and an item that still have pairs of both samples."""
    keep = np.ones(user.size, dtype=bool)
    while True:
        before = int(keep.sum())
        for code in (user, item):
            size = int(code.max(initial=0)) + 1
            every = np.bincount(code[keep], minlength=size)
            first = np.bincount(code[keep], is_first[keep], size)
            keep &= ((first > 0) & (first < every))[code]
        if int(keep.sum()) == before:
            return keep


def _fit_items(u: IntArray, i: IntArray, d: FloatArray, offset: FloatArray) -> FloatArray:
    """Return the inclusion probabilities at the fitted item effects: Newton steps, solved by CG."""
    n_first = np.bincount(u, d).astype(np.int64)
    beta = np.zeros(int(i.max()) + 1)
    for _ in range(MAX_STEPS):
        pi = inclusion_probabilities(beta[i] + offset, u, n_first)
        gradient = np.bincount(i, d - pi) - RIDGE * beta
        step = _Information.at(u, i, pi, ridge=RIDGE).solve(gradient)
        largest = float(np.abs(step).max())
        beta += step * min(1.0, MAX_STEP / max(largest, MAX_STEP))
        if largest < STEP_TOLERANCE:
            break
    return inclusion_probabilities(beta[i] + offset, u, n_first)


@dataclass(frozen=True, eq=False)
class _Information:
    """Information on item effects given the users' counts, Xᵀ(V − V11ᵀV/Σv)X by user, never formed."""

    u: IntArray
    i: IntArray
    v: FloatArray
    by_user: FloatArray
    ridge: float

    @classmethod
    def at(cls, u: IntArray, i: IntArray, pi: FloatArray, *, ridge: float) -> _Information:
        size = np.bincount(u)
        # The factor m/(m − 1) makes the approximation exact for pairs of one user with equal odds.
        v = np.maximum(pi * (1 - pi), 1e-12) * (size / np.maximum(size - 1, 1))[u]
        return cls(u, i, v, np.bincount(u, v).astype(np.float64), ridge)

    def centred(self, f: FloatArray) -> FloatArray:
        """Return f minus its weighted mean over the user's pairs."""
        return np.asarray(f - (np.bincount(self.u, self.v * f) / self.by_user)[self.u])

    def left(self, f: FloatArray) -> FloatArray:
        """Return what is left of f after users and items."""
        within = self.centred(f)
        fitted = self.solve(np.bincount(self.i, self.v * within).astype(np.float64))
        return within - self.centred(fitted[self.i])

    def solve(self, right: FloatArray) -> FloatArray:
        """Return x with (information + ridge) x = right."""
        own = np.bincount(self.i, self.v) - np.bincount(self.i, self.v**2 / self.by_user[self.u])
        diagonal = np.maximum(own + self.ridge, 1e-12)

        def multiply(x: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(self.i, self.v * self.centred(x[self.i])) + self.ridge * x)

        shape = (right.size, right.size)
        x, _ = cg(
            LinearOperator(shape, multiply, dtype=np.float64),
            right,
            rtol=CG_TOLERANCE,
            maxiter=MAX_CG,
            M=LinearOperator(shape, lambda r: r / diagonal, dtype=np.float64),
        )
        return np.asarray(x, dtype=np.float64)
