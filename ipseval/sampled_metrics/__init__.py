"""Sampled ranking: what it does to a metric, and how much of it can be undone."""

from __future__ import annotations

from ipseval.sampled_metrics._correct import SampledEstimate, correct_sampled
from ipseval.sampled_metrics._corrected import CorrectedMetric, corrected_metric
from ipseval.sampled_metrics._expected import equivalent_cutoff, expected_sampled, std_sampled
from ipseval.sampled_metrics._metric import SampledMetric, sampled_metric

__all__ = [
    "CorrectedMetric",
    "SampledEstimate",
    "SampledMetric",
    "corrected_metric",
    "correct_sampled",
    "equivalent_cutoff",
    "expected_sampled",
    "sampled_metric",
    "std_sampled",
]
