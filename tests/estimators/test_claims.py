"""The guarantee of each estimator, for every kind of metric, scale of P and source of s_u."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import ESTIMATORS, Estimator, card, claim
from tests.inside.estimators import ESTIMATORS_SHOWN, resolve_estimator
from tests.inside.metrics import RATING_METRICS, describe_plug_in, resolve_rating_metric

PLUG_IN = "plug-in: no guarantee (observed positives represent all relevant items)"
EQUAL = "biased unless all propensities are equal"
OBSERVED = "biased unless every relevant item is observed"
RATE = "consistent up to the observation rate, given relative propensities"
PAIRS = "consistent given relative propensities, for the average over all relevant pairs"
WON = "consistent given the propensities and independent observations, for the share of pairs won"
EXPOSED = (
    "nearly consistent given relative propensities, equally exposed users, "
    "and held-out interactions of nearly all users"
)
WITHIN = (
    "not consistent in users: a bias of order 1/(positives per user) stays, even with the true propensities"
)
EITHER = "consistent given P or a right reward model"
S_ESTIMATED = "plug-in: no guarantee (the numbers of relevant items are estimated from the weights)"
# Of a metric of mean type, a sum, pairs, a list and a root, with P as probabilities and s_u known.
METRICS = ("recall@5", "dcg", "auc", "ap", "rmse")
GIVEN = "exactly unbiased given the propensities"
CLAIMS = {
    "aoa": (EQUAL, OBSERVED, OBSERVED, OBSERVED, EQUAL),
    "aoa-pooled": (EQUAL, OBSERVED, OBSERVED, OBSERVED, EQUAL),
    "ips": (
        f"{GIVEN} and the numbers of relevant items",
        GIVEN,
        f"{GIVEN} and the numbers of relevant items",
        f"{GIVEN}, the numbers of relevant items and independent observations",
        "consistent given the propensities, as the root of an unbiased mean",
    ),
    "snips": (WITHIN, PLUG_IN, PLUG_IN, PLUG_IN, WITHIN),
    "snips-global": (EXPOSED, RATE, PLUG_IN, PLUG_IN, EXPOSED),
    "snips-pooled": (PAIRS, RATE, WON, PLUG_IN, PAIRS),
    "snips-shrunk": ("plug-in: no guarantee", PLUG_IN, PLUG_IN, PLUG_IN, "plug-in: no guarantee"),
    "dm": ("consistent given a right reward model",) * 5,
    "dr": (EITHER, "exactly unbiased given P; consistent given a right reward model", EITHER, EITHER, EITHER),
    "snips-impressions": ("consistent given P",) * 5,
}


def metric(label: str):
    return resolve_rating_metric(label) if label in RATING_METRICS else ipseval.metric(label)


def test_the_guarantee_and_the_weighting_of_every_estimator_are_stated_here():
    for name, table in (("CLAIMS", CLAIMS), ("WEIGHTING", WEIGHTING)):
        assert set(table) == set(ESTIMATORS), f"add a row to {name} in tests/estimators/test_claims.py"


@pytest.mark.parametrize("estimator", CLAIMS)
def test_the_guarantee_follows_from_the_estimator_and_the_kind_of_metric(estimator):
    for label, words in zip(METRICS, CLAIMS[estimator], strict=True):
        guarantee = claim(metric(label), estimator, is_probability=True, n_relevant="known")
        assert (label, str(guarantee)) == (label, words)


@pytest.mark.parametrize("known", ["known", "estimated", "absent"])
@pytest.mark.parametrize("scale", [True, False])
def test_only_pairs_need_the_scale_and_only_ips_of_a_mean_or_list_needs_the_relevant_items(scale, known):
    changes = {}
    for estimator, full_guarantees in CLAIMS.items():
        for label, full_guarantee in zip(METRICS, full_guarantees, strict=True):
            guarantee = str(claim(metric(label), estimator, is_probability=scale, n_relevant=known))
            if guarantee != full_guarantee:
                changes[estimator, label] = guarantee
    expected = {}
    if known != "known":
        expected = {("ips", label): S_ESTIMATED for label in ("recall@5", "auc", "ap")}
    if not scale:
        expected["snips-pooled", "auc"] = PLUG_IN
    assert changes == expected


def test_guarantees_assume_an_unknown_scale_and_unknown_relevant_items_by_default():
    for estimator in CLAIMS:
        for label in METRICS:
            weakest = claim(metric(label), estimator, is_probability=False, n_relevant="absent")
            assert claim(metric(label), estimator) == weakest
            assert resolve_estimator(estimator).claim(metric(label)) == weakest


def test_an_estimator_without_a_stated_guarantee_has_none():
    class Mine(Estimator):
        label = "mine"

        def sums(self, sample, metric):
            raise NotImplementedError

        def weight_positives(self, sample):
            raise NotImplementedError

    assert str(claim(metric("recall@5"), Mine())) == "plug-in: no guarantee"
    assert (Mine().notes(one_positive_each=True, n_relevant="known"), Mine().caution(np.ones(3))) == ((), "")
    assert (Mine.weighted, Mine.weighting, Mine.target, Mine.separable) == (True, "1/P", "user", True)
    assert (Mine.counts_all_users, Mine.needs_rewards, Mine.takes_root) == (False, False, False)


WEIGHTING = {
    "aoa": "1 over |S*_u|",
    "aoa-pooled": "1",
    "ips": "1/P over the number of relevant items, where that is given",
    "snips": "1/P over its user's Σ1/P",
    "snips-global": "1/P over |S*_u|",
    "snips-pooled": "1/P",
    "dm": "the reward model over all candidates",
    "dr": "1/P",
    "snips-impressions": "1/P",
    "snips-shrunk": "1/P over its user's shrunk normaliser",
}


OF_REWARDS = ("dm", "dr", "snips-impressions")


@pytest.mark.parametrize("label", WEIGHTING)
def test_the_attributes_of_each_estimator_have_their_known_values(label):
    estimator = resolve_estimator(label)
    assert estimator.weighting == WEIGHTING[label]
    assert estimator.weighted == (label not in ("aoa", "aoa-pooled", "dm"))
    assert estimator.target == ("pooled" if label in ("aoa-pooled", "snips-pooled", *OF_REWARDS) else "user")
    assert estimator.counts_all_users == (label in ("ips", *OF_REWARDS))
    assert estimator.needs_rewards == (label in OF_REWARDS)
    assert estimator.separable == (label not in ("snips-shrunk", *OF_REWARDS))
    assert estimator.takes_root == (label not in ("snips-shrunk", *OF_REWARDS))


@pytest.mark.parametrize(
    ("label", "one_each", "known", "words"),
    [
        ("snips", True, "absent", ["snips is identical to aoa here: every user has one positive"]),
        ("snips", False, "absent", []),
        ("snips-global", True, "absent", []),
        ("aoa", True, "absent", []),
        ("ips", True, "estimated", ["the numbers of relevant items are estimated by Σ1/P of each user"]),
        ("ips", True, "known", []),
        ("ips", True, "absent", []),
        ("dm", False, "absent", ["the interval leaves out the noise of the reward model"]),
    ],
)
def test_notes_of_an_estimator_appear_under_their_condition(label, one_each, known, words):
    notes = resolve_estimator(label).notes(one_positive_each=one_each, n_relevant=known)
    assert list(map(str, notes)) == words


REFUSED = [
    ("ips", "recall@5", False, "known", PropensityError, "ips requires calibrated propensities"),
    ("ips", "recall@5", True, "absent", InputError, "ips of recall@5 divides by the number of relevant"),
    ("dr", "dcg@5", False, "absent", PropensityError, "dr needs the chance of being shown"),
    (
        "snips-impressions",
        "dcg@5",
        False,
        "absent",
        PropensityError,
        "snips-impressions needs the chance of being shown",
    ),
    ("dm", "auc", True, "absent", InputError, "dm adds up contributions of single items, and auc has no"),
    (
        "snips-shrunk",
        "rmse",
        False,
        "absent",
        InputError,
        "snips-shrunk.* has no form for the root",
    ),
]
TAKEN = [
    *[("ips", label, True, "known") for label in METRICS],
    *[("ips", label, True, "estimated") for label in METRICS],
    *[("ips", label, True, "absent") for label in ("dcg@5", "precision@5")],
    *[(name, label, False, "absent") for name in ("aoa", "snips", "snips-global") for label in METRICS],
    *[(name, "dcg@5", True, "absent") for name in ("dr", "snips-impressions")],
    ("dm", "dcg@5", False, "absent"),
]


@pytest.mark.parametrize(("label", "of", "scale", "known", "error", "words"), REFUSED)
def test_an_estimator_refuses_unsupported_metrics_with_the_reason(label, of, scale, known, error, words):
    with pytest.raises(error, match=words):
        resolve_estimator(label).check(metric(of), is_probability=scale, n_relevant=known)


@pytest.mark.parametrize(("label", "of", "scale", "known"), TAKEN)
def test_an_estimator_accepts_supported_metrics(label, of, scale, known):
    resolve_estimator(label).check(metric(of), is_probability=scale, n_relevant=known)


def test_estimates_may_leave_the_range_of_their_metric_where_weights_are_not_normalised():
    names = []
    for name in sorted(ESTIMATORS):
        if resolve_estimator(name).can_exceed_range:
            names.append(name)
    assert names == ["dr", "ips"]


@pytest.mark.parametrize(
    ("label", "cutoff", "ties", "empty"),
    [
        ("rr", "none: the whole ranking", "exact expectation over random tie breaking", "0"),
        ("dcg@7", "k = 7", "exact expectation over random tie breaking", "0"),
        ("auc", "none: the whole ranking", "mean rank, above + tied/2 + 1", "the constant of its formula"),
    ],
)
def test_a_card_has_cutoff_tie_rule_and_guarantees(label, cutoff, ties, empty):
    lines = card(label).split("\n")
    definition = metric(label).definition
    assert lines[:9] == [
        label,
        f"  formula      {definition.formula}",
        f"  denominator  {definition.denominator}",
        f"  discount     {definition.discount}",
        f"  cutoff       {cutoff}",
        f"  ties         {ties} (default)",
        f"  left out     {definition.undefined}; ips counts a user without positives as {empty}",
        f"  with weights {describe_plug_in(metric(label))}",
        "  claims",
    ]
    line_starts = {"aoa": "aoa          ", "ips": "ips          ", "snips-pooled": "snips-pooled "}
    for name, start in line_starts.items():
        guarantee = claim(metric(label), name, is_probability=True, n_relevant="known")
        assert f"    {start}{guarantee}" in lines[9:]
    assert len(lines) == 9 + len(ESTIMATORS_SHOWN)
