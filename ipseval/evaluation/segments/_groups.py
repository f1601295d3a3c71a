"""Groups: users or items that belong together, by an attribute, their training counts, or a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.utils.checks import counted, examples
from ipseval.utils.columns import columns_of
from ipseval.utils.ids import as_ids, places, to_id_array
from ipseval.utils.types import AnyArray, IntArray, freeze

Axis = Literal["user", "item"]
AXES = ("user", "item")
NO_GROUP = "(no group)"
MOST_GROUPS = 200


@dataclass(frozen=True, eq=False)
class TrainingCounts:
    """Training interactions of each item (n*) and of each user: what groups by count are made of.

    Attributes
    ----------
    popularity : (n_items,) int array
    activity : (n_users,) int array
    """

    popularity: IntArray
    activity: IntArray

    def __post_init__(self) -> None:
        freeze(self, "popularity", "activity")

    @classmethod
    def of(cls, train: Interactions) -> TrainingCounts:
        """Return the counts of a training log."""
        return cls(np.asarray(train.popularity), np.asarray(train.activity))

    def along(self, axis: Axis) -> IntArray:
        """Return the counts of the users, or of the items."""
        return self.activity if axis == "user" else self.popularity


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each user, or each item, belongs to.

    Attributes
    ----------
    axis : {"user", "item"}
        What is grouped.
    name : str
        What reports call the grouping.
    labels : tuple of str
        Names of the groups, in the order of tables.
    codes : (n,) int array
        The number of its group for each user or item, in the order of the ids.
    note : str
        How the groups are made, and how many had none; for the report.
    """

    axis: Axis
    name: str
    labels: tuple[str, ...]
    codes: IntArray
    note: str = ""

    def __post_init__(self) -> None:
        freeze(self, "codes")

    def __repr__(self) -> str:
        return f"Groups({self.name}: {counted(len(self.labels), 'group')} of {self.axis}s)"

    @property
    def sizes(self) -> IntArray:
        """Users or items in each group, (n_groups,)."""
        return np.bincount(self.codes, minlength=len(self.labels))


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups before they are matched with the ids of an evaluation; made by `user_groups`, `item_groups`.

    Attributes
    ----------
    axis : {"user", "item"}
    source : Series, mapping, array or callable
        Labels by id, or in the order of the ids, or a function of the ids.
    name : str
    """

    axis: Axis
    source: Any
    name: str

    def __repr__(self) -> str:
        return f"Grouping({self.name}, of {self.axis}s)"

    def resolve(self, ids: AnyArray) -> Groups:
        """Return the groups of these ids.

        Raises
        ------
        InputError
            For labels of ids that are none of these, for an array of another length, for one group or too
            many.
        """
        labels = _labels(self.source, ids, self.axis, self.name)
        missing = np.asarray(pd.isna(labels))
        if missing.all():
            raise InputError(f"{self.name} gives no group to any of the {ids.size:,} {self.axis}s.")
        codes, found = _factorized(labels[~missing], self.name)
        if len(found) > MOST_GROUPS:
            raise InputError(
                f"{self.name} makes {len(found):,} groups of {ids.size:,} {self.axis}s; at most "
                f"{MOST_GROUPS} fit a table. Cut a number into ranges first, with pandas.cut or qcut."
            )
        where = np.full(ids.size, len(found), dtype=np.int64)
        where[~missing] = codes
        note = ""
        if missing.any():
            note = f"{counted(int(missing.sum()), self.axis)} of {ids.size:,} have no {self.name}"
            found = (*found, NO_GROUP)
        return Groups(self.axis, self.name, found, where, note)


def user_groups(source: Any, *, name: str | None = None) -> Grouping:
    """Return groups of users for `by=`.

    Parameters
    ----------
    source : Series, dict, array or callable
        A Series with user ids as its index or a dict user id -> group; an array in the order of
        `split.user_ids`; or a function that takes the array of user ids (n,) and gives their groups (n,).
        Users without an entry, or with a missing one, form the group "(no group)".
    name : str, optional
        What reports call it; default: the name of the Series or function, or "user group".

    Examples
    --------
    >>> groups = user_groups({"ann": "mobile", "bob": "web", "cy": "mobile"}, name="device")
    >>> groups.resolve(np.array(["ann", "bob", "cy"], dtype=object)).sizes
    array([2, 1])
    """
    return _grouping("user", source, name)


def item_groups(source: Any, *, name: str | None = None) -> Grouping:
    """Return groups of items for `by=`; as `user_groups`, for item ids.

    Examples
    --------
    >>> groups = item_groups(lambda ids: np.where(ids < 100, "old", "new"), name="age")
    >>> groups.resolve(np.array([7, 99, 500])).labels
    ('new', 'old')
    """
    return _grouping("item", source, name)


def groupings_of(frame: Any) -> list[Grouping]:
    """Return one grouping for each attribute of a frame with a column of ids, `user` or `item`."""
    names = [str(one) for one in columns_named(frame)]
    axes: list[Axis] = [axis for axis in AXES if axis in names]  # type: ignore[misc]
    attributes = [one for one in names if one not in axes]
    if len(axes) != 1 or not attributes:
        raise InputError(
            "a frame of groups has one column of ids, 'user' or 'item', and at least one more; got "
            f"{examples(names, 12)}."
        )
    for fetch in ("compute", "toPandas"):
        if hasattr(frame, fetch):
            raise InputError(f"a frame of groups must be in memory here; pass frame.{fetch}().")
    axis = axes[0]
    ids = to_id_array(columns_of(frame, [axis])[axis], f"column {axis!r} of the groups")
    made = []
    for one in attributes:
        labels = pd.Series(_column(frame, one), index=pd.Index(ids, tupleize_cols=False))
        made.append(Grouping(axis, labels, one))
    return made


def columns_named(frame: Any) -> list[str]:
    """Return the column names of a data frame, none for anything else."""
    found = getattr(frame, "columns", None)
    return list(found) if found is not None and hasattr(frame, "__getitem__") else []


def series_axis(series: pd.Series[Any], user_ids: AnyArray, item_ids: AnyArray) -> Axis:
    """Return whether a Series of labels is of users or items: by the name of its index, or by its ids."""
    if series.index.name in AXES:
        return series.index.name  # type: ignore[return-value]
    labels = as_ids(series.index, "the index of the groups")
    known = {
        axis: bool((places(labels, ids, "the index of the groups", strict=False) >= 0).all())
        for axis, ids in (("user", user_ids), ("item", item_ids))
    }
    if known["user"] == known["item"]:
        which = "both users and items" if known["user"] else "neither users nor items"
        raise InputError(
            f"the index of the groups names {which}. Say which with user_groups(series) or "
            "item_groups(series) of ipseval.evaluation.segments."
        )
    return "user" if known["user"] else "item"


def _grouping(axis: Axis, source: Any, name: str | None) -> Grouping:
    known = isinstance(source, (pd.Series, Mapping, np.ndarray, list, tuple)) or callable(source)
    if not known:
        raise InputError(
            f"groups must be a Series or dict by id, an array in the order of the ids, or a function of the "
            f"ids; got {type(source).__name__}."
        )
    given = name or getattr(source, "name", None) or getattr(source, "__name__", None)
    return Grouping(axis, source, str(given) if given not in (None, "<lambda>") else f"{axis} group")


def _labels(source: Any, ids: AnyArray, axis: Axis, name: str) -> AnyArray:
    """Return the label of each id, (n,) objects; missing ones are None or NaN."""
    if callable(source):
        source = source(ids)
    if isinstance(source, Mapping):
        source = pd.Series(dict(source), dtype=object)
    if not isinstance(source, pd.Series):
        given = np.asarray(source, dtype=object)
        if given.shape != ids.shape:
            raise InputError(
                f"{name} must give one group to each of {ids.size:,} {axis}s, in the order of the ids; got "
                f"shape {given.shape}."
            )
        return given
    if not source.index.is_unique:
        raise InputError(f"the ids of {name} repeat; each {axis} belongs to one group.")
    where = places(as_ids(source.index, f"the ids of {name}"), ids, f"the ids of {name}")
    inside = where >= 0
    if not inside.any():
        raise InputError(
            f"none of the {len(source):,} ids of {name} is one of the {ids.size:,} {axis}s "
            f"({examples(source.index)}; the {axis}s start with {examples(ids)})."
        )
    labels = np.full(ids.size, None, dtype=object)
    labels[where[inside]] = source.to_numpy(dtype=object)[inside]
    return labels


def _factorized(labels: AnyArray, name: str) -> tuple[IntArray, tuple[str, ...]]:
    """Return codes and names of the groups, in the order of the labels; categories keep their own."""
    if pd.api.types.infer_dtype(labels).startswith("mixed"):
        raise InputError(f"{name} mixes groups of several types; convert them to text.")
    codes, found = pd.factorize(labels, sort=True)
    names = tuple(str(one) for one in found)
    if len(set(names)) < len(names) or NO_GROUP in names:
        raise InputError(f"{name} has groups that are printed alike ({examples(names)}); rename them.")
    return codes.astype(np.int64), names


def _column(frame: Any, name: str) -> AnyArray:
    """Return a column as objects, missing entries included."""
    values = frame[name]
    values = values.to_list() if hasattr(values, "to_list") else values.tolist()
    return np.fromiter(values, dtype=object, count=len(values))
