"""Worlds whose propensities are known: what right weights remove, and what the harness shows to be left."""

from functools import partial

import pytest

from ipseval import baselines
from ipseval.propensity import DensityRatioPropensity, KnownPropensity, PowerLawPropensity
from ipseval.simulation import World
from ipseval.validation import validate


def in_a_world(selection):
    world = World(
        n_users=1500,
        n_items=300,
        mean_relevant=60,
        affinity=3.0,
        max_propensity=0.9,
        gamma=-0.2,
        selection=selection,
        rng=5,
    )
    study = world.study(6, n_per_user=60)
    known = KnownPropensity(item=world.item_propensity).fit(study.biased)
    models = {
        "popularity": baselines.popularity,
        "svd": partial(baselines.pure_svd, n_factors=10),
        "knn": baselines.item_knn,
    }
    rules = {
        "item": known.held_out(test_fraction=0.3, counted_on="log"),
        "ratio": DensityRatioPropensity(rng=0),
    }
    rules |= {f"gamma {g}": PowerLawPropensity(gamma=g, unseen="smooth") for g in (-0.5, 0, 0.5, 1)}
    if selection:
        rules["pair"] = world.propensity.held_out(test_fraction=0.3, counted_on="log")
    result = validate(
        models,
        study,
        propensities=rules,
        metrics=["recall@10", "mean_dcg"],
        estimators=["snips-global", "snips-pooled"],
        test_fraction=0.3,
        n_resamples=200,
        rng=0,
    )
    return result.summary.set_index(["propensity", "estimator", "metric"]).sort_index()


@pytest.fixture(scope="module", name="right_world")
def fixture_right_world():
    return in_a_world(selection=0.0)


@pytest.fixture(scope="module", name="wrong_world")
def fixture_wrong_world():
    return in_a_world(selection=2.5)


@pytest.mark.slow
def test_where_exposure_depends_on_the_item_only_known_item_weights_leave_noise(right_world):
    assert (right_world.loc["item", "reduction"] > 0.95).all()
    assert not right_world.loc["item", "falls_short"].any()


def test_where_exposure_depends_on_user_and_item_the_harness_shows_what_item_weights_leave(wrong_world):
    known = wrong_world.loc["item"]
    assert known["falls_short"].all()
    assert (known["reduction"] < 0.65).all()
    # No exponent of popularity does it either ...
    for gamma in (-0.5, 0, 0.5, 1):
        assert wrong_world.loc[f"gamma {gamma}", "falls_short"].all()
    # ... but the known weights per pair do, and the fitted density ratio takes out most of it.
    assert not wrong_world.loc["pair", "falls_short"].any()
    assert (wrong_world.loc["ratio", "reduction"] > known["reduction"] + 0.2).all()
