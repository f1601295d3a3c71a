"""Sensitivity to errors of the weights: bounds of an estimate, and the error that brings it to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.estimators.base import describe_missing_method
from ipseval.inference._linear_groups import group_estimates, list_keys, weights_or_ones
from ipseval.inference.intervals import Key
from ipseval.metrics import Metric
from ipseval.utils.checks import to_real
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray

NOT_LINEAR = "not an average of contributions with weights 1/P or 1"
BOUNDS_COLUMNS = ("model", "metric", "estimator", "factor", "estimate", "lower", "upper", "note")
LARGEST_FACTOR = 1e150  # whose square is still a float


@public_function
def bounds(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    *,
    factors: Sequence[float],
) -> pd.DataFrame:
    """Compute the bounds of every estimate when each weight 1/P may be wrong by at most the factor Λ.

    Parameters
    ----------
    samples : mapping
        Recommender -> its ranked positives with their propensities.
    metrics : sequence of Metric
        Metrics of the estimates.
    estimators : sequence of Estimator
        Estimators to bound. Unweighted estimators are bounded with w = 1: their bounds show the values that
        they could take if P varied within Λ².
    factors : sequence of float
        Values of Λ ≥ 1; 1 stands for exact weights.

    Returns
    -------
    DataFrame
        Columns model, metric, estimator, factor, estimate, lower, upper, note; NaN with a note for metrics
        and estimators that are not averages of contributions with weights 1/P or 1.

    Raises
    ------
    InputError
        For a factor below 1, and without samples, metrics or estimators.

    See Also
    --------
    ipseval.inference.Sensitivity : Estimates over a range of γ of the power law.

    Notes
    -----
    The bounds are the extremes of Σwc/Σw over w_i ∈ [w_i/Λ, Λ w_i], independently for each pair of user and
    item. For `snips` the extremes are computed within each user and averaged; for `snips-global` and
    `snips-pooled` they are computed over all positives. The bounds do not account for sampling error.

    Examples
    --------
    >>> import ipseval
    >>> from ipseval.validation.simulation import World
    >>> world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = {"popular": world.example_models(split, rng=2)["popular"]}
    >>> result = ipseval.evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    >>> metrics, estimators = result.definitions
    >>> frame = bounds(result.samples, metrics, estimators, factors=[1.2, 1.5])
    >>> frame[["factor", "estimate", "lower", "upper"]].round(3)
       factor  estimate  lower  upper
    0     1.2     0.599  0.576  0.622
    1     1.5     0.599  0.549  0.648
    """
    for factor in factors:
        check_factor(factor)
    linear, nonlinear = group_estimates(samples, metrics, estimators)
    weights = weights_or_ones(next(iter(samples.values())))
    bounds_by_key: dict[tuple[Key, float], tuple[float, float, float, str]] = {}
    for group in linear:
        values = (group.form.coefficients(weights) @ group.contributions).tolist()
        for key, value, contributions in zip(group.keys, values, group.contributions.T, strict=True):
            for factor in factors:
                lower, upper = _compute_extremes(group.form, contributions, weights, float(factor))
                bounds_by_key[key, factor] = (value, lower, upper, "")

    for model, metric, estimator in nonlinear:
        key = (model, metric.label, estimator.label)
        sample = samples[model]
        value = estimator.sums(sample, metric).by_cluster(sample.ranked.cluster).value()
        reason = describe_missing_method(estimator, "linear_form") or NOT_LINEAR
        for factor in factors:
            bounds_by_key[key, factor] = (value, float("nan"), float("nan"), f"no bounds: {reason}")

    rows: list[tuple[object, ...]] = []
    for key in list_keys(samples, metrics, estimators):
        rows.extend((*key, float(factor), *bounds_by_key[key, factor]) for factor in factors)
    return pd.DataFrame(rows, columns=list(BOUNDS_COLUMNS))


def check_factor(factor: float) -> None:
    """Raise `InputError` unless Λ is a finite number ≥ 1."""
    if not 1 <= to_real(factor) < LARGEST_FACTOR:
        raise InputError(f"factor must be a finite number >= 1 (1: the weights are exact); got {factor!r}.")


def _compute_extremes(
    form: LinearForm, contributions: FloatArray, weights: FloatArray, factor: float
) -> tuple[float, float]:
    """Return the bounds of an estimate: averages of the bounds of users, or the bounds of one ratio."""
    if not form.weighted:
        weights = np.ones(contributions.size)
    if not form.per_user:
        row_weights = form.base * weights
        low, high = row_bounds(contributions[None, :], row_weights[None, :], factor)
        volume = 1.0 if form.volume is None else float(form.volume.mean())
        return float(low[0]) * volume, float(high[0]) * volume

    ranked = form.ranked
    low = np.empty(ranked.users.size)
    high = np.empty(ranked.users.size)
    for count in np.unique(ranked.counts):  # users with equally many positives make one matrix
        members = np.flatnonzero(ranked.counts == count)
        rows = ranked.starts[members, None] + np.arange(count)
        low[members], high[members] = row_bounds(contributions[rows], weights[rows], factor)
    return float(np.mean(form.factor * low)), float(np.mean(form.factor * high))


def row_bounds(c: FloatArray, w: FloatArray, factor: float) -> tuple[FloatArray, FloatArray]:
    """Return the extremes of Σwc/Σw of each row over w_i ∈ [w_i/Λ, Λ w_i], in O(n log n).

    A linear-fractional function over a box is extreme at a threshold of c: all weights above it are at one
    end of their range, and all weights below it at the opposite end. Zhao, Small & Bhattacharya, JRSS B 81,
    2019, 10.1111/rssb.12327.
    """
    order = np.argsort(c, axis=1, kind="stable")
    c = np.take_along_axis(c, order, axis=1)
    w = np.take_along_axis(w, order, axis=1)
    # Sums below and above each threshold. The first threshold is below all entries, the last above all.
    weight_below = _cumulative_sums(w)
    total_below = _cumulative_sums(w * c)
    weight_above = weight_below[:, -1:] - weight_below
    total_above = total_below[:, -1:] - total_below
    square = factor**2
    highest = (total_below + square * total_above) / (weight_below + square * weight_above)
    lowest = (square * total_below + total_above) / (square * weight_below + weight_above)
    return lowest.min(axis=1), highest.max(axis=1)


def _cumulative_sums(values: FloatArray) -> FloatArray:
    """Return the cumulative sums of each row, which begin with 0."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


BLOCK_ENTRIES = 32_768  # of contributions, 256 kB


def compute_required_factors(
    contributions: FloatArray, weights: FloatArray, target: FloatArray
) -> FloatArray:
    """Return the smallest Λ ≥ 1 with which w ∈ [w/Λ, Λw] bring Σwc/Σw to a target, (k,), for c (n, k).

    With A = Σ_{c<t} w(t − c) and B = Σ_{c>t} w(c − t), the largest Σv(c − t) in the box is ΛB − A/Λ and the
    smallest is B/Λ − ΛA. So Λ = √max(A/B, B/A): 1 where the estimate equals t, and infinite where all c lie
    on one side of t. Tan, JASA 101, 2006, 10.1198/016214506000000023.
    """
    above = np.zeros(target.size)
    below = np.zeros(target.size)
    scale = np.zeros(target.size)
    step = max(1, BLOCK_ENTRIES // max(target.size, 1))
    for start in range(0, weights.size, step):
        rows = slice(start, start + step)
        row_weights = weights[rows]
        gap = contributions[rows] - target
        above += row_weights @ np.maximum(gap, 0)
        below -= row_weights @ np.minimum(gap, 0)
        scale += row_weights @ np.abs(contributions[rows])
    scale += weights.sum() * np.abs(target)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.sqrt(np.maximum(above / below, below / above))
    # A target that equals the estimate up to rounding needs no error, also where all c are equal.
    factor[np.abs(above - below) <= 1e-14 * scale] = 1.0
    factor[np.isnan(above + below)] = np.nan
    return factor
