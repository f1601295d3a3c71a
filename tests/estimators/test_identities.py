"""Identities of all metrics and estimators on random data."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.estimators import ESTIMATORS
from ipseval.metrics import METRICS
from tests.estimators.labels import OF_RELATIVE_PROPENSITIES
from tests.inside.estimators import resolve_estimator
from tests.worlds import SmallWorld, random_world

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LABELS = [name + ("@5" if family.takes_cutoff == "required" else "") for name, family in METRICS.items()]
LABELS = [label for label in LABELS if not ipseval.metric(label).is_ratio_of_sums]
LABELS += ["dcg@5", "mean_dcg@5", "ap@5", "ndcg@5", "rr@5", "precision(denominator=min)@5"]
AOA_OF_TARGET = {"user": "aoa", "pooled": "aoa-pooled"}
SNIPS_AND_AOA = {
    label: AOA_OF_TARGET[resolve_estimator(label).target]
    for label in OF_RELATIVE_PROPENSITIES
    if resolve_estimator(label).weighted
}


def estimates(world: SmallWorld, propensity, estimators, metrics=LABELS, **options) -> dict:
    result = ipseval.evaluate(
        {"m": world.scores},
        world.split,
        propensity=propensity,
        metrics=metrics,
        estimators=estimators,
        **options,
    )
    return {(key[1], key[2]): estimate.value for key, estimate in result.estimates.items()}


def test_equal_propensities_give_snips_equal_to_aoa():
    world = random_world(1)
    propensity = ipseval.KnownPropensity(item=np.full(world.split.n_items, 0.3), is_probability=False)
    values = estimates(world, propensity, ["aoa", "aoa-pooled", *SNIPS_AND_AOA])
    for metric in LABELS:
        for weighted, plain in SNIPS_AND_AOA.items():
            if (metric, weighted) in values:
                assert values[metric, weighted] == pytest.approx(values[metric, plain], rel=1e-12), metric


def test_pooled_auc_on_the_probability_scale_counts_hidden_positives_and_so_differs_from_aoa():
    # With P = 1 nothing is hidden: the share of won pairs over all users, not a mean of user values.
    world = random_world(2)
    ones = ipseval.KnownPropensity(item=np.ones(world.split.n_items))
    pooled = estimates(world, ones, ["snips-pooled"], metrics=["auc"])["auc", "snips-pooled"]
    won = pairs = 0.0
    for user in world.users():
        for i in user.weights:
            for j, score in user.scores.items():
                if j not in user.weights:
                    pairs += 1
                    won += (user.scores[i] > score) + 0.5 * (user.scores[i] == score)
    assert pooled == pytest.approx(won / pairs, abs=1e-12)


def test_scaling_the_propensity_leaves_snips_and_multiplies_ips():
    world = random_world(3)
    full = ipseval.KnownPropensity(item=world.propensity)
    half = ipseval.KnownPropensity(item=world.propensity / 2)
    linear = ["recall@5", "precision@5", "dcg", "mean_dcg", "atop", "rbp", "hits@5"]
    snips = ["snips", "snips-global", "snips-pooled"]
    relative = [label for label in LABELS if label != "auc"]
    full_values, half_values = (estimates(world, p, snips, metrics=relative) for p in (full, half))
    for key, value in full_values.items():
        assert half_values[key] == pytest.approx(value, rel=1e-12), key
    full_values, half_values = (
        estimates(world, p, ["ips"], metrics=linear, n_relevant=15) for p in (full, half)
    )
    for key, value in full_values.items():
        assert half_values[key] == pytest.approx(2 * value, rel=1e-12), key


def test_one_positive_per_user_gives_snips_equal_to_aoa_with_a_warning_but_not_snips_global():
    world = random_world(4)
    first = np.unique(world.split.test.user, return_index=True)[1]
    split = ipseval.Split(world.split.train, world.split.test.select(first))
    with pytest.warns(ipseval.errors.DataWarning, match="snips is identical to aoa"):
        result = ipseval.evaluate(
            {"m": world.scores},
            split,
            propensity=ipseval.PowerLawPropensity(gamma=0.9, unseen="smooth"),
            metrics=["recall@5"],
            estimators=["aoa", "snips", "snips-global"],
        )
    values = result.frame.set_index("estimator")["estimate"]
    assert values["snips"] == pytest.approx(values["aoa"], rel=1e-13)
    assert abs(values["snips-global"] - values["aoa"]) > 1e-4
    notes = result.frame.set_index("estimator")["note"]
    assert "snips is identical to aoa here" in notes["snips"]


def test_a_constant_scorer_gets_auc_one_half_and_recall_k_over_n():
    world = random_world(6)
    world.scores = np.zeros_like(world.scores)
    ranked = ipseval.rank_positives(world.scores, world.split)
    k = 7
    recall = ipseval.metric(f"recall@{k}").user_values(ranked)
    assert recall == pytest.approx(k / ranked.n_candidates[ranked.starts], abs=1e-14)
    assert ipseval.metric("auc").user_values(ranked) == pytest.approx(0.5, abs=1e-14)
    assert ipseval.metric("atop").user_values(ranked) == pytest.approx(0.5, abs=1e-14)


def test_optimistic_ties_are_never_below_expected_and_pessimistic_never_above():
    world = random_world(7)
    ranked = ipseval.rank_positives(np.sign(world.scores), world.split)
    for label in LABELS:
        metric = ipseval.metric(label)
        low, middle, high = (metric.user_values(ranked, ties=rule) for rule in ("max", "expected", "min"))
        assert (low <= middle + 1e-12).all(), label
        assert (middle <= high + 1e-12).all(), label
        if metric.kind in ("list", "pairwise", "mean"):
            assert high.max() <= 1 + 1e-12, label


def test_every_estimator_states_a_claim_and_a_standard_error():
    world = random_world(9)
    models = {"m": world.scores}
    options = {"metrics": ["recall@5", "atop"]}
    options["propensity"] = ipseval.KnownPropensity(item=world.propensity)
    reward_estimators = [name for name in ESTIMATORS if resolve_estimator(name).needs_rewards]
    other_estimators = [name for name in ESTIMATORS if name not in reward_estimators]
    for evaluation in (
        ipseval.policies.evaluate_rewards(
            models, world.split, world.rewards(), estimators=reward_estimators, **options
        ),
        ipseval.evaluate(models, world.split, n_relevant=20, estimators=other_estimators, **options),
    ):
        frame = evaluation.frame.set_index(["metric", "estimator"])
        assert frame.index[~(frame["claim"].str.len() > 0)].tolist() == []
        assert frame.index[~(frame["std_error"] > 0)].tolist() == []
        unknown = frame[["estimate", "ci_low", "ci_high", "ess"]].isna().any(axis=1)
        assert frame.index[unknown].tolist() == []
        assert len(frame) == 2 * len(evaluation.definitions[1])


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
    w = 1 / world.propensity[ranked.item]
    c = ipseval.metric("recall@5").contributions(ranked)
    rows = [ranked.user == user for user in ranked.users]
    numerator, denominator = (
        np.array([values[user_rows].sum() for user_rows in rows]) for values in (w * c, w)
    )
    ratio = numerator.sum() / denominator.sum()
    n = len(rows)
    expected = np.sqrt(n / (n - 1) * ((numerator - ratio * denominator) ** 2).sum()) / denominator.sum()
    mean_error = np.std([c[user_rows].mean() for user_rows in rows], ddof=1) / np.sqrt(n)
    for label, error in (("snips-pooled", expected), ("aoa", mean_error)):
        standard_error = result.estimate("m", "recall@5", label).standard_error
        assert standard_error == pytest.approx(error, rel=1e-12)
