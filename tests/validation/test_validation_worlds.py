"""Worlds whose propensities are known: what right weights remove, and what the harness shows to be left."""

from functools import partial

import numpy as np
import pytest

from ipseval.propensity import DensityRatioPropensity, KnownPropensity, PowerLawPropensity
from ipseval.ranking import baselines
from ipseval.validation import validate
from ipseval.validation.simulation import World


def in_a_world(selection, n_resamples=200, gammas=(-0.5, 0, 0.5, 1)):
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
    rules = {"item": known.held_out(test_fraction=0.3, counted_on="log")}
    rules |= {f"gamma {g}": PowerLawPropensity(gamma=g, unseen="smooth") for g in gammas}
    if selection:
        rules["ratio"] = DensityRatioPropensity(rng=0)
        rules["pair"] = world.propensity.held_out(test_fraction=0.3, counted_on="log")
    return validate(
        models,
        study,
        propensities=rules,
        metrics=["recall@10", "mean_dcg"],
        estimators=["snips-global", "snips-pooled"],
        test_fraction=0.3,
        n_resamples=n_resamples,
        rng=0,
    )


def by_propensity(result):
    return result.summary.set_index(["propensity", "estimator", "metric"]).sort_index()


@pytest.fixture(scope="module", name="right_world")
def fixture_right_world():
    return by_propensity(in_a_world(selection=0.0))


@pytest.fixture(scope="module", name="wrong_world")
def fixture_wrong_world():
    return by_propensity(in_a_world(selection=2.5))


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


def test_the_factor_is_where_the_bounds_meet_the_reference():
    result = in_a_world(selection=0.0, n_resamples=0, gammas=(0, 1))
    rows = result.frame.query("propensity != 'random-sample'")
    assert (rows["factor"] >= rows["factor_beyond_noise"]).all()
    assert (rows["factor_beyond_noise"] >= 1).all()
    # recall@10 is 0 or 1 for each positive, so Λ follows from the estimate alone: t/(1 − t) = Λ² R/(1 − R).
    recall = rows[rows["metric"] == "recall@10"]
    odds = [recall[name] / (1 - recall[name]) for name in ("reference", "estimate")]
    assert recall["factor"].to_numpy() == pytest.approx(
        np.exp(np.abs(np.log(odds[0] / odds[1])) / 2), rel=1e-9
    )
    assert result.summary["falls_short"].isna().all()  # without resamples nothing says how far it may be
