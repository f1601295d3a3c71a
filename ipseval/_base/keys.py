"""Sets of whole numbers, such as keys of pairs: sorted and never hashed, which takes many times as long."""

from __future__ import annotations

import numpy as np

from ipseval._base.types import AnyArray, BoolArray, IntArray


def distinct(keys: IntArray) -> IntArray:
    """Return the different keys, ascending.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ordered = np.sort(keys)
    return ordered[_first(ordered)]


def union(one: IntArray, other: IntArray) -> IntArray:
    """Return the keys of either, ascending and each once."""
    return distinct(np.concatenate([one, other]))


def among(keys: IntArray, others: IntArray) -> BoolArray:
    """Return which keys are among the others, (n_keys,); neither needs to be sorted or free of repeats.

    Examples
    --------
    >>> among(np.array([5, 2, 5, 9]), np.array([5, 7]))
    array([ True, False,  True, False])
    """
    if not keys.size or not others.size:
        return np.zeros(keys.size, dtype=bool)
    ordered = others if _is_sorted(others) else np.sort(others)
    if _is_sorted(keys):
        return _in_sorted(keys, ordered)
    # In ascending order the search stays in cache.
    order = np.argsort(keys)
    found = np.empty(keys.size, dtype=bool)
    found[order] = _in_sorted(keys[order], ordered)
    return found


def ranks_within_group(group: IntArray, score: AnyArray) -> tuple[IntArray, IntArray]:
    """Return how many entries of the same group score higher than, and tie with, each entry, (n,) each.

    Groups in any order; scores of any real type, without NaN, the higher the better.

    Examples
    --------
    >>> ranks_within_group(np.array([0, 0, 0, 1]), np.array([2.0, 5.0, 2.0, 1.0]))
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


def grouped_order(group: IntArray, value: IntArray) -> IntArray:
    """Return `np.lexsort((value, group))` of whole numbers >= 0: by group, then value, then place.

    Group, value and place are sorted as one number where they fit, many times as fast.

    Examples
    --------
    >>> grouped_order(np.array([1, 0, 0]), np.array([5, 7, 6]))
    array([2, 1, 0])
    """
    n_values, bits = int(value.max(initial=0)) + 1, group.size.bit_length()
    if (int(group.max(initial=0)) + 1) * n_values << bits > np.iinfo(np.int64).max:
        return np.lexsort((value, group))
    key = (group * np.int64(n_values) + value << bits) + np.arange(group.size)
    key.sort()
    return np.asarray(key & (1 << bits) - 1)


def _in_sorted(keys: IntArray, ordered: IntArray) -> BoolArray:
    place = np.searchsorted(ordered, keys)
    place[place == ordered.size] = 0
    return np.asarray(ordered[place] == keys)


def _is_sorted(keys: IntArray) -> bool:
    return bool((keys[1:] >= keys[:-1]).all())


def _first(ordered: IntArray) -> BoolArray:
    first = np.ones(ordered.size, dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return first
