"""JSON, lists of items and decimal commas: rows, their order, and counts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ipseval
from ipseval import Lists
from ipseval.data.reading import read_attributes, read_ids

PAIRS = [["b", 9], ["b", 3], ["a", 9]]


def pairs(log: ipseval.Interactions) -> list[list[object]]:
    return log.to_frame()[["user", "item"]].to_numpy().tolist()


@pytest.mark.parametrize(
    "source",
    [
        {"b": [9, 3], "a": [9], "c": []},
        {"b": (9, 3), "a": np.array([9]), "c": ()},
        {"user": ["b", "a", "c"], "items": [[9, 3], [9], []]},
        pd.DataFrame({"user": ["b", "a", "c"], "item_id_list": [[9, 3], [9], []]}),
        pl.DataFrame({"user": ["b", "a", "c"], "movies": [[9, 3], [9], []]}),
        pl.DataFrame({"user": ["b", "a", "c"], "movies": [[9, 3], [9], []]}).to_pandas(
            use_pyarrow_extension_array=True
        ),
    ],
)
def test_a_row_of_lists_becomes_a_row_for_each_entry_in_its_order(source):
    log = ipseval.read(source)
    assert pairs(log) == PAIRS
    assert log.item_ids.dtype == np.int64
    assert log.data["what"].tolist()[1:] == ["empty lists, left out"]
    assert log.data["count"].tolist() == [3, 1]
    assert log.data["of"].tolist()[1] == 3


def test_lists_of_values_and_times_stay_beside_their_items():
    frame = pd.DataFrame(
        {"user": ["b", "a"], "items": [[9, 3], [9]], "stars": [[5, 1], [4]], "tags": [[1], []]}
    )
    log = ipseval.read(frame.assign(timestamps=[[2, 1], [3]]), threshold=4)
    assert log.to_frame().to_numpy().tolist() == [["b", 9, 5, 2], ["a", 9, 4, 3]]
    assert "; not read: 'tags'" in log.data["what"][0]
    value_log = ipseval.read(
        {"user": [1, 2], "items": [[1, 2], [3]], "stars": [[5, 4], None]}, missing="drop"
    )
    assert value_log.value.tolist() == [5, 4]  # what is missing is one entry
    assert ipseval.read({"b": [9]}).data["what"].tolist() == ["rows read from the data frame: user, item"]
    assert pairs(ipseval.read({"b": {9: 5.0, 3: 1.0}, "a": {9: 4.0}}, threshold=4)) == [["b", 9], ["a", 9]]


def test_the_places_in_lists_are_ranks_and_scores_go_before_them():
    split = ipseval.Split.from_frames(None, pd.DataFrame({"user": ["a"], "item": [3]}), items=[3, 7, 9])
    for source, place in (({"a": [9, 3, 7]}, 1), ({"a": {9: 1, 3: 5, 7: 2}}, 0)):
        frame = pd.DataFrame({"user": ["a"], "items": [list(source["a"])]})
        if isinstance(source["a"], dict):
            frame["scores"] = [list(source["a"].values())]
        for lists in (Lists(source), Lists(frame)):
            assert ipseval.rank_positives(lists, split).n_above.tolist() == [place]
    assert Lists({"a": [], "b": [1]}).data["what"].tolist()[1] == "empty lists, left out"


def test_a_mapping_with_a_name_of_a_column_is_one_of_columns():
    assert pairs(ipseval.read({"who": [1, 2], "what": [3, 4]}, user="who", item="what")) == [[1, 3], [2, 4]]
    assert read_ids({"who": [5], "age": [3]}, of="user", column="who").tolist() == [5]
    assert read_ids({"ann": [5, 7], "bob": [5]}).tolist() == [5, 7]
    for name in ("time", "ts"):
        with pytest.raises(ipseval.InputError, match="no column has a usual name of users"):
            ipseval.read({"u": [1, 1], "i": [3, 4], name: [5, 6]})
    with pytest.raises(ipseval.InputError, match="no column has a usual name of items"):
        ipseval.read(pd.DataFrame({"user": [1, 1], "items": [3, 4]}))  # a plural is a name of lists alone
    with pytest.raises(ipseval.InputError, match="rows repeat an earlier user–item pair"):
        ipseval.read({"u": [1, 1], "i": [3, 4]})  # no name is usual: two users, one of them with 1 twice


def test_attributes_that_are_lists_stay_lists():
    frame = read_attributes(pd.DataFrame({"item": [1, 2], "genres": [["noir"], ["drama", "war"]]}))
    assert frame["genres"].tolist() == [["noir"], ["drama", "war"]]


def test_ids_in_json_are_what_they_are_but_names_are_numbers_where_all_are_written_as_such(tmp_path):
    path = tmp_path / "log.json"
    big = 2**53 + 1
    for content, users, items in (
        ({"7": [big], "10": [3]}, [7, 10], [3, big]),
        ({"007": ["1"], "7": ["2"]}, ["007", "7"], ["1", "2"]),
        ([{"user": "7", "item": big}, {"user": "10", "item": None}], ["7"], [big]),
        ({"user": {"0": "7", "1": "10"}, "item": {"0": 1, "1": 2}}, ["10", "7"], [1, 2]),
        ({"schema": {}, "columns": ["user", "item"], "data": [[1, 2]]}, [1], [2]),
    ):
        path.write_text("\ufeff" + json.dumps(content), encoding="utf-8")
        log = ipseval.read(path, missing="drop")
        assert (log.user_ids.tolist(), log.item_ids.tolist()) == (users, items)


def test_ids_of_tuples_beyond_the_doubles_stay_exact_next_to_a_missing_id():
    big = 2**53 + 1
    log = ipseval.read([("a", big), ("b", None), ("b", 3)], missing="drop")
    assert log.item_ids.tolist() == [3, big]
    assert ipseval.read([("a", 2), ("b", None)], missing="drop").item_ids.tolist() == [2]


def test_decimal_commas_are_read_where_they_cannot_be_thousands(tmp_path):
    (tmp_path / "log.csv").write_text("Kunde;Ware;Wann;rating\nK1;4;2026-03-01;4,5\nK2;5;2026-03-02;1,125\n")
    log = ipseval.read(tmp_path / "log.csv", user="Kunde", item="Ware", timestamp="Wann")
    assert log.value.tolist() == [4.5, 1.125]
    assert "rating → value with decimal commas" in log.data["what"][0]
    for written, expected in ((["0,125", "-3"], [0.125, -3]), ([",5", "1e3"], [0.5, 1000])):
        frame = pd.DataFrame({"user": [1, 2], "item": [1, 2], "rating": written})
        assert ipseval.read(frame).value.tolist() == expected
    # 2^19 cells, which pandas would read in two pieces: one with whole numbers and a gap, 4.0, and the other.
    others = [f"other{place}" for place in range(62)]
    rows = ["-1;1;", *["1;1;4"] * 8192, "-2;1;4,5"]
    lines = [";".join(["user;item;value", *others]), *(row + ";" * len(others) for row in rows)]
    (tmp_path / "large.csv").write_text("\n".join(lines))
    assert ipseval.read(tmp_path / "large.csv", missing="drop", duplicates="drop").value.max() == 4.5
    lists = Lists(pd.DataFrame({"user": [1, 1], "item": [1, 2], "score": ["0,5", "0,75"]}))
    assert lists.entries.order.tolist() == [-0.5, -0.75]


def test_a_column_that_says_when_something_was_bought_holds_times():
    when = pd.to_datetime(["2026-03-01", "2026-03-02"])
    log = ipseval.read(pd.DataFrame({"customer_id": [1, 2], "sku": ["a", "b"], "purchased_at": when}))
    assert log.timestamp is not None


def test_a_header_of_any_names_is_found_above_times_and_decimal_commas(tmp_path):
    for row in ("K1;W4;2026-03-01T10:00:00Z", "K1;W4;4,5"):
        (tmp_path / "log.csv").write_text(f"Kunde;Ware;Spalte\n{row}\n")
        assert len(ipseval.read(tmp_path / "log.csv", user="Kunde", item="Ware")) == 1
        (tmp_path / "log.csv").write_text(f"{row}\n")
        assert ipseval.read(tmp_path / "log.csv").user_ids.tolist() == ["K1"]


def test_dates_are_found_however_rows_are_labelled():
    days = np.array(["2026-03-01", "2026-03-02"], dtype="datetime64[D]")
    for index in ([0, 1], [5.0, 6.0], ["b", "a"]):  # pandas before 3 slices fractions by label
        frame = pd.DataFrame({"user": [1, 2], "item": [1, 2], "time": days.astype(object)}, index=index)
        assert ipseval.read(frame).timestamp.tolist() == days.astype("datetime64[ns]").astype(int).tolist()


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.int32])
def test_whole_numbers_of_every_size_are_kept_in_64_bits(kind):
    log = ipseval.read(
        {"user": [1, 2], "item": [1, 2], "value": np.array([1, 0], dtype=kind)}, threshold="all"
    )
    assert (log.value.tolist(), log.value.dtype) == ([1, 0], np.int64)


def test_a_zero_with_a_sign_is_no_click():
    log = ipseval.read({"user": [1, 2], "item": [1, 2], "clicked": [-0.0, 1.0]})
    assert log.clicked.tolist() == [False, True]


@pytest.mark.parametrize("n_columns", [2, 3, 4])
def test_lists_of_json_have_columns_by_position(n_columns, tmp_path):
    rows = [["a", "x", 4, 1_500_000_000], ["a", "y", 5, 1_500_000_001], ["b", "x", 3, 1_500_000_002]]
    path = tmp_path / "log.json"
    path.write_text(json.dumps([row[:n_columns] for row in rows]))
    log = ipseval.read(path, threshold="all")
    assert log.to_frame()[["user", "item"]].to_numpy().tolist() == [row[:2] for row in rows]
    assert (log.value is None) == (n_columns < 3)
    assert (log.timestamp is None) == (n_columns < 4)
