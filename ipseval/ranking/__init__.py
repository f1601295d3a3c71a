"""Ranking: the place of every held-out positive among its user's candidates."""

from __future__ import annotations

from ipseval.ranking._exact import rank_positives
from ipseval.ranking._ranked import RankedPositives

__all__ = ["RankedPositives", "rank_positives"]
