"""Tables with lists in their cells as tables with a row for each entry of a list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.data.reading._frame_source import build_object_frame
from ipseval.data.reading._list_cells import count_entries, parse_list_cell
from ipseval.data.reading._source import Loader, Source, Table
from ipseval.data.reading.column_names import USUAL_NAMES, normalize_name
from ipseval.errors import InputError
from ipseval.utils.checks import format_examples
from ipseval.utils.notes import Count, drop_zero_counts


def explode_lists(source: Source, *, adds_rank: bool) -> Source:
    """Return a source with a row for each entry of its lists.

    With `adds_rank`, a column "rank" holds the position of each entry in its list, unless the source has a
    column of ranks or scores.
    """
    if adds_rank and not _has_order(source):
        return replace(source, columns=(*source.columns, "rank"), load=_build_loader(source, adds_rank=True))
    return replace(source, load=_build_loader(source, adds_rank=False))


def _has_order(source: Source) -> bool:
    """Return whether a column of a source has a usual name of ranks or scores."""
    column_names = {normalize_name(name, holds_lists=name in source.lists) for name in source.columns}
    return not column_names.isdisjoint((*USUAL_NAMES["rank"], *USUAL_NAMES["score"]))


def _build_loader(source: Source, *, adds_rank: bool) -> Loader:
    """Return a function that loads columns with a row for each entry of a list."""

    def load_columns(columns: Sequence[str], id_columns: Sequence[str]) -> Table:
        source_columns = _intersect(columns, source.columns)
        text_columns = _intersect((*id_columns, *source.lists), source_columns)
        table = source.load(source_columns, text_columns)
        list_columns = _intersect(source_columns, source.lists)
        if not list_columns:
            return table
        cells_by_column = {}
        for name in source_columns:
            cells_by_column[name] = table[name].to_list()

        frame = build_object_frame(cells_by_column)
        frame, count = _explode_frame(frame, list_columns, source.name)
        source.counts[:] = drop_zero_counts(count)
        if adds_rank:
            frame["rank"] = frame.groupby(level=0).cumcount() + 1
        return nw.from_native(frame[list(columns)].reset_index(drop=True))

    return load_columns


def _intersect(names: Iterable[str], known_names: Collection[str]) -> list[str]:
    """Return the names that are among the known ones, in their order."""
    return [name for name in names if name in known_names]


def _explode_frame(
    frame: pd.DataFrame, list_columns: list[str], source_name: str
) -> tuple[pd.DataFrame, Count]:
    """Return a frame with a row for each entry of its lists, and the number of empty lists left out."""
    for name in list_columns:
        frame[name] = frame[name].map(parse_list_cell)
    lengths = frame[list_columns].map(count_entries)
    first_lengths = lengths[list_columns[0]]
    uneven_rows = np.flatnonzero(lengths.ne(first_lengths, axis=0).any(axis=1))
    if uneven_rows.size:
        raise InputError(
            f"{source_name}: the lists in columns {format_examples(list_columns)} differ in length in "
            f"{uneven_rows.size:,} of {len(frame):,} rows (first: row {uneven_rows[0]}). Give each entry its "
            "own."
        )
    is_empty = first_lengths == 0
    count = Count("empty lists, left out", int(is_empty.sum()), len(frame), code="exclusion")
    return frame[~is_empty].explode(list_columns), count
