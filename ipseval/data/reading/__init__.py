"""Reading of logs, recommendation lists and ids from files, data frames, queries and arrays."""

from __future__ import annotations

from ipseval.data.reading._ids import read_attributes, read_ids
from ipseval.data.reading._lists import Lists, read_lists
from ipseval.data.reading._logs import read, read_impressions
from ipseval.data.reading._rating_scale import Threshold, check_threshold
from ipseval.data.reading._record_source import are_records

__all__ = [
    "Lists",
    "Threshold",
    "are_records",
    "check_threshold",
    "read",
    "read_attributes",
    "read_ids",
    "read_impressions",
    "read_lists",
]
