"""ImpressionLog: what was shown to whom, where, by which policy, and what was clicked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ipseval.data._impressions import COLUMNS, Treatment, check_options
from ipseval.data.interactions import (
    Interactions,
    Log,
    as_truths,
    chosen_rows,
    one_dimensional,
    read_columns,
)
from ipseval.errors import InputError
from ipseval.utils.border import guard
from ipseval.utils.checks import as_float_vector, check_type, counted
from ipseval.utils.columns import to_numbers
from ipseval.utils.counts import Count, some
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, assign, freeze, owned, unchecked


@dataclass(frozen=True, eq=False)
class ImpressionLog(Log):
    """Impressions, coded against one universe of users and one of items: one row for each time of showing.

    Attributes
    ----------
    user, item : (n,) int arrays
        Codes: `user_ids[user]` and `item_ids[item]` are the ids of the caller's data. A pair may repeat.
    user_ids, item_ids : arrays
        The universe of ids, as in `Interactions`.
    clicked : (n,) bool array
        Whether the impression was taken: clicked, bought, liked.
    timestamp : (n,) int or float array or None
        Time of showing. Dates are stored as nanoseconds since 1970.
    position : (n,) int array or None
        Place on the page, 1 is the first.
    propensity : (n,) float array or None
        Logged probability in (0, 1] with which this item was shown at this place.
    query : (n,) int array or None
        Codes of `query_ids`: the slate (page view, request) that the row belongs to.
    query_ids : array or None
    counted : tuple of Count
        What was read, left out, merged, or kept in spite of a fault; `data` shows it as a table.

    Raises
    ------
    InputError
        For repeated ids, codes outside the ids, arrays of different lengths, clicks that are no truth
        values, positions below 1 or twice in a slate.
    PropensityError
        For propensities outside (0, 1].

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
    counted: tuple[Count, ...] = ()
    _names = COLUMNS

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str = "user",
        item: str = "item",
        clicked: str = "clicked",
        timestamp: str | None = None,
        position: str | None = None,
        propensity: str | None = None,
        query: str | None = None,
        shown: str | None = None,
        users: Any | None = None,
        items: Any | None = None,
        duplicates: Literal["raise", "drop"] = "raise",
        gaps: Literal["raise", "keep"] = "raise",
        unshown_clicks: Literal["raise", "drop"] = "raise",
    ) -> ImpressionLog:
        """Return an exposure log read from a data frame with one row for each impression.

        All faults of the log are named in one error, each with its number of rows and its way out.

        Parameters
        ----------
        frame : data frame
            pandas, polars, pyarrow and whatever narwhals reads.
        user, item, clicked, timestamp, position, propensity, query, shown : str
            Column names; all after `clicked` are optional. `clicked` and `shown` hold True/False or 1/0.
            With `shown`, the frame lists all candidates of each slate: rows that were not shown are left out
            and counted, and the propensities of a slate must sum to the number of rows shown.
        users, items : see `Interactions.from_frame`
        duplicates : {"raise", "drop"}
            What to do with an impression that is logged again: the same user, item, time, position and
            slate, where a time or slate is given. "drop" keeps one row, clicked if any copy was.
        gaps : {"raise", "keep"}
            What to do with slates whose positions are not 1, 2, 3, … without a gap.
        unshown_clicks : {"raise", "drop"}
            What to do with clicks on rows that were not shown.

        Raises
        ------
        InputError
            For an empty frame, missing columns, ids, positions or values, and for what the options refuse.
        PropensityError
            For propensities outside (0, 1], or that do not sum to the number of rows shown.
        """
        check_options(duplicates=duplicates, gaps=gaps, unshown_clicks=unshown_clicks)
        names = dict(zip(COLUMNS, (user, item, clicked, timestamp, position, propensity, query), strict=True))
        needed = "at least one impression is needed."
        data = read_columns(frame, {**names, "shown": shown}, users, items, needed)
        treatment = Treatment(counted=[Count("rows read", data["user"].size)])
        data = treatment.settle(data, duplicates, gaps, unshown_clicks)
        treatment.raise_all()
        return cls(**data, counted=tuple(treatment.counted))

    def __post_init__(self) -> None:
        treatment = Treatment()
        sizes = self._own_codes("user", "item", *(["query"] if self.query is not None else []))
        assign(self, clicked=as_truths(one_dimensional(owned(self.clicked), "clicked"), "clicked"))
        sizes["clicked"] = self.clicked.size
        for name in ("timestamp", "position", "propensity"):
            given = getattr(self, name)
            if given is not None:
                is_chance = name == "propensity"
                numbers = as_float_vector(name, given) if is_chance else one_dimensional(owned(given), name)
                assign(self, **{name: to_numbers(numbers, name) if name == "timestamp" else numbers})
                sizes[name] = numbers.size
        if len(set(sizes.values())) > 1:
            raise InputError(f"the arrays of an exposure log must have one length; got {sizes}.")
        checked = self._columns
        treatment.find(checked)
        treatment.raise_all()
        assign(self, position=checked.get("position"))
        check_type("counted", self.counted, tuple)
        freeze(self, *(one.name for one in fields(self) if one.name != "counted"))

    def __repr__(self) -> str:
        shown = (len(self), "impression"), (int(self.clicked.sum()), "click")
        counts = *shown, (self.n_users, "user"), (self.n_items, "item")
        return f"ImpressionLog({', '.join(counted(*one) for one in counts)})"

    @property
    def n_queries(self) -> int:
        """Number of slates; 0 where the log has none."""
        return 0 if self.query_ids is None else int(self.query_ids.size)

    @cached_property
    def positives(self) -> Interactions:
        """The clicked pairs, each once, at its first click; `n_duplicates_dropped` counts the other clicks.

        The first click is the earliest where the log has times, otherwise the first row.
        """
        rows = np.flatnonzero(self.clicked)
        if self.timestamp is not None:
            rows = rows[np.argsort(self.timestamp[rows], kind="stable")]
        _, first = np.unique(self.pair_key[rows], return_index=True)
        kept = np.sort(rows[first])
        repeats = Count("clicks on a pair clicked before, left out", rows.size - kept.size, rows.size)
        return unchecked(
            Interactions,
            user=self.user[kept],
            item=self.item[kept],
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            timestamp=None if self.timestamp is None else self.timestamp[kept],
            n_duplicates_dropped=int(rows.size - kept.size),
            counted=(*self.counted, *some(repeats)),
            impressions=self,
        )

    def select(self, keep: BoolArray | IntArray) -> ImpressionLog:
        """Return the chosen rows (a mask or row numbers) over the same universe of ids."""
        rows = chosen_rows(keep, len(self))
        whole = {one.name: getattr(self, one.name) for one in fields(self)}
        part = {name: one[rows] for name, one in self._columns.items()}
        return unchecked(ImpressionLog, **(whole | part))


guard(__name__)
