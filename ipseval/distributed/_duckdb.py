"""Evaluation of Parquet files that do not fit in memory: DuckDB deals out users, a part is held at a time."""

from __future__ import annotations

from collections.abc import Iterable
from glob import glob
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed.partition import catalogue, reduce_partition
from ipseval.distributed.plan import PartitionOptions, bar, finish, make_plan, split_models
from ipseval.errors import InputError
from ipseval.evaluation.evaluation import Evaluation
from ipseval.utils.checks import check_positive_int, check_type
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute

ROWS = 8_000_000  # of all files in a part, about: 1 GB with what is made of them

Files = str | PathLike[str] | Iterable[str | PathLike[str]]


def evaluate_duckdb(
    models: dict[str, Any],
    train: Files,
    test: Files,
    *,
    items: Any | None = None,
    n_partitions: int | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
    memory_limit: str = "3GB",
    temporary: str | PathLike[str] | None = None,
    **options: Unpack[PartitionOptions],
) -> Evaluation:
    """Return the estimates of `evaluate` for Parquet files of any size, on this machine.

    DuckDB writes the rows to temporary files by user, and one part of the users is held at a time. What is
    not described here is as in `evaluate_dask`.

    Parameters
    ----------
    models : dict
        Name -> Parquet file, folder, pattern or list of files, of top-K lists (user, item, rank or score; or
        user, items with an array of items, best first); or a tuple of factors as in `evaluate_dask`.
    train, test : files with columns user, item
    n_partitions : int, optional
        How many parts; default: one for each 8 million rows of all files, which takes about 1 GB.
    compute : ComputeOptions
        Threads of DuckDB, and whether a bar is shown.
    memory_limit : str
        Of DuckDB alone, such as "3GB"; what does not fit is written to `temporary`.
    temporary : folder, optional
        Takes about as much as the files; default: the system's folder for temporary files. It is left empty.
    **options
        Of `evaluate_dask`: users, propensity, metrics, estimators, missing_lists, ties, confidence_level,
        n_relevant, low_ess, per_user, seen, by.

    Raises
    ------
    InputError
        Without DuckDB, for files that are missing or cannot be read; and as `evaluate`, from any part.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError("Parquet files of any size need DuckDB; pip install 'ipseval[duckdb]'.") from None
    n_threads = check_compute(compute).threads
    check_type("memory_limit", memory_limit, str)
    with TemporaryDirectory(dir=temporary, prefix="ipseval-") as folder, duckdb.connect() as connection:
        _settings(connection, threads=n_threads, memory_limit=memory_limit, temp_directory=folder)
        tables = {name: _Table(connection, name, files) for name, files in (("train", train), ("test", test))}
        ids, popularity = catalogue(_counts(connection, tables, "item"), items)
        plan = make_plan(ids, popularity, lambda: _counts(connection, tables, "user"), **options)
        lists, factors = split_models(models, plan.users, len(ids))
        listed = {name: _Table(connection, name, files, lists=True) for name, files in lists.items()}
        n_parts = _dealt([*tables.values(), *listed.values()], n_partitions, Path(folder))
        parts = []
        for number in bar(range(n_parts), compute.progress):
            given = {name: listed[name].part(number) if name in listed else factors[name] for name in models}
            trained, tested = (tables[name].part(number) for name in ("train", "test"))
            parts.append(reduce_partition(trained, tested, given, plan))
    return finish(parts, {**lists, **factors}, plan)


class _Table:
    """Parquet files of one frame, and what DuckDB makes of them."""

    def __init__(self, connection: Any, name: str, files: Files, *, lists: bool = False) -> None:
        import duckdb

        self._connection, self.name = connection, name
        self.source = _reading(_found(name, files))
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {self.source}").fetchall()  # nosec B608
            (self.n_rows,) = connection.execute(f"SELECT count(*) FROM {self.source}").fetchone()  # nosec B608
        except duckdb.Error as error:
            raise InputError(f"{name}: the Parquet files cannot be read ({error}).") from None
        types = {column: str(kind) for column, kind, *_ in described}
        order = next((one for one in ("items", "rank", "score") if lists and one in types), None)
        self._is_arrays = order == "items"
        item = [] if self._is_arrays else ["item"]
        self.columns = ["user", *item, *([order] if order else [])]
        lacking = [one for one in self.columns if one not in types]
        if lacking or (lists and order is None):
            wanted = "user, item and rank or score, or user, items" if lists else "user, item"
            raise InputError(f"{name}: the files need columns {wanted}; they have {', '.join(types)}.")
        kind = types["user"]
        # Whole numbers of any width are the same ids, and have to go to the same part.
        whole = "whole numbers", "CAST(user AS HUGEINT)"
        self.user, self._hashed = whole if "INT" in kind else (kind, "user")
        self._folder: Path | None = None

    def deal(self, folder: Path, n_parts: int) -> None:
        """Write the rows by the hash of the user to one folder for each part."""
        self._folder = folder
        self._connection.execute(
            f"COPY (SELECT {', '.join(self.columns)}, hash({self._hashed}) % {n_parts} AS part "  # nosec B608
            f"FROM {self.source}) "
            f"TO {_quoted(fspath(folder))} (FORMAT parquet, PARTITION_BY (part), COMPRESSION uncompressed)"
        )

    def part(self, number: int) -> pd.DataFrame:
        """Return the rows of the users of one part."""
        columns = self.columns
        if self._is_arrays:
            columns = ["user", "unnest(items) AS item", "generate_subscripts(items, 1) AS rank"]
        source, limit = self.source, ""
        if self._folder is not None:
            files = sorted(glob(f"{self._folder}/part={number}/*.parquet"))
            source, limit = (_reading(files), "") if files else (source, " LIMIT 0")
        query = f"SELECT {', '.join(columns)} FROM {source}{limit}"  # nosec B608
        frame: pd.DataFrame = self._connection.execute(query).df()
        return frame


def _settings(connection: Any, **values: Any) -> None:
    import duckdb

    values |= {"preserve_insertion_order": False, "enable_progress_bar": False}
    for name, value in values.items():
        try:
            connection.execute(f"SET {name} = {_quoted(str(value))}")
        except duckdb.Error as error:
            raise InputError(f"{name} cannot be {value!r}: {error}") from None


def _dealt(tables: list[_Table], n_partitions: int | None, folder: Path) -> int:
    """Deal out the rows of all tables to parts of the users; return the number of parts.

    A single part is read from the files as they are.
    """
    kinds = {one.name: one.user for one in tables}
    if len(set(kinds.values())) > 1:
        raise InputError(f"the user ids have different types in different files: {kinds}; convert them.")
    needed = max(1, -(-sum(one.n_rows for one in tables) // ROWS))
    n_parts = needed if n_partitions is None else n_partitions
    check_positive_int("n_partitions", n_parts)
    if n_parts > 1:
        for number, one in enumerate(tables):
            one.deal(folder / f"{number}", n_parts)
    return n_parts


def _counts(connection: Any, tables: dict[str, _Table], column: str) -> pd.DataFrame:
    """Return the ids in a column of both files, each once, with their training rows as `trained`."""
    train, test = tables["train"].source, tables["test"].source
    rows = f"SELECT {column} AS id, 1 AS trained FROM {train} UNION ALL SELECT {column}, 0 FROM {test}"  # nosec B608
    query = f"SELECT id, sum(trained) AS trained FROM ({rows}) GROUP BY id"  # nosec B608
    counts: pd.DataFrame = connection.execute(query).df()
    return counts.dropna().set_index("id").astype(np.int64)


def _found(name: str, files: Files) -> list[str]:
    """Return the paths of Parquet files: of a file, a folder, a pattern, or a list of them."""
    given = [files] if isinstance(files, (str, PathLike)) else list(files)
    found: list[str] = []
    for one in given:
        path = fspath(one)
        some = [path] if Path(path).is_file() else sorted(glob(path))
        if Path(path).is_dir():
            some = sorted(glob(f"{path}/**/*.parquet", recursive=True))
        if not some:
            raise InputError(f"{name}: there is no Parquet file {path}.")
        found += some
    if not found:
        raise InputError(f"{name}: no Parquet file is given.")
    return found


def _reading(files: list[str]) -> str:
    """Return what SQL calls the rows of these files."""
    return f"read_parquet([{', '.join(map(_quoted, files))}], hive_partitioning = false)"


def _quoted(text: str) -> str:
    """Return text as SQL quotes it: paths, which are all that a caller writes into a query."""
    return "'" + text.replace("'", "''") + "'"
