"""Ranked positives in a parquet file: one row per positive with its ids, and other fields as metadata."""

from __future__ import annotations

import io
from os import PathLike
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.ranking._types import Untyped
from ipseval.utils.artefacts import check_is_file, check_members, open_atomically, reading
from ipseval.utils.codec import read as decode
from ipseval.utils.codec import write as encode
from ipseval.utils.types import AnyArray

COLUMNS = ("user", "item", "n_above", "n_tied", "n_candidates", "gain")
HEADER = b"ipseval.stored"
LARGEST_SIZE = int(np.iinfo(np.int32).max)  # of metadata, which pyarrow limits to less by default
ADVICE = "Rank again and write the ranks with `RankedPositives.to_parquet(path)`."

Table: TypeAlias = Untyped
ArrowArray: TypeAlias = Untyped
Fields: TypeAlias = dict[str, Any]  # fields of RankedPositives by name


def write(path: str | PathLike[str], fields: Fields) -> None:
    """Write the fields of RankedPositives as rows of user, item, n_above, n_tied, n_candidates[, gain]."""
    pyarrow, parquet = _import_pyarrow()
    columns = {}
    for name in COLUMNS:
        if fields[name] is not None:
            columns[name] = fields[name]

    for name in ("user", "item"):
        ids = _to_arrow(pyarrow, fields[f"{name}_ids"])
        columns[name] = ids.take(pyarrow.array(fields[name]))

    metadata = {}
    for name, value in fields.items():
        if name not in COLUMNS:
            metadata[name] = value

    header = io.BytesIO()
    encode(header, {"columns": list(columns), "n_rows": len(fields["user"]), "fields": metadata})
    table = pyarrow.table(columns).replace_schema_metadata({HEADER: header.getvalue()})
    with open_atomically(path) as stream:
        parquet.write_table(table, stream, compression="zstd", write_page_checksum=True)


def read(path: str | PathLike[str]) -> Fields:
    """Return the fields of a file that `write` has written, with the same values and types."""
    _, parquet = _import_pyarrow()
    check_is_file(path)
    limits = dict.fromkeys(("thrift_string_size_limit", "thrift_container_size_limit"), LARGEST_SIZE)
    with reading(path, ADVICE), parquet.ParquetFile(path, **limits, page_checksum_verification=True) as file:
        size = file.metadata
        check_members(path, [8 * size.num_rows * size.num_columns])
        return _read_fields(path, file.read())


def _read_fields(path: str | PathLike[str], table: Table) -> Fields:
    """Return the fields of a table, or raise `InputError` if it is not a table of `write`."""
    metadata = table.schema.metadata or {}
    if HEADER not in metadata:
        raise InputError(f"{path} was not written by RankedPositives.to_parquet. {ADVICE}")
    header: Fields = decode(path, ADVICE, metadata[HEADER])[0]
    if header["columns"] != table.column_names or header["n_rows"] != table.num_rows:
        raise InputError(f"{path} has other rows or columns than were written. {ADVICE}")

    fields: Fields = dict.fromkeys(COLUMNS)
    for name in COLUMNS:
        if name in table.column_names:
            fields[name] = table[name].to_numpy()
    for name in ("user", "item"):
        ids = pd.Index(header["fields"][f"{name}_ids"])
        codes = ids.get_indexer(pd.Index(fields[name]))
        n_unknown = int((codes < 0).sum())
        if n_unknown:
            raise InputError(f"{path} holds {n_unknown:,} rows whose {name} id is unknown.")
        fields[name] = codes.astype(np.int64)
    return {**fields, **header["fields"]}


def _to_arrow(pyarrow: ModuleType, ids: AnyArray) -> ArrowArray:
    """Return ids as a pyarrow array."""
    try:
        return pyarrow.array(ids)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as error:
        raise InputError(f"these ids cannot be stored in parquet ({error}); use numbers or text.") from None


def _import_pyarrow() -> tuple[ModuleType, ModuleType]:
    """Return the modules `pyarrow` and `pyarrow.parquet`."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise InputError("parquet files need pyarrow. Install it by pip install pyarrow.") from None
    return pyarrow, parquet
