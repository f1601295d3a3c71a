"""Sources: files, folders, mappings and data frames as one kind of table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval.data.reading._cells import LISTS, N_CELLS, as_list, holds_lists
from ipseval.data.reading._content import PARQUET, decode_start, read_start, refuse_foreign
from ipseval.data.reading._dialect import N_LINES, NAMES
from ipseval.data.reading._json import check_records, is_json, read_json
from ipseval.data.reading._text import ENCODING_ADVICE, Layout, LayoutName, find_layout, read_text
from ipseval.data.reading.column_names import USUAL, plain
from ipseval.errors import InputError
from ipseval.utils.artefacts import ARRAYS, reading
from ipseval.utils.checks import examples, kind_of, refuse_masked
from ipseval.utils.compute import available_cores
from ipseval.utils.counts import Count, some

ENCODING = "utf-8"
COLUMNS = {name for name in NAMES if len(name) > 1}  # no user is called so
PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
FILE_LAYOUTS = ("pairs", "adjacency", "trec")  # of text; records of JSON have none of them


@dataclass(frozen=True, eq=False)
class Source:
    """A table that is not read yet."""

    name: str
    columns: tuple[str, ...]
    load: Callable[[list[str], list[str]], Any]
    layout: Layout | None = None
    lists: tuple[str, ...] = ()  # columns that hold lists
    written: tuple[str, ...] = ()  # columns where a number can but be written as text
    strips_ids: bool = False  # blanks around ids are removed also where ids are no text of a table
    counted: list[Count] = field(default_factory=list)  # of what was loaded last


@dataclass(frozen=True)
class Reading:
    """How a file or mapping is read."""

    separator: str | None = None
    header: bool | None = None
    encoding: str = ENCODING
    layout: LayoutName = "auto"
    na_values: tuple[str, ...] = ()  # text that names a missing entry
    named: tuple[str | None, ...] = ()  # columns that the caller has named
    lists: Literal["rows", "ranks", "stay"] = "rows"  # each entry a row, also with its place; or as they are


def open_source(source: Any, how: Reading, what: str = "the data frame") -> Source:
    """Return a source of rows: a file, folder, mapping or data frame."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        table = _file(source, how)
    elif isinstance(source, Mapping):
        table = _mapping(source, how, what)
    else:
        refuse_masked(source, "the source")
        table = _frame(source, what)
    return table if how.lists == "stay" or not table.lists else _flat(table, how)


def _mapping(given: Mapping[Any, Any], how: Reading, what: str, kind: Any = None) -> Source:
    """Return a mapping of columns, or of users to their items."""
    names = {plain(name) for name in given}
    if names & COLUMNS or {*how.named} & {*given}:
        try:
            return _frame(pd.DataFrame(dict(given), dtype=kind), what)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"a mapping must give each column a sequence, all of one length; {error!s:.150}."
            ) from None
    found = {user: _listed(user, entries) for user, entries in given.items()}
    scored = {scores is not None for items, scores in found.values() if items}
    if len(scored) > 1:
        raise InputError("some lists have scores and others none; give all of them in one form.")
    columns: dict[str, list[Any]] = {"user": list(found), "item": [items for items, _ in found.values()]}
    if True in scored:
        name = "score" if how.lists == "ranks" else "value"
        columns[name] = [scores or [] for _, scores in found.values()]
    # Names in JSON are text, also where ids are numbers.
    return replace(_frame(_of_objects(columns), what), written=("user",) if kind is object else ())


def _listed(user: Any, entries: Any) -> tuple[list[Any], list[Any] | None]:
    """Return the items of a user, and their scores where there are such."""
    if isinstance(entries, Mapping):
        return list(entries), list(entries.values())
    if isinstance(entries, (str, bytes)) or not isinstance(entries, (Sequence, np.ndarray)):
        raise InputError(
            f"the list of {user!r:.60} is {kind_of(entries)}; expected {{item: score}}, "
            "[item, …] or [(item, score), …]."
        )
    pairs = [one for one in entries if isinstance(one, (tuple, list))]
    if not pairs:
        return list(entries), None
    if len(pairs) < len(entries) or any(len(one) != 2 for one in pairs):
        raise InputError(f"the list of {user!r:.60} has entries that are no pairs (item, score).")
    return [one[0] for one in pairs], [one[1] for one in pairs]


def _of_objects(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Return a frame whose entries stay what they are, whatever stands beside them."""
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _frame(source: Any, what: str) -> Source:
    if isinstance(source, pd.DataFrame) and not source.columns.is_unique:
        repeated = source.columns[source.columns.duplicated()].unique()
        raise InputError(f"{what} has several columns of one name ({examples(repeated)}); rename them.")
    try:
        table: Any = nw.from_native(source)
    except TypeError:
        raise InputError(
            "source must be a path, a data frame (pandas, polars, pyarrow, DuckDB, …) or a mapping; "
            f"got {type(source).__name__}. Convert arrays and records to a data frame."
        ) from None
    except nw.exceptions.NarwhalsError as error:
        raise InputError(f"{what} cannot be read: {error!s:.200}.") from None
    if isinstance(source, pd.DataFrame):
        names = {str(name): name for name in source.columns}
        lists, as_text = _lists_of_pandas(source, names)
    else:
        names = {name: name for name in table.collect_schema().names()}
        lists, as_text = _lists_of_table(table)

    def load(wanted: list[str], _: list[str]) -> Any:
        if isinstance(source, pd.DataFrame):
            columns = {name: _native(source[names[name]]) for name in wanted}
            return nw.from_native(pd.DataFrame(columns, index=source.index))
        chosen = table.select(wanted)
        return chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen

    return Source(what, tuple(names), load, lists=(*lists, *as_text), written=tuple(as_text))


def _native(column: Any) -> Any:
    """Return a column of pandas in the byte order of this machine, which releases before 3 need."""
    foreign = isinstance(column.dtype, np.dtype) and not column.dtype.isnative
    return column.astype(column.dtype.newbyteorder("=")) if foreign else column


def _lists_of_pandas(frame: pd.DataFrame, names: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the columns of a frame of pandas that hold lists, and those with lists that are text."""
    lists = []
    as_text = []
    for name, label in names.items():
        column = frame[label]
        if column.dtype != object and not isinstance(column.dtype, (pd.ArrowDtype, pd.StringDtype)):
            continue
        first = next((cell for cell in column if isinstance(cell, LISTS) or not pd.isna(cell)), None)
        if isinstance(first, LISTS):
            lists.append(name)
        elif isinstance(first, str) and _text_holds_lists(column.dropna().head(N_CELLS).tolist()):
            as_text.append(name)
    return lists, as_text


def _lists_of_table(table: Any) -> tuple[list[str], list[str]]:
    """Return the columns of a table of narwhals that hold lists, and those with lists that are text."""
    schema = table.collect_schema()
    lists = [name for name, kind in schema.items() if kind in (nw.List, nw.Array)]
    texts = [name for name, kind in schema.items() if kind == nw.String]
    if not texts:
        return lists, []
    start = table.select(texts).head(N_CELLS)
    start = start.collect() if isinstance(start, nw.LazyFrame) else start
    return lists, [name for name in texts if _text_holds_lists(start[name].to_list())]


def _text_holds_lists(cells: Sequence[Any]) -> bool:
    return holds_lists([cell for cell in cells if isinstance(cell, str)])


def _flat(source: Source, how: Reading) -> Source:
    """Return a source with a row for each entry of the lists that are asked for."""
    roles = {plain(name, of_lists=name in source.lists) for name in source.columns}
    ranked = how.lists == "ranks" and not roles & {*USUAL["rank"], *USUAL["score"]}

    def load(wanted: list[str], ids: list[str]) -> Any:
        names = [name for name in wanted if name in source.columns]
        table = source.load(names, [name for name in [*ids, *source.lists] if name in names])
        inside = [name for name in names if name in source.lists]
        if not inside:
            return table
        frame = _of_objects({name: table[name].to_list() for name in names})
        for name in inside:
            frame[name] = frame[name].map(as_list)
        sizes = frame[inside].map(lambda cell: len(cell) if isinstance(cell, LISTS) else 1)
        uneven = np.flatnonzero(sizes.ne(sizes[inside[0]], axis=0).any(axis=1))
        if uneven.size:
            raise InputError(
                f"{source.name}: the lists in columns {examples(inside)} differ in length in "
                f"{uneven.size:,} of {len(frame):,} rows (first: row {uneven[0]}). Give each entry its own."
            )
        empty = sizes[inside[0]] == 0
        source.counted[:] = some(Count("empty lists, left out", int(empty.sum()), len(frame)))
        frame = frame[~empty].explode(inside)
        if ranked:
            frame["rank"] = frame.groupby(level=0).cumcount() + 1
        return nw.from_native(frame[wanted].reset_index(drop=True))

    return replace(source, columns=(*source.columns, *(["rank"] if ranked else [])), load=load)


def _file(path: str | os.PathLike[str], how: Reading) -> Source:
    """Return a file as a source; its content decides what it is, and not its name."""
    file = Path(path)
    try:
        is_folder = file.is_dir()
        is_file = file.is_file()
    except (OSError, ValueError):  # a name that is too long, or holds a zero
        is_folder = is_file = False
    if is_folder:
        if not any(part.suffix in PARQUET_SUFFIXES for part in file.rglob("*")):
            content = examples(sorted(part.name for part in file.iterdir())) or "nothing"
            raise InputError(f"{file} is a folder without Parquet files; it holds {content}.")
        return _parquet(file, how)
    if not is_file:
        text = str(path)
        if "://" in text:  # it may hold a password
            scheme = text.partition("://")[0]
            raise InputError(
                f"source must be a local path or a data frame; got a URL ({scheme:.20}://…). "
                "Load it with pandas first."
            )
        raise InputError(f"{text:.200} does not exist.")
    with reading(file, ENCODING_ADVICE):
        start = read_start(file)
        if start.startswith(PARQUET):
            return _parquet(file, how)
        if file.suffix.lower() in ARRAYS:
            raise InputError(
                f"{file} holds arrays or a stored result. Give the log: a table with a row per interaction."
            )
        refuse_foreign(file, start, how.encoding)
        text = decode_start(start, how.encoding)
    if how.layout not in FILE_LAYOUTS and is_json(text):
        return _json(file, how)
    return _text(file, how)


def _text(file: Path, how: Reading) -> Source:
    layout = find_layout(file, how.separator, how.header, how.encoding, how.layout)

    def load(wanted: list[str], ids: list[str]) -> Any:
        return nw.from_native(read_text(file, layout, wanted, ids, how.encoding, how.na_values))

    lists = _list_columns(layout)
    return Source(file.name, layout.columns, load, layout, lists=lists, written=layout.columns)


def _list_columns(layout: Layout) -> tuple[str, ...]:
    """Return the columns of a text file whose first cells are lists."""
    if layout.name == "adjacency":
        return ("item",)
    columns = zip(layout.columns, zip(*layout.body, strict=True), strict=False)
    return tuple(name for name, cells in columns if holds_lists(cells))


def _parquet(path: Path, how: Reading) -> Source:
    if find_spec("pyarrow") is None:
        raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.")
    from pyarrow import dataset

    with reading(path):
        table = dataset.dataset(path, format="parquet", partitioning="hive")
        names = tuple(table.schema.names)
        lists, _ = _lists_of_table(nw.from_native(table.schema.empty_table()))
        start = nw.from_native(table.head(N_CELLS))
        _, as_text = _lists_of_table(start)

    def load(wanted: list[str], _: list[str]) -> Any:
        with reading(path):
            content = table.to_table(columns=wanted, use_threads=available_cores() > 1)
        return nw.from_native(content)

    return Source(path.name, names, load, lists=(*lists, *as_text), written=tuple(as_text))


def _json(path: Path, how: Reading) -> Source:
    """Return a file of JSON: records, columns, `split` of pandas, {user: [item, …]}; or a record a line."""
    content = read_json(path, how.encoding)
    columns = None
    if isinstance(content, dict) and {*content} >= {"columns", "data"}:
        columns = content["columns"]
        content = content["data"]
    if isinstance(content, dict):
        if _is_record(content):
            content = [content]
        else:
            return replace(_mapping(content, how, path.name, object), strips_ids=True)
    if not isinstance(content, list):
        raise InputError(f"{path} holds no table, records or lists of users; got {kind_of(content)}.")
    if not content:
        raise InputError(f"{path} must hold records; got an empty list.")
    layout = None
    if columns is None and isinstance(content[0], list):
        columns = [f"column {place + 1}" for place in range(len(content[0]))]
        rows = tuple(tuple(map(str, row)) for row in content[:N_LINES] if isinstance(row, list))
        layout = Layout("", False, tuple(columns), rows)
    check_records(path, content, None if columns is None else len(columns))
    table = _frame(pd.DataFrame(content, columns=columns, dtype=object), path.name)
    return replace(table, layout=layout, strips_ids=True)


def _is_record(content: Mapping[str, Any]) -> bool:
    """Return whether an object of JSON is a single record: plain values below names of columns."""
    is_plain = all(value is None or isinstance(value, (str, int, float)) for value in content.values())
    return is_plain and bool({plain(name) for name in content} & COLUMNS)
