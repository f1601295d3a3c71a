"""A log of impressions with explored slots: the correction identifies the better of two versions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ipseval
from ipseval import RandomExposure
from tests.evaluation.test_production_log import RATE, Shop


@pytest.mark.slow
def test_exploration_and_a_reference_value_identify_the_better_version_with_intervals_around_the_truth():
    shop = Shop.simulate(0, months=10, rate=RATE)
    split = ipseval.split_random(shop.log.select(~shop.explored).positives, test_fraction=0.2, rng=0)
    truth = shop.truth(split)
    assert truth["v2"] > 2 * truth["v1"]
    error = 0.08 * truth["v1"]
    value = truth["v1"] + error * np.random.default_rng(1).normal()
    exposure = RandomExposure.from_log(shop.log, split, where=shop.explored, rate=RATE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_correction = ipseval.correct(shop.scores, split, rng=0)
        correction = ipseval.correct(
            shop.scores,
            split,
            random_exposure=exposure,
            reference_values={"v1": {"recall@10": (value, error)}},
            source="randomised",
            rng=0,
        )
    assert log_correction.leader is None
    next_step = next(remark for remark in log_correction.tables().remarks if remark.name == "Next step")
    assert "ipseval plan" in next_step.lines[0]
    assert correction.leader == "v2"
    frame = correction.frame
    rows = frame[(frame["estimator"] == "corrected") & (frame["metric"] == "recall@10")]
    for row in rows.to_dict("records"):
        assert row["ci_low"] < truth[row["model"]] < row["ci_high"]
        assert row["ci_high"] - row["ci_low"] < 0.6 * truth[row["model"]]
