"""Logistic regression with a normal prior on each coefficient, by damped Newton steps."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ipseval._types import BoolArray, FloatArray

MAX_STEPS = 100


def fit_logistic(
    design: FloatArray,
    y: BoolArray,
    weight: FloatArray,
    centre: FloatArray,
    precision: FloatArray,
    start: FloatArray | None = None,
) -> FloatArray:
    """Return the coefficients that maximise Σ w·log-likelihood − Σ precision·(coefficient − centre)²/2.

    The maximum is unique and finite, also for separable samples, when every precision is above 0.

    Parameters
    ----------
    design : (n, k) float array
    y : (n,) bool array
    weight : (n,) float array
        How much each row counts.
    centre, precision : (k,) float arrays
        Mean and inverse variance of the prior of each coefficient.
    start : (k,) float array, optional
        Where the search begins; it only saves steps.
    """
    found = (centre if start is None else start).copy()
    value = _loss(design, y, weight, found, centre, precision)
    for _ in range(MAX_STEPS):
        p = expit(design @ found)
        gradient = design.T @ (weight * (p - y)) + precision * (found - centre)
        curvature = (design.T * (weight * p * (1 - p))) @ design + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        if float(gradient @ step) < 1e-12 * (1 + abs(value)):
            return found - step  # this near, the last step is exact to rounding
        for _ in range(40):
            new = _loss(design, y, weight, found - step, centre, precision)
            if new <= value:
                break
            step = step / 2
        found, value = found - step, new
    return found


def log_loss(log_odds: FloatArray, y: BoolArray) -> FloatArray:
    """Return −log-likelihood of each row, (n,)."""
    return np.asarray(np.logaddexp(0.0, np.where(y, -log_odds, log_odds)))


def _loss(
    design: FloatArray,
    y: BoolArray,
    weight: FloatArray,
    at: FloatArray,
    centre: FloatArray,
    precision: FloatArray,
) -> float:
    prior = float((precision * (at - centre) ** 2).sum()) / 2
    return float(weight @ log_loss(design @ at, y)) + prior
