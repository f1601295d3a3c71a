"""How a text file is written: its separator, its header, and whether quotation marks enclose fields."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ipseval.data.reading.column_names import USUAL, plain
from ipseval.utils.types import AnyArray, IntArray

SEPARATORS = ("\t", "::", ",", ";", "|")
BLANKS = r"\s+"
N_LINES = 500  # of the first 64 kB, from which separator and header are found
NAMES = frozenset(name for names in USUAL.values() for name in names)
NEWLINE = 10
BLOCK = 2**18  # bytes that stay in the cache while they are compared
QUOTE = 34
# Numbers, with a comma for the point as well, and times as ISO 8601 writes them; an empty cell is one.
_NUMBER = re.compile(
    r"\s*([-+]?(\d+[.,]?\d*([eE][-+]?\d+)?|[.,]\d+|nan|NaN)|\d{4}-\d\d-\d\d[\dT:. +Z-]*)?\s*$"
)


def find_separator(lines: Sequence[str]) -> str:
    """Return the separator that gives most lines the same number of fields, more than one."""
    best_separator = BLANKS
    best_score = (0, 0)
    for separator in SEPARATORS:
        sizes = Counter(len(split_fields(line, separator)) for line in lines)
        n_fields, n_lines = sizes.most_common(1)[0]
        if n_fields > 1 and (n_lines, n_fields) > best_score:
            best_separator = separator
            best_score = (n_lines, n_fields)
    # Blanks stand inside of titles and times as well, so that they count where nothing else fits.
    return best_separator if 2 * best_score[0] >= len(lines) else _blanks_or(best_separator, lines)


def _blanks_or(separator: str, lines: Sequence[str]) -> str:
    """Return blanks where every line has several words, and few lines have the separator."""
    has_separator = sum(len(split_fields(line, separator)) > 1 for line in lines)
    return separator if 2 * has_separator >= len(lines) else BLANKS


def split_fields(line: str, separator: str) -> list[str]:
    """Return the fields of one line; a field that is enclosed in quotation marks loses them."""
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
    """Return whether the first row names the columns; None where that cannot be told."""
    first = rows[0]
    if any(cell.strip() and _NUMBER.match(cell) for cell in first):
        return False
    width = len(first)
    below = list(zip(*(row for row in rows[1:] if len(row) == width), strict=True))
    usual = {plain(cell) for cell in first} & NAMES
    recurs = any(cell in column for cell, column in zip(first, below, strict=False))
    if usual and (len(usual) > 1 or not recurs):
        return True
    if any(all(_NUMBER.match(cell) for cell in column) for column in below):
        return True
    return False if recurs and not usual else None


Quoting = Literal["none", "records", "lines"]


def find_quoting(content: bytes, separator: int) -> Quoting:
    """Return what quotation marks enclose: no fields, those of records, or those of single lines."""
    # In "records" every mark opens or closes a field, which may span lines. In "lines" each line is well
    # formed by itself, and a mark inside of a field that none encloses, such as 5" disk, belongs to it.
    data = np.frombuffer(content, dtype=np.uint8)
    places = np.flatnonzero(data == QUOTE)
    if not places.size:
        return "none"
    if places.size % 2 == 0 and _are_at_ends(data, places, separator):
        return "records"
    between = re.escape(bytes([separator]))
    field = rb'(?:"(?:[^"]|"")*"|[^"' + between + rb"][^" + between + rb"]*|)"
    well_formed = re.compile(field + rb"(?:" + between + field + rb")*")
    lines = [line for line in content.split(b"\n") if b'"' in line]
    return "lines" if all(well_formed.fullmatch(line) for line in lines) else "none"


def _are_at_ends(data: AnyArray, places: IntArray, separator: int) -> bool:
    """Return whether marks open and close fields in turn; two that stand together are one inside."""
    edges = (separator, NEWLINE, QUOTE)
    opening = places[0::2]
    before = np.where(opening == 0, NEWLINE, data[opening - 1])
    after = data[places[1::2] + 1]  # a text ends with a newline
    return bool(np.isin(before, edges).all() and np.isin(after, edges).all())


def _keep_marks(data: AnyArray, separator: int) -> AnyArray:
    """Return the separators and newlines of a block of a text, in their order."""
    return np.asarray(data[(data == separator) | (data == NEWLINE)])


def is_regular(content: bytes, separator: int, n_fields: int) -> bool:
    """Return whether every line of a text that ends with a newline has this many fields, and no quotes."""
    # Deleting all other letters leaves the separators and newlines, whose order is compared as a whole.
    kept = (separator, NEWLINE, QUOTE)
    others = bytes(letter for letter in range(256) if letter not in kept)
    marks = content.translate(None, others)
    line = bytes([separator]) * (n_fields - 1) + b"\n"
    return marks == line * (len(marks) // n_fields)


def count_fields(content: bytes, separator: int, quoting: Quoting) -> IntArray:
    """Return the number of fields of each record of a text that ends with a newline, (n_records,)."""
    data = np.frombuffer(content, dtype=np.uint8)
    if quoting == "records":
        marks = np.flatnonzero((data == separator) | (data == NEWLINE))
        quotes = np.flatnonzero(data == QUOTE)
        letters = data[marks[np.searchsorted(quotes, marks) % 2 == 0]]
    else:
        letters = np.concatenate(
            [_keep_marks(data[start : start + BLOCK], separator) for start in range(0, data.size, BLOCK)]
        )
    ends = np.flatnonzero(letters == NEWLINE)
    n_fields = np.diff(ends, prepend=-1)
    if quoting == "lines":
        for row, line in enumerate(content.split(b"\n")):
            if b'"' in line:
                n_fields[row] = len(split_fields(line.decode(), chr(separator)))
    return n_fields
