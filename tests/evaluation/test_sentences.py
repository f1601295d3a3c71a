"""The sentences of a verdict: each kind has its own, and all outputs take them from there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.verdicts import (
    AB,
    ABC,
    BA,
    PLAIN,
    decided,
    of_dcg,
    posterior,
    with_posterior,
)
from tests.inside.evaluation import (
    Verdict,
    Weights,
    probability,
    verdict_lines,
)
from tests.inside.report import shown_p


@pytest.mark.parametrize("evidence", ["log", "exposure"])
def test_where_somebody_was_exposed_it_is_not_said_that_nobody_measured_exposure(evidence):
    (plain,) = verdict_lines([with_posterior(AB, sure=0.6, evidence=evidence)])
    (weighted,) = verdict_lines([with_posterior(AB, BA, "assumed", sure=0.6, evidence=evidence)])
    assert "b would be first." in weighted
    for said in (plain, weighted):
        assert ("Nobody measured exposure" in said) is (evidence == "log")


def test_assumed_weights_never_overrule_the_plain_average():
    found = decided(AB, BA, "assumed", apart=("ab",))
    assert (found.leader, found.choice, found.reason, found.estimator) == (None, "a", "plain", PLAIN)
    assert "if these weights were right, b would be first." in verdict_lines([found])[0]


def test_the_impressions_beside_other_weights_withhold_the_verdict_where_they_name_another():
    beside = {"recall@10": Weights("from impressions", "fitted", "b", 500.0, 1000.0)}
    for own in ((), (AB, "assumed"), (BA, "assumed")):
        found = decided(AB, *own, beside=beside)
        assert (found.leader, found.choice, found.reason) == (None, None, "contradiction")
        assert "weights from impressions put b first" in verdict_lines([found])[0]
    same = {"recall@10": replace(beside["recall@10"], best="a")}
    assert decided(AB, beside=same).choice == "a"


def test_order_probabilities_and_loss_are_of_the_average_over_pairs():
    """By the average over users b is ahead, by that over pairs a; the verdict does not mix them."""
    found = decided(BA, posteriors={"recall@10": posterior(AB, 0.7)}, unknown="")
    assert found.order == ("a", "b")
    assert found.choice == "a"
    assert verdict_lines([found])[0].startswith("By the plain average over pairs a is ahead of b ")
    tied = replace(found, posterior=posterior({"a": 0.3 + 1e-16, "b": 0.3}, 0.7))
    assert tied.order == ("b", "a")
    level = decided({"a": 0.2, "b": 0.2}, posteriors={"recall@10": posterior(AB, 0.7)}, unknown="")
    assert verdict_lines([level])[0].startswith("By the plain average a is ahead of b ")
    same = with_posterior(AB, sure=0.7)
    assert verdict_lines([same])[0].startswith("By the plain average a is ahead of b ")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": 0.3}, "a has the only estimate, so there is nothing to compare."),
        ({"a": float("nan"), "b": float("nan")}, "No estimate is defined, so there is no verdict."),
        ({"a": float("nan"), "b": 0.1}, "b has the only estimate, so there is nothing to compare."),
        ({"a": 0.2, "b": 0.2, "c": 0.1}, "a and b lead with the same values."),
    ],
)
def test_where_there_is_nothing_to_decide_the_verdict_says_so(values, said):
    found = decided(values)
    assert verdict_lines([found]) == (said,)
    assert found.leader is None


def test_without_probabilities_the_sentence_says_why():
    assert verdict_lines([decided(AB)]) == (
        "By the plain average a is ahead of b. Nobody measured exposure, so weights do not decide. "
        "These data do not tell a and b apart. "
        "No probability can be given, because the training data are not known.",
    )


def test_what_a_test_would_have_found_stands_beside_not_told_apart():
    found = replace(decided(AB, BA, "design"), detectable=0.0123)
    assert verdict_lines([found]) == (
        "Nobody leads: these data do not tell b and a apart. "
        "A difference of .01 would have been found with 80 % power.",
    )


def test_the_plain_order_stands_with_its_probability_and_what_the_choice_loses():
    found = with_posterior(ABC, sure=0.44)
    assert verdict_lines([found]) == (
        "By the plain average a is ahead of b (probability .4, by simulated worlds). "
        "Nobody measured exposure, so weights do not decide. "
        "Choosing a loses .01 of recall@10 on average. Random items "
        "would settle it: ipseval plan.",
    )


def test_no_verdict_names_both_with_their_effective_sample_sizes_and_what_would_settle_it():
    said = verdict_lines([with_posterior(AB, BA, "fitted", 250.0, sure=0.58, evidence="interactions")])[0]
    assert said == (
        "No verdict: the plain average puts a first, weights known per item put b first. Effective sample "
        "sizes are 1,000 (plain) and 250 (weights, thin). By the correction a is ahead of b with probability "
        ".58. Random items would settle it: ipseval plan."
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            decided(AB, BA, "design", apart=("ab",)),
            "b leads: with weights known per item it is better than a (p = .002).",
        ),
        (
            decided(ABC, {"a": 0.1, "b": 0.3, "c": 0.2}, "design", apart=("ab", "bc")),
            "b leads: with weights known per item it is better than the other 2 (p ≤ .002).",
        ),
        (
            with_posterior(AB, BA, "fitted", sure=0.01, evidence="interactions"),
            "b leads: the correction puts it ahead of each other one with probability .99. "
            "Choosing b loses .01 of recall@10 on average.",
        ),
        (
            with_posterior(ABC, sure=0.99, evidence="interactions"),
            "a leads: the correction puts it ahead of each other one with probability .99. "
            "Nobody measured exposure, so weights do not decide. "
            "Choosing a loses .01 of recall@10 on average.",
        ),
        (
            with_posterior(AB, sure=0.19),
            "By the plain average a is ahead of b (probability .2, by simulated worlds). b is ahead of a "
            "with probability .8, by simulated worlds, so take b. Nobody measured exposure, so weights do "
            "not decide. Choosing b loses .01 of recall@10 on average. Random items would settle it: "
            "ipseval plan.",
        ),
        (
            decided(AB, BA, "fitted"),
            "No verdict: the plain average puts a first, weights known per item put b first. Effective "
            "sample sizes are 1,000 (plain) and 900 (weights, fine). No probability can be given, because "
            "the training data are not known.",
        ),
        (
            with_posterior(AB, AB, "fitted", sure=0.6),
            "By the plain average a is ahead of b (probability .6, by simulated worlds). Weights known per "
            "item say the same. Choosing a loses .01 of recall@10 on average. Random items would settle it: "
            "ipseval plan.",
        ),
        (
            with_posterior(AB, AB, "assumed", sure=0.6, evidence="exposure"),
            "By the plain average a is ahead of b (probability .60). Choosing a loses .01 of recall@10 on "
            "average. More random items would settle it: ipseval plan.",
        ),
        (
            with_posterior(AB, BA, "assumed", sure=0.6, evidence="exposure"),
            "By the plain average a is ahead of b (probability .60). If these weights were right, b would "
            "be first. Choosing a loses .01 of recall@10 on average. More random items would settle it: "
            "ipseval plan.",
        ),
        (
            decided(AB, beside={"recall@10": Weights("from impressions", "fitted", "a", 500.0, 1000.0)}),
            "By the plain average a is ahead of b. Weights from impressions say the same. These data do not "
            "tell a and b apart. No probability can be given, because the training data are not known.",
        ),
    ],
)
def test_each_kind_of_verdict_has_its_sentences(found, said):
    assert verdict_lines([found]) == (said,)


@pytest.mark.parametrize("weights", [(), ({"a": 0.1, "b": 0.3, "c": 0.2}, "fitted")])
@pytest.mark.parametrize(("of_c", "leader"), [(0.96, "b"), (0.94, None)])
def test_a_leader_of_the_correction_is_ahead_of_each_other_one_as_likely_as_is_said(of_c, leader, weights):
    """By the plain average a is first, then b and c; b is ahead of a with .99, of c with less."""
    chances = np.array([[0.5, 0.01, 0.5], [0.99, 0.5, of_c], [0.5, 1 - of_c, 0.5]])
    says = replace(posterior(ABC, 0.5, "interactions"), ahead=chances)
    found = decided(ABC, *weights, posteriors={"recall@10": says}, unknown="")
    assert found.leader == leader
    (said,) = verdict_lines([found])
    sure = "b leads: the correction puts it ahead of each other one with probability .96. "
    assert said.startswith(sure) is bool(leader)


def test_weights_of_gamma_are_a_condition_that_names_gamma():
    known = decided(AB, BA, "assumed")
    gamma = replace(known, weights=(replace(known.weights[0], words="of γ = 0"),))
    assert "Nobody measured exposure; if γ = 0 were right, b would be first. " in verdict_lines([gamma])[0]


def test_the_sentence_names_the_likelier_first_and_asks_for_more_of_what_is_there():
    said = verdict_lines([with_posterior(AB, BA, "fitted", 250.0, sure=0.28, evidence="exposure")])[0]
    assert said.endswith(
        "By the correction b is ahead of a with probability .72. "
        "More random items would settle it: ipseval plan."
    )
    (even,) = verdict_lines([with_posterior(AB, BA, "fitted", sure=0.5, evidence="interactions")])
    assert "By the correction a is ahead of b with probability .50. Random items" in even


def test_other_metrics_are_compared_by_the_two_that_are_first():
    four = decided({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1})
    (said,) = verdict_lines([four, of_dcg({"a": 0.4, "b": 0.3, "d": 0.2, "c": 0.1})])
    assert said.endswith("mean_dcg@10 says the same.")
    (said,) = verdict_lines([four, of_dcg({"a": 0.4, "c": 0.3, "b": 0.2, "d": 0.1})])
    assert said.endswith("By mean_dcg@10 a is first.")
    (said,) = verdict_lines([decided(AB), of_dcg(AB), replace(decided(AB), metric="ndcg@10")])
    assert said.endswith("mean_dcg@10 and ndcg@10 say the same.")
    for other, words in (
        (of_dcg({"a": float("nan"), "b": float("nan")}), "no estimate is defined"),
        (of_dcg(AB, BA, "design"), "nobody leads, and b is highest"),
        (of_dcg(AB, BA, "design", apart=("ab",)), "b leads"),
    ):
        assert verdict_lines([decided(AB), other])[0].endswith(f" By mean_dcg@10 {words}.")


def test_other_metrics_say_the_same_or_who_is_first():
    first, second = decided(AB), replace(decided(AB), metric="mean_dcg@10")
    assert verdict_lines([first, second])[0].endswith("mean_dcg@10 says the same.")
    other = replace(decided(BA), metric="mean_dcg@10")
    assert verdict_lines([first, other])[0].endswith("By mean_dcg@10 b is first.")
    torn = replace(decided(AB, BA, "fitted"), metric="mean_dcg@10")
    said = verdict_lines([first, torn])[0]
    assert said.endswith("By mean_dcg@10 a is first by the plain average, and b by weights.")
    of_b, of_c = (
        replace(decided(ABC, {"a": 0.1, "b": 0.2, "c": 0.2} | {one: 0.3}, "fitted"), metric=f"of {one}")
        for one in "bc"
    )
    said = verdict_lines([decided(ABC), of_b, of_c])[0]
    assert said.endswith(
        "By of b a is first by the plain average, and b by weights. "
        "By of c a is first by the plain average, and c by weights."
    )
    alone = decided({"a": 0.3})
    assert verdict_lines([alone, replace(alone, metric="mean_dcg@10")]) == verdict_lines([alone])


def test_the_headline_is_the_first_metric_with_a_claim():
    first = replace(decided(BA), metric="ndcg@10", claimed=False)
    assert verdict_lines([first, decided(AB)])[0].startswith("By the plain average a is ahead of b.")
    assert Verdict("recall@10", {}, PLAIN).claimed


@pytest.mark.parametrize(
    ("value", "sure", "said"),
    [
        (0.44, False, ".4"),
        (0.96, False, "above .9"),
        (0.04, False, "below .1"),
        (0.944, True, ".94"),
        (0.999, True, "above .99"),
        (0.001, True, "below .01"),
        (0.5, False, ".5"),
        (0.95, False, "above .9"),
        (0.949, False, ".9"),
        (0.05, False, "below .1"),
        (0.051, False, ".1"),
        (0.995, True, "above .99"),
        (0.994, True, ".99"),
        (0.005, True, "below .01"),
        (0.006, True, ".01"),
    ],
)
def test_a_probability_from_the_log_alone_has_one_digit(value, sure, said):
    assert probability(value, sure) == said


def test_a_p_value_is_never_rounded_across_the_level_of_the_test():
    assert shown_p(0.0496) == "p = .0496"
    assert shown_p(0.0504) == "p = .050"
