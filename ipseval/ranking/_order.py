"""Counts of entries above others of their group, ties counted."""

from __future__ import annotations

import numpy as np

from ipseval._base.types import BoolArray, IntArray


def counted_above(group: IntArray, level: IntArray, counted: BoolArray) -> tuple[IntArray, IntArray]:
    """Return how many `counted` entries of the same group have a lower, and the same, level >= 0."""
    above, same = np.zeros(group.size, np.int64), np.zeros(group.size, np.int64)
    rows = np.flatnonzero(np.isin(group, group[counted]))  # the groups that hold any
    if rows.size:
        rows = rows[np.lexsort((level[rows], group[rows]))]
        group, level = group[rows], level[rows]
        before = np.concatenate([[0], np.cumsum(counted[rows])])
        starts_group = np.append(True, group[1:] != group[:-1])
        starts_level = np.flatnonzero(starts_group | np.append(True, level[1:] != level[:-1]))
        size = np.diff(starts_level, append=rows.size)
        in_level = np.diff(before[np.append(starts_level, rows.size)])
        first = np.maximum.accumulate(np.where(starts_group, np.arange(rows.size), 0))
        above[rows] = np.repeat(before[starts_level], size) - before[first]
        same[rows] = np.repeat(in_level, size)
    return above, same
