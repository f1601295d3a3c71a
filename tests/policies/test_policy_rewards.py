"""The reward model of values of policies, and Open Bandit beside OBP with one model and with its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import nbinom, norm

from ipseval.policies import evaluate_policies
from ipseval.validation.datasets import load_open_bandit
from reproductions import open_bandit
from tests.inside.policies import STRENGTHS, click_rates, shrunk_factors


def parts_of_open_bandit(folder):
    """Yield a log, that of the other policy, the other policy's name and the places."""
    for campaign in ("men", "women"):
        study = load_open_bandit(folder, campaign=campaign)
        logs = {"random": study.random, "bts": study.bts}
        for source, target in open_bandit.DIRECTIONS:
            for places in open_bandit.PLACES.values():
                log, other = (
                    one.select(np.isin(one.position, places)) for one in (logs[source], logs[target])
                )
                yield log, other, target, places


def test_click_rates_are_shrunk_as_much_as_the_likelihood_says():
    clicks, expected = np.array([4.0, 0, 1, 12, 3]), np.array([2.0, 3, 1, 4, 10])

    def likelihood(a, m):
        return nbinom.logpmf(clicks, a, a / (a + m * expected)).sum()

    _, a, m = max((likelihood(a, m), a, m) for a in STRENGTHS[7:14] for m in np.linspace(1.1, 1.5, 41))
    assert STRENGTHS[7] < a < STRENGTHS[13]
    found = shrunk_factors(clicks, expected, np.zeros(5))
    assert found == pytest.approx((clicks + a) / (expected + a / m), rel=5e-3)


def test_factors_lie_around_what_the_policy_preferred_as_far_as_the_likelihood_says():
    # What is preferred is clicked more, but for the last, of which hardly anything is known.
    z = np.array([1.5, 1, 0.5, -0.5, -1, -1.5])
    clicks, expected = np.array([50.0, 18, 18, 3, 4, 0]), np.array([30.0, 20, 15, 5, 5, 0.1])

    def lost(parameters, a):
        mu = expected * np.exp(parameters[0] + parameters[1] * z)
        return -nbinom.logpmf(clicks, a, a / (a + mu)).sum() - norm.logpdf(parameters[1], scale=0.5)

    tried = [(minimize(lost, [0, 0], args=(a,), tol=1e-10), a) for a in STRENGTHS]
    best, a = min(tried, key=lambda one: one[0].fun)
    middle = np.exp(best.x[0] + best.x[1] * z)
    assert 0.1 < best.x[1] < 0.5
    found = shrunk_factors(clicks, expected, z)
    np.testing.assert_allclose(found, middle * (clicks + a) / (expected * middle + a), rtol=1e-4)
    assert found[-1] == pytest.approx(middle[-1], rel=0.05)


def test_items_that_a_learning_policy_rarely_shows_are_expected_to_be_clicked_less():
    # Twenty items whose click rates are as the root of their shares; two more were hardly shown.
    share = np.exp(np.linspace(-3, 3, 20))
    shown = np.append(50_000 * share / share.sum(), [1.0, 1.0])
    rate = 0.01 * np.sqrt(shown / shown.mean())
    clicks = np.append(np.round((shown * rate)[:-2]), [0, 0])
    found = click_rates(shown[:, None], clicks[:, None])[:, 0]
    overall = clicks.sum() / shown.sum()
    assert found[-1] == found[-2] < 0.2 * overall
    np.testing.assert_allclose(found[-1], rate[-1], rtol=0.4)
    # Shares that say nothing of the rates leave them at that of the place.
    same = click_rates(shown[:, None], shown[:, None] * 0.01)[:, 0]
    np.testing.assert_allclose(same, 0.01, rtol=0.01)


def test_cells_that_differ_by_chance_alone_have_the_rate_of_the_place():
    shown = np.full((30, 2), 1000.0)
    clicks = np.tile([[5.0, 20.0]], (30, 1))
    np.testing.assert_allclose(click_rates(shown, clicks), clicks / shown, rtol=1e-6)
    assert (click_rates(shown, np.zeros((30, 2))) == 0).all()


@pytest.mark.parametrize("campaign", ["men", "women"])
def test_open_bandit_from_loading_to_intervals(campaign, shared_data):
    study = load_open_bandit(shared_data("open-bandit"), campaign=campaign)
    n_items = study.random.n_items
    uniform = np.full((n_items, 3), 1 / n_items)
    found = evaluate_policies(study.bts, {"random": uniform}, estimators=["snips", "dr"], rng=0)
    assert found.overlap["ess"][0] < 10_000
    observed = study.random.clicked.mean()
    assert (found.frame["ci_low"] < observed).all()
    assert (observed < found.frame["ci_high"]).all()


def test_dr_is_that_of_obp_with_the_same_reward_model_on_open_bandit(shared_data):
    for log, other, target, places in parts_of_open_bandit(shared_data("open-bandit")):
        policy = open_bandit.policy_of(other, target, places)
        assert open_bandit.same_model(log, policy, places) < 1e-12


@pytest.mark.slow
def test_relative_errors_on_open_bandit_are_not_above_those_of_obp(shared_data):
    made = []
    for log, other, target, places in parts_of_open_bandit(shared_data("open-bandit")):
        rate = other.clicked.mean()
        for whose, found in zip(
            ("ours", "obp"), open_bandit.estimates(log, other, target, places), strict=True
        ):
            error = (found[list(open_bandit.LABELS)] / rate - 1).abs().mean()
            made.append({"target": target, "whose": whose, **error})
    errors = pd.DataFrame(made).groupby(["whose", "target"]).mean()
    assert (errors.loc["ours"] <= errors.loc["obp"] + 1e-12).all(axis=None)
