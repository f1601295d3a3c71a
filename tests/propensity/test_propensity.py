"""Propensity values: clipping, the held-out propensity, and the options of the power law."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipseval
from ipseval.data import Interactions
from ipseval.errors import IdentificationWarning, PropensityError
from ipseval.propensity import PowerLawPropensity, Propensity, fit_gamma_from_exposure

KNOWN = Propensity(np.array([0.1, 0.2, 0.5]), True, "known per item", 3)
PAIR = Propensity(None, True, "known", 3, pair=np.array([0.1, 0.5]), pair_key=np.array([1, 3]))
ZERO = np.zeros(3, dtype=np.int64)
ITEMS = np.arange(3)


def compute_cut_share(propensity: Propensity, user, item) -> float:
    """Return the share of the weight that clipping cut."""
    removed_weight, total_weight = propensity.cut_weight(user, item)
    return removed_weight / total_weight


def test_the_cut_share_has_its_hand_computed_value():
    # Weights 10, 5, 2; a floor of .25 makes them 4, 4, 2: 7 of 17 are cut, whatever was clipped before.
    twice = KNOWN.clip(floor=0.15).clip(floor=0.25)
    assert twice.unclipped_propensity is KNOWN
    for clipped_propensity in (KNOWN.clip(floor=0.25), twice):
        assert compute_cut_share(clipped_propensity, ZERO, ITEMS) == pytest.approx(7 / 17)
    assert compute_cut_share(KNOWN, ZERO, ITEMS) == 0
    # Pairs (0, 1) and (1, 0) have weights 10 and 2, clipped to 4 and 2; (1, 2) has none.
    pairs = np.array([0, 1, 1]), np.array([1, 0, 2])
    assert compute_cut_share(PAIR.clip(floor=0.25), *pairs) == pytest.approx(6 / 12)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"eta": 0.5}, [1, np.sqrt(5), np.sqrt(17)]),
        ({"eta": 0.5, "unseen": "drop"}, [np.nan, 2, 4]),
        ({"eta": 0.5, "unseen": "smooth", "smoothing": 9}, [3, np.sqrt(13), 5]),
        ({"gamma": -1}, [1, 1, 1]),
        ({"gamma": -1, "unseen": "drop"}, [np.nan, 1, 1]),
        ({"gamma": 0, "scale": "max", "unseen": "drop"}, [np.nan, 0.5, 1]),
        ({"gamma": 0, "scale": 0.1, "unseen": "smooth", "smoothing": 9}, [0.3, 0.1 * np.sqrt(13), 0.5]),
    ],
)
def test_a_power_law_has_hand_computed_values_for_every_scale_and_option(options, expected):
    propensity = PowerLawPropensity(**options).fit(popularity=[0, 4, 16])
    assert propensity.item == pytest.approx(expected, nan_ok=True)
    assert propensity.is_probability == ("scale" in options)
    assert propensity.n_capped == 0


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8), st.floats(0.001, 1))
def test_cut_share_is_a_share_and_clipping_never_raises_a_weight(values, floor):
    raw = Propensity(np.array(values), True, "known", len(values))
    user = np.zeros(len(values), dtype=np.int64)
    item = np.arange(len(values))
    clipped_propensity = raw.clip(floor=floor)
    assert np.all(clipped_propensity.item >= raw.item)
    assert 0 <= compute_cut_share(clipped_propensity, user, item) < 1


@pytest.mark.parametrize("rho", [0.2, 0.5])
def test_held_out_propensity_is_a_share_of_the_pairs_that_are_not_in_train(rho):
    # Enumerate one relevant pair: observed with P, then in test with ρ, else in train.
    for p in (0.05, 0.5, 1.0):
        in_test = p * rho
        in_train = p * (1 - rho)
        expected = in_test / (1 - in_train)
        log = Propensity(np.array([p]), True, "known", 1)
        train = Propensity(np.array([in_train]), True, "known", 1)
        assert log.held_out(test_fraction=rho, popularity_source="log").item == pytest.approx([expected])
        assert train.held_out(test_fraction=rho).item == pytest.approx([expected])
    with pytest.raises(PropensityError, match=r"1 of 1 propensities .* exceed"):
        Propensity(np.array([1.001 * (1 - rho)]), True, "known", 1).held_out(test_fraction=rho)


@pytest.mark.parametrize(("gamma", "eta"), [(-1, 0), (0, 0.5), (1, 1), (0.24, 0.62)])
def test_gamma_and_eta_name_the_same_propensity(gamma, eta):
    gamma_propensity = PowerLawPropensity(gamma=gamma).fit(popularity=[1, 2, 7])
    eta_propensity = PowerLawPropensity(eta=eta).fit(popularity=[1, 2, 7])
    assert gamma_propensity.item == pytest.approx(eta_propensity.item)
    assert (gamma_propensity.gamma, gamma_propensity.eta) == pytest.approx(
        (eta_propensity.gamma, eta_propensity.eta)
    )
    # A refit counts n* in a resample of users, here of items 0 and 1, 1, 1; γ stays, or is fitted to them.
    log = Interactions(np.array([0, 0, 1]), np.array([0, 1, 1]), np.arange(2), np.arange(2))
    counts = np.array([1, 2])
    fits = ((PowerLawPropensity(eta=eta), None), (PowerLawPropensity(gamma=0.5), lambda *_: gamma))
    for model, rule in fits:
        again = model.refit(log, rule)(counts)
        assert again.gamma == pytest.approx(gamma)
        assert again.training_popularity.tolist() == [1, 3]


def test_smoothing_is_remembered_and_taken_off_the_popularity():
    smoothed = PowerLawPropensity(gamma=0.0, smoothing=0.1).fit(popularity=[0, 3, 7])
    assert smoothed.smoothing == 0.1
    assert smoothed.training_popularity.tolist() == [0, 3, 7]
    assert smoothed.clip(floor=0.5).training_popularity.tolist() == [0, 3, 7]
    dropped = PowerLawPropensity(gamma=0.0, unseen="drop").fit(popularity=[0, 3, 7])
    assert dropped.smoothing == 0
    assert dropped.training_popularity.tolist() == [0, 3, 7]
    assert KNOWN.training_popularity is None


def test_the_positives_of_a_smoothed_propensity_are_counted_whatever_its_model():
    train = pd.DataFrame({"user": [0, 1], "item": [0, 0]})
    test = pd.DataFrame({"user": [2, 3], "item": [0, 1]})
    split = ipseval.Split.from_frames(train, test)
    propensity = Propensity(
        np.array([0.75, 0.25]), True, "mine", 2, popularity=np.array([3.0, 1.0]), smoothing=1.0
    )
    assert propensity.training_popularity.tolist() == [2, 0]
    evaluation = ipseval.evaluate(
        {"first": np.tile([2.0, 1.0], (4, 1))},
        split,
        propensity=propensity,
        metrics=["hit@1"],
        low_ess="ignore",
    )
    row = evaluation.diagnostics.set_index("estimator").loc["snips-global"]
    # The second item has no training interaction: the weights are 4/3 and 4.
    assert (row["n_smoothed"], row["smoothed_share"]) == (1, pytest.approx(4 / (4 + 4 / 3)))


def test_smoothing_keeps_the_number_of_relevant_pairs_of_a_calibrated_scale():
    popularity = np.array([4, 16, 36, 64, 100])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        gamma_fit = fit_gamma_from_exposure(popularity, [9] * 5, [1, 2, 3, 4, 5], n_users=400)
    numbers = {}
    for unseen in ("drop", "smooth"):
        model = PowerLawPropensity(gamma=gamma_fit, scale="calibrated", unseen=unseen, smoothing=3)
        propensity = model.fit(popularity=popularity)
        assert propensity.n_capped == 0
        numbers[unseen] = (popularity / propensity.item).sum()
    assert numbers["smooth"] == pytest.approx(numbers["drop"], rel=1e-12)
