"""The propensity value: clipping, the held-out propensity; and the policies of the power law."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipseval
from ipseval.data import Exposure, Interactions
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, IdentificationWarning, InputError, IpsevalError, PropensityError
from ipseval.propensity import KnownPropensity, PowerLawPropensity, Propensity

KNOWN = Propensity(np.array([0.1, 0.2, 0.5]), True, "known per item", 3)
PAIR = Propensity(None, True, "known", 3, pair=np.array([0.1, 0.5]), pair_key=np.array([1, 3]))
ZERO = np.zeros(3, dtype=np.int64)
ITEMS = np.arange(3)


def share_of(propensity: Propensity, user, item) -> float:
    """Return the share of the weight that clipping cut."""
    cut, whole = propensity.cut_weight(user, item)
    return cut / whole


def test_cut_share_is_the_lost_weight_worked_by_hand():
    # Weights 10, 5, 2; a floor of .25 makes them 4, 4, 2: 7 of 17 are cut.
    assert share_of(KNOWN.clip(floor=0.25), ZERO, ITEMS) == pytest.approx(7 / 17)
    assert share_of(KNOWN, ZERO, ITEMS) == 0


def test_cut_share_of_pairs_leaves_out_those_without_a_propensity():
    # Pairs (0, 1) and (1, 0) have weights 10 and 2, clipped to 4 and 2; (1, 2) has none.
    clipped = PAIR.clip(floor=0.25)
    assert share_of(clipped, np.array([0, 1, 1]), np.array([1, 0, 2])) == pytest.approx(6 / 12)


def test_clipping_twice_still_compares_with_the_original():
    twice = KNOWN.clip(floor=0.15).clip(floor=0.25)
    assert twice.unclipped is KNOWN
    assert share_of(twice, ZERO, ITEMS) == pytest.approx(7 / 17)


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8), st.floats(0.001, 1))
def test_cut_share_is_a_share_and_clipping_never_raises_a_weight(values, floor):
    raw = Propensity(np.array(values), True, "known", len(values))
    user, item = np.zeros(len(values), dtype=np.int64), np.arange(len(values))
    clipped = raw.clip(floor=floor)
    assert np.all(clipped.item >= raw.item)
    assert 0 <= share_of(clipped, user, item) < 1


@pytest.mark.parametrize("rho", [0.2, 0.5])
def test_held_out_propensity_is_the_share_of_what_is_not_in_train(rho):
    # Enumerate one relevant pair: observed with P, then in test with ρ, else in train.
    for p in (0.05, 0.5, 1.0):
        in_test, in_train = p * rho, p * (1 - rho)
        expected = in_test / (1 - in_train)
        log = Propensity(np.array([p]), True, "known", 1)
        train = Propensity(np.array([in_train]), True, "known", 1)
        assert log.held_out(test_fraction=rho, counted_on="log").item == pytest.approx([expected])
        assert train.held_out(test_fraction=rho).item == pytest.approx([expected])


def test_held_out_propensity_at_one_half_and_a_fifth_is_a_factor_1_67_above_its_first_order_form():
    held = Propensity(np.array([0.5]), True, "known", 1).held_out(test_fraction=0.2, counted_on="log")
    assert held.item[0] / (0.2 * 0.5) == pytest.approx(1.667, abs=5e-4)


BAD = {
    "held out, scale-free": (
        lambda: Propensity(np.array([2.0]), False, "power law", 1).held_out(test_fraction=0.2),
        r"known up to a factor; a held-out propensity needs the scale",
    ),
    "held out, more than the split allows": (
        lambda: KNOWN.held_out(test_fraction=0.8),
        r"1 of 3 propensities of being in train exceed 1 − ρ = 0.2",
    ),
    "held out, no share": (lambda: KNOWN.held_out(test_fraction=0), r"test_fraction must be in \(0, 1\)"),
    "fit without data": (
        lambda: PowerLawPropensity(gamma="fit"),
        r"needs either exposure=.*n\* alone fits every P",
    ),
    "data without fit": (
        lambda: PowerLawPropensity(gamma=1, recommendations=np.ones((2, 2))),
        r"are read with gamma='fit' only",
    ),
    "fit of counts": (
        lambda: PowerLawPropensity(gamma="fit", recommendations=np.ones((2, 2))).fit(popularity=[1, 2]),
        r"gamma='fit' needs training interactions",
    ),
    "calibrated without exposure": (
        lambda: PowerLawPropensity(gamma=0.5, scale="calibrated"),
        r"scale='calibrated' needs random exposure",
    ),
    "gamma is a bool": (lambda: PowerLawPropensity(gamma=True), r"finite numbers; got True"),
    "unseen items": (
        lambda: PowerLawPropensity(gamma=0, unseen="raise").fit(popularity=[0, 1, 0]),
        r"2 of 3 items have no training interaction.*unseen='smooth' or 'drop'",
    ),
    "scale too large": (
        lambda: PowerLawPropensity(eta=1, scale=0.5).fit(popularity=[1, 4]),
        r"1 of 2 items a propensity above 1; the largest scale .* is 0.25",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_came(case):
    call, text = BAD[case]
    with pytest.raises(IpsevalError, match="(?s)" + text):
        call()


def test_exposure_of_another_universe_is_refused(simple_log):
    exposure = Exposure(np.array([0]), np.array([0]), np.array([True]), 2, 3)
    with pytest.raises(InputError, match="the exposure has 2 users and 3 items, the training log 2 and 4"):
        PowerLawPropensity(gamma="fit", exposure=exposure).fit(simple_log)


def test_unseen_items_follow_the_policy():
    counts = [0, 4, 16]
    drop = PowerLawPropensity(eta=0.5).fit(popularity=counts)
    smooth = PowerLawPropensity(eta=0.5, unseen="smooth", smoothing=9).fit(popularity=counts)
    assert np.array_equal(drop.item, [np.nan, 2, 4], equal_nan=True)
    assert smooth.item == pytest.approx([3, np.sqrt(13), 5])


@pytest.mark.parametrize(("gamma", "eta"), [(-1, 0), (0, 0.5), (1, 1), (0.24, 0.62)])
def test_gamma_and_eta_name_the_same_propensity(gamma, eta):
    one = PowerLawPropensity(gamma=gamma).fit(popularity=[1, 2, 7])
    other = PowerLawPropensity(eta=eta).fit(popularity=[1, 2, 7])
    assert one.item == pytest.approx(other.item)
    assert (one.gamma, one.eta) == pytest.approx((other.gamma, other.eta))


def test_gamma_above_one_warns():
    with pytest.warns(IdentificationWarning, match="gamma = 1.5 > 1"):
        PowerLawPropensity(gamma=1.5).fit(popularity=[1, 2])


# ips needs the scale --------------------------------------------------------------------------------------

SPLIT = Split.from_frames(
    pd.DataFrame({"user": [0, 0, 1, 2], "item": [0, 1, 1, 1]}),
    pd.DataFrame({"user": [0, 1, 2], "item": [2, 0, 0]}),
    items=[0, 1, 2, 3],
)
SCORES = np.arange(12.0).reshape(3, 4)


def ips(propensity):
    return ipseval.evaluate(
        {"model": SCORES},
        SPLIT,
        propensity=propensity,
        metrics=["recall@2"],
        estimators=["ips"],
        n_relevant=2,
        on_low_ess="ignore",
    ).frame


def test_ips_refuses_a_scale_free_propensity_and_names_the_ways_out():
    free = PowerLawPropensity(gamma=0, unseen="smooth").fit(SPLIT.train)
    with pytest.raises(PropensityError, match=r"up to a factor.*scale='max'.*number.*calibrate.*snips"):
        ips(free)


def test_ips_runs_with_scale_max_a_number_or_a_calibrated_one():
    shown = pd.DataFrame(
        {"user": [0, 1, 2, 0, 1, 2], "item": [3, 2, 3, 1, 0, 1], "positive": [0, 1, 0, 1, 1, 0]}
    )
    exposure = Exposure.from_frame(shown, SPLIT)
    with pytest.warns(IdentificationWarning), pytest.warns(DataWarning, match="2 of 4 items"):
        calibrated = PowerLawPropensity(
            gamma="fit", exposure=exposure, scale="calibrated", unseen="smooth"
        ).fit(SPLIT.train)
    for propensity in (
        PowerLawPropensity(gamma=0, scale="max", unseen="smooth").fit(SPLIT.train),
        PowerLawPropensity(gamma=0, scale=0.3, unseen="smooth").fit(SPLIT.train),
        calibrated,
        KnownPropensity(item=[0.5, 0.5, 0.5, 0.5]).fit(SPLIT),
    ):
        assert propensity.is_probability
        assert np.isfinite(ips(propensity).estimate).all()


def test_published_pair_propensities_are_read_in_the_ids_of_the_log():
    frame = pd.DataFrame({"user": ["b", "a"], "item": [7, 7], "propensity": [0.2, 0.4]})
    log = Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [7, 9]}))
    found = KnownPropensity(pair=frame).fit(log)
    at = found.at(np.array([0, 1, 1]), np.array([0, 0, 1]))
    assert np.array_equal(at, [0.4, 0.2, np.nan], equal_nan=True)
