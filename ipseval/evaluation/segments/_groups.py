"""Groups of users or items, by an attribute, by training counts or by a function of the ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.data.reading.column_names import match_columns
from ipseval.errors import InputError
from ipseval.utils.checks import format_count, format_examples
from ipseval.utils.columns import extract_columns
from ipseval.utils.ids import as_ids, find_positions, to_id_array
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import AnyArray, IntArray, freeze

Axis = Literal["user", "item"]
AXES: tuple[Axis, ...] = ("user", "item")
NO_GROUP = "(no group)"
MAX_GROUPS = 200


@public_class
@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of the users or of the items into named groups.

    Parameters
    ----------
    axis : {"user", "item"}
        Whether users or items are grouped.
    name : str
        Name of the grouping in reports.
    labels : tuple of str
        Names of the groups, in the order of tables.
    codes : (n,) int array
        Group number of each user or item, in the order of the ids.
    note : str, default ""
        How the groups were built, and how many users or items have no group; for the report.

    See Also
    --------
    user_groups : Define groups of users.
    item_groups : Define groups of items.

    Examples
    --------
    >>> import numpy as np
    >>> groups = Groups("user", "device", ("mobile", "web"), np.array([0, 1, 0]))
    >>> groups
    Groups(device: 2 groups of users)
    >>> groups.sizes
    array([2, 1])
    """

    axis: Axis
    name: str
    labels: tuple[str, ...]
    codes: IntArray
    note: str = ""

    def __post_init__(self) -> None:
        freeze(self, "codes")

    def __repr__(self) -> str:
        return f"Groups({self.name}: {format_count(len(self.labels), 'group')} of {self.axis}s)"

    @property
    def sizes(self) -> IntArray:
        """Users or items in each group, (n_groups,)."""
        return np.bincount(self.codes, minlength=len(self.labels))


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups that are not yet matched with the ids of an evaluation; see `user_groups` and `item_groups`.

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
        labels = _resolve_labels(self.source, ids, self.axis, self.name)
        missing = np.asarray(pd.isna(labels))
        if missing.all():
            raise InputError(f"{self.name} gives no group to any of the {ids.size:,} {self.axis}s.")

        known_codes, names = _encode_groups(labels[~missing], self.name)
        if len(names) > MAX_GROUPS:
            raise InputError(
                f"{self.name} makes {len(names):,} groups of {ids.size:,} {self.axis}s; at most "
                f"{MAX_GROUPS} fit a table. Cut a number into ranges first, with pandas.cut or qcut."
            )

        codes = np.full(ids.size, len(names), dtype=np.int64)
        codes[~missing] = known_codes
        note = ""
        if missing.any():
            note = f"{format_count(int(missing.sum()), self.axis)} of {ids.size:,} have no {self.name}"
            names = (*names, NO_GROUP)
        return Groups(axis=self.axis, name=self.name, labels=names, codes=codes, note=note)


@public_function
def user_groups(source: Any, *, name: str | None = None) -> Grouping:
    """Define groups of users for the argument `by` of evaluations.

    Parameters
    ----------
    source : Series, dict, array or callable
        A Series with user ids as its index or a dict user id -> group; an array in the order of
        `split.user_ids`; or a function that takes the array of user ids (n,) and returns their groups (n,).
        Users without an entry, or with a missing entry, form the group "(no group)".
    name : str, optional
        Name of the grouping in reports. Default: the name of the Series or function, or "user group".

    Returns
    -------
    Grouping
        Groups that an evaluation matches with its user ids.

    Raises
    ------
    InputError
        For a source of another type.

    See Also
    --------
    item_groups : Define groups of items.

    Examples
    --------
    >>> groups = user_groups({"ann": "mobile", "bob": "web", "cy": "mobile"}, name="device")
    >>> groups.resolve(np.array(["ann", "bob", "cy"], dtype=object)).sizes
    array([2, 1])
    """
    return _make_grouping("user", source, name)


@public_function
def item_groups(source: Any, *, name: str | None = None) -> Grouping:
    """Define groups of items for the argument `by` of evaluations.

    Parameters
    ----------
    source : Series, dict, array or callable
        As in `user_groups`, for item ids and the order of `split.item_ids`.
    name : str, optional
        Name of the grouping in reports. Default: the name of the Series or function, or "item group".

    Returns
    -------
    Grouping
        Groups that an evaluation matches with its item ids.

    Raises
    ------
    InputError
        For a source of another type.

    See Also
    --------
    user_groups : Define groups of users.

    Examples
    --------
    >>> groups = item_groups(lambda ids: np.where(ids < 100, "old", "new"), name="age")
    >>> groups.resolve(np.array([7, 99, 500])).labels
    ('new', 'old')
    """
    return _make_grouping("item", source, name)


def split_attributes(frame: object) -> list[Grouping]:
    """Return a grouping for each attribute of a frame with a column of ids, `user` or `item`."""
    if (
        isinstance(frame, pd.DataFrame)
        and match_columns([str(frame.index.name)], {}, AXES, essential=()).columns
    ):
        frame = frame.reset_index()
    names = []
    for name in column_names(frame):
        names.append(str(name))

    columns = {str(axis): str(axis) for axis in AXES if axis in names}
    if not columns:
        columns = dict(match_columns(names, {}, AXES, essential=()).columns)
    axes: list[Axis] = [axis for axis in AXES if axis in columns]
    attributes = []
    for name in names:
        if name not in columns.values():
            attributes.append(name)

    if len(axes) != 1 or not attributes:
        raise InputError(
            "a frame of groups must have one column of ids, 'user' or 'item', and at least one more; "
            f"got {format_examples(names, 12)}."
        )
    for method in ("compute", "toPandas"):
        if hasattr(frame, method):
            raise InputError(f"a frame of groups must be in memory here; pass frame.{method}().")

    axis = axes[0]
    id_column = columns[axis]
    ids = to_id_array(extract_columns(frame, [id_column])[id_column], f"column {id_column!r} of the groups")
    groupings = []
    for attribute in attributes:
        labels = pd.Series(_read_column(frame, attribute), index=pd.Index(ids, tupleize_cols=False))
        groupings.append(Grouping(axis, labels, attribute))
    return groupings


def column_names(frame: object) -> list[str]:
    """Return the column names of a data frame, and an empty list for any other object."""
    columns = getattr(frame, "columns", None)
    if columns is None or not hasattr(frame, "__getitem__"):
        return []
    return list(columns)


def detect_axis(series: pd.Series[Any], user_ids: AnyArray, item_ids: AnyArray) -> Axis:
    """Return whether a Series of labels groups users or items, by the name of its index or by its ids."""
    if series.index.name in AXES:
        return series.index.name
    labels = as_ids(series.index, "the index of the groups")
    are_users = _are_known(labels, user_ids)
    are_items = _are_known(labels, item_ids)
    if are_users == are_items:
        kinds = "neither users nor items"
        if are_users:
            kinds = "both users and items"
        raise InputError(
            f"the index of the groups names {kinds}. Say which with user_groups(series) or "
            "item_groups(series) of ipseval.evaluation.segments."
        )
    return "user" if are_users else "item"


def _are_known(labels: AnyArray, ids: AnyArray) -> bool:
    """Return whether all labels are among the ids."""
    codes = find_positions(labels, ids, "the index of the groups", strict=False)
    return bool((codes >= 0).all())


def _make_grouping(axis: Axis, source: object, name: str | None) -> Grouping:
    """Return a grouping under its name, or raise `InputError` for a source of a wrong type."""
    is_accepted = isinstance(source, (pd.Series, Mapping, np.ndarray, list, tuple)) or callable(source)
    if not is_accepted:
        raise InputError(
            f"groups must be a Series or dict by id, an array in the order of the ids, or a function of the "
            f"ids; got {type(source).__name__}."
        )
    label = name or getattr(source, "name", None) or getattr(source, "__name__", None)
    if label in (None, "<lambda>"):
        label = f"{axis} group"
    return Grouping(axis, source, str(label))


def _resolve_labels(source: object, ids: AnyArray, axis: Axis, name: str) -> AnyArray:
    """Return the label of each id, (n,) objects; missing labels are None or NaN."""
    if callable(source):
        source = source(ids)
    if isinstance(source, Mapping):
        source = pd.Series(dict(source), dtype=object)
    if isinstance(source, pd.Series):
        return _align_series(source, ids, axis, name)
    labels = np.asarray(source, dtype=object)
    if labels.shape != ids.shape:
        raise InputError(
            f"{name} must give one group to each of {ids.size:,} {axis}s, in the order of the ids; got "
            f"shape {labels.shape}."
        )
    return labels


def _align_series(series: pd.Series[Any], ids: AnyArray, axis: Axis, name: str) -> AnyArray:
    """Return the labels of a Series by id in the order of `ids`, (n,) objects; None where it has no entry."""
    if not series.index.is_unique:
        raise InputError(f"the ids of {name} repeat; each {axis} belongs to one group.")
    codes = find_positions(as_ids(series.index, f"the ids of {name}"), ids, f"the ids of {name}")
    is_known = codes >= 0
    if not is_known.any():
        raise InputError(
            f"none of the {len(series):,} ids of {name} is one of the {ids.size:,} {axis}s "
            f"({format_examples(series.index)}; the {axis}s start with {format_examples(ids)})."
        )
    labels = np.full(ids.size, None, dtype=object)
    labels[codes[is_known]] = series.to_numpy(dtype=object)[is_known]
    return labels


def _encode_groups(labels: AnyArray, name: str) -> tuple[IntArray, tuple[str, ...]]:
    """Return group numbers and group names, in the order of the labels; categories keep their order."""
    if pd.api.types.infer_dtype(labels).startswith("mixed"):
        raise InputError(f"{name} mixes groups of several types; convert them to text.")
    codes, distinct_labels = pd.factorize(labels, sort=True)
    names = tuple(str(label) for label in distinct_labels)
    if len(set(names)) < len(names) or NO_GROUP in names:
        raise InputError(f"{name} has groups that are printed alike ({format_examples(names)}); rename them.")
    return codes.astype(np.int64), names


def _read_column(frame: Any, name: str) -> AnyArray:
    """Return a column as objects, missing entries included."""
    column = frame[name]
    values = column.to_list() if hasattr(column, "to_list") else column.tolist()
    return np.fromiter(values, dtype=object, count=len(values))
