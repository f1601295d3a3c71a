"""Source: a table whose columns are loaded on demand, and the options by which it is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import narwhals as nw

from ipseval.data.reading._text import Layout, LayoutName
from ipseval.utils.notes import Count

ENCODING = "utf-8"

Table: TypeAlias = nw.DataFrame[Any]
# Reads columns of a source; the second argument lists those that hold ids.
Loader: TypeAlias = Callable[[Sequence[str], Sequence[str]], Table]


@dataclass(frozen=True, eq=False)
class Source:
    """Describe a table with columns that are loaded on demand.

    Attributes
    ----------
    name : str
        Name of the source in errors.
    columns : tuple of str
        Names of the columns.
    load : function
        Loads columns; its second argument lists those that hold ids.
    layout : Layout or None
        Layout of a text file, or of JSON without names of columns.
    lists : tuple of str
        Columns that hold lists.
    text_columns : tuple of str
        Columns in which numbers are written as text.
    strips_ids : bool
        Whether blanks around ids are removed although the ids are not in `text_columns`.
    has_fixed_roles : bool
        Whether the form of the source determines the roles of its columns, as {user: [item, …]} does.
    is_file : bool
        Whether the source is a file or a folder, and not data in memory.
    counts : list of Count
        Counts of the rows that were last loaded.
    """

    name: str
    columns: tuple[str, ...]
    load: Loader
    layout: Layout | None = None
    lists: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    strips_ids: bool = False
    has_fixed_roles: bool = False
    is_file: bool = False
    counts: list[Count] = field(default_factory=list)


@dataclass(frozen=True)
class ReadOptions:
    """Store how a file or mapping is read.

    Attributes
    ----------
    separator, header, encoding, layout
        Options of a text file; None: found in the file.
    na_values : tuple of str
        Text that means a missing entry.
    named_columns : tuple of str or None
        Columns that the caller has named.
    lists : {"rows", "ranks", "stay"}
        Whether each entry of a list becomes a row, a row with its position as rank, or stays in the list.
    """

    separator: str | None = None
    header: bool | None = None
    encoding: str = ENCODING
    layout: LayoutName = "auto"
    na_values: tuple[str, ...] = ()
    named_columns: tuple[str | None, ...] = ()
    lists: Literal["rows", "ranks", "stay"] = "rows"
