"""R(γ), its slope and tipping points."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Sample
from ipseval.metrics import metric
from tests.inference.worlds import random_ranks, ranked
from tests.inside.estimators import resolve_estimator
from tests.inside.inference import sensitivity

ESTIMATORS = ("aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled", "snips-shrunk(0.5)")
METRICS = ("auc", "atop", "recall@10", "mean_dcg", "dcg@10", "precision@10", "ndcg@10", "ap", "rr")


def power_law(popularity, gamma, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.IdentificationWarning)
        return ipseval.PowerLawPropensity(gamma=gamma, **options).fit(popularity=popularity)


def evaluated(seed=0, gamma=0.0, metrics=METRICS, estimators=ESTIMATORS, scale=None, **options):
    ranks, popularity = random_ranks(seed, **options)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=power_law(popularity, gamma, scale=scale),
        metrics=metrics,
        estimators=estimators,
        on_low_ess="ignore",
    )


@pytest.mark.parametrize("scale", [None, "max"])
def test_the_grid_equals_separate_evaluations_at_each_gamma(scale):
    # With P on the scale of probabilities the pooled auc takes another form, and scale="max" stays "max".
    grid = [-1.0, 0.3, 1.7]
    frame = evaluated(scale=scale).sensitivity(grid).frame
    for gamma in grid:
        one = evaluated(gamma=gamma, scale=scale).frame
        ours = frame[frame["gamma"] == gamma]
        assert ours[["model", "metric", "estimator"]].to_numpy().tolist() == (
            one[["model", "metric", "estimator"]].to_numpy().tolist()
        )
        np.testing.assert_allclose(ours["estimate"], one["estimate"], rtol=1e-10)
        np.testing.assert_allclose(ours["std_error"], one["std_error"], rtol=1e-8)
        np.testing.assert_allclose(ours["ci_low"], one["ci_low"], rtol=1e-8, atol=1e-12)


def test_equal_users_have_no_error_at_any_gamma():
    # Both users have their positives at the top, the rarer one first: every value is 1.
    ranks = {"a": ranked([0, 0, 1, 1], [0, 1, 0, 2], [1, 0, 1, 0], n_users=2, n_items=5)}
    evaluation = ipseval.evaluate_ranks(
        ranks,
        propensity=power_law([4, 1, 2, 1, 1], 0.0),
        metrics=("ndcg@2", "recall@2"),
        estimators=("snips-global", "snips-pooled"),
        on_low_ess="ignore",
    )
    frame = evaluation.sensitivity(np.linspace(-1, 3, 9)).frame
    np.testing.assert_allclose(frame["estimate"], 1, rtol=1e-14)
    np.testing.assert_allclose(frame["std_error"], 0, atol=1e-14)


def test_the_derivative_equals_the_numerical_one():
    linear = tuple(name for name in METRICS if name not in ("precision@10", "ndcg@10", "ap", "rr"))
    evaluation = evaluated(metrics=linear, estimators=ESTIMATORS[:-1])
    at, step = np.array([-0.5, 0.8, 2.0]), 1e-4
    derivative = evaluation.sensitivity(at, standard_errors=False).frame["derivative"].to_numpy()
    below, above = (
        evaluation.sensitivity(at + shift, standard_errors=False).frame["estimate"].to_numpy()
        for shift in (-step, step)
    )
    np.testing.assert_allclose(derivative, (above - below) / (2 * step), atol=1e-6)
    assert np.abs(derivative).max() > 0.01


def test_the_derivative_is_nan_where_the_estimate_is_not_linear_and_zero_without_weights():
    frame = evaluated(metrics=("recall@10", "ndcg@10")).sensitivity([0, 1], standard_errors=False).frame
    by = frame.set_index(["metric", "estimator"]).sort_index()["derivative"]
    assert by.loc[("ndcg@10", "snips")].isna().all()
    assert (by.loc[("recall@10", "aoa")] == 0).all()
    assert (by.loc[("ndcg@10", "aoa")] == 0).all()


def two_items(hits: dict[str, tuple[int, int]]) -> ipseval.Evaluation:
    """One user with a positive on item 0 (n* = 4) and one on item 1 (n* = 1); 1 where its rank is 1."""
    ranks = {
        name: ranked([0, 0], [0, 1], [0 if hit else 2 for hit in pair], n_users=1, n_items=5)
        for name, pair in hits.items()
    }
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=0.0).fit(popularity=[4, 1, 1, 1, 1]),
        metrics=("recall@1",),
        estimators=("snips-pooled",),
        on_low_ess="ignore",
    )


def test_a_hand_worked_curve_and_slope():
    # w = 4^(−(γ+1)/2) and 1. R = w/(w + 1) for the recommender that hits item 0:
    # γ = 0: w = ½, R = ⅓; dR/dγ = −½ ln 4 · w/(1 + w)² = −½ · 1.386294 · ½/2.25 = −.154033.
    frame = two_items({"a": (1, 0)}).sensitivity([0.0, 1.0]).frame.set_index("gamma")
    assert frame.loc[0.0, "estimate"] == pytest.approx(1 / 3)
    assert frame.loc[1.0, "estimate"] == pytest.approx(0.2)
    assert frame.loc[0.0, "derivative"] == pytest.approx(-0.1540327, abs=1e-7)


def test_equal_recommenders_never_tip():
    row = two_items({"a": (1, 0), "b": (1, 0)}).tipping_points().iloc[0]
    assert (row["n_tipping"], row["statement"]) == (0, "a = b for all γ in [−1, 3]")


@pytest.mark.parametrize("seed", range(2))
def test_tipping_points_equal_brute_force_over_a_fine_grid(seed):
    evaluation = evaluated(
        seed, metrics=("atop", "recall@10", "ndcg@10"), estimators=("snips", "snips-pooled")
    )
    fine = np.linspace(-1, 3, 401)
    frame = evaluation.sensitivity(fine, standard_errors=False).frame
    values = {
        key: part["estimate"].to_numpy() for key, part in frame.groupby(["model", "metric", "estimator"])
    }
    n_found = 0
    for row in evaluation.tipping_points(np.linspace(-1, 3, 101)).itertuples():
        key = (row.metric, row.estimator)
        gap = values[row.model, *key] - values[row.other, *key]
        swaps = np.flatnonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
        assert row.n_tipping == swaps.size
        for point, place in zip(row.tipping_points, swaps, strict=True):
            assert fine[place] <= point <= fine[place + 1]
        n_found += swaps.size
    assert n_found > 0


def test_sensitivity_needs_a_power_law():
    ranks, popularity = random_ranks(0)
    known = ipseval.KnownPropensity(item=np.full(popularity.size, 0.5)).fit(next(iter(ranks.values())))
    evaluation = ipseval.evaluate_ranks(ranks, propensity=known, metrics=("atop",), on_low_ess="ignore")
    with pytest.raises(PropensityError, match="needs a power-law propensity"):
        evaluation.sensitivity()


STEPS = {
    "clip": lambda one: one.clip(floor=0.2),
    "held_out": lambda one: one.held_out(test_fraction=0.2, counted_on="log"),
}


@pytest.mark.parametrize(
    "names", [names for length in (1, 2) for names in itertools.permutations(STEPS, length)]
)
def test_the_row_of_another_gamma_is_the_evaluation_at_that_gamma_whatever_the_steps(names):
    ranks, popularity = random_ranks(0)

    def made(gamma):
        one = power_law(popularity, gamma, scale="max")
        for name in names:
            one = STEPS[name](one)
        return one

    options = {
        "metrics": ("atop", "recall@3", "rr"),
        "estimators": ("aoa", "snips", "snips-global", "snips-pooled", "ips"),
        "n_relevant": 20,
        "on_low_ess": "ignore",
    }
    frame = ipseval.evaluate_ranks(ranks, propensity=made(0.0), **options).sensitivity([-1, 0, 0.6]).frame
    for gamma in (0.0, 0.6):
        direct = ipseval.evaluate_ranks(ranks, propensity=made(gamma), **options).frame
        row = frame[frame.gamma == gamma]
        both = row.merge(direct, on=["model", "metric", "estimator"])
        assert len(both) == len(direct)
        assert both.estimate_x.to_numpy() == pytest.approx(both.estimate_y.to_numpy(), rel=1e-10, nan_ok=True)
        error_x, error_y = both.std_error_x.to_numpy(), both.std_error_y.to_numpy()
        assert error_x == pytest.approx(error_y, rel=1e-8, nan_ok=True)


def test_derivatives_follow_the_steps():
    ranks, popularity = random_ranks(0)
    one = power_law(popularity, 0.0, scale="max").clip(floor=0.4)
    evaluation = ipseval.evaluate_ranks(
        ranks, propensity=one, metrics=("atop",), estimators=("snips", "snips-global"), on_low_ess="ignore"
    )
    frame = evaluation.sensitivity([0.3 - 1e-5, 0.3, 0.3 + 1e-5]).frame
    for _, part in frame.groupby(["model", "estimator"]):
        low, _, high = part.estimate
        assert part.derivative.iloc[1] == pytest.approx((high - low) / 2e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("gamma", "words"), [([1.0], "at least two different"), ([0.0, np.nan], "finite"), ("x", "numbers")]
)
def test_bad_grids_are_refused(gamma, words):
    ranks, popularity = random_ranks(0, models=1)
    propensity = power_law(popularity, 0.0)
    samples = {name: Sample(one, propensity.at(one.user, one.item)) for name, one in ranks.items()}
    with pytest.raises(InputError, match=words):
        sensitivity(samples, [metric("atop")], [resolve_estimator("snips")], propensity, gamma=gamma)


def test_tipping_points_of_one_recommender_are_those_rows_of_all_pairs():
    evaluation = two_items({"a": (1, 0), "b": (0, 1), "c": (1, 1)})
    every = evaluation.tipping_points()
    some = evaluation.tipping_points(reference="b")
    with_b = every[(every["model"] == "b") | (every["other"] == "b")].reset_index(drop=True)
    pd.testing.assert_frame_equal(some, with_b, check_exact=True)
    assert 0 < len(some) < len(every)
    with pytest.raises(ipseval.errors.UnknownNameError, match="reference"):
        evaluation.tipping_points(reference="no")


def test_the_rows_of_a_sensitivity_are_numbered_through():
    frame = two_items({"a": (1, 0), "b": (0, 1)}).sensitivity([0.0, 1.0]).frame
    assert frame.index.tolist() == [0, 1, 2, 3]
