"""Reading tables, scores and propensities from files; nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval._types import AnyArray
from ipseval.errors import InputError

TABLES = (".csv", ".tsv", ".parquet")
ARRAYS = (".npy", ".npz")


def read_table(path: str | Path) -> pd.DataFrame:
    """Return the table in a CSV, TSV or Parquet file.

    Raises
    ------
    InputError
        For a missing file, another suffix, or content that cannot be parsed.
    """
    path = _existing(path)
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix in (".csv", ".tsv"):
            return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
    except ImportError:
        raise InputError(f"{path} is Parquet; install pyarrow (pip install 'ipseval[parquet]').") from None
    except (ValueError, OSError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    raise InputError(f"{path}: expected a table ending in {', '.join(TABLES)}.")


def read_array(path: str | Path) -> AnyArray:
    """Return the array in a .npy file (memory-mapped, read-only) or the only one in a .npz file.

    Raises
    ------
    InputError
        For a missing or damaged file, pickled content, or a .npz with several arrays.
    """
    path = _existing(path)
    try:
        loaded: Any = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        if len(loaded.files) != 1:
            raise InputError(f"{path} holds {len(loaded.files)} arrays; expected one.")
        try:
            array: AnyArray = loaded[loaded.files[0]]
        except ValueError as error:
            raise InputError(f"cannot read {path}: {error}") from None
    return array


def read_scores(path: str | Path) -> Any:
    """Return a score array (.npy, .npz) or a table of top-K lists (user, item, rank or score)."""
    path = Path(path)
    if path.suffix in ARRAYS:
        return read_array(path)
    frame = read_table(path)
    if not ({"user", "item"} <= set(frame.columns) and {"rank", "score"} & set(frame.columns)):
        raise InputError(
            f"{path}: top-K lists need columns user, item and rank or score; it has "
            f"{', '.join(map(str, frame.columns))}."
        )
    return frame


def _existing(path: str | Path) -> Path:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist or is no file.")
    return path
