"""Files in the layouts of published data, disturbed: the log that they hold, or one `InputError`."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipseval
from ipseval.data import ImpressionLog
from tests.data.reading.layouts import IMPRESSIONS, LAYOUTS, REFUSED, Expected, Table, expect

IS_JSON = ("write_json_lines", "write_json_list", "write_json_columns", "write_dicts", "write_unicode_dicts")
Case = tuple[bytes, dict[str, Any], Table, str]  # content, options, what it holds, name of the file


def plain(table: Table) -> Case:
    return table.write(table).encode(), table.read_options(), table, "log.txt"


def insert_unbalanced_quote(table: Table) -> Case:
    column = table.titles or table.roles["item"]
    place = table.columns.index(column)
    return plain(table.with_cell(5, column, f'"{table.rows[5][place]}'))


def blanks(table: Table) -> Case:
    """Return cells with a blank before them, and for JSON ids with blanks around them."""
    rows = tuple(tuple(f" {cell}" for cell in row) for row in table.rows)
    content = table.write(replace(table, rows=rows)).encode()
    return content, table.read_options(), table, "log.txt"


def write_lines(table: Table) -> list[str]:
    return table.write(table).splitlines(keepends=True)


def header_again(table: Table) -> Case:
    lines = write_lines(table)
    middle = len(lines) // 2
    header = lines[0] if table.header else table.write(replace(table, header=True, rows=()))
    lines.insert(middle, header)
    return "".join(lines).encode(), table.read_options(), table, "log.txt"


def footer(table: Table) -> Case:
    return (
        (table.write(table) + f"Total: {len(table.rows)} rows\n").encode(),
        table.read_options(),
        table,
        "log.txt",
    )


def last_column_first(table: Table) -> Case:
    places = range(len(table.columns))
    return plain(table.with_columns([places[-1], *places[:-1]]))


def no_header(table: Table) -> Case:
    """Return the table without its header, or with an unexpected one."""
    changed_table = replace(table, header=not table.header)
    return changed_table.write(changed_table).encode(), table.read_options(), table, "log.txt"


def mix_units(table: Table) -> Case:
    if "timestamp" not in table.roles:
        return plain(table)
    column = table.roles["timestamp"]
    changed_table = table
    times = dict(table.times)
    for row in range(0, len(table.rows), 2):
        cell = table.cells("timestamp")[row]
        if not cell.isdigit():
            return plain(table)
        milliseconds = str(int(cell) * 1000)
        times[milliseconds] = table.times[cell]
        changed_table = changed_table.with_cell(row, column, milliseconds)
    return plain(replace(changed_table, times=times))


def remove_value(table: Table) -> Case:
    content, options, changed_table, name = plain(table.with_cell(7, table.roles["item"], ""))
    if table.write.__name__ == "write_adjacency":  # a list without one of its items is a shorter list
        rows = (*table.rows[:7], *table.rows[8:])
        return content, options, replace(table, rows=rows), name
    return content, options, changed_table, name


def duplicate(table: Table) -> Case:
    return plain(replace(table, rows=(*table.rows, table.rows[3])))


def truncate_file(table: Table) -> Case:
    content = gzip.compress(table.write(table).encode())
    return content[:-30], table.read_options(), table, "log.txt.gz"


def cut_line(table: Table) -> Case:
    """Return a file that ends within its last line, before the last of its fields."""
    content = table.write(table).rstrip("\n")
    start = content.rfind("\n") + 1
    return content[: start + 2].encode(), table.read_options(), table, "log.txt"


def compress_zip(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("log", content)
    return stream.getvalue()


def as_file(name: str, compress: Callable[[bytes], bytes] = bytes) -> Callable[[Table], Case]:
    def disturb(table: Table) -> Case:
        content, options, _, _ = plain(table)
        return compress(content), options, table, name

    return disturb


HARMLESS = {
    "none": plain,
    "named .csv": as_file("log.csv"),
    "named .json": as_file("log.json"),
    "named .tsv": as_file("log.tsv"),
    "no suffix": as_file("log"),
    "gzip": as_file("log.csv.gz", gzip.compress),
    "bz2": as_file("log.dat", bz2.compress),
    "xz": as_file("log.txt", lzma.compress),
    "zip": as_file("log.zip", compress_zip),
    "CR LF": as_file("log.txt", lambda content: content.replace(b"\n", b"\r\n")),
    "no last newline": as_file("log.txt", lambda content: content.rstrip(b"\n")),
    "mark of the byte order": as_file("log.txt", lambda content: b"\xef\xbb\xbf" + content),
}
HARMFUL = {
    "unbalanced quote": insert_unbalanced_quote,
    "blanks": blanks,
    "header again": header_again,
    "footer": footer,
    "column order": last_column_first,
    "no header": no_header,
    "mixed units": mix_units,
    "missing value": remove_value,
    "duplicate": duplicate,
    "truncated": truncate_file,
    "cut line": cut_line,
}
REFUSALS = ("header again", "footer", "missing value", "duplicate", "truncated", "cut line")


def pair_with_layouts(layouts: dict[str, Table], disturbances: Iterable[str]) -> list[Any]:
    """Return every pair of a layout and a disturbance, of which most are slow.

    In the fast suite every layout meets one disturbance in four, and every way to write a table meets each
    disturbance. Every layout is also read undisturbed.
    """
    layouts_of: dict[str, list[str]] = {}
    for name, table in layouts.items():
        layouts_of.setdefault(table.write.__name__, []).append(name)
    pairs = []
    for names in layouts_of.values():
        step = min(4, len(names))
        for number, name in enumerate(names):
            for place, disturbance in enumerate(disturbances):
                is_fast = disturbance == "none" or (number + place) % step == 0
                marks = () if is_fast else pytest.mark.slow
                pairs.append(pytest.param(name, disturbance, marks=marks))
    return pairs


def read_case(case: Case, folder: Path) -> ipseval.Interactions:
    content, options, _, name = case
    (folder / name).write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of pandas, NumPy or Python
        warnings.simplefilter("ignore", ipseval.errors.DataWarning)
        return ipseval.read(folder / name, **options)


def seconds(times: np.ndarray) -> np.ndarray:
    return times // 10**9 if np.abs(times).max() > 10**17 else times


def check_log(log: ipseval.Interactions, expected: Expected) -> None:
    """Assert that a log has the written rows in order, and that its counts include all rows."""
    frame = log.to_frame()
    got = list(zip(frame["user"].astype(str), frame["item"].astype(str), strict=True))
    assert got == expected.pairs
    if log.value is not None:
        assert expected.values is not None
        assert log.value.tolist() == expected.values
    if log.timestamp is not None:
        assert expected.times is not None
        assert seconds(np.asarray(log.timestamp)).tolist() == expected.times
    counts = log.data
    left_out = counts["count"][counts["what"].str.contains("left out")].sum()
    assert counts["count"].iloc[0] == expected.n_rows
    assert len(log) + left_out == expected.n_rows


@pytest.mark.parametrize(("layout", "disturbance"), pair_with_layouts(LAYOUTS, HARMLESS))
def test_content_is_read_exactly_under_any_name_and_compression(layout, disturbance, tmp_path):
    case = HARMLESS[disturbance](LAYOUTS[layout])
    log = read_case(case, tmp_path)
    if layout == "LightGCN":  # its rows are lists
        counts = log.data
        assert counts["count"].iloc[0] == len(log) == len(case[2].rows)
    check_log(log, expect(case[2]))


@pytest.mark.parametrize(("layout", "disturbance"), pair_with_layouts(LAYOUTS, HARMFUL))
def test_a_disturbed_file_is_read_exactly_or_refused(layout, disturbance, tmp_path):
    case = HARMFUL[disturbance](LAYOUTS[layout])
    try:
        log = read_case(case, tmp_path)
    except ipseval.InputError:  # any other exception fails the test
        return
    is_unchanged = case[0] == plain(LAYOUTS[layout])[0]
    assert disturbance not in REFUSALS or is_unchanged or (layout, disturbance) in READABLE
    if (layout, disturbance) not in UNSEEN:
        check_log(log, expect(case[2]))


def check_impressions(log: ipseval.Interactions | ImpressionLog, table: Table) -> None:
    """Assert that an impression log has the written rows in order, and that none was left out."""
    assert isinstance(log, ImpressionLog)
    assert log.user_ids[log.user].astype(str).tolist() == table.cells("user")
    assert log.item_ids[log.item].astype(str).tolist() == table.cells("item")
    assert log.clicked.tolist() == [cell == "1" for cell in table.cells("clicked")]
    if log.timestamp is not None:
        times = [table.times[cell] for cell in table.cells("timestamp")]
        assert seconds(np.asarray(log.timestamp)).tolist() == times
    assert log.data["count"].tolist() == [len(table.rows)]


@pytest.mark.parametrize(("layout", "disturbance"), pair_with_layouts(IMPRESSIONS, HARMLESS))
def test_impressions_are_read_exactly_under_any_name_and_compression(layout, disturbance, tmp_path):
    case = HARMLESS[disturbance](IMPRESSIONS[layout])
    check_impressions(read_case(case, tmp_path), case[2])


@pytest.mark.parametrize(("layout", "disturbance"), pair_with_layouts(IMPRESSIONS, HARMFUL))
def test_disturbed_impressions_are_read_exactly_or_refused(layout, disturbance, tmp_path):
    case = HARMFUL[disturbance](IMPRESSIONS[layout])
    try:
        log = read_case(case, tmp_path)
    except ipseval.InputError:  # any other exception fails the test
        return
    assert disturbance not in REFUSALS
    check_impressions(log, case[2])


@pytest.mark.parametrize(
    ("layout", "disturbance"),
    [*pair_with_layouts(REFUSED, HARMLESS), *pair_with_layouts(REFUSED, HARMFUL)],
)
def test_a_layout_whose_columns_say_too_little_is_refused_disturbed_or_not(layout, disturbance, tmp_path):
    if (layout, disturbance) in UNSEEN:
        pytest.skip("the content does not tell it from another log")
    disturb = (HARMLESS | HARMFUL)[disturbance]
    with pytest.raises(ipseval.InputError):
        read_case(disturb(REFUSED[layout]), tmp_path)


READABLE = {("LightGCN", "missing value")}  # a list without one of its items is a shorter list
# No reader can see these: users and items are whole numbers of one kind, and both repeat. The file with the two
# columns exchanged is a log as plausible as the first, which no cell contradicts (docs/decisions/22, with figures).
UNSEEN = {
    ("pairs", "column order"),
    ("Gowalla unnamed", "column order"),  # the last column comes first, and items and users are the first two
}
