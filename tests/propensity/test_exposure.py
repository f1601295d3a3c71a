"""γ calibrated on random exposure, and the class of such samples."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from statsmodels.genmod import families
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.tools import add_constant

from ipseval.data import Interactions, RandomExposure
from ipseval.errors import DataWarning, IdentificationWarning, InputError
from ipseval.propensity import PowerLawPropensity, fit_gamma, fit_gamma_from_exposure
from tests.inside.propensity import compute_noise_share


def test_coat_gives_gamma_237_with_standard_error_080_through_the_power_law_in_one_line(shared_data):
    train = np.loadtxt(shared_data("coat") / "train.ascii")
    random = np.loadtxt(shared_data("coat") / "test.ascii")
    user, item = np.nonzero(train >= 4)
    frame = pd.DataFrame({"user": user, "item": item})
    log = Interactions.from_frame(frame, users=np.arange(290), items=np.arange(300))
    shown_user, shown_item = np.nonzero(random > 0)
    exposure = RandomExposure(shown_user, shown_item, random[shown_user, shown_item] >= 4, 290, 300)
    with pytest.warns(IdentificationWarning, match="counting noise"):
        propensity = PowerLawPropensity(
            gamma="fit", exposure=exposure, scale="calibrated", unseen="drop"
        ).fit(log)
    fit = propensity.fit
    assert (propensity.gamma, fit.standard_error) == pytest.approx((0.237, 0.080), abs=0.001)
    assert (fit.n_items, fit.n_unseen, propensity.n_capped) == (284, 16, 0)
    assert propensity.is_probability
    # κ carries the log's volume: with q_i = n*_i/(|U| P_i), the positives that the fit expects among the
    # exposures are those that there were (a Poisson fit with an intercept balances its total).
    seen = log.popularity > 0
    rate = log.popularity[seen] / (290 * propensity.item[seen])
    assert (exposure.n_exposed[seen] * rate).sum() == pytest.approx(exposure.n_positive[seen].sum())


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_grouped_fit_equals_the_plain_statsmodels_fit_of_every_item(family):
    rng = np.random.default_rng(0)
    popularity = np.floor(100 / (1 - rng.random(500)) ** 0.7).clip(100, 9000)
    exposures = rng.integers(5, 40, 500)
    positives = rng.binomial(exposures, 0.01 * popularity**0.4)
    x = add_constant(np.log(popularity))
    if family == "poisson":
        model = GLM(positives, x, family=families.Poisson(), offset=np.log(exposures))
        plain = model.fit(cov_type="HC0")
    else:
        outcomes = np.column_stack([positives, exposures - positives])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # statsmodels remarks on a log link for a binomial
            statsmodels_family = families.Binomial(link=families.links.Log())
            plain = GLM(outcomes, x, family=statsmodels_family).fit(cov_type="HC0", start_params=[-3.0, 0.3])
    fit = fit_gamma_from_exposure(popularity, exposures, positives, family=family)
    assert fit.gamma == pytest.approx(1 - 2 * plain.params[1], abs=1e-6)
    assert fit.standard_error == pytest.approx(2 * plain.bse[1], rel=1e-4)


def test_exact_power_law_gives_gamma_eta_and_scale_exactly():
    # q = .01 √n* (b = ½): γ = 0, η = ½, and P = n*/(|U| q) = n*/(1000 · .01 √n*) = .1 √n*.
    popularity = np.array([1.0, 4.0, 16.0, 25.0, 49.0, 64.0])
    fit = fit_gamma_from_exposure(popularity, np.full(6, 1000), 10 * np.sqrt(popularity), n_users=1000)
    assert fit.gamma == pytest.approx(0, abs=1e-9)
    assert fit.eta == pytest.approx(0.5, abs=1e-9)
    assert fit.scale == pytest.approx(0.1, abs=1e-9)


def test_held_out_counts_subtract_slopes_and_give_the_scale_of_the_held_out_positives():
    # q = .01 √n* and h = 2 n*^¾: P = h/(|U| q) = 2 n*^¾/(1000 · .01 √n*) = .2 n*^¼, η = ¼, γ = −½.
    popularity = np.array([1.0, 16.0, 81.0, 256.0, 625.0])
    fit = fit_gamma_from_exposure(
        popularity,
        np.full(5, 1000),
        10 * np.sqrt(popularity),
        held_out=2 * popularity**0.75,
        n_users=1000,
    )
    assert fit.eta == pytest.approx(0.25, abs=1e-8)
    assert fit.scale == pytest.approx(0.2, abs=1e-8)


@pytest.mark.parametrize("typical", [4.0, 100.0])
def test_held_out_calibration_fits_the_weights_that_noisy_counts_need(typical):
    # Items are liked by n_i users, logged with P_i ∝ n_i^1.0 (γ = 0), so n* ∝ n_i². Training counts are
    # Poisson around that. The weights that undo the selection of *held-out* positives, as a function of the
    # noisy n*, are q/h; its slope on log n* is what `held_out` must find, and with little noise it is ½.
    rng = np.random.default_rng(1)
    n_items = 5_000
    true = np.exp(0.5 * rng.standard_normal(n_items))
    mean = typical * true**2
    popularity = rng.poisson(mean)
    held_out = rng.poisson(mean)
    exposures = np.full(n_items, 50)
    positives = rng.binomial(exposures, 0.05 * np.minimum(true, 15))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        naive = fit_gamma_from_exposure(popularity, exposures, positives)
        fit = fit_gamma_from_exposure(popularity, exposures, positives, held_out=held_out)
    weight = held_out * popularity.clip(1.0) ** -fit.eta
    log_popularity = np.log(popularity.clip(1))
    weighted = (weight * log_popularity).sum() / weight.sum()
    random = (positives * log_popularity).sum() / positives.sum()
    log_mean = (held_out * log_popularity).sum() / held_out.sum()
    # Weighted held-out positives are about as popular as random ones; items with n* = 0 limit it to "about".
    assert abs(weighted - random) < 0.2 * abs(log_mean - random)
    if typical == 100:
        assert fit.eta == pytest.approx(0.5, abs=0.03)
    else:
        assert naive.eta > 0.55 > fit.eta  # noise flattens b, and 1 − b is too steep


@pytest.mark.parametrize(("mean", "spread"), [(5, 0.9), (20, 0.4)])
def test_the_noise_warning_names_the_approximate_gamma_without_noise(mean, spread):
    rng = np.random.default_rng(2)
    true = np.exp(rng.standard_normal(20_000) * spread)
    popularity = rng.poisson(mean * true)  # q ∝ E[n*]^½: γ = 0 without the noise of n*
    exposures = np.full(true.size, 30)
    positives = rng.binomial(exposures, 0.02 * np.sqrt(true))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = fit_gamma_from_exposure(popularity, exposures, positives)
    text = next(str(warning.message) for warning in caught if "counting noise" in str(warning.message))
    noise_free_gamma = float(re.search(r"would be about (-?\d+\.\d+)", text).group(1))
    noise = compute_noise_share(popularity[popularity > 0], exposures[popularity > 0], fit.slope[1])
    assert text.startswith(f"counting noise of small n* (median {np.median(popularity[popularity > 0]):g})")
    assert f"about {noise:.0%} off" in text
    assert noise_free_gamma == pytest.approx(1 - 2 * fit.slope[1] / (1 - noise), abs=0.006)
    assert fit.gamma > 0.05
    assert abs(noise_free_gamma) < 0.45 * fit.gamma


def test_noise_share_is_weighted_mean_inverse_count_over_variance_of_log_counts():
    # log n* = log 99 and log 399 with equal weight (slope 0): variance (log(399/99)/2)².
    share = compute_noise_share(np.array([99.0, 399.0]), np.array([1.0, 1.0]), 0.0)
    assert share == pytest.approx((1 / 100 + 1 / 400) / 2 / (np.log(399 / 99) / 2) ** 2)
    # With slope 2 and 400 and 1 exposures the weights are 400 · 1 and 1 · 400; 1/2 and 1/21 are noise.
    share = compute_noise_share(np.array([1.0, 20.0]), np.array([400.0, 1.0]), 2.0)
    assert share == pytest.approx((1 / 2 + 1 / 21) / 2 / (np.log(20) / 2) ** 2)


def test_noise_as_large_as_the_spread_of_counts_allows_no_corrected_gamma():
    with pytest.warns(IdentificationWarning, match=r"median 3\) takes about 100% off .* would be far lower"):
        fit = fit_gamma_from_exposure([1, 2, 3, 4, 5], [50] * 5, [5, 7, 9, 11, 13])
    assert (fit.method, fit.scale) == ("random exposure, poisson", None)
    with pytest.warns(IdentificationWarning, match="> 1 implies"):  # a slope below 0 is not flattened
        assert len(fit_gamma_from_exposure([1, 2, 3, 4, 5], [50] * 5, [13, 11, 9, 7, 5]).warnings) == 1


def test_held_out_positives_add_their_slope_and_its_error_and_both_fits_have_to_converge(monkeypatch):
    popularity = np.array([1.0, 2, 4, 8, 16, 32])
    exposures = np.full(6, 90)
    positives = np.array([9, 14, 12, 20, 31, 33])
    held_out = np.array([1, 3, 3, 9, 11, 20])
    with pytest.warns(IdentificationWarning, match="counting noise"):
        naive = fit_gamma_from_exposure(popularity, exposures, positives)
    level_fit = fit_gamma(popularity, held_out, 99, "poisson", drop_top=0, source="logging-policy")
    fit = fit_gamma_from_exposure(popularity, exposures, positives, held_out=held_out)
    assert fit.warnings == ()
    assert fit.method == "random exposure, poisson, against held-out positives"
    assert fit.gamma == pytest.approx(naive.gamma + 2 * (level_fit.gamma - 1))
    error = np.sqrt(naive.standard_error**2 + 4 * level_fit.standard_error**2)
    assert fit.standard_error == pytest.approx(error)
    mean = exposures * np.exp(fit.slope[0]) * popularity ** fit.slope[1]
    assert fit.dispersion == pytest.approx(((positives - mean) ** 2 / mean).sum() / 4)
    # A rate that is one and the same takes fewer steps than a slope.
    monkeypatch.setattr("ipseval.propensity._count_models.MAX_ITERATIONS", 3)
    for first, second in ((np.full(6, 9), held_out), (held_out, np.full(6, 9))):
        with pytest.warns(DataWarning, match="did not converge"):
            fit_gamma_from_exposure(popularity, exposures, first, held_out=second)


def test_min_popularity_leaves_items_out_and_counts_them():
    popularity = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 900])
    exposures = np.full(10, 100)
    positives = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 9])
    fit = fit_gamma_from_exposure(popularity, exposures, positives, min_popularity=3)
    assert (fit.n_unseen, fit.n_rare_dropped, fit.n_top_dropped, fit.n_items) == (1, 2, 0, 7)


# The value ------------------------------------------------------------------------------------------------


def test_exposure_counts_per_item_and_leaves_out_pairs_of_the_log(simple_log):
    exposures = pd.DataFrame(
        {"user": [0, 0, 1, 1], "item": [0, 1, 1, 2], "positive": [True, True, False, True]}
    )
    exposure = RandomExposure.from_frame(exposures, simple_log)
    assert exposure.n_exposed.tolist() == [1, 2, 1, 0]
    assert exposure.n_positive.tolist() == [1, 1, 1, 0]
    remainder = exposure.exclude(simple_log)
    assert (len(remainder), remainder.n_dropped) == (3, 1)
    assert repr(remainder) == "RandomExposure(3 pairs, 2 positive; 2 of 2 users)"


def test_exposure_reads_ratings_with_a_threshold():
    frame = pd.DataFrame({"user": [0, 1], "item": [0, 0], "stars": [3, 4]})
    log = Interactions.from_frame(frame, value="stars")
    assert RandomExposure.from_ratings(log, threshold=4).positive.tolist() == [False, True]


def test_a_calibrated_propensity_above_one_is_capped_and_counted_with_a_warning():
    # 3 users, one liked by the exposure sample in 10: n* of 3 means P = 3/(3 · .1) = 10 without a cap.
    frame = pd.DataFrame({"user": [0, 1, 2, 0, 1, 0], "item": [0, 0, 0, 1, 1, 2]})
    log = Interactions.from_frame(frame)
    with pytest.warns(IdentificationWarning):
        fit = fit_gamma_from_exposure(log.popularity, [100, 100, 100], [10, 9, 8], n_users=3)
    with pytest.warns(DataWarning, match="3 of 3 items came out with a propensity above 1"):
        propensity = PowerLawPropensity(gamma=fit, scale="calibrated").fit(log)
    assert propensity.n_capped == 3
    assert propensity.item.tolist() == [1, 1, 1]


def log_binomial_loss(params, x, exposures, positives):
    eta = params[0] + params[1] * x
    if eta.max() >= 0:
        return 1e10
    return -(positives * eta + (exposures - positives) * np.log(-np.expm1(eta))).sum()


def test_a_log_binomial_fit_near_a_rate_of_one_is_the_maximum_or_is_refused():
    n_refused = 0
    for seed in (0, 2, 6):
        rng = np.random.default_rng(seed)
        popularity = np.floor((1 - rng.random(rng.integers(5, 60))) ** -0.9).clip(1, 300)
        rate = rng.uniform(0.6, 1) * (popularity / popularity.max()) ** rng.uniform(0, 0.8)
        exposures = rng.integers(1, 40, popularity.size)
        positives = rng.binomial(exposures, rate)
        columns = (np.log(popularity), exposures, positives)
        start = [np.log(min(positives.sum() / exposures.sum(), 0.99)) - 0.01, 0.0]
        options = {"xatol": 1e-8, "fatol": 1e-9, "maxiter": 4000, "maxfev": 4000}
        best = minimize(log_binomial_loss, start, columns, method="Nelder-Mead", options=options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = fit_gamma_from_exposure(popularity, exposures, positives, family="binomial")
            except InputError:
                n_refused += 1
                continue
        assert log_binomial_loss(fit.slope, *columns) < best.fun + 1e-5
    assert 0 < n_refused < 3
