"""Lists inside of cells, as lists or as text: each entry becomes a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

LISTS = (list, tuple, np.ndarray)
N_CELLS = 500  # of a column, from which it is told whether its text holds lists
_BRACKETS = re.compile(r"\s*[\[({].*[\])}]\s*", re.DOTALL)
_NESTED = re.compile(r"[\[({]")
_ENTRY = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s,;|]+)")
_SEVERAL = re.compile(r"[^\s,;|]+(?:[ ;|]+[^\s,;|]+)+|[^\s,;|]+(?: *, *[^\s,;|]+){2,}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}:\d\d")


def holds_lists(cells: Sequence[str]) -> bool:
    """Return whether text cells are lists: all in brackets, or several codes of one shape, as "3 4 5"."""
    filled = [cell for cell in cells if cell.strip()][:N_CELLS]
    if not filled:
        return False
    if all(is_bracketed(cell) for cell in filled):
        return True
    return any(is_several(cell) for cell in filled) and all(_are_codes(cell) for cell in filled)


def is_bracketed(cell: str) -> bool:
    """Return whether a cell is a list in brackets, without another inside of it."""
    text = cell.strip()
    is_mapping = text.startswith("{") and ":" in text
    return bool(_BRACKETS.fullmatch(text)) and not is_mapping and not _NESTED.search(text[1:-1])


def is_several(cell: str) -> bool:
    """Return whether a cell holds several codes, such as "05 07" or "N12 N7", and not a time or a title."""
    text = cell.strip()
    if not _SEVERAL.fullmatch(text) or _TIME.search(text):
        return False
    return len({_shape(entry) for entry in parse_list(text)}) == 1 and _are_codes(text)


def parse_list(cell: str) -> list[str]:
    """Return the entries of a list that is written as text."""
    text = cell.strip()
    if is_bracketed(text):
        text = text[1:-1]
    return [single or double or bare for single, double, bare in _ENTRY.findall(text)]


def _are_codes(cell: str) -> bool:
    entries = parse_list(cell)
    return bool(entries) and not _TIME.search(cell) and all(_shape(entry) for entry in entries)


def _shape(entry: str) -> str:
    """Return how a code is built, with a letter for letters and a 9 for digits; "" for other text."""
    if not re.search(r"\d", entry) or not re.fullmatch(r"[\w-]+", entry):
        return ""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d]+", "a", entry))


def as_list(cell: Any) -> Any:
    """Return the entries of a cell of text; what is a list already, or missing, stays."""
    if isinstance(cell, str):
        return parse_list(cell) if cell.strip() else None
    return cell
