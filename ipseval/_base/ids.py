"""Ids of one type, matched by value and never by position; their codes; sets of keys, sorted not hashed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval._base.checks import examples, only_numbered, refuse_masked
from ipseval._base.types import AnyArray, BoolArray, IntArray
from ipseval.errors import InputError

EXACT = 2**53  # from here on doubles cannot tell whole numbers apart
_COLUMNS = ("user", "item", "movie", "product", "book", "song", "artist", "track", "customer", "visitor")
_NAMES = [f"{stem}{ending}" for stem in _COLUMNS for ending in ("", "id", "_id", "-id", " id", ".id", "Id")]
HEADERS = {"uid", "iid", "asin", "msno", "itemID", "userID", *_NAMES}
HEADERS |= {name.upper() for name in HEADERS} | {name[0].upper() + name[1:] for name in HEADERS}


def as_ids(values: Any, name: str, *, complete: bool = False) -> AnyArray:
    """Return ids as a one-dimensional array of one type, without missing ones (none if `complete`)."""
    # Python numbers in an array of objects become a plain array, and dates with a time zone dates in UTC.
    refuse_masked(values, name)
    try:
        # NumPy alone would make text of a list that holds numbers and text.
        known = isinstance(values, (list, tuple))
        array = pd.Series(values, dtype=object).to_numpy() if known else np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a sequence of ids; got {type(values).__name__}.") from None
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if array.ndim != 1:
        raise InputError(f"{name} must be a non-empty one-dimensional sequence; got shape {array.shape}.")
    if array.dtype.kind not in "iufbMmOUS":
        raise InputError(f"{name} must hold numbers, text or dates as ids; got {array.dtype}.")
    n_missing = 0 if complete else int(pd.isna(array).sum())
    if n_missing:
        raise InputError(f"{name} holds {n_missing} missing ids.")
    return _plain(array.astype(object, copy=False), name) if array.dtype.kind in "OUS" else array


def _plain(array: AnyArray, name: str) -> AnyArray:
    """Return an array of objects as a plain one, where all its entries are numbers or dates of one type."""
    if array.size and getattr(array[0], "tzinfo", None) is not None:
        return np.asarray(pd.to_datetime(array, utc=True).tz_localize(None))
    kind = pd.api.types.infer_dtype(array, skipna=False)
    # Before anything is hashed: 1, 1.0 and True are one and the same to a hash table.
    if kind.startswith("mixed") and len({type(value) for value in array}) > 1:
        raise mixed(array, name)
    if kind == "integer":
        low, high = min(array), max(array)
        if low >= -(2**63) and high < 2**63:
            return array.astype(np.int64)
        return array.astype(np.uint64) if low >= 0 and high < 2**64 else array
    return array.astype({"floating": np.float64, "boolean": np.bool_}.get(kind, object), copy=False)


def mixed(values: Iterable[object], name: str) -> InputError:
    """Return the error for ids of several types, or of one that cannot be an id."""
    kinds = sorted({type(value).__name__ for value in values})
    if len(kinds) == 1:
        return InputError(f"{name} holds values of type {kinds[0]}, which cannot be ids.")
    hint = " Its first row looks like a header." if next(iter(values)) in HEADERS else ""
    return InputError(f"{name} mixes ids of types {', '.join(kinds)}; convert them to one type.{hint}")


def to_id_array(ids: Any, name: str) -> AnyArray:
    """Return ids as a one-dimensional array after checking that none is missing or repeated."""
    array = as_ids(ids, name)
    if array.size == 0:
        raise InputError(f"{name} must be a non-empty one-dimensional sequence; got shape {array.shape}.")
    try:
        n_repeated = array.size - pd.unique(array).size
    except TypeError:
        raise mixed(array, name) from None
    if n_repeated:
        raise InputError(f"{name} repeats {n_repeated} ids; each id may occur once.")
    return array


def of_one_type(arrays: list[AnyArray], name: str) -> list[AnyArray]:
    """Return arrays of ids in one type in which equal ids are equal and different ones differ."""
    filled = [array for array in arrays if array.size]
    kinds = {_kind(array) for array in filled}
    dtypes = {array.dtype for array in filled}
    if len(dtypes) <= 1 and len(kinds) <= 1:
        return arrays
    common: Any = None
    if kinds <= {"i", "u"}:
        fits = max(int(array.max()) for array in filled) < 2**63
        common = np.int64 if fits else np.uint64 if min(int(array.min()) for array in filled) >= 0 else None
    elif kinds <= {"i", "u", "f"}:
        exact = all((np.abs(array.astype(np.float64)) < EXACT).all() for array in filled)
        whole = all((array == np.floor(array)).all() for array in filled)
        common = (np.int64 if whole else np.float64) if exact else None
    elif kinds == {"M"}:
        common = np.result_type(*dtypes)
        if any((array.astype(common).astype(array.dtype) != array).any() for array in filled):
            common = None
    if common is None:
        shown = "; ".join(f"{array.dtype}: {examples(array)}" for array in filled)
        why = f" From {EXACT} on, doubles cannot tell whole numbers apart." if kinds <= {*"iuf"} else ""
        raise InputError(f"{name} has ids of different types ({shown}); convert them to one type.{why}")
    return [array.astype(common) for array in arrays]


def _kind(array: AnyArray) -> str:
    """Return what decides whether ids can be equal: the kind of the dtype, or of the objects in it."""
    return array.dtype.kind if array.dtype != object else pd.api.types.infer_dtype(array, skipna=False)


def places(labels: AnyArray, ids: AnyArray, name: str, *, strict: bool = True) -> IntArray:
    """Return the position in `ids` of each label, −1 where it is none of them."""
    if not strict and len({"n" if _kind(one) in {*"iuf"} else _kind(one) for one in (labels, ids)}) > 1:
        return np.full(labels.size, -1)
    wanted, known = of_one_type([labels, ids], name)
    index = pd.Index(known, dtype=known.dtype, tupleize_cols=False)
    return index.get_indexer(pd.Index(wanted, dtype=wanted.dtype, tupleize_cols=False)).astype(np.int64)


def by_label(values: Any, ids: AnyArray, name: str, *, axis: Literal[0, 1] = 0) -> Any:
    """Return a pandas Series with ids as labels in the order of `ids`, NaN where it has none."""
    # Of a frame, rows (or columns, axis 1) are brought in that order. What has no labels is in it already. So
    # is what pandas only numbers 0, 1, 2, …, unless these numbers are the ids.
    if not isinstance(values, (pd.Series, pd.DataFrame)):
        return values
    labels = values.axes[axis]
    numbered = only_numbered(labels)
    if numbered and (ids.dtype.kind not in "iuf" or len(labels) != ids.size):
        return values
    if not labels.is_unique:
        raise InputError(f"the labels of {name} repeat ids; each may occur once.")
    where = places(as_ids(labels, f"the labels of {name}"), ids, f"the labels of {name}")
    unknown = labels[where < 0]
    if len(unknown) and numbered:
        return values
    if len(unknown):
        raise InputError(
            f"{len(unknown)} of {len(labels)} labels of {name} are no ids of the split ({examples(unknown)}; "
            f"its ids start with {examples(ids)}). Values in the order of the ids need no labels: to_numpy()."
        )
    if isinstance(values, pd.DataFrame):
        return values.set_axis(where, axis=axis).reindex(range(ids.size), axis=axis)
    return values.set_axis(where).reindex(range(ids.size)).to_numpy()


def by_row(values: Any, name: str, like: Any = None) -> Any:
    """Return a pandas Series in the order of the rows that it goes with, those of `like` or 0, 1, 2, …."""
    if not isinstance(values, pd.Series):
        return values
    rows = getattr(like, "index", like)
    rows = rows if isinstance(rows, pd.Index) else pd.RangeIndex(len(values))
    if values.index.equals(rows) or len(values) != len(rows):  # of another length: refused elsewhere
        return values
    if values.index.is_unique and rows.is_unique:
        order = values.index.get_indexer(rows)
        if (order >= 0).all():
            return values.iloc[order]
    if only_numbered(values.index) or (only_numbered(rows) and values.index.is_monotonic_increasing):
        return values
    raise InputError(
        f"{name} goes with rows by position, but its labels are others than those of the rows "
        f"({examples(values.index)} and {examples(rows)}). Bring it in their order, then pass .to_numpy()."
    )


def refuse_header(codes: IntArray, ids: AnyArray, name: str) -> None:
    """Raise `InputError` when one id is the usual name of a column and all others are numbers."""
    what = header_among(codes, ids, name)
    if what:
        raise InputError(f"{what}. Read the file with its header, or without that row.")


def header_among(codes: IntArray, ids: AnyArray, name: str) -> str:
    """Return in words which id is the usual name of a column, where all others are numbers; "" for none."""
    if ids.dtype != object or ids.size < 2 or not isinstance(ids[0], str):
        return ""
    is_name = pd.Index(ids, dtype=object).isin(HEADERS)
    if is_name.sum() != 1 or not pd.to_numeric(pd.Series(ids[~is_name]), errors="coerce").notna().all():
        return ""
    row = int(np.flatnonzero(codes == np.flatnonzero(is_name)[0])[0])
    what = f"row {row} of {name} looks like a header: it is {ids[is_name][0]!r}"
    return f"{what}, and the other {ids.size - 1:,} ids are numbers"


DENSE = 8  # whole numbers that lie this close are coded by a table instead of a hash


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids."""

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


def distinct(keys: IntArray) -> IntArray:
    """Return the different keys, ascending."""
    ordered = np.sort(keys)
    return ordered[_first(ordered)]


def union(one: IntArray, other: IntArray) -> IntArray:
    """Return the keys of either, ascending and each once."""
    return distinct(np.concatenate([one, other]))


def among(keys: IntArray, others: IntArray) -> BoolArray:
    """Return which keys are among the others, (n_keys,); neither needs to be sorted or free of repeats."""
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
    """Return how many entries of the same group score higher than, and tie with, each entry, (n,) each."""
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
    """Return `np.lexsort((value, group))` of whole numbers >= 0: by group, then value, then place."""
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
