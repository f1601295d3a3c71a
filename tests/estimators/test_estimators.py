"""Parts of the estimators, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Aoa, Claim, Estimate, LinearForm, Note, Sample, Snips, UserSums, claim
from ipseval.ranking import RankedPositives
from tests.inside.estimators import (
    Moments,
    SampleSize,
    build_estimate,
    build_sample,
    check_sampled_lists,
    resolve_estimator,
    sum_weighted_contributions,
)
from tests.inside.metrics import Recall


def ranked() -> RankedPositives:
    """User 0 has ranks 1 and 3, user 1 rank 2, user 2 nothing; three items and three users."""
    n_above = np.array([0, 2, 1])
    return RankedPositives(
        user=np.array([0, 0, 1]),
        item=np.array([0, 1, 2]),
        n_above=n_above,
        n_tied=np.zeros(3, dtype=int),
        n_candidates=np.full(3, 3),
        user_ids=np.arange(3),
        item_ids=np.arange(3),
        candidates_by_user=np.full(3, 3),
    )


def evaluate_one(**options) -> pd.Series:
    """Return the only row of an evaluation of the ranks under known propensities."""
    settings = {"metrics": ["recall@1"], "estimators": ["ips"], "low_ess": "ignore"} | options
    propensity = ipseval.KnownPropensity(item=[0.5, 0.25, 1.0]).fit(ids())
    return ipseval.evaluate_ranks({"m": ranked()}, propensity=propensity, **settings).frame.iloc[0]


def ids() -> ipseval.Interactions:
    empty = np.zeros(0, dtype=int)
    return ipseval.Interactions(empty, empty, np.arange(3), np.arange(3))


@pytest.mark.filterwarnings("ignore")
def test_users_without_relevant_items_leave_ips_and_every_item_may_be_relevant():
    # Only rank 1 counts: 1/.5 over s_0 = 3 items, all there are; user 1 has 0; user 2 has none and leaves.
    assert evaluate_one(n_relevant=[3, 1, 0])["estimate"] == pytest.approx((2 / 3 + 0) / 2)
    assert evaluate_one(n_relevant=[3, 1, 2])["estimate"] == pytest.approx((2 / 3 + 0 + 0) / 3)
    with pytest.raises(InputError, match="at most the number of items, 3; got more for 1 user"):
        evaluate_one(n_relevant=[4, 1, 2])


def test_extra_weights_are_refused_in_per_user_forms():
    LinearForm(ranked(), False, True, own=np.ones(3))
    with pytest.raises(InputError, match="global forms only"):
        LinearForm(ranked(), True, True, own=np.ones(3))


def test_coefficients_of_a_global_mean_sum_to_one_and_of_a_global_sum_to_the_mean_number_of_positives():
    weights = np.array([2.0, 4.0, 1.0])
    assert LinearForm(ranked(), False, True).coefficients(weights) == pytest.approx(weights / 7)
    volume = LinearForm(ranked(), False, True, is_sum=True).coefficients(weights)
    assert volume == pytest.approx(weights / 7 * 1.5)  # three positives of two users
    twice = LinearForm(ranked(), False, True).coefficients(weights, np.array([2.0, 1.0]))
    assert twice == pytest.approx(np.array([4, 8, 1]) / 13)


def test_coefficients_and_sums_of_a_form_per_user_and_of_one_of_equal_users():
    weights = np.array([2.0, 4.0, 1.0])
    times = np.array([2.0, 1.0])
    per_user = LinearForm(ranked(), True, True)  # half of each user's share of weight
    assert per_user.coefficients(weights) == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    assert per_user.coefficients(weights, times) == pytest.approx([2 / 9, 4 / 9, 1 / 3])
    sum_form = LinearForm(ranked(), True, True, is_sum=True)  # times the number of positives
    assert sum_form.coefficients(weights) == pytest.approx([1 / 3, 2 / 3, 1 / 2])
    assert sum_form.volume is None
    user_mean_form = LinearForm(
        ranked(), False, True, users_equal=True
    )  # half of the weights of user 0: 1, 2 and 1
    assert user_mean_form.coefficients(weights) == pytest.approx([1 / 4, 2 / 4, 1 / 4])
    unweighted_form = LinearForm(ranked(), False, False, own=np.array([1.0, 2.0, 5.0]))
    assert unweighted_form.coefficients(weights) == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    values = np.array([[1.0], [0.5], [3.0]])
    for form, numerator, denominator in (
        (per_user, [2 / 3, 3], [1, 1]),
        (sum_form, [4 / 3, 3], [1, 1]),
        (user_mean_form, [2, 3], [3, 1]),
        (unweighted_form, [2, 15], [3, 5]),
    ):
        sums = form.sums(weights, values)
        assert (sums[0][:, 0], sums[1]) == (pytest.approx(numerator), pytest.approx(denominator))
    assert (per_user == LinearForm(ranked(), True, True), per_user == "per user") == (False, False)
    equal_form = LinearForm(per_user.ranked, True, True)
    assert per_user == equal_form
    assert hash(per_user) == hash(equal_form)
    assert per_user != replace(equal_form, is_sum=True)


def test_equal_propensities_give_plain_values_also_where_weighted_ones_are_known():
    sample = Sample(ranked(), np.array([0.5, 0.25, 1.0]))
    recall = ipseval.metric("recall@1")
    assert sample.user_values(recall, weighted=True).tolist() == pytest.approx([1 / 3, 0])
    equal = replace(sample, n_without_propensity=2).with_equal_propensities()
    assert (equal.user_values(recall, weighted=True).tolist(), equal.n_without_propensity) == ([0.5, 0], 0)


def test_the_repr_of_a_sample_names_the_scale_of_its_propensities():
    for options, words in (
        ((), "no propensity"),
        ((np.ones(3),), "relative propensity"),
        ((np.ones(3), True), "probabilities"),
    ):
        assert repr(Sample(ranked(), *options)).endswith(f"; {words})")


def test_a_positive_without_a_propensity_is_excluded_with_its_relevant_item():
    sample = Sample(ranked(), n_relevant=np.array([3.0, 1.0, 2.0]), n_without_propensity=2)
    reweighted = sample.under(np.array([np.nan, 0.5, 0.25]), True)
    assert (reweighted.n_relevant.tolist(), reweighted.n_without_propensity) == ([2, 1, 2], 3)
    assert (reweighted.propensity.tolist(), reweighted.is_probability) == ([0.5, 0.25], True)
    assert reweighted.ranked.n_above.tolist() == [1, 1]  # item 1 has one place less above it
    assert sample.under(np.ones(3), False).n_relevant.tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([2, 1, -1], r"^n_relevant must be finite and >= 0; 1 of 3 entries are not\.$"),
        ([np.inf, np.nan, 0], r"^n_relevant must be finite and >= 0; 2 of 3 entries are not\.$"),
        ([1, 0, 0], r"^n_relevant must be at least the number of observed positives .* got less for 2 users"),
        ([1, 1, 0], r"^n_relevant must be at least the number of observed positives .* got less for 1 user"),
        ("guessed", "n_relevant"),
    ],
)
def test_numbers_of_relevant_items_that_cannot_be_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        build_sample(ranked(), None, given, "default")


def test_numbers_of_relevant_items_may_be_one_for_all_or_those_of_the_positives():
    kinds = {None: "absent", "estimated": "estimated"}
    for n_relevant, kind in kinds.items():
        sample = build_sample(ranked(), None, n_relevant, "default")
        assert (sample.n_relevant, sample.n_relevant_kind) == (None, kind)
    for n_relevant, expected in ((2, [2, 2, 2]), ([2, 1, 0], [2, 1, 0])):
        sample = build_sample(ranked(), None, n_relevant, "default")
        assert (sample.n_relevant.tolist(), sample.n_relevant_kind) == (expected, "known")
    pair_of_user_2 = {"pair": np.array([0.5]), "pair_key": np.array([6])}  # item 0 of user 2
    unknown = ipseval.propensity.Propensity(None, True, "known", 3, **pair_of_user_2)
    with pytest.raises(PropensityError, match=r"^no test positive has a propensity: "):
        build_sample(ranked(), unknown, None, "default")
    assert len(build_sample(ranked(), unknown, None, "default", allow_empty=True).ranked) == 0
    partial = ipseval.propensity.Propensity(np.array([0.5, np.nan, np.nan]), True, "known", 3)
    assert len(build_sample(ranked(), partial, None, "default").ranked) == 1


def test_an_extent_counts_excluded_users_and_the_persons_of_queries():
    sample = Sample(replace(ranked(), left_out=np.array([False, False, True])), n_without_propensity=4)
    extent = SampleSize.from_sample(sample)
    assert extent.users_by_n_positives.tolist() == [1, 1, 1]
    assert (extent.n_without_propensity, extent.n_left_out, extent.n_clusters) == (4, 1, 0)
    queries = SampleSize.from_sample(
        Sample(replace(ranked(), cluster=np.array([0, 0, 1]), cluster_ids=np.arange(2)))
    )
    assert (queries.n_left_out, queries.n_clusters) == (0, 1)  # query 2, of the other person, has no positive
    assert SampleSize.from_sample(
        Sample(ranked().select(np.zeros(3, dtype=bool)))
    ).users_by_n_positives.tolist() == [3]


def test_the_shrunk_estimate_lies_between_its_ends_and_has_the_error_of_the_formula_written_out():
    # Users with weights 2 and 4, and 1; w̄ = (3 + 1)/2. Of λ = ¼ the normalisers are 6/4 + 3 and 1/4 + 3/2.
    sample = Sample(ranked(), np.array([0.5, 0.25, 1.0]))
    recall = ipseval.metric("recall@2")
    shrunk = resolve_estimator("snips-shrunk(0.25)")
    sums = shrunk.sums(sample, recall)  # ranks 1, 3 and 2
    assert shrunk.label == "snips-shrunk(0.25)"
    # Σwc = 2 and 1. The effect of w̄, −(2/4.5 · ¾ · 2/4.5 + 1/1.75 · ¾ · 1/1.75)/2, times distances 1 and −1.
    slope = -(0.75 * (2 / 4.5) ** 2 + 0.75 * (1 / 1.75) ** 2) / 2
    assert sums.numerator == pytest.approx([2 / 4.5 + slope, 1 / 1.75 - slope])
    assert shrunk.weight_positives(sample) == pytest.approx([2 / 4.5, 4 / 4.5, 1 / 1.75])
    for end, label in ((1, "snips"), (0, "snips-global")):
        end_sums = resolve_estimator(f"snips-shrunk({end})").sums(sample, recall)
        assert end_sums.value() == pytest.approx(resolve_estimator(label).sums(sample, recall).value())
    for shrinkage in ("1.5", "-0.1", "much"):
        with pytest.raises(InputError, match="shrinkage must be"):
            resolve_estimator(f"snips-shrunk({shrinkage})")


def test_a_copy_with_another_propensity_has_the_values_under_that_propensity():
    # The precisions at the ranks 1 and 3 of user 0 are 1 and 2/3, with the weights 2 and 4, and 4 and 2.
    ap = ipseval.metric("ap")
    sample = Sample(ranked(), np.array([0.5, 0.25, 1.0]))
    assert sample.user_values(ap, weighted=True)[0] == pytest.approx((2 * 1 + 4 * 2 / 3) / 6)
    copy = replace(sample, propensity=np.array([0.25, 0.5, 1.0]))
    assert copy.user_values(ap, weighted=True)[0] == pytest.approx((4 * 1 + 2 * 2 / 3) / 6)


def test_weights_of_positives_are_divided_by_the_normaliser_of_the_estimate():
    sample = Sample(ranked(), np.array([0.5, 0.25, 1.0]), True, np.array([3.0, 2, 1]), "known")
    for label, expected in (
        ("aoa", [1 / 2, 1 / 2, 1]),
        ("aoa-pooled", [1, 1, 1]),
        ("snips", [1 / 3, 2 / 3, 1]),
        ("snips-global", [1, 2, 1]),
        ("snips-pooled", [2, 4, 1]),
        ("ips", [2 / 3, 4 / 3, 1 / 2]),
        ("dm", [1, 1, 1]),
        ("dr", [2, 4, 1]),
    ):
        assert resolve_estimator(label).weight_positives(sample) == pytest.approx(expected), label
    without_n_relevant = Sample(ranked(), np.array([0.5, 0.25, 1.0]), True)
    assert resolve_estimator("ips").weight_positives(without_n_relevant).tolist() == [2, 4, 1]


@pytest.mark.parametrize("label", ["aoa", "aoa-pooled", "ips", "snips", "snips-global", "snips-pooled"])
@pytest.mark.parametrize("metric", ["recall@2", "dcg", "mean_dcg@2", "atop", "ndcg@2", "rbp"])
def test_parts_and_linear_forms_of_all_but_ips_give_the_value_of_the_sums(label, metric):
    sample = Sample(ranked(), np.array([0.5, 0.25, 1.0]), True, np.array([3.0, 2, 1]), "known")
    estimator = resolve_estimator(label)
    measure = ipseval.metric(metric)
    expected = estimator.sums(sample, measure).value()
    parts = estimator.parts(sample, measure)
    form = estimator.linear_form(measure, sample.ranked, is_probability=True)
    assert (parts is None) == (label == "ips" and metric in ("ndcg@2", "rbp"))
    assert parts is None or parts.total() == pytest.approx(expected)
    assert (form is None) == (label == "ips")
    values = sample.contributions(measure)
    if form is not None and values is not None:
        assert form.coefficients(sample.weights) @ values == pytest.approx(expected)


def test_parts_of_ips_are_of_the_users_that_count():
    sample = Sample(ranked(), np.array([0.5, 0.25, 1.0]), True, np.array([3.0, 2, 0]), "known")
    ips = resolve_estimator("ips")
    for label, weight, users, volume in (
        ("recall@1", [2 / 3, 4 / 3, 1 / 2], [0, 1], [2, 1 / 2]),
        ("dcg", [2, 4, 1], [0, 1], [6, 1]),
    ):
        parts = ips.parts(sample, ipseval.metric(label))
        assert (parts.users.tolist(), parts.weight) == (users, pytest.approx(weight))
        assert parts.volume == pytest.approx(volume)
    for estimator in ("ips", "snips-pooled", "snips"):
        assert resolve_estimator(estimator).parts(sample, ipseval.metric("ap")) is None
    # Up to a factor, as nothing else is known, there is no ratio of pairs.
    assert resolve_estimator("snips-pooled").linear_form(ipseval.metric("auc"), sample.ranked) is not None


def test_ips_counts_neither_users_left_out_nor_those_without_a_relevant_item():
    ranks = replace(ranked(), left_out=np.array([False, True, False]))
    ips = resolve_estimator("ips")
    propensity = np.array([0.5, 0.25, 1.0])
    for n_relevant, users in ((None, [0, 2]), (np.array([2.0, 1, 0]), [0])):
        sums = ips.sums(Sample(ranks, propensity, True, n_relevant, "known"), ipseval.metric("dcg@1"))
        assert (sums.users.tolist(), sums.numerator[0], sums.n_undefined) == (users, 2.0, 3 - len(users))
    without_candidates = replace(ranked(), candidates_by_user=None)
    with pytest.raises(InputError, match="ips of auc needs the number of candidates of every user"):
        ips.sums(
            Sample(without_candidates, propensity, True, np.array([2.0, 1, 1]), "known"),
            ipseval.metric("auc"),
        )


def test_a_ratio_of_pairs_is_refused_for_ties_that_relevance_decides():
    tied_ranks = replace(ranked(), n_tied=np.array([1, 0, 1]))
    pooled = resolve_estimator("snips-pooled")
    auc = ipseval.metric("auc")
    with pytest.raises(InputError, match=r"ties='min' it needs .* relevant; 2 of 3 positives are tied"):
        pooled.sums(Sample(tied_ranks, np.ones(3), True, ties="min"), auc)
    for sample in (
        Sample(ranked(), np.ones(3), True, ties="min"),
        Sample(tied_ranks, np.ones(3), True, ties="mean"),
    ):
        assert pooled.sums(sample, auc).n_users == 2


@pytest.mark.parametrize(
    ("sums", "extent", "notes"),
    [
        (([0.5, 1.0], 0), ([1, 2], 0), ["snips is identical to aoa here: every user has one positive"]),
        (([0.5, 1.0], 0), ([1, 1, 1], 0), []),
        (
            ([0.5], 1),
            ([0, 0, 1, 1], 3),
            ["1 user left out: the metric is undefined for them",
             "3 positives without a propensity left out of all averages, aoa too",
             "one user: no standard error"],
        ),
        (([], 2), ([0, 1, 1], 0), [
            "2 users left out: the metric is undefined for them",
            "undefined, as no user has a defined value",
        ]),
    ],
)  # fmt: skip
def test_an_estimate_has_each_note_once(sums, extent, notes):
    numerator = np.array(sums[0])
    short_list = Note.create("short_lists", n=1, n_all=3, cutoff=5)
    n_undefined = sums[1]
    user_sums = UserSums(np.arange(numerator.size), numerator, np.ones(numerator.size), None, n_undefined)
    estimate = build_estimate(
        user_sums,
        ipseval.metric("recall@5"),
        resolve_estimator("snips"),
        SampleSize(np.array(extent[0]), extent[1]),
        is_probability=False,
        n_relevant="absent",
        list_notes=[short_list],
    )
    assert [str(note) for note in estimate.notes] == [
        *notes,
        "1 of 3 lists is shorter than 5, padded with misses",
    ]
    assert (estimate.list_notes, estimate.suppressed, estimate.flag) == ((short_list,), False, "")


def test_an_estimate_is_printed_with_its_error_where_it_has_one():
    users = UserSums(np.arange(2), np.array([0.0, 1.0]), np.ones(2))
    no_claim = Claim("no guarantee")
    estimate = Estimate("recall@5", "aoa", users, 3, no_claim)
    assert repr(estimate) == (
        "Estimate(recall@5 by aoa: 0.5000 ± 0.5000; 2 users, 3 positives; plug-in: no guarantee)"
    )
    few = Note.create("text", text="few")
    suppressed = replace(estimate, suppressed=True, flags=(few,))
    assert repr(suppressed) == "Estimate(recall@5 by aoa: nan; 2 users, 3 positives; plug-in: no guarantee)"
    assert [str(note) for note in suppressed.reliability_notes] == ["suppressed: few"]
    assert replace(estimate, flags=(few,)).reliability_notes == (few,)


def test_labels_are_read_in_any_case_and_wrong_ones_are_refused():
    assert resolve_estimator(" Hajek ").label == resolve_estimator("SNIPW").label == "snips-pooled"
    assert resolve_estimator("Snips-Shrunk( 0.25 )").label == "snips-shrunk(0.25)"
    assert resolve_estimator("snips-shrunk").label == "snips-shrunk(0)"
    for label, words in (
        ("snips(2)", "estimator snips takes no parameter; got '2'"),
        ("snips(2", "does not parse; expected a name or name"),
        (7, "an estimator is a label such as 'snips' or an Estimator object; got 7"),
    ):
        with pytest.raises(InputError, match=words):
            resolve_estimator(label)


def test_only_the_doubly_robust_estimate_of_a_sum_is_exactly_unbiased():
    levels = [claim(ipseval.metric(label), "dr", is_probability=True).level for label in ("dcg", "recall@5")]
    assert levels == ["exactly unbiased", "consistent"]


def test_estimates_that_no_user_moves_have_a_covariance_of_zero():
    users = np.arange(4)
    constant = UserSums.from_values(users, np.full(4, 0.3), np.ones(4))
    varied = UserSums.from_values(users, np.array([0.0, 1.0, 1.0, 0.0]), np.ones(4))
    covariance = Moments.from_user_sums([constant, varied]).covariance()
    np.testing.assert_array_equal(covariance[0], [0.0, 0.0])
    assert covariance[1, 1] == pytest.approx(1 / 3 / 4)  # the variance over the number of users


def test_only_lists_of_a_positive_of_its_own_refuse_metrics_of_lists():
    metrics = [ipseval.metric(label) for label in ("ap", "recall@2", "ndcg@2")]
    check_sampled_lists("user", metrics)
    check_sampled_lists("positive", metrics[1:2])
    with pytest.raises(InputError, match=r"^ap, ndcg@2: a metric of a list, but with per='positive'"):
        check_sampled_lists("positive", metrics)


def test_fewer_than_five_positives_in_the_median_are_too_few_for_weights_within_each_user():
    snips = resolve_estimator("snips")
    assert (snips.caution(np.full(3, 5)), resolve_estimator("aoa").caution(np.full(3, 2))) == ("", "")
    for counts, unit, words in (
        ([4, 5], "user", "4.5 test positives: per-user snips keeps a bias of order 1/(positives per user)"),
        (
            [1, 1, 3],
            "query",
            "1 test positive: per-query snips keeps a bias of order 1/(positives per query)",
        ),
        ([1, 1], "user", "1 test positive: every user has one positive, so snips is identical to aoa"),
    ):
        message = f"the median {unit} has {words}. Prefer snips-global or snips-pooled."
        assert snips.caution(np.array(counts), unit) == message
    assert " user has 2 test positives: " in snips.caution(np.full(3, 2))


@pytest.mark.parametrize(
    "label", ["recall@1", "recall@2", "atop", "mean_dcg@2", "precision@2", "ndcg@2", "rr"]
)
def test_snips_divides_as_the_weighted_value_of_the_metric_does(label):
    sample = Sample(ranked(), np.array([0.3, 0.7, 0.9]))
    metric = ipseval.metric(label)
    expected = metric.user_values(sample.ranked, sample.weights)
    by_hand = expected * sample.user_weight_sums
    assert sum_weighted_contributions(sample, metric) == pytest.approx(by_hand, rel=1e-15)
    assert resolve_estimator("snips").sums(sample, metric).numerator == pytest.approx(expected, rel=1e-15)


def test_snips_keeps_the_weighted_value_that_a_metric_defines_for_itself():
    class CappedRecall(Recall):
        name = "capped_recall"

        def _user_values(self, ranked, weights, rule):
            return np.full(ranked.users.size, 0.25)

    sample = Sample(ranked(), np.array([0.3, 0.7, 0.9]))
    values = resolve_estimator("snips").sums(sample, CappedRecall(2)).numerator
    assert values == pytest.approx([0.25, 0.25], rel=1e-15)


def test_an_unknown_normalisation_is_refused_with_the_choices():
    with pytest.raises(InputError, match=r"normalize.*'users'.*Did you mean 'user'"):
        Snips(normalize="users")
    with pytest.raises(InputError, match=r"normalize.*'global'.*pooled, user"):
        Aoa(normalize="global")
