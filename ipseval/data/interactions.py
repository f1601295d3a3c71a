"""Interactions: observed user–item pairs over one universe of ids, read from a data frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data._impression_checks import format_first_pair
from ipseval.errors import InputError
from ipseval.utils.checks import (
    check_bool,
    check_choice,
    check_positive_int,
    check_type,
    format_count,
    format_examples,
)
from ipseval.utils.columns import extract_log_columns, to_numbers
from ipseval.utils.constructors import NamedConstructors
from ipseval.utils.ids import (
    Ids,
    as_ids,
    encode_ids,
    find_positions,
    mark_repeats,
    refuse_header,
    to_id_array,
)
from ipseval.utils.notes import Count, counts_frame, drop_zero_counts
from ipseval.utils.public import public_class
from ipseval.utils.types import (
    AnyArray,
    BoolArray,
    HasIds,
    IntArray,
    as_readonly,
    assign,
    build_unchecked,
    copy_if_writable,
    freeze,
)

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame
    from scipy.sparse import csr_matrix

Duplicates = Literal["raise", "drop", "keep"]

COUNT_FIELDS = ("n_duplicates_dropped", "n_users_removed", "n_items_removed", "n_pairs_removed")
ID_ROLES = ("user", "item", "query")
REQUIRED_ROLES = ("user", "item", "clicked")
BOOLEAN_ROLES = ("clicked", "shown")


class Universe(metaclass=NamedConstructors):
    """Provide the numbers of users and items of a class with their ids."""

    @property
    def n_users(self: HasIds) -> int:
        """Number of users in the universe, including users without a row."""
        return int(self.user_ids.size)

    @property
    def n_items(self: HasIds) -> int:
        """Number of items in the universe, including items without a row."""
        return int(self.item_ids.size)


@public_class
class Log(Universe):
    """Represent rows of users and items as codes of their ids."""

    user: IntArray
    item: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    row_counts: tuple[Count, ...]
    _column_names: ClassVar[tuple[str, ...]]

    def __len__(self) -> int:
        return int(self.user.size)

    @property
    def _arrays(self) -> dict[str, AnyArray]:
        """Arrays of the columns that the log has, (n,) each."""
        arrays = {}
        for name in self._column_names:
            array = getattr(self, name)
            if array is not None:
                arrays[name] = array
        return arrays

    def to_frame(self) -> pd.DataFrame:
        """Return the log as a pandas frame.

        Returns
        -------
        DataFrame
            One row per row of the log: the ids of users and items (and slates), and the other columns that
            the log has, in its own order.
        """
        columns = {}
        for name, array in self._arrays.items():
            ids = getattr(self, f"{name}_ids", None)
            columns[name] = array if ids is None else ids[array]
        return pd.DataFrame(columns)

    @cached_property
    def pair_key(self) -> IntArray:
        """`user * n_items + item`, (n,): one integer per pair, for joins."""
        return as_readonly(self.user * np.int64(self.n_items) + self.item)

    @cached_property
    def has_ascending_pairs(self) -> bool:
        """Whether the rows are sorted by user and item, and no pair is repeated."""
        keys = self.pair_key
        return bool((keys[1:] > keys[:-1]).all())

    @property
    def data(self) -> pd.DataFrame:
        """Table of the rows that were read and left out.

        Its columns are subject, what, count and of.
        """
        return counts_frame(count.with_subject("log") for count in self.row_counts)

    def _check_codes(self, names: tuple[str, ...]) -> dict[str, int]:
        """Check the codes and ids of the named columns, set them read-only, and return their lengths."""
        sizes = {}
        for name in names:
            ids_name = f"{name}_ids"
            ids = copy_if_writable(to_id_array(getattr(self, ids_name), ids_name))
            codes = check_codes(name, copy_if_writable(getattr(self, name)), ids.size)
            assign(self, **{ids_name: as_readonly(ids), name: as_readonly(codes)})
            sizes[name] = codes.size
        return sizes


@public_class
@dataclass(frozen=True, eq=False)
class Interactions(Log):
    """Store observed user–item pairs as codes over one universe of users and items.

    Parameters
    ----------
    user, item : (n,) int arrays
        Codes: `user_ids[user]` and `item_ids[item]` are the ids of the data. No pair occurs twice, unless
        `repeats` is True.
    user_ids, item_ids : arrays
        The universe of ids. Row u and column i of a score matrix belong to `user_ids[u]` and `item_ids[i]`.
    value : (n,) float array or None
        Rating, gain or weight of the pair, in the unit of the data.
    timestamp : (n,) int or float array or None
        Time of the pair. Dates are stored as nanoseconds since 1970 in UTC; dates that nanoseconds cannot
        represent are an error.
    n_duplicates_dropped : int
        Number of rows left out because their pair occurs in an earlier row (only with `duplicates="drop"`).
    n_users_removed, n_items_removed, n_pairs_removed : int
        Numbers of users, items and pairs that a filter such as `k_core` removed.
    row_counts : tuple of Count
        Counts of rows that were read and left out; `data` returns them as a table.
    repeats : bool
        Whether pairs may repeat, because users buy or play the same item again (`duplicates="keep"`).

    Attributes
    ----------
    impressions : ImpressionLog or None
        The impression log whose clicked pairs these are; of a test part by `split_global_time`, its impressions
        from the beginning of the test part on.

    Raises
    ------
    InputError
        For repeated ids, codes outside the ids, arrays of different lengths, values that are not finite
        numbers, and repeated pairs unless `repeats` is True.

    See Also
    --------
    ipseval.read : Read a log and find its columns.
    Interactions.from_frame : Read a data frame with named columns.

    Examples
    --------
    Two users and three items, of which nobody has used the third:

    >>> log = Interactions(
    ...     user=[0, 0, 1], item=[0, 1, 1], user_ids=["anna", "ben"], item_ids=["a", "b", "c"]
    ... )
    >>> log
    Interactions(3 pairs, 2 users, 3 items)
    >>> log.to_frame()
       user item
    0  anna    a
    1  anna    b
    2   ben    b
    >>> log.popularity
    array([1, 2, 0])
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
    row_counts: tuple[Count, ...] = ()
    repeats: bool = False
    impressions: Any = field(default=None, init=False)
    _column_names = ("user", "item", "value", "timestamp")

    @classmethod
    def from_frame(
        cls,
        frame: IntoFrame,
        *,
        user: str = "user",
        item: str = "item",
        value: str | None = None,
        timestamp: str | None = None,
        users: npt.ArrayLike | None = None,
        items: npt.ArrayLike | None = None,
        duplicates: Duplicates = "raise",
    ) -> Interactions:
        """Read interactions from a data frame.

        Parameters
        ----------
        frame : data frame
            One row per observed pair; any frame that narwhals supports (pandas, polars, pyarrow, …).
        user, item : str
            Names of the columns of ids. Default: "user" and "item".
        value, timestamp : str, optional
            Names of the columns of values and times. By default, they are not read.
        users, items : array-like of ids, optional
            All users and items, in the order of the rows and columns of score matrices. Default: the sorted
            ids of the frame.
        duplicates : {"raise", "drop", "keep"}
            How to treat rows whose pair occurs in an earlier row: raise an error (default); leave them out
            and count them; or keep them as separate interactions.

        Returns
        -------
        Interactions
            The pairs in the order of the frame.

        Raises
        ------
        InputError
            For an empty frame, a missing column, a missing id or value, ids of mixed type, ids outside
            `users` or `items`, and duplicate pairs.

        See Also
        --------
        ipseval.read : Read files and frames whose columns have other names.

        Examples
        --------
        >>> import pandas as pd
        >>> log = Interactions.from_frame(pd.DataFrame({"user": ["b", "a"], "item": [7, 3]}))
        >>> log.user, log.user_ids
        (array([1, 0]), array(['a', 'b'], dtype=object))
        """
        check_choice("duplicates", duplicates, ("raise", "drop", "keep"))
        names = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        advice = (
            "at least one user–item pair is needed. For a test set without training items, pass train=None "
            "to Split.from_frames."
        )
        columns = read_columns(frame, names, users, items, advice)
        counts: tuple[Count, ...] = (Count("rows read", columns["user"].size),)
        log = build_unchecked(Interactions, **columns, row_counts=counts, repeats=duplicates == "keep")
        counts += drop_zero_counts(Count("rows that repeat an earlier pair, kept", log.n_repeats, len(log)))
        return log._replace_unchecked(row_counts=counts)._treat_duplicates(duplicates)

    def __post_init__(self) -> None:
        sizes = self._check_codes(("user", "item"))
        for name in ("value", "timestamp"):
            array = getattr(self, name)
            if array is not None:
                numbers = to_numbers(check_one_dimensional(copy_if_writable(array), name), name)
                assign(self, **{name: as_readonly(numbers)})
                sizes[name] = numbers.size
        if len(set(sizes.values())) > 1:
            raise InputError(f"the arrays of interactions must have one length; got {sizes}.")
        for name in COUNT_FIELDS:
            check_positive_int(name, getattr(self, name), minimum=0)
        check_type("row_counts", self.row_counts, tuple)
        check_bool("repeats", self.repeats)
        if not self.repeats:
            self._treat_duplicates("raise")

    def __repr__(self) -> str:
        noun = "interaction" if self.repeats else "pair"
        n_rows = format_count(len(self), noun)
        n_users = format_count(self.n_users, "user")
        n_items = format_count(self.n_items, "item")
        return f"Interactions({n_rows}, {n_users}, {n_items})"

    @cached_property
    def popularity(self) -> IntArray:
        """Number of interactions of each item, n*_i, (n_items,); repeats count, and 0 means none."""
        return as_readonly(np.bincount(self.item, minlength=self.n_items))

    @cached_property
    def activity(self) -> IntArray:
        """Number of interactions of each user, (n_users,); repeats count, and 0 means none."""
        return as_readonly(np.bincount(self.user, minlength=self.n_users))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the users × items matrix of the log, (n_users, n_items)."""
        return (self.n_users, self.n_items)

    if not TYPE_CHECKING:  # for type checkers a subscript stays an error

        def __getitem__(self, key: object) -> NoReturn:
            """Raise `TypeError`, because columns are attributes."""
            raise TypeError(
                "'Interactions' object has no items. Use .to_frame(), a data frame with the columns user and item."
            )

    def to_csr(self, *, values: bool = False) -> csr_matrix:
        """Return the interactions as a sparse users × items matrix.

        Parameters
        ----------
        values : bool
            Whether the entries are the values of the log. Default: False, all entries are 1.

        Returns
        -------
        scipy.sparse.csr_matrix
            Matrix of float32, (n_users, n_items), in the order of the ids: the format on which implicit and
            LightFM train. Entries of repeated pairs are added.

        Raises
        ------
        InputError
            If `values` is True and the log has no values.

        Examples
        --------
        >>> import pandas as pd
        >>> Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [7, 3]})).to_csr().toarray()
        array([[0., 1.],
               [1., 0.]], dtype=float32)
        """
        from scipy.sparse import csr_matrix

        if values and self.value is None:
            raise InputError(
                "values=True needs a log with values; this log has none. Read them with value=…."
            )
        entries = np.ones(len(self))
        if values:
            entries = np.asarray(self.value)
        return csr_matrix(
            (np.asarray(entries, dtype=np.float32), (self.user, self.item)),
            shape=(self.n_users, self.n_items),
        )

    @cached_property
    def distinct(self) -> Interactions:
        """The first row of each pair; `n_duplicates_dropped` counts the other rows."""
        if not self.repeats:
            return self
        return self._treat_duplicates("drop")._replace_unchecked(repeats=False, row_counts=self.row_counts)

    @property
    def n_repeats(self) -> int:
        """Number of rows that repeat the pair of an earlier row; 0 unless `repeats` is True."""
        return len(self) - len(self.distinct)

    def select(self, keep: BoolArray | IntArray) -> Interactions:
        """Select rows over the same universe of ids.

        Parameters
        ----------
        keep : (n,) bool array or int array
            Mask of the rows, or row numbers.

        Returns
        -------
        Interactions
            The selected rows, with the same ids.

        Raises
        ------
        InputError
            For a mask of another length, row numbers outside the log, and repeated row numbers.
        """
        rows = to_row_selection(keep, len(self))
        is_mask = rows.dtype == bool
        if is_mask:
            rows = np.flatnonzero(rows)  # several times faster for several columns
        arrays = {name: array.take(rows) for name, array in self._arrays.items()}
        selection = self._replace_unchecked(**arrays)
        if is_mask or self.repeats:
            return selection
        return selection._treat_duplicates("raise")

    def _replace_unchecked(self, **changes: object) -> Interactions:
        """Return a copy with some fields replaced, without checks; the caller keeps the pairs distinct."""
        values: dict[str, object] = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        if "user_ids" in changes or "item_ids" in changes:
            values["impressions"] = None  # the impressions have the previous ids
        return build_unchecked(Interactions, **(values | changes))

    @property
    def positives(self) -> Interactions:
        """The interactions themselves, so that a log and an `ImpressionLog` can be used alike."""
        return self

    def _treat_duplicates(self, duplicates: Duplicates) -> Interactions:
        """Return the rows after the treatment of repeated pairs, or raise `InputError`."""
        if duplicates == "keep":
            return self
        is_repeat = mark_repeats(self.pair_key)
        n_repeats = int(is_repeat.sum())
        if not n_repeats:
            return self
        if duplicates == "raise":
            first_pair = format_first_pair(vars(self), is_repeat)
            raise InputError(
                f"{n_repeats} of {len(self)} rows repeat an earlier user–item pair (first: {first_pair}).",
                advice="Aggregate them, or pass {duplicates=drop} to keep the first row of each pair, or "
                "{duplicates=keep} where users take an item again",
            )
        count = Count("rows that repeat an earlier pair, left out", n_repeats, len(self), code="exclusion")
        return self.select(~is_repeat)._replace_unchecked(
            n_duplicates_dropped=self.n_duplicates_dropped + n_repeats,
            row_counts=(*self.row_counts, count),
        )


def to_row_selection(keep: npt.ArrayLike, n_rows: int) -> BoolArray | IntArray:
    """Return a mask or row numbers as an array, or raise `InputError`."""
    rows = np.asarray(keep)
    if not rows.size:
        rows = rows.astype(np.int64)
    is_mask = rows.dtype == bool and rows.size == n_rows
    are_row_numbers = rows.dtype.kind in "iu" and bool(((rows >= -n_rows) & (rows < n_rows)).all())
    if rows.ndim != 1 or not (is_mask or are_row_numbers):
        raise InputError(f"keep must be a mask ({n_rows},) or row numbers below {n_rows}; got {keep!r:.80}.")
    return rows


def check_one_dimensional(array: AnyArray, name: str) -> AnyArray:
    """Return the array, or raise `InputError` unless it has one dimension."""
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {array.shape}.")
    return array


def check_codes(name: str, codes: AnyArray, size: int) -> IntArray:
    """Return int64 codes of `size` ids, or raise `InputError`."""
    if not check_one_dimensional(codes, name).size:
        return np.zeros(0, dtype=np.int64)
    if codes.dtype.kind not in "iu":
        raise InputError(f"{name} must hold whole numbers, codes of the ids; got dtype {codes.dtype}.")
    is_outside = (codes < 0) | (codes >= size)
    if is_outside.any():
        raise InputError(
            f"{name} must hold codes from 0 to {size - 1}, one below the number of ids; "
            f"{int(is_outside.sum())} of {codes.size} are not (first: {codes[is_outside][0]})."
        )
    return codes.astype(np.int64)


def read_columns(
    frame: IntoFrame,
    names: Mapping[str, str | None],
    users: npt.ArrayLike | None,
    items: npt.ArrayLike | None,
    advice: str,
) -> dict[str, AnyArray]:
    """Return the columns of a frame by role: ids as codes with their ids, numbers and masks.

    Parameters
    ----------
    frame : data frame
        One row per row of the log.
    names : mapping
        Role -> name of the column; None for a role without a column.
    users, items : array-like of ids, optional
        The universe of ids. Default: the sorted ids of the frame.
    advice : str
        End of the error for an empty frame.
    """
    column_names = _check_column_names(names)
    id_names = []
    other_names = []
    for role, name in column_names.items():
        if role in ID_ROLES:
            id_names.append(name)
        else:
            other_names.append(name)

    ids, values = extract_log_columns(frame, id_names, other_names)
    if not len(ids[column_names["user"]]):
        raise InputError(f"the frame has no rows; {advice}")
    universes = {"user": users, "item": items}
    columns: dict[str, AnyArray] = {}
    for role, name in column_names.items():
        description = f"column {name!r}"
        if role in ID_ROLES:
            columns[role], columns[f"{role}_ids"] = encode_in_universe(
                ids[name], universes.get(role), description
            )
        elif role in BOOLEAN_ROLES:
            columns[role] = to_mask(values[name], description)
        else:
            columns[role] = to_numbers(values[name], description)
    return columns


def _check_column_names(names: Mapping[str, str | None]) -> dict[str, str]:
    """Return the names of the columns that are read, or raise `InputError` for one that is not text."""
    column_names = {}
    for role, name in names.items():
        if isinstance(name, str):
            column_names[role] = name
        elif name is not None or role in REQUIRED_ROLES:
            raise InputError(f"{role} must be the name of a column of the frame; got {name!r:.80}.")
    return column_names


def to_mask(values: AnyArray, name: str) -> BoolArray:
    """Return a column of True/False or 1/0 as a mask, or raise `InputError`."""
    if values.dtype == object:
        is_valid = np.array([isinstance(value, (bool, np.bool_)) for value in values], dtype=bool)
    elif values.dtype.kind in "biuf":
        is_valid = np.isin(values, (0, 1))
    else:
        is_valid = np.zeros(values.size, dtype=bool)
    if not is_valid.all():
        raise InputError(
            f"{name} must hold True or False, or 1 and 0; {int((~is_valid).sum())} of {values.size} entries "
            f"do not (first: {format_examples(values[~is_valid][:1])})."
        )
    return values.astype(bool)


def check_interactions(log: object, name: str, advice: str = "Interactions.from_frame(frame)") -> None:
    """Raise `InputError` unless `log` is Interactions; `advice` names how to make them."""
    if isinstance(log, Interactions):
        return
    if hasattr(log, "positives"):
        advice = f"its positives: {name}.positives"
    elif hasattr(log, "train"):
        advice = "its training part, split.train"
    elif hasattr(log, "columns"):
        advice = f"ipseval.read({name}), which finds the columns, or {advice}"
    raise InputError(f"{name} must be Interactions; got {type(log).__name__}. Pass {advice}.")


def encode_in_universe(
    values: AnyArray | Ids, universe: npt.ArrayLike | None, name: str
) -> tuple[IntArray, AnyArray]:
    """Return codes (n,) and their ids: the universe in its order, or the sorted distinct values."""
    column = values if isinstance(values, Ids) else encode_ids(as_ids(values, name), name)
    if universe is None:
        refuse_header(column.codes, column.ids, name)
        return column.codes, column.ids
    ids = to_id_array(universe, f"the universe of {name}")
    positions = find_positions(column.ids, ids, f"{name} and its universe")
    if (positions < 0).any():
        unknown_ids = column.ids[pd.unique(column.codes[positions[column.codes] < 0])]
        refuse_header(column.codes, column.ids, name)
        raise InputError(
            f"{name} has {unknown_ids.size} ids that are not in the given universe of {ids.size} "
            f"({format_examples(unknown_ids)}; the universe starts with {format_examples(ids)}). Add them to the "
            "universe, or remove their rows."
        )
    return positions.take(column.codes), ids


@public_class
@dataclass(frozen=True, eq=False)
class TrainingCounts:
    """Training interactions of each item (n*) and of each user, from which groups by count are built.

    Parameters
    ----------
    popularity : (n_items,) int array
        Training interactions of each item.
    activity : (n_users,) int array
        Training interactions of each user.

    See Also
    --------
    ipseval.evaluation.Evaluation.by : Its argument `counts` takes them.

    Examples
    --------
    >>> import numpy as np
    >>> log = Interactions(np.array([0, 0, 1]), np.array([1, 2, 1]), np.arange(2), np.arange(3))
    >>> counts = TrainingCounts.from_interactions(log)
    >>> counts.popularity, counts.activity
    (array([0, 2, 1]), array([2, 1]))
    """

    popularity: IntArray
    activity: IntArray

    def __post_init__(self) -> None:
        freeze(self, "popularity", "activity")

    @classmethod
    def from_interactions(cls, train: Interactions) -> TrainingCounts:
        """Return the counts of a training log.

        Parameters
        ----------
        train : Interactions
            The training log.

        Returns
        -------
        TrainingCounts
            Counts in the order of the ids of the log.
        """
        return cls(np.asarray(train.popularity), np.asarray(train.activity))

    def along(self, axis: Literal["user", "item"]) -> IntArray:
        """Return the counts of the users or of the items.

        Parameters
        ----------
        axis : {"user", "item"}
            Whether the counts are of users or of items.

        Returns
        -------
        (n_users,) or (n_items,) int array
            Training interactions, in the order of the ids.
        """
        if axis == "user":
            return self.activity
        return self.popularity
