"""Thousands of positives of one user with one score have the right values."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import hypergeom

import ipseval
from ipseval.metrics import metric
from tests.inside.metrics import _order_statistics, compute_mean_reciprocal, interpolate_mean_reciprocals


def tied(n: int, others: int) -> ipseval.RankedPositives:
    """Return n positives of one user that share the only score with `others` more items."""
    size = n + others
    return ipseval.RankedPositives(
        np.zeros(n, int), np.arange(n), np.zeros(n, int), np.full(n, size - 1), np.full(n, size),
        ["a"], np.arange(size), gain=np.ones(n), candidates_by_user=np.array([size]),
    )  # fmt: skip


LABELS = ["hit@10", "rr", "rr@10", "ap", "ap@10", "ndcg", "ndcg@10", "auc", "recall@10", "rbp(0.9)"]


def test_the_memory_of_tied_positives_does_not_grow_with_the_square_of_their_number():
    n = 2000  # more than 1,000, from which on levels are interpolated; its square is 4 million
    weights = np.random.default_rng(0).uniform(1, 10, n)
    for label in LABELS:
        for user_weights in (None, weights):
            tracemalloc.start()
            (value,) = metric(label).user_values(tied(n, 100), user_weights)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert 0 <= value <= 1, label
            assert peak < 3e6, label


def test_hit_and_rr_of_tied_positives_are_those_of_a_random_order():
    """Of 40 places 30 are positives: none is in the first 3 with the hypergeometric chance."""
    ranked = tied(30, 10)
    chance = hypergeom(40, 30, 3).pmf(0)
    assert metric("hit@3").user_values(ranked)[0] == pytest.approx(1 - chance, rel=1e-13)
    # The first positive is at p where p − 1 of the 10 others come before: C(40 − p, 29)/C(40, 30).
    p = np.arange(1, 12)
    law = np.exp(gammaln(41 - p) - gammaln(30) - gammaln(12 - p) - (gammaln(41) - gammaln(31) - gammaln(11)))
    assert law.sum() == pytest.approx(1)
    assert metric("rr").user_values(ranked)[0] == pytest.approx((law / p).sum(), rel=1e-12)
    # Beside a user of whose 30 positives two are among the first 30 places: (30 − p)/C(30, 2).
    n_above = np.append([0, 0], np.arange(30, 58))
    n_tied = np.append([29, 29], np.zeros(28, int))
    second_value = sum((30 - rank) / 435 / rank for rank in range(1, 30))
    two_users = ipseval.RankedPositives(
        np.repeat([0, 1], 30), np.tile(np.arange(30), 2), np.append(ranked.n_above, n_above),
        np.append(ranked.n_tied, n_tied), np.full(60, 70), range(2), range(70),
    )  # fmt: skip
    assert metric("rr").user_values(two_users) == pytest.approx([(law / p).sum(), second_value], rel=1e-12)


@pytest.mark.parametrize(("g", "size"), [(1200, 1200), (1100, 2000), (1300, 1310)])
def test_interpolated_orders_are_within_a_billionth_of_the_exact_ones(g, size):
    level = np.arange(1, g + 1)
    spread = 0.3 * np.sqrt(level * (g - level) / g)
    offset = np.stack([spread, -spread], axis=1)
    knots = np.append(np.arange(0, g, 9), g - 1)
    arguments = (offset[knots], *(np.full(knots.size, number) for number in (size, g)), level[knots])
    exact = compute_mean_reciprocal(*arguments, np.full(knots.size, size))
    assert interpolate_mean_reciprocals(offset, size, size, level)[knots] == pytest.approx(exact, rel=1e-9)
    with_cutoff = compute_mean_reciprocal(offset, np.full(g, size), np.full(g, g), level, np.full(g, 20))
    assert np.array_equal(interpolate_mean_reciprocals(offset, size, 20, level), with_cutoff)


def test_exact_are_the_first_48_orders_and_up_to_120_at_equal_ratios(monkeypatch):
    g = 1500
    orders = []

    def compute(offset, n_positions, n_positives, order, last_position):
        orders.append(order.tolist())
        return compute_mean_reciprocal(offset, n_positions, n_positives, order, last_position)

    monkeypatch.setattr(_order_statistics, "compute_mean_reciprocal", compute)
    interpolate_mean_reciprocals(np.zeros((g, 1)), 3000, 3000, np.arange(1, g + 1))
    later = {round(48 * (g / 48) ** (step / 119)) for step in range(120)}
    assert orders == [sorted({*range(1, 49), *later})]


def test_the_unbiased_rr_of_very_many_tied_positives_is_refused():
    with pytest.raises(ipseval.InputError, match=r"of 5,000 tied .* time of the square .* at most 4,000"):
        metric("rr").unbiased(tied(5000, 100), np.full(5000, 1.5), None)
