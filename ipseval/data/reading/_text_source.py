"""Text files as sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import narwhals as nw

from ipseval.data.reading._list_cells import text_holds_lists
from ipseval.data.reading._source import ReadOptions, Source, Table
from ipseval.data.reading._text import Layout, find_layout, read_text


def open_text(path: Path, options: ReadOptions) -> Source:
    """Return a text file as a source."""
    layout = find_layout(path, options.separator, options.header, options.encoding, options.layout)

    def load_columns(columns: Sequence[str], id_columns: Sequence[str]) -> Table:
        frame = read_text(
            path,
            layout,
            columns=columns,
            id_columns=id_columns,
            encoding=options.encoding,
            na_values=options.na_values,
        )
        return nw.from_native(frame)

    return Source(
        name=path.name,
        columns=layout.columns,
        load=load_columns,
        layout=layout,
        lists=_find_list_columns(layout),
        text_columns=layout.columns,
        has_fixed_roles=bool(layout.trec) or layout.name in ("pairs", "adjacency"),
    )


def _find_list_columns(layout: Layout) -> tuple[str, ...]:
    """Return the columns of a text file with lists in their first cells."""
    if layout.name == "adjacency":
        return ("item",)
    first_cells = zip(*layout.body, strict=True)
    columns = zip(layout.columns, first_cells, strict=False)
    list_names = []
    for name, cells in columns:
        if text_holds_lists(cells):
            list_names.append(name)

    return tuple(list_names)
