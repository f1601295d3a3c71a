"""The basis of every propensity: transforms keep it, and combinations have the weakest one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.propensity import (
    DensityRatioPropensity,
    DirectPropensity,
    ExaminationCurve,
    JainPropensity,
    KnownPropensity,
    LoggedPropensity,
    StratifiedPropensity,
)
from ipseval.validation.simulation import World
from tests.inside.propensity import weakest_basis

WORLD = World(n_users=300, n_items=40, mean_relevant=12, gamma=0.0, rng=0)
SPLIT = WORLD.split(rng=1)
# Ten items a user, the popular ones more often.
KEYS = np.log(SPLIT.train.popularity + 0.1) + np.random.default_rng(0).gumbel(size=(300, 40))
LISTS = KEYS.argsort(axis=1)[:, -10:]


@cache
def build_exposure() -> ipseval.data.RandomExposure:
    frame = WORLD.expose(16, rng=2).to_frame()
    frame["positive"] = frame["value"] >= 4
    return ipseval.data.RandomExposure.from_frame(frame, SPLIT)


def build_log() -> ipseval.ImpressionLog:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.argwhere(rng.random((60, 12)) < 0.5), columns=["user", "item"])
    frame["place"] = frame.groupby("user").cumcount() + 1
    frame["clicked"] = rng.random(len(frame)) < 0.5
    return ipseval.ImpressionLog.from_frame(frame.assign(p=0.5), propensity="p", position="place")


@pytest.mark.parametrize(
    ("model", "basis"),
    [
        (ipseval.PowerLawPropensity(gamma=0.0), "assumed"),
        (JainPropensity(), "assumed"),
        (KnownPropensity(item=np.full(40, 0.5)), "assumed"),
        (KnownPropensity(item=np.full(40, 0.5), basis="design"), "design"),
        (KnownPropensity(item=np.full(40, 0.5), user=np.ones(300), basis="fitted"), "fitted"),
        (ipseval.PowerLawPropensity(gamma="fit", exposure=build_exposure()), "exposure"),
        (DirectPropensity(build_exposure()), "exposure"),
        (StratifiedPropensity(n_strata=3, exposure=build_exposure()), "exposure"),
        (DensityRatioPropensity(build_exposure(), SPLIT.test, cross_fit=3, rng=0), "exposure"),
        (ipseval.PowerLawPropensity(gamma="fit", recommendations=LISTS), "fitted"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_propensity_reports_its_basis(model, basis):
    assert model.fit(SPLIT.train).basis == basis


def test_impressions_have_a_fitted_basis_and_logged_propensities_a_logged_or_the_declared_one():
    impressions = build_log()
    assert ipseval.ImpressionPropensity().fit(impressions).basis == "fitted"
    assert LoggedPropensity().fit(impressions).basis == "logged"
    assert LoggedPropensity(basis="design").fit(impressions).basis == "design"
    curve = ExaminationCurve.from_theta(np.linspace(1, 0.5, 12))
    assert LoggedPropensity(examination=curve, basis="design").fit(impressions).basis == "logged"


def test_transforms_keep_the_basis_and_combinations_have_the_weakest():
    power_law = ipseval.PowerLawPropensity(gamma="fit", exposure=build_exposure()).fit(SPLIT.train)
    assert power_law.clip(floor=float(np.nanmin(power_law.item)) * 2).basis == "exposure"
    assert weakest_basis("design", "fitted", "exposure") == "fitted"
    assert weakest_basis("design", "logged", "exposure") == "logged"


def test_pairs_keep_their_impressions_until_their_ids_change():
    pairs = build_log().positives
    split = ipseval.split_random(pairs, rng=0)
    assert split.train.impressions is split.test.impressions is pairs.impressions is not None
    assert pairs.select(np.arange(len(pairs)) < 5).impressions is pairs.impressions
    assert ipseval.data.splits.k_core(pairs, 1).impressions is None
