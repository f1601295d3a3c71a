"""Ids of a text file as numbers, where every id is written as its number is: 7, but not 007, +7 or 7.0.

The parser of pandas reads numbers several times faster than text. It also reads 007 as 7, although 007 is
another id. No spelling of a number is shorter than its usual one, so that a column has the usual spelling
throughout exactly if its fields have as many letters in total as its numbers have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ipseval.data.reading._dialect import BLOCK, NEWLINE
from ipseval.utils.types import AnyArray, IntArray

WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
LARGEST = 10**18 - 1  # the largest number with 18 digits


def are_whole_numbers(cells: Sequence[str]) -> bool:
    """Return whether there are cells, and all of them are whole numbers in their usual spelling."""
    return bool(cells) and all(WHOLE_NUMBER.fullmatch(cell) for cell in cells)


def sum_field_lengths(content: bytes, separator: int, n_fields: int) -> IntArray:
    """Return the total number of bytes of each field of a text whose lines all have `n_fields` fields.

    The text ends with a newline, and no quotation marks enclose fields.
    """
    data = np.frombuffer(content, dtype=np.uint8)
    position_sums = np.zeros(n_fields, dtype=np.int64)
    n_marks = 0
    for start in range(0, data.size, BLOCK):
        block = data[start : start + BLOCK]
        positions = np.flatnonzero((block == separator) | (block == NEWLINE))
        for offset in range(min(n_fields, positions.size)):
            positions_of_field = positions[offset::n_fields]
            field = (n_marks + offset) % n_fields
            position_sums[field] += positions_of_field.sum() + start * positions_of_field.size
        n_marks += positions.size
    # A field begins after the mark in front of it, which for the first field is the newline of the line before.
    start_sums = np.roll(position_sums, 1)
    start_sums[0] -= data.size
    return position_sums - start_sums - n_marks // n_fields


def sum_lengths_of_numbers(values: IntArray) -> int:
    """Return the total number of letters of whole numbers in their usual spelling."""
    if not values.size:
        return 0
    magnitudes = values
    n_letters = values.size
    if values.min() < 0:
        magnitudes = np.abs(values)
        n_letters += int(np.count_nonzero(values < 0))
    largest = int(magnitudes.max())
    power = 10
    while power <= largest:
        n_letters += int(np.count_nonzero(magnitudes >= power))
        power *= 10
    return n_letters


def is_in_usual_spelling(column: pd.Series, n_letters: int) -> bool:
    """Return whether a column of whole numbers has as many letters as in the text from which it was parsed."""
    if column.dtype != np.int64:
        return False
    values: AnyArray = column.to_numpy()
    is_in_range = values.size > 0 and int(values.min()) >= -LARGEST and int(values.max()) <= LARGEST
    return is_in_range and sum_lengths_of_numbers(values) == n_letters
