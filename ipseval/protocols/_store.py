"""Store: ranks on disk, one Parquet file each, whole or not there at all."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking import RankedPositives, Sampling
from ipseval.ranking._sampling import PER_POSITIVE as SAMPLED_PER_POSITIVE
from ipseval.splits import Split

FORMAT = "1"
_META = b"ipseval"
_PER_POSITIVE = ("user", "item", "n_above", "n_tied", "n_candidates", "gain")
_FROM_SPLIT = ("user_ids", "item_ids")
_SAMPLING = "sampling_"
_ALL_BUT_TRAINING = "all but training items"


@dataclass(frozen=True)
class Store:
    """A folder of ranks, keyed by content.

    A file is written under another name, flushed to the disk and then renamed, which POSIX does at once: a
    process that is killed leaves the file whole, or not there.
    """

    folder: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Store:
        """Return the store in `path`, which is made if needed; leftovers of killed processes are removed."""
        folder = Path(path) / "ranks"
        folder.mkdir(parents=True, exist_ok=True)
        store = cls(folder)
        for leftover in folder.glob("*.tmp"):
            _, host, process, _ = leftover.name.rsplit(".", 3)
            if host == _host() and not _is_running(int(process)):
                leftover.unlink(missing_ok=True)
        return store

    def file(self, key: str) -> Path:
        """Return where the ranks of `key` are, or would be."""
        return self.folder / f"{key}.parquet"

    def has(self, key: str) -> bool:
        """Return whether the ranks of `key` are there."""
        return self.file(key).exists()

    def write(self, key: str, ranked: RankedPositives, split: Split, about: dict[str, Any]) -> None:
        """Store ranks of a split; `about` says in words what they are."""
        pa, pq = _arrow()
        columns, scalars = _columns(ranked, split)
        meta = {"format": FORMAT, "about": about, "scalars": scalars}
        table = pa.table(columns).replace_schema_metadata({_META: json.dumps(meta).encode()})
        target = self.file(key)
        temporary = target.with_name(f"{key}.{_host()}.{os.getpid()}.tmp")
        with temporary.open("wb") as stream:
            pq.write_table(table, stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)

    def read(self, key: str, split: Split) -> RankedPositives:
        """Return stored ranks over the ids of `split`.

        Raises
        ------
        InputError
            When the file cannot be read, or ranks other positives than those of the split.
        """
        _, pq = _arrow()
        table = self._readable(key, pq.read_table)
        scalars = self._meta(key, table.schema)["scalars"]
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        self._check_positives(key, columns, scalars, split)
        if scalars["candidates_by_user"] == _ALL_BUT_TRAINING:
            scalars["candidates_by_user"] = split.n_items - split.train.activity
        if scalars.get("sampling") is not None:
            drawn = {name: columns.pop(_SAMPLING + name, None) for name in SAMPLED_PER_POSITIVE}
            scalars["sampling"] = Sampling(**scalars["sampling"] | drawn)
        return RankedPositives(**columns, user_ids=split.user_ids, item_ids=split.item_ids, **scalars)

    def about(self, key: str) -> dict[str, Any]:
        """Return what was said of stored ranks when they were written.

        Raises
        ------
        InputError
            When the file cannot be read.
        """
        _, pq = _arrow()
        found: dict[str, Any] = self._meta(key, self._readable(key, pq.read_schema))["about"]
        return found

    def _readable(self, key: str, reader: Callable[[Path], Any]) -> Any:
        pa, _ = _arrow()
        try:
            return reader(self.file(key))
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(key, error) from error

    def _meta(self, key: str, schema: Any) -> dict[str, Any]:
        try:
            meta: dict[str, Any] = json.loads(schema.metadata[_META])
        except (KeyError, TypeError, ValueError) as error:
            raise self._unreadable(key, error) from error
        return meta

    def _unreadable(self, key: str, error: Exception) -> InputError:
        return InputError(f"{self.file(key)} cannot be read ({error}); delete it and run the study again.")

    def _check_positives(
        self, key: str, columns: dict[str, Any], scalars: dict[str, Any], split: Split
    ) -> None:
        pair_key = columns["user"] * np.int64(split.n_items) + columns["item"]
        n_ranked = len(split.test) - scalars.get("n_not_candidates", 0)
        if pair_key.size != n_ranked or not np.isin(pair_key, split.test.pair_key).all():
            raise InputError(
                f"{self.file(key)} ranks other positives than this split holds: it was made by another "
                "version. Delete it, or give the study another folder."
            )


def _columns(ranked: RankedPositives, split: Split) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays per positive and the plain values of ranks."""
    columns, scalars = {}, {}
    for field in fields(ranked):
        value = getattr(ranked, field.name)
        if field.name in _PER_POSITIVE:
            if value is not None:
                columns[field.name] = value
        elif field.name == "candidates_by_user" and value is not None:
            usual = np.array_equal(value, split.n_items - split.train.activity)
            scalars[field.name] = _ALL_BUT_TRAINING if usual else value.tolist()
        elif isinstance(value, Sampling):
            record = {one.name: getattr(value, one.name) for one in fields(value)}
            drawn = {name: record.pop(name) for name in SAMPLED_PER_POSITIVE}
            columns |= {_SAMPLING + name: array for name, array in drawn.items() if array is not None}
            scalars[field.name] = {name: _plain(one) for name, one in record.items()}
        elif field.name not in _FROM_SPLIT:
            scalars[field.name] = _plain(value)
    return columns, scalars


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            "a study keeps its ranks in Parquet files, which needs pyarrow: pip install 'ipseval[parquet]'."
        ) from None
    return pa, pq


def _host() -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in socket.gethostname()) or "host"


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole or not at all, and return its path."""
    temporary = path.with_name(f"{path.name}.{_host()}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    return path
