"""Columns of ids as codes, with the problems of ids in text files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoSeries

from ipseval.data.reading._list_cells import holds_several_codes, is_bracketed
from ipseval.errors import Problem
from ipseval.utils.checks import format_examples
from ipseval.utils.columns import encode_column
from ipseval.utils.ids import EXACT, Ids, find_positions
from ipseval.utils.notes import Count, drop_zero_counts
from ipseval.utils.types import AnyArray, IntArray

# Words of the last line of an export that is a summary of the rows above.
FOOTERS = {"total", "totals", "grandtotal", "sum", "summe", "count", "eof", "end", "endoffile", "rows"}
# Long numbers as a spreadsheet shortens them: 1.23457E+12.
_SHORTENED_NUMBER = re.compile(r"-?\d([.,]\d+)?E\+\d{2,}")
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.0+)?")


@dataclass(frozen=True, eq=False)
class IdColumn:
    """Store a column of ids with counts of the entries that were changed, and the problems found."""

    ids: Ids
    counts: tuple[Count, ...] = ()
    problems: tuple[Problem, ...] = ()


def encode_id_column(
    column: nw.Series[IntoSeries],
    name: str,
    *,
    from_text: bool = False,
    na_values: Sequence[str] = (),
    strip: bool = False,
) -> IdColumn:
    """Return a column as codes of its sorted distinct ids.

    Parameters
    ----------
    column : narwhals Series
        The ids.
    name : str
        Description of the column for errors.
    from_text : bool
        Whether the column is of a text file: ids are whole numbers if all are written as such, but text if
        one is written as 007.
    na_values : sequence of str
        Text that means a missing id.
    strip : bool
        Whether blanks around ids are removed although the column is not of a text file.
    """
    ids = _remove_missing_names(encode_column(column, name), na_values)
    if _are_whole_floats(ids.ids):  # whole numbers next to missing entries, as pandas stores them
        return IdColumn(Ids(ids.codes, ids.ids.astype(np.int64)))
    is_text = ids.ids.dtype == object and all(isinstance(label, str) for label in ids.ids)
    if not is_text or not (from_text or strip):
        return IdColumn(ids)
    ids, n_stripped = _strip_blanks(ids)
    problems: list[Problem] = []
    if from_text:
        ids = _convert_to_numbers(ids)
        problems = _find_invalid_ids(ids, name)
    counts = drop_zero_counts(
        Count(
            f"entries of {name} with blanks around them, which were removed",
            n_stripped,
            len(ids),
            code="exclusion",
        )
    )
    return IdColumn(ids, counts, tuple(problems))


def _are_whole_floats(values: AnyArray) -> bool:
    """Return whether values are floats that are exact whole numbers."""
    if values.dtype.kind != "f":
        return False
    return bool((values == np.floor(values)).all() and (np.abs(values) < EXACT).all())


def _remove_missing_names(ids: Ids, na_values: Sequence[str]) -> Ids:
    """Return ids in which the text (or the number) of `na_values` is a missing id."""
    if not na_values:
        return ids
    missing_labels: list[object] = [*na_values]
    missing_labels += [_parse_number(text) for text in na_values]
    is_missing = np.isin(ids.ids.astype(object), np.array(missing_labels, dtype=object))
    if not is_missing.any():
        return ids
    new_codes = np.where(is_missing, -1, np.cumsum(~is_missing) - 1)
    return Ids(np.append(new_codes, -1)[ids.codes], ids.ids[~is_missing])


def _parse_number(text: str) -> object:
    """Return the number that a text means, or the text if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return text


def _strip_blanks(ids: Ids) -> tuple[Ids, int]:
    """Return ids without blanks around them, and the number of entries changed; an empty id is missing."""
    has_blanks = np.array([not label or label != label.strip() for label in ids.ids], dtype=bool)
    if not has_blanks.any():
        return ids, 0
    n_stripped = int(np.append(has_blanks, False)[ids.codes].sum())
    stripped_labels = np.array([label.strip() or None for label in ids.ids], dtype=object)
    new_codes, labels = pd.factorize(stripped_labels, sort=True)
    return Ids(np.append(new_codes, -1)[ids.codes], labels), n_stripped


def _convert_to_numbers(ids: Ids) -> Ids:
    """Return the ids of a text file as whole numbers if all are written as distinct whole numbers."""
    labels = ids.ids.tolist()
    matches = [_WHOLE_NUMBER.fullmatch(label) for label in labels]
    if not labels or not all(matches):
        return ids
    numbers = np.array([int(match[1]) for match in matches if match], dtype=np.int64)
    if np.unique(numbers).size < numbers.size:
        return ids
    order = np.argsort(numbers)
    new_codes = np.empty(order.size + 1, dtype=np.int64)
    new_codes[order] = np.arange(order.size)
    new_codes[-1] = -1
    return Ids(new_codes[ids.codes], numbers[order])


def _find_invalid_ids(ids: Ids, name: str) -> list[Problem]:
    """Return the problems of ids of a text file: shortened numbers, lists, quotation marks, a last line."""
    if ids.ids.dtype != object or not ids.ids.size:
        return []
    labels = ids.ids.tolist()
    joined_labels = "\n".join(labels)  # one search finds whether the labels must be checked one by one
    problems = []
    if "E+" in joined_labels:
        shortened_labels = [label for label in labels if _SHORTENED_NUMBER.fullmatch(label)]
        if shortened_labels:
            description = f"{name} must hold whole ids; got numbers that a spreadsheet has shortened"
            problems.append(
                _describe_invalid_labels(shortened_labels, labels, description, "Export the ids as text")
            )
    if re.search(r"[ ,;|\[({]", joined_labels):
        list_labels = [label for label in labels if is_bracketed(label) or holds_several_codes(label)]
        if list_labels:
            description = f"{name} must hold one id in each cell, or a list in each; got both"
            problems.append(
                _describe_invalid_labels(
                    list_labels, labels, description, "Write each id into a row of its own"
                )
            )
    if '"' in joined_labels:
        quoted_labels = [label for label in labels if label.startswith('"')]
        if quoted_labels:
            description = (
                f"{name} must hold ids without quotation marks; got some, because they are not balanced"
            )
            fix = "Correct the line with a single quotation mark"
            problems.append(_describe_invalid_labels(quoted_labels, labels, description, fix))
    if _has_footer(ids.codes, labels):
        label = labels[ids.codes[-1]]
        problems.append(
            Problem(
                f"the last row must be a row of the log; got a line such as {label!r} in {name}",
                "Remove that line",
            )
        )
    return problems


def _describe_invalid_labels(
    invalid_labels: list[str], labels: list[str], description: str, fix: str
) -> Problem:
    """Return a problem with the number of invalid labels, and examples."""
    number = f"{len(invalid_labels):,} of {len(labels):,} ids: {format_examples(invalid_labels)}"
    return Problem(f"{description} ({number})", fix)


def _has_footer(codes: IntArray, labels: list[str]) -> bool:
    """Return whether the last row is a summary: by its word, or as the only text below whole numbers."""
    last_code = codes[-1] if codes.size else -1
    if last_code < 0 or int((codes == last_code).sum()) > 1:
        return False
    label = labels[last_code]
    letters = re.sub(r"[^a-z]", "", label.lower())
    if letters in FOOTERS or label.startswith(("--", "(")):
        return True
    other_labels = []
    for position, text in enumerate(labels):
        if position != last_code:
            other_labels.append(text)

    if len(other_labels) < 2 or label[-1:].isdigit():
        return False
    return all(_WHOLE_NUMBER.fullmatch(text) for text in other_labels)


def find_places(
    ids: AnyArray, universe: AnyArray, name: str, *, from_text: bool, sources: Sequence[str] = ()
) -> IntArray:
    """Return the position of each id in the universe, −1 for ids outside of it.

    `sources` are the names of both for the error about ids of different types.
    """
    # A single text id, such as B0X, makes all ids of a text file text, also if the others are whole numbers.
    if not from_text or ids.dtype != object or universe.dtype.kind not in "iu":
        return find_positions(ids, universe, name, sources=sources)
    number_rows = []
    numbers = []
    for row, label in enumerate(ids.tolist()):
        match = _WHOLE_NUMBER.fullmatch(label) if isinstance(label, str) else None
        if match is not None:
            number_rows.append(row)
            numbers.append(int(match[1]))
    if not numbers:
        return find_positions(ids, universe, name, sources=sources)
    positions = np.full(ids.size, -1, dtype=np.int64)
    positions[number_rows] = find_positions(np.array(numbers, dtype=np.int64), universe, name)
    return positions
