"""Decompositions: the identity by hand, in random worlds, and what they say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.conftest import examples
from tests.worlds import random_world

pytestmark = pytest.mark.filterwarnings("ignore:the median user has")


def by_hand(metrics=("recall@1",)):
    """Item 0 is rare, 1 popular (P = 1/4 and 1/2); one positive per user; a hits the rare, b the popular."""
    test = pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 1]})
    train = pd.DataFrame({"user": [0, 1, 2], "item": [2, 2, 2]})
    split = ipseval.Split.from_frames(train, test, users=range(3), items=range(3))
    a, b = np.array([[9.0, 1.0, 0.0]] * 3), np.array([[1.0, 9.0, 0.0]] * 3)
    return ipseval.evaluate(
        {"a": a, "b": b},
        split,
        propensity=ipseval.KnownPropensity(item=[0.25, 0.5, 0.5]),
        metrics=list(metrics),
        low_ess="ignore",
    )


KIND = ipseval.evaluation.segments.item_groups(["rare", "popular", "popular"], name="kind")


def test_shares_values_and_terms_by_hand():
    decomposition = by_hand().decomposition(by=KIND)
    # Weights 4, 2, 2: rare has 1/3 of the positives and half of the weight.
    frame = decomposition.frame.set_index(["model", "group"])
    assert frame.loc[("a", "rare"), ["share", "share_weighted", "value"]].tolist() == [1 / 3, 0.5, 1.0]
    # a: 1/3 plain, 1/2 weighted; moved (1/2 − 1/3)(1 − 1/3) + (1/2 − 2/3)(0 − 1/3) = 1/6.
    totals = decomposition.totals.set_index("model")
    expected = [1 / 3, 1 / 2, 1 / 6, 1 / 6, 0.0]
    assert totals.loc["a"].tolist() == pytest.approx(expected)
    assert frame.loc["a", "moved"].to_dict() == pytest.approx({"rare": 1 / 9, "popular": 1 / 18})
    # b leads by 1/3 with equal weights: 2/3 in popular against 1/3 in rare; weighted they are even.
    rows = decomposition.tables(digits=1).parts[0].rows
    assert [[cell.text for cell in line] for line in rows] == [
        ["popular", "66.7%", "50.0%", "0.000", "0.000", "1.000", "1.000"],
        ["rare", "33.3%", "50.0%", "1.000", "1.000", "0.000", "0.000"],
        ["all", "100.0%", "100.0%", "0.333", "0.500", "0.667", "0.500"],
    ]
    text = repr(decomposition)
    assert "By AOA, b exceeds a by 0.3333: it gains 0.6667 in popular and loses 0.3333 in rare." in text
    assert "By SNIPS, a and b have the same value." in text
    assert "The share of weight rises most in rare: 33.3% by AOA and 50.0% by SNIPS." in text


def check(evaluation, found, plain="aoa", weighted="snips-global", atol=1e-12):
    """The terms sum to the difference of the estimates, and the shares to each of the two."""
    value = evaluation.frame.set_index(["metric", "estimator", "model"])["estimate"].sort_index()
    plain, weighted = value[found.metric, plain], value[found.metric, weighted]
    totals = found.totals.set_index("model")
    for model in found.models:
        gap = weighted[model] - plain[model]
        assert totals.loc[model, "moved"] + totals.loc[model, "within"] == pytest.approx(gap, abs=atol)
        assert totals.loc[model, "difference"] == pytest.approx(gap, abs=atol)
    for values, sums in ((plain, totals["plain"]), (weighted, totals["weighted"])):
        assert sums.to_dict() == pytest.approx(values.to_dict(), abs=atol)


@cache
def in_a_random_world(seed):
    world = random_world(seed, n_users=50, n_items=40)
    rng = np.random.default_rng(seed)
    return ipseval.evaluate(
        {"a": world.scores, "b": rng.normal(size=world.scores.shape)},
        world.split,
        propensity=ipseval.KnownPropensity(item=world.propensity),
        metrics=["ndcg@5", "recall@5", "dcg@5"],
        estimators=["aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled"],
        low_ess="ignore",
    )


@pytest.mark.parametrize("seed", range(examples(10)))
@pytest.mark.parametrize(
    ("weighted", "plain"), [("snips-global", "aoa"), ("snips", "aoa"), ("snips-pooled", "aoa-pooled")]
)
def test_the_terms_sum_to_the_difference_in_random_worlds(seed, weighted, plain):
    evaluation = in_a_random_world(seed)
    for metric in evaluation.metrics:
        by = "activity:3" if metric == "recall@5" else "popularity:7"
        check(evaluation, evaluation.decomposition(metric, by=by, weighted=weighted), plain, weighted)


def test_a_group_without_positives_adds_nothing_and_is_said_to_have_none():
    groups = ipseval.evaluation.segments.item_groups(["rare", "popular", "never"], name="kind")
    decomposition = by_hand().decomposition(by=groups)
    row = decomposition.frame.set_index(["model", "group"]).loc[("a", "never")]
    assert np.isnan(row["value"])
    assert (row["moved"], row["within"]) == (0, 0)
    several = replace(decomposition, labels=tuple("abcdef"))
    assert several._name_groups(np.array([True, False, True, True, False, True])) == "a, c to d, f"
    assert several._name_groups(np.array([True, True, True, False, True, False])) == "a to c, e"
    assert "none" in repr(decomposition)


def test_most_of_a_lead_is_named_or_what_is_gained_and_lost():
    decomposition = replace(by_hand().decomposition(by=KIND), labels=tuple("abcd"))

    def said(*parts):
        return decomposition._describe_lead(0, 1, "AOA", np.array(parts), 4)

    assert said(0.125, 0.375, 0, 0) == "By AOA, a exceeds b by 0.5000: 75% of the difference is in b."
    assert said(0.25, 0.25, 0, 0) == "By AOA, a exceeds b by 0.5000: 50% of the difference is in a."
    assert (
        said(-0.125, -0.125, -0.125, -0.125)
        == "By AOA, b exceeds a by 0.5000: 50% of the difference is in a to b."
    )
    assert (
        said(0.5, 0, -0.25, 0) == "By AOA, a exceeds b by 0.2500: it gains 0.5000 in a and loses 0.2500 in c."
    )
    assert said(0, 0, 0, 0) == "By AOA, a and b have the same value."
    assert replace(decomposition, share_weighted=decomposition.share)._describe_weights() == []


def test_it_is_drawn_and_its_questions_are_checked():
    evaluation = by_hand(("recall@1", "hit@1"))
    decomposition = evaluation.decomposition(by=KIND)
    ax = decomposition.plot()
    bars = [patch.get_width() / 100 for patch in ax.patches]
    assert bars == pytest.approx([*decomposition.share, *decomposition.share_weighted])
    assert len(ax.figure.axes) == 1
    with pytest.raises(ipseval.InputError, match=r"hit@1 by aoa is not a sum over positives.*recall@k"):
        evaluation.decomposition("hit@1", by=KIND)
    with pytest.raises(ipseval.InputError, match="metric"):
        evaluation.decomposition("recall@2", by=KIND)
    plain = ipseval.evaluate_ranks({"a": evaluation.samples["a"].ranked}, metrics=["recall@1"])
    with pytest.raises(ipseval.InputError, match=r"has no weights; evaluate with propensity="):
        plain.decomposition(by=KIND)
    segments = evaluation.by(KIND)
    counts = segments.frame.groupby("group")["n_users"].unique()
    assert {group: users.tolist() for group, users in counts.items()} == {
        "popular": [2],
        "rare": [1],
    }
    text = f"recall@1, {segments.estimators[-1]}, intervals for all groups at once"
    assert segments.plot().get_xlabel() == text
    drawn = segments.plot("hit@1", "aoa")
    assert [line.get_label() for line in drawn.containers] == ["a", "b"]
    assert drawn.get_xlabel().startswith("hit@1, aoa")
