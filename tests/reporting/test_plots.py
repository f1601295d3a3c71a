"""Plots draw the frame they are given: marks, intervals, labels; nothing is computed or lost."""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import partial

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.reporting import plots
from tests.inside.evaluation import PLOT_KINDS
from tests.worlds import random_split

mpl.use("Agg")


def estimates() -> pd.DataFrame:
    rows = [
        ("als", "recall@5", "aoa", 0.4, 0.35, 0.45),
        ("bpr", "recall@5", "aoa", 0.3, 0.25, 0.36),
        ("als", "recall@5", "snips", 0.2, 0.1, 0.3),
        ("bpr", "recall@5", "snips", 0.22, 0.12, 0.32),
    ]
    return pd.DataFrame(rows, columns=["model", "metric", "estimator", "estimate", "ci_low", "ci_high"])


def error_bars(ax) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (marker positions, interval segments) of each series with error bars."""
    pairs = []
    for marker_line, _, interval_lines in ax.containers:
        pairs.append((marker_line.get_xydata(), np.array(interval_lines[0].get_segments())))
    return pairs


def test_agreement_fills_both_halves_of_the_map_and_prints_the_values():
    tidy = pd.DataFrame({"a": ["x", "x"], "b": ["y", "z"], "other": [0.5, -0.25]})
    ax = plots.plot_agreement(tidy, value="other")
    assert ax.figure.axes[1].get_ylabel() == "other"
    matrix = ax.images[0].get_array().filled(np.nan)
    assert matrix[0, 1] == matrix[1, 0] == 0.5
    assert np.isnan(matrix[1, 2])
    assert sorted(text.get_text() for text in ax.texts) == ["-0.25", "-0.25", "0.50", "0.50"]


def test_agreement_takes_a_square_frame_and_scales_colours_to_counts():
    square = pd.DataFrame([[0.0, 7.0], [7.0, 0.0]], index=["x", "y"], columns=["x", "y"])
    ax = plots.plot_agreement(square, value="ipc")
    assert ax.images[0].get_array().tolist() == [[0, 7], [7, 0]]
    assert ax.images[0].get_clim() == (0, 7)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["x", "y"]


def test_limits_do_not_begin_at_zero_where_that_is_far():
    shifted = {column: estimates()[column] + 5 for column in ("estimate", "ci_low", "ci_high")}
    ax = plots.plot_bias(estimates().assign(truth=[5.25, 5.2, 5.25, 5.2], **shifted))
    # From 5.1 to 5.45, and 8 % of that on either side.
    assert ax.get_ylim() == pytest.approx((5.1 - 0.028, 5.45 + 0.028))


def test_a_notebook_shows_the_axes_as_a_picture_of_the_size_of_the_figure():
    ax = plots.plot_estimates(estimates()[:1])
    ax.figure.set(layout_engine="none", figwidth=2, figheight=1)
    picture, size = ax._repr_png_()
    assert picture.startswith(b"\x89PNG")
    # Bytes 16 to 24 of a PNG are its width and height: twice as many pixels as shown, for sharp screens.
    pixels = [int.from_bytes(picture[start : start + 4]) for start in (16, 20)]
    assert size["width"] == pytest.approx(96 * 2)
    assert pixels == [pytest.approx(2 * size["width"], abs=1), pytest.approx(2 * size["height"], abs=1)]


def test_the_middle_of_a_very_long_name_is_left_out():
    ax = plots.plot_estimates(estimates().replace({"als": 30 * "a" + 30 * "b"}))
    assert ax.get_yticklabels()[0].get_text() == 23 * "a" + "…" + 12 * "b"


def labels_inside(ax) -> bool:
    """Return whether everything drawn lies on the picture, and tick labels do not overlap."""
    ax.figure.draw_without_rendering()
    figure_box = ax.figure.bbox
    axes_box = ax.get_tightbbox()
    is_inside_width = figure_box.x0 <= axes_box.x0 and axes_box.x1 <= figure_box.x1
    is_inside_height = figure_box.y0 <= axes_box.y0 and axes_box.y1 <= figure_box.y1
    label_boxes = [label.get_window_extent() for label in ax.get_yticklabels() if label.get_text()]
    for label_box, next_box in itertools.pairwise(label_boxes):
        if label_box.overlaps(next_box):
            return False
    return is_inside_width and is_inside_height


def test_no_label_is_cut_or_drawn_over_another_and_a_scale_is_four_fifths_as_high_as_its_map():
    frame = pd.concat(
        estimates().assign(model=f"a recommender with a long name, {number}") for number in range(4)
    )
    weights = pd.DataFrame(
        {
            "estimator": ["aoa", "snips-shrunk(0.5)"],
            "ess_own": [1e6, 1e5],
            "ess_equal": 10**6,
            "share_own": [1e-6, 0.1],
        }
    )
    names = [f"protocol number {number}" for number in range(3)]
    agreement = plots.plot_agreement(pd.DataFrame(np.eye(3), index=names, columns=names))
    for ax in (plots.plot_estimates(frame), plots.plot_weights(weights), agreement):
        assert labels_inside(ax)
    heights = [ax.get_position().height for ax in agreement.figure.axes]
    assert heights[1] / heights[0] == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plots.plot_estimates(pd.DataFrame({"model": ["a"]})), "lacks column 'metric'"),
        (lambda: plots.plot_estimates(estimates().iloc[:0]), "no rows"),
        (
            lambda: plots.plot_estimates(pd.concat([estimates(), estimates().assign(metric="auc")])),
            "several metrics; choose one of recall@5, auc",
        ),
        (lambda: plots.plot_estimates(estimates(), metric="auc"), "no metric 'auc'; it has recall@5"),
        (lambda: plots.plot_estimates(3), "has it as .frame; got int"),
        (lambda: plots.plot_agreement(pd.DataFrame()), "lacks column 'a'; it has "),
        (lambda: plots.plot_weights(pd.DataFrame([range(16)]).add_prefix("c")), r"'c14', …\. Expected estim"),
        (lambda: plots.plot_sensitivity({"model": 1}), "expected a DataFrame with .*gamma.*got dict"),
        (lambda: plots.plot_weights(None), "has it as .diagnostics; got NoneType"),
        (lambda: plots.plot_popularity([1, 2]), "expected a DataFrame with .*n_at_least.*got list"),
    ],
)
def test_a_frame_that_cannot_be_drawn_gets_a_clear_error(call, words: str):
    with pytest.raises(ipseval.InputError, match=words):
        call()


def test_results_are_drawn_as_their_frames_are(evaluation):
    frame = evaluation.frame.query("metric == 'auc'").set_index("estimator")["estimate"]
    ax = plots.plot_estimates(evaluation, metric="auc")
    drawn_estimates = [markers[:, 0].tolist() for markers, _ in error_bars(ax)]
    assert drawn_estimates == [frame["aoa"].tolist(), frame["snips-global"].tolist()]
    widths = [bar.get_width() for bar in plots.plot_weights(evaluation).patches]
    assert widths == [*evaluation.diagnostics["ess_equal"][:2], *evaluation.diagnostics["ess_own"][:2]]
    # Popularities 0, 1, 3, 3: four, three and two items have at least 0, 1 and 3.
    log = ipseval.Interactions.from_frame(
        pd.DataFrame({"user": [0, 0, 1, 1, 2, 2, 2], "item": [1, 2, 1, 2, 1, 2, 0]})
    )
    ax = plots.plot_popularity(log)
    assert ax.lines[0].get_xydata().tolist() == [[1, 3], [3, 2]]
    assert ax.figure.get_size_inches().tolist() == [5.6, 3.6]


def test_given_axes_are_used_and_returned():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plots.plot_estimates(estimates(), ax=ax) is ax
    spines = plots.plot_estimates(estimates()).spines
    visible_sides = {side for side in ("left", "bottom", "top", "right") if spines[side].get_visible()}
    assert visible_sides == {"left", "bottom"}


def test_an_examination_curve_is_drawn_with_its_intervals():
    log = pd.DataFrame({"user": range(60), "item": 0, "position": [1, 2] * 30, "clicked": [1, 0, 1, 1] * 15})
    curve = ipseval.propensity.ExaminationModel("randomised").fit(
        ipseval.ImpressionLog.from_frame(log, position="position")
    )
    ((markers, intervals),) = error_bars(curve.plot())
    assert markers == pytest.approx(np.column_stack([curve.position, curve.theta]))
    assert intervals[1][:, 1] == pytest.approx(curve.theta[1] + 1.96 * curve.std_error[1] * np.array([-1, 1]))


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 60, 30, np.linspace(0.7, 0.1, 30))
    models = {name: rng.normal(size=(60, 30)) for name in ("b", "a", "c")}
    models["a"][split.test.user, split.test.item] += 1
    return ipseval.evaluate(
        models,
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=["recall@5", "auc"],
        estimators=["aoa", "snips-global"],
        low_ess="ignore",
    )


def test_differences_are_to_the_highest_in_either_direction_of_the_pair_in_the_frame(evaluation):
    """a is highest, then c by AOA. The frame holds b − a and a − c: the sign of a − c changes."""
    ax = evaluation.plot("differences")
    frame = evaluation.compare().query("metric == 'recall@5'").set_index(["estimator", "model", "reference"])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["c", "b"]
    for (markers, intervals), estimator in zip(error_bars(ax), ("aoa", "snips-global"), strict=True):
        first = frame.loc[(estimator, "b", "a")]
        second = frame.loc[(estimator, "a", "c")]
        assert markers[:, 0] == pytest.approx([-second["difference"], first["difference"]])
        assert intervals[0][:, 0] == pytest.approx([-second["ci_high"], -second["ci_low"]])
    assert list(ax.lines[-1].get_xdata()) == [0, 0]


def test_an_evaluation_is_drawn_over_gamma_with_the_points_where_two_swap(evaluation):
    ax = evaluation.plot("sensitivity", metric="auc")
    expected = evaluation.sensitivity().frame.query("metric == 'auc' and estimator == 'snips-global'")
    # In the order of the evaluation in every plot, so that a recommender has one colour in all of them.
    order = next(verdict.order for verdict in evaluation.verdicts if verdict.metric == "auc")
    assert list(order) != evaluation.models
    for line, model in zip(ax.lines, evaluation.models, strict=False):
        assert line.get_label() == model
        rows = expected[expected["model"] == model]
        # One metric and estimator alone: a product of other shape, which rounds the last bit otherwise.
        np.testing.assert_allclose(line.get_ydata(), rows["estimate"], rtol=1e-13)
    points = (
        evaluation.sensitivity().tipping_points().query("metric == 'auc' and estimator == 'snips-global'")
    )
    drawn_points = sorted(line.get_xdata()[0] for line in ax.lines[3:])
    expected_points = sorted(itertools.chain.from_iterable(points["tipping_points"]))
    assert drawn_points == pytest.approx(expected_points, abs=1e-8)


def test_weight_shares_are_bars_next_to_the_shares_of_positives(evaluation):
    ax = evaluation.plot("popularity")
    frame = evaluation.popularity
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert heights[0] == pytest.approx((100 * frame["share"]).tolist())
    assert heights[1] == pytest.approx((100 * frame["weight_share"]).tolist())
    assert sum(heights[1]) == pytest.approx(100)
    # The rarest items weigh more than their share, the most popular ones less.
    assert heights[1][0] > heights[0][0]
    assert heights[1][-1] < heights[0][-1]


def test_every_kind_has_a_picture_and_others_are_refused(evaluation):
    for kind in PLOT_KINDS:
        assert evaluation.plot(kind).get_xlabel()
    assert (
        evaluation.plot("sensitivity", metric="AUC", estimator="SNIPS-global").get_ylabel().startswith("auc")
    )
    with pytest.raises(ipseval.errors.UnknownNameError, match="kind"):
        evaluation.plot("estimate")
    with pytest.raises(ipseval.InputError, match=r'plot\("estimates", metric=\'auc\'\)'):
        evaluation.plot("auc")


@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_every_kind_is_drawn_or_an_input_error_without_weights_intervals_or_a_second_recommender(kind):
    split = random_split(np.random.default_rng(0), 60, 30, np.linspace(0.7, 0.1, 30))
    model = np.random.default_rng(1).normal(size=(60, 30))
    propensity = ipseval.PowerLawPropensity(gamma=0.0)
    evaluate = partial(ipseval.evaluate, {"a": model}, split, metrics=["recall@5"])
    # Without weights, with a propensity that no estimator uses, and without intervals.
    evaluations = [
        evaluate(),
        evaluate(propensity=propensity, estimators=["aoa"]),
        evaluate(propensity=propensity, low_ess="nan"),
    ]
    for evaluation in evaluations:
        with suppress(ipseval.InputError):
            assert evaluation.plot(kind).get_xlabel()


def test_the_plots_of_weights_need_weights_except_the_sample_sizes():
    split = random_split(np.random.default_rng(0), 60, 30, np.linspace(0.7, 0.1, 30))
    model = np.random.default_rng(1).normal(size=(60, 30))
    unweighted = ipseval.evaluate({"a": model}, split, metrics=["recall@5"])
    for kind in ("popularity", "decomposition"):
        with pytest.raises(
            ipseval.InputError, match=r"has no weights; evaluate with propensity= and a weighted estimator\.$"
        ):
            unweighted.plot(kind)
    assert unweighted.plot("weights").get_xlabel() == "effective sample size, in positives"


def test_the_picture_of_weights_says_what_the_text_says(evaluation):
    """The effective sample size that is printed is the length of the bar."""
    widths = [bar.get_width() for bar in evaluation.plot("weights").patches]
    appendix = evaluation.tables(page=True).appendix
    (table,) = [part for part in appendix if getattr(part, "title", "") == "Weights of each estimator"]
    texts = [cell.plain for cell in itertools.chain.from_iterable(table.rows)]
    assert f"{widths[-1]:,.0f} of {widths[1]:,.0f}" in texts
    lines = itertools.chain.from_iterable(remark.lines for remark in evaluation.tables().remarks)
    sentence = f"Effective sample size {widths[-1]:,.0f} by SNIPS, {widths[1]:,.0f} by AOA, of "
    assert sentence in " ".join(lines)


def test_an_unreliable_estimate_is_a_hollow_mark_without_an_interval_and_its_legend_says_so():
    flagged = estimates().assign(flag=["", "", "few", "few"])
    ax = plots.plot_estimates(flagged)
    reliable, unreliable = ax.containers
    assert reliable[2]
    assert not unreliable[2]
    assert unreliable[0].get_xdata().tolist() == [0.2, 0.22]
    assert unreliable[0].get_markerfacecolor() == "none"
    assert reliable[0].get_markerfacecolor() == plots.COLOURS[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["aoa", "snips,\nunreliable"]


def test_the_axis_of_a_result_names_the_level_of_its_intervals():
    world = ipseval.simulation.World(n_users=60, n_items=30, mean_relevant=8, rng=0)
    split = world.split(rng=1)
    models = world.example_models(split, rng=2)
    chosen = {name: models[name] for name in ("taste", "popular")}
    evaluation = ipseval.evaluate(chosen, split, metrics=["recall@5"], confidence_level=0.9)
    assert evaluation.plot().get_xlabel() == "recall@5, mean over users, with 90% confidence interval"
    assert evaluation.plot("differences").get_xlabel().endswith(", with 90% confidence interval")
    assert plots.plot_estimates(evaluation).get_xlabel().endswith(", with 90% confidence interval")
    with pytest.raises(ipseval.InputError, match=r"confidence_level must be in \(0, 1\); got 90"):
        plots.plot_estimates(evaluation, confidence_level=90)
    beyond = ipseval.beyond_accuracy(chosen, split, measures=["novelty@5"], confidence_level=0.9)
    assert beyond.plot().get_xlabel() == "novelty@5, with 90% confidence interval"


def test_a_picture_holds_one_estimand_and_names_it():
    mixed = estimates().assign(estimand=["mean over users"] * 2 + ["mean over interactions"] * 2)
    with pytest.raises(ipseval.InputError, match="several estimands; choose one of mean over users"):
        plots.plot_estimates(mixed)
    ax = plots.plot_estimates(mixed, estimand="mean over interactions")
    assert ax.get_xlabel() == "recall@5, mean over interactions, with confidence interval"
    assert len(ax.containers) == 1
