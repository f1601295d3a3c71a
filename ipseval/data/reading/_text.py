"""Text files: their layout, found in the first 64 kB, and their rows, none of which is lost silently."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from ipseval.data.reading._content import decode_start, decode_to_utf8, read_bytes, read_start
from ipseval.data.reading._dialect import (
    BLANKS,
    N_LINES,
    Quoting,
    count_fields,
    find_quoting,
    find_separator,
    has_header,
    is_regular,
    split_fields,
)
from ipseval.data.reading._whole_numbers import are_whole_numbers, is_in_usual_spelling, sum_field_lengths
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.utils.artefacts import reading
from ipseval.utils.checks import format_examples

LayoutName = Literal["auto", "table", "pairs", "adjacency", "trec"]
LAYOUTS = ("auto", "table", "pairs", "adjacency", "trec")
MIN_LINES = 5  # lines of unequal length are adjacency lists only in files with so many lines
_UNIT_SEPARATOR = b"\x1f"  # replaces a separator of several letters, which the parser does not support
_BLANK_LINES = re.compile(rb"\n *(?=\n)")
_BLOCK_HEADING = re.compile(r"\d+:")
_WHOLE_NUMBER = re.compile(r"\d+")
ENCODING_ADVICE = "Give its encoding by encoding=, such as cp1252, if it is text."
# Text that pandas reads as a missing number or time; an id is missing only if it is empty.
MISSING_TEXT = (
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null",
)


@dataclass(frozen=True)
class Layout:
    """Describe how a text file is laid out.

    Attributes
    ----------
    separator : str
        Separator of the fields; `BLANKS` for any blanks.
    header : bool
        Whether the first line names the columns.
    columns : tuple of str
        Names of the columns.
    rows : tuple of tuple of str
        Fields of the first lines, including a header.
    name : str
        "table", "pairs", "adjacency" or "trec".
    """

    separator: str
    header: bool
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name: LayoutName = "table"

    @property
    def trec(self) -> Literal["run", "qrels", ""]:
        """Type of a TREC file, which has no header: "run" or "qrels"; "" for other files."""
        if self.header or self.name not in ("table", "trec") or self.separator not in (BLANKS, "\t", " "):
            return ""
        second_column = set()
        for row in self.rows:
            if len(row) > 1:
                second_column.add(row[1])

        if self.name != "trec" and not second_column <= {"Q0", "q0", "0"}:
            return ""
        if len(self.columns) == 6:
            return "run"
        if len(self.columns) == 4:
            return "qrels"
        return ""

    @cached_property
    def body(self) -> tuple[tuple[str, ...], ...]:
        """First rows without the header, and without rows of another length."""
        rows = self.rows[1:] if self.header else self.rows
        return tuple(row for row in rows if len(row) == len(self.columns))


def find_layout(
    path: Path,
    separator: str | None,
    header: bool | None,
    encoding: str,
    layout: LayoutName = "auto",
) -> Layout:
    """Return the layout of a text file, found in its first lines unless the arguments determine it."""
    lines = _read_first_lines(path, encoding)
    if not lines:
        raise InputError(f"{path} is empty.")
    first_line = lines[0].strip()
    if layout == "auto" and _BLOCK_HEADING.fullmatch(first_line):
        raise InputError(
            f"{path} must have a row per interaction; got blocks below lines such as {first_line!r}. "
            "Write the number of the block into each of its rows."
        )
    separator = separator or find_separator(lines)
    rows = [_split_row(line, separator) for line in lines]
    if layout == "adjacency" or (layout == "auto" and not header and _are_adjacency_lists(rows)):
        return Layout(
            separator=separator, header=False, columns=("user", "item"), rows=tuple(rows), name="adjacency"
        )
    problems = []
    if layout in ("pairs", "trec") and header is None:
        header = False
    if header is None:
        header = has_header(rows)
    if header is None:
        problems.append(
            Problem(
                f"it is not clear whether the first line ({format_examples(rows[0])}) names the columns",
                "Pass {header=True} or {header=False}",
            )
        )
    columns = rows[0]
    if not header:
        columns = tuple(f"column {number}" for number in range(1, len(rows[0]) + 1))
    duplicate_names = sorted(name for name, count in Counter(columns).items() if count > 1)
    if duplicate_names:
        problems.append(
            Problem(f"the header repeats {format_examples(duplicate_names)}", "Give each column its own name")
        )
    if problems:
        raise ProblemsError(str(path), problems)
    return Layout(
        separator=separator,
        header=bool(header),
        columns=columns,
        rows=tuple(rows),
        name="table" if layout == "auto" else layout,
    )


def _read_first_lines(path: Path, encoding: str) -> list[str]:
    """Return the first lines of a file that are not blank."""
    with reading(path, ENCODING_ADVICE):
        text = decode_start(read_start(path), encoding)
    lines = []
    for line in text.split("\n"):
        if line.strip():
            lines.append(line)

    return lines[:N_LINES]


def _split_row(line: str, separator: str) -> tuple[str, ...]:
    """Return the fields of a line without blanks around them."""
    fields = []
    for field in split_fields(line, separator):
        fields.append(field.strip())

    return tuple(fields)


def _are_adjacency_lists(rows: Sequence[tuple[str, ...]]) -> bool:
    """Return whether lines are "user item item …": whole numbers, a line per user, of many lengths."""
    lengths = Counter(len(row) for row in rows)
    n_most_common = lengths.most_common(1)[0][1]
    users = {row[0] for row in rows}
    if len(rows) < MIN_LINES or n_most_common > 0.8 * len(rows) or len(users) < len(rows):
        return False
    return all(_holds_whole_numbers(row) for row in rows)


def _holds_whole_numbers(row: tuple[str, ...]) -> bool:
    """Return whether all fields of a row are whole numbers."""
    return all(_WHOLE_NUMBER.fullmatch(field) for field in row)


@dataclass(frozen=True)
class Lines:
    """Store the whole content of a text file with a single-letter separator and no blank line."""

    content: bytes
    separator: int
    quoting: Quoting


def read_text(
    path: Path,
    layout: Layout,
    columns: Sequence[str],
    id_columns: Iterable[str],
    encoding: str,
    na_values: Sequence[str] = (),
) -> pd.DataFrame:
    """Return columns of a text file; ids are whole numbers where all are written so, and text elsewhere."""
    with reading(path, ENCODING_ADVICE):
        content = decode_to_utf8(read_bytes(path), encoding)
    lines = _use_unchanged(content, layout)
    if lines is None:
        lines = _normalise(path, content, layout.separator)
        if layout.name == "adjacency":
            _check_last_list(path, content)
            return _read_adjacency_lists(lines)[list(columns)]
        lines = _detect_quoting(path, lines)
        n_records = _check_fields(path, lines, layout)
    else:
        n_records = lines.content.count(b"\n")
    del content
    id_names = [name for name in columns if name in set(id_columns)]
    number_names = _find_columns_of_numbers(lines, layout, id_names)
    frame = _parse_columns(
        path=path,
        lines=lines,
        layout=layout,
        columns=columns,
        id_columns=id_names,
        number_columns=number_names,
        na_values=na_values,
    )
    if not _are_written_as_numbers(lines, layout, frame[number_names]):
        number_names = []
        frame = _parse_columns(
            path=path,
            lines=lines,
            layout=layout,
            columns=columns,
            id_columns=id_names,
            number_columns=number_names,
            na_values=na_values,
        )
    for name in id_names:
        if name not in number_names:
            frame[name] = _to_categories(frame[name])
    n_rows = n_records - layout.header
    if len(frame) != n_rows:
        raise InputError(
            f"{path} has {n_rows:,} rows, of which the parser returned {len(frame):,}. Write each row on a "
            "line of its own, without quotation marks that do not enclose a field."
        )
    return frame[list(columns)]


def _find_columns_of_numbers(lines: Lines, layout: Layout, id_columns: Sequence[str]) -> list[str]:
    """Return the columns of ids whose first cells are whole numbers, which are parsed as numbers first."""
    if lines.quoting != "none":
        return []
    cells_of_column = dict(zip(layout.columns, zip(*layout.body, strict=True), strict=False))
    names = []
    for name in id_columns:
        if are_whole_numbers(cells_of_column.get(name, ())):
            names.append(name)

    return names


def _are_written_as_numbers(lines: Lines, layout: Layout, frame: pd.DataFrame) -> bool:
    """Return whether the text of all columns of a frame is the usual spelling of its numbers."""
    if not len(frame.columns):
        return True
    if not (frame.dtypes == np.int64).all():
        return False
    n_letters = sum_field_lengths(lines.content, lines.separator, len(layout.columns))
    if layout.header:
        header = lines.content[: lines.content.index(b"\n")]
        n_letters -= [len(field) for field in header.split(bytes([lines.separator]))]
    for name in frame.columns:
        if not is_in_usual_spelling(frame[name], int(n_letters[layout.columns.index(name)])):
            return False
    return True


def _parse_columns(
    path: Path,
    lines: Lines,
    layout: Layout,
    columns: Sequence[str],
    id_columns: Sequence[str],
    number_columns: Sequence[str],
    na_values: Sequence[str],
) -> pd.DataFrame:
    """Return columns of a text by the parser of pandas, each with its own missing values.

    Columns of ids are text, whatever they hold, except those in `number_columns`.
    """
    text_columns = [name for name in id_columns if name not in number_columns]
    na_values_of_column = {}
    for name in layout.columns:
        if name in id_columns:
            na_values_of_column[name] = ["", *na_values]
        else:
            na_values_of_column[name] = [*MISSING_TEXT, *na_values]
    with reading(path, "Correct these lines, or give separator= or encoding=."):
        return pd.read_csv(
            io.BytesIO(lines.content),
            sep=chr(lines.separator),
            header=0 if layout.header else None,
            names=list(layout.columns),
            usecols=list(columns),
            dtype=dict.fromkeys(text_columns, object),
            keep_default_na=False,
            na_values=na_values_of_column,
            quoting=csv.QUOTE_NONE if lines.quoting == "none" else csv.QUOTE_MINIMAL,
            index_col=False,
            skip_blank_lines=False,
            skipinitialspace=True,
            low_memory=False,
            engine="c",
        )


def _to_categories(cells: pd.Series) -> pd.Categorical:
    """Return cells of text as categories, because ids repeat; pandas would guess numbers while it parses."""
    codes, labels = pd.factorize(cells)
    return pd.Categorical.from_codes(codes, labels)


def _use_unchanged(content: bytes, layout: Layout) -> Lines | None:
    """Return a text that needs no change because all its lines have the same fields; None for other text."""
    separator = " " if layout.separator == BLANKS else layout.separator
    n_fields = len(layout.columns)
    has_single_letter = len(separator.encode()) == 1
    if layout.name == "adjacency" or n_fields < 2 or not has_single_letter or not content.endswith(b"\n"):
        return None
    has_other_blanks = layout.separator == BLANKS and b"\t" in content
    if b"\r" in content or has_other_blanks or not is_regular(content, ord(separator), n_fields):
        return None
    return Lines(content, ord(separator), "none")


def _normalise(path: Path, content: bytes, separator: str) -> Lines:
    """Return a text with newlines of one kind, no blank lines, and a separator of one letter."""
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if separator == BLANKS:
        content = _collapse_blanks(content)
        separator = " "
    if not content.endswith(b"\n"):
        content += b"\n"
    if content[:1] in (b"\n", b" ") or b"\n\n" in content or b"\n " in content:
        content = _BLANK_LINES.sub(b"", b"\n" + content)[1:]
    separator_bytes = separator.encode()
    if len(separator_bytes) > 1:
        if _UNIT_SEPARATOR in content:
            raise InputError(
                f"{path} must not contain the letter U+001F if its separator has several letters; got "
                f"{separator!r}. Remove the letter."
            )
        content = content.replace(separator_bytes, _UNIT_SEPARATOR)
        separator_bytes = _UNIT_SEPARATOR
    return Lines(content, separator_bytes[0], "none")


def _collapse_blanks(content: bytes) -> bytes:
    """Return a text with a single space between fields, and none at the ends of lines."""
    has_single_spaces = not (b"\t" in content or b"  " in content or b"\n " in content or b" \n" in content)
    if has_single_spaces:
        return content
    content = re.sub(rb"[ \t]+", b" ", content)
    return content.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _detect_quoting(path: Path, lines: Lines) -> Lines:
    """Return a text with the meaning of its quotation marks; raise `InputError` if it is ambiguous."""
    if b'"' not in lines.content:
        return lines
    quoting = find_quoting(lines.content, lines.separator)
    if quoting == "records":
        n_fields_of_lines = count_fields(lines.content, lines.separator, "none")
        n_fields_of_records = count_fields(lines.content, lines.separator, "records")
        n_breaks = n_fields_of_lines.size - n_fields_of_records.size
        if n_breaks > 0 and np.unique(n_fields_of_lines).size == 1:
            raise InputError(
                f"{path} has quotation marks that may enclose {n_breaks:,} line breaks, "
                "or belong to the text. Write it without line breaks and quotation marks inside of fields."
            )
    return Lines(lines.content, lines.separator, quoting)


def _check_fields(path: Path, lines: Lines, layout: Layout) -> int:
    """Return the number of records, or raise `InputError` for records with another number of fields."""
    n_fields = count_fields(lines.content, lines.separator, lines.quoting)
    n_expected = len(layout.columns)
    invalid_rows = np.flatnonzero(n_fields != n_expected)
    if not invalid_rows.size:
        return n_fields.size
    first_lines = ", ".join(f"line {row + 1} has {n_fields[row]}" for row in invalid_rows[:3])
    remark = ""
    if b'"' in lines.content and lines.quoting == "none":
        remark = "; its quotation marks are not balanced, so that they enclose no field"
    problem = Problem(
        f"each line must have {n_expected} fields, as the first; got another number in "
        f"{invalid_rows.size:,} of {n_fields.size:,} lines ({first_lines}){remark}",
        "Correct these lines, or pass {separator}, or {layout=adjacency} for lines of a user and "
        "its items (as load_adjacency reads them)",
    )
    raise ProblemsError(str(path), [problem])


def _check_last_list(path: Path, content: bytes) -> None:
    """Raise `InputError` if a text ends behind a user, without the items and the newline of the line."""
    last_line = content[content.rfind(b"\n") + 1 :]
    if len(last_line.split()) == 1:
        raise InputError(
            f"{path} must end with a complete line; got a last line of a user alone, {last_line.decode()!r:.40}, "
            "without a newline. Write the file again, or add the newline if this user has no item."
        )


def _read_adjacency_lists(lines: Lines) -> pd.DataFrame:
    """Return the users and lists of items of lines "user item item …"; the list may be empty."""
    separator = chr(lines.separator)
    users = []
    items = []
    for line in lines.content.decode().split("\n"):
        fields = line.replace(separator, " ").split()
        if fields:
            users.append(fields[0])
            items.append(fields[1:])
    return pd.DataFrame({"user": pd.Series(users, dtype=object), "item": pd.Series(items, dtype=object)})
