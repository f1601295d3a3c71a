"""Sources: files, folders, queries, arrays and data frames as one kind of table."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import narwhals as nw
import numpy as np
import pandas as pd

from ipseval._base.artefacts import MAX_RATIO, SMALL, reading
from ipseval._base.checks import examples, refuse_masked
from ipseval._base.compute import available_cores
from ipseval.data.reading._names import USUAL, plain
from ipseval.errors import InputError, Problem, ProblemsError

PARQUET = (".parquet", ".pq", ".parq")
ENCODING = "utf-8"


@dataclass(frozen=True, eq=False)
class Source:
    """A table that is not read yet."""

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


OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SEPARATORS = ("\t", "::", ",", ";", "|")
BLANKS = r"\s+"
N_LINES = 200  # from which separator and header are told
NAMES = frozenset(usual for names in USUAL.values() for usual in names)
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+|nan|NaN)?\s*$")


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    separator: str
    header: bool
    columns: tuple[str, ...]
    sample: tuple[tuple[str, ...], ...]

    @property
    def trec(self) -> str:
        """What file of TREC it is, which have no header: "run", "qrels", or "" for none."""
        if self.header or not self.sample or self.separator not in (BLANKS, "\t"):
            return ""
        second = {row[1] for row in self.sample}
        if len(self.columns) == 6 and second <= {"Q0", "q0", "0"}:
            return "run"
        return "qrels" if len(self.columns) == 4 and second <= {"0", "Q0", "q0"} else ""


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    """Open a text file, packed or not; what unpacks to far more than its size is refused."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            if len(members) != 1:
                raise InputError(f"{path} holds {len(members)} files; unpack it and give one.")
            _check_size(path, members[0].file_size)
            with archive.open(members[0]) as stream, io.TextIOWrapper(stream, encoding, newline="") as text:
                yield text
        return
    if path.suffix == ".gz":
        with path.open("rb") as tail:
            tail.seek(max(path.stat().st_size - 4, 0))
            _check_size(path, int.from_bytes(tail.read(), "little"))  # of the content, modulo 2³²
    with OPENERS.get(path.suffix, open)(path, "rt", encoding=encoding, newline="") as text:
        yield text


def _check_size(path: Path, size: int) -> None:
    if size > max(SMALL, MAX_RATIO * path.stat().st_size):
        raise InputError(
            f"{path} is damaged, or would unpack to {size:,} bytes. If these are meant, unpack it first."
        )


def layout_of(path: Path, separator: str | None, header: bool | None, encoding: str) -> Layout:
    """Return how a text file is laid out, from its first lines."""
    with opened(path, encoding) as text:
        lines = [line.rstrip("\r\n") for line, _ in zip(text, range(N_LINES), strict=False)]
    filled = [line.removeprefix("\ufeff") for line in lines if line.strip()]
    if not filled:
        raise InputError(f"{path} is empty.")
    if "\x00" in "".join(filled):
        raise InputError(f"{path} is no text and no Parquet file.")
    separator = separator or _separator(filled)
    rows = [tuple(row) for row in parsed(filled, separator)]
    problems = []
    if header is None:
        header = _has_header(rows)
    if header is None:
        problems.append(
            Problem(
                f"it cannot be told whether the first line ({examples(rows[0], 6)}) names the columns",
                "Pass {header=True} or {header=False}",
            )
        )
    columns = rows[0] if header else tuple(f"column {place + 1}" for place in range(len(rows[0])))
    repeated = sorted(name for name, count in Counter(columns).items() if count > 1)
    if repeated:
        problems.append(Problem(f"the header repeats {examples(repeated)}", "Give each column its own name"))
    if problems:
        raise ProblemsError(str(path), problems)
    return Layout(separator, bool(header), columns, tuple(rows[1:] if header else rows))


def parsed(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """Yield the fields of lines."""
    if separator == BLANKS:
        return (line.split() for line in lines)
    if len(separator) > 1:
        return (line.split(separator) for line in lines)
    return csv.reader(lines, delimiter=separator)


def _separator(lines: list[str]) -> str:
    """Return the separator that gives most lines the same number of fields, more than one."""
    best, most = BLANKS, (0, 0)
    for candidate in SEPARATORS:
        size, count = Counter(len(row) for row in parsed(lines, candidate)).most_common(1)[0]
        if size > 1 and (count, size) > most:
            best, most = candidate, (count, size)
    return best


def _has_header(rows: list[tuple[str, ...]]) -> bool | None:
    """Return whether the first row names the columns; None where that cannot be told."""
    # It does where it holds a usual name of a column, or text above a column of numbers; it does not where it
    # holds a number, or what occurs again below it.
    first, others = rows[0], rows[1:]
    if any(plain(cell) in NAMES for cell in first):
        return True
    if any(cell.strip() and _NUMBER.match(cell) for cell in first):
        return False
    below = list(zip(*(row for row in others if len(row) == len(first)), strict=True))
    if any(all(_NUMBER.match(cell) for cell in column) for column in below):
        return True
    if any(cell in column for cell, column in zip(first, below, strict=False)):
        return False
    return None


def read_text(path: Path, layout: Layout, ids: Iterable[str], encoding: str) -> pd.DataFrame:
    """Return all columns of a text file; those in `ids` as text, whatever they hold."""
    names, separator = list(layout.columns), layout.separator
    doubled = separator == "::"  # the fast parser of pandas knows single letters only
    if doubled:
        names = [name for column in names for name in (column, f"\x00{column}")][:-1]
        separator = ":"
    with opened(path, encoding) as text:
        frame = pd.read_csv(
            text,
            sep=separator,
            header=0 if layout.header else None,
            names=names,
            dtype=dict.fromkeys(ids, "str"),
            index_col=False,
            skip_blank_lines=True,
            low_memory=False,
        )
    return frame[list(layout.columns)]
