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

import numpy as np

from ipseval._base.checks import counted, examples
from ipseval.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from ipseval.data.splits import Split

_OWN = re.compile(r"(?P<path>.+?):(?P<options>\w+=[^,=]*(?:,\w+=[^,=]*)*)")


@dataclass(frozen=True)
class Spec:
    """A file with what is said of it alone."""

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
            in_json = start.startswith((b"{", b"[{", b"[\n"))
            suffix = ".parquet" if start == b"PAR1" else ".json" if in_json else ".csv"
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
    """Return the table of FILE[:user=uid,…], its columns named by what they are."""
    # `columns` says what they are called in all files that have them; `more` are options beside columns.
    from ipseval._base.artefacts import read_table

    spec = spec_of(entry, ("user", "item", "value", "rank", "score", "propensity", *more))
    own = {name: role for role, name in spec.options.items() if role != "threshold"}
    known = {name: role for role, name in (columns or {}).items() if name and role not in spec.options}
    with spec.file() as path:
        return read_table(path, known | own)


def vectors_of(options: argparse.Namespace, split: Split, measures: list[str] | None) -> Any:
    """Return the vectors of --item-vectors in the order of the items; None without it."""
    from ipseval._base.artefacts import ARRAYS, read_array
    from ipseval.evaluation.beyond import measure

    entry = options.item_vectors
    needed = any(measure(one).name == "ild" for one in measures or ())
    if entry is None:
        if needed:
            raise InputError("ild@k reads vectors of the items; pass --item-vectors FILE.")
        return None
    if not needed:
        raise InputError("--item-vectors is read by ild@k alone; name it in --beyond.")
    if spec_of(entry, ("item",)).path.lower().endswith(ARRAYS):
        return _in_order(read_array(entry), split, entry)
    return _matched(table_of(entry, {"item": options.item}), split, entry, drop=options.unknown == "drop")


def _in_order(array: Any, split: Split, entry: str) -> Any:
    if array.ndim != 2 or array.shape[0] != split.n_items:
        raise InputError(
            f"{entry} must have a row for each of {split.n_items:,} items, in the order of the sorted ids or "
            f"of --items; got shape {array.shape}. A table with a column item is matched by ids."
        )
    return array


def _matched(table: Any, split: Split, entry: str, *, drop: bool) -> Any:
    from ipseval._base.ids import places, to_id_array

    if "item" not in table.columns:
        raise InputError(
            f"{entry} has no column 'item'; it has {', '.join(map(str, table.columns[:12]))}. Name it as in "
            f"{entry}:item=COLUMN."
        )
    what = f"column 'item' of {entry}"
    ids, numbers = to_id_array(table["item"].to_numpy(), what), _numbers(table.drop(columns="item"), entry)
    where = places(ids, split.item_ids, what)
    unknown = where < 0
    if unknown.any() and not drop:
        raise InputError(
            f"{entry} has vectors of {counted(int(unknown.sum()), 'item')} outside the catalogue "
            f"({examples(ids[unknown])}). Pass --unknown drop to leave them out."
        )
    vectors = np.full((split.n_items, numbers.shape[1]), np.nan)
    vectors[where[~unknown]] = numbers[~unknown]
    lacking = np.ones(split.n_items, dtype=bool)
    lacking[where[~unknown]] = False
    if lacking.any():
        raise InputError(
            f"{entry} has no vector for {int(lacking.sum()):,} of {split.n_items:,} items "
            f"({examples(split.item_ids[lacking])}); every item needs one."
        )
    return vectors


def _numbers(table: Any, entry: str) -> Any:
    """Return the coordinates: a column for each, or one column of arrays of one length."""
    if table.shape[1] == 1 and table.dtypes.iloc[0].kind == "O":
        rows = [np.asarray(one) for one in table.iloc[:, 0]]
        sizes = {one.shape for one in rows}
        if len(sizes) != 1 or len(next(iter(sizes))) != 1 or any(one.dtype.kind not in "iuf" for one in rows):
            raise InputError(f"{entry}: the vectors in column {table.columns[0]!r} must be of one length.")
        return np.stack(rows).astype(np.float64)
    words = [str(name) for name, kind in table.dtypes.items() if kind.kind not in "iufb"]
    if words or not table.shape[1]:
        found = f"columns {', '.join(words)} are not" if words else "there is none"
        raise InputError(f"{entry}: beside item, every column is a coordinate, a number; {found}.")
    return table.to_numpy(dtype=np.float64)
