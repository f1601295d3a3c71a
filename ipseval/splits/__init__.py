"""Splits: which interactions train, which are held out, over one universe of ids."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.splits._base import Split
from ipseval.splits._core import k_core
from ipseval.splits._global import split_global_time
from ipseval.splits._leakage import Leakage
from ipseval.splits._order import position_within_user
from ipseval.splits._per_user import split_leave_one_out, split_random, split_temporal
from ipseval.splits._repeated import repeated_splits
from ipseval.splits._sliding import SlidingSplits, split_sliding

__all__ = [
    "Leakage",
    "SlidingSplits",
    "Split",
    "k_core",
    "position_within_user",
    "repeated_splits",
    "split_global_time",
    "split_leave_one_out",
    "split_random",
    "split_sliding",
    "split_temporal",
]

guard(__name__)
