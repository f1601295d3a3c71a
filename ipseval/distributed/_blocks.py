"""Blocks: the rows of one partition as bytes, which an engine shuffles as a single row.

Engines shuffle rows one by one, and lists entry by entry. Here the rows of a frame that go to one partition
become one block, in which whole numbers have the smallest type that holds them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ipseval.distributed.sorted_pairs import ListArrays
from ipseval.utils.types import AnyArray, IntArray

ORDER_COLUMNS = ("rank", "score")

# The types of the columns before they were packed, and the packed columns.
Block: TypeAlias = tuple[dict[str, Any], dict[str, AnyArray]]


def pack_blocks(
    rows: pd.DataFrame | ListArrays, target: IntArray, n_partitions: int
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the block of each partition: its number, the index of one of its rows, and its rows as bytes.

    Parameters
    ----------
    rows : frame with user, item and perhaps rank or score, or with user, items; or ListArrays
        One row, or list, for each entry of `target`.
    target : (n_rows,) int array
        The partition that a row goes to.
    """
    if isinstance(rows, pd.DataFrame) and "items" in rows.columns:
        rows = ListArrays.from_frame(rows)
    if not target.size:
        return
    key_type: Any = np.min_scalar_type(n_partitions)  # numbers of 16 bits are sorted by counting
    order = np.argsort(target.astype(key_type), kind="stable")
    ends = np.cumsum(np.bincount(target, minlength=n_partitions))
    if isinstance(rows, ListArrays):
        size = rows.size[order]
        columns = {"user": _shrink_type(rows.user)[order], "size": _shrink_type(size)}
        entries = _reorder_entries(_shrink_type(rows.item), rows.size, order)
        entry_bounds = np.append(0, np.cumsum(size))
        types = {"user": rows.user.dtype, "size": rows.size.dtype, "item": rows.item.dtype}
    else:
        columns = {}
        types = {}
        for name in ("user", "item", *ORDER_COLUMNS):
            if name in rows.columns:
                column = rows[name].to_numpy()
                columns[name] = _shrink_type(column)[order]
                types[name] = column.dtype

    for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        end = int(ends[number])
        start = 0
        if number:
            start = int(ends[number - 1])
        block = {name: column[start:end] for name, column in columns.items()}
        if isinstance(rows, ListArrays):
            block["item"] = entries[entry_bounds[start] : entry_bounds[end]]
        yield number, int(order[start]), pickle.dumps((types, block), protocol=5)


def unpack_blocks(packed_blocks: Iterable[bytes]) -> pd.DataFrame | ListArrays:
    """Return the rows of the blocks of one frame, in their order; without blocks, a frame without rows."""
    # The blocks were pickled by the workers of this job.
    blocks: list[Block] = [pickle.loads(packed) for packed in packed_blocks]  # nosec B301
    if not blocks:
        return pd.DataFrame({"user": [], "item": []})
    names = list(blocks[0][0])
    columns = {}
    for name in names:
        columns[name] = _join_column(blocks, name)

    if "size" in columns:
        return ListArrays(**columns)
    return pd.DataFrame(columns, copy=False)


def _join_column(blocks: list[Block], name: str) -> AnyArray:
    """Return one column of all blocks, with the type that it had in the frame."""
    arrays = []
    types = []
    for block_types, columns in blocks:
        if columns[name].size:
            arrays.append(columns[name])
            types.append(block_types[name])

    if not arrays:
        first_types, first_columns = blocks[0]
        arrays = [first_columns[name]]
        types = [first_types[name]]
    if all(column_type == types[0] for column_type in types):
        return np.concatenate(arrays, dtype=types[0])
    converted_arrays = []
    for array, dtype in zip(arrays, types, strict=True):
        converted_arrays.append(array.astype(dtype))

    return np.concatenate(converted_arrays)


def _shrink_type(column: AnyArray) -> AnyArray:
    """Return non-negative whole numbers with the smallest type that holds them; other columns unchanged."""
    if column.dtype.kind not in "iu" or not column.size or int(column.min()) < 0:
        return column
    return column.astype(np.min_scalar_type(int(column.max())))


def _reorder_entries(entries: AnyArray, size: IntArray, order: IntArray) -> AnyArray:
    """Return the concatenated entries of lists, after the lists are put into another order."""
    if (size == size[0]).all():
        return entries.reshape(size.size, int(size[0]))[order].ravel()
    starts = np.cumsum(size) - size
    new_sizes = size[order]
    new_starts = np.cumsum(new_sizes) - new_sizes
    shifts = starts[order] - new_starts
    return entries[np.repeat(shifts, new_sizes) + np.arange(entries.size)]
