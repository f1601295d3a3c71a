"""What holds for every metric: weighted values stay values of the metric, and an own one needs one file."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.metrics import METRICS, AdditiveMetric, Definition, Metric
from ipseval.ranking import RankedPositives
from tests.conftest import examples
from tests.metric_labels import metric_labels

LABELS = [*metric_labels(1, 3, 20), "precision(denominator=min)@3", "ndcg(gain=linear)@3", "rbp(0.5)@2"]
LABELS += ["ap(denominator=s)@1", "ap(denominator=s)@3"]
PLAIN = [label for label in LABELS if "gain" not in label]
# Weights do not change the value of the best order, except for a mean over all relevant items, as recall is.
LISTS = [
    label
    for label in PLAIN
    if ipseval.metric(label).kind not in ("mean", "sum") and not label.startswith("ap(denominator=s)")
]
UNBIASED = [*metric_labels(5, with_ratios=False), "precision(denominator=min)@5", "ap(denominator=s)@5"]

weight = st.floats(1e-3, 1e3)


@st.composite
def users(draw, ties: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the candidates, the positives first, and the weights of the positives."""
    n_positives = draw(st.integers(1, 5))
    n_others = draw(st.integers(1, 5))
    n = n_positives + n_others
    if ties:
        scores = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    else:
        scores = draw(st.permutations(range(n)))
    weights = draw(st.lists(weight, min_size=n_positives, max_size=n_positives))
    return np.array(scores, dtype=float), np.array(weights)


def ranked(scores: np.ndarray, n_positives: int) -> RankedPositives:
    """Return the ranks of the first columns of scores (users, items)."""
    n_users, n_items = scores.shape
    others, mine = scores[:, None, :], scores[:, :n_positives, None]
    return RankedPositives(
        np.repeat(np.arange(n_users), n_positives),
        np.tile(np.arange(n_positives), n_users),
        (others > mine).sum(axis=2).ravel(),
        (others == mine).sum(axis=2).ravel() - 1,
        np.full(n_users * n_positives, n_items),
        np.arange(n_users),
        np.arange(n_items),
        gain=np.tile(1.0 + np.arange(n_positives) % 3, n_users),
        candidates_by_user=np.full(n_users, n_items),
    )


def values(
    label: str, scores: np.ndarray, weights: np.ndarray | None, n_positives: int, **options
) -> np.ndarray:
    """Return the values of users by their scores (users, items) and weights, of each user or of all."""
    return compute_user_values(label, ranked(scores, n_positives), weights, **options)


def compute_user_values(
    label: str, one: RankedPositives, weights: np.ndarray | None, **options
) -> np.ndarray:
    if weights is not None:
        weights = np.broadcast_to(weights, (one.user_ids.size, weights.shape[-1])).ravel()
    return ipseval.metric(label).user_values(one, weights, **options)


def value(label: str, scores: np.ndarray, weights: np.ndarray | None, n_positives: int, **options) -> float:
    return float(values(label, scores[None], weights, n_positives, **options)[0])


@settings(max_examples=examples(150))
@given(user=users(), ties=st.sampled_from(["mean", "min", "max", "expected"]), scale=st.floats(1e-6, 1e6))
def test_weighted_values_are_in_the_range_and_only_proportions_of_weights_matter(ties, user, scale):
    scores, weights = user
    given = np.array(
        [weights, scale * weights, *(np.full(weights.size, equal) for equal in (0.01, 1.0, 700.0))]
    )
    alone = ranked(scores[None], weights.size)
    same = ranked(np.tile(scores, (len(given), 1)), weights.size)
    for label in LABELS:
        low, high = ipseval.metric(label).value_range
        (plain,) = compute_user_values(label, alone, None, ties=ties)
        weighted, scaled, *equals = compute_user_values(label, same, given, ties=ties)
        # Positives that share a mean rank inside the cutoff can be more than fit there, weighted or not.
        if ties != "mean" or ipseval.metric(label).linear_in_rank:
            assert low <= weighted <= high + 1e-12, label
        assert scaled == pytest.approx(weighted, rel=1e-9), label
        assert equals == pytest.approx([plain] * 3, abs=1e-12), label


@settings(max_examples=examples(75))
@given(user=users(ties=False), ties=st.booleans())
def test_no_positive_that_moves_up_lowers_the_value_and_the_best_arrangement_has_the_plain_best(user, ties):
    scores, weights = user
    m = weights.size
    if ties:
        scores = np.floor(scores / 2)
    n, moved = scores.size, []
    for positive, other in itertools.product(range(m), range(m, n)):
        if scores[positive] < scores[other]:
            moved.append(scores.copy())
            moved[-1][[positive, other]] = scores[[other, positive]]
    best = np.concatenate([n + np.argsort(np.argsort(weights)), np.zeros(n - m)])
    arranged, at_best = ranked(np.array([scores, *moved, best]), m), ranked(best[None], m)
    for label in PLAIN:
        before, *after, got = compute_user_values(label, arranged, weights)
        assert all(one >= before - 1e-12 for one in after), label
        if label in LISTS:  # weights do not change the value of the best order
            assert got == pytest.approx(compute_user_values(label, at_best, None)[0], abs=1e-12), label


def unbiased(label: str, inverse: list[float], n_relevant: int) -> float:
    """Return the unbiased form of a user with positives at ranks 1, 3 and 4 of six candidates."""
    one = ranked(np.array([[6.0, 4.0, 3.0, 5.0, 2.0, 1.0]]), 3)
    return float(ipseval.metric(label).unbiased(one, np.array(inverse), np.array([n_relevant]))[0])


@pytest.mark.parametrize("label", UNBIASED)
def test_needs_n_relevant_says_whether_the_unbiased_form_changes_with_the_number_of_relevant_items(label):
    inverse = [2.0, 3.0, 5.0]
    changes = unbiased(label, inverse, 3) != pytest.approx(unbiased(label, inverse, 4), abs=1e-12)
    declared = ipseval.metric(label).needs_n_relevant
    assert declared == changes, f"set needs_n_relevant = {changes} in the class of {label}"


@pytest.mark.parametrize("label", UNBIASED)
def test_needs_independence_says_whether_the_unbiased_form_multiplies_observations(label):
    before = unbiased(label, [2.0, 3.0, 5.0], 4)
    first = unbiased(label, [4.0, 3.0, 5.0], 4) - before
    second = unbiased(label, [2.0, 7.0, 5.0], 4) - before
    both = unbiased(label, [4.0, 7.0, 5.0], 4) - before
    multiplies = both != pytest.approx(first + second, abs=1e-12)
    declared = ipseval.metric(label).needs_independence
    assert declared == multiplies, f"set needs_independence = {multiplies} in the class of {label}"


@pytest.mark.parametrize("name", METRICS)
def test_the_weighted_value_is_stated_by_metrics_of_lists_and_follows_from_the_kind_of_all_others(name):
    cutoff = 5 if METRICS[name].takes_cutoff == "required" else None
    metric = METRICS[name](cutoff)
    if metric.kind in ("mean", "sum"):
        assert not metric.definition.plug_in, f"remove plug_in from the definition of {name}"
    else:
        assert metric.definition.plug_in, f"state the weighted value as plug_in in the definition of {name}"


def test_a_sum_needs_no_attributes_but_name_kind_and_definition():
    class Gains(AdditiveMetric):
        name = "gains"
        kind = "sum"
        definition = Definition("Σ_{i∈S} 2/r_i", "none", "2/r")

        def _value_at_rank(self, rank, n_candidates):
            return 2 / rank

    for one in (Gains, Gains()):
        assert (one.needs_n_relevant, one.value_range) == (False, (0.0, np.inf))
    lines = ipseval.estimators.card(Gains()).splitlines()
    assert lines[7] == (
        "  with weights |S*_u| Σwc/Σw per user; one normaliser for all users in the global and pooled forms"
    )
    assert "    ips          exactly unbiased given the propensities" in lines
    # The mean of Gains and a subclass that states its own range.
    mean = type("Mean", (Gains,), {"kind": "mean"})
    assert (mean.needs_n_relevant, mean.value_range) == (True, (0.0, 1.0))
    bounded = type("Bounded", (Gains,), {"value_range": (0.0, 2.0)})
    assert (bounded.needs_n_relevant, bounded().value_range) == (False, (0.0, 2.0))


def test_the_card_of_a_metric_of_lists_does_not_state_a_weighted_value_that_is_unknown():
    class Top(Metric):
        name = "top"
        kind = "list"
        definition = Definition("1{1 ∈ r(S)}", "none")

        def _user_values(self, positives, weights, rule):
            return positives.sum_by_user((positives.n_above == 0).astype(float))

    assert "  with weights not stated in the definition of the metric" in ipseval.estimators.card(Top())


def test_tied_positives_and_no_tied_non_positive_leave_auc_alone_under_every_tie_rule():
    # Positives a, b (tied) and c below the non-positive z: shares 1, 1, 0 of z, weights 10, 10, 1.
    scores, weights = np.array([5.0, 5.0, 3.0, 4.0]), np.array([10.0, 10.0, 1.0])
    for ties in ("mean", "min", "max", "expected"):
        assert value("auc", scores, weights, 3, ties=ties) == pytest.approx(20 / 21, abs=1e-15)
        assert value("auc", scores, None, 3, ties=ties) == pytest.approx(2 / 3, abs=1e-15)


@pytest.mark.parametrize("label", ["ap", "ap@4"])
@pytest.mark.parametrize("n_tied_positives", [1, 2, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_weighted_ap_is_exact_over_every_order_of_a_few_tied_positives(label, n_tied_positives):
    rng = np.random.default_rng(n_tied_positives)
    weights = np.exp(2 * rng.normal(size=n_tied_positives + 1))
    # One positive first, a non-positive, then the tied ones with two non-positives, and one more below.
    scores = np.array([9.0, *[5.0] * n_tied_positives, 8.0, 5.0, 5.0, 1.0])
    every = []
    for places in itertools.permutations(range(n_tied_positives + 2)):
        strict = scores.copy()
        rows = [*range(1, n_tied_positives + 1), n_tied_positives + 2, n_tied_positives + 3]
        strict[rows] = 5 - 0.1 * np.array(places)
        every.append(strict)
    mean = values(label, np.array(every), weights, weights.size).mean()
    assert value(label, scores, weights, weights.size) == pytest.approx(mean, abs=1e-12)


def test_weighted_ap_of_more_tied_positives_is_near_the_mean_over_orders():
    # Eight tied positives of weights 1 … 8 among three non-positives: three moments of their sums are kept.
    rng = np.random.default_rng(0)
    weights = np.arange(1.0, 9.0)
    scores = np.zeros(11)
    every = values("ap", np.array([rng.permutation(11) for _ in range(1500)], dtype=float), weights, 8)
    error = np.std(every) / np.sqrt(len(every))
    assert value("ap", scores, weights, 8) == pytest.approx(np.mean(every), abs=4 * error)
