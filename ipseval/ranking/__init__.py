"""Ranking: the place of every held-out positive among its user's candidates."""

from __future__ import annotations

from ipseval._base import lazy
from ipseval._base.border import guard
from ipseval.ranking._exact import rank_positives, top_items
from ipseval.ranking._ranked import RankedPositives
from ipseval.ranking._sampled import SampledCandidates

__all__ = [
    "RankedPositives",
    "SampledCandidates",
    "rank_positives",
    "top_items",
]
__getattr__ = lazy(__name__, {"adapters": "", "baselines": ""})

guard(__name__)
