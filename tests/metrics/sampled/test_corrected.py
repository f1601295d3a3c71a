"""Correction tables: published figures, optimality, errors and large numbers of candidates."""

from __future__ import annotations

import tracemalloc
from contextlib import nullcontext
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from ipseval.errors import InputError, UnknownNameError
from ipseval.metrics import AdditiveMetric
from ipseval.metrics import metric as find_metric
from ipseval.metrics.sampled import correct_sampled, expected_sampled, std_sampled
from tests.inside.metrics import (
    _accumulate_normal_equations,
    _correction_table,
    _format_condition,
    _rank_distribution,
    _rank_law,
    average_tied_values,
    compute_correction_table,
)
from tests.metrics.sampled.test_expected import RANKS, SIX_DECIMALS, N

# m = 99, n = 10 000, binomial, uniform prior: M̂(1) … M̂(4), computed once by exact summation.
TABLES = {
    ("ap", "cls", None): (0.091791, 0.000057, 0.000057, 0.000057),
    ("ap", "rank", None): (1.0, 0.009804, 0.004926, 0.003289),
    ("ap", "bv", 0.01): (0.159674, -0.193811, 0.088247, 0.043929),
    ("ap", "bv", 0.1): (0.100619, -0.042256, -0.004885, 0.006955),
    ("ap", "bv", 1): (0.046383, 0.009588, 0.004953, 0.003317),
    ("ndcg", "rank", None): (1.0, 0.149555, 0.130337, 0.121173),
    ("ndcg", "cls", None): (0.281418, 0.106762, 0.106762, 0.106762),
    ("ndcg", "bv", 0.01): (0.334932, -0.063776, 0.197838, 0.159990),
    ("ndcg", "bv", 0.1): (0.269250, 0.090436, 0.112893, 0.120211),
    ("ndcg", "bv", 1): (0.194957, 0.141569, 0.127017, 0.119231),
    ("recall@10", "rank", None): (1, 0, 0, 0),
    ("recall@10", "cls", None): (0.188539, 0, 0, 0),
    ("recall@10", "bv", 0.01): (0.400921, -0.598190, 0.271621, 0.127786),
    ("recall@10", "bv", 0.1): (0.233087, -0.147917, -0.019706, 0.017197),
    ("recall@10", "bv", 1): (0.095212, 0.004189, 0.000129, 0.000003),
}
# Expected corrected metric of A, B, C; standard deviation of a run of five items to three decimals.
EXPECTED = {
    ("ap", "rank", None): ((0.378158, 0.272897, 0.223821), (0.215, 0.131, 0.068)),
    ("ap", "cls", None): ((0.034311, 0.024978, 0.020453), (0.020, 0.012, 0.006)),
    ("ap", "bv", 0.01): ((0.006342, 0.024950, 0.031471), (0.071, 0.044, 0.026)),
    ("ap", "bv", 0.1): ((0.021582, 0.022896, 0.020773), (0.028, 0.018, 0.009)),
    ("ndcg", "rank", None): ((0.461372, 0.337406, 0.302054), (0.186, 0.113, 0.059)),
    ("ndcg", "cls", None): ((0.171980, 0.137151, 0.137494), (0.038, 0.023, 0.012)),
    ("ndcg", "bv", 0.001): ((0.136927, 0.132010, 0.158739), None),
    ("ndcg", "bv", 0.01): ((0.148454, 0.135706, 0.146873), (0.078, 0.049, 0.027)),
    ("ndcg", "bv", 0.1): ((0.163463, 0.132294, 0.135117), (0.037, 0.023, 0.011)),
    ("recall@10", "rank", None): ((0.373408, 0.271665, 0.222338), (0.216, 0.132, 0.068)),
    ("recall@10", "cls", None): ((0.070402, 0.051220, 0.041920), (0.041, 0.025, 0.013)),
    ("recall@10", "bv", 0.01): ((-0.015524, 0.051725, 0.074705), (0.203, 0.123, 0.077)),
    ("recall@10", "bv", 0.1): ((0.030028, 0.047394, 0.043994), (0.074, 0.048, 0.024)),
    ("recall@10", "bv", 1): ((0.037125, 0.026310, 0.021405), (0.020, 0.012, 0.006)),
    ("auc", "cls", None): ((0.990099, 0.554755, 0.843144), None),
    ("auc", "rank", None): ((0.990099, 0.554755, 0.843144), None),
    ("auc", "bv", 0.1): ((0.989112, 0.554648, 0.842455), None),
}


def corrected_metric(
    n_candidates, n_sampled, metric="recall@10", method="bv", *, replacement=True, prior="uniform", **options
):
    """Return the table of a correction, under the uniform prior where none is given."""
    corrected = find_metric(metric, sampled=method, prior=prior, **options)
    return corrected.table(n_candidates, n_sampled, replacement=replacement)


def correction(metric, method, g=None, n=N, m=99, **options):
    if g is not None:
        options["variance_weight"] = g
    return corrected_metric(n, m, metric, method, **options)


@pytest.mark.parametrize("key", TABLES, ids=str)
def test_the_reference_tables_are_reproduced(key):
    values = correction(*key)
    assert values.shape == (100,)
    np.testing.assert_allclose(values[:4], TABLES[key], atol=SIX_DECIMALS, rtol=0)


@pytest.mark.parametrize("key", EXPECTED, ids=str)
def test_the_expected_corrected_values_are_reproduced(key):
    corrected = correction(*key)
    expected, deviations = EXPECTED[key]
    means = [expected_sampled(ranks, N, 99, corrected).mean() for ranks in RANKS.values()]
    np.testing.assert_allclose(means, expected, atol=SIX_DECIMALS, rtol=0)
    if deviations is not None:
        run = [np.sqrt((std_sampled(ranks, N, 99, corrected) ** 2).sum()) / 5 for ranks in RANKS.values()]
        np.testing.assert_allclose(run, deviations, atol=5.1e-4, rtol=0)


def pmf(n, m, replacement):
    j = np.arange(m + 1)[None, :]
    above = np.arange(n)[:, None]
    return binom.pmf(j, m, above / (n - 1)) if replacement else hypergeom.pmf(j, n - 1, above, m)


@pytest.mark.parametrize("replacement", [True, False])
def test_the_bias_variance_correction_solves_its_normal_equations(replacement):
    n = 60
    m = 12
    g = 0.05
    prior = np.linspace(3, 1, n) / np.linspace(3, 1, n).sum()
    a = pmf(n, m, replacement)
    b = 1 / np.arange(1.0, n + 1)
    system = (1 - g) * a.T @ (a * prior[:, None]) + g * np.diag(a.T @ prior)
    solution = np.linalg.solve(system, a.T @ (prior * b))
    values = corrected_metric(n, m, "ap", "bv", replacement=replacement, variance_weight=g, prior=3 * prior)
    np.testing.assert_allclose(values, solution, rtol=1e-9)


def test_variance_weight_one_gives_the_posterior_mean():
    n = 40
    m = 7
    a = pmf(n, m, True)
    b = 1 / np.log2(np.arange(2.0, n + 2))
    np.testing.assert_allclose(
        corrected_metric(n, m, "ndcg", "bv", variance_weight=1), (a.T @ b) / a.sum(axis=0), rtol=1e-12
    )


def test_constrained_least_squares_beats_every_other_non_increasing_table():
    n = 50
    m = 6
    a = pmf(n, m, True)
    b = (np.arange(1, n + 1) <= 10).astype(float)
    best = corrected_metric(n, m, "recall@10", "cls")
    assert (np.diff(best) <= 0).all()
    assert best[-1] >= 0
    loss = np.sum((a @ best - b) ** 2)
    rng = np.random.default_rng(0)
    for _ in range(300):
        candidate = np.sort(np.abs(best + rng.normal(scale=rng.choice([0.01, 0.1, 1]), size=m + 1)))[::-1]
        assert np.sum((a @ candidate - b) ** 2) >= loss - 1e-12


def test_constrained_least_squares_takes_many_steps_and_raises_if_they_do_not_converge(monkeypatch):
    n = 100
    m = 20
    values = corrected_metric(n, m, "rbp(0.9)", "cls")  # three to five steps for each sampled rank
    np.testing.assert_allclose(pmf(n, m, True) @ values, 0.1 * 0.9 ** np.arange(n), atol=1e-3)

    def without_end(*_, **__):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("scipy.optimize.nnls", without_end)
    with pytest.raises(InputError, match=r"'cls' does not converge with 20 of 100 candidates.*method='bv'"):
        corrected_metric(n, m, "rbp(0.9)", "cls")


def test_plain_least_squares_is_exact_where_an_unbiased_correction_exists():
    # With m = n − 1 draws without replacement the sampled rank is the rank.
    values = corrected_metric(6, 5, "recall@2", "ls", replacement=False)
    np.testing.assert_allclose(values, [1, 1, 0, 0, 0, 0], atol=1e-12)


def test_plain_least_squares_is_refused_with_the_condition_number_and_an_alternative():
    with pytest.raises(InputError, match=r"condition number \d\.\de\+1[4-9] or more.*method='bv'.*'cls'"):
        corrected_metric(N, 99, "ap", "ls")
    with pytest.raises(InputError, match=r"condition number 4\.8e\+08 with 30"):  # √C(61, 30)
        corrected_metric(N, 30, "ap", "ls")
    with pytest.raises(InputError, match=r"ill-conditioned here.* with 3 of 3 candidates"):  # 4 from 3 ranks
        corrected_metric(3, 3, "ap", "ls")
    assert [_format_condition(condition) for condition in (1e14 - 1, 1e14)] == ["1.0e+14", "1.0e+14 or more"]


@pytest.mark.parametrize("m", [1, 5, 20])
def test_the_condition_number_of_least_squares_follows_its_closed_form(m):
    # For a long list the eigenvalues of AᵀDA are those of the Bernstein–Durrmeyer operator,
    # (m!)²/((m − k)!(m + k + 1)!), k = 0 … m: their extreme ratio is C(2m + 1, m).
    condition = compute_correction_table(10**6, m, find_metric("ap"), "ls")[1]
    assert condition == pytest.approx(comb(2 * m + 1, m) ** 0.5, rel=1e-4)


def test_a_vanishing_variance_weight_is_refused_with_the_condition_number():
    with pytest.raises(InputError, match=r"condition number of about 1\.0e\+13.*variance_weight >= 1e-10"):
        corrected_metric(N, 99, "ap", "bv", variance_weight=1e-13)
    options = {"variance_weight": 0.01}
    assert compute_correction_table(N, 99, find_metric("ap"), "bv", **options)[1] == pytest.approx(100)


def test_too_many_sampled_candidates_for_a_system_are_referred_to_the_rank_estimate():
    with pytest.raises(InputError, match="method='rank'"):
        corrected_metric(10**6, 10_000, "ap", "bv")
    assert corrected_metric(10**6, 10_000, "ap", "rank").shape == (10_001,)


def test_a_system_may_have_so_many_sampled_candidates_and_a_small_one_takes_one_thread(monkeypatch):
    calls = []
    monkeypatch.setattr(_correction_table, "one_blas_thread", lambda: nullcontext(calls.append(1)))
    monkeypatch.setattr(_correction_table, "MIN_PARALLEL_SAMPLED", 2)
    monkeypatch.setattr(_correction_table, "MAX_SAMPLED", 3)
    monkeypatch.setattr(_rank_distribution, "MAX_SAMPLED", 3)
    for m, n_calls in ((1, 1), (2, 1), (3, 1)):
        assert corrected_metric(9, m, "ap", "bv").size == m + 1
        assert len(calls) == n_calls
    assert correct_sampled([1], 9, 3, "ap", "mle").values.size == 4
    with pytest.raises(InputError, match="= 5, more than 4; use method='rank'"):
        corrected_metric(9, 4, "ap", "bv")
    with pytest.raises(InputError, match="at most 3 sampled candidates; got 4"):
        correct_sampled([1], 9, 4, "ap", "mle")
    least_squares, condition = compute_correction_table(9, 3, find_metric("ap"), "ls")
    monkeypatch.setattr(_correction_table, "MAX_CONDITION", condition)  # which is allowed itself
    assert corrected_metric(9, 3, "ap", "ls").tolist() == least_squares.tolist()


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "m"), [(6_000, 12), (1_500, 400)])
def test_quadrature_agrees_with_the_sum_over_all_ranks(monkeypatch, n, m, replacement):
    monkeypatch.setattr(_rank_law, "MAX_EXACT_ENTRIES", 0)
    law = _rank_law.compute_rank_law(np.arange(1.0, n + 1), np.full(n, float(n)), m, replacement)
    gram = law.T @ law / n
    marginal = law.sum(axis=0) / n
    for metric in ("recall@10", "recall@777", "ap", "ndcg@50", "ndcg"):
        target = find_metric(metric)
        sums = _accumulate_normal_equations(
            _rank_law.build_rank_grid(n, m, replacement, cutoff=target.cutoff), target
        )
        exact = gram, marginal, law.T @ target.curve(n) / n
        for computed, expected in zip(sums, exact, strict=True):
            assert np.abs(computed - expected).max() <= 1e-11 * np.abs(expected).max()


def test_sums_over_ranks_are_exact_up_to_so_many_entries_of_the_law(monkeypatch):
    for limit, is_exact in ((6_000 * 13, True), (6_000 * 13 - 1, False)):
        monkeypatch.setattr(_rank_law, "MAX_EXACT_ENTRIES", limit)
        grid = _rank_law.build_rank_grid(6_000, 12, True)
        assert (grid.rank.size == 6_000) is is_exact
        assert grid.weight.sum() == pytest.approx(1)
        prior = np.full(6_000, 1 / 6_000)
        assert _rank_law.build_rank_grid(6_000, 12, True, prior=prior).rank.size == 6_000


def test_panels_double_until_they_are_two_and_a_half_deviations_wide_and_end_at_the_cutoff():
    # Of 10,001 ranks p = (first − 1)/10,000: with m = 100 the width is 2,500 √(p(1 − p)).
    panels = list(_rank_law._split_panels(10_001, 100, True, None))
    assert panels[:7] == [(1, 16), (17, 17), (34, 34), (68, 68), (136, 136), (272, 272), (544, 544)]
    assert panels[7:9] == [(1088, int(2500 * (0.1087 * 0.8913) ** 0.5)), (1866, 973)]
    assert panels[-1] == (9538, 464)  # to the last rank
    assert list(_rank_law._split_panels(10_001, 100, True, 300))[4:7] == [(136, 136), (272, 29), (301, 301)]
    # Without replacement every rank of the first and last m is a node.
    hypergeometric_panels = list(_rank_law._split_panels(300, 40, False, 1))
    assert hypergeometric_panels[:5] == [(1, 1), (2, 16), (18, 16), (34, 7), (41, 40)]
    assert hypergeometric_panels[-3:] == [(261, 16), (277, 16), (293, 8)]


@pytest.mark.parametrize("method", ["bv", "cls", "rank"])
@pytest.mark.parametrize("metric", ["recall@10", "ap"])
def test_ten_million_candidates_take_little_memory(metric, method):
    tracemalloc.start()
    table = corrected_metric(10**7, 100, metric, method, replacement=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.shape == (101,)
    assert peak < 500e6


def test_the_values_of_a_table_are_averaged_over_ties():
    averages = average_tied_values(np.array([0.9, 0.3, 0.0]), np.array([0, 0, 1]), np.array([0, 2, 1]))
    np.testing.assert_allclose(averages, [0.9, 0.4, 0.15])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_candidates": 1}, "n_candidates must be an integer >= 2"),
        ({"n_sampled": 0}, "n_sampled must be an integer >= 1"),
        ({"n_sampled": 100, "replacement": False}, "cannot draw 100 of 99 other"),
        ({"variance_weight": 1.5}, "variance_weight must be in"),
        ({"variance_weight": -1}, "variance_weight must be in"),
        ({"prior": [1.0, 2.0]}, "each of the 100 ranks"),
        ({"prior": np.full(100, -1.0)}, "100 entries are below 0"),
        ({"prior": np.full(100, np.nan)}, "100 of 100 entries are NaN"),
        ({"prior": np.zeros(100)}, "prior must be >= 0 with a positive sum; 0 entries are below 0"),
        ({"variance_weight": 0}, "condition number of about inf"),
        ({"n_candidates": 10**6, "n_sampled": 5_001}, "= 5,002, more than 5,001; use method='rank'"),
    ],
)
def test_bad_input_is_named(options, message):
    call = {"n_candidates": 100, "n_sampled": 10, "metric": "ap", "method": "bv"} | options
    with pytest.raises(InputError, match=message):
        corrected_metric(**call)


def test_a_sampled_rank_that_the_prior_excludes_has_no_value():
    # Rank 1 has nothing above it, so that every sampled rank is 1.
    table = corrected_metric(4, 2, "ap", "bv", prior=[3.0, 0, 0, 0])
    np.testing.assert_allclose(table, [1, np.nan, np.nan], atol=1e-15)
    nearly_unregularised = corrected_metric(20, 3, "ap", "bv", variance_weight=1e-10)
    np.testing.assert_allclose(nearly_unregularised, corrected_metric(20, 3, "ap", "ls"), rtol=1e-4)


@pytest.mark.parametrize(
    ("label", "method", "words"),
    [
        ("auc", "rank", ""),
        ("atop", "importance", ""),
        ("auc", "bv", "not unbiased"),
        ("ap", "rank", "not unbi"),
    ],
)
def test_only_metrics_linear_in_the_rank_keep_their_claims(label, method, words):
    metric = find_metric(label, sampled=method)
    assert (metric.approximate == "", words in metric.approximate) == (words == "", True)
    assert metric.definition.formula.endswith(f"M̂(r̃_i): {label} from sampled ranks by {method!r}")


def test_a_table_for_another_number_of_draws_is_refused():
    with pytest.raises(InputError, match="12"):
        expected_sampled([1], 100, 11, corrected_metric(100, 10, "ap"))


def test_bv_has_one_default_prior_and_a_table_without_data_asks_for_it():
    # At commit 68d2490 `corrected_metric` took the uniform prior and `correct_sampled` the estimated one.
    for prior in (None, "estimated"):
        with pytest.raises(InputError, match=r"ap~bv estimates its prior.*pass prior='uniform'"):
            find_metric("ap", sampled="bv", prior=prior).table(20, 5)
    for method in ("mle", "importance"):
        with pytest.raises(InputError, match="is fitted to sampled ranks"):
            find_metric("ap", sampled=method).table(20, 5)
    uniform, default = (
        find_metric("ap", sampled="cls", prior=prior).table(20, 5) for prior in ("uniform", None)
    )
    assert uniform.tolist() == default.tolist()


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("Recall@2", [1, 1, 0, 0]),
        ("hr@2", [1, 1, 0, 0]),
        ("mrr", [1, 1 / 2, 1 / 3, 1 / 4]),
        ("map@3", [1, 1 / 2, 1 / 3, 0]),
        ("rbp(0.5)@3", [1 / 2, 1 / 4, 1 / 8, 0]),
        ("precision(denominator=min)@2", [1, 1, 0, 0]),
        ("p@2", [1 / 2, 1 / 2, 0, 0]),
        ("atop", [1, 2 / 3, 1 / 3, 0]),
        ("ndcg(gain=linear)@1", [1, 0, 0, 0]),
    ],
)
def test_every_label_of_a_metric_is_read_by_the_sampled_functions(label, values):
    # Ranks 1 and 4 of 4 are surely ranks 1 and 4 of a full draw; with m = 3 of 3 all ranks are kept.
    expectation = expected_sampled([1, 2, 3, 4], 4, 3, label, replacement=False)
    assert expectation == pytest.approx(values, abs=1e-12)
    table = find_metric(label, sampled="none").table(4, 3)
    assert table == pytest.approx(values, abs=1e-15)


def test_a_custom_additive_metric_can_be_corrected():
    class InverseRoot(AdditiveMetric):
        name = "inverse_root"
        kind = "mean"

        def _value_at_rank(self, rank, n_candidates):
            return rank**-0.5

    values = expected_sampled([1, 3], 3, 2, InverseRoot(), replacement=False)
    assert values == pytest.approx([1, 3**-0.5])
    assert repr(find_metric(InverseRoot(2), sampled="rank")) == "inverse_root@2~rank"
    result = correct_sampled([1, 3], 3, 2, InverseRoot(), "ls", replacement=False)
    assert result.estimate == pytest.approx((1 + 3**-0.5) / 2)

    class Below(AdditiveMetric):
        name = "below"
        kind = "mean"

        def _value_at_rank(self, rank, n_candidates):
            return (n_candidates - rank) / (n_candidates - 1)  # warns of one candidate

    assert find_metric(Below(), sampled="rank").table(3, 2).tolist() == [1, 0.5, 0]
    with pytest.raises(InputError, match="depends on the grade"):
        correct_sampled([1, 3], 3, 2, "dcg(gain=linear)")


def test_a_corrected_metric_reads_back_from_its_label():
    for label in ("recall@10~bv", "ndcg~mle", "rbp(0.5)@3~cls"):
        assert repr(find_metric(label)) == label
    with pytest.raises(InputError, match="the label says ~bv"):
        find_metric("recall@10~bv", sampled="mle")
    with pytest.raises(UnknownNameError, match="bv"):
        find_metric("recall@10~bw")
