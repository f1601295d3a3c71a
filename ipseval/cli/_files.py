"""Parse and read files as they are named on the command line: FILE, FILE:option=value,… or - for standard input."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipseval.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd

    from ipseval.data.splits import Split
    from ipseval.utils.types import AnyArray

TRUTH_VALUES = {"true": True, "false": False}
_ENTRY = re.compile(r"(?P<path>.+?):(?P<options>\w+=[^,=]*(?:,\w+=[^,=]*)*)")


@dataclass(frozen=True)
class FileEntry:
    """A file with the options that apply to it alone."""

    path: str
    options: dict[str, str]

    def parse_options(self) -> dict[str, Any]:
        """Return the options, with a number for `threshold` and a truth value for `header`."""
        options: dict[str, Any] = dict(self.options)
        if "threshold" in options:
            options["threshold"] = self._parse_threshold(options["threshold"])
        if "header" in options:
            if options["header"] not in TRUTH_VALUES:
                raise InputError(f"{self.path}: header must be true or false; got {options['header']!r}.")
            options["header"] = TRUTH_VALUES[options["header"]]
        return options

    def _parse_threshold(self, text: str) -> float | str:
        """Return a number, or the word "all"."""
        if text == "all":
            return text
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{self.path}: threshold must be a number or 'all'; got {text!r}.") from None

    @contextmanager
    def open_path(self) -> Iterator[str]:
        """Yield the path of the file; standard input is copied to a temporary file."""
        if self.path != "-":
            yield self.path
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "standard-input"
            with path.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
            yield str(path)


def parse_file_entry(entry: str, names: Sequence[str] | None) -> FileEntry:
    """Return the file of FILE[:option=value,…], or raise `UnknownNameError` for an option not in `names`."""
    match = _ENTRY.fullmatch(entry)
    if match is None or Path(entry).exists():
        return FileEntry(entry, {})
    options = {}
    for assignment in match["options"].split(","):
        name, value = assignment.split("=")
        options[name] = value

    for name in options:
        if names is not None and name not in names:
            raise UnknownNameError(f"option of {match['path']}", name, names)
    return FileEntry(match["path"], options)


def load_table(
    entry: str, columns: Mapping[str, str | None] | None = None, option_names: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the table of FILE[:user=uid,…] with its columns renamed to their roles.

    `columns` maps roles to the names of columns in all files; `option_names` are options other than columns.
    """
    from ipseval.data.reading.table_files import read_table

    spec = parse_file_entry(entry, ("user", "item", "value", "rank", "score", "propensity", *option_names))
    roles_by_column = {}
    for role, name in (columns or {}).items():
        if name and role not in spec.options:
            roles_by_column[name] = role
    for role, name in spec.options.items():
        if role != "threshold":
            roles_by_column[name] = role
    with spec.open_path() as path:
        table = read_table(path, roles_by_column)
    return _rename_usual_ids(table)


def _rename_usual_ids(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with columns of ids renamed to user and item if they have usual names, such as user_id."""
    from ipseval.data.reading.column_names import match_columns

    columns = [str(name) for name in table.columns]
    roles = [role for role in ("user", "item") if role not in columns]
    if not roles or len(set(columns)) < len(columns):
        return table
    match = match_columns(columns, {}, roles, essential=())
    return table.rename(columns={name: role for role, name in match.columns.items()})


def load_column(entry: str, role: str, options: argparse.Namespace) -> AnyArray:
    """Return one column of a file as an array."""
    table = load_table(entry, {role: getattr(options, role)})
    if role not in table.columns:
        raise InputError(f"{entry} has no column {role!r}; it has {', '.join(map(str, table.columns))}.")
    return table[role].to_numpy()


def load_item_vectors(options: argparse.Namespace, split: Split) -> pd.DataFrame | AnyArray | None:
    """Return the vectors of --item-vectors, with item ids as labels if they are in a table; None without it."""
    import pandas as pd

    from ipseval.utils.artefacts import ARRAYS, read_array

    entry = options.item_vectors
    if entry is None:
        return None
    if "ild@" not in (options.beyond or ""):
        raise InputError("--item-vectors is read by ild@k alone; name it in --beyond.")
    if entry.lower().endswith(ARRAYS):
        return read_array(entry)
    ids = load_column(entry, "item", options)
    table = load_table(entry, {"item": options.item}).drop(columns="item").set_axis(ids)
    if options.unknown == "drop":
        table = table[table.index.isin(split.item_ids)]
    if table.shape[1] == 1 and table.dtypes.iloc[0].kind == "O":  # one column of arrays
        return pd.DataFrame(table.iloc[:, 0].tolist(), index=table.index)
    return table
