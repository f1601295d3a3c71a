"""The place of each entry within its group, ties counted."""

from __future__ import annotations

import numpy as np

from ipseval._types import AnyArray, IntArray


def places(group: IntArray, score: AnyArray) -> tuple[IntArray, IntArray]:
    """Return how many entries of the same group score higher than, and tie with, each entry.

    Parameters
    ----------
    group : (n,) int array
        In any order.
    score : (n,) array
        Higher is better; any real type, without NaN.

    Examples
    --------
    >>> places(np.array([0, 0, 0, 1]), np.array([2.0, 5.0, 2.0, 1.0]))
    (array([1, 0, 1, 0]), array([1, 0, 1, 0]))
    """
    order = np.lexsort((score, group))
    group, score = group[order], score[order]
    new_group = np.append(True, group[1:] != group[:-1])
    new_level = new_group | np.append(True, score[1:] != score[:-1])
    group_end = np.append(np.flatnonzero(new_group)[1:], group.size)[np.cumsum(new_group) - 1]
    level_start = np.flatnonzero(new_level)
    level = np.cumsum(new_level) - 1
    level_end = np.append(level_start[1:], group.size)
    n_above, n_tied = np.empty(group.size, np.int64), np.empty(group.size, np.int64)
    n_above[order] = group_end - level_end[level]
    n_tied[order] = (level_end - level_start)[level] - 1
    return n_above, n_tied
