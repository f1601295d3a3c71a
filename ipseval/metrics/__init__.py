"""Ranking metrics: from ranks of held-out positives to one number per user."""

from __future__ import annotations

from ipseval.metrics.additive import AdditiveMetric
from ipseval.metrics.base import Definition, Metric, Parameter
from ipseval.metrics.labels import METRICS, metric
from ipseval.utils.public import explain_missing_names

__all__ = ["METRICS", "AdditiveMetric", "Definition", "Metric", "Parameter", "metric"]

__getattr__ = explain_missing_names(__name__)
