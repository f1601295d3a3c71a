"""Ranking metrics: from ranks of held-out positives to one number per user."""

from __future__ import annotations

from ipseval._base import lazy
from ipseval._base.border import guard
from ipseval.metrics._additive import AdditiveMetric
from ipseval.metrics._base import Definition, Metric, Parameter
from ipseval.metrics._labels import METRICS, metric

__all__ = ["METRICS", "AdditiveMetric", "Definition", "Metric", "Parameter", "metric"]
__getattr__ = lazy(__name__, dict.fromkeys(("sampled",), ""))

guard(__name__)
