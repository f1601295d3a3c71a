"""What an evaluation offers on top of its estimates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ipseval
from tests.inference.scipy_bootstrap import bca_of_mean
from tests.inference.worlds import random_ranks


def evaluated(**options):
    ranks, popularity = random_ranks(2, n_users=80)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=0.2).fit(popularity=popularity),
        metrics=("recall@10", "auc"),
        estimators=("aoa", "snips-global"),
        on_low_ess="ignore",
        **options,
    )


def test_bca_of_aoa_agrees_with_scipy():
    evaluation = evaluated().with_intervals("bca", n_resamples=20_000, rng=0)
    row = evaluation.frame.query("model == 'm0' and metric == 'recall@10' and estimator == 'aoa'").iloc[0]
    values = evaluation.per_user("m0", "recall@10", "aoa").to_numpy()
    reference = bca_of_mean(values, n_resamples=20_000).confidence_interval
    # Quantiles of two runs of 20,000 replicates: each about 2 % of the standard error; 4 sigma of both.
    assert abs(row["ci_low"] - reference.low) < 0.11 * row["std_error"]
    assert abs(row["ci_high"] - reference.high) < 0.11 * row["std_error"]


def test_intervals_can_be_changed_without_changing_estimates_and_back():
    evaluation = evaluated()
    other = evaluation.with_intervals("percentile", n_resamples=200, rng=0)
    assert other.frame["estimate"].equals(evaluation.frame["estimate"])
    assert not other.frame["ci_low"].equals(evaluation.frame["ci_low"])
    assert other.with_intervals("normal").frame["ci_low"].equals(evaluation.frame["ci_low"])
    assert other.provenance["interval"] == "percentile"


def test_the_same_rng_gives_the_same_intervals():
    first, second = (evaluated(interval="bca", rng=4).frame for _ in range(2))
    assert first.equals(second)


@pytest.mark.parametrize(("level", "least"), [(0.95, 39), (0.9, 19), (0.99, 199)])
def test_an_interval_of_too_few_resamples_says_how_many_it_needs(level, least):
    # The lowest and the highest of n draws hold a further one with probability (n − 1)/(n + 1).
    assert (least - 1) / (least + 1) >= level - 1e-12 > (least - 2) / least
    few, enough = (
        evaluated(confidence_level=level).with_intervals("percentile", n_resamples=n, rng=0).frame["note"]
        for n in (least - 1, least)
    )
    said = f"{least - 1} resamples: too few for a {level * 100:.0f} % interval, which needs at least {least}"
    assert few.str.contains(said).all()
    assert not enough.str.contains("too few").any()


def test_compare_is_on_the_level_of_the_evaluation():
    evaluation = evaluated(confidence_level=0.8)
    frame = evaluation.compare("m1")
    assert frame["reference"].eq("m1").all()
    assert len(frame) == 2 * 2 * 2
    t = stats.t.ppf(0.9, frame["n_users"] - 1)
    np.testing.assert_allclose(frame["ci_high"] - frame["difference"], t * frame["std_error"], rtol=1e-10)


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_a_metric_defined_for_one_user_has_no_bootstrap_interval_and_spoils_no_other(interval):
    # User 0 has two candidates, both relevant, so AUC is undefined; users 1 has one that is not.
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": [0, 1], "item": [0, 0]}), pd.DataFrame({"user": [0, 0, 1], "item": [1, 2, 1]})
    )
    result = ipseval.evaluate(
        {"a": np.eye(3)[:2]}, split, metrics=["auc", "recall@1"], interval=interval, rng=0
    )
    auc, recall = result.frame.itertuples()
    assert auc.estimate == 1.0
    assert np.isnan([auc.std_error, auc.ci_low, auc.ci_high]).all()
    assert "one user: no standard error" in auc.note
    assert not np.isnan([recall.ci_low, recall.ci_high]).any()
