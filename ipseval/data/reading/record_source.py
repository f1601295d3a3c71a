"""Lists of tuples (user, item, …) as sources, whose columns have positions but no names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from ipseval.data.reading._dialect import N_LINES
from ipseval.data.reading._frame_source import build_object_frame, infer_types, open_frame
from ipseval.data.reading._source import Source
from ipseval.data.reading._text import Layout
from ipseval.errors import InputError


def are_records(source: object) -> TypeGuard[list[Sequence[Any]]]:
    """Return whether an object is a list of tuples, or of lists, of two entries or more.

    Parameters
    ----------
    source : object
        Any object.

    Returns
    -------
    bool
        False for an empty list, too.

    See Also
    --------
    ipseval.read : Reads such lists as logs.

    Examples
    --------
    >>> are_records([("ann", "x"), ("bob", "y")]), are_records(["ann", "bob"])
    (True, False)
    """
    if not isinstance(source, list) or not source:
        return False
    return all(isinstance(record, (tuple, list)) and len(record) >= 2 for record in source)


def open_records(records: list[Sequence[Any]], name: str) -> Source:
    """Return a list of tuples as a source with the columns "column 1", "column 2", …."""
    lengths = {len(record) for record in records}
    if len(lengths) > 1:
        raise InputError(
            f"the tuples of a log must have one length; got lengths {min(lengths)} to {max(lengths)}. Pass "
            "{user: [item, …]} for a list of items of each user."
        )
    n_columns = lengths.pop()
    columns: dict[str, list[object]] = {}
    for position in range(n_columns):
        columns[f"column {position + 1}"] = [record[position] for record in records]

    source = open_frame(infer_types(build_object_frame(columns)), name)
    rows = []
    for record in records[:N_LINES]:
        rows.append(tuple(_format_cell(cell) for cell in record))

    layout = Layout(separator=",", header=False, columns=tuple(columns), rows=tuple(rows))
    return Source(name=name, columns=source.columns, load=source.load, layout=layout, lists=source.lists)


def _format_cell(cell: object) -> str:
    """Return a cell as text, empty if it is missing."""
    is_missing = (
        cell is None
        or cell is pd.NA
        or cell is pd.NaT
        or (isinstance(cell, (float, np.floating)) and math.isnan(cell))
    )
    if is_missing:
        return ""
    return str(cell)
