"""`read` gives the same log from every kind of source, and reports the roles of the columns."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import ipseval
from tests.inside.data import ReadOptions, find_layout, open_source

FRAME = pd.DataFrame(
    {
        "user_id": ["u2", "u1", "u2", "u3"],
        "sku": [7, 7, 3, 11],
        "ts": pd.to_datetime(
            ["2026-03-01 10:00", "2026-03-01 11:00", "2026-03-02 09:30:01", "2026-03-03"],
            utc=True,
            format="ISO8601",
        ),
        "rating": [5.0, 4.0, 3.5, 1.0],
    }
)
TIMES = [1772359200, 1772362800, 1772443801, 1772496000]  # `date -u -d …` in seconds


def write_csv(folder: Path, sep: str, name: str) -> Path:
    FRAME.to_csv(folder / name, sep=sep, index=False)
    return folder / name


def write_compressed(folder: Path, name: str, sep: str, open_: object) -> Path:
    content = write_csv(folder, sep, "log.csv").read_bytes()
    with open_(folder / name, "wb") as stream:
        stream.write(content)
    return folder / name


def write_parquet(folder: Path) -> Path:
    FRAME.to_parquet(folder / "log")
    return folder / "log"


def swap_byte_order(folder: Path) -> pd.DataFrame:
    """Return the frame with numbers in the byte order of other machines."""
    return FRAME.assign(sku=FRAME["sku"].to_numpy().astype(">i8"), rating=FRAME["rating"].to_numpy(">f8"))


def write_partitions(folder: Path) -> Path:
    table = pa.Table.from_pandas(FRAME.assign(day=["1", "1", "2", "2"]), preserve_index=False)
    parquet.write_to_dataset(table, folder / "days", partition_cols=["day"])
    (folder / "days" / "_SUCCESS").touch()
    return folder / "days"


def write_json(folder: Path, name: str, **options: object) -> Path:
    FRAME.to_json(folder / name, date_format="iso", **options)
    return folder / name


SOURCES = {
    "JSON lines, packed": lambda folder: write_json(folder, "log.ndjson.gz", orient="records", lines=True),
    "JSON lines by another name": lambda folder: write_json(folder, "log.json", orient="records", lines=True),
    "JSON records": lambda folder: write_json(folder, "log.json", orient="records"),
    "JSON columns": lambda folder: write_json(folder, "log.json.zip", orient="columns"),
    "JSON split": lambda folder: write_json(folder, "log.json", orient="split"),
    "CSV as text": lambda folder: str(write_csv(folder, ",", "log.csv")),
    "TSV": lambda folder: write_compressed(folder, "log.tsv.gz", "\t", gzip.open),
    "semicolons": lambda folder: write_compressed(folder, "log.csv.bz2", ";", bz2.open),
    "bars": lambda folder: write_compressed(folder, "log.txt.xz", "|", lzma.open),
    "Parquet of no suffix": write_parquet,
    "a folder of Parquet": write_partitions,
    "pandas of another byte order": swap_byte_order,
    "pandas of objects": lambda folder: FRAME.astype(object),
    "pandas of Arrow": lambda folder: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas of categories and another time zone": lambda folder: FRAME.astype(
        {"user_id": "category", "sku": "category"}
    ).assign(ts=FRAME["ts"].dt.tz_convert("Asia/Tokyo")),
    "polars": lambda folder: pl.from_pandas(FRAME),
    "lazy polars of categories": lambda folder: (
        pl.from_pandas(FRAME).cast({"user_id": pl.Categorical}).lazy()
    ),
    "pyarrow": lambda folder: pa.Table.from_pandas(FRAME),
    "DuckDB": lambda folder: duckdb.sql(f"SELECT * FROM read_parquet('{write_parquet(folder)}')"),
    "a mapping": lambda folder: FRAME.to_dict("list"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_log(name, tmp_path):
    log = ipseval.read(SOURCES[name](tmp_path), threshold="all")
    assert log.user_ids.tolist() == ["u1", "u2", "u3"]
    assert log.item_ids.tolist() == [3, 7, 11]
    assert log.item_ids.dtype == np.int64
    assert log.user.tolist() == [1, 0, 1, 2]
    assert log.item.tolist() == [1, 1, 0, 2]
    assert (log.timestamp // 10**9).tolist() == TIMES
    assert log.value.tolist() == [5, 4, 3.5, 1]
    data = log.data
    assert "user_id → user, sku → item, ts → timestamp in dates, rating → value" in data["what"][0]
    assert data["count"].tolist() == [4]


@pytest.mark.parametrize("header", [None, False])
def test_a_file_without_header_is_user_item_value_time(tmp_path, header):
    (tmp_path / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t4\t891717742\n")
    log = ipseval.read(tmp_path / "u.data", header=header)
    assert log.to_frame()["item"].tolist() == [242, 302]
    assert log.value.tolist() == [3, 4]
    assert log.timestamp.tolist() == [881250949 * 10**9, 891717742 * 10**9]
    description = log.data["what"][0]
    assert "column 1 → user, column 2 → item, column 4 → timestamp in seconds since 1970" in description


def test_double_colons_and_places_of_columns(tmp_path):
    (tmp_path / "ratings.dat").write_text("1::1193::5::978300760\n1::661::3::978302109\n")
    log = ipseval.read(tmp_path / "ratings.dat")
    assert log.item_ids.tolist() == [661, 1193]
    assert log.value.tolist() == [5, 3]
    (tmp_path / "tabs.txt").write_text("1\ta,b\n\n2\tc,d\n")  # as many commas: tabs go first
    tab_log = ipseval.read(tmp_path / "tabs.txt", header=False)
    assert tab_log.to_frame().to_numpy().tolist() == [[1, "a,b"], [2, "c,d"]]
    (tmp_path / "quotes.csv").write_text('"user","item"\n1,2\n')
    assert ipseval.read(tmp_path / "quotes.csv").data["what"][0] == "rows read from quotes.csv: user, item"
    (tmp_path / "odd.csv").write_text("9,1,7\n8,2,7\n")
    description = ipseval.read(tmp_path / "odd.csv").data["what"][0]
    assert description.endswith("column 1 → user, column 2 → item; not read: 'column 3'")
    swapped_log = ipseval.read(tmp_path / "odd.csv", user="column 2", item="column 1")
    assert swapped_log.to_frame().to_numpy().tolist() == [[1, 9], [2, 8]]
    (tmp_path / "five.txt").write_text("9 1 7 6 5\n8 2 7 6 4\n")
    description = ipseval.read(tmp_path / "five.txt").data["what"][0]
    assert description.endswith(
        "column 1 → user, column 2 → item; not read: 'column 3', 'column 4', 'column 5'"
    )


def test_relevance_judgments_of_trec_are_the_pairs_of_at_least_grade_1(tmp_path):
    (tmp_path / "test.qrels").write_text("q1 0 d1 2\nq1 0 d2 0\nq2 0 d1 1\n")
    log = ipseval.read(tmp_path / "test.qrels")
    assert log.to_frame().to_numpy().tolist() == [["q1", "d1", 2], ["q2", "d1", 1]]
    assert log.item_ids.tolist() == ["d1", "d2"]
    assert log.data["what"][1:].tolist() == [
        "rows with a value below 1, left out",
        "judgements with grades from 1 to 2, which ndcg treats alike; ndcg(gain=linear) uses the grades",
    ]
    (tmp_path / "binary.qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 1\n")
    assert len(ipseval.read(tmp_path / "binary.qrels").data) == 2


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("q1 0 d1 2", "qrels"),
        ("q1 Q0 d1 2", "qrels"),
        ("q1 q0 d1 1", "qrels"),
        ("q1\tQ0\td1\t2", "qrels"),
        ("q1,Q0,d1,2", ""),
        ("q1 1 d1 2", ""),
        ("q1 Q0 d1", ""),
        ("q1 Q0 d1 2 3", ""),
        ("q1 Q0 d1 1 3 tag", "run"),
        ("q1 0 d1 1 3 tag", "run"),
        ("q1 9 d1 1 3 tag", ""),
        ("q1 Q0 d1 1 3 tag 7", ""),
    ],
)
def test_files_of_trec_are_known_by_their_second_column(row, kind, tmp_path):
    (tmp_path / "log").write_text(f"{row}\n{row.replace('d1', 'd2')}\n")
    assert find_layout(tmp_path / "log", None, False, "utf-8").trec == kind
    assert find_layout(tmp_path / "log", None, True, "utf-8").trec == ""


def test_ids_of_text_files_are_numbers_only_where_all_are_written_as_such(tmp_path):
    for name, content, expected in (
        ("a", "1,10\n2,9\n", [9, 10]),
        ("b", "1,007\n2,7\n", ["007", "7"]),
        ("c", "1,10.0\n2,9.0\n", [9, 10]),
        ("d", "1,1.5\n2,9\n", ["1.5", "9"]),
        ("e", "1,7\n2,7.0\n", ["7", "7.0"]),
        ("f", "1,99999999999999999999\n2,7\n", ["7", "99999999999999999999"]),
    ):
        (tmp_path / name).write_text("user,item\n" + content)
        assert ipseval.read(tmp_path / name).item_ids.tolist() == expected, name


@pytest.mark.parametrize(
    ("times", "units", "expected"),
    [
        ([881250949, 891717742], "auto", 881250949 * 10**9),
        ([881250949_000, 891717742_000], "auto", 881250949 * 10**9),
        ([881250949_000_000, 891717742_000_000], "auto", 881250949 * 10**9),
        ([881250949_000_000_000, 891717742_000_000_000], "auto", 881250949 * 10**9),
        ([881250949.25, 891717742.5], "auto", 881250949_250_000_000),
        (["881250949", "891717742"], "auto", 881250949 * 10**9),
        ([1, 2], "auto", 1),
        ([315532800, 4102444799], "auto", 315532800 * 10**9),  # the first second of 1980, the last of 2099
        ([315532799, 4102444799], "auto", 315532799),
        ([315532800, 4102444800], "auto", 315532800),
        ([1, 2], "s", 10**9),
        ([881250949, 891717742], "none", 881250949),
        ([1, 881250949], "auto", 1),
        ([9_223_372_036_854, 1], "ms", 9_223_372_036_854_000_000),
        ([2**63 - 1, 1], "ns", 2**63 - 1),
        (["881250949000000001", "1"], "ns", 881250949_000_000_001),  # beyond 2^53
        (["2026-03-01T11:00:00+01:00", "2026-03-01T10:00:00Z"], "auto", TIMES[0] * 10**9),
        (["2026-03-01 10:00:00", "2026-03-01"], "auto", TIMES[0] * 10**9),
    ],
)
def test_times_come_in_every_unit_and_zone(times, units, expected):
    log = ipseval.read({"user": [1, 2], "item": [1, 2], "time": times}, units=units)
    assert log.timestamp[0] == expected


def test_rows_below_a_threshold_leave_their_items_in_the_universe():
    log = ipseval.read(FRAME, threshold=4)
    assert len(log) == 2
    assert log.item_ids.tolist() == [3, 7, 11]
    assert log.data[["what", "count", "of"]].to_numpy().tolist()[1] == [
        "rows with a value below 4, left out",
        2,
        4,
    ]


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
def test_without_a_threshold_the_counts_include_low_values():
    frame = pd.DataFrame({"user": [1, 2, 3], "item": [1, 1, 2], "stars": [5.0, np.nan, 1.5]})
    description = "rows with a value from 1.5 to 5; low ones count as well, as there is no threshold"
    log = ipseval.read(frame, missing="drop")
    assert log.data.set_index("what").loc[description, "count"] == 2
    data = ipseval.evaluate({"any": np.eye(2)}, ipseval.Split.from_frames(None, log.to_frame())).data
    assert not data["what"].str.contains("threshold").any()  # a frame is not read
    for other_frame in (frame.assign(stars=1.0), frame.drop(columns="stars")):
        assert not ipseval.read(other_frame).data["what"].str.contains("threshold").any()
    assert not ipseval.read(frame[::2], threshold=2).data["what"].str.contains("no threshold").any()


def test_rows_that_lack_something_are_left_out_one_reason_each():
    frame = pd.DataFrame({"user": ["a", None, None, "b"], "item": [1, None, 2, 2], "rating": [1, 1, 1, None]})
    log = ipseval.read(frame, missing="drop")
    assert log.to_frame().to_numpy().tolist() == [["a", 1, 1]]
    assert log.data["what"].tolist()[1:] == [
        "rows without a user, left out",
        "rows without a value, left out",
    ]
    assert log.data["count"].tolist() == [4, 2, 1]
    assert log.item_ids.tolist() == [1]  # an id of rows that lack something else is no candidate by them


def test_fractions_are_ids_of_their_own_and_large_ones_stay_what_they_are():
    for items, kind in (
        ([1.5, 2.0, None], "f"),
        ([1.0, 2.0, None], "i"),
        ([2.0**53 - 1, 2.0, None], "i"),
        ([2.0**53, 2.0, None], "f"),  # the next number is no double
    ):
        log = ipseval.read({"user": [1, 2, 3], "item": items}, missing="drop")
        assert log.to_frame()["item"].tolist() == items[:2]
        assert log.item_ids.dtype.kind == kind


def test_clicks_are_truth_values_in_every_spelling():
    for clicked in (["1.0", "0.0", " True "], [1, 0, 1], [1.0, 0.0, True], ["TRUE", "false", "1"]):
        log = ipseval.read({"user": [1, 2, 3], "item": [1, 2, 3], "clicked": clicked})
        assert log.clicked.tolist() == [True, False, True]
    log = ipseval.read({"user": [1, 2, 3], "item": [1, 2, 3], "clicked": [0.0, None, 1.0]}, missing="drop")
    assert log.clicked.tolist() == [False, True]


def test_a_universe_orders_the_ids_and_drops_the_others_on_request():
    log = ipseval.read(FRAME, items=[11, 7, 5], unknown="drop", threshold="all")
    assert log.item_ids.tolist() == [11, 7, 5]
    assert log.to_frame()["item"].tolist() == [7, 7, 11]
    assert log.data["what"][1] == "rows with an item outside the universe, left out"


def test_repeats_are_dropped_or_kept_with_a_count():
    frame = pd.concat([FRAME, FRAME[:1].assign(rating=1.0)])
    distinct_log = ipseval.read(frame, duplicates="drop", threshold="all")
    log_with_repeats = ipseval.read(frame, duplicates="keep", threshold="all")
    assert (len(distinct_log), distinct_log.n_duplicates_dropped, distinct_log.value[0]) == (4, 1, 5)
    assert (len(log_with_repeats), log_with_repeats.repeats, log_with_repeats.n_repeats) == (5, True, 1)
    assert distinct_log.data["what"][1] == "rows that repeat an earlier pair, left out"
    assert log_with_repeats.data["what"][1] == "rows that repeat an earlier pair, kept"


def test_a_column_of_clicks_makes_an_impression_log():
    frame = FRAME.assign(Clicked=["1", "0", "true", "FALSE"], pos=[1, 2, 1, 2], p_shown=[0.5, 0.2, 1, 0.1])
    log = ipseval.read(frame)
    assert isinstance(log, ipseval.ImpressionLog)
    assert log.clicked.tolist() == [True, False, True, False]
    assert log.position.tolist() == [1, 2, 1, 2]
    assert log.propensity.tolist() == [0.5, 0.2, 1, 0.1]
    assert isinstance(ipseval.read(frame, ignore="Clicked", threshold="all"), ipseval.Interactions)
    assert ipseval.read(frame, ignore=["p_shown", "pos"]).propensity is None
    data = log.positives.data
    assert "Clicked → clicked, pos → position, p_shown → propensity" in data["what"][0]


def test_ids_of_several_sources_are_one_universe(tmp_path):
    lists = ipseval.Lists({"u1": [7, 99], "u9": [3]})
    write_csv(tmp_path, ",", "log.csv")
    ids = ipseval.data.reading.read_ids(tmp_path / "log.csv", lists, [1, 7], pl.DataFrame({"item_id": [2]}))
    assert ids.tolist() == [1, 2, 3, 7, 11, 99]
    assert ipseval.data.reading.read_ids(ipseval.read(FRAME, threshold="all"), lists, of="user").tolist() == [
        "u1",
        "u2",
        "u3",
        "u9",
    ]
    log = ipseval.read(FRAME, items=ids, threshold="all")
    assert log.item_ids.tolist() == ids.tolist()
    for sources, text in (
        ((), "at least one source"),
        ((lists, ["x"]), "ids of different types"),
        ((FRAME.drop(columns="sku"),), "no column has a usual name of items.*column="),
        ((FRAME.assign(sku=[1, None, 2, 3]),), "1 of 4 rows have no item"),
        ((ipseval.Lists(FRAME.assign(sku=[1, "x", 2, 3], rank=1)),), "^the lists: column 'sku' mixes ids"),
    ):
        with pytest.raises(ipseval.InputError, match=text):
            ipseval.data.reading.read_ids(*sources)


def test_attributes_have_the_ids_of_the_log(tmp_path):
    (tmp_path / "items.csv").write_text("sku,genre\n11,noir\n3,drama\n11,crime\n")
    with pytest.raises(ipseval.InputError, match=r"1 of 3 rows repeat an id .*row 2: 11"):
        ipseval.data.reading.read_attributes(tmp_path / "items.csv")
    frame = ipseval.data.reading.read_attributes(tmp_path / "items.csv", duplicates="drop")
    assert frame.to_dict("list") == {"item": [11, 3], "genre": ["noir", "drama"]}
    assert frame["item"].dtype == np.int64
    users = ipseval.data.reading.read_attributes({"who": ["a"], "age": [30]}, of="user", column="who")
    assert users.to_dict("list") == {"user": ["a"], "age": [30]}
    with pytest.raises(ipseval.InputError, match="there must be an attribute in addition to"):
        ipseval.data.reading.read_attributes({"item": [1, 2]})
    with pytest.raises(
        ipseval.InputError, match="column 'user' must not exist in addition to the ids in column 'who'"
    ):
        ipseval.data.reading.read_attributes({"who": ["a"], "user": [1]}, of="user", column="who")


def test_dictionaries_with_texts_that_repeat_do_not_occur_or_are_missing():
    first_chunk = pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 1]), ["b", "a", "b", "unused"])
    second_chunk = pa.DictionaryArray.from_arrays(pa.array([1, 0]), ["a", "c"])
    table = pa.table({"user": pa.chunked_array([first_chunk, second_chunk]), "item": [1, 2, 3, 4, 5, 6]})
    log = ipseval.read(table, missing="drop")
    assert log.user_ids.tolist() == ["a", "b", "c"]
    assert log.to_frame()["user"].tolist() == ["b", "b", "a", "c", "a"]
    assert log.data["what"][1] == "rows without a user, left out"


def test_one_line_of_json_is_one_record(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"user": "a", "item": 2}\n')
    assert ipseval.read(tmp_path / "log.jsonl").to_frame()[["user", "item"]].to_numpy().tolist() == [["a", 2]]


def test_a_missing_id_between_numbers_of_a_text_file_is_no_user(tmp_path):
    (tmp_path / "log.csv").write_text("user,item\n7,1\n,2\n9,3\n7,4\n")
    with pytest.raises(ipseval.InputError, match="1 of 4 rows have no user"):
        ipseval.read(tmp_path / "log.csv")
    log = ipseval.read(tmp_path / "log.csv", missing="drop")
    assert log.to_frame()[["user", "item"]].to_numpy().tolist() == [[7, 1], [9, 3], [7, 4]]


def test_lists_in_a_column_are_read_though_the_first_is_missing():
    log = ipseval.read(pd.DataFrame({"user": ["a", "b"], "item": [None, [1, 2]]}), missing="drop")
    assert log.to_frame()[["user", "item"]].to_numpy().tolist() == [["b", 1], ["b", 2]]


# is_file, has_fixed_roles, strips_ids, text_columns, lists
SOURCE_TRAITS = {
    "text": ("log.csv", "user,item\n1,2\n", (True, False, False, ("user", "item"), ())),
    "text with lists": (
        "log.csv",
        "user,items\n1,2 3\n",
        (True, False, False, ("user", "items"), ("items",)),
    ),
    "qrels": (
        "qrels",
        "1 0 2 1\n",
        (True, True, False, ("column 1", "column 2", "column 3", "column 4"), ()),
    ),
    "lines of items": (
        "log.txt",
        "1 5 6\n2\n3 5\n4 6 7 8\n5 1\n",
        (True, True, False, ("user", "item"), ("item",)),
    ),
    "JSON records": ("log.json", '[{"user": 1, "item": 2}]', (True, False, True, (), ())),
    "JSON users": ("log.json", '{"1": [2], "3": [4]}', (True, True, True, ("user",), ("item",))),
    "a frame": (None, pd.DataFrame({"user": [1], "item": [2]}), (False, False, False, (), ())),
    "a frame of polars": (None, pl.DataFrame({"user": [1], "item": [2]}), (False, False, False, (), ())),
    "a frame with lists as text": (
        None,
        pd.DataFrame({"user": [1], "items": ["2 3"]}),
        (False, False, False, ("items",), ("items",)),
    ),
    "columns": (None, {"user": [1], "item": [2]}, (False, False, False, (), ())),
    "users": (None, {"ann": [1]}, (False, True, False, (), ("item",))),
    "tuples": (None, [("ann", 2)], (False, False, False, (), ())),
}


@pytest.mark.parametrize(("name", "content", "traits"), SOURCE_TRAITS.values(), ids=SOURCE_TRAITS)
def test_a_source_states_what_it_is_and_how_its_ids_are_written(name, content, traits, tmp_path):
    if name is not None:
        (tmp_path / name).write_text(content)
        content = tmp_path / name
    source = open_source(content, ReadOptions())
    assert (
        source.is_file,
        source.has_fixed_roles,
        source.strips_ids,
        source.text_columns,
        source.lists,
    ) == traits
    assert open_source(source, ReadOptions()) is source
    assert ipseval.read(content).row_counts[0].is_file is traits[0]
