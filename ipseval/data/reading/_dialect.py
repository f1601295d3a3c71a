"""Dialect of a text file: its separator, its header, and whether quotation marks enclose fields."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ipseval.data.reading.column_names import ALL_USUAL_NAMES, normalize_name
from ipseval.utils.types import AnyArray, IntArray

SEPARATORS = ("\t", "::", ",", ";", "|")
BLANKS = r"\s+"
N_LINES = 500  # of the first 64 kB, from which separator and header are found
NEWLINE = 10
BLOCK = 2**18  # bytes that fit into the processor cache while they are compared
QUOTE = 34
# Numbers with a decimal point or comma, times in ISO 8601, and empty cells.
_NUMBER = re.compile(
    r"\s*([-+]?(\d+[.,]?\d*([eE][-+]?\d+)?|[.,]\d+|nan|NaN)|\d{4}-\d\d-\d\d[\dT:. +Z-]*)?\s*$"
)


def find_separator(lines: Sequence[str]) -> str:
    """Return the separator that gives most lines the same number of fields, more than one; else blanks."""
    # Titles and times contain blanks too, so that blanks separate fields only if no other separator fits. One
    # that most lines lack does not fit: their most common number of fields is one.
    best_separator = BLANKS
    best_score = (0, 0)
    for separator in SEPARATORS:
        if not any(separator in line for line in lines):
            continue  # every line is a single field
        sizes = Counter(len(split_fields(line, separator)) for line in lines)
        n_fields, n_lines = sizes.most_common(1)[0]
        if n_fields > 1 and (n_lines, n_fields) > best_score:
            best_separator = separator
            best_score = (n_lines, n_fields)
    return best_separator


def split_fields(line: str, separator: str) -> list[str]:
    """Return the fields of a line, without the quotation marks that enclose a field."""
    if separator == BLANKS:
        line = " ".join(line.split())
        separator = " "
    if '"' in line and len(separator) == 1:
        try:
            return next(csv.reader([line], delimiter=separator, strict=True))
        except csv.Error:
            pass
    return line.split(separator)


def has_header(rows: Sequence[Sequence[str]]) -> bool | None:
    """Return whether the first row names the columns; None if this cannot be determined."""
    first_row = rows[0]
    if any(_is_filled_number(cell) for cell in first_row):
        return False
    complete_rows = []
    for row in rows[1:]:
        if len(row) == len(first_row):
            complete_rows.append(row)

    columns_below = list(zip(*complete_rows, strict=True))
    usual_names = {normalize_name(cell) for cell in first_row} & ALL_USUAL_NAMES
    recurs = any(cell in column for cell, column in zip(first_row, columns_below, strict=False))
    if usual_names and (len(usual_names) > 1 or not recurs):
        return True
    if any(_holds_numbers(column) for column in columns_below):
        return True
    if recurs and not usual_names:
        return False
    return None


def _is_filled_number(cell: str) -> bool:
    """Return whether a cell is a number or a time, and not empty."""
    return bool(cell.strip()) and _NUMBER.match(cell) is not None


def _holds_numbers(cells: Sequence[str]) -> bool:
    """Return whether all cells are numbers, times or empty."""
    return all(_NUMBER.match(cell) for cell in cells)


Quoting = Literal["none", "records", "lines"]


def find_quoting(content: bytes, separator: int) -> Quoting:
    """Return whether quotation marks enclose no fields, fields of records, or fields of single lines."""
    # In "records" every mark opens or closes a field, which may span lines. In "lines" each line is well
    # formed by itself, and a mark inside of an unquoted field, such as 5" disk, belongs to the text.
    data = np.frombuffer(content, dtype=np.uint8)
    quotes = np.flatnonzero(data == QUOTE)
    if not quotes.size:
        return "none"
    if quotes.size % 2 == 0 and _enclose_fields(data, quotes, separator):
        return "records"
    well_formed_line = _compile_well_formed_line(separator)
    for line in content.split(b"\n"):
        if b'"' in line and not well_formed_line.fullmatch(line):
            return "none"
    return "lines"


def _compile_well_formed_line(separator: int) -> re.Pattern[bytes]:
    """Return the pattern of a line with fields that are quoted completely or do not begin with a quote."""
    mark = re.escape(bytes([separator]))
    quoted_field = rb'"(?:[^"]|"")*"'
    unquoted_field = rb'[^"' + mark + rb"][^" + mark + rb"]*"
    field = rb"(?:" + quoted_field + rb"|" + unquoted_field + rb"|)"
    return re.compile(field + rb"(?:" + mark + field + rb")*")


def _enclose_fields(data: AnyArray, quotes: IntArray, separator: int) -> bool:
    """Return whether quotes open and close fields in turn; two adjacent quotes are one inside of a field."""
    edges = (separator, NEWLINE, QUOTE)
    opening = quotes[0::2]
    closing = quotes[1::2]
    # A text ends with a newline, which data[-1] also puts before its first letter.
    letter_before = data[opening - 1]
    letter_after = data[closing + 1]
    return bool(np.isin(letter_before, edges).all() and np.isin(letter_after, edges).all())


def is_regular(content: bytes, separator: int, n_fields: int) -> bool:
    """Return whether every line of a text that ends with a newline has `n_fields` fields, and no quotes."""
    # Deleting all other letters leaves the separators and newlines, whose order is compared as a whole.
    marks = (separator, NEWLINE, QUOTE)
    other_letters = bytes(letter for letter in range(256) if letter not in marks)
    marks_of_content = content.translate(None, other_letters)
    marks_of_line = bytes([separator]) * (n_fields - 1) + b"\n"
    return marks_of_content == marks_of_line * (len(marks_of_content) // n_fields)


def count_fields(content: bytes, separator: int, quoting: Quoting) -> IntArray:
    """Return the number of fields of each record of a text that ends with a newline, (n_records,)."""
    data = np.frombuffer(content, dtype=np.uint8)
    if quoting == "records":
        positions = np.flatnonzero((data == separator) | (data == NEWLINE))
        quotes = np.flatnonzero(data == QUOTE)
        is_outside_quotes = np.searchsorted(quotes, positions) % 2 == 0
        marks = data[positions[is_outside_quotes]]
    else:
        blocks = (data[start : start + BLOCK] for start in range(0, data.size, BLOCK))
        marks = np.concatenate([_select_marks(block, separator) for block in blocks])
    ends = np.flatnonzero(marks == NEWLINE)
    n_fields = np.diff(ends, prepend=-1)
    if quoting == "lines":
        for row, line in enumerate(content.split(b"\n")):
            if b'"' in line:
                n_fields[row] = len(split_fields(line.decode(), chr(separator)))
    return n_fields


def _select_marks(data: AnyArray, separator: int) -> AnyArray:
    """Return the separators and newlines of a block of text in their order."""
    return np.asarray(data[(data == separator) | (data == NEWLINE)])
