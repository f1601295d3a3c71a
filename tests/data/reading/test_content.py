"""The content of a file decides how it is read: every row is accounted for, or the file is refused."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _pytest.mark import ParameterSet

import ipseval

N_ROWS = 72  # 8 users × 9 items
TIME = 1_511_544_070


def make_rows() -> list[tuple[str, str, int, int]]:
    """Return user, item, rating and time of each row."""
    rows = [(user, item) for user in range(8) for item in range(9)]
    return [(f"u{u}", f"i{i}", (u + i) % 5 + 1, TIME + 97 * k) for k, (u, i) in enumerate(rows)]


LAYOUTS = {  # name -> (header, separator, place of user, item, rating and time in each row)
    "named, comma": ("user_id,item_id,rating,timestamp", ",", (0, 1, 2, 3)),
    "named, tab": ("user_id\titem_id\trating\ttimestamp", "\t", (0, 1, 2, 3)),
    "named, semicolon": ("user_id;item_id;rating;timestamp", ";", (0, 1, 2, 3)),
    "typed names": ("user_id:token\titem_id:token\trating:float\ttimestamp:float", "\t", (0, 1, 2, 3)),
    "reviews": ("asin,reviewerID,overall,unixReviewTime", ",", (1, 0, 2, 3)),
    "time before rating": ("timestamp,userId,movieId,rating", ",", (3, 0, 1, 2)),
    "no header, tab": (None, "\t", (0, 1, 2, 3)),
    "no header, double colon": (None, "::", (0, 1, 2, 3)),
    "no header, blanks": (None, " ", (0, 1, 2, 3)),
    "no header, item first": (None, ",", (1, 0, 2, 3)),
    "no header, time third": (None, ",", (0, 1, 3, 2)),
}


def write_lines(name: str) -> list[str]:
    header, separator, places = LAYOUTS[name]
    lines = [] if header is None else [header]
    for row in make_rows():
        cells = [""] * 4
        if header is not None and name == "time before rating":
            cells = [str(row[3]), row[0], row[1], str(row[2])]
        else:
            for role, place in enumerate(places):
                cells[place] = str(row[role])
        lines.append(separator.join(cells))
    return lines


DISTURBANCES = {
    "none": lambda lines: lines,
    "an unbalanced quotation mark": lambda lines: [*lines[:9], '"' + lines[9], *lines[10:]],
    "blanks at the end of lines": lambda lines: [line + "  " for line in lines],
    "blank lines": lambda lines: [text for line in lines for text in (line, "")],
    "the header again": lambda lines: [*lines[:20], lines[0], *lines[20:]],
    "a footer": lambda lines: [*lines, "Total"],
    "a line cut off": lambda lines: [*lines[:-1], lines[-1][:7]],
    "a missing id": lambda lines: [*lines[:9], lines[9].replace("u1", "").replace("u0", ""), *lines[10:]],
    "a row twice": lambda lines: [*lines, lines[-1]],
    "milliseconds in one row": lambda lines: [
        *lines[:-1],
        lines[-1].replace(str(TIME)[:6], str(TIME)[:6] + "000"),
    ],
    "no header": lambda lines: lines[1:],
    "line ends of Windows": lambda lines: [line + "\r" for line in lines],
}
# Under each name every layout is read, and every disturbance; all of them as .csv.
PACKERS = {".json": bytes, "": gzip.compress, ".parquet": bz2.compress, ".txt": lzma.compress}


def list_pairs() -> list[ParameterSet]:
    """Return pairs of a layout and a disturbance; every layout is read undisturbed and meets one of three others.

    With the other layouts, which are those of published data, test_disturbances.py does the same.
    """
    pairs = []
    for number, layout in enumerate(list(LAYOUTS)[4:6] + list(LAYOUTS)[8:]):
        for place, disturbance in enumerate(DISTURBANCES):
            is_fast = disturbance == "none" or (number + place) % 3 == 0
            pairs.append(pytest.param(layout, disturbance, marks=() if is_fast else pytest.mark.slow))
    return pairs


def read_or_refuse(path: Path, **options: object) -> ipseval.Interactions | None:
    """Return the log, or None for an error of the library; any other error fails the test."""
    try:
        return ipseval.read(path, **options)
    except ipseval.InputError:
        return None


@pytest.mark.parametrize(("layout", "disturbance"), list_pairs())
def test_a_disturbed_file_is_read_exactly_or_refused(layout, disturbance, tmp_path):
    lines = DISTURBANCES[disturbance](write_lines(layout))
    truth = {(user, item): (rating, time * 10**9) for user, item, rating, time in make_rows()}
    if disturbance == "no header" and LAYOUTS[layout][0] is None:
        truth.pop(("u0", "i0"))
    number = list(LAYOUTS).index(layout) + list(DISTURBANCES).index(disturbance)
    for suffix, pack in ((".csv", bytes), list(PACKERS.items())[number % len(PACKERS)]):
        path = tmp_path / f"log{suffix}"
        path.write_bytes(pack("".join(f"{line}\n" for line in lines).encode()))
        log = read_or_refuse(path, threshold="all")
        if log is None:
            continue
        assert log.data["count"].iloc[0] == len(log)
        frame = log.to_frame()
        pairs = zip(frame["user"], frame["item"], strict=True)
        item_first = layout == "no header, item first" or (layout, disturbance) == ("reviews", "no header")
        if item_first:  # nothing in the content tells users from items
            pairs = ((user, item) for item, user in pairs)
        values = zip(frame["value"], frame["timestamp"], strict=True)
        assert dict(zip(pairs, values, strict=True)) == truth, (suffix, log.data["what"].iloc[0])


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "no header, time third"])
def test_a_file_without_a_disturbance_is_read(layout, tmp_path):
    (tmp_path / "log").write_text("\n".join(write_lines(layout)))
    assert len(ipseval.read(tmp_path / "log", threshold="all")) == N_ROWS


@pytest.mark.parametrize(
    "columns", ["user_id,item_id,title", "title,user_id,item_id", "user_id,title,item_id"]
)
@pytest.mark.parametrize("mark", ['"Heroes', 'Heroes"', 'a "b'])
def test_quotation_marks_that_enclose_no_field_lose_no_row(columns, mark, tmp_path):
    lines = [columns]
    for number in range(70):
        title = mark if number in (5, 20) else "x"
        cells = {"user_id": f"u{number % 7}", "item_id": f"i{number // 7}", "title": title}
        lines.append(",".join(cells[name] for name in columns.split(",")))
    (tmp_path / "log.csv").write_text("\n".join(lines))
    assert len(ipseval.read(tmp_path / "log.csv")) == 70


def test_quotation_marks_that_enclose_fields_are_no_part_of_them(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('user,item,title\n"a","x","one, two\nthree"\n"b","y","5"" disk"\n')
    assert ipseval.read(path).to_frame()[["user", "item"]].to_numpy().tolist() == [["a", "x"], ["b", "y"]]
    path.write_text('user,item,title\n"a","x,1",5" disk\nb,y,z\n')
    assert ipseval.read(path).item_ids.tolist() == ["x,1", "y"]
    path.write_text('user,item,title\na,x,"one\nb,y,two"\nc,z,t\n')
    with pytest.raises(ipseval.InputError, match="quotation marks that may enclose 1 line break"):
        ipseval.read(path)


@pytest.mark.parametrize(
    "row",
    [
        "{u},2014-04-07T10:{k:02d}:00Z,{i},0",
        "{u}\t2010-10-17T01:{k:02d}:00Z\t30.{i}\t-97.{i}\t{i}",
        "{k}\tU{u}\t11/15/2019 9:{k:02d}:12 AM\tN{i} N3\tN7-1 N26-0",
        "u{u},15115440{k:02d},i{i}",
        "{u} {i} {k} 5",
    ],
)
def test_columns_by_position_that_do_not_fit_their_roles_raise_an_error(row, tmp_path):
    lines = [row.format(u=k % 6, i=k % 7, k=k) for k in range(40)]
    (tmp_path / "log.txt").write_text("\n".join(lines))
    log = read_or_refuse(tmp_path / "log.txt", threshold="all")
    assert log is None or (log.n_users <= 6 and log.n_items <= 7)


def test_lines_of_a_user_and_its_items_are_pairs(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("0 1 2 3\n1 4 5\n2 1 2 3 4 5 6\n3 2\n4 1 3\n")
    assert len(ipseval.read(path)) == 14
    path.write_text("".join(f"{user} {user % 7} {user % 5 + 1} {user % 3 + 2}\n" for user in range(20)))
    with pytest.raises(ipseval.InputError, match="layout='adjacency'"):
        ipseval.read(path, threshold="all")
    assert len(ipseval.read(path, layout="adjacency", duplicates="keep")) == 60
    assert len(ipseval.read(path, layout="pairs")) == 20


@pytest.mark.parametrize("word", ["NA", "null", "None", "nan", "N/A", "NULL"])
def test_ids_such_as_NA_stay_unless_na_values_names_them(word, tmp_path):
    (tmp_path / "log.csv").write_text(f"user,item\na,{word}\na,y\n{word},y\n")
    log = ipseval.read(tmp_path / "log.csv")
    assert len(log) == 3
    assert len(ipseval.read(tmp_path / "log.csv", na_values=word, missing="drop")) == 1


@pytest.mark.parametrize("cell", ['"[3, 4, 5]"', "3 4 5", "3|4|5", "\"['3', '4', '5']\"", "N3 N4 N5"])
def test_each_entry_of_a_list_in_a_text_cell_becomes_a_row(cell, tmp_path):
    (tmp_path / "log.csv").write_text(f"user_id,items\n1,{cell}\n2,{cell}\n")
    log = ipseval.read(tmp_path / "log.csv")
    assert (len(log), log.n_items) == (6, 3)
    frame = pd.DataFrame({"user_id": [1, 2], "items": [cell.strip('"')] * 2})
    assert len(ipseval.read(frame)) == 6


@pytest.mark.parametrize("name", ["reviews.txt", "reviews.jl", "reviews.csv", "reviews", "reviews.parquet"])
def test_json_is_known_by_its_content(name, tmp_path):
    records = [{"user_id": f"n{k}", "item_id": f"i{k % 7}"} for k in range(30)]
    contents = [
        "\n".join(map(json.dumps, records)),
        json.dumps(records),
        json.dumps([list(record.values()) for record in records]),
        "\n".join(map(repr, records)),
    ]
    for content in contents:
        (tmp_path / name).write_text(content)
        assert ipseval.read(tmp_path / name).n_users == 30


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"ARROW1\0\0", "Feather"),
        (b"\x80\x04\x95.", "pickle"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"SQLite format 3\0", "SQLite"),
        (b"<!DOCTYPE html><html>", "HTML"),
        ("user,item\n1,2\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_the_error_for_other_files_names_their_format(content, words, tmp_path):
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(ipseval.InputError, match=words):
        ipseval.read(tmp_path / "log.csv")


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, *(pytest.param(pack, marks=pytest.mark.slow) for pack in (bz2.compress, lzma.compress))],
)
def test_a_file_that_decompresses_to_far_more_than_its_size_raises_an_error(pack, tmp_path):
    member = pack(b"1,2\n" * 2**18)  # the program that packs it is not what is tested
    (tmp_path / "log.csv").write_bytes(pack(b"user,item\n") + 128 * member + pack(b"3,4\n"))
    with pytest.raises(ipseval.InputError, match="unpacks to more than"):
        ipseval.read(tmp_path / "log.csv", duplicates="drop")


@pytest.mark.parametrize("column", ["value", "relevance", "plays", "rating"])
def test_a_value_of_zero_is_no_positive_in_any_source(column, tmp_path):
    frame = pd.DataFrame({"user": ["q1", "q1", "q2"], "item": ["d1", "d2", "d3"], column: [1, 0, 2]})
    frame.to_csv(tmp_path / "log.csv", index=False)
    mapping = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 2}}
    for source in (frame, tmp_path / "log.csv", mapping):
        log = ipseval.read(source)
        assert log.to_frame()["item"].tolist() == ["d1", "d3"]
        assert log.item_ids.tolist() == ["d1", "d2", "d3"]
        assert log.data.set_index("what").loc["rows with a value of 0, left out", "count"] == 1
        assert len(ipseval.read(source, threshold=0)) == 3


@pytest.mark.parametrize(("low", "step"), [(1, 1), (0.5, 0.5), (0, 1)])
def test_ratings_without_a_threshold_are_an_error_or_a_warning_where_they_are_named(low, step):
    ratings = low + step * (np.arange(20) % 5)
    frame = pd.DataFrame({"user": np.arange(20), "item": np.arange(20) % 4, "stars": ratings})
    with pytest.raises(ipseval.InputError, match=r"column 'stars'.*threshold='all'"):
        ipseval.read(frame)
    assert len(ipseval.read(frame, threshold="all")) == 20
    with pytest.warns(ipseval.errors.DataWarning, match="Low ratings count as positives"):
        log = ipseval.read(frame, value="stars")
    assert log.data["what"].str.contains("low ratings count as positives").any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(ipseval.read(frame.rename(columns={"stars": "plays"}))) == 20 - int((ratings == 0).sum())


@pytest.mark.parametrize(("last", "words"), [("TOTAL,5,9", "last row"), ("1.23457E+12,5,9", "spreadsheet")])
def test_footers_and_shortened_numbers_raise_an_error(last, words, tmp_path):
    lines = ["user,item,plays", *(f"{k},{k % 3},2" for k in range(9)), last]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    with pytest.raises(ipseval.InputError, match=words):
        ipseval.read(tmp_path / "log.csv")


def test_blanks_around_fields_are_removed_and_counted(tmp_path):
    (tmp_path / "log.csv").write_text("user_id , item_id\nu1, a \nu2 ,b\n")
    log = ipseval.read(tmp_path / "log.csv", item="item_id")
    assert (log.user_ids.tolist(), log.item_ids.tolist()) == (["u1", "u2"], ["a", "b"])
    assert log.data["what"].str.contains("blanks around them").sum() == 2


def test_the_separator_is_the_one_that_fits_most_lines_and_not_the_one_with_most_fields(tmp_path):
    # Tabs give two fields in all lines; bars give three fields in six of eight.
    titles = ["a|b|c", "d|e|f", "g|h|i", "j|k|l", "m|n|o", "p|q|r", "s"]
    lines = ["user\titem", *(f"u{number}\t{title}" for number, title in enumerate(titles))]
    (tmp_path / "log.tsv").write_text("\n".join(lines))
    log = ipseval.read(tmp_path / "log.tsv", item="item")
    assert set(log.item_ids.tolist()) == set(titles)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["folder/", "folder/log.csv"], None),
        (["log.json"], None),
        (["a.npy", "b.npy"], "holds arrays or a stored result"),
        (["a.npy", "b.json"], "holds arrays or a stored result"),
        (["a.npy", "b.csv"], r"holds 2 files \('a.npy', 'b.csv'\); unpack it and give one"),
        (["a.csv", "[Content_Types].xml"], "it is an Excel workbook or another office document"),
        (["mimetype"], "it is an Excel workbook or another office document"),
        (["folder/"], r"holds 0 files; unpack it"),
    ],
)
def test_an_archive_is_read_if_it_holds_a_single_file(members, message, tmp_path):
    path = tmp_path / "log.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, "" if member.endswith("/") else "user,item\n1,2\n")
    if message is None:
        assert len(ipseval.read(path)) == 1
        return
    with pytest.raises(ipseval.InputError, match=message):
        ipseval.read(path)


@pytest.mark.parametrize(("flags", "is_encrypted"), [(0, False), (1, True), (2, False), (3, True)])
def test_an_encrypted_archive_is_known_by_the_lowest_bit_of_its_flags(flags, is_encrypted, tmp_path):
    path = tmp_path / "log.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("log.csv", "user,item\n1,2\n")
    content = bytearray(path.read_bytes())
    content[6] = content[content.index(b"PK\x01\x02") + 8] = (
        flags  # of the member, and of the list of members
    )
    path.write_bytes(content)
    if not is_encrypted:
        assert len(ipseval.read(path)) == 1
        return
    with pytest.raises(ipseval.InputError, match="is encrypted; store it without a password"):
        ipseval.read(path)
