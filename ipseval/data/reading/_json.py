"""JSON: records, columns, lists of users; one object or list a line; and lines of Python dictionaries."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ipseval.data.reading._content import decode_to_utf8, read_bytes
from ipseval.errors import InputError
from ipseval.utils.artefacts import reading
from ipseval.utils.checks import examples, kind_of

PYTHON_STARTS = ("{'", "{u'", '{u"')


def is_json(start: str) -> bool:
    """Return whether a text begins as JSON, or as a Python dictionary, does."""
    text = start.lstrip()
    if text.startswith("{"):
        return True
    if not text.startswith("["):
        return False
    first_line = text.split("\n", 1)[0].rstrip()
    try:
        json.loads(first_line, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        # After a list that ends within its line there is more, as in a text whose first column holds lists.
        return error.msg != "Extra data"
    except (RecursionError, ValueError):
        return True
    return True


def read_json(path: Path, encoding: str) -> Any:
    """Return what a file of JSON holds; several values, one a line, as a list."""
    # The parsers of pandas and pyarrow keep the last of names that repeat, and round large numbers beside
    # missing ones; that of Python does neither.
    with reading(path, "Correct it, or give its encoding by encoding=."):
        text = decode_to_utf8(read_bytes(path), encoding).decode("utf-8")
        first_line = text.lstrip().split("\n", 1)[0]
        if first_line.startswith(PYTHON_STARTS):
            return _read_lines(path, text.split("\n"), ast.literal_eval, "Python literals")
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data" and not _is_value(first_line):
                raise
        return _read_lines(path, text.split("\n"), _parse_line, "JSON")


def check_records(path: Path, records: list[Any], n_columns: int | None) -> None:
    """Raise `InputError` unless all entries are objects, or lists of one length."""
    if n_columns is None:
        odd = [row for row, record in enumerate(records) if not isinstance(record, dict)]
    else:
        odd = [
            row
            for row, record in enumerate(records)
            if not isinstance(record, list) or len(record) != n_columns
        ]
    if odd:
        raise InputError(
            f"{path}: {len(odd):,} of {len(records):,} entries are no records (first: entry {odd[0] + 1}, "
            f"{kind_of(records[odd[0]])}): objects, or as many values as there are columns."
        )


def _is_value(line: str) -> bool:
    """Return whether a line is a whole value of JSON by itself."""
    try:
        _parse_line(line)
    except ValueError:
        return False
    return True


def _parse_line(line: str) -> Any:
    return json.loads(line, object_pairs_hook=_unique)


def _read_lines(path: Path, lines: Iterable[str], parse: Callable[[str], Any], words: str) -> list[Any]:
    """Return what stands in the lines of a file, each of which is a value."""
    records = []
    faults: dict[int, Exception] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(parse(line.strip()))
        except (ValueError, SyntaxError) as error:
            faults[number] = error
    if faults:
        number, reason = next(iter(faults.items()))
        n_lines = len(records) + len(faults)
        raise InputError(
            f"{path}: {len(faults):,} of {n_lines:,} lines are no {words} (first: line {number}: "
            f"{reason!s:.120})."
        )
    return records


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; of names that repeat, only the last would stay."""
    record = dict(pairs)
    if len(record) < len(pairs):
        repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise ValueError(f"an object repeats {examples(repeated)}")
    return record
