"""Ranking metrics: from ranks of held-out positives to one number per user."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.metrics._additive import AdditiveMetric
from ipseval.metrics._base import Definition, Metric, Parameter
from ipseval.metrics._labels import METRICS
from ipseval.metrics.sampled._metric import metric

__all__ = ["METRICS", "AdditiveMetric", "Definition", "Metric", "Parameter", "metric"]

guard(__name__)
