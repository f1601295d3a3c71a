"""Ranked positives in a parquet file: one row per positive with its ids, and all else beside the rows."""

from __future__ import annotations

import io
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.utils.artefacts import check_is_file, check_members, reading, writing
from ipseval.utils.codec import read as decoded
from ipseval.utils.codec import write as encode

COLUMNS = ("user", "item", "n_above", "n_tied", "n_candidates", "gain")
HEADER = b"ipseval.stored"
ADVICE = "Rank again and write the ranks with `RankedPositives.to_parquet(path)`."


def write(path: str | PathLike[str], fields: dict[str, Any]) -> None:
    """Write the fields of RankedPositives as rows of user, item, n_above, n_tied, n_candidates[, gain]."""
    pyarrow, parquet = _pyarrow()
    columns = {name: fields[name] for name in COLUMNS if fields[name] is not None}
    for name in ("user", "item"):
        columns[name] = _ids(pyarrow, fields[f"{name}_ids"]).take(pyarrow.array(fields[name]))
    rest = {name: one for name, one in fields.items() if name not in COLUMNS}
    header = io.BytesIO()
    encode(header, {"columns": list(columns), "n_rows": len(fields["user"]), "fields": rest})
    table = pyarrow.table(columns).replace_schema_metadata({HEADER: header.getvalue()})
    with writing(path) as stream:
        parquet.write_table(table, stream, compression="zstd", write_page_checksum=True)


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the fields that `write` has written, with the same values and types."""
    _, parquet = _pyarrow()
    check_is_file(path)
    limits = {"thrift_string_size_limit": 2**31 - 1, "thrift_container_size_limit": 2**31 - 1}
    with reading(path, ADVICE), parquet.ParquetFile(path, **limits, page_checksum_verification=True) as file:
        size = file.metadata
        check_members(path, [8 * size.num_rows * size.num_columns])
        return _fields(path, file.read())


def _fields(path: str | PathLike[str], table: Any) -> dict[str, Any]:
    metadata = table.schema.metadata or {}
    if HEADER not in metadata:
        raise InputError(f"{path} was not written by RankedPositives.to_parquet. {ADVICE}")
    header: dict[str, Any] = decoded(path, ADVICE, metadata[HEADER])[0]
    if (header["columns"], header["n_rows"]) != (table.column_names, table.num_rows):
        raise InputError(f"{path} has other rows or columns than were written. {ADVICE}")
    held = set(table.column_names)
    fields: dict[str, Any] = {name: table[name].to_numpy() if name in held else None for name in COLUMNS}
    for name in ("user", "item"):
        codes = pd.Index(header["fields"][f"{name}_ids"]).get_indexer(pd.Index(fields[name]))
        if (codes < 0).any():
            raise InputError(f"{path} holds {int((codes < 0).sum()):,} rows whose {name} id is unknown.")
        fields[name] = codes.astype(np.int64)
    return {**fields, **header["fields"]}


def _ids(pyarrow: ModuleType, values: Any) -> Any:
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as error:
        raise InputError(f"these ids cannot be stored in parquet ({error}); use numbers or text.") from None


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise InputError("parquet files need pyarrow; pip install 'ipseval[parquet]'.") from None
    return pyarrow, parquet
