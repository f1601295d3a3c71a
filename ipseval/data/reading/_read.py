"""Logs, ids of several sources as one universe, and attributes: every problem of a source in one error."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.data._impressions import check_options
from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Duplicates, Interactions
from ipseval.data.reading._assignment import ROLES, choose_log
from ipseval.data.reading._columns import UNITS, Units, rows_said
from ipseval.data.reading._draft import Draft
from ipseval.data.reading._lists import Lists
from ipseval.data.reading._source import ENCODING, Reading, Source, open_source
from ipseval.data.reading._text import LAYOUTS, LayoutName
from ipseval.data.reading._values import check_threshold
from ipseval.data.reading.column_names import Chosen, choose
from ipseval.data.sparse import is_sparse_matrix, read_sparse_matrix, refuse_plain_array
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.utils.checks import check_choice, check_type, examples
from ipseval.utils.counts import Count
from ipseval.utils.ids import as_ids, of_one_type
from ipseval.utils.types import AnyArray


def read(
    source: Any,
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
    users: Any | None = None,
    items: Any | None = None,
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
    """Return a log as it is: impressions where it has a column of clicks, otherwise interactions.

    Columns with a usual name are found; `.data` of the result says which were read as what and which were not
    read, and counts what was left out. A column of 0 and 1 called label, target, purchased, y and the like
    tells what happened, as `clicked` does, unless values are asked for. All that is wrong with the source is
    said in one error, with counts, rows and ways out.

    Parameters
    ----------
    source : path, data frame, or mapping
        A file of text (CSV, TSV, u.data), of JSON (.json as pandas writes it, .jsonl, .ndjson), packed by
        gzip, bz2, xz or zip; of Parquet, or a folder of such; any data frame that narwhals reads (pandas,
        polars, pyarrow, DuckDB relations, …); a mapping of columns, or {user: [item, …]}; a scipy sparse
        matrix, users × items, whose ids are `users` and `items` or the numbers of rows and columns. A column
        of lists, such as `items`, becomes a row for each entry. Numbers may have decimal commas. A file of
        relevance judgments (TREC qrels) gives pairs of at least grade 1.
    user, item, timestamp, value, position, shown, clicked, propensity, query : str, optional
        Names of columns; see `ImpressionLog` for those that come with clicks. Default: the usual names, such
        as user_id, sku, ts, rating. A text file without a header has columns "column 1", "column 2", …; two
        of them are user and item, four are user, item, value and timestamp, and the third of three is the
        value if it holds ratings. Columns that are not named here must fit what they are read as: another
        assignment that fits better is an error, or a note below 50 rows.
    ignore : str or sequence of str
        Columns that are not read, whatever they are called.
    threshold : float or "all", optional
        Rows with a smaller value are left out and counted; their users and items stay in the universe.
        "all": every row is a positive, whatever its value. Without a threshold, rows of value 0 are left out
        and counted, and ratings (3 to 21 values in equal steps, at most 10) are an error; where `value` names
        their column, or its name may mean something else, such as overall or weight, a `DataWarning`.
    users, items : array-like of ids, optional
        The whole universe, as in `Interactions`. Default: the ids that were read, sorted.
    duplicates : {"raise", "drop", "keep"}
        What to do with pairs that occur again: an error; keep the first row and count the others; or keep
        all, where users take the same item again. Impressions that are logged twice, in one slate or at one
        time and position, are an error or merged.
    missing : {"raise", "drop"}
        What to do with rows that lack an id, a time, a value or a click.
    unknown : {"raise", "drop"}
        What to do with rows whose id is not in `users` or `items`.
    gaps, unshown_clicks : see `ImpressionLog.from_frame`
    units : {"auto", "s", "ms", "us", "ns", "none"}
        Of times that are numbers. "auto": what puts all of them between 1980 and 2100; they become dates,
        nanoseconds since 1970. "none", and numbers that fit no unit: they stay what they are. Times without a
        time zone are UTC.
    na_values : str or sequence of str
        Text that names a missing entry, as in pandas. Ids are otherwise missing only where they are empty: NA
        and null are ids.
    layout : {"auto", "table", "pairs", "adjacency", "trec"}
        Of a text file: columns; user and item as the first two; lines of a user and its items; or qrels.
        "auto" finds all but "pairs" in the content.
    separator, header, encoding
        Of a text file. Default: separator and header are found in the first 64 kB. Quotation marks are part
        of the text unless they are balanced and enclose fields.

    Raises
    ------
    ProblemsError
        An `InputError` that lists every problem of the source. Rows are counted from 0.
    InputError
        For a source that cannot be opened.

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
    least = check_threshold(threshold)
    names = (user, item, query, timestamp, clicked, shown, position, propensity, value)
    given = dict(zip(ROLES, names, strict=True))
    for name, column in given.items():
        check_type(name, column, (str, type(None)))
    sparse_counts: tuple[Count, ...] = ()
    if is_sparse_matrix(source):
        table = read_sparse_matrix(source, users, items, allow_negative=threshold is not None)
        source = table.frame
        users = table.users
        items = table.items
        sparse_counts = table.counts
    refuse_plain_array(source)
    absent = _as_tuple("na_values", na_values)
    how = Reading(separator, header, encoding, layout, absent, names)
    opened = open_source(source, how)
    _refuse_run(opened)
    ignored = [ignore] if isinstance(ignore, str) else list(ignore)
    chosen = choose_log(opened, given, ignored, outcomes=not isinstance(least, float))
    draft = Draft.of(opened, chosen, units, na_values=absent)
    draft.check_roles(opened)
    if opened.layout is not None and opened.layout.trec == "qrels" and least is None:
        least = 1.0
    draft.leave_out_missing(missing)
    draft.apply_threshold(least)
    draft.fit_to("user", users, unknown)
    draft.fit_to("item", items, unknown)
    if "clicked" in draft.names:
        check_options(duplicates=duplicates)
        return draft.exposures(duplicates, gaps, unshown_clicks)
    log = draft.interactions(duplicates)
    return replace(log, counted=(*log.counted, *sparse_counts)) if sparse_counts else log


def _as_tuple(name: str, texts: str | Sequence[str]) -> tuple[str, ...]:
    """Return one text or several as a tuple, or raise `InputError`."""
    listed = (texts,) if isinstance(texts, str) else tuple(texts)
    if not all(isinstance(text, str) for text in listed):
        raise InputError(f"{name} must be text, or a sequence of text; got {listed!r:.80}.")
    return listed


def _refuse_run(source: Source) -> None:
    """Raise `InputError` for a run of TREC, which holds recommendation lists and no log."""
    if source.layout is not None and source.layout.trec == "run":
        raise InputError(
            f"{source.name} must be a log; it is a run of TREC, which holds recommendation lists. Read it by "
            "ipseval.read_lists, or pass header= if its first line names the columns."
        )


Of = Literal["user", "item"]


def read_impressions(source: Any, **options: Any) -> ImpressionLog:
    """Return a log of impressions: `read` of a source that has clicks, for code whose types are checked.

    Parameters
    ----------
    source
        As in `read`.
    **options
        Of `read`.

    Raises
    ------
    ProblemsError
        As `read`.
    InputError
        For a source without a column of clicks.

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


def read_ids(*sources: Any, of: Of = "item", column: str | None = None) -> AnyArray:
    """Return the ids of users or items in several sources, each once, sorted: a universe for `read`.

    Parameters
    ----------
    *sources : path, data frame, log, lists, or sequence of ids
        Files and frames as `read` takes them, with a column of these ids; interactions, exposure logs and
        `Lists` give the ids that they know.
    of : {"user", "item"}
    column : str, optional
        Name of the column in files and frames. Default: the usual names.

    Raises
    ------
    InputError
        For a source without such a column or with missing ids, lists with problems, and ids that are text in
        one source and numbers in another.

    Examples
    --------
    >>> log = Interactions.from_frame(pd.DataFrame({"user": ["ann"], "item": [7]}))
    >>> read_ids(log, [3, 7], pd.DataFrame({"sku": [1]}))
    array([1, 3, 7])
    """
    check_choice("of", of, ("user", "item"))
    if not sources:
        raise InputError("read_ids needs at least one source of ids.")
    found = [_ids_of(source, of, column) for source in sources]
    together = np.concatenate(of_one_type(found, f"the {of}s of the sources"))
    return np.asarray(pd.factorize(together, sort=True)[1])


def _ids_of(source: Any, of: Of, column: str | None) -> AnyArray:
    if isinstance(source, (Interactions, ImpressionLog)):
        return source.user_ids if of == "user" else source.item_ids
    if isinstance(source, Lists):
        if source.problems:
            raise ProblemsError("the lists", source.problems, "ipseval.Lists or read_lists")
        known = source.entries.user_ids if of == "user" else source.entries.item_ids
        if known is None:
            raise InputError(f"these lists have no ids of {of}s: their rows are those of a split.")
        return known
    is_table = isinstance(source, (str, os.PathLike, Mapping)) or hasattr(source, "columns")
    if not is_table and not getattr(getattr(source, "dtype", None), "names", None):
        return as_ids(source, f"ids of {of}s")
    opened = open_source(source, Reading(named=(column,)))
    return _column(opened, of, column).ids[of].ids


def _column(opened: Source, of: Of, column: str | None) -> Draft:
    """Return the ids of a source and the name of their column, or raise all that is wrong with them."""
    chosen = choose(opened.columns, {of: column}, (of,), (of,), opened.lists)
    problems = (Problem(one.what, one.way_out.replace(f"{{{of}", "{column")) for one in chosen.problems)
    draft = Draft.of(opened, Chosen(chosen.columns, tuple(problems)))
    draft.leave_out_missing("raise", "Remove them")
    draft.raise_problems()
    return draft


def read_attributes(
    source: Any,
    *,
    of: Of = "item",
    column: str | None = None,
    duplicates: Literal["raise", "drop"] = "raise",
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = ENCODING,
) -> pd.DataFrame:
    """Return the attributes of users or items: a frame with a column `user` or `item`, one row for each.

    Its ids are read as `read` reads those of a log, so that they are equal where the files agree. It can be
    passed on as the groups of `Evaluation.by`, and its ids as `users=` or `items=` of `read`.

    Parameters
    ----------
    source : path, data frame, or mapping of columns
        As in `read`; all columns but the ids are attributes and stay as they are.
    of : {"user", "item"}
        Whose attributes they are.
    column : str, optional
        Name of the column of ids. Default: the usual names.
    duplicates : {"raise", "drop"}
        What to do with an id that occurs again: an error, or keep its first row.
    separator, header, encoding
        As in `read`.

    Raises
    ------
    InputError
        For missing or repeated ids, and a source without attributes.

    Examples
    --------
    >>> read_attributes(pd.DataFrame({"sku": [7, 3], "genre": ["noir", "drama"]}))
       item  genre
    0     7   noir
    1     3  drama
    """
    check_choice("of", of, ("user", "item"))
    check_options(duplicates=duplicates)
    check_type("column", column, (str, type(None)))
    how = Reading(separator, header, encoding, named=(column,), lists="stay")
    opened = open_source(source, how)
    draft = _column(opened, of, column)
    ids, name = draft.ids[of], draft.names[of]
    others = [one for one in opened.columns if one != name]
    again = np.asarray(pd.Series(ids.codes).duplicated())
    if not others or of in others:
        what = f"column {of!r} is there beside" if others else "there is no attribute beside"
        draft.fault(f"{what} the ids in column {name!r}; the columns are {examples(opened.columns, 12)}", "")
    elif again.any() and duplicates == "raise":
        draft.fault(
            f"{int(again.sum()):,} of {again.size:,} rows repeat an id ({rows_said(again)}: "
            f"{examples(ids.ids[ids.codes[again]])})",
            "Pass {duplicates=drop} to keep the first row of each",
        )
    draft.raise_problems()
    attributes = opened.load(others, []).to_pandas()
    frame = pd.concat([pd.DataFrame({of: ids.ids[ids.codes]}), attributes.reset_index(drop=True)], axis=1)
    once: pd.DataFrame = frame[~again]
    return once.reset_index(drop=True)
