"""Writers of every file format that is read. The tests of all formats take them from here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ipseval.utils.file_formats import BINARY_FORMATS

Writer = Callable[[pd.DataFrame, Path], object]

TEXT_WRITERS: dict[str, Writer] = {
    "CSV": lambda frame, path: frame.to_csv(path, index=False),
    "TSV": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "JSON": lambda frame, path: frame.to_json(path, orient="records"),
    "JSON lines": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}
BINARY_WRITERS: dict[str, Writer] = {
    "Parquet": lambda frame, path: frame.to_parquet(path),
}
WRITERS = {**TEXT_WRITERS, **BINARY_WRITERS}


def check_writers() -> None:
    """Raise `AssertionError` unless every binary format has a writer."""
    missing_formats = set(BINARY_FORMATS) - set(BINARY_WRITERS)
    assert not missing_formats, f"add {missing_formats} to BINARY_WRITERS of tests/file_formats.py"
