"""Columns of text and of whole numbers as codes of their sorted distinct ids, by way of Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.types import AnyArray, BoolArray, IntArray

DENSE = 8  # whole numbers that lie this close are coded by a table instead of a hash


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids.

    Attributes
    ----------
    codes : (n,) int64 array
        Places in `ids`, −1 where the id is missing.
    ids : array
        The distinct ids, sorted.
    """

    codes: IntArray
    ids: AnyArray

    def __len__(self) -> int:
        return int(self.codes.size)

    @cached_property
    def missing(self) -> BoolArray:
        """Rows without an id."""
        return self.codes < 0


def of_native(column: Any) -> Ids | None:
    """Return codes of a column of pandas, polars or pyarrow; None for a type that Arrow does not code."""
    arrow = _as_arrow(column)
    return None if arrow is None else _of_arrow(arrow)


def of_text(column: Any) -> Ids | None:
    """Return codes of a column of text, however it is held; None for other types."""
    arrow = _as_arrow(column)
    if arrow is None:
        return None
    from pyarrow import types

    kind = arrow.type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return _of_arrow(arrow) if _is_text(types, kind) else None


def _as_arrow(native: Any) -> Any:
    """Return a column as an Arrow array without copying where that can be; None where it cannot."""
    if find_spec("pyarrow") is None:
        return None
    import pyarrow

    try:
        if isinstance(native, (pyarrow.ChunkedArray, pyarrow.Array)):
            return native
        if hasattr(native, "to_arrow"):
            return native.to_arrow()
        if isinstance(native, pd.Series) and not isinstance(native.dtype, np.dtype):
            return pyarrow.chunked_array([pyarrow.array(native, from_pandas=True)]) if len(native) else None
        if isinstance(native, pd.Series) and native.dtype == object:
            return pyarrow.array(native, from_pandas=True)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        pass  # several types in one column, or half a character: the slow way names them
    return None


def _of_arrow(column: Any) -> Ids | None:
    """Return codes of an Arrow column of text, dictionary or whole numbers; None for other types."""
    import pyarrow
    from pyarrow import compute, types

    kind = column.type
    if types.is_dictionary(kind) or _is_text(types, kind):
        own = not types.is_dictionary(kind)
        if own:
            column = compute.dictionary_encode(column)  # all its chunks share one dictionary
        elif isinstance(column, pyarrow.ChunkedArray):
            column = column.unify_dictionaries()
        chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
        if not chunks or not _is_text(types, chunks[0].dictionary.type):
            return None
        indices = [one.indices for one in chunks]  # of polars they are unsigned, which −1 is not
        parts = [one.cast(pyarrow.int64()).fill_null(-1) if one.null_count else one for one in indices]
        codes = np.concatenate([_numpy(one) for one in parts], dtype=np.int64)
        texts = chunks[-1].dictionary
        return _sorted(codes, texts) if own else _sorted(*_used(codes, texts))
    if types.is_integer(kind) and kind != pyarrow.uint64():
        missing = _numpy(column.is_null()) if column.null_count else None
        values = _numpy(column.fill_null(0) if column.null_count else column).astype(np.int64, copy=False)
        return of_integers(values, missing)
    return None


def _numpy(column: Any) -> AnyArray:
    array: AnyArray = column.to_numpy(zero_copy_only=False)
    return array


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _sorted(codes: IntArray, dictionary: Any) -> Ids:
    """Return codes of the sorted texts, of codes of distinct texts that all occur; −1 is missing."""
    import pyarrow
    from pyarrow import compute

    order = _numpy(compute.sort_indices(dictionary)).astype(np.int64)
    rank = np.full(order.size + 1, -1, dtype=np.int64)
    rank[order] = np.arange(order.size)
    ids = np.empty(order.size, dtype=object)
    ids[:] = dictionary.take(pyarrow.array(order)).to_pylist()
    return Ids(rank[codes], ids)


def _used(codes: IntArray, dictionary: Any) -> tuple[IntArray, Any]:
    """Return codes of the texts that occur, each once, of those of a dictionary that may hold others."""
    import pyarrow
    from pyarrow import compute

    known = compute.dictionary_encode(dictionary)  # a dictionary may repeat a text
    place = np.append(_numpy(known.indices.fill_null(-1)).astype(np.int64), -1)
    present = np.zeros(place.size, dtype=bool)
    present[codes] = True
    present[-1] = False
    used = np.zeros(len(known.dictionary) + 1, dtype=bool)
    used[place[present]] = True
    used[-1] = False
    new = np.where(used, np.cumsum(used) - 1, -1)
    return new[place[codes]], known.dictionary.take(pyarrow.array(np.flatnonzero(used)))


def of_integers(values: IntArray, missing: BoolArray | None = None) -> Ids:
    """Return codes of whole numbers: by a table where they lie close together, otherwise by a hash."""
    kept = values if missing is None else values[~missing]
    if not kept.size:
        return Ids(np.full(values.size, -1, dtype=np.int64), np.zeros(0, dtype=np.int64))
    low, high = int(kept.min()), int(kept.max())
    if high - low < DENSE * kept.size:
        shifted = kept - low if low else kept
        present = np.zeros(high - low + 1, dtype=bool)
        present[shifted] = True
        codes, ids = (np.cumsum(present) - 1).take(shifted), np.flatnonzero(present) + low
    else:
        codes, ids = pd.factorize(kept.astype(np.int64, copy=False), sort=True)
    if missing is None:
        return Ids(codes.astype(np.int64, copy=False), ids)
    every = np.full(values.size, -1, dtype=np.int64)
    every[~missing] = codes
    return Ids(every, ids)
