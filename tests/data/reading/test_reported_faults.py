"""Kinds of files that other readers took for another log: each is read as it is meant, or refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval

PAIRS = [(user, item) for user in range(1, 11) for item in range(20, 27)]
START = 1_500_000_000


def write(folder: Path, text: str, name: str = "log.txt") -> Path:
    (folder / name).write_text(text)
    return folder / name


def pairs(log: ipseval.Interactions) -> list[tuple[str, str]]:
    frame = log.to_frame()
    return list(zip(frame["user"].astype(str), frame["item"].astype(str), strict=True))


AS_TEXT = [(str(user), str(item)) for user, item in PAIRS]


@pytest.mark.parametrize("marks", [(0,), (3, 4), (5, 20), (1, 9, 30)])
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_marks_before_titles_swallow_no_rows(marks, separator, tmp_path):
    rows = [("user", "title", "item")]
    rows += [(u, '"Inches' if row in marks else "x", i) for row, (u, i) in enumerate(PAIRS)]
    text = "".join(separator.join(map(str, row)) + "\n" for row in rows)
    path = write(tmp_path, text)
    try:
        log = ipseval.read(path)
    except ipseval.InputError:  # any other exception fails the test
        return
    assert pairs(log) == AS_TEXT


@pytest.mark.parametrize(
    "time", ["2014-04-07T10:{:02d}:51Z", "2014-04-07 10:{:02d}:51", "7/4/2014 10:{:02d}"]
)
def test_written_times_at_the_position_of_items_raise_an_error(time, tmp_path):
    rows = [f"{user},{time.format(row % 60)},{item},0\n" for row, (user, item) in enumerate(PAIRS)]
    path = write(tmp_path, "".join(rows))
    with pytest.raises(ipseval.InputError, match="item"):
        ipseval.read(path)
    log = ipseval.read(path, user="column 1", item="column 3", ignore=["column 2", "column 4"])
    assert pairs(log) == AS_TEXT


def test_written_times_below_a_header_of_ids_raise_an_error_unless_the_caller_names_the_column(tmp_path):
    rows = [f"2024-01-{1 + row % 28:02d},u{row % 7},{1 + row % 5}\n" for row in range(60)]
    path = write(tmp_path, "item_id,user_id,plays\n" + "".join(rows))
    with pytest.raises(ipseval.InputError, match="'item_id' as item holds times"):
        ipseval.read(path)
    log = ipseval.read(path, item="item_id", user="user_id", ignore=["plays"], duplicates="keep")
    assert set(log.item_ids) == {row[:10] for row in rows}


@pytest.mark.parametrize("clock", ["10:{:02d}:07", "10:00:{:02d}", "10:{:02d}"])
def test_colons_of_clocks_are_no_separator(clock, tmp_path):
    times = [f"2017-07-13 {clock.format(row % 60)}" for row in range(len(PAIRS))]
    rows = [f"{u}::{i}::4::{time}\n" for (u, i), time in zip(PAIRS, times, strict=True)]
    log = ipseval.read(write(tmp_path, "".join(rows)), threshold="all")
    assert pairs(log) == AS_TEXT
    assert log.timestamp.tolist() == pd.to_datetime(times).as_unit("ns").astype(np.int64).tolist()


@pytest.mark.parametrize("size", [2, 3, 6])
def test_lists_of_neighbours_of_one_length_are_refused_or_read_whole(size, tmp_path):
    lines = [f"{user} " + " ".join(str((user * 3 + k) % 19) for k in range(size)) for user in range(30)]
    path = write(tmp_path, "\n".join(lines) + "\n")
    with pytest.raises(ipseval.InputError, match="adjacency"):
        ipseval.read(path)
    assert len(ipseval.read(path, layout="adjacency")) == 30 * size


@pytest.mark.parametrize("text", ["1 2 3\n2 4 5 6\n3 1\n", "1\t2\n2\t4\t5\n3\t1\n", "1 2\n2 4 5\n"])
def test_short_lists_of_neighbours_name_the_way_to_read_them(text, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(ipseval.InputError, match=r"layout='adjacency'.*load_adjacency"):
        ipseval.read(path)
    n_pairs = sum(len(line.split()) - 1 for line in text.splitlines())
    assert len(ipseval.read(path, layout="adjacency")) == n_pairs


@pytest.mark.parametrize("gains", [(-1.0, 2.0, 1.0), (1.0, -3.0, 1.0), (1.0, 5000.0, 1.0)])
def test_gains_outside_the_domain_of_ndcg_raise_an_error(gains):
    train = pd.DataFrame({"user": [1, 2], "item": [9, 9]})
    frame = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 3], "gain": gains})
    split = ipseval.Split.from_frames(
        train, ipseval.read(frame, value="gain", threshold="all"), items=[1, 2, 3, 9]
    )
    scores = {"m": np.array([[3.0, 2, 1, 0], [1, 2, 3, 0]])}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ipseval.InputError):
            ipseval.evaluate(scores, split, metrics=["ndcg(gain=exponential)@3"])


@pytest.mark.parametrize(
    "cells", [('"[3, 4]"', '"[4]"'), ("03 04", "04"), ("\"['a', 'b']\"", "\"['b']\""), ("3|4", "4")]
)
def test_each_entry_of_a_list_in_a_cell_becomes_a_row(cells, tmp_path):
    path = write(tmp_path, f"user,items\n1,{cells[0]}\n2,{cells[1]}\n")
    assert len(ipseval.read(path, item="items")) == 3


@pytest.mark.parametrize("word", ["NA", "null", "None", "nan", "N/A", "NULL"])
def test_words_for_missing_entries_are_ids_unless_told(word, tmp_path):
    path = write(tmp_path, f"user,item\nu1,{word}\nu2,{word}\nu1,y\n")
    assert pairs(ipseval.read(path)) == [("u1", word), ("u2", word), ("u1", "y")]
    assert len(ipseval.read(path, na_values=word, missing="drop")) == 1


@pytest.mark.parametrize("name", ["log.txt", "log.jl", "log.csv", "log.dat", "log"])
@pytest.mark.parametrize("dump", [json.dumps, repr])
def test_records_are_known_by_their_content(name, dump, tmp_path):
    text = "".join(dump({"user": f"u{user}", "item": f"i{item}"}) + "\n" for user, item in PAIRS)
    assert pairs(ipseval.read(write(tmp_path, text, name))) == [(f"u{u}", f"i{i}") for u, i in PAIRS]


@pytest.mark.parametrize(
    "first", ["{row},U{user},{time} AM,N{item} N2", "{row}\tU{user}\t{time}\tN{item}\tx"]
)
def test_users_of_a_wide_file_are_no_items(first, tmp_path):
    lines = [
        first.format(row=row, user=user, item=item, time=f"11/15/2019 9:{row % 60:02d}") + "\n"
        for row, (user, item) in enumerate(PAIRS)
    ]
    with pytest.raises(ipseval.InputError):
        ipseval.read(write(tmp_path, "".join(lines)))


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000])
def test_times_before_ratings_are_no_ratings(unit, tmp_path):
    lines = [f"u{u},i{i},{(START + row) * unit},{row % 5 + 1}\n" for row, (u, i) in enumerate(PAIRS)]
    path = write(tmp_path, "".join(lines))
    with pytest.raises(ipseval.InputError, match="column 4"):
        ipseval.read(path, threshold=1)
    log = ipseval.read(path, timestamp="column 3", value="column 4", threshold="all")
    assert (log.timestamp // 10**9).tolist() == [START + row for row in range(len(PAIRS))]


@pytest.mark.parametrize("name", ["overall", "stars", "rating", "review_overall"])
def test_ratings_do_not_count_without_a_word(name):
    frame = pd.DataFrame(PAIRS, columns=["user", "item"]).assign(**{name: [row % 5 + 1 for row in range(70)]})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ipseval.errors.DataWarning)
        with pytest.raises((ipseval.InputError, ipseval.errors.DataWarning), match="threshold"):
            ipseval.read(frame)
    assert len(ipseval.read(frame, threshold=4)) == 28


@pytest.mark.parametrize("separator", [", ", " ,", "; ", " | "])
def test_blanks_beside_separators_belong_to_no_cell(separator, tmp_path):
    rows = [("user", "item"), *PAIRS]
    log = ipseval.read(write(tmp_path, "".join(f"{u}{separator}{i}\n" for u, i in rows)), item="item")
    assert log.item_ids.tolist() == list(range(20, 27))


@pytest.mark.parametrize("strange", ["B0X", "x", "007a"])
def test_a_text_id_in_lists_beside_whole_numbers_can_be_left_out(strange, tmp_path):
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": [1, 2], "item": [11, 12]}), pd.DataFrame({"user": [1, 2], "item": [12, 11]})
    )
    path = write(tmp_path, f"user,item,rank\n1,12,1\n1,{strange},2\n2,11,1\n", "lists.csv")
    lists = ipseval.read_lists(path, unknown="drop")
    frame = ipseval.evaluate({"m": lists}, split, metrics=["recall@1"], estimators=["aoa"]).frame
    assert frame["estimate"].iloc[0] == 1
