"""The interval of every estimate of an evaluation, by whichever method was asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from ipseval._base.checks import counted
from ipseval._base.types import IntervalMethod, RngLike
from ipseval.estimators import Estimate, Estimator, Sample
from ipseval.inference._intervals import Bootstrap, Key, bootstrap, normal_interval
from ipseval.inference._refit import Refit, bootstrap_refit
from ipseval.metrics import Metric


@dataclass(frozen=True)
class Interval:
    """What stands beside an estimate: its standard error, the bounds, and what a reader must know of them."""

    std_error: float
    low: float
    high: float
    note: str = ""


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
        bounded = key[1] in in_unit and not key[2].startswith(("ips", "dr"))
        if bounded and 0 < one.value < 1 and (low < 0 or high > 1):
            error = one.standard_error / (one.value * (1 - one.value))
            bounds = normal_interval(float(logit(one.value)), error, confidence_level=confidence_level)
            low, high = map(float, expit(bounds))
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
    found = dict.fromkeys(estimates, Interval(float("nan"), float("nan"), float("nan")))
    if not defined:
        return found
    result = bootstrap(defined, n_resamples=n_resamples, rng=rng)
    for key in defined:
        error = estimates[key].standard_error
        found[key] = _interval(result, key, error, method, confidence_level)
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
    found = {}
    for key, one in estimates.items():
        if np.isnan(one.value):
            found[key] = Interval(float("nan"), float("nan"), float("nan"))
        else:
            error = result.standard_error(key)
            found[key] = _interval(result, key, error, method, confidence_level, "propensity refitted")
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
        needs = f"a {level * 100:.4g} % interval, which needs at least {least:,}"
        notes.append(f"{counted(n, 'resample')}: too few for {needs}")
    if np.isnan(low):
        notes.append(f"no {method} interval: resamples lie on one side of the estimate")
    return Interval(error, low, high, "; ".join(notes))
