"""Sampled ranking: what it does to a metric, and how much of it can be undone."""

from __future__ import annotations

from ipseval.sampled_metrics._corrected import CorrectedMetric, corrected_metric
from ipseval.sampled_metrics._correct import SampledEstimate, correct_sampled
from ipseval.sampled_metrics._expected import equivalent_cutoff, expected_sampled, std_sampled

__all__ = [
    "CorrectedMetric",
    "SampledEstimate",
    "correct_sampled",
    "corrected_metric",
    "equivalent_cutoff",
    "expected_sampled",
    "std_sampled",
]
