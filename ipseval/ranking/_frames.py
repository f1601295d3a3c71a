"""What columns a data frame of any library has."""

from __future__ import annotations

from typing import Any

import narwhals as nw


def frame_columns(frame: Any) -> set[str]:
    """Return the column names of a data frame that narwhals reads, none for anything else."""
    try:
        table: Any = nw.from_native(frame)
        return set(table.collect_schema().names() if isinstance(table, nw.LazyFrame) else table.columns)
    except (TypeError, AttributeError):
        return set()
