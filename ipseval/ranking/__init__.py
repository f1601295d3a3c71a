"""Ranking: the place of every held-out positive among its user's candidates."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.ranking._draws import SampledCandidates
from ipseval.ranking._exact import rank_positives, top_items
from ipseval.ranking._ranked import RankedPositives
from ipseval.ranking._sampling import Sampling

__all__ = [
    "RankedPositives",
    "SampledCandidates",
    "Sampling",
    "rank_positives",
    "top_items",
]

guard(__name__)
