"""Exact expectations of sampled metrics against published figures, enumeration and known identities."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval.errors import InputError, UnknownNameError
from ipseval.metrics.sampled import expected_sampled, std_sampled
from tests.inside.metrics import _expectation, _rank_law

N = 10_000
RANKS = {"A": [100] * 5, "B": [40, 40, 8437, 9266, 4482], "C": [212, 2, 743, 5342, 1548]}
METRICS = ("auc", "ap", "ndcg", "recall@10")

# The toy example of Krichene & Rendle (2020), doi:10.1145/3394486.3403226, to six decimals: A / B / C.
EXACT = {
    "auc": (0.990099, 0.554755, 0.843144),
    "ap": (0.010000, 0.010090, 0.101379),
    "ndcg": (0.150190, 0.121660, 0.208033),
    "recall@10": (0.0, 0.0, 0.2),
}
WITH = {
    "auc": (0.990099, 0.554755, 0.843144),
    "ap": (0.636592, 0.340739, 0.326169),
    "ndcg": (0.728989, 0.447337, 0.459986),
    "recall@10": (1.0, 0.4, 0.569422),
}
WITHOUT = {
    "auc": (0.990099, 0.554755, 0.843144),
    "ap": (0.635805, 0.340548, 0.325970),
    "ndcg": (0.728422, 0.447200, 0.459834),
    "recall@10": (1.0, 0.4, 0.569462),
}
# Standard deviation of one sampled run over the five items, with replacement.
STD = {
    "auc": (0.00445, 0.013558, 0.013767),
    "ap": (0.130393, 0.071091, 0.050873),
    "ndcg": (0.097758, 0.052787, 0.039519),
    "recall@10": (0.000112, 0.000001, 0.090245),
}
SIX_DECIMALS = 5.1e-7


def means(metric, n_sampled, replacement=True):
    return [expected_sampled(ranks, N, n_sampled, metric, replacement).mean() for ranks in RANKS.values()]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("published", "m", "replacement"), [(WITH, 99, True), (WITHOUT, 99, False), (EXACT, N - 1, False)]
)
def test_the_toy_example_is_reproduced(metric, published, m, replacement):
    sampled_means = means(metric, m, replacement)  # all others without replacement: the full ranking
    np.testing.assert_allclose(sampled_means, published[metric], atol=SIX_DECIMALS, rtol=0)


@pytest.mark.parametrize("metric", METRICS)
def test_the_standard_deviation_of_one_run_is_reproduced(metric):
    runs = [np.sqrt((std_sampled(ranks, N, 99, metric) ** 2).sum()) / len(ranks) for ranks in RANKS.values()]
    np.testing.assert_allclose(runs, STD[metric], atol=SIX_DECIMALS, rtol=0)


def test_the_order_flips_from_a_first_when_sampled_to_c_first_when_exact():
    for metric in ("ap", "ndcg", "recall@10"):
        assert np.argmax(means(metric, 99)) == 0
        assert np.argmax(EXACT[metric]) == 2


VALUES = {
    "recall@2": lambda i, m: float(i <= 2),
    "ap": lambda i, m: 1 / i,
    "rr@2": lambda i, m: (i <= 2) / i,
    "ndcg": lambda i, m: 1 / np.log2(1 + i),
    "precision@2": lambda i, m: (i <= 2) / 2,
    "auc": lambda i, m: (m + 1 - i) / m,
    "rbp(0.8)": lambda i, m: 0.2 * 0.8 ** (i - 1),
}


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("metric", sorted(VALUES))
def test_expectation_and_deviation_equal_the_enumeration_of_all_draws(metric, replacement):
    n = 5
    m = 3
    for rank in range(1, n + 1):
        competitors = [competitor for competitor in range(1, n + 1) if competitor != rank]
        draws = product(competitors, repeat=m) if replacement else combinations(competitors, m)
        values = [VALUES[metric](1 + sum(competitor < rank for competitor in draw), m) for draw in draws]
        mean = float(np.mean(values))
        std = float(np.std(values))
        assert expected_sampled([rank], n, m, metric, replacement)[0] == pytest.approx(mean, abs=1e-14)
        assert std_sampled([rank], n, m, metric, replacement)[0] == pytest.approx(std, abs=1e-14)


@given(st.integers(2, 10**7), st.data())
def test_sampled_auc_is_unbiased_under_both_laws(n, data):
    rank = data.draw(st.integers(1, n))
    m = data.draw(st.integers(1, min(n - 1, 200)))
    exact = (n - rank) / (n - 1)
    for replacement in (True, False):
        assert expected_sampled([rank], n, m, "auc", replacement)[0] == pytest.approx(exact, abs=1e-11)


@given(st.integers(3, 10**6), st.data())
def test_sampling_without_replacement_shrinks_the_variance_by_the_finite_population_factor(n, data):
    rank = data.draw(st.integers(2, n - 1))
    m = data.draw(st.integers(1, min(n - 1, 100)))
    with_replacement = std_sampled([rank], n, m, "auc", True)[0] ** 2
    without_replacement = std_sampled([rank], n, m, "auc", False)[0] ** 2
    assert without_replacement == pytest.approx(with_replacement * (n - 1 - m) / (n - 2), rel=1e-6, abs=1e-15)


def test_average_precision_follows_its_closed_form():
    rank = np.array([2, 40, 5000, 10_000])
    m = 99
    p = (rank - 1) / (N - 1)
    closed_form = (1 - (1 - p) ** (m + 1)) / ((m + 1) * p)
    np.testing.assert_allclose(expected_sampled(rank, N, m, "ap"), closed_form, rtol=1e-11)
    assert expected_sampled([1], N, m, "ap")[0] == 1.0


def test_each_rank_may_have_candidates_of_its_own_number():
    joint = expected_sampled([3, 3], [10, 50], 4, "ap")
    separate = [expected_sampled([3], n, 4, "ap")[0] for n in (10, 50)]
    np.testing.assert_allclose(joint, separate, rtol=1e-14)


def test_any_values_by_sampled_rank_can_be_averaged():
    # n = 2, m = 1: the only other item is drawn for certain.
    assert expected_sampled([1, 2], 2, 1, [7.0, 5.0]).tolist() == [7.0, 5.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_sampled([0, 3, 11], 10, 2, "ap"), "2 of 3 are not .first: rank 0 of 10"),
        (lambda: expected_sampled([1.5], 10, 2, "ap"), "whole numbers"),
        (lambda: expected_sampled([np.nan], 10, 2, "ap"), "whole numbers"),
        (lambda: expected_sampled([1], 1, 2, "ap"), "n_candidates must be >= 2"),
        (lambda: expected_sampled([1], 1, 1, "ap", False), "n_candidates must be >= 2; the smallest is 1"),
        (lambda: expected_sampled([1], 10, 0, "ap"), "n_sampled must be an integer >= 1"),
        (
            lambda: expected_sampled([1, 2], [10, 11], 10, "ap", False),
            "n_candidates must be >= 11 to draw 10 others without replacement; the smallest is 10",
        ),
        (lambda: expected_sampled([1], [[5, 5]], 2, "ap"), r"or 1, one per rank; got shape \(1, 2\)"),
        (lambda: expected_sampled([1], np.inf, 2, "ap"), "n_candidates must be whole numbers; got inf"),
        (lambda: expected_sampled([1], True, 2, "ap"), "n_candidates must be whole numbers; got True"),
        (lambda: expected_sampled([1, 2], [10, 11, 12], 2, "ap"), "one number or 2"),
        (lambda: expected_sampled([1, 2], [10], 2, "ap"), r"or 2, one per rank; got shape \(1,\)"),
        (lambda: expected_sampled([1], 10.5, 2, "ap"), "n_candidates must be whole numbers"),
        (lambda: expected_sampled([1], 10, 2, "recall"), "'recall' needs a cutoff"),
        (lambda: expected_sampled([1], 10, 2, "auc@5"), "'auc' takes no cutoff"),
        (lambda: expected_sampled([1], 10, 2, "recall@ten"), "integer >= 1; got 'ten'"),
        (lambda: expected_sampled([1], 10, 2, 3), "a metric is a label"),
        (lambda: expected_sampled([1], 10, 2, [1.0, 2.0]), "must have 3 entries"),
        (lambda: expected_sampled([1], 10, 2, [1.0, 2.0, np.inf]), "must be finite"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_laws_are_computed_in_blocks_of_so_many_entries_and_no_larger_draw(monkeypatch):
    ranks = np.arange(1, 6)
    metric = "ap"
    unblocked = [function(ranks, 5, 3, metric, False) for function in (expected_sampled, std_sampled)]
    grid = _rank_law.build_rank_grid(5, 3, True)
    for entries, step in ((1, 1), (7, 1), (8, 2), (19, 4), (20, 5)):  # four sampled ranks
        monkeypatch.setattr(_rank_law, "BLOCK_ENTRIES", entries)
        slices = [(rows.start, rows.stop) for rows in grid.blocks()]
        assert slices == [(first, first + step) for first in range(0, 5, step)]
        blocked = [function(ranks, 5, 3, metric, False) for function in (expected_sampled, std_sampled)]
        np.testing.assert_allclose(blocked, unblocked, rtol=1e-14)
    monkeypatch.setattr(_expectation, "MAX_CUTOFF", 3)
    assert expected_sampled([1], 9, 3, metric) == [1.0]
    with pytest.raises(InputError, match="n_sampled must be at most 3; got 4"):
        expected_sampled([1], 9, 4, metric)


def test_an_unknown_metric_lists_the_choices():
    with pytest.raises(UnknownNameError, match=r"f1.*Choices: adjusted_recall, ap, atop, auc"):
        expected_sampled([1], 10, 2, "f1@3")
