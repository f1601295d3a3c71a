"""The report of a correction: the sentences of its verdict, its tables, and every format."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import RandomExposure
from ipseval.correction import Correction
from ipseval.validation.simulation import World
from tests.correction.test_order import make_order
from tests.inside.correction import (
    AlphaPosterior,
    CorrectionReport,
    MetricOrder,
    _metric_table,
    choose_recommender,
    verdict_sentences,
)

METRICS = ["recall@10", "atop"]


@pytest.fixture(scope="module", name="situation")
def a_simulated_log():
    world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    split = world.split(rng=1)
    examples = world.example_models(split, rng=2)
    models = {name: examples[name] for name in ("random", "taste", "popular")}
    exposure = RandomExposure.from_ratings(world.study(rng=3, n_per_user=20).random, threshold=4)
    return models, split, exposure


@pytest.fixture(scope="module", name="log_correction")
def a_correction_by_the_log_alone(situation):
    models, split, _ = situation
    return ipseval.correct(models, split, metrics=METRICS, rng=0)


@pytest.fixture(scope="module", name="exposure_correction")
def a_correction_with_random_exposure(situation):
    models, split, exposure = situation
    return ipseval.correct(models, split, random_exposure=exposure, metrics=METRICS, rng=0)


def make_report(*orders: MetricOrder, n_random: int = 0) -> CorrectionReport:
    return CorrectionReport(
        frame=pd.DataFrame({"estimator": ["aoa-pooled", "corrected"]}),
        orders=orders,
        n_users=10,
        n_positives=20,
        n_random_users=n_random,
        n_random_positives=n_random,
        random_exposure=None,
        reference_values=pd.DataFrame(),
        alpha=AlphaPosterior(0.5, 0.1, 0.9, pd.DataFrame()),
        truncated_share=0.0,
        confidence_level=0.95,
    )


VERDICTS = {
    "the log alone": (
        make_order(sample_lead=None),
        [
            "No clear winner. a ranks first by AOA (pooled). No random items were passed, so no winner is named."
        ],
    ),
    "a challenger without random exposure": (
        make_order(p_better={"ab": 0.01, "ac": 0.99}, sample_lead=None),
        [
            "No clear winner. a ranks first by AOA (pooled). No random items were passed, so no winner is named."
        ],
    ),
    "a winner that the random sample does not support": (
        make_order(p_better={"ab": 0.99, "ac": 0.99}, sample_lead=np.zeros((3, 3))),
        [
            "No clear winner. a ranks first by AOA (pooled). P(a better than b) = 0.99. The random sample itself does "
            "not have a ahead of every other recommender by 0.5 standard errors, so no winner is named.",
            "Expected regret of choosing a: 0.01 recall@10.",
        ],
    ),
    "data without a winner": (
        make_order(),
        [
            "No clear winner. a ranks first by AOA (pooled). P(a better than b) = 0.60. A winner must reach 0.95 "
            "against every other recommender.",
            "Expected regret of choosing a: 0.01 recall@10.",
        ],
    ),
    "data without a winner because of the third": (
        make_order(p_better={"ab": 0.96, "ac": 0.92}),
        [
            "No clear winner. a ranks first by AOA (pooled). P(a better than b) = 0.96. The smallest, P(a better than "
            "c), is 0.92, and a winner must reach 0.95 against every other recommender.",
            "Expected regret of choosing a: 0.01 recall@10.",
        ],
    ),
    "a winner": (
        make_order(p_better={"ab": 0.979, "ac": 0.999}),
        [
            "a ranks first after bias correction: P(a better) ≥ 0.97 against every other recommender.",
            "Expected regret of choosing a: 0.01 recall@10.",
        ],
    ),
    "a winner that is not the first by AOA": (
        make_order(p_better={"ab": 0.001, "bc": 0.999}),
        [
            "b ranks first after bias correction: P(b better) > 0.99 against every other recommender. "
            "a ranks first by AOA (pooled).",
            "Expected regret of choosing b: 0.02 recall@10.",
        ],
    ),
    "a challenger": (
        make_order(p_better={"ab": 0.15}),
        [
            "No clear winner. a ranks first by AOA (pooled). P(b better than a) = 0.85, so b is the better choice. "
            "The smallest, P(b better than c), is 0.60, and a winner must reach 0.95 against every other "
            "recommender.",
            "Expected regret of choosing b: 0.02 recall@10.",
        ],
    ),
    "no explanation": (
        make_order(p_better={"ab": 0.99, "ac": 0.999}, is_explained=False),
        [
            "No clear winner. a ranks first by AOA (pooled). The model of exposure does not fit this log, so no winner "
            "is named; report the random sample instead.",
        ],
    ),
    "two recommenders without a winner": (
        make_order({"a": 0.3, "b": 0.2}),
        [
            "No clear winner. a ranks first by AOA (pooled). P(a better than b) = 0.60. A winner must reach 0.95.",
            "Expected regret of choosing a: 0.01 recall@10.",
        ],
    ),
    "equal recommenders": (
        make_order({"a": 0.3, "b": 0.3}),
        [
            "a and b are tied for first place by AOA (pooled).",
            "Expected regret of choosing a: 0.01 recall@10.",
        ],
    ),
    "one recommender": (
        make_order({"a": 0.3}),
        ["Only a has an estimate, so there is nothing to compare."],
    ),
}


@pytest.mark.parametrize(("order", "expected"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_has_conclusion_reason_and_regret(order, expected):
    assert verdict_sentences(make_report(order)) == expected


def test_the_random_sample_is_named_only_if_there_is_one():
    sentences = verdict_sentences(make_report(make_order(is_explained=False, sample_lead=None)))
    assert sentences[0].endswith("The model of exposure does not fit this log, so no winner is named.")


@pytest.mark.parametrize("missing", [{"sample_lead": None}, {"is_explained": False}])
def test_metrics_whose_choices_are_not_printed_share_a_conclusion(missing):
    first = make_order(**missing)
    other = make_order(p_better={"ab": 0.01}, metric="atop", **missing)
    assert choose_recommender(first) != choose_recommender(other)
    assert verdict_sentences(make_report(first, other))[1:] == ["atop leads to the same conclusion."]


def test_metrics_with_the_same_conclusion_share_a_sentence_and_other_metrics_have_separate_sentences():
    orders = [make_order(metric=metric) for metric in ("recall@10", "atop", "mean_dcg@10")]
    assert verdict_sentences(make_report(*orders))[-1] == (
        "atop and mean_dcg@10 lead to the same conclusion."
    )
    assert verdict_sentences(make_report(*orders[:2]))[-1] == "atop leads to the same conclusion."
    pair_orders = [make_order({"a": 0.3, "b": 0.2}, metric=metric) for metric in ("recall@10", "atop")]
    assert verdict_sentences(make_report(*pair_orders))[-1] == "atop leads to the same conclusion."
    single_orders = [make_order({"a": 0.3}, metric=metric) for metric in ("recall@10", "atop")]
    assert verdict_sentences(make_report(*single_orders)) == [
        "Only a has an estimate, so there is nothing to compare."
    ]
    different = make_order({"b": 0.3, "a": 0.2}, metric="atop")
    assert verdict_sentences(make_report(orders[0], different))[-1] == (
        "By atop: No clear winner. b ranks first by AOA (pooled). P(b better than a) = 0.60."
    )
    winner = make_order(p_better={"ab": 0.99, "ac": 0.99}, metric="atop")
    assert verdict_sentences(make_report(orders[0], winner))[-1].startswith("By atop: a ranks first after")


def test_the_order_has_a_row_per_metric_and_recommender(exposure_correction):
    order = exposure_correction.order
    assert order["metric"].tolist() == ["recall@10"] * 3 + ["atop"] * 3
    frame = exposure_correction.frame.set_index(["metric", "estimator", "model"])["estimate"]
    comparison = exposure_correction.compare().set_index(["metric", "model", "reference"])[
        "probability_higher"
    ]
    for _, part in order.groupby("metric", sort=False):
        assert part["aoa_pooled"].is_monotonic_decreasing
        rows = part.to_dict("records")
        for row, next_row in pairwise(rows):
            pair = (row["metric"], row["recommender"], next_row["recommender"])
            reversed_pair = (row["metric"], next_row["recommender"], row["recommender"])
            probability = comparison[pair] if pair in comparison.index else 1 - comparison[reversed_pair]
            assert row["p_better_than_next"] == pytest.approx(probability, abs=1e-9)
        assert np.isnan(rows[-1]["p_better_than_next"])
    for row in order.to_dict("records"):
        assert row["aoa_pooled"] == frame[row["metric"], "aoa-pooled", row["recommender"]]
        assert row["corrected"] == frame[row["metric"], "corrected", row["recommender"]]
        assert 0 <= row["ci_low"] <= row["corrected"] <= row["ci_high"] <= 1
        assert row["expected_regret"] >= 0


def test_leader_and_choice_refer_to_the_first_metric(log_correction, exposure_correction):
    assert log_correction.leader is None
    assert log_correction.choice == log_correction.order["recommender"][0]
    assert exposure_correction.leader == exposure_correction.choice == "taste"


def test_one_estimand_is_named_in_the_head_line_and_rows_are_sorted_by_the_first_column(
    log_correction, exposure_correction
):
    for correction, columns in (
        (log_correction, ["AOA (pooled)", "plausible range"]),
        (
            exposure_correction,
            ["AOA (pooled)", "random sample", "PPI", "bias-corrected", "P(better than next)"],
        ),
    ):
        tables = correction.tables()
        assert "95% intervals; means over relevant interactions." in tables.summary[0]
        for table in tables.parts:
            assert list(table.header) == ["recommender", *columns]
            values = [float(row[1].text) for row in table.rows]
            assert values == sorted(values, reverse=True)
    assert exposure_correction.tables().summary[0].startswith("3 recommenders, ")
    assert "random-exposure positives of" in exposure_correction.tables().summary[0]


def test_the_corrected_column_has_the_estimate_with_its_interval(exposure_correction):
    row = exposure_correction.order.iloc[0]
    text = f"{row['corrected']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
    assert exposure_correction.tables().parts[0].rows[0][4].plain == text
    assert text in " ".join(repr(exposure_correction).split())


def test_the_column_of_plausible_ranges_has_intervals_only(log_correction):
    row = log_correction.order.iloc[0]
    text = f"[{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
    assert log_correction.tables().parts[0].rows[0][2].plain == text
    assert text in " ".join(repr(log_correction).split())


def test_labels_of_the_verdict_block_and_the_next_step(log_correction, exposure_correction):
    names = {remark.name: " ".join(remark.lines) for remark in log_correction.tables().remarks}
    assert list(names) == ["Verdict", "Assumption", "Next step"]
    assert names["Next step"].startswith("`ipseval plan` predicts how precise")
    assert "No random items were passed" in names["Assumption"]
    assert log_correction.verdict == names["Verdict"]
    names = {remark.name: " ".join(remark.lines) for remark in exposure_correction.tables().remarks}
    assert list(names) == ["Verdict", "Assumption", "Next step", "Excluded"]
    assert names["Next step"].startswith("Choose taste.")
    assert f"{exposure_correction.random_exposure.n_dropped} pairs of the training log" in names["Excluded"]


def test_many_recommenders_are_shortened_in_text_and_complete_in_the_frame(situation):
    _, split, _ = situation
    rng = np.random.default_rng(0)
    models = {f"m{number:02d}": rng.random((split.n_users, split.n_items)) for number in range(14)}
    correction = ipseval.correct(models, split, metrics=["recall@10"], rng=0)
    assert "and 2 more in .frame" in repr(correction)
    assert len(correction.order) == 14


def test_every_text_format_has_the_estimates_the_estimand_and_the_verdict(exposure_correction, tmp_path):
    cell = exposure_correction.tables().parts[0].rows[0][4].text
    for write, suffix in (
        (exposure_correction.to_markdown, "md"),
        (exposure_correction.to_latex, "tex"),
        (exposure_correction.to_html, "html"),
    ):
        text = write()
        for phrase in (cell, "bias-corrected", "means over relevant interactions", "ranks first after"):
            assert phrase in text
        path = tmp_path / f"correction.{suffix}"
        assert write(path) == str(path)
        assert path.read_text("utf-8") == text


def test_csv_and_json_have_every_number(exposure_correction, tmp_path):
    exposure_correction.to_csv(tmp_path / "frame.csv")
    frame = pd.read_csv(tmp_path / "frame.csv", keep_default_na=False, na_values={"max_weight_share": ""})
    pd.testing.assert_frame_equal(frame, exposure_correction.frame, check_dtype=False)
    record = json.loads(exposure_correction.to_json())
    assert record["estimand"] == "mean over relevant interactions"
    assert (record["leader"], record["choice"]) == ("taste", "taste")
    assert record["verdict"] == exposure_correction.verdict
    assert [row["estimate"] for row in record["estimates"]] == exposure_correction.frame["estimate"].tolist()
    assert [row["expected_regret"] for row in record["order"]] == exposure_correction.order[
        "expected_regret"
    ].tolist()
    assert record["order"][2]["p_better_than_next"] is None
    exposure_correction.to_json(tmp_path / "correction.json")
    assert json.loads((tmp_path / "correction.json").read_text("utf-8")) == record


def test_a_correction_is_loaded_as_it_was_saved(situation, tmp_path):
    models, split, exposure = situation
    correction = ipseval.correct(
        models,
        split,
        random_exposure=exposure,
        reference_values={"popular": {"atop": (0.7, 0.05)}},
        source="randomised",
        metrics=METRICS,
        rng=0,
    )
    correction.save(tmp_path / "correction.npz")
    loaded = Correction.load(tmp_path / "correction.npz")
    pd.testing.assert_frame_equal(loaded.frame, correction.frame, check_exact=True)
    pd.testing.assert_frame_equal(loaded.order, correction.order, check_exact=True)
    pd.testing.assert_frame_equal(loaded.compare(), correction.compare(), check_exact=True)
    pd.testing.assert_frame_equal(loaded.reference_values, correction.reference_values, check_exact=True)
    assert repr(loaded) == repr(correction)
    assert "Reference value of atop for popular: 0.700 (standard error 0.050)" in " ".join(
        repr(loaded).split()
    )


def test_a_plot_names_the_estimand_and_has_the_order_of_the_table(exposure_correction):
    plots = pytest.importorskip("matplotlib.pyplot")
    axes = exposure_correction.plot("atop")
    assert axes.get_xlabel() == "atop: mean over relevant interactions, with 95% intervals"
    recommenders = exposure_correction.order.query("metric == 'atop'")["recommender"].tolist()
    assert [label.get_text() for label in axes.get_yticklabels()] == recommenders
    assert exposure_correction.plot(estimator="corrected").get_xlabel().startswith("recall@10: ")
    plots.close("all")


def test_the_expected_regret_of_a_correction_does_not_depend_on_the_order_of_its_recommenders(situation):
    models, split, exposure = situation
    names = list(models)
    for random_exposure in (None, exposure):
        options = {"metrics": METRICS, "random_exposure": random_exposure, "rng": 0}
        first = ipseval.correct(models, split, **options).order
        expected = first.set_index(["metric", "recommender"])["expected_regret"].sort_index()
        for order in (names[::-1], [*names[1:], names[0]]):  # all other orders are made of these two
            permuted = ipseval.correct({name: models[name] for name in order}, split, **options).order
            regret = permuted.set_index(["metric", "recommender"])["expected_regret"].sort_index()
            pd.testing.assert_series_equal(regret, expected, rtol=1e-10, atol=1e-14)


def test_decimals_show_one_significant_digit_of_the_half_width_of_intervals():
    # The half-width of 0.00012 has its first digit in the fourth decimal, and a third of the width in the fifth.
    order = make_order({"a": 0.3}, p_better={})
    rows = {"metric": "recall@10", "estimator": "aoa-pooled", "model": ["a"]}
    values = {"estimate": 0.3, "ci_low": 0.3 - 0.00012, "ci_high": 0.3 + 0.00012}
    report = replace(make_report(order), frame=pd.DataFrame({**rows, **values}))
    table = _metric_table(report, order, 2)
    assert [cell.text for cell in table.rows[0]] == ["a", "0.3000"]
    assert table.rows[0][1].error == "[0.2999, 0.3001]"


def test_the_next_step_after_designed_lists_names_no_number_of_users_for_uniform_items(situation):
    _, split, exposure = situation
    scores = np.tile(split.train.popularity.astype(float), (split.n_users, 1))
    noise = np.random.default_rng(0).normal(scale=scores.std() / 20, size=scores.shape)
    similar = {"popular": scores, "similar": scores + noise}
    designed = replace(exposure, weight=np.ones(len(exposure)), is_designed=True)
    for random_exposure, step in (
        (exposure, "`ipseval plan` predicts how precise the result becomes with more"),
        (designed, "Show items that are drawn in the same way to further users; `ipseval plan --design`"),
    ):
        correction = ipseval.correct(similar, split, random_exposure=random_exposure, metrics=METRICS, rng=0)
        assert correction.leader is None
        assert f"Next step   {step}" in str(correction)
