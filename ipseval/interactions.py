"""Interactions: user–item pairs in one id space, from any data frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval._checks import check_choice, check_finite, counted, examples
from ipseval._types import AnyArray, BoolArray, IntArray, readonly
from ipseval.errors import InputError

Duplicates = Literal["raise", "drop"]


@dataclass(frozen=True, eq=False)
class Interactions:
    """Observed user–item pairs, coded against one universe of users and one of items.

    Attributes
    ----------
    user, item : (n,) int arrays
        Codes: `user_ids[user]` and `item_ids[item]` are the ids of the caller's data. No pair occurs twice.
    user_ids, item_ids : arrays
        The universe of ids. Row u and column i of any score matrix belong to `user_ids[u]`, `item_ids[i]`.
    value : (n,) float array or None
        Rating, gain or weight of the pair, in the caller's unit.
    timestamp : (n,) int or float array or None
        Time of the pair; dates are stored as nanoseconds since 1970.
    n_duplicates_dropped : int
        Pairs left out because they occurred before (only with `duplicates="drop"`).
    n_users_removed, n_items_removed, n_pairs_removed : int
        What a filter such as `k_core` took away.
    """

    user: IntArray
    item: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    value: AnyArray | None = None
    timestamp: AnyArray | None = None
    n_duplicates_dropped: int = 0
    n_users_removed: int = 0
    n_items_removed: int = 0
    n_pairs_removed: int = 0

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str = "user",
        item: str = "item",
        value: str | None = None,
        timestamp: str | None = None,
        users: Any | None = None,
        items: Any | None = None,
        duplicates: Duplicates = "raise",
    ) -> Interactions:
        """Return interactions read from a data frame (pandas, polars, pyarrow and whatever narwhals reads).

        Parameters
        ----------
        frame : data frame
            One row per observed pair.
        user, item, value, timestamp : str
            Column names; `value` and `timestamp` are optional.
        users, items : array-like of ids, optional
            The whole universe, in the order of the rows and columns of score matrices. Default: the ids in
            the frame, sorted.
        duplicates : {"raise", "drop"}
            What to do with a pair that occurs again: an error, or keep the first row and count the others.

        Raises
        ------
        InputError
            For an empty frame, a missing column, a missing id or value, ids of mixed type, ids outside
            `users`/`items`, and duplicate pairs.

        Examples
        --------
        >>> import pandas as pd
        >>> log = Interactions.from_frame(pd.DataFrame({"user": ["b", "a"], "item": [7, 3]}))
        >>> log.user, log.user_ids
        (array([1, 0]), array(['a', 'b'], dtype=object))
        """
        check_choice("duplicates", duplicates, ("raise", "drop"))
        if user is None or item is None:
            raise InputError(f"user and item must name columns of the frame; got {user!r} and {item!r}.")
        columns = _columns(frame, [name for name in (user, item, value, timestamp) if name is not None])
        if columns[user].size == 0:
            raise InputError("the frame has no rows; at least one user–item pair is needed.")
        user_codes, user_ids = encode(columns[user], users, f"column {user!r}")
        item_codes, item_ids = encode(columns[item], items, f"column {item!r}")
        log = cls(
            user_codes,
            item_codes,
            user_ids,
            item_ids,
            value=None if value is None else _numbers(columns[value], f"column {value!r}"),
            timestamp=None if timestamp is None else _numbers(columns[timestamp], f"column {timestamp!r}"),
        )
        return log._without_duplicates(duplicates)

    def __post_init__(self) -> None:
        for name in ("user", "item", "user_ids", "item_ids", "value", "timestamp"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, readonly(array))

    def __len__(self) -> int:
        return int(self.user.size)

    def __repr__(self) -> str:
        counts = (len(self), "pair"), (self.n_users, "user"), (self.n_items, "item")
        return f"Interactions({', '.join(counted(*one) for one in counts)})"

    @property
    def n_users(self) -> int:
        """Number of users in the universe, with or without interactions."""
        return int(self.user_ids.size)

    @property
    def n_items(self) -> int:
        """Number of items in the universe, with or without interactions."""
        return int(self.item_ids.size)

    @cached_property
    def popularity(self) -> IntArray:
        """Number of interactions of each item, n*_i, (n_items,); 0 for an item without any."""
        return readonly(np.bincount(self.item, minlength=self.n_items))

    @cached_property
    def activity(self) -> IntArray:
        """Number of interactions of each user, (n_users,); 0 for a user without any."""
        return readonly(np.bincount(self.user, minlength=self.n_users))

    @cached_property
    def pair_key(self) -> IntArray:
        """`user * n_items + item`, (n,): one integer per pair, for joins."""
        return readonly(self.user * np.int64(self.n_items) + self.item)

    def select(self, keep: BoolArray | IntArray) -> Interactions:
        """Return the chosen rows (a mask or row numbers) over the same universe of ids."""
        return replace(
            self,
            user=self.user[keep],
            item=self.item[keep],
            value=None if self.value is None else self.value[keep],
            timestamp=None if self.timestamp is None else self.timestamp[keep],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with columns user, item and, where present, value and timestamp."""
        data = {"user": self.user_ids[self.user], "item": self.item_ids[self.item]}
        if self.value is not None:
            data["value"] = self.value
        if self.timestamp is not None:
            data["timestamp"] = self.timestamp
        return pd.DataFrame(data)

    def _without_duplicates(self, duplicates: Duplicates) -> Interactions:
        in_order = np.sort(self.pair_key)
        if (in_order[1:] != in_order[:-1]).all():
            return self
        _, first = np.unique(self.pair_key, return_index=True)
        n_extra = len(self) - first.size
        if duplicates == "raise":
            mask = np.ones(len(self), dtype=bool)
            mask[first] = False
            row = int(np.flatnonzero(mask)[0])
            pair = (self.user_ids[self.user[row]], self.item_ids[self.item[row]])
            raise InputError(
                f"{n_extra} of {len(self)} rows repeat an earlier user–item pair (first: {examples(pair)}). "
                "Aggregate them, or pass duplicates='drop' to keep the first row of each pair."
            )
        return replace(self.select(np.sort(first)), n_duplicates_dropped=n_extra)


def check_interactions(log: Any, name: str, instead: str = "Interactions.from_frame(frame)") -> None:
    """Raise `InputError` unless `log` is Interactions."""
    if not isinstance(log, Interactions):
        raise InputError(f"{name} must be Interactions; got {type(log).__name__}. Pass {instead}.")


def encode(values: AnyArray, universe: Any | None, name: str) -> tuple[IntArray, AnyArray]:
    """Return codes (n,) and the ids they point to: `universe` in its order, or the sorted distinct values."""
    values = _in_utc(values)
    kind = pd.api.types.infer_dtype(values, skipna=False) if values.dtype == object else ""
    # Before anything is hashed: 1, 1.0 and True are one and the same to a hash table.
    if kind.startswith("mixed") and len({type(value) for value in values}) > 1:
        raise _mixed(values, name)
    if universe is None:
        try:
            codes, ids = pd.factorize(values, sort=True)
        except TypeError:
            raise _mixed(values, name) from None
        ids = np.asarray(ids)
        if ids.dtype == object and len({type(value) for value in ids}) > 1:
            raise _mixed(ids, name)
        return codes.astype(np.int64), ids
    ids = to_id_array(universe, f"the universe of {name}")
    codes = pd.Index(ids).get_indexer(pd.Index(values))
    if (codes < 0).any():
        unknown = pd.unique(values[codes < 0])
        raise InputError(
            f"{name} has {unknown.size} ids that are not in the given universe of {ids.size} "
            f"({examples(unknown)}; the universe starts with {examples(ids)}). Add them to the universe, "
            "or remove their rows; ids must also have the same type."
        )
    return codes.astype(np.int64), ids


def to_id_array(ids: Any, name: str) -> AnyArray:
    """Return ids as a one-dimensional array after checking that none is missing or repeated."""
    array = _in_utc(np.asarray(ids))
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} must be a non-empty one-dimensional sequence; got shape {array.shape}.")
    if pd.isna(array).any():
        raise InputError(f"{name} holds {int(pd.isna(array).sum())} missing ids.")
    n_repeated = array.size - pd.unique(array).size
    if n_repeated:
        raise InputError(f"{name} repeats {n_repeated} ids; each id may occur once.")
    return array


def _in_utc(ids: AnyArray) -> AnyArray:
    """Return dates with a time zone as dates in UTC without one, as columns of a frame are read."""
    if ids.dtype == object and ids.size and getattr(ids.flat[0], "tzinfo", None) is not None:
        return pd.to_datetime(ids, utc=True).tz_localize(None).to_numpy()
    return ids


def _mixed(values: AnyArray, name: str) -> InputError:
    kinds = sorted({type(value).__name__ for value in values})
    return InputError(f"{name} mixes ids of types {', '.join(kinds)}; convert them to one type.")


def _columns(frame: Any, names: list[str]) -> dict[str, AnyArray]:
    """Return the named columns as NumPy arrays without missing entries."""
    if isinstance(frame, pd.DataFrame) and not frame.columns.is_unique:
        raise InputError(
            f"the frame has several columns of one name ({examples(frame.columns, 12)}); rename them."
        )
    try:
        table: Any = nw.from_native(frame)
    except TypeError:
        raise InputError(
            f"expected a data frame (pandas, polars, pyarrow, …); got {type(frame).__name__}."
        ) from None
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError(f"column {missing[0]!r} is not in the frame; it has {examples(table.columns, 12)}.")
    columns = {}
    for name in names:
        array = table[name].to_numpy()
        if array.dtype.kind in "US":
            array = array.astype(object)
        n_missing = int(pd.isna(array).sum())
        if n_missing:
            raise InputError(f"column {name!r} has {n_missing} missing entries of {array.size}; remove them.")
        columns[name] = array
    return columns


def _numbers(values: AnyArray, name: str) -> AnyArray:
    """Return a numeric column; dates become integer nanoseconds."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[ns]").astype(np.int64)
    if values.dtype.kind not in "iufb":
        raise InputError(f"{name} must be numeric or a date; got {values.dtype}.")
    numbers = values.astype(np.int64) if values.dtype.kind in "iub" else values.astype(np.float64)
    check_finite(name, numbers)
    return numbers
