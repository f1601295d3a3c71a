"""Ranking: the rank of every held-out positive among the candidates of its user."""

from __future__ import annotations

from ipseval.ranking._rank_positives import rank_positives, top_items
from ipseval.ranking._sampled_candidates import SampledCandidates
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.utils import lazy
from ipseval.utils.border import guard

__all__ = [
    "RankedPositives",
    "SampledCandidates",
    "rank_positives",
    "top_items",
]
__getattr__ = lazy(__name__, {"adapters": "", "baselines": ""})

guard(__name__)
