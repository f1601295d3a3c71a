"""Reading tables and arrays from files; nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval._base.artefacts import read_arrays, reading
from ipseval._base.types import AnyArray
from ipseval.errors import InputError

TABLES = (".csv", ".tsv", ".parquet")
ARRAYS = (".npy", ".npz")


def read_table(path: str | Path, columns: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return the table in a CSV, TSV or Parquet file; `columns` are renamed where it has them."""
    path = _existing(path)
    if path.suffix not in TABLES:
        raise InputError(f"{path}: expected a table ending in {', '.join(TABLES)}.")
    with reading(path):
        try:
            if path.suffix == ".parquet":
                frame = pd.read_parquet(path)
            else:
                frame = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
        except ImportError:
            raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.") from None
    wanted = {old: new for old, new in (columns or {}).items() if old in frame.columns and old != new}
    clash = [new for new in wanted.values() if new in frame.columns and new not in wanted]
    if clash:
        raise InputError(
            f"{path} has columns {', '.join(wanted)} and {', '.join(clash)}; remove one of them."
        )
    return frame.rename(columns=wanted)


def read_array(path: str | Path) -> AnyArray:
    """Return the array in a .npy file (memory-mapped, read-only) or the only one in a .npz file."""
    path = _existing(path)
    if path.suffix == ".npz":
        arrays = read_arrays(path)
        if len(arrays) != 1:
            raise InputError(f"{path} holds {len(arrays)} arrays; expected one.")
        return next(iter(arrays.values()))
    with reading(path):
        array: AnyArray = np.lib.format.open_memmap(path, mode="r")
        return array


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist or is no file.")
    return path
