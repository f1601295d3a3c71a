"""Malformed inputs: one error names all that is wrong with them, with counts, rows and ways out."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import ProblemsError

SPLIT = ipseval.Split.from_frames(
    pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}),
    pd.DataFrame({"user": ["a", "b"], "item": [3, 1]}),
    items=[1, 2, 3, 4],
)


def log(**columns: Any) -> pd.DataFrame:
    """Return four rows that can be read, with other or further columns."""
    good = {"user": list("aabb"), "item": [1, 2, 1, 3], "ts": [1, 2, 3, 4], "rating": [5, 4, 3, 2]}
    return pd.DataFrame({**good, **columns})


def clicks(**columns: Any) -> pd.DataFrame:
    shown = {"clicked": [1, 0, 0, 1], "position": [1, 2, 1, 2]}
    return log(**{**shown, **columns}).drop(columns="rating")


def entries(**columns: Any) -> pd.DataFrame:
    """Return lists that fit the split."""
    good = {"user": list("aabb"), "item": [3, 4, 1, 4], "rank": [1, 2, 1, 2]}
    return pd.DataFrame({**good, **columns})


def lists(frame: Any, **options: Any) -> object:
    models = {"v1": ipseval.Lists(frame, **options)}
    return ipseval.evaluate(models, SPLIT, metrics=["recall@2"])


def text(content: str | bytes, name: str = "log.csv", **options: Any) -> Callable[[Path], object]:
    def call(folder: Path) -> object:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return ipseval.read(folder / name, **options)

    return call


def read_call(frame: Any, **options: Any) -> Callable[[Path], object]:
    """Return a call that reads a frame, with its ratings as they are."""
    return lambda folder: ipseval.read(frame, **{"threshold": "all", **options})


def lists_call(frame: Any, **options: Any) -> Callable[[Path], object]:
    return lambda folder: lists(frame, **options)


def write_zip(*names: str) -> Callable[[Path], object]:
    def call(folder: Path) -> object:
        with zipfile.ZipFile(folder / "log.zip", "w") as archive:
            for name in names:
                archive.writestr(name, "user,item\n1,2\n")
        return ipseval.read(folder / "log.zip")

    return call


def read_truncated(folder: Path) -> object:
    content = gzip.compress(b"user,item\n" + b"1,2\n" * 9999)
    return text(content[:-20], "log.csv.gz")(folder)


def read_json_folder(folder: Path) -> object:
    log().to_json(folder / "part.json")
    return ipseval.read(folder)


def read_text_folder(folder: Path) -> object:
    log().to_csv(folder / "part.csv")
    return ipseval.read(folder)


BEYOND = np.array(["2500-01-01"] * 4, dtype="datetime64[s]")
# (call, what the error says, in the order in which it says it).
TABLES: list[tuple[Any, ...]] = [
    # Columns
    (
        read_call(log().rename(columns={"user": "who", "item": "what"})),
        "usual name of users",
        "usual name of items",
    ),
    (read_call(log(), user="usr"), r"'usr' does not exist \(did you mean 'user'\?\); the"),
    (read_call(log(uid=1)), "columns 'user', 'uid' could all be the user.*user='user'"),
    (read_call(log(), ignore="p"), "columns to ignore do not exist: 'p'"),
    (
        read_call(pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])),
        r"several columns of one name \('item'\)",
    ),
    # Rows
    (read_call(log()[["user"]].iloc[:0]), "usual name of items", "no rows"),
    (
        read_call(log(user=["a", None, None, "b"], item=[1, 2, 3, None])),
        r"2 of 4 rows have no user \(first: rows 1, 2\)",
        r"1 of 4 rows have no item \(first: row 3\)",
    ),
    (
        read_call(log(ts=[1, None, 3, 4], rating=[None, 1, 1, 1])),
        "1 of 4 rows have no timestamp",
        "1 of 4 rows have no value.*missing='drop'",
    ),
    (
        read_call(log(item=[1, 1, 1, 1])),
        r"2 of 4 rows repeat an earlier user–item pair \(first: 'a', 1\).*duplicates='drop'.*='keep'",
    ),
    (
        read_call(log(user=["user_id", "1", "2", "3"])),
        "row 0 of column 'user' looks like a header: it is 'user_id', and the other 3 ids",
    ),
    (read_call(log(user=None), missing="drop"), "no row is left: 4 rows without a user"),
    # Ids
    (
        read_call(log(user=["a", 1, "b", 2], item=[1, "x", 2.5, 3])),
        "column 'user' mixes ids",
        "column 'item' mixes ids of types float, int, str",
    ),
    (read_call(log(item=[[[1]], [[2]], [[3]], [[4]]])), "column 'item'.* which cannot be ids|must hold"),
    (
        read_call({"user": [1, 2], "items": [[1, 2], [3]], "ratings": [[5], [4]]}),
        "the lists in columns 'items', 'ratings' differ in length in 1 of 2 rows .first: row 0.. Give each",
    ),
    (
        read_call({"user": [1, 2, 3], "items": [[1, 2], [3], [1]], "ratings": [[5, 4], [], [1, 2]]}),
        r"differ in length in 2 of 3 rows \(first: row 1\)",
    ),
    (read_call({"user": [1, 2], "items": [[1, None], None]}), "2 of 3 rows have no item"),
    (read_call(log(item=np.arange(4) * 1j)), "column 'item' must hold numbers, text or dates"),
]
VALUES: list[tuple[Any, ...]] = [
    # Values and times
    (
        read_call(log(rating=["5", "four", "3", "two"])),
        r"2 of 4 entries of column 'rating' are not finite numbers \(first: rows 1, 3: 'four'\)",
    ),
    (read_call(log(rating=[1, np.inf, 1, 1])), "1 of 4 entries of column 'rating' are not finite"),
    (read_call(log(rating=[1, np.inf, "1", 1])), "1 of 4 entries of column 'rating' are not finite"),
    (
        read_call(log(rating=pd.to_datetime(["2026-01-01"] * 4))),
        "4 of 4 entries of column 'rating' are not finite",
    ),
    (
        read_call(log(rating=["1,234", "4", "12,000", "3"])),
        r"2 of 4 entries of column 'rating' may be thousands or fractions \(first: rows 0, 2: '1,234'\).*",
    ),
    (
        read_call(log(rating=["1,5", "4.5", "1", "3"])),
        r"1 of 4 entries of column 'rating' are not finite numbers \(first: row 0: '1,5'\)",
    ),
    (
        read_call(log(ts=["2026-01-01", "yesterday", "2026-01-02", "2026-01-03"])),
        r"1 of 4 entries of column 'ts' are not times in ISO 8601, .*first: row 1: 'yesterday'",
    ),
    (
        read_call(log(ts=["01/02/2026"] * 4)),
        r"4 of 4 entries.* ISO 8601.*\(first: rows 0, 1, 2, …: '01/02/2026'\)",
    ),
    (
        read_call(log(ts=["2026-01-01", "5", "2026-01-02", "2026-01-03"])),
        "1 of 4 entries.* ISO 8601.*row 1: '5'",
    ),
    (read_call(log(ts=BEYOND)), "4 of 4 entries of column 'ts' cannot be kept"),
    (
        read_call(log(ts=np.full(4, 10**16)), units="ms"),
        "4 of 4 entries of column 'ts' lie beyond the year 2262 in milliseconds.*units='none'",
    ),
    (
        read_call(log(ts=[9_223_372_036_854, 9_223_372_036_855, 1, 1]), units="ms"),
        "1 of 4 entries .* beyond .*row 1:",
    ),
    (read_call(log(ts=[object()] * 4)), "4 of 4 entries of column 'ts' are not finite"),
    (read_call(log().drop(columns="rating"), threshold=3), "a threshold needs a column"),
    (read_call(log(), threshold=9), "no row has a value of at least 9"),
    # Universe
    (
        read_call(log(), users=["a"]),
        r"2 of 4 rows have a user outside the given 1 \(first: rows 2, 3: 'b'.*users=.*unknown='drop'",
    ),
    (read_call(log(user=["a", None, "b", "b"]), users=["a", "b"]), "1 of 4 rows have no user"),
    (read_call(log(user=[None, None, "b", "b"], item=[1, 1, 2, 3])), "2 of 4 rows have no user"),
    (read_call(log(item=[1, 2, None, 1])), "1 of 4 rows have no item"),
    # Rows without an id are no repeats, and no unknown ids.
    (read_call(log(item=[None, None, 1, 2])), "2 of 4 rows have no item"),
    (read_call(log(user=["b", None, "b", None], item=[1, 1, 2, 2])), "2 of 4 rows have no user"),
    (read_call(log(user=["a", None, "b", "b"], item=[1, 1, 2, 3]), users=["a", "b"]), "1 of 4 rows have no"),
    (read_call(log(item=[1, None, 2, None]), items=[1, 2]), "2 of 4 rows have no item"),
    (read_call(log(), items=["1", "2", "3"]), "ids of different types"),
    (read_call(log(), items=[1, 2, 3, 3]), "items repeats 1 ids"),
    (read_call(log(), users=["z"], unknown="drop"), "no row is left: 4 rows with a user outside"),
]
IMPRESSIONS: list[tuple[Any, ...]] = [
    # Impressions
    (
        read_call(clicks(clicked=[1, 2, "no", 0])),
        r"2 of 4 entries of column 'clicked' are neither True and False nor .* \(first: rows 1, 2: 2\)",
    ),
    (read_call(clicks(clicked=[1, None, 0, 1])), "1 of 4 rows have no clicked"),
    (read_call(clicks(clicked=[0, 2, 0, 0])), r"1 of 4 entries of column 'clicked' are neither .*row 1: 2\)"),
    (read_call(clicks(clicked=[-1, 1, -1, 1])), "2 of 4 entries of column 'clicked' are neither"),
    (
        read_call(clicks(user=["a", None, "b", "b"], position=[1, 2, 0, 1])),
        "1 of 4 rows have no user",
        "1 of 3 positions are not whole numbers",
    ),
    (read_call(clicks(position=[1, 2, 0, 1]), users=["a"]), "2 of 4 rows have a user outside"),
    (read_call(clicks(position=[0, 1, 1, 2]), items=[2, 3]), "2 of 4 rows have an item outside"),
    (read_call(clicks(user=[[[1]], [[2]], [[3]], [[4]]], position=[1, 0, 1, 2])), "column 'user'"),
    (
        read_call(clicks(position=[0, 1, 0, 1], p_shown=[2, 0.5, 0.5, 0])),
        "2 of 4 positions",
        "1 of 4 propensities are 0",
        "1 of 4 propensities are above 1.*Do not leave out these rows.*from the impressions.*ignore='p_shown'",
    ),
    (
        read_call(clicks(position=list("xyz1"))),
        r"3 of 4 entries of column 'position'.*first: rows 0, 1, 2: 'x'\)",
    ),
    (read_call(clicks(plays=1), value="plays"), "impressions have clicks.*ignore='clicked'"),
    (read_call(clicks(), threshold=1), "a threshold applies to values.*ignore='clicked'"),
    (
        read_call(log(pos=1, p=0.5), position="pos", propensity="p"),
        "the position is a column of impressions",
        "the propensity is a column of impressions.*clicked=",
    ),
    (
        read_call(log(), user="user", item="user"),
        "column 'user' is named for user and item. Give each its own column by item=",
    ),
    (
        read_call(log(), user="user", item="item", timestamp="item"),
        "column 'item' is named for item and timestamp. Give each its own column by timestamp=",
    ),
    (
        read_call(log(), user="user", item="user", timestamp="user"),
        "column 'user' is named for user and item and timestamp. Give each its own column by timestamp=",
    ),
    (
        read_call(clicks(query=[1, 1, 2, 2], position=[1, 3, 1, 2])),
        r"1 of 2 slates lack positions .*gaps='keep'",
    ),
    (
        read_call(clicks(shown=[0, 1, 1, 1])),
        "1 of 2 clicks are on rows that were not shown.*unshown_clicks='drop'",
    ),
    (
        read_call(log(time=["04.12.1997"] * len(log()))),
        "not times in ISO 8601.*dates; or leave the column out .*ignore='time'",
    ),
]
FILES: list[tuple[Any, ...]] = [
    # Files
    (lambda folder: ipseval.read(folder / "none.csv"), "does not exist"),
    (lambda folder: ipseval.read("x" * 5000), r"x{200} does not exist"),
    (lambda folder: ipseval.read("a\0b"), "does not exist"),
    (lambda folder: ipseval.read(folder / "no such.csv"), "no such.csv does not exist"),
    (lambda folder: ipseval.read("select"), "^select does not exist"),
    (text("1\n2\n"), "no column has a usual name of items; the columns are 'column 1'"),
    (text("1 2\n3\n"), r"each line must have 2 fields.*got another number in 1 of 2 lines \(line 2 has 1\)"),
    (
        text("user,item\n1,5\n2,6\n,6\n", users=[1]),
        r"1 of 3 rows have no user \(first: row 2\)",
        r"1 of 3 rows have a user outside the given 1 \(first: row 1: 2;",
    ),
    (text(""), "is empty"),
    (text("user,item\n"), "no rows"),
    (
        text("user,item\n1,2\n1,2,3\n"),
        r"log.csv: each line must have 2 fields.*1 of 3 lines \(line 3 has 3\)",
    ),
    (text("user,item,item\n1,2,3\n"), "the header repeats 'item'"),
    (
        text("ann,x\nbob,y\n"),
        r"it is not clear whether the first line \('ann', 'x'\) names the columns.*header=True.*=False",
    ),
    (
        text("user_id,item_id\n1,2\n2,3\n3,4\n", header=False),
        "row 0 of column 'column 1' looks like a header",
        "row 0 of column 'column 2' looks like a header",
    ),
    (text("user,item\nJosé,1\nAnn,2\n".encode("latin-1")), "UnicodeDecodeError.*encoding="),
    (text(b"\x00\x01\x02\x00", "log.bin"), "must be a table of text, JSON.*; it holds zero bytes"),
    (read_truncated, "log.csv.gz"),
    (  # the last four bytes say how much it unpacks to: another number than it does
        text(gzip.compress(b"user,item\n1,2\n")[:-4] + b"\xff" * 4, "log.csv.gz"),
        "cannot read .*log.csv.gz .*Incorrect length of data",
    ),
    (write_zip("a.csv", "b.csv"), "holds 2 files"),
    (write_zip(), "holds 0 files"),
    (read_text_folder, "is a folder without Parquet files; it holds 'part.csv'"),
    (read_json_folder, "is a folder without Parquet files; it holds 'part.json'"),
    (lambda folder: ipseval.read(folder), "is a folder without Parquet files; it holds nothing"),
]
OTHERS: list[tuple[Any, ...]] = [
    # JSON
    (
        text('{"user": 1, "item": 2}\n{"user": 1,\n\n{"user": 1, "user": 2}\n', "log.jsonl"),
        r"2 of 3 lines are not JSON \(first: line 2: Expecting property name",
    ),
    (text('{"user": 1, "item": 2}\n{', "log.jsonl"), r"1 of 2 lines are not JSON \(first: line 2: Expecting"),
    (text('[{"user": "a]', "log.json"), "cannot read .*JSONDecodeError: Unterminated"),
    (
        text('[{"user": 1, "item": 2}, 3, "4"]', "log.json"),
        r"2 of 3 entries are not records \(first: entry 2, an int\)",
    ),
    (text('{"ann": [1], "bob": [1], "ann": [2]}', "log.json"), r"an object repeats 'ann'\)"),
    (text('[{"user": 1, "item": 2}', "log.json"), "cannot read .*JSONDecodeError"),
    (text("3", "log.json"), "no column has a usual name of items; the columns are 'column 1'"),
    (text(" ", "log.json"), "log.json is empty"),
    (text("[" * 10**5, "log.jsonl"), "cannot read .*RecursionError"),
    (
        text('{"columns": ["user", "item"], "data": [[1, 2], [1, 2, 3]]}', "log.json"),
        "1 of 2 entries are not records .*as many values",
    ),
    # Other sources
    (lambda folder: ipseval.read(3), "source must be a path, a data frame.*got int"),
    (read_call({"user": [1, 2], "item": [1]}), "a mapping must give each column"),
    (read_call({"user": [1, 2], "item": {1, 2}}), "a mapping must give each column"),
    (
        read_call(log().to_records(index=False)),
        "source must be a path.*got recarray. Convert arrays and records",
    ),
]
LISTS: list[tuple[Any, ...]] = [
    # Lists
    (lists_call(entries()[["item"]]), "usual name of users", "usual name of ranks or scores"),
    (lists_call(entries().iloc[:0]), "there are no entries"),
    (
        lists_call(
            pd.DataFrame(
                {
                    "user": ["a", "a", "b", "z", None, "b", "b"],
                    "item": [1, 9, 1, 1, 1, 4, 4],
                    "rank": [1, 2, 1, 1, 1, 5, 6],
                }
            ),
            gaps="raise",
        ),
        "1 of 7 entries have no user",
        r"the ranks of 1 user are not 1, 2, 3.*\(e\.g\. user 'b'\)",
        "1 of 7 entries repeat an item of their list",
        "1 of 7 entries have users unknown",
        "1 of 7 entries have items unknown",
        "1 of 7 entries are training items",
    ),
    (
        lists_call(entries(score=["x", None, 1, 2]).drop(columns="rank")),
        "1 of 4 entries of column 'score' are not finite numbers",
        "1 of 4 entries have no score",
    ),
    (lists_call(entries(rank=[1, np.inf, 1, 2])), "1 of 4 entries of column 'rank' are not finite numbers"),
    (lists_call(entries(item=list("abcd"))), r"types \(the lists, object: 'a', .*; the split, int64: "),
    (lists_call({"a": [3], "b": {1: 0.5}}), "some lists have scores"),
    (lists_call({"a": []}), "there are no entries"),
    (lists_call({"a": "xyz"}), "the list of 'a' is a str"),
    (lists_call({"a": b"xyz"}), "the list of 'a' is a bytes"),
    (lists_call({"a": 3}), "the list of 'a' is an int"),
    (lists_call({"a": [(1, 2), 3]}), r"the list of 'a' has entries that are not pairs \(item, score\)"),
    (lists_call({"a": [(1, 2), (3,)]}), "the list of 'a' has entries that are not pairs"),
    (lists_call({"a": [(1, 2, 3)]}), "the list of 'a' has entries that are not pairs"),
    (lists_call(np.ones((9, 2), dtype=int) * 3), "the lists have 9 rows and the split 2"),
    (lists_call(np.array([[3], [1]]), users=["a"]), "one id for each of 2 rows; got 1"),
    (lists_call(np.array([[3], [1]]), users=["a", "b", "c"]), "one id for each of 2 rows; got 3"),
    (lists_call(np.array([[3], [4]]), items=[1, 2, 3, 4]), r"positions below 4; got 3, 4\."),
    (lists_call(np.array([[0.0]]), items=[1]), r"positions below 1; got 0\.0"),
    (lists_call((np.ones((2, 2), int), np.ones((2, 1)))), "scores must be numbers of"),
    (lists_call((np.ones((1, 1), int), np.array([["a"]]))), r"scores must be numbers of shape \(1, 1\)"),
    (lists_call((np.array([[1, 2]]), np.array([[1, np.nan]]))), r"^1 of 2 scores are NaN\."),
    (lists_call(np.zeros((0, 3), int)), r"the lists have shape \(0, 3\); at least one entry is needed"),
    (lists_call((np.ones((2, 2)),)), "source must be a path, a data frame.*got tuple"),
    (lists_call((np.ones((2, 2)),) * 3), "source must be a path, a data frame.*got tuple"),
    (lists_call((np.ones((1, 2, 2)),) * 2), "source must be a path, a data frame.*got tuple"),
    (lists_call((np.ones(2),) * 2), "source must be a path, a data frame.*got tuple"),
    (lists_call(np.ones(2)), "source must be a path, a data frame.*got ndarray"),
    (lists_call(np.ones((1, 2, 2))), "source must be a path, a data frame.*got ndarray"),
    (lists_call(entries(), rank="rnk"), "column 'rnk' does not exist"),
    (lists_call(entries(item=[1, "x", 2.5, 3])), "column 'item' mixes ids"),
    (lists_call(entries(user="a", item=[3, 4, 3, 4], rank=[1, 2, 3, 4])), r"2 of 4 .*first: 'a', 3\)"),
    (lists_call(entries(), seen="ignore"), "unknown value for seen"),
    (lists_call(entries(), unknown="last"), "unknown value for unknown"),
    (lists_call(3), "source must be a path, a data frame"),
    (lambda folder: ipseval.read_lists(entries()), "read_lists takes a path; got DataFrame"),
]


CASES = [*TABLES, *VALUES, *IMPRESSIONS, *FILES, *OTHERS, *LISTS]


@pytest.mark.parametrize(("call", "messages"), [(call, messages) for call, *messages in CASES])
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of damaged files
def test_one_error_names_all_problems(call, messages, tmp_path):
    with pytest.raises(ipseval.InputError) as caught:
        call(tmp_path)
    message = str(caught.value)
    assert re.search(".*".join(messages), message, flags=re.DOTALL), message
    if isinstance(caught.value, ProblemsError):
        assert len(caught.value.problems) == len(messages), message
        assert "{" not in message
    for sentence in re.split(r"[.;:\n] ?", re.sub(r"\(.*?\)|'[^']*'", "", message)):
        assert len(sentence.split()) <= 30, sentence
