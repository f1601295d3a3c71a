"""The verdict names a recommender only where propensities are known by design; where γ changes the first."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import ipseval
from ipseval.estimators import Claim, Estimator, Snips
from ipseval.evaluation.verdict import (
    ModelRanking,
    Outcome,
    WeightSupport,
    choose_estimators,
    choose_headline,
    tabulate_order,
)
from ipseval.evaluation.verdict_text import describe_range
from ipseval.validation.simulation import World
from tests.conftest import examples
from tests.evaluation.verdicts import AB, ABC, AOA, BA, SNIPS, decide, paired, rows, standing
from tests.inside.estimators import resolve_estimator
from tests.inside.evaluation import build_differences, build_sensitivity
from tests.inside.inference import find_gamma_ranges
from tests.worlds import random_split


def test_leaders_are_the_highest_and_those_that_do_not_differ_significantly_from_it():
    ranking = standing("w", {"a": 0.1, "b": 0.3, "c": 0.2}, ("ab",))
    assert ranking.ranked == ("b", "c", "a")
    assert (ranking.highest, ranking.second_highest) == ("b", "c")
    assert ranking.top_group == ("b", "c")
    assert ranking.p_value == 0.002
    assert ranking.difference("a", "b") == (pytest.approx(-0.2), 0.002)
    assert ranking.difference("b", "a") == (pytest.approx(0.2), 0.002)
    p_values = np.array([[1.0, 0.01, 0.03], [0.01, 1.0, 0.4], [0.03, 0.4, 1.0]])
    values = {"a": 0.3, "b": 0.2, "c": 0.1}
    tested = ModelRanking.from_rows(rows("w", values), replace(paired(values, ()), p_value=p_values))
    assert (tested.top_group, tested.p_value) == (("a",), 0.03)  # the largest of those that it differs from


def test_equal_estimates_share_the_first_place():
    assert standing("w", {"a": 0.2, "b": 0.2, "c": 0.1}, ()).tied == ("a", "b")
    assert standing("w", ABC, ()).tied == ()


def test_propensities_known_by_design_decide_by_the_paired_test_of_the_weighted_estimates():
    significant = decide(AB, BA, "design", significant=("ab",))
    assert (significant.leader, significant.outcome) == ("b", Outcome.WINNER)
    assert (significant.primary_estimator, significant.highest_model) == (SNIPS, "b")
    close = decide(AB, BA, "design")
    assert (close.leader, close.outcome) == (None, Outcome.NOT_SIGNIFICANT)


@pytest.mark.parametrize("basis", ["exposure", "logged", "fitted", "assumed"])
@pytest.mark.parametrize("gamma", [None, 0.5])
@pytest.mark.parametrize("weighted", [AB, BA])
def test_no_recommender_is_named_on_propensities_that_were_not_known_by_design(basis, gamma, weighted):
    verdict = decide(AB, weighted, basis, gamma=gamma, significant=("ab",))
    assert verdict.leader is None
    assert verdict.outcome in (Outcome.NOT_IDENTIFIED, Outcome.NO_VERDICT)


def test_no_recommender_is_named_by_aoa_alone():
    verdict = decide(AB, significant=("ab",))
    assert (verdict.leader, verdict.outcome, verdict.primary_estimator) == (None, Outcome.NOT_IDENTIFIED, AOA)


def test_no_recommender_is_named_on_a_metric_without_a_guarantee():
    verdict = decide(AB, AB, "design", significant=("ab",), has_guarantee=False)
    assert (verdict.leader, verdict.outcome) == (None, Outcome.NOT_IDENTIFIED)


def test_few_effective_interactions_by_design_decide_only_where_they_agree_with_aoa():
    agreeing = decide(AB, AB, "design", 250.0, significant=("ab",))
    assert (agreeing.leader, agreeing.outcome) == ("a", Outcome.WINNER)
    contradicting = decide(AB, BA, "design", 250.0, significant=("ab",))
    assert (contradicting.leader, contradicting.outcome) == (None, Outcome.NO_VERDICT)
    unreliable = decide(AB, AB, "design", significant=("ab",), flag="few")
    assert (unreliable.leader, unreliable.outcome) == (None, Outcome.NO_VERDICT)


@pytest.mark.parametrize("basis", ["logged", "fitted"])
def test_weights_from_impressions_that_are_few_or_contradict_aoa_withhold_the_verdict(basis):
    assert decide(AB, BA, basis).outcome == Outcome.NO_VERDICT
    assert decide(AB, AB, basis, 250.0).outcome == Outcome.NO_VERDICT
    assert decide(AB, AB, basis).outcome == Outcome.NOT_IDENTIFIED
    assert decide(AB, BA, basis, gamma=0.5).outcome == Outcome.NOT_IDENTIFIED


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"a": float("nan")}, Outcome.UNDEFINED),
        ({"a": 0.1}, Outcome.SINGLE),
        ({"a": 0.1, "b": float("nan")}, Outcome.SINGLE),
        ({"a": 0.1, "b": 0.1}, Outcome.TIED),
    ],
)
def test_outcomes_without_a_comparison(values, outcome):
    assert decide(values).outcome == outcome


@pytest.mark.parametrize(
    ("ess", "ess_equal", "quality"),
    [
        (299.0, 1000.0, "low"),
        (300.0, 1000.0, "sufficient"),
        (99.0, 101.0, "low"),
        (99.0, 100.0, "sufficient"),
        (100.0, 300.0, "sufficient"),
        (99.0, 99.0, "sufficient"),
        (60.0, 60.0, "sufficient"),
    ],
)
def test_a_low_sample_size_is_a_share_of_that_with_equal_weights_or_below_a_hundred(ess, ess_equal, quality):
    assert WeightSupport("fitted", None, ess, ess_equal, ess_equal, 2000).quality == quality
    assert WeightSupport("fitted", None, ess, ess_equal, ess_equal, 2000, "few").quality == "unreliable"


def test_rows_are_ordered_by_the_first_printed_column():
    verdict = decide({"a": 0.1, "b": float("nan"), "c": 0.3}, {"a": 0.4, "b": 0.5, "c": 0.2})
    assert verdict.columns == (AOA, SNIPS)
    assert verdict.order == ("c", "a", "b")
    assert decide(None, ABC).order == ("a", "b", "c")


def test_the_table_of_the_order_has_ranks_estimates_and_tested_differences():
    frame = tabulate_order([decide({"a": 0.1, "b": 0.3}, significant=("ab",))])
    expected = pd.DataFrame(
        {
            "metric": ["recall@10"] * 2,
            "model": ["b", "a"],
            "rank": [1, 2],
            "estimator": [AOA] * 2,
            "estimate": [0.3, 0.1],
            "difference": [0.0, -0.2],
            "p_adjusted": [np.nan, 0.002],
        }
    )
    pd.testing.assert_frame_equal(frame, expected)


def test_the_headline_is_the_first_metric_with_a_guarantee():
    unguaranteed = decide(AB, AB, has_guarantee=False, metric="ndcg@10")
    guaranteed = decide(AB, AB)
    assert choose_headline([unguaranteed, guaranteed]) is guaranteed
    assert choose_headline([unguaranteed]) is unguaranteed


def test_the_compared_estimators_are_reliable_and_of_one_estimand_where_possible():
    estimators = [resolve_estimator(label) for label in ("aoa", "snips", "snips-global")]
    assert choose_estimators(estimators, set()) == ("aoa", "snips-global")
    assert choose_estimators(estimators, {"snips-global"}) == ("aoa", "snips")
    assert choose_estimators(estimators, {"snips", "snips-global"}) == ("aoa", "snips-global")
    pooled = [resolve_estimator(label) for label in ("aoa", "aoa-pooled", "snips-pooled")]
    assert choose_estimators(pooled, set()) == ("aoa-pooled", "snips-pooled")
    assert choose_estimators([*pooled, estimators[2]], set()) == ("aoa", "snips-global")
    assert choose_estimators(estimators[:1], set()) == ("aoa", "")
    assert choose_estimators(estimators[1:], set()) == ("", "snips-global")


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
        propensity=ipseval.PowerLawPropensity(gamma=0.0, unseen="drop"),
        metrics=["recall@10", "ndcg@10"],
    )


def test_the_range_of_gamma_ends_where_the_tipping_points_are(evaluation):
    """Tipping points come from another grid and from every pair; linear metrics and others alike."""
    tipping = evaluation.tipping_points(np.linspace(-1, 3, 30))
    for verdict in evaluation.verdicts:
        gamma_range = verdict.gamma_range
        assert (gamma_range.highest_model, gamma_range.low, gamma_range.lowest, gamma_range.highest) == (
            verdict.highest_model,
            -1.0,
            -1.0,
            3.0,
        )
        rows = tipping[(tipping["metric"] == verdict.metric) & (tipping["estimator"] == SNIPS)]
        swaps = {}
        for row in rows.to_dict("records"):
            pair = {row["model"], row["other"]}
            if verdict.highest_model in pair:
                (rival,) = pair - {verdict.highest_model}
                swaps |= dict.fromkeys(row["tipping_points"], rival)
        assert gamma_range.high == pytest.approx(min(swaps), abs=1e-9)
        assert gamma_range.next_above == swaps[min(swaps)]
        assert gamma_range.next_below == ""


def test_the_recommender_is_first_at_the_printed_end_of_its_range(evaluation):
    """The verdict and the tipping points print one end, rounded inwards; 0.01 further, another one is first."""
    for verdict in evaluation.verdicts:
        text = describe_range(verdict.gamma_range)
        end = re.fullmatch(r"γ in \[−1, (−?\d\.\d\d)\]", text)[1]
        gamma = float(end.replace("−", "-"))
        frame = evaluation.sensitivity([-1, gamma, gamma + 0.01]).frame
        frame = frame[(frame["metric"] == verdict.metric) & (frame["estimator"] == SNIPS)]
        highest = frame.loc[frame.groupby("gamma")["estimate"].idxmax(), "model"].tolist()
        successor = verdict.gamma_range.next_above
        assert highest == [verdict.highest_model, verdict.highest_model, successor]

        tipping = evaluation.tipping_points(reference=verdict.highest_model)
        tipping = tipping[(tipping["metric"] == verdict.metric) & (tipping["estimator"] == SNIPS)]
        (row,) = (row for row in tipping.itertuples() if successor in (row.model, row.other))
        assert row.tipping_points == pytest.approx((verdict.gamma_range.high,), abs=1e-9)
        if row.model == verdict.highest_model:
            assert f"[−1, {end}]" in row.statement


def test_without_weights_the_range_of_gamma_is_that_of_a_power_law_of_the_training_counts():
    rng = np.random.default_rng(0)
    split = random_split(rng, 60, 30, np.linspace(0.7, 0.1, 30))
    models = {"popular": np.tile(-np.arange(30.0), (60, 1)), "rare": np.tile(np.arange(30.0), (60, 1))}
    options = {"metrics": ["recall@10"]}
    unweighted = ipseval.evaluate(models, split, **options)
    weighted = ipseval.evaluate(models, split, propensity="power-law:gamma=0", **options)
    assert unweighted.verdicts[0].gamma_range == weighted.verdicts[0].gamma_range is not None
    ranks = {name: sample.ranked for name, sample in unweighted.samples.items()}
    assert ipseval.evaluate_ranks(ranks, **options).verdicts[0].gamma_range is None  # no training counts


def test_a_metric_that_would_take_long_has_no_range_of_gamma(evaluation, monkeypatch):
    monkeypatch.setattr("ipseval.inference.gamma_range.MOST_VALUES", 10)
    metrics, (_, estimator) = evaluation.definitions
    ranges = find_gamma_ranges(evaluation.samples, metrics, estimator, evaluation.propensity, start=-1.0)
    assert ranges.keys() == {"recall@10"}


def test_only_the_first_metric_shows_differences_from_the_first_recommender(evaluation):
    names = ("recommender", "AOA (unweighted)", "SNIPS (γ = 0 assumed)")
    recall, ndcg = evaluation.tables().parts
    assert recall.header == (*names, "difference from first (AOA)")
    assert [row[-1].text == "first" for row in recall.rows] == [True, False, False]
    assert [row[-1].text[0] for row in recall.rows[1:]] == ["−", "−"]
    assert ndcg.header == names
    for table, verdict in zip((recall, ndcg), evaluation.verdicts, strict=True):
        assert [row[0].text for row in table.rows] == list(verdict.order)
        assert table.words == set(range(len(table.header)))
    content = evaluation._content(page=True)
    sections = build_differences(content, content.page)[2:]
    assert [table.title for table in sections] == [
        f"{v.metric}, minus {v.order[0]}" for v in evaluation.verdicts
    ]
    assert all(table.signed and table.words == {0, 1, 2} for table in sections)
    single = ipseval.evaluate_ranks({"popular": evaluation.samples["popular"].ranked}, estimators=["aoa"])
    assert {table.header for table in single.tables().parts} == {names[:2]}
    content = single._content(page=True)
    assert build_differences(content, content.page) == []
    assert "In an order" not in repr(single.explain())
    assert "In an order" in repr(evaluation.explain())


def test_estimators_of_different_estimands_are_in_separate_tables(evaluation):
    ranks = {name: sample.ranked for name, sample in evaluation.samples.items()}
    mixed = ipseval.evaluate_ranks(
        ranks,
        propensity=evaluation.propensity,
        metrics=["recall@10"],
        estimators=["aoa", "aoa-pooled", "snips-global", "snips-pooled"],
    )
    users, interactions = mixed.tables().parts
    assert users.title == "recall@10, means over users"
    assert users.header[1:3] == ("AOA (unweighted)", "SNIPS global (γ = 0 assumed)")
    assert interactions.title == "recall@10, means over interactions"
    assert interactions.header[1:3] == ("AOA pooled (unweighted)", "SNIPS pooled (γ = 0 assumed)")
    estimands = mixed.frame.groupby("estimand")["estimator"].unique().map(set).to_dict()
    assert estimands == {
        "mean over users": {"aoa", "snips-global"},
        "mean over interactions": {"aoa-pooled", "snips-pooled"},
    }
    with pytest.raises(ipseval.InputError, match="columns must have one estimand"):
        mixed.to_latex(columns=["aoa", "aoa-pooled"])


def test_the_detectable_difference_of_a_design_is_that_of_the_paired_test():
    scores = np.random.default_rng(5).random((60, 30))
    split = random_split(np.random.default_rng(0), 60, 30, np.linspace(0.7, 0.1, 30))
    result = ipseval.evaluate(
        {"a": scores, "b": scores[:, ::-1]},
        split,
        metrics=["recall@5"],
        propensity=ipseval.KnownPropensity(item=np.full(30, 0.5), basis="design"),
    )
    (verdict,) = result.verdicts
    assert (verdict.outcome, result.leader) == (Outcome.NOT_SIGNIFICANT, None)
    comparison = result.compare().set_index("estimator")
    assert verdict.detectable == comparison.loc[SNIPS, "minimum_detectable_difference"]


def test_gamma_goes_from_minus_one_to_three_in_tenths(evaluation):
    ranks = {"popular": evaluation.samples["popular"].ranked}
    single = ipseval.evaluate_ranks(ranks, propensity=evaluation.propensity, metrics=["recall@10"])
    gammas = single.sensitivity(standard_errors=False).frame["gamma"].unique()
    assert gammas == pytest.approx([step / 10 for step in range(-10, 31)])


def test_tipping_points_are_searched_in_the_given_grid_or_in_steps_of_two_hundredths(evaluation):
    metrics, estimators = evaluation.definitions
    samples = {name: evaluation.samples[name] for name in ("popular", "rare")}
    recall = replace(evaluation, definitions=(metrics[:1], estimators[1:]), samples=samples)
    frame = recall.tipping_points()
    pd.testing.assert_frame_equal(frame, recall.tipping_points(np.linspace(-1, 3, 201)), check_exact=True)
    assert any(len(gamma) for gamma in frame["tipping_points"])
    assert all(
        2 <= gamma <= 3 for row in recall.tipping_points([2.0, 3.0])["tipping_points"] for gamma in row
    )


def test_the_record_states_the_method_of_the_intervals(evaluation):
    again = evaluation.with_intervals("percentile", n_resamples=50, rng=0)
    assert (again.provenance["interval"], again.provenance["refit"]) == ("percentile", False)
    assert evaluation.provenance["interval"] == "normal"


def test_four_recommenders_are_drawn_in_larger_steps_for_a_slow_metric(evaluation, monkeypatch):
    ranks_by_model = [item.ranked for item in evaluation.samples.values()]
    ranks = {f"m{number}": ranks_by_model[number % 3] for number in range(5)}
    again = ipseval.evaluate_ranks(ranks, propensity=evaluation.propensity, metrics=["ndcg@10", "recall@10"])
    n = len(ranks_by_model[0]) * 5 * 17  # ranks, once for each recommender and γ
    monkeypatch.setattr("ipseval.evaluation._page_curves.MOST_VALUES", n - 1)
    ndcg, recall = again._curves.sweeps
    assert ndcg.gamma.tolist() == np.linspace(-1, 3, 9).tolist()
    assert list(ndcg.values) == list(again.verdicts[0].order[:4])
    assert recall.gamma.tolist() == np.linspace(-1, 3, 17).tolist()
    assert (len(recall.values), recall.at) == (5, 0.0)
    captions = [
        item.caption for item in build_sensitivity(again._content(page=True), again._page_content())[2:]
    ]
    assert ["The highest 4 of 5 recommenders are drawn." in item for item in captions] == [True, False]
    monkeypatch.setattr("ipseval.evaluation._page_curves.MOST_VALUES", n)
    assert replace(again)._curves.sweeps[0].gamma.size == 17


def test_the_difference_of_a_single_user_is_not_tested():
    train, test = (pd.DataFrame({"user": [0], "item": [item]}) for item in (0, 1))
    split = ipseval.Split.from_frames(train, test, items=range(3))
    scores = {"a": np.array([[0.0, 2, 1]]), "b": np.array([[0.0, 1, 2]])}
    evaluation = ipseval.evaluate(scores, split, metrics=["rr"], estimators=["aoa"])
    (table,) = evaluation.tables().parts
    assert [row[-1].text for row in table.rows] == ["first", "not tested"]
    tests = evaluation.verdicts[0].primary_ranking.tests
    np.testing.assert_equal(
        [tests.get_difference_and_p_value("b", "a"), tests.get_difference_and_p_value("a", "a")],
        [(-0.5, np.nan), (np.nan, np.nan)],
    )


def test_labels_of_an_evaluation_are_read_in_any_case_and_by_other_names(evaluation):
    estimate = evaluation.estimate("popular", "recall@10", "snips-global")
    assert evaluation.estimate("popular", "Recall@10", "SNIPS_Global") is estimate
    assert evaluation.estimate("popular", "R@10", "snips global") is estimate
    assert evaluation.per_user("popular", "NDCG@10", "naive").size == 60
    with pytest.raises(ipseval.InputError, match="no estimate"):
        evaluation.estimate("popular", "recal@10", "snips")


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
    frame, n_training = pd.DataFrame(pairs, columns=["user", "item"]), len(pairs) // 2
    ids = {"users": range(n_users), "items": range(n_items)}
    split = ipseval.Split.from_frames(frame[:n_training], frame[n_training:], **ids)
    models = {name: rng.integers(0, 3, (n_users, n_items)) for name in "abc"}
    evaluation = ipseval.evaluate(models, split, metrics=["recall@1", "mean_dcg@2"])
    assert evaluation.leader in (None, *models)
    assert evaluation.verdict
    assert "Verdict" in evaluation.to_html()
    assert len(evaluation.order) == sum(len(verdict.order) for verdict in evaluation.verdicts)


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
def test_an_estimator_that_is_biased_with_the_true_propensities_names_no_winner():
    world = World(n_users=400, n_items=60, mean_relevant=15, rng=0)
    split = world.split(rng=1)
    examples = world.example_models(split, rng=2)
    models = {name: examples[name] for name in ("taste", "niche")}
    propensity = ipseval.KnownPropensity(item=world.propensity.item, basis="design")

    def evaluate(estimator: str) -> ipseval.Evaluation:
        return ipseval.evaluate(
            models, split, propensity=propensity, metrics=["recall@10"], estimators=["aoa", estimator]
        )

    assert evaluate("snips-global").leader == "taste"
    biased = evaluate("snips")
    assert biased.leader is None
    assert "SNIPS per user is biased even with the true propensities." in str(biased).replace(
        "\n            ", " "
    )


def test_metrics_whose_weights_act_between_users_only_have_no_range_of_gamma():
    rng = np.random.default_rng(4)
    split = ipseval.split_random({u: rng.permutation(30)[:12].tolist() for u in range(80)}, rng=0)
    models = {
        "a": rng.random((split.n_users, split.n_items)),
        "b": rng.random((split.n_users, split.n_items)),
    }
    labels = ["recall@5", "rr@5", "hit@5"]
    evaluation = ipseval.evaluate(models, split, propensity="power-law:gamma=0", metrics=labels)
    ranges = {verdict.metric: verdict.gamma_range for verdict in evaluation.verdicts}
    assert {metric: gamma_range is None for metric, gamma_range in ranges.items()} == {
        "recall@5": False,
        "rr@5": True,
        "hit@5": True,
    }
    assert [verdict.is_weighted_within_users for verdict in evaluation.verdicts] == [True, False, False]
    assert not evaluation.verdicts[1].is_clear


def test_weights_of_users_with_one_interaction_each_act_as_on_every_metric():
    """The weight of a user is then that of the interaction, so that γ changes rr as it changes recall."""
    rng = np.random.default_rng(4)
    log = {}
    for user in range(80):
        log[user] = np.flatnonzero(rng.random(30) < np.linspace(0.7, 0.1, 30)).tolist()
    split = ipseval.split_leave_one_out(log, rng=0)
    scores = {"popular": -np.arange(30.0), "rare": np.arange(30.0)}
    models = {name: np.tile(row, (split.n_users, 1)) for name, row in scores.items()}
    options = {"propensity": "power-law:gamma=0", "metrics": ["rr@5", "hit@5", "recall@5"]}
    evaluation = ipseval.evaluate(models, split, **options)
    assert all(verdict.is_weighted_within_users for verdict in evaluation.verdicts)
    ranges = [verdict.gamma_range for verdict in evaluation.verdicts]
    assert ranges[0] is not None
    assert (ranges[1].low, ranges[1].high) == pytest.approx((ranges[2].low, ranges[2].high), abs=0.003)
    statements = evaluation.tipping_points().set_index(["metric", "estimator"])["statement"]
    assert statements["hit@5", SNIPS] == statements["recall@5", SNIPS]


@pytest.mark.filterwarnings("ignore:the median user has 4 test positives")
def test_an_unchanged_order_of_a_metric_whose_weights_act_between_users_is_no_statement_on_gamma():
    rng = np.random.default_rng(0)
    split = random_split(rng, 60, 30, np.linspace(0.7, 0.1, 30))
    scores = {"popular": -np.arange(30.0), "rare": np.arange(30.0)}
    models = {name: np.tile(row, (split.n_users, 1)) for name, row in scores.items()}
    evaluation = ipseval.evaluate(
        models,
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0, unseen="drop"),
        metrics=["rr@10", "recall@10"],
        estimators=["aoa", "snips", "snips-global"],
    )
    statements = evaluation.tipping_points().set_index(["metric", "estimator"])["statement"]
    assert statements["rr@10", "aoa"] == "popular > rare does not depend on γ"
    for estimator in ("snips", SNIPS):
        assert statements["rr@10", estimator] == (
            "popular > rare, but weights change at most how much each user counts"
        )
    assert statements["recall@10", SNIPS].startswith("popular > rare holds for γ in [−1, ")
    assert "counts, so the curves show the effect of exposure only in part." in evaluation.to_html()
    calibrated = ipseval.PowerLawPropensity(gamma=0.0, unseen="drop", scale="max")
    unbiased = ipseval.evaluate(
        models, split, propensity=calibrated, metrics=["rr@10"], estimators=["ips"], low_ess="ignore"
    )
    assert unbiased.verdicts[0].is_weighted_within_users


@pytest.mark.parametrize("level", ["biased", "no guarantee", "consistent"])
@pytest.mark.filterwarnings("ignore:the median user has 4 test positives")
def test_whether_weights_act_between_users_does_not_depend_on_the_guarantee_of_the_estimator(level):
    class Mine(Estimator):
        label = "mine"

        def sums(self, sample, metric):
            return Snips(normalize="global").sums(sample, metric)

        def weight_positives(self, sample):
            return sample.weights

        def claim(self, metric, *, is_probability=False, n_relevant="absent"):
            return Claim(level)

    rng = np.random.default_rng(0)
    split = random_split(rng, 60, 30, np.linspace(0.7, 0.1, 30))
    scores = {"popular": -np.arange(30.0), "rare": np.arange(30.0)}
    evaluation = ipseval.evaluate(
        {name: np.tile(row, (split.n_users, 1)) for name, row in scores.items()},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0, unseen="drop"),
        metrics=["rr@10"],
        estimators=["aoa", Mine()],
    )
    assert not evaluation.verdicts[0].is_weighted_within_users
    text = " ".join(str(evaluation).split())
    assert "For rr@10, weights change at most how much each user counts" in text
    statements = evaluation.tipping_points().set_index("estimator")["statement"]
    assert statements["mine"] == "popular > rare, but weights change at most how much each user counts"


class OfEqualUsers(Snips):
    """SNIPS under another label, with the assumption of its normalisation."""

    label = "of-equal-users"


@pytest.mark.parametrize(
    ("estimator", "metric", "is_stated"),
    [
        ("snips-global", "recall@10", True),
        ("snips-global", "dcg@10", False),  # the form of sums is pooled
        ("snips-pooled", "recall@10", False),
        ("snips", "recall@10", False),
        ("snips-shrunk(0.5)", "recall@10", True),
        ("snips-shrunk(1)", "recall@10", False),
        (OfEqualUsers(normalize="global"), "recall@10", True),
    ],
)
def test_equally_exposed_users_are_an_assumption_of_the_estimators_that_state_it(
    estimator, metric, is_stated
):
    split = random_split(np.random.default_rng(3), 60, 30)
    models = {
        "popular": ipseval.baselines.popularity(split.train),
        "ease": ipseval.baselines.ease(split.train),
    }
    propensity = ipseval.KnownPropensity(item=np.linspace(0.2, 0.6, split.n_items))
    evaluation = ipseval.evaluate(
        models, split, propensity=propensity, metrics=[metric], estimators=["aoa", estimator]
    )
    assert ("equally exposed users" in evaluation.verdict) == is_stated


@pytest.mark.parametrize(("unweighted", "is_stated"), [("aoa", True), ("aoa-pooled", False)])
def test_a_range_of_gamma_states_the_assumption_of_the_estimator_that_it_is_computed_by(
    unweighted, is_stated
):
    world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    split = world.split(rng=1)
    models = world.example_models(split, rng=2)
    compared = {name: models[name] for name in ("taste", "niche")}
    evaluation = ipseval.evaluate(compared, split, metrics=["recall@10"], estimators=[unweighted])
    users = "equally exposed users, " if is_stated else ""
    assert f"SNIPS at γ: {users}propensities ∝" in evaluation.verdict


@pytest.mark.parametrize(
    ("unweighted", "weighted"),
    [("aoa", "snips-global"), ("aoa-pooled", "snips-global"), ("aoa", "snips-pooled"), ("aoa", "ips")],
)
def test_the_line_on_weights_states_the_size_of_the_estimators_that_it_names(unweighted, weighted):
    world = World(n_users=300, n_items=80, mean_relevant=20, gamma=0.3, rng=0)
    split = world.split(rng=1)
    evaluation = ipseval.evaluate(
        world.example_models(split, rng=2),
        split,
        propensity=ipseval.KnownPropensity(item=world.propensity.item),
        metrics=["recall@10"],
        estimators=[unweighted, weighted],
        n_relevant=world.n_relevant,
    )
    sizes = evaluation.diagnostics.set_index("estimator")["ess_own"]
    names = {"aoa": "AOA", "aoa-pooled": "AOA pooled", "snips-global": "SNIPS", "ips": "IPS"}
    names["snips-pooled"] = "SNIPS pooled"
    sentence = f"Effective sample size {sizes[weighted]:,.0f} by {names[weighted]}, "
    sentence += f"{sizes[unweighted]:,.0f} by {names[unweighted]}, of "
    assert sentence in " ".join(str(evaluation).split())
