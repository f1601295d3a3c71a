"""The demonstration shows what it says: which estimator is nearest to a known truth."""

from __future__ import annotations

import pytest

from ipseval.demo import run_demo


@pytest.fixture(scope="module")
def demo():
    return run_demo()


def test_weighted_estimates_are_far_nearer_to_the_truth_than_the_plain_average(demo):
    errors = demo.errors()
    assert (errors["snips-global"] < 0.1 * errors["aoa"]).all()
    assert (errors["snips-pooled"] < 0.1 * errors["aoa-pooled"]).all()
    assert (errors["ips"] < 0.1 * errors["aoa"]).all()
    assert (errors["snips"] > 0.3 * errors["aoa"]).all()


def test_the_same_seed_gives_the_same_table(demo):
    assert run_demo().table.equals(demo.table)
    assert not run_demo(rng=1).table.equals(demo.table)
