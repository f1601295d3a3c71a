"""The verdict names whom the evidence names: rules worked by hand, one value, and where γ changes it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import ipseval
from tests.conftest import examples
from tests.evaluation.verdicts import (
    AB,
    ABC,
    BA,
    PLAIN,
    WEIGHTED,
    decided,
    paired,
    posterior,
    rows,
    standing,
    with_posterior,
)
from tests.inside.estimators import resolve_estimator
from tests.inside.evaluation import (
    Standing,
    Weights,
    _differences,
    _sensitivity,
    of_record,
    order_frame,
)
from tests.inside.inference import leading_gammas
from tests.worlds import random_split


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


@pytest.mark.parametrize(("ahead", "choice"), [(0.21, "a"), (0.2, "b"), (0.19, "b")])
def test_a_challenger_takes_the_place_of_the_first_from_80_per_cent_on(ahead, choice):
    assert with_posterior(AB, sure=ahead).choice == choice


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


def test_the_estimator_of_record_is_weighted_and_reliable_where_one_is():
    estimators = [resolve_estimator(one) for one in ("aoa", "snips", "snips-global")]
    assert of_record(estimators, set()) == ("snips-global", "aoa")
    assert of_record(estimators, {"snips-global"}) == ("snips", "aoa")
    assert of_record(estimators, {"snips", "snips-global"}) == ("snips-global", "aoa")
    pooled = [resolve_estimator(one) for one in ("aoa", "aoa-pooled", "snips-pooled")]
    assert of_record(pooled, set()) == ("snips-pooled", "aoa-pooled")
    assert of_record([*pooled, estimators[2]], set()) == ("snips-global", "aoa")
    assert of_record(estimators[:1], set()) == ("", "aoa")


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    """Evaluate one that finds popular items, and two that find rare ones, so that γ decides who leads."""
    rng = np.random.default_rng(0)
    chance = np.linspace(0.7, 0.1, 30)
    split = random_split(rng, 60, 30, chance)
    scores = {"popular": -np.arange(30.0), "rare": np.arange(30.0), "middle": -np.abs(np.arange(30.0) - 20)}
    return ipseval.evaluate(
        {name: np.tile(row, (split.n_users, 1)) for name, row in scores.items()},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=["recall@10", "ndcg@10"],
    )


def test_the_range_of_gamma_ends_where_the_tipping_points_are(evaluation):
    """Tipping points come from another grid and from every pair; linear metrics and others alike."""
    found = evaluation.tipping_points(np.linspace(-1, 3, 30))
    tipping = found.set_index(["metric", "estimator", "model", "other"])
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


def test_tipping_points_are_looked_for_in_the_grid_that_is_given_or_in_steps_of_two_hundredths(evaluation):
    metrics, estimators = evaluation.definitions
    two = {name: evaluation.samples[name] for name in ("popular", "rare")}
    recall = replace(evaluation, definitions=(metrics[:1], estimators[1:]), samples=two)
    found = recall.tipping_points()
    pd.testing.assert_frame_equal(found, recall.tipping_points(np.linspace(-1, 3, 201)), check_exact=True)
    assert any(len(one) for one in found["tipping_points"])
    assert all(2 <= one <= 3 for row in recall.tipping_points([2.0, 3.0])["tipping_points"] for one in row)


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
    n = len(given[0]) * 5 * 17  # ranks, once for each recommender and γ
    monkeypatch.setattr("ipseval.evaluation._sweeps.MOST_VALUES", n - 1)
    ndcg, recall = again._drawn.sweeps
    assert ndcg.gamma.tolist() == np.linspace(-1, 3, 9).tolist()
    assert list(ndcg.values) == list(again.verdicts[0].order[:4])
    assert recall.gamma.tolist() == np.linspace(-1, 3, 17).tolist()
    assert (len(recall.values), recall.at) == (5, 0.0)
    captions = [one.caption for one in _sensitivity(again)[2:]]
    assert ["The highest 4 of 5 recommenders are drawn." in one for one in captions] == [True, False]
    monkeypatch.setattr("ipseval.evaluation._sweeps.MOST_VALUES", n)
    assert replace(again)._drawn.sweeps[0].gamma.size == 17


def test_a_table_has_probabilities_where_there_are_some_and_differences_elsewhere(evaluation):
    names = ("recommender", "plain average (aoa)", "if γ = 0 were right")
    recall, ndcg = evaluation.tables().parts[:2]
    assert recall.header == (*names, "corrected", "ahead of next")
    assert [row[-1].text != "" for row in recall.rows] == [True, True, False]
    assert ndcg.header == (*names, "vs best")
    assert [row[-1].text in ("best", "highest") for row in ndcg.rows] == [True, False, False]
    first, gap = ndcg.rows[0][0].text, ndcg.rows[1][-1].text
    assert (first, gap[0]) == (evaluation.verdicts[1].first, "−")
    for one in (recall, ndcg):
        assert one.words == set(range(len(one.header)))
    behind = _differences(evaluation)[2:]
    assert [one.title for one in behind] == [f"{v.metric}, minus {v.first}" for v in evaluation.verdicts]
    assert all(one.signed and one.words == {0, 1, 2} for one in behind)
    alone = ipseval.evaluate_ranks({"popular": evaluation.samples["popular"].ranked}, estimators=["aoa"])
    assert {one.header for one in alone.tables().parts} == {names[:2]}
    assert _differences(alone) == []
    assert "in an order" not in repr(alone.explain())
    assert "in an order" in repr(evaluation.explain())


def test_the_difference_of_a_single_user_is_not_tested():
    train, test = (pd.DataFrame({"user": [0], "item": [one]}) for one in (0, 1))
    split = ipseval.Split.from_frames(train, test, items=range(3))
    scores = {"a": np.array([[0.0, 2, 1]]), "b": np.array([[0.0, 1, 2]])}
    found = ipseval.evaluate(scores, split, metrics=["rr"], estimators=["aoa"])
    (table,) = found.tables().parts
    assert [row[-1].text for row in table.rows] == ["highest", "not tested"]
    tests = found.verdicts[0].standing.tests
    np.testing.assert_equal([tests.of("b", "a"), tests.of("a", "a")], [(-0.5, np.nan), (np.nan, np.nan)])


def test_rows_of_a_correction_follow_those_of_the_estimates(evaluation):
    rows = evaluation.frame[:2].assign(estimator="corrected")
    found = replace(evaluation, correction=SimpleNamespace(joined_rows=rows)).frame
    assert found.index.tolist() == list(range(len(evaluation.frame) + 2))
    pd.testing.assert_frame_equal(found[:-2], evaluation.frame)
    assert found["estimator"].tolist()[-2:] == ["corrected"] * 2


def test_labels_of_an_evaluation_are_read_in_any_case_and_by_other_names(evaluation):
    found = evaluation.estimate("popular", "recall@10", "snips-global")
    assert evaluation.estimate("popular", "Recall@10", "SNIPS_Global") is found
    assert evaluation.estimate("popular", "R@10", "snips global") is found
    assert evaluation.per_user("popular", "NDCG@10", "naive").size == 60
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


@settings(max_examples=examples(20))
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
    found = ipseval.evaluate(models, split, metrics=["recall@1", "mean_dcg@2"])
    assert found.leader in (None, *models)
    assert found.verdict
    assert "Verdict" in found.to_html()
    assert len(found.order) == sum(len(one.order) for one in found.verdicts)
