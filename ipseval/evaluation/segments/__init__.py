"""Segments: an evaluation in groups of users or items, and where a difference comes from."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.evaluation.segments._built_in import BUILT_IN
from ipseval.evaluation.segments._decomposition import Decomposition
from ipseval.evaluation.segments._groups import Grouping, Groups, TrainingCounts, item_groups, user_groups
from ipseval.evaluation.segments._segments import SegmentCell, Segments

__all__ = [
    "BUILT_IN",
    "Decomposition",
    "Grouping",
    "Groups",
    "SegmentCell",
    "Segments",
    "TrainingCounts",
    "item_groups",
    "user_groups",
]

guard(__name__)
