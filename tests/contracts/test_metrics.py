"""What holds for every metric: weighted values stay values of the metric, and an own one needs one file."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.metrics import METRICS
from ipseval.ranking import RankedPositives
from tests.conftest import examples

CUTOFFS = {"required": ("@1", "@3", "@20"), "optional": ("", "@3"), "none": ("",)}
LABELS = [name + k for name, one in METRICS.items() for k in CUTOFFS[one.takes_cutoff]]
LABELS += ["precision(denominator=min)@3", "ndcg(gain=linear)@3", "rbp(0.5)@2"]
PLAIN = [label for label in LABELS if "gain" not in label]
# Metrics of which the best arrangement of all positives has value 1, whatever their number.
ONE_AT_BEST = (
    "ndcg",
    "ap",
    "auc",
    "rr",
    "hit",
    "precision(denominator=min)",
    "psp",
    "psndcg",
    "adjusted_recall",
)

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
        name = label.partition("@")[0]
        if name in ONE_AT_BEST:
            assert got == pytest.approx(1.0, abs=1e-12), label
        if name == "precision":
            k = ipseval.metric(label).cutoff
            assert got == pytest.approx(min(k, m) / k, abs=1e-12), label
        if name.startswith("rbp"):
            assert got == pytest.approx(compute_user_values(label, at_best, None)[0], abs=1e-12), label


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
