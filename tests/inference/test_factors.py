"""How wrong weights must be for an estimate to reach a value, or for two recommenders to swap."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from tests.conftest import examples
from tests.inference.test_bounds import by_linear_program, evaluated, ratio_bounds
from tests.inference.worlds import random_ranks
from tests.inside.inference import leading_factors, required_factors


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


@pytest.mark.parametrize("place", [2, 3])
def test_bounds_of_the_difference_to_the_nearest_rival_just_reach_zero_at_the_factor(place):
    evaluation = evaluated(metrics=("recall@10",))
    metrics, estimators = evaluation.definitions
    estimator, samples = estimators[place], evaluation.samples
    rows = evaluation.frame.query("estimator == @estimator.label").set_index("model")["estimate"]
    first = rows.idxmax()
    factor = leading_factors(samples, metrics, estimator, {"recall@10": first})["recall@10"]
    sample = samples[first]
    share = 1 / sample.ranked.counts[sample.ranked.segment] if estimator.label == "snips-global" else 1.0
    hits = {name: (one.ranked.n_above < 10).astype(float) for name, one in samples.items()}
    lows = [
        by_linear_program(hits[first] - hits[name], sample.weights * share, factor)[0]
        for name in samples
        if name != first
    ]
    assert min(lows) == pytest.approx(0, abs=1e-7)


def test_a_recommender_that_is_never_worse_stays_ahead_whatever_the_weights():
    ranks, popularity = random_ranks(3)
    one = next(iter(ranks.values()))
    best = replace(one, n_above=np.zeros_like(one.n_above), n_tied=np.zeros_like(one.n_tied))
    evaluation = ipseval.evaluate_ranks(
        {"any": one, "best": best},
        propensity=ipseval.PowerLawPropensity(gamma=0.5).fit(popularity=popularity),
        metrics=["recall@10"],
        estimators=("snips-global",),
        on_low_ess="ignore",
    )
    metrics, (estimator,) = evaluation.definitions
    found = leading_factors(evaluation.samples, metrics, estimator, {"recall@10": "best"})
    assert found == {"recall@10": np.inf}
