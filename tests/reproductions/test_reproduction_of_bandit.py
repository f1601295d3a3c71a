"""Click rates of a random policy, estimated from another policy's log: by hand, simulated, on the sample."""

import numpy as np
import pytest

from ipseval import ImpressionLog
from ipseval.validation.datasets import CARDS, BanditStudy, load_open_bandit
from reproductions.bandit import validate_bandit


def log(item, click, propensity, n_items):
    every = np.arange(len(item))
    clicked = np.asarray(click, dtype=bool)
    return ImpressionLog(
        every, np.asarray(item), every, np.arange(n_items), clicked, propensity=np.asarray(propensity, float)
    )


def test_the_three_estimates_are_worked_by_hand():
    random = log([0, 1, 0, 1], [1, 0, 0, 0], [0.5] * 4, 2)
    bts = log([0, 0, 0, 1], [1, 0, 1, 1], [0.5, 0.8, 0.8, 0.25], 2)
    frame = validate_bandit(BanditStudy("toy", random, bts, CARDS["open-bandit"]))
    table = frame.set_index(["item", "estimator"])
    assert table.loc[(0, "naive"), "random_rate"] == 0.5
    assert table.loc[(0, "naive"), "estimate"] == pytest.approx(2 / 3)
    assert table.loc[(0, "ips"), "estimate"] == pytest.approx((1 / 0.5 + 1 / 0.8) / 4)
    assert table.loc[(0, "snips"), "estimate"] == pytest.approx((2 + 1.25) / (2 + 1.25 + 1.25))
    # The uniform policy of two items: weights 1/(2p).
    assert table.loc[(-1, "ips"), "estimate"] == pytest.approx((2 + 1.25 + 4) / 8)
    assert table.loc[(-1, "snips"), "estimate"] == pytest.approx((2 + 1.25 + 4) / (2 + 2.5 + 4))
    assert table.loc[(1, "naive"), ["n_random", "n_bts", "clicks_random", "clicks_bts"]].tolist() == [
        2,
        1,
        0,
        1,
    ]
    assert (frame["ci_low"] <= frame["estimate"]).all()
    assert (frame["estimate"] <= frame["ci_high"]).all()


def test_an_item_that_the_policy_never_showed_has_no_rate_of_its_own():
    random = log([0, 1], [0, 0], [0.5] * 2, 2)
    bts = log([0, 0], [1, 0], [0.9] * 2, 2)
    table = validate_bandit(BanditStudy("toy", random, bts, CARDS["open-bandit"])).set_index(
        ["item", "estimator"]
    )
    assert np.isnan(table.loc[(1, "snips"), "estimate"])
    assert np.isnan(table.loc[(1, "naive"), "estimate"])
    assert table.loc[1, "agrees"].isna().to_dict() == {"naive": True, "ips": False, "snips": True}
    assert table.loc[(1, "ips"), "estimate"] == 0.0
    assert table.loc[(1, "ips"), "ci_high"] > 0


def simulated(rng, n_items=8, n=6000):
    """Rates that depend on item and context, and a policy whose propensities depend on the context."""
    rate = rng.gamma(2, 0.003, n_items)
    lift = np.array([0.4, 0.8, 1.2, 1.6])
    logs = []
    for policy in ("random", "bts"):
        context = rng.integers(4, size=n)
        table = np.full((4, n_items), 1 / n_items)
        if policy == "bts":
            table = 0.95 * rng.dirichlet(np.full(n_items, 0.7), 4) + 0.05 / n_items
        p = table[context]
        item = (p.cumsum(1) > rng.random(n)[:, None]).argmax(1)
        click = rng.random(n) < rate[item] * lift[context]
        logs.append(log(item, click, p[np.arange(n), item], n_items))
    return rate, BanditStudy("simulated", *logs, CARDS["open-bandit"])


def coverage(n_runs, seed):
    """Share of item intervals of ips that hold the true rate, and of items that agree with the random log."""
    rng = np.random.default_rng(seed)
    held, agreed = [], []
    for _ in range(n_runs):
        rate, study = simulated(rng)
        frame = validate_bandit(study)
        rows = frame[(frame["item"] >= 0) & (frame["estimator"] == "ips")]
        held.append((rows["ci_low"].to_numpy() <= rate) & (rate <= rows["ci_high"].to_numpy()))
        agreed.append(rows["agrees"].to_numpy())
    return np.mean(held), np.mean(agreed)


def test_item_intervals_hold_the_truth_as_often_as_they_claim_in_a_few_runs():
    held, agreed = coverage(15, seed=0)
    slack = 4 * np.sqrt(0.95 * 0.05 / 120)
    assert held > 0.95 - slack
    assert agreed > 0.95 - slack


@pytest.mark.slow
def test_item_intervals_hold_the_truth_as_often_as_they_claim():
    held, agreed = coverage(400, seed=1)
    slack = 4 * np.sqrt(0.95 * 0.05 / 3200)
    assert held > 0.95 - slack
    assert agreed > 0.95 - slack


def test_the_random_log_of_the_sample_agrees_with_the_estimates_from_the_bandit_log(shared_data):
    for campaign, n_items in (("men", 34), ("women", 46)):
        frame = validate_bandit(load_open_bandit(shared_data("open-bandit"), campaign=campaign))
        for estimator in ("ips", "snips"):
            rows = frame[(frame["estimator"] == estimator) & (frame["item"] >= 0)]
            assert len(rows) == n_items
            assert rows["agrees"].mean() >= 0.95
