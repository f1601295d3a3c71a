"""Errors of predicted ratings: values by hand, every observation pattern, wrong input, and Coat."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.estimators import ShrunkSnips, claim
from ipseval.evaluation import evaluate_ratings
from reproductions import ratings_coat
from tests.inside.inference import leave_one_out
from tests.inside.metrics import RATING_METRICS, resolve_rating_metric

RATED = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 1], "value": [4.0, 2.0, 5.0]})
PREDICTED = np.array([[3.0, 3.0, 9.0], [9.0, 4.5, 9.0]])  # errors −1, 1, −.5
CHANCE = [0.5, 0.25, 1.0]


def log(frame: pd.DataFrame = RATED, n_users: int = 3, n_items: int = 3) -> ipseval.Interactions:
    return ipseval.Interactions.from_frame(
        frame, value="value", users=np.arange(n_users), items=np.arange(n_items)
    )


def known(
    values=CHANCE, ratings: ipseval.Interactions | None = None, **options
) -> ipseval.propensity.Propensity:
    return ipseval.KnownPropensity(item=values, **options).fit(ratings or log())


def run(ratings: ipseval.Interactions | None = None, predicted=PREDICTED, **options) -> pd.DataFrame:
    ratings = ratings or log(n_users=2)
    options = {"low_ess": "ignore", **options}
    return evaluate_ratings({"m": predicted}, ratings, **options).frame.set_index(["metric", "estimator"])


def test_each_estimator_worked_by_hand():
    # Weights 2, 4, 4; losses 1, 1, ½ and 1, 1, ¼; two users × three items.
    table = run(propensity=known(ratings=log(n_users=2)))
    expected = {
        ("mae", "aoa-pooled"): 2.5 / 3,
        ("mae", "ips"): (2 + 4 + 2) / 6,
        ("mae", "snips-pooled"): (2 + 4 + 2) / 10,
        ("mse", "aoa-pooled"): 2.25 / 3,
        ("mse", "ips"): (2 + 4 + 1) / 6,
        ("mse", "snips-pooled"): (2 + 4 + 1) / 10,
        ("rmse", "aoa-pooled"): math.sqrt(2.25 / 3),
        ("rmse", "ips"): math.sqrt(7 / 6),
        ("rmse", "snips-pooled"): math.sqrt(0.7),
    }
    assert table["estimate"].to_dict() == pytest.approx(expected, abs=1e-15)
    assert table.loc[("mae", "ips"), "ess"] == pytest.approx(10**2 / 36)
    assert table.loc[("mae", "ips"), "max_weight_share"] == pytest.approx(0.4)
    assert table.loc[("mae", "aoa-pooled"), "ess"] == pytest.approx(3)


def test_predictions_with_ids_as_labels_may_be_in_any_order_and_have_extra_ids():
    ratings = log(n_users=2)
    frame = pd.DataFrame(PREDICTED, index=[0, 1], columns=[0, 1, 2]).loc[[1, 0], [2, 0, 1]]
    expected = run(ratings)["estimate"].tolist()
    assert run(ratings, frame)["estimate"].tolist() == expected
    extended = frame.assign(other=7.0, another=7.0).set_axis([2, 0, 1, 8, 9], axis=1)[[8, 9, 2, 0, 1]]
    extended = pd.concat([extended.set_axis([5, 6], axis=0) + 1, extended])
    assert run(ratings, extended)["estimate"].tolist() == expected
    with pytest.raises(ipseval.InputError, match=r"^m: row or column labels of the predictions repeat"):
        run(ratings, frame.set_axis([2, 0, 0], axis=1))


def test_standard_errors_are_those_of_the_delta_method_over_users():
    table = run(propensity=known(ratings=log(n_users=2)))["std_error"]
    # ips: per-user sums over n_items 6/3 and 2/3; half their difference is the error of their mean.
    assert table["mae", "ips"] == pytest.approx((2 - 2 / 3) / 2)
    # snips: N = (6, 2), D = (6, 4), R = .8: e = (1.2, −1.2), SE² = 2 Σe²/ΣD².
    assert table["mae", "snips-pooled"] == pytest.approx(math.sqrt(2 * 2 * 1.2**2) / 10)
    assert table["rmse", "ips"] == pytest.approx(table["mse", "ips"] / (2 * math.sqrt(7 / 6)))


def test_a_user_without_ratings_counts_for_ips_only():
    table = run(log(), np.vstack([PREDICTED, np.zeros(3)]), propensity=known())
    assert table.loc[("mae", "ips"), "estimate"] == pytest.approx(8 / 9)
    assert table.loc[("mae", "snips-pooled"), "estimate"] == pytest.approx(0.8)
    assert table["n_users"].to_dict() == {
        (metric, estimator): 3 if estimator == "ips" else 2
        for metric in RATING_METRICS
        for estimator in ("aoa-pooled", "ips", "snips-pooled")
    }


def test_pairs_that_could_not_be_held_out_do_not_count():
    ratings = log(n_users=2)
    table = run(ratings, propensity=known(ratings=ratings), n_pairs=[2, 3])
    assert table.loc[("mae", "ips"), "estimate"] == pytest.approx(8 / 5)
    # N = (6, 2), D = (2, 3), R = 1.6: e = (2.8, −2.8), SE² = 2 Σe²/ΣD².
    assert table.loc[("mae", "ips"), "std_error"] == pytest.approx(math.sqrt(2 * 2 * 2.8**2) / 5)


def test_the_expectation_of_ips_over_all_observation_patterns_is_the_error_over_all_pairs():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(1, 6, size=(2, 2)).astype(float), rng.normal(3, 1, size=(2, 2))
    chance = rng.uniform(0.2, 0.9, size=(2, 2))
    expectation = np.zeros(2)
    for seen in itertools.product([False, True], repeat=4):
        mask = np.array(seen).reshape(2, 2)
        probability = float(np.prod(np.where(mask, chance, 1 - chance)))
        user, item = np.nonzero(mask)
        if not user.size:
            continue  # no rating, an estimate of 0
        frame = pd.DataFrame({"user": user, "item": item, "value": truth[mask]})
        pairs = pd.DataFrame({"user": user, "item": item, "propensity": chance[mask]})
        ratings = log(frame, n_users=2, n_items=2)
        known = ipseval.KnownPropensity(pair=pairs).fit(ratings)
        options = {"propensity": known, "metrics": ["mae", "mse"], "estimators": ["ips"]}
        expectation += probability * run(ratings, predicted, **options)["estimate"].to_numpy()
    error = predicted - truth
    assert expectation == pytest.approx([np.abs(error).mean(), np.square(error).mean()], abs=1e-12)
    for metric in ("mae", "mse"):
        level = claim(resolve_rating_metric(metric), "ips", is_probability=True).level
        assert level == "exactly unbiased"


def test_snips_reaches_the_error_over_all_pairs_where_the_naive_average_does_not():
    rng = np.random.default_rng(1)
    n_users, n_items = 4000, 30
    truth = rng.integers(1, 6, size=(n_users, n_items)).astype(float)
    predicted = np.full(truth.shape, 3.5)
    chance = np.where(truth >= 4, 0.4, 0.08)
    user, item = np.nonzero(rng.random(truth.shape) < chance)
    frame = pd.DataFrame({"user": user, "item": item, "value": truth[user, item]})
    pairs = frame.assign(propensity=chance[user, item] / 2).drop(columns="value")
    ratings = log(frame, n_users, n_items)
    halved = ipseval.KnownPropensity(pair=pairs, is_probability=False).fit(ratings)
    table = run(ratings, predicted, propensity=halved)
    for metric, exact in (
        ("mae", np.abs(predicted - truth).mean()),
        ("mse", ((predicted - truth) ** 2).mean()),
    ):
        row = table.loc[(metric, "snips-pooled")]
        assert abs(row["estimate"] - exact) < 4 * row["std_error"]
        naive = table.loc[(metric, "aoa-pooled")]
        assert abs(naive["estimate"] - exact) > 10 * naive["std_error"]


def test_predictions_of_the_rated_pairs_alone_are_enough():
    assert run(predicted=np.array([3.0, 3.0, 4.5]))["estimate"].to_dict() == pytest.approx(
        run()["estimate"].to_dict()
    )


def test_ratings_without_a_propensity_leave_every_estimator_and_are_counted():
    ratings = log(n_users=2)
    table = run(ratings, propensity=known([np.nan, 0.25, 1.0], ratings))
    assert table.loc[("mae", "aoa-pooled"), "estimate"] == pytest.approx(0.75)
    assert (table["n_positives"] == 2).all()
    note = "1 positive without a propensity left out of all averages, aoa too"
    caution = "; few positives, with equal weights too"
    plain = table.index.get_level_values("estimator") == "aoa-pooled"
    assert (table["note"][plain] == note).all()
    assert (table["note"][~plain] == note + caution).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"predicted": np.zeros((3, 3))}, ipseval.InputError, r"must have shape \(2, 3\).*got \(3, 3\)"),
        ({"predicted": np.full((2, 3), np.nan)}, ipseval.InputError, "3 of 3 entries are NaN"),
        ({"predicted": [["a"] * 3] * 2}, ipseval.InputError, "must be numbers"),
        ({"metrics": ["mape"]}, ipseval.errors.UnknownNameError, "mae, mse, rmse"),
        ({"metrics": [3]}, ipseval.InputError, "got int"),
        ({"metrics": []}, ipseval.InputError, "metrics is empty"),
        ({"estimators": ["plain"], "propensity": "known"}, ipseval.errors.UnknownNameError, "aoa"),
        ({"estimators": []}, ipseval.InputError, "estimators is empty"),
        ({"estimators": ["ips"]}, ipseval.errors.PropensityError, "ips needs a propensity"),
        (
            {"estimators": ["ips"], "propensity": "scale-free"},
            ipseval.errors.PropensityError,
            "requires calibrated propensities",
        ),
        ({"n_pairs": 1, "propensity": "known"}, ipseval.InputError, "for 1 users"),
    ],
)
def test_wrong_input_is_refused_with_the_reason(change: dict, error: type[Exception], message: str):
    ratings = log(n_users=2)
    kinds = {
        "known": known(ratings=ratings),
        "scale-free": known(ratings=ratings, is_probability=False),
    }
    if "propensity" in change:
        change = {**change, "propensity": kinds[change["propensity"]]}
    with pytest.raises(error, match=message):
        run(ratings, **change)


def test_ratings_without_values_and_models_that_are_no_mapping_are_refused():
    no_value = ipseval.Interactions.from_frame(RATED[["user", "item"]])
    with pytest.raises(ipseval.InputError, match="no value"):
        evaluate_ratings({"m": PREDICTED}, no_value)
    # One rating of two users: a prediction of the rating, not of users and items.
    ratings = ipseval.Interactions.from_frame(RATED[:1], value="value", users=[0, 1], items=[0, 1, 2])
    evaluation = evaluate_ratings({"m": RATED["value"].to_numpy()[:1] - 2}, ratings, metrics=["mae"])
    assert evaluation.frame["estimate"].tolist() == [2]
    with pytest.raises(ipseval.InputError, match='"name": predictions'):
        evaluate_ratings(PREDICTED, log(n_users=2))


@pytest.fixture(scope="module")
def two_models() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((60, 8)) < 0.6), columns=["user", "item"])
    ratings = log(frame.assign(value=rng.integers(1, 6, len(frame)) + 0.0), 60, 8)
    chance = known(np.linspace(0.5, 0.9, 8), ratings)
    models = {"low": np.full((60, 8), 2.5), "high": np.full((60, 8), 3.5)}
    return evaluate_ratings(models, ratings, propensity=chance, metrics=["mse", "rmse"])


def test_the_bootstrap_of_rmse_is_the_root_of_that_of_mse(two_models):
    intervals = two_models.with_intervals("percentile", n_resamples=400, rng=0).frame
    mse, rmse = (intervals[intervals["metric"] == name] for name in ("mse", "rmse"))
    for column in ("estimate", "ci_low", "ci_high"):
        assert rmse[column].to_numpy() == pytest.approx(np.sqrt(mse[column].to_numpy()), rel=2e-3)
    # The jackknife behind BCa reads the root as well.
    rmse_sums = two_models.estimate("low", "rmse", "ips").sums
    mse_sums = two_models.estimate("low", "mse", "ips").sums
    assert leave_one_out(rmse_sums) == pytest.approx(np.sqrt(leave_one_out(mse_sums)), rel=1e-12)


def test_recommenders_are_compared_on_the_same_ratings(two_models):
    evaluation = two_models
    table = evaluation.compare().set_index(["metric", "estimator"])
    values = evaluation.frame.set_index(["model", "metric", "estimator"])["estimate"]
    for key, row in table.iterrows():
        assert row["difference"] == pytest.approx(
            values[(row["model"], *key)] - values[(row["reference"], *key)]
        )
    assert (table["std_error"] > 0).all()
    assert set(evaluation.samples["low"].ranked.n_candidates) == {8}  # each pair of a user might be rated
    assert "rmse" in evaluation.to_markdown()
    assert "rmse" in evaluation.to_html()


def test_bounds_of_rmse_are_undefined_and_those_of_mse_are_computed(two_models):
    table = two_models.bounds(2.0).set_index(["metric", "estimator"]).sort_index()
    mse, rmse = (table.loc[(name, "snips-pooled")] for name in ("mse", "rmse"))
    assert (mse["lower"] < mse["upper"]).all()
    assert rmse["lower"].isna().all()


def test_rmse_is_refused_where_sums_do_not_carry_the_root():
    ratings = log(n_users=2)
    with pytest.raises(ipseval.InputError, match=r"no form for the root of a mean; use mse"):
        run(ratings, propensity=known(ratings=ratings), estimators=[ShrunkSnips(0.5)])


def test_ranks_are_no_ratings():
    world = ipseval.simulation.World(n_users=20, n_items=10, mean_relevant=3, rng=0)
    with pytest.raises(
        ipseval.InputError, match="mae is an error of predicted ratings; use evaluate_ratings"
    ):
        ipseval.evaluate(
            {"m": np.zeros((20, 10))},
            world.split(1),
            metrics=[resolve_rating_metric("mae")],
            estimators=["aoa"],
        )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_on_coat_the_weighted_errors_are_closer_to_those_of_randomly_shown_items(shared_data, monkeypatch):
    monkeypatch.setattr(ratings_coat, "N_ROUNDS", 2)
    study = ipseval.datasets.load_coat(shared_data("coat"))
    runs = pd.concat([ratings_coat.one_split(study, seed) for seed in range(2)])
    mean = runs.groupby(["metric", "model", "estimator"])["estimate"].mean().unstack("estimator")
    gap = mean.sub(mean["truth"], axis=0).abs()
    assert (gap["snips-pooled"] < gap["aoa-pooled"]).all()


def test_the_recommender_with_the_smallest_error_ranks_first():
    rng = np.random.default_rng(0)
    user, item = np.divmod(rng.permutation(600)[:200], 20)
    frame = pd.DataFrame({"user": user, "item": item, "value": rng.integers(1, 6, 200).astype(float)})
    ratings = log(frame, n_users=30, n_items=20)
    models = {
        name: np.full((30, 20), value) for name, value in (("far", 8.0), ("near", 3.0), ("middle", 4.5))
    }
    propensity = known(np.full(20, 0.4), ratings)
    evaluation = evaluate_ratings(models, ratings, propensity=propensity, metrics=["mae", "rmse"])
    assert evaluation.order["model"].tolist() == ["near", "middle", "far"] * 2
    assert (evaluation.order["difference"] >= 0).all()
    assert "near ranks first on mae by AOA pooled (p < 0.001 against middle)" in evaluation.verdict
    (first_row, *_) = evaluation.tables().parts[0].rows
    assert first_row[0].text == "near"
    assert first_row[1].strong
    latex = evaluation.to_latex(columns=["aoa-pooled", "snips-pooled"])
    assert "Bold: the lowest estimate of each column and metric." in latex
    assert "significantly higher than the lowest estimate" in latex
    assert "Bold: the lowest estimate of its column" in evaluation.to_html()
    assert "far" not in evaluation.verdict
