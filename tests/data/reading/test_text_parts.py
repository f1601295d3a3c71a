"""Parts of the reading of text: separators, headers, quotation marks, spellings of numbers, and ids."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from tests.inside.data import (
    START,
    are_records,
    are_whole_numbers,
    content_module,
    count_fields,
    decode_start,
    encode_id_column,
    find_layout,
    find_places,
    find_quoting,
    find_separator,
    has_header,
    is_in_usual_spelling,
    is_regular,
    open_records,
    read_bytes,
    read_start,
    refuse_foreign,
    split_fields,
    sum_field_lengths,
    sum_lengths_of_numbers,
)

COMMA = ord(",")


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["1,2", "3,4"], ","),
        (["1\t2,5", "3\t4,5"], "\t"),
        (["1::2::3", "4::5::6"], "::"),
        (["1|2", "3|4"], "|"),
        (["1;2,5;3", "4;5,5;6"], ";"),
        (["1 2", "3 4"], r"\s+"),
        (["a, b c", "d e"], ","),  # half of the lines have it
        (["a, b c", "d e", "f g"], r"\s+"),
        (["1,2,3", "1,2", "1,2,3,4", "5"], ","),  # lines of many lengths
        (["only"], r"\s+"),
    ],
)
def test_the_separator_gives_most_lines_one_number_of_fields(lines, separator):
    assert find_separator(lines) == separator


def test_fields_lose_the_marks_that_enclose_them_where_the_line_is_well_formed():
    assert split_fields('1,"a, b",2', ",") == ["1", "a, b", "2"]
    assert split_fields('1,"a,2', ",") == ["1", '"a', "2"]
    assert split_fields("a  b\tc", r"\s+") == ["a", "b", "c"]
    assert split_fields('"a"::"b"', "::") == ['"a"', '"b"']


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["user", "item"], ["a", "b"]], True),
        ([["user", "thing"], ["user", "b"]], None),
        ([["user", "item"], ["user", "b"]], True),
        ([["user", "thing"], ["a", "b"]], True),
        ([["1", "item"], ["2", "3"]], False),
        ([["who", "what"], ["1", "2"]], True),
        ([["who", "what"], ["a", "2"], ["b", ""]], True),
        ([["who", "what"], ["a", "b"]], None),
        ([["who", "what"], ["a", "what"]], False),
        ([["who", "what"], ["what", "a"]], None),
        ([["who", "what"], ["7", "8", "9"]], None),  # a row of another length tells nothing
        ([["who", "when"], ["a", "2026-03-01T12:00"]], True),
        ([["", "what"], ["1", "a"]], True),
        ([["2026-03-01", "a"], ["2026-03-02", "b"]], False),
    ],
)
def test_the_first_row_names_columns_by_usual_names_or_above_numbers(rows, expected):
    assert has_header(rows) is expected


@pytest.mark.parametrize(
    ("content", "quoting"),
    [
        (b"a,b\n", "none"),
        (b'"a",b\n', "records"),
        (b'"a\nb",c\n', "records"),
        (b'a,"b""c"\n', "records"),
        (b'a,5" disk\n', "lines"),
        (b'a,5" disk and 6"\n', "lines"),
        (b'a,5" disk\n"b,c\n', "none"),
        (b'a,"b" c\n', "none"),
        (b'a,"b\n', "none"),
    ],
)
def test_marks_enclose_fields_of_records_or_of_lines_or_no_fields(content, quoting):
    assert find_quoting(content, COMMA) == quoting


@pytest.mark.parametrize("quoting", ["none", "records", "lines"])
def test_fields_of_records_are_counted_as_by_the_csv_module(quoting):
    rows = [["a", "b,c"], ["d", "e\nf", "g"], [""], ["h", 'i"j', "", "k"]]
    if quoting == "lines":
        rows[1][1] = "e f"
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(
        rows if quoting != "none" else [["a", "b"], ["c"], ["", "", ""]]
    )
    counts = [2, 3, 1, 4] if quoting != "none" else [2, 1, 3]
    assert count_fields(stream.getvalue().encode(), COMMA, quoting).tolist() == counts


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"1,2\n3,4\n", True),
        (b"1,2\n3,4,5\n", False),
        (b"1,2\n3\n", False),
        (b'1,2\n"3",4\n', False),
        (b"1,2\n\n", False),
    ],
)
def test_a_text_is_regular_if_every_line_has_the_same_fields_without_marks(content, expected):
    assert is_regular(content, COMMA, 2) is expected


def test_lengths_of_fields_are_summed_over_lines_of_any_length():
    rng = np.random.default_rng(0)
    rows = [["x" * rng.integers(0, 9) for _ in range(3)] for _ in range(200)]
    content = "".join(",".join(row) + "\n" for row in rows).encode()
    expected = [sum(len(row[column]) for row in rows) for column in range(3)]
    assert sum_field_lengths(content, COMMA, 3).tolist() == expected


@pytest.mark.parametrize(
    "values",
    [
        [0],
        [0, 0, -5],
        [-1, 5],
        [7, 10, 99, 100, -1, -10, -999],
        [10**18 - 1, -(10**18) + 1],
        [9, 10],
        [999, 1000],
        [],
    ],
)
def test_numbers_have_as_many_letters_as_their_text(values):
    array = np.array(values, dtype=np.int64)
    expected = sum(len(str(value)) for value in values)
    assert sum_lengths_of_numbers(array) == expected
    assert is_in_usual_spelling(pd.Series(array), expected) is bool(values)
    assert not is_in_usual_spelling(pd.Series(array), expected + 1)


def test_only_whole_numbers_of_eighteen_digits_have_a_usual_spelling():
    assert not is_in_usual_spelling(pd.Series([10**18]), 19)
    assert not is_in_usual_spelling(pd.Series([-(10**18)]), 20)
    assert not is_in_usual_spelling(pd.Series([1.0]), 1)
    assert are_whole_numbers(["0", "-7", "123456789012345678"])
    for cell in ("007", "+7", "7.0", "-0", "1234567890123456789", ""):
        assert not are_whole_numbers([cell])
    assert not are_whole_numbers([])


def encode(cells: list[object], **options: object):
    return encode_id_column(nw.from_native(pd.Series(cells), series_only=True), "column 'id'", **options)


def test_ids_of_text_files_are_numbers_if_all_are_written_as_distinct_ones():
    column = encode(["10", "9", None, "9"], from_text=True)
    assert column.ids.ids.tolist() == [9, 10]
    assert column.ids.codes.tolist() == [1, 0, -1, 0]
    assert encode(["10.0", "9"], from_text=True).ids.ids.tolist() == [9, 10]
    assert encode(["7", "7.0"], from_text=True).ids.ids.tolist() == ["7", "7.0"]
    assert encode(["10", "9"]).ids.ids.tolist() == ["10", "9"]
    assert encode([10.0, 9.0, None]).ids.ids.tolist() == [9, 10]
    assert encode([1.5, 9.0]).ids.ids.tolist() == [1.5, 9.0]


def test_blanks_around_ids_are_removed_and_counted():
    for options in ({"from_text": True}, {"strip": True}):
        column = encode(["a", " a", "b ", "c", None, " "], **options)
        assert column.ids.ids.tolist() == ["a", "b", "c"]
        assert column.ids.codes.tolist() == [0, 0, 1, 2, -1, -1]
        assert [(count.count, count.total) for count in column.counts] == [(3, 6)]
    assert encode(["a", " a"]).ids.ids.tolist() == [" a", "a"]
    assert encode(["a", "b"], strip=True).counts == ()


def test_named_words_and_numbers_are_missing_ids():
    column = encode(["a", "NA", "b", "NA"], na_values=("NA",))
    assert column.ids.ids.tolist() == ["a", "b"]
    assert column.ids.codes.tolist() == [0, -1, 1, -1]
    column = encode([-1, 5, 7], na_values=("-1",))
    assert column.ids.ids.tolist() == [5, 7]
    assert column.ids.codes.tolist() == [-1, 0, 1]
    assert encode(["a"], na_values=("NA",)).ids.ids.tolist() == ["a"]


@pytest.mark.parametrize(
    ("cells", "description"),
    [
        (["1.23457E+12", "7"], "numbers that a spreadsheet has shortened (1 of 2 ids: '1.23457E+12')"),
        (["[1, 2]", "7"], "one id in each cell, or a list in each; got both (1 of 2 ids: '[1, 2]')"),
        (["05 07", "x"], "got both (1 of 2 ids: '05 07')"),
        (['"a', "b", "c"], "quotation marks; got some, because they are not balanced (1 of 3 ids: '\"a')"),
        (["7", "8", "Total"], "got a line such as 'Total' in column 'id'"),
        (["a", "b", "-- end"], "got a line such as '-- end'"),
        (["a", "b", "(end"], "got a line such as '(end'"),
        (["7", "8", "exported by me"], "got a line such as 'exported by me'"),
    ],
)
def test_ids_of_text_files_that_are_no_ids_are_described(cells, description):
    problems = encode(cells, from_text=True).problems
    assert len(problems) == 1
    assert description in problems[0].description


@pytest.mark.parametrize(
    "cells",
    [
        ["a", "b", "c"],
        ["Total", "7", "8"],  # it is not the last row
        ["Total", "7", "Total"],  # nor the only one
        ["7", "a"],  # of two ids one may be text
        ["7", "8", "B0X1"],  # it ends as an id does
        ["7", "x", "abc"],  # others are text as well
        ["7", "8", None],
        ["a title", "another title"],
        ["1E5", "7x"],
    ],
)
def test_other_ids_of_text_files_have_no_problem(cells):
    assert encode(cells, from_text=True).problems == ()


def test_numbers_in_text_are_found_among_whole_numbers():
    ids = np.array(["B0X", "7", "007", "9.0", "11"], dtype=object)
    universe = np.array([9, 7, 5])
    assert find_places(ids, universe, "column 'id'", from_text=True).tolist() == [-1, 1, -1, 0, -1]
    numbers = np.array([5, 6])
    assert find_places(numbers, universe, "column 'id'", from_text=True).tolist() == [2, -1]
    with pytest.raises(InputError, match="column 'id'"):
        find_places(ids, universe, "column 'id'", from_text=False)
    assert find_places(numbers, universe, "column 'id'", from_text=False).tolist() == [2, -1]
    text_universe = np.array(["7", "B0X"], dtype=object)
    places = find_places(ids, text_universe, "column 'id'", from_text=True)
    assert places.tolist() == [1, 0, -1, -1, -1]


def test_a_tar_archive_is_known_by_its_mark_at_byte_257():
    path = Path("log.csv")
    with pytest.raises(InputError, match="it is a tar archive"):
        refuse_foreign(path, b"x" * 257 + b"ustar" + b"x" * 100, "utf-8")
    for text in (b"x" * 257 + b"vwxyz", b"x" * 257 + b"apple", b"x" * 256 + b"ustar", b"x" * 258 + b"ustar"):
        refuse_foreign(path, text, "utf-8")


def test_the_start_of_a_file_that_continues_ends_with_its_last_complete_line():
    assert decode_start(b"a,b\r\nc,d\re", "utf-8") == "a,b\nc,d\ne"
    assert decode_start("\ufeffa".encode(), "utf-8") == "a"
    n_lines = START // 4
    assert decode_start(b"a,b\n" * (n_lines - 1) + b"c,de", "utf-8") == "a,b\n" * (n_lines - 1)
    assert decode_start(b"a,b\n" * (n_lines - 1) + b"c,d", "utf-8") == "a,b\n" * (n_lines - 1) + "c,d"
    assert decode_start(b"a" * START, "utf-8") == "a" * START


@pytest.mark.parametrize("end", ["", "\n", "\nben,6 7\n", "\nben,6 7"])
@pytest.mark.parametrize("n_digits", [1, 30_000])
def test_a_list_longer_than_64_kilobytes_is_read_with_or_without_a_newline_at_the_end(
    n_digits, end, tmp_path
):
    items = [str(number) * n_digits for number in (1, 2, 3)]
    path = tmp_path / "log.csv"
    path.write_text("user,items\nanna," + " ".join(items) + end)
    log = ipseval.read(path)
    assert (log.n_users, len(log)) == ((2, 5) if "ben" in end else (1, 3))
    assert log.item_ids[log.item[:3]].astype(str).tolist() == items
    long_line = b"a,b\n" * 2 + b"c" * 70_000
    assert decode_start(long_line, "utf-8") == long_line.decode()


def test_tuples_have_a_layout_without_a_header_in_which_missing_cells_are_empty():
    records = [("a", 1, None), ("b", 2.5, float("nan")), ["c", pd.NA, pd.NaT], ("d", np.float32("nan"), True)]
    source = open_records(records, "the log")
    assert source.layout.rows == (("a", "1", ""), ("b", "2.5", ""), ("c", "", ""), ("d", "", "True"))
    assert not source.layout.header
    assert source.columns == source.layout.columns == ("column 1", "column 2", "column 3")
    assert source.load(["column 1"], [])["column 1"].to_list() == ["a", "b", "c", "d"]
    with pytest.raises(InputError, match="must have one length; got lengths 2 to 3"):
        open_records([("a", 1), ("b", 2, 3)], "the log")


def test_records_are_lists_of_tuples_of_two_entries_or_more():
    assert are_records([("a", "b"), ["a", "b", "c"]])
    for source in ([], [("a",)], [("a", "b"), "cd"], (("a", "b"),), "ab", [["a", "b"], ["c"]]):
        assert not are_records(source)


def test_blanks_are_part_of_ids_in_memory():
    log = ipseval.read(pd.DataFrame({"user": ["a", " a"], "item": ["x", "x"]}))
    assert log.user_ids.tolist() == [" a", "a"]


def test_an_id_that_is_no_usual_number_is_found_after_the_first_lines(tmp_path):
    path = tmp_path / "log.csv"
    numbers = [f"{row},{row % 600}" for row in range(1000)]
    path.write_text("user,item\n" + "\n".join([*numbers, "1001,007"]) + "\n")
    log = ipseval.read(path)
    assert log.n_items == 601
    assert log.item_ids[log.item[-1]] == "007"
    assert (log.user_ids.dtype, log.item_ids.dtype) == (np.int64, object)
    path.write_text("user,item\n" + "\n".join([*numbers, "1001,7"]) + "\n")
    log = ipseval.read(path)
    assert log.n_items == 600
    assert log.item_ids.dtype == log.user_ids.dtype == np.int64


def test_blocks_below_a_number_are_refused_unless_the_layout_is_stated(tmp_path):
    path = tmp_path / "ratings.txt"
    path.write_text("17:\n5,3\n8,4\n")
    with pytest.raises(InputError, match="got blocks below lines such as '17:'"):
        find_layout(path, None, None, "utf-8")
    assert find_layout(path, ",", None, "utf-8", "pairs").columns == ("column 1",)


@pytest.mark.parametrize(
    ("n_newlines", "is_whole"), [(0, True), (1, True), (2, True), (3, False), (9, False)]
)
def test_the_start_of_a_file_is_64_kilobytes_or_all_of_fewer_than_three_lines(n_newlines, is_whole, tmp_path):
    content = b"a\n" * n_newlines + b"a" * 70_000
    (tmp_path / "log").write_bytes(content)
    assert read_start(tmp_path / "log") == (content if is_whole else content[:65_536])
    (tmp_path / "short").write_bytes(content[:65_536])
    assert read_start(tmp_path / "short") == content[:65_536]


@pytest.mark.parametrize(("surplus", "is_read"), [(0.5, True), (-0.5, False)])
@pytest.mark.parametrize("by_ratio", [True, False])
def test_a_file_unpacks_to_as_many_bytes_as_the_limits_allow(
    surplus, is_read, by_ratio, tmp_path, monkeypatch
):
    content = b"user,item\n" + b"1,2\n" * 500
    path = tmp_path / "log.csv"
    path.write_bytes(gzip.compress(content))
    n_stored = path.stat().st_size
    limit = len(content) + surplus
    monkeypatch.setattr(content_module, "CHUNK", 1_000)
    monkeypatch.setattr(content_module, "SMALL", 1 if by_ratio else limit)
    monkeypatch.setattr(content_module, "MAX_RATIO", limit / n_stored if by_ratio else 1)
    if is_read:
        assert read_bytes(path) == content
        return
    with pytest.raises(InputError, match=rf"has {n_stored} bytes and unpacks to more than 2,009\."):
        read_bytes(path)


def test_pickles_of_protocols_2_to_5_are_known_by_their_first_two_bytes():
    for protocol in range(2, 6):
        with pytest.raises(InputError, match="it is a pickle, which is never loaded"):
            refuse_foreign(Path("log"), b"\x80" + bytes([protocol]) + b"x", "utf-8")
    for start in (b"\x80\x01", b"\x80\x06", b"x\x80\x04", b"\x81\x04"):
        refuse_foreign(Path("log"), start, "utf-8")


def test_a_layout_has_the_first_500_lines():
    records = [(f"u{row}", row) for row in range(600)]
    assert open_records(records, "the log").layout.rows == tuple((f"u{row}", str(row)) for row in range(500))


@pytest.mark.parametrize("extra", ["", "\n\n"])
def test_a_layout_of_a_file_has_its_first_500_lines_that_are_not_blank(extra, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(f"{extra}u,1\n" * 600)
    layout = find_layout(path, None, False, "utf-8")
    assert layout.rows == (("u", "1"),) * 500
    assert (layout.columns, layout.header) == (("column 1", "column 2"), False)


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["1 5 6", "2", "3 5", "4 6 7 8"], "table"),  # of four lines
        (["1 5 6", "2", "3 5", "4 6 7 8", "5 1"], "adjacency"),
        ([*(f"{user} 5 6" for user in range(8)), "8 1", "9"], "adjacency"),  # eight of ten of one length
        ([*(f"{user} 5 6" for user in range(9)), "9"], "table"),
        (["1 5 6", "2", "3 5", "4 6 7 8", "4 1"], "table"),  # two lines of a user
        (["1 5 6", "2", "3 5", "4 6 7 8", "5 a"], "table"),
        (["1 5 6", "2", "3 5", "4 6 7 8", "5 -1"], "table"),
    ],
)
def test_lines_of_a_user_and_its_items_have_many_lengths(lines, name, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    layout = find_layout(path, " ", None if name == "adjacency" else False, "utf-8")
    assert layout.name == name
    assert find_layout(path, " ", True, "utf-8").name == "table"


# The bytes beside a comma (44), a newline (10) and a quotation mark (34), which are letters of a field.
NEIGHBOURS = bytes((9, 11, 33, 35, 43, 45)).decode()


@pytest.mark.parametrize("quoting", ["none", "records", "lines"])
def test_only_separators_newlines_and_quotation_marks_divide_a_text(quoting):
    cell = f"a{NEIGHBOURS}b"
    content = f"{cell},{cell},c\nd,{cell},e\n".encode()
    assert count_fields(content, COMMA, quoting).tolist() == [3, 3]
    assert is_regular(content, COMMA, 3)
    assert sum_field_lengths(content, COMMA, 3).tolist() == [len(cell) + 1, 2 * len(cell), 2]
    assert find_quoting(content, COMMA) == "none"
    quoted = content.replace(cell.encode(), f'"{cell}"'.encode())
    assert find_quoting(quoted, COMMA) == "records"
    assert count_fields(quoted, COMMA, quoting).tolist() == [3, 3]


def test_the_error_of_lines_with_other_numbers_of_fields_lists_three_of_them(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\n1,2\n1,2,3\n4\n5,6\n1,2,3,4\n7\n")
    with pytest.raises(InputError) as error:
        ipseval.read(path)
    lines = "4 of 7 lines (line 3 has 3, line 4 has 1, line 6 has 4)"
    assert f"each line must have 2 fields, as the first; got another number in {lines}. Correct" in str(
        error.value
    )
    path.write_text('user,item\n1,"2\n1,2,3\n')
    with pytest.raises(
        InputError, match=r"1 of 3 lines \(line 3 has 3\); its quotation marks are not balanced"
    ):
        ipseval.read(path)


def test_a_line_that_repeats_the_header_is_found_by_its_row(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\n" + "".join(f"u{row},i{row % 3}\n" for row in range(7)) + "user,item\n")
    with pytest.raises(InputError) as error:
        ipseval.read(path)
    for name in ("user", "item"):
        assert f"row 7 of column {name!r} repeats the header" in str(error.value)


@pytest.mark.parametrize(("n_rows", "is_read"), [(2_000, False), (2_001, True)])
def test_all_rows_of_a_file_of_more_than_2000_decide_whether_its_ids_repeat(n_rows, is_read, tmp_path):
    # In a file of five columns without a header, other columns are typical ids: they repeat.
    items = [*(f"i{row}" for row in range(n_rows - 1)), "i0"]
    rows = [f"u{row // 9}\t{item}\tc{row % 3}\td{row % 4}\te{row % 5}\n" for row, item in enumerate(items)]
    path = tmp_path / "log.txt"
    path.write_text("".join(rows))
    if is_read:
        assert ipseval.read(path, header=False).n_items == n_rows - 1
        return
    with pytest.raises(InputError, match="'column 2' as item holds another value in each row"):
        ipseval.read(path, header=False)
