"""correct_sampled: estimates, standard errors, ties, several positives, data that cannot be corrected."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t

import ipseval
from ipseval.errors import InputError, UnknownNameError
from ipseval.metrics.sampled import correct_sampled
from ipseval.ranking import RankedPositives, SampledCandidates, rank_positives
from tests.inside.metrics import (
    _interpolate_tables,
    _rank_law,
    _select_knots,
    add_extreme_users,
    build_refit,
    classify_prior,
    divide_or_zero,
    fit_rank_distribution,
    group_by_size,
)
from tests.inside.ranking import Sampling
from tests.metrics.sampled.test_corrected import corrected_metric
from tests.worlds import random_world

N = 2000
M = 30
BASIC = ("none", "rank", "bv", "cls", "mle")
METHODS = ("bv", "mle", "cls", "ls", "rank", "none")


def drawn(seed=0, size=400, n=N, m=M):
    """Ranks of a recommender that is good at the head, and sampled ranks for them."""
    rng = np.random.default_rng(seed)
    rank = np.minimum(np.floor(1 + rng.pareto(0.7, size) * 8), n).astype(int)
    return rank, 1 + rng.binomial(m, (rank - 1) / (n - 1))


def in_python(sampled, values):
    return sum(values[int(rank) - 1] for rank in sampled) / len(sampled)


@pytest.mark.parametrize("method", ["rank", "bv", "cls"])
def test_the_estimate_is_the_mean_of_the_table_at_the_sampled_ranks(method):
    _, sampled = drawn()
    result = correct_sampled(sampled, N, M, "ap", method, prior="uniform")
    table = corrected_metric(N, M, "ap", method)
    assert result.estimate == pytest.approx(in_python(sampled, table), rel=1e-12)
    assert result.uncorrected_estimate == pytest.approx(
        in_python(sampled, 1 / np.arange(1.0, M + 2)), rel=1e-12
    )
    np.testing.assert_allclose(result.values, table, rtol=1e-12)
    np.testing.assert_allclose(result.contributions, table[sampled - 1], rtol=1e-12)
    deviation = np.std(table[sampled - 1], ddof=1) / np.sqrt(len(sampled))
    assert result.standard_error == pytest.approx(deviation, rel=1e-12)


def em_in_loops(sampled, n, m, steps):
    """The rank distribution by EM over every rank, one positive at a time."""
    from scipy.stats import binom

    law = binom.pmf(np.arange(m + 1), m, np.arange(n)[:, None] / (n - 1))
    pi = np.full(n, 1 / n)
    for _ in range(steps):
        next_pi = np.zeros(n)
        for rank in sampled:
            joint = pi * law[:, rank - 1]
            next_pi += joint / joint.sum()
        pi = next_pi / len(sampled)
    return pi


def test_maximum_likelihood_equals_em_over_single_positives():
    _, sampled = drawn(size=25, n=60, m=6)
    pi = em_in_loops(sampled, 60, 6, 40)
    expected = {"recall@5": pi[:5].sum(), "ap": (pi / np.arange(1, 61)).sum()}
    for metric, value in expected.items():
        result = correct_sampled(sampled, 60, 6, metric, "mle", n_iterations=40)
        assert result.estimate == pytest.approx(value, rel=1e-10)
        assert result.contributions.mean() == pytest.approx(value, rel=1e-10)


def test_the_estimated_prior_is_the_maximum_likelihood_distribution():
    _, sampled = drawn(size=25, n=60, m=6)
    pi = em_in_loops(sampled, 60, 6, 40)
    expected = corrected_metric(60, 6, "ap", "bv", prior=pi, variance_weight=0.1)
    result = correct_sampled(sampled, 60, 6, "ap", "bv", variance_weight=0.1, n_iterations=40)
    np.testing.assert_allclose(result.values, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("method", "prior"), [("bv", "uniform"), ("cls", None), ("mle", None), ("bv", None), ("rank", None)]
)
def test_the_standard_error_is_the_jackknife_over_users(method, prior):
    n = 60
    m = 6
    _, sampled = drawn(size=120, n=n, m=m)
    users = np.arange(120) // 10

    def estimate(keep):
        options = {"prior": prior, "users": users[keep], "n_iterations": 10}
        return correct_sampled(sampled[keep], n, m, "ap", method, **options)

    jackknife = np.array([estimate(users != user).estimate for user in range(12)])
    expected = np.sqrt(11 / 12 * np.sum((jackknife - jackknife.mean()) ** 2))
    tolerance = 0.05 if method == "mle" or (method, prior) == ("bv", None) else 1e-9  # linearised or exact
    assert estimate(users >= 0).standard_error == pytest.approx(expected, rel=tolerance)


def test_one_distribution_is_fitted_to_lists_of_different_length():
    # Half the positives compete among 200, half among 380; the ranks come from one distribution.
    rank, _ = drawn(size=6000, n=200)
    sizes = np.where(np.arange(rank.size) % 2, 200, 380)
    rng = np.random.default_rng(1)
    sampled = 1 + rng.binomial(M, (rank - 1) / (sizes - 1))
    truth = {"recall@10": np.mean(rank <= 10), "auc": np.mean((sizes - rank) / (sizes - 1))}
    for method in ("mle", "bv"):
        for metric, value in truth.items():
            result = correct_sampled(sampled, sizes, M, metric, method)
            assert abs(result.estimate - value) < 4 * result.standard_error


def test_a_weight_of_two_counts_like_two_users_with_the_same_rank():
    for method in ("bv", "mle", "cls"):
        weighted = correct_sampled([1, 3, 2], 50, 6, "ap", method, weights=[2, 1, 1])
        repeated_users = correct_sampled([1, 1, 3, 2], 50, 6, "ap", method)
        assert weighted.estimate == pytest.approx(repeated_users.estimate, rel=1e-10)


def test_users_count_equally_however_many_positives_they_have():
    # User a: ranks 1 and 3, user b: rank 2, m = 2: AUC by rank ((1 + 0)/2 + 1/2)/2.
    result = correct_sampled([1, 3, 2], 5, 2, "auc", "rank", users=["a", "a", "b"])
    assert result.estimate == pytest.approx(0.5)
    assert (result.n_users, result.n_positives) == (2, 3)


@pytest.mark.parametrize("method", ["bv", "mle"])
def test_corrections_with_a_fitted_distribution_come_near_the_full_ranking(method):
    rank, _ = drawn(size=4000)
    truth = np.mean(rank <= 10)
    rng = np.random.default_rng(5)
    sampled = 1 + rng.binomial(M, (rank - 1) / (N - 1))
    result = correct_sampled(sampled, N, M, "recall@10", method)
    uncorrected = correct_sampled(sampled, N, M, "recall@10", "none")
    uniform = correct_sampled(sampled, N, M, "recall@10", "bv", prior="uniform")
    assert abs(result.estimate - truth) < abs(uniform.estimate - truth) < abs(uncorrected.estimate - truth)
    assert abs(result.estimate - truth) < 0.05


def test_tables_between_the_knots_are_those_of_the_exact_size():
    sizes = 900 + np.arange(0, 100, 5)
    m = 10
    _, sampled = drawn(size=20, n=900, m=m)
    tables = _interpolate_tables(np.array([[0.0, 1.0, 4.0]]), np.array([900.0]), np.array([900.0, 900.0]))
    assert tables.tolist() == [[0, 1, 4]] * 2
    for metric in ("recall@10", "ndcg"):
        result = correct_sampled(sampled, sizes, m, metric, "bv", prior="uniform", variance_weight=0.1)
        exact = [
            corrected_metric(int(n), m, metric, "bv", variance_weight=0.1)[r - 1]
            for n, r in zip(sizes, sampled, strict=True)
        ]
        np.testing.assert_allclose(result.contributions, exact, atol=2e-5 * np.abs(exact).max())


def test_the_interval_of_two_positives_holds_every_mean_of_two():
    # Contributions 1 and 0, and those of the two added users, 1 and 0: two of four have the mean 0, ½ or 1.
    result = correct_sampled([1, 3], 5, 2, "auc", "rank")
    assert result.conf_int(0.9, rng=0) == (0.0, 1.0)
    single = correct_sampled([1], 5, 2, "auc", "rank")
    assert np.isnan([*single.conf_int(), single.standard_error]).all()
    with pytest.raises(InputError, match="n_resamples"):
        result.conf_int(n_resamples=0)


@pytest.mark.parametrize("method", ["bv", "mle"])
def test_a_refit_to_the_same_shares_is_the_estimate(method):
    _, sampled = drawn(size=25, n=60, m=6)
    result = correct_sampled(sampled, 60, 6, "recall@5", method, n_iterations=20)
    data = result._request.data
    target = ipseval.metric("recall@5")
    refit = build_refit(data, target, method, 0.01, 20)
    assert refit(data.share) == pytest.approx(result.estimate, rel=1e-12)
    # Counted twice, a positive moves the estimate as if it were there twice.
    share = data.share * np.where(np.arange(25) == 3, 2, 1)
    twice = np.append(np.arange(25), 3)
    expected = correct_sampled(sampled[twice], 60, 6, "recall@5", method, n_iterations=20)
    assert refit(share / share.sum()) == pytest.approx(expected.estimate, rel=1e-9)


@pytest.mark.parametrize("method", ["none", "rank", "bv", "cls", "mle"])
def test_the_interval_is_repeatable_and_holds_the_estimate(method):
    _, sampled = drawn(size=40, n=60, m=6)
    result = correct_sampled(sampled, 60, 6, "ndcg@5", method, n_iterations=5)
    low, high = result.conf_int(n_resamples=12, rng=1)
    assert (low, high) == result.conf_int(n_resamples=12, rng=1)
    assert low < result.estimate < high
    narrow_interval = result.conf_int(0.5, n_resamples=12, rng=1)
    assert low < narrow_interval[0] < narrow_interval[1] < high


def test_the_interval_has_quantiles_of_resampled_users_with_two_more_that_are_first_and_last():
    # AUC of ranks 1, 2, 2 and 4 of 1 … 4: 1, 2/3, 2/3 and 0; those of the two more are 1 and 0.
    result = correct_sampled([1, 2, 2, 4], 50, 3, "auc", "rank")
    values = np.array([1, 2 / 3, 2 / 3, 0, 1, 0])
    rng = np.random.default_rng(3)
    resamples = [rng.multinomial(4, np.full(6, 1 / 6)) @ values / 4 for _ in range(200)]
    low = norm.cdf(t.ppf(0.1, 3) * np.sqrt(4 / 3))
    interval = result.conf_int(0.8, n_resamples=200, rng=3)
    assert interval == pytest.approx(tuple(np.quantile(resamples, [low, 1 - low])))


def test_the_two_added_users_count_as_the_mean_user_and_rank_first_and_last():
    ranked = ranked_with(
        [0, 2, 1], [0, 1, 0], uniform=False,
        above_estimate=np.array([0.0, 10.5, 2.0]), tied_estimate=np.array([0.0, 5.0, 0.0]),
    )  # fmt: skip
    data = correct_sampled(ranked, metric="auc", method="importance")._request.data
    extended = add_extreme_users(data)
    assert (extended.n_above.tolist(), extended.n_tied.tolist()) == ([0, 2, 1, 0, 4], [0, 1, 0, 0, 0])
    assert (extended.n_candidates.tolist(), extended.n_users) == ([50] * 5, 5)
    assert (extended.share.tolist(), extended.segment.tolist()) == ([1 / 3] * 5, [0, 1, 2, 3, 4])
    assert extended.estimated_rank.tolist() == [1, 14, 3, 1, 50]
    # A tie over the ranks 3 and 4 counts half at each; nothing is at 5.
    assert data.rank_shares(np.ones(3, dtype=bool)) == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6, 0])
    # 1/2 / 2 + 1/2 / 3 less both leaves less than nothing to floating point.
    tied_data = correct_sampled(ranked_with([1, 1], [1, 2]), metric="auc", method="rank")._request.data
    assert tied_data.rank_shares(np.ones(2, dtype=bool)).tolist()[-1] == 0


def test_the_unbiased_form_of_a_corrected_metric_weighs_each_correction():
    # AUC at the ranks 1 and 1 + 49 · 2/4 of 50: 1 and 1/2; ŷ = 2 and 4 over s = 1 and 4 relevant items.
    metric = ipseval.metric("auc", sampled="rank")
    ranked = ranked_with([0, 2], [0, 0])
    inverse = np.array([2.0, 4.0])
    assert metric.unbiased(ranked, inverse, np.array([1.0, 4.0])).tolist() == [2.0, 0.5]
    assert metric.user_values(ranked, inverse).tolist() == [1.0, 0.5]


def test_lists_whose_lengths_are_within_two_percent_share_a_law():
    # log(104/100) is two widths of .02: 100 and 101 are in the first half, 103 and 104 in the second.
    sizes = np.array([100, 104, 101, 103])
    for replacement in (True, False):
        result = correct_sampled([1, 2, 3, 4], sizes, 5, "recall@3", "rank", replacement=replacement)
        rank_groups = group_by_size(result._request.data, ipseval.metric("recall@3"))
        groups = rank_groups.groups
        weight = rank_groups.weight
        assert rank_groups.group_of.tolist() == [0, 1, 0, 1]
        assert [group.grid.n_candidates for group in groups] == [100, 104]  # the rounded means
        assert groups[0].grid.rank[-6:].tolist() == [99, 100, 100, 100, 100, 100]
        assert groups[1].grid.rank.tolist() == list(range(1, 105))
        assert weight.tolist() == pytest.approx([1 / 104] * 104)
        uniform = fit_rank_distribution(groups, weight, 1).probabilities(0)  # before the first step
        assert uniform.tolist() == pytest.approx([1 / 104] * 104)
        assert groups[0].shares.tolist() == [0.25, 0, 0.25, 0, 0, 0]
        assert groups[1].shares.tolist() == [0, 0.25, 0, 0.25, 0, 0]
        assert len(groups) == 2
    near_data = correct_sampled([1, 2], [100, 101], 5, "recall@3", "rank")._request.data
    assert group_by_size(near_data, ipseval.metric("recall@3")).group_of.tolist() == [0, 0]
    wide_data = correct_sampled([1, 2], [100, 200], 5, "recall@3", "rank")._request.data  # sixteen at most
    assert group_by_size(wide_data, ipseval.metric("recall@3")).group_of.tolist() == [0, 1]
    many_data = correct_sampled(np.ones(101), 100 + np.arange(101), 5, "recall@3", "rank")._request.data
    assert group_by_size(many_data, ipseval.metric("recall@3")).group_of.max() == 15


def test_groups_share_the_nodes_of_the_longest_lists_rounded_to_ranks_in_shorter_ones(monkeypatch):
    monkeypatch.setattr(_rank_law, "MAX_EXACT_ENTRIES", 0)
    data = correct_sampled([1, 2, 3], [100, 140, 140], 5, "auc", "rank", replacement=False)._request.data
    short, long = group_by_size(data, ipseval.metric("auc")).groups
    assert (long.grid.rank % 1).any()
    np.testing.assert_array_equal(short.grid.rank, np.minimum(np.round(long.grid.rank), 100))
    result = correct_sampled([1, 2, 3], [100, 140, 140], 5, "auc", "mle", replacement=False)
    assert result.contributions[1:].tolist() == result.values[1:3].tolist()  # of the larger group
    assert result.contributions[0] != result.values[0]


def test_a_distribution_is_estimated_for_bv_and_always_for_mle():
    assert [classify_prior(None, method) for method in METHODS] == ["estimated"] * 2 + ["uniform"] * 4
    assert [classify_prior("uniform", method) for method in METHODS] == [
        "uniform",
        "estimated",
        *["uniform"] * 4,
    ]
    assert classify_prior(np.ones(3), "cls") == "given"
    assert classify_prior("estimated", "rank") == "estimated"
    assert divide_or_zero(np.array([0.0, 1, 2]), np.array([0.0, 0, 4])).tolist() == [0, 0, 0.5]
    conditions = [
        correct_sampled([1, 3, 2], 50, 6, "ap", method, variance_weight=1).condition_number
        for method in ("none", "rank", "bv", "mle")
    ]
    assert conditions == pytest.approx([1] * 4)


def test_many_lengths_of_lists_have_knots_one_percent_apart():
    few_sizes = np.array([100.0, 150.0, 200.0])
    assert _select_knots(few_sizes) is few_sizes
    knots = _select_knots(np.arange(900.0, 1100.0))
    assert (knots.size, knots[0], knots[-1]) == (21, 900, 1099)
    assert np.diff(np.log(knots)).max() < 0.011
    close_knots = _select_knots(np.arange(100.0, 105.0))  # of log(1.04) five: as they are
    assert close_knots.tolist() == [100, 101, 102, 103, 104]


@pytest.mark.slow
@pytest.mark.parametrize("power", [2, 3])
def test_intervals_from_twenty_positives_cover(power, monkeypatch):
    # At commit 68d2490 (normal interval): .67 at power 2, .80 at power 3.
    monkeypatch.setattr(_rank_law, "MAX_EXACT_ENTRIES", 0)
    n = 2000
    m = 50
    rng = np.random.default_rng(power)
    truth = (10 / n) ** (1 / power)  # P(⌈n u^power⌉ <= 10)
    n_covered = 0
    for _ in range(60):
        rank = np.ceil(n * rng.random(20) ** power)
        sampled = 1 + rng.binomial(m, (rank - 1) / (n - 1))
        low, high = correct_sampled(sampled, n, m, "recall@10").conf_int(n_resamples=150, rng=rng)
        n_covered += low <= truth <= high
    assert n_covered >= 50  # 95 % less four standard errors of 60 runs


def ranked_with(n_above, n_tied, *, n=50, m=4, **sampling):
    size = len(n_above)
    return RankedPositives(
        np.arange(size), np.arange(size), np.array(n_above), np.array(n_tied), np.full(size, m + 1),
        np.arange(size), np.arange(size),
        sampling=Sampling(m, np.full(size, n), True, **({"uniform": True} | sampling)),
    )  # fmt: skip


@pytest.mark.parametrize("method", BASIC)
def test_a_tie_is_the_mean_over_the_ranks_it_covers(method):
    # One positive tied over ranks 2 … 4 weighs like a third of a positive at each of them.
    tied_estimate = correct_sampled(ranked_with([0, 1], [0, 2]), metric="ap", method=method)
    users = ["a", "a", "a", "b", "b", "b"]
    separate_estimate = correct_sampled([1, 1, 1, 2, 3, 4], 50, 4, "ap", method, users=users)
    assert tied_estimate.estimate == pytest.approx(separate_estimate.estimate, rel=1e-10)


def test_importance_weighted_ranks_enter_the_metric_as_they_are():
    ranked = ranked_with(
        [0, 2], [0, 1], uniform=False,
        above_estimate=np.array([0.0, 10.5]), tied_estimate=np.array([0.0, 5.0]),
    )  # fmt: skip
    # r̂ = 1 and 1 + 10.5 + 2.5 = 14 of 50
    auc = correct_sampled(ranked, metric="auc", method="importance")
    assert auc.contributions.tolist() == [1.0, 36 / 49]
    assert correct_sampled(ranked, metric="recall@10", method="importance").estimate == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: correct_sampled([1, 5, 0], 9, 3), r"1 … n_sampled . 1 = 4; 2 of 3 are not \(first: 5\)"),
        (lambda: correct_sampled([1.5], 9, 3), "whole numbers"),
        (lambda: correct_sampled([], 9, 3), "empty"),
        (lambda: correct_sampled([1], 9), "n_candidates and n_sampled are needed"),
        (lambda: correct_sampled([1, 2], 9, 3, weights=[np.inf, 1]), "positive and finite; 1 of 2 are not"),
        (lambda: correct_sampled([1]), "n_candidates and n_sampled are needed"),
        (lambda: correct_sampled([1], 9, 3, users=[1, 2]), "users must have shape"),
        (lambda: correct_sampled([1, 2], 9, 3, weights=[1, 0]), "positive and finite; 1 of 2 are not"),
        (lambda: correct_sampled([1], 3, 3, replacement=False), "to draw 3 others without"),
        (lambda: correct_sampled([1], 9, 3, method="importance"), "needs the probabilities"),
        (lambda: correct_sampled([1, 2], [100, 200], 3, prior=np.ones(100)), "go from 100 to 200"),
        (lambda: correct_sampled([1], 9, 3, method="cls", prior="estimated"), "method='bv' only"),
        (lambda: correct_sampled([1], 10**6, 9000, method="mle"), "at most 5,000 sampled candidates"),
        (lambda: correct_sampled([1, 2], N, 99, method="ls"), "condition number"),
        (lambda: correct_sampled([1], 9, 3, n_iterations=0), "n_iterations"),
        (lambda: correct_sampled(ranked_with([0], [0]), 9, 3), "leave them out"),
        (lambda: correct_sampled(ranked_with([0], [0]), method="importance"), "drawn uniformly"),
        (lambda: correct_sampled(ranked_with([0], [0], uniform=False)), "share of probability above"),
        (
            lambda: correct_sampled(ranked_with([0], [0], pool="unobserved+positives")),
            "always hold the other positives",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_names_list_the_choices():
    with pytest.raises(UnknownNameError, match="Choices: bv, cls, importance, ls, mle, none, rank"):
        correct_sampled([1], 9, 3, method="best")
    with pytest.raises(UnknownNameError, match="Choices: estimated, uniform"):
        correct_sampled([1], 9, 3, prior="flat")


def test_full_ranks_are_refused_by_corrections():
    world = random_world(0)
    with pytest.raises(InputError, match="ranks among all candidates"):
        correct_sampled(rank_positives(world.scores, world.split))


@pytest.mark.filterwarnings("ignore:.*correction is fitted to the sampled ranks:ipseval.errors.DataWarning")
@pytest.mark.parametrize("method", ["rank", "cls", "bv", "mle"])
def test_corrected_metrics_run_through_every_estimator(method):
    world = random_world(3)
    ranked = rank_positives(world.scores, world.split, candidates=SampledCandidates(8, rng=0))
    metric = ipseval.metric("recall@5", sampled=method, n_iterations=5)
    options = {"metric": "recall@5", "method": method, "n_iterations": 5}
    evaluation = ipseval.evaluate_ranks(
        {"model": ranked},
        propensity=ipseval.KnownPropensity(item=world.propensity).fit(world.split.train),
        metrics=[metric],
        estimators=["aoa", "snips-global", "snips-pooled"],
        low_ess="ignore",
    )
    frame = evaluation.frame.set_index("estimator")
    result = correct_sampled(ranked, **options)
    assert frame.loc["aoa", "estimate"] == pytest.approx(result.estimate, rel=1e-12)
    weight = 1 / world.propensity[ranked.item]
    weighted = correct_sampled(ranked, **options, weights=weight)
    assert frame.loc["snips-global", "estimate"] == pytest.approx(weighted.estimate, rel=1e-12)
    pooled = float(weight @ weighted.contributions / weight.sum())
    assert frame.loc["snips-pooled", "estimate"] == pytest.approx(pooled, rel=1e-12)
    if method in ("rank", "cls"):  # tables that are not fitted: the errors of the estimator are the same
        assert frame.loc["snips-global", "std_error"] == pytest.approx(weighted.standard_error, rel=1e-9)
    assert (
        "plug-in: no guarantee (the correction for sampling is not unbiased)"
        in frame.loc["snips-global", "claim"]
    )


def test_metrics_read_off_sampled_ranks_warn_and_corrected_ones_do_not():
    world = random_world(3)
    ranked = rank_positives(world.scores, world.split, candidates=SampledCandidates(3, rng=0))
    with pytest.warns(ipseval.errors.DataWarning, match="recall@2: computed on 3 sampled candidates of 22"):
        ipseval.evaluate_ranks({"model": ranked}, metrics=["recall@2", "auc"])
    corrected = ipseval.metric("recall@2", sampled="rank")
    ipseval.evaluate_ranks({"model": ranked}, metrics=[corrected, "auc"])


def test_recall_among_each_users_own_items_warns_that_the_catalogue_may_order_otherwise():
    world = random_world(3)
    test = world.split.test.to_frame()
    own_items = pd.concat([test.assign(item=item) for item in world.split.item_ids[:8]] + [test])
    own_items = own_items[["user", "item"]].drop_duplicates()
    ranked = rank_positives(world.scores, world.split, candidates=own_items)
    with pytest.warns(ipseval.errors.DataWarning, match=r"another order than in the catalogue \(arXiv 2409"):
        ipseval.evaluate_ranks({"model": ranked}, metrics=["recall@2", "auc"])
    ipseval.evaluate_ranks({"model": ranked}, metrics=["auc"])  # no warning: pytest takes it for an error


def test_the_corrected_auc_keeps_the_claim_of_its_estimator():
    metric = ipseval.metric("auc", sampled="rank")
    assert "snips-pooled consistent" in ipseval.estimators.card(metric)
    with pytest.raises(InputError, match="averages over ties"):
        metric.contributions(ranked_with([0], [0]), ties="min")
