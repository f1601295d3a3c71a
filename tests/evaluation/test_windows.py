"""Evaluation over windows: mean and trend by hand, users as clusters, against plain loops and simulation."""

from __future__ import annotations

import re
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.data import Interactions
from ipseval.data.splits import split_sliding
from ipseval.errors import InputError
from ipseval.evaluation import evaluate_windows
from ipseval.ranking import baselines
from tests.inside.evaluation import _over_windows, _p_value


def timed_log(n_users: int = 60, seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    item = np.concatenate([rng.permutation(25)[:12] for _ in range(n_users)])
    frame = pd.DataFrame({"user": np.repeat(range(n_users), 12), "item": item})
    return Interactions.from_frame(frame.assign(time=rng.integers(0, 100, len(frame))), timestamp="time")


MODELS = {"popular": baselines.popularity, "any": baselines.BASELINES["random"]}
OPTIONS = {"metrics": ["recall@5"], "estimators": ["aoa"]}


@pytest.fixture(scope="module", name="three")
def of_three_windows():
    """Return three windows and their evaluation."""
    splits = split_sliding(timed_log(), start=40, test=20)
    return splits, evaluate_windows(MODELS, splits, **OPTIONS)


def test_windows_are_evaluated_one_by_one_and_averaged(three):
    splits, found = three
    each = []
    for split in splits:
        frame = ipseval.evaluate({n: fit(split.train) for n, fit in MODELS.items()}, split, **OPTIONS).frame
        each.append(frame.set_index("model")["estimate"])
    row = found.summary.set_index("model").loc["popular"]
    values = np.array([one["popular"] for one in each])
    assert found.frame.query("model == 'popular'")["estimate"].tolist() == values.tolist()
    assert found.frame.index.tolist() == list(range(6))
    assert row["mean"] == pytest.approx(values.mean())
    assert row["trend"] == pytest.approx((values[2] - values[0]) / 2)  # of three windows
    assert row["std_windows"] == pytest.approx(values.std(ddof=1))
    assert found.windows["n_test"].sum() == sum(len(split.test) for split in splits)
    users = np.concatenate([one.per_user("popular", "recall@5", "aoa").index for one in found.evaluations])
    n_windows = np.unique(users, return_counts=True)[1]
    assert (row["n_users"], row["n_returning"]) == (n_windows.size, (n_windows > 1).sum())
    assert f"{n_windows.size} users, {(n_windows > 1).sum()} of them in several windows." in repr(found)
    lead = found.compare("any").iloc[0]
    assert lead["mean"] == pytest.approx(np.mean([one["popular"] - one["any"] for one in each]))


def test_windows_of_dates_are_printed_as_dates():
    # Day n of 2026 is the time n of the other tests: the window begins at the 40th day.
    log = timed_log()
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(log.timestamp, unit="D")
    dated = Interactions.from_frame(
        pd.DataFrame({"user": log.user, "item": log.item, "time": days}), timestamp="time"
    )
    splits = split_sliding(dated, start=pd.Timestamp("2026-02-10"), test=50 * 86_400 * 10**9)
    text = str(evaluate_windows(MODELS, splits, **OPTIONS))
    assert "tests from 2026-02-10" in text
    assert "to 2026-04-01" in text
    assert not re.search(r"\d{12}", text)


def test_a_user_of_two_windows_is_one_cluster():
    # Users 0, 1 in both windows, users 2, 3 in one each: ψ/n by window and user.
    parts = np.array([[0.1, -0.2, 0.1, 0.0], [0.3, -0.2, 0.0, -0.1]])
    entered = (parts != 0).astype(float)
    found = _over_windows(np.array([0.4, 0.6]), parts, entered, np.arange(2.0), 0.95)
    sums = np.array([0.4, -0.4, 0.1, -0.1]) / 2
    assert found["mean"] == pytest.approx(0.5)
    assert found["std_error"] == pytest.approx(np.sqrt(4 / 3 * (sums**2).sum()))
    assert found["trend"] == pytest.approx(0.2)
    differences = np.array([0.2, 0.0, -0.1, -0.1])
    assert found["trend_error"] == pytest.approx(np.sqrt(4 / 3 * (differences**2).sum()))
    alone = (parts**2).sum() / 4
    assert found["design_effect"] == pytest.approx((sums**2).sum() / alone)
    assert (found["n_windows"], found["n_users"], found["n_returning"]) == (2, 4, 2)
    # z = 1.96 at 95 %, on both sides of mean and trend.
    for name, value in (("mean", 0.5), ("trend", 0.2)):
        low, error, high = (
            ("ci_low", "std_error", "ci_high")
            if name == "mean"
            else ("trend_low", "trend_error", "trend_high")
        )
        ends = [value - 1.959964 * found[error], value + 1.959964 * found[error]]
        assert [found[low], found[high]] == pytest.approx(ends, rel=1e-6)
    z = 0.2 / found["trend_error"]
    assert found["trend_p"] == pytest.approx(2 * NormalDist().cdf(-z))
    assert found["std_windows"] == pytest.approx(0.2 / np.sqrt(2))


def test_a_trend_is_the_slope_over_the_numbers_of_windows_that_are_there():
    """Of windows 1, 2 and 5 the deviations from the mean are −5/3, −2/3, 7/3, their squares sum to 26/3."""
    values, places = np.array([0.1, 0.3, 0.4]), np.array([1.0, 2.0, 5.0])
    parts = np.array([[0.1, -0.1], [0.1, -0.1], [0.1, -0.1]])
    found = _over_windows(values, parts, np.ones((3, 2)), places, 0.95)
    slope = (-5 * 0.1 - 2 * 0.3 + 7 * 0.4) / 26
    assert found["trend"] == pytest.approx(slope)
    assert found["mean"] == pytest.approx(0.8 / 3)
    # The sum of the weights of a slope is 0: what is the same in each window moves it not at all.
    assert found["trend_error"] == pytest.approx(0, abs=1e-15)
    assert found["std_error"] == pytest.approx(np.sqrt(2 / 1 * 2 * 0.1**2))
    assert found["design_effect"] == pytest.approx(3)


def test_one_user_has_no_error_and_no_window_no_mean():
    (alone, nothing) = (
        _over_windows(np.full(n, 0.5), np.zeros((n, n)), np.ones((n, n)), np.arange(n) + 1.0, 0.95)
        for n in (1, 0)
    )
    assert np.isnan([alone["mean"], alone["trend_p"], alone["std_windows"], alone["design_effect"]]).all()
    assert (alone["n_windows"], alone["n_users"], alone["n_returning"]) == (1, 1, 0)
    assert np.isnan(nothing["mean"])
    assert (nothing["n_windows"], nothing["n_users"]) == (0, 0)
    alike = _over_windows(np.array([0.1, 0.3]), np.zeros((2, 2)), np.ones((2, 2)), np.arange(2.0), 0.95)
    assert (alike["std_error"], alike["trend_error"]) == (0, 0)
    assert np.isnan([alike["trend_p"], alike["design_effect"]]).all()


def test_a_p_value_is_two_sided_and_1_where_nothing_differs():
    assert _p_value(0.0, 0.0) == 1
    assert _p_value(0.0, 0.1) == 1
    assert _p_value(0.5, 0.0) == 0
    assert np.isnan(_p_value(np.nan, 0.1))
    assert _p_value(0.2, 0.1) == _p_value(-0.2, 0.1) == pytest.approx(2 * NormalDist().cdf(-2.0))


def test_one_window_has_no_trend_and_its_own_error():
    log = timed_log()
    (split,) = splits = split_sliding(log, start=50, test=60)
    windows = evaluate_windows(MODELS, splits, **OPTIONS)
    found = windows.summary.set_index("model").loc["popular"]
    alone = ipseval.evaluate({name: fit(split.train) for name, fit in MODELS.items()}, split, **OPTIONS)
    assert found["std_error"] == pytest.approx(alone.frame.loc[0, "std_error"], rel=1e-9)
    assert windows.compare("any")["std_error"].item() == pytest.approx(
        alone.compare()["std_error"].item(), rel=1e-9
    )
    assert np.isnan(found["trend"])
    assert np.isnan(found["trend_error"])


def test_the_report_says_what_was_counted():
    log = timed_log()
    late = log.select((log.timestamp < 60) | (log.timestamp >= 80))
    asked = {"metrics": ["recall@5", "hit@1"], "estimators": ["aoa", "aoa-pooled"]}
    found = evaluate_windows(MODELS, split_sliding(late, start=40, test=20), **asked)
    text = " ".join(repr(found).split())
    assert "2 windows, tests from 40 to 80; 1 window without training or test rows" in text
    assert "a user of several windows is one cluster" in text
    axes = found.plot()
    first = found.frame.query("model == 'popular' and metric == 'recall@5' and estimator == 'aoa'")
    assert axes.lines[0].get_xydata().tolist() == [*map(list, zip([1, 3], first["estimate"], strict=True))]


def favourite(log):
    """A recommender that knows the next item of everybody: item 0."""
    return np.tile([1.0] + [0.0] * 4, (log.n_users, 1))


def test_the_report_has_a_verdict_of_the_mean_over_windows():
    # Each user takes item 4 at time 0, then 0 (or, one user in ten, 1) in the window, one of two windows.
    user = np.arange(60)
    first = pd.DataFrame({"user": user, "item": 4, "time": 0})
    later = pd.DataFrame({"user": user, "item": (user % 10 == 0) + 0, "time": 10 + 10 * (user % 2)})
    unseen = pd.DataFrame({"user": [0, 1], "item": [2, 3], "time": 0})
    log = Interactions.from_frame(pd.concat([first, unseen, later]), timestamp="time")
    windows = split_sliding(log, start=10, test=10)
    models = {"last": lambda train: -favourite(train), "zero": favourite, "nought": favourite}
    found = evaluate_windows(models, windows, metrics=["recall@1"], estimators=["aoa"])
    text = repr(found)
    assert "zero and nought lead with the same values" in " ".join(text.split())
    # Half an interval of .07 has two significant digits in three decimals.
    assert re.search(r"zero +recall@1 +aoa +0\.900 \[\.8\d\d, \.9\d\d\]", text)
    one = evaluate_windows({"zero": favourite}, windows, metrics=["recall@1"], estimators=["aoa"])
    assert "zero has the only estimate, so there is nothing to compare." in " ".join(repr(one).split())
    # Users 0, 10, …, 50 miss, all of the window of even ones: 24 of 30 hits there, 30 of 30 in the other.
    assert found.summary.set_index("model")["mean"]["zero"] == pytest.approx(0.9)
    p_value = found.compare("zero").set_index("model")["p_value"]
    assert p_value["nought"] == 1
    assert p_value["last"] < 0.001


def test_numbers_have_the_decimals_and_bounds_of_other_results(three):
    text = repr(three[1])
    # Half an interval of .046 has two significant digits in three decimals.
    assert re.search(r"popular +recall@5 +aoa +0\.309 \[\.263, \.355\]", text)
    assert "design_effect" not in text


def test_a_propensity_is_fitted_in_every_window():
    splits = split_sliding(timed_log(), start=40, test=30)
    found = evaluate_windows(
        MODELS,
        splits,
        metrics=["recall@5", "recall@10"],
        estimators=["aoa", "snips-global"],
        propensity="power-law:gamma=0",
    )
    for evaluation, split in zip(found.evaluations, splits, strict=True):
        expected = ipseval.PowerLawPropensity(gamma=0).fit(split.train)
        assert np.array_equal(evaluation.propensity.item, expected.item, equal_nan=True)
    drawn = found.plot(metric="recall@10", estimator="snips-global").lines[0].get_ydata().tolist()
    rows = found.frame.set_index(["model", "metric", "estimator"])["estimate"]
    assert drawn == rows.xs(("popular", "recall@10", "snips-global")).tolist()
    (weights,) = found.verdicts[0].weights
    own = [one.weights["snips-global"] for one in found.evaluations]
    assert weights.ess == sum(one.ess_own for one in own)
    assert weights.equal == sum(one.ess_equal for one in own)


def test_the_pairs_of_a_verdict_are_those_of_compare_with_holms_correction():
    models = MODELS | {"rare": lambda train: -baselines.popularity(train)[:]}
    found = evaluate_windows(models, split_sliding(timed_log(), start=60, test=20), **OPTIONS)
    tests = found.verdicts[0].standing.tests
    pairs = [("popular", "any"), ("popular", "rare"), ("any", "rare")]
    rows = [found.compare(other).set_index("model").loc[one] for one, other in pairs]
    p_value = np.array([row["p_value"] for row in rows])
    place = np.argsort(p_value)
    stepped = np.maximum.accumulate(p_value[place] * [3, 2, 1]).clip(max=1)
    for (one, other), row, adjusted in zip(pairs, rows, stepped[np.argsort(place)], strict=True):
        assert tests.of(one, other) == pytest.approx((row["mean"], adjusted))
        assert tests.of(other, one) == pytest.approx((-row["mean"], adjusted))


@pytest.mark.parametrize(
    ("models", "windows", "text"),
    [
        ({"a": np.eye(3)}, None, "cannot be called"),
        (MODELS, [1, 2], "must be made by split_sliding"),
        ({}, None, "models must be a non-empty mapping"),
    ],
)
def test_bad_windows_and_models_say_what_was_expected(models, windows, text, three):
    windows = three[0] if windows is None else windows
    with pytest.raises(InputError, match=text):
        evaluate_windows(models, windows)
    with pytest.raises(InputError, match="Choices: any, popular"):
        three[1].compare("none")


@pytest.mark.slow
def test_intervals_of_mean_and_trend_cover_when_users_come_back_and_naive_ones_do_not():
    """1,000 worlds: 80 users with an own level, each in some of 5 windows; truth .5 and slope .01."""
    rng = np.random.default_rng(11)
    n_users, slope, covered, naive = 80, 0.01, np.zeros(2), 0
    truths = 0.5 + slope * np.arange(5)
    for _ in range(1000):
        level = 0.3 * rng.normal(size=n_users)
        entered = (rng.random((5, n_users)) < 0.6).astype(float)
        values = truths[:, None] + level + 0.1 * rng.normal(size=(5, n_users))
        counts = entered.sum(axis=1)
        means = (values * entered).sum(axis=1) / counts
        parts = (values - means[:, None]) * entered / counts[:, None]
        found = _over_windows(means, parts, entered, np.arange(5.0), 0.95)
        covered += [
            found["ci_low"] <= 0.52 <= found["ci_high"],
            found["trend_low"] <= slope <= found["trend_high"],
        ]
        alone = np.sqrt((parts**2).sum()) / 5
        naive += abs(means.mean() - 0.52) <= 1.96 * alone
    assert ((covered / 1000 >= 0.93) & (covered / 1000 <= 0.97)).all()
    assert naive / 1000 < 0.85
