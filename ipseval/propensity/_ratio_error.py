"""What each user moves the slopes of a density ratio by, through both of its regressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ipseval._base.types import BoolArray, FloatArray, IntArray
from ipseval.propensity._fit_error import FitError
from ipseval.propensity._ratio import (
    BIASED,
    ODDS_RIDGE,
    PRIOR_MEAN,
    PRIOR_SD,
    RANDOM,
    RIDGES,
    CrossFitted,
    RatioProblem,
    TwoSamples,
    odds_slopes,
    user_weights,
)


def ratio_error(problem: RatioProblem, odds: CrossFitted) -> FitError:
    """Return the error of a density ratio that was fitted to all users of a problem."""
    return FitError.of(slope_influence(problem), _LogPropensity(odds))


@dataclass(frozen=True, eq=False)
class _LogPropensity:
    odds: CrossFitted

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the derivative of ln P with respect to the slopes, (n_pairs, n_features)."""
        return -self.odds.derivative(user, self.odds.features(user, item))


def slope_influence(problem: RatioProblem) -> FloatArray:
    """Return the derivative of the slopes by how often each user counts, (n_users, n_features)."""
    # The slopes o of the log odds (log : uniform) move by H₁⁻¹ s₁ᵤ, with H₁ the curvature of their penalised
    # likelihood and s₁ᵤ the user's score. With α integrated out, the slopes b under a ridge have the prior
    # N(−.4·o, Q⁻¹), Q⁻¹ = I/ridge + .3²·o oᵀ. So they move by H₂⁻¹(s₂ᵤ − ∂[Q(b + .4·o)]/∂o · H₁⁻¹ s₁ᵤ), and
    # their mean over the ridges by the mean of that. The weights of the ridges are taken as given.
    sample, x = problem.sample, problem.x
    weight = user_weights(sample.user, sample.kind)
    odds = odds_slopes(x, sample.kind, weight, None)
    first = _odds_influence(problem, weight, odds)
    two = TwoSamples.of(x, sample.kind, weight, odds[1:])
    design, user = _with_ones(x[two.rows]), sample.user[two.rows]
    found = np.zeros(first.shape)
    for share, ridge, fit in zip(problem.ridge, RIDGES, two.fits(RIDGES), strict=True):
        p = expit(two.design @ fit)
        precision, turn = _prior(ridge, two.slopes @ fit, odds[1:])
        curvature = (design.T * (two.weight * p * (1 - p))) @ design
        curvature[0, 0] += two.precision(ridge)[0]
        curvature[1:, 1:] += precision
        score = _scores(design * (two.weight * (two.random - p))[:, None], user, two.random, len(first))
        score[:, 1:] -= first @ turn.T
        found += share * np.linalg.solve(curvature, score.T).T[:, 1:]
    return found


def _odds_influence(problem: RatioProblem, weight: FloatArray, odds: FloatArray) -> FloatArray:
    """Return H₁⁻¹ s₁ᵤ of the slopes, (n_users, n_features)."""
    sample = problem.sample
    rows = sample.kind != RANDOM
    design = _with_ones(problem.x[rows])
    p = expit(design @ odds)
    curvature = (design.T * (weight[rows] * p * (1 - p))) @ design
    curvature += np.diag([1e-6, *[ODDS_RIDGE] * (odds.size - 1)])
    residual = weight[rows] * ((sample.kind[rows] == BIASED) - p)
    score = _by_user(design * residual[:, None], sample.user[rows], problem.features.train.n_users)
    return np.asarray(np.linalg.solve(curvature, score.T).T[:, 1:])


def _prior(ridge: float, slope: FloatArray, odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Q, and the derivative of Q(b + .4·o) with respect to o, both (n_features, n_features)."""
    apart = slope + PRIOR_MEAN * odds
    # Q = ridge·(I − c·o oᵀ) with 1/c = 1/(ridge·.3²) + |o|², by Sherman and Morrison.
    c = 1 / (1 / (ridge * PRIOR_SD**2) + odds @ odds)
    identity, along = np.eye(odds.size), float(odds @ apart)
    precision = ridge * (identity - c * np.outer(odds, odds))
    turn = 2 * c * along * np.outer(odds, odds) - along * identity - np.outer(odds, apart)
    return precision, PRIOR_MEAN * precision + ridge * c * turn


def _scores(each: FloatArray, user: IntArray, random: BoolArray, n_users: int) -> FloatArray:
    """Return what one more of each user adds to the score of both samples, (n_users, k)."""
    # A side of n users counts 2m/(n + m) each, m those of the other. So a user brings its own score, and with
    # it the other side counts more, the own side less.
    found = np.zeros((n_users, each.shape[1]))
    entered = [np.bincount(user[side], minlength=n_users) > 0 for side in (random, ~random)]
    totals = [each[side].sum(axis=0) for side in (random, ~random)]
    for side, mine, other in ((random, 0, 1), (~random, 1, 0)):
        n, m = int(entered[mine].sum()), int(entered[other].sum())
        shifted = totals[other] * m / (n * (n + m)) - totals[mine] / (n + m)
        found += _by_user(each[side], user[side], n_users) + np.outer(entered[mine], shifted)
    return found


def _by_user(values: FloatArray, user: IntArray, n_users: int) -> FloatArray:
    return np.column_stack([np.bincount(user, column, n_users) for column in values.T])


def _with_ones(x: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(x)), x])
