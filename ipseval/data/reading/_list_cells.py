"""Cells that hold lists, as lists or as text, of which each entry becomes a row."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

LIST_TYPES = (list, tuple, np.ndarray)
N_CELLS = 500  # first cells of a column that decide whether its text holds lists
_BRACKETS = re.compile(r"\s*[\[({].*[\])}]\s*", re.DOTALL)
_OPENING_BRACKET = re.compile(r"[\[({]")
_SEPARATOR = re.compile(r"[ ,;|]")
_ENTRY = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s,;|]+)")
_SEVERAL_ENTRIES = re.compile(r"[^\s,;|]+(?:[ ;|]+[^\s,;|]+)+|[^\s,;|]+(?: *, *[^\s,;|]+){2,}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}:\d\d")


def text_holds_lists(cells: Sequence[str]) -> bool:
    """Return whether cells of text are lists: all in brackets, or codes with several in some cells."""
    filled_cells = [cell for cell in cells if cell.strip()][:N_CELLS]
    if not filled_cells:
        return False
    distinct_cells = dict.fromkeys(filled_cells)  # ids and ratings repeat
    if all(is_bracketed(cell) for cell in distinct_cells):
        return True
    has_several = any(holds_several_codes(cell) for cell in distinct_cells)
    return has_several and all(_holds_codes(cell) for cell in distinct_cells)


def is_bracketed(cell: str) -> bool:
    """Return whether a cell is a list in brackets without nested brackets."""
    text = cell.strip()
    is_mapping = text.startswith("{") and ":" in text
    if is_mapping or not _BRACKETS.fullmatch(text):
        return False
    content = text[1:-1]
    return not _OPENING_BRACKET.search(content)


def holds_several_codes(cell: str) -> bool:
    """Return whether a cell holds several codes of one pattern, such as "05 07", not a time or a title."""
    text = cell.strip()
    if not _SEPARATOR.search(text):  # most cells hold one entry, and this is the fastest way to see it
        return False
    if not _SEVERAL_ENTRIES.fullmatch(text) or _TIME.search(text):
        return False
    patterns = {_find_pattern(entry) for entry in parse_list(text)}
    return len(patterns) == 1 and _holds_codes(text)


def parse_list(cell: str) -> list[str]:
    """Return the entries of a list that is written as text."""
    text = cell.strip()
    if is_bracketed(text):
        text = text[1:-1]
    return [single or double or unquoted for single, double, unquoted in _ENTRY.findall(text)]


def _holds_codes(cell: str) -> bool:
    """Return whether all entries of a cell are codes, and none is a time."""
    entries = parse_list(cell)
    if not entries or _TIME.search(cell):
        return False
    return all(_find_pattern(entry) for entry in entries)


def _find_pattern(entry: str) -> str:
    """Return the pattern of a code, with "a" for letters and "9" for digits; "" for other text."""
    if not re.search(r"\d", entry) or not re.fullmatch(r"[\w-]+", entry):
        return ""
    without_letters = re.sub(r"[^\W\d]+", "a", entry)
    return re.sub(r"\d+", "9", without_letters)


def parse_list_cell(cell: object) -> object:
    """Return the entries of a cell of text, and None for an empty one; other cells are returned unchanged."""
    if not isinstance(cell, str):
        return cell
    if not cell.strip():
        return None
    return parse_list(cell)


def count_entries(cell: object) -> int:
    """Return the number of entries of a list; 1 for a cell that is not a list."""
    if isinstance(cell, LIST_TYPES):
        return len(cell)
    return 1
