"""Plots draw the frame they are given: marks, intervals, labels; nothing is computed or lost."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.report import plots
from tests.inside import report
from tests.inside.evaluation import KINDS
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
    """(marks, interval segments) of each error-bar container."""
    return [(box[0].get_xydata(), np.array(box[2][0].get_segments())) for box in ax.containers]


def test_agreement_fills_both_halves_of_the_map_and_prints_the_values():
    ax = plots.plot_agreement(pd.DataFrame({"a": ["x", "x"], "b": ["y", "z"], "src": [0.5, -0.25]}))
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


def test_limits_begin_at_zero_only_where_that_is_near():
    near = plots.plot_bias(estimates().assign(truth=[0.25, 0.2, 0.25, 0.2]))
    assert near.get_ylim()[0] == 0
    shift = {column: estimates()[column] + 5 for column in ("estimate", "ci_low", "ci_high")}
    far = plots.plot_bias(estimates().assign(truth=[5.25, 5.2, 5.25, 5.2], **shift))
    # From 5.1 to 5.45, and 8 % of that on either side.
    assert far.get_ylim() == pytest.approx((5.1 - 0.028, 5.45 + 0.028))


def test_a_notebook_shows_the_axes_as_a_picture_of_the_size_of_the_figure():
    ax = plots.plot_estimates(estimates())
    picture, size = ax._repr_png_()
    assert picture.startswith(b"\x89PNG")
    # Bytes 16 to 24 of a PNG are its width and height: twice as many pixels as shown, for sharp screens.
    pixels = [int.from_bytes(picture[start : start + 4]) for start in (16, 20)]
    assert size["width"] == pytest.approx(96 * 6.4)
    assert pixels == [pytest.approx(2 * size["width"], abs=1), pytest.approx(2 * size["height"], abs=1)]


def test_names_are_drawn_as_they_are_written():
    name = r"_$\frac{$"  # no formula: to draw it as one is an error
    estimated = plots.plot_estimates(estimates().replace({"als": name, "aoa": name}))
    swept = estimates().assign(gamma=[0, 0, 1, 1], estimator="snips").replace({"als": name})
    square = pd.DataFrame([[1.0]], index=[name], columns=[name])
    shown = (
        *estimated.get_yticklabels(),
        *estimated.get_legend().get_texts(),
        *plots.plot_sensitivity(swept).get_legend().get_texts(),
        *plots.plot_agreement(square).get_xticklabels(),
    )
    assert [text.get_text().strip() for text in shown].count(name) == 4
    for ax in (estimated, plots.plot_agreement(square)):
        ax.figure.draw_without_rendering()


def test_the_middle_of_a_very_long_name_is_left_out():
    ax = plots.plot_estimates(estimates().replace({"als": 30 * "a" + 30 * "b"}))
    assert ax.get_yticklabels()[0].get_text() == 23 * "a" + "…" + 12 * "b"
    ax.figure.draw_without_rendering()


def labels_inside(ax) -> bool:
    """Whether everything drawn lies on the picture, and tick labels do not overlap."""
    figure = ax.figure
    figure.draw_without_rendering()
    box, drawn = figure.bbox, ax.get_tightbbox()
    inside = box.x0 <= drawn.x0 and drawn.x1 <= box.x1 and box.y0 <= drawn.y0 and drawn.y1 <= box.y1
    ticks = [label.get_window_extent() for label in ax.get_yticklabels() if label.get_text()]
    return inside and not any(a.overlaps(b) for a, b in itertools.pairwise(ticks))


def test_no_label_is_cut_or_drawn_over_another_with_many_long_names():
    frame = pd.concat(estimates().assign(model=f"a recommender with a long name, {n}") for n in range(12))
    weights = pd.DataFrame(
        {
            "estimator": ["aoa", "snips-shrunk(0.5)"],
            "ess_own": [1e6, 1e5],
            "ess_equal": 10**6,
            "share_own": [1e-6, 0.1],
        }
    )
    names = [f"protocol number {n}" for n in range(9)]
    square = pd.DataFrame(np.eye(9), index=names, columns=names)
    for ax in (plots.plot_estimates(frame), plots.plot_weights(weights), plots.plot_agreement(square)):
        assert labels_inside(ax)


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
    drawn = plots.plot_estimates(evaluation, metric="auc")
    expected = plots.plot_estimates(evaluation.frame, metric="auc")
    for (one, _), (other, _) in zip(error_bars(drawn), error_bars(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    drawn, expected = plots.plot_weights(evaluation), plots.plot_weights(evaluation.diagnostics)
    assert [bar.get_width() for bar in drawn.patches] == [bar.get_width() for bar in expected.patches]
    # Popularities 0, 1, 3, 3: four, three and two items have at least 0, 1 and 3.
    log = ipseval.Interactions.from_frame(
        pd.DataFrame({"user": [0, 0, 1, 1, 2, 2, 2], "item": [1, 2, 1, 2, 1, 2, 0]})
    )
    assert plots.plot_popularity(log).lines[0].get_xydata().tolist() == [[1, 3], [3, 2]]


def test_given_axes_are_used_and_returned():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plots.plot_estimates(estimates(), ax=ax) is ax


def test_an_examination_curve_is_drawn_with_its_intervals():
    log = pd.DataFrame({"user": range(60), "item": 0, "position": [1, 2] * 30, "clicked": [1, 0, 1, 1] * 15})
    curve = ipseval.propensity.ExaminationModel("randomised").fit(
        ipseval.ExposureLog.from_frame(log, position="position")
    )
    ((marks, bars),) = error_bars(curve.plot())
    assert marks == pytest.approx(np.column_stack([curve.position, curve.theta]))
    assert bars[1][:, 1] == pytest.approx(curve.theta[1] + 1.96 * curve.std_error[1] * np.array([-1, 1]))


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
        on_low_ess="ignore",
    )


def test_differences_are_to_the_highest_whichever_way_the_pair_stands_in_the_frame(evaluation):
    """a is highest. The frame holds b − a and a − c: a − c is turned round."""
    ax = evaluation.plot("differences")
    frame = evaluation.compare().query("metric == 'recall@5'").set_index(["estimator", "model", "reference"])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "c"]
    for (marks, bars), estimator in zip(error_bars(ax), ("aoa", "snips-global"), strict=True):
        first, second = frame.loc[(estimator, "b", "a")], frame.loc[(estimator, "a", "c")]
        assert marks[:, 0] == pytest.approx([first["difference"], -second["difference"]])
        assert bars[1][:, 0] == pytest.approx([-second["ci_high"], -second["ci_low"]])
    assert list(ax.lines[-1].get_xdata()) == [0, 0]


def test_an_evaluation_is_drawn_over_gamma_with_the_places_where_two_swap(evaluation):
    ax = evaluation.plot("sensitivity", metric="auc")
    expected = evaluation.sensitivity().frame.query("metric == 'auc' and estimator == 'snips-global'")
    order = next(one.order for one in evaluation.verdicts if one.metric == "auc")
    for line, model in zip(ax.lines, order, strict=False):
        assert line.get_label() == model
        rows = expected[expected["model"] == model]
        # One metric and estimator alone: a product of other shape, which rounds the last bit otherwise.
        np.testing.assert_allclose(line.get_ydata(), rows["estimate"], rtol=1e-13)
    points = (
        evaluation.sensitivity().tipping_points().query("metric == 'auc' and estimator == 'snips-global'")
    )
    drawn = sorted(line.get_xdata()[0] for line in ax.lines[3:])
    assert drawn == pytest.approx(
        sorted(point for row in points["tipping_points"] for point in row), abs=1e-8
    )


def test_weight_shares_are_bars_beside_the_shares_of_positives(evaluation):
    ax = evaluation.plot("popularity")
    frame = evaluation.popularity
    heights = [[bar.get_height() for bar in box] for box in ax.containers]
    assert heights[0] == pytest.approx((100 * frame["share"]).tolist())
    assert heights[1] == pytest.approx((100 * frame["weight_share"]).tolist())
    assert sum(heights[1]) == pytest.approx(100)
    # The rarest items weigh more than their share, the most popular ones less.
    assert heights[1][0] > heights[0][0]
    assert heights[1][-1] < heights[0][-1]


def test_every_kind_has_a_picture_and_others_are_refused(evaluation):
    for kind in set(KINDS) - {"differences", "popularity", "weights"}:  # these are drawn above and below
        assert evaluation.plot(kind).get_xlabel()
    assert (
        evaluation.plot("sensitivity", metric="AUC", estimator="SNIPS-global").get_ylabel().startswith("auc")
    )
    with pytest.raises(ipseval.errors.UnknownNameError, match="kind"):
        evaluation.plot("estimate")
    with pytest.raises(ipseval.InputError, match=r'plot\("estimates", metric=\'auc\'\)'):
        evaluation.plot("auc")


def test_the_picture_of_weights_says_what_the_text_says(evaluation):
    """The effective sample size that is printed is the length of the bar."""
    widths = [bar.get_width() for bar in evaluation.plot("weights").patches]
    texts = [cell.plain for row in _weights_of(evaluation).rows for cell in row]
    assert f"{widths[-1]:,.0f} of {widths[1]:,.0f}" in texts
    said = " ".join(line for one in evaluation.tables().verdict for line in one.lines)
    assert f"{widths[-1]:,.0f} effective of " in said


def _weights_of(evaluation):
    from tests.inside.report import Table

    parts = [one for one in evaluation.tables(page=True).appendix if isinstance(one, Table)]
    return next(one for one in parts if one.title == "Weights of each estimator")


def nine(name: str) -> pd.DataFrame:
    """Return nine series of two points, with whatever a plot of curves reads."""
    series = pd.DataFrame({name: np.repeat([f"m{n}" for n in range(9)], 2), "estimate": np.arange(18) / 10})
    there = series.assign(ci_low=series["estimate"] - 0.1, ci_high=series["estimate"] + 0.1, metric="rr")
    there = there.assign(gamma=[0.0, 1.0] * 9, n_sampled=[10, 100] * 9, exact=0.5, n_users=[5, 9] * 9)
    there = there.assign(error=0.1, half_width=0.2, group=["x", "y"] * 9, share=0.5, weight_share=0.5, by="P")
    return there if name == "estimator" else there.assign(estimator="aoa")


@pytest.mark.parametrize(
    "colours",
    [
        lambda: [one.get_color() for one in plots.plot_sensitivity(nine("model")).lines],
        lambda: [one.get_facecolor()[0, :3] for one in plots.plot_sensitivity(nine("model")).collections],
        lambda: [one[0].get_color() for one in plots.plot_sampled(nine("model")).containers],
        lambda: [one.get_color() for one in plots.plot_sampled(nine("model")).lines[-9:]],
        lambda: [
            one.get_facecolor()[0, :3]
            for one in report.plot_exposure_curve(nine("estimator")).collections[-9:]
        ],
        lambda: [
            one[0].get_facecolor()[:3] for one in report.plot_weight_shares(nine("estimator")).containers[1:]
        ],
    ],
)
def test_the_ninth_series_has_the_colour_of_the_first(colours):
    assert [mpl.colors.to_hex(one).upper() for one in colours()] == [*plots.COLOURS, plots.COLOURS[0]]


def test_the_ninth_series_has_the_line_and_the_mark_of_the_first():
    swept, sampled = plots.plot_sensitivity(nine("model")).lines, plots.plot_sampled(nine("model")).containers
    for lines in (swept, [one[0] for one in sampled]):
        assert [one.get_linestyle() for one in lines] == ["-", "--", "-.", ":", *["--"] * 4, "-"]
    assert [one[0].get_marker() for one in sampled] == [*plots.MARKS, plots.MARKS[0]]


ONE_ROW = {
    "model": ["als"],
    "metric": "rr",
    "estimator": "aoa",
    "estimate": 0.5,
    "ci_low": 0.4,
    "ci_high": 0.6,
    "truth": 0.5,
    "gamma": 0.0,
    "n_sampled": 10,
    "exact": 0.5,
    "n_users": 1000,
    "n_items": 5,
    "error": 0.1,
    "half_width": 0.2,
    "by": "activity",
    "group": "new",
    "share": 0.5,
    "weight_share": 0.5,
    "share_weighted": 0.5,
    "value": 0.5,
    "reference": "bpr",
    "window": 0,
}


@pytest.mark.parametrize(
    "draw",
    [
        plots.plot_estimates,
        plots.plot_sensitivity,
        plots.plot_sampled,
        plots.plot_bias,
        plots.plot_plan,
        report.plot_result,
        report.plot_differences,
        report.plot_weight_shares,
        report.plot_decomposition,
        report.plot_exposure_curve,
        lambda frame: report.plot_segments(frame, metric="rr", estimator="aoa"),
        lambda frame: report.plot_windows(frame, metric="rr", estimator="aoa"),
    ],
)
def test_one_row_is_enough_for_a_picture(draw):
    assert draw(pd.DataFrame(ONE_ROW)).get_xlabel()


@pytest.mark.parametrize("draw", [report.plot_result, report.plot_exposure_curve, plots.plot_plan])
def test_of_several_metrics_the_first_is_drawn_and_another_on_demand(draw):
    frame = pd.concat([pd.DataFrame(ONE_ROW), pd.DataFrame(ONE_ROW).assign(metric="auc")])
    frame = frame.assign(estimate=[0.5, 0.7], error=[0.5, 0.7], half_width=[0.5, 0.7])
    for options, expected in (({}, 0.5), ({"metric": "auc"}, 0.7)):
        drawn = draw(frame, **options).lines[0].get_xydata()
        assert expected in drawn
        assert len(drawn) == 1


def test_a_result_without_a_metric_is_drawn_by_its_data_or_measure():
    frame = pd.DataFrame(ONE_ROW).drop(columns=["metric", "estimator"])
    for more, words in (
        ({"data": "test"}, "estimate, with its interval"),
        ({"measure": "novelty"}, "novelty, with its interval"),
    ):
        ax = report.plot_result(frame.assign(**more))
        assert ax.get_xlabel() == words
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [*more.values()]
    policies = frame.rename(columns={"model": "policy"}).assign(measure="value")
    assert [text.get_text() for text in report.plot_result(policies).get_yticklabels()] == ["als"]


def test_limits_of_one_value_and_of_what_begins_at_zero():
    limits = report.limits
    assert limits([2.0, 3.0]) == pytest.approx((1.92, 3.08))
    assert limits([1.0, 2.0]) == pytest.approx((0.92, 2.08))  # as far from 0 as they are wide
    assert limits([0.9, 2.0]) == (0.0, pytest.approx(2.088))
    assert limits([-0.1, 0.9]) == pytest.approx((-0.18, 0.98))
    assert limits([0.0, 1.0, np.nan]) == (0.0, pytest.approx(1.08))
    assert limits([5.0]) == pytest.approx((4.5, 5.5))
    assert limits([-5.0]) == pytest.approx((-5.5, -4.5))
    assert limits([0.0]) == (-1, 1)


def test_a_name_of_36_letters_stays_and_a_longer_one_loses_its_middle():
    assert report.plain("a" * 36) == "a" * 36
    assert report.plain("a" * 20 + "b" * 17) == f"{'a' * 20}bbb…{'b' * 12}"
    assert report.plain("_a") == " _a"


def test_swaps_are_those_of_one_metric_and_estimator_in_order():
    points = pd.DataFrame(
        {
            "metric": ["a", "a", "b"],
            "estimator": ["x", "y", "x"],
            "tipping_points": [(2.0, 1.0), (3.0,), (4.0,)],
        }
    )
    assert report.tipping_gammas(points, "a", "x") == [1.0, 2.0]
    one = plots.plot_sensitivity(
        pd.DataFrame(ONE_ROW), tipping=points.assign(metric="rr", estimator="aoa")[1:2]
    )
    assert [text.get_text() for text in one.get_legend().get_texts()] == ["als", "two swap places"]
    assert report.tipping_gammas(points.iloc[:0], "a", "x") == report.tipping_gammas(None, "a", "x") == []


def test_bars_of_intervals_never_point_inwards_and_missing_ones_have_none():
    rows = pd.DataFrame(
        {"estimate": [0.5, 0.5, 0.5], "ci_low": [0.4, 0.6, np.nan], "ci_high": [0.7, 0.8, 0.9]}
    )
    assert report.reach(rows) == pytest.approx(np.array([[0.1, 0, 0], [0.2, 0.3, 0.4]]))


def test_an_agreement_is_written_in_white_on_dark_colours_alone():
    square = pd.DataFrame([[1.0, 0.54], [0.56, -0.2]], index=["x", "y"], columns=["x", "y"])
    colours = [text.get_color() for text in plots.plot_agreement(square.clip(lower=0)).texts]
    assert colours == ["black", "white", "black", "white"]
    # From −0.2 to 1, 0.55 of the way is 0.46.
    drawn = plots.plot_agreement(square.replace({0.54: 0.47, 0.56: 0.45}))
    assert drawn.images[0].get_clim() == (-0.2, 1)
    assert [text.get_color() for text in drawn.texts] == ["black", "black", "white", "white"]
    tidy = pd.DataFrame({"a": ["x"], "b": ["y"], "other": [0.5]})
    assert plots.plot_agreement(tidy, value="other").figure.axes[1].get_ylabel() == "other"
    with pytest.raises(ipseval.InputError, match="lacks column 'src'"):
        plots.plot_agreement(tidy)


def test_groups_that_are_counted_differently_are_rows_as_groups_with_names_are():
    for groups in (["9 (n* 1 to 3)", "8 (interactions 1 to 9)"], ["9 (n* 1 to 3)", "new"]):
        frame = pd.concat([pd.DataFrame(ONE_ROW)] * 2).assign(group=groups)
        ax = report.plot_segments(frame, metric="rr", estimator="aoa")
        assert ax.get_xlabel() == "rr, aoa, intervals for all groups at once"
        assert [text.get_text() for text in ax.get_yticklabels()] == groups


@pytest.mark.parametrize(("n", "degrees"), [(6, 0), (7, 45)])
def test_names_of_seven_groups_are_turned(n, degrees):
    frame = pd.concat([pd.DataFrame(ONE_ROW)] * n).assign(group=[f"g{number}" for number in range(n)])
    assert report.plot_weight_shares(frame).get_xticklabels()[0].get_rotation() == degrees


def test_online_differences_are_of_one_sign_or_not_and_the_truth_is_a_line_where_it_is_known():
    rows = pd.DataFrame({"offline": [0.0, 0.1, -0.1], "online": [0.1, 0.2, -0.2]})
    rows = rows.assign(offline_error=0.01, online_error=0.02)
    ax = report.plot_online(rows, line=(0.5, 0.1), label="aoa")
    assert [len(marks) for marks, _ in error_bars(ax)] == [2, 1]
    assert (ax.lines[-1].get_xy1(), ax.lines[-1].get_slope()) == ((0.0, 0.1), 0.5)
    unknown = report.plot_online(rows[1:], line=(np.nan, 0.1), label="aoa")
    assert [text.get_text() for text in unknown.get_legend().get_texts()] == ["same sign"]


def test_the_scale_of_an_agreement_is_four_fifths_as_high_as_the_map():
    ax = plots.plot_agreement(pd.DataFrame(np.eye(3), [*"abc"], [*"abc"]))
    ax.figure.draw_without_rendering()
    scale = ax.figure.axes[1]
    assert scale.get_position().height / ax.get_position().height == pytest.approx(0.8, abs=0.05)
