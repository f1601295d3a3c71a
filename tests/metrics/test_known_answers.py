"""Values worked by hand, and the enumeration over all observation patterns of one user."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import ipseval
from ipseval.metrics import AdditiveMetric
from ipseval.ranking import RankedPositives
from tests.inside.metrics import RatedPairs, resolve_rating_metric


def one_user(ranks: list[int], n: int, *, tied: list[int] | None = None, gain=None) -> RankedPositives:
    """Positives of one user at the given 1-based ranks (best rank of the tie group) among n candidates."""
    size = len(ranks)
    order = np.argsort(ranks, kind="stable")
    return RankedPositives(
        np.zeros(size, dtype=int),
        np.arange(size),
        np.array(ranks)[order] - 1,
        np.zeros(size, dtype=int) if tied is None else np.array(tied)[order],
        np.full(size, n),
        np.arange(1),
        np.arange(n),
        gain=None if gain is None else np.array(gain, dtype=float)[order],
        candidates_by_user=np.array([n]),
    )


def value(label: str, ranked: RankedPositives, **options) -> float:
    return float(ipseval.metric(label).user_values(ranked, **options)[0])


LOG3 = math.log2(3)


@pytest.mark.parametrize(
    ("label", "ranks", "n", "expected"),
    [
        # Five relevant items, relevance of the list [1, 0, 1, 0, 0, …]: two of the first three, one of five.
        ("precision@3", [1, 3, 8, 9, 10], 20, 2 / 3),
        ("recall@2", [1, 3, 8, 9, 10], 20, 1 / 5),
        ("hits@2", [1, 3, 8, 9, 10], 20, 1 / 5),
        ("ndcg@3", [1, 3, 8, 9, 10], 20, 1.5 / (1 + 1 / LOG3 + 0.5)),  # the published .7039
        # Relevance [0, 1, 1] with s = 3: (1/log2 3 + 1/2) / (1 + 1/log2 3 + 1/2) = .5307
        ("ndcg@3", [2, 3, 4], 10, (1 / LOG3 + 0.5) / (1 + 1 / LOG3 + 0.5)),
        ("cg@2", [1, 3], 5, 1.0),
        ("cg@3", [1, 3], 5, 2.0),
        ("dcg", [1, 3], 5, 1.5),
        ("dcg@2", [1, 3], 5, 1.0),
        ("mean_dcg", [1, 3], 5, 0.75),
        ("atop", [1, 3], 5, (4 / 4 + 2 / 4) / 2),
        # Of the 2 × 3 pairs the first positive wins 3, the second 2.
        ("auc", [1, 3], 5, 5 / 6),
        ("ap", [1, 3], 5, (1 + 2 / 3) / 2),
        ("ap@1", [1, 3], 5, 1.0),
        ("ap@2", [3, 4], 5, 0.0),
        # Over s and not over min(s, k): prec(1) + prec(3) = 1 + 2/3, over five relevant items or over three.
        ("ap(denominator=s)@3", [1, 3, 8, 9, 10], 20, (1 + 2 / 3) / 5),
        ("ap@3", [1, 3, 8, 9, 10], 20, (1 + 2 / 3) / 3),
        ("ap(denominator=s)@5", [1, 3], 5, (1 + 2 / 3) / 2),
        ("ap(denominator=s)", [1, 3], 5, (1 + 2 / 3) / 2),
        ("rr", [3, 4], 5, 1 / 3),
        ("rr@2", [3, 4], 5, 0.0),
        ("hit@3", [3, 4], 5, 1.0),
        ("hit@2", [3, 4], 5, 0.0),
        ("rbp(0.5)", [1, 3], 5, 0.5 * (1 + 0.25)),
        ("precision@4", [1, 3], 5, 0.5),
        ("precision(denominator=min)@4", [1, 3], 5, 1.0),
        ("adjusted_recall@4", [1, 3], 5, 1.0),
        ("adjusted_recall@2", [1, 3, 4], 5, 0.5),
        # Lists shorter than k are padded with misses.
        ("precision@10", [1, 3], 5, 0.2),
        ("recall@10", [1, 3], 5, 1.0),
    ],
)
def test_value_worked_by_hand(label: str, ranks: list[int], n: int, expected: float):
    assert value(label, one_user(ranks, n)) == pytest.approx(expected, abs=1e-15)


def test_graded_gains_are_linear_or_exponential_and_the_ideal_sorts_them():
    ranked = one_user([1, 2], 4, gain=[1, 3])
    assert value("cg(gain=linear)@2", ranked) == 4.0
    assert value("cg(gain=exponential)@1", ranked) == 1.0
    assert value("dcg(gain=linear)", ranked) == pytest.approx(1 + 3 / LOG3)
    assert value("dcg(gain=exponential)", ranked) == pytest.approx(1 + 7 / LOG3)
    assert value("ndcg(gain=linear)", ranked) == pytest.approx((1 + 3 / LOG3) / (3 + 1 / LOG3))
    assert value("ndcg(gain=linear)@1", ranked) == pytest.approx(1 / 3)


def test_ndcg_without_any_gain_is_undefined_not_zero():
    assert math.isnan(value("ndcg(gain=linear)", one_user([1], 4, gain=[0])))


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("ap", (1 + 5 / 6 + 3 / 4 + 7 / 12 + 1 / 2 + 5 / 12) / 6),
        # {1,2} {1,3} {1,4} {2,3} {2,4} {3,4}.
        ("hit@1", 3 / 6),
        ("hit@2", 5 / 6),
        ("rr", (3 * 1 + 2 * 1 / 2 + 1 / 3) / 6),
        (
            "ap",
            (1 + (1 + 2 / 3) / 2 + (1 + 2 / 4) / 2 + (1 / 2 + 2 / 3) / 2 + 1 / 2 + (1 / 3 + 1 / 2) / 2) / 6,
        ),
        ("recall@1", 1 / 4),
        ("auc", 0.5),
    ],
)
def test_expectation_over_ties_worked_by_hand(label: str, expected: float):
    ranked = one_user([1, 1], 4, tied=[3, 3])
    assert value(label, ranked, ties="expected") == pytest.approx(expected, abs=1e-15)


def test_optimistic_and_pessimistic_ties_put_the_positives_first_and_last_in_their_group():
    ranked = one_user([1, 1], 4, tied=[3, 3])
    assert value("ndcg", ranked, ties="min") == pytest.approx(1.0)
    assert value("ap", ranked, ties="max") == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert value("auc", ranked, ties="min") == 1.0
    assert value("auc", ranked, ties="max") == 0.0


def test_a_rule_by_the_word_of_scipy_for_mean_ranks_is_no_rule_for_ties():
    with pytest.raises(ipseval.InputError, match="unknown value for ties: 'average'"):
        value("auc", one_user([1, 1], 4, tied=[3, 3]), ties="average")


TRUTH = {
    "auc": 0.6,
    "recall@5": 0.75,
    "precision@5": 0.6,
    "dcg": 2.1329942421,
    "dcg@5": 1.8175293653,
    "ap": 0.65,
    "ap@5": 0.525,
    "ndcg": 0.8326783989,
    "rr": 1.0,
    "hit@5": 1.0,
}
RANKS = np.array([1, 4, 5, 8])
CHANCE = np.array([0.2, 0.6, 0.25, 0.3])
N = 9


# The AUC-type mean of 1 − z/n of Yang et al., as an additive metric of a user's own making.
class YangAuc(AdditiveMetric):
    name = "yang_auc"
    kind = "mean"
    definition = ipseval.metric("atop").definition
    reads_n = True

    def _value_at_rank(self, rank, n_candidates):
        return 1 - (rank - 1) / n_candidates


YANG_AUC = YangAuc()


def patterns():
    for seen in itertools.product([False, True], repeat=4):
        is_observed = np.array(seen)
        yield is_observed, float(np.prod(np.where(is_observed, CHANCE, 1 - CHANCE)))


@pytest.fixture(scope="module", name="evaluations")
def of_every_pattern() -> list[tuple[float, ipseval.Evaluation]]:
    evaluations = []
    for is_observed, probability in patterns():
        if is_observed.any():
            ranked = one_user(list(RANKS[is_observed]), N)
            result = ipseval.evaluate_ranks(
                {"m": ranked},
                propensity=ipseval.KnownPropensity(item=pad(CHANCE[is_observed])).fit(ranked),
                metrics=[*TRUTH, YANG_AUC],
                estimators=["ips"],
                n_relevant=4,
                low_ess="ignore",
            )
            evaluations.append((probability, result))
    return evaluations


@pytest.mark.parametrize("label", [*TRUTH, "yang_auc"])
def test_expectation_of_ips_over_all_observation_patterns_is_the_truth(evaluations, label: str):
    metric = YANG_AUC if label == "yang_auc" else ipseval.metric(label)
    expectation = sum(
        probability * evaluation.estimate("m", label, "ips").value for probability, evaluation in evaluations
    )
    if label == "auc":
        empty_probability = math.prod(1 - CHANCE)
        expectation += empty_probability * float(metric.unobserved(np.array([9.0]), np.array([4.0]))[0])
    full = one_user(list(RANKS), N)
    truth = float(metric.user_values(full)[0])
    assert expectation == pytest.approx(truth, abs=1e-12)
    assert truth == pytest.approx(TRUTH.get(label, 0.6111111111), abs=1e-10)


def pad(chance: np.ndarray) -> np.ndarray:
    """Return propensities of all items, beginning with the positives."""
    return np.concatenate([chance, np.ones(N - chance.size)])


def test_snips_mean_dcg_given_an_observation_differs_from_the_truth_by_the_tabulated_amount():
    metric = ipseval.metric("mean_dcg")
    total = mass = 0.0
    for is_observed, probability in patterns():
        if is_observed.any():
            values = metric.user_values(one_user(list(RANKS[is_observed]), N), 1 / CHANCE[is_observed])
            total, mass = total + probability * float(values[0]), mass + probability
    assert mass == pytest.approx(0.832, abs=1e-12)
    assert total / mass == pytest.approx(0.4896512529, abs=1e-10)
    assert value("mean_dcg", one_user(list(RANKS), N)) == pytest.approx(0.5332485605, abs=1e-10)


def test_a_value_at_a_rank_has_the_shape_of_ranks_and_numbers_of_candidates_together():
    values = ipseval.metric("rr@3").value_at_rank(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5, 6]))
    np.testing.assert_allclose(values, [[1, 1 / 2], [1 / 3, 0]])
    np.testing.assert_allclose(ipseval.metric("rr@3").value_at_rank(2.0, np.array([5, 6])), [1 / 2, 1 / 2])


@pytest.mark.parametrize(("label", "expected"), [("mae", [2, 3]), ("mse", [4, 9]), ("rmse", [4, 9])])
def test_errors_of_ratings_are_absolute_or_squared(label, expected):
    zeros = np.zeros(2, dtype=int)
    pairs = RatedPairs(
        zeros, np.arange(2), zeros, zeros, np.full(2, 4), np.arange(1), np.arange(4),
        error=np.array([-2.0, 3.0]), n_pairs=np.array([4.0]),
    )  # fmt: skip
    metric = resolve_rating_metric(label)
    assert metric.contributions(pairs).tolist() == expected
    assert metric.user_values(pairs, np.array([1.0, 3.0])).tolist() == [(expected[0] + 3 * expected[1]) / 4]
    assert (metric.mass(pairs).tolist(), metric.root) == ([4], label == "rmse")


def test_weighted_ap_over_s_divides_by_all_weights_of_the_user():
    # Weights 4, 1 and 1 at the ranks 1, 3 and 5, mean 2. Inside k = 3: 4 · 4/4 and 1 · 5/(5 + 2 · 1).
    ranked = one_user([1, 3, 5], 6)
    weights = np.array([4.0, 1.0, 1.0])
    total = 4 + 5 / 7
    assert value("ap(denominator=s)@3", ranked, weights=weights) == pytest.approx(total / 6, abs=1e-15)
    assert value("ap@2", ranked, weights=weights) == pytest.approx(4 / 5, abs=1e-15)


def test_unbiased_ap_over_s_divides_by_the_number_of_relevant_items():
    # Observed at the ranks 1 and 3 with P = 1/2 and 1/4, so ŷ = 2 and 4, of s = 5 relevant items.
    ranked = one_user([1, 3], 6)
    total = 2 / 1 + 4 / 3 * (1 + 2)
    for label, expected in (("ap(denominator=s)@3", total / 5), ("ap@3", total / 3)):
        unbiased = ipseval.metric(label).unbiased(ranked, np.array([2.0, 4.0]), np.array([5.0]))
        assert unbiased == pytest.approx([expected], abs=1e-15)
