"""Sampled ranking: what it does to a metric, and how much of it can be undone."""

from __future__ import annotations

from ipseval.metrics.sampled._correct import SampledEstimate, correct_sampled
from ipseval.metrics.sampled._expected import expected_sampled, rank_curves, std_sampled
from ipseval.metrics.sampled.sampled_metric import SampledMetric
from ipseval.utils.border import guard

__all__ = [
    "SampledEstimate",
    "SampledMetric",
    "correct_sampled",
    "expected_sampled",
    "rank_curves",
    "std_sampled",
]

guard(__name__)
