"""How wrong weights must be for an estimate to reach a value, or for two recommenders to swap."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.inference import tipping_factors
from tests.conftest import examples
from tests.inference.test_bounds import by_linear_program, evaluated, ratio_bounds
from tests.inference.worlds import random_ranks
from tests.inside.inference import required_factors


def required_factor(c, w, target: float) -> float:
    """Return the factor of one estimate."""
    return required_factors(c[:, None], w, np.array([target]))[0]


def reach(c: np.ndarray, w: np.ndarray, factor: float) -> tuple[float, float]:
    """Extremes of Σvc/Σv over all corners of the box: a ratio of linear functions is extreme at one."""
    corners = w * factor ** np.array(list(product((-1, 1), repeat=c.size)))
    values = corners @ c / corners.sum(axis=1)
    return values.min(), values.max()


def test_a_hand_worked_factor():
    # c = 0, 1, 2 with w = 1 and target 1.5: A = 1.5 + .5 = 2 below, B = .5 above, Λ = √(2/.5) = 2.
    assert required_factor(np.array([2.0, 0.0, 1.0]), np.ones(3), 1.5) == pytest.approx(2)


@pytest.mark.parametrize("seed", range(20))
def test_all_corners_of_the_box_reach_the_target_from_the_factor_on_and_not_before(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    c, w = rng.normal(size=n), rng.uniform(0.1, 3, n)
    target = rng.uniform(c.min(), c.max())
    factor = required_factor(c, w, target)
    low, high = reach(c, w, factor)
    assert min(abs(low - target), abs(high - target)) < 1e-10
    low, high = reach(c, w, 1 + (factor - 1) * 0.99)
    assert not low <= target <= high


@pytest.mark.parametrize("seed", range(5))
def test_the_linear_program_is_extreme_at_the_target(seed):
    rng = np.random.default_rng(100 + seed)
    c, w = rng.normal(size=30), rng.uniform(0.1, 3, 30)
    target = np.quantile(c, rng.choice([0.2, 0.9]))
    found = by_linear_program(c, w, required_factor(c, w, target))
    assert min(abs(np.array(found) - target)) < 1e-8


@settings(max_examples=examples(50))
@given(st.integers(0, 10_000), st.floats(1, 20))
def test_the_factor_inverts_the_bounds(seed, factor):
    rng = np.random.default_rng(seed)
    c, w = rng.normal(size=12), rng.uniform(0.1, 2, 12)
    for bound in ratio_bounds(c, w, factor=factor):
        assert required_factor(c, w, bound) == pytest.approx(factor, rel=1e-9)


@pytest.mark.parametrize(
    ("c", "target", "expected"),
    [
        ([0.0, 1.0], 0.5, 1.0),
        ([0.3, 0.3], 0.3, 1.0),
        ([0.3, 0.3], 0.4, np.inf),
        ([0.0, 1.0], 1.0, np.inf),
        ([0.0, 1.0], -0.1, np.inf),
    ],
)
def test_targets_that_need_nothing_or_cannot_be_reached(c, target, expected):
    assert required_factor(np.array(c), np.ones(2), target) == expected


def test_an_unknown_target_gives_no_factor():
    assert np.isnan(required_factor(np.array([0.0, 1.0]), np.ones(2), np.nan))


def test_factors_of_several_estimates_at_once_are_those_of_each():
    rng = np.random.default_rng(5)
    c, w, target = rng.random((400, 9)), rng.exponential(size=400), rng.random(9)
    c[:, 0], target[1] = 0.5, 2.0  # all alike, and out of reach
    each = [required_factor(c[:, column], w, target[column]) for column in range(9)]
    np.testing.assert_allclose(required_factors(c, w, target), each, rtol=1e-12)


def test_bounds_of_the_difference_just_reach_zero_at_the_tipping_factor():
    evaluation = evaluated(metrics=("recall@10",))
    frame = evaluation.tipping_factors()
    finite = frame[np.isfinite(frame["factor"])]
    assert set(finite["estimator"]) == {"aoa", "snips", "snips-global", "snips-pooled"}
    for row in finite.itertuples():
        ranked = [evaluation.samples[name].ranked for name in (row.model, row.other)]
        d = np.subtract(*[(one.n_above < 10).astype(float) for one in ranked])
        sample = evaluation.samples[row.model]
        w = np.ones(d.size) if row.estimator == "aoa" else sample.weights
        if row.estimator in ("aoa", "snips"):
            low = by_linear_program(d, w, row.factor, ranked[0].segment)[0]
        else:
            share = 1 / ranked[0].counts[ranked[0].segment] if row.estimator == "snips-global" else 1.0
            low = by_linear_program(d, w * share, row.factor)[0]
        assert low == pytest.approx(0, abs=1e-7)
        assert row.difference > 0
        assert row.statement.startswith(
            f"{row.model} stays ahead of {row.other} unless some weight is off by"
        )


def test_a_recommender_that_is_never_worse_stays_ahead_whatever_the_weights():
    ranks, popularity = random_ranks(3)
    first = next(iter(ranks.values()))
    best = replace(first, n_above=np.zeros_like(first.n_above), n_tied=np.zeros_like(first.n_tied))
    evaluation = ipseval.evaluate_ranks(
        {"any": first, "best": best},
        propensity=ipseval.PowerLawPropensity(gamma=0.5).fit(popularity=popularity),
        metrics=["recall@10"],
        estimators=("snips", "snips-global"),
        on_low_ess="ignore",
    )
    frame = evaluation.tipping_factors()
    assert frame["model"].tolist() == ["best", "best"]
    assert np.isinf(frame["factor"]).all()
    assert frame["statement"].tolist() == ["best stays ahead of any whatever the weights"] * 2


def test_equal_recommenders_need_no_factor():
    ranks, popularity = random_ranks(3)
    first = next(iter(ranks.values()))
    evaluation = ipseval.evaluate_ranks(
        {"a": first, "b": first},
        propensity=ipseval.PowerLawPropensity(gamma=0.5).fit(popularity=popularity),
        metrics=["recall@10"],
        estimators=("snips", "snips-pooled"),
        on_low_ess="ignore",
    )
    frame = tipping_factors(evaluation.samples, *evaluation.definitions)
    assert frame["factor"].tolist() == [1, 1]
    assert frame["statement"].tolist() == ["a = b"] * 2


def test_list_metrics_say_why_they_have_no_factor():
    frame = evaluated().tipping_factors()
    of_lists = frame["metric"] == "ndcg@10"
    assert frame.loc[of_lists, "factor"].isna().all()
    assert frame.loc[of_lists, "note"].str.contains("not a weighted average").all()
    assert frame.loc[~of_lists, "factor"].ge(1).all()
