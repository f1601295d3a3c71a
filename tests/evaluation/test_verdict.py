"""The verdict says what the paired test, the two averages and the weights support, and nothing more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.inside.estimators import resolve_estimator
from tests.inside.evaluation import Reach, Standing, Verdict, of_record, verdict_lines
from tests.inside.inference import PairTests, leading_factors, leading_gammas
from tests.inside.report import shown_p


def standing(estimator: str, values: dict[str, float], apart: tuple[str, ...], p: float = 0.002) -> Standing:
    """Return the standing in which the pairs named by two letters are told apart."""
    rows = pd.DataFrame({"model": list(values), "estimate": list(values.values()), "estimator": estimator})
    found = np.array(list(values.values()))
    p_values = [[p if f"{a}{b}" in apart or f"{b}{a}" in apart else 0.4 for b in values] for a in values]
    places = {model: row for row, model in enumerate(values)}
    return Standing.of(rows, PairTests(places, found[:, None] - found, np.array(p_values)))


def verdict(weighted: Standing, plain: Standing | None = None, reach: Reach | None = None) -> Verdict:
    standings = {one.estimator: one for one in (weighted, plain) if one is not None}
    beside = "" if plain is None else plain.estimator
    return Verdict(
        "recall@10", standings, weighted.estimator, beside, (), plain is not None, reach or Reach()
    )


def test_leaders_are_the_highest_and_those_not_told_from_it():
    one = standing("w", {"a": 0.1, "b": 0.3, "c": 0.2}, ("ab",))
    assert one.ranked == ("b", "c", "a")
    assert one.leaders == ("b", "c")
    assert one.p_value == 0.002
    assert one.difference("a", "b") == (pytest.approx(-0.2), 0.002)
    assert one.difference("b", "a") == (pytest.approx(0.2), 0.002)


@pytest.mark.parametrize(
    ("values", "apart", "said"),
    [
        ({"a": 0.3, "b": 0.2, "c": 0.1}, ("ab", "ac"), "a leads: it is better than the other 2 (p ≤ .002)."),
        ({"a": 0.3, "b": 0.2}, ("ab",), "a leads: it is better than b (p = .002)."),
        ({"a": 0.3, "b": 0.2, "c": 0.1}, ("ac", "bc"), "a and b lead; these data do not tell them apart."),
        ({"a": 0.3, "b": 0.2}, (), "Nobody leads: these data do not tell a from b."),
        # b and c are told apart, so the three are not one group.
        (
            {"a": 0.3, "b": 0.29, "c": 0.1},
            ("bc",),
            "a is highest; these data do not tell it from b and c.",
        ),
        ({"a": 0.3}, (), "a has the only estimate, so there is nothing to compare."),
        ({"a": float("nan"), "b": float("nan")}, (), "No estimate is defined, so there is no verdict."),
        ({"a": float("nan"), "b": 0.1}, (), "b has the only estimate, so there is nothing to compare."),
    ],
)
def test_who_leads_is_said_as_far_as_the_paired_test_supports_it(values, apart, said):
    assert verdict_lines([verdict(standing("w", values, apart))]) == (said,)


@pytest.mark.parametrize(
    ("weighted", "plain", "said"),
    [
        (("ab",), ("ab",), "The plain average says the same."),
        ((), ("ab",), "Unweighted, b is ahead of a (+0.20, p = .002); weighting takes that lead away."),
        (
            ("ab",),
            ("ba",),
            "Unweighted, b is ahead of a (+0.20, p = .002); weighting turns that round (p = .002).",
        ),
        (("ab",), (), "Unweighted, b is highest; weighting puts a ahead of it (p = .002)."),
    ],
)
def test_what_weighting_changes_is_said_of_the_two_that_are_highest(weighted, plain, said):
    after = standing("w", {"a": 0.2, "b": 0.1}, weighted)
    values = {"a": 0.2, "b": 0.1} if "same" in said else {"a": 0.1, "b": 0.3}
    assert verdict_lines([verdict(after, standing("p", values, plain))])[1] == said


def test_equal_recommenders_lead_with_the_same_values():
    found = verdict(standing("w", {"a": 0.2, "b": 0.2}, ()))
    assert verdict_lines([found]) == ("a and b lead, with the same values.",)


def test_metrics_with_the_same_answer_share_a_line_with_the_largest_p_and_the_common_range():
    first = verdict(standing("w", {"a": 0.2, "b": 0.1}, ("ab",), 0.01), None, Reach((-1.0, 2.0, -1.0, 3.0)))
    second = verdict(standing("w", {"a": 0.4, "b": 0.1}, ("ab",), 0.002), None, Reach((-0.5, 3.0, -1.0, 3.0)))
    assert verdict_lines([first, second]) == (
        "By both metrics, a leads: it is better than b (p = .010). a is highest for γ from −0.5 to 2.",
    )


def test_a_p_value_is_never_rounded_across_the_level_of_the_test():
    assert shown_p(0.0496) == "p = .0496"
    assert shown_p(0.0504) == "p = .050"


def test_the_estimator_of_record_is_weighted_and_reliable_or_else_the_plain_average():
    estimators = [resolve_estimator(one) for one in ("aoa", "snips", "snips-global")]
    assert of_record(estimators, set()) == ("snips-global", "aoa", ())
    assert of_record(estimators, {"snips-global"}) == ("snips", "aoa", ("snips-global",))
    assert of_record(estimators, {"snips", "snips-global"}) == ("aoa", "", ("snips-global", "snips"))
    pooled = [resolve_estimator(one) for one in ("aoa", "aoa-pooled", "snips-pooled")]
    assert of_record(pooled, set()) == ("snips-pooled", "aoa-pooled", ())


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    """Evaluate one that finds popular items, and two that find rare ones, so that γ decides who leads."""
    rng = np.random.default_rng(0)
    chance = np.linspace(0.7, 0.1, 30)
    pairs = pd.DataFrame(np.argwhere(rng.random((200, 30)) < chance), columns=["user", "item"])
    split = ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.4, rng=0)
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
        low, high, lowest, highest = one.reach.gamma
        assert (lowest, highest) == (-1.0, 3.0)
        best = one.leaders[0]
        mine = tipping.sort_index().loc[one.metric, "snips-global"]["tipping_points"]
        swaps = [gamma for pair, found in mine.items() if best in pair for gamma in found]
        assert swaps
        assert low == pytest.approx(max([g for g in swaps if g < 0], default=-1.0), abs=0.003)
        assert high == pytest.approx(min([g for g in swaps if g > 0], default=3.0), abs=0.003)


def test_the_factor_is_the_smallest_of_the_tipping_factors_of_the_first(evaluation):
    first = {one.metric: one.leaders[0] for one in evaluation.verdicts}
    metrics, (_, estimator) = evaluation.definitions
    found = leading_factors(evaluation.samples, metrics, estimator, first)
    factors = evaluation.tipping_factors().query("estimator == 'snips-global'")
    mine = factors[factors["model"] == factors["metric"].map(first)]
    assert found == {"recall@10": pytest.approx(mine.query("metric == 'recall@10'")["factor"].min())}


def test_weights_without_a_power_law_have_a_factor_in_place_of_gamma(evaluation):
    ranks = {name: one.ranked for name, one in evaluation.samples.items()}
    known = ipseval.KnownPropensity(item=np.linspace(0.9, 0.3, 30)).fit(next(iter(ranks.values())))
    result = ipseval.evaluate_ranks(ranks, propensity=known)
    recall = {one.metric: one for one in result.verdicts}["recall@10"]
    assert recall.reach.gamma is None
    assert recall.reach.factor > 1
    assert verdict_lines([recall])[1].endswith(f"wrong by more than a factor of {recall.reach.factor:.3g}.")


def test_a_metric_that_would_take_long_is_left_out_with_a_reason(evaluation, monkeypatch):
    monkeypatch.setattr("ipseval.inference._leads.MOST_VALUES", 10)
    metrics, (_, estimator) = evaluation.definitions
    first = dict.fromkeys(("recall@10", "ndcg@10"), "popular")
    found = leading_gammas(evaluation.samples, metrics, estimator, evaluation.propensity, first)
    assert "ndcg@10" not in found
    again = ipseval.evaluate_ranks(
        {name: one.ranked for name, one in evaluation.samples.items()}, propensity=evaluation.propensity
    )
    assert "ask for .tipping_points()" in repr(again)


def test_labels_of_an_evaluation_are_read_in_any_case_and_by_other_names(evaluation):
    found = evaluation.estimate("popular", "recall@10", "snips-global")
    assert evaluation.estimate("popular", "Recall@10", "SNIPS_Global") is found
    assert evaluation.estimate("popular", "R@10", "snips global") is found
    assert evaluation.per_user("popular", "NDCG@10", "naive").size == 200
    with pytest.raises(ipseval.InputError, match="no estimate"):
        evaluation.estimate("popular", "recal@10", "snips")
