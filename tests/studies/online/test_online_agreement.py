"""Offline differences against A/B results: worked by hand, and truths recovered in simulated programmes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, norm
from statsmodels.stats.proportion import proportion_confint

from ipseval.errors import InputError
from ipseval.studies.online import OnlineAgreement, online_agreement
from tests.inside.studies import NoisyDifferences, TrueSpread


@pytest.fixture(scope="module", autouse=True)
def cache_fits():
    """What a test works out again has the fits of the library, which have tests of their own."""
    fitted, cached_fits = TrueSpread.fit, {}

    def fit_once(data):
        key = np.stack([data.x, data.y, data.var_x, data.var_y]).tobytes()
        return cached_fits.get(key) or cached_fits.setdefault(key, fitted(data))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrueSpread, "fit", fit_once)
        patch.setattr(TrueSpread, "interval", cache(TrueSpread.interval))
        yield


def make_frames(n: int = 40, seed: int = 0, rho: float = 0.7, noise: float = 0.7) -> tuple:
    rng = np.random.default_rng(seed)
    true = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n)
    measured = true + noise * rng.normal(size=(n, 2))
    sides = [
        pd.DataFrame({"experiment": range(n), "difference": measured[:, side], "std_error": noise})
        for side in (0, 1)
    ]
    return sides[0], sides[1]


def test_signs_are_counted_as_worked_by_hand():
    # Signs agree in 6 of 10 experiments, one offline difference is 0: share .65.
    offline = pd.DataFrame({"experiment": range(10), "difference": [1, 2, 3, -1, -2, -3, 1, 2, -1, 0]})
    online = pd.DataFrame({"experiment": range(10), "difference": [1, 1, 2, -1, -1, -3, -1, -1, 2, 1]})
    with_errors = (frame.assign(std_error=0.1) for frame in (offline, online))
    row = online_agreement(*with_errors, n_folds=2, rng=0).frame.iloc[0]
    assert row["sign"] == pytest.approx(0.65)
    # Wilson: (.65 + 1.96²/20)/(1 + 1.96²/10) ∓ 1.96 √(.65·.35/10 + 1.96²/400)/(1 + 1.96²/10)
    assert row["sign_low"] == pytest.approx(0.3537, abs=2e-4)
    assert row["sign_high"] == pytest.approx(0.8631, abs=2e-4)


def predict_conditionally(fit: TrueSpread, held_out: NoisyDifferences) -> tuple[np.ndarray, np.ndarray]:
    """Return the log density that each held-out difference gains, and its prediction, one after the other."""
    gains, means = [], []
    for x, y, *noises in zip(held_out.x, held_out.y, held_out.var_x, held_out.var_y, strict=True):
        (xx, xy), (_, yy) = np.outer(fit.spread, fit.spread) * [[1, fit.rho], [fit.rho, 1]] + np.diag(noises)
        means.append(fit.mean[1] + xy / xx * (x - fit.mean[0]))
        alone = norm.logpdf(y, fit.mean[1], np.sqrt(yy))
        gains.append(norm.logpdf(y, means[-1], np.sqrt(yy - xy**2 / xx)) - alone)
    return np.array(gains), np.array(means)


def cross_validate(
    data: list[NoisyDifferences], rng: np.random.Generator, n_folds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return gains and predictions of cross-validation, (indicators, experiments) each."""
    n, figures = len(data[0]), np.zeros((2, len(data), len(data[0])))
    for fold in np.array_split(rng.permutation(n), n_folds):
        training = np.setdiff1d(np.arange(n), fold)
        for number, indicator in enumerate(data):
            figures[:, number, fold] = predict_conditionally(
                TrueSpread.fit(indicator.select(training)), indicator.select(fold)
            )
    return figures[0], figures[1]


def test_every_statistic_is_reproduced_with_nested_cross_validation_and_resamples():
    n, level, rng = 13, 0.9, np.random.default_rng(21)
    x, y = rng.multivariate_normal([0.3, 0.5], [[1, 0.8], [0.8, 2]], n).T
    error, online_error = rng.uniform(0.2, 0.9, (2, n))
    names = [f"test {number:02}" for number in range(n)]
    online = pd.DataFrame({"experiment": names, "difference": y + online_error * rng.normal(size=n)})
    noisier = online.assign(difference=x + 0.6 * rng.normal(size=n), metric="auc", gamma=0.5)
    good = online.assign(difference=x, metric="auc", gamma=np.nan)
    indicators = pd.concat([noisier, good]).assign(std_error=np.tile(error, 2))
    online["std_error"] = online_error
    agreement = online_agreement(
        indicators, online, half_width=0.07, confidence_level=level, n_folds=6, rng=4
    )
    data = [
        NoisyDifferences(
            indicator["difference"].to_numpy(), online["difference"].to_numpy(), error**2, online_error**2
        )
        for indicator in (noisier, good)
    ]
    again = np.random.default_rng(4)
    gains, predictions = cross_validate(data, again, 6)
    draws = [again.integers(0, n, n) for _ in range(1000)]
    total = 0.0
    for fold in np.array_split(again.permutation(n), 5):
        training = np.setdiff1d(np.arange(n), fold)
        inner, _ = cross_validate([indicator.select(training) for indicator in data], again, 5)
        chosen = data[inner.mean(axis=1).argmax()]
        total += predict_conditionally(TrueSpread.fit(chosen.select(training)), chosen.select(fold))[0].sum()
    best = int(gains.mean(axis=1).argmax())
    assert (agreement.best, agreement.n_experiments, agreement.confidence_level, agreement.half_width) == (
        best,
        n,
        0.9,
        0.07,
    )
    assert agreement.nested_gain == pytest.approx(total / n, rel=1e-9)
    assert agreement.chosen_share == np.mean([gains[:, draw].mean(axis=1).argmax() == best for draw in draws])
    assert 0.5 < agreement.chosen_share < 1
    for number, indicator in enumerate(data):
        fit = TrueSpread.fit(indicator)
        low, high = fit.interval(level)
        share = np.mean(np.sign(indicator.x) == np.sign(indicator.y))
        slope, behind = fit.rho * fit.spread[1] / fit.spread[0], gains[best] - gains[number]
        ends = proportion_confint(share * n, n, alpha=1 - level, method="wilson")
        se = behind.std(ddof=1) / np.sqrt(n)
        power = norm.ppf(0.975) + norm.ppf(0.8)
        expected = {
            **dict(zip(("sign_low", "sign_high"), ends, strict=True)),
            **dict(zip(("pearson_low", "pearson", "pearson_high"), (low, fit.rho, high), strict=True)),
            "sign": share,
            "sign_true": fit.probability_of_same_sign(),
            "kendall": 2 / np.pi * np.arcsin(fit.rho),
            "kendall_low": 2 / np.pi * np.arcsin(low),
            "kendall_high": 2 / np.pi * np.arcsin(high),
            "naive_pearson": np.corrcoef(indicator.x, indicator.y)[0, 1],
            "naive_kendall": kendalltau(indicator.x, indicator.y).statistic,
            "reliability_offline": fit.spread[0] ** 2 / (fit.spread[0] ** 2 + indicator.var_x.mean()),
            "reliability_online": fit.spread[1] ** 2 / (fit.spread[1] ** 2 + indicator.var_y.mean()),
            "slope": slope,
            "intercept": fit.mean[1] - slope * fit.mean[0],
            "n_needed": np.ceil(n * (high - low) ** 2 / (4 * 0.07**2)),
            "cv_gain": gains[number].mean(),
            "cv_error": gains[number].std(ddof=1) / np.sqrt(n),
            "cv_sign": np.mean(predictions[number] * indicator.y > 0),
            "behind": behind.mean(),
            "behind_error": se,
            "n_to_tell": np.nan if number == best else np.ceil(n * (power * se / behind.mean()) ** 2),
        }
        row = agreement.frame.drop(columns=["metric", "gamma"]).loc[number]
        assert set(row.index) == set(expected)
        assert row.to_dict() == pytest.approx(expected, rel=1e-9, nan_ok=True)
    np.testing.assert_array_equal(agreement.frame["gamma"], [0.5, np.nan])
    for number, indicator in enumerate(data):
        part = agreement.data[agreement.data["indicator"] == number]
        assert part["experiment"].tolist() == names
        columns = part[["offline", "online", "offline_error", "online_error"]].to_numpy().T
        expected_columns = [indicator.x, indicator.y, error, online_error]
        np.testing.assert_array_equal(columns, expected_columns)


def test_one_differing_experiment_is_validated_on_parts_without_any_difference():
    # Without experiment 7 all online differences are 0: the prediction is 0 with or without the indicator.
    offline = pd.DataFrame({"experiment": range(8), "difference": np.arange(8.0), "std_error": 0.3})
    online = offline.assign(difference=[0.0] * 7 + [1.0])
    agreement = online_agreement(offline, online, n_folds=8, rng=0)
    row = agreement.frame.loc[0]
    assert row[["sign", "cv_sign"]].tolist() == [(1 + 0.5 * 7) / 8, 0.0]
    assert agreement.nested_gain == row["cv_gain"]  # there is no choice
    assert np.isfinite(row["cv_gain"])


def test_versions_in_the_other_order_change_the_sign():
    offline, online = make_frames(12)
    names = [f"v{n}" for n in range(12)]
    offline = offline.assign(model=names, reference="base").drop(columns="experiment")
    online = online.assign(model=names, reference="base").drop(columns="experiment")
    swapped = offline.rename(columns={"model": "reference", "reference": "model"})
    swapped["difference"] *= -1
    # A name of the experiment in one frame alone is not read.
    named = online.assign(experiment="x").set_index("model", drop=False)
    calls = ((offline, online), (swapped, named), (offline.assign(experiment="x"), online))
    first, *other_frames = (online_agreement(*call, n_folds=2, rng=0).frame for call in calls)
    for other_frame in other_frames:
        pd.testing.assert_frame_equal(first, other_frame)
    with pytest.raises(InputError, match="n_folds must be an integer >= 2"):
        online_agreement(offline, online, n_folds=1)


def test_unmatched_and_undefined_experiments_are_counted():
    offline, online = make_frames(10)
    offline = pd.concat([offline.assign(metric=name) for name in ("auc", "recall@10")], ignore_index=True)
    offline.loc[3, "difference"] = np.nan
    offline.loc[4, "std_error"] = 0.0  # known without error
    more = pd.DataFrame({"experiment": [10, 11], "difference": 1.0, "std_error": 1.0})
    online = pd.concat([online[online["experiment"] != 0], more], ignore_index=True)
    agreement = online_agreement(offline, online, n_folds=2, rng=0)
    assert agreement.n_experiments == 8
    columns = ["indicator", "experiment", "offline", "offline_error", "online", "online_error"]
    assert agreement.data.columns.tolist() == columns
    assert set(agreement.data["experiment"]) == {"1", "2", "4", "5", "6", "7", "8", "9"}
    assert agreement.notes == (
        "1 experiment of offline has no match and is left out",
        "2 experiments of online has no match and is left out",
        "1 experiment without a defined difference for every indicator left out of all",
    )
    assert "8 online experiments, 2 offline indicators" in repr(agreement)


def test_the_best_indicator_is_the_one_that_predicts_held_out_experiments():
    rng = np.random.default_rng(5)
    offline, online = make_frames(50, seed=1, rho=0.9, noise=0.4)
    useless = offline.assign(difference=rng.normal(size=50))
    indicators = pd.concat([useless.assign(metric="auc"), offline.assign(metric="ndcg@10")])
    agreement = online_agreement(indicators, online, n_folds=3, rng=0)
    assert agreement.frame.loc[agreement.best, "metric"] == "ndcg@10"
    assert agreement.chosen_share > 0.95
    assert agreement.nested_gain == pytest.approx(agreement.frame["cv_gain"].max(), abs=0.1)
    assert agreement.frame.loc[agreement.best, "behind"] == 0
    useless_row = agreement.frame.loc[1 - agreement.best]
    assert useless_row["n_to_tell"] < 50  # they are told apart with 50


def test_the_picture_shows_every_experiment_and_the_line():
    agreement = online_agreement(*make_frames(12), n_folds=2, rng=0)
    three = pd.concat([agreement.data.assign(indicator=number) for number in range(3)])
    beside = replace(agreement, frame=pd.concat([agreement.frame] * 3, ignore_index=True), data=three)
    assert sum(len(container.get_children()[0].get_xdata()) for container in beside.plot(1).containers) == 12
    axes = agreement.plot()
    assert sum(len(container.get_children()[0].get_xdata()) for container in axes.containers) == 12
    line = axes.lines[-1]
    assert (line.get_label(), line.get_slope()) == ("true differences", agreement.frame.loc[0, "slope"])
    assert line.get_xy1() == (0.0, agreement.frame.loc[0, "intercept"])
    assert axes.get_xlabel() == "offline difference ± standard error (offline)"
    for row in (1, -1):
        with pytest.raises(InputError, match=f"must be a row of the frame, 0 to 0; got {row}\\."):
            agreement.plot(row)


def test_report_lists_the_best_indicator_first_and_the_notes():
    columns = ["metric", "gamma", "sign", "sign_low", "sign_high", "pearson", "pearson_low", "pearson_high"]
    rows = [("auc", 0.0, 0.5, 0.25, 0.75, 0.125, -1.0, 1.0, 0.0625, 1200.0)]
    rows += [("ndcg@10", 1.5, 0.75, 0.5, 1.0, 0.9375, 0.5, 1.0, 0.1234, 35.0)]
    frame = pd.DataFrame(rows, columns=[*columns, "cv_gain", "n_needed"]).assign(behind=0.0)
    agreement = OnlineAgreement(frame, frame, 1, 0.625, 0.0314159, 1040, 0.9, 0.05, ("one is left out",))
    table, notes = agreement.tables().parts
    assert table.header == ("metric", "gamma", "sign", "pearson", "cv_gain", "n_needed")
    assert table.n_keys == 2
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["ndcg@10", "1.5", "0.75 [0.50, 1.00]", "0.94 [0.50, 1.00]", "0.123", "35"],
        ["auc", "0", "0.50 [0.25, 0.75]", "0.12 [-1.00, 1.00]", "0.062", "1200"],
    ]
    assert notes.lines[0].startswith("Gain of choosing and predicting: 0.031 nats per experiment")
    assert notes.lines[2:] == (
        "n_needed: number of similar experiments for an interval of ± 0.05.",
        "One is left out.",
    )
    assert agreement.tables().summary == ("1040 online experiments, 2 offline indicators; 90% intervals.",)
    assert agreement.verdict == (
        "Best by cross-validation: ndcg@10 1.5, chosen again in 62% of draws of the experiments."
    )
    alone = OnlineAgreement(frame[:1].drop(columns=["metric", "gamma"]), frame, 0, 1.0, 0.0, 9, 0.9, 0.1, ())
    assert (alone.tables().parts[0].n_keys, alone.tables(digits=4).parts[0].rows[0][0].text) == (
        1,
        "0.5000 [0.2500, 0.7500]",
    )
    assert "Best by cross-validation: the indicator, chosen" in alone.verdict


BAD = {
    "no frame": (lambda a, b: ([1, 2], b), "offline must be a DataFrame"),
    "no error": (
        lambda a, b: (a.drop(columns="std_error").assign(**dict.fromkeys("abcdefghijk", 0)), b),
        "needs columns difference and std_error; it has 'experiment', 'difference', 'a', .*, 'i', 'j', …",
    ),
    "no experiment": (
        lambda a, b: (a.drop(columns="experiment").assign(**dict.fromkeys("abcdefghijk", 0)), b),
        "offline needs a column 'experiment', .* it has 'difference', 'std_error', 'a', .*, 'i', 'j', …",
    ),
    "negative": (
        lambda a, b: (a.assign(std_error=-1.0, difference=np.inf), b),
        "12 rows of offline are infinite or have a std_",
    ),
    "infinite": (
        lambda a, b: (a, b.replace(b.loc[3, "difference"], np.inf)),
        "1 rows of online are infinite",
    ),
    "an error of inf": (lambda a, b: (a, b.assign(std_error=np.inf)), "12 rows of online are infinite"),
    "text": (lambda a, b: (a.assign(difference="x"), b), "must contain numbers"),
    "few": (lambda a, b: (a[:7], b), "at least 8 experiments need .* difference; got 7"),
    "twice online": (lambda a, b: (a, pd.concat([b, b[3:4]])), "online has several rows for '3'; pool"),
    "twice offline": (lambda a, b: (pd.concat([a, a[3:4]]), b), "offline has several rows for '3' and one"),
    "all equal": (lambda a, b: (a.assign(difference=1.0), b), "differences are equal"),
    "all equal online": (lambda a, b: (a, b.assign(difference=-1.0)), "differences are equal"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_frames_say_what_was_expected(name):
    change, text = BAD[name]
    with pytest.raises(InputError, match=text):
        online_agreement(*change(*make_frames(12)), rng=0)
