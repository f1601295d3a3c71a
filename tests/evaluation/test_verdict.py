"""The verdict names whom the evidence names: rules worked by hand, one value, and sentences from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.inference.correction import OrderPosterior
from tests.conftest import examples
from tests.inside.estimators import resolve_estimator
from tests.inside.evaluation import (
    Known,
    Standing,
    Verdict,
    Weights,
    of_record,
    order_frame,
    probability,
    verdict_lines,
    verdicts,
)
from tests.inside.inference import PairTests, WeightDiagnostics, leading_gammas
from tests.inside.report import shown_p
from tests.worlds import random_split

PLAIN, WEIGHTED = "aoa", "snips-global"


def paired(values: dict[str, float], apart: tuple[str, ...]) -> PairTests:
    """Return tests by which the pairs named by two letters are told apart."""
    found = np.array(list(values.values()))
    p_values = [[0.002 if f"{a}{b}" in apart or f"{b}{a}" in apart else 0.4 for b in values] for a in values]
    places = {model: row for row, model in enumerate(values)}
    return PairTests(places, found[:, None] - found, np.array(p_values))


def rows(estimator: str, values: dict[str, float], metric: str = "recall@10") -> pd.DataFrame:
    columns = {"model": list(values), "estimate": list(values.values())}
    return pd.DataFrame(columns | {"estimator": estimator, "metric": metric})


def standing(estimator: str, values: dict[str, float], apart: tuple[str, ...]) -> Standing:
    return Standing.of(rows(estimator, values), paired(values, apart))


def posterior(
    plain: dict[str, float], ahead: float, evidence: str = "log", loss: float = 0.01
) -> OrderPosterior:
    """Return the posterior in which everybody is ahead of everybody after it with one probability."""
    values = np.array(list(plain.values()))
    later = np.triu(np.full((values.size, values.size), ahead), 1)
    chances = later + np.tril(1 - later.T, -1) + np.eye(values.size) / 2
    losses = np.full(values.size, loss)
    return OrderPosterior(tuple(plain), values, values / 2, values / 4, values, losses, chances, evidence)


def decided(
    plain: dict[str, float],
    weighted: dict[str, float] | None = None,
    basis: str = "assumed",
    ess: float = 900.0,
    *,
    apart: tuple[str, ...] = (),
    flag: str = "",
    **known: Any,
) -> Verdict:
    """Return the verdict of recommenders by a plain average and by weights worth `ess` of 1,000 positives."""
    frames, tests = [rows(PLAIN, plain)], {("recall@10", PLAIN): paired(plain, ())}
    if weighted is not None:
        frames.append(rows(WEIGHTED, weighted))
        tests["recall@10", WEIGHTED] = paired(weighted, apart)
    labels = [PLAIN] if weighted is None else [PLAIN, WEIGHTED]
    size = WeightDiagnostics(ess, ess, 0.01, 1000, ess_own=ess, ess_equal=1000.0)
    item = ipseval.propensity.Propensity(np.array([0.5]), True, "known per item", 1, basis=basis)
    found = Known(
        [resolve_estimator(one) for one in labels],
        {("recall@10", WEIGHTED): flag} if flag else {},
        {WEIGHTED: size},
        item,
        **{"averages": frozenset({"recall@10"}), "unknown": "the training data are not known", **known},
    )
    return verdicts(pd.concat(frames), tests, found)[0]


def with_posterior(*args: Any, sure: float, evidence: str = "log", **options: Any) -> Verdict:
    return decided(*args, posteriors={"recall@10": posterior(args[0], sure, evidence)}, unknown="", **options)


AB, BA = {"a": 0.3, "b": 0.2}, {"a": 0.1, "b": 0.2}
ABC = {"a": 0.3, "b": 0.2, "c": 0.1}


def test_leaders_are_the_highest_and_those_not_told_from_it():
    one = standing("w", {"a": 0.1, "b": 0.3, "c": 0.2}, ("ab",))
    assert one.ranked == ("b", "c", "a")
    assert one.leaders == ("b", "c")
    assert one.p_value == 0.002
    assert one.difference("a", "b") == (pytest.approx(-0.2), 0.002)
    assert one.difference("b", "a") == (pytest.approx(0.2), 0.002)
    p_values = np.array([[1.0, 0.01, 0.03], [0.01, 1.0, 0.4], [0.03, 0.4, 1.0]])
    values = {"a": 0.3, "b": 0.2, "c": 0.1}
    told = Standing.of(rows("w", values), replace(paired(values, ()), p_value=p_values))
    assert (told.leaders, told.p_value) == (("a",), 0.03)  # the largest of those it is told from


@pytest.mark.parametrize("basis", ["design", "exposure"])
def test_measured_propensities_decide_by_their_paired_differences(basis):
    found = decided(AB, BA, basis, apart=("ab",))
    assert (found.leader, found.choice, found.reason) == ("b", "b", "measured")
    assert found.estimator == WEIGHTED
    assert found.order == ("b", "a")
    untold = decided(AB, BA, basis)
    assert (untold.leader, untold.choice, untold.reason) == (None, "b", "not told apart")


def test_the_correction_is_shown_beside_measured_propensities_and_not_used():
    found = with_posterior(AB, BA, "design", sure=0.99, evidence="exposure", apart=("ab",))
    assert found.leader == "b"


@pytest.mark.parametrize("basis", ["design", "exposure", "fitted"])
def test_thin_or_unreliable_weights_that_name_another_withhold_the_verdict(basis):
    for weak in (
        decided(AB, BA, basis, 250.0, apart=("ab",)),
        decided(AB, BA, basis, flag="few", apart=("ab",)),
    ):
        assert (weak.leader, weak.choice, weak.reason) == (None, None, "contradiction")


def test_fitted_weights_and_the_plain_average_do_not_overrule_each_other():
    found = decided(AB, BA, "fitted", apart=("ab",))
    assert (found.leader, found.reason) == (None, "contradiction")
    assert decided(AB, AB, "fitted").reason == "plain"


@pytest.mark.parametrize(
    ("sure", "leader"), [(0.96, "a"), (0.95, "a"), (0.94, None), (0.06, None), (0.05, "b"), (0.04, "b")]
)
def test_the_correction_settles_a_contradiction_from_95_per_cent_on(sure, leader):
    found = with_posterior(AB, BA, "fitted", sure=sure, evidence="interactions")
    assert found.leader == leader


def test_the_log_alone_settles_no_contradiction_and_names_no_leader():
    assert with_posterior(AB, BA, "fitted", sure=0.99).leader is None
    found = with_posterior(AB, sure=0.99)
    assert (found.leader, found.choice) == (None, "a")
    assert with_posterior(AB, sure=0.99, evidence="interactions").leader == "a"
    edge = with_posterior(AB, sure=0.95, evidence="interactions")
    assert (edge.leader, edge.choice, edge.reason) == ("a", "a", "posterior")


def test_nobody_is_named_where_the_odds_of_the_log_do_not_explain_exposure():
    strained = replace(posterior(AB, 0.99, "exposure"), explained=False)
    assert decided(AB, posteriors={"recall@10": strained}, unknown="").leader is None


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


@pytest.mark.parametrize(("ahead", "choice"), [(0.21, "a"), (0.2, "b"), (0.19, "b")])
def test_a_challenger_takes_the_place_of_the_first_from_80_per_cent_on(ahead, choice):
    assert with_posterior(AB, sure=ahead).choice == choice


def test_the_impressions_beside_other_weights_withhold_the_verdict_where_they_name_another():
    beside = {"recall@10": Weights("from impressions", "fitted", "b", 500.0, 1000.0)}
    for own in ((), (AB, "assumed"), (BA, "assumed")):
        found = decided(AB, *own, beside=beside)
        assert (found.leader, found.choice, found.reason) == (None, None, "contradiction")
        assert "weights from impressions put b first" in verdict_lines([found])[0]
    same = {"recall@10": replace(beside["recall@10"], best="a")}
    assert decided(AB, beside=same).choice == "a"


@pytest.mark.parametrize(
    ("ess", "equal", "thin"),
    [
        (299.0, 1000.0, True),
        (300.0, 1000.0, False),
        (99.0, 101.0, True),
        (99.0, 100.0, False),
        (100.0, 300.0, False),
        (99.0, 99.0, False),
        (60.0, 60.0, False),
    ],
)
def test_thin_is_a_share_of_what_equal_propensities_give_or_less_than_a_hundred(ess, equal, thin):
    assert Weights("", "fitted", "a", ess, equal).thin is thin


def test_order_probabilities_and_loss_are_of_the_average_over_pairs():
    """By the average over users b is ahead, by that over pairs a; the verdict does not mix them."""
    found = decided(BA, posteriors={"recall@10": posterior(AB, 0.7)}, unknown="")
    assert found.order == ("a", "b")
    assert found.choice == "a"
    assert verdict_lines([found])[0].startswith("By the plain average over pairs a is ahead of b ")
    tied = replace(found, posterior=posterior({"a": 0.3 + 1e-16, "b": 0.3}, 0.7))
    assert tied.order == ("b", "a")
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


def test_the_table_of_the_order_holds_averages_and_what_the_correction_says():
    frame = pd.concat([rows(PLAIN, ABC), rows(WEIGHTED, {"a": 0.1, "b": 0.2, "c": 0.05})])
    of_two = decided(ABC, BA | {"c": 0.05}, posteriors={"recall@10": posterior(AB, 0.7)}, unknown="")
    nan = float("nan")
    # The posterior of this file has half of each average for its mean, a quarter and the whole for bounds.
    expected = [
        ["recall@10", "a", 0.3, 0.1, 0.15, 0.075, 0.3, 0.7, 0.01],
        ["recall@10", "b", 0.2, 0.2, 0.1, 0.05, 0.2, nan, 0.01],
        ["recall@10", "c", 0.1, 0.05, nan, nan, nan, nan, nan],
    ]
    columns = order_frame([of_two], frame).columns
    pd.testing.assert_frame_equal(order_frame([of_two], frame), pd.DataFrame(expected, columns=columns))
    plain = order_frame([decided(AB)], frame)
    assert plain["plain"].tolist() == [0.3, 0.2]
    assert plain.loc[:, "weighted":].isna().all(axis=None)


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


def of_dcg(*args: Any, **options: Any) -> Verdict:
    return replace(decided(*args, **options), metric="mean_dcg@10")


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


def test_the_estimator_of_record_is_weighted_and_reliable_where_one_is():
    estimators = [resolve_estimator(one) for one in ("aoa", "snips", "snips-global")]
    assert of_record(estimators, set()) == ("snips-global", "aoa")
    assert of_record(estimators, {"snips-global"}) == ("snips", "aoa")
    assert of_record(estimators, {"snips", "snips-global"}) == ("snips-global", "aoa")
    pooled = [resolve_estimator(one) for one in ("aoa", "aoa-pooled", "snips-pooled")]
    assert of_record(pooled, set()) == ("snips-pooled", "aoa-pooled")
    assert of_record(estimators[:1], set()) == ("", "aoa")


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    """Evaluate one that finds popular items, and two that find rare ones, so that γ decides who leads."""
    rng = np.random.default_rng(0)
    chance = np.linspace(0.7, 0.1, 30)
    split = random_split(rng, 100, 30, chance)
    scores = {"popular": -np.arange(30.0), "rare": np.arange(30.0), "middle": -np.abs(np.arange(30.0) - 20)}
    return ipseval.evaluate(
        {name: np.tile(row, (split.n_users, 1)) for name, row in scores.items()},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=["recall@10", "ndcg@10"],
    )


def test_the_range_of_gamma_ends_where_the_tipping_points_are(evaluation):
    """Tipping points come from a finer grid and from every pair; linear metrics and others alike."""
    tipping = evaluation.tipping_points().set_index(["metric", "estimator", "model", "other"])
    for one in evaluation.verdicts:
        low, high, lowest, highest = evaluation._reach[one.metric].gamma
        assert (lowest, highest) == (-1.0, 3.0)
        best = one.standings["snips-global"].best
        mine = tipping.sort_index().loc[one.metric, "snips-global"]["tipping_points"]
        swaps = [gamma for pair, found in mine.items() if best in pair for gamma in found]
        assert swaps
        assert low == pytest.approx(max([g for g in swaps if g < 0], default=-1.0), abs=0.003)
        assert high == pytest.approx(min([g for g in swaps if g > 0], default=3.0), abs=0.003)


def test_gamma_goes_from_minus_one_to_three_in_tenths(evaluation):
    ranks = {"popular": evaluation.samples["popular"].ranked}
    alone = ipseval.evaluate_ranks(ranks, propensity=evaluation.propensity, metrics=["recall@10"])
    gammas = alone.sensitivity(standard_errors=False).frame["gamma"].unique()
    assert gammas == pytest.approx([step / 10 for step in range(-10, 31)])


def test_it_is_told_how_intervals_were_made(evaluation):
    again = evaluation.with_intervals("percentile", n_resamples=50, rng=0)
    assert (again.provenance["interval"], again.provenance["refit"]) == ("percentile", False)
    assert evaluation.provenance["interval"] == "normal"


def test_weights_without_a_power_law_have_a_factor_in_place_of_gamma(evaluation):
    ranks = {name: one.ranked for name, one in evaluation.samples.items()}
    known = ipseval.KnownPropensity(item=np.linspace(0.9, 0.3, 30)).fit(next(iter(ranks.values())))
    result = ipseval.evaluate_ranks(ranks, propensity=known)
    recall = {one.metric: one for one in result.verdicts}["recall@10"]
    reach = result._reach["recall@10"]
    assert reach.gamma is None
    assert reach.factor > 1
    assert reach.said(recall.weights[0].best).endswith(f"wrong by more than a factor of {reach.factor:.3g}.")


def test_a_metric_that_would_take_long_is_left_out_with_a_reason(evaluation, monkeypatch):
    monkeypatch.setattr("ipseval.inference._leads.MOST_VALUES", 10)
    metrics, (_, estimator) = evaluation.definitions
    first = dict.fromkeys(("recall@10", "ndcg@10"), "popular")
    found = leading_gammas(evaluation.samples, metrics, estimator, evaluation.propensity, first)
    assert "ndcg@10" not in found
    again = ipseval.evaluate_ranks(
        {name: one.ranked for name, one in evaluation.samples.items()},
        propensity=evaluation.propensity,
        metrics=["ndcg@10"],
    )
    assert "ask for .tipping_points()" in repr(again.explain())


def test_of_a_metric_that_would_take_long_four_are_drawn_in_larger_steps(evaluation, monkeypatch):
    given = [one.ranked for one in evaluation.samples.values()]
    ranks = {f"m{number}": given[number % 3] for number in range(5)}
    again = ipseval.evaluate_ranks(ranks, propensity=evaluation.propensity, metrics=["ndcg@10", "recall@10"])
    monkeypatch.setattr("ipseval.evaluation._sweeps.MOST_VALUES", 10)
    ndcg, recall = again._drawn.sweeps
    assert ndcg.gamma.tolist() == np.linspace(-1, 3, 9).tolist()
    assert list(ndcg.values) == list(again.verdicts[0].order[:4])
    assert recall.gamma.tolist() == np.linspace(-1, 3, 17).tolist()
    assert (len(recall.values), recall.at) == (5, 0.0)


def test_labels_of_an_evaluation_are_read_in_any_case_and_by_other_names(evaluation):
    found = evaluation.estimate("popular", "recall@10", "snips-global")
    assert evaluation.estimate("popular", "Recall@10", "SNIPS_Global") is found
    assert evaluation.estimate("popular", "R@10", "snips global") is found
    assert evaluation.per_user("popular", "NDCG@10", "naive").size == 100
    with pytest.raises(ipseval.InputError, match="no estimate"):
        evaluation.estimate("popular", "recal@10", "snips")


def test_two_leaders_are_told_apart_from_a_difference_on():
    scores = np.random.default_rng(5).random((60, 30))
    split = random_split(np.random.default_rng(0), 60, 30, np.linspace(0.7, 0.1, 30))
    found = ipseval.evaluate(
        {"a": scores, "b": scores[:, ::-1]}, split, metrics=["recall@5"], estimators=["aoa"]
    )
    (verdict,) = found.verdicts
    assert set(verdict.leaders) == {"a", "b"}
    assert verdict.detectable == found.compare()["minimum_detectable_difference"].item()


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 2**32 - 1))
@example(3)  # no estimate is defined
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_smallest_logs_have_a_verdict_or_a_reason(seed):
    """Of a handful of pairs much is undefined: one candidate, no other item, equal recommenders."""
    rng = np.random.default_rng(seed)
    n_users, n_items = rng.integers(1, 6, 2)
    pairs = rng.permutation(np.argwhere(rng.random((n_users, n_items)) < 0.6))
    if len(pairs) < 2:
        pairs = np.array([[0, 0], [n_users - 1, n_items - 1], [0, n_items - 1]])[[0, 2 if n_items > 1 else 1]]
    assume(len(np.unique(pairs, axis=0)) >= 2)
    frame, cut = pd.DataFrame(pairs, columns=["user", "item"]), len(pairs) // 2
    ids = {"users": range(n_users), "items": range(n_items)}
    split = ipseval.Split.from_frames(frame[:cut], frame[cut:], **ids)
    models = {name: rng.integers(0, 3, (n_users, n_items)) for name in "abc"}
    found = ipseval.evaluate(models, split, metrics=["recall@1", "atop", "mean_dcg@2"])
    assert found.leader in (None, *models)
    assert found.verdict
    assert "Verdict" in found.to_html()
    assert len(found.order) == sum(len(one.order) for one in found.verdicts)
