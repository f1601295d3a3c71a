"""Values of policies: all outcomes of a small simulation, the formulas of OBP, and intervals."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma, norm

from ipseval import ImpressionLog, InputError
from ipseval.errors import PropensityError, UnknownNameError
from ipseval.policies import PolicyEvaluation, evaluate_policies
from tests.inside.policies import estimate_ratio

# Three items at two places; every user sees one place. Chances of the log, of a new policy, and of a click.
LOGGED = np.array([[0.5, 0.2], [0.3, 0.3], [0.2, 0.5]])
NEW = np.array([[0.1, 0.6], [0.2, 0.3], [0.7, 0.1]])
OTHER = np.array([[0.4, 0.4], [0.4, 0.2], [0.2, 0.4]])
CLICK = np.array([[0.9, 0.4], [0.5, 0.1], [0.3, 0.2]])


def build_log(items, positions, clicks):
    items = np.asarray(items)
    positions = np.asarray(positions)
    users = np.arange(items.size)
    return ImpressionLog(
        users, items, users, np.arange(3), np.asarray(clicks, dtype=bool), position=positions + 1,
        propensity=LOGGED[items, positions],
    )  # fmt: skip


VALUE = (NEW * CLICK).sum() / 2


def test_expectations_over_all_logs_of_two_users_are_the_value():
    # Two items at two places; of dr with whatever reward model the other user gives.
    logged_chances = np.array([[0.7, 0.2], [0.3, 0.8]])
    new = np.array([[0.1, 0.6], [0.9, 0.4]])
    click = np.array([[0.9, 0.4], [0.5, 0.1]])
    ids = np.arange(2)
    total = np.zeros(2)
    for items, clicks in itertools.product(itertools.product((0, 1), repeat=2), repeat=2):
        chances = logged_chances[items, ids]
        p = click[items, ids]
        log = ImpressionLog(
            ids, np.array(items), ids, ids, np.array(clicks, dtype=bool), position=ids + 1, propensity=chances
        )
        evaluation = evaluate_policies(log, {"new": new}, estimators=["ips", "dr"], n_folds=2, rng=0)
        total += np.prod(chances * np.where(clicks, p, 1 - p)) * evaluation.frame["estimate"].to_numpy()
    np.testing.assert_allclose(total, (new * click).sum() / 2, rtol=0, atol=1e-12)


def draw_log(rng, n):
    places = rng.integers(0, 2, n)
    items = (rng.random((n, 1)) > LOGGED[:, places].cumsum(axis=0).T).sum(axis=1)
    return build_log(items, places, rng.random(n) < CLICK[items, places])


def estimate_with_obp(log, action_dist, estimated):
    """Return the estimates of OBP (IPW, SNIPW, DM, DR, SNDR), with the formulas of its source."""
    rows = np.arange(len(log))
    place = log.position - 1
    w = action_dist[log.item, place] / log.propensity
    base = (action_dist[:, place] * estimated[:, rows]).sum(axis=0)
    q = estimated[log.item, rows]
    return {
        "ips": np.mean(log.clicked * w),
        "snips": np.mean(log.clicked * w) / np.mean(w),
        "dm": np.mean(base),
        "dr": np.mean(base + w * (log.clicked - q)),
        "dr-sn": np.mean(base + w * (log.clicked - q) / np.mean(w)),
    }


def test_estimates_equal_the_formulas_of_obp_with_the_same_reward_model():
    log = draw_log(np.random.default_rng(0), 400)
    labels = ["ips", "snips", "dm", "dr", "dr-sn", "ips-cv"]
    evaluation = evaluate_policies(log, {"new": NEW}, estimators=labels, n_folds=2, shrinkage=3.0, rng=1)
    # The reward model written out: two halves of the users, click rates shrunk to those of the place.
    fold = np.random.default_rng(1).permutation(400) % 2
    rates = np.zeros((3, 400))
    for row in range(400):
        is_other_fold = fold != fold[row]
        is_same_position = log.position == log.position[row]
        level = log.clicked[is_other_fold & is_same_position].mean()
        for item in range(3):
            here = is_other_fold & is_same_position & (log.item == item)
            rates[item, row] = (log.clicked[here].sum() + 3 * level) / (here.sum() + 3)
    w = NEW[log.item, log.position - 1] / log.propensity
    beta = np.cov(w * log.clicked, w)[0, 1] / w.var(ddof=1)
    expected = {
        **estimate_with_obp(log, NEW, rates),
        "ips-cv": np.mean(w * log.clicked) - beta * (w.mean() - 1),
    }
    assert dict(
        zip(evaluation.frame["estimator"], evaluation.frame["estimate"], strict=True)
    ) == pytest.approx({label: expected[label] for label in labels}, rel=1e-12)


def test_the_printed_result_names_the_best_policy_and_the_overlap():
    evaluation = evaluate_policies(
        draw_log(np.random.default_rng(0), 4000),
        {"new": NEW, "other": OTHER},
        estimators=["ips", "dr"],
        rng=0,
    )
    text = repr(evaluation)
    assert text.startswith(
        "4,000 impressions · clicks per impression · 95% intervals in brackets\n\nVerdict     By dr, "
    )
    order = evaluation.frame[evaluation.frame["estimator"] == "dr"].sort_values("estimate")["policy"].tolist()
    assert f"Verdict     By dr, {order[1]} earns most." in text
    for row in evaluation.frame.itertuples():
        assert f"{row.estimate:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]" in text
    tests = evaluation.compare().set_index("estimator")
    assert ("differs significantly from" in text) == (tests.loc["dr", "p_value"] < 0.05)
    assert "effective impressions of 4,000" in text
    assert text.count("exactly unbiased given the logged chances") == 1
    assert text.index("ips: exactly unbiased") < text.index("dr: consistent")
    assert max(map(len, text.splitlines())) <= 100
    # Two digits of the half-width, .05 to .1: three decimals, though the whole width has two digits with two.
    small_evaluation = evaluate_policies(
        draw_log(np.random.default_rng(0), 250), {"new": NEW}, estimators=["ips"], rng=0
    )
    row = small_evaluation.frame.iloc[0]
    assert 0.1 < row["ci_high"] - row["ci_low"] < 0.2
    assert f"{row['estimate']:.3f} [".replace("0.", ".") in repr(small_evaluation)
    small_evaluation = evaluate_policies(
        draw_log(np.random.default_rng(0), 170), {"new": NEW}, estimators=["ips"], rng=0
    )
    row = small_evaluation.frame.iloc[0]
    assert 0.2 < row["ci_high"] - row["ci_low"] < 0.3
    assert f"{row['estimate']:.2f} [".replace("0.", ".") in repr(small_evaluation)
    single_evaluation = evaluate_policies(
        draw_log(np.random.default_rng(0), 500), {"new": NEW}, estimators=["dm"], rng=0
    )
    assert "One policy: its value by dm is in the table above." in repr(single_evaluation)
    assert "new" in single_evaluation.to_html()


def test_a_policy_that_lists_the_first_item_everywhere_matches_rows():
    log = build_log([0, 1, 0, 2], [0, 0, 0, 0], [1, 0, 0, 1])
    always = pd.DataFrame({"user": range(4), "item": 0, "position": 1})
    evaluation = evaluate_policies(log, {"always": always}, estimators=["ips"], rng=0)
    assert evaluation.frame["estimate"].tolist() == pytest.approx(
        [1 / 0.5 / 4]
    )  # one click of four rows, p = .5


def test_rows_that_a_policy_never_shows_are_counted_and_reported():
    log = build_log([0, 0, 1, 2], [0, 0, 0, 1], [1, 0, 0, 1])
    never = np.array([[0, 0.5], [1, 0.3], [0, 0.2]])  # of the first place it shows item 1 alone
    evaluation = evaluate_policies(log, {"never": never}, estimators=["ips"], rng=0)
    assert evaluation.overlap["share_unmatched"].tolist() == [0.5]
    assert "50% show items that it never shows there" in repr(evaluation)


@pytest.mark.slow
def test_intervals_cover_the_value_and_control_variates_do_not_widen_them():
    rng = np.random.default_rng(4)
    labels = ["ips", "ips-cv", "snips", "dr", "dr-sn"]
    hits = dict.fromkeys(labels, 0)
    widths = dict.fromkeys(labels, 0.0)
    delta = 0
    truth = ((NEW - OTHER) * CLICK).sum() / 2
    n = 400
    for _ in range(n):
        evaluation = evaluate_policies(
            draw_log(rng, 500), {"new": NEW, "other": OTHER}, estimators=labels, rng=0
        )
        frame = evaluation.frame[evaluation.frame["policy"] == "new"].set_index("estimator")
        for label in labels:
            hits[label] += frame.loc[label, "ci_low"] <= VALUE <= frame.loc[label, "ci_high"]
            widths[label] += frame.loc[label, "std_error"]
        row = evaluation.compare().iloc[0]
        assert row["estimator"] == "delta-ips"
        delta += row["ci_low"] <= truth <= row["ci_high"]
    four_sigma = 4 * np.sqrt(0.05 * 0.95 * n)
    for label, count in {**hits, "delta-ips": delta}.items():
        assert abs(count - 0.95 * n) < four_sigma, label
    assert max(widths["ips-cv"], widths["dr"]) < widths["ips"]


def compute_limits(total, variance, further):
    """Return quantiles of gamma distributions by scipy, the upper one with an extra click."""
    extra_event = total + further, variance + further**2
    low = gamma.ppf(0.025, total**2 / variance, scale=variance / total)
    return low, gamma.ppf(0.975, extra_event[0] ** 2 / extra_event[1], scale=extra_event[1] / extra_event[0])


def test_intervals_have_the_limits_of_weighted_counts():
    log = draw_log(np.random.default_rng(5), 60)
    evaluation = evaluate_policies(
        log, {"new": NEW}, estimators=["ips", "snips", "dr", "dm", "ips-cv"], shrinkage=3.0, rng=0
    )
    frame = evaluation.frame.set_index("estimator")
    w = NEW[log.item, log.position - 1] / log.propensity
    further = (w**2).sum() / w.sum()
    for label, mass in (("ips", 60), ("snips", w.sum())):
        row = frame.loc[label]
        expected = compute_limits((w * log.clicked).sum() / mass, row["std_error"] ** 2, further / mass)
        assert row[["ci_low", "ci_high"]].tolist() == pytest.approx(expected)
    # dr: the distances of ips from its limits; what its own variance has on top is added as normal.
    ips = frame.loc["ips"]
    dr = frame.loc["dr"]
    low = ips["estimate"] - ips["ci_low"]
    high = ips["ci_high"] - ips["estimate"]
    remainder = norm.ppf(0.975) ** 2 * (dr["std_error"] ** 2 - ips["std_error"] ** 2)
    assert remainder > 0
    distances = dr["estimate"] - dr["ci_low"], dr["ci_high"] - dr["estimate"]
    assert distances == pytest.approx((np.sqrt(low**2 + remainder), np.sqrt(high**2 + remainder)))
    dm = frame.loc["dm"]
    assert dm["ci_high"] - dm["estimate"] == pytest.approx(norm.ppf(0.975) * dm["std_error"])
    assert dm["estimate"] - dm["ci_low"] == pytest.approx(norm.ppf(0.975) * dm["std_error"])
    # ips-cv: the distances of the clicks of ips, with the smaller variance that is left.
    cv_row = frame.loc["ips-cv"]
    assert cv_row["std_error"] < ips["std_error"]
    ends = np.array(compute_limits(ips["estimate"], cv_row["std_error"] ** 2, further / 60)) - ips["estimate"]
    expected = cv_row["estimate"] + ends
    assert cv_row[["ci_low", "ci_high"]].tolist() == pytest.approx(expected.tolist())


def test_without_clicks_the_upper_limit_is_exact_and_without_weights_missing():
    log = build_log([0, 1, 2, 0], [0, 0, 1, 1], [0, 0, 0, 0])
    row = evaluate_policies(log, {"log": LOGGED}, estimators=["ips"], rng=0).frame.iloc[0]
    assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([0, -np.log(0.025) / 4])
    never = np.array([[0, 0], [0, 1.0], [1, 0]])
    row = evaluate_policies(build_log([0, 0], [0, 1], [1, 0]), {"n": never}, n_folds=2, rng=0).frame.iloc[0]
    assert row[["ci_low", "ci_high"]].isna().all()
    evaluation = evaluate_policies(
        build_log([0, 0], [0, 1], [1, 0]), {"n": never}, estimators=["ips-cv"], n_folds=2, rng=0
    )
    assert evaluation.frame["estimate"].tolist() == [0.0]
    assert evaluation.overlap.loc[0].tolist() == ["n", 0.0, 0.0, pytest.approx(np.nan, nan_ok=True), 0.0, 1.0]


def test_an_estimate_is_compared_with_the_click_rate_of_the_policy():
    rng = np.random.default_rng(6)
    evaluation = evaluate_policies(
        draw_log(rng, 200), {"new": NEW, "log": LOGGED}, estimators=["snips"], rng=0
    )
    own_log = draw_log(rng, 100)  # made by the logged policy
    row = evaluation.compare_with_log(own_log, "log").iloc[0]
    rate = own_log.clicked.mean()
    seen = rate, *compute_limits(rate, rate * (1 - rate) / 99, 1 / 100)
    mine = evaluation.frame.set_index("policy").loc["log", ["estimate", "ci_low", "ci_high"]].tolist()
    gap = mine[0] - rate
    low = gap - np.hypot(mine[0] - mine[1], seen[2] - rate)
    high = gap + np.hypot(mine[2] - mine[0], rate - seen[1])
    assert row[["difference", "ci_low", "ci_high"]].tolist() == pytest.approx([gap, low, high])
    assert row["agrees"] == (low <= 0 <= high)
    with pytest.raises(InputError, match="policy must name the one that made the log: one of new, log"):
        evaluation.compare_with_log(own_log)
    single_table = evaluate_policies(
        draw_log(np.random.default_rng(6), 200), {"log": LOGGED}, rng=0
    ).compare_with_log(own_log)
    assert single_table["policy"].tolist() == ["log"] * 3
    assert single_table["estimator"].tolist() == ["ips", "snips", "dr"]
    with pytest.raises(UnknownNameError, match="unknown policy 'none'"):
        evaluation.compare_with_log(own_log, "none")


def draw_sparse_log(rng, n):
    """Return a log with about 10 clicks whose weights under a uniform policy reach 30, and the true value."""
    quality = rng.normal(size=20)
    chance = np.exp(1.5 * (0.5 * quality + 0.87 * rng.normal(size=20)))
    chance /= chance.sum()
    rate = np.exp(0.6 * quality)
    rate *= 10 / n / rate.mean()
    item = rng.choice(20, n, p=chance)
    user = np.arange(n)
    log = ImpressionLog(user, item, user, np.arange(20), rng.random(n) < rate[item], propensity=chance[item])
    return log, rate.mean()


@pytest.mark.slow
def test_intervals_cover_the_value_where_clicks_are_few_and_normal_intervals_do_not():
    rng = np.random.default_rng(8)
    n = 400
    hits = dict.fromkeys(("ips", "snips", "dr", "dr-sn"), 0)
    normal = 0
    for _ in range(n):
        log, truth = draw_sparse_log(rng, 2000)
        frame = evaluate_policies(
            log, {"uniform": np.full((20, 1), 1 / 20)}, estimators=list(hits), rng=0
        ).frame
        for row in frame.itertuples():
            hits[row.estimator] += row.ci_low <= truth <= row.ci_high
            normal += abs(row.estimate - truth) <= 1.96 * row.std_error
    four_sigma = 4 * np.sqrt(0.05 * 0.95 * n)
    assert min(hits.values()) > 0.95 * n - four_sigma
    assert normal / 4 < 0.95 * n - four_sigma


def test_differences_with_a_control_variate_are_never_wider():
    log = draw_log(np.random.default_rng(2), 300)
    evaluation = evaluate_policies(log, {"new": NEW, "other": OTHER, "log": LOGGED}, rng=0)
    table = evaluation.compare(reference="log").set_index(["policy", "estimator"])
    for policy in ("new", "other"):
        assert table.loc[(policy, "delta-ips"), "std_error"] <= table.loc[(policy, "ips"), "std_error"]
    shift = NEW[log.item, log.position - 1] / log.propensity - 1  # the logged policy has weights of 1
    covariance = np.cov(shift * log.clicked, shift)
    gain = shift * (log.clicked - covariance[0, 1] / covariance[1, 1])
    error = gain.std(ddof=1) / np.sqrt(300)
    expected = [gain.mean(), error, 2 * norm.sf(abs(gain.mean()) / error)]
    columns = ["difference", "std_error", "p_value"]
    assert table.loc[("new", "delta-ips"), columns].tolist() == pytest.approx(expected, rel=1e-9)
    assert len(evaluation.compare()) == 3 * 4
    # What is subtracted is paired: the error is that of the differences of users.
    plain = shift * log.clicked
    expected = [plain.mean(), plain.std(ddof=1) / np.sqrt(300)]
    assert table.loc[("new", "ips"), columns[:2]].tolist() == pytest.approx(expected, rel=1e-9)
    self_comparison = evaluate_policies(log, {"log": LOGGED, "again": LOGGED}, rng=0).compare()
    assert (self_comparison["difference"] == 0).all()
    assert self_comparison["p_value"].isna().all()
    overlap = evaluation.overlap.set_index("policy")
    assert overlap.loc["log", ["ess", "max_weight", "mean_weight"]].tolist() == pytest.approx([300, 1, 1])
    assert overlap.loc["new", "ess"] < 300
    with pytest.raises(UnknownNameError, match="unknown policy 'none'"):
        evaluation.compare("none")


def test_the_logged_policy_has_its_observed_click_rate():
    log = draw_log(np.random.default_rng(3), 200)
    evaluation = evaluate_policies(log, {"log": LOGGED}, estimators=["ips", "snips", "ips-cv"], rng=0)
    assert evaluation.frame["estimate"].tolist() == pytest.approx([log.clicked.mean()] * 3, rel=1e-12)


def test_invalid_policies_raise():
    log = draw_log(np.random.default_rng(3), 20)
    plain = ImpressionLog.from_frame(log.to_frame()[["user", "item", "clicked"]])
    with pytest.raises(PropensityError, match="the log has no propensities"):
        evaluate_policies(plain, {"new": NEW}, rng=0)
    for bad, text in (
        (NEW[:2], r"must be numbers of shape \(3, 2\); got shape \(2, 2\)"),
        (NEW.astype(str), r"must be numbers of shape \(3, 2\); got shape \(3, 2\)"),
        (NEW * 2, r"sum to 1; the largest gap is 1\.$"),
        (NEW * 1.001, r"sum to 1; the largest gap is 0\.001\.$"),
        (NEW + np.array([[-0.2, 0], [0, 0], [0.2, 0]]), "must be >= 0 and sum to 1"),
        ("new", "must be an array of chances"),
        (pd.DataFrame({"user": [0, 0], "item": [1, 2], "position": [1, 1]}), "one item at each position"),
        (pd.DataFrame({"user": [0, 0], "item": [1, 2], "position": [1.0, 2.5]}), "one item at each position"),
        (pd.DataFrame({"user": [0, 0], "item": [1, 1], "position": [1, 2]}), "lists an item twice"),
        (pd.DataFrame({"user": [0, 0], "item": [0, 0], "position": [1, 2]}), "lists an item twice"),
        (pd.DataFrame({"user": [0, 0], "item": [1, 2], "position": [0, 1]}), "has positions below 1"),
        (pd.DataFrame({"user": [0], "item": [1], "position": [3]}), r"meets no row of the log: .*are 1, 2\)"),
    ):
        with pytest.raises(InputError, match=text):
            evaluate_policies(log, {"new": bad}, rng=0)
    with pytest.raises(UnknownNameError, match="estimators"):
        evaluate_policies(log, {"new": NEW}, estimators=["dros"], rng=0)
    for bad in ({}, [NEW]):
        with pytest.raises(
            InputError, match="policies must be a mapping of names to policies, with at least"
        ):
            evaluate_policies(log, bad, rng=0)
    for option in ({"n_folds": 1}, {"shrinkage": -0.5}, {"confidence_level": 1.0}):
        with pytest.raises(InputError, match=f"{next(iter(option))} must be"):
            evaluate_policies(log, {"new": NEW}, rng=0, **option)


def evaluate_earnings(**policies):
    """Return the evaluation by ips of policies with a mean value that varies by user."""
    rows = np.ones(100)
    sign = np.tile([1.0, -1.0], 50)
    gains = {name: value + swing * sign for name, (value, swing) in policies.items()}
    overlap = pd.DataFrame({"policy": list(policies), "ess": 50.0, "share_unmatched": 0.0})
    values = {(name, "ips"): estimate_ratio(gain, rows) for name, gain in gains.items()}
    return PolicyEvaluation(values, gains, dict.fromkeys(policies, rows), rows, overlap)


@pytest.mark.parametrize(
    ("gaps", "words"),
    [
        # One swing apart the error is 1/√99; p = .0124 and .317, by Holm twice the first.
        (
            {"b": 2.5, "c": 1.0},
            "It differs significantly from b (p = 0.025). It does not differ significantly from c.",
        ),
        ({"b": 2.5, "c": 3.0}, "It differs significantly from b and c (p ≤ 0.012)."),
        ({"b": 2.0, "c": 2.1}, "It does not differ significantly from b and c."),
    ],
)
def test_the_verdict_names_the_policies_that_differ_significantly_from_the_best(gaps, words):
    evaluation = evaluate_earnings(
        **{name: (5 - z / np.sqrt(99), 1.0) for name, z in gaps.items()}, a=(5.0, 0.0)
    )
    text = " ".join(repr(evaluation).split())
    assert f"By ips, a earns most. {words}" in text
    assert "50 effective impressions of 100." in text
    assert "never shows" not in text
