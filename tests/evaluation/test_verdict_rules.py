"""The rules of the page on verdicts, written a second time, agree with `decide_outcome` in all situations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest

from ipseval.evaluation.verdict import ModelRanking, Verdict, WeightSupport, decide_outcome

ESS_EQUAL = 1000.0
ESS = {
    "sufficient": 900.0,
    "low": 200.0,
    "clipped": 900.0,
    "unreliable": 900.0,
}  # low: below 30% of the equal weights


@dataclass(frozen=True)
class Situation:
    """What the rules read: two recommenders, a and b; AOA ranks a first."""

    n_ranked: int
    has_aoa: bool
    basis: str  # "" without weights
    is_power_law: bool
    quality: str
    is_consistent: bool
    is_same_first: bool
    is_significant: bool
    is_tied: bool


class PairTestsOfTwo:
    """The difference of the two recommenders, which is 0 where they are tied."""

    def __init__(self, is_tied: bool):
        self.is_tied = is_tied

    def get_difference_and_p_value(self, model: str, reference: str) -> tuple[float, float]:
        return (0.0 if self.is_tied else 1.0), 0.5


def apply_rules_of_page(case: Situation) -> str:
    """Return the outcome by the table under "The rules" in docs/how-the-verdict-is-made.md."""
    if case.n_ranked < 2:
        return ("undefined", "single")[case.n_ranked]
    decides = case.quality == "sufficient" or (case.quality == "low" and case.has_aoa and case.is_same_first)
    if case.basis == "design" and case.is_consistent and decides:
        return "winner" if case.is_significant else "not significant"
    is_from_impressions = case.basis in ("logged", "fitted") and not case.is_power_law
    is_contradicted = case.quality != "sufficient" or not case.is_same_first
    if case.has_aoa and (case.basis == "design" or is_from_impressions) and is_contradicted:
        return "no verdict"
    if not case.has_aoa and case.quality == "unreliable":
        return "no verdict"
    return "tied" if case.is_tied else "not identified"


def rank(estimator: str, order: str, n_ranked: int, n_top: int, *, is_tied: bool) -> ModelRanking:
    ranked = tuple(order[:n_ranked])
    values = dict(zip(order, (2.0, 1.0), strict=True))
    return ModelRanking(estimator, ranked, ranked[:n_top], 0.01, values, PairTestsOfTwo(is_tied))


def build_verdict(case: Situation) -> Verdict:
    rankings = {}
    if case.has_aoa:
        rankings["aoa"] = rank("aoa", "ab", case.n_ranked, 1, is_tied=case.is_tied)
    support = None
    if case.basis:
        order = "ab" if case.is_same_first else "ba"
        is_tied = case.is_tied and not case.has_aoa
        n_top = 1 if case.is_significant else 2
        rankings["snips-global"] = rank("snips-global", order, case.n_ranked, n_top, is_tied=is_tied)
        support = WeightSupport(
            basis=case.basis,
            gamma=0.0 if case.is_power_law else None,
            ess=ESS[case.quality],
            ess_equal=ESS_EQUAL,
            ess_unweighted=ESS_EQUAL,
            n_interactions=2000,
            flag="few interactions dominate" if case.quality == "unreliable" else "",
            clipped_share=0.21 if case.quality == "clipped" else 0.2,
        )
    return Verdict(
        metric="recall@10",
        rankings=rankings,
        unweighted="aoa" if case.has_aoa else "",
        weighted="snips-global" if case.basis else "",
        support=support,
        is_consistent=case.is_consistent,
    )


@pytest.mark.parametrize("basis", ["", "design", "exposure", "logged", "fitted", "assumed"])
def test_the_rules_of_the_page_are_those_of_the_program(basis: str):
    flags = (True, False)
    outcomes = set()
    for n_ranked, has_aoa, is_power_law, quality, *others in product(
        (0, 1, 2), flags, flags, ESS, flags, flags, flags, flags
    ):
        if not (basis or has_aoa) or (basis == "design" and is_power_law):
            continue  # there is no estimate, or no such propensity
        case = Situation(n_ranked, has_aoa, basis, is_power_law, quality, *others)
        outcome = str(decide_outcome(build_verdict(case)))
        assert outcome == apply_rules_of_page(case), case
        outcomes.add(outcome)
    assert {"undefined", "single", "tied", "not identified"} <= outcomes
    assert ("winner" in outcomes) == (basis == "design")
    assert ("no verdict" in outcomes) == bool(basis)
