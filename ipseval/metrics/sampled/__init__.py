"""Metrics of rankings among sampled candidates: their expectation, and corrections for the sampling."""

from __future__ import annotations

from ipseval.metrics.sampled._correction import SampledEstimate, correct_sampled
from ipseval.metrics.sampled._expectation import expected_sampled, rank_curves, std_sampled
from ipseval.metrics.sampled.sampled_metric import SampledMetric

__all__ = [
    "SampledEstimate",
    "SampledMetric",
    "correct_sampled",
    "expected_sampled",
    "rank_curves",
    "std_sampled",
]
