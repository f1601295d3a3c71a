"""Reading of ids from several sources, and of attributes of users or items."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from narwhals.typing import IntoFrame

from ipseval.data._impression_checks import check_options
from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions
from ipseval.data.reading._lists import Lists
from ipseval.data.reading._log_builder import LogBuilder
from ipseval.data.reading._open_source import open_source
from ipseval.data.reading._source import ENCODING, ReadOptions, Source
from ipseval.data.reading._value_columns import format_rows
from ipseval.data.reading.column_names import N_EXAMPLES, ColumnMatch, match_columns
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.utils.checks import check_choice, check_type, format_examples
from ipseval.utils.ids import as_ids, unify_id_types
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, BoolArray

IdRole = Literal["user", "item"]
TableSource: TypeAlias = str | os.PathLike[str] | IntoFrame | Mapping[str, Sequence[Any]]
IdSource: TypeAlias = TableSource | Interactions | ImpressionLog | Lists | npt.ArrayLike


@public_function
def read_ids(*sources: IdSource, of: IdRole = "item", column: str | None = None) -> AnyArray:
    """Collect the ids of users or items from several sources: a universe for `read`.

    Parameters
    ----------
    *sources : path, data frame, log, lists, or sequence of ids
        Files and frames as in `read`, with a column of these ids. Interactions, impression logs and `Lists`
        contribute all ids of their universe.
    of : {"user", "item"}
        Whether ids of users or of items are read. Default: "item".
    column : str, optional
        Name of the column in files and frames. Default: the usual names.

    Returns
    -------
    array
        Each id once, sorted.

    Raises
    ------
    InputError
        For a source without such a column or with missing ids, lists with problems, and ids that are text in
        one source and numbers in another.

    See Also
    --------
    ipseval.read : Read a log; `users=` and `items=` take the ids.

    Examples
    --------
    >>> log = Interactions.from_frame(pd.DataFrame({"user": ["ann"], "item": [7]}))
    >>> read_ids(log, [3, 7], pd.DataFrame({"sku": [1]}))
    array([1, 3, 7])
    """
    check_choice("of", of, ("user", "item"))
    if not sources:
        raise InputError("read_ids needs at least one source of ids.")
    id_arrays = [_read_source_ids(source, of, column) for source in sources]
    all_ids = np.concatenate(unify_id_types(id_arrays, f"the {of}s of the sources"))
    return np.asarray(pd.factorize(all_ids, sort=True)[1])


def _read_source_ids(source: IdSource, role: IdRole, column: str | None) -> AnyArray:
    """Return the ids of users or items of one source."""
    if isinstance(source, (Interactions, ImpressionLog)):
        return source.user_ids if role == "user" else source.item_ids
    if isinstance(source, Lists):
        return _select_list_ids(source, role)
    has_columns = isinstance(source, (str, os.PathLike, Mapping)) or hasattr(source, "columns")
    has_fields = getattr(getattr(source, "dtype", None), "names", None) is not None
    if not has_columns and not has_fields:
        return as_ids(source, f"ids of {role}s")
    opened_source = open_source(source, ReadOptions(named_columns=(column,)))
    return _read_id_column(opened_source, role, column).ids[role].ids


def _select_list_ids(lists: Lists, role: IdRole) -> AnyArray:
    """Return the ids of users or items of recommendation lists."""
    if lists.problems:
        raise ProblemsError("the lists", lists.problems, "ipseval.Lists or read_lists")
    ids = lists.entries.user_ids if role == "user" else lists.entries.item_ids
    if ids is None:
        raise InputError(f"these lists have no ids of {role}s: their rows are those of a split.")
    return ids


def _read_id_column(source: Source, role: IdRole, column: str | None) -> LogBuilder:
    """Return a builder with the column of ids of a source, or raise one error for all its problems."""
    match = match_columns(source.columns, {role: column}, (role,), (role,), source.lists)
    problems = []
    for problem in match.problems:
        # The fix must name the option `column`, not the option of `read` that is named after the role.
        fix = problem.advice.replace(f"{{{role}", "{column")
        problems.append(Problem(problem.description, fix))
    builder = LogBuilder.from_source(source, ColumnMatch(match.columns, tuple(problems)))
    builder.leave_out_missing("raise", "Remove them")
    builder.raise_problems()
    return builder


@public_function
def read_attributes(
    source: TableSource,
    *,
    of: IdRole = "item",
    column: str | None = None,
    duplicates: Literal["raise", "drop"] = "raise",
    separator: str | None = None,
    header: bool | None = None,
    encoding: str = ENCODING,
) -> pd.DataFrame:
    """Read the attributes of users or items, such as genres or age groups.

    Ids are read as in `read`, so that they match the ids of a log. The frame can be passed to
    `Evaluation.by`, and its ids as `users=` or `items=` to `read`.

    Parameters
    ----------
    source : path, data frame, or mapping of columns
        As in `read`; all columns except the ids are attributes and are not changed.
    of : {"user", "item"}
        Whether the attributes are of users or of items. Default: "item".
    column : str, optional
        Name of the column of ids. Default: the usual names.
    duplicates : {"raise", "drop"}
        How to treat an id that occurs again: raise an error (default), or keep its first row.
    separator : str, optional
        Separator of the fields of a text file. Default: found in the file, as in `read`.
    header : bool, optional
        Whether the first line of a text file names the columns. Default: found in the file, as in `read`.
    encoding : str, default "utf-8"
        Encoding of a text file.

    Returns
    -------
    DataFrame
        One row per id: a column `user` or `item`, and the attributes.

    Raises
    ------
    InputError
        For missing or repeated ids, and a source without attributes.

    See Also
    --------
    ipseval.read : Read a log of interactions.
    ipseval.data.reading.read_ids : Read the ids of a catalogue.

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
    options = ReadOptions(
        separator=separator, header=header, encoding=encoding, named_columns=(column,), lists="stay"
    )
    opened_source = open_source(source, options)
    builder = _read_id_column(opened_source, of, column)
    id_column = builder.column_names[of]
    attribute_columns = []
    for name in opened_source.columns:
        if name != id_column:
            attribute_columns.append(name)

    codes = builder.ids[of].codes
    is_repeat = np.asarray(pd.Series(codes).duplicated())
    if not attribute_columns or of in attribute_columns:
        _add_column_problem(builder, of, opened_source)
    elif is_repeat.any() and duplicates == "raise":
        _add_repeat_problem(builder, of, is_repeat)
    builder.raise_problems()
    attributes = opened_source.load(attribute_columns, []).to_pandas()
    ids = pd.DataFrame({of: builder.ids[of].ids[codes]})
    frame = pd.concat([ids, attributes.reset_index(drop=True)], axis=1)
    distinct_rows: pd.DataFrame = frame[~is_repeat]
    return distinct_rows.reset_index(drop=True)


def _add_column_problem(builder: LogBuilder, role: IdRole, source: Source) -> None:
    """Add the problem of a source that has no attributes, or an attribute with the name of the ids."""
    id_column = builder.column_names[role]
    description = "there must be an attribute in addition to"
    if len(source.columns) > 1:
        description = f"column {role!r} must not exist in addition to"
    builder.audit.add_problem(
        f"{description} the ids in column {id_column!r}; the columns are "
        f"{format_examples(source.columns, N_EXAMPLES)}"
    )


def _add_repeat_problem(builder: LogBuilder, role: IdRole, is_repeat: BoolArray) -> None:
    """Add the problem of rows that repeat an id."""
    ids = builder.ids[role]
    repeated_ids = ids.ids[ids.codes[is_repeat]]
    builder.audit.add_problem(
        f"{int(is_repeat.sum()):,} of {is_repeat.size:,} rows repeat an id ({format_rows(is_repeat)}: "
        f"{format_examples(repeated_ids)})",
        "Pass {duplicates=drop} to keep the first row of each",
    )
