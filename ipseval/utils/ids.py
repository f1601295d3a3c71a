"""Ids of one type, matched by value and never by position; their codes; sets of keys, sorted not hashed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.checks import examples, only_numbered, refuse_masked
from ipseval.utils.types import AnyArray, BoolArray, HasIds, IntArray

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
    if array.size and all(getattr(one, "tzinfo", None) is not None for one in array):
        return np.asarray(pd.to_datetime(array, utc=True).tz_localize(None))
    kind = pd.api.types.infer_dtype(array, skipna=False)
    # Before anything is hashed: 1, 1.0 and True are one and the same to a hash table.
    if kind.startswith("mixed") and len({type(value) for value in array}) > 1:
        raise mixed(array, name)
    if kind == "datetime" and any(getattr(one, "tzinfo", None) is not None for one in array):
        raise InputError(f"{name} mixes dates with and without a time zone; give all of them one.")
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
        try:
            kept = all((array.astype(common).astype(array.dtype) == array).all() for array in filled)
        except OverflowError:  # NumPy from 2.5 on; before, what does not fit wraps round
            kept = False
        common = common if kept else None
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
            f"{len(unknown)} of {len(labels)} labels of {name} are not ids of the split "
            f"({examples(unknown)}; its ids start with {examples(ids)}). Leave these labels out, or pass an "
            "array where the values are in the order of the ids."
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
    if ids.size < 2 or not isinstance(ids[0], str):
        return ""
    is_name = pd.Index(ids, dtype=object).isin(HEADERS)
    if is_name.sum() != 1 or not pd.to_numeric(pd.Series(ids[~is_name]), errors="coerce").notna().all():
        return ""
    row = int(np.flatnonzero(codes == np.flatnonzero(is_name)[0])[0])
    what = f"row {row} of {name} looks like a header: it is {ids[is_name][0]!r}"
    return f"{what}, and the other {ids.size - 1:,} ids are numbers"


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


def coded(values: AnyArray, name: str) -> Ids:
    """Return an array as codes of its sorted distinct ids, −1 where one is missing."""
    missing = np.asarray(pd.isna(values))
    gaps = bool(missing.any())
    kept = as_ids(values[~missing] if gaps else values, name, complete=True)
    try:
        found = Ids(*pd.factorize(kept, sort=True))
    except TypeError:
        raise mixed(kept, name) from None
    if not gaps:
        return found
    codes = np.full(values.size, -1, dtype=np.int64)
    codes[~missing] = found.codes
    return Ids(codes, found.ids)


def distinct(keys: IntArray) -> IntArray:
    """Return the different keys, ascending."""
    ordered = np.sort(keys)
    return np.append(ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]])


def union(one: IntArray, other: IntArray) -> IntArray:
    """Return the keys of either, ascending and each once."""
    return distinct(np.concatenate([one, other]))


def repeated(keys: IntArray) -> BoolArray:
    """Return which keys occur earlier, too, (n_keys,)."""
    ordered = np.sort(keys)  # a tenth of the cost of a hash, on many keys
    if (ordered[1:] != ordered[:-1]).all():
        return np.zeros(keys.size, dtype=bool)
    return np.asarray(pd.Series(keys).duplicated())


def same_ids(one: HasIds, other: HasIds) -> bool:
    """Return whether both have the same users and items, in the same order."""
    return np.array_equal(one.user_ids, other.user_ids) and np.array_equal(one.item_ids, other.item_ids)


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
