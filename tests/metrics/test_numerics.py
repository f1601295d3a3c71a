"""Numerical accuracy for long rankings, large tie groups, short lists and products of weights."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

import ipseval
from ipseval.ranking import RankedPositives
from tests.inside.metrics import (
    PrefixSums,
    _compute_subset_sums,
    _leave_one_out_expectations,
    build_user_buckets,
    cache_last,
    compute_gauss_rule,
    compute_mean_products,
    compute_mean_reciprocal,
    compute_miss_probability,
    compute_order_statistic,
    sort_descending,
)
from tests.inside.utils import as_readonly

N = 100_000


def one_user(
    above: list[int], n: int, tied: list[int] | None = None, *, max_rank: int | None = None
) -> RankedPositives:
    size = len(above)
    return RankedPositives(
        np.zeros(size, dtype=int),
        np.arange(size),
        np.array(above),
        np.zeros(size, dtype=int) if tied is None else np.array(tied),
        np.full(size, n),
        np.arange(1),
        np.arange(max(n, size)),
        max_rank=max_rank,
        candidates_by_user=np.array([n]),
    )


def value(label: str, ranked: RankedPositives, **options) -> float:
    return float(ipseval.metric(label).user_values(ranked, **options)[0])


def test_average_precision_of_two_tied_positives_near_rank_100000_keeps_its_digits_under_large_weights():
    # Places 99,991 and 99,992; ŷ = 1000 each: ½ Σ ŷ_i (A + B ŷ_j), A = E 1/r, B = E 1{r_j < r_i}/r_i.
    single = (Fraction(1, 99_991) + Fraction(1, 99_992)) / 2
    pair = Fraction(1, 99_992) / 2
    exact = (2 * 1000 * single + 2 * 1000 * 1000 * pair) / 2
    ranked = one_user([99_990, 99_990], N, [1, 1])
    got = ipseval.metric("ap").unbiased(ranked, np.array([1000.0, 1000.0]), np.array([2.0]))[0]
    assert got == pytest.approx(float(exact), rel=1e-9)


def test_expected_discount_of_a_deep_tie_is_exact_to_the_last_digits():
    got = ipseval.metric("dcg").contributions(one_user([99_990], N, [1]))[0]
    assert got == pytest.approx((1 / math.log2(99_992) + 1 / math.log2(99_993)) / 2, rel=1e-15)


@pytest.mark.parametrize("g", [1, 5])
def test_expected_reciprocal_rank_of_a_constant_scorer_over_20000_items_is_exact(g: int):
    # E[1/min] = Σ_p C(n − p, g − 1) / (p C(n, g)), with 50 decimals.
    getcontext().prec = 50
    n = 20_000
    ways = Decimal(math.comb(n - 1, g - 1))
    total = Decimal(0)
    for p in range(1, n - g + 2):
        total += ways / p
        ways = ways * (n - p - g + 1) / (n - p) if n - p else Decimal(0)
    exact = float(total / Decimal(math.comb(n, g)))
    assert value("rr", one_user([0] * g, n, [n - 1] * g)) == pytest.approx(exact, rel=1e-12)


def exact_reciprocal(above: int, size: int, count: int, level: int, deepest: int) -> float:
    """Σ_p C(p−1, l−1) C(t−p, g−l) / C(t, g) / (above + p), as one fraction of integers."""
    multiple = math.lcm(*range(above + 1, above + deepest + 1))
    total = sum(
        math.comb(p - 1, level - 1) * math.comb(size - p, count - level) * (multiple // (above + p))
        for p in range(1, deepest + 1)
    )
    return total / (math.comb(size, count) * multiple)


@pytest.mark.parametrize(
    ("above", "size", "count", "deepest"),
    [
        (0, 3, 2, 3),
        (0, 700, 2, 700),
        (0, 65, 1, 65),
        (3, 700, 5, 700),
        (450, 700, 3, 700),
        (90, 400, 24, 400),
        (90, 400, 25, 400),
        (0, 30, 24, 30),
        (7, 900, 4, 333),
        (5, 64, 64, 64),
        (64, 64, 2, 64),
        (1000, 129, 3, 128),
    ],
)
def test_mean_reciprocal_places_are_the_sums_over_all_places(above: int, size: int, count: int, deepest: int):
    level = np.arange(1, count + 1)
    offset, sizes, counts = (np.full(count, number) for number in (float(above), size, count))
    got = compute_mean_reciprocal(offset[:, None], sizes, counts, level, np.full(count, deepest))[:, 0]
    exact = [exact_reciprocal(above, size, count, level, deepest) for level in range(1, count + 1)]
    assert got == pytest.approx(exact, rel=1e-12, abs=1e-300)


def test_many_tie_groups_at_once_equal_single_calls():
    rng = np.random.default_rng(0)
    size = rng.integers(1, 5000, size=20)
    count = np.minimum(rng.integers(1, 30, size=20), size)
    above = rng.integers(0, 3000, size=20)
    deepest = rng.integers(0, size + 1)
    level = rng.integers(1, count + 1)
    offset = above[:, None] + np.array([0.3, 7.0])
    joint = compute_mean_reciprocal(offset, size, count, level, deepest)
    for row in range(20):
        part = slice(row, row + 1)
        for column in (0, 1):
            row_offset = offset[part, column : column + 1]
            single = compute_mean_reciprocal(
                row_offset, *(values[part] for values in (size, count, level, deepest))
            )
            assert joint[row, column] == pytest.approx(single[0, 0], rel=1e-13, abs=0)


@pytest.mark.parametrize("length", [64, 4096])
def test_gauss_sums_of_polynomials_over_the_integers_exactly(length: int):
    nodes, weights = compute_gauss_rule(length, 24)
    for degree in (0, 1, 2, 9, 30, 47):
        exact = Fraction(sum(i**degree for i in range(length)), length**degree * length)
        got = float((weights * (nodes / length) ** degree).sum()) / length
        assert got == pytest.approx(float(exact), rel=1e-13)


def test_the_law_of_an_order_statistic_is_the_ratio_of_binomial_coefficients():
    for size, count in ((9, 4), (12, 5)):
        for level in range(1, count + 1):
            law = compute_order_statistic(np.arange(1, size + 1), size, count, level)
            ways = [
                math.comb(p - 1, level - 1) * math.comb(size - p, count - level) for p in range(1, size + 1)
            ]
            assert law == pytest.approx(np.array(ways) / math.comb(size, count), abs=1e-15)


def test_prefix_sums_keep_the_digits_of_small_differences():
    values = np.concatenate([np.full(10, 1e16), np.full(5, 0.1)])
    got = PrefixSums.from_values(values).sum_range(np.array([10, 12]), np.array([15, 99]))
    assert got == pytest.approx([0.5, 0.3], rel=1e-14)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        # Two items share ranks 3 and 4; pessimistic: the positive has rank 4, the other three are not listed.
        ("ndcg@10", (1 / math.log2(5)) / sum(1 / math.log2(1 + r) for r in (1, 2, 3, 4))),
        ("ap@10", (1 / 4) / 4),
        ("rr@10", 1 / 4),
        ("hit@4", 1.0),
        ("hit@3", 0.0),
    ],
)
def test_positives_beyond_the_end_of_a_list_are_not_pulled_into_it_by_pessimistic_ties(
    label: str, expected: float
):
    ranked = one_user([2, 10, 10, 10], 50, [1, 0, 0, 0], max_rank=10)
    assert value(label, ranked, ties="max") == pytest.approx(expected, abs=1e-15)


def test_ties_beyond_the_cutoff_have_value_zero():
    ranked = one_user([5, 5], 9, [1, 1])
    assert value("rr@5", ranked) == 0.0
    assert value("rr@6", ranked) == pytest.approx(1 / 6)
    assert ipseval.metric("rr@5").unbiased(ranked, np.array([2.0, 3.0]), None).tolist() == [0.0]


def test_lists_shorter_than_the_cutoff_are_refused_with_their_length():
    ranked = one_user([2, 10], 50, max_rank=10)
    for label, reads in (("ndcg", "the whole ranking"), ("ndcg@11", "the first 11 ranks")):
        words = f"^{label} reads {reads}, but the lists end at rank 10; use a cutoff of at most 10"
        with pytest.raises(ipseval.InputError, match=words):
            value(label, ranked)
    assert value("recall@10", ranked) == 0.5


@pytest.mark.parametrize("ties", ["min", "max"])
def test_optimistic_and_pessimistic_values_are_those_of_an_order_that_exists(ties: str):
    # Three positives tied with three others: one item fits a list of one, whoever goes first.
    ranked = one_user([0, 0, 0], 6, [5, 5, 5])
    first = ties == "min"
    assert value("precision@1", ranked, ties=ties) == pytest.approx(1.0 if first else 0.0)
    assert value("recall@4", ranked, ties=ties) == pytest.approx(1.0 if first else 1 / 3)
    ranks = (1, 2, 3) if first else (4, 5, 6)
    assert value("dcg", ranked, ties=ties) == pytest.approx(sum(1 / math.log2(1 + r) for r in ranks))
    assert value("atop", ranked, ties=ties) == pytest.approx(sum((6 - r) / 5 for r in ranks) / 3)
    ideal = sum(1 / math.log2(1 + r) for r in (1, 2, 3))
    assert value("ndcg", ranked, ties=ties) == pytest.approx(value("dcg", ranked, ties=ties) / ideal)


@pytest.mark.parametrize("label", ["recall@2", "dcg", "atop", "auc", "ap", "ndcg", "rr", "hit@2"])
def test_unbiased_forms_refuse_tie_rules_that_depend_on_unobserved_items(label: str):
    ranked = one_user([0, 0], 6, [3, 3])
    with pytest.raises(
        ipseval.InputError, match=r"ties='mean' or 'expected' only.*2 of 2 positives are tied"
    ):
        ipseval.metric(label).unbiased(ranked, np.full(2, 2.0), np.array([3.0]), ties="min")
    untied = one_user([0, 3], 6)
    metric = ipseval.metric(label)
    by_min = metric.unbiased(untied, np.full(2, 2.0), np.array([3.0]), ties="min")
    assert by_min == pytest.approx(metric.unbiased(untied, np.full(2, 2.0), np.array([3.0])))


@pytest.mark.parametrize("label", ["rr", "hit@400", "ndcg", "ndcg@5"])
def test_products_of_weights_beyond_the_range_of_floats_are_an_error_not_a_nan(label: str):
    ranked = one_user(list(range(400)), 1000)
    with pytest.raises(ipseval.InputError, match="1 of 1 users the product is beyond the range"):
        ipseval.metric(label).unbiased(ranked, np.full(400, 1000.0), None)


def test_ndcg_at_a_cutoff_of_a_user_with_more_positives_than_levels_is_exact(monkeypatch):
    # Fully observed: the unbiased form is the value itself. Without a cutoff the number of levels is refused.
    monkeypatch.setattr("ipseval.metrics._ideal_list.MAX_QUADRATIC_SIZE", 300)
    size = 301
    ranked = one_user(list(range(3, size + 3)), 2 * size)
    got = ipseval.metric("ndcg@5").unbiased(ranked, np.ones(size), None)[0]
    assert got == pytest.approx(value("ndcg@5", ranked), rel=1e-13)
    with pytest.raises(ipseval.InputError, match="square of that; ask for a cutoff of at most 300"):
        ipseval.metric("ndcg").unbiased(ranked, np.ones(size), None)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("recall@20", 1.0),
        ("precision@20", 4 / 20),
        ("precision(denominator=min)@20", 1.0),
        ("ap@20", 1.0),
        ("ap", 1.0),
        ("ndcg@20", 1.0),
        ("rr@20", 1.0),
        ("hit@20", 1.0),
        ("auc", math.nan),
        ("atop", (1 + 2 / 3 + 1 / 3 + 0) / 4),
    ],
)
def test_values_of_a_user_with_positive_candidates_only(label: str, expected: float):
    assert value(label, one_user([0, 1, 2, 3], 4)) == pytest.approx(expected, nan_ok=True)
    assert value(label, one_user([0] * 4, 4, [3] * 4)) == pytest.approx(
        0.5 if label == "atop" else expected, nan_ok=True
    )


@pytest.mark.parametrize(("label", "expected"), [("auc", math.nan), ("atop", math.nan), ("ndcg", 1.0)])
def test_a_single_candidate(label: str, expected: float):
    assert value(label, one_user([0], 1)) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("above", "tied", "k", "expected"),
    [(8, 3, 10, 0.0), (8, 2, 10, 1.0), (9, 1, 10, 0.0), (8, 1, 9, 0.0), (9, 0, 10, 1.0)],
)
def test_mean_ties_put_half_ranks_beyond_the_cutoff_for_every_metric(
    above: int, tied: int, k: int, expected: float
):
    # Ranks 10.5, 10, 10.5, 9.5 and 10 against the cutoff: a half rank is inside only when it is below k.
    ranked = one_user([above], 20, [tied])
    for name in ("recall", "hit"):
        assert value(f"{name}@{k}", ranked, ties="mean") == expected
    for name in ("ap", "rr"):
        assert value(f"{name}@{k}", ranked, ties="mean") == pytest.approx(expected / (above + tied / 2 + 1))
    assert value(f"dcg@{k}", ranked, ties="mean") == pytest.approx(expected / math.log2(above + tied / 2 + 2))


@pytest.mark.parametrize("members", [[3.0, 1, 1, 1, 1, 1, 1], [1.0, 2, 3, 4, 5, 6, 7, 30], [2.0] * 7])
def test_the_two_values_of_a_sum_have_its_mean_variance_and_skewness(members):
    level, values, chance = _compute_subset_sums(np.array([members]))
    for size in level.tolist():
        sums = np.array([sum(subset) for subset in itertools.combinations(members, size)])
        value = values[0, size - 1]
        weight = chance[0, size - 1]
        assert weight.sum() == pytest.approx(1)
        for power in (1, 2, 3):
            centre = 0.0 if power == 1 else sums.mean()
            expected = ((sums - centre) ** power).mean()
            assert (weight * (value - centre) ** power).sum() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_all_choices_of_up_to_six_members_are_listed_and_two_values_stand_for_more():
    members = np.array([[1.0, 2, 3, 4, 5, 9, 20]])
    for size, n_values in ((1, 1), (2, 2), (6, 20), (7, 2)):  # C(6, 3) = 20
        level, value, chance = _compute_subset_sums(members[:, :size])
        assert (level.tolist(), value.shape) == (list(range(1, size + 1)), (1, size, n_values))
        np.testing.assert_allclose(chance.sum(axis=2), 1)
    _, value, chance = _compute_subset_sums(members[:, :3])
    np.testing.assert_allclose(value[0], [[1, 2, 3], [3, 4, 5], [6, 6, 6]])
    np.testing.assert_allclose(chance[0], [[1 / 3] * 3, [1 / 3] * 3, [1, 0, 0]])


def test_weighted_ap_at_the_mean_rank_of_two_tied_positives_and_a_tied_negative():
    # Mean rank 2, so half a negative above each; weights 3 and 1 over their mean are 1.5 and .5, and half of
    # the other positive's is above. Σ w W/(W + .5), W = 1.75 and 1.25, over the sum of the weights.
    ap = value("ap", one_user([0, 0], 3, [2, 2]), weights=np.array([3.0, 1.0]), ties="mean")
    assert ap == pytest.approx((1.5 * 1.75 / 2.25 + 0.5 * 1.25 / 1.75) / 2)
    # Behind a negative Σ w W/(W + 1) is 1.5 · 1.5/2.5 + .5 · 2/3 where the heavy one is first, and else
    # .5 · .5/1.5 + 1.5 · 2/3; behind two of them 1.5 · 1.5/3.5 + .5 · 2/4, and .5 · .5/2.5 + 1.5 · 2/4.
    for ties, expected in (("min", 0.9 + 1 / 3 + 1 / 6 + 1), ("max", 2.25 / 3.5 + 0.25 + 0.1 + 0.75)):
        ap = value("ap", one_user([1, 1], 4, [2, 2]), weights=np.array([3.0, 1.0]), ties=ties)
        assert ap == pytest.approx(expected / 4)
    # The first rank alone counts: weight 1 of at most 3, and nothing where both stand at 2 and 3.
    assert value("ap@1", one_user([0, 1], 3), weights=np.array([1.0, 3.0])) == pytest.approx(1 / 3)
    assert value("ap@1", one_user([1, 1], 3, [1, 1]), weights=np.array([1.0, 3.0])) == 0


def test_won_pairs_and_pairs_of_auc_leave_the_pairs_of_positives_out():
    # Ranks 1 and 3 of 5: 2 · 4 + 3 · 2 and 4 · (2 + 3), less once and twice e₂ = 2 · 3.
    auc = ipseval.metric("auc")
    won, pairs = auc.pair_sums(one_user([0, 2], 5), np.array([2.0, 3.0]))
    assert (won.tolist(), pairs.tolist()) == ([8], [8])
    # Without an observation −(s − 1)/(2(n − s)); of all candidates nothing is said.
    values = auc.unobserved(np.array([5.0, 5.0]), np.array([3.0, 5.0]))
    np.testing.assert_array_equal(values, [-0.5, np.nan])
    for n_relevant in (2.0, 3.0):  # no other candidate
        assert np.isnan(auc.unbiased(one_user([0, 1], 2), np.array([2.0, 3.0]), np.array([n_relevant])))


def test_mean_products_are_those_over_every_subset_of_the_members(monkeypatch):
    monkeypatch.setattr("ipseval.metrics._first_relevant.MAX_QUADRATIC_SIZE", 4)  # which are allowed
    miss = np.array([[0.5, 0.9, 0.2, 0.7], [0.1, 0.4, 0.3, 1.0]])
    is_member = np.array([[False, True, True, True], [True, True, True, True]])
    means = compute_mean_products(miss, is_member, miss.shape[1])
    for row, (values, is_member_of_row) in enumerate(zip(miss, is_member, strict=True)):
        members = values[is_member_of_row]
        for size in range(members.size + 1):
            products = [math.prod(subset) for subset in itertools.combinations(members, size)]
            assert means[row, size] == pytest.approx(np.mean(products), rel=1e-12)


def test_the_chance_to_miss_is_that_over_every_order_of_a_tie_group():
    # Three members of a group of five places: which of the places they take is random.
    values = (0.5, 0.9, 0.2)
    miss = np.array([[0.5, 0.7, 0.9, 0.2]])
    is_member = np.array([[True, False, True, True]])
    for slots in range(6):
        probability = compute_miss_probability(miss, is_member, np.array([slots]), np.array([5]))
        products = [
            math.prod(v for v, position in zip(values, positions, strict=True) if position < slots)
            for positions in itertools.permutations(range(5), 3)
        ]
        assert probability == pytest.approx(np.mean(products), rel=1e-12)


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 7])
def test_the_expectation_over_the_other_relevant_items_is_that_over_all_their_subsets(levels):
    rng = np.random.default_rng(levels)
    y = rng.uniform(-0.5, 2.0, size=(3, 5))
    h = rng.normal(size=levels)

    def over_subsets(others):
        total = 0.0
        for is_relevant in itertools.product([0, 1], repeat=others.size):
            chance = np.prod(np.where(is_relevant, others, 1 - others))
            total += chance * h[min(sum(is_relevant), levels - 1)]
        return total

    expected = [[over_subsets(np.delete(row, i)) for i in range(5)] for row in y]
    np.testing.assert_allclose(_leave_one_out_expectations(y, h), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n_levels", [1, 2, 3, 4, 9])
def test_the_largest_values_of_each_user_come_first(n_levels):
    rng = np.random.default_rng(n_levels)
    user = np.sort(rng.integers(0, 12, size=100))
    item = np.concatenate([np.arange(count) for count in np.bincount(user)])
    ranked = RankedPositives(user, item, 0 * item, 0 * item, 0 * item + 99, range(12), range(99))
    for _ in range(3):
        values = rng.normal(size=n_levels)[rng.integers(0, n_levels, size=100)]
        for gains in (values, as_readonly(values), as_readonly(values + 0), 2 * values, -values):
            expected = gains[np.lexsort((-gains, user))]
            for _ in range(2):
                np.testing.assert_array_equal(sort_descending(ranked, gains), expected)


@pytest.mark.parametrize("n_users", [0, 1, 3])
def test_sorting_accepts_users_without_positives(n_users):
    empty = np.zeros(0, dtype=np.int64)
    ranked = RankedPositives(empty, empty, empty, empty, empty, range(n_users), range(9))
    for _ in range(2):
        assert sort_descending(ranked, np.zeros(0)).size == 0
    assert np.isnan(ipseval.metric("ndcg@5").user_values(ranked, np.zeros(0))).all()


@pytest.mark.parametrize("label", ["ndcg@5", "precision@3", "rbp"])
def test_the_order_that_is_kept_is_that_of_the_same_weights_only(label):
    rng = np.random.default_rng(0)
    metric = ipseval.metric(label)

    def ranked():
        user = np.repeat(np.arange(4), 6)
        n = np.full(24, 30)
        n_above = np.concatenate([np.random.default_rng(seed).permutation(30)[:6] for seed in range(4)])
        return RankedPositives(user, np.tile(np.arange(6), 4), n_above, 0 * n, n, range(4), range(30))

    first, second = rng.uniform(0.5, 5.0, size=(2, 24))
    cached_ranks = ranked()
    for weights in (first, second, second, first):
        expected = metric.user_values(ranked(), weights)
        np.testing.assert_array_equal(metric.user_values(cached_ranks, weights), expected)
    assert not np.array_equal(
        metric.user_values(cached_ranks, first), metric.user_values(cached_ranks, second)
    )


def test_sorted_values_are_kept_for_the_same_array_that_nobody_can_change():
    ranked = one_user([0, 1, 2], 9)
    first = as_readonly(np.array([1.0, 3.0, 2.0]))
    equal = as_readonly(first.copy())
    assert sort_descending(ranked, first).tolist() == [3, 2, 1]
    kept = sort_descending(ranked, first)
    assert kept.tolist() == [3, 2, 1]
    assert not kept.flags.writeable
    assert sort_descending(ranked, first) is kept
    assert sort_descending(ranked, equal) is not kept
    assert sort_descending(ranked, first) is not kept  # only the last one is kept
    writable = first.copy()
    assert sort_descending(ranked, writable) is not sort_descending(ranked, writable)
    constant = np.full(3, 2.0)
    assert sort_descending(ranked, constant) is constant


def test_the_last_values_are_kept_and_buckets_are_built_once():
    ranked = one_user([0, 1, 2], 9)
    metric = ipseval.metric("ndcg@2")
    calls = []

    def compute():
        calls.append(1)
        return np.arange(3.0)

    values = cache_last(ranked, (metric, "mean"), compute)
    assert not values.flags.writeable
    assert cache_last(ranked, (metric, "mean"), compute) is values
    assert cache_last(ranked, (ipseval.metric("ndcg@2"), "mean"), compute) is values  # an equal metric
    assert len(calls) == 1
    for key in ((metric, "expected"), (ipseval.metric("ndcg@3"), "expected"), (metric, "mean")):
        cache_last(ranked, key, compute)
    assert len(calls) == 4
    assert build_user_buckets(ranked) is build_user_buckets(ranked)
