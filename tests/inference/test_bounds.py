"""Bounds when weights may be wrong by a factor, and the factor at which an estimate reaches a value."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

import ipseval
from ipseval.errors import InputError
from ipseval.inference.weight_bounds import check_factor
from tests.inference.worlds import random_ranks, ranked
from tests.inside.inference import compute_required_factors, row_bounds


def ratio_bounds(c, w, *, factor: float) -> tuple[float, float]:
    """Return the extremes of Σvc/Σv over v ∈ [w/Λ, Λw]."""
    low, high = row_bounds(c[None, :], w[None, :], factor)
    return low[0], high[0]


def solve_linear_program(c, w, factor: float, group=None) -> tuple[float, float]:
    """Charnes–Cooper: with x = t v, extreme Σcx subject to Σx = 1 and t w/Λ ≤ x ≤ t Λ w, over x and t.

    With groups 0 … G − 1: the extreme mean over groups, each with a t and Σx = 1 of its own.
    """
    n = c.size
    member = np.ones((n, 1)) if group is None else np.eye(group.max() + 1)[group]
    n_groups = member.shape[1]
    upper = np.hstack([np.eye(n), -factor * w[:, None] * member])
    lower = np.hstack([-np.eye(n), w[:, None] * member / factor])
    options = {
        "A_ub": csr_array(np.vstack([upper, lower])),
        "b_ub": np.zeros(2 * n),
        "A_eq": csr_array(np.hstack([member.T, np.zeros((n_groups, n_groups))])),
        "b_eq": np.ones(n_groups),
        "bounds": (0, None),
        "method": "highs",
        "options": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    }
    objective = np.append(c, np.zeros(n_groups)) / n_groups
    return linprog(objective, **options).fun, -linprog(-objective, **options).fun


@pytest.mark.parametrize("factor", [1.0, 1.2, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_equal_the_linear_program(seed, factor):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 40)
    c = rng.choice([rng.random(n), np.round(rng.random(n), 1)])
    w = rng.uniform(0.5, 3, n)
    assert ratio_bounds(c, w, factor=factor) == pytest.approx(solve_linear_program(c, w, factor), abs=1e-9)


def test_a_hand_worked_bound():
    # c = 0, 1, 2 with w = 1, Λ = 2. Highest: the top one at 2, the rest at ½: (½ + 4)/3 = 1.5; the top two
    # at 2: 6/4.5 = 1.333. Lowest by symmetry 2 − 1.5.
    low, high = ratio_bounds(np.array([2.0, 0.0, 1.0]), np.ones(3), factor=2.0)
    assert (low, high) == (pytest.approx(0.5), pytest.approx(1.5))


def evaluate_random_ranks(metrics=("recall@10", "dcg@10", "ndcg@10")):
    ranks, popularity = random_ranks(3, n_users=20)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=0.5, unseen="drop").fit(popularity=popularity),
        metrics=metrics,
        estimators=("aoa", "snips", "snips-global", "snips-pooled"),
        low_ess="ignore",
    )


def test_bounds_of_an_evaluation_equal_linear_programs():
    evaluation = evaluate_random_ranks(metrics=("recall@10",))
    frame = evaluation.bounds(2.0).set_index(["model", "estimator"])
    for model, sample in list(evaluation.samples.items())[:1]:
        positives = sample.ranked
        c = (positives.n_above < 10).astype(float)
        pooled_bounds = solve_linear_program(c, sample.weights, 2.0)
        assert tuple(frame.loc[(model, "snips-pooled"), ["lower", "upper"]]) == pytest.approx(
            pooled_bounds, abs=1e-9
        )
        share = 1 / positives.counts[positives.segment]
        global_bounds = solve_linear_program(c, sample.weights * share, 2.0)
        assert tuple(frame.loc[(model, "snips-global"), ["lower", "upper"]]) == pytest.approx(
            global_bounds, abs=1e-9
        )
        user_bounds = solve_linear_program(c, sample.weights, 2.0, positives.segment)
        assert tuple(frame.loc[(model, "snips"), ["lower", "upper"]]) == pytest.approx(user_bounds, abs=1e-9)


def test_bounds_of_a_larger_factor_are_wider_and_list_metrics_have_none():
    evaluation = evaluate_random_ranks()
    frame = evaluation.bounds([1.5, 3.0])
    narrow, wide = (frame[frame["factor"] == factor].reset_index(drop=True) for factor in (1.5, 3.0))
    np.testing.assert_allclose(narrow["estimate"], evaluation.frame["estimate"], rtol=1e-12)
    linear = narrow["metric"] != "ndcg@10"
    assert (wide["lower"] <= narrow["lower"])[linear].all()
    assert (wide["upper"] >= narrow["upper"])[linear].all()
    assert narrow.loc[~linear, ["lower", "upper"]].isna().all(axis=None)
    assert (
        narrow.loc[~linear, "note"]
        .str.contains("not an average of contributions with weights 1/P or 1")
        .all()
    )


@pytest.mark.parametrize("factor", [0.5, 1 - 1e-9, np.nan, np.inf, 1e150, "two"])
def test_a_factor_outside_its_range_is_refused(factor):
    with pytest.raises(InputError, match=rf"finite number >= 1 .*; got {re.escape(repr(factor))}"):
        check_factor(factor)


@pytest.mark.parametrize("factor", [1, 1.0, 1 + 1e-9, 9e149])
def test_a_factor_of_one_and_one_whose_square_is_a_float_are_accepted(factor):
    check_factor(factor)


def test_an_evaluation_checks_its_factors():
    with pytest.raises(InputError, match=r"finite number >= 1"):
        evaluate_random_ranks().bounds(0.5)


def required_factor(c, w, target: float) -> float:
    """Return the factor of one estimate."""
    return compute_required_factors(c[:, None], w, np.array([target]))[0]


def enumerate_corners(c: np.ndarray, w: np.ndarray, factor: float) -> tuple[float, float]:
    """Return the extremes of Σvc/Σv over all corners of the box, where this ratio is extreme."""
    corners = w * factor ** np.array(list(product((-1, 1), repeat=c.size)))
    values = corners @ c / corners.sum(axis=1)
    return values.min(), values.max()


@pytest.mark.parametrize("seed", range(20))
def test_the_extremes_over_the_box_reach_the_target_only_from_the_required_factor_on(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    c = rng.normal(size=n)
    w = rng.uniform(0.1, 3, n)
    target = rng.uniform(c.min(), c.max())
    factor = required_factor(c, w, target)
    low, high = enumerate_corners(c, w, factor)
    assert min(abs(low - target), abs(high - target)) < 1e-10
    low, high = enumerate_corners(c, w, 1 + (factor - 1) * 0.99)
    assert not low <= target <= high


@pytest.mark.parametrize(
    ("c", "target", "expected"),
    [
        ([0.0, 1.0], 0.5, 1.0),
        ([0.3, 0.3], 0.3, 1.0),
        ([0.3, 0.3], 0.4, np.inf),
        ([0.0, 1.0], 1.0, np.inf),
        ([0.0, 1.0], -0.1, np.inf),
        ([0.0, 1.0], np.nan, np.nan),
    ],
)
def test_required_factors_of_the_estimate_itself_and_of_unreachable_targets(c, target, expected):
    assert required_factor(np.array(c), np.ones(2), target) == pytest.approx(expected, rel=0, nan_ok=True)


def test_factors_of_several_estimates_equal_separate_computations():
    rng = np.random.default_rng(5)
    c = rng.random((400, 9))
    w = rng.exponential(size=400)
    target = rng.random(9)
    c[:, 0] = 0.5
    target[1] = 2.0  # all alike, and out of reach
    separate_factors = [required_factor(c[:, column], w, target[column]) for column in range(9)]
    np.testing.assert_allclose(compute_required_factors(c, w, target), separate_factors, rtol=1e-12)


def test_factors_of_more_estimates_than_a_block_holds_are_computed_row_by_row(monkeypatch):
    monkeypatch.setattr("ipseval.inference.weight_bounds.BLOCK_ENTRIES", 1)
    c = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    # Σw(c − t)+ and Σw(t − c)+ of the first are 3/2 and 1/2, and of the second 4/2 and 0.
    w = np.array([1.0, 2.0, 1.0])
    assert compute_required_factors(c, w, np.array([0.5, 0.0])) == pytest.approx([np.sqrt(3), np.inf])


def test_the_bounds_of_unweighted_estimates_vary_weights_of_one():
    # One user with contributions 1, 0, 0: of Λ = 2 the extremes are ½/(½ + 4) and 2/(2 + 1).
    ranks = {"m": ranked([0, 0, 0], [0, 1, 2], [0, 5, 5], n_users=1, n_items=8)}
    evaluation = ipseval.evaluate_ranks(ranks, metrics=["recall@1"], estimators=["aoa", "aoa-pooled"])
    frame = evaluation.bounds(2.0)
    assert frame["estimate"].tolist() == pytest.approx([1 / 3] * 2)
    assert frame["lower"].tolist() == pytest.approx([1 / 9] * 2)
    assert frame["upper"].tolist() == pytest.approx([2 / 3] * 2)
