"""Tables other than logs, such as propensities, attributes of items or random exposure, from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from ipseval.data.reading._file_source import open_file
from ipseval.data.reading._id_columns import encode_id_column
from ipseval.data.reading._source import ReadOptions
from ipseval.errors import InputError, Problem, ProblemsError

ID_COLUMNS = ("user", "item", "query")


def read_table(path: str | Path, columns: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return the table in a file of any format that `read` takes; the first line of text names its columns.

    `columns` are renamed where the table has them. Ids are read as in `read`, so that they match those of a
    log: NA and 007 are texts.
    """
    new_names = columns or {}
    source = open_file(path, ReadOptions(header=True, layout="table", lists="stay"))
    id_columns = [name for name in source.columns if new_names.get(name, name) in ID_COLUMNS]
    table = source.load(source.columns, id_columns)
    frame = table.to_pandas().infer_objects()
    problems: list[Problem] = []
    for name in id_columns:
        from_text = name in source.text_columns
        if from_text or source.strips_ids:
            column = encode_id_column(
                table[name], f"column {name!r}", from_text=from_text, strip=source.strips_ids
            )
            problems += column.problems
            frame[name] = pd.Series(column.ids.ids).reindex(column.ids.codes).to_numpy()
    if problems:
        raise ProblemsError(str(path), problems)
    return _rename_columns(path, frame, new_names)


def _rename_columns(path: str | Path, frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame with new names of columns, or raise `InputError` if it has a new name already."""
    new_names: dict[str, str] = {}
    for old, new in columns.items():
        if old in frame.columns and old != new:
            new_names[old] = new
    conflicts = []
    for new in new_names.values():
        if new in frame.columns and new not in new_names:
            conflicts.append(new)

    if conflicts:
        raise InputError(
            f"{path} has columns {', '.join(new_names)} and {', '.join(conflicts)}; remove one of them."
        )
    return frame.rename(columns=new_names)
