"""Rows on their way to the partition of their user: blocks of bytes, which an engine moves as one row each.

Engines shuffle rows one by one, and lists entry by entry. Here the rows of a frame that go to one partition
become one block, whose whole numbers have the fewest bytes that hold them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from ipseval.distributed.sorted_pairs import Arrays, arrays_of
from ipseval.utils.types import AnyArray, IntArray

ORDERS = ("rank", "score")


def dealt(
    rows: pd.DataFrame | Arrays, target: IntArray, n_partitions: int
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the block of each partition: its number, the place of one of its rows, and its rows as bytes.

    Parameters
    ----------
    rows : frame with user, item and perhaps rank or score, or with user, items; or Arrays
        One row, or list, for each entry of `target`.
    target : (n_rows,) int array
        The partition that a row goes to.
    """
    if isinstance(rows, pd.DataFrame) and "items" in rows.columns:
        rows = arrays_of(rows)
    if not target.size:
        return
    small: Any = np.min_scalar_type(n_partitions)  # numbers of 16 bits are sorted by counting
    order = np.argsort(target.astype(small), kind="stable")
    ends = np.cumsum(np.bincount(target, minlength=n_partitions))
    if isinstance(rows, Arrays):
        size = rows.size[order]
        columns = {"user": _narrow(rows.user)[order], "size": _narrow(size)}
        entries, last = _gathered(_narrow(rows.item), rows.size, order), np.append(0, np.cumsum(size))
        kinds = {"user": rows.user.dtype, "size": rows.size.dtype, "item": rows.item.dtype}
    else:
        given = {name: rows[name].to_numpy() for name in ("user", "item", *ORDERS) if name in rows.columns}
        columns = {name: _narrow(column)[order] for name, column in given.items()}
        kinds = {name: column.dtype for name, column in given.items()}
    for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        end = int(ends[number])
        start = int(ends[number - 1]) if number else 0
        part = {name: column[start:end] for name, column in columns.items()}
        if isinstance(rows, Arrays):
            part["item"] = entries[last[start] : last[end]]
        yield number, int(order[start]), pickle.dumps((kinds, part), protocol=5)


def opened(blocks: Iterable[bytes]) -> pd.DataFrame | Arrays:
    """Return the rows of some blocks of one frame, in their order; no blocks: a frame without rows."""
    # They are what our own workers packed in this job.
    found: list[tuple[dict[str, Any], dict[str, AnyArray]]] = [pickle.loads(one) for one in blocks]  # nosec B301
    if not found:
        return pd.DataFrame({"user": [], "item": []})

    def whole(name: str) -> AnyArray:
        parts = [(kinds[name], part[name]) for kinds, part in found if part[name].size] or [
            (found[0][0][name], found[0][1][name])
        ]
        first = parts[0][0]
        if all(kind == first for kind, _ in parts):
            return np.concatenate([part for _, part in parts], dtype=first)
        return np.concatenate([part.astype(kind) for kind, part in parts])

    columns = {name: whole(name) for name in found[0][0]}
    return Arrays(**columns) if "size" in columns else pd.DataFrame(columns, copy=False)


def _narrow(column: AnyArray) -> AnyArray:
    """Return whole numbers from 0 on in the fewest bytes that hold them; everything else as it is."""
    if column.dtype.kind not in "iu" or not column.size or int(column.min()) < 0:
        return column
    return column.astype(np.min_scalar_type(int(column.max())))


def _gathered(entries: AnyArray, size: IntArray, order: IntArray) -> AnyArray:
    """Return the entries of lists, end to end, in another order of the lists."""
    if (size == size[0]).all():
        return entries.reshape(size.size, int(size[0]))[order].ravel()
    first = np.cumsum(size) - size
    sizes = size[order]
    shift = first[order] - (np.cumsum(sizes) - sizes)
    return entries[np.repeat(shift, sizes) + np.arange(entries.size)]
