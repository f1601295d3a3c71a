"""Impression logs: reading, errors for invalid logs, and counts."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import ImpressionLog, InputError
from ipseval.errors import DataWarning, PropensityError

# Two slates of three places; user b has clicked item 1 twice, on two days.
FRAME = pd.DataFrame(
    {
        "user": ["a", "a", "a", "b", "b", "b"],
        "item": [1, 2, 3, 3, 1, 2],
        "clicked": [0, 1, 0, 0, 1, 0],
        "ts": pd.to_datetime(["2026-01-01"] * 3 + ["2026-01-02"] * 3),
        "pos": [1, 2, 3, 1, 2, 3],
        "p": [0.5, 0.25, 0.25, 0.2, 0.5, 0.3],
        "slate": ["x", "x", "x", "y", "y", "y"],
    }
)
NAMES = {"timestamp": "ts", "position": "pos", "propensity": "p", "query": "slate"}


def count_treatments(log):
    counts = {count.label: count.count for count in log.row_counts}
    assert counts.pop("rows read") > 0
    return counts


def change_column(column, values):
    return FRAME.assign(**{column: values})


def test_a_log_keeps_every_column_in_one_id_space():
    log = ImpressionLog.from_frame(FRAME, **NAMES, users=["c", "b", "a"])
    assert (len(log), log.n_users, log.n_items, log.n_queries) == (6, 3, 3, 2)
    np.testing.assert_array_equal(log.user, [2, 2, 2, 1, 1, 1])
    np.testing.assert_array_equal(log.query, [0, 0, 0, 1, 1, 1])
    back = log.to_frame()
    assert back["item"].tolist() == [1, 2, 3, 3, 1, 2]
    assert back["position"].tolist() == FRAME["pos"].tolist()
    assert back["propensity"].tolist() == FRAME["p"].tolist()
    assert pd.to_datetime(back["timestamp"]).tolist() == FRAME["ts"].tolist()
    assert count_treatments(log) == {}
    assert (log.timestamp.dtype, log.position.dtype) == (np.int64, np.int64)
    assert ImpressionLog.from_frame(FRAME).n_queries == 0
    columns = ("user", "item", "clicked", "timestamp", "position", "propensity", "query")
    assert not any(getattr(log, name).flags.writeable for name in columns)
    with pytest.raises(ValueError, match="read-only"):
        log.clicked[0] = True


def test_positives_are_the_first_clicks_of_pairs_and_later_clicks_have_a_count():
    frame = pd.DataFrame(
        {"user": ["a"] * 4, "item": [7, 7, 8, 7], "clicked": [1, 1, 0, 0], "ts": [30, 10, 5, 1]}
    )
    positives = ImpressionLog.from_frame(frame, timestamp="ts").positives
    assert positives.to_frame().to_numpy().tolist() == [["a", 7, 10]]
    assert positives.n_duplicates_dropped == 1
    assert positives.data["count"].tolist() == [4, 1]  # rows read, clicks on a pair clicked before
    assert positives.n_items == 2  # the universe of the log, items never clicked included
    assert ImpressionLog.from_frame(frame).positives.timestamp is None


def test_rows_are_chosen_over_the_same_ids():
    log = ImpressionLog.from_frame(FRAME, **NAMES)
    part = log.select(log.clicked)
    assert part.to_frame()["query"].tolist() == ["x", "y"]
    assert (part.n_users, part.n_items, part.n_queries) == (2, 3, 2)
    again = pickle.loads(pickle.dumps(part))
    pd.testing.assert_frame_equal(again.to_frame(), part.to_frame())


INVALID_FRAMES = {
    "1 missing entry of 6": change_column("pos", [1, 2, np.nan, 1, 2, 3]),
    r"2 of 6 positions are not whole .* .first: 0.. Add 1 where the first position is 0": change_column(
        "pos", [0, 1, 2, 0, 1, 2]
    ),
    "1 of 6 positions are not whole.*Correct": change_column("pos", [1, 1.5, 2, 1, 2, 3]),
    "1 of 2 slates lack .*slate x has 1, 2, 4": change_column("pos", [1, 2, 4, 1, 2, 3]),
    "1 of 2 slates lack .*slate y has 1, 3, 4": change_column("pos", [1, 2, 3, 1, 3, 4]),
    "2 of 2 slates lack .*slate x has 2, 3, 4": change_column("pos", [2, 3, 4, 1, 3, 4]),
    "3 of 6 positions are not whole.*first: -1.*Correct": change_column("pos", [-1, 0, 1, -1, 2, 3]),
    "1 of 6 rows have the position": change_column("pos", [1, 2, 2, 1, 2, 3]),
    "1 of 6 propensities are 0, negative or missing": change_column("p", [0, 0.5, 0.5, 0.2, 0.5, 0.3]),
    r"2 of 6 propensities are above 1 \(largest: 2.5\)": change_column("p", [2.5, 1.5, 0.5, 0.2, 0.5, 0.3]),
    "1 of 6 .*first: 2": change_column("clicked", [0, 2, 0, 0, 1, 0]),
    "2 of 6 .*first: -1": change_column("clicked", [0, -1, -1, 0, 1, 0]),
    "must hold True or False": change_column("clicked", ["no"] * 6),
    "2 of 8 rows repeat an impression .*first: .a., 1.. Pass duplicates": pd.concat([FRAME, FRAME[:2]]),
}


@pytest.mark.parametrize("text", INVALID_FRAMES)
def test_the_error_of_an_invalid_log_has_a_count_and_a_fix(text):
    with pytest.raises(PropensityError if "propensities" in text else InputError, match=text) as error:
        ImpressionLog.from_frame(INVALID_FRAMES[text], **NAMES)
    assert "problems" not in str(error.value)  # it is the only one


def test_one_error_lists_all_problems():
    frame = FRAME.assign(pos=[1, 2, 4, 1, 2, 3], p=[0, 0.5, 1.5, 0.2, 0.5, 0.3])
    with pytest.raises(InputError, match=r"has 3 problems.*lack positions.*are 0, negative.*above 1"):
        ImpressionLog.from_frame(frame, **NAMES)


def test_merged_impressions_and_kept_gaps_have_a_count():
    frame = pd.concat([change_column("pos", [1, 2, 4, 1, 2, 3]), FRAME[1:2].assign(clicked=0)])
    log = ImpressionLog.from_frame(frame, **NAMES, duplicates="drop", gaps="keep")
    assert count_treatments(log) == {
        "repeated impressions, merged": 1,
        "slates with gaps in their positions, kept": 1,
    }
    assert log.clicked.tolist() == [False, True, False, False, True, False]
    frame = pd.concat([FRAME[:1], FRAME[:1].assign(clicked=1)])
    log = ImpressionLog.from_frame(frame, timestamp="ts", duplicates="drop")
    assert log.clicked.tolist() == [True]


def test_without_time_or_slate_each_row_is_one_showing():
    log = ImpressionLog.from_frame(pd.concat([FRAME, FRAME]))
    assert (len(log), len(log.positives), log.positives.n_duplicates_dropped) == (12, 2, 2)


def test_propensities_of_a_slate_sum_to_its_number_of_rows_shown():
    candidates = FRAME.assign(shown=[1, 1, 0, 1, 1, 0], p=[0.8, 0.7, 0.5, 0.9, 0.6, 0.5])
    names = {"propensity": "p", "query": "slate", "shown": "shown"}
    log = ImpressionLog.from_frame(candidates, **names)
    assert count_treatments(log) == {"candidates that were not shown, left out": 2}
    assert len(log) == 4
    with pytest.raises(PropensityError, match=r"1 of 2 slates do not sum .*slate y: sum 1.5, shown 2"):
        ImpressionLog.from_frame(candidates.assign(p=[0.8, 0.7, 0.5, 0.4, 0.6, 0.5]), **names)
    with pytest.raises(PropensityError, match=r"2 of 2 slates do not sum .*slate x: sum 1.7, shown 2"):
        ImpressionLog.from_frame(candidates.assign(p=[0.5, 0.7, 0.5, 0.4, 0.6, 0.5]), **names)
    for name in ("propensity", "query"):  # without slates or chances nothing is known to sum to something
        partial_names = {key: column for key, column in names.items() if key != name}
        assert len(ImpressionLog.from_frame(candidates, **partial_names)) == 4
    assert len(ImpressionLog.from_frame(FRAME.assign(shown=1), **names)) == 6  # no other candidate is listed


def test_six_positions_of_a_slate_with_a_gap_are_shown():
    frame = pd.DataFrame(
        {"user": 0, "item": range(7), "clicked": 0, "slate": 0, "pos": [1, 2, 3, 4, 5, 6, 8]}
    )
    with pytest.raises(InputError, match=r"slate 0 has 1, 2, 3, 4, 5, 6, …\)"):
        ImpressionLog.from_frame(frame, query="slate", position="pos")


@pytest.mark.parametrize(
    ("shown", "total", "fits"),
    [(1, 1.0009, True), (1, 1.0011, False), (2, 2.0019, True), (2, 1.9979, False), (0, 9e-4, True)],
)
def test_propensities_of_a_slate_may_be_rounded_to_a_thousandth_of_the_rows_shown(shown, total, fits):
    # A second slate has a row that was shown for certain, so that the log is not empty.
    frame = FRAME[:4].assign(
        shown=[int(shown > 0), int(shown > 1), 0, 1], p=[total / 3] * 3 + [1.0], clicked=0
    )
    names = {"propensity": "p", "query": "slate", "shown": "shown"}
    if fits:
        assert len(ImpressionLog.from_frame(frame, **names)) == shown + 1
        return
    with pytest.raises(PropensityError, match="1 of 2 slates do not sum to their number of rows shown"):
        ImpressionLog.from_frame(frame, **names)


def test_clicks_on_rows_that_were_not_shown_are_an_error_or_have_a_count():
    frame = FRAME.assign(shown=[1, 0, 1, 1, 1, 1])
    with pytest.raises(InputError, match="1 of 2 clicks are on rows that were not shown"):
        ImpressionLog.from_frame(frame, shown="shown")
    log = ImpressionLog.from_frame(frame, shown="shown", unshown_clicks="drop")
    assert count_treatments(log) == {"clicks without an impression, left out": 1}
    assert log.clicked.sum() == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"clicked": [True]}, "must have one length"),
        ({"user": [0, 5]}, "codes from 0 to 1"),
        ({"propensity": [0.5, 1.5]}, "1 of 2 propensities are above 1"),
        ({"user": [5, -1]}, r"user must hold codes from 0 to 1, .* 2 of 2 are not \(first: 5\)"),
        ({"item": [0, 2]}, r"item must hold codes from 0 to 1, .* 1 of 2 are not \(first: 2\)"),
        ({"item": [0.0, 1.0]}, "item must hold whole numbers"),
        ({"position": [0, 1]}, "1 of 2 positions"),
        ({"position": ["a", "b"]}, r"2 of 2 positions are not whole numbers .*'a'\)\. Correct them"),
        ({"clicked": [[True, False]]}, "clicked must be one-dimensional"),
        ({"timestamp": [1.0]}, "must have one length"),
        ({"row_counts": []}, "row_counts must be tuple"),
        ({"query": [0, 0], "query_ids": ["q"], "position": [1, 1]}, "position of another row"),
    ],
)
def test_the_constructor_checks_its_arrays(fields, text):
    start = {
        "user": [0, 1],
        "item": [0, 1],
        "user_ids": ["a", "b"],
        "item_ids": [1, 2],
        "clicked": [True, False],
    }
    with pytest.raises(InputError, match=text):
        ImpressionLog(**{**start, **fields})


@pytest.mark.filterwarnings("ignore:.*no training interactions:ipseval.errors.DataWarning")
def test_a_split_at_a_time_keeps_the_impressions_that_could_produce_the_held_out_clicks():
    frame = pd.DataFrame(
        {
            "user": [0, 0, 1, 1, 0],
            "item": [0, 1, 0, 1, 2],
            "time": [1, 2, 3, 4, 5],
            "clicked": [1, 0, 1, 1, 1],
        }
    )
    log = ipseval.ImpressionLog.from_frame(frame, clicked="clicked", timestamp="time")
    split = ipseval.split_global_time(log.positives, test_start=3)
    assert split.test.impressions.timestamp.tolist() == [3, 4, 5]
    assert split.train.impressions.timestamp.tolist() == [1, 2, 3, 4, 5]
    by_default = ipseval.evaluate(
        {"m": np.ones((2, 3))}, split, metrics=["recall@1"], low_ess="ignore"
    ).propensity
    later = log.select(log.timestamp >= 3)
    expected = ipseval.ImpressionPropensity(log=later).fit(split.train)
    pairs = np.indices((2, 3)).reshape(2, -1)
    np.testing.assert_array_equal(by_default.for_pairs(*pairs), expected.for_pairs(*pairs))


@pytest.mark.filterwarnings("ignore:.*no training interactions:ipseval.errors.DataWarning")
@pytest.mark.parametrize("model", [ipseval.ImpressionPropensity, ipseval.propensity.LoggedPropensity])
def test_a_propensity_of_impressions_before_the_test_part_warns(model):
    frame = pd.DataFrame(
        {
            "user": [0, 0, 1, 1, 0],
            "item": [0, 1, 0, 1, 2],
            "time": [1, 2, 3, 4, 5],
            "clicked": [1, 0, 1, 1, 1],
        }
    )
    log = ipseval.ImpressionLog.from_frame(frame.assign(p=0.5), timestamp="time", propensity="p")
    split = ipseval.split_global_time(log.positives, test_start=3)
    options = {"metrics": ["recall@1"], "low_ess": "ignore"}
    with pytest.warns(
        DataWarning, match="2 of 5 impressions of the propensity are earlier than the test part"
    ):
        ipseval.evaluate({"m": np.ones((2, 3))}, split, propensity=model(log=log), **options)
    ipseval.evaluate({"m": np.ones((2, 3))}, split, propensity=model(log=split.test.impressions), **options)
    by_users = ipseval.split_random(log.positives, test_fraction=0.5, rng=0)
    ipseval.evaluate({"m": np.ones((2, 3))}, by_users, propensity=model(log=log), **options)
