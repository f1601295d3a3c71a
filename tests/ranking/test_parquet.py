"""Ranked positives survive a parquet file exactly."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from ipseval import InputError, RankedPositives, Split, rank_positives
from ipseval.ranking import SampledCandidates
from tests.inside.ranking import Sampling, _parquet
from tests.inside.utils import artefacts as _artefacts


def assert_same(first: RankedPositives, second: RankedPositives) -> None:
    for field in fields(RankedPositives):
        first_value = getattr(first, field.name)
        second_value = getattr(second, field.name)
        if isinstance(first_value, np.ndarray):
            assert first_value.dtype == second_value.dtype, field.name
            assert first_value.tolist() == second_value.tolist(), field.name
            assert {type(value) for value in first_value.tolist()} == {
                type(value) for value in second_value.tolist()
            }
        else:
            assert first_value == second_value, field.name


def make_ranks(users, items, *, gain=False, lists=False) -> RankedPositives:
    # Six users and five items; the last user and the last item occur in no interaction.
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"user": [users[0], users[1]], "item": [items[0], items[1]], "value": 1.0})
    test = pd.DataFrame(
        {
            "user": [users[4], users[0], users[0]],
            "item": [items[0], items[3], items[1]],
            "value": [2.5, 1.0, 0.25],
        }
    )
    split = Split.from_frames(train, test, users=users, items=items, value="value" if gain else None)
    if lists:
        return rank_positives(test.assign(rank=[1, 1, 2])[["user", "item", "rank"]].iloc[:2], split)
    return rank_positives(rng.random((6, 5)), split)


IDS = {
    "int64": (np.array([9, 4, 7, 1, 3, 2]), np.array([50, 10, 20, 40, 30])),
    "int32": (np.array([9, 4, 7, 1, 3, 2], dtype=np.int32), np.array([5, 1, 2, 4, 3], dtype=np.int16)),
    "text": (np.array(["z", "ä", "a", "", "b", "q q"], dtype=object), np.array(list("vwxyz"), dtype=object)),
    "dates": (np.arange(6).astype("datetime64[ns]"), np.arange(5)),
    "python numbers": (np.array([1, 2, 3, 4, 5, 2**40], dtype=object), np.arange(5)),
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("gain", [False, True])
def test_the_round_trip_changes_nothing(kind, gain, tmp_path):
    ranked = make_ranks(*IDS[kind], gain=gain)
    ranked.to_parquet(tmp_path / "ranks.parquet")
    assert_same(ranked, RankedPositives.from_parquet(tmp_path / "ranks.parquet"))


def test_censored_ranks_stay_censored(tmp_path):
    ranked = make_ranks(*IDS["text"], lists=True)
    assert ranked.max_rank == 1
    ranked.to_parquet(str(tmp_path / "ranks.parquet"))
    assert_same(ranked, RankedPositives.from_parquet(str(tmp_path / "ranks.parquet")))


@pytest.mark.parametrize("distribution", ["uniform", np.arange(1.0, 9.0)])
def test_the_record_of_a_sample_survives(distribution, tmp_path):
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"user": np.repeat(np.arange(4), 3), "item": np.tile([0, 1, 2], 4)})
    test = pd.DataFrame({"user": [0, 2], "item": [5, 6]})
    split = Split.from_frames(train, test, users=np.arange(4), items=np.arange(8))
    scheme = SampledCandidates(2, distribution=distribution, rng=0)
    ranked = rank_positives(rng.random((4, 8)), split, candidates=scheme)
    ranked.to_parquet(tmp_path / "ranks.parquet")
    read = RankedPositives.from_parquet(tmp_path / "ranks.parquet")
    assert_same(replace(ranked, sampling=None), replace(read, sampling=None))
    for field in fields(Sampling):
        a = getattr(ranked.sampling, field.name)
        b = getattr(read.sampling, field.name)
        assert np.array_equal(a, b), field.name


def test_other_tools_read_tidy_rows_with_ids(tmp_path):
    ranked = make_ranks(*IDS["text"])
    ranked.to_parquet(tmp_path / "ranks.parquet")
    frame = pd.read_parquet(tmp_path / "ranks.parquet")
    assert list(frame.columns) == ["user", "item", "n_above", "n_tied", "n_candidates"]
    assert frame["user"].tolist() == ["z", "z", "b"]
    assert frame["item"].tolist() == ["w", "y", "v"]
    assert frame["n_candidates"].tolist() == [4, 4, 5]


def test_a_file_of_a_hundred_groups_of_rows_is_read(tmp_path):
    split = Split.from_frames(None, pd.DataFrame({"user": range(100), "item": range(100)}))
    ranked = rank_positives(np.eye(100), split)
    path = tmp_path / "ranks.parquet"
    ranked.to_parquet(path)
    parquet.write_table(parquet.read_table(path), path, row_group_size=1, write_page_checksum=True)
    assert_same(ranked, RankedPositives.from_parquet(path))


def test_a_file_of_another_origin_is_refused(tmp_path):
    pd.DataFrame({"user": [1], "item": [2]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"was not written by RankedPositives\.to_parquet"):
        RankedPositives.from_parquet(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no parquet at all")
    with pytest.raises(InputError, match=r"cannot read .*text\.parquet"):
        RankedPositives.from_parquet(tmp_path / "text.parquet")


def test_a_later_format_is_refused(tmp_path, monkeypatch):
    ranked = make_ranks(*IDS["int64"])
    monkeypatch.setattr(_artefacts, "FORMAT", 99)
    ranked.to_parquet(tmp_path / "ranks.parquet")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"must have storage format 1; got format 99\. Rank again and write"):
        RankedPositives.from_parquet(tmp_path / "ranks.parquet")


def test_ids_that_parquet_does_not_hold_are_refused(tmp_path):
    users = np.empty(6, dtype=object)
    users[:] = [frozenset({i}) for i in range(6)]
    ranked = RankedPositives(
        *(np.array([0]) for _ in range(4)), n_candidates=np.array([3]), user_ids=users, item_ids=np.arange(3)
    )
    with pytest.raises(InputError, match="cannot be stored in parquet"):
        ranked.to_parquet(tmp_path / "ranks.parquet")


def test_without_pyarrow_the_error_names_the_package(tmp_path, monkeypatch):
    ranked = make_ranks(*IDS["int64"])
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"need pyarrow\. Install it by pip install pyarrow\."):
        ranked.to_parquet(tmp_path / "ranks.parquet")


def test_every_damage_is_an_error_or_changes_nothing(tmp_path):
    ranked = make_ranks(*IDS["int64"], gain=True)
    path = tmp_path / "ranks.parquet"
    ranked.to_parquet(path)
    content = path.read_bytes()
    positions = range(0, len(content), 23)
    flipped = [
        content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :]
        for position in positions
    ]
    n_refused = 0
    for damaged in flipped:
        path.write_bytes(damaged)
        try:
            restored = RankedPositives.from_parquet(path)
        except InputError:
            n_refused += 1
            continue
        assert_same(restored, ranked)
    assert n_refused > 0  # how many depends on the length of the file, and on the release of pyarrow
    for size in range(0, len(content), 131):
        path.write_bytes(content[:size])
        with pytest.raises(InputError):
            RankedPositives.from_parquet(path)


def test_ranks_are_written_completely_or_not_at_all(tmp_path):
    ranked = make_ranks(*IDS["int64"])
    with pytest.raises(InputError, match="is a folder"):
        ranked.to_parquet(tmp_path)
    ranked.to_parquet(tmp_path / "new" / "ranks.parquet")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["ranks.parquet"]


def test_the_size_of_a_file_is_checked_as_eight_bytes_per_number(tmp_path, monkeypatch):
    ranked = RankedPositives([0, 0, 1], [1, 2, 0], [0, 1, 0], [0] * 3, [5] * 3, ["a", "b"], list("vwxyz"))
    ranked.to_parquet(tmp_path / "ranks.parquet")
    checked_sizes = []
    monkeypatch.setattr(_parquet, "check_members", lambda path, sizes: checked_sizes.append(sizes))
    assert len(RankedPositives.from_parquet(tmp_path / "ranks.parquet")) == 3
    assert checked_sizes == [[8 * 3 * 5]]  # user, item and three counts


@pytest.mark.parametrize(("gain", "n_columns"), [(False, 5), (True, 6)])
def test_the_size_of_a_table_is_checked_before_it_is_read(gain, n_columns, tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(_parquet, "check_members", lambda path, numbers: sizes.append(numbers))
    ranked = make_ranks(*IDS["int64"], gain=gain)
    ranked.to_parquet(tmp_path / "ranks.parquet")
    RankedPositives.from_parquet(tmp_path / "ranks.parquet")
    assert sizes == [[8 * 3 * n_columns]]  # of three positives, eight bytes a number
