"""Sampled ranking: what it does to a metric, and how much of it can be undone."""

from __future__ import annotations

from ipseval.sampled_metrics._correct import SampledEstimate, correct_sampled
from ipseval.sampled_metrics._corrected import CorrectedMetric, corrected_metric
from ipseval.sampled_metrics._expected import equivalent_cutoff, expected_sampled, std_sampled
from ipseval.sampled_metrics._metric import SampledMetric, sampled_metric
from ipseval.sampled_metrics._study import SamplingStudy, sampling_curve, sampling_study

__all__ = [
    "CorrectedMetric",
    "SampledEstimate",
    "SampledMetric",
    "SamplingStudy",
    "corrected_metric",
    "correct_sampled",
    "equivalent_cutoff",
    "expected_sampled",
    "sampled_metric",
    "sampling_curve",
    "sampling_study",
    "std_sampled",
]
