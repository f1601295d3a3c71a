"""Doubly robust estimates: all exposure patterns of small simulations, plain loops, and errors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import ComputeOptions, ImpressionLog, InputError, Split
from ipseval.errors import PropensityError
from ipseval.estimators import Sample
from ipseval.policies import evaluate_rewards
from ipseval.policies.rewards import (
    FactorReward,
    FittedRewards,
    ItemReward,
    Rewards,
    ShownData,
)
from ipseval.propensity import ExaminationCurve, KnownPropensity, LoggedPropensity
from tests.inside.estimators import estimate, resolve_estimator
from tests.inside.policies import compute_pair_weights, sum_candidates
from tests.worlds import random_world

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# Two users, four items; user 0 has item 3 in training. 1: the user would take the item if it is looked at.
TRAIN = pd.DataFrame({"user": [0], "item": [3]})
RELEVANT = np.array([[1, 0, 1, 0], [0, 1, 1, 0]])
SCORES = np.array([[0.2, 0.9, 0.5, 1.0], [0.7, 0.7, 0.1, 0.4]])  # user 1 ties items 0 and 1
SHOWN = np.array([[0.5, 0.3, 0.8, 0.9], [1, 0.6, 0.25, 1]])  # two are always shown: fewer patterns
THETA = np.array([[1.0, 0.5, 0.5, 1.0], [0.5, 1.0, 0.5, 0.25]])  # by the places where the pairs stand
WRONG_P = np.array([[0.9, 0.2, 0.4, 0.9], [0.3, 0.3, 0.5, 0.5]])
WRONG_M = np.array([[0.3, 0.6, 0.4, 0.2], [0.1, 0.5, 0.9, 0.3]])
PAIRS = [(u, i) for u in range(2) for i in range(4) if (u, i) != (0, 3)]
# rank of each candidate and the discounts at 2: 1/log2(2) = 1 and 1/log2(3); tied places share their mean
L = 1 / np.log2(3)
GAIN = np.array([[0, 1, L, 0], [(1 + L) / 2, (1 + L) / 2, 0, 0]])
TRUTH = (L + (1 + L) / 2) / 2  # dcg@2: relevant items 0 and 2 of user 0, 1 and 2 of user 1
SPLIT = Split.from_frames(TRAIN, pd.DataFrame({"user": [1], "item": [1]}), users=[0, 1], items=range(4))
DCG = ipseval.metric("dcg@2")


class Fixed:
    """A reward model that was not fitted to anything: m̂ is given."""

    def __init__(self, values):
        self.values = values

    def predict(self, user, item):
        return self.values[user, item]

    def total(self, user):
        return self.values[user].sum(axis=1)


@cache
def list_patterns():
    """Return (probability, clicked, shown) of all combinations in which pairs are shown and examined."""
    outcomes = [
        [
            (1 - SHOWN[pair], 0, 0),
            (SHOWN[pair] * THETA[pair] * RELEVANT[pair], 1, 1),
            (SHOWN[pair] * (1 - THETA[pair] * RELEVANT[pair]), 0, 1),
        ]
        for pair in PAIRS
    ]
    possible = [[outcome for outcome in pair_outcomes if outcome[0] > 0] for pair_outcomes in outcomes]
    ways = [np.array(combination).T for combination in itertools.product(*possible)]
    return [(chance.prod(), clicked > 0, is_shown > 0) for chance, clicked, is_shown in ways]


def compute_expectations(labels, propensity, reward, metric=DCG, *, part=lambda sums: sums.value()):
    """Return the expectations of estimates over all patterns, computed by the library."""
    user, item = np.array(PAIRS).T
    estimators = [resolve_estimator(label) for label in labels]
    ranks = ipseval.rank_positives(
        SCORES, Split.from_frames(TRAIN, pd.DataFrame(PAIRS, columns=["user", "item"]), users=[0, 1])
    )
    # Contributions and sums over candidates do not depend on the pattern: all pairs are shown once.
    all_pairs = ShownData(user, item, np.ones(len(PAIRS)), THETA[user, item], SPLIT.train)
    reward_fit = FittedRewards.from_models(all_pairs, (Fixed(reward),), np.zeros(2, dtype=int), SPLIT)
    pair_propensity = KnownPropensity(
        pair=pd.DataFrame({"user": user, "item": item, "propensity": propensity[user, item]})
    ).fit(SPLIT)
    weight = compute_pair_weights(reward_fit, pair_propensity)
    options = {"ties": "default", "name": "m", "compute": ComputeOptions()}
    full_data = sum_candidates(SCORES, SPLIT, reward_fit, weight, [metric], **options)
    total = 0.0
    for chance, is_clicked, is_shown in list_patterns():
        metric_rewards = full_data.metrics[metric.label]
        data = type(full_data)(
            user=user[is_shown],
            clicked=is_clicked[is_shown].astype(float),
            examination=full_data.examination[is_shown],
            model_reward=full_data.model_reward[is_shown],
            weight=full_data.weight[is_shown],
            candidate_reward=full_data.candidate_reward,
            n_candidates=full_data.n_candidates,
            metrics={
                metric.label: type(metric_rewards)(
                    candidate_sums=metric_rewards.candidate_sums,
                    pair_contributions=metric_rewards.pair_contributions[is_shown],
                )
            },
        )
        sample = Sample(
            ranks.select(is_clicked), propensity[user, item][is_clicked], is_probability=True, rewarded=data
        )
        total += chance * np.array([part(estimator.sums(sample, metric)) for estimator in estimators])
    return total


P = SHOWN * THETA
BIAS = {
    # E[Σ shown (y − θ m̂) c / P̂] = Σ (P/P̂)(m − m̂) c: what is wrong of dr is the product of both errors.
    "dr": lambda ratio, m: (ratio - 1) * (RELEVANT - m),
    "ips": lambda ratio, m: (ratio - 1) * RELEVANT,
    "dm": lambda ratio, m: m - RELEVANT,
}


@pytest.mark.parametrize("propensity", [P, WRONG_P], ids=["right P", "wrong P"])
@pytest.mark.parametrize("reward", [RELEVANT.astype(float), WRONG_M], ids=["right reward", "wrong reward"])
def test_expectations_over_all_exposure_patterns_are_the_truth_or_the_known_bias(propensity, reward):
    is_right = {"ips": propensity is P, "dm": reward is not WRONG_M}
    is_right["dr"] = is_right["ips"] or is_right["dm"]
    for label, estimates in zip(BIAS, compute_expectations(BIAS, propensity, reward), strict=True):
        off = sum((BIAS[label](P / propensity, reward) * GAIN)[pair] for pair in PAIRS) / 2
        assert estimates == pytest.approx(TRUTH + off, abs=1e-12), label
        assert (abs(off) < 1e-12) == is_right[label]


@pytest.mark.parametrize("right", ["P", "reward"])
def test_numerator_and_denominator_of_a_mean_metric_are_each_exact(right):
    # recall@2: two of four relevant pairs: item 2 of user 0 at place 2; item 1 of user 1 on 1 or 2.
    recall = ipseval.metric("recall@2")
    models = (P, WRONG_M) if right == "P" else (WRONG_P, RELEVANT.astype(float))
    parts = compute_expectations(
        ["dr"], *models, recall, part=lambda sums: (sums.numerator.sum(), sums.denominator.sum())
    )
    assert parts == pytest.approx(np.array([[2, 4]]), abs=1e-12)


def simulate_world(seed=5):
    """Return a simulation with impressions at two positions and their propensities."""
    world = random_world(seed, n_users=16, n_items=15)
    rng = np.random.default_rng(seed)
    split = world.split
    free = np.setdiff1d(np.arange(split.n_users * split.n_items), split.train.pair_key)
    key = free[np.isin(free, split.test.pair_key) | (rng.random(free.size) < 0.3)]
    frame = pd.DataFrame({"clicked": np.isin(key, split.test.pair_key)})
    frame["user"], frame["item"] = split.user_ids[key // split.n_items], split.item_ids[key % split.n_items]
    frame["position"], frame["p"] = rng.integers(1, 3, key.size), rng.uniform(0.2, 0.9, key.size)
    log = ImpressionLog.from_frame(
        frame, position="position", propensity="p", users=split.user_ids, items=split.item_ids
    )
    return world, log


METRICS = ["recall@3", "dcg@3", "precision@3", "mean_dcg", "atop", "rbp(0.8)"]
LABELS = ["dm", "dr", "snips-impressions"]


@cache
def list_tied_ranks(scores):
    """Return the tied ranks of each score of a user's candidates, by a loop over the remaining scores."""
    return [
        np.arange(sum(score > item_score for score in scores), sum(score >= item_score for score in scores))
        + 1.0
        for item_score in scores
    ]


def estimate_with_loops(world, log, curve, fitted, label):
    """Return estimator label -> estimate, computed with Python loops only."""
    split = world.split
    metric = ipseval.metric(label)
    seen = set(split.train.pair_key.tolist())
    theta = curve.for_positions(log.position)
    shown_pairs = {
        (u, i): (y, t, 1 / (p * t))
        for u, i, y, t, p in zip(log.user, log.item, log.clicked, theta, log.propensity, strict=True)
    }
    candidates = {
        u: [i for i in range(split.n_items) if u * split.n_items + i not in seen]
        for u in range(split.n_users)
    }
    n_all = sum(map(len, candidates.values()))
    examinations = sum(t * w for _, t, w in shown_pairs.values())
    top = dict.fromkeys(LABELS, 0.0)
    bottom = dict.fromkeys(LABELS, 0.0)
    for u, items in candidates.items():
        rewards = fitted.predict(np.full(len(items), u), np.array(items))
        tied_ranks = list_tied_ranks(tuple(world.scores[u, items].tolist()))
        for i, m, places in zip(items, rewards, tied_ranks, strict=True):
            if label == "atop":  # at the mean rank
                places = places.mean(keepdims=True)
            c = metric.value_at_rank(places, len(items)).mean()
            y, t, w = shown_pairs.get((u, i), (0, 0, 0))
            residual = w * (y - t * m)
            values = m, m + residual, w * y
            for estimator, value in zip(LABELS, values, strict=True):
                top[estimator], bottom[estimator] = top[estimator] + value * c, bottom[estimator] + value
    if metric.kind == "mean":
        return {estimator: top[estimator] / bottom[estimator] for estimator in LABELS}
    top["snips-impressions"] *= n_all / examinations
    return {estimator: top[estimator] / split.n_users for estimator in LABELS}


def test_estimates_equal_plain_loops():
    world, log = simulate_world()
    curve = ExaminationCurve.from_theta([1.0, 0.6])
    rewards = Rewards(log, ItemReward(), examination=curve, rng=0)
    result = evaluate_rewards(
        {"m": world.scores},
        world.split,
        rewards,
        metrics=METRICS,
        estimators=LABELS,
        propensity=LoggedPropensity(log, curve),
        low_ess="ignore",
    )
    reward_fit = rewards.fit(world.split)
    for label in METRICS:
        estimates = {estimator: result.estimate("m", label, estimator).value for estimator in LABELS}
        assert estimates == pytest.approx(
            estimate_with_loops(world, log, curve, reward_fit, label), rel=1e-10
        ), label
    assert (result.frame["std_error"] > 0).all()


@pytest.mark.parametrize("model", [ItemReward(), FactorReward(n_factors=3)])
def test_reward_models_are_fitted_without_the_user_and_totals_add_up(model):
    world, log = simulate_world()
    split = world.split
    reward_fit = Rewards(log, model, n_folds=4, rng=0).fit(split)
    for user in (0, 7):
        items = np.setdiff1d(np.arange(split.n_items), split.train.item[split.train.user == user])
        user_rewards = reward_fit.predict(np.full(items.size, user), items)
        assert reward_fit.total[user] == pytest.approx(user_rewards.sum(), rel=1e-9)
    # With one user's clicks turned over, this user's m̂ stays and that of others moves.
    changed_log = ImpressionLog(
        log.user, log.item, log.user_ids, log.item_ids, np.where(log.user == 0, ~log.clicked, log.clicked)
    )
    again = Rewards(changed_log, model, n_folds=4, rng=0).fit(split)
    is_user = reward_fit.impressions.user == 0
    np.testing.assert_array_equal(reward_fit.predictions[is_user], again.predictions[is_user])
    assert (reward_fit.predictions[~is_user] != again.predictions[~is_user]).any()


def test_the_item_reward_is_the_shrunk_click_rate():
    train = world_train = random_world(1).split.train
    data = ShownData(
        np.array([0, 1, 2]), np.array([4, 4, 2]), np.array([1.0, 0, 0]), np.array([1, 0.5, 0.5]), world_train
    )
    # All: 1 click of 2 examinations. Item 4: (1 + 2 · .5)/(1.5 + 2); item 2: (0 + 1)/(.5 + 2).
    values = ItemReward(shrinkage=2.0).fit(data).predict(np.zeros(3, int), np.array([4, 2, 0]))
    assert values == pytest.approx([2 / 3.5, 1 / 2.5, 0.5])
    assert ItemReward().fit(data).user_factors.size == 0
    values = ItemReward(shrinkage=0.0).fit(data).predict(np.zeros(3, int), np.array([4, 2, 0]))
    assert values == pytest.approx([1 / 1.5, 0 / 0.5, 0.5])  # an item that nobody saw has the rate of all
    assert train.n_items == 30


def test_invalid_requests_raise_before_models_are_ranked():
    world, log = simulate_world()
    models = {"m": world.scores}
    split = world.split
    good = {"propensity": LoggedPropensity(log), "estimators": ["dr"], "metrics": ["recall@3"]}

    impressions = Rewards(log, rng=0)

    def run(rewards=impressions, **changed):
        return evaluate_rewards(models, split, rewards, **{**good, **changed})

    with pytest.raises(InputError, match=r"dr need impressions. Use ipseval.policies.evaluate_rewards"):
        ipseval.evaluate(models, split, **good)
    with pytest.raises(InputError, match="rewards must be"):
        run(rewards=None)
    with pytest.raises(InputError, match="adds up contributions of single items, and ndcg@3"):
        run(metrics=["ndcg@3"])
    with pytest.raises(PropensityError, match="needs the chance of being shown"):
        run(propensity=ipseval.PowerLawPropensity(gamma=0, unseen="drop"))
    lists = pd.DataFrame({"user": split.user_ids[:2], "item": split.item_ids[:2], "rank": 1})
    with pytest.raises(InputError, match="need scores of all items"):
        evaluate_rewards({"m": lists}, split, Rewards(log, rng=0), **good)
    unknown = KnownPropensity(item=np.where(np.arange(split.n_items) < 3, np.nan, 0.5))
    n_without = int((impressions.fit(split).impressions.item < 3).sum())
    with pytest.raises(PropensityError, match=rf"^{n_without} of \d+ shown pairs have no propensity"):
        run(propensity=unknown)
    log_without_positions = ImpressionLog.from_frame(log.to_frame()[["user", "item", "clicked"]][:9])
    with pytest.raises(PropensityError, match="of the exposure log are not those of the split"):
        run(rewards=Rewards(log_without_positions))


@pytest.mark.parametrize(
    ("error", "words", "given"),
    [
        (InputError, "n_folds must be", {"n_folds": 1}),
        (InputError, r"model must have fit\(data\); got dict. Use FactorReward", {"model": {}}),
        (InputError, "examination must be", {"examination": [1.0, 0.5]}),
    ],
)
def test_rewards_name_missing_input(error, words, given):
    with pytest.raises(error, match=words):
        Rewards(simulate_world()[1], **given)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (ItemReward, "shrinkage"),
        (FactorReward, "shrinkage"),
        (FactorReward, "ridge"),
        (FactorReward, "n_factors"),
    ],
)
def test_penalties_are_at_least_zero_and_factors_at_least_one(model, name):
    smallest, too_small = (1, 0) if name == "n_factors" else (0.0, -0.5)
    assert getattr(model(**{name: smallest}), name) == smallest
    with pytest.raises(InputError, match=f"{name} must be"):
        model(**{name: too_small})


def test_a_fit_of_rewards_needs_users_candidates_and_finite_numbers():
    log = ImpressionLog(
        np.array([0, 1, 0]), np.array([0, 1, 3]), np.arange(2), np.arange(4), np.ones(3, bool)
    )
    reward_fit = Rewards(log, ItemReward(), n_folds=2, rng=0).fit(SPLIT)
    assert [(count.count, count.total) for count in reward_fit.row_counts] == [
        (1, 3)
    ]  # item 3: training of user 0
    assert sorted(reward_fit.fold) == [0, 1]
    assert repr(reward_fit) == "FittedRewards(2 shown pairs, 2 clicked)"
    with pytest.raises(InputError, match=r"^3 folds need as many users with impressions; got 2"):
        Rewards(log, ItemReward(), n_folds=3, rng=0).fit(SPLIT)
    with pytest.raises(InputError, match="no shown pair is a candidate"):
        Rewards(log.select(log.item == 3), ItemReward(), n_folds=2).fit(SPLIT)

    class Wrong:
        def __init__(self, found):
            self.found = found

        def fit(self, data):
            return self

        def predict(self, user, item):
            return np.resize(self.found, user.size)

        def total(self, user):
            return np.zeros(1)

    with pytest.raises(InputError, match="a reward model must give 1 finite numbers; got shape"):
        Rewards(log, Wrong([np.nan]), n_folds=2, rng=0).fit(SPLIT)


def test_reward_estimators_name_missing_data_and_exclude_users():
    user, item = np.array(PAIRS).T
    reward_fit = FittedRewards.from_models(
        ShownData(user, item, np.ones(7), THETA[user, item], SPLIT.train),
        (Fixed(WRONG_M),),
        np.zeros(2, int),
        SPLIT,
    )
    options = {"ties": "default", "name": "m", "compute": ComputeOptions()}
    reward_data = sum_candidates(
        SCORES, SPLIT, reward_fit, compute_pair_weights(reward_fit, None), [DCG], **options
    )
    assert repr(reward_data) == "RewardData(7 shown pairs of 2 users)"
    # The other way round user 0 has item 0 first and user 1 item 2.
    first = ipseval.metric("recall@1")
    metric_rewards = sum_candidates(
        -SCORES, SPLIT, reward_fit, reward_data.weight, [first], **options
    ).metrics["recall@1"]
    assert (metric_rewards.pair_contributions.tolist(), metric_rewards.candidate_sums.tolist()) == (
        [1, 0, 0, 0, 0, 1, 0],
        [0.3, 0.9],
    )
    options["compute"] = ComputeOptions(block_size=1)  # a user after the other
    single_rewards = sum_candidates(
        -SCORES, SPLIT, reward_fit, reward_data.weight, [first], **options
    ).metrics["recall@1"]
    assert (single_rewards.pair_contributions.tolist(), single_rewards.candidate_sums.tolist()) == (
        [1, 0, 0, 0, 0, 1, 0],
        [0.3, 0.9],
    )
    assert np.isnan(reward_data.weight).all()
    ranks = ipseval.rank_positives(SCORES, SPLIT)
    dm = resolve_estimator("dm")
    with pytest.raises(
        InputError, match="recall@2 was not among the metrics when the candidates were ranked"
    ):
        dm.sums(Sample(ranks, rewarded=reward_data), ipseval.metric("recall@2"))
    with pytest.raises(InputError, match=r"dm needs impressions: ipseval.policies.evaluate_rewards"):
        dm.sums(Sample(ranks), DCG)
    assert dm.sums(Sample(ranks, rewarded=reward_data), DCG).n_users == 2
    partial_ranks = replace(ranks, left_out=np.array([True, False]))
    assert dm.sums(Sample(partial_ranks, rewarded=reward_data), DCG).users.tolist() == [1]
    # One item is in the training of user 0, so that there is one candidate.
    single_split = Split.from_frames(
        TRAIN, pd.DataFrame({"user": [1], "item": [0]}), users=[0, 1], items=[0, 3]
    )
    data = ShownData(np.array([0]), np.array([0]), np.ones(1), np.ones(1), single_split.train)
    single_fit = FittedRewards.from_models(data, (Fixed(WRONG_M[:, [0, 3]]),), np.zeros(2, int), single_split)
    arguments = SCORES[:, [0, 3]], single_split, single_fit, np.ones(1), [ipseval.metric("atop")]
    with pytest.raises(InputError, match="atop is undefined for users with so few candidates"):
        sum_candidates(*arguments, **options)


def test_without_a_propensity_only_the_reward_model_is_used():
    world, log = simulate_world()
    rewards = Rewards(log, ItemReward(), rng=0)
    with_p = {"propensity": LoggedPropensity(log), "low_ess": "ignore"}
    for options, label in (({}, "dm"), (with_p, "dr")):
        frame = evaluate_rewards({"m": world.scores}, world.split, rewards, **options).frame
        assert frame["estimator"].unique().tolist() == [label]


def test_estimates_with_impressions_are_saved_and_reported_and_excluded_from_sensitivity_to_gamma(tmp_path):
    world, log = simulate_world()
    result = evaluate_rewards(
        {"m": world.scores, "n": -world.scores},
        world.split,
        Rewards(log, rng=0),
        metrics=["recall@3"],
        estimators=["dr", "dm", "aoa"],
        propensity=LoggedPropensity(log),
        low_ess="ignore",
    ).with_intervals("percentile", n_resamples=50, rng=0)
    assert "DR" in str(result)
    assert "<table" in result.to_html()
    result.save(tmp_path / "saved.npz")
    pd.testing.assert_frame_equal(ipseval.Evaluation.load(tmp_path / "saved.npz").frame, result.frame)
    claims = result.frame.drop_duplicates("estimator").set_index("estimator")["claim"]
    assert claims["dr"] == "consistent given P or a right reward model"
    assert claims["dm"] == "consistent given a right reward model"
    assert estimate(
        result.samples["m"], ipseval.metric("recall@3"), resolve_estimator("dm")
    ).value == pytest.approx(result.frame["estimate"][1])
