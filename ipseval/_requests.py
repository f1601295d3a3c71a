"""What was asked of an evaluation, checked before anything is computed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ipseval.errors import DataWarning, InputError, PropensityError
from ipseval.estimators import Estimator, Sample, resolve_estimator
from ipseval.metrics import Metric, metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives

FEW_POSITIVES = 5


def requested_metrics(metrics: Iterable[str | Metric]) -> list[Metric]:
    """Return the metrics that labels or objects name, each once."""
    return _distinct([metric(one) for one in _listed(metrics, "metrics")], "metrics")


def requested_estimators(
    estimators: Iterable[str | Estimator] | None, propensity: Propensity | None
) -> list[Estimator]:
    """Return the estimators that labels or objects name; those that need a propensity must have one."""
    if estimators is None:
        estimators = ("aoa",) if propensity is None else ("aoa", "snips", "snips-global")
    chosen = _distinct([resolve_estimator(one) for one in _listed(estimators, "estimators")], "estimators")
    weighted = [one.label for one in chosen if one.weighted]
    if weighted and propensity is None:
        raise PropensityError(
            f"{', '.join(weighted)} need a propensity; pass propensity=PowerLawPropensity(gamma=…) or "
            "another model, or ask for aoa only."
        )
    return chosen


def check_same_positives(ranks: Mapping[str, RankedPositives]) -> None:
    """Raise `InputError` unless all recommenders rank the same positives, at least one."""
    if not isinstance(ranks, Mapping) or not ranks:
        raise InputError('ranks must be a non-empty mapping {"name": RankedPositives}.')
    first_name, first = next(iter(ranks.items()))
    if not len(first):
        raise InputError("there is no positive to evaluate.")
    for name, ranked in ranks.items():
        same = len(ranked) == len(first) and np.array_equal(ranked.user, first.user)
        same = same and np.array_equal(ranked.item, first.item)
        if not (same and np.array_equal(ranked.item_ids, first.item_ids)):
            raise InputError(
                f"{name!r} ranks {len(ranked):,} positives other than the {len(first):,} of {first_name!r}; "
                "recommenders can be compared on the same positives only."
            )


def warn_about_few_positives(sample: Sample, estimators: list[Estimator]) -> None:
    """Warn when per-user snips has too few positives per user to correct anything."""
    if not any(one.label == "snips" for one in estimators):
        return
    median = float(np.median(sample.ranked.counts))
    if median < FEW_POSITIVES:
        detail = (
            "every user has one positive, so snips is identical to aoa"
            if (sample.ranked.counts == 1).all()
            else "per-user snips keeps a bias of order 1/|S*_u|"
        )
        warnings.warn(
            f"the median user has {median:g} test positive{'' if median == 1 else 's'}: {detail}. "
            "Prefer snips-global or snips-pooled.",
            DataWarning,
            stacklevel=4,
        )


def warn_about_sampling(ranked: RankedPositives, metrics: list[Metric]) -> None:
    """Warn of metrics that are read off sampled ranks as if they were ranks among all candidates."""
    if ranked.sampling is None:
        return
    # AUC on a uniform sample is unbiased; corrected metrics say themselves what they are.
    unbiased = ("auc", "atop") if ranked.sampling.uniform else ()
    plain = [
        one.label
        for one in metrics
        if not getattr(one, "corrects_sampling", False) and one.label not in unbiased
    ]
    if plain:
        n, m = int(np.median(ranked.sampling.n_candidates)), ranked.sampling.n_sampled
        warnings.warn(
            f"{', '.join(plain)}: read off lists of {m:,} candidates drawn from {n - 1:,}, not off the full "
            f"ranking; one rank there stands for about {(n - 1) / m:,.0f} here, and recommenders can change "
            "places. Rank all candidates, or correct with ipseval.sampled_metrics.sampled_metric(…).",
            DataWarning,
            stacklevel=4,
        )


def _listed(values: Any, name: str) -> list[Any]:
    listed = [values] if isinstance(values, str) else list(values)
    if not listed:
        raise InputError(f"{name} is empty; name at least one.")
    return listed


def _distinct(values: list[Any], name: str) -> list[Any]:
    labels = [value.label for value in values]
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise InputError(f"{name} repeats {', '.join(repeated)}; each label may occur once.")
    return values
