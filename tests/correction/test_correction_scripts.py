"""The programs that validate the correction strength, on small simulated logs and files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from ipseval.correction import CORRECTED, RANDOM_SAMPLE, CorrectionPath, CorrectionPrior
from ipseval.propensity import DensityRatioPropensity
from ipseval.validation import ExposureCurve
from reproductions import control_variate, correction_coat, correction_prior, feedback_worlds
from reproductions.correction_family import METRICS, Setting, world_of
from tests.inside.estimators import AOA_POOLED

SMALL = Setting((300,), (60,), (0.15,), (5, 20), (10.0, 100.0), (2, 4), ("popularity",))


@pytest.fixture(scope="module", name="world")
def a_world():
    return world_of(0, 0, SMALL)


def test_a_world_knows_the_truth_of_every_recommender(world):
    ranks = world.ranks["popular"]
    assert world.path.cells[11] == ("popular", "recall@5")
    assert world.truth[11] == pytest.approx((ranks.n_above < 5).mean(), abs=0.02)  # ties apart
    assert world.truth.shape == (len(METRICS) * 10,)


def test_simulated_exposure_shows_the_requested_number_of_items(world):
    exposed_positives = world.expose(300, 30, np.random.default_rng(0))["popular"]
    # Half of the items are shown to all users: half of the relevant pairs, five standard deviations wide.
    n = len(world.ranks["popular"])
    assert len(exposed_positives) == pytest.approx(n / 2, abs=2.5 * np.sqrt(n))


def test_profiles_are_the_best_basis_where_regions_determine_exposure():
    rng = np.random.default_rng(0)
    simulated = feedback_worlds.build("region", feedback_worlds.Sizes((600,), (150,)), rng).simulated(rng)
    gap = np.abs(simulated.path.value - simulated.truth)
    assert simulated.path.bases == ("pairs", "items", "profiles")
    for cells in (simulated.path.whole, ~simulated.path.whole):
        pairs, items, profiles = gap[:, cells].mean(axis=1).reshape(3, 25).min(axis=1)  # each at its best α
        assert profiles < 0.6 * min(pairs, items)


def select_three(path: CorrectionPath) -> CorrectionPath:
    """Return the path of three of ten recommenders, which takes a tenth of the time."""
    part = np.flatnonzero(np.arange(len(path.hit)) % 10 % 4 == 0)
    square = np.ix_(part, part)
    return replace(
        path,
        models=path.models[::4],
        value=path.value[:, part],
        covariance=path.covariance[:, *square],
        spread=path.spread[:, *square],
        similarity=path.similarity[square],
        **{name: getattr(path, name)[part] for name in ("within", "hit")},
    )


def select_pairs(path: CorrectionPath) -> CorrectionPath:
    """Return the part of the path whose odds are of pairs: the first 25 points of the grid."""
    names = ("alpha", "value", "covariance", "spread", "ess", "clipped")
    return replace(path, bases=path.bases[:1], **{name: getattr(path, name)[:25] for name in names})


def make_case(path: CorrectionPath, truth: np.ndarray) -> correction_prior.Case:
    """Return a case without random exposure and with an exact truth."""
    return correction_prior.Case("made", "made", 0, path, truth, np.zeros((truth.size, truth.size)), None)


def test_the_search_moves_a_constant_towards_a_higher_likelihood(world, capsys, monkeypatch):
    path = select_pairs(world.path)
    monkeypatch.setattr(correction_prior, "STEPS", {"mean": (0.5, 2.0)})
    start = CorrectionPrior(mean=0.25, sd=0.05, no_bias=0.01)
    best_prior = correction_prior.best([make_case(path, path.value[13])], start, 1)  # of α = .975
    assert best_prior.mean == 1.0
    assert best_prior.sd == start.sd
    assert "mean 1" in capsys.readouterr().out


def test_the_likelihood_finds_the_strength_that_made_the_values(world):
    path = select_pairs(world.path)
    rng = np.random.default_rng(0)
    tight = CorrectionPrior(deviation=1e-3, whole_deviation=1e-3, own_personal=1e-3)
    strengths = []
    is_likely = []
    for truth in rng.multivariate_normal(path.value[8], path.covariance[8], 20):
        true_case = make_case(path, truth)
        likelihood = correction_prior.strength_likelihood(true_case, tight)
        strengths.append(path.alpha[likelihood.argmax()])
        is_likely.append(likelihood[8] > 100 * max(likelihood[0], likelihood[24]))
    assert np.mean(strengths) == pytest.approx(path.alpha[8], abs=4 * np.std(strengths) / np.sqrt(20))
    assert np.mean(is_likely) > 0.9
    case = make_case(path, path.value[8])
    fit_at_truth, fit_far_away = (
        correction_prior.fit_of([case], CorrectionPrior(mean=mean, sd=0.05)) for mean in (path.alpha[8], 1.8)
    )
    assert fit_at_truth > fit_far_away
    assert "| made | 1 |" in correction_prior.table([case], CorrectionPrior())


def test_numbers_of_a_path_predict_the_strength_where_they_are_informative(world):
    path = select_three(world.path)
    cases = []
    for source, times in (("first", 2), ("second", 2), ("coat", 1)):
        for alpha in (2, 6, 10, 14, 18) * times:
            ess = path.ess * np.geomspace(1, np.exp(alpha), path.ess.size)
            cases.append(replace(make_case(replace(path, ess=ess), path.value[alpha]), source=source, size=0))
    exposed_cases = [replace(case, size=25) for case in cases[::5]]
    table = correction_prior.foretold([*cases, *exposed_cases], CorrectionPrior())
    rows = [line.split("|")[1:-1] for line in table.splitlines()[2:]]
    assert len(rows) == 4
    for row in rows:
        assert float(row[2]) > 0.9  # α follows from the first number
        assert float(row[3]) > 0


def test_a_control_variate_is_validated_for_each_metric_and_recommender():
    ratio, *coverages = control_variate.judge(0, 25, "items", 12).T
    assert 0.5 < np.median(ratio) < 1.3
    assert all(0.5 < coverage.mean() <= 1 for coverage in coverages)


def test_the_script_reads_files_in_the_layout_of_yahoo_r3(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    for part, n_users, n_shown in (("train", 80, 15), ("test", 60, 10)):
        lines = [
            f"{user + 1}\t{song + 1}\t{rng.integers(1, 6)}"
            for user in range(n_users)
            for song in rng.permutation(40)[:n_shown]
        ]
        name = f"ydata-ymusic-rating-study-v1_0-{part}.txt"
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    monkeypatch.setitem(correction_coat.SIZES, "yahoo-r3", (0, 25, 100))
    ratio = partial(DensityRatioPropensity, cross_fit=3)  # twenty models, as by default, take longer
    monkeypatch.setattr("ipseval.validation._curve.DensityRatioPropensity", ratio)
    correction_coat.main(["--yahoo-r3", str(tmp_path), "--any-size", "--splits", "1", "--draws", "1"])
    output = capsys.readouterr().out
    for name in (CORRECTED, RANDOM_SAMPLE, correction_coat.DENSITY_RATIO, AOA_POOLED):
        assert f"| 25 | {name} |" in output
    assert "| 100 |" not in output  # 60 users have random exposure


def test_differences_in_ranking_quality_are_paired_within_splits():
    tau = {RANDOM_SAMPLE: (0.5, 0.3), CORRECTED: (0.6, 0.6), AOA_POOLED: (0.9, 0.9)}
    rows = [
        {"split": split, "draw": draw, "n_users": 25, "metric": metric, "estimator": name, "tau_b": value}
        for name, values in tau.items()
        for split, value in enumerate(values)
        for draw in (0, 1)
        for metric in METRICS
    ]
    table = correction_coat.order_table(ExposureCurve(pd.DataFrame(rows), "toy"))
    # Differences .1 and .3 in two splits: mean .2, standard deviation .1 √2, standard error .1.
    cells = " | ".join(["+0.200 ± 0.100"] * 3)
    assert table.splitlines()[2:] == [f"| {CORRECTED} | 25 | {cells} |"]


def draw_ratings(n_users: int, counts: np.ndarray, skew: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return ratings of `counts` of 1,000 songs per user; popular songs are met and liked more often."""
    appeal = -np.log(np.arange(1, 1001))
    utility = rng.gumbel(size=(n_users, 1000)) + skew * appeal
    position = (-utility).argsort(axis=1).argsort(axis=1)
    user, song = np.nonzero(position < counts[:, None])
    rating = 1 + rng.binomial(4, 0.15 + 0.6 * np.exp(appeal[song] / 3))
    return pd.DataFrame({"user": user + 1, "song": song + 1, "rating": rating})


@pytest.mark.slow
def test_the_script_runs_on_files_of_the_full_size_of_yahoo_r3(tmp_path, capsys):
    rng = np.random.default_rng(0)
    counts = np.full(15_400, 20)
    counts[: 311_704 - counts.sum()] += 1
    parts = {"train": (15_400, counts, 1.0), "test": (5_400, np.full(5_400, 10), 0.0)}
    for part, arguments in parts.items():
        frame = draw_ratings(*arguments, rng)
        name = f"ydata-ymusic-rating-study-v1_0-{part}.txt"
        frame.to_csv(tmp_path / name, sep="\t", header=False, index=False)
    correction_coat.main(["--yahoo-r3", str(tmp_path), "--splits", "1", "--draws", "1"])
    output = capsys.readouterr().out
    for size in (25, 100, 500):
        assert f"| {size} | {CORRECTED} |" in output
    rows = [line.split("|") for line in output.splitlines() if line.startswith("| 500 |")]
    error_reduction = {row[2].strip(): [float(number) for number in row[3].split()] for row in rows}
    assert min(error_reduction[CORRECTED]) > 50  # the log is biased by popularity, which the correction sees
    assert error_reduction[AOA_POOLED] == [0, 0, 0]
