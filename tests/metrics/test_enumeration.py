"""The expectation of ips over every observation pattern equals the true value, for every metric."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.estimators import claim
from ipseval.ranking import RankedPositives
from tests.conftest import examples
from tests.golden import oracle
from tests.metric_labels import metric_labels

N_USERS = 3
N_ITEMS = 7
LABELS = [*metric_labels(1, 3, 9, with_ratios=False), "precision(denominator=min)@3"]
LABELS += ["ap(denominator=s)@1", "ap(denominator=s)@3"]

scores = st.lists(st.integers(0, 4), min_size=N_ITEMS, max_size=N_ITEMS)
relevant = st.sets(st.integers(0, N_ITEMS - 1), max_size=3)
chances = st.lists(st.floats(0.15, 1.0), min_size=N_ITEMS, max_size=N_ITEMS)
worlds = st.tuples(
    st.lists(scores, min_size=N_USERS, max_size=N_USERS),
    st.lists(relevant, min_size=N_USERS, max_size=N_USERS).filter(any),
    chances,
)


def ranked_positives(rows: list[tuple[int, list[int], tuple[int, ...]]], n_users: int) -> RankedPositives:
    """One row (user, scores, observed items) per user that has any."""
    positives = [
        (
            user,
            item,
            sum(score > values[item] for score in values),
            sum(score == values[item] for score in values) - 1,
        )
        for user, values, items in rows
        for item in sorted(items)
    ]
    columns = np.array(positives, dtype=np.int64).reshape(-1, 4).T
    return RankedPositives(
        *columns,
        np.full(columns.shape[1], N_ITEMS),
        np.arange(n_users),
        np.arange(N_ITEMS),
        candidates_by_user=np.full(n_users, N_ITEMS),
    )


def evaluate(ranked: RankedPositives, chance: list[float], sizes: list[int]) -> ipseval.Evaluation:
    return ipseval.evaluate_ranks(
        {"m": ranked},
        propensity=ipseval.KnownPropensity(item=chance).fit(ranked),
        metrics=LABELS,
        estimators=["ips"],
        n_relevant=sizes,
        low_ess="ignore",
    )


def patterns(items: set[int], chance: list[float]):
    for size in range(len(items) + 1):
        for seen in itertools.combinations(sorted(items), size):
            yield seen, math.prod(chance[i] if i in seen else 1 - chance[i] for i in items)


def truth(label: str, values: list[list[int]], sets: list[set[int]]) -> float:
    name, k = oracle.parse_label(label)
    users = [
        oracle.User(dict(enumerate(map(float, row))), dict.fromkeys(sorted(items), 1.0))
        for row, items in zip(values, sets, strict=True)
        if items
    ]
    return sum(oracle.user_value(name, k, user, weighted=False) for user in users) / len(users)


def test_every_metric_with_an_unbiased_form_claims_it():
    claims = {
        label: claim(ipseval.metric(label), "ips", is_probability=True, n_relevant="known")
        for label in LABELS
    }
    assert {known_claim.level for known_claim in claims.values()} == {"exactly unbiased"}


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
@settings(max_examples=examples(50))
@given(world=worlds)
def test_the_expectation_of_ips_over_the_patterns_of_each_user_is_the_truth(world):
    """Each (user, pattern) is a user of its own, so that one call evaluates all of them."""
    values, sets, chance = world
    rows = []
    weight = []
    sizes = []
    n_users = sum(bool(items) for items in sets)
    for row, items in zip(values, sets, strict=True):
        if items:
            for seen, probability in patterns(items, chance):
                rows.append((len(rows), row, seen))
                weight.append(probability / n_users)
                sizes.append(len(items))
    result = evaluate(ranked_positives(rows, len(rows)), chance, sizes)
    for label in LABELS:
        per_user = result.per_user("m", label, "ips").to_numpy()
        expectation = float(np.dot(weight, per_user))
        # Rounding is that of the terms: products of 1/P that cancel in the sum.
        scale = 1 + float(np.dot(weight, np.abs(per_user)))
        assert expectation == pytest.approx(truth(label, values, sets), abs=1e-12 * scale), label


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
@settings(max_examples=examples(20))
@given(world=worlds.filter(lambda world: sum(map(len, world[1])) <= 3))
def test_the_expectation_of_ips_over_the_joint_patterns_of_all_users_is_the_truth(world):
    values, sets, chance = world
    total = dict.fromkeys(LABELS, 0.0)
    empty = 0.0
    for joint in itertools.product(*(list(patterns(items, chance)) for items in sets)):
        probability = math.prod(p for _, p in joint)
        rows = [(user, values[user], seen) for user, (seen, _) in enumerate(joint)]
        if not any(seen for seen, _ in joint):
            empty = probability
            continue
        result = evaluate(ranked_positives(rows, N_USERS), chance, [len(items) for items in sets])
        for label in LABELS:
            total[label] += probability * result.estimate("m", label, "ips").value
    # An evaluation needs a positive; without any, every user has the value of a user without observations.
    sizes = np.array([len(items) for items in sets if items], dtype=float)
    unobserved_values = ipseval.metric("auc").unobserved(np.full(sizes.size, float(N_ITEMS)), sizes)
    total["auc"] += empty * float(unobserved_values.mean())
    for label in LABELS:
        assert total[label] == pytest.approx(truth(label, values, sets), abs=1e-11), label
