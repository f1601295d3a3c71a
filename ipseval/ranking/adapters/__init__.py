"""Adapters: trained models of other libraries as scorers, discovered by type.

`evaluate` and `rank_positives` call `adapt` by themselves. A library is imported only by the file that bears
its name, and only when one of its models is given.
"""

from __future__ import annotations

from ipseval.ranking.adapters._base import ModelScores
from ipseval.ranking.adapters.registry import adapt
from ipseval.utils.border import guard

__all__ = ["ModelScores", "adapt"]

guard(__name__)
