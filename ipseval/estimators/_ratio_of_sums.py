"""Estimates of metrics that divide a sum over users by another one, as propensity-scored precision does."""

from __future__ import annotations

import numpy as np

from ipseval.estimators._linear_form import Parts
from ipseval.estimators.sample import Sample
from ipseval.estimators.user_sums import UserSums
from ipseval.metrics import Metric
from ipseval.utils.types import FloatArray


def compute_ratio_sums(sample: Sample, metric: Metric, weights: FloatArray | None) -> UserSums:
    """Return N_u and D_u of the metric itself; the estimate is Σ_u N_u / Σ_u D_u."""
    sums = metric.ratio_sums(sample.ranks_of(metric), weights, ties=sample.ties)
    assert sums is not None
    numerator, denominator = sums
    return UserSums.from_values(sample.ranked.users, numerator, denominator)


def compute_ratio_parts(sample: Sample, metric: Metric, weights: FloatArray | None) -> Parts | None:
    """Return the estimate as Σ a c / Σ a with a = w D_u / Σ_{i∈S*_u} w and c the contribution to N_u / D_u."""
    ranked = sample.ranks_of(metric)
    sums = metric.ratio_sums(ranked, weights, ties=sample.ties)
    contributions = metric.weighted_contributions(ranked, weights, ties=sample.ties)
    if sums is None or contributions is None:
        return None
    _, denominator = sums
    if weights is None:
        weights = np.ones(len(ranked))
    scale = denominator / ranked.sum_by_user(weights)
    return Parts(weights * scale[ranked.segment], contributions)
