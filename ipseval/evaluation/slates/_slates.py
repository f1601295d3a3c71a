"""Slates: queries with the items listed for each, their labels, and whose queries they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import check_codes, encode
from ipseval.errors import InputError, PropensityError
from ipseval.propensity import Propensity
from ipseval.utils.checks import as_float_vector, check_type, counted, examples
from ipseval.utils.columns import columns_of, frame_columns, to_numbers
from ipseval.utils.counts import Count, counts_frame, some
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, owned, readonly

OPTIONAL = ("user", "position", "propensity")


@dataclass(frozen=True, eq=False)
class Slates:
    """Queries with the items listed for each: one row for each listed item.

    Attributes
    ----------
    query, item : (n,) int arrays
        Codes: `query_ids[query]` and `item_ids[item]` are the ids of the caller's data. An item occurs once
        in a query.
    label : (n,) float array
        Relevance, >= 0; items with a label above 0 are the positives, and the label is their gain.
    query_ids, item_ids : arrays
        The universe of ids.
    user : (n_queries,) int array or None
        Whose query each is, a code of `user_ids`; None: every query is independent.
    user_ids : array or None
    position : (n,) int array or None
        Place at which the item was shown, 1 is the first.
    propensity : (n,) float array or None
        Probability in (0, 1] that the item, if relevant, was observed.
    counted : tuple of Count
        What was read; `data` shows it as a table.
    row_labels : pandas index or None
        Of the frame that was read: a Series of scores with the same labels may be in any order.

    Raises
    ------
    InputError
        For arrays of different lengths, items that occur twice in a query, labels or positions out of range.
    PropensityError
        For propensities outside (0, 1].

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
        for name in ("query", "item", "label", "query_ids", "item_ids", "user", "user_ids", *OPTIONAL[1:]):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, readonly(owned(getattr(self, name))))
        check_codes("query", self.query, self.query_ids.size)
        check_codes("item", self.item, self.item_ids.size)
        if (self.user is None) != (self.user_ids is None):
            raise InputError("user and user_ids go together.")
        if self.user is not None and self.user_ids is not None:
            check_codes("user", self.user, self.user_ids.size)
            if self.user.size != self.query_ids.size:
                raise InputError(
                    f"user must have one entry for each of {self.query_ids.size:,} queries; got "
                    f"{self.user.size:,}."
                )
        sizes = {name: getattr(self, name).size for name in ("query", "item", "label")}
        sizes |= {
            n: getattr(self, n).size for n in ("position", "propensity") if getattr(self, n) is not None
        }
        if len(set(sizes.values())) > 1:
            raise InputError(f"the arrays of slates must have one length; got {sizes}.")
        _check_distinct(self)
        label, chance = self.label, self.propensity
        relevance = "label must be finite and >= 0, 0 for what is not relevant"
        _check_rows(
            (label >= 0) & np.isfinite(label), relevance, "Set labels below 0 to 0 where they mean the same."
        )
        if self.position is not None:
            _check_rows(self.position >= 1, "position must be 1, 2, 3, …")
        if chance is not None:
            out = "A row that cannot be observed belongs in no slate."
            _check_rows((chance > 0) & (chance <= 1), "propensity must be in (0, 1]", out, PropensityError)

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
        """Return slates read from a data frame with one row for each listed item.

        Parameters
        ----------
        frame : data frame
            pandas, polars, pyarrow and whatever narwhals reads.
        query, item, label : str
            Column names. Labels are relevance >= 0, or True and False.
        user, position, propensity : str, optional
            Column names. Default: the column of that name, where there is one. Without users every query is
            independent of the others.
        users, items : array-like of ids, optional
            The whole universe. Default: the ids in the frame, sorted.

        Raises
        ------
        InputError
            For missing columns or values, an item twice in a query, a query of two users, labels below 0.
        PropensityError
            For propensities outside (0, 1].
        """
        have = frame_columns(frame)
        given = {"user": user, "position": position, "propensity": propensity}
        names = {"query": query, "item": item, "label": label}
        names |= {one: given[one] or one for one in OPTIONAL if given[one] is not None or one in have}
        columns = columns_of(frame, list(dict.fromkeys(names.values())))
        data = {name: columns[column] for name, column in names.items()}
        if not data["query"].size:
            raise InputError("the frame has no rows; at least one item of one query is needed.")
        queries, query_ids = encode(data["query"], None, f"column {query!r}")
        found, item_ids = encode(data["item"], items, f"column {item!r}")
        more: dict[str, Any] = {}
        if "user" in names:
            codes, more["user_ids"] = encode(data["user"], users, f"column {names['user']!r}")
            more["user"] = _of_query(queries, codes, query_ids, more["user_ids"])
        if "position" in names:
            more["position"] = _whole(to_numbers(data["position"], f"column {names['position']!r}"))
        if "propensity" in names:
            column = to_numbers(data["propensity"], f"column {names['propensity']!r}")
            more["propensity"] = column.astype(np.float64)
        labels = to_numbers(data["label"], f"column {label!r}").astype(np.float64)
        rows = (Count("rows read", queries.size, None, "slates"),)
        if isinstance(frame, pd.DataFrame):
            more["row_labels"] = frame.index
        return cls(queries, found, labels, query_ids, item_ids, counted=rows, **more)

    @classmethod
    def from_log(cls, log: ImpressionLog) -> Slates:
        """Return the slates of an exposure log: its queries, what was shown, and clicks as labels.

        Raises
        ------
        InputError
            When the log has no queries.
        """
        check_type("log", log, ImpressionLog, " Make it with ImpressionLog.from_frame.")
        if log.query is None or log.query_ids is None:
            raise InputError("the log has no queries; name their column with query= when it is read.")
        return cls(
            log.query,
            log.item,
            log.clicked.astype(np.float64),
            log.query_ids,
            log.item_ids,
            _of_query(log.query, log.user, log.query_ids, log.user_ids),
            log.user_ids,
            log.position,
            log.propensity,
            log.counted,
        )

    def __len__(self) -> int:
        return int(self.query.size)

    def __repr__(self) -> str:
        whose = "" if self.user is None else f" of {counted(np.unique(self.user).size, 'user')}"
        queries = counted(np.unique(self.query).size, "query") + whose
        sizes = f"{counted(len(self), 'row')}, {queries}, {counted(self.item_ids.size, 'item')}"
        return f"Slates({sizes}; {counted(int(self.is_positive.sum()), 'positive')})"

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
        """What was read: one row for each thing counted, with columns subject, what, count, of."""
        return counts_frame(self.counts)

    @cached_property
    def counts(self) -> tuple[Count, ...]:
        """What was read, and how many queries have no positive, or nothing else."""
        n = self.query_ids.size
        found = np.bincount(self.query[self.is_positive], minlength=n)
        counts = (
            Count("queries", n),
            *some(Count("users", 0 if self.user is None else np.unique(self.user).size)),
            Count("positives", int(found.sum()), len(self)),
            *some(
                Count("queries without a positive", int((found == 0).sum()), n),
                Count("queries of positives alone", int((found == self.size).sum()), n),
            ),
        )
        return (*self.counted, *(one.about("slates") for one in counts))

    @cached_property
    def positive_rows(self) -> IntArray:
        """Rows of the positives, by query, then item."""
        rows = np.flatnonzero(self.is_positive)
        return rows[np.lexsort((self.item[rows], self.query[rows]))]

    def examination(
        self, by_position: Mapping[int, float] | npt.ArrayLike, *, is_probability: bool = True
    ) -> Propensity:
        """Return P of each positive from the place at which it was shown.

        Parameters
        ----------
        by_position : mapping, or (n,) array-like
            P that an item at position 1, 2, 3, … is examined; an array begins with position 1.
        is_probability : bool
            False: known up to a common factor.

        Raises
        ------
        InputError
            When the slates have no positions.
        PropensityError
            When a positive stands at a position without a value, or a value is out of range.

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
        places = self.position[self.positive_rows]
        missing = [place for place in np.unique(places).tolist() if place not in by_position]
        if missing:
            raise PropensityError(
                f"by_position has no value for {counted(len(missing), 'position')} of positives "
                f"({examples(missing)}); give P of every position."
            )
        values = np.array([float(by_position[place]) for place in places.tolist()])
        return self.of_positives(values, is_probability, "examination by position")

    def logged(self, *, is_probability: bool = True) -> Propensity:
        """Return the column of propensities as P of each positive; `is_probability` False: up to a factor.

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
        """Return a propensity from P of each positive, (n_positives,), in the order of `positive_rows`."""
        rows, n_items = self.positive_rows, self.item_ids.size
        return Propensity(
            None,
            is_probability,
            model,
            n_items,
            pair=values,
            pair_key=self.query[rows] * np.int64(n_items) + self.item[rows],
            item_ids=self.item_ids,
            user_ids=self.query_ids,
            unclipped=unclipped,
        )


def _check_rows(good: BoolArray, must: str, advice: str = "", kind: type[InputError] = InputError) -> None:
    n_bad = int((~good).sum())
    if n_bad:
        raise kind(f"{must}; {n_bad:,} of {good.size:,} rows are not. {advice}".rstrip())


def _check_distinct(slates: Slates) -> None:
    ordered = np.sort(slates.query * np.int64(slates.item_ids.size) + slates.item)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        query, item = divmod(int(repeated[0]), slates.item_ids.size)
        raise InputError(
            f"{repeated.size:,} of {len(slates):,} rows list an item again in its query (first: query "
            f"{examples(slates.query_ids[[query]])}, item {examples(slates.item_ids[[item]])}); "
            "list each once."
        )


def _of_query(query: IntArray, user: IntArray, query_ids: AnyArray, user_ids: AnyArray) -> IntArray:
    """Return the user of each query, (n_queries,), or raise `InputError` when a query has two."""
    owner = np.zeros(query_ids.size, dtype=np.int64)
    owner[query] = user
    other = np.flatnonzero(owner[query] != user)
    if other.size:
        one = query[other[0]]
        names = examples([user_ids[user[other[0]]], user_ids[owner[one]]])
        raise InputError(
            f"{np.unique(query[other]).size:,} of {query_ids.size:,} queries have rows of several users "
            f"(first: query {examples(query_ids[[one]])} of {names}). "
            "Number queries so that each has one user."
        )
    return owner


def _whole(position: AnyArray) -> IntArray:
    if position.dtype.kind == "f" and (position != np.floor(position)).any():
        raise InputError("position must hold whole numbers: 1, 2, 3, …")
    return position.astype(np.int64)
