"""The whole pipeline against plain loops: ties, users without positives, unseen items, −inf, large k."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from tests.golden import oracle
from tests.worlds import small_world

METRICS = [
    ("auc", None),
    ("atop", None),
    ("recall", 2),
    ("recall", 50),
    ("precision", 3),
    ("dcg", None),
    ("dcg", 2),
    ("mean_dcg", None),
    ("mean_dcg", 3),
    ("rbp", None),
    ("ap", None),
    ("ap", 2),
    ("ndcg", None),
    ("ndcg", 3),
    ("hit", 2),
    ("rr", None),
    ("rr", 2),
]
ESTIMATORS = ["aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled"]


def label(name: str, k: int | None) -> str:
    return name + ("(0.8)" if name == "rbp" else "") + ("" if k is None else f"@{k}")


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), infinite=st.booleans())
def test_every_metric_and_estimator_agrees_with_plain_loops(seed: int, infinite: bool):
    world = small_world(seed, infinite=infinite)
    result = ipseval.evaluate(
        {"model": world.scores},
        world.split,
        propensity=ipseval.KnownPropensity(item=world.propensity, is_probability=False),
        metrics=[label(*metric) for metric in METRICS],
        estimators=ESTIMATORS,
    )
    users = world.users()
    for name, k in METRICS:
        for estimator in ESTIMATORS:
            expected = oracle.evaluate(name, k, users, estimator)
            got = result.estimate("model", label(name, k), estimator).value
            assert got == pytest.approx(expected, abs=1e-12, nan_ok=True), (name, k, estimator)


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_ips_agrees_with_the_multilinear_extension_written_out_over_all_subsets(seed: int):
    world = small_world(seed)
    users = world.users()
    # s_u between the observed number and one below the candidates, so that every form is defined.
    if any(max(len(user.weights), 1) >= len(user.scores) for user in users):
        return
    relevant = [max(len(user.weights), 1) for user in users]
    result = ipseval.evaluate(
        {"model": world.scores},
        world.split,
        propensity=ipseval.KnownPropensity(item=world.propensity),
        metrics=[label(*metric) for metric in METRICS],
        estimators=["ips"],
        n_relevant=relevant,
    )
    for name, k in METRICS:
        if name == "precision" and k > world.split.n_items:
            continue
        expected = oracle.ips(name, k, users, relevant)
        got = result.estimate("model", label(name, k), "ips").value
        assert got == pytest.approx(expected, abs=1e-11, rel=1e-11), (name, k)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_items_unseen_in_training_leave_every_estimator_and_are_counted():
    world = small_world(3)
    propensity = ipseval.PowerLawPropensity(gamma=0.5).fit(world.split.train)
    unseen = np.isnan(propensity.item[world.split.test.item])
    assert unseen.any()
    result = ipseval.evaluate(
        {"model": world.scores}, world.split, propensity=propensity, metrics=["recall@2"]
    )
    users = world.users()
    for user in users:
        user.weights = {
            i: 1 / float(propensity.item[i]) for i in user.weights if not np.isnan(propensity.item[i])
        }
    for estimator in ("aoa", "snips", "snips-global"):
        expected = oracle.evaluate("recall", 2, users, estimator)
        assert result.estimate("model", "recall@2", estimator).value == pytest.approx(expected, abs=1e-12)
    assert (result.frame["n_positives"] == (~unseen).sum()).all()
    assert result.frame["note"].str.contains(f"{unseen.sum()} positives without a propensity").all()
