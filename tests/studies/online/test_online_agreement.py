"""Offline differences against A/B results: worked by hand, and truths recovered in simulated programmes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import chi2, multivariate_normal

from ipseval.errors import InputError
from ipseval.studies.online import online_agreement
from tests.inside.studies import Noisy, TrueSpread, _deviance, naive_pearson


def frames(n: int = 40, seed: int = 0, rho: float = 0.7, noise: float = 0.7) -> tuple:
    rng = np.random.default_rng(seed)
    true = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n)
    measured = true + noise * rng.normal(size=(n, 2))
    made = [
        pd.DataFrame({"experiment": range(n), "difference": measured[:, side], "std_error": noise})
        for side in (0, 1)
    ]
    return made[0], made[1]


def test_the_deviance_is_the_restricted_likelihood_of_the_normal_model():
    rng = np.random.default_rng(3)
    data = Noisy(rng.normal(size=7), rng.normal(size=7), rng.random(7), rng.random(7))
    sigma = np.array([[1.3**2, 0.4 * 1.3 * 0.6], [0.4 * 1.3 * 0.6, 0.6**2]])
    covariances = [sigma + np.diag([a, b]) for a, b in zip(data.var_x, data.var_y, strict=True)]
    points = np.stack([data.x, data.y], axis=1)
    information = sum(np.linalg.inv(one) for one in covariances)
    mean = np.linalg.solve(
        information, sum(np.linalg.solve(v, z) for v, z in zip(covariances, points, strict=True))
    )
    plain = sum(
        multivariate_normal(mean, v).logpdf(z) for v, z in zip(covariances, points, strict=True)
    ) + 7 * np.log(2 * np.pi)
    expected = -2 * plain + np.log(np.linalg.det(information))
    found, centre = _deviance(data, np.log(1.3), np.log(0.6), 0.4)
    assert found == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(centre, mean, rtol=1e-12)


def test_without_noise_the_correlation_is_pearsons():
    x = np.array([1.0, 2, 4, 3, 6, 5, 8, 7, 9])
    y = np.array([2.0, 1, 3, 5, 4, 6, 9, 7, 8])
    data = Noisy(x, y, np.zeros(9), np.zeros(9))
    expected = np.corrcoef(x, y)[0, 1]
    assert naive_pearson(data) == pytest.approx(expected)
    assert TrueSpread.of(data).rho == pytest.approx(expected, abs=1e-4)


def test_heavy_tails_widen_the_interval_by_the_kurtosis_of_the_residuals():
    # Squared residuals d² = 8, 0, 0, 0: mean d⁴/8 = (64/4)/8 = 2.
    x = np.array([2.0, 0, 0, 0])
    mean = np.array([3.0, -5.0])
    data = Noisy(*(x + mean[:, None]), np.zeros(4), np.zeros(4))
    fit = TrueSpread(data, np.ones(2), 0.0, mean, 0.0)
    assert fit.kurtosis == pytest.approx(2.0)


@pytest.mark.parametrize("seed", [3, 53])
def test_an_interval_ends_where_the_deviance_is_at_its_limit(seed):
    x, y = np.random.default_rng(seed).normal(size=(2, 8))
    fit = TrueSpread.of(Noisy(x, 0.8 * x + 0.8 * y, np.full(8, 0.2), np.full(8, 0.3)))
    limit = chi2.ppf(0.95, 1) * max(1.0, fit.kurtosis)
    low, high = fit.interval(0.95)
    assert low < fit.rho <= high
    for end in (low, high):
        excess = fit._excess(np.arctanh(np.clip(end, -np.tanh(4), np.tanh(4))), limit)
        assert excess <= 0 if abs(end) == 1 else abs(excess) < 1e-3


def test_signs_are_counted_as_worked_by_hand():
    # Signs agree in 6 of 10 experiments, one offline difference is 0: share .65.
    offline = pd.DataFrame({"experiment": range(10), "difference": [1, 2, 3, -1, -2, -3, 1, 2, -1, 0]})
    online = pd.DataFrame({"experiment": range(10), "difference": [1, 1, 2, -1, -1, -3, -1, -1, 2, 1]})
    both = (one.assign(std_error=0.1) for one in (offline, online))
    row = online_agreement(*both, n_folds=2, rng=0).frame.iloc[0]
    assert row["sign"] == pytest.approx(0.65)
    # Wilson: (.65 + 1.96²/20)/(1 + 1.96²/10) ∓ 1.96 √(.65·.35/10 + 1.96²/400)/(1 + 1.96²/10)
    assert row["sign_low"] == pytest.approx(0.3537, abs=2e-4)
    assert row["sign_high"] == pytest.approx(0.8631, abs=2e-4)


@pytest.mark.parametrize("rho", [-0.999, -0.6, 0.0, 0.3, 0.95, 0.999])
@pytest.mark.parametrize("mean", [(0.3, -0.2), (1.0, 1.0), (-2.0, 0.7), (0.0, -1.5), (4.0, 4.0), (0.0, 0.0)])
def test_the_chance_of_equal_signs_is_that_of_one_difference_given_the_other(rho, mean):
    # P(ξ > 0, η > 0) = ∫ φ(u) Φ((k + ρu)/√(1 − ρ²)) du over u > −h, and the same with both signs turned.
    def both_up(h: float, k: float) -> float:
        turn = float(np.clip(-k / rho, -h, 40.0)) if rho else 0.0  # there the integrand is steepest
        law = lambda u: np.exp(-u * u / 2) / np.sqrt(2 * np.pi) * ndtr((k + rho * u) / np.sqrt(1 - rho**2))  # noqa: E731
        return sum(quad(law, *ends, epsabs=1e-13, limit=200)[0] for ends in ((-h, turn), (turn, 40.0)))

    spread = np.array([2.0, 0.5])
    fit = TrueSpread(Noisy(*(np.zeros(2),) * 4), spread, rho, np.array(mean) * spread, 0.0)
    assert fit.same_sign() == pytest.approx(both_up(*mean) + both_up(-mean[0], -mean[1]), abs=1e-10)
    assert fit.same_sign() == fit.same_sign()  # SciPy 1.16 draws random numbers for this chance


def test_versions_in_the_other_order_change_the_sign():
    offline, online = frames(12)
    names = [f"v{n}" for n in range(12)]
    offline = offline.assign(model=names, reference="base").drop(columns="experiment")
    online = online.assign(model=names, reference="base").drop(columns="experiment")
    swapped = offline.rename(columns={"model": "reference", "reference": "model"})
    swapped["difference"] *= -1
    first, second = (online_agreement(one, online, n_folds=2, rng=0) for one in (offline, swapped))
    pd.testing.assert_frame_equal(first.frame, second.frame)


def test_what_has_no_match_and_what_is_undefined_is_counted():
    offline, online = frames(10)
    offline = pd.concat([offline.assign(metric=name) for name in ("auc", "recall@10")], ignore_index=True)
    offline.loc[3, "difference"] = np.nan
    found = online_agreement(offline, online[online["experiment"] != 0], n_folds=2, rng=0)
    assert found.n_experiments == 8
    assert any("1 experiment of offline has no match" in note for note in found.notes)
    assert any(
        "1 experiment without a defined difference for every indicator" in note for note in found.notes
    )
    assert "8 online experiments, 2 offline indicators" in repr(found)


def test_the_best_indicator_is_the_one_that_predicts_held_out_experiments():
    rng = np.random.default_rng(5)
    offline, online = frames(50, seed=1, rho=0.9, noise=0.4)
    useless = offline.assign(difference=rng.normal(size=50))
    both = pd.concat([useless.assign(metric="auc"), offline.assign(metric="ndcg@10")])
    found = online_agreement(both, online, n_folds=3, rng=0)
    assert found.frame.loc[found.best, "metric"] == "ndcg@10"
    assert found.chosen_share > 0.95
    assert found.nested_gain == pytest.approx(found.frame["cv_gain"].max(), abs=0.1)
    assert found.frame.loc[found.best, "behind"] == 0
    other = found.frame.loc[1 - found.best]
    assert other["n_to_tell"] < 50  # they are told apart with 50


def test_the_picture_shows_every_experiment_and_the_line():
    found = online_agreement(*frames(30), n_folds=2, rng=0)
    axes = found.plot()
    assert sum(len(one.get_children()[0].get_xdata()) for one in axes.containers) == 30
    assert axes.lines[-1].get_label() == "true differences"
    with pytest.raises(InputError, match="must be a row of the frame"):
        found.plot(3)


BAD = {
    "no frame": (lambda a, b: ([1, 2], b), "offline must be a DataFrame"),
    "no error": (lambda a, b: (a.drop(columns="std_error"), b), "needs columns difference and std_error"),
    "no experiment": (lambda a, b: (a.drop(columns="experiment"), b), "needs a column 'experiment'"),
    "negative": (lambda a, b: (a.assign(std_error=-1.0), b), "have a std_error below 0"),
    "text": (lambda a, b: (a.assign(difference="x"), b), "must hold numbers"),
    "few": (lambda a, b: (a[:5], b), "at least 8 experiments"),
    "twice online": (lambda a, b: (a, pd.concat([b, b])), "online has several rows"),
    "twice offline": (lambda a, b: (pd.concat([a, a]), b), "offline has several rows"),
    "all equal": (lambda a, b: (a.assign(difference=1.0), b), "differences are equal"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_frames_say_what_was_expected(name):
    change, text = BAD[name]
    with pytest.raises(InputError, match=text):
        online_agreement(*change(*frames(12)), rng=0)


@pytest.mark.slow
def test_the_true_correlation_is_covered_and_the_naive_one_is_too_low():
    """600 programmes of 20–200 tests, ρ uniform in (0, .9), reliabilities .45–.75, unequal noise."""
    rng = np.random.default_rng(2024)
    covered, naive_covered, bias, naive_bias = 0, 0, [], []
    for _ in range(600):
        n = int(np.exp(rng.uniform(np.log(20), np.log(200))))
        rho, noise = rng.uniform(0, 0.9), rng.uniform(0.5, 0.9, 2)
        true = rng.multivariate_normal([0.2, 0.1], [[1, rho], [rho, 1]], n)
        errors = noise * np.exp(0.4 * rng.normal(size=(n, 2)))
        x, y = (true + errors * rng.normal(size=(n, 2))).T
        data = Noisy(x, y, errors[:, 0] ** 2, errors[:, 1] ** 2)
        fit = TrueSpread.of(data)
        low, high = fit.interval(0.95)
        covered += low <= rho <= high
        bias.append(fit.rho - rho)
        naive = naive_pearson(data)
        naive_covered += abs(np.arctanh(naive) - np.arctanh(rho)) < 1.96 / np.sqrt(n - 3)
        naive_bias.append(naive - rho)
    assert 0.93 <= covered / 600 <= 0.97
    assert naive_covered / 600 < 0.8
    assert abs(np.mean(bias)) < 4 * np.std(bias) / np.sqrt(600)
    assert np.mean(naive_bias) < -0.1


def test_reliability_is_the_share_of_true_variance_on_each_side():
    # True differences have variances 1 offline and 9 online, noise has variance 1 on both: 1/2 and 9/10.
    n, rng = 3_000, np.random.default_rng(8)
    true = rng.multivariate_normal([0, 0], [[1, 1.5], [1.5, 9]], n)
    measured = true + rng.normal(size=(n, 2))
    offline, online = (
        pd.DataFrame({"experiment": range(n), "difference": measured[:, side], "std_error": 1.0})
        for side in (0, 1)
    )
    row = online_agreement(offline, online, n_folds=2, rng=0).frame.iloc[0]
    assert row["reliability_offline"] == pytest.approx(0.5, abs=0.04)  # 4 sigma of a variance from 3,000
    assert row["reliability_online"] == pytest.approx(0.9, abs=0.02)
