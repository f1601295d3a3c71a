"""The formats of files that are read: names for messages, help and documentation, and first bytes."""

from __future__ import annotations

# Binary format -> its first bytes. `ipseval/data/reading/_file_source.py` opens it.
BINARY_FORMATS = {"Parquet": b"PAR1"}


def _list_formats(text: str) -> str:
    """Return the names of all formats as alternatives, with the given words for text."""
    names = [text, "JSON", *BINARY_FORMATS]
    return f"{', '.join(names[:-1])} or {names[-1]}"


READ_FORMATS = _list_formats("text")
READ_FORMATS_WITH_EXAMPLES = _list_formats("text (CSV, TSV, u.data)")
