"""Propensities measured on random exposure, item by item and in strata of popularity."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions, RandomExposure
from ipseval.errors import DataWarning, IdentificationWarning
from ipseval.propensity import DirectPropensity, StratifiedPropensity


def make_data(n_users, popularity, exposures, positives):
    """Return a log with the given n* and an exposure with the given counts per item."""
    user = np.concatenate([np.arange(count) for count in popularity])
    item = np.repeat(np.arange(len(popularity)), popularity)
    frame = pd.DataFrame({"user": user, "item": item})
    log = Interactions.from_frame(frame, users=np.arange(n_users), items=np.arange(len(popularity)))
    shown_user = np.concatenate([np.arange(count) for count in exposures])
    shown_item = np.repeat(np.arange(len(exposures)), exposures)
    positive = np.concatenate(
        [np.arange(count) < good for count, good in zip(exposures, positives, strict=True)]
    )
    return log, RandomExposure(shown_user, shown_item, positive, n_users, len(popularity))


POPULARITY = [0, 8, 18, 32, 50, 72]
EXPOSED = [100, 100, 100, 100, 100, 100]
LIKED = [3, 8, 12, 16, 20, 24]  # q = .08, .12, …: exactly .04·√(n*/2), b = ½


def fit_quietly(model, log):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        return model.fit(log)


@pytest.mark.parametrize("shrinkage", [1e-9, 50.0, "fit"])
def test_direct_equals_the_power_law_where_the_power_law_is_exact(shrinkage):
    # P = n*/(|U| q) with |U| = 500: 8/(500·.08) = .2, 18/(500·.12) = .3, .4, .5, .6; n* = 0 has none.
    log, exposure = make_data(500, POPULARITY, EXPOSED, LIKED)
    propensity = fit_quietly(DirectPropensity(exposure, shrinkage=shrinkage), log)
    assert np.isnan(propensity.item[0])
    assert propensity.item[1:] == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6], abs=1e-6)
    assert propensity.is_probability


def test_shrinkage_mixes_the_item_with_the_line_by_k_exposures():
    positives = [3, 10, 10, 16, 20, 24]  # two items off the line
    log, exposure = make_data(500, POPULARITY, EXPOSED, positives)
    propensity = fit_quietly(DirectPropensity(exposure, shrinkage=100.0), log)
    slope = propensity.fit.slope
    line = np.exp(slope[0] + slope[1] * np.log([8, 18, 32, 50, 72]))
    rate = (np.array(positives[1:]) + 100 * line) / (100 + 100)
    assert propensity.item[1:] == pytest.approx(np.array(POPULARITY[1:]) / (500 * rate))
    assert propensity.model == "direct from random exposure, shrunk with K = 100"
    # By moments, of seen items alone: 1/K = Σ((pos − μ)² − μ)/Σ expo² λ.
    log, exposure = make_data(500, POPULARITY, EXPOSED, [90, 8, 20, 9, 40, 24])
    propensity = fit_quietly(DirectPropensity(exposure), log)
    positives = np.array([8, 20, 9, 40, 24])
    slope = propensity.fit.slope
    line = np.exp(slope[0] + slope[1] * np.log([8, 18, 32, 50, 72]))
    strength = (100**2 * line).sum() / ((positives - 100 * line) ** 2 - 100 * line).sum()
    assert propensity.model == f"direct from random exposure, shrunk with K = {strength:.3g}"
    rate = (positives + strength * line) / (100 + strength)
    assert propensity.item[1:] == pytest.approx(np.array(POPULARITY[1:]) / (500 * rate))


def test_shrinkage_by_moments_recovers_the_spread_of_items():
    rng = np.random.default_rng(0)
    n_items = 30_000
    strength = 60.0
    popularity = np.floor(20 * np.exp(rng.standard_normal(n_items))).clip(1)
    line = 0.02 * popularity**0.5
    rate = rng.gamma(strength * line, 1 / strength)  # mean λ, variance λ/K
    exposures = np.full(n_items, 80.0)
    positives = rng.poisson(exposures * rate).astype(float)
    model = DirectPropensity(RandomExposure(np.array([0]), np.array([0]), np.array([True]), 1, 1))
    # 1/K is a mean over 30,000 items; its relative standard error is about 2 %. Four of them.
    assert model._resolve_shrinkage(exposures, positives, line) == pytest.approx(strength, rel=0.08)
    # Of one exposure in four that is expected, and none: (0 − 1)² − 1, as much as by chance.
    assert model._resolve_shrinkage(np.array([4.0]), np.array([0.0]), np.array([0.25])) == np.inf


def test_direct_values_above_one_are_capped_and_counted_with_a_warning():
    log, exposure = make_data(80, POPULARITY, [60] * 6, [3, 8, 12, 16, 20, 24])
    with pytest.warns(DataWarning, match=r"4 of 6 items came out with a propensity above 1"):
        propensity = DirectPropensity(exposure, shrinkage=1e-9).fit(log)
    # n*/(|U| q) = 8/(80·8/60) = .75, 18/(80·12/60) = 1.125, …: all but the first are above 1.
    assert propensity.item[1:] == pytest.approx([0.75, 1, 1, 1, 1])
    assert propensity.n_capped == 4


def test_strata_have_hand_computed_propensities():
    # Thirds: {8, 18}, {32}, {50, 72}. P = Σn*/(|U| · items · Σpos/Σexpo):
    # 26/(500·2·.10) = .26, 32/(500·.16) = .4, 122/(500·2·.22) = .5545.
    log, exposure = make_data(500, POPULARITY, EXPOSED, LIKED)
    propensity = StratifiedPropensity(exposure, n_strata=3).fit(log)
    expected = [np.nan, 0.26, 0.26, 0.4, 122 / 220, 122 / 220]
    assert propensity.item == pytest.approx(expected, nan_ok=True)
    assert propensity.is_probability
    assert "3 strata" in repr(propensity)


def test_equal_counts_share_a_stratum():
    log, exposure = make_data(50, [5, 5, 5, 5, 9], [20] * 5, [4, 4, 4, 4, 8])
    propensity = StratifiedPropensity(n_strata=4, exposure=exposure).fit(log)
    assert np.unique(propensity.item[:4]).size == 1
