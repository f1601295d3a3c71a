"""Convert ids to arrays of one type and to codes, match them by value, and combine sets of integer keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.checks import format_examples, has_default_index, refuse_masked
from ipseval.utils.types import AnyArray, BoolArray, HasIds, IntArray

EXACT = 2**53  # doubles cannot represent all whole numbers from here on
ENTITIES = ("user", "item", "movie", "product", "book", "song", "artist", "track", "customer", "visitor")
ENDINGS = ("", "id", "_id", "-id", " id", ".id", "Id")


def _list_column_names() -> set[str]:
    """Return usual names of columns of ids, in lower case, in upper case and capitalised."""
    names = {"uid", "iid", "asin", "msno", "itemID", "userID"}
    for entity in ENTITIES:
        names.update(f"{entity}{ending}" for ending in ENDINGS)
    upper = {name.upper() for name in names}
    capitalised = {name[0].upper() + name[1:] for name in names}
    return names | upper | capitalised


HEADERS = _list_column_names()


def as_ids(values: object, name: str, *, complete: bool = False) -> AnyArray:
    """Return ids as a one-dimensional array of one type, or raise `InputError` for missing ids.

    Python numbers in an array of objects become an array of numbers, and dates with a time zone become dates
    in UTC. With `complete`, the caller knows that no id is missing.
    """
    refuse_masked(values, name)
    try:
        if isinstance(values, (list, tuple)):
            # NumPy alone would convert a list of numbers and text to text.
            array = pd.Series(values, dtype=object).to_numpy()
        else:
            array = np.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a sequence of ids; got {type(values).__name__}.") from None
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim != 1:
        raise InputError(f"{name} must be a non-empty one-dimensional sequence; got shape {array.shape}.")
    if array.dtype.kind not in "iufbMmOUS":
        raise InputError(f"{name} must hold numbers, text or dates as ids; got {array.dtype}.")
    if not complete:
        n_missing = int(pd.isna(array).sum())
        if n_missing:
            raise InputError(f"{name} holds {n_missing} missing ids.")
    if array.dtype.kind in "OUS":
        return _convert_objects(array.astype(object, copy=False), name)
    return array


def _convert_objects(array: AnyArray, name: str) -> AnyArray:
    """Return an array of objects as an array of numbers or dates, where all its entries are of one type."""
    has_time_zone = [getattr(value, "tzinfo", None) is not None for value in array]
    if array.size and all(has_time_zone):
        return np.asarray(pd.to_datetime(array, utc=True).tz_localize(None))

    kind = pd.api.types.infer_dtype(array, skipna=False)
    # This check comes before any hashing, because 1, 1.0 and True have the same hash.
    if kind.startswith("mixed") and len({type(value) for value in array}) > 1:
        raise mixed_types_error(array, name)
    if kind == "datetime" and any(has_time_zone):
        raise InputError(f"{name} mixes dates with and without a time zone; give all of them one.")
    if kind == "integer":
        return _convert_integers(array)
    if kind == "floating":
        return array.astype(np.float64)
    if kind == "boolean":
        return array.astype(np.bool_)
    return array


def _convert_integers(array: AnyArray) -> AnyArray:
    """Return Python integers as 64-bit integers where they fit, and unchanged elsewhere."""
    low = min(array)
    high = max(array)
    if low >= -(2**63) and high < 2**63:
        return array.astype(np.int64)
    if low >= 0 and high < 2**64:
        return array.astype(np.uint64)
    return array


def mixed_types_error(values: Iterable[object], name: str) -> InputError:
    """Return the error for ids of several types, or of one that cannot be an id."""
    kinds = sorted({type(value).__name__ for value in values})
    if len(kinds) == 1:
        return InputError(f"{name} holds values of type {kinds[0]}, which cannot be ids.")
    text = f"{name} mixes ids of types {', '.join(kinds)}; convert them to one type."
    first = next(iter(values))
    if isinstance(first, str) and first in HEADERS:  # what is no text may have no hash
        text = f"{text} Its first row looks like a header."
    return InputError(text)


def to_id_array(ids: object, name: str) -> AnyArray:
    """Return ids as a one-dimensional array after checking that none is missing or repeated."""
    array = as_ids(ids, name)
    if array.size == 0:
        raise InputError(f"{name} must be a non-empty one-dimensional sequence; got shape {array.shape}.")
    try:
        n_repeated = array.size - pd.unique(array).size
    except TypeError:
        raise mixed_types_error(array, name) from None
    if n_repeated:
        raise InputError(f"{name} repeats {n_repeated} ids; each id may occur once.")
    return array


TEXT_KIND = "string"  # of Python text, as pandas calls it, and of NumPy text of any length


def unify_id_types(arrays: list[AnyArray], name: str, sources: Sequence[str] = ()) -> list[AnyArray]:
    """Return arrays of ids converted to one type, or raise `InputError` if ids would change.

    `sources` are the names of the arrays, for the error.
    """
    non_empty = []
    for array in arrays:
        if array.size:
            non_empty.append(array)

    kinds = {_kind(array) for array in non_empty}
    dtypes = {array.dtype for array in non_empty}
    if len(dtypes) <= 1 and len(kinds) <= 1:
        return arrays

    common: np.dtype[Any] | None = None
    if kinds <= {"i", "u"}:
        common = _common_integer_type(non_empty)
    elif kinds <= {"i", "u", "f"}:
        common = _common_real_type(non_empty)
    elif kinds == {"M"}:
        common = _common_date_type(non_empty)
    elif kinds == {TEXT_KIND}:
        common = np.dtype(object)
    if common is None:
        types = "; ".join(_describe_types(arrays, sources))
        raise InputError(f"{name} has ids of different types ({types}); {_advise_on_types(kinds)}")
    return [array.astype(common) for array in arrays]


def _describe_types(arrays: list[AnyArray], sources: Sequence[str]) -> list[str]:
    """Return the type of each array that has ids, with examples, and the name of the array if it is given."""
    descriptions = []
    for position, array in enumerate(arrays):
        if not array.size:
            continue
        description = f"{array.dtype}: {format_examples(array)}"
        if sources:
            description = f"{sources[position]}, {description}"
        descriptions.append(description)
    return descriptions


def _advise_on_types(kinds: set[str]) -> str:
    """Return the advice on ids of kinds without a common type."""
    if TEXT_KIND in kinds and kinds <= {"i", "u", TEXT_KIND}:
        return (
            "convert them to one type, such as text: frame.astype(dict(user=str, item=str)) for a frame, "
            "ipseval.read(path).to_frame().astype(dict(user=str, item=str)) for a file, str(id) for the ids of a dict."
        )
    advice = "convert them to one type."
    if kinds <= {"i", "u", "f"}:
        return f"{advice} From {EXACT} on, doubles cannot represent every whole number."
    return advice


def _common_integer_type(arrays: list[AnyArray]) -> np.dtype[Any] | None:
    """Return a 64-bit type that holds the integers of all arrays, or None."""
    if max(int(array.max()) for array in arrays) < 2**63:
        return np.dtype(np.int64)
    if min(int(array.min()) for array in arrays) >= 0:
        return np.dtype(np.uint64)
    return None


def _common_real_type(arrays: list[AnyArray]) -> np.dtype[Any] | None:
    """Return integers or doubles for numbers that doubles represent exactly, else None."""
    is_exact = all((np.abs(array.astype(np.float64)) < EXACT).all() for array in arrays)
    if not is_exact:
        return None
    is_whole = all((array == np.floor(array)).all() for array in arrays)
    if is_whole:
        return np.dtype(np.int64)
    return np.dtype(np.float64)


def _common_date_type(arrays: list[AnyArray]) -> np.dtype[Any] | None:
    """Return the finest unit of the dates, or None if some date does not fit it."""
    common = np.result_type(*[array.dtype for array in arrays])
    try:
        is_exact = all((array.astype(common).astype(array.dtype) == array).all() for array in arrays)
    except OverflowError:  # NumPy raises from 2.5 on, and wraps round before
        return None
    if is_exact:
        return common
    return None


def _kind(array: AnyArray) -> str:
    """Return the kind of a dtype, or the inferred kind of objects; ids of different kinds are never equal."""
    if array.dtype == object:
        return pd.api.types.infer_dtype(array, skipna=False)
    if array.dtype.kind == "U":
        return TEXT_KIND
    return array.dtype.kind


def find_positions(
    labels: AnyArray, ids: AnyArray, name: str, *, strict: bool = True, sources: Sequence[str] = ()
) -> IntArray:
    """Return the position in `ids` of each label, and −1 for labels that are not in `ids`.

    With `strict`, ids of different types are an `InputError`, which names the `sources` of labels and ids if they
    are given; without it, they match nothing.
    """
    if not strict and _is_numeric(labels) != _is_numeric(ids):
        return np.full(labels.size, -1)
    if not strict and not _is_numeric(labels) and _kind(labels) != _kind(ids):
        return np.full(labels.size, -1)
    same_type_labels, same_type_ids = unify_id_types([labels, ids], name, sources)
    index = pd.Index(same_type_ids, dtype=same_type_ids.dtype, tupleize_cols=False)
    targets = pd.Index(same_type_labels, dtype=same_type_labels.dtype, tupleize_cols=False)
    return index.get_indexer(targets).astype(np.int64)


def _is_numeric(array: AnyArray) -> bool:
    """Return whether ids are integers or doubles."""
    return _kind(array) in ("i", "u", "f")


def align_labels(values: object, ids: AnyArray, name: str, *, axis: Literal[0, 1] = 0) -> Any:
    """Return the values of a Series, or a frame, with ids as labels in the order of `ids`, NaN for other ids.

    Values without labels are in this order already. So are values with the default labels 0, 1, 2, … of
    pandas, unless the ids are these numbers. `axis` is the axis of a frame that has ids as labels.
    """
    if not isinstance(values, (pd.Series, pd.DataFrame)):
        return values
    labels = values.axes[axis]
    has_default_labels = has_default_index(labels)
    if has_default_labels and (ids.dtype.kind not in "iuf" or len(labels) != ids.size):
        return values
    if not labels.is_unique:
        raise InputError(f"the labels of {name} repeat ids; each may occur once.")
    positions = find_positions(as_ids(labels, f"the labels of {name}"), ids, f"the labels of {name}")
    unknown = labels[positions < 0]
    if len(unknown) and has_default_labels:
        return values
    if len(unknown):
        raise InputError(
            f"{len(unknown)} of {len(labels)} labels of {name} are not ids of the split "
            f"({format_examples(unknown)}; its ids start with {format_examples(ids)}). Leave these labels out, or "
            "pass an array where the values are in the order of the ids."
        )
    if isinstance(values, pd.DataFrame):
        return values.set_axis(positions, axis=axis).reindex(range(ids.size), axis=axis)
    return values.set_axis(positions).reindex(range(ids.size)).to_numpy()


def align_rows(values: object, name: str, reference: object = None) -> Any:
    """Return a Series in the order of the rows of `reference`, or of 0, 1, 2, … if `reference` has no index."""
    if not isinstance(values, pd.Series):
        return values
    rows = getattr(reference, "index", reference)
    if not isinstance(rows, pd.Index):
        rows = pd.RangeIndex(len(values))
    if values.index.equals(rows) or len(values) != len(rows):  # another length is refused elsewhere
        return values
    if values.index.is_unique and rows.is_unique:
        order = values.index.get_indexer(rows)
        if (order >= 0).all():
            return values.iloc[order]
    if has_default_index(values.index) or (has_default_index(rows) and values.index.is_monotonic_increasing):
        return values
    raise InputError(
        f"{name} must have the labels of the rows; got {format_examples(values.index)} for {format_examples(rows)}. "
        "Bring it in the order of the rows, then pass .to_numpy()."
    )


def refuse_header(codes: IntArray, ids: AnyArray, name: str) -> None:
    """Raise `InputError` if one id is the usual name of a column and all others are numbers."""
    description = describe_header_row(codes, ids, name)
    if description:
        raise InputError(f"{description}. Read the file with its header, or without that row.")


def describe_header_row(codes: IntArray, ids: AnyArray, name: str) -> str:
    """Describe a row that holds the usual name of a column among numbers, "" if there is no such row."""
    if ids.size < 2 or not isinstance(ids[0], str):
        return ""
    is_name = pd.Index(ids, dtype=object).isin(HEADERS)
    if is_name.sum() != 1 or not pd.to_numeric(pd.Series(ids[~is_name]), errors="coerce").notna().all():
        return ""
    row = int(np.flatnonzero(codes == np.flatnonzero(is_name)[0])[0])
    return (
        f"row {row} of {name} looks like a header: it is {ids[is_name][0]!r}, and the other {ids.size - 1:,} "
        "ids are numbers"
    )


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids: the code of each row, −1 where the id is missing, and the sorted distinct ids."""

    codes: IntArray
    ids: AnyArray

    def __len__(self) -> int:
        return int(self.codes.size)

    @cached_property
    def missing(self) -> BoolArray:
        """Mask of the rows without an id."""
        return self.codes < 0


def encode_ids(values: AnyArray, name: str) -> Ids:
    """Return an array as codes of its sorted distinct ids, −1 where an id is missing."""
    is_missing = np.asarray(pd.isna(values))
    if not is_missing.any():
        return _encode_complete(values, name)
    complete = _encode_complete(values[~is_missing], name)
    codes = np.full(values.size, -1, dtype=np.int64)
    codes[~is_missing] = complete.codes
    return Ids(codes, complete.ids)


def _encode_complete(values: AnyArray, name: str) -> Ids:
    """Return an array without missing ids as codes of its sorted distinct ids."""
    ids = as_ids(values, name, complete=True)
    try:
        return Ids(*pd.factorize(ids, sort=True))
    except TypeError:
        raise mixed_types_error(ids, name) from None


def unique_keys(keys: IntArray) -> IntArray:
    """Return the distinct keys in ascending order."""
    ordered = np.sort(keys)
    return np.append(ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]])


def union_keys(first: IntArray, second: IntArray) -> IntArray:
    """Return the distinct keys of two arrays in ascending order."""
    return unique_keys(np.concatenate([first, second]))


def mark_repeats(keys: IntArray) -> BoolArray:
    """Return a mask of the keys that repeat an earlier one, shape (n_keys,)."""
    ordered = np.sort(keys)  # takes a tenth of the time of hashing many keys
    if (ordered[1:] != ordered[:-1]).all():
        return np.zeros(keys.size, dtype=bool)
    return np.asarray(pd.Series(keys).duplicated())


def same_ids(first: HasIds, second: HasIds) -> bool:
    """Return whether two objects have the same users and items in the same order."""
    same_users = np.array_equal(first.user_ids, second.user_ids)
    return same_users and np.array_equal(first.item_ids, second.item_ids)


def is_member(keys: IntArray, members: IntArray) -> BoolArray:
    """Return a mask of the keys that are among the members, shape (n_keys,); both may have any order."""
    if not keys.size or not members.size:
        return np.zeros(keys.size, dtype=bool)
    if not _is_sorted(members):
        members = np.sort(members)
    if _is_sorted(keys):
        return _search_sorted(keys, members)
    # The search is faster in ascending order, because it stays in the cache.
    order = np.argsort(keys)
    is_member = np.empty(keys.size, dtype=bool)
    is_member[order] = _search_sorted(keys[order], members)
    return is_member


def ranks_within_group(group: IntArray, score: AnyArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of entries of the same group above and tied with each entry, shape (n,) each."""
    order = np.lexsort((score, group))
    group = group[order]
    score = score[order]
    new_group = np.append(True, group[1:] != group[:-1])
    new_level = new_group | np.append(True, score[1:] != score[:-1])
    group_end = np.append(np.flatnonzero(new_group)[1:], group.size)[np.cumsum(new_group) - 1]
    level_start = np.flatnonzero(new_level)
    level = np.cumsum(new_level) - 1
    level_end = np.append(level_start[1:], group.size)
    n_above = np.empty(group.size, np.int64)
    n_tied = np.empty(group.size, np.int64)
    n_above[order] = group_end - level_end[level]
    n_tied[order] = (level_end - level_start)[level] - 1
    return n_above, n_tied


def grouped_order(group: IntArray, value: IntArray) -> IntArray:
    """Return `np.lexsort((value, group))` of non-negative integers: by group, then value, then position.

    Group, value and position are combined into one integer, which sorts faster, where 64 bits suffice.
    """
    n_values = int(value.max(initial=0)) + 1
    n_groups = int(group.max(initial=0)) + 1
    n_bits = group.size.bit_length()
    if n_groups * n_values << n_bits > np.iinfo(np.int64).max:
        return np.lexsort((value, group))
    key = (group * np.int64(n_values) + value << n_bits) + np.arange(group.size)
    key.sort()
    return np.asarray(key & (1 << n_bits) - 1)


def _search_sorted(keys: IntArray, members: IntArray) -> BoolArray:
    """Return a mask of the keys that are among sorted members."""
    position = np.searchsorted(members, keys)
    position[position == members.size] = 0
    return np.asarray(members[position] == keys)


def _is_sorted(keys: IntArray) -> bool:
    """Return whether keys are in ascending order."""
    return bool((keys[1:] >= keys[:-1]).all())
