"""Input in the forms that pandas and other libraries give it, and what is said of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.contracts.test_wrong_input import SCORES, SPLIT, TRAIN, frame, known, run


def test_whole_numbers_that_doubles_cannot_tell_apart_keep_their_order():
    # 2^53 and 2^53 + 1 are one number in double precision.
    big = np.array([[0, 2**53, 2**53 + 1]] * 3)
    test = frame([0], [1])
    split = ipseval.Split.from_frames(TRAIN, test, items=[0, 1, 2])
    ranked = ipseval.rank_positives(pd.DataFrame(big).astype("Int64"), split)
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == ([1], [0])


def test_ranks_may_be_given_as_lists():
    ranked = ipseval.RankedPositives([0, 1], [0, 0], [1, 2], [0, 0], [3, 3], [0, 1], [0, 1, 2])
    assert ranked.counts.tolist() == [1, 1]
    assert not ranked.n_above.flags.writeable


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_dates_with_a_time_zone_match_their_own_universe(zone):
    dates = pd.Series(pd.to_datetime(["2020-01-02", "2020-01-01"]).tz_localize(zone))
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": dates, "item": [1, 2]}), users=dates)
    assert log.user.tolist() == [0, 1]
    alone = ipseval.Interactions.from_frame(pd.DataFrame({"user": dates, "item": [1, 2]}))
    assert alone.user.tolist() == [1, 0]
    assert set(alone.user_ids) == set(log.user_ids)


def test_a_split_at_a_date_says_the_date():
    log = frame([0, 0, 1, 1], [0, 1, 0, 2])
    log["time"] = pd.to_datetime(
        ["2024-10-01", "2024-10-03", "2024-10-04 20:18", "2024-10-05"], format="ISO8601"
    )
    dated = ipseval.Interactions.from_frame(log, timestamp="time")
    cut = ipseval.split_global_time(dated, test_fraction=0.5)
    assert cut.description == "global time, test from 2024-10-04 20:18:00"
    cut = ipseval.split_global_time(dated, test_start="2024-10-05", validation_start="2024-10-03")
    assert cut.description == "global time, test from 2024-10-05, validation from 2024-10-03"
    with pytest.raises(ipseval.InputError, match=r"run from 2024-10-01 to 2024-10-05.* at 2025-01-01"):
        ipseval.split_global_time(dated, test_start="2025-01-01")
    numbered = ipseval.Interactions.from_frame(log.assign(time=[1, 2, 3, 4]), timestamp="time")
    assert ipseval.split_global_time(numbered, test_fraction=0.5).description.endswith("test from 3")


def test_an_error_of_a_model_keeps_its_type_and_names_the_model():
    def broken(users):
        raise ZeroDivisionError("nothing to divide by")

    with pytest.raises(ZeroDivisionError, match="nothing to divide by") as caught:
        ipseval.evaluate({"good": SCORES, "bad": broken}, SPLIT)
    assert caught.value.__notes__ == ["raised while bad was ranked"]


def test_propensities_of_a_sample_cannot_be_written_to():
    sample = run(propensity=known(np.ones(3)), estimators=["ips"], n_relevant=2).samples["als"]
    for name in ("propensity", "n_relevant", "weights"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(sample, name)[0] = 1.0


def test_a_warning_of_ranking_points_at_the_line_that_called():
    with pytest.warns(ipseval.errors.DataWarning, match="not among the allowed items") as caught:
        ipseval.rank_positives(SCORES, SPLIT, candidates=[SPLIT.item_ids[SPLIT.test.item[0]]])
    assert [warning.filename for warning in caught] == [__file__]


def test_seeds_of_all_kinds_are_seeds():
    expected = ipseval.SampledCandidates(3, rng=5).key
    for rng in (np.int8(5), np.random.SeedSequence(5), np.random.default_rng(5)):
        assert ipseval.SampledCandidates(3, rng=rng).key == expected


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_difference_beyond_all_metrics_needs_no_users_worth_a_fraction():
    result = ipseval.evaluate({"m": SCORES, "n": -SCORES}, SPLIT, metrics=["recall@1"])
    assert (result.compare(difference=10**30)["n_users_needed"].dropna() < 10).all()


def test_minus_zero_is_the_time_zero():
    frame = pd.DataFrame({"user": [1, 1, 1], "item": [1, 2, 3], "t": [-1.0, -0.0, 0.0]})
    log = ipseval.Interactions.from_frame(frame, timestamp="t")
    moved = ipseval.Interactions.from_frame(frame.assign(t=[-1.0, 0.0, -0.0]), timestamp="t")
    test_items = [
        ipseval.split_leave_one_out(one, order="temporal").test.item.tolist() for one in (log, moved)
    ]
    assert test_items[0] == test_items[1]
    assert len(test_items[0]) == 1


@pytest.mark.parametrize("name", ["\U0001f600", "\uf900", "\u0627", "_"])
def test_every_letter_that_can_be_written_is_of_a_name(name):
    assert ipseval.evaluate({name: SCORES}, SPLIT, metrics="auc").models == [name]
