"""The interval of every estimate, by whichever method, and the propensity fitted anew for some of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from ipseval.estimators import Estimate, Estimator, Sample
from ipseval.estimators.estimate import estimate, independent_sums
from ipseval.estimators.labels import can_exceed_range
from ipseval.estimators.user_sums import ROUNDING
from ipseval.inference._linear import Stacks, groups, keys_of, stacks
from ipseval.inference.intervals import Bootstrap, Key, blocks, bootstrap, draw_counts, normal_interval
from ipseval.metrics import Metric
from ipseval.propensity import FitError, Propensity
from ipseval.utils.checks import as_generator, check_callable, check_positive_int, check_type, counted
from ipseval.utils.types import FloatArray, IntArray, IntervalMethod, RngLike, readonly

# How the propensity is fitted to a log in which user u occurs counts[u] times, (n_users,).
Refit = Callable[[IntArray], Propensity]


def bootstrap_refit(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    *,
    refit: Refit,
    n_resamples: int = 1000,
    rng: RngLike = None,
) -> Bootstrap:
    """Return replicates of all estimates, with the propensity fitted anew to each resample of the users."""
    # Users without test positives are resampled too, as they are part of the training log. Ranks stay: the
    # recommenders are what is evaluated. Positives whose propensity is undefined in a resample leave it.
    check_callable("refit", refit)
    check_positive_int("n_resamples", n_resamples)
    first = next(iter(samples.values()))
    keys = keys_of(samples, metrics, estimators)
    originals = [estimate(one, m, e).value for one in samples.values() for m in metrics for e in estimators]
    parts = stacks(samples, metrics)
    seed = as_generator(rng).integers(2**63, size=2).tolist()
    n_users = first.ranked.unit_ids.size
    rows = []
    for number, size in blocks(n_resamples, n_users):
        for counts in draw_counts(n_users, size, seed, number):
            fitted = refit(counts.astype(np.int64))
            check_type("what refit returns", fitted, Propensity)
            fitted.check_ids(first.ranked)
            values = fitted.at(first.ranked.user, first.ranked.item)
            now = {name: one.under(values, fitted.is_probability) for name, one in samples.items()}
            same = None if np.isnan(values).any() else parts
            rows.append(replicate(now, metrics, estimators, same, counts))
    return Bootstrap(
        keys=tuple(keys),
        values=readonly(np.array(originals)),
        replicates=readonly(np.array([[row[key] for key in keys] for row in rows])),
        acceleration=readonly(np.full(len(keys), np.nan)),
    )


def replicate(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    parts: Stacks | None,
    counts: FloatArray,
) -> dict[Key, float]:
    """Return all estimates with user u counting `counts[u]` times; `parts`: contributions made before."""
    first = next(iter(samples.values()))
    if not counts[first.ranked.unit(first.ranked.user)].any():
        return dict.fromkeys(keys_of(samples, metrics, estimators), float("nan"))
    linear, others = groups(samples, metrics, estimators, parts)
    result: dict[Key, float] = {}
    times = counts[first.ranked.unit(first.ranked.users)]
    for group in linear:
        estimates = group.form.coefficients(first.weights, times) @ group.contributions
        result.update(zip(group.keys, estimates.tolist(), strict=True))
    for model, metric, estimator in others:
        sums = independent_sums(samples[model], metric, estimator)
        result[model, metric.label, estimator.label] = sums.resampled(counts).value()
    return result


def propensity_influences(
    samples: Mapping[str, Sample], metrics: Sequence[Metric], estimators: Sequence[Estimator], error: FitError
) -> dict[Key, FloatArray]:
    """Return (recommender, metric, estimator) -> what each user moves the estimate by through the weights."""
    # With a_j half the difference of the estimates with weights one standard error up and down axis j of the
    # fit, user u moves the estimate by Σ_j z_uj a_j, (n_users,). It holds for every estimator, by two
    # estimates for each axis. Estimators without weights have none. A difference that rounding makes is 0.
    weighted = [one for one in estimators if one.weighted]
    if not weighted:
        return {}
    first = next(iter(samples.values()))
    assert first.propensity is not None
    change = error.change(first.ranked.user, first.ranked.item)
    parts, ones = stacks(samples, metrics), np.ones(first.ranked.unit_ids.size)
    moved: dict[Key, list[float]] = {}
    for column in change.T:
        ends = []
        for sign in (1, -1):
            values = first.propensity * np.exp(sign * column)
            now = {name: one.under(values, one.is_probability) for name, one in samples.items()}
            ends.append(replicate(now, metrics, weighted, parts, ones))
        for key, up in ends[0].items():
            down = ends[1][key]
            same = abs(up - down) <= ROUNDING * max(abs(up), abs(down))
            moved.setdefault(key, []).append(0.0 if same else (up - down) / 2)
    return {key: np.asarray(error.users @ np.array(one)) for key, one in moved.items()}


def within_unit(value: float, low: float, high: float) -> tuple[float, float]:
    """Return value ∓ half; where that leaves [0, 1], logit(value) ∓ half/(value (1 − value)) turned back."""
    if not 0 < value < 1 or (low >= 0 and high <= 1):
        return low, high
    half = (high - low) / 2 / (value * (1 - value))
    return float(expit(logit(value) - half)), float(expit(logit(value) + half))


@dataclass(frozen=True)
class Interval:
    """What stands beside an estimate: its standard error, the bounds, and what a reader must know of them."""

    std_error: float
    low: float
    high: float
    note: str = ""


UNDEFINED = Interval(float("nan"), float("nan"), float("nan"))


def normal_intervals(
    estimates: Mapping[Key, Estimate], *, confidence_level: float, metrics: Sequence[Metric] = ()
) -> dict[Key, Interval]:
    """Return value ∓ z SE of every estimate, SE from the influence of each user.

    Where that leaves the [0, 1] of a metric, its logit ∓ z SE/(value (1 − value)) is turned back. Estimates
    that may leave it themselves, those of ips and dr, keep theirs.
    """
    found = {}
    in_unit = {one.label for one in metrics if one.value_range == (0.0, 1.0)}
    for key, one in estimates.items():
        low, high = normal_interval(one.value, one.standard_error, confidence_level=confidence_level)
        if key[1] in in_unit and not can_exceed_range(key[2]):
            low, high = within_unit(one.value, low, high)
        found[key] = Interval(one.standard_error, low, high)
    return found


def bootstrap_intervals(
    estimates: Mapping[Key, Estimate],
    *,
    method: IntervalMethod,
    confidence_level: float,
    n_resamples: int,
    rng: RngLike,
) -> dict[Key, Interval]:
    """Return bootstrap intervals over users of every estimate; NaN where the estimate is undefined."""
    # Of one user there is no other resample, and no jackknife for BCa.
    defined = {
        key: one.user_sums
        for key, one in estimates.items()
        if one.sums.n_users > 1 and not np.isnan(one.value)
    }
    found = dict.fromkeys(estimates, UNDEFINED)
    if defined:
        result = bootstrap(defined, n_resamples=n_resamples, rng=rng)
        errors = {key: estimates[key].standard_error for key in defined}
        found |= {key: _interval(result, key, errors[key], method, confidence_level) for key in defined}
    return found


def refit_intervals(
    estimates: Mapping[Key, Estimate],
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    *,
    refit: Refit,
    method: IntervalMethod,
    confidence_level: float,
    n_resamples: int,
    rng: RngLike,
) -> dict[Key, Interval]:
    """Return bootstrap intervals, and errors, with the propensity fitted anew in each resample."""
    result = bootstrap_refit(samples, metrics, estimators, refit=refit, n_resamples=n_resamples, rng=rng)
    found, said = dict.fromkeys(estimates, UNDEFINED), "propensity refitted"
    for key in (key for key, one in estimates.items() if not np.isnan(one.value)):
        found[key] = _interval(result, key, result.standard_error(key), method, confidence_level, said)
    return found


def _interval(
    result: Bootstrap, key: Key, error: float, method: IntervalMethod, level: float, said: str = ""
) -> Interval:
    low, high = result.interval(key, confidence_level=level, method=method)
    notes = [said] if said else []
    n_undefined = result.n_undefined(key)
    if n_undefined:
        notes.append(f"undefined in {n_undefined:,} of {result.replicates.shape[0]:,} resamples, left out")
    n, least = result.replicates.shape[0], math.ceil(2 / (1 - level) - 1e-9) - 1
    if n < least:  # the ends lie beyond the lowest and the highest of so few
        needs = f"a {level * 100:.4g}% interval, which needs at least {least:,}"
        notes.append(f"{counted(n, 'resample')}: too few for {needs}")
    if np.isnan(low):
        notes.append(f"no {method} interval: resamples lie on one side of the estimate")
    return Interval(error, low, high, "; ".join(notes))
