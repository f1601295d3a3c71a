"""What was read, left out and added: one line for each thing that was counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

COLUMNS = ("subject", "what", "count", "of")
RESULT = "evaluation"  # the subject of counts that are of all recommenders together


@dataclass(frozen=True)
class Count:
    """One thing that was counted while data were read, split or ranked."""

    what: str
    count: int
    of: int | None = None
    subject: str = ""

    def about(self, subject: str) -> Count:
        """Return the same count, said of `subject`."""
        return replace(self, subject=subject)


def some(*counts: Count) -> tuple[Count, ...]:
    """Return those counts that are not 0."""
    return tuple(one for one in counts if one.count)


def added(first: Iterable[Count], second: Iterable[Count]) -> tuple[Count, ...]:
    """Return the counts of two disjoint parts together, in the order in which they are first met."""
    found: dict[tuple[str, str], Count] = {}
    for one in (*first, *second):
        key = one.subject, one.what
        if key in found:
            known = found[key]
            whole = None if known.of is None or one.of is None else known.of + one.of
            found[key] = replace(known, count=known.count + one.count, of=whole)
        else:
            found[key] = one
    return tuple(found.values())


def counts_frame(counts: Iterable[Count]) -> pd.DataFrame:
    """Return one row per count: subject, what, count, and of, which is NA where there is no whole."""
    every = list(counts)
    frame = pd.DataFrame([(one.subject, one.what) for one in every], columns=list(COLUMNS[:2]))
    frame["count"] = np.array([one.count for one in every], dtype=np.int64)
    frame["of"] = pd.array([one.of for one in every], dtype="Int64")
    return frame
