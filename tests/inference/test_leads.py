"""How far a recommender leads over γ, worked by hand: to the border, to a swap, to a tie, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from tests.inference.worlds import ranked
from tests.inside.inference import leading_factors, leading_gammas

pytestmark = pytest.mark.filterwarnings("ignore:the median user has", "ignore:gamma = .* > 1 says")
ITEMS = [0, 1, 0]


def evaluated(gamma: float, hits: dict[str, tuple[int, int, int]], metrics=("recall@1",)):
    """Return recommenders that hit, or not, user 0's items 0 and 1 and user 1's item 0; n* = 4 and 1."""
    ranks = {
        name: ranked([0, 0, 1], ITEMS, [0 if hit else 2 for hit in found], n_users=2, n_items=5)
        for name, found in hits.items()
    }
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=gamma).fit(popularity=[4, 1, 1, 1, 1]),
        metrics=metrics,
        estimators=("snips-pooled", "aoa", "snips"),
        on_low_ess="ignore",
    )


def ranges(gamma, hits, first, metrics=("recall@1",), estimator=0):
    found = evaluated(gamma, hits, metrics)
    chosen, estimators = found.definitions
    return leading_gammas(found.samples, chosen, estimators[estimator], found.propensity, first)


# Weights of the items are 4^(−(γ+1)/2) and 1: two positives of item 0 weigh 2·2^(−(γ+1)) = 2^(−γ).
HEAD, TAIL, BOTH, NONE = (1, 0, 1), (0, 1, 0), (1, 1, 1), (0, 0, 0)


@pytest.mark.parametrize(
    ("gamma", "hits", "first", "expected"),
    [
        (-0.5, {"head": HEAD, "tail": TAIL}, "head", (-1.0, 0.0, -1.0, 3.0)),
        (0.55, {"head": HEAD, "tail": TAIL}, "tail", (0.0, 3.0, -1.0, 3.0)),
        (0.5, {"both": BOTH, "tail": TAIL, "none": NONE}, "both", (-1.0, 3.0, -1.0, 3.0)),
        (0.5, {"none": NONE, "tail": TAIL, "head": HEAD}, "tail", (0.0, 3.0, -1.0, 3.0)),
        (-2.5, {"head": HEAD, "tail": TAIL}, "head", (-2.5, 0.0, -2.5, 3.0)),
        (4.5, {"head": HEAD, "tail": TAIL}, "tail", (0.0, 4.5, -1.0, 4.5)),
    ],
)
def test_the_range_of_a_lead_ends_at_a_swap_or_at_what_was_tried(gamma, hits, first, expected):
    found = ranges(gamma, hits, {"recall@1": first})
    assert found == {"recall@1": pytest.approx(expected, abs=0.003)}


def test_there_is_no_range_of_what_does_not_lead_and_of_metrics_that_nobody_leads():
    hits = {"head": HEAD, "tail": TAIL}
    assert ranges(0.5, hits, {"recall@1": "head"}) == {}
    assert ranges(0.5, {"a": HEAD, "b": HEAD}, {"recall@1": "a"}) == {}
    assert ranges(0.5, hits, {}) == {}
    assert ranges(0.5, hits, {"recall@1": "tail", "dcg@1": "tail"}).keys() == {"recall@1"}


def test_metrics_that_are_computed_anew_end_at_the_same_swap_as_those_that_are_not():
    # A user's rr is 1 or 1/3 whatever the weights; users weigh Σw: 2^−(γ+1) + 1 and 2^−(γ+1).
    found = ranges(0.5, {"head": HEAD, "tail": TAIL}, {"rr": "head", "recall@1": "tail"}, ("rr", "recall@1"))
    assert found["recall@1"] == pytest.approx((0.0, 3.0, -1.0, 3.0), abs=0.003)
    assert found["rr"] == (-1.0, 3.0, -1.0, 3.0)


def test_factors_are_those_of_estimators_with_one_normaliser():
    found = evaluated(1.0, {"head": HEAD, "tail": TAIL, "none": NONE})
    metrics, (pooled, aoa, snips) = found.definitions
    first = {"recall@1": "tail"}
    # γ = 1: tail has 1 of weight, head 2/4: Λ = √(1/(1/2)); unweighted per user there is none.
    assert leading_factors(found.samples, metrics, pooled, first) == {"recall@1": pytest.approx(2**0.5)}
    for one in (aoa, snips):
        assert leading_factors(found.samples, metrics, one, first) == {}
    assert leading_factors(found.samples, metrics, pooled, {}) == {}
    alone = evaluated(1.0, {"tail": TAIL})
    assert leading_factors(alone.samples, metrics, pooled, first) == {}


@pytest.mark.parametrize(
    ("gamma", "statement"),
    [
        (-0.5, "head > tail holds for γ in [−1, 0]"),
        (1.0, "tail > head holds for γ in [0, 3]"),
        (5.0, "head > tail holds for γ in [−1, 0]"),  # beyond what was tried: the lowest γ says who is named
    ],
)
def test_a_swap_of_three_positives_stands_in_words_on_both_sides(gamma, statement):
    found = evaluated(gamma, {"head": HEAD, "tail": TAIL}).tipping_points(np.linspace(-1, 3, 9))
    frame = found.set_index("estimator")
    pooled = frame.loc["snips-pooled"]
    assert (pooled["statement"], f"{pooled['model']} > {pooled['other']}") == (statement, statement[:11])
    assert pooled["tipping_points"] == pytest.approx((0.0,), abs=1e-9)
    assert frame.loc["aoa", "statement"] == "head > tail holds for all γ in [−1, 3]"
