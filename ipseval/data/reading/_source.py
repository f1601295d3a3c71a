"""Sources: files, folders, mappings and data frames as tables of one interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.data.reading._content import PARQUET, decode_start, read_start, refuse_foreign
from ipseval.data.reading._dialect import N_LINES
from ipseval.data.reading._json import check_records, is_json, read_json
from ipseval.data.reading._list_cells import (
    LIST_TYPES,
    N_CELLS,
    count_entries,
    parse_list_cell,
    text_holds_lists,
)
from ipseval.data.reading._text import ENCODING_ADVICE, Layout, LayoutName, find_layout, read_text
from ipseval.data.reading.column_names import ALL_USUAL_NAMES, USUAL_NAMES, normalize_name
from ipseval.errors import InputError
from ipseval.utils.artefacts import ARRAYS, reading
from ipseval.utils.checks import describe_type, format_examples, refuse_masked
from ipseval.utils.compute import available_cores
from ipseval.utils.notes import Count, drop_zero_counts

ENCODING = "utf-8"
PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
TEXT_LAYOUTS = ("pairs", "adjacency", "trec")  # layouts that JSON cannot have
# Keys of a mapping that are columns; a single letter may be the id of a user.
COLUMN_KEYS = frozenset(name for name in ALL_USUAL_NAMES if len(name) > 1)

Table: TypeAlias = nw.DataFrame[Any]
# Reads columns of a source; the second argument lists those that hold ids.
Loader: TypeAlias = Callable[[Sequence[str], Sequence[str]], Table]


@dataclass(frozen=True, eq=False)
class Source:
    """Describe a table with columns that are loaded on demand.

    Attributes
    ----------
    name : str
        Name of the source in errors.
    columns : tuple of str
        Names of the columns.
    load : function
        Loads columns; its second argument lists those that hold ids.
    layout : Layout or None
        Layout of a text file, or of JSON without names of columns.
    lists : tuple of str
        Columns that hold lists.
    text_columns : tuple of str
        Columns in which numbers are written as text.
    strips_ids : bool
        Whether blanks around ids are removed although the ids are not in `text_columns`.
    counts : list of Count
        Counts of the rows that were last loaded.
    """

    name: str
    columns: tuple[str, ...]
    load: Loader
    layout: Layout | None = None
    lists: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    strips_ids: bool = False
    counts: list[Count] = field(default_factory=list)


@dataclass(frozen=True)
class ReadOptions:
    """Store how a file or mapping is read.

    Attributes
    ----------
    separator, header, encoding, layout
        Options of a text file; None: found in the file.
    na_values : tuple of str
        Text that means a missing entry.
    named_columns : tuple of str or None
        Columns that the caller has named.
    lists : {"rows", "ranks", "stay"}
        Whether each entry of a list becomes a row, a row with its position as rank, or stays in the list.
    """

    separator: str | None = None
    header: bool | None = None
    encoding: str = ENCODING
    layout: LayoutName = "auto"
    na_values: tuple[str, ...] = ()
    named_columns: tuple[str | None, ...] = ()
    lists: Literal["rows", "ranks", "stay"] = "rows"


def open_source(source: object, options: ReadOptions, frame_name: str = "the data frame") -> Source:
    """Return a source of rows: a file, folder, mapping or data frame."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        table = _open_file(source, options)
    elif isinstance(source, Mapping):
        table = _open_mapping(source, options, frame_name)
    else:
        refuse_masked(source, "the source")
        table = _open_frame(source, frame_name)
    if options.lists == "stay" or not table.lists:
        return table
    return _explode_lists(table, options)


def _open_mapping(mapping: Mapping[object, object], options: ReadOptions, name: str) -> Source:
    """Return a mapping of columns, or of users to their items."""
    if _holds_columns(mapping, options):
        return _open_columns(mapping, name)
    return _open_user_lists(mapping, options, name)


def _holds_columns(mapping: Mapping[Any, Any], options: ReadOptions) -> bool:
    """Return whether the keys of a mapping are columns: usual names, or names that the caller gives."""
    column_names = {normalize_name(key) for key in mapping}
    has_named_column = not mapping.keys().isdisjoint(options.named_columns)
    return has_named_column or not COLUMN_KEYS.isdisjoint(column_names)


def _open_columns(mapping: Mapping[Any, Any], name: str, dtype: type | None = None) -> Source:
    """Return a mapping of columns as a source."""
    try:
        return _open_frame(pd.DataFrame(dict(mapping), dtype=dtype), name)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"a mapping must give each column a sequence, all of one length; {error!s:.150}."
        ) from None


def _open_user_lists(mapping: Mapping[Any, Any], options: ReadOptions, name: str) -> Source:
    """Return a mapping of users to their items, with or without scores, as a source of lists."""
    users = []
    items = []
    scores = []
    have_scores = set()
    for user, entries in mapping.items():
        user_items, user_scores = _parse_user_list(user, entries)
        users.append(user)
        items.append(user_items)
        scores.append(user_scores or [])
        if user_items:
            have_scores.add(user_scores is not None)
    if len(have_scores) > 1:
        raise InputError("some lists have scores and others none; give all of them in one form.")
    columns = {"user": users, "item": items}
    if True in have_scores:
        reads_lists = options.lists == "ranks"
        columns["score" if reads_lists else "value"] = scores
    return _open_frame(_build_object_frame(columns), name)


def _parse_user_list(user: object, entries: object) -> tuple[list[object], list[object] | None]:
    """Return the items of a user and their scores; None in place of scores if there are none."""
    if isinstance(entries, Mapping):
        return list(entries), list(entries.values())
    if isinstance(entries, (str, bytes)) or not isinstance(entries, (Sequence, np.ndarray)):
        raise InputError(
            f"the list of {user!r:.60} is {describe_type(entries)}; expected {{item: score}}, "
            "[item, …] or [(item, score), …]."
        )
    pairs = [entry for entry in entries if isinstance(entry, (tuple, list))]
    if not pairs:
        return list(entries), None
    if len(pairs) < len(entries) or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"the list of {user!r:.60} has entries that are not pairs (item, score).")
    return [item for item, _ in pairs], [score for _, score in pairs]


def _build_object_frame(columns: Mapping[str, list[object]]) -> pd.DataFrame:
    """Return a frame of Python objects, so that no entry is converted because of its neighbours."""
    object_columns = {}
    for name, values in columns.items():
        object_columns[name] = pd.Series(values, dtype=object)

    return pd.DataFrame(object_columns)


def _open_frame(source: object, name: str) -> Source:
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

    lists = _find_list_columns(table)
    text_lists = _find_text_list_columns(table)
    return Source(
        name=name,
        columns=tuple(table.collect_schema().names()),
        load=load_columns,
        lists=(*lists, *text_lists),
        text_columns=tuple(text_lists),
    )


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


def _find_first_object(column: pd.Series) -> object:
    """Return the first entry of a column that may hold text or lists; None for other columns."""
    if column.dtype != object and not isinstance(column.dtype, (pd.ArrowDtype, pd.StringDtype)):
        return None
    for cell in column:
        if isinstance(cell, LIST_TYPES) or not pd.isna(cell):
            return cell
    return None


def _to_native_order(column: pd.Series) -> pd.Series:
    """Return a column of pandas in the byte order of this machine, which pandas before 3 requires."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.isnative:
        return column
    return column.astype(column.dtype.newbyteorder("="))


def _find_list_columns(table: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> list[str]:
    """Return the columns of a table that have the type of a list."""
    list_columns: list[str] = []
    for name, dtype in table.collect_schema().items():
        if dtype in (nw.List, nw.Array):
            list_columns.append(name)

    return list_columns


def _find_text_list_columns(table: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> list[str]:
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


def _hold_text_lists(cells: Iterable[object]) -> bool:
    """Return whether the cells that are text hold lists."""
    text_cells = []
    for cell in cells:
        if isinstance(cell, str):
            text_cells.append(cell)

    return text_holds_lists(text_cells)


def _intersect(names: Iterable[str], known_names: Collection[str]) -> list[str]:
    """Return the names that are among the known ones, in their order."""
    return [name for name in names if name in known_names]


def _explode_lists(source: Source, options: ReadOptions) -> Source:
    """Return a source with a row for each entry of its lists."""
    column_names = {normalize_name(name, holds_lists=name in source.lists) for name in source.columns}
    has_order = not column_names.isdisjoint((*USUAL_NAMES["rank"], *USUAL_NAMES["score"]))
    adds_rank = options.lists == "ranks" and not has_order

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

        frame = _build_object_frame(cells_by_column)
        frame, count = _explode_frame(frame, list_columns, source.name)
        source.counts[:] = drop_zero_counts(count)
        if adds_rank:
            frame["rank"] = frame.groupby(level=0).cumcount() + 1
        return nw.from_native(frame[list(columns)].reset_index(drop=True))

    columns = source.columns
    if adds_rank:
        columns = (*columns, "rank")
    return replace(source, columns=columns, load=load_columns)


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
    count = Count("empty lists, left out", int(is_empty.sum()), len(frame))
    return frame[~is_empty].explode(list_columns), count


def _open_file(path: str | os.PathLike[str], options: ReadOptions) -> Source:
    """Return a file as a source; its content decides its format, not its name."""
    file = Path(path)
    try:
        is_folder = file.is_dir()
        is_file = file.is_file()
    except (OSError, ValueError):  # the name is too long, or contains a zero
        is_folder = False
        is_file = False
    if is_folder:
        return _open_folder(file)
    if not is_file:
        _raise_missing_file(str(path))
    with reading(file, ENCODING_ADVICE):
        start = read_start(file)
        if start.startswith(PARQUET):
            return _open_parquet(file)
        if file.suffix.lower() in ARRAYS:
            raise InputError(
                f"{file} holds arrays or a stored result. Give the log: a table with a row per interaction."
            )
        refuse_foreign(file, start, options.encoding)
        text = decode_start(start, options.encoding)
    if options.layout not in TEXT_LAYOUTS and is_json(text):
        return _open_json(file, options)
    return _open_text(file, options)


def _open_folder(folder: Path) -> Source:
    """Return a folder of Parquet files as a source."""
    if not any(file.suffix in PARQUET_SUFFIXES for file in folder.rglob("*")):
        names = sorted(file.name for file in folder.iterdir())
        content = format_examples(names) or "nothing"
        raise InputError(f"{folder} is a folder without Parquet files; it holds {content}.")
    return _open_parquet(folder)


def _raise_missing_file(path: str) -> None:
    """Raise `InputError` for a path that is neither a file nor a folder."""
    if "://" in path:
        scheme = path.partition("://")[0]  # the rest of a URL may contain a password
        raise InputError(
            f"source must be a local path or a data frame; got a URL ({scheme:.20}://…). "
            "Load it with pandas first."
        )
    raise InputError(f"{path:.200} does not exist.")


def _open_text(file: Path, options: ReadOptions) -> Source:
    """Return a text file as a source."""
    layout = find_layout(file, options.separator, options.header, options.encoding, options.layout)

    def load_columns(columns: Sequence[str], id_columns: Sequence[str]) -> Table:
        frame = read_text(
            file,
            layout,
            columns=columns,
            id_columns=id_columns,
            encoding=options.encoding,
            na_values=options.na_values,
        )
        return nw.from_native(frame)

    return Source(
        name=file.name,
        columns=layout.columns,
        load=load_columns,
        layout=layout,
        lists=_find_layout_lists(layout),
        text_columns=layout.columns,
    )


def _find_layout_lists(layout: Layout) -> tuple[str, ...]:
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


def _open_parquet(path: Path) -> Source:
    """Return a Parquet file, or a folder of such files, as a source."""
    if find_spec("pyarrow") is None:
        raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.")
    from pyarrow import dataset

    with reading(path):
        table = dataset.dataset(path, format="parquet", partitioning="hive")
        lists = _find_list_columns(nw.from_native(table.schema.empty_table()))
        text_lists = _find_text_list_columns(nw.from_native(table.head(N_CELLS)))

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


def _open_json(path: Path, options: ReadOptions) -> Source:
    """Return a file of JSON as a source: records, columns, the "split" format of pandas, or user lists."""
    content = read_json(path, options.encoding)
    columns = None
    if isinstance(content, dict) and "columns" in content and "data" in content:
        columns = content["columns"]
        content = content["data"]
    if isinstance(content, dict) and _is_single_record(content):
        content = [content]
    if isinstance(content, dict):
        return replace(_open_json_object(content, options, path.name), strips_ids=True)
    if not isinstance(content, list):
        raise InputError(f"{path} holds no table, records or lists of users; got {describe_type(content)}.")
    if not content:
        raise InputError(f"{path} must hold records; got an empty list.")
    layout = None
    if columns is None and isinstance(content[0], list):
        columns = [f"column {number}" for number in range(1, len(content[0]) + 1)]
        layout = _build_json_layout(columns, content)
    check_records(path, content, columns)
    table = _open_frame(pd.DataFrame(content, columns=columns, dtype=object), path.name)
    return replace(table, layout=layout, strips_ids=True)


def _open_json_object(content: dict[str, Any], options: ReadOptions, name: str) -> Source:
    """Return a JSON object of columns or of user lists as a source."""
    if _holds_columns(content, options):
        return _open_columns(content, name, dtype=object)
    # The names in JSON are text, also if ids are numbers.
    return replace(_open_user_lists(content, options, name), text_columns=("user",))


def _build_json_layout(columns: list[str], records: list[object]) -> Layout:
    """Return the layout of JSON lists without names of columns, which are found by their positions."""
    lists = []
    for record in records[:N_LINES]:
        if isinstance(record, list):
            lists.append(record)

    rows_as_text = []
    for record in lists:
        rows_as_text.append(tuple(map(str, record)))

    rows = tuple(rows_as_text)
    return Layout(separator="", header=False, columns=tuple(columns), rows=rows)


def _is_single_record(content: Mapping[str, object]) -> bool:
    """Return whether a JSON object is a single record: simple values with usual names."""
    for value in content.values():
        if value is not None and not isinstance(value, (str, int, float)):
            return False
    return not COLUMN_KEYS.isdisjoint(normalize_name(name) for name in content)
