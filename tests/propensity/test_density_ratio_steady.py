"""The density ratio over draws of exposed users, over seeds, and for a handful: simulations and Coat."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import ipseval
from reproductions import density_ratio_steady as steady

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
BIASED = ("popularity", "self-selection", "mixture")  # AOA is off by .1 and more


@pytest.fixture(name="few_folds")
def three_folds(monkeypatch):
    """Fit with three folds and two ridges: the defaults take six and three times as long."""
    for file in ("cross_fitted_odds", "_density_ratio"):
        monkeypatch.setattr(f"ipseval.propensity.{file}.RIDGES", (3.0, 100.0))
    monkeypatch.setattr(
        steady, "DensityRatioPropensity", partial(ipseval.DensityRatioPropensity, cross_fit=3)
    )


@pytest.fixture(scope="module", name="small")
def a_small_world():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steady, "N_ITEMS", 50)
        world = steady.simulated("popularity", n_users=50)
    return replace(world, ranks={name: world.ranks[name] for name in ("popular", "EASE")})


def test_the_error_reduction_is_relative_to_the_error_of_the_unweighted_average(small, few_folds):
    users = small.exposed[:25]
    frame = ipseval.evaluate_ranks(
        small.ranks,
        propensity=small.fitted(users, 3),
        metrics="recall@5",
        estimators=["aoa", "snips-global"],
        low_ess="ignore",
    ).frame.set_index("model")
    unweighted_estimates, weighted_estimates = (
        frame.loc[frame["estimator"] == label, "estimate"] for label in ("aoa", "snips-global")
    )
    truth = small.truth["recall@5"]
    expected = 1 - (weighted_estimates - truth).abs().mean() / (unweighted_estimates - truth).abs().mean()
    assert small.removed(users, 3)[1] == pytest.approx(expected)


def test_a_row_has_a_number_for_every_metric_and_the_worst_is_below_the_mean(small, few_folds, monkeypatch):
    monkeypatch.setattr(steady, "SIZES", (20, 500))
    monkeypatch.setattr(steady, "N_RESAMPLES", 2)
    small_row, full_row = steady.rows(small, 2)  # 500 users are not there
    assert [small_row[1], full_row[1]] == ["20", "50 (all)"]
    mean, worst = ([int(number) for number in small_row[place].split()] for place in (3, 4))
    assert len(mean) == 3
    assert all(low <= middle for low, middle in zip(worst, mean, strict=True))
    assert full_row[4:6] == ["–", "–"]


def test_a_handful_of_exposed_users_gives_a_fit_or_a_plain_error(small, few_folds, monkeypatch):
    monkeypatch.setattr(steady, "HANDFUL", (1, 2, 5))
    ends = list(steady.handful(small, n_draws=1))
    assert len(ends) == 3
    assert set(ends) <= {"fit", "refused"}
    assert steady.ended([*ends, "ZeroDivisionError"])[2] == "ZeroDivisionError"


def test_coverage_is_over_new_simulations_with_and_without_the_error_of_the_weights(few_folds, monkeypatch):
    calls = []
    simulate = steady.simulated
    monkeypatch.setattr(steady, "SIZES", (25,))
    monkeypatch.setattr(steady, "N_ITEMS", 60)
    monkeypatch.setattr(steady, "simulated", lambda *which: calls.append(which) or simulate(*which, 80))
    (row,) = steady.covered("popularity", 2)
    assert calls == [("popularity", 1000), ("popularity", 1001)]
    assert row[:2] == ["popularity", "25"]
    known_coverage, fitted_coverage, narrow, wide = (
        [float(number) for number in cell.split()] for cell in row[2:]
    )
    assert all(0 <= low <= high <= 100 for low, high in zip(known_coverage, fitted_coverage, strict=True))
    assert all(0 < low < high for low, high in zip(narrow[1:], wide[1:], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", BIASED)
def test_in_biased_simulations_no_draw_harms_and_seeds_agree_and_refits_vary_as_printed(name):
    world = steady.simulated(name)
    for size in steady.SIZES:
        assert (steady.draws(world, size, 30) > 0).all()
        assert (steady.refit_ratio(world, steady.drawn(world, 0, size)) < 1.6).all()
    table = steady.seeds(world, world.exposed, 30)
    assert np.abs(table - np.median(table, axis=0)).max() < 0.02
    assert (steady.refit_ratio(world, world.exposed) < 1.6).all()
    assert set(steady.handful(world)) <= {"fit", "refused"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_coat_no_draw_harms_and_thirty_seeds_are_within_two_points_of_their_median(seed, shared_data):
    coat = steady.coat(shared_data("coat"), seed)
    table = steady.seeds(coat, coat.exposed, 30)
    assert np.abs(table - np.median(table, axis=0)).max() < 0.0251  # two points, as printed without decimals
    assert (np.median(table, axis=0) > [0.65, 0.75, 0.8]).all()
    for size in (25, 50, 100, 200):
        assert (steady.draws(coat, size, 4) > 0).all()
    assert set(steady.handful(coat, n_draws=2)) <= {"fit", "refused"}
    assert (steady.refit_ratio(coat, coat.exposed) < 2).all()
