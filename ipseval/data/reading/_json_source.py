"""Files of JSON as sources: records, columns, the "split" format of pandas, and lists of users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ipseval.data.reading._dialect import N_LINES
from ipseval.data.reading._frame_source import open_frame
from ipseval.data.reading._json import check_records, read_json
from ipseval.data.reading._mapping_source import has_column_key, open_mapping
from ipseval.data.reading._source import ReadOptions, Source
from ipseval.data.reading._text import Layout
from ipseval.errors import InputError
from ipseval.utils.checks import describe_type


def open_json(path: Path, options: ReadOptions) -> Source:
    """Return a file of JSON as a source."""
    content = read_json(path, options.encoding)
    if isinstance(content, dict) and "columns" in content and "data" in content:
        source = _open_records(path, content["data"], content["columns"])
    elif isinstance(content, dict) and _is_single_record(content):
        source = _open_records(path, [content])
    elif isinstance(content, dict):
        source = _open_object(path, content, options)
    else:
        source = _open_records(path, content)
    return replace(source, strips_ids=True)


def _is_single_record(content: Mapping[str, object]) -> bool:
    """Return whether a JSON object is a single record: simple values with usual names."""
    for value in content.values():
        if value is not None and not isinstance(value, (str, int, float)):
            return False
    return has_column_key(content)


def _open_object(path: Path, content: dict[str, Any], options: ReadOptions) -> Source:
    """Return a JSON object of columns or of user lists as a source."""
    source = open_mapping(content, options, path.name, dtype=object)
    if source.has_fixed_roles:
        # The keys of JSON are text, also if the ids of users are numbers.
        return replace(source, text_columns=("user",))
    return source


def _open_records(path: Path, records: object, columns: list[str] | None = None) -> Source:
    """Return JSON records as a source: objects, or lists with a value for each column."""
    if not isinstance(records, list):
        raise InputError(f"{path} holds no table, records or lists of users; got {describe_type(records)}.")
    if not records:
        raise InputError(f"{path} must hold records; got an empty list.")
    layout = None
    if columns is None and isinstance(records[0], list):
        columns = [f"column {number}" for number in range(1, len(records[0]) + 1)]
        layout = _build_layout(columns, records)
    check_records(path, records, columns)
    source = open_frame(pd.DataFrame(records, columns=columns, dtype=object), path.name)
    return replace(source, layout=layout)


def _build_layout(columns: list[str], records: list[object]) -> Layout:
    """Return the layout of JSON lists without names of columns, which are found by their positions."""
    rows = []
    for record in records[:N_LINES]:
        if isinstance(record, list):
            rows.append(tuple(map(str, record)))

    return Layout(separator="", header=False, columns=tuple(columns), rows=tuple(rows))
