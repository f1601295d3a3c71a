"""Adapters: trained models of other libraries as scorers, discovered by type.

`evaluate` and `rank_positives` call `adapt` by themselves. A library is imported only by the file that bears
its name, and only when one of its models is given.
"""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.ranking.adapters._adapt import adapt
from ipseval.ranking.adapters._base import ModelScores

__all__ = ["ModelScores", "adapt"]

guard(__name__)
