"""Segments: an evaluation in groups of users or items, and where a difference comes from."""

from __future__ import annotations

from ipseval.data.interactions import TrainingCounts
from ipseval.evaluation.segments._decomposition import Decomposition
from ipseval.evaluation.segments._groups import Groups, item_groups, user_groups
from ipseval.evaluation.segments._segments import Segments

__all__ = [
    "Decomposition",
    "Groups",
    "Segments",
    "TrainingCounts",
    "item_groups",
    "user_groups",
]
