"""The bootstrap interval of every estimate by each method, and the bootstrap that refits the propensity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from ipseval.estimators import Estimate, Estimator, Sample
from ipseval.estimators.estimate import estimate
from ipseval.estimators.user_sums import ROUNDING_SHARE
from ipseval.inference._linear_groups import ContributionStacks, group_estimates, list_keys
from ipseval.inference.intervals import (
    UNDEFINED,
    Bootstrap,
    Interval,
    Key,
    blocks,
    bootstrap,
    draw_counts,
)
from ipseval.metrics import Metric
from ipseval.propensity import FitError, Propensity
from ipseval.utils.checks import as_generator, check_callable, check_positive_int, check_type
from ipseval.utils.notes import Note
from ipseval.utils.types import FloatArray, IntArray, IntervalMethod, RngLike, as_readonly

MOST_THREADS = 2  # that draw resamples

# Fits the propensity to a log in which user u occurs counts[u] times, (n_users,).
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
    """Return replicates of all estimates, with the propensity refitted to each resample of the users.

    Users without test positives are resampled too, because they are part of the training log. Ranks do not
    change, because the trained recommenders are evaluated. Positives whose propensity is undefined in a
    resample are excluded from it.
    """
    check_callable("refit", refit)
    check_positive_int("n_resamples", n_resamples)
    ranked = next(iter(samples.values())).ranked
    keys = list_keys(samples, metrics, estimators)
    combinations = product(samples.values(), metrics, estimators)
    estimate_values = [
        estimate(sample, metric, estimator).value for sample, metric, estimator in combinations
    ]

    contributions = ContributionStacks.from_samples(samples, metrics)
    seed = as_generator(rng).integers(2**63, size=2).tolist()
    n_users = ranked.unit_ids.size
    rows = []
    for number, size in blocks(n_resamples, n_users):
        for counts in draw_counts(n_users, size, seed, number):
            propensity = refit(counts.astype(np.int64))
            check_type("what refit returns", propensity, Propensity)
            propensity.check_ids(ranked)
            values = propensity.for_pairs(ranked.user, ranked.item)
            refitted_samples = _replace_propensity(samples, values, propensity.is_probability)
            # Contributions can be reused only where the sample keeps all positives.
            keeps_positives = not np.isnan(values).any()
            row = _compute_replicate(
                refitted_samples,
                metrics,
                estimators,
                contributions if keeps_positives else None,
                counts,
            )
            rows.append([row[key] for key in keys])
    return Bootstrap(
        keys=tuple(keys),
        values=as_readonly(np.array(estimate_values)),
        replicates=as_readonly(np.array(rows)),
        acceleration=as_readonly(np.full(len(keys), np.nan)),
    )


def _replace_propensity(
    samples: Mapping[str, Sample], values: FloatArray, is_probability: bool
) -> dict[str, Sample]:
    """Return the samples with another propensity of each positive, (n_pos,)."""
    replaced_samples: dict[str, Sample] = {}
    for model, sample in samples.items():
        replaced_samples[model] = sample.under(values, is_probability)

    return replaced_samples


def _compute_replicate(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    contributions: ContributionStacks | None,
    counts: FloatArray,
) -> dict[Key, float]:
    """Return all estimates with user u counting `counts[u]` times, reusing `contributions` if passed."""
    sample = next(iter(samples.values()))
    ranked = sample.ranked
    if not counts[ranked.unit(ranked.user)].any():
        return dict.fromkeys(list_keys(samples, metrics, estimators), float("nan"))
    linear, nonlinear = group_estimates(samples, metrics, estimators, contributions)
    replicate: dict[Key, float] = {}
    user_counts = counts[ranked.unit(ranked.users)]
    for group in linear:
        values = group.form.coefficients(sample.weights, user_counts) @ group.contributions
        replicate.update(zip(group.keys, values.tolist(), strict=True))
    for model, metric, estimator in nonlinear:
        sample = samples[model]
        sums = estimator.sums(sample, metric).by_cluster(sample.ranked.cluster)
        replicate[model, metric.label, estimator.label] = sums.resampled(counts).value()
    return replicate


def compute_propensity_influences(
    samples: Mapping[str, Sample], metrics: Sequence[Metric], estimators: Sequence[Estimator], error: FitError
) -> dict[Key, FloatArray]:
    """Return (recommender, metric, estimator) -> influence of each user through the weights, (n_users,).

    With a_j half the difference of the estimates for weights one standard error up and down axis j of the
    fit, the influence of user u is Σ_j z_uj a_j. Each axis needs two estimates, whatever the estimator.
    Estimators without weights are omitted. A difference within rounding counts as 0.
    """
    weighted_estimators = []
    for estimator in estimators:
        if estimator.weighted:
            weighted_estimators.append(estimator)

    if not weighted_estimators:
        return {}
    sample = next(iter(samples.values()))
    assert sample.propensity is not None
    contributions = ContributionStacks.from_samples(samples, metrics)
    user_counts = np.ones(sample.ranked.unit_ids.size)

    def compute_at(propensity: FloatArray) -> dict[Key, float]:
        """Return the estimates of the weighted estimators with another propensity."""
        moved_samples = _replace_propensity(samples, propensity, sample.is_probability)
        return _compute_replicate(moved_samples, metrics, weighted_estimators, contributions, user_counts)

    half_differences: dict[Key, list[float]] = {}
    for log_change in error.change(sample.ranked.user, sample.ranked.item).T:
        upper_estimates = compute_at(sample.propensity * np.exp(log_change))
        lower_estimates = compute_at(sample.propensity * np.exp(-log_change))
        for key, upper in upper_estimates.items():
            lower = lower_estimates[key]
            half_difference = (upper - lower) / 2
            if abs(upper - lower) <= ROUNDING_SHARE * max(abs(upper), abs(lower)):
                half_difference = 0.0
            half_differences.setdefault(key, []).append(half_difference)
    influences: dict[Key, FloatArray] = {}
    for key, values in half_differences.items():
        influences[key] = np.asarray(error.users @ np.array(values))

    return influences


def compute_bootstrap_intervals(
    estimates: Mapping[Key, Estimate],
    *,
    method: IntervalMethod,
    confidence_level: float,
    n_resamples: int,
    rng: RngLike,
    n_threads: int,
) -> dict[Key, Interval]:
    """Return bootstrap intervals over users of every estimate; NaN where the estimate is undefined.

    At most two threads are used, and not more than `n_threads`.
    """
    sums = {}
    for key, result in estimates.items():
        # A single user has no other resample, and no jackknife for BCa.
        if result.sums.n_users > 1 and not np.isnan(result.value):
            sums[key] = result.user_sums
    intervals = dict.fromkeys(estimates, UNDEFINED)
    if not sums:
        return intervals
    replicates = bootstrap(sums, n_resamples=n_resamples, rng=rng, n_threads=min(n_threads, MOST_THREADS))
    for key in sums:
        intervals[key] = _build_interval(
            replicates,
            key,
            estimates[key].standard_error,
            method=method,
            confidence_level=confidence_level,
        )
    return intervals


def compute_refit_intervals(
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
    """Return bootstrap intervals and standard errors, with the propensity refitted in each resample."""
    replicates = bootstrap_refit(samples, metrics, estimators, refit=refit, n_resamples=n_resamples, rng=rng)
    intervals = dict.fromkeys(estimates, UNDEFINED)
    for key, result in estimates.items():
        if not np.isnan(result.value):
            intervals[key] = _build_interval(
                replicates,
                key,
                replicates.standard_error(key),
                method=method,
                confidence_level=confidence_level,
                notes=(Note.create("propensity_refitted"),),
            )
    return intervals


def _build_interval(
    replicates: Bootstrap,
    key: Key,
    error: float,
    *,
    method: IntervalMethod,
    confidence_level: float,
    notes: tuple[Note, ...] = (),
) -> Interval:
    """Return the bootstrap interval of one estimate, with notes on undefined or too few resamples."""
    low, high = replicates.interval(key, confidence_level=confidence_level, method=method)
    interval_notes = list(notes)
    n_resamples = replicates.replicates.shape[0]
    n_undefined = replicates.n_undefined(key)
    if n_undefined:
        interval_notes.append(Note.create("undefined_resamples", n=n_undefined, n_all=n_resamples))
    # With fewer resamples the ends of the interval lie beyond the lowest and the highest replicate.
    n_needed = math.ceil(2 / (1 - confidence_level) - 1e-9) - 1
    if n_resamples < n_needed:
        interval_notes.append(
            Note.create("few_resamples", n=n_resamples, n_needed=n_needed, level=confidence_level)
        )
    if np.isnan(low):
        interval_notes.append(Note.create("one_sided_resamples", method=method))
    return Interval(error, low, high, tuple(interval_notes))
