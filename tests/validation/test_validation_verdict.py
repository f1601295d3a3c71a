"""The verdict of a validation: which words stand first, of how many, and what would have been found."""

import warnings

import numpy as np
import pandas as pd
import pytest

from ipseval.errors import DataWarning
from ipseval.propensity import KnownPropensity
from ipseval.ranking import baselines
from ipseval.validation import validate
from ipseval.validation.simulation import World
from tests.inside.validation import validation_verdict

ROW = {
    "propensity": "p",
    "estimator": "snips",
    "reduction": 0.6,
    "reduction_low": 0.4,
    "reduction_high": 0.8,
    "if_unbiased": 0.7,
    "falls_short": False,
    "tau_b": 0.5,
    "tau_b_aoa": 0.5,
    "tau_change_low": -0.1,
    "tau_change_high": 0.1,
}


def verdict(*changes):
    return validation_verdict(pd.DataFrame([ROW | one for one in changes]), "", 0.95)


def test_the_best_weights_are_said_to_be_the_best_of_all_that_were_tried():
    assert "of 3 tried" in verdict({}, {"reduction": 0.1}, {"reduction": 0.2})
    assert "tried" not in verdict({})
    assert "of 2 tried" in verdict({}, {"reduction": 0.1}, {"propensity": "random-sample", "reduction": 0.9})


def test_bias_that_is_not_found_is_named_by_the_size_that_eighty_percent_of_samples_would_find():
    # Standard error .2/1.95996 = .10204; 80 % of samples find 1.95996 + .84162 = 2.80159 of them.
    assert "Bias of 29% of that error would have been found in 80% of samples." in verdict({})
    assert "would have been found" not in verdict({"falls_short": True})


def test_weights_that_harm_the_order_are_no_weights_to_decide_with():
    assert verdict({"tau_change_low": -0.5, "tau_change_high": -0.1}).startswith("no weights to decide with")
    assert not verdict({}).startswith("no weights")


@pytest.mark.parametrize("reduction", [0.46, -0.2])
def test_where_the_error_of_the_plain_average_is_noise_nothing_else_is_said(reduction):
    said = verdict({"if_unbiased": -0.24, "reduction": reduction})
    assert said == "the plain average's error is within noise: there is no bias to remove."


def test_a_probability_of_the_log_is_warned_of_and_its_held_out_one_is_not():
    world = World(n_users=200, n_items=60, mean_relevant=16, max_propensity=0.9, rng=0)
    study = world.study(1, n_per_user=20)
    known = KnownPropensity(item=world.item_propensity).fit(study.biased)
    converted = known.held_out(test_fraction=0.2, counted_on="log")
    models = {"popularity": baselines.popularity, "knn": baselines.item_knn}

    def run(rule):
        validate(models, study, propensities={"true": rule}, metrics=["atop"], n_resamples=0, rng=0)

    for rule in (known, lambda calibration: known):
        with pytest.warns(DataWarning, match=r"true: DataWarning: .*held_out\(test_fraction=0.2"):
            run(rule)
    low = KnownPropensity(item=np.full(60, 0.9))  # equal ones give equal weights either way
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rule in (converted, lambda calibration: converted, low):
            run(rule)
