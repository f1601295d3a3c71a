"""Pairs of users and items in the containers of Python and pandas, as tables that the readers know."""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.reading._frame_source import build_object_frame, infer_types
from ipseval.data.reading._list_cells import LIST_TYPES
from ipseval.data.reading.column_names import USUAL_NAMES, match_columns, normalize_name
from ipseval.data.reading.library_tables import unpack_library_table
from ipseval.errors import InputError
from ipseval.utils.checks import has_default_index
from ipseval.utils.columns import as_frame

VECTOR_TYPES = (np.ndarray, pd.Series, pd.Index)


def unpack_table(source: object) -> Any:
    """Return pairs in a container of Python or pandas as a frame, a mapping or a list of tuples.

    Parameters
    ----------
    source : object
        * {(user, item): value}, or a Series whose labels are pairs, in this order unless the names of the
          levels are usual names of items and users: a list of tuples;
        * a Series with users as labels and a list, set or mapping in each cell: a mapping;
        * a frame or Series with users or items as labels, if the names of the labels and of the columns
          are usual names: a frame;
        * a frame with users as labels and items as columns, both with usual names, as pivot and crosstab
          return it: a list of tuples of the cells that are neither empty nor 0;
        * a list of records {"user": …, "item": …} or of named tuples: a frame;
        * a tuple of arrays (users, items) or (users, items, values): a list of tuples;
        * a generator, a set or the items of a mapping: a list of tuples or a mapping;
        * a data set of another library: see `unpack_library_table`.

    Returns
    -------
    object
        The table; every other object is returned unchanged.

    See Also
    --------
    ipseval.read : Reads such tables as logs.

    Examples
    --------
    >>> unpack_table({("ann", "x"): 5, ("ann", "y"): 4, ("bob", "x"): 3})
    [('ann', 'x', 5), ('ann', 'y', 4), ('bob', 'x', 3)]
    """
    if isinstance(source, ItemsView):
        return unpack_table(dict(source))
    if isinstance(source, Set):
        return sorted(source, key=str)
    if isinstance(source, Iterator):
        return unpack_table(list(source))
    if isinstance(source, list):
        return _unpack_records(source)
    if isinstance(source, tuple):
        return _unpack_columns(source)
    if isinstance(source, Mapping) and are_pair_keys(source):
        return _join_pairs(source.keys(), source.values())
    if isinstance(source, pd.Series):
        return _unpack_series(source)
    if isinstance(source, pd.DataFrame):
        return _unpack_frame(source)
    return unpack_library_table(source)


def unpack_lists(source: object) -> Any:
    """Return recommendation lists in a container as a frame or a mapping of users; others unchanged.

    Parameters
    ----------
    source : object
        As in `unpack_table`, without tuples of arrays and frames of users × items, which hold factors and
        scores; the values of pairs are scores.

    Returns
    -------
    object
        Pairs with scores become {user: [(item, score), …]}.

    See Also
    --------
    ipseval.Lists : Reads such lists.

    Examples
    --------
    >>> unpack_lists({("ann", "x"): 0.9, ("ann", "y"): 0.4})
    {'ann': [('x', 0.9), ('y', 0.4)]}
    """
    if isinstance(source, (tuple, Set)):
        return source
    if isinstance(source, pd.DataFrame) and _has_usual_axes(source):
        return source
    has_pair_keys = isinstance(source, Mapping) and are_pair_keys(source)
    has_pair_labels = isinstance(source, pd.Series) and isinstance(source.index, pd.MultiIndex)
    table = unpack_table(source)
    if not (has_pair_keys or has_pair_labels) or not isinstance(table, list):
        return table
    lists: dict[Any, list[tuple[Any, Any]]] = {}
    for user, item, *scores in table:
        score = scores[0] if scores else 1  # `unpack_table` leaves values out if all are 1
        lists.setdefault(user, []).append((item, score))
    return lists


def are_pair_keys(mapping: Mapping[Any, Any]) -> bool:
    """Return whether all keys of a mapping are pairs (user, item), and its values no containers.

    Parameters
    ----------
    mapping : mapping
        Any mapping.

    Returns
    -------
    bool
        False for an empty mapping, too.

    See Also
    --------
    unpack_table : Converts such mappings.

    Examples
    --------
    >>> are_pair_keys({("ann", "x"): 5.0}), are_pair_keys({"ann": ["x"]})
    (True, False)
    """
    if not mapping:
        return False
    for key, value in mapping.items():
        if not isinstance(key, tuple) or len(key) != 2 or np.ndim(value) != 0:
            return False
        if isinstance(value, (Mapping, Set)):
            return False
    return True


def holds_lists(frame: Any, column: str) -> bool:
    """Return whether the first cell of a column of a narwhals frame is a list.

    Parameters
    ----------
    frame : narwhals data frame
        A frame of any library.
    column : str
        Name of one of its columns.

    Returns
    -------
    bool
        False for a frame without rows, too.

    See Also
    --------
    unpack_table : Converts other containers of pairs.

    Examples
    --------
    >>> frame = as_frame(pd.DataFrame({"user": ["ann"], "items": [["x", "y"]]}))
    >>> holds_lists(frame, "items"), holds_lists(frame, "user")
    (True, False)
    """
    cells = frame[column].head(1).to_list()
    return bool(cells) and isinstance(cells[0], LIST_TYPES)


def is_item_first(names: Sequence[Hashable]) -> bool:
    """Return whether two names of labels are usual names of items and users, in this order.

    Parameters
    ----------
    names : sequence
        Names of the levels of an index of pandas.

    Returns
    -------
    bool
        False for labels without names.

    See Also
    --------
    unpack_table : Reads the labels of pairs.

    Examples
    --------
    >>> is_item_first(["movieId", "userId"]), is_item_first([None, None])
    (True, False)
    """
    return [_find_role(name) for name in names] == ["item", "user"]


def order_universe(ids: Any, role: str) -> Any:
    """Return the ids of a universe in the order of their positions.

    Parameters
    ----------
    ids : {id: position}, {position: id}, data frame, or sequence of ids
        A frame has a column of ids with a usual name.
    role : {"user", "item"}
        What the ids name.

    Returns
    -------
    array-like
        A sequence of ids is returned unchanged.

    Raises
    ------
    InputError
        For a mapping whose keys and values could both be the positions, or neither.

    See Also
    --------
    ipseval.Split.from_frames : Takes universes of users and items.

    Examples
    --------
    >>> order_universe({"b": 0, "a": 1}, "user"), order_universe({0: "b", 1: "a"}, "user")
    (['b', 'a'], ['b', 'a'])
    """
    if isinstance(ids, Mapping):
        return _order_by_position(ids, role)
    frame = as_frame(ids)
    if frame is None:
        return ids
    columns = [str(column) for column in frame.columns]
    match = match_columns(columns, {}, (role,), essential=(role,))
    if match.problems:
        raise InputError(
            f"{role}s must be ids, or a frame with a column of ids; got columns {', '.join(columns)}. Pass "
            f"{role}s=frame[…] with the name of the column."
        )
    return frame[match.columns[role]].to_numpy()


def _order_by_position(mapping: Mapping[Any, Any], role: str) -> list[Any]:
    """Return the ids of {id: position} or {position: id} in the order of the positions."""
    keys = list(mapping)
    values = list(mapping.values())
    keys_are_positions = _are_positions(keys)
    values_are_positions = _are_positions(values)
    if keys_are_positions == values_are_positions and keys != values:
        state = "neither its keys nor its values are the positions 0, 1, 2, …"
        if keys_are_positions:
            state = "its keys and its values are both whole numbers from 0"
        raise InputError(
            f"{role}s must be ids in the order of the positions, {{id: position}} or {{position: id}}; got a "
            f"mapping of which {state}. Pass {role}s=sorted(mapping, key=mapping.get) for {{id: position}}."
        )
    if keys_are_positions:
        return [mapping[position] for position in range(len(mapping))]
    return sorted(keys, key=mapping.__getitem__)


def _are_positions(values: Sequence[Any]) -> bool:
    """Return whether values are the whole numbers 0, 1, …, n − 1 in any order."""
    if not values or not all(isinstance(value, (int, np.integer)) for value in values):
        return False
    return sorted(values) == list(range(len(values)))


def _unpack_records(rows: list[Any]) -> Any:
    """Return a list of mappings or named tuples as a frame, and every other list unchanged."""
    if rows and all(isinstance(row, tuple) and hasattr(row, "_asdict") for row in rows):
        roles = {_find_role(name) for name in rows[0]._fields}
        if not {"user", "item"} <= roles:
            return rows  # the columns have positions
        rows = [row._asdict() for row in rows]
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        return rows
    names: dict[Hashable, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        return rows
    columns: dict[str, list[object]] = {}
    for name in names:
        columns[str(name)] = [row.get(name) for row in rows]
    return infer_types(build_object_frame(columns))


def _unpack_columns(parts: tuple[Any, ...]) -> Any:
    """Return a tuple of two or three arrays (users, items[, values]) as a list of tuples, and others unchanged.

    The lists of a tuple may be pairs, so that only arrays, Series and labels of pandas are columns.
    """
    if len(parts) not in (2, 3) or not all(
        isinstance(part, VECTOR_TYPES) and part.ndim == 1 for part in parts
    ):
        return parts
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise InputError(
            f"the columns of a log must have one length; got arrays of {', '.join(map(str, lengths))} entries."
        )
    return list(zip(*[part.tolist() for part in parts], strict=True))


def _join_pairs(pairs: Iterable[tuple[Any, Any]], values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return pairs and their values as tuples (user, item, value), or (user, item) if all values are 1."""
    value_list = list(values)
    if all(value == 1 for value in value_list):
        return list(pairs)
    return [(user, item, value) for (user, item), value in zip(pairs, value_list, strict=True)]


def _find_role(name: object) -> str | None:
    """Return "user" or "item" for a usual name of a column of ids, and None for other names."""
    if name is None:
        return None
    simple_name = normalize_name(name)
    for role in ("user", "item"):
        if simple_name in USUAL_NAMES[role]:
            return role
    return None


def _unpack_series(series: pd.Series) -> Any:
    """Return a Series of pairs, or of the lists of users, as a mapping or a frame; others unchanged."""
    index = series.index
    if isinstance(index, pd.MultiIndex):
        if index.nlevels != 2:
            return series
        roles = [_find_role(name) for name in index.names]
        if is_item_first(index.names):
            index = index.swaplevel()
        elif roles not in (["user", "item"], [None, None]):
            return series
        return _join_pairs(index.tolist(), series.tolist())
    if series.size and isinstance(series.iloc[0], (*LIST_TYPES, Mapping, Set)):
        if has_default_index(index) or not index.is_unique:
            return series
        return dict(zip(index.tolist(), series.tolist(), strict=True))
    roles = [_find_role(index.name), _find_role(series.name)]
    if roles in (["user", "item"], ["item", "user"]):
        return series.reset_index()
    return series


def _has_usual_axes(frame: pd.DataFrame) -> bool:
    """Return whether a frame has users as labels and items as columns, by the names of both."""
    has_single_labels = frame.index.nlevels == 1 and frame.columns.nlevels == 1
    return has_single_labels and [_find_role(frame.index.name), _find_role(frame.columns.name)] == [
        "user",
        "item",
    ]


def _unpack_frame(frame: pd.DataFrame) -> Any:
    """Return a frame with users or items as labels as a frame with columns of both; others unchanged."""
    labels = frame.index
    roles = {_find_role(name) for name in labels.names} - {None}
    if not roles:
        return frame
    if _has_usual_axes(frame):
        return _unpack_matrix(frame)
    column_roles = {_find_role(column) for column in frame.columns} - {None}
    if roles & column_roles or roles | column_roles != {"user", "item"}:
        return frame
    return frame.reset_index()


def _unpack_matrix(matrix: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return the cells of a frame users × items that are neither empty nor 0, as in a sparse matrix."""
    values = matrix.to_numpy()
    row, column = np.nonzero(matrix.notna().to_numpy() & (values != 0))
    users = matrix.index.to_numpy()[row].tolist()
    items = matrix.columns.to_numpy()[column].tolist()
    return _join_pairs(list(zip(users, items, strict=True)), values[row, column].tolist())
