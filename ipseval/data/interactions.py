"""Interactions: user–item pairs in one id space, from any data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from ipseval.data._impressions import first_pair
from ipseval.errors import InputError
from ipseval.utils.border import guard
from ipseval.utils.checks import check_bool, check_choice, check_positive_int, check_type, counted, examples
from ipseval.utils.columns import log_columns, to_numbers
from ipseval.utils.constructors import NamedConstructors
from ipseval.utils.counts import Count, counts_frame, some
from ipseval.utils.ids import Ids, as_ids, coded, places, refuse_header, repeated, to_id_array
from ipseval.utils.types import AnyArray, BoolArray, HasIds, IntArray, assign, owned, readonly, unchecked

Duplicates = Literal["raise", "drop", "keep"]


class Universe(metaclass=NamedConstructors):
    """What is over the ids of users and items."""

    @property
    def n_users(self: HasIds) -> int:
        """Number of users in the universe, those without a row included."""
        return int(self.user_ids.size)

    @property
    def n_items(self: HasIds) -> int:
        """Number of items in the universe, those without a row included."""
        return int(self.item_ids.size)


class Log(Universe):
    """Rows of users and items, as codes of their ids."""

    user: IntArray
    item: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    counted: tuple[Count, ...]
    _names: ClassVar[tuple[str, ...]]

    def __len__(self) -> int:
        return int(self.user.size)

    @property
    def _columns(self) -> dict[str, AnyArray]:
        """The columns that are there, (n,) each."""
        found = {name: getattr(self, name) for name in self._names}
        return {name: one for name, one in found.items() if one is not None}

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with the ids of users and items and, where present, the other columns."""
        ids: dict[str, Any] = {name: getattr(self, f"{name}_ids", None) for name in self._columns}
        columns = {name: one if ids[name] is None else ids[name][one] for name, one in self._columns.items()}
        return pd.DataFrame(columns)

    @cached_property
    def pair_key(self) -> IntArray:
        """`user * n_items + item`, (n,): one integer per pair, for joins."""
        return readonly(self.user * np.int64(self.n_items) + self.item)

    @property
    def data(self) -> pd.DataFrame:
        """What was read and left out: one row per thing counted, with columns subject, what, count, of."""
        return counts_frame(one.about("log") for one in self.counted)

    def _own_codes(self, *names: str) -> dict[str, int]:
        """Check codes and ids, make them read-only, and return how many codes there are of each."""
        for name in names:
            ids = owned(to_id_array(getattr(self, f"{name}_ids"), f"{name}_ids"))
            codes = check_codes(name, owned(getattr(self, name)), ids.size)
            assign(self, **{f"{name}_ids": readonly(ids), name: readonly(codes)})
        return {name: getattr(self, name).size for name in names}


@dataclass(frozen=True, eq=False)
class Interactions(Log):
    """Observed user–item pairs, coded against one universe of users and one of items.

    Attributes
    ----------
    user, item : (n,) int arrays
        Codes: `user_ids[user]` and `item_ids[item]` are the ids of the caller's data. No pair occurs twice,
        unless `repeats`.
    user_ids, item_ids : arrays
        The universe of ids. Row u and column i of any score matrix belong to `user_ids[u]`, `item_ids[i]`.
    value : (n,) float array or None
        Rating, gain or weight of the pair, in the caller's unit.
    timestamp : (n,) int or float array or None
        Time of the pair. Dates are stored as nanoseconds since 1970, in UTC, and refused where these end.
    n_duplicates_dropped : int
        Pairs left out because they occurred before (only with `duplicates="drop"`).
    n_users_removed, n_items_removed, n_pairs_removed : int
        What a filter such as `k_core` took away.
    counted : tuple of Count
        What was read and left out before the pairs were there; `data` shows it.
    repeats : bool
        Whether pairs may occur again, as where users buy or play the same item again (`duplicates="keep"`).
    impressions : ImpressionLog or None
        What was shown, where the pairs are the positives of such a log and have its ids.

    Raises
    ------
    InputError
        For repeated ids, codes outside the ids, arrays of different lengths, values that are not finite
        numbers, and pairs that repeat, unless `repeats`.
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
    counted: tuple[Count, ...] = ()
    repeats: bool = False
    impressions: Any = field(default=None, init=False)
    _names = ("user", "item", "value", "timestamp")

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
        duplicates : {"raise", "drop", "keep"}
            What to do with a pair that occurs again: an error; keep the first row and count the others; or
            keep all rows, as interactions of their own.

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
        check_choice("duplicates", duplicates, ("raise", "drop", "keep"))
        names = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        without = "For a test set without training items, pass train=None to Split.from_frames."
        data = read_columns(frame, names, users, items, f"at least one user–item pair is needed. {without}")
        read = (Count("rows read", data["user"].size),)
        log = unchecked(Interactions, **data, counted=read, repeats=duplicates == "keep")
        kept = some(Count("rows that repeat an earlier pair, kept", log.n_repeats, len(log)))
        return log._with(counted=log.counted + kept)._without_duplicates(duplicates)

    def __post_init__(self) -> None:
        sizes = self._own_codes("user", "item")
        for name in ("value", "timestamp"):
            if getattr(self, name) is not None:
                numbers = to_numbers(one_dimensional(owned(getattr(self, name)), name), name)
                assign(self, **{name: readonly(numbers)})
                sizes[name] = numbers.size
        if len(set(sizes.values())) > 1:
            raise InputError(f"the arrays of interactions must have one length; got {sizes}.")
        for name in COUNTS:
            check_positive_int(name, getattr(self, name), minimum=0)
        check_type("counted", self.counted, tuple)
        check_bool("repeats", self.repeats)
        self._without_duplicates("keep" if self.repeats else "raise")

    def __repr__(self) -> str:
        rows = (len(self), "interaction" if self.repeats else "pair")
        counts = rows, (self.n_users, "user"), (self.n_items, "item")
        return f"Interactions({', '.join(counted(*one) for one in counts)})"

    @cached_property
    def popularity(self) -> IntArray:
        """Number of interactions of each item, n*_i, (n_items,), each repeat counted; 0 without any."""
        return readonly(np.bincount(self.item, minlength=self.n_items))

    @cached_property
    def activity(self) -> IntArray:
        """Number of interactions of each user, (n_users,), each repeat counted; 0 without any."""
        return readonly(np.bincount(self.user, minlength=self.n_users))

    def to_csr(self, *, values: bool = False) -> Any:
        """Return the users × items matrix in CSR format (float32), in the order of the ids.

        Entries are 1, or the values of the log with `values=True`: what implicit and LightFM train on. Where
        pairs repeat, their rows add up.

        Examples
        --------
        >>> import pandas as pd
        >>> Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [7, 3]})).to_csr().toarray()
        array([[0., 1.],
               [1., 0.]], dtype=float32)
        """
        from scipy.sparse import csr_matrix

        if values and self.value is None:
            raise InputError("values=True needs a log with values; this one has none.")
        entries = np.asarray(self.value if values else np.ones(len(self)), dtype=np.float32)
        return csr_matrix((entries, (self.user, self.item)), shape=(self.n_users, self.n_items))

    @cached_property
    def distinct(self) -> Interactions:
        """The first row of each pair; `n_duplicates_dropped` counts the others."""
        if not self.repeats:
            return self
        return self._without_duplicates("drop")._with(repeats=False, counted=self.counted)

    @property
    def n_repeats(self) -> int:
        """Number of rows whose pair occurs in an earlier row; 0 unless `repeats`."""
        return len(self) - len(self.distinct)

    def select(self, keep: BoolArray | IntArray) -> Interactions:
        """Return the chosen rows (a mask or row numbers) over the same universe of ids."""
        rows = chosen_rows(keep, len(self))
        is_mask = rows.dtype == bool
        rows = np.flatnonzero(rows) if is_mask else rows  # several times faster for several columns
        part = self._with(**{name: one.take(rows) for name, one in self._columns.items()})
        return part if is_mask or self.repeats else part._without_duplicates("raise")

    def _with(self, **changed: Any) -> Interactions:
        """Return these interactions with some fields changed, unchecked: for what keeps pairs distinct."""
        if not changed.keys().isdisjoint(("user_ids", "item_ids")):
            changed["impressions"] = None  # which keep the ids that they have
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return unchecked(Interactions, **(own | changed))

    @property
    def positives(self) -> Interactions:
        """The pairs themselves, under the name that they have in an `ImpressionLog`."""
        return self

    def _without_duplicates(self, duplicates: Duplicates) -> Interactions:
        if duplicates == "keep":
            return self
        again = repeated(self.pair_key)
        n_extra = int(again.sum())
        if not n_extra:
            return self
        if duplicates == "raise":
            raise InputError(
                f"{n_extra} of {len(self)} rows repeat an earlier user–item pair (first: "
                f"{first_pair(vars(self), again)}). Aggregate them, or pass duplicates='drop' to keep the "
                "first row of each pair, or 'keep' where users take an item again."
            )
        left_out = Count("rows that repeat an earlier pair, left out", n_extra, len(self))
        n_dropped = self.n_duplicates_dropped + n_extra
        return self.select(~again)._with(n_duplicates_dropped=n_dropped, counted=(*self.counted, left_out))


COUNTS = ("n_duplicates_dropped", "n_users_removed", "n_items_removed", "n_pairs_removed")


def chosen_rows(keep: Any, n_rows: int) -> BoolArray | IntArray:
    """Return a mask or row numbers as an array, or raise `InputError`."""
    rows = np.asarray(keep)
    rows = rows if rows.size else rows.astype(np.int64)
    numbers = rows.dtype.kind in "iu" and bool(((rows >= -n_rows) & (rows < n_rows)).all())
    if rows.ndim != 1 or not (numbers or (rows.dtype == bool and rows.size == n_rows)):
        raise InputError(f"keep must be a mask ({n_rows},) or row numbers below {n_rows}; got {keep!r:.80}.")
    return rows


def one_dimensional(array: AnyArray, name: str) -> AnyArray:
    """Return the array, or raise `InputError` when it has not one dimension."""
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {array.shape}.")
    return array


def check_codes(name: str, codes: AnyArray, size: int) -> IntArray:
    """Return int64 codes of `size` ids, or raise `InputError`."""
    if not one_dimensional(codes, name).size:
        return np.zeros(0, dtype=np.int64)
    if codes.dtype.kind not in "iu":
        raise InputError(f"{name} must hold whole numbers, codes of the ids; got dtype {codes.dtype}.")
    bad = (codes < 0) | (codes >= size)
    if bad.any():
        raise InputError(
            f"{name} must hold codes from 0 to {size - 1}, one below the number of ids; "
            f"{int(bad.sum())} of {codes.size} are not (first: {codes[bad][0]})."
        )
    return codes.astype(np.int64)


def read_columns(
    frame: Any, names: Mapping[str, str | None], users: Any, items: Any, needed: str
) -> dict[str, AnyArray]:
    """Return the named columns of a frame as codes, with the ids of the codes, numbers and truth values."""
    for what, name in names.items():
        if not isinstance(name, str) and (name is not None or what in ("user", "item", "clicked")):
            raise InputError(f"{what} must be the name of a column of the frame; got {name!r:.80}.")
    given = {what: name for what, name in names.items() if name is not None}
    universes = {"user": users, "item": items, "query": None}
    of_ids = [name for what, name in given.items() if what in universes]
    ids, columns = log_columns(frame, of_ids, [name for what, name in given.items() if what not in universes])
    if not len(ids[given["user"]]):
        raise InputError(f"the frame has no rows; {needed}")
    data: dict[str, AnyArray] = {}
    for what, name in given.items():
        said = f"column {name!r}"
        if what in universes:
            data[what], data[f"{what}_ids"] = encode(ids[name], universes[what], said)
        else:
            read = as_truths if what in ("clicked", "shown") else to_numbers
            data[what] = read(columns[name], said)
    return data


def as_truths(values: AnyArray, name: str) -> BoolArray:
    """Return a column of True/False or 1/0 as a mask."""
    if values.dtype == object:
        good = np.array([isinstance(one, (bool, np.bool_)) for one in values], dtype=bool)
    else:
        numeric = values.dtype.kind in "biuf"
        good = np.isin(values, (0, 1)) if numeric else np.zeros(values.size, dtype=bool)
    if not good.all():
        raise InputError(
            f"{name} must hold True or False, or 1 and 0; {int((~good).sum())} of {values.size} entries do "
            f"not (first: {examples(values[~good][:1])})."
        )
    return values.astype(bool)


def check_interactions(log: Any, name: str, instead: str = "Interactions.from_frame(frame)") -> None:
    """Raise `InputError` unless `log` is Interactions."""
    if not isinstance(log, Interactions):
        if hasattr(log, "positives"):
            instead = f"its positives: {name}.positives"
        elif hasattr(log, "train"):
            instead = "its training part, split.train"
        elif hasattr(log, "columns"):
            instead = f"ipseval.read({name}), which finds the columns, or {instead}"
        raise InputError(f"{name} must be Interactions; got {type(log).__name__}. Pass {instead}.")


def encode(values: AnyArray | Ids, universe: Any | None, name: str) -> tuple[IntArray, AnyArray]:
    """Return codes (n,) and the ids they point to: `universe` in its order, or the sorted distinct values."""
    found = values if isinstance(values, Ids) else coded(as_ids(values, name), name)
    if universe is None:
        refuse_header(found.codes, found.ids, name)
        return found.codes, found.ids
    ids = to_id_array(universe, f"the universe of {name}")
    place = places(found.ids, ids, f"{name} and its universe")
    if (place < 0).any():
        unknown = found.ids[pd.unique(found.codes[place[found.codes] < 0])]
        refuse_header(found.codes, found.ids, name)
        raise InputError(
            f"{name} has {unknown.size} ids that are not in the given universe of {ids.size} "
            f"({examples(unknown)}; the universe starts with {examples(ids)}). Add them to the universe, "
            "or remove their rows."
        )
    return place.take(found.codes), ids


guard(__name__)
