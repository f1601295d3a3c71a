"""Ranking metrics: from ranks of held-out positives to one number per user."""

from __future__ import annotations

from ipseval.metrics._additive import AdditiveMetric, Atop
from ipseval.metrics._auc import Auc
from ipseval.metrics._base import Definition, Metric
from ipseval.metrics._compat import CompatMetric
from ipseval.metrics._conventions import CONVENTIONS
from ipseval.metrics._labels import METRICS, metric
from ipseval.metrics._list import Hit, ReciprocalRank
from ipseval.metrics._ndcg import Ndcg
from ipseval.metrics._pairwise import AveragePrecision
from ipseval.metrics._ratings import RATING_METRICS, RatingMetric, rating_metric

__all__ = [
    "CONVENTIONS",
    "METRICS",
    "RATING_METRICS",
    "AdditiveMetric",
    "Atop",
    "Auc",
    "AveragePrecision",
    "CompatMetric",
    "Definition",
    "Hit",
    "Metric",
    "Ndcg",
    "RatingMetric",
    "ReciprocalRank",
    "metric",
    "rating_metric",
]
