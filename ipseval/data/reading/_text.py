"""Text files: their separator, header and columns, packed or not."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ipseval._base.artefacts import check_members
from ipseval._base.checks import examples
from ipseval.data.reading._names import USUAL, plain
from ipseval.errors import InputError, Problem, ProblemsError

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
PACKED = (*OPENERS, ".zip")
SEPARATORS = ("\t", "::", ",", ";", "|")
BLANKS = r"\s+"
N_LINES = 200  # from which separator and header are told
NAMES = frozenset(usual for names in USUAL.values() for usual in names)
# Numbers, with a comma for the point as well, and times as ISO 8601 writes them; an empty cell is one.
_NUMBER = re.compile(
    r"\s*([-+]?(\d+[.,]?\d*([eE][-+]?\d+)?|[.,]\d+|nan|NaN)|\d{4}-\d\d-\d\d[\dT:. +Z-]*)?\s*$"
)


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    separator: str
    header: bool
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # the first ones, a header included

    @property
    def trec(self) -> str:
        """What file of TREC it is, which have no header: "run", "qrels", or "" for none."""
        if self.header or self.separator not in (BLANKS, "\t"):
            return ""
        second = {cell for row in self.rows for cell in row[1:2]}
        return {6: "run", 4: "qrels"}.get(len(self.columns), "") if second <= {"Q0", "q0", "0"} else ""


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    """Open a text file, packed or not; what unpacks to far more than its size is refused."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            if len(members) != 1:
                raise InputError(f"{path} holds {len(members)} files; unpack it and give one.")
            check_members(path, [members[0].file_size])
            with archive.open(members[0]) as stream, io.TextIOWrapper(stream, encoding, newline="") as text:
                yield text
        return
    if path.suffix == ".gz":
        with path.open("rb") as tail:
            tail.seek(max(path.stat().st_size - 4, 0))
            check_members(path, [int.from_bytes(tail.read(), "little")])  # of the content, modulo 2³²
    with OPENERS.get(path.suffix, open)(path, "rt", encoding=encoding, newline="") as text:
        yield text


def layout_of(path: Path, separator: str | None, header: bool | None, encoding: str) -> Layout:
    """Return how a text file is laid out, from its first lines."""
    with opened(path, encoding) as text:
        lines = [line.rstrip("\r\n") for line, _ in zip(text, range(N_LINES), strict=False)]
    filled = [line.removeprefix("\ufeff") for line in lines if line.strip()]
    if not filled:
        raise InputError(f"{path} is empty.")
    if "\x00" in "".join(filled):
        raise InputError(f"{path} is no text and no Parquet file.")
    separator = separator or _separator(filled)
    rows = [tuple(row) for row in parsed(filled, separator)]
    problems = []
    if header is None:
        header = _has_header(rows)
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
    return Layout(separator, bool(header), columns, tuple(rows))


def parsed(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """Yield the fields of lines."""
    if separator == BLANKS:
        return (line.split() for line in lines)
    if len(separator) > 1:
        return (line.split(separator) for line in lines)
    return csv.reader(lines, delimiter=separator)


def _separator(lines: list[str]) -> str:
    """Return the separator that gives most lines the same number of fields, more than one."""
    best, most = BLANKS, (0, 0)
    for candidate in SEPARATORS:
        size, count = Counter(len(row) for row in parsed(lines, candidate)).most_common(1)[0]
        if size > 1 and (count, size) > most:
            best, most = candidate, (count, size)
    return best


def _has_header(rows: list[tuple[str, ...]]) -> bool | None:
    """Return whether the first row names the columns; None where that cannot be told."""
    # It does where it holds a usual name of a column, or text above a column of numbers or times; it does not
    # where it holds one, or what occurs again below it.
    first, others = rows[0], rows[1:]
    if any(plain(cell) in NAMES for cell in first):
        return True
    if any(cell.strip() and _NUMBER.match(cell) for cell in first):
        return False
    below = list(zip(*(row for row in others if len(row) == len(first)), strict=True))
    if any(all(_NUMBER.match(cell) for cell in column) for column in below):
        return True
    if any(cell in column for cell, column in zip(first, below, strict=False)):
        return False
    return None


def read_text(path: Path, layout: Layout, ids: Iterable[str], encoding: str) -> pd.DataFrame:
    """Return all columns of a text file; those in `ids` as text, whatever they hold."""
    names, separator = list(layout.columns), layout.separator
    doubled = separator == "::"  # the fast parser of pandas knows single letters only
    if doubled:
        names = [name for column in names for name in (column, f"\x00{column}")][:-1]
        separator = ":"
    with opened(path, encoding) as text:
        frame = pd.read_csv(
            text,
            sep=separator,
            header=0 if layout.header else None,
            names=names,
            dtype=dict.fromkeys(ids, "str"),
            index_col=False,
            skip_blank_lines=True,
            low_memory=False,
        )
    return frame[list(layout.columns)]
