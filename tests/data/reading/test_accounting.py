"""Rows read and rows left out by reason are the rows of the file, in every format."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma

import pandas as pd
import pytest

import ipseval
from tests.file_formats import BINARY_WRITERS

N_ROWS = 60
ROWS = [
    {"user": f"u{row % 6}", "item": f"i{row // 6}", "plays": row % 4, "title": f'"part {row}'}
    for row in range(N_ROWS - 2)
]
ROWS += [{"user": "", "item": "i1", "plays": 2, "title": "x"}, ROWS[1]]
N_ZERO = sum(row["plays"] == 0 for row in ROWS)  # left out, because 0 is no positive


def delimit(separator: str, enclose: bool = False) -> bytes:
    lines = [["user", "item", "plays", "title"], *([str(cell) for cell in row.values()] for row in ROWS)]
    if enclose:  # marks inside of a field are doubled
        lines = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    return "".join(separator.join(line) + "\n" for line in lines).encode()


FORMATS = {
    "CSV": delimit(","),
    "quoted CSV": delimit(",", enclose=True),
    "TSV": delimit("\t"),
    "double colons": delimit("::"),
    "lines of JSON": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    "list of JSON": json.dumps(ROWS).encode(),
    "lines of dictionaries": "".join(f"{row!r}\n" for row in ROWS).encode(),
}


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", FORMATS)
def test_rows_read_are_rows_kept_plus_rows_left_out(name, compress, tmp_path):
    (tmp_path / "log").write_bytes(compress(FORMATS[name]))
    check_counts(ipseval.read(tmp_path / "log", missing="drop", duplicates="drop"))


@pytest.mark.parametrize("name", BINARY_WRITERS)
def test_the_counts_of_binary_files_include_all_rows(name, tmp_path):
    frame = pd.DataFrame(ROWS)
    frame["user"] = frame["user"].where(frame["user"] != "", None)
    BINARY_WRITERS[name](frame, tmp_path / "log")
    check_counts(ipseval.read(tmp_path / "log", missing="drop", duplicates="drop"))


def check_counts(log: ipseval.Interactions) -> None:
    counts = log.data
    left_out = counts[counts["what"].str.contains("left out")]
    assert counts["count"].iloc[0] == N_ROWS
    assert sorted(left_out["count"]) == sorted([1, N_ZERO, 1])
    assert len(log) == N_ROWS - N_ZERO - 2


def test_the_counts_of_qrels_and_adjacency_lists_include_all_rows(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"{row % 6} 0 {row // 6} {row % 3}\n" for row in range(60)))
    log = ipseval.read(tmp_path / "qrels")
    assert log.data["count"].tolist() == [60, 20, 40]
    assert len(log) == 40
    (tmp_path / "neighbours").write_text("1 5 6\n2\n3 5\n4 6 7 8\n")
    log = ipseval.read(tmp_path / "neighbours", layout="adjacency")
    assert log.data["count"].tolist() == [6, 1]
    assert len(log) == 6
