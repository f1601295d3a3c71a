"""read(): a log as it is, with every problem of it in one error or one table of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ipseval._base.checks import check_choice, check_real, check_type
from ipseval.data._interactions import Duplicates, Interactions
from ipseval.data.reading._columns import UNITS, Units
from ipseval.data.reading._draft import ROLES, Draft
from ipseval.data.reading._source import ENCODING, Reading, open_source


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
    threshold: float | None = None,
    users: Any | None = None,
    items: Any | None = None,
    duplicates: Duplicates = "raise",
    missing: Literal["raise", "drop"] = "raise",
    unknown: Literal["raise", "drop"] = "raise",
    gaps: Literal["raise", "keep"] = "raise",
    unshown_clicks: Literal["raise", "drop"] = "raise",
    units: Units = "auto",
    connection: Any | None = None,
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
    source : path, data frame, query, record array, or mapping of columns
        A file of text (CSV, TSV, u.data, packed by gzip, bz2, xz or zip) or of Parquet, or a folder of such;
        any data frame that narwhals reads (pandas, polars, pyarrow, DuckDB relations, …); with `connection`
        a query of SQL. A file of relevance judgments (TREC qrels) gives pairs of at least grade 1.
    user, item, timestamp, value, position, shown, clicked, propensity, query : str, optional
        Names of columns; see `ExposureLog` for those that come with clicks. Default: the usual names, such as
        user_id, sku, ts, rating. A text file without a header has columns "column 1", "column 2", …; two of
        them are user and item, four are user, item, value and timestamp.
    ignore : str or sequence of str
        Columns that are not read, whatever they are called.
    threshold : float, optional
        Rows with a smaller value are left out and counted; their users and items stay in the universe.
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
    gaps, unshown_clicks : see `ExposureLog.from_frame`
    units : {"auto", "s", "ms", "us", "ns", "none"}
        Of times that are numbers. "auto": what puts all of them between 1980 and 2100; they become dates,
        nanoseconds since 1970. "none", and numbers that fit no unit: they stay what they are. Times without a
        time zone are UTC.
    connection : connection, optional
        Of DuckDB, SQLAlchemy, ADBC or DB-API; the source is a query then.
    separator, header, encoding
        Of a text file. Default: separator and header are told from the first lines.

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
    for name, choice in (("missing", missing), ("unknown", unknown)):
        check_choice(name, choice, ("raise", "drop"))
    check_choice("gaps", gaps, ("raise", "keep"))
    check_choice("unshown_clicks", unshown_clicks, ("raise", "drop"))
    check_choice("units", units, UNITS)
    check_type("header", header, (bool, type(None)))
    if threshold is not None:
        threshold = check_real("threshold", threshold)
    names = (user, item, query, timestamp, clicked, shown, position, propensity, value)
    given = dict(zip(ROLES, names, strict=True))
    for name, column in given.items():
        check_type(name, column, (str, type(None)))
    opened = open_source(source, Reading(connection, separator, header, encoding))
    ignored = [ignore] if isinstance(ignore, str) else list(ignore)
    draft = Draft.of(opened, given, units, ignored, outcomes=threshold is None)
    if opened.layout is not None and opened.layout.trec == "qrels" and threshold is None:
        threshold = 1.0
    draft.leave_out_missing(missing)
    draft.leave_out_low(threshold)
    draft.fit_to("user", users, unknown)
    draft.fit_to("item", items, unknown)
    if "clicked" in draft.chosen.columns:
        check_choice("duplicates", duplicates, ("raise", "drop"))
        return draft.exposures(duplicates, gaps, unshown_clicks)
    return draft.interactions(duplicates)
