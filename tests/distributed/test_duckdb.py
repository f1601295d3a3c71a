"""Parquet files through DuckDB give the numbers of the local path; the short road gives those of the long."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ipseval import rank_positives
from ipseval.distributed import evaluate_duckdb
from ipseval.errors import InputError, IpsevalError
from tests.distributed.test_partitions import (
    SCALED,
    as_arrays,
    assert_same,
    example,
    in_partitions,
    local,
)
from tests.inside.distributed import Catalogue, Pairs, _duckdb, partition, sorted_pairs

OPTIONS = {
    "metrics": ("recall@5", "hit@1"),
    "estimators": ("aoa", "ips", "snips-global"),
    "propensity": SCALED,
}
OPTIONS["n_relevant"] = 20

pytestmark = [
    pytest.mark.filterwarnings("ignore:the median user has"),
    pytest.mark.filterwarnings("ignore::ipseval.errors.PositivityWarning"),
    pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning"),
]
NAMES = ("train", "test", "first", "second")


def write(frames, folder, **kinds):
    """Write each frame as two Parquet files in a folder of its own."""
    for name in NAMES:
        (folder / name).mkdir()
        frame = kinds.get(name, lambda frame: frame)(frames[name])
        n_rows = len(frame) // 3
        for number, part in enumerate((frame[n_rows:], frame[:n_rows])):
            part.to_parquet(folder / name / f"{number}.parquet")
    return [folder / name for name in NAMES]


def with_scores(lists):
    return lists.assign(score=-0.5 * lists["rank"]).drop(columns="rank")


@pytest.mark.parametrize(("n_partitions", "by"), [(None, None), (3, ("popularity:3", "activity:2"))])
def test_files_give_the_numbers_of_the_local_path(tmp_path, n_partitions, by):
    frames, options = example(n_users=40), {**OPTIONS, "by": by}
    if by:
        options |= {"metrics": ("recall@5",), "estimators": ("snips-global",)}
    kinds = {"train": lambda frame: frame.astype("int32"), "first": as_arrays, "second": with_scores}
    train, test, first, second = write(frames, tmp_path, **kinds)
    (tmp_path / "scratch").mkdir()
    evaluation = evaluate_duckdb(
        {"first": first, "second": f"{second}/*.parquet"},
        str(train),
        sorted(test.iterdir()),
        n_partitions=n_partitions,
        temporary=tmp_path / "scratch",
        **options,
    )
    assert_same(evaluation, local(frames, {name: frames[name] for name in ("first", "second")}, **options))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_ids_of_text_take_the_long_road(tmp_path):
    frames = example(n_users=40)
    frames = {name: frame.assign(user="u" + frame["user"].astype(str)) for name, frame in frames.items()}
    train, test, first, second = write(frames, tmp_path)
    evaluation = evaluate_duckdb({"first": first, "second": second}, train, test, n_partitions=2, **OPTIONS)
    assert_same(evaluation, local(frames, {name: frames[name] for name in ("first", "second")}, **OPTIONS))


def test_factors_and_a_population_are_taken(tmp_path):
    frames = example(2)
    train, test, *_ = write(frames, tmp_path)
    users = np.arange(300)
    rng = np.random.default_rng(0)
    models = {"factors": (rng.normal(size=(300, 2)), rng.normal(size=(25, 2)))}
    options = OPTIONS | {"users": users, "items": np.arange(500, 525)}
    evaluation = evaluate_duckdb(models, train, test, n_partitions=2, per_user=True, **options)
    reference_evaluation = local(frames, models, **options)
    assert_same(evaluation, reference_evaluation)
    key = ("factors", "recall@5", "aoa")
    pd.testing.assert_series_equal(evaluation.per_user(*key), reference_evaluation.per_user(*key))


def test_what_cannot_be_read_is_named(tmp_path):
    frames = example()
    train, test, first, _ = write(frames, tmp_path)
    with pytest.raises(InputError, match="train: there is no Parquet file nowhere"):
        evaluate_duckdb({"first": first}, "nowhere", test)
    with pytest.raises(InputError, match="test: no Parquet file is given"):
        evaluate_duckdb({"first": first}, train, [])
    with pytest.raises(InputError, match="first: the files need columns user, item and rank or score"):
        evaluate_duckdb({"first": test}, train, test)
    with pytest.raises(InputError, match="memory_limit cannot be 'much'"):
        evaluate_duckdb({"first": first}, train, test, memory_limit="much")
    with pytest.raises(InputError, match="by= must be a label"):
        evaluate_duckdb({"first": first}, train, test, by=object())
    with pytest.raises(InputError, match="items must be"):
        evaluate_duckdb({"first": first}, train, test, items=5)
    with pytest.raises(InputError, match="unknown option 'interval'"):
        evaluate_duckdb({"first": first}, train, test, interval="bca")
    (tmp_path / "text.parquet").write_text("user,item")
    with pytest.raises(InputError, match="train: the Parquet files cannot be read"):
        evaluate_duckdb({"first": first}, tmp_path / "text.parquet", test)
    frames["test"].astype({"user": str}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError, match="the user ids have different types in different files"):
        evaluate_duckdb({"first": first}, train, tmp_path / "other.parquet")
    doubled = pd.concat([frames["first"], frames["first"]])
    doubled.to_parquet(tmp_path / "doubled.parquet")
    with pytest.raises(InputError, match="379 of 758 entries repeat an item of their list"):
        evaluate_duckdb({"first": tmp_path / "doubled.parquet"}, train, test)
    nothing = tmp_path / "nothing.parquet"
    frames["first"].head(0).to_parquet(nothing)
    with pytest.raises(InputError, match=r"^train and test have no rows\.$"):
        evaluate_duckdb({"first": nothing}, nothing, nothing)
    frames["test"][["user"]].to_parquet(tmp_path / "users.parquet")
    with pytest.raises(InputError, match=r"^train: the files need columns user, item; they have user\.$"):
        evaluate_duckdb({"first": first}, tmp_path / "users.parquet", test)


def test_without_duckdb_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match=r"need DuckDB\. Install it by pip install duckdb\.$"):
        evaluate_duckdb({"m": "lists"}, "train", "test")


@pytest.mark.parametrize(
    ("rows", "n_partitions", "n_parts"),
    [((5_000_000, 3_000_000), None, 1), ((5_000_000, 3_000_001), None, 2), ((0, 0), None, 1), ((1, 1), 3, 3)],
)
def test_a_part_holds_8_million_rows_and_a_single_one_stays_where_it_is(rows, n_partitions, n_parts):
    written = []

    class Table(SimpleNamespace):
        name = "train"
        user_type = "VARCHAR"

        def partition(self, folder, parts):
            written.append((folder.name, parts))

    tables = [Table(n_rows=n_rows) for n_rows in rows]
    assert _duckdb._partition_tables(tables, n_partitions, Path("parts")) == n_parts
    assert written == ([("0", n_parts), ("1", n_parts)] if n_parts > 1 else [])


def test_parts_without_a_user_are_empty_and_duckdb_shows_no_bar_and_keeps_no_order(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pd.DataFrame({"user": [7, 7], "item": [1, 2]}).to_parquet(tmp_path / "train.parquet")
    with duckdb.connect() as connection:
        _duckdb._configure(connection, threads=1)
        for name in ("preserve_insertion_order", "enable_progress_bar"):
            assert connection.execute(f"SELECT current_setting('{name}')").fetchone() == (False,)
        table = _duckdb._Table(connection, "train", tmp_path / "train.parquet")
        assert (table.n_rows, table.read_part(0)["item"].tolist()) == (2, [1, 2])
        table.partition(tmp_path / "parts", 3)
        assert sorted(len(table.read_part(number)) for number in range(3)) == [0, 0, 2]


FAULTS = {
    "none": lambda frame, rng: frame,
    "shuffled": lambda frame, rng: frame.sample(frac=1, random_state=int(rng.integers(99))),
    "a gap": lambda frame, rng: frame[frame.index != 0],  # the first of the first list
    "a repeat": lambda frame, rng: pd.concat([frame, frame.sample(1, random_state=0)]),
    "an unknown item": lambda frame, rng: frame.assign(item=frame["item"].where(frame.index != 3, 7)),
    "an unknown user": lambda frame, rng: frame.assign(user=frame["user"].where(frame.index != 3, 2)),
    "ranks from 0": lambda frame, rng: frame.assign(rank=frame["rank"] - 1),
    "fractions": lambda frame, rng: frame.assign(rank=frame["rank"] + 0.5),
    "numbers of one byte": lambda frame, rng: frame.astype(
        {"user": "int32", "item": "int32", "rank": "int8"}
    ),
    "numbers without a sign": lambda frame, rng: frame.astype("uint64"),
    "any item": lambda frame, rng: frame.assign(item=rng.integers(500, 525, len(frame))),
}


SHORT = ("none", "shuffled", "numbers of one byte", "numbers without a sign")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_short_road_gives_what_the_long_road_gives(fault, monkeypatch):
    frames = example(3, n_users=20)
    lists = FAULTS[fault](frames["first"], np.random.default_rng(3))
    options = {"metrics": ("ndcg@4",), "estimators": ("aoa", "snips"), "propensity": SCALED}
    n_long = []

    def long_road(*arguments, **named):
        n_long.append(1)
        return rank_positives(*arguments, **named)

    def outcome():
        try:
            return in_partitions(frames, {"first": lists}, 2, **options)
        except IpsevalError as error:
            return str(error)

    monkeypatch.setattr(partition, "rank_positives", long_road)
    short = outcome()
    assert bool(n_long) == (fault not in SHORT)
    monkeypatch.setattr(Pairs, "from_columns", lambda *arguments: None)
    long = outcome()
    assert n_long
    if isinstance(long, str):
        assert short == long
        return
    pd.testing.assert_frame_equal(short.frame, long.frame, check_exact=True)
    pd.testing.assert_frame_equal(short.data, long.data)


ARRAYS = {
    "none": lambda frame: frame,
    "shuffled": lambda frame: frame.sample(frac=1, random_state=0),
    "empty": lambda frame: frame.assign(
        items=[np.array(x[: n % 3], dtype=int) for n, x in enumerate(frame["items"])]
    ),
    "small numbers": lambda frame: frame.astype({"user": "int16"}),
    "a user twice": lambda frame: pd.concat([frame, frame.head(1)]),
    "an item twice": lambda frame: frame.assign(items=[[*x, x[0]] for x in frame["items"]]),
    "unknown item": lambda frame: frame.assign(items=[[*x, -7] for x in frame["items"]]),
    "text": lambda frame: frame.assign(items=[list(map(str, x)) for x in frame["items"]]),
    "users as text": lambda frame: frame.astype({"user": str}),
    "any item": lambda frame: frame.assign(items=[list(range(500, 503))] * len(frame)),
}


@pytest.mark.parametrize("fault", ARRAYS)
def test_arrays_give_what_the_long_road_gives(fault, monkeypatch):
    frames = example(4, n_users=20)
    rows = as_arrays(frames["first"])
    lists = ARRAYS[fault](rows)
    catalogue = Catalogue(np.arange(500, 525))
    list_rows = sorted_pairs.Rows.from_data(lists, catalogue)

    def outcome():
        try:
            return in_partitions(frames, {"first": lists}, 1, metrics=("recall@5",), estimators=("aoa",))
        except IpsevalError as error:
            return str(error)

    assert (list_rows.pairs is None) == (
        fault not in ("none", "shuffled", "empty", "small numbers", "any item")
    )
    short = outcome()
    monkeypatch.setattr(Pairs, "from_columns", lambda *arguments: None)
    long = outcome()
    if isinstance(long, str):
        assert short == long
        return
    pd.testing.assert_frame_equal(short.frame, long.frame, check_exact=True)
    pd.testing.assert_frame_equal(short.data, long.data)


@pytest.mark.parametrize("columns", [{}, {"user": "int32", "item": "int16", "rank": "int8"}])
def test_lists_as_they_should_be_take_the_short_road(columns):
    user, item, rank = [9, 5, 5, -4], [3, 3, 8, 8], [1, 2, 1, 1]
    frame = pd.DataFrame({"user": user, "item": item, "rank": rank}).astype(columns)
    pairs = Pairs.from_columns(*(frame[name].to_numpy() for name in frame), Catalogue(np.array([8, 3])))
    assert pairs.users.tolist() == [-4, 5, 9]
    assert pairs.size.tolist() == [1, 2, 1]
    assert pairs.item.tolist() == [0, 0, 1, 1]
    assert pairs.rank.tolist() == [0, 0, 1, 0]
    assert pairs.user_codes(np.array([-4, 0, 5, 9])).tolist() == [0, 2, 2, 3]
    assert pairs.user_codes(np.array([-4, 0, 5])) is None
    rows = sorted_pairs.Rows.from_data(frame.drop(columns="rank"), Catalogue(np.array([8, 3])))
    assert rows.to_interactions(np.array([-4, 0, 5])) is None
    assert len(rows.to_interactions(np.array([-4, 0, 5, 9]))) == 4


def test_items_have_codes_where_ids_are_whole_numbers_not_too_far_apart():
    far = sorted_pairs.ENTRIES_PER_ITEM * 2 + 2**16
    catalogue = Catalogue(np.array([far + 4, 5]))
    assert catalogue.codes(np.array([5, far + 4, 5])).tolist() == [1, 0, 1]
    assert catalogue.codes(np.array([], dtype=int)).tolist() == []
    assert Catalogue(np.arange(2**13)).codes(np.array([7])).tolist() == [7]
    for unknown in (4, 6, far + 5):
        assert catalogue.codes(np.array([5, unknown])) is None
    assert catalogue.codes(np.array(["5"])) is None
    assert Catalogue(np.array([far + 5, 5])).codes(np.array([5])) is None
    assert Catalogue(np.array([], dtype=int)).codes(np.array([], dtype=int)) is None
    for end, side in ((2**62, -1), (-(2**62), 1)):
        inside = np.array([end + side])
        assert Catalogue(inside).codes(inside).tolist() == [0]
        for outside in (end, end - side):
            assert Catalogue(np.array([outside])).codes(np.array([outside])) is None


def test_user_item_and_rank_must_fit_into_62_bits():
    three = Catalogue(np.arange(3))  # two bits; ranks 1 and 2 take one, and leave 59
    item, rank = np.array([2, 0, 1]), np.array([1, 1, 2])

    def users(*ids, ranked=rank):
        pairs = Pairs.from_columns(np.array(ids), item, ranked, three)
        return None if pairs is None else pairs.users.tolist()

    last = 2**59 - 1
    assert users(0, last, last) == [0, last]
    assert users(0, last + 1, last + 1) is None
    assert users(0, 2 * last, 2 * last, ranked=None) == [0, 2 * last]
    assert users(0, 2**60, 2**60, ranked=None) is None
    least = -(2**62)
    assert users(*[least] * 3, ranked=None) == [least]
    assert users(*[least - 1] * 3, ranked=None) is None


def test_ranks_begin_at_1_and_have_no_gap_or_repeat():
    catalogue = Catalogue(np.arange(3))
    for rank, good in (((1, 2, 1), True), ((2, 1, 1), True), ((1, 1, 1), False), ((1, 3, 1), False)):
        pairs = Pairs.from_columns(np.array([4, 4, 7]), np.array([0, 1, 0]), np.array(rank), catalogue)
        assert (pairs is not None) == good
    for rank in ((2, 3, 2), (0, 1, 1)):
        assert Pairs.from_columns(np.array([4, 4, 7]), np.array([0, 1, 0]), np.array(rank), catalogue) is None
    pairs_without_ranks = Pairs.from_columns(np.array([4, 4]), np.array([1, 1]), None, catalogue)
    assert pairs_without_ranks is None
    lists = sorted_pairs.ListArrays(np.array([7, 4, 9]), np.array([2, 0, 1]), np.array([1, 0, 2])).frame
    assert lists.to_numpy().tolist() == [[7, 1, 1], [7, 0, 2], [9, 2, 1]]
