"""ImpressionLog: items that were shown, to which users, where, by which policy, and with which clicks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ipseval.data._audit import Audit
from ipseval.data._impression_checks import (
    IMPRESSION_COLUMNS,
    check_options,
    check_positions_and_propensities,
    clean_impressions,
    raise_impression_problems,
)
from ipseval.data.interactions import (
    Interactions,
    Log,
    check_one_dimensional,
    read_columns,
    to_mask,
    to_row_selection,
)
from ipseval.errors import InputError
from ipseval.utils.checks import as_float_vector, check_type, format_count
from ipseval.utils.columns import to_numbers
from ipseval.utils.notes import Count, drop_zero_counts
from ipseval.utils.public import public_class
from ipseval.utils.types import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    assign,
    build_unchecked,
    copy_if_writable,
    freeze,
)

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame


@public_class
@dataclass(frozen=True, eq=False)
class ImpressionLog(Log):
    """Store impressions, one row per item shown, as codes over one universe of users and items.

    Parameters
    ----------
    user, item : (n,) int arrays
        Codes: `user_ids[user]` and `item_ids[item]` are the ids of the data. A pair may repeat.
    user_ids, item_ids : arrays
        The universe of ids, as in `Interactions`.
    clicked : (n,) bool array
        Whether the user clicked (bought, liked) the item.
    timestamp : (n,) int or float array or None
        Time of the impression. Dates are stored as nanoseconds since 1970.
    position : (n,) int array or None
        Position of the item on the page; 1 is the first.
    propensity : (n,) float array or None
        Logged probability in (0, 1] with which the item was shown: anywhere in the slate for
        `LoggedPropensity`, at this position for `evaluate_policies`.
    query : (n,) int array or None
        Codes of `query_ids`: the slate (page view or request) to which the row belongs.
    query_ids : array or None
        Ids of the slates.
    row_counts : tuple of Count
        Counts of rows that were read, left out, merged, or kept in spite of a problem; `data` returns them as
        a table.

    Raises
    ------
    InputError
        For repeated ids, codes outside the ids, arrays of different lengths, clicks that are not True or
        False, and positions below 1 or twice in a slate.
    PropensityError
        For propensities outside (0, 1].

    See Also
    --------
    ipseval.read : Read a log and find its columns.
    ImpressionLog.from_frame : Read a data frame with named columns.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": ["a", "a", "b"], "item": [1, 2, 1], "clicked": [1, 0, 1]})
    >>> log = ImpressionLog.from_frame(frame)
    >>> log
    ImpressionLog(3 impressions, 2 clicks, 2 users, 2 items)
    >>> log.positives
    Interactions(2 pairs, 2 users, 2 items)
    """

    user: IntArray
    item: IntArray
    user_ids: AnyArray
    item_ids: AnyArray
    clicked: BoolArray
    timestamp: AnyArray | None = None
    position: IntArray | None = None
    propensity: FloatArray | None = None
    query: IntArray | None = None
    query_ids: AnyArray | None = None
    row_counts: tuple[Count, ...] = ()
    _column_names = IMPRESSION_COLUMNS

    @classmethod
    def from_frame(
        cls,
        frame: IntoFrame,
        *,
        user: str = "user",
        item: str = "item",
        clicked: str = "clicked",
        timestamp: str | None = None,
        position: str | None = None,
        propensity: str | None = None,
        query: str | None = None,
        shown: str | None = None,
        users: npt.ArrayLike | None = None,
        items: npt.ArrayLike | None = None,
        duplicates: Literal["raise", "drop"] = "raise",
        gaps: Literal["raise", "keep"] = "raise",
        unshown_clicks: Literal["raise", "drop"] = "raise",
    ) -> ImpressionLog:
        """Read an impression log from a data frame with one row per impression.

        One error lists all problems of the log, each with its number of rows and a suggested fix.

        Parameters
        ----------
        frame : data frame
            Any frame that narwhals supports (pandas, polars, pyarrow, …).
        user, item, clicked : str
            Names of the columns of ids and clicks. Clicks are True/False or 1/0. Default: the names of the
            parameters.
        timestamp, position, propensity, query : str, optional
            Names of further columns. By default, they are not read.
        shown : str, optional
            Name of a column of True/False or 1/0, if the frame lists all candidates of each slate: rows that
            were not shown are left out and counted, and the propensities of a slate must sum to its number
            of rows shown.
        users, items : array-like of ids, optional
            The universe of ids; see `Interactions.from_frame`.
        duplicates : {"raise", "drop"}
            How to treat an impression that is logged again, with the same user, item, time, position and
            slate, if the log has times or slates: raise an error (default), or keep one row, clicked if any
            copy was.
        gaps : {"raise", "keep"}
            How to treat slates whose positions are not 1, 2, 3, … without a gap. Default: raise an error.
        unshown_clicks : {"raise", "drop"}
            How to treat clicks on rows that were not shown. Default: raise an error.

        Returns
        -------
        ImpressionLog
            The impressions in the order of the frame.

        Raises
        ------
        InputError
            For an empty frame, missing columns, ids, positions or values, and the rows that the options
            refuse.
        PropensityError
            For propensities outside (0, 1], or that do not sum to the number of rows shown.

        See Also
        --------
        ipseval.read : Read files and frames whose columns have other names.
        """
        check_options(duplicates=duplicates, gaps=gaps, unshown_clicks=unshown_clicks)
        names = {
            "user": user,
            "item": item,
            "clicked": clicked,
            "timestamp": timestamp,
            "position": position,
            "propensity": propensity,
            "query": query,
            "shown": shown,
        }
        frame_columns = read_columns(frame, names, users, items, "at least one impression is needed.")
        audit = Audit(counts=[Count("rows read", frame_columns["user"].size)])
        columns = clean_impressions(
            frame_columns, audit, duplicates=duplicates, gaps=gaps, unshown_clicks=unshown_clicks
        )
        raise_impression_problems(audit.problems)
        return cls(**columns, row_counts=tuple(audit.counts))

    def __post_init__(self) -> None:
        sizes = self._check_codes(("user", "item"))
        if self.query is not None:
            sizes |= self._check_codes(("query",))
        clicked = check_one_dimensional(copy_if_writable(self.clicked), "clicked")
        assign(self, clicked=to_mask(clicked, "clicked"))
        sizes["clicked"] = self.clicked.size
        if self.timestamp is not None:
            timestamp = check_one_dimensional(copy_if_writable(self.timestamp), "timestamp")
            assign(self, timestamp=to_numbers(timestamp, "timestamp"))
            sizes["timestamp"] = timestamp.size
        if self.position is not None:
            position = check_one_dimensional(copy_if_writable(self.position), "position")
            assign(self, position=position)
            sizes["position"] = position.size
        if self.propensity is not None:
            propensity = as_float_vector("propensity", self.propensity)
            assign(self, propensity=propensity)
            sizes["propensity"] = propensity.size
        if len(set(sizes.values())) > 1:
            raise InputError(f"the arrays of an exposure log must have one length; got {sizes}.")
        audit = Audit()
        columns = self._arrays
        check_positions_and_propensities(columns, audit)
        raise_impression_problems(audit.problems)
        assign(self, position=columns.get("position"))
        check_type("row_counts", self.row_counts, tuple)
        field_names = []
        for entry in fields(self):
            if entry.name != "row_counts":
                field_names.append(entry.name)

        freeze(self, *field_names)

    def __repr__(self) -> str:
        n_impressions = format_count(len(self), "impression")
        n_clicks = format_count(int(self.clicked.sum()), "click")
        n_users = format_count(self.n_users, "user")
        n_items = format_count(self.n_items, "item")
        return f"ImpressionLog({n_impressions}, {n_clicks}, {n_users}, {n_items})"

    @property
    def n_queries(self) -> int:
        """Number of slates; 0 if the log has no slates."""
        if self.query_ids is None:
            return 0
        return int(self.query_ids.size)

    @cached_property
    def positives(self) -> Interactions:
        """The clicked pairs, each once, at its first click; `n_duplicates_dropped` counts the other clicks.

        The first click is the earliest if the log has times, and otherwise the first row.
        """
        clicks = np.flatnonzero(self.clicked)
        if self.timestamp is not None:
            clicks = clicks[np.argsort(self.timestamp[clicks], kind="stable")]
        _, first_clicks = np.unique(self.pair_key[clicks], return_index=True)
        rows = np.sort(clicks[first_clicks])
        n_repeats = clicks.size - rows.size
        repeats = Count("clicks on a pair clicked before, left out", n_repeats, clicks.size, code="exclusion")
        timestamp = None
        if self.timestamp is not None:
            timestamp = self.timestamp[rows]
        return build_unchecked(
            Interactions,
            user=self.user[rows],
            item=self.item[rows],
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            timestamp=timestamp,
            n_duplicates_dropped=int(n_repeats),
            row_counts=(*self.row_counts, *drop_zero_counts(repeats)),
            impressions=self,
        )

    def select(self, keep: BoolArray | IntArray) -> ImpressionLog:
        """Select rows over the same universe of ids.

        Parameters
        ----------
        keep : (n,) bool array or int array
            Mask of the rows, or row numbers.

        Returns
        -------
        ImpressionLog
            The selected impressions, with the same ids.

        Raises
        ------
        InputError
            For a mask of another length, and row numbers outside the log.
        """
        rows = to_row_selection(keep, len(self))
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name, array in self._arrays.items():
            values[name] = array[rows]
        return build_unchecked(ImpressionLog, **values)
