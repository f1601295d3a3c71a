"""The sentences of a verdict: each outcome has its own, and all outputs take them from there."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

import ipseval
from ipseval.evaluation.verdict import Verdict, decide_outcome
from ipseval.evaluation.verdict_text import describe_assumption, write_verdict
from ipseval.inference.gamma_range import GammaRange
from ipseval.utils.notes import Note
from ipseval.validation.simulation import World
from tests.evaluation.verdicts import AB, ABC, BA, decide
from tests.inside.evaluation import flag_warnings
from tests.inside.reporting import format_p_value

SHOW = "Run an A/B test, show random items (`ipseval plan`), or report"
UNIFORM = "AOA is unbiased only if exposure was uniform."


def conclusion(*verdicts: Verdict) -> str:
    return write_verdict(verdicts).conclusion


def test_without_weights_the_first_by_aoa_is_named_in_the_log_with_its_p_value():
    text = write_verdict([decide(AB)])
    assert text.conclusion == (
        "No clear winner. In the log, a ranks first by AOA (p = 0.40 against b, not significant)."
    )
    assert text.assumption == UNIFORM
    assert text.next_step == f"{SHOW} AOA and the assumption."
    assert str(text) == f"{text.conclusion} {text.assumption} {text.next_step}"


def test_a_significant_difference_in_the_log_is_stated_without_a_winner():
    text = conclusion(decide(AB, significant=("ab",)))
    assert text == "In the log, a ranks first by AOA (p = 0.002 against b)."


def test_assumed_weights_that_disagree_leave_no_clear_winner():
    text = write_verdict([decide(AB, BA, gamma=0.0, significant=("ab",))])
    assert text.conclusion == (
        "No clear winner: the order depends on exposure. In the log, a ranks first by AOA (p = 0.002 against b). "
        "By SNIPS (γ = 0 assumed), b ranks first (p = 0.002)."
    )
    assert text.assumption == (
        "AOA: uniform exposure. SNIPS: equally exposed users, propensities ∝ popularity^((γ+1)/2), γ = 0."
    )
    assert text.next_step == f"{SHOW} both columns and the assumption."


def test_a_first_place_by_weights_that_is_not_significant_is_stated_so():
    weighted = replace(decide(AB, BA, gamma=0.0)).rankings["snips-global"]
    verdict = decide(AB, BA, gamma=0.0, significant=("ab",))
    verdict = replace(verdict, rankings={**verdict.rankings, "snips-global": weighted})
    assert conclusion(verdict).endswith(
        "(p = 0.002 against b). By SNIPS (γ = 0 assumed), b ranks first, but not significantly (p = 0.40)."
    )


def test_unreliable_weights_allow_no_verdict_without_aoa():
    for basis, gamma in (("design", None), ("assumed", 0.0), ("exposure", None)):
        verdict = decide(None, AB, basis, gamma=gamma, significant=("ab",), flag="few")
        text = write_verdict([verdict, replace(verdict, metric="mean_dcg@10")])
        assert text.conclusion == (
            "No verdict on recall@10: SNIPS is unreliable, and no unweighted average was computed. On "
            "mean_dcg@10, SNIPS is unreliable, too."
        )
        assert text.next_step == "Add the estimator `aoa`, evaluate more interactions, or run an A/B test."
    reliable = decide(None, AB, "design", significant=("ab",))
    assert conclusion(reliable, replace(verdict, metric="mean_dcg@10")).endswith(
        " On mean_dcg@10, SNIPS is unreliable."
    )


def test_two_first_places_that_are_not_significant_are_stated_so_in_one_sentence():
    assert conclusion(decide(AB, BA, gamma=0.0)) == (
        "No clear winner. In the log, a ranks first by AOA (p = 0.40 against b). "
        "By SNIPS (γ = 0 assumed), b ranks first (p = 0.40). Neither difference is significant."
    )


def test_the_rival_by_weights_is_named_where_it_is_another_recommender():
    text = conclusion(decide(ABC, {"a": 0.1, "b": 0.2, "c": 0.3}, gamma=0.0))
    assert "a ranks first by AOA (p = 0.40 against b)" in text
    assert "c ranks first (p = 0.40 against b)" in text


def test_the_rival_is_the_best_recommender_that_does_not_differ_significantly():
    assert conclusion(decide(ABC, significant=("ab",))).endswith("(p = 0.40 against c, not significant).")
    assert conclusion(decide(ABC, significant=("ac",))).endswith("(p = 0.40 against b, not significant).")
    assert conclusion(decide(ABC, significant=("ab", "ac"))).endswith("(p = 0.002 against b).")


def test_agreement_of_assumed_weights_is_stated():
    text = conclusion(decide(AB, AB, gamma=0.5, significant=("ab",)))
    assert text == (
        "In the log, a ranks first by AOA (p = 0.002 against b) and by SNIPS (γ = 0.5 assumed; p = 0.002)."
    )


@pytest.mark.parametrize(
    ("gamma", "words"),
    [
        (-1.0, "propensities ∝ popularity^((γ+1)/2), γ = −1"),
        (0.5, "propensities ∝ popularity^((γ+1)/2), γ = 0.5"),
    ],
)
def test_the_power_law_is_stated_with_the_value_of_gamma(gamma, words):
    assert f" {words}." in write_verdict([decide(AB, AB, gamma=gamma)]).assumption


@pytest.mark.parametrize(
    ("gamma_range", "clause"),
    [
        (GammaRange("a", -1.0, 3.0, -1.0, 3.0), "for every γ in [−1, 3]."),
        (
            GammaRange("a", -1.0, 0.2588, -1.0, 3.0, "", "c"),
            "for γ in [−1, 0.25]; for slightly larger γ, c ranks first.",
        ),
        (
            GammaRange("a", 0.4912, 3.0, -1.0, 3.0, "b", ""),
            "for γ in [0.50, 3]; for slightly smaller γ, b ranks first.",
        ),
        (GammaRange("a", -1.0, 0.2588, -1.0, 3.0), "for γ in [−1, 0.25]."),
    ],
)
def test_the_range_of_gamma_is_stated_with_the_recommender_that_overtakes(gamma_range, clause):
    assert conclusion(replace(decide(AB), gamma_range=gamma_range)).endswith(
        f". By SNIPS (not in the table), a ranks first {clause}"
    )
    agreeing = replace(decide(AB, AB, gamma=0.0), gamma_range=gamma_range)
    assert conclusion(agreeing).endswith(f" and {clause} Neither difference is significant.")


def test_the_range_of_gamma_is_followed_by_another_first_by_weights():
    gamma_range = GammaRange("a", -1.0, -0.1912, -1.0, 3.0, "", "b")
    text = conclusion(replace(decide(AB, BA, gamma=0.0), gamma_range=gamma_range))
    assert text.endswith(
        "a ranks first by AOA (p = 0.40 against b) and by SNIPS for γ in [−1, −0.20]. "
        "By SNIPS (γ = 0 assumed), b ranks first (p = 0.40). Neither difference is significant."
    )
    unreliable = replace(decide(AB, BA, gamma=2.0, flag="few"), gamma_range=gamma_range)
    assert conclusion(unreliable).endswith(". By SNIPS (γ = 2 assumed; unreliable), b ranks first.")
    without_weights = replace(decide(AB), gamma_range=gamma_range, needs_equal_exposure=True)
    text = write_verdict([without_weights])
    assert text.assumption == (
        "AOA: uniform exposure. SNIPS at γ: equally exposed users, propensities ∝ popularity^((γ+1)/2)."
    )
    pooled = write_verdict([replace(without_weights, needs_equal_exposure=False)])
    assert pooled.assumption == "AOA: uniform exposure. SNIPS at γ: propensities ∝ popularity^((γ+1)/2)."
    assert text.next_step == f"{SHOW} AOA and the range of γ."


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"a": 0.3}, "Only a has an estimate, so there is nothing to compare."),
        ({"a": float("nan"), "b": float("nan")}, "No verdict: every estimate is undefined."),
        ({"a": float("nan"), "b": 0.1}, "Only b has an estimate, so there is nothing to compare."),
        ({"a": 0.2, "b": 0.2, "c": 0.1}, "a and b are tied for first place in the log."),
    ],
)
def test_the_verdict_states_that_there_is_nothing_to_decide(values, text):
    assert conclusion(decide(values)) == text


def test_a_winner_by_design_is_named_with_its_largest_p_value():
    text = write_verdict([decide(ABC, ABC, "design", significant=("ab", "ac"))])
    assert text.conclusion == (
        "a is significantly better than both others by SNIPS (propensities known by design), "
        "largest adjusted p = 0.002."
    )
    assert text.assumption == (
        "SNIPS is nearly consistent if the propensities known by design are the true ones and users were equally "
        "exposed."
    )
    assert text.next_step == ""
    sentence = conclusion(decide(AB, BA, "design", significant=("ab",)))
    assert sentence == "b is significantly better than a by SNIPS (propensities known by design), p = 0.002."


def test_without_a_significant_difference_by_design_the_detectable_one_is_stated():
    verdict = decide(AB, AB, "design")
    text = write_verdict([replace(verdict, detectable=0.0123)])
    assert text.conclusion == (
        "No significant winner: a ranks first by SNIPS (propensities known by design), but the difference "
        "from b is not significant (p = 0.40)."
    )
    assert text.next_step == "Evaluate more users: the test has 80% power to detect a difference of 0.01."
    assert write_verdict([verdict]).next_step == "Evaluate more users."


def test_weights_from_impressions_that_disagree_give_no_verdict_and_both_sample_sizes():
    text = write_verdict([decide(AB, BA, "fitted", 412.0)])
    assert text.conclusion == (
        "No verdict: in the log, a ranks first by AOA, but b ranks first by SNIPS (propensities from "
        "impressions). "
        "Effective sample sizes: 1,000 and 412 (sufficient)."
    )
    assert text.next_step == f"{SHOW} both columns and the assumption."
    sentences = conclusion(decide(AB, AB, "fitted", 250.0))
    assert sentences.startswith(
        "No verdict: a ranks first in the log, but the weights rest on few interactions."
    )
    assert sentences.endswith("250 for SNIPS (low).")


def test_random_items_are_not_advised_where_items_were_drawn_with_known_or_logged_probabilities():
    text = write_verdict([decide(AB, BA, "logged")])
    assert "b ranks first by SNIPS (logged propensities)" in text.conclusion
    assert text.assumption.endswith("equally exposed users, true propensities, every item could be shown.")
    assert text.next_step == (
        'Run an A/B test, declare basis="design" if items were drawn at random and users look at every shown item, '
        "or report both columns and the assumption."
    )
    text = write_verdict([decide(AB, BA, "design", 250.0)])
    assert text.next_step == "Run an A/B test or report both columns and the assumption."


@pytest.mark.parametrize("basis", ["logged", "fitted"])
@pytest.mark.parametrize("weighted", [AB, BA])
@pytest.mark.parametrize("flag", ["", "few"])
def test_weights_that_fail_the_sanity_check_lead_to_no_statement_by_them(basis, weighted, flag):
    options = {"flag": flag, "failing_models": ("b",), "significant": ("ab",)}
    verdict = decide(AB, weighted, basis, **options)
    other = decide(AB, BA, basis, metric="mean_dcg@10", **options)
    assert (verdict.support.quality, verdict.highest_by_weights) == ("failed", "")
    text = write_verdict([verdict, other])
    assert text.conclusion == (
        "No verdict on recall@10: a ranks first in the log, but the propensities do not fit the items that b lists "
        "(see Sanity), so SNIPS does not confirm this. On mean_dcg@10, a also ranks first in the log by AOA "
        "(p = 0.002)."
    )
    assert text.assumption == "AOA is unbiased only if exposure was uniform."
    assert text.next_step == (
        "Run an A/B test, show random items (`ipseval plan`), log the probability with which each item is shown, or "
        "report AOA and the assumption."
    )


def test_weights_that_fail_are_no_basis_of_a_verdict_without_aoa_or_with_a_tie():
    verdict = decide(None, AB, "fitted", failing_models=("a", "b"))
    other = decide(None, AB, "fitted", failing_models=("a", "b"), metric="mean_dcg@10")
    text = write_verdict([verdict, other])
    assert text.conclusion == (
        "No verdict on recall@10: the propensities do not fit the items that a and b list (see Sanity), so SNIPS "
        "allows no conclusion."
    )
    assert text.assumption == ""
    assert text.next_step == (
        "Run an A/B test, show random items (`ipseval plan`), or log the probability with which each item is shown."
    )
    tied = decide({"a": 0.2, "b": 0.2}, AB, "fitted", failing_models=("a",))
    assert conclusion(tied).startswith("No verdict: a and b are tied for first place in the log, but ")


@pytest.mark.parametrize("basis", ["fitted", "design"])
def test_weights_that_clipping_made_nearly_equal_do_not_confirm_the_unweighted_ranking(basis):
    verdict = decide(AB, AB, basis, significant=("ab",))
    clipped = replace(verdict, support=replace(verdict.support, clipped_share=0.89))
    clipped = replace(clipped, outcome=decide_outcome(clipped))
    assert write_verdict([clipped]).conclusion == (
        "No verdict: a ranks first in the log, but clipping removed 89% of the weight, so SNIPS is biased "
        "towards AOA and does not confirm this."
    )


def test_weights_from_random_exposure_lead_to_a_correction_as_the_next_step():
    text = write_verdict([decide(AB, BA, "exposure", gamma=0.69, significant=("ab",))])
    assert "By SNIPS (γ = 0.69 from random exposure), b ranks first (p = 0.002)." in text.conclusion
    assert text.assumption == (
        "AOA: uniform exposure. SNIPS: equally exposed users, propensities ∝ popularity^((γ+1)/2), γ = 0.69."
    )
    assert text.next_step == "`ipseval correct` compares the recommenders on the random exposure itself."


def test_a_missing_guarantee_is_stated():
    start = "AOA: uniform exposure. SNIPS: equally exposed users"
    limit = "For ndcg@10, SNIPS may be biased even with the true propensities."
    text = write_verdict([decide(AB, AB, "design", has_guarantee=False, metric="ndcg@10")])
    assert text.assumption == f"{start}. {limit}"
    text = write_verdict([decide(AB, AB, gamma=0.0, has_guarantee=False, metric="ndcg@10")])
    assert text.assumption == f"{start}, propensities ∝ popularity^((γ+1)/2), γ = 0. {limit}"
    text = write_verdict([decide(AB, AB, has_guarantee=False, metric="ndcg@10")])
    assert text.assumption == f"{start}, true propensities. {limit}"


def test_a_verdict_on_another_metric_than_the_first_names_it_and_the_metric_without_guarantee():
    first = decide(AB, BA, gamma=0.0, has_guarantee=False, metric="ndcg@10")
    second = decide(AB, BA, gamma=0.0, metric="recall@10")
    text = write_verdict([first, second])
    assert text.conclusion.startswith(
        "No clear winner. In the log, a ranks first on recall@10 (first metric with a guarantee) by"
    )
    assert text.assumption.endswith("For ndcg@10, SNIPS may be biased even with the true propensities.")
    assert write_verdict([second, first]).conclusion.startswith(
        "No clear winner. In the log, a ranks first on recall@10 by"
    )
    assert write_verdict([second, first]).assumption == text.assumption


def test_a_metric_whose_first_recommender_changes_with_gamma_does_not_lead_to_the_same_conclusion():
    everywhere = GammaRange("a", -1.0, 3.0, -1.0, 3.0)
    changing = GammaRange("a", -1.0, 0.8588, -1.0, 3.0, next_above="b")
    headline = replace(decide(AB, AB, gamma=0.0), gamma_range=everywhere)
    verdict = replace(decide(AB, AB, gamma=0.0, metric="cg@10"), gamma_range=changing)
    assert conclusion(headline, verdict).endswith(
        "On cg@10, a ranks first in the log by AOA (p = 0.40) and SNIPS (p = 0.40), and stays first for γ in "
        "[−1, 0.85]."
    )
    same = replace(verdict, gamma_range=everywhere)
    assert conclusion(headline, same).endswith(
        " On cg@10, a also ranks first in the log by AOA (p = 0.40) and SNIPS (p = 0.40)."
    )


def test_a_change_with_gamma_on_another_metric_is_stated_also_if_the_first_metric_changes():
    early = GammaRange("a", -1.0, -0.3912, -1.0, 3.0, next_above="b")
    late = GammaRange("a", -1.0, 0.0488, -1.0, 3.0, next_above="b")
    headline = replace(decide(AB, BA, gamma=0.0), gamma_range=early)
    agreeing = replace(decide(AB, AB, gamma=0.0, metric="ndcg@10"), gamma_range=late)
    contradicted = replace(decide(AB, BA, gamma=0.0, metric="ndcg@10", significant=("ab",)), gamma_range=late)
    without_weights = replace(decide(AB, metric="ndcg@10", significant=("ab",)), gamma_range=late)
    assert conclusion(headline, agreeing).endswith(
        " On ndcg@10, a ranks first in the log by AOA (p = 0.40) and SNIPS (p = 0.40), and stays first for γ in "
        "[−1, 0.04]."
    )
    assert conclusion(headline, contradicted).endswith(
        " On ndcg@10, a ranks first in the log by AOA (p = 0.002) and by SNIPS for γ in [−1, 0.04], and b by SNIPS "
        "(p = 0.002)."
    )
    assert conclusion(replace(decide(AB), gamma_range=early), without_weights).endswith(
        " On ndcg@10, a ranks first in the log by AOA (p = 0.002 against b) and by SNIPS for γ in [−1, 0.04]; for "
        "slightly larger γ, b ranks first."
    )


def test_the_same_conclusion_on_another_metric_states_a_different_range_of_gamma():
    early = GammaRange("a", -1.0, -0.3912, -1.0, 3.0, next_above="b")
    late = replace(early, high=0.0488)
    headline = replace(decide(AB), gamma_range=early)
    verdict = replace(decide(AB, metric="ndcg@10"), gamma_range=late)
    assert conclusion(headline, verdict).endswith(
        " On ndcg@10, a also ranks first in the log by AOA (p = 0.40 against b) and by SNIPS for γ in [−1, 0.04]; "
        "for slightly larger γ, b ranks first."
    )
    third = replace(verdict, metric="ap@10")
    assert conclusion(headline, verdict, third).endswith(
        " On ndcg@10 and ap@10, a also ranks first, each time not significantly, and by SNIPS for γ in [−1, 0.04]."
    )
    same = replace(verdict, gamma_range=early)
    assert conclusion(headline, same, replace(same, metric="ap@10")).endswith(
        " On ndcg@10 and ap@10, a also ranks first, each time not significantly."
    )
    two = replace(decide(AB, BA, gamma=0.0), gamma_range=early)
    assert conclusion(two, replace(two, metric="ndcg@10", gamma_range=late)).endswith(
        " On ndcg@10, a ranks first by AOA and b by SNIPS, also not significantly."
    )


def test_agreement_of_weights_that_do_not_change_the_value_of_a_user_is_no_clear_result():
    verdict = decide(AB, AB, gamma=0.0, significant=("ab",), has_guarantee=False, metric="rr@10")
    text = write_verdict([replace(verdict, is_weighted_within_users=False)])
    assert text.conclusion == (
        "No clear winner. In the log, a ranks first by AOA (p = 0.002 against b) and by SNIPS (γ = 0 assumed; "
        "p = 0.002)."
    )
    assert text.assumption.endswith(
        "γ = 0. For rr@10, weights change at most how much each user counts, so SNIPS shows the effect of exposure "
        "only in part."
    )
    assert "biased even" not in text.assumption


def test_a_metric_without_a_range_of_gamma_is_explained_where_another_metric_has_one():
    gamma_range = GammaRange("a", -1.0, 0.2588, -1.0, 3.0, "", "b")
    first = replace(decide(AB), gamma_range=gamma_range)
    second = replace(decide(AB, metric="hit@10"), is_weighted_within_users=False)
    reason = (
        "weights change at most how much each user counts, so γ shows the effect of exposure only in part."
    )
    assert write_verdict([first, second]).assumption.endswith(f"For hit@10, {reason}")
    assert write_verdict([second]).assumption == UNIFORM
    weighted = replace(decide(AB, AB, gamma=0.0), gamma_range=gamma_range)
    second = replace(decide(AB, AB, gamma=0.0, metric="hit@10"), is_weighted_within_users=False)
    assert "so SNIPS and γ show the effect" in write_verdict([weighted, second]).assumption


def test_the_form_of_snips_is_named_where_there_are_several():
    verdict = decide(AB, BA, gamma=0.0)
    rankings = {"aoa": verdict.rankings["aoa"], "snips": verdict.rankings["snips-global"]}
    rankings["snips-global"] = verdict.rankings["snips-global"]
    text = write_verdict([replace(verdict, rankings=rankings)])
    assert "By SNIPS global (γ = 0 assumed), b ranks first" in text.conclusion
    assert "SNIPS global: equally exposed users" in text.assumption


def test_weights_alone_are_stated_with_their_assumption():
    text = write_verdict([decide(None, AB, gamma=0.0)])
    assert "a ranks first by SNIPS (γ = 0 assumed; p = 0.40 against b, not significant)." in text.conclusion
    assert text.assumption == "SNIPS: equally exposed users, propensities ∝ popularity^((γ+1)/2), γ = 0."


@pytest.mark.parametrize(
    ("basis", "gamma", "text"),
    [
        ("assumed", 0.0, "γ = 0 assumed"),
        ("fitted", 0.7, "γ = 0.7 fitted"),
        ("exposure", -0.59, "γ = −0.59 from random exposure"),
        ("assumed", None, "propensities assumed"),
        ("design", None, "propensities known by design"),
        ("logged", None, "logged propensities"),
        ("fitted", None, "propensities from impressions"),
        ("exposure", None, "propensities from random exposure"),
    ],
)
def test_the_name_of_a_column_states_the_source_of_the_propensities(basis, gamma, text):
    support = decide(AB, AB, basis, gamma=gamma).support
    assert support is not None
    assert describe_assumption(support) == text


def test_other_metrics_are_grouped_by_their_conclusion():
    first = decide(AB)
    second = decide(AB, metric="mean_dcg@10")
    assert conclusion(first, second).endswith(
        " On mean_dcg@10, a also ranks first in the log by AOA (p = 0.40 against b)."
    )
    third = decide(AB, metric="rr")
    assert conclusion(first, second, third).endswith(
        " On mean_dcg@10 and rr, a also ranks first, each time not significantly."
    )
    disagreeing = decide(BA, metric="mean_dcg@10")
    assert conclusion(first, disagreeing).endswith(
        " On mean_dcg@10, b ranks first in the log by AOA (p = 0.40 against a, not significant)."
    )
    significant = decide(AB, metric="mean_dcg@10", significant=("ab",))
    assert conclusion(first, significant).endswith(
        " On mean_dcg@10, a ranks first in the log by AOA (p = 0.002 against b)."
    )
    contradicted = decide(AB, BA, gamma=0.0)
    consistent = decide(AB, AB, gamma=0.0, metric="mean_dcg@10")
    assert conclusion(consistent, contradicted).endswith(
        " On recall@10, a ranks first in the log by AOA (p = 0.40), and b by SNIPS (p = 0.40)."
    )
    assert conclusion(contradicted, consistent).endswith(
        " On mean_dcg@10, a ranks first in the log by AOA (p = 0.40) and SNIPS (p = 0.40)."
    )
    tied = decide({"a": 0.2, "b": 0.2}, metric="mean_dcg@10")
    assert conclusion(first, tied).endswith(" On mean_dcg@10, a and b are tied for first place in the log.")
    alone = decide({"a": 0.2, "b": float("nan")}, metric="mean_dcg@10")
    assert conclusion(first, alone).endswith(" On mean_dcg@10, only a has an estimate.")
    undefined = decide({"a": float("nan"), "b": float("nan")}, metric="mean_dcg@10")
    assert conclusion(first, undefined).endswith(" On mean_dcg@10, every estimate is undefined.")
    single = decide({"a": 0.3})
    assert conclusion(single, decide({"a": 0.2}, metric="rr")) == conclusion(single)


def test_the_same_conclusion_on_another_metric_states_the_first_recommenders_and_significance():
    decided = decide(AB, AB, "design", significant=("ab",))
    winner = decide(AB, AB, "design", metric="rr", significant=("ab",))
    assert conclusion(decided, winner).endswith(
        " On rr, a is significantly better than every other recommender, too."
    )
    tied = decide({"a": 0.2, "b": 0.2})
    assert conclusion(tied, replace(tied, metric="rr")).endswith(" On rr, the same recommenders are tied.")
    opposite = decide(AB, BA, gamma=0.0, significant=("ab",))
    assert conclusion(opposite, replace(opposite, metric="rr")).endswith(
        " On rr, a ranks first by AOA and b by SNIPS, also significantly in the log."
    )
    insignificant_by_weights = decide(AB, BA, gamma=0.0).rankings["snips-global"]
    rankings = {**opposite.rankings, "snips-global": insignificant_by_weights}
    half = replace(opposite, rankings=rankings)
    assert conclusion(half, replace(half, metric="rr")).endswith(
        " On rr, a ranks first by AOA and b by SNIPS, also significantly by AOA only."
    )


def test_another_metric_names_a_rival_that_the_first_metric_did_not_name():
    first = decide(ABC, significant=("ac", "ab"))
    second = decide({"a": 0.3, "b": 0.1, "c": 0.2}, metric="mean_dcg@10")
    assert conclusion(first, second).endswith(
        " On mean_dcg@10, a ranks first in the log by AOA (p = 0.40 against c, not significant)."
    )


def test_a_decision_by_design_on_another_metric_is_stated_in_half_a_sentence():
    first = decide(AB, AB, "design", significant=("ab",))
    close = decide(AB, AB, "design", metric="mean_dcg@10")
    assert conclusion(first, close).endswith(
        " On mean_dcg@10, a ranks first, but not significantly (p = 0.40 against b)."
    )
    assert conclusion(close, first).endswith(
        " On recall@10, a is significantly better than every other recommender."
    )


def test_the_verdict_in_full_is_that_of_the_first_metric_with_a_guarantee():
    unguaranteed = decide(AB, AB, "design", has_guarantee=False, metric="ndcg@10")
    winner = decide(AB, AB, "design", significant=("ab",))
    assert conclusion(unguaranteed, winner).startswith(
        "a is significantly better than b on recall@10 (first metric with a guarantee) by SNIPS"
    )
    assert conclusion(unguaranteed).startswith("No clear winner. In the log, a ranks first")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (decide(AB), "No clear winner. In the log, a ranks first on recall@10 by AOA"),
        (decide(AB, significant=("ab",)), "In the log, a ranks first on recall@10 by AOA"),
        (
            decide(AB, BA, gamma=0.0, significant=("ab",)),
            "No clear winner: the order depends on exposure. In the log, a ranks first on recall@10",
        ),
        (
            decide(ABC, ABC, "design", significant=("ab", "ac")),
            "a is significantly better than both others on recall@10 by",
        ),
        (decide(AB, AB, "design"), "No significant winner on recall@10: a ranks first by SNIPS"),
        (decide(AB, BA, "fitted", 412.0), "No verdict on recall@10: in the log, a ranks first by AOA"),
        (
            decide(AB, AB, "fitted", 250.0),
            "No verdict on recall@10: a ranks first in the log, but the weights",
        ),
        (decide({"a": 0.2, "b": 0.2}), "a and b are tied for first place in the log on recall@10."),
        (decide({"a": 0.2}), "Only a has an estimate,"),
    ],
)
def test_the_first_sentence_names_its_metric_if_there_are_several(verdict, words):
    assert conclusion(verdict, decide(AB, metric="mean_dcg@10")).startswith(words)
    assert "recall@10" not in conclusion(verdict)


def test_every_p_value_of_aoa_is_in_a_sentence_on_the_log():
    verdicts = [decide(AB), decide(AB, BA, gamma=0.0), decide(AB, AB, gamma=0.0, significant=("ab",))]
    others = [replace(decide(BA, AB, gamma=0.0), metric="mean_dcg@10"), decide(BA, metric="mean_dcg@10")]
    pairs = [[verdict] for verdict in verdicts] + [[verdicts[0], other] for other in others]
    for pair in pairs:
        for sentence in conclusion(*pair).split(". "):
            if "AOA" in sentence and "p " in sentence:
                assert "in the log" in sentence.lower()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0004, "p < 0.001"), (0.0496, "p = 0.0496"), (0.05, "p = 0.050"), (0.2, "p = 0.20"), (1.0, "p = 1")],
)
def test_p_values_are_printed_as_papers_do(value, text):
    assert format_p_value(value) == text


PRINTED_WIDTH = 110 - len("Assumption  ")  # the names of the remarks take the first columns
ITEM_KNN_FIRST = {"item-kNN": 0.3, "MultiVAE": 0.2}
MULTIVAE_FIRST = {"item-kNN": 0.2, "MultiVAE": 0.3}


def count_printed_lines(*verdicts: Verdict) -> int:
    text = write_verdict(verdicts)
    lines = []
    for remark in (text.conclusion, text.assumption, text.next_step):
        lines += textwrap.wrap(remark, PRINTED_WIDTH, break_on_hyphens=False)
    return len(lines)


@pytest.mark.parametrize("weighted", [ITEM_KNN_FIRST, MULTIVAE_FIRST])
@pytest.mark.parametrize("second_metric", [ITEM_KNN_FIRST, MULTIVAE_FIRST])
def test_a_verdict_on_two_metrics_fits_in_seven_printed_lines(weighted, second_metric):
    gamma_range = GammaRange("item-kNN", -1.0, -0.29, -1.0, 3.0, "", "MultiVAE")
    headline = replace(decide(ITEM_KNN_FIRST, weighted, gamma=0.0), gamma_range=gamma_range)
    second = decide(second_metric, second_metric, gamma=0.0, metric="mean_dcg@10")
    second_range = replace(gamma_range, highest_model=second.highest_model, high=-0.31)
    assert count_printed_lines(headline, second) <= 6
    assert count_printed_lines(headline, replace(second, gamma_range=second_range)) <= 6
    agreeing = replace(headline, metric="mean_dcg@10")
    assert count_printed_lines(headline, agreeing) <= 6


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_long_names_are_shortened_in_a_verdict_that_would_take_more_than_five_lines():
    world = World(n_users=400, n_items=100, mean_relevant=15, rng=0)
    split = world.split(rng=1)
    names = [
        "candidate-model-with-two-towers-and-attention-of-november",
        "incumbent-matrix-factorisation-with-side-information-v7",
    ]
    examples = world.example_models(split, rng=2)
    models = {names[0]: examples["popular"], names[1]: examples["niche"]}
    text = str(
        ipseval.evaluate(
            models,
            split,
            propensity="power-law:gamma=1",
            metrics=["recall@10", "mean_dcg@10"],
            low_ess="ignore",
        )
    )
    blocks = text.split("\n\n")
    assert blocks[1].startswith("Verdict")
    assert blocks[1].count("\n") == 6  # seven lines
    short_names = [line.split()[0] for line in blocks[2].splitlines()[1:3]]
    assert all("…" in name and name in blocks[1] for name in short_names)
    assert all(name in blocks[2] for name in names)  # the legend has the full names


def test_the_warning_of_an_estimator_names_its_metrics_unless_it_holds_for_all():
    flag = Note.create("text", text="few users")
    flags = {("recall@5", "ips"): [flag], ("ndcg@5", "ips"): [], ("ndcg@5", "aoa"): [flag]}
    assert flag_warnings(flags, ["aoa", "ips"], {"ips": "IPS"}) == [
        "Unreliable: aoa. Few users.",
        "Unreliable: IPS of recall@5. Few users.",
    ]
    flags["ndcg@5", "ips"] = [flag]
    assert flag_warnings(flags, ["ips"], {"ips": "IPS"}) == ["Unreliable: IPS. Few users."]


def test_a_further_metric_names_one_recommender_where_the_weights_decide_against_aoa():
    verdicts = [decide(AB, BA, "design", metric=metric) for metric in ("recall@10", "mean_dcg@10", "rr")]
    assert conclusion(*verdicts[:2]).endswith(
        " On mean_dcg@10, b also ranks first, but not significantly (p = 0.40 against a)."
    )
    assert conclusion(*verdicts).endswith(
        " On mean_dcg@10 and rr, b also ranks first, each time not significantly."
    )
