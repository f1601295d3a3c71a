"""Intervals of metrics between 0 and 1 stay there, for few users and values near either end."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import ipseval


def evaluated(hits: int, n_users: int = 10) -> pd.Series:
    """Return the row of recall@1 of users with one positive each, of which some are first."""
    pairs = pd.DataFrame({"user": np.repeat(np.arange(n_users), 2), "item": [0, 1] * n_users})
    split = ipseval.Split.from_frames(pairs[::2], pairs[1::2], users=range(n_users), items=range(3))
    scores = np.tile([0.0, 1.0, 2.0], (n_users, 1))
    scores[:hits, 1] = 3.0
    return ipseval.evaluate({"m": scores}, split, metrics=["recall@1"], estimators=["aoa"]).frame.iloc[0]


@pytest.mark.parametrize("hits", [1, 2, 8, 9])
def test_an_interval_stays_between_0_and_1(hits):
    row = evaluated(hits)
    p = hits / 10
    error = math.sqrt(p * (1 - p) / 9)
    assert row["std_error"] == pytest.approx(error)
    reach = 1.959963984540054 * error / (p * (1 - p))
    middle = math.log(p / (1 - p))
    expected = [1 / (1 + math.exp(-(middle + sign * reach))) for sign in (-1, 1)]
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(expected)
    assert 0 < row["ci_low"] < p < row["ci_high"] < 1


def test_an_interval_that_lies_inside_is_the_normal_one():
    row = evaluated(5)
    assert row["ci_high"] - 0.5 == pytest.approx(1.959963984540054 * row["std_error"])


def test_intervals_of_segments_stay_between_0_and_1_and_around_their_estimate():
    n_users = 24
    pairs = pd.DataFrame({"user": np.repeat(np.arange(n_users), 2), "item": [0, 1] * n_users})
    split = ipseval.Split.from_frames(pairs[::2], pairs[1::2], users=range(n_users), items=range(3))
    scores = np.tile([0.0, 1.0, 2.0], (n_users, 1))
    scores[[0, 12, 13, 14, 15, 16], 1] = 3.0  # 1 of 12 users, and 5 of 12
    found = ipseval.evaluate({"m": scores}, split, metrics=["recall@1"], estimators=["aoa"])
    groups = ipseval.evaluation.segments.user_groups(np.repeat(["few", "half"], 12))
    frame = found.by(groups).frame.set_index("group")
    assert frame["estimate"].to_dict() == pytest.approx({"few": 1 / 12, "half": 5 / 12})
    assert (frame["ci_low"] > 0).all()
    assert frame["ci_low"]["few"] < 1 / 12 < frame["ci_high"]["few"] < 1


@pytest.mark.slow
def test_the_interval_covers_more_than_the_normal_one_for_few_users_near_0():
    """40 users at a mean of .04: within 4 sigma of 4,000 draws; draws without a hit have no interval."""
    rng, n = np.random.default_rng(0), 40
    hits = rng.binomial(n, 0.04, 4000)
    rows = {one: evaluated(one, n) for one in np.unique(hits[hits > 0]).tolist()}
    covered = np.mean(
        [rows[one]["ci_low"] <= 0.04 <= rows[one]["ci_high"] for one in hits[hits > 0].tolist()]
    )
    assert covered > 0.9
