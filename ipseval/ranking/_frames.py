"""The columns of a data frame of any library."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ipseval._types import AnyArray


def frame_columns(frame: Any) -> set[str]:
    """Return the column names of a data frame that narwhals reads, none for anything else."""
    try:
        table: Any = nw.from_native(frame)
        return set(table.collect_schema().names() if isinstance(table, nw.LazyFrame) else table.columns)
    except (TypeError, AttributeError):
        return set()


def frame_column(frame: Any, name: str) -> AnyArray:
    """Return one column as an array, rows in the order of the frame."""
    table: Any = nw.from_native(frame)
    if isinstance(table, nw.LazyFrame):
        table = table.select(name).collect()
    column: AnyArray = table[name].to_numpy()
    return column
