"""Files and folders as sources; the content of a file decides its format, not its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ipseval.data.reading._content import decode_start, find_binary_format, read_start, refuse_foreign
from ipseval.data.reading._json import is_json
from ipseval.data.reading._json_source import open_json
from ipseval.data.reading._parquet_source import open_folder, open_parquet
from ipseval.data.reading._source import ReadOptions, Source
from ipseval.data.reading._text import ENCODING_ADVICE
from ipseval.data.reading._text_source import open_text
from ipseval.errors import InputError
from ipseval.utils.artefacts import ARRAYS, reading

# Binary format of `BINARY_FORMATS` -> the function that opens it.
BINARY_SOURCES: dict[str, Callable[[Path], Source]] = {"Parquet": open_parquet}
TEXT_LAYOUTS = ("pairs", "adjacency", "trec")  # layouts that JSON cannot have


def open_file(location: str | os.PathLike[str], options: ReadOptions) -> Source:
    """Return a file, or a folder of Parquet files, as a source."""
    path = Path(location)
    path_type = _find_path_type(path)
    if path_type == "folder":
        return open_folder(path)
    if path_type == "nothing":
        _raise_missing_file(os.fspath(location))

    file_format = _find_format(path, options)
    if file_format == "JSON":
        return open_json(path, options)
    if file_format == "text":
        return open_text(path, options)
    return BINARY_SOURCES[file_format](path)


def _find_path_type(path: Path) -> Literal["file", "folder", "nothing"]:
    """Return whether a path is a file, a folder or neither."""
    try:
        if path.is_dir():
            return "folder"
        if path.is_file():
            return "file"
    except (OSError, ValueError):  # the name is too long, or contains a zero
        pass
    return "nothing"


def _raise_missing_file(path: str) -> None:
    """Raise `InputError` for a path that is neither a file nor a folder."""
    if "://" in path:
        scheme = path.partition("://")[0]  # the rest of a URL may contain a password
        raise InputError(
            f"source must be a local path or a data frame; got a URL ({scheme:.20}://…). "
            "Load it with pandas first."
        )
    raise InputError(f"{path:.200} does not exist.")


def _find_format(path: Path, options: ReadOptions) -> str:
    """Return the format of a file by its content: "text", "JSON" or the name of a binary format.

    Raise `InputError` for formats that are not read.
    """
    with reading(path, ENCODING_ADVICE):
        start = read_start(path)
        binary_format = find_binary_format(path, start)
        if binary_format is not None:
            return binary_format
        if path.suffix.lower() in ARRAYS:
            raise InputError(
                f"{path} holds arrays or a stored result. Give the log: a table with a row per interaction."
            )
        refuse_foreign(path, start, options.encoding)
        text = decode_start(start, options.encoding)
    if options.layout not in TEXT_LAYOUTS and is_json(text):
        return "JSON"
    return "text"
