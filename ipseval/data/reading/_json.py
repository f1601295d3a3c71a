"""Files of JSON: records, columns or lists of users, JSON lines, and lines of Python dictionaries."""

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
from ipseval.utils.checks import describe_type, format_examples

PYTHON_STARTS = ("{'", "{u'", '{u"')


def is_json(start: str) -> bool:
    """Return whether a text begins like JSON or a Python dictionary."""
    text = start.lstrip()
    if text.startswith("{"):
        return True
    if not text.startswith("["):
        return False
    first_line = text.split("\n", 1)[0].rstrip()
    try:
        json.loads(first_line, object_pairs_hook=_build_unique_object)
    except json.JSONDecodeError as error:
        # Text after the first list means a text file whose first column holds lists.
        return error.msg != "Extra data"
    except (RecursionError, ValueError):
        return True
    return True


def read_json(path: Path, encoding: str) -> Any:
    """Return the value in a file of JSON; several values, one per line, as a list."""
    # The parsers of pandas and pyarrow keep only the last of repeated names, and round large numbers if other
    # values are missing. The parser of Python does neither.
    with reading(path, "Correct it, or give its encoding by encoding=."):
        text = decode_to_utf8(read_bytes(path), encoding).decode("utf-8")
        first_line = text.lstrip().split("\n", 1)[0]
        if first_line.startswith(PYTHON_STARTS):
            return _parse_json_lines(path, text.split("\n"), ast.literal_eval, "Python literals")
        try:
            return json.loads(text, object_pairs_hook=_build_unique_object)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data" and not _is_value(first_line):
                raise
        return _parse_json_lines(path, text.split("\n"), _parse_line, "JSON")


def check_records(path: Path, records: list[object], columns: list[str] | None) -> None:
    """Raise `InputError` unless all entries are objects, or lists with a value for each of the columns."""
    invalid_rows = [row for row, record in enumerate(records) if not _is_record(record, columns)]
    if invalid_rows:
        row = invalid_rows[0]
        raise InputError(
            f"{path}: {len(invalid_rows):,} of {len(records):,} entries are not records (first: entry "
            f"{row + 1}, {describe_type(records[row])}): objects, or as many values as there are columns."
        )


def _is_record(record: object, columns: list[str] | None) -> bool:
    """Return whether an entry is an object or, for known columns, a list with a value for each column."""
    if columns is None:
        return isinstance(record, dict)
    return isinstance(record, list) and len(record) == len(columns)


def _is_value(line: str) -> bool:
    """Return whether a line is a complete JSON value."""
    try:
        _parse_line(line)
    except ValueError:
        return False
    return True


def _parse_line(line: str) -> Any:
    """Return the JSON value of a line; raise `ValueError` for repeated names."""
    return json.loads(line, object_pairs_hook=_build_unique_object)


def _parse_json_lines(
    path: Path, lines: Iterable[str], parse: Callable[[str], object], noun: str
) -> list[object]:
    """Return the values of the lines of a file; `noun` names them in the error."""
    records = []
    errors: dict[int, Exception] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(parse(line.strip()))
        except (ValueError, SyntaxError) as error:
            errors[number] = error
    if errors:
        number, first_error = next(iter(errors.items()))
        n_lines = len(records) + len(errors)
        raise InputError(
            f"{path}: {len(errors):,} of {n_lines:,} lines are not {noun} (first: line {number}: "
            f"{first_error!s:.120})."
        )
    return records


def _build_unique_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; raise `ValueError` for repeated names, of which a parser keeps only the last."""
    record = dict(pairs)
    if len(record) < len(pairs):
        n_values = Counter(name for name, _ in pairs)
        duplicate_names = []
        for name, count in n_values.items():
            if count > 1:
                duplicate_names.append(name)

        raise ValueError(f"an object repeats {format_examples(duplicate_names)}")
    return record
