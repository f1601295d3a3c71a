"""Kinds of propensities (per item, per pair, rank one, function) and their transforms."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import DataWarning, IdentificationWarning
from ipseval.propensity import (
    KnownPropensity,
    PowerLawPropensity,
    fit_gamma_from_exposure,
)

LOG = ipseval.Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}))
USER = np.array([0, 0, 1, 1])
ITEM = np.array([0, 1, 0, 1])
TABLE = np.array([[0.1, 0.2], [0.5, 1.0]])  # a = (.2, 1), p = (.5, 1)


def build_members():
    frame = pd.DataFrame({"user": list("baab"), "item": [2, 2, 1, 1], "propensity": [1, 0.2, 0.1, 0.5]})
    return {
        "pair": KnownPropensity(pair=frame).fit(LOG),
        "rank one": KnownPropensity(user=[0.2, 1.0], item=[0.5, 1.0]).fit(LOG),
        "function": KnownPropensity(function=lambda user, item: TABLE[user, item]).fit(LOG),
    }


@pytest.mark.parametrize("name", ["pair", "rank one", "function"])
def test_members_and_their_transforms_have_equal_values(name):
    member = build_members()[name]
    assert member.for_pairs(USER, ITEM) == pytest.approx(TABLE.ravel())
    assert member.clip(floor=0.3).for_pairs(USER, ITEM) == pytest.approx([0.3, 0.3, 0.5, 1.0])
    # Weights 10, 5, 2, 1 before; 10/3, 10/3, 2, 1 after: (20/3 + 5/3) of 18 are cut.
    assert member.clip(floor=0.3).cut_weight(USER, ITEM) == pytest.approx((25 / 3, 18))
    held_out_values = member.held_out(test_fraction=0.2, popularity_source="log").for_pairs(USER, ITEM)
    assert held_out_values == pytest.approx(0.2 * TABLE.ravel() / (1 - 0.8 * TABLE.ravel()))
    assert repr(member.clip(floor=0.3).steps) == "(clip(floor=0.3),)"
    assert repr(member.clip(floor=1.0).for_pairs(USER, ITEM)) == "array([1., 1., 1., 1.])"


def test_members_print_what_they_are():
    propensities = {
        **build_members(),
        "item": KnownPropensity(item=[2.0, 4.0], is_probability=False).fit(LOG),
    }
    assert {name: repr(propensity) for name, propensity in propensities.items()} == {
        "pair": "Propensity(known per user–item pair; per user–item pair; probability)",
        "rank one": "Propensity(known factors; user factor × item factor; probability)",
        "function": "Propensity(known function; a function; probability)",
        "item": "Propensity(known per item; per item; relative)",
    }
    assert propensities["item"].clip(floor=3.0).item.tolist() == [3, 4]
    assert repr(KnownPropensity(item=[0.5] * 1000)) == "KnownPropensity(1,000 items)"
    factors = KnownPropensity(item=[4.0, 2.0], user=[0.25, 0.25])  # of which only the products are in (0, 1]
    assert repr(factors) == "KnownPropensity(2 items × 2 users)"
    assert factors.fit(LOG).for_pairs(USER, ITEM).tolist() == [1, 0.5, 1, 0.5]
    pair = KnownPropensity(pair=pd.DataFrame({"user": ["a"], "item": [1], "propensity": [0.5]}))
    assert repr(pair) == "KnownPropensity(1 pair)"
    function = KnownPropensity(function=propensities["pair"].for_pairs, is_probability=False)
    assert repr(function) == "KnownPropensity(a function, relative)"


def test_rank_one_over_many_users_and_items_makes_no_table_of_pairs():
    n = 50_000
    rng = np.random.default_rng(1)  # a table of pairs would take 20 GB
    user = np.repeat(rng.choice(n, 2000, replace=False), 2)
    item = rng.choice(n, user.size, replace=False)
    train = pd.DataFrame({"user": user, "item": rng.choice(n, user.size, replace=False)})
    test = pd.DataFrame({"user": user, "item": item})
    ids = np.arange(n)
    split = ipseval.Split.from_frames(train, test, users=ids, items=ids)
    model = KnownPropensity(user=rng.uniform(0.1, 1, n), item=rng.uniform(0.1, 1, n))
    lists = pd.DataFrame({"user": user[::2], "item": item[::2], "rank": 1})
    ranks = {"m": ipseval.rank_positives(lists, split)}
    propensity = model.fit(split)
    frame = ipseval.evaluate_ranks(
        ranks, propensity=propensity, metrics=["recall@1"], estimators=["snips-pooled"], low_ess="ignore"
    ).frame
    first = (split.test.item[:, None] == item[::2]).any(axis=1)
    weight = 1 / propensity.for_pairs(split.test.user, split.test.item)
    assert frame.estimate.item() == pytest.approx(weight[first].sum() / weight.sum())


def test_a_chain_repeats_every_combination_of_steps_at_another_gamma():
    popularity = [0, 1, 2, 2, 5, 9, 40]
    changes = {
        "clip": lambda propensity: propensity.clip(floor=0.2),
        "held_out": lambda propensity: propensity.held_out(test_fraction=0.2, popularity_source="log"),
    }
    for scale, unseen in itertools.product(["max", None], ["drop", "smooth"]):
        for length in range(3):
            for names in itertools.permutations(changes, length):
                if scale is None and "held_out" in names:
                    continue
                propensities = []
                for gamma in (0.0, 0.7):
                    propensity = PowerLawPropensity(gamma=gamma, scale=scale, unseen=unseen).fit(
                        popularity=popularity
                    )
                    for name in names:
                        propensity = changes[name](propensity)
                    propensities.append(propensity)
                chain = propensities[0].gamma_chain()
                chain_values = np.append(chain.for_gamma(0.7)[0], np.nan)[chain.place]
                assert chain_values == pytest.approx(propensities[1].item, rel=1e-12, nan_ok=True), (
                    scale,
                    names,
                )


def test_a_chain_holds_the_largest_propensity_of_a_scale_and_the_cap():
    power_law = PowerLawPropensity(gamma=0.0, scale=0.1, unseen="drop").fit(popularity=[4, 16, 64])
    assert power_law.gamma_chain().for_gamma(0.0)[0] == pytest.approx([0.2, 0.4, 0.8])
    assert power_law.gamma_chain().for_gamma(1.0)[0] == pytest.approx([0.05, 0.2, 0.8])
    assert PowerLawPropensity(eta=1, scale=0.25, unseen="drop").fit(popularity=[1, 4]).item.tolist() == [
        0.25,
        1,
    ]
    gamma_fit = fit_gamma_from_exposure(
        [4, 16, 36, 64, 100], [9] * 5, [1, 2, 3, 4, 5], held_out=[1] * 5, n_users=1
    )
    steep = replace(gamma_fit, gamma=0.0, scale=0.2)
    with pytest.warns(DataWarning, match=r"2 of 4 items .* \(at most 2\)"):
        capped_power_law = PowerLawPropensity(gamma=steep, scale="calibrated", unseen="drop").fit(
            popularity=[4, 25, 49, 100]
        )
    assert capped_power_law.item == pytest.approx([0.4, 1, 1, 1])
    assert PowerLawPropensity(gamma=steep, scale="max", unseen="drop").fit(popularity=[4, 9]).item.max() == 1
    assert repr(capped_power_law.steps) == "(power-law(gamma=0, top=2), cap())"
    p, slope = capped_power_law.gamma_chain().for_gamma(0.0)
    assert (p, slope[2:].tolist()) == (pytest.approx([0.4, 1, 1, 1]), [0, 0])
    assert slope[:1] == pytest.approx(np.log(4 / 100) / 2)


def test_a_chain_computes_its_derivative_by_gamma():
    propensity = PowerLawPropensity(gamma=0.0, scale="max", unseen="drop").fit(popularity=[1, 2, 5, 9, 40])
    propensity = propensity.clip(floor=0.45).held_out(test_fraction=0.2, popularity_source="log")
    chain = propensity.gamma_chain()
    high, low = (np.log(chain.for_gamma(0.5 + shift)[0]) for shift in (1e-6, -1e-6))
    assert chain.for_gamma(0.5)[1] == pytest.approx((high - low) / 2e-6, abs=1e-8)


def test_clipping_before_holding_out_cuts_weights_on_the_held_out_scale():
    first = PowerLawPropensity(gamma=0.0, scale="max", unseen="drop").fit(popularity=[1, 100])
    propensity = first.clip(floor=0.2).held_out(test_fraction=0.5, popularity_source="log")
    # P = .1 and 1, clipped .2 and 1; held out .5P/(1 − .5P): 1/19 and 1, clipped 1/9 and 1.
    assert propensity.cut_weight(np.zeros(2, int), np.arange(2)) == pytest.approx((19 - 9, 19 + 1))


def test_a_warning_names_the_line_of_the_user():
    with pytest.warns(IdentificationWarning, match=r"gamma = 1.5 > 1.*n_i ∝ n\*_i\^-0.25") as caught:
        PowerLawPropensity(gamma=1.5, unseen="drop").fit(popularity=[1, 2])
    assert caught[0].filename == __file__
    with pytest.warns(IdentificationWarning) as caught:
        PowerLawPropensity(
            gamma="fit", recommendations=np.array([[0], [1], [1]]), source="evaluated", unseen="drop"
        ).fit(ipseval.Interactions.from_frame(pd.DataFrame({"user": [0, 1, 2, 0], "item": [0, 1, 1, 2]})))
    assert {warning.filename for warning in caught} == {__file__}
