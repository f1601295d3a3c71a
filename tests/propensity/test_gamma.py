"""γ from recommended lists: agreement with plain fits of every row, invariances, warnings, bad input."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from statsmodels.discrete.discrete_model import NegativeBinomial
from statsmodels.genmod import families
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.tools import add_constant

from ipseval.errors import DataWarning, IdentificationWarning, InputError
from ipseval.propensity import fit_gamma, fit_gamma_from_exposure
from tests.inside.propensity import refit_levels, warn_about_fit

METHODS = ("negative-binomial", "poisson", "cloglog", "level-ols")
N_LISTS = 400


def simulate_counts(seed: int = 0, n_items: int = 200, gamma: float = 0.8):
    rng = np.random.default_rng(seed)
    popularity = np.floor((1 - rng.random(n_items)) ** -0.9).clip(1, 300)
    share = 0.004 * popularity**gamma * np.exp(0.7 * rng.standard_normal(n_items))
    return popularity, rng.binomial(N_LISTS, -np.expm1(-share)).astype(float)


def fit_logged(popularity, list_counts, n_lists=N_LISTS, method="negative-binomial", **options):
    return fit_gamma(popularity, list_counts, n_lists, method, **{"source": "logging-policy", **options})


def maximize_joint_likelihood(popularity, list_counts):
    """Return the joint fit by Newton from the Poisson fit: BFGS may end one bit above its tolerance."""
    x = add_constant(np.log(popularity))
    poisson = GLM(list_counts, x, family=families.Poisson()).fit()
    start = np.append(poisson.params, 0.5)
    joint = NegativeBinomial(list_counts, x).fit(start, method="newton", disp=0, maxiter=500)
    assert joint.mle_retvals["converged"]
    assert np.abs(joint.model.score(joint.params)).max() < 1e-6
    return joint


def fit_ungrouped(popularity, list_counts, method):
    """Return the fit with one row per item, which the grouped fit must equal."""
    x = add_constant(np.log(popularity))
    if method == "negative-binomial":
        joint = maximize_joint_likelihood(popularity, list_counts)
        family = families.NegativeBinomial(alpha=joint.params[2])
        robust = GLM(list_counts, x, family=family).fit(cov_type="HC0")
        return joint.params[1], robust.bse[1]
    if method == "poisson":
        result = GLM(list_counts, x, family=families.Poisson()).fit(cov_type="HC0")
    else:
        family = families.Binomial(link=families.links.CLogLog())
        outcomes = np.column_stack([list_counts, N_LISTS - list_counts])
        result = GLM(outcomes, x, family=family).fit(cov_type="HC0")
    return result.params[1], result.bse[1]


@pytest.mark.parametrize("method", ["negative-binomial", "poisson", "cloglog"])
def test_grouped_fit_equals_the_plain_statsmodels_fit_of_every_item(method):
    popularity, list_counts = simulate_counts()
    slope, error = fit_ungrouped(popularity, list_counts, method)
    gamma_fit = fit_logged(popularity, list_counts, method=method, drop_top=0)
    assert gamma_fit.gamma == pytest.approx(slope, abs=2e-5)
    assert gamma_fit.standard_error == pytest.approx(error, rel=2e-4)


def test_dispersion_equals_that_of_the_joint_maximum_likelihood_fit():
    popularity, list_counts = simulate_counts(3)
    joint = maximize_joint_likelihood(popularity, list_counts)
    gamma_fit = fit_logged(popularity, list_counts, drop_top=0)
    assert gamma_fit.result.converged
    assert gamma_fit.dispersion == pytest.approx(joint.params[2], rel=1e-6)
    assert np.abs(joint.model.score(np.append(gamma_fit.slope, gamma_fit.dispersion))).max() < 1e-3


@pytest.mark.parametrize(("spread", "low", "high"), [(0.1, 0.001, 0.05), (2.0, 2.72, 9)])
def test_dispersion_is_estimated_for_small_and_large_variation_of_items(spread, low, high):
    rng = np.random.default_rng(5)
    popularity = rng.integers(1, 60, 300).astype(float)
    list_counts = rng.poisson(10 * popularity**0.5 * np.exp(spread * rng.standard_normal(300))).astype(float)
    gamma_fit = fit_logged(popularity, list_counts, 10**6, drop_top=0)
    start = np.append(gamma_fit.slope, gamma_fit.dispersion)
    model = NegativeBinomial
    joint = model(list_counts, add_constant(np.log(popularity))).fit(start, method="newton", disp=0)
    assert start == pytest.approx(joint.params, rel=1e-6)
    assert low < gamma_fit.dispersion < high


@pytest.mark.parametrize("counts", [[25, 6, 2, 2, 0, 7, 4, 4], [105, 5, 1, 0, 29, 0, 0, 1]])
def test_dispersion_of_few_items_whose_likelihood_is_flat_is_the_maximum_too(counts):
    popularity = np.arange(1.0, 9)
    list_counts = np.array(counts, dtype=float)
    gamma_fit = fit_logged(popularity, list_counts, 10**6, drop_top=0)
    joint = maximize_joint_likelihood(popularity, list_counts)
    assert np.append(gamma_fit.slope, gamma_fit.dispersion) == pytest.approx(joint.params, rel=1e-6)


def test_dispersion_of_the_remaining_models_is_pearson_chi_square_per_degree_of_freedom():
    popularity = np.array([1.0, 1, 1, 2, 3, 4, 5])
    list_counts = np.array([4.0, 4, 1, 7, 5, 9, 8])
    gamma_fit = fit_logged(popularity, list_counts, method="poisson", drop_top=0)
    mean = np.exp(gamma_fit.slope[0]) * popularity**gamma_fit.gamma
    assert gamma_fit.dispersion == pytest.approx(((list_counts - mean) ** 2 / mean).sum() / 5)
    with pytest.warns(IdentificationWarning, match="2 levels"):
        assert fit_logged([1, 2], [3, 5], method="poisson", drop_top=0).dispersion is None


def test_counts_that_vary_less_than_poisson_give_dispersion_0_and_the_poisson_slope():
    popularity = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0], 3)
    gamma_fit = fit_logged(popularity, np.sqrt(popularity) * np.tile([19.0, 20.0, 21.0], 5), drop_top=0)
    assert gamma_fit.dispersion == 0
    assert gamma_fit.n_levels == 5  # enough to say nothing of them
    assert gamma_fit.gamma == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_an_exact_curve_is_recovered_and_printed(method):
    popularity = np.array([1.0, 2.0, 5.0, 10.0, 50.0, 200.0])
    rate = 0.02 * popularity**0.9  # saturates under cloglog: 0.9 of the lists at n* = 200
    expected = -np.expm1(-rate) if method == "cloglog" else rate / 10
    gamma_fit = fit_logged(popularity, N_LISTS * expected, method=method, drop_top=0)
    assert (gamma_fit.gamma, gamma_fit.eta) == pytest.approx((0.9, 0.95), abs=1e-7)
    assert gamma_fit.result.params[1] == gamma_fit.gamma
    assert f"gamma = {gamma_fit.gamma:.3f} ± {gamma_fit.standard_error:.3f}" in repr(gamma_fit)


def test_level_ols_is_the_line_through_hand_computed_log_level_means():
    # Levels 1, 2, 4 have means 2, 3, 4: an item of level 4 that was never recommended counts as 0, while
    # level 8, never recommended at all, is left out. With x = log2 n* = 0, 1, 2 the slope is
    # (log2 4 − log2 2)/2 = 1/2: the middle point of an equally spaced line has no influence.
    with pytest.warns(IdentificationWarning, match="4 levels only"):
        gamma_fit = fit_logged([1, 2, 2, 4, 4, 8], [2, 2, 4, 8, 0, 0], method="level-ols", drop_top=0)
    assert gamma_fit.gamma == pytest.approx(0.5, abs=1e-12)
    with pytest.warns(IdentificationWarning, match="3 levels only"):  # of which two were recommended
        gamma_fit = fit_logged([1, 2, 4], [3, 6, 0], method="level-ols", drop_top=0)
    assert gamma_fit.gamma == pytest.approx(1, abs=1e-12)
    assert gamma_fit.dispersion is None


@pytest.mark.parametrize("method", METHODS)
def test_order_of_items_and_unseen_items_have_no_influence(method):
    popularity, list_counts = simulate_counts(4)
    order = np.random.default_rng(0).permutation(popularity.size)
    gamma_fit = fit_logged(popularity, list_counts, method=method)
    permuted_fit = fit_logged(
        np.append(popularity[order], [0, 0]), np.append(list_counts[order], [5, 0]), method=method
    )
    assert permuted_fit.gamma == pytest.approx(gamma_fit.gamma, abs=1e-9)
    assert (gamma_fit.n_unseen, permuted_fit.n_unseen) == (0, 2)


@pytest.mark.parametrize("method", ["negative-binomial", "poisson", "level-ols"])
def test_unit_of_popularity_has_no_influence(method):
    popularity, list_counts = simulate_counts(5)
    rescaled_fit = fit_logged(7 * popularity, list_counts, method=method)
    assert rescaled_fit.gamma == pytest.approx(
        fit_logged(popularity, list_counts, method=method).gamma, abs=1e-7
    )


def test_the_most_popular_items_are_dropped_and_ties_are_treated_alike():
    popularity = np.array([1.0] * 94 + [2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    list_counts = np.r_[np.arange(94.0), np.full(6, 50.0)]
    gamma_fit = fit_logged(popularity, list_counts, drop_top=0.01)
    assert (gamma_fit.n_items, gamma_fit.n_top_dropped) == (99, 1)
    tied_counts = np.array([1.0] * 50 + [2.0] * 50)
    with pytest.warns(IdentificationWarning, match="levels"):
        assert fit_logged(tied_counts, np.full(100, 20.0), drop_top=0.02).n_top_dropped == 0


def test_lists_give_the_same_fit_as_their_counts():
    rng = np.random.default_rng(6)
    lists = np.array([rng.choice(30, size=5, replace=False) for _ in range(200)])
    popularity = np.arange(1.0, 31.0)
    counts = np.bincount(lists.ravel(), minlength=30)
    assert fit_logged(popularity, lists, None).gamma == fit_logged(popularity, counts, 200).gamma


# What a fit warns about -----------------------------------------------------------------------------------


def test_gamma_above_one_warns_that_popularity_would_be_inverted():
    popularity = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert warn_about_fit(1.0, 5, extra_note=None, failure=None) == ()
    with pytest.warns(IdentificationWarning, match=r"2 > 1 implies that true .* \(n_i ∝ n\*_i\^-0.5\)"):
        gamma_fit = fit_logged(popularity, popularity**2, drop_top=0)
    assert "falls as observed popularity rises" in gamma_fit.warnings[0]


def test_lists_of_the_evaluated_recommender_warn_that_gamma_is_not_identified():
    popularity, list_counts = simulate_counts(7)
    with pytest.warns(IdentificationWarning, match="under evaluation") as caught:
        fit_logged(popularity, list_counts, source="evaluated")
    reason = str(caught[0].message).split("\n", 1)[1]
    assert reason.count("\n") == 1
    assert "n* alone does not identify P" in reason


def test_unstated_source_is_a_note_and_not_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gamma_fit = fit_gamma(*simulate_counts(7), N_LISTS)
    assert "pass source='logging-policy'" in gamma_fit.warnings[0]
    assert "pass source='logging-policy'" in repr(gamma_fit)


def test_a_fit_that_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr("ipseval.propensity._count_models.MAX_ITERATIONS", 1)
    with pytest.warns(DataWarning, match="did not converge"):
        gamma_fit = fit_logged(*simulate_counts(8), method="poisson")
    assert "did not converge" in " ".join(gamma_fit.warnings)


def test_counts_that_statsmodels_rejects_raise_a_plain_error(monkeypatch):
    def refuse(*_, **__):
        raise ValueError(100 * "x")

    monkeypatch.setattr(GLM, "fit", refuse)
    with pytest.raises(InputError, match=r"admit no fit of γ by poisson \(x{80}\)\.$"):
        fit_logged(*simulate_counts(8), method="poisson")


# Intervals ------------------------------------------------------------------------------------------------


def draw_lists(seed: int = 0, n_lists: int = 60, k: int = 10, n_items: int = 200, gamma: float = 0.8):
    rng = np.random.default_rng(seed)
    popularity = np.floor((1 - rng.random(n_items)) ** -1.0).clip(1, 200)
    item_effect = rng.standard_normal(n_items)
    keys = gamma * np.log(popularity) + item_effect + rng.gumbel(size=(n_lists, n_items))
    return popularity, np.argpartition(-keys, k, axis=1)[:, :k]


@pytest.mark.parametrize("method", METHODS)
def test_bootstrap_replicate_equals_the_fit_of_the_resampled_lists(method):
    popularity, lists = draw_lists(1)
    gamma_fit = fit_logged(popularity, lists, None, method).bootstrap(3, rng=5)
    n_lists = lists.shape[0]
    times = np.random.default_rng(5).multinomial(n_lists, np.full(n_lists, 1 / n_lists), size=3)
    for replicate, list_weights in zip(gamma_fit.replicates, times, strict=True):
        counts = np.bincount(np.repeat(lists, list_weights, axis=0).ravel(), minlength=popularity.size)
        if method == "negative-binomial":  # at the dispersion of the fit
            family = families.NegativeBinomial(alpha=gamma_fit.dispersion)
            is_used = popularity <= np.sort(popularity)[-2]  # 0.5 % of 200 items are 1
            x = add_constant(np.log(popularity[is_used]))
            slope = GLM(counts[is_used], x, family=family).fit().params[1]
        else:
            slope = fit_logged(popularity, counts, n_lists, method).gamma
        assert replicate == pytest.approx(slope, abs=1e-6)


def test_a_bootstrap_is_reproducible_and_its_interval_has_its_percentiles():
    gamma_fit = fit_logged(*draw_lists(2), None)
    first = gamma_fit.bootstrap(39, rng=1)
    second = gamma_fit.bootstrap(39, rng=1)
    assert np.array_equal(first.replicates, second.replicates)
    assert gamma_fit.replicates is None
    assert "over 39 resamples" in repr(first)
    low, high = first.conf_int(0.9)
    assert (high - low) / 2 == pytest.approx(1.6448536269514722 * first.standard_error)
    assert first.warnings == ()
    assert gamma_fit.bootstrap(66, rng=1).replicates.size == 66
    assert first.conf_int(0.5, kind="bootstrap") == pytest.approx(np.quantile(first.replicates, [0.25, 0.75]))


def test_resamples_that_do_not_converge_are_left_out_and_reported(monkeypatch):
    gamma_fit = fit_logged(*draw_lists(2), None, "poisson")
    monkeypatch.setattr("ipseval.propensity._count_models.MAX_ITERATIONS", 1)
    resampled_fit = gamma_fit.bootstrap(3, rng=1)
    assert np.isnan(resampled_fit.replicates).all()
    assert resampled_fit.warnings == ("3 of 3 bootstrap refits did not converge and are left out.",)


def test_a_resample_without_recommendations_has_no_slope_and_does_not_change_the_remaining_slopes():
    x = np.log([1.0, 2, 4])
    size = np.array([2.0, 1, 1])
    totals = np.array([[6.0, 6, 12], [0, 0, 0], [4, 8, 16]])  # 3, 6, 12 an item; none; 2, 8, 16
    slopes = refit_levels(x, totals, size, np.array([0.0, 1.0]), dispersion=0.0, n_lists=None)
    expected = GLM(totals[2], add_constant(x), family=families.Poisson(), offset=np.log(size)).fit()
    assert slopes == pytest.approx([1, np.nan, expected.params[1]], nan_ok=True)


def test_lists_without_dispersion_have_the_same_bootstrap_as_poisson_counts():
    lists = np.array([[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]])  # every item in two lists
    binomial_fit, poisson_fit = (
        fit_logged(range(1, 6), lists, None, method, drop_top=0) for method in METHODS[:2]
    )
    assert binomial_fit.dispersion == 0
    assert binomial_fit.bootstrap(5, rng=0).replicates == pytest.approx(
        poisson_fit.bootstrap(5, rng=0).replicates
    )


def test_a_fit_prints_its_exclusions_its_resamples_and_its_scale():
    gamma_fit = fit_logged(*simulate_counts(1), method="poisson")
    numbers = {"gamma": 0.5, "standard_error": 0.1, "n_items": 1234, "n_levels": 56, "warnings": ("a\nb",)}
    plain = replace(gamma_fit, **numbers, n_top_dropped=0)
    lines = [
        "GammaFit (poisson): gamma = 0.500 ± 0.100 (95% 0.304 to 0.696), eta = 0.750",
        "  1,234 items at 56 levels of n*",
        "  ! a",
        "    b",
    ]
    assert repr(plain).splitlines() == lines
    exclusions = {"n_unseen": 1, "n_top_dropped": 2, "n_rare_dropped": 3000}
    full_fit = replace(plain, **exclusions, scale=0.25, replicates=np.linspace(0, 1, 1001), warnings=())
    assert repr(full_fit).splitlines()[1:] == [
        "  1,234 items at 56 levels of n*; left out: n* = 0: 1, most popular: 2, rare: 3,000",
        "  over 1,001 resamples of the lists: 0.025 to 0.975",
        "  scale kappa = 0.25",
    ]


def test_intervals_reject_invalid_requests():
    popularity, list_counts = simulate_counts(9)
    gamma_fit = fit_logged(popularity, list_counts)
    with pytest.raises(InputError, match="no bootstrap replicates yet"):
        gamma_fit.conf_int(kind="bootstrap")
    with pytest.raises(InputError, match="needs the lists"):
        gamma_fit.bootstrap(10)
    with pytest.raises(InputError, match=r"confidence_level must be in \(0, 1\)"):
        gamma_fit.conf_int(95)


def test_the_frequency_of_each_popularity_has_the_curve_of_the_fit():
    counts = [0, 1, 1, 2, 4, 8]
    list_counts = [0, 2, 4, 5, 7, 9]
    for method in ("poisson", "cloglog"):
        with pytest.warns(IdentificationWarning, match="4 levels"):
            gamma_fit = fit_gamma(counts, list_counts, 50, method, drop_top=0, source="logging-policy")
        frame = gamma_fit.frequency(counts, list_counts, 50)
        assert frame["popularity"].tolist() == [1, 2, 4, 8]
        assert frame["frequency"].tolist() == [3, 5, 7, 9]
        assert frame["n_items"].tolist() == [2, 1, 1, 1]
        rate = np.exp(gamma_fit.slope[0]) * np.array([1, 2, 4, 8.0]) ** gamma_fit.gamma
        expected = rate if method == "poisson" else 50 * (1 - np.exp(-rate))
        assert frame["fitted"].to_numpy() == pytest.approx(expected)


def test_lists_with_one_item_only_are_refused():
    with pytest.raises(InputError, match="at least two different items with n\\* > 0; they contain one"):
        fit_gamma([1, 2, 4, 8, 16], [0, 0, 0, 0, 30], 30, drop_top=0)


def test_one_positive_exposure_is_refused():
    with pytest.raises(InputError, match="at least two exposures must be positive; 1 of 500 is"):
        fit_gamma_from_exposure([1, 2, 4, 8, 16], [100] * 5, [0, 0, 0, 1, 0])


@pytest.mark.parametrize("method", ["negative-binomial", "poisson", "cloglog"])
def test_lists_of_the_most_popular_items_alone_are_flagged_or_refused_with_the_reason(method):
    popularity = np.repeat([1, 2, 3, 5, 8, 13, 21, 34], 5)
    counts = np.where(popularity >= 21, 100, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            texts = list(fit_gamma(popularity, counts, 100, method, drop_top=0).warnings)
        except InputError as error:
            texts = [str(error)]
    assert any("separation: the lists contain all items with n* ≥ 21 and no other" in text for text in texts)
    assert not any("deviance" in str(warning.message) for warning in caught)
