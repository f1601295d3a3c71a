"""Attributes of metrics, buckets of users, and ties in catalogues of several sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ipseval.metrics import METRICS, AdditiveMetric, Metric, metric
from ipseval.ranking import RankedPositives
from tests.inside.metrics import build_user_buckets, compute_mean_rank

# Known values for some metrics. tests/contracts/test_metrics.py compares what every metric of the registry
# declares with what it computes, so that a new metric needs no row.
# needs s_u, needs independent observations, has pairs, users without positives count, linear in the rank
TRAITS = {
    "recall": "s....",
    "precision": "s....",
    "cg": ".....",
    "dcg": ".....",
    "mean_dcg": "s....",
    "atop": "s...l",
    "auc": "s.pul",
    "ap": "si...",
    "ndcg": ".i...",
    "rr": ".i...",
    "hit": ".i...",
    "rbp": ".....",
    "hits": "s....",
    "adjusted_recall": "s....",
    "psp": ".....",
    "psndcg": ".....",
}
FLAGS = {
    "s": "needs_n_relevant",
    "i": "needs_independence",
    "p": "has_pairs",
    "u": "counts_unobserved",
    "l": "linear_in_rank",
}


@pytest.mark.parametrize("name", TRAITS)
def test_the_attributes_of_each_metric_have_their_known_values(name):
    metric_class = METRICS[name]
    assert [bool(getattr(metric_class, flag)) for flag in FLAGS.values()] == [
        flag_letter != "." for flag_letter in TRAITS[name]
    ]
    assert not any((metric_class.corrects_sampling, metric_class.root, metric_class.approximate))
    assert metric_class.value_range == (0.0, math.inf if name in ("cg", "dcg") else 1.0)
    assert metric_class.default_ties == ("mean" if name in ("atop", "auc") else "expected")
    assert metric_class.is_ratio_of_sums == (name in ("psp", "psndcg"))
    cutoff = dict.fromkeys(
        ("recall", "precision", "cg", "hit", "hits", "psp", "psndcg", "adjusted_recall"), "required"
    )
    assert metric_class.takes_cutoff == (cutoff | {"atop": "none", "auc": "none"}).get(name, "optional")
    kind = {"cg": "sum", "dcg": "sum", "auc": "pairwise", "ap": "pairwise"}
    kind |= dict.fromkeys(
        ("precision", "ndcg", "rr", "hit", "rbp", "psp", "psndcg", "adjusted_recall"), "list"
    )
    assert metric_class.kind == kind.get(name, "mean")


def test_a_metric_without_attributes_has_the_defaults():
    class Plain(Metric):
        name = "plain"
        kind = "list"
        definition = METRICS["rr"].definition

        def _user_values(self, ranked, weights, rule):
            return np.ones(ranked.starts.size)

    plain = Plain()
    assert not any(getattr(plain, flag) for flag in FLAGS.values())
    assert not any((plain.corrects_sampling, plain.root))
    assert (plain.takes_cutoff, plain.default_ties, plain.value_range) == ("optional", "expected", (0.0, 1.0))
    assert (plain.approximate, plain.aliases) == ("", ())
    assert (plain.label, Plain(3).label) == ("plain", "plain@3")
    assert plain.unobserved(np.ones(3), np.ones(3)).tolist() == [0.0] * 3


def ranks(counts, n_above, n_tied, n_candidates) -> RankedPositives:
    """Return positives of users with so many each."""
    user = np.repeat(np.arange(len(counts)), counts)
    item = np.concatenate([np.arange(count) for count in counts])
    n_items = int(max(n_candidates))
    return RankedPositives(user, item, n_above, n_tied, n_candidates, range(len(counts)), range(n_items))


def test_users_with_similar_numbers_of_positives_share_a_bucket():
    counts = [1, 2, 3, 4, 5, 8, 9, 16, 17, 1]
    size = sum(counts)
    n_above = np.concatenate([np.arange(count)[::-1] for count in counts])  # the last is the best
    ranked = ranks(counts, n_above, np.zeros(size, int), np.full(size, 40))
    rows_by_users = {tuple(bucket.users.tolist()): bucket.rows for bucket in build_user_buckets(ranked)}
    # Up to 1, 2, 4, 8, 16 and 32 positives: at most half of a bucket is padding.
    assert list(rows_by_users) == [(0, 9), (1,), (2, 3), (4, 5), (6, 7), (8,)]
    assert [rows.shape[1] for rows in rows_by_users.values()] == [1, 2, 4, 8, 16, 17]
    first = np.cumsum([0, *counts])
    for users, rows in rows_by_users.items():
        for user, row in zip(users, rows.tolist(), strict=True):
            positives = list(range(first[user], first[user + 1]))[::-1]
            assert row == positives + [-1] * (rows.shape[1] - len(positives))


def test_the_mean_rank_among_ties_is_the_middle_one():
    assert compute_mean_rank(ranks([2], [0, 2], [2, 0], [9, 9])).tolist() == [2, 3]


class Share(AdditiveMetric):
    """1 / (r + n), which depends on the number of candidates and is no straight line."""

    name = "share"
    kind = "mean"
    definition = METRICS["dcg"].definition
    reads_n = True

    def _value_at_rank(self, rank, n_candidates):
        return 1 / (rank + n_candidates)


class Below(AdditiveMetric):
    """√(n − r), which is no number beyond the last place."""

    name = "below"
    kind = "mean"
    definition = METRICS["dcg"].definition
    reads_n = True
    value_range = (0.0, float("inf"))

    def _value_at_rank(self, rank, n_candidates):
        return np.sqrt(n_candidates - rank)


def test_a_curve_is_computed_only_for_ranks_within_the_catalogue():  # any other warns, which is an error here
    assert Below().contributions(ranks([1], [3], [1], [5])).tolist() == [0.5]  # places 4 and 5 of 5


@pytest.mark.parametrize("cutoff", [None, 3])
def test_ties_are_averaged_over_the_ranks_of_each_users_catalogue(cutoff):
    # Users with 9, 5, 9 and 7 candidates; the last positive of each stands alone.
    n = [9, 9, 5, 5, 9, 9, 7, 7]
    n_above = [0, 5, 1, 4, 2, 6, 0, 6]
    n_tied = [3, 0, 2, 0, 1, 0, 4, 0]
    ranked = ranks([2, 2, 2, 2], n_above, n_tied, n)
    expected = []
    for first, n_others, size in zip(n_above, n_tied, n, strict=True):
        possible_ranks = range(first + 1, first + n_others + 2)
        value = [1 / (r + size) if cutoff is None or r <= cutoff else 0.0 for r in possible_ranks]
        expected.append(sum(value) / len(value))
    contributions = Share(cutoff).contributions(ranked)
    np.testing.assert_allclose(contributions, expected, rtol=1e-14)
    user_values = [sum(expected[i : i + 2]) / 2 for i in range(0, 8, 2)]
    np.testing.assert_allclose(Share(cutoff).user_values(ranked), user_values, rtol=1e-14)
    weights = np.array([1.0, 3.0] * 4)
    weighted = [(a + 3 * b) / 4 for a, b in zip(expected[::2], expected[1::2], strict=True)]
    np.testing.assert_allclose(Share(cutoff).user_values(ranked, weights), weighted, rtol=1e-14)


def test_weights_that_were_changed_in_place_are_read_again():
    ranked = ranks([2, 1], [0, 3, 1], [0, 0, 0], [9, 9, 9])
    weights = np.array([1.0, 1.0, 2.0])
    for label in ("recall@2", "ndcg@2", "ap@2"):
        measure = metric(label)
        first_values = measure.user_values(ranked, weights)
        weights[0] += 6.0
        assert measure.user_values(ranked, weights)[0] > first_values[0]
        np.testing.assert_array_equal(
            measure.user_values(ranked, weights), measure.user_values(ranked, weights.copy())
        )
        view = weights.view()
        view.flags.writeable = False
        for _ in range(2):
            np.testing.assert_array_equal(
                measure.user_values(ranked, view), measure.user_values(ranked, weights)
            )
