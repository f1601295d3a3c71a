"""Files as they are named on the command line: FILE, FILE:option=value,…, or - for standard input."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipseval.errors import InputError, UnknownNameError

_OWN = re.compile(r"(?P<path>.+?):(?P<options>\w+=[^,=]*(?:,\w+=[^,=]*)*)")


@dataclass(frozen=True)
class Spec:
    """A file with what is said of it alone.

    Attributes
    ----------
    path : str
        "-" is standard input.
    options : dict
        Such as {"user": "uid", "seen": "drop"}.
    """

    path: str
    options: dict[str, str]

    def typed(self) -> dict[str, Any]:
        """Return the options with numbers and truth values for those that take them."""
        found: dict[str, Any] = dict(self.options)
        for name in set(found) & {"threshold"}:
            try:
                found[name] = float(found[name])
            except ValueError:
                raise InputError(f"{self.path}: threshold takes a number; got {found[name]!r}.") from None
        if "header" in found:
            if found["header"] not in ("true", "false"):
                raise InputError(f"{self.path}: header takes true or false; got {found['header']!r}.")
            found["header"] = found["header"] == "true"
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
            suffix = ".parquet" if start == b"PAR1" else ".csv"
            path = Path(folder) / f"standard-input{suffix}"
            with path.open("wb") as copy:
                copy.write(start)
                shutil.copyfileobj(stream, copy)
            yield str(path)


def spec_of(entry: str, names: Sequence[str] | None) -> Spec:
    """Return the file of FILE[:option=value,…]; an option that is not among `names` is an error."""
    found = _OWN.fullmatch(entry)
    if found is None or Path(entry).exists():
        return Spec(entry, {})
    own = dict(part.split("=") for part in found["options"].split(","))
    for name in own:
        if names is not None and name not in names:
            raise UnknownNameError(f"option of {found['path']}", name, names)
    return Spec(found["path"], own)


def table_of(entry: str, columns: Mapping[str, str | None] | None = None, more: Sequence[str] = ()) -> Any:
    """Return the table of FILE[:user=uid,…], its columns named by what they are.

    `columns` says what they are called in all files that have them; `more` are options beside columns.
    """
    from ipseval._base.array_files import read_table

    spec = spec_of(entry, ("user", "item", "value", "rank", "score", "propensity", *more))
    own = {name: role for role, name in spec.options.items() if role != "threshold"}
    known = {name: role for role, name in (columns or {}).items() if name and role not in spec.options}
    with spec.file() as path:
        return read_table(path, known | own)
