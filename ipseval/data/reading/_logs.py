"""Reading of logs: interactions and impressions from files, data frames, mappings and sparse matrices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy.typing as npt
from narwhals.typing import IntoFrame

from ipseval.data._impression_checks import check_options
from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Duplicates, Interactions
from ipseval.data.reading._log_builder import LogBuilder
from ipseval.data.reading._open_source import open_source
from ipseval.data.reading._role_assignment import match_log_columns
from ipseval.data.reading._source import ENCODING, ReadOptions, Source
from ipseval.data.reading._text import LAYOUTS, LayoutName
from ipseval.data.reading._time_columns import UNITS, Units
from ipseval.data.reading.held_tables import order_universe, unpack_table
from ipseval.data.reading.rating_scale import check_threshold
from ipseval.data.sparse import (
    SparseMatrix,
    is_sparse_matrix,
    load_pairs_or_matrix,
    read_sparse_matrix,
    refuse_plain_array,
)
from ipseval.errors import InputError
from ipseval.utils.checks import check_choice, check_type
from ipseval.utils.notes import Count
from ipseval.utils.public import public_function

# What `read` understands: a path, a data frame, columns or user lists, or a sparse matrix.
LogSource: TypeAlias = str | os.PathLike[str] | IntoFrame | Mapping[Any, Any] | SparseMatrix


@public_function
def read(
    source: LogSource,
    *,
    user: str | None = None,
    item: str | None = None,
    timestamp: str | None = None,
    value: str | None = None,
    position: str | None = None,
    shown: str | None = None,
    clicked: str | None = None,
    propensity: str | None = None,
    query: str | None = None,
    ignore: str | Sequence[str] = (),
    threshold: float | Literal["all"] | None = None,
    users: npt.ArrayLike | None = None,
    items: npt.ArrayLike | None = None,
    duplicates: Duplicates = "raise",
    missing: Literal["raise", "drop"] = "raise",
    unknown: Literal["raise", "drop"] = "raise",
    gaps: Literal["raise", "keep"] = "raise",
    unshown_clicks: Literal["raise", "drop"] = "raise",
    units: Units = "auto",
    na_values: str | Sequence[str] = (),
    layout: LayoutName = "auto",
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = ENCODING,
) -> Interactions | Any:
    """Read a log of interactions or impressions from a file, data frame, mapping or sparse matrix.

    The result is an `ImpressionLog` if the source has a column of clicks, and `Interactions` otherwise.
    Columns are found by their usual names; `.data` of the result lists which columns were read for which
    roles, which were not read, and how many rows were left out. A column of 0 and 1 with the name of an
    outcome (label, target, purchased, y, …) is read as clicks, unless `value` or `threshold` asks for values.
    One error lists all problems of the source, with counts, rows and suggested fixes.

    Parameters
    ----------
    source : path, data frame, mapping, list of tuples or sparse matrix
        * A file of text (CSV, TSV, u.data), JSON (.json as pandas writes it, .jsonl, .ndjson) or Parquet, or
          a folder of Parquet files. Text and JSON may be compressed by gzip, bz2, xz or zip.
        * A data frame that narwhals supports (pandas, polars, pyarrow, DuckDB relations, …).
        * A mapping of columns, {user: [item, …]}, or {(user, item): value}; a Series with users, or pairs of
          user and item, as labels.
        * A list of tuples (user, item, …), whose columns have the roles of those of a file without a header;
          a list of records {"user": …, "item": …}; an array (n, 2) of users and items; or a tuple of arrays
          (users, items) or (users, items, values).
        * A scipy sparse matrix of users × items, or the file that `scipy.sparse.save_npz` has written. Its ids
          are `users` and `items`, or the numbers of rows and columns.

        Each entry of a column of lists, such as `items`, becomes a row. Numbers may have decimal commas. A
        file of relevance judgements (TREC qrels) gives the pairs of grade 1 or more.
    user, item, timestamp, value, position, shown, clicked, propensity, query : str, optional
        Names of columns; see `ImpressionLog` for the columns of impressions. Default: the usual names, such
        as user_id, sku, ts, rating. A text file without a header has the columns "column 1", "column 2", …:
        the first two are user and item; the third of three is the value if it holds ratings; the third and
        fourth of four are value and timestamp. Columns that are not named here must fit their roles: if
        another assignment fits better, this is an error, or a note in files of fewer than 50 rows.
    ignore : str or sequence of str
        Columns that are not read, whatever their names are. Default: none.
    threshold : float or "all", optional
        Smallest value of a positive. Rows with a smaller value are left out and counted; their users and
        items stay in the universe. "all": every row is a positive, whatever its value. Default: rows of
        value 0 are left out and counted, and ratings (3 to 21 values in equal steps, at most 10) are an
        error. They are a `DataWarning` if `value` names their column, or if its name may mean something else
        (such as overall or weight).
    users, items : array-like of ids, {id: position} or data frame, optional
        The whole universe, as in `Interactions`; in the order of the positions of a mapping, or of the column
        of ids of a frame. Default: the ids that were read, sorted.
    duplicates : {"raise", "drop", "keep"}
        How to treat rows whose pair occurs in an earlier row: raise an error (default); keep the first row
        and count the others; or keep all, because users take the same item again. Impressions that are
        logged twice, in one slate or at one time and position, are an error or merged.
    missing : {"raise", "drop"}
        How to treat rows without an id, a time, a value or a click. Default: raise an error.
    unknown : {"raise", "drop"}
        How to treat rows whose id is not in `users` or `items`. Default: raise an error.
    gaps, unshown_clicks : str
        See `ImpressionLog.from_frame`.
    units : {"auto", "s", "ms", "us", "ns", "none"}
        Unit of times that are numbers. "auto" (default): the unit in which all times lie between 1980 and
        2100; the times become dates, in nanoseconds since 1970. "none", or numbers that fit no unit: the
        numbers are kept. Times without a time zone are UTC.
    na_values : str or sequence of str
        Text that means a missing entry, as in pandas. By default, an id is missing only if it is empty: NA
        and null are ids.
    layout : {"auto", "table", "pairs", "adjacency", "trec"}
        Layout of a text file: columns; user and item as the first two columns; lines of a user and its
        items; or qrels. "auto" (default) finds all but "pairs" in the content.
    separator : str, optional
        Separator of the fields of a text file. Default: found in the first 64 kB. Quotation marks are part of
        the text unless they are balanced and enclose fields.
    header : bool, optional
        Whether the first line of a text file names the columns. Default: found in the first 64 kB.
    encoding : str
        Encoding of a text file. Default: "utf-8".

    Returns
    -------
    Interactions or ImpressionLog
        The log; its `data` is a frame with columns subject, what, count and of.

    Raises
    ------
    ProblemsError
        An `InputError` that lists every problem of the source. Rows are counted from 0.
    InputError
        For a source that cannot be opened.

    See Also
    --------
    ipseval.data.reading.read_impressions : Read a log that must have clicks.
    ipseval.read_lists : Read recommendation lists.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user_id": ["b", "a", "b"], "sku": [7, 3, 3], "stars": [5, 4, 1]})
    >>> log = read(frame, threshold=4)
    >>> log
    Interactions(2 pairs, 2 users, 2 items)
    >>> print(log.data.to_string(index=False, header=False))
    log rows read from the data frame: user_id → user, sku → item, stars → value 3 <NA>
    log                                  rows with a value below 4, left out 1    3
    """
    check_choice("duplicates", duplicates, ("raise", "drop", "keep"))
    check_options(missing=missing, unknown=unknown, gaps=gaps, unshown_clicks=unshown_clicks)
    check_choice("units", units, UNITS)
    check_type("header", header, (bool, type(None)))
    check_choice("layout", layout, LAYOUTS)
    min_value = check_threshold(threshold)
    names = {
        "user": user,
        "item": item,
        "query": query,
        "timestamp": timestamp,
        "clicked": clicked,
        "shown": shown,
        "position": position,
        "propensity": propensity,
        "value": value,
    }
    for role, name in names.items():
        check_type(role, name, (str, type(None)))
    if users is not None:
        users = order_universe(users, "user")
    if items is not None:
        items = order_universe(items, "item")
    source = load_pairs_or_matrix(unpack_table(source))
    sparse_counts: tuple[Count, ...] = ()
    if is_sparse_matrix(source):
        table = read_sparse_matrix(source, users, items, allow_negative=threshold is not None)
        source = table.frame
        users = table.users
        items = table.items
        sparse_counts = table.counts
    refuse_plain_array(source)
    missing_text = _to_text_tuple("na_values", na_values)
    options = ReadOptions(
        separator=separator,
        header=header,
        encoding=encoding,
        layout=layout,
        na_values=missing_text,
        named_columns=tuple(names.values()),
    )
    opened_source = open_source(source, options)
    _refuse_trec_run(opened_source)
    ignored_columns = [ignore] if isinstance(ignore, str) else list(ignore)
    match = match_log_columns(
        opened_source, names, ignored_columns, use_outcomes=not isinstance(min_value, float)
    )
    builder = LogBuilder.from_source(opened_source, match, units, na_values=missing_text)
    builder.check_roles(opened_source, ignored_columns)
    is_qrels = opened_source.layout is not None and opened_source.layout.trec == "qrels"
    if min_value is None and is_qrels:
        min_value = 1.0
    builder.leave_out_missing(missing)
    builder.apply_threshold(min_value)
    builder.restrict_to_universe("user", users, unknown)
    builder.restrict_to_universe("item", items, unknown)
    if "clicked" in builder.column_names:
        check_options(duplicates=duplicates)
        return builder.build_impressions(duplicates, gaps, unshown_clicks)
    log = builder.build_interactions(duplicates)
    more_counts = list(sparse_counts)
    if is_qrels:
        more_counts += _count_grades(log)
    if more_counts:
        return replace(log, row_counts=(*log.row_counts, *more_counts))
    return log


def _count_grades(log: Interactions) -> list[Count]:
    """Return the count of relevance judgements whose grades most metrics do not use; empty for one grade."""
    if log.value is None or not len(log) or log.value.min() == log.value.max():
        return []
    description = (
        f"judgements with grades from {log.value.min():g} to {log.value.max():g}, which ndcg treats alike; "
        "ndcg(gain=linear) uses the grades"
    )
    return [Count(description, len(log), code="no_threshold")]


def _to_text_tuple(name: str, texts: str | Sequence[str]) -> tuple[str, ...]:
    """Return one text or several as a tuple, or raise `InputError`."""
    text_tuple = (texts,) if isinstance(texts, str) else tuple(texts)
    if not all(isinstance(text, str) for text in text_tuple):
        raise InputError(f"{name} must be text, or a sequence of text; got {text_tuple!r:.80}.")
    return text_tuple


def _refuse_trec_run(source: Source) -> None:
    """Raise `InputError` for a TREC run, which holds recommendation lists and not a log."""
    if source.layout is not None and source.layout.trec == "run":
        raise InputError(
            f"{source.name} must be a log; it is a run of TREC, which holds recommendation lists. Read it by "
            "ipseval.read_lists, or pass header= if its first line names the columns."
        )


@public_function
def read_impressions(source: LogSource, **options: Any) -> ImpressionLog:
    """Read a log of impressions: `read` with the type of its result, for sources with clicks.

    Parameters
    ----------
    source : path, data frame or mapping
        As in `read`.
    **options
        Options of `read`.

    Returns
    -------
    ImpressionLog
        The impressions.

    Raises
    ------
    ProblemsError
        As in `read`.
    InputError
        For a source without a column of clicks.

    See Also
    --------
    ipseval.read : Read a log with or without clicks.

    Examples
    --------
    >>> import pandas as pd
    >>> read_impressions(pd.DataFrame({"user": ["a", "a"], "item": [1, 2], "clicked": [1, 0]}))
    ImpressionLog(2 impressions, 1 click, 1 user, 2 items)
    """
    log = read(source, **options)
    if not isinstance(log, ImpressionLog):
        raise InputError("impressions need a column of clicks; none was found. Name it: clicked=.")
    return log
