"""Splits: which interactions train, which are held out, over one universe of ids."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.data.splits._base import Split
from ipseval.data.splits._core import k_core
from ipseval.data.splits._per_user import repeated_splits, split_leave_one_out, split_random, split_temporal
from ipseval.data.splits._time import SlidingSplits, split_global_time, split_sliding

__all__ = [
    "SlidingSplits",
    "Split",
    "k_core",
    "repeated_splits",
    "split_global_time",
    "split_leave_one_out",
    "split_random",
    "split_sliding",
    "split_temporal",
]

guard(__name__)
