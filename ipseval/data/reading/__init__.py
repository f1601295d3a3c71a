"""Reading of logs, recommendation lists and ids from files, data frames, queries and arrays."""

from __future__ import annotations

from ipseval.data.reading._ids import read_attributes, read_ids
from ipseval.data.reading._lists import Lists, read_lists
from ipseval.data.reading._logs import read, read_impressions

__all__ = [
    "Lists",
    "read",
    "read_attributes",
    "read_ids",
    "read_impressions",
    "read_lists",
]
