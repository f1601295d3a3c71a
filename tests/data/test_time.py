"""Leakage and sliding windows: worked by hand, and against plain loops."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipseval
from ipseval.data import Interactions
from ipseval.data.splits import (
    Split,
    split_global_time,
    split_leave_one_out,
    split_random,
    split_sliding,
    split_temporal,
)
from ipseval.data.splits.split import SplitSummary
from ipseval.errors import DataWarning, InputError
from tests.inside.data import Leakage


def make_log(times: list[float], users: list[int] | None = None) -> Interactions:
    users = list(range(len(times))) if users is None else users
    frame = pd.DataFrame({"user": users, "item": range(len(times)), "time": times})
    return Interactions.from_frame(frame, timestamp="time")


def pairs(part: Interactions) -> set[tuple[int, int]]:
    return set(zip(part.user.tolist(), part.item.tolist(), strict=True))


def test_a_split_without_time_or_without_later_rows_has_no_leakage_to_print():
    log = make_log([1, 2, 3, 4])
    split = split_global_time(log, test_fraction=0.5)
    assert split.leakage.n_leaking == 0
    assert "later" not in repr(split)
    frame = pd.DataFrame({"user": [0, 0], "item": [0, 1]})
    untimed_split = Split.from_frames(frame[:1], frame[1:])
    assert untimed_split.leakage is None
    assert SplitSummary.from_split(untimed_split) == SplitSummary("given as frames", False, 0, 0, 0.0)
    assert SplitSummary.from_split(split) == SplitSummary(split.description, False, 2, 0, 0.0)


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
def test_a_split_in_each_users_own_order_warns_prints_and_reports_its_leakage():
    # User 0 ends at time 2, user 1 trains at times 7 and 8: one of two test rows has later training rows.
    log = make_log([0, 1, 2, 7, 8, 9], users=[0, 0, 0, 1, 1, 1])
    with pytest.warns(DataWarning, match=r"1 of 2 test rows \(50\.0%\) have later training rows"):
        split = split_leave_one_out(log, order="temporal", n_validation=0)
    data = split.data.set_index("what")
    assert data.loc["test pairs with later training pairs", ["count", "of"]].tolist() == [1, 2]
    assert "in the median 25.0% of training is later" in repr(split)  # of 0 and 2/4
    evaluation = ipseval.evaluate({"popular": ipseval.baselines.popularity(split.train)}, split)
    summary = evaluation._split_summary
    assert (summary.n_leaking, summary.n_test, summary.median_future) == (1, 2, 0.25)
    assert split.leakage.text in " ".join(repr(evaluation.explain()).split())
    assert "50.0% of test rows have later training rows." in repr(evaluation)
    with pytest.warns(DataWarning, match="later training rows"):
        split_temporal(log, test_fraction=0.4)


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
def test_the_report_says_that_a_random_split_is_random_and_does_not_warn_about_leakage():
    log = make_log([0, 9, 2, 7, 1, 8], users=[0, 0, 1, 1, 2, 2])
    split = split_random(log, test_fraction=0.5, rng=0)
    evaluation = ipseval.evaluate({"popular": ipseval.baselines.popularity(split.train)}, split)
    assert f"{split.leakage.text}; the split is random" in " ".join(repr(evaluation.explain()).split())
    assert "later training rows" not in repr(evaluation)


def test_rows_of_a_purge_gap_are_in_no_part_and_have_a_count():
    split = split_global_time(make_log([1, 2, 3, 4, 5]), test_start=5, purge=2)  # 3 and 4 are in [3, 5)
    assert pairs(split.train) == {(0, 0), (1, 1)}
    assert (split.n_purged, len(split.test)) == (2, 1)
    assert split.description == "global time, test from 5, 2 rows before it in a gap of 2"
    gap_rows = "pairs in a gap before the held-out parts, left out"
    assert split.data.set_index("what").loc[gap_rows, "count"] == 2
    validated_split = split_global_time(
        make_log([1, 2, 3, 4, 5]), test_start=5, validation_start=3.5, purge=1
    )
    assert (len(validated_split.train), len(validated_split.validation), validated_split.n_purged) == (
        2,
        1,
        1,
    )
    description = "global time, test from 5, validation from 3.5, 1 row before it in a gap of 1"
    assert validated_split.description == description


def test_a_share_is_at_least_one_time_and_at_most_what_is_before_test():
    # Of three rows ⌊3 · 0.1 + ½⌋ = 0 go to test: the last one does.
    assert split_global_time(make_log([1, 2, 3]), test_fraction=0.1).test.timestamp.tolist() == [3]
    # Ties put three of four rows into test, so half of all for validation leave nothing to train on.
    with pytest.raises(InputError, match=r"^the training part is empty: the 4 timestamps run from 1 to 5"):
        split_global_time(make_log([1, 5, 5, 5]), test_fraction=0.25, validation_fraction=0.5)


@pytest.mark.parametrize(
    ("last", "printed_time"),
    [
        (10**17, "1973-03-03 09:46:40"),
        (10**17 - 1, "99999999999999999"),
        (2**63 - 2**63 % (86_400 * 10**9), "2262-04-11"),
    ],
)
def test_whole_numbers_are_dates_from_1973_on(last, printed_time):
    split = split_global_time(make_log([0, last]), test_start=last)
    assert split.description == f"global time, test from {printed_time}"
    if "-" in printed_time:
        assert split_global_time(make_log([0, last]), test_start=last, purge="7D").n_purged == 0
    else:
        with pytest.raises(InputError, match=r"^purge='7D' is for timestamps that were dates"):
            split_global_time(make_log([0, last]), test_start=last, purge="7D")
    with pytest.raises(InputError, match=r"is for timestamps that were dates; these run up to 1e\+18"):
        split_global_time(make_log([0.0, 1e18]), test_start=1, purge="7D")  # fractions are no dates


def test_the_earliest_times_are_printed_although_their_midnight_is_out_of_range():
    for first, printed_time in ((-(2**63), str(-(2**63))), (1 - 2**63, "1677-09-21 00:12:43.145224193")):
        with pytest.raises(InputError, match=f"timestamps run from {printed_time} to 5"):
            split_global_time(make_log([first, 5]), test_start=6)


def test_times_are_within_64_bits_and_lengths_at_most_a_quarter_of_them():
    log = make_log([1, 2, 3])
    for start in (1 - 2**63, 2**63 - 1):
        with pytest.raises(InputError, match="part is empty"):
            split_global_time(log, test_start=start)
    for start in (-(2**63), 2**63, float("nan"), np.float64(2.0**63)):
        with pytest.raises(InputError, match="test_start must be within 64 bits, as timestamps are; got"):
            split_global_time(log, test_start=start)
    with pytest.raises(InputError, match="the training part is empty"):
        split_global_time(log, test_start=3, purge=2**62)
    with pytest.raises(InputError, match=r"purge must be at most 2\^62; got 4611686018427387905"):
        split_global_time(log, test_start=3, purge=2**62 + 1)


def test_a_length_of_time_may_be_one_of_numpy_and_is_no_start():
    days = pd.to_datetime(["2026-03-01", "2026-03-02", "2026-03-03"])
    log = make_log(days)
    for purge in (np.timedelta64(1, "D"), timedelta(days=1), "1D", pd.Timedelta("1D")):
        assert split_global_time(log, test_start="2026-03-03", purge=purge).n_purged == 1
    for start in (np.timedelta64(1, "D"), np.datetime64("NaT", "D"), "9999-12-31"):
        with pytest.raises(InputError, match="test_start must be a number or a date; got"):
            split_global_time(log, test_start=start)
    for purge in (True, None, np.bool_(True)):
        with pytest.raises(InputError, match="purge must be a number or a length of time; got"):
            split_global_time(log, test_start="2026-03-03", purge=purge)


@pytest.mark.parametrize("name", ["global", "sliding", "temporal"])
def test_a_log_without_rows_is_not_split_by_time(name):
    none = make_log([1, 2]).select([])
    splits = {
        "global": lambda: split_global_time(none, test_start=1),
        "sliding": lambda: split_sliding(none, start=1, test=1),
        "temporal": lambda: split_temporal(none),
    }
    with pytest.raises(InputError, match="needs at least one interaction, and this log has none"):
        splits[name]()


def test_windows_follow_the_worked_example():
    # Ties at 4 stay together, on the later side. Windows [4, 6), [6, 8), [8, 9]: the second is empty.
    log = make_log([1, 2, 4, 4, 5, 8, 9])
    splits = split_sliding(log, start=4, test=2)
    assert [(pairs(s.train), pairs(s.test)) for s in splits] == [
        ({(0, 0), (1, 1)}, {(2, 2), (3, 3), (4, 4)}),
        ({(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)}, {(5, 5), (6, 6)}),
    ]
    assert splits.frame["used"].tolist() == [True, False, True]
    assert splits.frame["n_cold_users"].tolist() == [3, pd.NA, 2]
    left_out = "1 window without training or test rows left out"
    assert repr(splits) == f"SlidingSplits(2 windows, {left_out}; 5 test rows from 4 on)"
    assert [len(s.test) for s in splits[1:]] == [len(splits[-1].test)] == [2]
    assert splits[1].description == "window 3 of 3, test from 8 to 10"
    assert splits[1].validation is None
    assert repr(split_sliding(log, start=9, test=1)) == "SlidingSplits(1 window; 1 test row from 9 on)"


@pytest.mark.parametrize("kind", [int, float])
def test_the_last_window_ends_after_the_last_row(kind):
    # Windows [2, 4) and [4, end): the rows before 2 are all the history that there is.
    splits = split_sliding(make_log([kind(time) for time in (-7, 1, 3, 4, 5)]), start=2, test=3, step=2)
    assert splits.frame["n_train"].tolist() == [2, 3]
    assert splits.frame["n_test"].tolist() == [2, 2]
    assert splits.frame["end"].tolist() == [5, 6 if kind is int else np.nextafter(5, 6)]


def test_the_last_row_is_in_the_window_that_begins_with_it():
    # The fourth window begins at 4.3 + 3 · 3.1 = 13.6, in binary floating point 13.600000000000001.
    for end, n_test in ((None, [1, 0, 0, 1]), (13.6, [1, 0, 0, 0])):
        splits = split_sliding(make_log([1.0, 5.0, 13.6]), start=4.3, test=3.1, end=end)
        assert splits.frame["n_test"].tolist() == n_test


def test_window_purge_validation_and_history_follow_the_worked_example():
    # t = 6: test [6, 8), validation [5, 6), gap [4, 5), training [2, 4).
    log = make_log([1, 2, 3, 4, 5, 6, 7, 8])
    split = split_sliding(log, start=6, test=2, train=2, purge=1, validation=1, end=8)[0]
    times = [part.timestamp.tolist() for part in (split.train, split.validation, split.test)]
    assert times == [[2, 3], [5], [6, 7]]
    assert split.n_purged == 1
    frame = split_sliding(log, start=6, test=2, train=2, purge=1, validation=1).frame
    counts = {"n_train": 2, "n_purged": 1, "n_validation": 1, "n_test": 2, "used": True, "n_users": 2}
    cold = {"n_cold_users": 2, "n_cold_items": 2, "n_cold_positives": 2}
    assert frame.iloc[0].to_dict() == {"window": 0, "start": 6, "end": 8, **counts, **cold}
    assert split_sliding(log, test=2, train=2, purge=1, validation=1).bounds["start"][0] == 1 + 2 + 1 + 1


def make_windows_by_loop(times, t0, window, ground_truth, end):
    """Return the windows of RecNextEval's SlidingWindowSetting, row by row."""
    rows = [number for number, time in enumerate(times) if time < end]
    windows = []
    start = t0
    while start <= max(times[row] for row in rows):
        past = {row for row in rows if times[row] < start}
        future = {row for row in rows if start <= times[row] < start + ground_truth}
        if past and future:
            windows.append((past, future))
        start += window
    return windows


@given(
    times=st.lists(st.integers(0, 12), min_size=2, max_size=20),
    t0=st.integers(0, 8),
    window=st.integers(1, 6),
    ground_truth=st.integers(1, 6),
    end=st.integers(6, 16),
)
def test_windows_equal_those_of_a_plain_loop(times, t0, window, ground_truth, end):
    if min(times) >= end:
        return
    expected = make_windows_by_loop(times, t0, window, ground_truth, end)
    log = make_log(times)
    if not expected:
        with pytest.raises(InputError, match="no window has training and test rows"):
            split_sliding(log, start=t0, step=window, test=ground_truth, end=end)
        return
    splits = split_sliding(log, start=t0, step=window, test=ground_truth, end=end)
    assert [({u for u, _ in pairs(s.train)}, {u for u, _ in pairs(s.test)}) for s in splits] == expected
    assert all(split.leakage.n_leaking == 0 for split in splits)


def test_dates_with_a_time_zone_are_instants_and_days_have_24_hours():
    # New York sets its clocks back on 1 November 2020 at 06:00 UTC: that day has 25 hours there.
    zone = ZoneInfo("America/New_York")
    instants = [datetime(2020, 10, 31, 20, tzinfo=ZoneInfo("UTC")) + timedelta(hours=h) for h in range(60)]
    frame = pd.DataFrame({"user": range(60), "item": range(60), "time": pd.to_datetime(instants)})
    local = frame.assign(time=frame["time"].dt.tz_convert(zone))
    logs = [Interactions.from_frame(variant, timestamp="time") for variant in (frame, local)]
    assert np.array_equal(logs[0].timestamp, logs[1].timestamp)
    start = datetime(2020, 11, 1, tzinfo=zone)  # 04:00 UTC: eight hours after the first row
    for log in logs:
        splits = split_sliding(log, start=start, test="1D")
        assert [(len(s.train), len(s.test)) for s in splits] == [(8, 24), (32, 24), (56, 4)]
    utc = split_sliding(logs[0], start="2020-11-01", test=timedelta(days=1))
    assert [len(s.test) for s in utc] == [24, 24, 8]
    assert utc.frame["start"].astype(str).tolist() == ["2020-11-01", "2020-11-02", "2020-11-03"]
    # The last window ends just after the last row.
    last_row = pd.Timestamp(logs[0].timestamp.max(), unit="ns")
    assert utc.frame["end"].tolist() == [*utc.frame["start"][1:], last_row + pd.Timedelta(1, "ns")]


def test_polars_dates_with_a_time_zone_are_the_same_instants():
    polars = pytest.importorskip("polars")
    time = polars.Series([datetime(2020, 11, 1, 6, tzinfo=ZoneInfo("UTC"))]).dt.convert_time_zone(
        "Asia/Tokyo"
    )
    log = Interactions.from_frame(
        polars.DataFrame({"user": [0], "item": [0], "time": time}), timestamp="time"
    )
    assert log.timestamp[0] == pd.Timestamp("2020-11-01 06:00").value


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"test": 2}, "give start=.* or train="),
        ({"test": 0, "start": 2}, "test must be a finite number > 0"),
        ({"test": "7D", "start": 2}, "is for timestamps that were dates"),
        ({"test": "soon", "start": 2}, "test must be a number or a length such as '7D'"),
        (
            {"test": 1, "start": 99},
            "run from 1 to 3, and the first of 0 windows starts at 99",
        ),
        ({"test": 1, "start": 0, "step": 1e-9}, "more than 100,000"),
        ({"test": 1, "start": 3 - 100_000}, "step=1 makes more than 100,000 windows"),
        ({"test": 1.2, "start": 3 - 150_000}, r"step=1\.2 makes more than 100,000 windows"),
        ({"test": 1, "start": True}, "start must be a number or a date"),
        ({"test": 1, "start": 2, "purge": -0.5}, "purge must be a finite number >= 0"),
        ({"test": 1, "start": 2, "validation": -0.5}, "validation must be a finite number >= 0"),
    ],
)
def test_the_error_of_wrong_windows_names_the_requirement(options, text):
    with pytest.raises(InputError, match=text):
        split_sliding(make_log([1, 2, 3]), **options)


def test_there_may_be_a_hundred_thousand_windows():
    assert len(split_sliding(make_log([1, 2, 3]), start=4 - 100_000, test=1).bounds) == 100_000


def test_an_end_after_the_last_row_changes_nothing():
    log = make_log([1, 2, 4, 5])
    expected = [len(split.test) for split in split_sliding(log, start=2, test=2)]
    assert [len(split.test) for split in split_sliding(log, start=2, test=2, end=2**63 - 1)] == expected


def test_leakage_counts_later_training_rows_as_a_loop_does() -> None:
    rng = np.random.default_rng(0)
    for n_test in (5, 6):
        time = rng.integers(0, 20, 30)
        log = Interactions(np.zeros(30, int), np.arange(30), [0], np.arange(30), timestamp=time)
        train = log.select(np.arange(n_test, 30))
        test = log.select(np.arange(n_test))
        n_later = [(train.timestamp > time_of_test_row).sum() for time_of_test_row in test.timestamp]
        leakage = Leakage.from_parts(train, test)
        assert leakage == Leakage(
            n_test, 30 - n_test, sum(count > 0 for count in n_later), np.median(n_later) / (30 - n_test)
        )
