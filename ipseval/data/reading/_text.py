"""Text files: their layout, found on the first 64 kB, and their rows, all of which are accounted for."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from ipseval.errors import InputError, Problem, ProblemsError
from ipseval.utils.artefacts import reading
from ipseval.utils.checks import examples

LayoutName = Literal["auto", "table", "pairs", "adjacency", "trec"]
LAYOUTS = ("auto", "table", "pairs", "adjacency", "trec")
# Text of numbers and times that pandas takes for a missing entry; ids are missing only where they are empty.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
MIN_LINES = 5  # from which on lines of unequal length may be known as lists of neighbours
_STAND_IN = b"\x1f"  # in place of a separator of several letters: the parser knows single ones
_BLANK_LINES = re.compile(rb"\n *(?=\n)")
_BLOCK = re.compile(r"\d+:")
_WHOLE = re.compile(r"\d+")
ENCODING_ADVICE = "Give its encoding by encoding=, such as cp1252, if it is text."


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    separator: str
    header: bool
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # the first ones, a header included
    name: LayoutName = "table"

    @property
    def trec(self) -> str:
        """Which file of TREC it is, which have no header: "run", "qrels", or "" for none."""
        kinds = {6: "run", 4: "qrels"}
        kind = kinds.get(len(self.columns), "")
        if self.header or self.name not in ("table", "trec") or self.separator not in (BLANKS, "\t", " "):
            return ""
        if self.name == "trec":
            return kind
        second = {row[1] for row in self.rows if len(row) > 1}
        return kind if second <= {"Q0", "q0", "0"} else ""

    @property
    def body(self) -> list[tuple[str, ...]]:
        """The first rows without a header and without those of another length."""
        rows = self.rows[1:] if self.header else self.rows
        width = len(self.columns)
        return [row for row in rows if len(row) == width]


def find_layout(
    path: Path,
    separator: str | None,
    header: bool | None,
    encoding: str,
    layout: LayoutName = "auto",
) -> Layout:
    """Return how a text file is laid out, from its first lines."""
    with reading(path, ENCODING_ADVICE):
        text = decode_start(read_start(path), encoding)
    lines = [line for line in text.split("\n") if line.strip()][:N_LINES]
    if not lines:
        raise InputError(f"{path} is empty.")
    if layout == "auto" and _BLOCK.fullmatch(lines[0].strip()):
        raise InputError(
            f"{path} must have a row per interaction; got blocks below lines such as {lines[0].strip()!r}. "
            "Write the number of the block into each of its rows."
        )
    separator = separator or find_separator(lines)
    rows = [tuple(cell.strip() for cell in split_fields(line, separator)) for line in lines]
    if layout == "adjacency" or (layout == "auto" and not header and _are_lists_of_neighbours(rows)):
        return Layout(separator, False, ("user", "item"), tuple(rows), "adjacency")
    problems = []
    if layout in ("pairs", "trec") and header is None:
        header = False
    if header is None:
        header = has_header(rows)
    if header is None:
        problems.append(
            Problem(
                f"it cannot be told whether the first line ({examples(rows[0])}) names the columns",
                "Pass {header=True} or {header=False}",
            )
        )
    columns = rows[0] if header else tuple(f"column {place + 1}" for place in range(len(rows[0])))
    repeated = sorted(name for name, count in Counter(columns).items() if count > 1)
    if repeated:
        problems.append(Problem(f"the header repeats {examples(repeated)}", "Give each column its own name"))
    if problems:
        raise ProblemsError(str(path), problems)
    name: LayoutName = "table" if layout == "auto" else layout
    return Layout(separator, bool(header), columns, tuple(rows), name)


def _are_lists_of_neighbours(rows: Sequence[tuple[str, ...]]) -> bool:
    """Return whether lines are "user item item …": whole numbers, a line per user, of many lengths."""
    widths = Counter(len(row) for row in rows)
    n_common = widths.most_common(1)[0][1]
    users = {row[0] for row in rows}
    if len(rows) < MIN_LINES or n_common > 0.8 * len(rows) or len(users) < len(rows):
        return False
    return all(_WHOLE.fullmatch(cell) for row in rows for cell in row)


@dataclass(frozen=True)
class Lines:
    """The whole content of a text file with a single-letter separator and no blank line."""

    content: bytes
    separator: int
    quoting: Quoting


def read_text(
    path: Path,
    layout: Layout,
    wanted: Sequence[str],
    ids: Iterable[str],
    encoding: str,
    na_values: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the wanted columns of a text file; those in `ids` as text, whatever they hold."""
    with reading(path, ENCODING_ADVICE):
        content = decode_to_utf8(read_bytes(path), encoding)
    lines = _take_as_it_is(content, layout)
    if lines is None:
        lines = _normalise(path, content, layout.separator)
        if layout.name == "adjacency":
            return _read_adjacency(lines)[list(wanted)]
        lines = _with_quoting(path, lines)
        n_records = _check_fields(path, lines, layout)
    else:
        n_records = lines.content.count(b"\n")
    del content
    missing = {name: ["", *na_values] if name in ids else [*MISSING, *na_values] for name in layout.columns}
    with reading(path, "Correct these lines, or give separator= or encoding=."):
        frame = pd.read_csv(
            io.BytesIO(lines.content),
            sep=chr(lines.separator),
            header=0 if layout.header else None,
            names=list(layout.columns),
            usecols=list(wanted),
            dtype=dict.fromkeys(ids, "str"),
            keep_default_na=False,
            na_values=missing,
            quoting=csv.QUOTE_NONE if lines.quoting == "none" else csv.QUOTE_MINIMAL,
            index_col=False,
            skip_blank_lines=False,
            skipinitialspace=True,
            low_memory=False,
            engine="c",
        )
    n_rows = n_records - layout.header
    if len(frame) != n_rows:
        raise InputError(
            f"{path} has {n_rows:,} rows, of which the parser returned {len(frame):,}. Write each row on a "
            "line of its own, without quotation marks that do not enclose a field."
        )
    return frame[list(wanted)]


def _take_as_it_is(content: bytes, layout: Layout) -> Lines | None:
    """Return a text that needs no change because all its lines have the same fields; None for others."""
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
        if b"\t" in content or b"  " in content or b"\n " in content or b" \n" in content:
            content = re.sub(rb"[ \t]+", b" ", content)
            content = content.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
        separator = " "
    if not content.endswith(b"\n"):
        content += b"\n"
    if content[:1] in (b"\n", b" ") or b"\n\n" in content or b"\n " in content:
        content = _BLANK_LINES.sub(b"", b"\n" + content)[1:]
    separator_bytes = separator.encode()
    if len(separator_bytes) > 1:
        if _STAND_IN in content:
            raise InputError(f"{path} must not hold the letter U+001F beside a separator of several letters.")
        content = content.replace(separator_bytes, _STAND_IN)
        separator_bytes = _STAND_IN
    return Lines(content, separator_bytes[0], "none")


def _with_quoting(path: Path, lines: Lines) -> Lines:
    """Return a text with what its quotation marks mean; where both readings fit, it is refused."""
    if b'"' not in lines.content:
        return lines
    quoting = find_quoting(lines.content, lines.separator)
    if quoting == "records":
        n_plain = count_fields(lines.content, lines.separator, "none")
        n_quoted = count_fields(lines.content, lines.separator, "records")
        spans_lines = n_quoted.size < n_plain.size
        if spans_lines and np.unique(n_plain).size == 1:
            raise InputError(
                f"{path} has quotation marks that may enclose {n_plain.size - n_quoted.size:,} line breaks, "
                "or belong to the text. Write it without line breaks and quotation marks inside of fields."
            )
    return Lines(lines.content, lines.separator, quoting)


def _check_fields(path: Path, lines: Lines, layout: Layout) -> int:
    """Return the number of records, or raise `InputError` that names those of another length."""
    n_fields = count_fields(lines.content, lines.separator, lines.quoting)
    expected = len(layout.columns)
    odd = np.flatnonzero(n_fields != expected)
    if not odd.size:
        return n_fields.size
    shown = ", ".join(f"line {row + 1} has {n_fields[row]}" for row in odd[:3])
    marks = ""
    if b'"' in lines.content and lines.quoting == "none":
        marks = "; its quotation marks are not balanced, so that they enclose no field"
    raise ProblemsError(
        str(path),
        [
            Problem(
                f"each line must have {expected} fields, as the first; got another number in {odd.size:,} of "
                f"{n_fields.size:,} lines ({shown}){marks}",
                "Correct these lines, or pass {separator}, or {layout=adjacency} for lines of a user and "
                "its items (as load_adjacency reads them)",
            )
        ],
    )


def _read_adjacency(lines: Lines) -> pd.DataFrame:
    """Return the pairs of lines that hold a user and its items; a user alone has an empty list."""
    separator = chr(lines.separator)
    users = []
    items = []
    for line in lines.content.decode().split("\n"):
        fields = line.replace(separator, " ").split()
        if fields:
            users.append(fields[0])
            items.append(fields[1:])
    return pd.DataFrame({"user": pd.Series(users, dtype=object), "item": pd.Series(items, dtype=object)})
