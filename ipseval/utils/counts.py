"""Counts of rows and interactions that were read, excluded or added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

COLUMNS = ("subject", "what", "count", "of")
RESULT = "evaluation"  # the subject of counts that are of all recommenders together


@dataclass(frozen=True)
class Count:
    """A count made while data were read, split or ranked.

    Attributes
    ----------
    label : str
        Noun phrase that names the counted rows, such as "repeated interactions".
    count : int
    total : int, optional
        Total that the count is a part of.
    subject : str
        Recommender, or part of the data, that the count belongs to.
    """

    label: str
    count: int
    total: int | None = None
    subject: str = ""

    def with_subject(self, subject: str) -> Count:
        """Return a copy of the count that belongs to `subject`."""
        return replace(self, subject=subject)


def drop_zero_counts(*counts: Count) -> tuple[Count, ...]:
    """Return the counts without those that are 0."""
    non_zero_counts = []
    for count in counts:
        if count.count:
            non_zero_counts.append(count)

    return tuple(non_zero_counts)


def merge_counts(first: Iterable[Count], second: Iterable[Count]) -> tuple[Count, ...]:
    """Return the sums of the counts of two disjoint parts, in the order of their first occurrence."""
    sums: dict[tuple[str, str], Count] = {}
    for count in (*first, *second):
        key = (count.subject, count.label)
        if key not in sums:
            sums[key] = count
            continue
        known = sums[key]
        total = None
        if known.total is not None and count.total is not None:
            total = known.total + count.total
        sums[key] = replace(known, count=known.count + count.count, total=total)
    return tuple(sums.values())


def counts_frame(counts: Iterable[Count]) -> pd.DataFrame:
    """Return one row per count with subject, what, count and of, which is NA where there is no total."""
    rows = list(counts)
    records = []
    for row in rows:
        records.append((row.subject, row.label))

    frame = pd.DataFrame(records, columns=["subject", "what"])
    frame["count"] = np.array([row.count for row in rows], dtype=np.int64)
    frame["of"] = pd.array([row.total for row in rows], dtype="Int64")
    return frame
