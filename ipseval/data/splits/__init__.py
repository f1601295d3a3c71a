"""Splits: which interactions train, which are held out, over one universe of ids."""

from __future__ import annotations

from ipseval.data.splits._core import k_core
from ipseval.data.splits._per_user import repeated_splits, split_leave_one_out, split_random, split_temporal
from ipseval.data.splits._time import SlidingSplits, split_global_time, split_sliding
from ipseval.data.splits.split import Split
from ipseval.utils.border import guard

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
