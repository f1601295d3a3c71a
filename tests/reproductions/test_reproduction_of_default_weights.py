"""The rules by which defaults of weighting are decided, on rows whose answers are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reproductions import correction_family, default_weights, feedback_worlds
from reproductions.default_weights import compare_treatments, score_estimators


def test_shares_of_the_error_removed_and_their_standard_error_have_hand_computed_values():
    # Errors of AOA 2 and 4; of "drop" 1 and 3; of smoothing by 1 0.5 and 1: gains of 0.5 and 2 over "drop".
    rows = []
    for number, errors in enumerate(([2, 1, 0.5], [4, 3, 1])):
        for treatment, error in zip(("aoa", "drop", "1"), errors, strict=True):
            rows.append((number, treatment, error))
        rows += [(number, "0.5", errors[1]), (number, "2", errors[1] + 1)]
    cell = compare_treatments(pd.DataFrame(rows, columns=["number", "treatment", "error"]))
    assert cell.drop == pytest.approx(100 * (1 - 4 / 6))
    assert cell.smooth[1.0] == pytest.approx(100 * (1 - 1.5 / 6))
    assert cell.difference == pytest.approx({0.5: 0, 1.0: 100 * 2.5 / 6, 2.0: -100 * 2 / 6})
    # The ratio is 2.5/6: rests 0.5 − 2 · 2.5/6 and 2 − 4 · 2.5/6, over a mean of 3.
    rests = np.array([0.5 - 5 / 6, 2 - 10 / 6])
    assert cell.standard_error[1.0] == pytest.approx(100 * rests.std(ddof=1) / np.sqrt(2) / 3)
    assert cell.standard_error[0.5] == 0
    assert cell.compute_p_value(0.5) == 1
    assert cell.compute_p_value(1.0) > 0.5 > cell.compute_p_value(2.0)


def test_coverage_accounts_for_the_error_of_the_truth():
    rows = pd.DataFrame(
        {
            "source": "Coat", "kind": "Coat", "number": 0, "weights": "γ = 0", "treatment": "1",
            "estimator": "snips-pooled", "metric": "atop", "estimate": [0.5, 0.6, 0.9], "ci_low": [0.4, 0.5, 0.8],
            "ci_high": [0.6, 0.7, 1.0], "truth": [0.55, 0.75, 0.6], "truth_error": [0.0, 0.1, 0.1],
        }
    )  # fmt: skip
    (score,) = score_estimators(rows).to_dict("records")
    assert score["coverage"] == pytest.approx(100 * 2 / 3)
    assert score["tau"] == pytest.approx(1 / 3)


def test_the_propensities_of_both_simulators_are_those_of_the_test_part():
    # With exact propensities, Σ 1/P over the test positives estimates the number of relevant pairs.
    setting = correction_family.Setting((400,), (60,), (0.1,), (5, 10), (10.0, 50.0), (2, 4), ("popularity",))
    rng = np.random.default_rng(0)
    log = correction_family.logged({"gamma": -0.5, "max_propensity": 0.6, "activity": 0.5}, setting, rng)
    is_left = ~np.isin(log.world.relevant.pair_key, log.split.train.pair_key)
    is_test = np.isin(log.world.relevant.pair_key, log.split.test.pair_key)
    estimate = (1 / log.test_propensity[is_test]).sum()
    error = np.sqrt(((1 - log.test_propensity) / log.test_propensity)[is_left].sum())
    assert abs(estimate - is_left.sum()) < 4 * error
    sizes = feedback_worlds.Sizes((400,), (60,), (0.1,), (5, 10), (10.0, 50.0), (2, 4))
    world = feedback_worlds.build("taste", sizes, np.random.default_rng(1))
    left = world.left()
    propensity = world.test_propensity[left.user, left.item]
    observed = world.test_propensity[world.split.test.user, world.split.test.item]
    error = np.sqrt(((1 - propensity) / propensity).sum())
    assert abs((1 / observed).sum() - len(left)) < 4 * error
    assert feedback_worlds.build("loop", sizes, np.random.default_rng(2)).test_propensity is None


@pytest.mark.slow
def test_a_case_of_a_small_world_has_rows_of_every_treatment_and_estimator(monkeypatch):
    sizes = feedback_worlds.Sizes((300,), (60,), (0.1,), (5, 10), (10.0, 50.0), (2, 4))
    monkeypatch.setattr(feedback_worlds, "HELD_OUT", sizes)
    rows = default_weights.evaluate_case(default_weights.prepare_second(2))
    counts = rows.groupby(["weights", "treatment", "estimator"]).size()
    assert set(counts) == {30}  # ten recommenders and three metrics
    assert len(counts) == 2 + 2 * (2 * 4 + 1)
    assert rows["truth"].between(0, 1).all()
    assert (rows["truth_error"] == 0).all()
