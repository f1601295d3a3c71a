"""KuaiRand, KuaiRec and MIND in their original layouts: small files that the tests write."""

from __future__ import annotations

import gzip
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, UnknownNameError
from ipseval.validation.datasets import load_kuairand, load_kuairec, load_mind
from tests.inside.validation import check_published_rows

HEADER = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,"
    "play_time_ms,duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab"
)
SIGNALS = [*HEADER.split(",")[5:17]]
STANDARD_1 = [(7, 50, 100, 1), (7, 60, 200, 0), (9, 50, 300, 0), (9, 50, 400, 1), (9, 50, 450, 1)]
STANDARD_2 = [(9, 70, 500, 1), (7, 50, 600, 0)]
RANDOM = [(7, 80, 700, 0), (11, 60, 800, 1), (9, 80, 900, 1)]


def make_log(rows, *, is_random: bool) -> str:
    """Return a log of (user, video, time, click), in which each other signal has values of its own."""
    lines = [HEADER]
    for user, video, time, click in rows:
        signals = dict.fromkeys(SIGNALS, 0)
        signals["is_click"] = click
        signals["long_view"] = 1 - click
        signals["play_time_ms"] = time * 10
        signals["duration_ms"] = 5000
        signals["profile_stay_time"] = video
        values = [user, video, 20220422, 1600, time, *signals.values(), int(is_random), 1]
        lines.append(",".join(map(str, values)))
    return "\n".join(lines) + "\n"


def write_kuairand(folder, *, standard_2=STANDARD_2, random=RANDOM):
    files = {
        "log_standard_4_08_to_4_21_pure.csv": make_log(STANDARD_1, is_random=False),
        "log_standard_4_22_to_5_08_pure.csv": make_log(standard_2, is_random=False),
        "log_random_4_22_to_5_08_pure.csv": make_log(random, is_random=True),
        "user_features_pure.csv": "user_id\n7\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def rows_of(log: ipseval.Interactions) -> list[tuple[int, int, float, int]]:
    frame = log.to_frame()
    return sorted(zip(frame["user"], frame["item"], frame["value"], frame["timestamp"], strict=True))


def test_the_largest_signal_of_each_pair_is_kept_with_its_first_time(tmp_path):
    study = load_kuairand(write_kuairand(tmp_path), verify=False)
    assert rows_of(study.biased) == [(7, 50, 1, 100), (7, 60, 0, 200), (9, 50, 1, 400), (9, 70, 1, 500)]
    assert rows_of(study.random) == [(7, 80, 0, 700), (9, 80, 1, 900), (11, 60, 1, 800)]
    assert study.biased.user_ids.tolist() == [7, 9, 11]
    assert study.random.item_ids.tolist() == [50, 60, 70, 80]
    assert study.threshold == 1
    positives = study.positives()
    assert len(positives.biased) == 3
    assert (len(positives.random), len(positives.random_negatives)) == (2, 1)
    assert positives.n_exposed.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("signal", SIGNALS)
def test_each_of_the_twelve_signals_is_read_by_its_name(tmp_path, signal):
    study = load_kuairand(write_kuairand(tmp_path), signal=signal, verify=False)
    frame = pd.read_csv(tmp_path / "log_random_4_22_to_5_08_pure.csv")
    expected = sorted(zip(frame["user_id"], frame["video_id"], frame[signal], frame["time_ms"], strict=True))
    assert rows_of(study.random) == expected
    assert len(study.biased) == 4
    standard = pd.concat([pd.read_csv(path) for path in sorted(tmp_path.glob("log_standard_*.csv"))])
    largest = standard.groupby(["user_id", "video_id"])[signal].max()
    values = study.biased.to_frame().set_index(["user", "item"])["value"].sort_index()
    np.testing.assert_array_equal(values.to_numpy(), largest.to_numpy())


def test_there_are_twelve_signals():
    assert len(SIGNALS) == 12


def test_archives_and_compressed_files_are_read_in_place(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_kuairand(folder)
    expected = rows_of(load_kuairand(folder, verify=False).biased)
    with zipfile.ZipFile(tmp_path / "k.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"KuaiRand-Pure/data/{path.name}")
    assert rows_of(load_kuairand(tmp_path / "k.zip", verify=False).biased) == expected
    for path in list(folder.glob("log_*.csv")):
        with gzip.open(f"{path}.gz", "wb") as stream:
            stream.write(path.read_bytes())
        path.unlink()
    assert rows_of(load_kuairand(folder, verify=False).biased) == expected


def test_lists_of_clicks_are_read_as_before_and_have_clicks_alone(tmp_path):
    for name, text in {
        "train": "0 1 2\n",
        "valid": "0 3\n",
        "test_ood": "0 0\n",
        "test_neg": "1 2\n",
    }.items():
        (tmp_path / f"{name}.txt").write_text(text)
    assert len(load_kuairand(tmp_path, verify=False).biased) == 3
    with pytest.raises(InputError, match="signal must be 'is_click' for lists of clicks; got 'is_like'"):
        load_kuairand(tmp_path, signal="is_like", verify=False)


def test_incomplete_and_changed_logs_are_refused(tmp_path):
    write_kuairand(tmp_path)
    with pytest.raises(
        InputError, match="the logs have 7 rows of the feed and 3 of random exposure; expected Kuai"
    ):
        load_kuairand(tmp_path)
    with pytest.raises(UnknownNameError, match="is_clicked"):
        load_kuairand(tmp_path, signal="is_clicked", verify=False)
    log = tmp_path / "log_random_4_22_to_5_08_pure.csv"
    log.write_text(make_log([(7, 80, 700, 2)], is_random=True))
    with pytest.raises(InputError, match=r"is_click of log_random_\*\.csv must be 0 or 1; 1 of 1 are not"):
        load_kuairand(tmp_path, verify=False)
    log.write_text(log.read_text().replace("play_time_ms", "time_of_play"))
    with pytest.raises(InputError, match="cannot be read as user_id, video_id, time_ms, play_time_ms"):
        load_kuairand(tmp_path, signal="play_time_ms", verify=False)
    log.unlink()
    with pytest.raises(InputError, match=re.escape("log_random_*.csv is not in")):
        load_kuairand(tmp_path, verify=False)


def test_kuairec_reads_a_signal_by_its_name(tmp_path):
    header = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
    (tmp_path / "big_matrix.csv").write_text(
        f"{header}0,5,900,450,,,,2.0\n0,5,100,450,,,,0.2\n1,6,0,450,,,,0\n"
    )
    (tmp_path / "small_matrix.csv").write_text(f"{header}1,5,450,450,,,,1.0\n")
    study = load_kuairec(tmp_path, signal="play_duration", verify=False)
    assert study.biased.to_frame()["value"].tolist() == [900, 0]
    assert study.threshold == 1
    assert len(study.positives().biased) == 1
    assert load_kuairec(tmp_path, verify=False).threshold == 2
    with pytest.raises(UnknownNameError, match="likes"):
        load_kuairec(tmp_path, signal="likes", verify=False)


MIND = (
    "1\tU13740\t11/11/2019 9:05:58 AM\tN55189 N42782\tN55689-1 N35729-0\n"
    "2\tU91836\t11/12/2019 6:11:30 PM\t\tN20678-0 N39317-0 N55689-1\n"
)


def test_mind_becomes_a_log_of_impressions(tmp_path):
    (tmp_path / "behaviors.tsv").write_text(MIND)
    log = load_mind(tmp_path)
    assert len(log) == 5
    assert log.user_ids[log.user].tolist() == ["U13740"] * 2 + ["U91836"] * 3
    assert log.item_ids[log.item].tolist() == ["N55689", "N35729", "N20678", "N39317", "N55689"]
    assert log.clicked.tolist() == [True, False, False, False, True]
    times = pd.to_datetime(log.timestamp)
    assert times[0] == pd.Timestamp("2019-11-11 09:05:58")
    assert times[-1] == pd.Timestamp("2019-11-12 18:11:30")
    assert np.unique(log.query).size == 2
    assert log.position is None
    assert len(log.positives) == 2
    assert len(load_mind(tmp_path / "behaviors.tsv")) == 5


def test_mind_without_labels_or_times_is_refused(tmp_path):
    file = tmp_path / "behaviors.tsv"
    with pytest.raises(InputError):
        load_mind(tmp_path)
    file.write_text("1\tU1\t11/11/2019 9:05:58 AM\t\tN1 N2\n")
    with pytest.raises(InputError, match="have no label"):
        load_mind(tmp_path)
    file.write_text("1\tU1\tyesterday\t\tN1-1\n")
    with pytest.raises(InputError, match="times must be as in 11/11/2019"):
        load_mind(tmp_path)


def test_the_logs_of_the_three_versions_of_kuairand_have_their_published_rows():
    # Gao et al. (2022), table 2, and the page of the data. Pure and 27K have the same log of random exposure.
    for rows in ((1_436_609, 1_186_059), (11_713_045, 43_028), (322_278_385, 1_186_059)):
        check_published_rows(*rows)
        for change in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            with pytest.raises(InputError, match="get them again, or pass verify=False"):
                check_published_rows(rows[0] + change[0], rows[1] + change[1])
