"""Designed exposure in simulations: the draws of the script, its tables, and its gains in both simulators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ipseval import RandomExposure, metric
from reproductions import designed_exposure
from reproductions.correction_family import Setting
from reproductions.designed_exposure import CORRECTED, RANDOM_SAMPLE, DesignWorld, build_world, compute_gain
from tests.inside.correction import RandomSample, _intraclass_correlation

TINY = Setting((150,), (60,), (0.15,), (5, 20), (10.0, 100.0), (2, 4), ("popularity",))
SMALL = Setting((400,), (60,), (0.15,), (5, 20), (10.0, 100.0), (2, 4), ("popularity",))
SLOW_WORLDS = 9


@pytest.fixture(name="world", scope="module")
def fixture_world():
    patch = pytest.MonkeyPatch()
    patch.setattr("reproductions.correction_family.HELD_OUT", TINY)
    world = build_world("first", 0, None)
    patch.undo()
    return world


def test_the_truth_is_the_mean_over_relevant_pairs_and_weights_are_inverse_probabilities(world: DesignWorld):
    recalled = np.zeros(len(world.relevant_keys))
    name, ranked = next(iter(world.ranks.items()))
    recalled = (ranked.n_above < 10) & (ranked.n_above + ranked.n_tied < 10)
    assert world.truth[0] == pytest.approx(recalled.mean(), abs=0.05), name
    exposure = world.expose("lists", 100, np.random.default_rng(0))
    assert isinstance(exposure, RandomExposure)
    assert np.isin(exposure.pair_key, world.relevant_keys).all()
    listed = world.user_slots[int(exposure.user[0])].listed
    n_listed = listed.size
    n_candidates = world.user_slots[int(exposure.user[0])].candidates.size
    in_list = 10 / n_listed + (1 - 10 / n_listed) * 10 / (n_candidates - 10)
    expected = in_list if exposure.item[0] in listed else 10 / (n_candidates - 10)
    assert exposure.weight[0] == pytest.approx(1 / expected)


@pytest.mark.slow
def test_the_variance_from_the_path_is_that_of_the_sample_over_draws(monkeypatch):
    monkeypatch.setattr("reproductions.correction_family.HELD_OUT", SMALL)
    world = build_world("first", 0, None)
    columns = []
    for label in designed_exposure.METRICS:
        for ranked in world.ranks.values():
            columns.append(metric(label).contributions(ranked))
    contributions = np.column_stack(columns)
    # A path that knows the truth, so that only the formula of the variance is compared.
    true_path = replace(
        world.path, within=_intraclass_correlation(next(iter(world.ranks.values())), contributions)
    )
    spread = np.cov(contributions.T, bias=True)
    squared_errors = []
    variances = []
    for draw in range(300):
        exposure = world.expose("lists", 25, np.random.default_rng([5, draw]))
        ranks = world.select_ranks(exposure)
        ranked = next(iter(ranks.values()))
        weight = dict(zip(exposure.pair_key.tolist(), exposure.weight.tolist(), strict=True))
        keys = ranked.user * world.n_items + ranked.item
        sample = RandomSample.from_ranks(
            ranks, true_path, np.array([weight[key] for key in keys.tolist()]), is_designed=True
        )
        squared_errors.append((sample.value - world.truth) ** 2)
        variances.append(np.diag(sample._designed_covariance(true_path, spread, world.truth)))
    ratio = np.mean(variances, axis=0) / np.mean(squared_errors, axis=0)
    is_random = np.tile([name == "random" for name in world.ranks], len(designed_exposure.METRICS))
    is_cut = ~true_path.whole & ~is_random
    assert (ratio[is_cut] > 0.8).all()
    assert (ratio[is_cut] < 1.2).all()


def test_the_gain_is_the_ratio_of_mean_errors_with_its_error_over_worlds():
    rows = pd.DataFrame(
        {
            "source": "first",
            "metric": "recall@10",
            "size": 25,
            "estimator": CORRECTED,
            "number": [0, 0, 1, 1],
            "design": ["uniform", "lists"] * 2,
            "difference_error": [0.10, 0.05, 0.30, 0.15],
        }
    )
    gain = compute_gain(rows).iloc[0]
    assert gain["gain"] == pytest.approx(0.5)
    assert gain["std_error"] == pytest.approx(0)
    assert gain["n_worlds"] == 2


def test_coverage_has_its_standard_error_over_worlds():
    cell = {"source": "first", "metric": "atop", "size": 25, "estimator": CORRECTED, "design": "lists"}
    rows = pd.DataFrame([cell | {"number": number, "covered": number / 4} for number in (2, 2, 4, 4)])
    coverage = designed_exposure.measure_coverage(rows).iloc[0]
    assert coverage["mean"] == pytest.approx(0.75)
    assert coverage["sem"] == pytest.approx(0.25)
    assert designed_exposure.format_coverage(coverage) == "75.0 ± 25.0"


@pytest.mark.slow
def test_the_command_prints_a_table_of_each_metric_and_keeps_the_scores(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("reproductions.correction_family.HELD_OUT", TINY)
    options = ["--cache", str(tmp_path), "--sources", "first", "--worlds", "2", "--draws", "1"]
    designed_exposure.main(options)
    printed = capsys.readouterr().out
    assert printed.count("| first simulator | 25 |") == 6
    monkeypatch.setattr(designed_exposure, "build_world", None)
    designed_exposure.main(options)
    assert capsys.readouterr().out == printed


@pytest.mark.slow
@pytest.mark.parametrize("source", ["first", "second"])
def test_the_design_lowers_the_error_of_differences_of_recall(source, tmp_path):
    tasks = [(source, number) for number in range(SLOW_WORLDS)]
    parts = [
        designed_exposure.score_cached(task, cache=tmp_path, name="scores", n_draws=4, model=None)
        for task in tasks
    ]
    rows = pd.concat(parts)
    gains = compute_gain(rows[rows["metric"] == "recall@10"]).set_index(["estimator", "size"])["gain"]
    for size in designed_exposure.SIZES:
        assert gains[RANDOM_SAMPLE, size] >= 0.3
    assert gains[CORRECTED, 100] >= 0.1
    atop = compute_gain(rows[rows["metric"] == "atop"]).set_index(["estimator", "size"])["gain"]
    assert (atop[RANDOM_SAMPLE] < 0).all()
