"""What must hold for every metric and estimator, on random worlds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.estimators import ESTIMATORS
from ipseval.metrics import METRICS
from tests.inside.estimators import resolve_estimator
from tests.worlds import SmallWorld, random_world

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LABELS = [name + ("@5" if family.takes_cutoff == "required" else "") for name, family in METRICS.items()]
LABELS += ["dcg@5", "mean_dcg@5", "ap@5", "ndcg@5", "rr@5", "precision(denominator=min)@5"]
SNIPS_AND_AOA = {"snips": "aoa", "snips-global": "aoa", "snips-pooled": "aoa-pooled", "snips-shrunk": "aoa"}


def estimates(world: SmallWorld, propensity, estimators, metrics=LABELS, **options) -> dict:
    result = ipseval.evaluate(
        {"m": world.scores},
        world.split,
        propensity=propensity,
        metrics=metrics,
        estimators=estimators,
        **options,
    )
    return {(key[1], key[2]): one.value for key, one in result.estimates.items()}


@pytest.mark.parametrize("constant", ["gamma", "known"])
def test_equal_propensities_give_snips_equal_to_aoa(constant: str):
    world = random_world(1)
    propensity = (
        ipseval.PowerLawPropensity(gamma=-1, unseen="smooth")
        if constant == "gamma"
        else ipseval.KnownPropensity(item=np.full(world.split.n_items, 0.3), is_probability=False)
    )
    got = estimates(world, propensity, ["aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled"])
    for metric in LABELS:
        for weighted, plain in SNIPS_AND_AOA.items():
            if (metric, weighted) in got:
                assert got[metric, weighted] == pytest.approx(got[metric, plain], rel=1e-12), metric


def test_pooled_auc_on_the_probability_scale_counts_hidden_positives_and_so_differs_from_aoa():
    # With P = 1 nothing is hidden: the share of won pairs over all users, not a mean of user values.
    world = random_world(2)
    ones = ipseval.KnownPropensity(item=np.ones(world.split.n_items))
    got = estimates(world, ones, ["snips-pooled"], metrics=["auc"])["auc", "snips-pooled"]
    won = pairs = 0.0
    for user in world.users():
        for i in user.weights:
            for j, score in user.scores.items():
                if j not in user.weights:
                    pairs += 1
                    won += (user.scores[i] > score) + 0.5 * (user.scores[i] == score)
    assert got == pytest.approx(won / pairs, abs=1e-12)


def test_scaling_the_propensity_leaves_snips_and_multiplies_ips():
    world = random_world(3)
    full = ipseval.KnownPropensity(item=world.propensity)
    half = ipseval.KnownPropensity(item=world.propensity / 2)
    linear = ["recall@5", "precision@5", "dcg", "mean_dcg", "atop", "rbp", "hits@5"]
    snips = ["snips", "snips-global", "snips-pooled"]
    relative = [label for label in LABELS if label != "auc"]
    one, two = (estimates(world, p, snips, metrics=relative) for p in (full, half))
    for key, value in one.items():
        assert two[key] == pytest.approx(value, rel=1e-12), key
    one, two = (estimates(world, p, ["ips"], metrics=linear, n_relevant=15) for p in (full, half))
    for key, value in one.items():
        assert two[key] == pytest.approx(2 * value, rel=1e-12), key


@pytest.mark.parametrize("gamma", [-0.5, 0.0, 0.9])
def test_one_positive_per_user_gives_snips_equal_to_aoa_and_says_so_while_global_moves(gamma: float):
    world = random_world(4)
    first = np.unique(world.split.test.user, return_index=True)[1]
    world.split = ipseval.Split(world.split.train, world.split.test.select(first))
    propensity = ipseval.PowerLawPropensity(gamma=gamma, unseen="smooth")
    result = ipseval.evaluate(
        {"m": world.scores},
        world.split,
        propensity=propensity,
        metrics=["recall@5"],
        estimators=["aoa", "snips", "snips-global"],
    )
    values = result.frame.set_index("estimator")["estimate"]
    assert values["snips"] == pytest.approx(values["aoa"], rel=1e-13)
    assert abs(values["snips-global"] - values["aoa"]) > 1e-4
    notes = result.frame.set_index("estimator")["note"]
    assert "snips is identical to aoa here" in notes["snips"]


def test_one_positive_per_user_is_warned_about():
    world = random_world(4)
    first = np.unique(world.split.test.user, return_index=True)[1]
    split = ipseval.Split(world.split.train, world.split.test.select(first))
    with pytest.warns(ipseval.errors.DataWarning, match="snips is identical to aoa"):
        ipseval.evaluate(
            {"m": world.scores},
            split,
            propensity=ipseval.PowerLawPropensity(gamma=0, unseen="smooth"),
            metrics=["recall@5"],
            estimators=["snips"],
        )


@pytest.mark.parametrize("ties", ["default", "mean", "min", "max", "expected"])
def test_relabelling_and_reordering_users_and_items_changes_nothing(ties: str):
    world = random_world(5)
    rng = np.random.default_rng(0)
    users, items = rng.permutation(world.split.n_users), rng.permutation(world.split.n_items)

    def renamed(log: ipseval.Interactions) -> pd.DataFrame:
        frame = pd.DataFrame({"user": [f"u{users[u]:03}" for u in log.user], "item": 7 * items[log.item] + 1})
        return frame.sample(frac=1, random_state=0)

    scores = np.empty_like(world.scores)
    scores[np.ix_(users, items)] = world.scores
    other = ipseval.Split.from_frames(
        renamed(world.split.train),
        renamed(world.split.test),
        users=[f"u{u:03}" for u in range(users.size)],
        items=7 * np.arange(items.size) + 1,
    )
    propensity = np.empty_like(world.propensity)
    propensity[items] = world.propensity
    names = ["aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled"]
    # On the probability scale the pooled auc has no form for "min" and "max" ties.
    up_to_a_factor = {"is_probability": ties in ("default", "mean", "expected")}
    known = ipseval.KnownPropensity(item=world.propensity, **up_to_a_factor)
    before = estimates(world, known, names, ties=ties)
    changed = SmallWorld(other, scores, propensity)
    after = estimates(changed, ipseval.KnownPropensity(item=propensity, **up_to_a_factor), names, ties=ties)
    for key, value in before.items():
        assert after[key] == pytest.approx(value, abs=1e-13), key


def test_a_constant_scorer_gets_auc_one_half_and_recall_k_over_n():
    world = random_world(6)
    world.scores = np.zeros_like(world.scores)
    ranked = ipseval.rank_positives(world.scores, world.split)
    k = 7
    recall = ipseval.metric(f"recall@{k}").user_values(ranked)
    assert recall == pytest.approx(k / ranked.n_candidates[ranked.starts], abs=1e-14)
    assert ipseval.metric("auc").user_values(ranked) == pytest.approx(0.5, abs=1e-14)
    assert ipseval.metric("atop").user_values(ranked) == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize("label", LABELS)
def test_optimistic_ties_are_never_below_expected_and_pessimistic_never_above(label: str):
    world = random_world(7)
    world.scores = np.sign(world.scores)
    ranked = ipseval.rank_positives(world.scores, world.split)
    metric = ipseval.metric(label)
    low, middle, high = (metric.user_values(ranked, ties=rule) for rule in ("max", "expected", "min"))
    assert (low <= middle + 1e-12).all()
    assert (middle <= high + 1e-12).all()
    if metric.kind in ("list", "pairwise", "mean"):
        assert high.max() <= 1 + 1e-12


@pytest.mark.parametrize("label", LABELS)
def test_a_perfect_ranking_scores_one_where_the_metric_is_normalised(label: str):
    world = random_world(8)
    truth = np.zeros_like(world.scores)
    truth[world.split.test.user, world.split.test.item] = np.arange(1, len(world.split.test) + 1)
    metric = ipseval.metric(label)
    values = metric.user_values(ipseval.rank_positives(truth, world.split))
    if label in (
        "auc",
        "ap",
        "ap@5",
        "ndcg",
        "ndcg@5",
        "rr",
        "rr@5",
        "hit@5",
        "precision(denominator=min)@5",
    ):
        assert values == pytest.approx(1.0, abs=1e-14)
    else:
        assert (values > 0).all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_states_a_claim_and_a_standard_error(name: str):
    world = random_world(9)
    models, options = {"m": world.scores}, {"metrics": ["recall@5", "atop"], "estimators": [name]}
    options["propensity"] = ipseval.KnownPropensity(item=world.propensity)
    if resolve_estimator(name).needs_rewards:
        result = ipseval.policies.evaluate_rewards(models, world.split, world.rewards(), **options)
    else:
        result = ipseval.evaluate(models, world.split, n_relevant=20, **options)
    assert (result.frame["claim"].str.len() > 0).all()
    assert (result.frame["std_error"] > 0).all()
    assert not result.frame[["estimate", "ci_low", "ci_high", "ess"]].isna().any(axis=None)


def test_the_standard_error_of_a_ratio_is_that_of_the_delta_method_written_out():
    world = random_world(10)
    result = ipseval.evaluate(
        {"m": world.scores},
        world.split,
        propensity=ipseval.KnownPropensity(item=world.propensity),
        metrics=["recall@5"],
        estimators=["snips-pooled", "aoa"],
    )
    ranked = result.samples["m"].ranked
    numerator, denominator, plain = [], [], []
    for user in ranked.users:
        rows = ranked.user == user
        w = 1 / world.propensity[ranked.item[rows]]
        hits = result.samples["m"].ranked.select(rows)
        c = ipseval.metric("recall@5").contributions(hits)
        numerator.append((w * c).sum())
        denominator.append(w.sum())
        plain.append(c.mean())
    big_n, big_d = np.array(numerator), np.array(denominator)
    ratio = big_n.sum() / big_d.sum()
    n = big_n.size
    expected = np.sqrt(n / (n - 1) * ((big_n - ratio * big_d) ** 2).sum()) / big_d.sum()
    assert result.estimate("m", "recall@5", "snips-pooled").standard_error == pytest.approx(
        expected, rel=1e-12
    )
    assert result.estimate("m", "recall@5", "aoa").standard_error == pytest.approx(
        np.std(plain, ddof=1) / np.sqrt(n), rel=1e-12
    )
