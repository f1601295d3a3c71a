"""Plots at their bounds: one row, nine series, several metrics, names and limits at their lengths."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

import ipseval
from ipseval.reporting import plots
from tests.inside import reporting as report
from tests.reporting.test_plots import error_bars


def nine_series(column: str) -> pd.DataFrame:
    """Return nine series of two points, with every column that a plot of curves reads."""
    names = [f"m{number}" for number in range(9)]
    frame = pd.DataFrame({column: np.repeat(names, 2), "estimate": np.arange(18) / 10})
    frame = frame.assign(ci_low=frame["estimate"] - 0.1, ci_high=frame["estimate"] + 0.1, metric="rr")
    frame = frame.assign(gamma=[0.0, 1.0] * 9, n_sampled=[10, 100] * 9, exact=0.5, n_users=[5, 9] * 9)
    frame = frame.assign(error=0.1, half_width=0.2)
    frame = frame.assign(group=["x", "y"] * 9, share=0.5, weight_share=0.5, by="P")
    if column == "estimator":
        return frame
    return frame.assign(estimator="aoa")


def face_colours(collections) -> list[np.ndarray]:
    return [collection.get_facecolor()[0, :3] for collection in collections]


def test_the_ninth_series_is_drawn_as_the_first():
    sensitivity = plots.plot_sensitivity(nine_series("model"))
    sampled = plots.plot_sampled(nine_series("model"))
    exposure = report.plot_exposure_curve(nine_series("estimator").drop(columns=["ci_low", "ci_high"]))
    shares = report.plot_weight_shares(nine_series("estimator"))
    marker_lines = [container[0] for container in sampled.containers]
    colours_by_part = {
        "curves": [line.get_color() for line in sensitivity.lines],
        "bands": face_colours(sensitivity.collections),
        "marks": [line.get_color() for line in marker_lines],
        "exact values": [line.get_color() for line in sampled.lines[-9:]],
        "half-widths": face_colours(exposure.collections),
        "bars": [container[0].get_facecolor()[:3] for container in shares.containers[1:]],
    }
    for part, colours in colours_by_part.items():
        names = [mpl.colors.to_hex(colour).upper() for colour in colours]
        assert names == [*plots.COLOURS, plots.COLOURS[0]], part
    for lines in (sensitivity.lines, marker_lines):
        assert [line.get_linestyle() for line in lines] == ["-", "--", "-.", ":", *["--"] * 4, "-"]
    assert [line.get_marker() for line in marker_lines] == [*plots.MARKS, plots.MARKS[0]]


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


NAME_COLUMNS = ("model", "metric", "estimator", "by", "group", "reference")
FORMULA = "a$^2$"  # a name that would be a formula if it were parsed


def legend_texts(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def draw_weights(frame: pd.DataFrame):
    return plots.plot_weights(frame.assign(ess_own=1.0, ess_equal=2.0, share_own=0.1))


def draw_counted_segments(frame: pd.DataFrame):
    return report.plot_segments(frame.assign(group=f"1 (n* {FORMULA})"), metric=FORMULA, estimator=FORMULA)


def draw_agreement(frame: pd.DataFrame):
    return plots.plot_agreement(pd.DataFrame([[1.0]], frame["model"], frame["model"]))


# Estimates and results are drawn by the functions that draw differences and samples.
@pytest.mark.parametrize(
    "draw",
    [
        draw_weights,
        plots.plot_sensitivity,
        plots.plot_sampled,
        plots.plot_bias,
        plots.plot_plan,
        report.plot_differences,
        report.plot_weight_shares,
        report.plot_decomposition,
        report.plot_exposure_curve,
        draw_counted_segments,
        draw_agreement,
    ],
)
def test_one_row_is_enough_and_no_name_is_a_formula(draw):
    ax = draw(pd.DataFrame(ONE_ROW).assign(**dict.fromkeys(NAME_COLUMNS, FORMULA)))
    names = [text for text in ax.figure.findobj(Text) if FORMULA in text.get_text()]
    assert names
    assert not any(name.get_parse_math() for name in names)


@pytest.mark.parametrize("draw", [report.plot_result, report.plot_exposure_curve, plots.plot_plan])
def test_of_several_metrics_the_first_is_drawn_and_another_on_demand(draw):
    frame = pd.concat([pd.DataFrame(ONE_ROW), pd.DataFrame(ONE_ROW).assign(metric="auc")])
    frame = frame.assign(estimate=[0.5, 0.7], error=[0.5, 0.7], half_width=[0.5, 0.7])
    if draw is not report.plot_result:
        frame = frame.drop(columns=["ci_low", "ci_high"])
    for options, expected in (({}, 0.5), ({"metric": "auc"}, 0.7)):
        points = draw(frame, **options).lines[0].get_xydata()
        assert expected in points
        assert len(points) == 1


def test_a_result_without_a_metric_is_drawn_by_its_data_or_measure():
    frame = pd.DataFrame(ONE_ROW).drop(columns=["metric", "estimator"])
    for columns, xlabel in (
        ({"data": "test"}, "estimate, with confidence interval"),
        ({"measure": "novelty"}, "novelty, with confidence interval"),
    ):
        ax = report.plot_result(frame.assign(**columns))
        assert ax.get_xlabel() == xlabel
        assert legend_texts(ax) == [*columns.values()]
    policies = frame.rename(columns={"model": "policy"}).assign(measure="value")
    assert [text.get_text() for text in report.plot_result(policies).get_yticklabels()] == ["als"]


def test_limits_of_one_value_and_of_values_that_begin_at_zero():
    limits = report.compute_limits
    assert limits([2.0, 3.0]) == pytest.approx((1.92, 3.08))
    assert limits([1.0, 2.0]) == pytest.approx((0.92, 2.08))  # as far from 0 as they are wide
    assert limits([0.9, 2.0]) == (0.0, pytest.approx(2.088))
    assert limits([-0.1, 0.9]) == pytest.approx((-0.18, 0.98))
    assert limits([0.0, 1.0, np.nan]) == (0.0, pytest.approx(1.08))
    assert limits([5.0]) == pytest.approx((4.5, 5.5))
    assert limits([-5.0]) == pytest.approx((-5.5, -4.5))
    assert limits([0.0]) == (-1, 1)


def test_a_name_of_36_letters_stays_and_a_longer_one_loses_its_middle():
    assert report.format_name("a" * 36) == "a" * 36
    assert report.format_name("a" * 20 + "b" * 17) == f"{'a' * 20}bbb…{'b' * 12}"
    assert report.format_name("_a") == " _a"


def test_swaps_are_those_of_one_metric_and_estimator_in_order():
    points = pd.DataFrame(
        {
            "metric": ["a", "a", "b"],
            "estimator": ["x", "y", "x"],
            "tipping_points": [(2.0, 1.0), (3.0,), (4.0,)],
        }
    )
    assert report.select_tipping_gammas(points, "a", "x") == [1.0, 2.0]
    tipping_points = points.assign(metric="rr", estimator="aoa")[1:2]
    ax = plots.plot_sensitivity(pd.DataFrame(ONE_ROW).assign(model="_als"), tipping=tipping_points)
    assert legend_texts(ax) == [" _als", "two swap ranks"]
    assert (
        report.select_tipping_gammas(points.iloc[:0], "a", "x")
        == report.select_tipping_gammas(None, "a", "x")
        == []
    )


def test_bars_of_intervals_never_point_inwards_and_missing_ones_have_none():
    rows = pd.DataFrame(
        {"estimate": [0.5, 0.5, 0.5], "ci_low": [0.4, 0.6, np.nan], "ci_high": [0.7, 0.8, 0.9]}
    )
    assert report.compute_error_bars(rows) == pytest.approx(np.array([[0.1, 0, 0], [0.2, 0.3, 0.4]]))


def test_an_agreement_is_written_in_white_on_dark_colours_alone():
    square = pd.DataFrame([[1.0, 0.54], [0.56, -0.2]], index=["x", "y"], columns=["x", "y"])
    colours = [text.get_color() for text in plots.plot_agreement(square.clip(lower=0)).texts]
    assert colours == ["black", "white", "black", "white"]
    # From −0.2 to 1, 0.55 of the way is 0.46.
    ax = plots.plot_agreement(square.replace({0.54: 0.47, 0.56: 0.45}))
    assert ax.images[0].get_clim() == (-0.2, 1)
    assert [text.get_color() for text in ax.texts] == ["black", "black", "white", "white"]
    tidy = pd.DataFrame({"a": ["x"], "b": ["y"], "other": [0.5]})
    with pytest.raises(ipseval.InputError, match="lacks column 'src'"):
        plots.plot_agreement(tidy)


def test_groups_that_are_counted_differently_are_rows_as_groups_with_names_are():
    for groups in (["9 (n* 1 to 3)", "8 (interactions 1 to 9)"], ["9 (n* 1 to 3)", "new"]):
        frame = pd.concat([pd.DataFrame(ONE_ROW)] * 2).assign(group=groups)
        ax = report.plot_segments(frame, metric="rr", estimator="aoa")
        assert ax.get_xlabel() == "rr, aoa, intervals for all groups at once"
        assert [text.get_text() for text in ax.get_yticklabels()] == groups


@pytest.mark.parametrize(("n_groups", "degrees"), [(6, 0), (7, 45)])
def test_names_of_seven_groups_are_turned(n_groups, degrees):
    groups = [f"g{number}" for number in range(n_groups)]
    frame = pd.concat([pd.DataFrame(ONE_ROW)] * n_groups).assign(group=groups)
    assert report.plot_weight_shares(frame).get_xticklabels()[0].get_rotation() == degrees


def test_online_differences_have_the_same_sign_or_not_and_known_true_differences_are_a_line():
    rows = pd.DataFrame({"offline": [0.0, 0.1, -0.1], "online": [0.1, 0.2, -0.2]})
    rows = rows.assign(offline_error=0.01, online_error=0.02)
    ax = report.plot_online(rows, line=(0.5, 0.1), label="aoa")
    assert [len(marks) for marks, _ in error_bars(ax)] == [2, 1]
    assert (ax.lines[-1].get_xy1(), ax.lines[-1].get_slope()) == ((0.0, 0.1), 0.5)
    unknown = report.plot_online(rows[1:], line=(np.nan, 0.1), label="aoa")
    assert legend_texts(unknown) == ["same sign"]
