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


def nine(name: str) -> pd.DataFrame:
    """Return nine series of two points, with whatever a plot of curves reads."""
    series = pd.DataFrame({name: np.repeat([f"m{n}" for n in range(9)], 2), "estimate": np.arange(18) / 10})
    there = series.assign(ci_low=series["estimate"] - 0.1, ci_high=series["estimate"] + 0.1, metric="rr")
    there = there.assign(gamma=[0.0, 1.0] * 9, n_sampled=[10, 100] * 9, exact=0.5, n_users=[5, 9] * 9)
    there = there.assign(error=0.1, half_width=0.2, group=["x", "y"] * 9, share=0.5, weight_share=0.5, by="P")
    return there if name == "estimator" else there.assign(estimator="aoa")


def test_the_ninth_series_is_drawn_as_the_first():
    swept, sampled = plots.plot_sensitivity(nine("model")), plots.plot_sampled(nine("model"))
    shown = report.plot_exposure_curve(nine("estimator").drop(columns=["ci_low", "ci_high"]))
    shares, marked = report.plot_weight_shares(nine("estimator")), [one[0] for one in sampled.containers]
    for name, colours in {
        "curves": [one.get_color() for one in swept.lines],
        "bands": [one.get_facecolor()[0, :3] for one in swept.collections],
        "marks": [one.get_color() for one in marked],
        "exact values": [one.get_color() for one in sampled.lines[-9:]],
        "half-widths": [one.get_facecolor()[0, :3] for one in shown.collections],
        "bars": [one[0].get_facecolor()[:3] for one in shares.containers[1:]],
    }.items():
        found = [mpl.colors.to_hex(one).upper() for one in colours]
        assert found == [*plots.COLOURS, plots.COLOURS[0]], name
    for lines in (swept.lines, marked):
        assert [one.get_linestyle() for one in lines] == ["-", "--", "-.", ":", *["--"] * 4, "-"]
    assert [one.get_marker() for one in marked] == [*plots.MARKS, plots.MARKS[0]]


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


def weights(frame: pd.DataFrame):
    return plots.plot_weights(frame.assign(ess_own=1.0, ess_equal=2.0, share_own=0.1))


SPAN = "1 (n* a$^2$)"


# Estimates and results are drawn by what draws differences and samples.
@pytest.mark.parametrize(
    "draw",
    [
        weights,
        plots.plot_sensitivity,
        plots.plot_sampled,
        plots.plot_bias,
        plots.plot_plan,
        report.plot_differences,
        report.plot_weight_shares,
        report.plot_decomposition,
        report.plot_exposure_curve,
        lambda frame: report.plot_segments(frame.assign(group=SPAN), metric="a$^2$", estimator="a$^2$"),
        lambda frame: plots.plot_agreement(pd.DataFrame([[1.0]], frame["model"], frame["model"])),
    ],
)
def test_one_row_is_enough_and_no_name_is_a_formula(draw):
    named = dict.fromkeys(("model", "metric", "estimator", "by", "group", "reference"), "a$^2$")
    ax = draw(pd.DataFrame(ONE_ROW).assign(**named))
    found = [text for text in ax.figure.findobj(Text) if "a$^2$" in text.get_text()]
    assert found
    assert not [text.get_text() for text in found if text.get_parse_math()]


@pytest.mark.parametrize("draw", [report.plot_result, report.plot_exposure_curve, plots.plot_plan])
def test_of_several_metrics_the_first_is_drawn_and_another_on_demand(draw):
    frame = pd.concat([pd.DataFrame(ONE_ROW), pd.DataFrame(ONE_ROW).assign(metric="auc")])
    frame = frame.assign(estimate=[0.5, 0.7], error=[0.5, 0.7], half_width=[0.5, 0.7])
    if draw is not report.plot_result:
        frame = frame.drop(columns=["ci_low", "ci_high"])
    for options, expected in (({}, 0.5), ({"metric": "auc"}, 0.7)):
        drawn = draw(frame, **options).lines[0].get_xydata()
        assert expected in drawn
        assert len(drawn) == 1


def test_a_result_without_a_metric_is_drawn_by_its_data_or_measure():
    frame = pd.DataFrame(ONE_ROW).drop(columns=["metric", "estimator"])
    for more, words in (
        ({"data": "test"}, "estimate, with confidence interval"),
        ({"measure": "novelty"}, "novelty, with confidence interval"),
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
        pd.DataFrame(ONE_ROW).assign(model="_als"), tipping=points.assign(metric="rr", estimator="aoa")[1:2]
    )
    assert [text.get_text() for text in one.get_legend().get_texts()] == [" _als", "two swap ranks"]
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
