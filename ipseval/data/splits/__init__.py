"""Splits of a log into training, validation and test interactions over one universe of ids."""

from __future__ import annotations

from ipseval.data.splits._global_time_split import split_global_time
from ipseval.data.splits._k_core import k_core
from ipseval.data.splits._per_user_splits import (
    repeated_splits,
    split_leave_one_out,
    split_random,
    split_temporal,
)
from ipseval.data.splits._sliding_splits import SlidingSplits, split_sliding
from ipseval.data.splits.split import Split

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
