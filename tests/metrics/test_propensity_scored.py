"""Propensity-scored precision and nDCG: values by hand, an implementation in plain loops, and what follows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from tests.inside.estimators import resolve_estimator
from tests.worlds import random_world

EVERY_FORM = ("snips", "snips-global", "snips-pooled")


def inverse_propensities(train: list[tuple[int, int]], n_items: int, a: float, b: float) -> list[float]:
    """Return 1/p_l = 1 + C (N_l + B)^(−A) with C = (ln N − 1)(B + 1)^A, in plain Python."""
    n_users = len({user for user, _ in train})
    constant = (math.log(n_users) - 1) * (b + 1) ** a
    values = []
    for item in range(n_items):
        n_item = len({user for user, other_item in train if other_item == item})
        values.append(1 + constant * (n_item + b) ** -a)
    return values


def orders_of(scores: dict[int, int]) -> list[list[int]]:
    """Return every order of the candidates that agrees with their scores."""
    groups = []
    for score in sorted(set(scores.values()), reverse=True):
        groups.append([item for item in scores if scores[item] == score])
    orders = []
    for choice in itertools.product(*(itertools.permutations(group) for group in groups)):
        orders.append([item for group in choice for item in group])
    return orders


def sum_list(
    order: list[int], positives: set[int], weight: list[float], k: int, *, discounted: bool
) -> float:
    """Return Σ y/p over the first k, or Σ (y/p)/log2(1 + r) over Σ_{j ≤ min(k, s)} 1/log2(1 + j)."""
    total = 0.0
    for rank, item in enumerate(order[:k], start=1):
        if item in positives:
            total += weight[item] / (math.log2(1 + rank) if discounted else 1)
    if not discounted:
        return total
    return total / sum(1 / math.log2(1 + j) for j in range(1, min(k, len(positives)) + 1))


def compute_by_loop(
    scores: list[dict[int, int]], positives: list[set[int]], weight: list[float], k: int, *, discounted: bool
) -> float:
    """Return the ratio of sums over users, for the mean over the orders of tied items."""
    numerator = 0.0
    denominator = 0.0
    for user_scores, user_positives in zip(scores, positives, strict=True):
        if not user_positives:
            continue
        orders = orders_of(user_scores)
        for order in orders:
            value = sum_list(order, user_positives, weight, k, discounted=discounted)
            numerator += value / len(orders)
        best = sorted(user_scores, key=lambda item: (item not in user_positives, -weight[item]))
        denominator += sum_list(best, user_positives, weight, k, discounted=discounted)
    return numerator / denominator


def random_case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the state of every pair (0 unobserved, 1 training, 2 test) and scores with ties."""
    n_users = int(rng.integers(3, 7))
    n_items = int(rng.integers(4, 8))
    state = rng.choice(3, size=(n_users, n_items), p=[0.4, 0.3, 0.3])
    state[:, 0] = 1  # every user has a training item, and some user a test item
    state[0, 1] = 2
    return state, rng.integers(0, 4, size=(n_users, n_items))


@pytest.mark.parametrize("n_cases", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_both_metrics_equal_an_implementation_from_the_paper_in_random_cases(n_cases):
    rng = np.random.default_rng(20_160_813)
    for _ in range(n_cases):
        state, scores = random_case(rng)
        n_users, n_items = scores.shape
        a = float(rng.uniform(0.2, 1.0))
        b = float(rng.uniform(0.2, 3.0))
        k = int(rng.integers(1, n_items + 1))
        ids = np.arange(n_users), np.arange(n_items)
        train = ipseval.Interactions(*np.nonzero(state == 1), *ids)
        test = ipseval.Interactions(*np.nonzero(state == 2), *ids)
        split = ipseval.Split(train, test)
        ranked = ipseval.rank_positives(scores.astype(float), split)
        propensity = ipseval.propensity.JainPropensity(a=a, b=b).fit(split.train)

        pairs = [(int(user), int(item)) for user, item in np.argwhere(state == 1)]
        weight = inverse_propensities(pairs, n_items, a, b)
        candidates = []
        positives = []
        for user in range(n_users):
            seen = {item for pair_user, item in pairs if pair_user == user}
            candidates.append({i: int(scores[user, i]) for i in range(n_items) if i not in seen})
            positives.append({item for item in range(n_items) if state[user, item] == 2})

        for name, discounted in (("psp", False), ("psndcg", True)):
            metric = ipseval.metric(f"{name}@{k}")
            weights = 1 / propensity.for_pairs(ranked.user, ranked.item)
            numerator, denominator = metric.ratio_sums(ranked, weights)
            expected = compute_by_loop(candidates, positives, weight, k, discounted=discounted)
            assert numerator.sum() / denominator.sum() == pytest.approx(expected, abs=1e-10)


def evaluate_one(metrics: list[str], top: list[int], inverse: list[float], positives: list[int]):
    """Return the evaluation of one user with a list, by the weights of the items."""
    n_items = len(inverse)
    train = pd.DataFrame({"user": [1], "item": [0]})
    test = pd.DataFrame({"user": np.zeros(len(positives), dtype=int), "item": positives})
    split = ipseval.Split.from_frames(train, test, users=np.arange(2), items=np.arange(n_items))
    scores = np.zeros((2, n_items))
    scores[:, top] = np.arange(len(top), 0, -1)
    known = ipseval.KnownPropensity(item=1 / np.array(inverse))
    return ipseval.evaluate(
        {"model": scores}, split, propensity=known, metrics=metrics, estimators=["snips"], low_ess="ignore"
    )


@pytest.mark.filterwarnings("ignore")  # a single user
def test_the_example_of_the_maintainers_of_pyxclib_has_the_value_that_they_print():
    # https://github.com/kunaldahiya/pyxclib/issues/3: labels 1 … 6 with inverse propensities 4, 5, 6, 1, 2, 3
    # and predictions 4, 5, 6. The list has (1 + 2 + 3)/3 = 2, the best one (6 + 5 + 4)/3 = 5: 2/5 = 40 %.
    result = evaluate_one(["psp@3", "precision@3"], [3, 4, 5], [4, 5, 6, 1, 2, 3], [0, 1, 2, 3, 4, 5])
    assert result.estimate("model", "psp@3", "snips").value == pytest.approx(0.4, abs=1e-15)
    assert result.estimate("model", "precision@3", "snips").value == pytest.approx(0.4, abs=1e-15)


@pytest.mark.filterwarnings("ignore")  # a single user
def test_values_worked_by_hand():
    # Positives 0 (weight 2) and 2 (weight 8) of four items; the list is 1, 0, 2.
    # psp@2: 2 of the best 8 + 2. psndcg@2: 2/log2(3) of 8 + 2/log2(3); the divisors are equal.
    result = evaluate_one(["psp@2", "psndcg@2", "psp@1"], [1, 0, 2], [2, 5, 8, 1], [0, 2])
    discount = 1 / math.log2(3)
    values = result.frame.set_index("metric")["estimate"]
    assert values["psp@2"] == pytest.approx(0.2, abs=1e-15)
    assert values["psndcg@2"] == pytest.approx(2 * discount / (8 + 2 * discount), abs=1e-15)
    assert values["psp@1"] == 0


@pytest.mark.filterwarnings("ignore:the median user has")
@pytest.mark.parametrize("label", ["psp@3", "psndcg@3"])
def test_every_form_of_snips_has_one_value_and_equal_propensities_give_that_of_aoa(label):
    world = random_world(5)
    forms = ["aoa", "aoa-pooled", *EVERY_FORM]
    for propensity in (world.propensity, np.full(world.split.n_items, 0.3)):
        frame = ipseval.evaluate(
            {"model": world.scores},
            world.split,
            propensity=ipseval.KnownPropensity(item=propensity),
            metrics=[label],
            estimators=forms,
        ).frame.set_index("estimator")
        for column in ("estimate", "std_error"):
            assert frame.loc[list(EVERY_FORM), column].nunique() == 1
            assert frame.loc["aoa", column] == frame.loc["aoa-pooled", column]
        is_equal = frame.loc["aoa", "estimate"] == pytest.approx(frame.loc["snips", "estimate"], rel=1e-12)
        assert is_equal == (np.ptp(propensity) == 0)
        assert frame["note"].str.contains("a ratio of sums over users").all()


@pytest.mark.parametrize("label", ["psp@3", "psndcg@3"])
def test_the_error_is_that_of_a_ratio_of_sums(label):
    world = random_world(6)
    propensity = ipseval.KnownPropensity(item=world.propensity)
    evaluation = ipseval.evaluate(
        {"model": world.scores},
        world.split,
        propensity=propensity,
        metrics=[label],
        estimators=["snips-pooled"],
    )
    ranked = evaluation.ranks["model"]
    weights = 1 / propensity.fit(world.split).for_pairs(ranked.user, ranked.item)
    numerator, denominator = ipseval.metric(label).ratio_sums(ranked, weights)
    residual = numerator - numerator.sum() / denominator.sum() * denominator
    n = residual.size
    error = math.sqrt(n / (n - 1) * (residual**2).sum()) / denominator.sum()
    assert evaluation.frame["std_error"].item() == pytest.approx(error, rel=1e-12)
    ratios = evaluation.per_user("model", label, "snips-pooled").to_numpy()
    assert ratios == pytest.approx(numerator / denominator, rel=1e-12)


@pytest.mark.parametrize("label", ["psp@3", "psndcg@3"])
@pytest.mark.parametrize("estimator", ["aoa", "snips-global"])
def test_the_parts_of_items_add_up_to_the_estimate(estimator, label):
    world = random_world(7)
    known = ipseval.KnownPropensity(item=world.propensity)
    evaluation = ipseval.evaluate(
        {"model": world.scores}, world.split, propensity=known, metrics=[label], estimators=[estimator]
    )
    parts = resolve_estimator(estimator).parts(evaluation.samples["model"], ipseval.metric(label))
    assert parts.total() == pytest.approx(evaluation.frame["estimate"].item(), rel=1e-12)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [("ips", "needs an unbiased form"), ("snips-shrunk(0.5)", "shrinks the normaliser of each user")],
)
def test_estimators_without_such_a_form_refuse_the_metrics(estimator, message):
    world = random_world(8)
    with pytest.raises(InputError, match=message):
        ipseval.evaluate(
            {"model": world.scores},
            world.split,
            propensity=ipseval.KnownPropensity(item=world.propensity),
            metrics=["psp@3"],
            estimators=[estimator],
        )


def test_a_weight_on_rare_items_favours_the_list_that_finds_them():
    # Two users and two positives each, the rare item 1 and the popular item 0.
    train = pd.DataFrame({"user": [2, 3, 4, 5, 5], "item": [0, 0, 0, 0, 2]})
    test = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1]})
    split = ipseval.Split.from_frames(train, test, users=np.arange(6), items=np.arange(4))
    popular_first = np.tile([4.0, 1.0, 3.0, 2.0], (6, 1))
    rare_first = np.tile([1.0, 4.0, 3.0, 2.0], (6, 1))
    frame = ipseval.evaluate(
        {"popular first": popular_first, "rare first": rare_first},
        split,
        propensity="jain",
        metrics=["psp@1"],
        low_ess="ignore",
    ).frame.set_index(["model", "estimator"])["estimate"]
    weight = 1 / ipseval.propensity.JainPropensity().fit(split.train).item
    assert frame["rare first", "snips-global"] == pytest.approx(1)
    assert frame["popular first", "snips-global"] == pytest.approx(weight[0] / weight[1])
    assert frame["popular first", "aoa"] == frame["rare first", "aoa"] == 1


@pytest.mark.filterwarnings("ignore:old finds")  # as many as by chance, which it does
def test_a_gate_decides_by_the_difference_and_the_error_of_the_ratio():
    world = random_world(9, n_users=400)
    ideal = np.zeros_like(world.scores)
    ideal[world.split.test.user, world.split.test.item] = 1
    known = ipseval.KnownPropensity(item=world.propensity)
    models = {"new": ideal, "old": world.scores}
    evaluation = ipseval.evaluate(models, world.split, propensity=known, metrics=["psndcg@3"])
    decision = ipseval.testing.gate(evaluation, candidate="new", incumbent="old", estimator="snips-global")
    reverse = ipseval.testing.gate(evaluation, candidate="old", incumbent="new", estimator="snips-global")
    # A perfect list is better by more than the half of what the incumbent lacks: suspicious, exit code 3.
    assert (decision.exit_code, reverse.exit_code) == (3, 1)


def test_the_estimand_is_a_ratio_of_sums_in_frames_and_reports():
    world = random_world(6)
    evaluation = ipseval.evaluate(
        {"model": world.scores}, world.split, metrics=["psp@3", "recall@3"], estimators=["aoa", "aoa-pooled"]
    )
    estimands = evaluation.frame.groupby("metric")["estimand"].unique()
    assert estimands["psp@3"].tolist() == ["ratio of sums over users"]
    assert estimands["recall@3"].tolist() == ["mean over users", "mean over interactions"]
    titles = [table.title for table in evaluation.tables().parts if hasattr(table, "title")]
    assert titles == [
        "psp@3, ratios of sums over users",
        "recall@3, means over users",
        "recall@3, means over interactions",
    ]
    alone = ipseval.evaluate({"model": world.scores}, world.split, metrics=["psp@3"])
    assert "ratios of sums over users" in str(alone)
    assert "ratios of sums over users" in alone.to_latex()
