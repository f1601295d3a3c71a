"""Sampled ranking: what it does to a metric, and how much of it can be undone."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.metrics.sampled._correct import SampledEstimate, correct_sampled
from ipseval.metrics.sampled._expected import expected_sampled, rank_curves, std_sampled
from ipseval.metrics.sampled._metric import SampledMetric

__all__ = [
    "SampledEstimate",
    "SampledMetric",
    "correct_sampled",
    "expected_sampled",
    "rank_curves",
    "std_sampled",
]

guard(__name__)
