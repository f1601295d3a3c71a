"""How often a loss passes, the margin against it and the users needed, as a preflight states them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from ipseval.testing import Gate, gate, preflight
from tests.inside.testing import (
    Preflight,
    compute_margin,
    compute_pass_probability,
    compute_users_needed,
    describe_passing_loss,
)
from tests.testing.gate_results import pair, values
from tests.testing.test_testing import SPLIT, TRUTH, add_noise, evaluate, popularity

N = 900
LOSS = 0.1


def draw_gate(rng: np.random.Generator, loss: float, margin: float | None) -> Gate:
    """Return the gate on a candidate whose users win or lose a recall of 1 by chance, with such a loss on average."""
    gain_share = 0.05
    change = rng.choice([-1.0, 0.0, 1.0], N, p=[gain_share + loss, 1 - 2 * gain_share - loss, gain_share])
    old = np.full(N, 0.5)
    return gate(*pair(old, old + change / 2), margin=margin)


@pytest.mark.parametrize(("loss", "margin"), [(0.06, None), (0.06, 0.054), (0.0, 0.054), (0.0, 0.04)])
def test_a_loss_passes_as_often_as_stated(loss, margin):
    rng = np.random.default_rng(3)
    decisions = [draw_gate(rng, loss, margin) for _ in range(200)]
    passing_share = np.mean([decision.has_passed for decision in decisions])
    stated = [compute_pass_probability(decision, loss / 2, margin) for decision in decisions]
    assert np.median(stated) == pytest.approx(passing_share, abs=0.1)


def decision_with(**numbers) -> Gate:
    """Return a decision on 100 users: 0.5 -> 0.49, with a standard error of 0.01 and bounds 0.03 away."""
    decision = gate(*pair(values(0.5), values(0.45, seed=1)), n_comparisons=4)
    figures = {"old": 0.5, "new": 0.49, "std_error": 0.01, "low": -0.04, "high": 0.02, "relevant_loss": 0.1}
    figures |= {"smallest_visible_loss": 0.04, "margin": 0.0, "n_users": 100}
    return replace(decision, **{**figures, **numbers})


def test_the_margin_puts_the_threshold_midway_between_no_loss_and_the_loss():
    decision = decision_with()
    margin = compute_margin(decision, 0.05)
    assert margin == pytest.approx(0.025 + 0.03)
    assert compute_pass_probability(decision, 0.05, margin) == pytest.approx(ndtr(-2.5))
    assert compute_pass_probability(decision, 0.0, margin) == pytest.approx(ndtr(2.5))
    assert compute_pass_probability(decision, 0.05, None) == pytest.approx(ndtr(-2.0))
    # A pass without a margin excludes the relevant loss, which may be the stricter condition.
    strict = decision_with(relevant_loss=0.04)
    assert compute_pass_probability(strict, 0.0, None) == pytest.approx(ndtr(1.0))
    # 1.645 standard errors are half of the loss with (1.645/2.5)² of the users.
    assert compute_users_needed(decision, 0.05) == 44


def test_a_preflight_states_the_loss_that_passes_and_the_margin_against_it():
    condition = "If the differences of users vary as those of als, "
    assert describe_passing_loss(decision_with()) == (
        f"{condition}a candidate that truly loses 10% of the old value (0.05) passes with probability 0.02 without a "
        "margin, and an equally good one with probability above 0.99. With a margin of 0.055, it passes with "
        "probability below 0.01, and an equally good one with probability above 0.99."
    )
    uncertain = describe_passing_loss(decision_with(std_error=0.02))
    assert uncertain.endswith("For 0.05 and 0.95, about 180 users are needed.")
    few = describe_passing_loss(decision_with(std_error=0.1, smallest_visible_loss=0.48))
    assert few.endswith("There are too few users for a margin against this loss; about 4,400 are needed.")
    assert describe_passing_loss(decision_with(margin=0.04, relevant_loss=0.04)) == (
        f"{condition}an equally good candidate passes with probability 0.84 with the margin of 0.04, and one that "
        "truly loses 4% of the old value (0.02) with probability 0.16."
    )
    assert describe_passing_loss(decision_with(margin=0.02, relevant_loss=0.02)) == (
        f"{condition}an equally good candidate passes with probability 0.16 with the margin of 0.02, because the "
        "interval reaches 0.0300 below the difference; a larger margin is needed."
    )
    equal = describe_passing_loss(decision_with(std_error=0.0))
    assert equal == "als does not show how often a loss passes, because no user differs."


def test_a_named_candidate_adds_the_line_to_a_preflight(tmp_path):
    models = {"old": add_noise(TRUTH, 1), "new": add_noise(TRUTH, 2), "popularity": popularity(SPLIT.train)}
    evaluation = evaluate(models, SPLIT, metrics=["recall@5"], estimators=["aoa"])
    result = preflight(evaluation, candidate="new", rng=0)
    assert result.candidate_gate is not None
    assert (result.candidate_gate.candidate, result.candidate_gate.incumbent) == ("new", "old")
    assert result.frame["model"].tolist() == ["shuffled", "truncated", "popularity"]
    line = describe_passing_loss(result.candidate_gate)
    assert line in result.tables().parts
    assert line in result.tables(page=True).parts
    assert preflight(evaluation, incumbent="old", rng=0).candidate_gate is None
    result.save(tmp_path / "preflight.npz")
    assert str(Preflight.load(tmp_path / "preflight.npz")) == str(result)
