"""Data frames of any library as sources, and the columns of a table that hold lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.data.reading._list_cells import LIST_TYPES, N_CELLS, text_holds_lists
from ipseval.data.reading._source import Source, Table
from ipseval.errors import InputError
from ipseval.utils.checks import format_examples
from ipseval.utils.ids import EXACT


def open_frame(source: object, name: str) -> Source:
    """Return a data frame of any library as a source."""
    if isinstance(source, pd.DataFrame):
        return _open_pandas(source, name)
    try:
        table = nw.from_native(source)  # type: ignore[call-overload]  # other types raise TypeError
    except TypeError:
        raise InputError(
            "source must be a path, a data frame (pandas, polars, pyarrow, DuckDB, …) or a mapping; "
            f"got {type(source).__name__}. Convert arrays and records to a data frame."
        ) from None
    except nw.exceptions.NarwhalsError as error:
        raise InputError(f"{name} cannot be read: {error!s:.200}.") from None

    def load_columns(columns: Sequence[str], _: Sequence[str]) -> Table:
        return _collect(table.select(list(columns)))

    lists = find_list_columns(table)
    text_lists = find_text_list_columns(table)
    return Source(
        name=name,
        columns=tuple(table.collect_schema().names()),
        load=load_columns,
        lists=(*lists, *text_lists),
        text_columns=tuple(text_lists),
    )


def find_list_columns(table: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> list[str]:
    """Return the columns of a table that have the type of a list."""
    list_columns: list[str] = []
    for name, dtype in table.collect_schema().items():
        if dtype in (nw.List, nw.Array):
            list_columns.append(name)

    return list_columns


def find_text_list_columns(table: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> list[str]:
    """Return the columns of a table that hold lists as text."""
    text_columns = []
    for name, dtype in table.collect_schema().items():
        if dtype == nw.String:
            text_columns.append(name)

    if not text_columns:
        return []
    first_rows = _collect(table.select(text_columns).head(N_CELLS))
    list_columns: list[str] = []
    for name in text_columns:
        if _hold_text_lists(first_rows[name].to_list()):
            list_columns.append(name)

    return list_columns


def _collect(table: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> Table:
    """Return a table that may be lazy as one that is not."""
    if isinstance(table, nw.LazyFrame):
        return table.collect()
    return table


def _open_pandas(frame: pd.DataFrame, name: str) -> Source:
    """Return a data frame of pandas as a source; its labels become text."""
    if not frame.columns.is_unique:
        duplicate_names = frame.columns[frame.columns.duplicated()].unique()
        raise InputError(
            f"{name} has several columns of one name ({format_examples(duplicate_names)}); rename them."
        )
    labels = {str(label): label for label in frame.columns}

    def load_columns(columns: Sequence[str], _: Sequence[str]) -> Table:
        native_columns = {}
        for column in columns:
            native_columns[column] = _to_native_order(frame[labels[column]])

        return nw.from_native(pd.DataFrame(native_columns, index=frame.index))

    lists = []
    text_lists = []
    for column, label in labels.items():
        first_cell = _find_first_object(frame[label])
        if isinstance(first_cell, LIST_TYPES):
            lists.append(column)
        elif isinstance(first_cell, str) and _hold_text_lists(frame[label].dropna().head(N_CELLS)):
            text_lists.append(column)
    return Source(
        name=name,
        columns=tuple(labels),
        load=load_columns,
        lists=(*lists, *text_lists),
        text_columns=tuple(text_lists),
    )


def _to_native_order(column: pd.Series) -> pd.Series:
    """Return a column of pandas in the byte order of this machine, which pandas before 3 requires."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.isnative:
        return column
    return column.astype(column.dtype.newbyteorder("="))


def _find_first_object(column: pd.Series) -> object:
    """Return the first entry of a column that may hold text or lists; None for other columns."""
    if column.dtype != object and not isinstance(column.dtype, (pd.ArrowDtype, pd.StringDtype)):
        return None
    for cell in column:
        if isinstance(cell, LIST_TYPES) or not pd.isna(cell):
            return cell
    return None


def _hold_text_lists(cells: Iterable[object]) -> bool:
    """Return whether the cells that are text hold lists."""
    text_cells = []
    for cell in cells:
        if isinstance(cell, str):
            text_cells.append(cell)

    return text_holds_lists(text_cells)


def build_object_frame(columns: Mapping[str, list[object]]) -> pd.DataFrame:
    """Return a frame of Python objects, so that no entry is converted because of its neighbours."""
    object_columns = {}
    for name, values in columns.items():
        object_columns[name] = pd.Series(values, dtype=object)

    return pd.DataFrame(object_columns)


def infer_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of Python objects with typed columns.

    A column with an integer beyond 2**53 keeps its objects where its type would be that of doubles, as next to a
    missing entry, because they cannot represent it.
    """
    columns = {}
    for name, column in frame.items():
        typed_column = column.infer_objects()
        is_rounded = typed_column.dtype.kind == "f" and any(
            isinstance(cell, int) and abs(cell) > EXACT for cell in column
        )
        columns[name] = column if is_rounded else typed_column
    return pd.DataFrame(columns)
