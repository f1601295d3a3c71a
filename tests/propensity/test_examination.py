"""Examination curves: values by hand, the two conditions that make them right, and their errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from ipseval import ImpressionLog
from ipseval.errors import InputError
from ipseval.propensity import ExaminationCurve, ExaminationModel

THETA = 1 / np.arange(1, 6) ** 0.8


def simulate_log(rng, *, n_users=1500, n_slates=6, n_items=60, noise=0.08):
    """Return a log whose rankings follow item quality, with noise: position depends on relevance."""
    quality = rng.beta(2, 5, n_items)
    user = np.repeat(rng.integers(0, n_users, n_users * n_slates), THETA.size)
    score = quality + noise * rng.gumbel(size=(n_users * n_slates, n_items))
    item = np.argsort(-score, axis=1)[:, : THETA.size].ravel()
    position = np.tile(np.arange(1, THETA.size + 1), n_users * n_slates)
    clicked = rng.random(item.size) < THETA[position - 1] * quality[item]
    frame = pd.DataFrame({"user": user, "item": item, "position": position, "clicked": clicked})
    return ImpressionLog.from_frame(frame, position="position")


def build_log(counts):
    """Return a log of (item, position, impressions, clicks), each impression by another user."""
    rows = [(item, position, number < clicks) for item, position, n, clicks in counts for number in range(n)]
    frame = pd.DataFrame(rows, columns=["item", "position", "clicked"])
    return ImpressionLog.from_frame(frame.assign(user=range(len(frame))), position="position")


def test_harvesting_of_one_item_is_the_ratio_of_its_click_rates():
    # (3/10) / (6/12) = .6; item 2 was shown at one position only and says nothing.
    log = build_log([(1, 1, 12, 6), (1, 2, 10, 3), (2, 2, 50, 40)])
    assert ExaminationModel("harvesting").fit(log).theta == pytest.approx([1, 0.6], abs=1e-9)


def test_randomised_positions_need_only_click_rates():
    log = build_log([(1, 1, 12, 6), (1, 2, 10, 3), (2, 2, 50, 40)])
    with pytest.warns(UserWarning, match="more examined than the first"):
        curve = ExaminationModel("randomised").fit(log)
    assert curve.theta == pytest.approx([1, (43 / 60) / (6 / 12)])


def test_em_reaches_the_largest_likelihood(monkeypatch):
    monkeypatch.setattr("ipseval.propensity._examination.N_USER_GROUPS", 2)  # the errors are not read
    # Two items at two positions: four rates and θ, γ_1, γ_2.
    log = build_log([(1, 1, 40, 20), (1, 2, 40, 8), (2, 1, 40, 30), (2, 2, 40, 16)])
    clicks = np.array([[20, 8], [30, 16]])

    def loss(at):
        rate = np.outer(at[1:], [1, at[0]])
        return -(clicks * np.log(rate) + (40 - clicks) * np.log1p(-rate)).sum()

    best = minimize(loss, [0.6, 0.5, 0.5], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-11})
    assert ExaminationModel("em").fit(log).theta[1] == pytest.approx(best.x[0], abs=1e-5)


def test_accelerated_em_reaches_the_solution_of_plain_em_in_fewer_steps(monkeypatch):
    monkeypatch.setattr("ipseval.propensity._examination.MAX_STEPS", 160)  # plain ones take thousands
    monkeypatch.setattr("ipseval.propensity._examination.N_USER_GROUPS", 2)  # the errors are not read
    log = simulate_log(np.random.default_rng(3), n_users=20, n_items=30)
    clicks = np.zeros((log.n_items, 5))
    impressions = np.zeros((log.n_items, 5))
    np.add.at(clicks, (log.item, log.position - 1), log.clicked)
    np.add.at(impressions, (log.item, log.position - 1), 1)
    theta = np.full(5, 0.9)
    gamma = (clicks.sum(axis=1) + 0.5) / (impressions.sum(axis=1) + 1)
    for _ in range(400):
        neither = (impressions - clicks) / np.maximum(1 - theta * gamma[:, None], 1e-300)
        examinations = clicks + neither * theta * (1 - gamma[:, None])
        relevant = clicks + neither * gamma[:, None] * (1 - theta)
        theta = examinations.sum(axis=0) / impressions.sum(axis=0)
        gamma = relevant.sum(axis=1) / np.maximum(impressions.sum(axis=1), 1)
    assert ExaminationModel("em").fit(log).theta == pytest.approx(theta / theta[0], rel=1e-6)


def test_a_known_curve_is_recovered_where_position_follows_relevance(monkeypatch):
    monkeypatch.setattr("ipseval.propensity._examination.N_USER_GROUPS", 20)  # forty take longer
    log = simulate_log(np.random.default_rng(7), n_users=600)
    for method in ("harvesting", "em"):
        curve = ExaminationModel(method).fit(log)
        assert (np.abs(curve.theta - THETA)[1:] < 4 * curve.std_error[1:]).all()
    # The plain click rates are not: better items stand higher.
    naive = ExaminationModel("randomised").fit(log)
    assert (THETA - naive.theta)[-1] > 4 * naive.std_error[-1]


def test_custom_groups_replace_items():
    log = simulate_log(np.random.default_rng(7), n_users=10, n_items=10)
    item_curve, group_curve = (
        ExaminationModel("harvesting", group=group).fit(log) for group in ("item", log.item)
    )
    np.testing.assert_array_equal(item_curve.theta, group_curve.theta)


def test_pairs_and_custom_groups_are_units_of_relevance():
    # Pair (0, 0) has rates of 2/2 and 1/2, pair (1, 0) of 1/2 and 1/4: both say 1/2, as items say 5/12 : 3/4.
    counts = [(0, 1, 2, 2), (0, 2, 2, 1), (1, 1, 2, 1), (1, 2, 4, 1)]
    rows = [(user, place, number < good) for user, place, n, good in counts for number in range(n)]
    frame = pd.DataFrame(rows, columns=["user", "position", "clicked"]).assign(item=0)
    log = ImpressionLog.from_frame(frame, position="position")
    for group in ("pair", 7 * log.user, log.user):
        assert ExaminationModel(group=group).fit(log).theta == pytest.approx([1, 0.5], abs=1e-9)
    assert ExaminationModel().fit(log).theta == pytest.approx([1, (2 / 6) / (3 / 4)], abs=1e-9)


def test_a_jackknife_leaves_out_a_fortieth_of_many_users_at_a_time():
    rng = np.random.default_rng(4)
    user = np.repeat(np.arange(90), 6)
    position = np.tile([1, 2], 270)
    clicked = rng.random(540) < 0.8 / position
    frame = pd.DataFrame({"user": user, "item": 0, "position": position, "clicked": clicked})
    curve = ExaminationModel("randomised").fit(ImpressionLog.from_frame(frame, position="position"))
    partial_rates = [
        frame[frame["user"] % 40 != part].groupby("position")["clicked"].mean() for part in range(40)
    ]
    ratios = np.array([rate[2] / rate[1] for rate in partial_rates])
    assert curve.std_error == pytest.approx([0, np.sqrt(39 * ratios.var())])
    assert curve.frame["n_clicks"].tolist() == [int(clicked[position == value].sum()) for value in (1, 2)]
    assert set(curve.frame["method"]) == {"randomised"}


def test_a_known_curve_has_positions_from_one_on_and_prints_five_of_them():
    curve = ExaminationCurve.from_theta([1, 0.5, 0.25, 0.125, 0.0625])
    assert repr(curve) == "ExaminationCurve(known: 1.000, 0.500, 0.250, 0.125, 0.062)"
    assert curve.position.tolist() == [1, 2, 3, 4, 5]
    for name in ("std_error", "n_impressions", "n_clicks"):
        assert curve.frame[name].tolist() == [0, 0, 0, 0, 0]
    long_curve = ExaminationCurve.from_theta([1, 1, 1, 1, 1, 0.5])
    assert repr(long_curve) == "ExaminationCurve(known: 1.000, 1.000, 1.000, 1.000, 1.000, …)"


@pytest.mark.parametrize("method", ["harvesting", "em"])
def test_a_curve_that_does_not_converge_raises(method, monkeypatch):
    monkeypatch.setattr("ipseval.propensity._examination.MAX_STEPS", 2)
    with pytest.raises(InputError, match="did not converge in 2 steps; use another method"):
        ExaminationModel(method).fit(simulate_log(np.random.default_rng(3), n_users=20, n_items=30))


def test_the_standard_error_of_three_users_is_the_leave_one_out_jackknife():
    # At position 1 each of them clicks 2 of 2, at position 2 one of them 0, one 1 and one 2. Without each:
    # 3/4, 2/4 and 1/4, and 2/3 of their squares around the mean, 2/16, is 1/12.
    clicked = [1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1]
    frame = pd.DataFrame({"user": np.repeat([4, 7, 9], 4), "item": range(12), "position": 3 * [1, 1, 2, 2]})
    log = ImpressionLog.from_frame(frame.assign(clicked=clicked), position="position")
    curve = ExaminationModel("randomised").fit(log)
    assert curve.theta == pytest.approx([1, 0.5])
    assert curve.std_error == pytest.approx([0, np.sqrt(1 / 12)])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["harvesting", "em"])
def test_standard_errors_equal_the_spread_over_repeated_logs(method):
    curves = [
        ExaminationModel(method).fit(simulate_log(np.random.default_rng(seed), n_users=400))
        for seed in range(40)
    ]
    spread = np.std([curve.theta for curve in curves], axis=0, ddof=1)
    mean_error = np.sqrt(np.mean([curve.std_error**2 for curve in curves], axis=0))
    # The spread of 40 draws has a relative standard error of 1/√78, 4 of which are .45.
    assert mean_error[1:] == pytest.approx(spread[1:], rel=0.45)
    assert np.mean([curve.theta for curve in curves], axis=0) == pytest.approx(
        THETA, abs=4 * spread.max() / np.sqrt(40)
    )


def test_a_position_that_is_examined_more_than_the_first_warns_and_is_scaled():
    log = build_log([(1, 1, 20, 5), (1, 2, 20, 10)])
    with pytest.warns(UserWarning, match=r"1 positions came out as more examined .*at most 2"):
        curve = ExaminationModel().fit(log)
    assert curve.theta == pytest.approx([1, 2])
    assert curve.for_positions([1, 2]) == pytest.approx([0.5, 1])


def test_a_position_that_no_group_links_to_the_first_has_no_estimate():
    log = build_log([(1, 1, 9, 3), (1, 2, 9, 3), (2, 3, 9, 3)])
    curve = ExaminationModel().fit(log)
    assert np.isnan(curve.theta).tolist() == [False, False, True]
    assert curve.frame["n_impressions"].tolist() == [9, 9, 9]
    # An item without a click links nothing: whatever the examination, it says that nobody wants it.
    log = build_log([(1, 1, 9, 3), (1, 2, 9, 3), (2, 1, 9, 0), (2, 3, 9, 0)])
    assert ExaminationModel().fit(log).theta == pytest.approx([1, 1, np.nan], nan_ok=True)


def test_em_of_clicks_alone_examines_every_position():
    curve = ExaminationModel("em").fit(build_log([(1, 1, 4, 4), (1, 2, 4, 4)]))
    assert (curve.theta.tolist(), curve.std_error.tolist()) == ([1, 1], [0, 0])
