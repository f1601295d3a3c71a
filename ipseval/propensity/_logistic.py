"""Logistic regression with a normal prior on each coefficient, by damped Newton steps."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ipseval._base.compute import one_blas_thread
from ipseval._base.types import BoolArray, FloatArray

MAX_STEPS = 100


@one_blas_thread()  # a few columns: more threads only wait for each other, and add up in another order
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
    sign = np.where(y, -1.0, 1.0)
    log_odds: FloatArray = design @ found
    value = float(weight @ _losses(sign * log_odds)) + _prior(found, centre, precision)
    for _ in range(MAX_STEPS):
        p = expit(log_odds)
        gradient = design.T @ (weight * (p - y)) + precision * (found - centre)
        curvature = (design.T * (weight * p * (1 - p))) @ design + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        if float(gradient @ step) < 1e-12 * (1 + abs(value)):
            return found - step  # this near, the last step is exact to rounding
        for _ in range(40):
            log_odds = design @ (found - step)
            new = float(weight @ _losses(sign * log_odds)) + _prior(found - step, centre, precision)
            if new <= value:
                break
            step = step / 2
        found, value = found - step, new
    return found


def _losses(against: FloatArray) -> FloatArray:
    """Return log(1 + exp(x)) of the log odds x against what was seen, (n,); faster than logaddexp."""
    return np.asarray(np.maximum(against, 0) + np.log1p(np.exp(-np.abs(against))))


def _prior(at: FloatArray, centre: FloatArray, precision: FloatArray) -> float:
    return float((precision * (at - centre) ** 2).sum()) / 2
