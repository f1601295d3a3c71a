"""Evaluation of Parquet files that do not fit in memory: DuckDB partitions users, one part is in memory."""

from __future__ import annotations

from collections.abc import Iterable
from glob import glob
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from ipseval.distributed.partition import Factors, build_catalogue, reduce_partition
from ipseval.distributed.plan import (
    PartitionOptions,
    finish_evaluation,
    make_plan,
    progress_bar,
    split_models,
)
from ipseval.errors import InputError
from ipseval.evaluation.evaluation import Evaluation
from ipseval.utils.checks import check_positive_int, check_type
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval.utils.public import public_function

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS_PER_PART = 8_000_000  # of all files together, about: 1 GB with what is computed from them

Files = str | PathLike[str] | Iterable[str | PathLike[str]]


@public_function
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
    """Evaluate recommenders from Parquet files of any size on this machine.

    DuckDB writes the rows to temporary files by user, and one part of the users is in memory at a time. The
    estimates equal the ones of `evaluate`. Arguments that are not described here are as in `evaluate_dask`.

    Parameters
    ----------
    models : dict
        Name -> Parquet file, folder, pattern or list of files, of top-K lists (user, item, rank or score; or
        user, items with an array of items, best first); or a tuple of factors as in `evaluate_dask`.
    train, test : files
        Parquet files with columns user, item.
    items : array of ids, optional
        The whole catalogue. Default: every item of `train` and `test`.
    n_partitions : int, optional
        Number of parts. Default: one for each 8 million rows of all files, which takes about 1 GB.
    compute : ComputeOptions
        Threads of DuckDB, and whether a progress bar is shown.
    memory_limit : str, default "3GB"
        Memory of DuckDB alone; data that does not fit is written to `temporary`.
    temporary : folder, optional
        Takes about as much space as the files, and is empty afterwards. Default: the system's folder for
        temporary files.
    **options
        Options of `evaluate_dask`: users, propensity, metrics, estimators, missing_lists, ties,
        confidence_level, n_relevant, low_ess, per_user, seen, by.

    Returns
    -------
    Evaluation
        The same estimates and standard errors as `evaluate` returns for the rows of all files.

    Raises
    ------
    InputError
        Without DuckDB, for files that are missing or cannot be read; and as `evaluate`, from any part.

    See Also
    --------
    evaluate_dask : Evaluate frames of Dask on a cluster.
    evaluate_spark : Evaluate frames of Spark on a cluster.

    Examples
    --------
    Two users, each with one training item and one test item, and lists of two items:

    >>> import pandas as pd
    >>> frames = {
    ...     "train": pd.DataFrame({"user": [1, 2], "item": [10, 11]}),
    ...     "test": pd.DataFrame({"user": [1, 2], "item": [12, 10]}),
    ...     "lists": pd.DataFrame({"user": [1, 1, 2, 2], "item": [11, 12, 12, 10], "rank": [1, 2, 1, 2]}),
    ... }
    >>> with TemporaryDirectory() as folder:
    ...     for name, frame in frames.items():
    ...         frame.to_parquet(f"{folder}/{name}.parquet")
    ...     evaluation = evaluate_duckdb(
    ...         {"lists": f"{folder}/lists.parquet"},
    ...         f"{folder}/train.parquet",
    ...         f"{folder}/test.parquet",
    ...         metrics=["recall@2", "ndcg@2"],
    ...     )
    >>> evaluation.frame[["model", "metric", "estimate"]].round(3)
       model    metric  estimate
    0  lists  recall@2     1.000
    1  lists    ndcg@2     0.631
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError("Parquet files of any size need DuckDB. Install it by pip install duckdb.") from None
    n_threads = check_compute(compute).threads
    check_type("memory_limit", memory_limit, str)
    with TemporaryDirectory(dir=temporary, prefix="ipseval-") as folder, duckdb.connect() as connection:
        _configure(connection, threads=n_threads, memory_limit=memory_limit, temp_directory=folder)
        train_table = _Table(connection, "train", train)
        test_table = _Table(connection, "test", test)

        def count_users() -> pd.DataFrame:
            return _count_ids(connection, train_table, test_table, "user")

        item_counts = _count_ids(connection, train_table, test_table, "item")
        item_ids, popularity = build_catalogue(item_counts, items)
        plan = make_plan(item_ids, popularity, count_users, **options)
        lists, factors = split_models(models, plan.users, len(item_ids))
        list_tables = {}
        for name, files in lists.items():
            list_tables[name] = _Table(connection, name, files, lists=True)

        n_parts = _partition_tables(
            [train_table, test_table, *list_tables.values()], n_partitions, Path(folder)
        )
        parts = []
        for number in progress_bar(range(n_parts), compute.progress):
            part_models: dict[str, pd.DataFrame | Factors] = {}
            for name in models:
                if name in list_tables:
                    part_models[name] = list_tables[name].read_part(number)
                else:
                    part_models[name] = factors[name]
            train_part = train_table.read_part(number)
            test_part = test_table.read_part(number)
            parts.append(reduce_partition(train_part, test_part, part_models, plan))
    return finish_evaluation(parts, {**lists, **factors}, plan)


class _Table:
    """Parquet files of one frame, read and partitioned by DuckDB."""

    def __init__(
        self, connection: DuckDBPyConnection, name: str, files: Files, *, lists: bool = False
    ) -> None:
        self._connection = connection
        self._folder: Path | None = None
        self.name = name
        self.source = _read_expression(_find_files(name, files))
        types, self.n_rows = self._describe()
        self.columns = self._select_columns(types, lists)
        self._has_arrays = "items" in self.columns
        self.user_type = types["user"]
        self._hashed_user = "user"
        if "INT" in self.user_type:
            # Whole numbers of any width are the same ids, and have to go to the same part.
            self.user_type = "whole numbers"
            self._hashed_user = "CAST(user AS HUGEINT)"

    def _describe(self) -> tuple[dict[str, str], int]:
        """Return the type of each column, and the number of rows."""
        import duckdb

        try:
            described = self._connection.execute(f"DESCRIBE SELECT * FROM {self.source}").fetchall()  # nosec B608
            count = self._connection.execute(f"SELECT count(*) FROM {self.source}").fetchall()  # nosec B608
        except duckdb.Error as error:
            raise InputError(f"{self.name}: the Parquet files cannot be read ({error}).") from None
        types = {}
        for column, column_type, *_ in described:
            types[column] = str(column_type)

        return types, count[0][0]

    def _select_columns(self, types: dict[str, str], lists: bool) -> list[str]:
        """Return the columns to read, or raise `InputError` where one is missing."""
        order_column = None
        if lists:
            order_column = next((name for name in ("items", "rank", "score") if name in types), None)
        columns = ["user"]
        if order_column != "items":
            columns.append("item")
        if order_column is not None:
            columns.append(order_column)
        has_all_columns = all(name in types for name in columns)
        if not has_all_columns or (lists and order_column is None):
            expected = "user, item and rank or score, or user, items" if lists else "user, item"
            raise InputError(f"{self.name}: the files need columns {expected}; they have {', '.join(types)}.")
        return columns

    def partition(self, folder: Path, n_parts: int) -> None:
        """Write the rows by the hash of the user to one folder for each part."""
        self._folder = folder
        self._connection.execute(
            f"COPY (SELECT {', '.join(self.columns)}, hash({self._hashed_user}) % {n_parts} AS part "  # nosec B608
            f"FROM {self.source}) "
            f"TO {_quote(fspath(folder))} (FORMAT parquet, PARTITION_BY (part), COMPRESSION uncompressed)"
        )

    def read_part(self, number: int) -> pd.DataFrame:
        """Return the rows of the users of one part; of all users where the rows are not partitioned."""
        columns = self.columns
        if self._has_arrays:
            columns = ["user", "unnest(items) AS item", "generate_subscripts(items, 1) AS rank"]
        source = self.source
        limit = ""
        if self._folder is not None:
            files = sorted(glob(f"{self._folder}/part={number}/*.parquet"))
            if files:
                source = _read_expression(files)
            else:
                limit = " LIMIT 0"
        query = f"SELECT {', '.join(columns)} FROM {source}{limit}"  # nosec B608
        frame: pd.DataFrame = self._connection.execute(query).df()
        return frame


def _configure(connection: DuckDBPyConnection, **settings: object) -> None:
    """Apply settings of DuckDB, or raise `InputError` for a value that it refuses."""
    import duckdb

    settings |= {"preserve_insertion_order": False, "enable_progress_bar": False}
    for name, value in settings.items():
        try:
            connection.execute(f"SET {name} = {_quote(str(value))}")
        except duckdb.Error as error:
            raise InputError(f"{name} cannot be {value!r}: {error}") from None


def _partition_tables(tables: list[_Table], n_partitions: int | None, folder: Path) -> int:
    """Partition the rows of all tables by user, and return the number of parts.

    A single part is read from the files as they are.
    """
    user_types = {table.name: table.user_type for table in tables}
    if len(set(user_types.values())) > 1:
        raise InputError(f"the user ids have different types in different files: {user_types}; convert them.")
    n_parts = n_partitions
    if n_parts is None:
        n_rows = sum(table.n_rows for table in tables)
        n_parts = max(1, -(-n_rows // ROWS_PER_PART))
    check_positive_int("n_partitions", n_parts)
    if n_parts > 1:
        for number, table in enumerate(tables):
            table.partition(folder / f"{number}", n_parts)
    return n_parts


def _count_ids(connection: DuckDBPyConnection, train: _Table, test: _Table, column: str) -> pd.DataFrame:
    """Return the ids in a column of both tables, each once, with their training rows as `trained`."""
    train_rows = f"SELECT {column} AS id, 1 AS trained FROM {train.source}"  # nosec B608
    test_rows = f"SELECT {column}, 0 FROM {test.source}"  # nosec B608
    query = f"SELECT id, sum(trained) AS trained FROM ({train_rows} UNION ALL {test_rows}) GROUP BY id"  # nosec B608
    counts: pd.DataFrame = connection.execute(query).df()
    return counts.dropna().set_index("id").astype(np.int64)


def _find_files(name: str, files: Files) -> list[str]:
    """Return the paths of the Parquet files of a file, a folder, a pattern, or a list of them."""
    sources = [files] if isinstance(files, (str, PathLike)) else list(files)
    paths: list[str] = []
    for source in sources:
        source_path = fspath(source)
        if Path(source_path).is_dir():
            matches = sorted(glob(f"{source_path}/**/*.parquet", recursive=True))
        elif Path(source_path).is_file():
            matches = [source_path]
        else:
            matches = sorted(glob(source_path))
        if not matches:
            raise InputError(f"{name}: there is no Parquet file {source_path}.")
        paths += matches
    if not paths:
        raise InputError(f"{name}: no Parquet file is given.")
    return paths


def _read_expression(files: list[str]) -> str:
    """Return the SQL expression that reads these files."""
    quoted_files = ", ".join(_quote(path) for path in files)
    return f"read_parquet([{quoted_files}], hive_partitioning = false)"


def _quote(text: str) -> str:
    """Return text as a quoted SQL string; only paths of the caller enter queries this way."""
    return "'" + text.replace("'", "''") + "'"
