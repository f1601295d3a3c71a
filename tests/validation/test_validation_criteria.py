"""Error of the level and agreement of the order, their resamples, and what the verdict says of them."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions, RandomExposure
from ipseval.data.splits import split_random
from ipseval.errors import DataWarning, IdentificationWarning
from ipseval.estimators import UserSums
from ipseval.propensity import DensityRatioPropensity, KnownPropensity, fit_gamma_from_exposure
from ipseval.ranking import baselines
from ipseval.validation import default_models, default_propensities, validate
from ipseval.validation.simulation import World
from tests.inside.validation import (
    CRITERIA,
    Calibration,
    Estimates,
    _mean_absolute_noise,
    _train_pure_svd,
    compute_criteria,
    describe_verdict,
    draw_user_weights,
    resample_estimates,
    with_seeds,
)


def test_criteria_of_the_error_are_worked_by_hand():
    # |.1-.1| = 0, |.4-.2| = .2, |.3-.4| = .1; the estimate picks model 2, worth .2, where .4 was to be had.
    values = compute_criteria(np.array([[0.1, 0.4, 0.3]]), np.array([[0.1, 0.2, 0.4]]))
    out = dict(zip(CRITERIA, values[0], strict=True))
    assert out["mae"] == pytest.approx(0.1)
    assert (out["ipc"], out["or1"], out["regret"]) == (1, 0, pytest.approx(0.2))
    assert out["tau_b"] == pytest.approx(1 / 3)  # 2 of 3 pairs agree
    assert out["src"] == pytest.approx(0.5)  # 1 − 6·2/(3·8)
    # Without an estimate of one recommender there are none of all.
    assert np.isnan(compute_criteria(np.array([[0.1, np.nan, 0.3]]), np.array([[0.1, 0.2, 0.4]]))).all()


def test_noise_is_the_mean_absolute_value_of_normal_errors_with_the_spread_of_the_resamples():
    error = np.array([[[9.0, 9.0]], [[0.0, 1.0]], [[2.0, 1.0]]])  # standard deviations √2 and 0
    assert _mean_absolute_noise(error) == pytest.approx([np.sqrt(2 / np.pi) * np.sqrt(2) / 2])
    assert np.isnan(_mean_absolute_noise(error[:2])).all()


def test_recommenders_that_differ_by_rounding_are_tied():
    # .1 + .2 is above .3 by a unit in the last place. Right: model 0 and 1 tied and best.
    a, b = np.array([[0.1 + 0.2, 0.3, 0.1]]), np.array([[0.3, 0.1 + 0.2, 0.1]])
    out = dict(zip(CRITERIA, compute_criteria(a, b)[0], strict=True))
    assert (out["tau_b"], out["src"], out["ipc"], out["or1"], out["regret"]) == (1, 1, 0, 1, 0)


def test_criteria_of_several_metrics_equal_those_of_each_metric():
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 3, 4)), rng.random((5, 3, 4))
    for metric in range(3):
        np.testing.assert_array_equal(
            compute_criteria(a, b)[:, metric], compute_criteria(a[:, metric], b[:, metric])
        )


def test_resampled_ratios_are_ratios_of_weighted_sums():
    users = np.array([3, 5, 8])
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0], [0.0, 0.0, 3.0]])
    sums = [
        UserSums.from_values(users[:2], np.array([1.0, 2.0]), np.array([1.0, 4.0])),
        UserSums.from_values(users[:2], np.array([5.0, 0.0]), np.array([1.0, 4.0])),  # the same denominators
        UserSums.from_values(users[1:], np.array([1.0, 2.0]), np.array([1.0, 4.0])),  # of other users
    ]
    estimates = Estimates.from_sums(sums, 2)
    out = resample_estimates(estimates, users, weights)
    assert out[:2].tolist() == [[0.6, 1.0, 0.6], [1.0, 5.0, 0.5]]
    assert np.isnan(out[2, :2]).all()
    assert out[2, 2] == 0.5
    # Two users add (N − vD)/ΣD = ±.4/5, ±4/5 and ±.4/5 to the errors: √(2 · .08² · 2/1), and so on.
    assert estimates.std_error == pytest.approx([0.16, 1.6, 0.16])
    for n_users in (0, 1):
        few = replace(estimates, share=estimates.share[:n_users], n_users=np.full(3, n_users))
        assert np.isnan(few.std_error).all()


def test_user_weights_start_with_the_sample_itself_and_keep_its_size():
    weights = draw_user_weights(7, 50, np.random.default_rng(0))
    assert weights.shape == (51, 7)
    assert np.array_equal(weights[0], np.ones(7))
    assert (weights.sum(1) == 7).all()
    assert (draw_user_weights(50, 3, np.random.default_rng(0))[1:] != 1).any(axis=1).all()


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
    return describe_verdict(pd.DataFrame([ROW | change for change in changes]), 0.95)


def test_verdict_states_the_number_of_weightings_tried():
    assert "of 3 tried" in verdict({}, {"reduction": 0.1}, {"reduction": 0.2})
    assert "tried" not in verdict({})
    assert "of 2 tried" in verdict({}, {"reduction": 0.1}, {"propensity": "random-sample", "reduction": 0.9})


def test_verdict_states_the_bias_that_eighty_percent_of_samples_would_find():
    # Standard error .2/1.95996 = .10204; 80 % of samples find 1.95996 + .84162 = 2.80159 of them.
    assert "Bias of 29% of that error would have been found in 80% of samples." in verdict({})
    assert "would have been found" not in verdict({"falls_short": True})


def test_verdict_advises_against_weights_that_harm_the_ranking():
    assert verdict({"tau_change_low": -0.5, "tau_change_high": -0.1}).startswith("do not decide by weights")
    assert not verdict({}).startswith(("no weights", "do not decide"))
    nothing = "no weights come nearer to random exposure than AOA does."
    assert [verdict({"reduction": reduction}) == nothing for reduction in (0.0, 1e-12, 2e-12)] == [
        True,
        True,
        False,
    ]
    assert verdict({"tau_change_high": 0.0}).startswith("p with snips comes nearest")
    # Nor are those whose share is not shown to be above 0.
    assert verdict({"reduction_low": 0.0}).startswith("no weights are shown to help. p with snips comes")
    assert verdict({"reduction_low": 0.001}).startswith("p with snips comes nearest")


def test_ranking_is_better_or_worse_when_the_interval_of_the_change_excludes_zero():
    sentence = "Its ranking of recommenders is {} than the ranking by AOA (tau 0.50, AOA 0.50)."
    for low, high, word in ((0.01, 0.2, "better"), (-0.2, -0.01, "worse")):
        assert verdict({"tau_change_low": low, "tau_change_high": high}).endswith(sentence.format(word))
    for low, high in ((0.0, 0.2), (-0.2, 0.0)):
        unclear = verdict({"tau_change_low": low, "tau_change_high": high})
        assert unclear.endswith("is not clearly better or worse (tau 0.50, AOA 0.50).")
    for name in ("tau_b", "tau_b_aoa"):
        assert "ranking" not in verdict({name: np.nan})


@pytest.mark.parametrize("reduction", [0.46, -0.2])
def test_verdict_states_nothing_else_when_the_error_of_aoa_is_noise(reduction):
    text = verdict({"if_unbiased": -0.24, "reduction": reduction})
    assert text == "the error of AOA is within noise: there is no bias to remove."


def test_probability_of_the_log_gives_a_warning_and_its_held_out_form_does_not():
    world = World(n_users=200, n_items=60, mean_relevant=16, max_propensity=0.9, rng=0)
    study = world.study(1, n_per_user=20)
    known = KnownPropensity(item=world.item_propensity).fit(study.biased)
    converted = known.held_out(test_fraction=0.2, popularity_source="log")
    models = {"popularity": baselines.popularity, "knn": baselines.item_knn}

    options = {"metrics": ["atop"], "estimators": ["snips-pooled"], "n_resamples": 0, "rng": 0}

    def run(**rules):
        validate(models, study, propensities=rules, **options)

    with pytest.warns(DataWarning, match=r"true, function: .*held_out\(test_fraction=0.2"):
        run(true=known, function=lambda calibration: known)
    low = KnownPropensity(item=np.full(60, 0.9))  # equal ones give equal weights either way
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(true=converted, function=lambda calibration: converted, low=low)


def test_density_ratio_without_a_seed_uses_the_generator_of_the_validation():
    rng = np.random.default_rng(0)
    rules = {"none": DensityRatioPropensity(), "own": DensityRatioPropensity(rng=5), "other": 3}
    rules_with_seed = with_seeds(rules, rng)
    assert rules_with_seed["none"].rng is rng
    assert (rules_with_seed["own"], rules_with_seed["other"]) == (rules["own"], 3)


def test_gamma_is_calibrated_on_training_counts_or_against_held_out_positives():
    study = World(n_users=200, n_items=60, mean_relevant=16, max_propensity=0.9, rng=0).study(1)
    split, rules = split_random(study.positives().biased, rng=3), default_propensities(study)
    exposure = RandomExposure.from_ratings(study.random, threshold=4).exclude(split.train)
    calibration = Calibration(split.train, split.test, exposure, {})
    counts = (split.train.popularity, exposure.n_exposed, exposure.n_positive)
    held_out = {"gamma calibrated": None, "gamma calibrated, held-out": split.test.popularity}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        for name, held_out_counts in held_out.items():
            propensity = rules[name](calibration)
            assert propensity.gamma == fit_gamma_from_exposure(*counts, held_out=held_out_counts).gamma
            assert propensity.popularity.tolist() == (split.train.popularity + 1).tolist()
    assert rules["piecewise"](calibration).model.startswith("5 strata")


def test_default_models_have_the_options_in_their_names():
    options = {
        name: trainer.keywords for name, trainer in default_models().items() if isinstance(trainer, partial)
    }
    assert options == {
        "item-kNN 20": {"n_neighbors": 20},
        "EASE": {"regularization": 50},
        "EASE 500": {"regularization": 500},
        "PureSVD 10": {"n_factors": 10},
        "PureSVD 50": {"n_factors": 50},
    }
    for n_users, n_items in ((3, 5), (5, 3)):  # of which 2 factors are the most
        user, item = np.nonzero(np.random.default_rng(0).random((n_users, n_items)) < 0.7)
        log = Interactions(user, item, np.arange(n_users), np.arange(n_items))
        assert _train_pure_svd(log, 10)[0].shape == (n_users, 2)
