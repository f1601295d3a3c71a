"""Sources: files, folders, mappings and data frames as one kind of table."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval._base.artefacts import ARRAYS, reading
from ipseval._base.checks import examples, kind_of, refuse_masked
from ipseval._base.compute import available_cores
from ipseval._base.counts import Count, some
from ipseval.data.reading._names import USUAL, plain
from ipseval.data.reading._text import NAMES, PACKED, Layout, layout_of, opened, read_text
from ipseval.errors import InputError

ENCODING = "utf-8"
COLUMNS = {one for one in NAMES if len(one) > 1}  # no user is called so


@dataclass(frozen=True, eq=False)
class Source:
    """A table that is not read yet."""

    name: str
    columns: tuple[str, ...]
    load: Callable[[list[str], list[str]], Any]
    layout: Layout | None = None
    lists: tuple[str, ...] = ()  # columns that hold lists
    written: tuple[str, ...] = ()  # columns where a number can but be written as text
    counted: list[Count] = field(default_factory=list)  # of what was loaded last


@dataclass(frozen=True)
class Reading:
    """How a file or mapping is read."""

    separator: str | None = None
    header: bool | None = None
    encoding: str = ENCODING
    named: tuple[str | None, ...] = ()  # columns that the caller has named
    lists: Literal["rows", "ranks", "stay"] = "rows"  # each entry a row, also with its place; or as they are


def open_source(source: Any, how: Reading, what: str = "the data frame") -> Source:
    """Return a source of rows: a file, folder, mapping or data frame."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        found = _file(source, how)
    elif isinstance(source, Mapping):
        found = _mapping(source, how, what)
    else:
        refuse_masked(source, "the source")
        found = _frame(source, what)
    return found if how.lists == "stay" or not found.lists else _flat(found, how)


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
        lists = tuple(name for name, own in names.items() if _holds_lists(source[own]))
    else:
        names = {name: name for name in table.collect_schema().names()}
        lists = _lists_of(table)

    def load(wanted: list[str], _: list[str]) -> Any:
        if isinstance(source, pd.DataFrame):
            columns = {name: _native(source[names[name]]) for name in wanted}
            return nw.from_native(pd.DataFrame(columns, index=source.index))
        chosen = table.select(wanted)
        return chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen

    return Source(what, tuple(names), load, lists=lists)


def _native(column: Any) -> Any:
    """Return a column of pandas in the byte order of this machine, which releases before 3 need."""
    foreign = isinstance(column.dtype, np.dtype) and not column.dtype.isnative
    return column.astype(column.dtype.newbyteorder("=")) if foreign else column


LISTS = (list, tuple, np.ndarray)


def _holds_lists(column: Any) -> bool:
    """Return whether the first entry of a column of pandas that is not missing is a list."""
    if column.dtype != object and not isinstance(column.dtype, pd.ArrowDtype):
        return False
    return isinstance(
        next((one for one in column if isinstance(one, LISTS) or not pd.isna(one)), None), LISTS
    )


def _lists_of(table: Any) -> tuple[str, ...]:
    """Return the columns of a table of narwhals that hold lists."""
    return tuple(name for name, kind in table.collect_schema().items() if kind in (nw.List, nw.Array))


def _flat(source: Source, how: Reading) -> Source:
    """Return a source with a row for each entry of the lists that are asked for."""
    roles = {plain(name, of_lists=name in source.lists) for name in source.columns}
    ranked = how.lists == "ranks" and not roles & {*USUAL["rank"], *USUAL["score"]}

    def load(wanted: list[str], ids: list[str]) -> Any:
        names = [name for name in wanted if name in source.columns]
        table, inside = source.load(names, ids), [name for name in names if name in source.lists]
        if not inside:
            return table
        frame = _of_objects({name: table[name].to_list() for name in names})
        sizes = frame[inside].map(lambda one: len(one) if isinstance(one, LISTS) else 1)
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
    file = Path(path)
    try:
        is_folder, is_file = file.is_dir(), file.is_file()
    except (OSError, ValueError):  # a name that is too long, or holds a zero
        is_folder = is_file = False
    if is_folder:
        if not any(one.suffix in FORMATS and FORMATS[one.suffix] is _parquet for one in file.rglob("*")):
            held = examples(sorted(one.name for one in file.iterdir())) or "nothing"
            raise InputError(f"{file} is a folder without Parquet files; it holds {held}.")
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
    with file.open("rb") as stream:
        is_parquet = stream.read(4) == b"PAR1"
    suffix = (file.with_suffix("") if file.suffix in PACKED else file).suffix.lower()
    if suffix in ARRAYS:
        raise InputError(
            f"{file} holds arrays or a stored result. Give the log: a table with a row per interaction."
        )
    return (_parquet if is_parquet else FORMATS.get(suffix, _text))(file, how)


def _text(file: Path, how: Reading) -> Source:
    with reading(file, "Give its encoding by encoding=, such as cp1252, if it is text."):
        layout = layout_of(file, how.separator, how.header, how.encoding)

    def load(wanted: list[str], ids: list[str]) -> Any:
        with reading(file, "Correct these lines, or give separator= or encoding=."):
            return nw.from_native(read_text(file, layout, ids, how.encoding)[wanted])

    return Source(file.name, layout.columns, load, layout, written=layout.columns)


def _parquet(path: Path, how: Reading) -> Source:
    if find_spec("pyarrow") is None:
        raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.")
    from pyarrow import dataset

    with reading(path):
        found = dataset.dataset(path, format="parquet", partitioning="hive")
        lists = _lists_of(nw.from_native(found.schema.empty_table()))

    def load(wanted: list[str], _: list[str]) -> Any:
        with reading(path):
            table = found.to_table(columns=wanted, use_threads=available_cores() > 1)
        return nw.from_native(table)

    return Source(path.name, tuple(found.schema.names), load, lists=lists)


def _json(path: Path, how: Reading, *, lines: bool = False) -> Source:
    """Return a file of JSON: records, columns, `split` of pandas, {user: [item, …]}; or a record a line."""
    # The parsers of pandas and pyarrow keep the last of names that repeat, and round large numbers beside
    # missing ones; that of Python does neither.
    with reading(path, "Correct it, or give its encoding by encoding=."):
        with opened(path, how.encoding) as text:
            content = text.read().removeprefix("\ufeff")
        if not content.strip():
            raise InputError(f"{path} is empty.")
        try:
            found = None if lines else json.loads(content, object_pairs_hook=_once)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":  # after the first object: there are several, one a line
                raise
            found = None
        if found is None:
            found = _records(path, content.split("\n"))
        columns = None
        if isinstance(found, dict) and {*found} >= {"columns", "data"}:
            columns, found = found["columns"], found["data"]
        if isinstance(found, dict):
            return _mapping(found, how, path.name, object)
        if not isinstance(found, list):
            raise InputError(f"{path} holds no table, records or lists of users; got {kind_of(found)}.")
        size = None if columns is None else len(columns)
        others = sum(
            not isinstance(one, dict if size is None else list) or size not in (None, len(one))
            for one in found
        )
        if others:
            raise InputError(
                f"{path}: {others:,} of {len(found):,} entries are no records: objects, or as many values as "
                "there are columns."
            )
        return _frame(pd.DataFrame(found, columns=columns, dtype=object), path.name)


def _records(path: Path, lines: Iterable[str]) -> list[Any]:
    """Return what stands in the lines of a file, each of which is JSON."""
    found, bad = [], {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append(json.loads(line, object_pairs_hook=_once))
            except ValueError as error:
                bad[number] = error
    if bad:
        number, why = next(iter(bad.items()))
        size = len(found) + len(bad)
        raise InputError(f"{path}: {len(bad):,} of {size:,} lines are no JSON (first: line {number}: {why}).")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; of names that repeat, only the last would stay."""
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise ValueError(f"an object repeats {examples(repeated)}")
    return found


# What is not named here is text.
FORMATS: dict[str, Callable[[Path, Reading], Source]] = {
    **dict.fromkeys((".parquet", ".pq", ".parq"), _parquet),
    **dict.fromkeys((".jsonl", ".ndjson"), partial(_json, lines=True)),
    ".json": _json,
}
