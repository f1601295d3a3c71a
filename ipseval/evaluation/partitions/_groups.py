"""The ids of all partitions, and groups: matched with all ids once, cut to the users of each partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.types import AnyArray, IntArray
from ipseval.errors import InputError
from ipseval.evaluation.partitions._needs import of_items_alone, resolve
from ipseval.evaluation.segments import Groups, TrainingCounts


def universe(ids: Any) -> AnyArray:
    """Return distinct ids, sorted, as `Split.from_frames` orders them."""
    array = np.asarray(ids)
    return np.sort(array.astype(object) if array.dtype.kind in "US" else array)


def popularity_of(items: AnyArray, counted: AnyArray, counts: AnyArray) -> IntArray:
    """Return the counts in the order of `items`, 0 for an item that was not counted."""
    place = pd.Index(items).get_indexer(pd.Index(counted))
    if (place < 0).any():
        raise InputError(f"{int((place < 0).sum())} items of the training data are not in the given items.")
    popularity = np.zeros(len(items), dtype=np.int64)
    popularity[place] = counts
    return popularity


def count_rows(frame: pd.DataFrame, column: str, number: int) -> pd.DataFrame:
    """Return the ids in a column, each once, with their rows as `trained` (number 0) or `tested` (1)."""
    counts = frame[column].value_counts(sort=False).astype(np.int64)
    return pd.DataFrame({"trained": counts * (number == 0), "tested": counts * (number == 1)})


def add_rows(counts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the sums of such counts, id by id."""
    return pd.concat(counts).groupby(level=0, sort=False).sum()


def catalogue(counts: pd.DataFrame, items: Any | None) -> tuple[AnyArray, IntArray]:
    """Return the ids of all items, and the training rows of each, from counts of rows."""
    ids = universe(counts.index.to_numpy()) if items is None else np.asarray(items)
    counted = counts[counts["trained"] > 0]
    return ids, popularity_of(ids, counted.index.to_numpy(), counted["trained"].to_numpy())


@dataclass(frozen=True, eq=False)
class UserRows:
    """The training rows of each user, and the users of the test frame.

    Attributes
    ----------
    trained, tested : arrays of ids, each once
    n_rows : int array
        Training rows of each user in `trained`.
    """

    trained: AnyArray
    n_rows: IntArray
    tested: AnyArray

    @classmethod
    def of(cls, counts: pd.DataFrame) -> UserRows:
        """Return them from counts of rows by user, `trained` and `tested`."""
        trained, tested = (counts.index[counts[name] > 0].to_numpy() for name in ("trained", "tested"))
        return cls(trained, counts.loc[counts["trained"] > 0, "trained"].to_numpy(), tested)


@dataclass(frozen=True, eq=False)
class Grouped:
    """The groups of all users and items, as every worker has them.

    Attributes
    ----------
    groups : tuple of Groups
    users : array of ids
        Behind the codes of groups of users; empty where items alone are grouped.
    """

    groups: tuple[Groups, ...] = ()
    users: AnyArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def of(
        cls,
        by: Any,
        items: AnyArray,
        popularity: IntArray,
        users: AnyArray | None,
        count: Callable[[], UserRows],
    ) -> Grouped:
        """Return the groups that `by` names; `count` goes through the frames, if users are grouped."""
        if by is None:
            return cls()
        none = np.zeros(0, dtype=np.int64)
        if of_items_alone(by):
            return cls(resolve(by, none, items, TrainingCounts(popularity, none)))
        rows = count()
        ids = universe(pd.unique(np.concatenate([rows.trained, rows.tested]))) if users is None else users
        place = pd.Index(ids).get_indexer(pd.Index(rows.trained))
        activity = np.zeros(ids.size, dtype=np.int64)
        # Users of the frames that are not in users= are an error of their partition.
        activity[place[place >= 0]] = rows.n_rows[place >= 0]
        return cls(resolve(by, ids, items, TrainingCounts(popularity, activity)), ids)

    @property
    def reads_users(self) -> bool:
        """Whether users are grouped, so that it matters who they are."""
        return any(one.axis == "user" for one in self.groups)

    def among(self, users: AnyArray) -> tuple[Groups, ...]:
        """Return the groups with the codes of these users in place of all."""
        if not self.reads_users:
            return self.groups
        place = pd.Index(self.users).get_indexer(pd.Index(users))
        return tuple(
            replace(one, codes=one.codes[place]) if one.axis == "user" else one for one in self.groups
        )
