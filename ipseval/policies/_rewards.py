"""The click rate of items at places, shrunk as much as the counts advise, and cross-fitted over users."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from ipseval._types import FloatArray, IntArray
from ipseval.exposure_log import ExposureLog

STRENGTHS = 10.0 ** np.linspace(-1, 4, 51)  # in expected clicks
N_STEPS = 30


def cross_fitted(
    log: ExposureLog, place: IntArray, n_places: int, fold: IntArray, n_folds: int, shrinkage: float | None
) -> FloatArray:
    """Return m̂ (n_folds, n_items, n_places) from the users of the other folds."""
    shape = (n_folds, log.n_items, n_places)
    cell = np.ravel_multi_index((fold, log.item, place), shape)
    size = int(np.prod(shape))
    shown = np.bincount(cell, minlength=size).reshape(shape).astype(np.float64)
    clicks = np.bincount(cell, log.clicked, minlength=size).reshape(shape).astype(np.float64)
    shown, clicks = shown.sum(axis=0) - shown, clicks.sum(axis=0) - clicks
    if shrinkage is None:
        return np.array([click_rates(*one) for one in zip(shown, clicks, strict=True)])
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.nan_to_num(clicks.sum(axis=1, keepdims=True) / shown.sum(axis=1, keepdims=True))
        weight = shown + shrinkage
        return np.asarray(np.where(weight > 0, (clicks + shrinkage * level) / weight, level))


def click_rates(shown: FloatArray, clicks: FloatArray) -> FloatArray:
    """Return the click rate of each item at each place, (n_items, n_places), from counts of that shape.

    level_p · g_i · h_ip with the place's rate and factors of the item over all places, then of the cell:
    empirical Bayes for counts that are Poisson with gamma-distributed factors.
    """
    level = clicks.sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
    rate = np.broadcast_to(level, shown.shape)
    rate = rate * shrunk_factors(clicks.sum(axis=1), (shown * rate).sum(axis=1))[:, None]
    return np.asarray(rate * shrunk_factors(clicks, shown * rate))


def shrunk_factors(clicks: FloatArray, expected: FloatArray) -> FloatArray:
    """Return (clicks + a)/(expected + a/m), the posterior means of factors around m.

    m solves Σ v clicks = m Σ v expected with v = a/(a + m expected): one factor counts as much as another
    where counts are large, so that what a policy shows often does not set the level of what it shows rarely.
    Of the values of a on a grid, the one with the largest negative binomial likelihood is taken.
    """
    c, e = clicks.ravel(), expected.ravel()
    c, e = c[e > 0], e[e > 0]
    if not c.sum():
        return np.ones_like(expected)
    a = STRENGTHS[:, None]
    m = np.ones_like(a)
    for _ in range(N_STEPS):
        v = a / (a + m * e)
        m = (v * c).sum(axis=1, keepdims=True) / (v * e).sum(axis=1, keepdims=True)
    likelihood = gammaln(c + a) - gammaln(a) - a * np.log1p(m * e / a) + c * np.log(m * e / (a + m * e))
    best = int(likelihood.sum(axis=1).argmax())
    return np.asarray((clicks + STRENGTHS[best]) / (expected + STRENGTHS[best] / m[best, 0]))
