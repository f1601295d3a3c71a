"""Sources: files, folders, queries, arrays and data frames as one kind of table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval._base.artefacts import reading
from ipseval._base.checks import examples, refuse_masked
from ipseval._base.compute import available_cores
from ipseval.data.reading._text import Layout, layout_of, read_text
from ipseval.errors import InputError

PARQUET = (".parquet", ".pq", ".parq")
ENCODING = "utf-8"


@dataclass(frozen=True, eq=False)
class Source:
    """A table that is not read yet.

    Attributes
    ----------
    name : str
        What it is called in messages.
    columns : tuple of str
    load : callable
        (names to read, those of ids) -> narwhals DataFrame.
    layout : Layout or None
        Of a text file, whose ids are read as text.
    """

    name: str
    columns: tuple[str, ...]
    load: Callable[[list[str], list[str]], Any]
    layout: Layout | None = None


@dataclass(frozen=True)
class Reading:
    """How a source is read: a connection for queries, and what is known of a text file."""

    connection: Any = None
    separator: str | None = None
    header: bool | None = None
    encoding: str = ENCODING


def open_source(source: Any, how: Reading, what: str = "the data frame") -> Source:
    """Return a source of rows: a file, folder, query, array, mapping or data frame."""
    if isinstance(source, Source):
        return source
    if how.connection is not None:
        return _query(source, how.connection)
    if isinstance(source, (str, os.PathLike)):
        return _file(source, how)
    refuse_masked(source, "the source")
    if isinstance(source, np.ndarray) and source.dtype.names:
        source = pd.DataFrame({name: _native(source[name]) for name in source.dtype.names})
    elif isinstance(source, Mapping):
        source = _of_columns(source)
    return _frame(source, what)


def _native(column: Any) -> Any:
    """Return an array in the byte order of this machine, as pandas wants it."""
    return column.astype(column.dtype.newbyteorder("="), copy=False)


def _of_columns(columns: Mapping[Any, Any]) -> pd.DataFrame:
    try:
        return pd.DataFrame(dict(columns))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"a mapping must give each column a sequence, all of one length; {error!s:.150}."
        ) from None


def _frame(source: Any, what: str) -> Source:
    if isinstance(source, pd.DataFrame) and not source.columns.is_unique:
        repeated = source.columns[source.columns.duplicated()].unique()
        raise InputError(f"{what} has several columns of one name ({examples(repeated)}); rename them.")
    try:
        table: Any = nw.from_native(source)
    except TypeError:
        raise InputError(
            "expected a path, a data frame (pandas, polars, pyarrow, DuckDB, …), a record array, or a query "
            f"with connection=; got {type(source).__name__}."
        ) from None
    except nw.exceptions.NarwhalsError as error:
        raise InputError(f"{what} cannot be read: {error!s:.200}.") from None
    if isinstance(source, pd.DataFrame):
        names = {str(name): name for name in source.columns}
    else:
        names = {name: name for name in table.collect_schema().names()}

    def load(wanted: list[str], _: list[str]) -> Any:
        if isinstance(source, pd.DataFrame):
            columns = source[[names[name] for name in wanted]]
            return nw.from_native(columns.set_axis(wanted, axis=1), eager_only=True)
        chosen = table.select(wanted)
        return chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen

    return Source(what, tuple(names), load)


def _file(path: str | os.PathLike[str], how: Reading) -> Source:
    file = Path(path)
    try:
        is_folder, is_file = file.is_dir(), file.is_file()
    except (OSError, ValueError):  # a name that is too long, or holds a zero
        is_folder = is_file = False
    if is_folder:
        if not any(one.suffix in PARQUET for one in file.rglob("*")):
            held = examples(sorted(one.name for one in file.iterdir()), 5) or "nothing"
            raise InputError(f"{file} is a folder without Parquet files; it holds {held}.")
        return _parquet(file)
    if not is_file:
        text = str(path)
        if " " in text.strip() and text.strip().split()[0].lower() in ("select", "with", "from", "table"):
            raise InputError(f"{text:.80} looks like a query; pass connection= with it.")
        if "://" in text:  # it may hold a password
            scheme = text.partition("://")[0]
            raise InputError(
                f"a URL ({scheme:.20}://…) is not read; pass a query with connection=, or a path."
            )
        raise InputError(f"{text:.200} does not exist.")
    with file.open("rb") as stream:
        is_parquet = stream.read(4) == b"PAR1"
    if is_parquet or file.suffix in PARQUET:
        return _parquet(file)
    with reading(file, "Give its encoding by encoding=, if it is text."):
        layout = layout_of(file, how.separator, how.header, how.encoding)

    def load(wanted: list[str], ids: list[str]) -> Any:
        with reading(file, "Correct these lines, or give separator= or encoding=."):
            return nw.from_native(read_text(file, layout, ids, how.encoding)[wanted], eager_only=True)

    return Source(file.name, layout.columns, load, layout)


def _parquet(path: Path) -> Source:
    if find_spec("pyarrow") is None:
        return _parquet_of_polars(path)
    from pyarrow import dataset

    with reading(path):
        found = dataset.dataset(path, format="parquet", partitioning="hive")

    def load(wanted: list[str], _: list[str]) -> Any:
        with reading(path):
            table = found.to_table(columns=wanted, use_threads=available_cores() > 1)
        return nw.from_native(table, eager_only=True)

    return Source(path.name, tuple(found.schema.names), load)


def _parquet_of_polars(path: Path) -> Source:
    if find_spec("polars") is None:
        raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.")
    import polars

    with reading(path):
        lazy = polars.scan_parquet(path)
        names = lazy.collect_schema().names()

    def load(wanted: list[str], _: list[str]) -> Any:
        with reading(path):
            return nw.from_native(lazy.select(wanted).collect(), eager_only=True)

    return Source(path.name, tuple(names), load)


def _query(query: Any, connection: Any) -> Source:
    """Return the result of a query, over a connection of DuckDB or one that pandas knows."""
    if not isinstance(query, str):
        raise InputError(f"with connection=, the source is a query as text; got {type(query).__name__}.")
    try:
        if type(connection).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
            return _frame(connection.sql(query), "the query")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="pandas only supports SQLAlchemy")
            return _frame(pd.read_sql(query, connection), "the query")
    except InputError:
        raise
    except Exception as error:  # each database has errors of its own
        raise InputError(
            f"the query failed ({type(error).__name__}: {error!s:.200}). Pass connection= with an open "
            "connection of DuckDB, SQLAlchemy, ADBC or DB-API."
        ) from None
