"""The whole pipeline against plain loops: ties, users without positives, unseen items, −inf, large k."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.metrics import METRICS
from tests.conftest import examples
from tests.estimators.labels import OF_RELATIVE_PROPENSITIES
from tests.golden import oracle
from tests.metric_labels import metric_labels
from tests.worlds import small_world

HINT = "if the formula is right, see DENOMINATORS and SUMS in tests/golden/oracle.py"
LABELS = [*metric_labels(2, 3, with_ratios=False), "recall@50", "ap(denominator=s)@2"]


def test_the_sums_of_the_oracle_are_the_metrics_of_kind_sum():
    sums = {name for name, family in METRICS.items() if family.kind == "sum"}
    assert set(oracle.SUMS) == sums, f"SUMS in tests/golden/oracle.py must hold {sorted(sums)}"


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 10_000), infinite=st.booleans())
def test_every_metric_and_estimator_agrees_with_plain_loops(seed: int, infinite: bool):
    world = small_world(seed, infinite=infinite)
    result = ipseval.evaluate(
        {"model": world.scores},
        world.split,
        propensity=ipseval.KnownPropensity(item=world.propensity, is_probability=False),
        metrics=LABELS,
        estimators=OF_RELATIVE_PROPENSITIES,
    )
    users = world.users()
    for label in LABELS:
        for estimator in OF_RELATIVE_PROPENSITIES:
            expected = oracle.evaluate(*oracle.parse_label(label), users, estimator)
            got = result.estimate("model", label, estimator).value
            assert got == pytest.approx(expected, abs=1e-12, nan_ok=True), f"{label}, {estimator}: {HINT}"


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=examples(15))
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
        metrics=LABELS,
        estimators=["ips"],
        n_relevant=relevant,
        low_ess="ignore",
    )
    for label in LABELS:
        expected = oracle.ips(*oracle.parse_label(label), users, relevant)
        got = result.estimate("model", label, "ips").value
        assert got == pytest.approx(expected, abs=1e-11, rel=1e-11), f"{label}: {HINT}"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_items_unseen_in_training_leave_every_estimator_and_are_counted():
    world = small_world(3)
    propensity = ipseval.PowerLawPropensity(gamma=0.5, unseen="drop").fit(world.split.train)
    unseen = np.isnan(propensity.item[world.split.test.item])
    assert unseen.any()
    result = ipseval.evaluate(
        {"model": world.scores},
        world.split,
        propensity=propensity,
        metrics=["recall@2"],
        estimators=["aoa", "snips", "snips-global"],
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


def test_changes_of_the_frame_do_not_change_the_evaluation():
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": [0, 1], "item": [0, 1]}), pd.DataFrame({"user": [0, 1], "item": [1, 0]})
    )
    result = ipseval.evaluate({"a": np.array([[0, 1], [1, 0]])}, split, metrics=["recall@1", "rr"])
    frame, diagnostics = result.frame, result.diagnostics
    frame["estimate"] = 99.0
    diagnostics["ess"] = 99.0
    assert result.frame["estimate"].tolist() == [1.0, 1.0]
    assert result.diagnostics["ess"].tolist() == [2.0]


def test_numbers_of_one_are_in_the_singular():
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": [0], "item": [0]}), pd.DataFrame({"user": [0, 0], "item": [1, 2]})
    )
    result = ipseval.evaluate(
        {"a": np.zeros((1, 3))},
        split,
        propensity=ipseval.KnownPropensity(item=[1.0, 1.0, np.nan]),
        metrics=["recall@1"],
        estimators=["aoa"],
    )
    assert "1 recommender, 1 held-out interaction of 1 user (1 each in the median)" in repr(result.explain())
    assert "excluded:   1 held-out interaction without a propensity" in repr(result.explain())
    note = "1 positive without a propensity left out of all averages, aoa too"
    assert note in result.frame["note"].item()


def test_an_estimate_prints_as_one_line():
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": [0, 1], "item": [0, 1]}), pd.DataFrame({"user": [0, 1], "item": [1, 0]})
    )
    result = ipseval.evaluate({"a": np.array([[0, 1], [1, 0]])}, split, metrics=["recall@1", "auc"])
    assert repr(result.estimate("a", "recall@1", "aoa")) == (
        "Estimate(recall@1 by aoa: 1.0000 ± 0.0000; 2 users, 2 positives; "
        "biased unless all propensities are equal)"
    )
    undefined = result.estimate("a", "auc", "aoa")
    assert repr(undefined).startswith("Estimate(auc by aoa: nan; 0 users, 2 positives")
    assert repr(undefined.sums) == "UserSums(0 users, 2 left out)"
    assert repr(result.samples["a"]) == (
        "Sample(RankedPositives(2 positives of 2 users; all items minus the user's training items); "
        "no propensity)"
    )
