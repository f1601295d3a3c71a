"""Intervals and comparisons of an evaluation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ipseval
from tests.inference.worlds import random_ranks


def evaluate_random_ranks(**options):
    ranks, popularity = random_ranks(2, n_users=80)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=0.2, unseen="drop").fit(popularity=popularity),
        metrics=("recall@10", "auc"),
        estimators=("aoa", "snips-global"),
        low_ess="ignore",
        **options,
    )


def test_intervals_can_be_changed_without_changing_estimates_and_back():
    evaluation = evaluate_random_ranks()
    percentile_evaluation = evaluation.with_intervals("percentile", n_resamples=200, rng=0)
    assert percentile_evaluation.frame["estimate"].equals(evaluation.frame["estimate"])
    assert not percentile_evaluation.frame["ci_low"].equals(evaluation.frame["ci_low"])
    assert percentile_evaluation.with_intervals("normal").frame["ci_low"].equals(evaluation.frame["ci_low"])
    assert percentile_evaluation.provenance["interval"] == "percentile"


def test_the_same_rng_gives_the_same_intervals():
    first_frame, second_frame = (
        evaluate_random_ranks().with_intervals("bca", n_resamples=100, rng=4).frame for _ in range(2)
    )
    assert first_frame.equals(second_frame)


def test_resamples_use_no_more_threads_than_compute_allows_and_have_the_same_bits(monkeypatch):
    thread_counts = []
    original = ipseval.inference.intervals.open_executor

    def record_threads(n_threads, **options):
        thread_counts.append(n_threads)
        return original(n_threads, **options)

    monkeypatch.setattr("ipseval.inference.intervals.available_cores", lambda: 8)
    monkeypatch.setattr("ipseval.inference.intervals.open_executor", record_threads)
    frames = [
        evaluate_random_ranks(
            interval="percentile", rng=0, compute=ipseval.ComputeOptions(n_threads=n_threads)
        ).frame
        for n_threads in (1, 2, 5)
    ]
    assert thread_counts == [0, 2, 2]  # in addition to the calling thread
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])


@pytest.mark.parametrize(("level", "n_needed"), [(0.95, 39), (0.9, 19)])
def test_an_interval_from_too_few_resamples_has_a_note_with_the_required_number(level, n_needed):
    # The lowest and the highest of n draws hold a further one with probability (n − 1)/(n + 1).
    assert (n_needed - 1) / (n_needed + 1) >= level - 1e-12 > (n_needed - 2) / n_needed
    evaluation = evaluate_random_ranks(confidence_level=level)
    notes_of_few, notes_of_enough = (
        evaluation.with_intervals("percentile", n_resamples=n, rng=0).frame["note"]
        for n in (n_needed - 1, n_needed)
    )
    requirement = f"a {level * 100:.0f}% interval, which needs at least {n_needed}"
    note = f"{n_needed - 1} resamples: too few for {requirement}"
    assert notes_of_few.str.contains(note).all()
    assert not notes_of_enough.str.contains("too few|on one side").any()


def test_compare_uses_the_confidence_level_of_the_evaluation():
    evaluation = evaluate_random_ranks(confidence_level=0.8)
    frame = evaluation.compare("m1")
    assert frame["reference"].eq("m1").all()
    assert len(frame) == 2 * 2 * 2
    t = stats.t.ppf(0.9, frame["n_users"] - 1)
    np.testing.assert_allclose(frame["ci_high"] - frame["difference"], t * frame["std_error"], rtol=1e-10)


def test_a_metric_defined_for_one_user_has_no_bootstrap_interval_but_other_metrics_have():
    # User 0 has two candidates, both relevant, so AUC is undefined; users 1 has one that is not.
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": [0, 1], "item": [0, 0]}), pd.DataFrame({"user": [0, 0, 1], "item": [1, 2, 1]})
    )
    result = ipseval.evaluate({"a": np.eye(3)[:2]}, split, metrics=["auc", "recall@1"], interval="bca", rng=0)
    for evaluation in (result, result.with_intervals("percentile", n_resamples=100, rng=0)):
        auc, recall = evaluation.frame.itertuples()
        assert auc.estimate == 1.0
        assert np.isnan([auc.std_error, auc.ci_low, auc.ci_high]).all()
        assert "one user: no standard error" in auc.note
        assert not np.isnan([recall.ci_low, recall.ci_high]).any()


def evaluate_hits(hits: int, n_users: int = 10) -> pd.Series:
    """Return the row of recall@1 of users with one positive each, of which `hits` rank first."""
    pairs = pd.DataFrame({"user": np.repeat(np.arange(n_users), 2), "item": [0, 1] * n_users})
    split = ipseval.Split.from_frames(pairs[::2], pairs[1::2], users=range(n_users), items=range(3))
    scores = np.tile([0.0, 1.0, 2.0], (n_users, 1))
    scores[:hits, 1] = 3.0
    return ipseval.evaluate({"m": scores}, split, metrics=["recall@1"], estimators=["aoa"]).frame.iloc[0]


@pytest.mark.parametrize("hits", [1, 8])
def test_an_interval_stays_between_0_and_1(hits):
    row = evaluate_hits(hits)
    p = hits / 10
    error = math.sqrt(p * (1 - p) / 9)
    assert row["std_error"] == pytest.approx(error)
    half_width = 1.959963984540054 * error / (p * (1 - p))
    centre = math.log(p / (1 - p))
    ends = [1 / (1 + math.exp(-(centre + sign * half_width))) for sign in (-1, 1)]
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(ends)
    assert 0 < row["ci_low"] < p < row["ci_high"] < 1


def test_an_interval_inside_0_and_1_is_the_normal_interval():
    row = evaluate_hits(5)
    assert row["ci_high"] - 0.5 == pytest.approx(1.959963984540054 * row["std_error"])


def test_intervals_of_segments_stay_between_0_and_1_and_around_their_estimate():
    n_users = 24
    pairs = pd.DataFrame({"user": np.repeat(np.arange(n_users), 2), "item": [0, 1] * n_users})
    split = ipseval.Split.from_frames(pairs[::2], pairs[1::2], users=range(n_users), items=range(3))
    scores = np.tile([0.0, 1.0, 2.0], (n_users, 1))
    scores[[0, 12, 13, 14, 15, 16], 1] = 3.0  # 1 of 12 users, and 5 of 12
    evaluation = ipseval.evaluate({"m": scores}, split, metrics=["recall@1"], estimators=["aoa"])
    groups = ipseval.evaluation.segments.user_groups(np.repeat(["few", "half"], 12))
    frame = evaluation.by(groups).frame.set_index("group")
    assert frame["estimate"].to_dict() == pytest.approx({"few": 1 / 12, "half": 5 / 12})
    assert (frame["ci_low"] > 0).all()
    assert frame["ci_low"]["few"] < 1 / 12 < frame["ci_high"]["few"] < 1


@pytest.mark.slow
def test_the_interval_covers_more_than_the_normal_one_for_few_users_near_0():
    """Coverage for 40 users at a mean of 0.04, over 4,000 draws; draws without a hit have no interval."""
    rng = np.random.default_rng(0)
    n = 40
    hits = rng.binomial(n, 0.04, 4000)
    rows = {n_hits: evaluate_hits(n_hits, n) for n_hits in np.unique(hits[hits > 0]).tolist()}
    coverage = np.mean(
        [rows[n_hits]["ci_low"] <= 0.04 <= rows[n_hits]["ci_high"] for n_hits in hits[hits > 0].tolist()]
    )
    assert coverage > 0.9
