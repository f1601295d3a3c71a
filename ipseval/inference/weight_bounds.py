"""Weights that are wrong by a factor: bounds of an estimate, and what brings it to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.estimators.base import missing_method_message
from ipseval.estimators.estimate import independent_sums
from ipseval.inference._linear import groups, keys_of, weights_or_ones
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.utils.checks import real_number
from ipseval.utils.types import FloatArray

NOT_LINEAR = "not a weighted average of contributions"
COLUMNS = ("model", "metric", "estimator", "factor", "estimate", "lower", "upper", "note")


def bounds(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    *,
    factors: Sequence[float],
) -> pd.DataFrame:
    """Return the bounds of every estimate when each 1/P may be wrong by a factor Λ, pair by pair.

    For `snips` the weights of each user are moved on their own; for `snips-global` and `snips-pooled` all
    together. The bounds say nothing of sampling error. The unweighted estimators are bounded with w = 1:
    what would be left of them if P varied within Λ².

    Returns
    -------
    DataFrame
        Columns model, metric, estimator, factor, estimate, lower, upper, note; NaN with a note for metrics
        and estimators that are no weighted average of contributions.
    """
    for factor in factors:
        check_factor(factor)
    linear, others = groups(samples, metrics, estimators)
    weights = weights_or_ones(next(iter(samples.values())))
    found: dict[tuple[Key, float], tuple[float, float, float, str]] = {}
    for group in linear:
        values = (group.form.coefficients(weights) @ group.contributions).tolist()
        for key, value, c in zip(group.keys, values, group.contributions.T, strict=True):
            for factor in factors:
                found[key, factor] = (value, *_extremes(group.form, c, weights, float(factor)), "")
    nan = float("nan")
    for model, metric, estimator in others:
        why = f"no bounds: {missing_method_message(estimator, 'linear_form') or NOT_LINEAR}"
        value = independent_sums(samples[model], metric, estimator).value()
        for factor in factors:
            found[(model, metric.label, estimator.label), factor] = (value, nan, nan, why)
    keys = [(key, factor) for key in keys_of(samples, metrics, estimators) for factor in factors]
    rows = [(*key, float(factor), *found[key, factor]) for key, factor in keys]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def check_factor(factor: float) -> None:
    """Raise `InputError` unless Λ is a finite number ≥ 1."""
    if not 1 <= real_number(factor) < 1e150:  # its square is taken
        raise InputError(f"factor must be a finite number >= 1 (1: the weights are exact); got {factor!r}.")


def _extremes(form: LinearForm, c: FloatArray, weights: FloatArray, factor: float) -> tuple[float, float]:
    """Return the bounds of an estimate: users' own, which are averaged, or those of the one ratio."""
    w = weights if form.weighted else np.ones(c.size)
    if not form.per_user:
        low, high = row_bounds(c[None, :], (form.base * w)[None, :], factor)
        volume = 1.0 if form.volume is None else float(form.volume.mean())
        return float(low[0]) * volume, float(high[0]) * volume
    ranked = form.ranked
    low, high = np.empty(ranked.users.size), np.empty(ranked.users.size)
    for size in np.unique(ranked.counts):  # users of one size make one matrix
        members = np.flatnonzero(ranked.counts == size)
        rows = ranked.starts[members, None] + np.arange(size)
        low[members], high[members] = row_bounds(c[rows], w[rows], factor)
    return float(np.mean(form.factor * low)), float(np.mean(form.factor * high))


def row_bounds(c: FloatArray, w: FloatArray, factor: float) -> tuple[FloatArray, FloatArray]:
    """Return the extremes of Σwc/Σw of each row over w_i ∈ [w_i/Λ, Λ w_i], in O(n log n)."""
    # A linear-fractional function over a box is extreme at a threshold of c: all weights above it are at
    # their upper end, all others at their lower end. Zhao, Small & Bhattacharya, JRSS B 81, 2019,
    # 10.1111/rssb.12327.
    order = np.argsort(c, axis=1, kind="stable")
    c, w = np.take_along_axis(c, order, axis=1), np.take_along_axis(w, order, axis=1)
    # Shares below each threshold, from 0 entries to all of them.
    weight, total = (np.pad(np.cumsum(one, axis=1), ((0, 0), (1, 0))) for one in (w, w * c))
    rest_weight, rest_total = weight[:, -1:] - weight, total[:, -1:] - total
    square = factor**2
    highest = (total + square * rest_total) / (weight + square * rest_weight)
    lowest = (square * total + rest_total) / (square * weight + rest_weight)
    return lowest.min(axis=1), highest.max(axis=1)


BLOCK_ENTRIES = 32_768  # of contributions, 256 kB


def required_factors(contributions: FloatArray, weights: FloatArray, target: FloatArray) -> FloatArray:
    """Return the smallest Λ ≥ 1 with which w ∈ [w/Λ, Λw] bring Σwc/Σw to a target, (k,), for c (n, k)."""
    # With A = Σ_{c<t} w(t − c) and B = Σ_{c>t} w(c − t), the largest Σv(c − t) in the box is ΛB − A/Λ and the
    # smallest B/Λ − ΛA: Λ = √max(A/B, B/A), 1 where the estimate is t, inf where all c lie on one side of t.
    # Tan, JASA 101, 2006, 10.1198/016214506000000023.
    c, w = contributions, weights
    above, below, size = np.zeros((3, target.size))
    step = max(1, BLOCK_ENTRIES // max(target.size, 1))
    for start in range(0, w.size, step):
        rows = slice(start, start + step)
        gap = c[rows] - target
        above += w[rows] @ np.maximum(gap, 0)
        below -= w[rows] @ np.minimum(gap, 0)
        size += w[rows] @ np.abs(c[rows])
    size += w.sum() * np.abs(target)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.sqrt(np.maximum(above / below, below / above))
    # A target that is the estimate up to rounding needs nothing, also where all c are equal.
    factor[np.abs(above - below) <= 1e-14 * size] = 1.0
    factor[np.isnan(above + below)] = np.nan
    return factor
