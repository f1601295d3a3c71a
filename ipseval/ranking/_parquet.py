"""Ranked positives in a parquet file: one row per positive with its ids, the universe of ids beside it."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from ipseval._artefacts import check_members, reading, writing
from ipseval._counts import Count
from ipseval._types import AnyArray
from ipseval.errors import InputError
from ipseval.ranking._sampling import PER_DRAW, PER_POSITIVE, Sampling

FORMAT = 1
ARRAYS = ("user_ids", "item_ids", "cluster_ids", "candidates_by_user", "list_length", "left_out", "cluster")
SAMPLING_OPTIONS = ("n_sampled", "replacement", "uniform", "pool")
COUNTS = ("n_above", "n_tied", "n_candidates")


def write(path: str | PathLike[str], fields: dict[str, Any]) -> None:
    """Write the fields of RankedPositives as rows of user, item, n_above, n_tied, n_candidates[, gain]."""
    pyarrow, parquet = _pyarrow()
    try:
        ids = {name: pyarrow.array(fields[f"{name}_ids"]) for name in ("user", "item")}
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as error:
        raise InputError(f"these ids cannot be stored in parquet ({error}); use numbers or text.") from None
    columns = {name: ids[name].take(pyarrow.array(fields[name])) for name in ("user", "item")}
    columns |= {name: pyarrow.array(fields[name]) for name in COUNTS}
    if fields["gain"] is not None:
        columns["gain"] = pyarrow.array(fields["gain"])
    sampling: Sampling | None = fields["sampling"]
    packed = {name: fields[name] for name in ARRAYS}
    if sampling is not None:
        packed |= {f"sampling_{name}": getattr(sampling, name) for name in PER_DRAW}
        columns |= {
            f"sampling_{name}": pyarrow.array(getattr(sampling, name))
            for name in PER_POSITIVE
            if getattr(sampling, name) is not None
        }
    about = {
        "format": FORMAT,
        "max_rank": fields["max_rank"],
        "candidates": fields["candidates"],
        "n_not_candidates": fields["n_not_candidates"],
        "counted": [asdict(one) for one in fields["counted"]],
        "sampling": sampling and {name: getattr(sampling, name) for name in SAMPLING_OPTIONS},
        "dtypes": {name: array.dtype.str for name, array in packed.items() if array is not None},
    }
    metadata = {b"ipseval": json.dumps(about).encode()}
    for name in about["dtypes"]:
        known = ids.get(name.removesuffix("_ids"))
        values = pyarrow.array(packed[name].ravel()) if known is None else known
        metadata[f"ipseval.{name}".encode()] = _packed(pyarrow, values)
    table = pyarrow.table(columns).replace_schema_metadata(metadata)
    with writing(path) as stream:
        parquet.write_table(table, stream, compression="zstd", write_page_checksum=True)


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the fields that `write` has written, with the same values and types."""
    pyarrow, parquet = _pyarrow()
    limits = {"thrift_string_size_limit": 2**31 - 1, "thrift_container_size_limit": 2**31 - 1}
    with reading(path), parquet.ParquetFile(path, **limits, page_checksum_verification=True) as file:
        size = file.metadata
        check_members(path, [8 * size.num_rows * size.num_columns])
        return _fields(pyarrow, path, file.read())


def _fields(pyarrow: ModuleType, path: str | PathLike[str], table: Any) -> dict[str, Any]:
    metadata = table.schema.metadata or {}
    if b"ipseval" not in metadata:
        raise InputError(
            f"{path} was not written by RankedPositives.to_parquet: it lacks the universe of ids."
        )
    about = json.loads(metadata[b"ipseval"])
    if about["format"] > FORMAT:
        raise InputError(
            f"{path} has format {about['format']}, this version reads up to {FORMAT}; update ipseval."
        )
    fields: dict[str, Any] = {name: _unpacked(pyarrow, metadata, name, about["dtypes"]) for name in ARRAYS}
    for name in ("user", "item"):
        values = pd.Index(table[name].to_numpy())
        fields[name] = pd.Index(fields[f"{name}_ids"]).get_indexer(values).astype(np.int64)
        if (fields[name] < 0).any():
            raise InputError(
                f"{path} holds {int((fields[name] < 0).sum()):,} rows whose {name} id is unknown."
            )
    fields |= {name: table[name].to_numpy() for name in COUNTS}
    fields["gain"] = _column(table, "gain")
    arrays = {name: _column(table, f"sampling_{name}") for name in PER_POSITIVE}
    if about["sampling"]:
        arrays |= {n: _unpacked(pyarrow, metadata, f"sampling_{n}", about["dtypes"]) for n in PER_DRAW}
        fields["sampling"] = Sampling(**about["sampling"], **arrays)
    fields["counted"] = tuple(Count(**one) for one in about.get("counted", ()))
    return fields | {name: about[name] for name in ("max_rank", "candidates", "n_not_candidates")}


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise InputError("parquet files need pyarrow; pip install 'ipseval[parquet]'.") from None
    return pyarrow, parquet


def _column(table: Any, name: str) -> Any:
    return table[name].to_numpy() if name in table.column_names else None


def _packed(pyarrow: Any, values: Any) -> bytes:
    """Return one column as a compressed Arrow stream."""
    table = pyarrow.table({"values": values})
    sink = pyarrow.BufferOutputStream()
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(
    pyarrow: Any, metadata: dict[bytes, bytes], name: str, dtypes: dict[str, str]
) -> AnyArray | None:
    if name not in dtypes:
        return None
    with pyarrow.ipc.open_stream(metadata[f"ipseval.{name}".encode()]) as reader:
        column = reader.read_all()["values"]
    if dtypes[name] == "|O":  # Python objects, as they were: text, or Python's own numbers
        values = np.empty(len(column), dtype=object)
        values[:] = column.to_pylist()
        return values
    unpacked: AnyArray = column.to_numpy().astype(dtypes[name], copy=False)
    return unpacked
