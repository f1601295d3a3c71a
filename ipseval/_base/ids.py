"""Ids and labels: arrays of one type, matched by value and never by position, or refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval._base.checks import examples, only_numbered, refuse_masked
from ipseval._base.types import AnyArray, IntArray
from ipseval.errors import InputError

EXACT = 2**53  # from here on doubles cannot tell whole numbers apart
_COLUMNS = ("user", "item", "movie", "product", "book", "song", "artist", "track", "customer", "visitor")
_NAMES = [f"{stem}{ending}" for stem in _COLUMNS for ending in ("", "id", "_id", "-id", " id", ".id", "Id")]
HEADERS = {"uid", "iid", "asin", "msno", "itemID", "userID", *_NAMES}
HEADERS |= {name.upper() for name in HEADERS} | {name[0].upper() + name[1:] for name in HEADERS}


def as_ids(values: Any, name: str, *, complete: bool = False) -> AnyArray:
    """Return ids as a one-dimensional array of one type, without missing ones (none if `complete`).

    Python numbers in an array of objects become a plain array, and dates with a time zone dates in UTC.
    """
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
    """Return arrays of ids in one type in which equal ids are equal and different ones differ.

    Raises
    ------
    InputError
        When there is no such type; the text names the types.
    """
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
    """Return the position in `ids` of each label, −1 where it is none of them.

    `strict`: text and numbers side by side are an error, rather than labels that are none of the ids.
    """
    if not strict and len({"n" if _kind(one) in {*"iuf"} else _kind(one) for one in (labels, ids)}) > 1:
        return np.full(labels.size, -1)
    wanted, known = of_one_type([labels, ids], name)
    index = pd.Index(known, dtype=known.dtype, tupleize_cols=False)
    return index.get_indexer(pd.Index(wanted, dtype=wanted.dtype, tupleize_cols=False)).astype(np.int64)


def by_label(values: Any, ids: AnyArray, name: str, *, axis: Literal[0, 1] = 0) -> Any:
    """Return a pandas Series with ids as labels in the order of `ids`, NaN where it has none.

    Of a frame, rows (or columns, axis 1) are brought in that order. What has no labels is in it already. So
    is what pandas only numbers 0, 1, 2, …, unless these numbers are the ids.
    """
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
    """Return a pandas Series in the order of the rows that it goes with; what has no labels is in it already.

    The labels of the rows are those of `like`, a Series or an index, or else 0, 1, 2, ….

    Raises
    ------
    InputError
        Where labels are in no order that is known.
    """
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
    if ids.dtype != object or ids.size < 2 or not isinstance(ids[0], str):
        return
    is_name = pd.Index(ids, dtype=object).isin(HEADERS)
    if is_name.sum() == 1 and pd.to_numeric(pd.Series(ids[~is_name]), errors="coerce").notna().all():
        row = int(np.flatnonzero(codes == np.flatnonzero(is_name)[0])[0])
        raise InputError(
            f"row {row} of {name} looks like a header: it is {ids[is_name][0]!r}, and the other "
            f"{ids.size - 1:,} ids are numbers. Read the file with its header, or without that row."
        )
