"""Slates: queries with the items listed for each, their labels, and the user of each query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import check_codes, encode_in_universe
from ipseval.errors import InputError, PropensityError
from ipseval.propensity import Propensity
from ipseval.utils.checks import as_float_vector, check_type, format_count, format_examples
from ipseval.utils.columns import extract_columns, frame_columns, to_numbers
from ipseval.utils.notes import Count, counts_frame, drop_zero_counts
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, as_readonly, copy_if_writable

OPTIONAL_COLUMNS = ("user", "position", "propensity")
ARRAYS = ("query", "item", "label", "query_ids", "item_ids", "user", "user_ids", "position", "propensity")


@public_class
@dataclass(frozen=True, eq=False)
class Slates:
    """Queries with the items listed for each: one row for each listed item.

    Parameters
    ----------
    query, item : (n,) int arrays
        Codes: `query_ids[query]` and `item_ids[item]` are the ids of the caller's data. An item occurs once
        in a query.
    label : (n,) float array
        Relevance, >= 0; items with a label above 0 are the positives, and the label is their gain.
    query_ids, item_ids : arrays
        The universe of ids.
    user : (n_queries,) int array, optional
        User of each query, a code of `user_ids`. Default: every query is independent.
    user_ids : array, optional
        The ids of the users.
    position : (n,) int array, optional
        Position at which the item was shown, 1 is the first.
    propensity : (n,) float array, optional
        Probability in (0, 1] that the item, if relevant, was observed.
    counted : tuple of Count
        Counts of the rows that were read; `data` shows them as a table.
    row_labels : pandas index, optional
        Index of the frame that was read: a Series of scores with the same labels may be in any order.

    Raises
    ------
    InputError
        For arrays of different lengths, items that occur twice in a query, labels or positions out of range.
    PropensityError
        For propensities outside (0, 1].

    See Also
    --------
    ipseval.evaluate_slates : Evaluate recommenders within these slates.
    ipseval.evaluation.slates.read_mind : Read slates of MIND.

    Examples
    --------
    >>> frame = pd.DataFrame({"user": ["ann", "ann"], "query": [1, 1], "item": ["x", "y"], "label": [1, 0]})
    >>> Slates.from_frame(frame)
    Slates(2 rows, 1 query of 1 user, 2 items; 1 positive)
    """

    query: IntArray
    item: IntArray
    label: FloatArray
    query_ids: AnyArray
    item_ids: AnyArray
    user: IntArray | None = None
    user_ids: AnyArray | None = None
    position: IntArray | None = None
    propensity: FloatArray | None = None
    counted: tuple[Count, ...] = ()
    row_labels: pd.Index | None = None

    def __post_init__(self) -> None:
        for name in ARRAYS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_readonly(copy_if_writable(getattr(self, name))))
        check_codes("query", self.query, self.query_ids.size)
        check_codes("item", self.item, self.item_ids.size)
        self._check_users()
        self._check_lengths()
        _check_distinct(self)
        self._check_values()

    def _check_users(self) -> None:
        """Raise `InputError` unless every query has a user, or there are no users."""
        if (self.user is None) != (self.user_ids is None):
            raise InputError("user and user_ids go together.")
        if self.user is None or self.user_ids is None:
            return
        check_codes("user", self.user, self.user_ids.size)
        if self.user.size != self.query_ids.size:
            raise InputError(
                f"user must have one entry for each of {self.query_ids.size:,} queries; got "
                f"{self.user.size:,}."
            )

    def _check_lengths(self) -> None:
        """Raise `InputError` unless all arrays have one entry for each row."""
        sizes = {}
        for name in ("query", "item", "label", "position", "propensity"):
            array = getattr(self, name)
            if array is not None:
                sizes[name] = array.size
        if len(set(sizes.values())) > 1:
            raise InputError(f"the arrays of slates must have one length; got {sizes}.")

    def _check_values(self) -> None:
        """Raise an error for labels, positions or propensities out of range."""
        _check_rows(
            (self.label >= 0) & np.isfinite(self.label),
            "label must be finite and >= 0, 0 for what is not relevant",
            "Set labels below 0 to 0 where they mean the same.",
        )
        if self.position is not None:
            _check_rows(self.position >= 1, "position must be 1, 2, 3, …")
        if self.propensity is not None:
            _check_rows(
                (self.propensity > 0) & (self.propensity <= 1),
                "propensity must be in (0, 1]",
                "A row that cannot be observed belongs in no slate.",
                PropensityError,
            )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        query: str = "query",
        item: str = "item",
        label: str = "label",
        user: str | None = None,
        position: str | None = None,
        propensity: str | None = None,
        users: Any | None = None,
        items: Any | None = None,
    ) -> Slates:
        """Read slates from a data frame with one row for each listed item.

        Parameters
        ----------
        frame : data frame
            pandas, polars, pyarrow and other frames that narwhals reads.
        query, item, label : str
            Column names. Labels are relevance >= 0, or True and False.
        user, position, propensity : str, optional
            Column names. Default: the column of that name, where there is one. Without users every query is
            independent.
        users, items : array-like of ids, optional
            The whole universe. Default: the ids in the frame, sorted.

        Returns
        -------
        Slates

        Raises
        ------
        InputError
            For missing columns or values, an item twice in a query, a query of two users, labels below 0.
        PropensityError
            For propensities outside (0, 1].
        """
        available_columns = frame_columns(frame)
        requested = {"user": user, "position": position, "propensity": propensity}
        names = {"query": query, "item": item, "label": label}
        for name in OPTIONAL_COLUMNS:
            if requested[name] is not None or name in available_columns:
                names[name] = requested[name] or name
        columns = extract_columns(frame, list(dict.fromkeys(names.values())))
        data = {name: columns[column] for name, column in names.items()}
        if not data["query"].size:
            raise InputError("the frame has no rows; at least one item of one query is needed.")

        query_codes, query_ids = encode_in_universe(data["query"], None, f"column {query!r}")
        item_codes, item_ids = encode_in_universe(data["item"], items, f"column {item!r}")
        optional_fields: dict[str, Any] = {}
        if "user" in names:
            user_codes, user_ids = encode_in_universe(data["user"], users, f"column {names['user']!r}")
            optional_fields["user_ids"] = user_ids
            optional_fields["user"] = _find_query_users(query_codes, user_codes, query_ids, user_ids)
        if "position" in names:
            positions = to_numbers(data["position"], f"column {names['position']!r}")
            optional_fields["position"] = _to_whole_numbers(positions)
        if "propensity" in names:
            propensities = to_numbers(data["propensity"], f"column {names['propensity']!r}")
            optional_fields["propensity"] = propensities.astype(np.float64)
        if isinstance(frame, pd.DataFrame):
            optional_fields["row_labels"] = frame.index
        return cls(
            query=query_codes,
            item=item_codes,
            label=to_numbers(data["label"], f"column {label!r}").astype(np.float64),
            query_ids=query_ids,
            item_ids=item_ids,
            counted=(Count("rows read", query_codes.size, None, "slates"),),
            **optional_fields,
        )

    @classmethod
    def from_log(cls, log: ImpressionLog) -> Slates:
        """Make slates of an impression log: its queries, the items shown, and clicks as labels.

        Parameters
        ----------
        log : ImpressionLog
            A log with queries.

        Returns
        -------
        Slates

        Raises
        ------
        InputError
            When the log has no queries.
        """
        check_type("log", log, ImpressionLog, " Make it with ImpressionLog.from_frame.")
        if log.query is None or log.query_ids is None:
            raise InputError("the log has no queries; name their column with query= when it is read.")
        return cls(
            query=log.query,
            item=log.item,
            label=log.clicked.astype(np.float64),
            query_ids=log.query_ids,
            item_ids=log.item_ids,
            user=_find_query_users(log.query, log.user, log.query_ids, log.user_ids),
            user_ids=log.user_ids,
            position=log.position,
            propensity=log.propensity,
            counted=log.row_counts,
        )

    def __len__(self) -> int:
        return int(self.query.size)

    def __repr__(self) -> str:
        queries = format_count(np.unique(self.query).size, "query")
        if self.user is not None:
            queries = f"{queries} of {format_count(np.unique(self.user).size, 'user')}"
        sizes = f"{format_count(len(self), 'row')}, {queries}, {format_count(self.item_ids.size, 'item')}"
        return f"Slates({sizes}; {format_count(int(self.is_positive.sum()), 'positive')})"

    @cached_property
    def is_positive(self) -> BoolArray:
        """Whether each row is a positive, (n,): its label is above 0."""
        return self.label > 0

    @cached_property
    def size(self) -> IntArray:
        """Number of items listed for each query, (n_queries,)."""
        return np.bincount(self.query, minlength=self.query_ids.size)

    @property
    def data(self) -> pd.DataFrame:
        """Table of the counts of the rows that were read: subject, what, count, of."""
        return counts_frame(self.counts)

    @cached_property
    def counts(self) -> tuple[Count, ...]:
        """Counts of the rows that were read, of queries without a positive, and with positives only."""
        n_queries = self.query_ids.size
        n_positives = np.bincount(self.query[self.is_positive], minlength=n_queries)
        n_users = 0 if self.user is None else np.unique(self.user).size
        counts = (
            Count("queries", n_queries),
            *drop_zero_counts(Count("users", n_users)),
            Count("positives", int(n_positives.sum()), len(self)),
            *drop_zero_counts(
                Count("queries without a positive", int((n_positives == 0).sum()), n_queries),
                Count("queries with positives only", int((n_positives == self.size).sum()), n_queries),
            ),
        )
        return (*self.counted, *(count.with_subject("slates") for count in counts))

    @cached_property
    def positive_rows(self) -> IntArray:
        """Rows of the positives, by query, then item."""
        rows = np.flatnonzero(self.is_positive)
        return rows[np.lexsort((self.item[rows], self.query[rows]))]

    def examination(
        self, by_position: Mapping[int, float] | npt.ArrayLike, *, is_probability: bool = True
    ) -> Propensity:
        """Return P of each positive from the position at which it was shown.

        Parameters
        ----------
        by_position : mapping, or (n,) array-like
            P that an item at position 1, 2, 3, … is examined; an array begins with position 1.
        is_probability : bool, default True
            False: known up to a common factor.

        Returns
        -------
        Propensity
            P of each positive, in the order of `positive_rows`.

        Raises
        ------
        InputError
            When the slates have no positions.
        PropensityError
            When a positive is at a position without a value, or a value is out of range.

        Examples
        --------
        >>> frame = pd.DataFrame({"query": [1, 1], "item": [7, 8], "label": [0, 1], "position": [1, 2]})
        >>> Slates.from_frame(frame).examination([1.0, 0.5]).pair
        array([0.5])
        """
        if self.position is None:
            raise InputError("these slates have no positions; name their column with position=.")
        if not isinstance(by_position, Mapping):
            by_position = dict(enumerate(as_float_vector("by_position", by_position), start=1))
        positions = self.position[self.positive_rows]
        missing = [position for position in np.unique(positions).tolist() if position not in by_position]
        if missing:
            raise PropensityError(
                f"by_position has no value for {format_count(len(missing), 'position')} of positives "
                f"({format_examples(missing)}); give P of every position."
            )
        values = np.array([float(by_position[position]) for position in positions.tolist()])
        return self.of_positives(values, is_probability, "examination by position")

    def logged(self, *, is_probability: bool = True) -> Propensity:
        """Return the column of propensities as P of each positive.

        Parameters
        ----------
        is_probability : bool, default True
            False: known up to a common factor.

        Returns
        -------
        Propensity
            P of each positive, in the order of `positive_rows`.

        Raises
        ------
        InputError
            When the slates have no propensities.
        """
        if self.propensity is None:
            raise InputError("these slates have no propensities; name their column with propensity=.")
        return self.of_positives(
            self.propensity[self.positive_rows], is_probability, "logged with the slates"
        )

    def of_positives(
        self, values: FloatArray, is_probability: bool, model: str, unclipped: Propensity | None = None
    ) -> Propensity:
        """Return a propensity from P of each positive.

        Parameters
        ----------
        values : (n_positives,) float array
            P in the order of `positive_rows`.
        is_probability : bool
            False: known up to a common factor.
        model : str
            Name of the propensity in reports.
        unclipped : Propensity, optional
            The propensity before clipping.

        Returns
        -------
        Propensity
            A propensity that is defined for the listed positives.
        """
        rows = self.positive_rows
        n_items = self.item_ids.size
        return Propensity(
            item=None,
            is_probability=is_probability,
            model=model,
            n_items=n_items,
            pair=values,
            pair_key=self.query[rows] * np.int64(n_items) + self.item[rows],
            item_ids=self.item_ids,
            user_ids=self.query_ids,
            unclipped_propensity=unclipped,
        )


def _check_rows(
    is_valid: BoolArray, requirement: str, advice: str = "", error: type[InputError] = InputError
) -> None:
    """Raise an error with the number of rows that do not meet a requirement."""
    n_invalid = int((~is_valid).sum())
    if n_invalid:
        raise error(f"{requirement}; {n_invalid:,} of {is_valid.size:,} rows are not. {advice}".rstrip())


def _check_distinct(slates: Slates) -> None:
    """Raise `InputError` when an item is listed twice in a query."""
    keys = np.sort(slates.query * np.int64(slates.item_ids.size) + slates.item)
    repeated_keys = keys[1:][keys[1:] == keys[:-1]]
    if repeated_keys.size:
        query, item = divmod(int(repeated_keys[0]), slates.item_ids.size)
        raise InputError(
            f"{repeated_keys.size:,} of {len(slates):,} rows list an item again in its query (first: query "
            f"{format_examples(slates.query_ids[[query]])}, item {format_examples(slates.item_ids[[item]])}); "
            "list each once."
        )


def _find_query_users(query: IntArray, user: IntArray, query_ids: AnyArray, user_ids: AnyArray) -> IntArray:
    """Return the user of each query, (n_queries,), or raise `InputError` when a query has two."""
    query_users = np.zeros(query_ids.size, dtype=np.int64)
    query_users[query] = user
    conflicts = np.flatnonzero(query_users[query] != user)
    if conflicts.size:
        first_query = query[conflicts[0]]
        names = format_examples([user_ids[user[conflicts[0]]], user_ids[query_users[first_query]]])
        raise InputError(
            f"{np.unique(query[conflicts]).size:,} of {query_ids.size:,} queries have rows of several users "
            f"(first: query {format_examples(query_ids[[first_query]])} of {names}). "
            "Number queries so that each has one user."
        )
    return query_users


def _to_whole_numbers(positions: AnyArray) -> IntArray:
    """Return positions as integers, or raise `InputError` for fractions."""
    if positions.dtype.kind == "f" and (positions != np.floor(positions)).any():
        raise InputError("position must hold whole numbers: 1, 2, 3, …")
    return positions.astype(np.int64)
