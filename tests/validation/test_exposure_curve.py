"""The curve over the number of users with random exposure: its rows by hand, its limits, its pictures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ipseval import Interactions, Split, evaluate, plan_exposure, split_random
from ipseval.correction import CORRECTED, RANDOM_SAMPLE, correct
from ipseval.errors import InputError
from ipseval.propensity import DensityRatioPropensity, PowerLawPropensity
from ipseval.ranking import baselines
from ipseval.reporting import plots
from ipseval.validation import ExposureCurve, exposure_curve
from ipseval.validation.simulation import World
from tests.inside.estimators import AOA_POOLED
from tests.inside.validation import (
    DENSITY_RATIO,
    POWER_LAW,
    SCORES,
    WITH_INTERACTIONS,
    _score_estimates,
    exposure_outside_training,
)

MODELS = {"popularity": baselines.popularity, "EASE": partial(baselines.ease, regularization=50.0)}


@pytest.fixture(scope="module", autouse=True)
def three_folds():
    """Twenty models of a density ratio, as by default, take longer than all else of a curve; so do ridges."""
    with pytest.MonkeyPatch.context() as patch:
        for file in ("cross_fitted_odds", "_density_ratio"):
            patch.setattr(f"ipseval.propensity.{file}.RIDGES", (3.0, 100.0))
        model = partial(DensityRatioPropensity, cross_fit=3)
        patch.setattr("ipseval.validation._curve.DensityRatioPropensity", model)
        yield


@pytest.fixture(scope="module", name="study")
def a_study():
    world = World(n_users=200, n_items=60, mean_relevant=12, gamma=0.5, rng=0)
    return world.study(rng=1, n_per_user=20)


@pytest.fixture(scope="module", name="curve")
def a_curve(study):
    options = {"metrics": ["recall@5"], "n_splits": 2, "n_draws": 1, "rng": 0}
    return exposure_curve(MODELS, study, n_users=[0, 40, 160], **options)


def test_scores_are_those_worked_by_hand():
    estimates, half = np.array([[0.5, 0.4, 0.1]]), np.array([[0.1, 0.1, 0.01]])
    right, exact = np.array([[0.3, 0.45, 0.1]]), np.zeros((1, 3))
    scores = dict(zip(SCORES, _score_estimates(estimates, half, right, exact)[0], strict=True))
    # Errors .2, .05, 0; half-widths .1, .1, .01: b and c are covered. By the estimate a is best, .15 below b.
    assert scores == pytest.approx(
        {"error": 0.25 / 3, "covered": 2 / 3, "half_width": 0.07, "tau_b": 1 / 3, "regret": 0.15}
    )
    noisy = exact + 1.96 * 0.2  # now a is within √(.1² + (1.96 · .2)²) = .40 of the reference
    assert _score_estimates(estimates, half, right, noisy)[0, SCORES.index("covered")] == 1


def test_curve_has_a_row_for_every_estimator_and_size(curve):
    frame = curve.frame.set_index(["n_users", "estimator"])
    assert {AOA_POOLED, CORRECTED, POWER_LAW} == set(frame.loc[0].index)
    assert {AOA_POOLED, RANDOM_SAMPLE, CORRECTED, POWER_LAW} <= set(frame.loc[160].index)
    assert WITH_INTERACTIONS not in set(
        curve.frame["estimator"]
    )  # the log of this study holds positives only
    assert (frame.xs(AOA_POOLED, level="estimator")["removed"] == 0).all()
    assert (frame.xs(AOA_POOLED, level="estimator")["regret_change"] == 0).all()
    sample = frame.xs(RANDOM_SAMPLE, level="estimator")
    assert (
        sample.loc[160, "half_width"] < 0.7 * sample.loc[40, "half_width"]
    )  # about half: four times the users
    assert sample.loc[160, "removed"] > 0.5


@pytest.mark.filterwarnings("ignore:.*no training interactions:ipseval.errors.DataWarning")
def test_pairs_that_are_not_positive_are_read_and_a_refused_fit_has_no_row(study, monkeypatch):
    def refuse(*_, **__):
        raise InputError("too few")

    monkeypatch.setattr("ipseval.validation._curve.DensityRatioPropensity", refuse)
    score_calls = []

    def record_scores(*arguments):
        score_calls.append(arguments)
        return _score_estimates(*arguments)

    monkeypatch.setattr("ipseval.validation._curve._score_estimates", record_scores)
    strict = replace(study, threshold=5)
    labels = ["recall@5", "atop"]
    options = {"metrics": labels, "n_draws": 1, "test_fraction": 0.5, "rng": 0}
    curve = exposure_curve(MODELS, strict, n_users=[0, 40], **options)
    # Without exposure the truth is that of all users; both it and the weighted estimate have their errors.
    split = split_random(strict.positives().biased, test_fraction=0.5, rng=np.random.default_rng(0))
    exposure = exposure_outside_training(strict, split)
    pairs = exposure.select(exposure.positive)
    truth = Split(split.train, Interactions(pairs.user, pairs.item, split.user_ids, split.item_ids))
    models = {name: train(split.train) for name, train in MODELS.items()}
    evaluate_options = {"metrics": labels, "low_ess": "ignore"}
    reference = evaluate(models, truth, propensity=None, estimators=[AOA_POOLED], **evaluate_options).frame
    power = PowerLawPropensity(gamma=0, unseen="smooth")
    weighted = evaluate(
        models, split, propensity=power, estimators=["snips-pooled"], **evaluate_options
    ).frame
    weighted, reference = (
        actual.pivot(index="metric", columns="model").loc[labels] for actual in (weighted, reference)
    )
    expected = (
        weighted["estimate"],
        (weighted["ci_high"] - weighted["ci_low"]) / 2,
        reference["estimate"],
        reference["std_error"],
    )
    index = curve.scores["estimator"].tolist().index(POWER_LAW) // len(labels)
    for actual, cells, factor in zip(score_calls[index], expected, (1, 1, 1, norm.ppf(0.975)), strict=True):
        assert actual == pytest.approx(factor * cells[list(MODELS)].to_numpy())
    names = curve.frame.loc[curve.frame["n_users"] == 40, "estimator"].tolist()
    assert names == curve.scores.loc[curve.scores["n_users"] == 40, "estimator"].tolist()  # in one order
    assert set(names) == {AOA_POOLED, RANDOM_SAMPLE, CORRECTED, POWER_LAW, WITH_INTERACTIONS}
    assert DENSITY_RATIO not in names


def test_removed_is_one_minus_the_ratio_of_mean_errors_and_its_error_is_over_splits(curve):
    scores = curve.scores[curve.scores["n_users"] == 40]
    split_errors = scores.groupby(["split", "estimator"])["error"].mean().unstack()
    row = curve.frame.set_index(["n_users", "estimator"]).loc[(40, CORRECTED)]
    assert row["removed"] == pytest.approx(
        1 - split_errors[CORRECTED].mean() / split_errors[AOA_POOLED].mean()
    )
    ratio = 1 - split_errors[CORRECTED] / split_errors[AOA_POOLED]
    assert row["removed_se"] == pytest.approx(ratio.std(ddof=1) / np.sqrt(2))


def test_the_same_seed_gives_the_same_curve(study, curve):
    again = exposure_curve(MODELS, study, n_users=[0, 40], metrics=["recall@5"], n_draws=2, rng=0)
    first = again.scores[again.scores["draw"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        first, curve.scores[(curve.scores["split"] == 0) & (curve.scores["n_users"] < 160)]
    )
    errors = again.scores.query("estimator == @RANDOM_SAMPLE").groupby("draw")["error"].mean()
    assert errors.nunique() == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_users": [0, 200]}, "below 200"),
        ({"n_users": []}, "below 200"),
        ({"n_users": [-1, 50]}, "n_users must be an integer >= 0"),
        ({"metrics": ["ndcg@5"]}, "not an average"),
        ({"models": {"one": baselines.popularity}}, "at least two"),
        ({"models": {"a": 1, "b": 2}}, "the model 'a'"),
        ({"study": "coat"}, "study must be"),
    ],
)
def test_bad_input_is_refused(study, changed, message):
    arguments = {"models": MODELS, "study": study, "n_users": [0, 40]} | changed
    models, data = arguments.pop("models"), arguments.pop("study")
    with pytest.raises(InputError, match=message):
        exposure_curve(models, data, **arguments)


def test_the_picture_draws_the_errors_and_the_report_has_a_table_per_metric(curve):
    ax = curve.plot()
    rows = curve.frame[curve.frame["estimator"] == CORRECTED]
    lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_allclose(lines[CORRECTED], rows["error"])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "40", "160"]
    assert f" {rows['error'].iloc[0]:.3f} " in str(curve)
    assert "recall@5" in str(curve)
    assert "index" not in str(curve)
    assert isinstance(curve, ExposureCurve)
    with pytest.raises(InputError, match="no metric 'atop'"):
        curve.plot("atop")


def test_the_picture_of_a_plan_draws_its_half_widths():
    world = World(n_users=80, n_items=40, mean_relevant=10, rng=0)
    split = world.split(rng=1)
    models = {name: world.example_models(split, rng=2)[name] for name in ("popular", "noisy")}
    plan = plan_exposure(
        correct(models, split, metrics=["recall@10", "atop"], rng=3),
        n_users=[20, 80],
        n_items=[10, 20],
        positive_share=0.1,
    )
    ax = plots.plot_plan(plan, metric="recall@10")
    part = plan[(plan["metric"] == "recall@10") & (plan["n_items"] == 20)]
    drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_allclose(drawn["20 items shown to each"], part["half_width"])
    assert ax.get_ylabel() == "half width"
    ax = plots.plot_plan(plan, metric="recall@10", column="regret_90", bound=0.01)
    drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_allclose(drawn["20 items shown to each"], part["regret_90"])
    assert list(drawn["0.01"]) == [0.01, 0.01]
    assert "0.01" in [text.get_text() for text in ax.get_legend().get_texts()]
    with pytest.raises(InputError, match="bound"):
        plots.plot_plan(plan, bound="small")
