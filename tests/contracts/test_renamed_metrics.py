"""The contract of metrics: a copy under another label, passed as a user's own, gives the same rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.metrics import METRICS
from tests.contracts.test_estimators import TABLES, small_study
from tests.worlds import random_world

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

COPY = "mine"
LABELS = [name if made.takes_cutoff == "none" else f"{name}@5" for name, made in METRICS.items()]
ESTIMATORS = ("aoa", "aoa-pooled", "ips", "snips", "snips-global", "snips-pooled", "snips-shrunk(0.5)")
OPTIONS = {"propensity": ipseval.PowerLawPropensity(gamma=0.5, scale="max"), "n_relevant": 20}


def pair(label):
    one = ipseval.metric(label)
    return replace(one, label=COPY), one


@cache
def evaluated(label, copied):
    world = random_world(4)
    return ipseval.evaluate(
        {"a": world.scores, "b": np.roll(world.scores, 1, axis=1)},
        world.split,
        metrics=[pair(label)[0 if copied else 1]],
        estimators=ESTIMATORS,
        **OPTIONS,
    )


def assert_same(found: pd.DataFrame, expected: pd.DataFrame, label: str) -> None:
    """Assert that two tables are equal once the copy's label is read as the original's."""
    name = ipseval.metric(label).label
    texts = {column: "str" for column in expected if expected[column].map(type).eq(str).any()}
    expected = expected.assign(**{one: expected[one].map(lambda x: _renamed(x, name)) for one in texts})
    found = found.assign(**{one: found[one].map(lambda x: _renamed(x, name)) for one in texts})
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), expected.reset_index(drop=True), check_exact=True
    )


def _renamed(text, name):
    return text.replace(name, COPY) if isinstance(text, str) else text


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("label", LABELS)
def test_a_copy_of_a_metric_has_the_rows_of_the_original(label, table):
    mine, original = (TABLES[table](evaluated(label, copied)) for copied in (True, False))
    assert len(original)
    assert_same(mine, original, label)


@pytest.mark.parametrize("label", [one for one in LABELS if ipseval.metric(one).kind == "mean"])
def test_a_copy_is_validated_as_the_original(label):
    study, rng = small_study(), np.random.default_rng(1)
    scores = {name: rng.normal(size=(40, 25)) for name in ("a", "b")}
    mine, original = (
        ipseval.validate(
            {name: (lambda train, x=x: x) for name, x in scores.items()},
            study,
            propensities={"popularity": ipseval.PowerLawPropensity(gamma=0.0)},
            metrics=[each],
            estimators=["snips-global", "snips-pooled"],
            n_resamples=20,
            rng=0,
        ).frame
        for each in pair(label)
    )
    assert_same(mine, original, label)


@pytest.mark.parametrize("label", LABELS)
def test_dask_takes_a_copy_as_it_takes_the_original(label):
    dd = pytest.importorskip("dask.dataframe")
    world = random_world(4)
    frames = [
        pd.DataFrame({"user": log.user_ids[log.user], "item": log.item_ids[log.item]})
        for log in (world.split.train, world.split.test)
    ]
    rng = np.random.default_rng(0)
    users, items = world.split.user_ids, world.split.item_ids
    factors = {"m": (rng.normal(size=(users.size, 3)), rng.normal(size=(items.size, 3)))}
    mine, original = (
        ipseval.clusters.evaluate_dask(
            factors,
            *(dd.from_pandas(frame, npartitions=2) for frame in frames),
            users=users,
            items=items,
            metrics=[each],
            estimators=["aoa", "snips-global", "snips-pooled"],
            **OPTIONS,
        ).frame
        for each in pair(label)
    )
    assert_same(mine, original, label)


def _single_target(label):
    try:
        ipseval.expected_sampled([1], 10, 3, label)
    except ipseval.errors.InputError:
        return False
    return True


@pytest.mark.parametrize("label", [one for one in LABELS if _single_target(one)])
def test_sampled_metrics_are_corrected_for_a_copy_as_for_the_original(label):
    mine, original = pair(label)
    ranks = np.array([1, 1, 2, 4, 9, 3, 1, 6])
    assert np.array_equal(
        ipseval.expected_sampled(ranks, 100, 20, mine), ipseval.expected_sampled(ranks, 100, 20, original)
    )
    found, expected = (
        ipseval.correct_sampled(ranks, 100, 20, metric=each, method="bv") for each in (mine, original)
    )
    assert (found.estimate, found.standard_error) == (expected.estimate, expected.standard_error)
