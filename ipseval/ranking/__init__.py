"""Ranking: the rank of every held-out positive among the candidates of its user."""

from __future__ import annotations

import lazy_loader

from ipseval.ranking._sampled_candidates import SampledCandidates
from ipseval.ranking.exact_ranks import rank_positives, top_items
from ipseval.ranking.ranked_positives import RankedPositives

__all__ = [
    "RankedPositives",
    "SampledCandidates",
    "rank_positives",
    "top_items",
]
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["adapters", "baselines"])
