"""Parquet files, and folders of them, as sources."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw

from ipseval.data.reading._frame_source import find_list_columns, find_text_list_columns
from ipseval.data.reading._list_cells import N_CELLS
from ipseval.data.reading._source import Source, Table
from ipseval.errors import InputError
from ipseval.utils.artefacts import reading
from ipseval.utils.checks import format_examples
from ipseval.utils.compute import available_cores

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")


def open_folder(folder: Path) -> Source:
    """Return a folder of Parquet files as a source."""
    if not any(file.suffix in PARQUET_SUFFIXES for file in folder.rglob("*")):
        names = sorted(file.name for file in folder.iterdir())
        content = format_examples(names) or "nothing"
        raise InputError(f"{folder} is a folder without Parquet files; it holds {content}.")
    return open_parquet(folder)


def open_parquet(path: Path) -> Source:
    """Return a Parquet file, or a folder of such files, as a source."""
    if find_spec("pyarrow") is None:
        raise InputError(f"{path} is Parquet, which needs pyarrow. Install it by pip install pyarrow.")
    from pyarrow import dataset

    with reading(path):
        table = dataset.dataset(path, format="parquet", partitioning="hive")
        lists = find_list_columns(nw.from_native(table.schema.empty_table()))
        text_lists = _find_text_list_columns(table)

    def load_columns(columns: Sequence[str], _: Sequence[str]) -> Table:
        with reading(path):
            content = table.to_table(columns=list(columns), use_threads=available_cores() > 1)
        native_table: Table = nw.from_native(content)
        return native_table

    return Source(
        name=path.name,
        columns=tuple(table.schema.names),
        load=load_columns,
        lists=(*lists, *text_lists),
        text_columns=tuple(text_lists),
    )


def _find_text_list_columns(table: Dataset) -> list[str]:
    """Return the columns that hold lists as text, for which only the first rows of text are read."""
    empty_table = nw.from_native(table.schema.empty_table())
    text_columns = [name for name, dtype in empty_table.collect_schema().items() if dtype == nw.String]
    if not text_columns:
        return []
    first_rows = table.head(
        N_CELLS,
        columns=text_columns,
        batch_size=N_CELLS,
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
    )
    return find_text_list_columns(nw.from_native(first_rows))
