"""The error of fitted weights in an evaluation, compared with refits, in differences and in intervals."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import PositivityWarning
from ipseval.estimators import Note
from ipseval.propensity import FitError
from reproductions import density_ratio_steady as steady

FITTED_WEIGHTS = Note.create("fitted_weights")
AS_KNOWN = str(Note.create("weights_taken_as_known"))

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
METRICS = ("atop", "recall@5", "ndcg@10")  # the last is not linear in the weights


@pytest.fixture(scope="module", autouse=True)
def two_ridges():
    """Use two ridges, because the default of seven makes every refit slower."""
    with pytest.MonkeyPatch.context() as patch:
        for file in ("cross_fitted_odds", "_density_ratio"):
            patch.setattr(f"ipseval.propensity.{file}.RIDGES", (3.0, 100.0))
        yield


@pytest.fixture(scope="module", name="fitted")
def a_world_with_fitted_weights(two_ridges):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steady, "N_ITEMS", 100)
        world = steady.simulated("popularity", n_users=200)
    world = replace(world, ranks={name: world.ranks[name] for name in ("popular", "EASE")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositivityWarning)
        exposure = world.exposure.select(np.isin(world.exposure.user, world.exposed[:60]))
        model = ipseval.DensityRatioPropensity(exposure, biased=world.split.test, cross_fit=5, rng=0)
        return world, model.fit(world.split.train)


def evaluate_world(world, propensity, **options):
    defaults = {"metrics": METRICS, "estimators": ["aoa", "snips", "snips-global"], "low_ess": "ignore"}
    return ipseval.evaluate_ranks(world.ranks, propensity=propensity, **{**defaults, **options})


def test_the_influence_of_a_user_through_the_weights_equals_a_refit_with_more_weight_on_that_user(fitted):
    world, propensity = fitted
    estimates = evaluate_world(world, propensity).estimates
    step = 1e-3
    users = [*world.exposed[:2], np.setdiff1d(np.arange(200), world.exposed[:60])[0]]
    influences = []
    differences = []
    for user in users:
        upper_counts = np.ones(200) + step * (np.arange(200) == user)
        lower_counts = np.ones(200) - step * (np.arange(200) == user)
        upper, lower = (
            evaluate_world(world, propensity.fit.refit(estimate)).estimates
            for estimate in (upper_counts, lower_counts)
        )
        for key, estimate in estimates.items():
            if key[2] != "aoa":
                influences.append(estimate.user_sums.propensity_influence[user])
                differences.append((upper[key].value - lower[key].value) / (2 * step))
    # To first order; models of the folds lack a fifth of the users, and each user its own fold.
    assert np.corrcoef(influences, differences)[0, 1] > 0.99
    assert np.polyfit(differences, influences, 1)[0] == pytest.approx(1, abs=0.1)


def test_the_standard_error_equals_the_deviation_of_refits_to_resampled_users(fitted):
    world, propensity = fitted
    options = {"metrics": METRICS[:2], "estimators": ["snips-global"]}
    printed = evaluate_world(world, propensity, **options)
    refitted = printed.with_intervals("percentile", refit=propensity.fit.refit, n_resamples=25, rng=0)
    with_known_weights = evaluate_world(world, replace(propensity, error=None), **options)
    assert refitted.frame["note"].str.contains("propensity refitted").all()
    printed_errors, refit_errors, known_errors = (
        evaluation.frame["std_error"].to_numpy() for evaluation in (printed, refitted, with_known_weights)
    )
    # 25 resamples know a standard deviation to 14 %.
    assert np.median(refit_errors / printed_errors) == pytest.approx(1, abs=0.25)
    assert (refit_errors / printed_errors).max() < 1.5 < (refit_errors / known_errors).max()


def test_only_weighted_estimates_have_a_propensity_influence_and_a_note_about_it(fitted):
    world, propensity = fitted
    with_error = evaluate_world(world, propensity)
    with_known_weights = evaluate_world(world, replace(propensity, error=None))
    for key, estimate in with_error.estimates.items():
        weighted = key[2] != "aoa"
        assert estimate.value == with_known_weights.estimates[key].value
        assert (FITTED_WEIGHTS in estimate.notes) == weighted
        assert FITTED_WEIGHTS not in with_known_weights.estimates[key].notes
        assert (estimate.user_sums.propensity_influence is not None) == weighted
    notes = with_error.frame.set_index("estimator")["note"]
    assert notes["snips-global"].str.contains(str(FITTED_WEIGHTS)).all()


def test_a_metric_that_is_constant_over_positives_has_no_error_from_fitted_weights(fitted):
    world, propensity = fitted
    options = {"metrics": ["recall@100", "hit@100"], "estimators": ["snips", "snips-global", "snips-pooled"]}
    assert world.split.n_items <= 100  # every positive is among the first 100: c = 1
    frame = evaluate_world(world, propensity, **options).frame
    assert (frame["estimate"] == 1).all()
    assert (frame["std_error"] == 0).all()
    assert frame["note"].str.contains(str(FITTED_WEIGHTS)).all()


def test_all_intervals_and_differences_account_for_fitted_weights(fitted):
    world, propensity = fitted
    options = {"metrics": ["recall@5"], "estimators": ["snips-global"]}
    evaluation = evaluate_world(world, propensity, **options)
    with_known_weights = evaluate_world(world, replace(propensity, error=None), **options)
    widths = [
        user_sums.frame["ci_high"] - user_sums.frame["ci_low"]
        for user_sums in (with_known_weights, evaluation)
    ]
    assert (widths[1] / widths[0]).max() > 1.5
    for method in ("percentile", "bca"):
        frame = evaluation.with_intervals(method, n_resamples=2000, rng=0).frame
        ratio = (frame["ci_high"] - frame["ci_low"]) / widths[1]
        assert ratio.median() == pytest.approx(1, abs=0.15)
    ease_sums, popular_sums = (
        evaluation.estimates[name, "recall@5", "snips-global"].user_sums for name in ("EASE", "popular")
    )
    effect_difference = np.zeros(200)
    for sign, user_sums in ((1, ease_sums), (-1, popular_sums)):
        users, effects = user_sums.effects()
        effect_difference[users] += sign * effects
    row = evaluation.compare(reference="popular").set_index("model").loc["EASE"]
    n = row["n_users"]
    assert row["std_error"] == pytest.approx(np.sqrt(n / (n - 1) * (effect_difference @ effect_difference)))


def test_groups_note_that_their_errors_assume_known_weights(fitted):
    world, propensity = fitted
    groups = np.where(np.arange(200) < 100, "a", "b")
    halves = ipseval.evaluation.segments.user_groups(
        pd.Series(groups, index=world.split.user_ids, name="half")
    )
    notes = (
        evaluate_world(world, propensity, metrics=["recall@5"])
        .by(halves)
        .frame.set_index("estimator")["note"]
    )
    assert notes["snips-global"].str.contains(AS_KNOWN).all()
    assert not notes["aoa"].str.contains(AS_KNOWN).any()


def test_the_axes_of_an_error_are_one_standard_error_each():
    influence = np.random.default_rng(0).normal(size=(50, 3)) @ np.diag([3.0, 1.0, 0.0])

    def derivative(user, item):
        return np.column_stack([user, item, np.ones(user.size)]).astype(float)

    error = FitError.from_influence(influence, derivative)
    user = np.array([0, 2, 5])
    item = np.array([1, 0, 4])
    assert error.users.shape == (50, 2)  # nothing moves the third parameter
    assert error.users.T @ error.users == pytest.approx(np.eye(2))
    # Σ_j z_uj·(one standard error of axis j) is what user u moves the parameters by.
    assert error.users @ error.change(user, item).T == pytest.approx(influence @ derivative(user, item).T)
    assert repr(error) == "FitError(of a fit to 50 users, 2 axes)"


def test_a_saved_evaluation_keeps_the_error_of_its_weights(fitted, tmp_path):
    world, propensity = fitted
    evaluation = evaluate_world(world, propensity, metrics=["recall@5"])
    evaluation.save(tmp_path / "evaluation.npz")
    loaded = ipseval.Evaluation.load(tmp_path / "evaluation.npz")
    assert loaded.frame.equals(evaluation.frame)
    assert loaded.compare().equals(evaluation.compare())
