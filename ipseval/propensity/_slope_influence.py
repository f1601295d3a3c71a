"""Influence of each user on the slopes of a density ratio, for the error of its weights."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ipseval.propensity.cross_fitted_odds import (
    BIASED,
    ODDS_RIDGE,
    PRIOR_MEAN,
    PRIOR_SD,
    RANDOM,
    RatioProblem,
    RatioRegression,
    compute_user_weights,
    fit_odds_slopes,
)
from ipseval.utils.types import BoolArray, FloatArray, IntArray


def compute_slope_influence(problem: RatioProblem) -> FloatArray:
    """Return the derivative of the slopes by how often each user counts, (n_users, n_features)."""
    # The slopes o of the log odds (log : uniform) move by H₁⁻¹ s₁ᵤ, with H₁ the curvature of their penalised
    # likelihood and s₁ᵤ the user's score. With α integrated out, the slopes b under a ridge have the prior
    # N(−0.4·o, Q⁻¹), Q⁻¹ = I/ridge + 0.3²·o oᵀ. So they move by H₂⁻¹(s₂ᵤ − ∂[Q(b + 0.4·o)]/∂o · H₁⁻¹ s₁ᵤ),
    # and their mean over the ridges by the mean of that. The weights of the ridges are taken as given.
    sample = problem.sample
    weight = compute_user_weights(sample.user, sample.kind)
    odds = fit_odds_slopes(problem.x, sample.kind, weight, None)
    odds_slope = odds[1:]
    odds_influence = _compute_odds_influence(problem, weight, odds)
    n_users = len(odds_influence)

    regression = RatioRegression.from_pairs(problem.x, sample.kind, weight, odds_slope)
    design = _add_intercept(problem.x[regression.rows])
    user = sample.user[regression.rows]
    influence = np.zeros(odds_influence.shape)
    fits = regression.fit_ridges(problem.ridges)
    for ridge_weight, ridge, coefficients in zip(problem.ridge_weights, problem.ridges, fits, strict=True):
        p = expit(regression.design @ coefficients)
        information = regression.weight * p * (1 - p)
        slope = regression.slope_map @ coefficients
        prior_precision, prior_derivative = _differentiate_prior(ridge, slope, odds_slope)
        curvature = (design.T * information) @ design
        curvature[0, 0] += regression.precision(ridge)[0]
        curvature[1:, 1:] += prior_precision

        pair_scores = design * (regression.weight * (regression.is_random - p))[:, None]
        user_scores = _sum_two_sample_scores(pair_scores, user, regression.is_random, n_users)
        user_scores[:, 1:] -= odds_influence @ prior_derivative.T
        influence += ridge_weight * np.linalg.solve(curvature, user_scores.T).T[:, 1:]
    return influence


def _compute_odds_influence(problem: RatioProblem, weight: FloatArray, odds: FloatArray) -> FloatArray:
    """Return H₁⁻¹ s₁ᵤ of the slopes of the odds (log : uniform), (n_users, n_features)."""
    sample = problem.sample
    rows = sample.kind != RANDOM
    design = _add_intercept(problem.x[rows])
    p = expit(design @ odds)
    curvature = (design.T * (weight[rows] * p * (1 - p))) @ design
    curvature += np.diag(np.concatenate([[1e-6], np.full(odds.size - 1, ODDS_RIDGE)]))
    residual = weight[rows] * ((sample.kind[rows] == BIASED) - p)
    pair_scores = design * residual[:, None]
    user_scores = _sum_by_user(pair_scores, sample.user[rows], problem.features.train.n_users)
    return np.asarray(np.linalg.solve(curvature, user_scores.T).T[:, 1:])


def _differentiate_prior(
    ridge: float, slope: FloatArray, odds_slope: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return Q and the derivative of Q(b + 0.4·o) by o, both (n_features, n_features)."""
    deviation = slope + PRIOR_MEAN * odds_slope
    # Q = ridge·(I − c·o oᵀ) with 1/c = 1/(ridge·0.3²) + |o|², by Sherman and Morrison.
    c = 1 / (1 / (ridge * PRIOR_SD**2) + odds_slope @ odds_slope)
    identity = np.eye(odds_slope.size)
    odds_square = np.outer(odds_slope, odds_slope)
    projection = float(odds_slope @ deviation)
    precision = ridge * (identity - c * odds_square)
    precision_derivative = (
        2 * c * projection * odds_square - projection * identity - np.outer(odds_slope, deviation)
    )
    return precision, PRIOR_MEAN * precision + ridge * c * precision_derivative


def _sum_two_sample_scores(
    pair_scores: FloatArray, user: IntArray, is_random: BoolArray, n_users: int
) -> FloatArray:
    """Return the derivative of the score of both samples by how often each user counts, (n_users, k)."""
    # With n users in a sample and m in the opposite one, each of the n users counts 2m/(n + m). A user who
    # counts more often adds its own score, raises the weight of the opposite sample, and lowers the weight of
    # its own sample.
    user_scores = np.zeros((n_users, pair_scores.shape[1]))
    for rows in (is_random, ~is_random):
        is_member = np.bincount(user[rows], minlength=n_users) > 0
        is_opposite_member = np.bincount(user[~rows], minlength=n_users) > 0
        n_members = int(is_member.sum())
        n_opposite = int(is_opposite_member.sum())
        total = pair_scores[rows].sum(axis=0)
        opposite_total = pair_scores[~rows].sum(axis=0)
        n_total = n_members + n_opposite
        gain = opposite_total * n_opposite / (n_members * n_total)
        loss = total / n_total
        own_scores = _sum_by_user(pair_scores[rows], user[rows], n_users)
        user_scores += own_scores + np.outer(is_member, gain - loss)
    return user_scores


def _sum_by_user(values: FloatArray, user: IntArray, n_users: int) -> FloatArray:
    """Return the sum of each column over the pairs of each user, (n_users, n_columns)."""
    return np.column_stack([np.bincount(user, column, n_users) for column in values.T])


def _add_intercept(x: FloatArray) -> FloatArray:
    """Return x with a first column of ones."""
    return np.column_stack([np.ones(len(x)), x])
