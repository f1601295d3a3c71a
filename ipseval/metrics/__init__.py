"""Ranking metrics: from ranks of held-out positives to one number per user."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.metrics._additive import AdditiveMetric
from ipseval.metrics._atop import Atop
from ipseval.metrics._auc import Auc
from ipseval.metrics._average_precision import AveragePrecision
from ipseval.metrics._base import Definition, Metric, Parameter
from ipseval.metrics._dcg import Dcg
from ipseval.metrics._hit import Hit
from ipseval.metrics._hits import Hits
from ipseval.metrics._labels import METRICS, metric
from ipseval.metrics._mean_dcg import MeanDcg
from ipseval.metrics._ndcg import Ndcg
from ipseval.metrics._precision import Precision
from ipseval.metrics._ratings import RATING_METRICS, RatingMetric, rating_metric
from ipseval.metrics._rbp import Rbp
from ipseval.metrics._recall import Recall
from ipseval.metrics._reciprocal_rank import ReciprocalRank

__all__ = [
    "METRICS",
    "RATING_METRICS",
    "AdditiveMetric",
    "Atop",
    "Auc",
    "AveragePrecision",
    "Dcg",
    "Definition",
    "Hit",
    "Hits",
    "MeanDcg",
    "Metric",
    "Ndcg",
    "Parameter",
    "Precision",
    "RatingMetric",
    "Rbp",
    "Recall",
    "ReciprocalRank",
    "metric",
    "rating_metric",
]

guard(__name__)
