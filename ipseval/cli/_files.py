"""Files as they are named on the command line: FILE, FILE:option=value,…, or - for standard input."""

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
    from ipseval.data.splits import Split

_OWN = re.compile(r"(?P<path>.+?):(?P<options>\w+=[^,=]*(?:,\w+=[^,=]*)*)")


@dataclass(frozen=True)
class FileEntry:
    """A file with what is said of it alone."""

    path: str
    options: dict[str, str]

    def typed(self) -> dict[str, Any]:
        """Return the options with numbers and truth values for those that take them."""
        found: dict[str, Any] = dict(self.options)
        for name in set(found) & {"threshold"}:
            if found[name] == "all":
                continue
            try:
                found[name] = float(found[name])
            except ValueError:
                raise InputError(
                    f"{self.path}: threshold must be a number or 'all'; got {found[name]!r}."
                ) from None
        if "header" in found:
            words = {"true": True, "false": False}
            if found["header"] not in words:
                raise InputError(f"{self.path}: header takes true or false; got {found['header']!r}.")
            found["header"] = words[found["header"]]
        return found

    @contextmanager
    def file(self) -> Iterator[str]:
        """Yield the path of the file; standard input becomes a file of the kind that it is."""
        if self.path != "-":
            yield self.path
            return
        with tempfile.TemporaryDirectory() as folder:
            stream = sys.stdin.buffer
            start = stream.read(4)
            in_json = start.startswith((b"{", b"[{", b"[\n"))
            suffix = ".parquet" if start == b"PAR1" else ".json" if in_json else ".csv"
            path = Path(folder) / f"standard-input{suffix}"
            with path.open("wb") as copy:
                copy.write(start)
                shutil.copyfileobj(stream, copy)
            yield str(path)


def parse_file_entry(entry: str, names: Sequence[str] | None) -> FileEntry:
    """Return the file of FILE[:option=value,…]; an option that is not among `names` is an error."""
    found = _OWN.fullmatch(entry)
    if found is None or Path(entry).exists():
        return FileEntry(entry, {})
    own = dict(part.split("=") for part in found["options"].split(","))
    for name in own:
        if names is not None and name not in names:
            raise UnknownNameError(f"option of {found['path']}", name, names)
    return FileEntry(found["path"], own)


def load_table(entry: str, columns: Mapping[str, str | None] | None = None, more: Sequence[str] = ()) -> Any:
    """Return the table of FILE[:user=uid,…], its columns named by what they are."""
    # `columns` says what they are called in all files that have them; `more` are options beside columns.
    from ipseval.utils.artefacts import read_table

    spec = parse_file_entry(entry, ("user", "item", "value", "rank", "score", "propensity", *more))
    own = {name: role for role, name in spec.options.items() if role != "threshold"}
    known = {name: role for role, name in (columns or {}).items() if name and role not in spec.options}
    with spec.file() as path:
        return read_table(path, known | own)


def load_column(entry: str, role: str, options: argparse.Namespace) -> Any:
    """Return one column of a file as an array."""
    table = load_table(entry, {role: getattr(options, role)})
    if role not in table.columns:
        raise InputError(f"{entry} has no column {role!r}; it has {', '.join(map(str, table.columns))}.")
    return table[role].to_numpy()


def load_item_vectors(options: argparse.Namespace, split: Split) -> Any:
    """Return the vectors of --item-vectors, those of a table by the ids of its items; None without it."""
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
    if table.shape[1] == 1 and table.dtypes.iloc[0].kind == "O":  # arrays
        return pd.DataFrame(table.iloc[:, 0].tolist(), index=table.index)
    return table
