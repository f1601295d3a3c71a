"""The guard of the public border: wrong types are named, and faults of the library stay what they are."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.testing import compare_results
from ipseval.validation.datasets import RandomExposureStudy
from tests.contracts.test_bad_input import SCORES, SPLIT, TRAIN
from tests.inside.base import _guarded


def _example(count: int, scores: np.ndarray, *, strict: bool = True, name: str = "") -> float:
    if name == "fault":
        raise KeyError("a fault of the library")
    return scores[count] + (1 if strict else 0)


def test_an_argument_of_another_type_is_named_with_what_was_expected():
    guarded = _guarded(_example)
    assert guarded(1, np.arange(3.0)) == 2
    with pytest.raises(ipseval.InputError, match=r"count must be int; got str 'a'"):
        guarded("a", np.arange(3.0))
    with pytest.raises(ipseval.InputError, match=r"strict must be True or False; got 'False'"):
        guarded(1, np.arange(3.0), strict="False")


def test_a_fault_with_right_arguments_and_a_missing_argument_stay_what_they_are():
    guarded = _guarded(_example)
    with pytest.raises(KeyError, match="a fault of the library"):
        guarded(1, np.arange(3.0), name="fault")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        guarded(1)


def test_public_functions_are_pickled_and_documented_as_before():
    for one in (ipseval.evaluate, ipseval.split_random, ipseval.baselines.ease):
        assert pickle.loads(pickle.dumps(one)) is one
        assert one.__doc__.startswith("Return")


def test_text_is_no_truth_value():
    with pytest.raises(ipseval.InputError, match="is_probability must be True or False; got 'False'"):
        ipseval.KnownPropensity(item=[0.5], is_probability="False")
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": [0], "item": [0], "v": [5]}), value="v")
    with pytest.raises(ipseval.InputError, match="threshold must be a finite number; got nan"):
        ipseval.Exposure.from_ratings(log, threshold=np.nan)
    with pytest.raises(ipseval.InputError, match="n_pairs must be finite"):
        ipseval.evaluation.evaluate_ratings({"m": np.ones((1, 1))}, log, n_pairs=np.nan)


def few(**options):
    study = RandomExposureStudy("small", LOG, LOG, threshold=1.0)
    fits = dict.fromkeys("ab", lambda train: np.zeros((train.n_users, train.n_items)))
    return ipseval.validate(fits, study, propensities={"p": ipseval.PowerLawPropensity(gamma=0)}, **options)


def gate(models):
    result = ipseval.evaluate({"als": SCORES}, SPLIT)
    return compare_results(result, result, metric="recall@10", models=models)


LOG = ipseval.Interactions.from_frame(TRAIN.assign(value=1.0), value="value")
FOUND = {
    "no estimator": (lambda: few(estimators=[]), "estimators is empty"),
    "a column twice": (
        lambda: ipseval.evaluate({"a": pd.DataFrame(SCORES, columns=[0, 1, 1])}, SPLIT),
        "must not repeat a column",
    ),
    "counts that are none": (
        lambda: ipseval.fit_gamma_from_exposure([1, 2, 3], [9, 9, 9], [1, 2, 3], held_out=[1e300, 1, 2]),
        "held_out must be finite counts >= 0 and at most 2.53; 1 of 3",
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_a_long_run_of_the_fuzzer_found_is_refused_with_a_reason(case):
    call, text = FOUND[case]
    with pytest.raises(ipseval.InputError, match=text):
        call()


def test_an_option_that_a_door_does_not_take_is_named_with_the_nearest():
    ranks = {"als": ipseval.rank_positives(SCORES, SPLIT)}
    with pytest.raises(ipseval.InputError, match=r"unknown option 'tie'\. Did you mean 'ties'\?"):
        ipseval.evaluate_ranks(ranks, tie="mean")
