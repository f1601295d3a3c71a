"""Curves of metrics against the rank, and sampling that goes on where it has to."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.sampled_metrics import adaptive_sampled, correct_sampled, rank_curves
from ipseval.sampled_metrics._adaptive import _fitted, _likelihood, _staged
from ipseval.simulation import World


def small(n_users: int = 300, n_items: int = 400, seed: int = 0):
    world = World(n_users=n_users, n_items=n_items, mean_relevant=12, affinity=6.0, rng=seed)
    split = world.split(rng=1)
    return split, world.example_models(split, rng=2)["taste"]


def test_a_curve_holds_the_metric_of_every_rank():
    np.testing.assert_allclose(ipseval.metric("ndcg@2").curve(4), [1, 1 / np.log2(3), 0, 0])
    np.testing.assert_allclose(ipseval.metric("auc").curve(5), [1, 0.75, 0.5, 0.25, 0])
    np.testing.assert_allclose(ipseval.metric("recall@3").curve(4), [1, 1, 1, 0])
    with pytest.raises(InputError, match="n_candidates must be an integer >= 2"):
        ipseval.metric("auc").curve(1)


def test_curves_of_sampled_candidates_follow_the_binomial_law():
    # Rank 3 of 5, m = 2: r̃ = 1, 2, 3 with chances 1/4, 1/2, 1/4; AP = 1/4 + 1/4 + 1/12.
    found = rank_curves(["ap", "auc"], 5, [2])
    at_three = found[(found["rank"] == 3) & (found["n_sampled"] == 2)].set_index("metric")["value"]
    assert at_three["ap"] == pytest.approx(7 / 12)
    assert at_three["auc"] == pytest.approx(0.5)  # as exact
    exact = found[(found["n_sampled"] == 0) & (found["metric"] == "ap")]["value"]
    np.testing.assert_allclose(exact, 1 / np.arange(1, 6))


def test_the_picture_of_curves_has_one_line_for_each_number_of_candidates():
    axes = ipseval.plots.plot_rank_curves(rank_curves(["ndcg@10"], 5000, [10, 100]))
    assert [line.get_label() for line in axes.lines] == [
        "all candidates",
        "10 sampled, expected",
        "100 sampled, expected",
    ]
    ranks = axes.lines[0].get_xdata()
    assert (ranks[0], ranks[-1]) == (1, 5000)
    assert len(ranks) <= 2000


def test_the_likelihood_of_all_outcomes_adds_up():
    """n₀ = 2, at most 4: the outcomes are 1 or 2 of 2 above, or none and then 0, 1 or 2 of 2 more."""
    n = 6
    drawn = np.array([2, 2, 4, 4, 4])
    above = np.array([1, 2, 0, 1, 2])
    last = np.full(5, 2)
    p = (np.arange(1, n + 1) - 1) / (n - 1)
    expected = np.stack(
        [2 * p * (1 - p), p**2, (1 - p) ** 4, (1 - p) ** 2 * 2 * p * (1 - p), (1 - p) ** 2 * p**2]
    )
    np.testing.assert_allclose(expected.sum(axis=0), 1)
    table = _likelihood(drawn, last, above, np.full(5, n))
    np.testing.assert_allclose(table, expected / expected.max(axis=1, keepdims=True), rtol=1e-12)


def test_em_finds_ranks_that_are_certain():
    table = np.eye(4)[[0, 0, 2, 3]]
    np.testing.assert_allclose(_fitted(table, np.ones(4), 50), [0.5, 0, 0.25, 0.25])


def test_only_positives_that_nothing_has_beaten_get_more_candidates():
    split, model = small()
    drawn, last, above, n, user = _staged(
        model, split, 10, 80, np.random.default_rng(0), ipseval.ComputeOptions()
    )
    assert set(drawn.tolist()) <= {10, 20, 40, 80}
    assert (above[drawn < 80] > 0).all()
    assert np.array_equal(last, np.where(drawn == 10, 10, drawn // 2))
    assert np.array_equal(n, split.n_items - split.train.activity[user])


def test_the_same_seed_gives_the_same_estimate():
    split, model = small(60, 80)
    first, again = (adaptive_sampled(model, split, n_initial=5, n_max=40, n_resamples=3, rng=1) for _ in "ab")
    assert (first.estimate, first.standard_error) == (again.estimate, again.standard_error)
    assert "candidates per positive" in repr(first)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_max": 3, "n_initial": 5}, "n_max must be at least n_initial"),
        ({"metric": "recal@5"}, "Did you mean 'recall'"),
    ],
)
def test_bad_calls_say_what_was_expected(options, text):
    split, model = small(20, 30)
    with pytest.raises(InputError, match=text):
        adaptive_sampled(model, split, **options, rng=0)


@pytest.mark.slow
def test_adaptive_sampling_sees_the_head_that_as_many_fixed_candidates_do_not():
    """AP among 2,000 items: root mean square error of 6 draws, at the same mean number of candidates."""
    split, model = small(1500, 2000, seed=3)
    full = ipseval.rank_positives(model, split)
    exact = float((1 / (full.n_above + 1)).mean())
    errors = {"adaptive": [], "fixed": []}
    for seed in range(6):
        found = adaptive_sampled(model, split, "ap", n_initial=20, n_max=1280, n_resamples=0, rng=seed)
        m = round(found.n_sampled.mean())
        scheme = ipseval.SampledCandidates(m, per="positive", replacement=True, rng=seed)
        ranked = ipseval.rank_positives(model, split, candidates=scheme)
        errors["adaptive"].append(found.estimate - exact)
        errors["fixed"].append(correct_sampled(ranked, metric="ap", method="mle").estimate - exact)
    rms = {name: float(np.sqrt(np.mean(np.square(values)))) for name, values in errors.items()}
    assert rms["adaptive"] < 0.7 * rms["fixed"]
